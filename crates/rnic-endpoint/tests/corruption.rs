//! A network that flips bits of packets: a device detects every packet that differs in one bit from a packet of its
//! peer, except for the byte that switches may change.

use crate::common::ends::{End, connect, ends};
use rnic_endpoint::port::Meta;
use rnic_endpoint::{Config, Congestion, Counters, Identification, Security, SendOp, Service};
use rnic_verbs::Status;

/// Lengths of the messages in bytes. Each is one packet.
const LENGTHS: [usize; 3] = [1, 64, 1_024];
/// The byte of the BTH that the ICRC leaves out: FECN, BECN and six reserved bits.
const VARIANT: usize = 4;

/// Two connected devices, and a message of `len` bytes from the first to the second.
struct Wire {
    ends: [End; 2],
    len: usize,
}

impl Wire {
    fn new(service: Service, security: Security, identification: Identification, len: usize) -> Wire {
        let mut config = Config { security, identification, ..Config::default() };
        // It responds to marks, so that a mark that no switch has set would be detected.
        config.verbs.congestion = Congestion::named("dcqcn").unwrap();
        let ends = ends([config.clone(), config], service, len);
        connect(&ends);
        Wire { ends, len }
    }

    /// Writes the memory of the first device to the second, and returns the packet, which the second has not received.
    fn send(&self) -> (Meta, Vec<u8>) {
        let [a, b] = &self.ends;
        b.region.write(0, &vec![0; self.len]).unwrap();
        let op = SendOp::Write { addr: b.region.addr(), rkey: b.region.rkey() };
        b.tap.lock().unwrap().holds = true;
        a.qp.post(1, op, &[a.region.slice(0, self.len).unwrap()]).unwrap();
        a.device.progress().unwrap();
        b.device.progress().unwrap();
        let mut tap = b.tap.lock().unwrap();
        tap.holds = false;
        let [packet] = std::mem::take(&mut tap.seen).try_into().unwrap();
        packet
    }

    /// The second device receives a packet, and sends what it responds; returns its counters.
    fn receive(&self, meta: Meta, bytes: &[u8]) -> Counters {
        let b = &self.ends[1];
        b.tap.lock().unwrap().inject.push_back((meta, bytes.to_vec()));
        while b.device.progress().unwrap() {}
        b.device.counters()
    }

    #[track_caller]
    fn memory_is(&self, byte: u8, what: &str) {
        self.ends[1].region.with(|bytes| assert!(bytes.iter().all(|found| *found == byte), "{what}: {bytes:?}"));
    }

    /// The message has arrived, once, and its sender knows.
    #[track_caller]
    fn is_complete(&self, what: &str) {
        let [a, b] = &self.ends;
        let completion = a.cq.poll_one().unwrap().unwrap_or_else(|| panic!("{what}: {:?}", b.device.counters()));
        assert_eq!(completion.status, Status::Success, "{what}");
        assert_eq!(a.cq.poll_one().unwrap(), None, "{what}");
        self.memory_is(7, what);
        let counters = [a, b].map(|end| end.device.counters().verbs);
        assert_eq!(counters.each_ref().map(|counters| counters.duplicates), [0, 0], "{what}");
        assert_eq!(counters.each_ref().map(|counters| counters.retransmitted), [0, 0], "{what}");
    }

    /// Flips every bit of a packet in turn. The device drops each of these packets and counts it: `counted` returns the
    /// expected changes of `bad_icrc` and `forged` for the byte with this index, or `None` for a byte not to change.
    #[track_caller]
    fn flip_all(&self, counted: impl Fn(usize, u8) -> Option<(u64, u64)>, what: &str) {
        let (meta, packet) = self.send();
        let mut expected = self.ends[1].device.counters();
        for at in 0..packet.len() {
            for bit in 0..8 {
                let Some((bad_icrc, forged)) = counted(at, bit) else { continue };
                let mut bytes = packet.clone();
                bytes[at] ^= 1 << bit;
                expected.driver.bad_icrc += bad_icrc;
                expected.driver.forged += forged;
                let counters = self.receive(meta, &bytes);
                assert_eq!(counters.driver, expected.driver, "{what}: bit {bit} of byte {at} of {}", packet.len());
                assert_eq!(counters.verbs, expected.verbs, "{what}: bit {bit} of byte {at} of {}", packet.len());
            }
        }
        self.memory_is(0, what);
        self.receive(meta, &packet);
        self.is_complete(what);
    }
}

/// The ICRC shows every flipped bit, whichever identifications the device accepts.
#[test]
fn every_flipped_bit_of_a_plain_packet_is_noticed() {
    for service in [Service::Rc, Service::Irn] {
        for identification in [Identification::Any, Identification::Small, Identification::Excluded] {
            for len in LENGTHS {
                let wire = Wire::new(service, Security::None, identification, len);
                let counted = |at, _| (at != VARIANT).then_some((1, 0));
                wire.flip_all(counted, &format!("{service:?} {identification:?} {len} B"));
            }
        }
    }
}

/// Switches may change FECN, BECN and the reserved bits, so the ICRC leaves them out. In a request these bits have no
/// meaning: congestion marks are in the IP header, and BECN is used in ACKs and CNPs only.
#[test]
fn bits_that_switches_may_change_are_accepted_and_harmless() {
    for service in [Service::Rc, Service::Irn] {
        for bit in 0..8 {
            let what = format!("{service:?} bit {bit}");
            let wire = Wire::new(service, Security::None, Identification::Excluded, 64);
            let (meta, mut bytes) = wire.send();
            bytes[VARIANT] ^= 1 << bit;
            let counters = wire.receive(meta, &bytes);
            assert_eq!(counters.driver.bad_icrc, 0, "{what}");
            assert_eq!((counters.verbs.marked, counters.verbs.cnps_sent), (0, 0), "{what}");
            wire.is_complete(&what);
            let seen = std::mem::take(&mut wire.ends[0].tap.lock().unwrap().seen);
            let [(_, ack)] = &seen[..] else { panic!("{what}: {} packets", seen.len()) };
            assert_eq!(ack[VARIANT], 0, "{what}: the ACK has no BECN");
        }
    }
}

/// The tag covers every bit, so that a packet with a flipped bit counts as forged. The first byte distinguishes
/// protected packets from plain packets: its lowest bit says whether the packet is encrypted, and a flip of any other
/// bit makes a plain packet with a wrong ICRC.
#[test]
fn every_flipped_bit_of_a_protected_packet_is_noticed() {
    for security in [Security::Authenticated, Security::Encrypted] {
        for len in LENGTHS {
            let wire = Wire::new(Service::Rc, security, Identification::Excluded, len);
            let counted = |at, bit| Some(if at == 0 && bit > 0 { (1, 0) } else { (0, 1) });
            wire.flip_all(counted, &format!("{security:?} {len} B"));
        }
    }
}
