//! Multipath channels over two devices: losses, dead paths, hooks, credit.

use crate::wire::{MTU, Wire};
use rnic_host::multipath::{AckView, Builtin, Channel, ChunkView, Config, Credit, Grants, Hooks, PathPolicy, View};
use rnic_host::{Control, Failure, Frames, HostError, Link};
use rnic_torture::network::{Faults, Network};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Completion, Data, MrInfo, SendFlags, SendOp, SendRequest, Sge, Status};
use std::sync::{Arc, Mutex};

struct Pair {
    wire: Wire,
    ends: [Channel; 2],
    grants: Option<Grants>,
    memory: [MrInfo; 2],
    found: [Vec<Completion>; 2],
}

impl Pair {
    fn new(mut wire: Wire, bytes: usize, config: &Config, mut hooks: impl FnMut() -> Box<dyn Hooks>) -> Pair {
        let memory = [0, 1].map(|side| wire.register(side, vec![side as u8; bytes]));
        let mut ends = [0, 1].map(|side| {
            let config = Config { seed: 7 + side as u64, ..config.clone() };
            let pd = wire.pds[side];
            Channel::open(wire.nic(side), pd, config, hooks()).unwrap()
        });
        let addresses = [ends[0].address(), ends[1].address()];
        for side in 0..2 {
            let (link, now) = (Link::new(Wire::addr(1 - side), MTU), wire.now);
            ends[side].connect(wire.nic(side), link, &addresses[1 - side], now).unwrap();
        }
        Pair { wire, ends, grants: None, memory, found: [Vec::new(), Vec::new()] }
    }

    fn with(config: &Config) -> Pair {
        Pair::new(Wire::perfect(), 1_000_000, config, || Box::new(Builtin::new(PathPolicy::RoundRobin)))
    }

    fn run(&mut self, limit: Time, mut done: impl FnMut(&Pair) -> bool) -> bool {
        let mut completions = [Completion::BLANK; 8];
        loop {
            for side in 0..2 {
                self.ends[side].progress(&mut self.wire.nics[side], self.wire.now).unwrap();
                let count = self.ends[side].poll(&mut completions);
                self.found[side].extend(&completions[..count]);
            }
            let [_, receiver] = &mut self.ends;
            let mut credit = None;
            if let Some(grants) = &mut self.grants {
                grants.run(&mut self.wire.nics[1], self.wire.now, &mut [receiver]).unwrap();
                credit = grants.next_time(&[receiver]);
            }
            if done(self) {
                return true;
            }
            let next = self.ends.iter().filter_map(Channel::next_time).chain(credit).chain([limit]).min();
            if self.wire.now >= limit || !self.wire.advance(next) {
                return false;
            }
        }
    }

