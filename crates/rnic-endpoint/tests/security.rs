//! Tests the protection of packets: devices with different protection refuse to connect, and packets that do not come
//! from the peer are dropped and counted.

use crate::common::ends::{End, connect};
use rnic_endpoint::device::PublicKey;
use rnic_endpoint::port::Meta;
use rnic_endpoint::{Address, Config, PathOptions, Security, SendOp, Service, State};
use rnic_verbs::Dropped;
use std::net::SocketAddr;

const LEN: usize = 3_000;

/// Two devices with these protections, each with a queue pair.
fn ends(security: [Security; 2]) -> [End; 2] {
    crate::common::ends::ends(security.map(|security| Config { security, ..Config::default() }), Service::Rc, LEN)
}

fn connected(security: Security) -> [End; 2] {
    let ends = ends([security; 2]);
    connect(&ends);
    ends
}

fn refusal(end: &End, peer: &Address) -> String {
    let error = end.qp.connect(peer, &PathOptions::default()).unwrap_err();
    assert_eq!(end.qp.state().unwrap(), State::Init);
    error.to_string()
}

/// Writes the memory of `from` to that of `to`.
fn write(from: &End, to: &End) {
    let op = SendOp::Write { addr: to.region.addr(), rkey: to.region.rkey() };
    from.qp.post(1, op, &[from.region.slice(0, LEN).unwrap()]).unwrap();
    for _ in 0..1_000 {
        to.device.progress().unwrap();
        if from.cq.poll_one().unwrap().is_some() {
            return;
        }
    }
    panic!("{:?} {:?}", from.device.counters(), to.device.counters());
}

#[test]
fn both_devices_protect_packets_or_neither_does() {
    for here in Security::ALL {
        for there in Security::ALL {
            let [a, b] = ends([here, there]);
            if (here == Security::None) == (there == Security::None) {
                a.qp.connect(&b.qp.address(), &PathOptions::default()).unwrap();
                b.qp.connect(&a.qp.address(), &PathOptions::default()).unwrap();
                write(&a, &b);
                // If one of the two encrypts, both do.
                let (_, packet) = &b.tap.lock().unwrap().seen[0];
                assert_eq!(packet[0], [0x0a, 0xe0, 0xe1][here.max(there) as usize], "{here:?} {there:?}");
                continue;
            }
            let (here, there) = (here.name(), there.name());
            let expected = format!(
                "this device has the security `{here}` and the peer `{there}`; either both protect packets or neither does"
            );
            assert_eq!(refusal(&a, &b.qp.address()), expected);
        }
    }
}

#[test]
fn a_key_that_is_missing_or_invalid_or_used_is_refused() {
    let [a, b] = ends([Security::Authenticated; 2]);
    let address = b.qp.address();
    let error = refusal(&a, &Address { key: None, ..address });
    assert_eq!(error, "the peer's address has no public key");
    let error = refusal(&a, &Address { key: Some(PublicKey([0; 32])), ..address });
    assert!(error.starts_with("the public key of the peer is invalid"), "{error}");
    // The refusals have changed nothing.
    a.qp.connect(&address, &PathOptions::default()).unwrap();
    b.qp.connect(&a.qp.address(), &PathOptions::default()).unwrap();
    write(&a, &b);
    let error = a.qp.connect(&address, &PathOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "the queue pair is connected");
}

#[test]
fn an_unknown_setting_in_an_address_is_no_address() {
    let [a, _] = ends([Security::Encrypted; 2]);
    let json = serde_json::to_string(&a.qp.address()).unwrap();
    assert!(json.contains("\"security\":\"encrypted\""), "{json}");
    assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), a.qp.address());
    assert!(serde_json::from_str::<Address>(&json.replace("encrypted", "sealed")).is_err());
    let key = format!("{:?}", a.qp.address().key.unwrap());
    assert!(serde_json::from_str::<Address>(&json.replace(&key, &key[1..])).is_err());
    // The address of a version without protection.
    let old = r#"{"addr":"10.0.0.1:4791","qpn":17,"psn":5}"#;
    assert_eq!(serde_json::from_str::<Address>(old).unwrap(), Address::plain("10.0.0.1:4791".parse().unwrap(), 17, 5));
}