    fn post(&mut self, wr_id: u64, op: SendOp, len: u64) {
        let region = &self.memory[0];
        let sges = [Sge { addr: region.addr, len: len as u32, lkey: region.lkey }];
        let request = SendRequest { wr_id, op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
        self.ends[0].post_send(&request).unwrap();
    }

    fn write(&self) -> SendOp {
        SendOp::Write { addr: self.memory[1].addr, rkey: self.memory[1].rkey }
    }

    fn ids(&self, side: usize) -> Vec<(u64, Status)> {
        self.found[side].iter().map(|completion| (completion.wr_id, completion.status)).collect()
    }
}

fn config() -> Config {
    Config { paths: 4, control: Control::named("none", &[]).unwrap(), ..Config::default() }
}

#[test]
fn a_message_is_spread_over_all_paths() {
    let mut pair = Pair::with(&config());
    let region = pair.memory[1];
    pair.ends[1].post_recv(100, &region, 0, 500_000).unwrap();
    pair.ends[1].post_recv(101, &region, 0, 0).unwrap();
    pair.post(1, SendOp::SendImm(7), 500_000);
    pair.post(2, SendOp::WriteImm { addr: region.addr + 500_000, rkey: region.rkey, imm: 8 }, 300_000);
    assert!(pair.run(Time::from_ms(10), |pair| pair.found[0].len() == 2));
    assert_eq!(pair.ids(0), [(1, Status::Success), (2, Status::Success)]);
    let received: Vec<_> = pair.found[1].iter().map(|c| (c.wr_id, c.byte_len, c.imm)).collect();
    assert_eq!(received, [(100, 500_000, Some(7)), (101, 300_000, Some(8))]);
    let memory = pair.wire.nics[1].bytes(region.id).unwrap();
    assert!(memory[..800_000].iter().all(|byte| *byte == 0) && memory[800_000..].iter().all(|byte| *byte == 1));
    let counters = pair.ends[0].counters();
    // 16 and 10 chunks, and two records.
    assert_eq!((counters.transmitted, counters.retransmitted, counters.probes), (16 + 1 + 10 + 1, 0, 0));
    assert!(pair.ends[0].paths().iter().all(|path| path.rtt.is_some() && path.is_usable && path.outstanding == 0));
}

/// The network delays packets by 5 us in each direction and has no queue, so the round-trip time is 10 us plus the
/// transmission time of the acknowledgement. The time that a chunk waits behind others in the NIC does not count.
#[test]
fn the_round_trip_time_of_a_path_leaves_out_the_time_in_the_nic() {
    let wire = Wire::new(Faults::NONE, 1, BitRate::from_gbps(10));
    let config = Config { paths: 1, ..config() };
    let mut pair = Pair::new(wire, 1_000_000, &config, || Box::new(Builtin::new(PathPolicy::PowerOfTwo)));
    pair.post(1, pair.write(), 400_000);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    // A note has 128 bytes of payload, 16 bytes of headers and ICRC, and 46 bytes around them. Each of the 13 chunks
    // has 20 bytes of RETH and immediate data, which the computed length leaves out.
    let note = BitRate::from_gbps(10).time_for(128 + 16 + 46);
    let extra = BitRate::from_gbps(10).time_for(20);
    let (rtt, least) = (pair.ends[0].paths()[0].rtt.unwrap(), Network::DELAY * 2 + note);
    assert!(rtt >= least && rtt <= least + extra * 13, "{rtt}");
    assert_eq!(pair.ends[0].counters().samples, 13);
}

/// One packet of a chunk is lost: the next chunk on the same path reveals the loss, and the chunk is retransmitted
/// without a timeout.
#[test]
fn a_later_chunk_on_the_path_shows_the_loss() {
    let mut pair = Pair::with(&config());
    let victim = pair.ends[1].address().inbound[2].0;
    let mut left = 1;
    pair.wire.filter = Box::new(move |_, qpn| {
        let is_lost = qpn == victim && left > 0;
        left -= i32::from(is_lost);
        !is_lost
    });
    pair.post(1, pair.write(), 500_000);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    let counters = pair.ends[0].counters();
    assert_eq!((counters.retransmitted, counters.probes, pair.ends[1].counters().duplicates), (1, 0, 0));
    assert!(pair.wire.now < Time::from_us(200), "{}", pair.wire.now);
}

/// The last chunk is lost: nothing follows it, so a probe finds out.
#[test]
fn a_probe_shows_the_loss_of_the_last_chunk() {
    let mut pair = Pair::with(&Config { paths: 1, ..config() });
    let mut packets = 0;
    pair.wire.filter = Box::new(move |from, _| {
        packets += i32::from(from == 0);
        // The chunk of 1,000 bytes is one packet.
        !(from == 0 && packets == 1)
    });
    pair.post(1, pair.write(), 1_000);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    let counters = pair.ends[0].counters();
    assert_eq!((counters.transmitted, counters.retransmitted, counters.probes), (2, 1, 1));
    // After the timeout of 500 us the probe takes a round trip, and the chunk another one.
    assert!(pair.wire.now > Time::from_us(520) && pair.wire.now < Time::from_us(530), "{}", pair.wire.now);
}

/// The acknowledgement is lost, and the chunk is not: the probe reveals this, and no chunk is retransmitted.
#[test]
fn a_lost_acknowledgement_retransmits_nothing() {
    let mut pair = Pair::with(&Config { paths: 1, ..config() });
    let mut packets = 0;
    pair.wire.filter = Box::new(move |from, _| {
        packets += i32::from(from == 1);
        !(from == 1 && packets == 1)
    });
    pair.post(1, pair.write(), 1_000);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    let counters = pair.ends[0].counters();
    assert_eq!((counters.transmitted, counters.retransmitted, counters.probes), (1, 0, 1));
}

/// A path fails permanently: it is reset, its chunks move to the other paths, and it is not used while it is silent.
#[test]
fn the_chunks_of_a_dead_path_move_to_others() {
    let mut pair = Pair::with(&config());
    let victim = pair.ends[1].address().inbound[1].0;
    pair.wire.filter = Box::new(move |_, qpn| qpn != victim);
    for id in 1..=20 {
        pair.post(id, pair.write(), 900_000);
    }
    assert!(pair.run(Time::from_ms(500), |pair| pair.found[0].len() == 20));
    assert!(pair.ids(0).iter().all(|(_, status)| *status == Status::Success));
    let counters = pair.ends[0].counters();
    assert!(counters.resets >= 1 && counters.retransmitted >= 1 && counters.retransmitted < 200, "{counters:?}");
    assert_eq!(pair.ends[1].counters().duplicates, 0);
    assert!(pair.wire.nics[1].bytes(pair.memory[1].id).unwrap()[..900_000].iter().all(|byte| *byte == 0));
}

/// The data of a chunk whose path was reset cannot arrive any more: the receiver's NIC drops it as a duplicate.
#[test]
fn a_late_copy_of_a_moved_chunk_changes_nothing() {
    let mut pair = Pair::with(&Config { paths: 2, path_probes: 1, ..config() });
    // The first chunk goes to path 1. Its path delivers nothing for 50 ms, and then everything, late.
    let held = Arc::new(Mutex::new(Vec::new()));
    let (victim, kept) = (pair.ends[1].address().inbound[1].0, held.clone());
    pair.wire.keep = Some((victim, kept));
    pair.post(1, pair.write(), 1_000);
    assert!(pair.run(Time::from_ms(20), |pair| !pair.found[0].is_empty()));
    assert!(pair.ends[0].counters().resets > 0);
    // The application gets an error, and uses the memory for something else.
    pair.wire.nics[1].bytes_mut(pair.memory[1].id).unwrap()[..1_000].fill(9);
    pair.wire.keep = None;
    let late = std::mem::take(&mut *held.lock().unwrap());
    assert!(late.len() >= 2, "the chunk, and a probe");
    for packet in late {
        let now = pair.wire.now;
        assert!(pair.wire.nics[1].receive(now, Wire::addr(0), false, &packet).is_err());
    }
    let end = pair.wire.now + Time::from_ms(5);
    pair.run(end, |_| false);
    assert!(pair.wire.nics[1].bytes(pair.memory[1].id).unwrap()[..1_000].iter().all(|byte| *byte == 9));
}

#[test]
fn a_peer_that_is_gone_ends_the_channel_with_errors() {
    let mut pair = Pair::with(&Config { patience: Time::from_ms(100), ..config() });
    let region = pair.memory[0];
    pair.ends[0].post_recv(100, &region, 0, 100).unwrap();
    pair.wire.filter = Box::new(|_, _| false);
    pair.post(1, pair.write(), 100_000);
    pair.post(2, pair.write(), 100_000);
    assert!(pair.run(Time::from_ms(500), |pair| pair.found[0].len() == 3));
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(pair.ids(0), [(1, Status::TransportRetryExceeded), (2, flushed), (100, flushed)]);
    assert_eq!(pair.ends[0].failure(), Some(Failure::PeerSilent(Time::from_ms(100))));
    assert!(pair.wire.now < Time::from_ms(101), "{}", pair.wire.now);
}

#[test]
fn an_outage_of_5_s_is_survived() {
    let mut pair = Pair::with(&config());
    pair.wire.network.partition = Time::from_ms(5_000);
    pair.post(1, pair.write(), 900_000);
    assert!(pair.run(Time::from_ms(6_000), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ids(0), [(1, Status::Success)]);
    assert!(pair.wire.now < Time::from_ms(5_100), "{}", pair.wire.now);
}

/// A Write that the peer's NIC refuses is lost every time: the channel ends after the stated number of transmissions.
#[test]
fn a_chunk_that_is_always_lost_ends_the_channel() {
    let mut pair = Pair::with(&Config { max_attempts: 3, ..config() });
    let op = SendOp::Write { addr: pair.memory[1].addr, rkey: !pair.memory[1].rkey };
    pair.post(1, op, 1_000);
    assert!(pair.run(Time::from_ms(100), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ids(0), [(1, Status::TransportRetryExceeded)]);
    assert_eq!(pair.ends[0].counters().transmitted, 3);
    let end = pair.wire.now + Time::from_ms(1);
    assert!(pair.run(end, |pair| pair.ends[1].failure() == Some(Failure::Peer)));
}

#[test]
fn impossible_requests_are_refused() {
    let mut pair = Pair::with(&config());
    let (addr, rkey) = (pair.memory[1].addr, pair.memory[1].rkey);
    let sges = [Sge { addr: pair.memory[0].addr, len: 8, lkey: pair.memory[0].lkey }];
    let unreliable = "a multipath channel uses unreliable connections, which have Sends and RDMA Writes, but no reads, atomics or Send with Invalidate";
    for op in [SendOp::FetchAdd { addr, rkey, add: 1 }, SendOp::Read { addr, rkey }, SendOp::SendInv(3)] {
        let request = SendRequest { wr_id: 1, op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
        assert_eq!(pair.ends[0].post_send(&request), Err(HostError::Unsupported(unreliable)));
    }
    let region = pair.memory[1];
    let error = pair.ends[1].post_recv(1, &region, 999_000, 1_001).unwrap_err().to_string();
    assert_eq!(
        error,
        "the offset of the receive is 999000; it must be at most the 1000000 bytes of the region minus the length"
    );
    let mut address = pair.ends[1].address();
    address.inbound.pop();
    let pd = pair.wire.pds[0];
    let hooks = Box::new(Builtin::new(PathPolicy::Single));
    let mut other = Channel::open(pair.wire.nic(0), pd, config(), hooks).unwrap();
    let error = other.connect(pair.wire.nic(0), Link::new(Wire::addr(1), MTU), &address, Time::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "the number of paths is 4; it must be 3, as at the peer");
    // A message that is longer than the receive ends the channel.
    pair.ends[1].post_recv(1, &region, 0, 10).unwrap();
    pair.post(1, SendOp::Send, 11);
    assert!(pair.run(Time::from_ms(1), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ids(0), [(1, Status::RemoteInvalidRequest)]);
}

/// With credit, the sender transmits its unsolicited bytes, and then as many bytes as the receiver grants, here at a
/// tenth of the link's rate.
#[test]
fn the_receiver_grants_the_rate() {
    let config = Config { credit: Some(Credit { unsolicited: 65_536 }), ..config() };
    let mut pair = Pair::with(&config);
    let frames = Frames { mtu: MTU, header: 62 };
    pair.grants = Some(Grants::new(BitRate::from_gbps(10), 32_768, frames).unwrap());
    pair.post(1, pair.write(), 900_000);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    // The unsolicited bytes need no credit; the last grant comes before the last chunk.
    let granted = frames.wire(900_000 - 65_536 - 32_768);
    let least = BitRate::from_gbps(10).time_for(granted);
    assert!(pair.wire.now > least && pair.wire.now < least + Time::from_us(60), "{} {least}", pair.wire.now);
}

/// Without a grant nothing but the unsolicited bytes is transmitted.
#[test]
fn without_credit_nothing_is_transmitted() {
    let config = Config { credit: Some(Credit { unsolicited: 65_536 }), ..config() };
    let mut pair = Pair::with(&config);
    pair.post(1, pair.write(), 900_000);
    assert!(!pair.run(Time::from_ms(20), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ends[0].counters().transmitted, 2);
    assert_eq!(pair.ends[1].wanted(), 900_000 - 65_536);
    let now = pair.wire.now;
    pair.ends[1].grant(&mut pair.wire.nics[1], now, 1_000_000).unwrap();
    assert!(pair.run(Time::from_ms(21), |pair| !pair.found[0].is_empty()));
}

/// A grant is lost while no chunk is outstanding, so neither an acknowledgement nor a probe would repeat it: the sender
/// requests the grant until the receiver repeats it. The first requests are lost too.
#[test]
fn a_lost_grant_is_repeated() {
    let config = Config { credit: Some(Credit { unsolicited: 65_536 }), ..config() };
    let mut pair = Pair::with(&config);
    pair.post(1, pair.write(), 900_000);
    assert!(!pair.run(Time::from_ms(1), |pair| !pair.found[0].is_empty()));
    let controls = pair.ends.each_ref().map(|end| end.address().control.0);
    pair.wire.filter = Box::new(move |from, qpn| qpn != controls[1 - from]);
    let now = pair.wire.now;
    pair.ends[1].grant(&mut pair.wire.nics[1], now, 1_000_000).unwrap();
    assert!(!pair.run(Time::from_ms(3), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ends[1].wanted(), 0, "the receiver has granted everything");
    pair.wire.filter = Box::new(|_, _| true);
    assert!(pair.run(Time::from_ms(5), |pair| !pair.found[0].is_empty()), "{:?}", pair.ends[0].counters());
    // The sender asks once in 500 us; then the rest takes less than 100 us.
    assert!(pair.wire.now < Time::from_us(3_600), "{}", pair.wire.now);
    assert_eq!(pair.ends[0].counters().retransmitted, 0);
}

/// Each hook is called, and what it returns counts.
#[test]
fn the_hooks_decide() {
    #[derive(Default)]
    struct Seen {
        transmitted: Vec<(u32, u32)>,
        retransmitted: u32,
        received: u64,
        acked: u64,
        lost: u32,
        credit: u64,
    }
    struct Own(Arc<Mutex<Seen>>, Time);
    impl Hooks for Own {
        fn chunk_size(&mut self, _view: &View<'_>, left: u64) -> u32 {
            // Chunks of 10,000 bytes, and the rest at once.
            if left < 25_000 { u32::MAX } else { 10_000 }
        }
        fn pace(&mut self, _view: &View<'_>, _bytes: u64) -> Time {
            self.1
        }
        fn select_path(&mut self, _view: &View<'_>, chunk: &ChunkView) -> u32 {
            // An index that is too large means the last path.
            if chunk.number == 0 { 99 } else { 1 }
        }
        fn on_transmit(&mut self, view: &View<'_>, chunk: &ChunkView) {
            self.0.lock().unwrap().transmitted.push((chunk.path, chunk.len));
            self.1 = view.now + Time::from_us(30);
        }
        fn on_retransmit(&mut self, _view: &View<'_>, _chunk: &ChunkView) {
            self.0.lock().unwrap().retransmitted += 1;
        }
        fn on_receive(&mut self, _view: &View<'_>, chunk: &ChunkView) {
            self.0.lock().unwrap().received += u64::from(chunk.len);
        }
        fn on_ack(&mut self, _view: &View<'_>, ack: &AckView) {
            let mut seen = self.0.lock().unwrap();
            seen.acked += ack.bytes;
            seen.lost += ack.lost;
        }
        fn on_credit(&mut self, _view: &View<'_>, bytes: u64) {
            self.0.lock().unwrap().credit += bytes;
        }
    }
    let seen = [(); 2].map(|()| Arc::new(Mutex::new(Seen::default())));
    let mut sides = seen.iter().cloned();
    let config = Config { credit: Some(Credit { unsolicited: 40_000 }), ..config() };
    let mut pair = Pair::new(Wire::perfect(), 1_000_000, &config, || Box::new(Own(sides.next().unwrap(), Time::ZERO)));
    let frames = Frames { mtu: MTU, header: 62 };
    pair.grants = Some(Grants::new(BitRate::from_gbps(100), 32_768, frames).unwrap());
    // The first packet on path 1 is lost.
    let victim = pair.ends[1].address().inbound[1].0;
    let mut left = 1;
    pair.wire.filter = Box::new(move |_, qpn| {
        let is_lost = qpn == victim && left > 0;
        left -= i32::from(is_lost);
        !is_lost
    });
    pair.post(1, pair.write(), 60_000);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    let [sender, receiver] = seen.map(|seen| std::mem::take(&mut *seen.lock().unwrap()));
    assert_eq!(sender.transmitted, [(3, 10_000), (1, 10_000), (1, 10_000), (1, 10_000), (1, 20_000)]);
    assert_eq!((sender.retransmitted, sender.lost, sender.acked), (1, 1, 60_000));
    assert_eq!((receiver.received, sender.credit), (60_000, 30_000), "the lost chunk needed credit, too");
    assert!(pair.wire.now > Time::from_us(4 * 30), "{}", pair.wire.now);
}

/// Time in which 20 Writes of 1 MB complete, with these losses (per thousand packets); `None` if the channel ends.
fn time_under(faults: Faults, shrink: bool) -> Option<Time> {
    let wire = Wire::new(faults, 5, BitRate::from_gbps(10));
    let config = Config { paths: 8, shrink, max_attempts: 400, ..Config::default() };
    let mut pair = Pair::new(wire, 1_000_000, &config, || Box::new(Builtin::new(PathPolicy::PowerOfTwo)));
    for message in 0..20 {
        pair.post(message, pair.write(), 1_000_000);
    }
    assert!(pair.run(Time::from_ms(120_000), |pair| pair.found[0].len() == 20), "{faults:?} {shrink}");
    let all_right = pair.found[0].iter().all(|completion| completion.status == Status::Success);
    all_right.then_some(pair.wire.now)
}

/// With short chunks a channel completes under losses with which chunks of 32 packets nearly never arrive, and loses
/// little time: a chunk of 32 packets arrives in 19 % of all cases if 5 % of the packets are lost.
/// `docs/concepts/host-transports.md` has the times, which this test prints.
#[test]
fn shorter_chunks_survive_losses() {
    let late = Time::from_us(50);
    let faults = |loss, corrupt| Faults { loss, corrupt, late, ..Faults::NONE };
    let all = Faults { duplicate: 10, reorder: 10, ..faults(10, 50) };
    let none = time_under(Faults::NONE, true).unwrap();
    println!("no loss: {none}");
    for (name, faults, least) in [("1 %", faults(10, 0), 1), ("2 %", faults(20, 0), 3), ("5 %", faults(50, 0), 20)] {
        let [long, short] = [false, true].map(|shrink| time_under(faults, shrink).unwrap());
        println!("{name} of the packets lost: {long}, with shorter chunks {short}");
        assert!(short * least < long && short < none * 2, "{name}: {long} and {short}");
    }
    let short = time_under(all, true).unwrap();
    println!("1 % lost, reordered and duplicated, 5 % corrupted, with shorter chunks: {short}");
    assert!(short < none * 20, "{short}");
}