/// Each packet of a connection arrives a second time, with one byte changed, without its protection, or protected
/// although the connection is plain.
#[test]
fn packets_that_are_not_the_peers_are_dropped_and_counted() {
    for security in [Security::Authenticated, Security::Encrypted] {
        let [a, b] = connected(security);
        write(&a, &b);
        let seen = b.tap.lock().unwrap().seen.clone();
        assert!(!seen.is_empty());
        let count = seen.len() as u64;
        let before = b.device.counters();
        b.region.with_mut(|bytes| bytes.fill(0));

        let inject = |packets: Vec<(Meta, Vec<u8>)>| {
            b.tap.lock().unwrap().inject.extend(packets);
            while b.device.progress().unwrap() {}
            b.device.counters()
        };
        let after = inject(seen.clone());
        assert_eq!(after.driver.replayed - before.driver.replayed, count);
        assert_eq!(after.driver.forged, before.driver.forged);
        for at in [0, 8, 15, 16, 40] {
            let altered = seen.iter().cloned().map(|(meta, mut bytes)| {
                bytes[at] ^= 1;
                // A new number, otherwise the packet would count as repeated.
                bytes[9] ^= 1;
                (meta, bytes)
            });
            let before = b.device.counters().driver;
            let after = inject(altered.collect()).driver;
            assert_eq!((after.forged - before.forged, after.replayed), (count, before.replayed), "byte {at}");
        }

        // The packets of a plain connection with the addresses of the protected one, and a correct ICRC.
        let plain = seen.iter().map(|(meta, bytes)| {
            let mut bytes = bytes[20..bytes.len() - 12].to_vec();
            if security == Security::Encrypted {
                // A zero-length Write to the queue pair, which needs no memory key.
                bytes = plain_write(b.qp.address().qpn);
            }
            seal_plain(*meta, b.device.local_addr(), &mut bytes);
            (*meta, bytes)
        });
        let before = b.device.counters();
        let after = inject(plain.collect());
        let unprotected = |counters: &rnic_endpoint::Counters| counters.verbs.dropped(Dropped::Unprotected);
        assert_eq!(unprotected(&after) - unprotected(&before), count);
        assert_eq!(after.driver.bad_icrc, before.driver.bad_icrc);
        b.region.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 0), "a dropped packet was executed"));
        b.region.write(0, &[1; LEN]).unwrap();
        write(&a, &b);
        b.region.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
    }
}

#[test]
fn protected_packets_to_a_plain_queue_pair_are_dropped_and_counted() {
    let [a, b] = connected(Security::Authenticated);
    write(&a, &b);
    let protected = b.tap.lock().unwrap().seen[0].clone();
    let [c, d] = connected(Security::None);
    // The header names the plain queue pair, and so does the packet inside.
    let (meta, mut bytes) = protected;
    let qpn = d.qp.address().qpn.to_be_bytes();
    bytes[5..8].copy_from_slice(&qpn[1..]);
    bytes[21..24].copy_from_slice(&qpn[1..]);
    d.tap.lock().unwrap().inject.push_back((meta, bytes));
    while d.device.progress().unwrap() {}
    assert_eq!(d.device.counters().driver.forged, 1);
    assert_eq!(d.device.counters().verbs.packets_received, 0);
    write(&c, &d);
}

/// A zero-length RC Write Only to `qpn`, with room for its ICRC.
fn plain_write(qpn: u32) -> Vec<u8> {
    let mut bytes = vec![0x0a, 0x40, 0xff, 0xff, 0];
    bytes.extend(&qpn.to_be_bytes()[1..]);
    bytes.resize(12 + 16 + 4, 0);
    bytes
}

/// Writes the ICRC of a packet from the sender that `meta` names to `to`.
fn seal_plain(meta: Meta, to: SocketAddr, bytes: &mut [u8]) {
    let [std::net::IpAddr::V4(from), std::net::IpAddr::V4(ip)] = [meta.source.ip(), to.ip()] else { unreachable!() };
    let seed = rnic_wire::IcrcSeed::ipv4(from, ip, meta.source.port(), to.port());
    let end = bytes.len() - 4;
    let icrc = seed.icrc(0, &bytes[..end]);
    bytes[end..].copy_from_slice(&icrc.to_le_bytes());
}

fn reset(a: &End, b: &End) {
    for end in [a, b] {
        end.qp.reset().unwrap();
    }
}

/// All packets of the first connection arrive again at a second connection between the same queue pairs.
#[test]
fn packets_of_the_old_connection_do_nothing_after_a_reset() {
    for security in [Security::Authenticated, Security::Encrypted] {
        let [a, b] = connected(security);
        write(&a, &b);
        let old = b.tap.lock().unwrap().seen.clone();
        reset(&a, &b);
        let arrive = |forged: u64| {
            b.tap.lock().unwrap().inject.extend(old.clone());
            while b.device.progress().unwrap() {}
            let counters = b.device.counters().driver;
            assert_eq!((counters.forged, counters.replayed), (forged, 0));
        };
        b.region.write(0, &[9; LEN]).unwrap();
        // Before the queue pair is connected, it has no keys.
        arrive(old.len() as u64);
        a.qp.connect(&b.qp.address(), &PathOptions::default()).unwrap();
        b.qp.connect(&a.qp.address(), &PathOptions::default()).unwrap();
        arrive(2 * old.len() as u64);
        b.region.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 9)));
        write(&a, &b);
        b.region.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
    }
}
