//! RoGUE channels over two devices: chunks, signals, round-trip times, rates.

use crate::wire::{MTU, Wire};
use rnic_host::rogue::{Channel, Config};
use rnic_host::{Control, Link};
use rnic_torture::network::{Faults, Network};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Completion, Data, MrInfo, RecvRequest, SendFlags, SendOp, SendRequest, Service, Sge, Status};

/// Two connected channels.
pub(crate) struct Pair {
    pub(crate) wire: Wire,
    pub(crate) ends: [Channel; 2],
    pub(crate) memory: [MrInfo; 2],
    /// Completions of each end so far.
    pub(crate) found: [Vec<Completion>; 2],
}

impl Pair {
    pub(crate) fn new(mut wire: Wire, bytes: usize, config: &Config) -> Pair {
        let memory = [0, 1].map(|side| wire.register(side, vec![side as u8; bytes]));
        let mut ends = [0, 1].map(|side| {
            let config = Config { seed: 7 + side as u64, ..config.clone() };
            let pd = wire.pds[side];
            Channel::open(wire.nic(side), pd, config).unwrap()
        });
        let addresses = [ends[0].address(), ends[1].address()];
        for side in 0..2 {
            let link = Link::new(Wire::addr(1 - side), MTU);
            let now = wire.now;
            ends[side].connect(wire.nic(side), link, addresses[1 - side], now).unwrap();
        }
        Pair { wire, ends, memory, found: [Vec::new(), Vec::new()] }
    }

    pub(crate) fn progress(&mut self) {
        let mut completions = [Completion::BLANK; 8];
        for side in 0..2 {
            self.ends[side].progress(&mut self.wire.nics[side], self.wire.now).unwrap();
            loop {
                let count = self.ends[side].poll(&mut completions);
                self.found[side].extend(&completions[..count]);
                if count == 0 {
                    break;
                }
            }
        }
    }

    /// Lets time pass until `done`, at most until `limit`. Returns whether it is done.
    pub(crate) fn run(&mut self, limit: Time, mut done: impl FnMut(&Pair) -> bool) -> bool {
        loop {
            self.progress();
            if done(self) {
                return true;
            }
            let next = self.ends.iter().filter_map(Channel::next_time).chain([limit]).min();
            if self.wire.now >= limit || !self.wire.advance(next) {
                return false;
            }
        }
    }

    pub(crate) fn sge(&self, side: usize, offset: u64, len: u64) -> [Sge; 1] {
        let region = &self.memory[side];
        [Sge { addr: region.addr + offset, len: len as u32, lkey: region.lkey }]
    }

    pub(crate) fn post(&mut self, side: usize, wr_id: u64, op: SendOp, offset: u64, len: u64, signaled: bool) {
        let sges = self.sge(side, offset, len);
        let flags = SendFlags { signaled, ..SendFlags::default() };
        self.ends[side].post_send(&SendRequest { wr_id, op, data: Data::Gather(&sges), flags }).unwrap();
    }

    pub(crate) fn receive(&mut self, side: usize, wr_id: u64, offset: u64, len: u64) {
        let sges = self.sge(side, offset, len);
        self.ends[side].post_recv(&mut self.wire.nics[side], &RecvRequest { wr_id, scatter: &sges }).unwrap();
    }

    pub(crate) fn write(&self, offset: u64) -> SendOp {
        SendOp::Write { addr: self.memory[1].addr + offset, rkey: self.memory[1].rkey }
    }

    pub(crate) fn ids(&self, side: usize) -> Vec<(u64, Status)> {
        self.found[side].iter().map(|completion| (completion.wr_id, completion.status)).collect()
    }
}

fn control(name: &str) -> Config {
    Config { control: Control::named(name, &[]).unwrap(), ..Config::default() }
}

/// Posts a request of 200,000 bytes, waits for its completion, and posts 133 unsignalled requests of 1,000 bytes.
fn post_long_and_short_requests(pair: &mut Pair) {
    // 200,000 bytes are three chunks of 65,536 bytes and 3,392 bytes, all but the last one signalled for their length
    // and the last one because the request is.
    pair.post(0, 1, pair.write(0), 0, 200_000, true);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    let counters = pair.ends[0].counters();
    assert_eq!((counters.parts, counters.signaled, counters.samples), (4, 4, 4));
    // The short requests are signalled at 66 and 132 requests.
    for id in 0..133 {
        pair.post(0, id, pair.write(id * 1_000), id * 1_000, 1_000, false);
    }
}

#[test]
fn long_requests_are_chunked_and_short_ones_signalled_once_per_chunk() {
    let mut pair = Pair::new(Wire::perfect(), 400_000, &control("none"));
    post_long_and_short_requests(&mut pair);
    assert!(!pair.run(Time::from_ms(20), |_| false));
    let counters = pair.ends[0].counters();
    assert_eq!((counters.parts, counters.signaled, counters.samples), (4 + 133, 4 + 2, 4 + 2));
    assert_eq!(pair.ids(0), [(1, Status::Success)], "unsignalled requests complete silently");
    assert_eq!(pair.wire.nics[1].bytes(pair.memory[1].id).unwrap()[..200_000], [0; 200_000]);
    assert_eq!(pair.wire.nics[1].bytes(pair.memory[1].id).unwrap()[200_000..], [1; 200_000]);
}

#[test]
fn reads_are_chunked_too_and_every_operation_arrives() {
    let mut pair = Pair::new(Wire::perfect(), 400_000, &control("timely"));
    pair.wire.nics[1].bytes_mut(pair.memory[1].id).unwrap()[..150_000].fill(9);
    let (addr, rkey) = (pair.memory[1].addr, pair.memory[1].rkey);
    for id in 0..2 {
        pair.receive(1, 100 + id, 300_000 + id * 100, 100);
    }
    pair.post(0, 1, SendOp::Read { addr, rkey }, 0, 150_000, true);
    pair.post(0, 2, SendOp::SendImm(77), 200_000, 60, true);
    pair.post(0, 3, SendOp::WriteImm { addr, rkey, imm: 78 }, 200_000, 140_000, true);
    pair.post(0, 4, SendOp::FetchAdd { addr: addr + 200_000, rkey, add: 3 }, 399_992, 8, true);
    assert!(pair.run(Time::from_ms(100), |pair| pair.found[0].len() == 4));
    assert_eq!(pair.ids(0), [1, 2, 3, 4].map(|id| (id, Status::Success)));
    assert_eq!(pair.ends[0].counters().parts, 3 + 1 + 3 + 1);
    let received: Vec<_> = pair.found[1].iter().map(|c| (c.wr_id, c.byte_len, c.imm)).collect();
    assert_eq!(received, [(100, 60, Some(77)), (101, 0, Some(78))]);
    assert_eq!(pair.wire.nics[0].bytes(pair.memory[0].id).unwrap()[..150_000], [9; 150_000]);
    let sum = &pair.wire.nics[1].bytes(pair.memory[1].id).unwrap()[200_000..200_008];
    assert_eq!(sum, (u64::from_ne_bytes([1; 8]) + 3).to_ne_bytes());
}

/// The network of the test delays packets by 5 us in each direction. So the round-trip time of every chunk is 10 us
/// plus the transmission time of an ACK, however many chunks wait in the NIC: the formula excludes the time that the
/// rate limit causes.
#[test]
fn the_round_trip_time_leaves_out_the_time_in_the_nic() {
    let aimd =
        Control::named("timely", &[("min_rate", BitRate::from_gbps(1).into()), ("t_low", Time::from_us(1).into())]);
    let config = Config { control: aimd.unwrap(), base_rtt: Network::DELAY * 2, ..Config::default() };
    let wire = Wire::new(Faults::NONE, 1, BitRate::from_gbps(1));
    let mut pair = Pair::new(wire, 400_000, &config);
    pair.wire.nics[0].set_rate(pair.ends[0].primary(), Some(BitRate::from_gbps(1))).unwrap();
    pair.post(0, 1, pair.write(0), 0, 400_000, true);
    assert!(pair.run(Time::from_ms(10), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ends[0].counters().samples, 7);
    // The first packet of a chunk has a RETH of 16 bytes, which the computed length leaves out; an ACK has 20 + 46
    // bytes.
    let reth = BitRate::from_gbps(1).time_for(16);
    let ack = BitRate::from_gbps(1).time_for(20 + 46);
    let rtt = pair.ends[0].rtt().unwrap();
    assert!(rtt >= Network::DELAY * 2 + ack && rtt <= Network::DELAY * 2 + ack + reth * 7, "{rtt}");
}

/// The rate that the congestion control computes from the completions reaches the NIC, and the NIC does not exceed it.
#[test]
fn the_rate_limit_of_the_nic_follows_the_congestion_control() {
    let wire = Wire::new(Faults::NONE, 1, BitRate::from_gbps(10));
    // With these thresholds each round-trip time of 10 us is congestion, so the window shrinks at once.
    let values = [("t_high", Time::from_us(1).into()), ("min_rate", BitRate::from_gbps(2).into())];
    let config = Config { control: Control::named("rogue", &values).unwrap(), ..Config::default() };
    let mut pair = Pair::new(wire, 4_000_000, &config);
    pair.post(0, 1, pair.write(0), 0, 4_000_000, true);
    assert!(pair.run(Time::from_ms(50), |pair| !pair.found[0].is_empty()));
    let rate = pair.wire.nics[0].query_qp(pair.ends[0].primary()).unwrap().rate;
    let allowed = pair.ends[0].allowance().unwrap();
    assert_eq!(allowed.window, Some(1 << 16), "the window is below a chunk: only the rate limits");
    let (set, asked) = (rate.unwrap().as_bps(), allowed.rate.unwrap().as_bps());
    assert!(set.abs_diff(asked) <= set / 64, "{set} {asked}");
    assert!(asked < 2_100_000_000 && pair.ends[0].counters().rate_changes > 3, "{asked}");
    // 4 MB at 2 Gbps take 16 ms, at 10 Gbps 3.2 ms.
    assert!(pair.wire.now > Time::from_ms(10), "{}", pair.wire.now);
}

/// Over UC the peer's layer acknowledges where the NIC acknowledges over RC.
#[test]
fn over_uc_the_layer_acknowledges_once_per_chunk() {
    let config = Config { service: Service::Uc, ..control("none") };
    let mut pair = Pair::new(Wire::perfect(), 400_000, &config);
    post_long_and_short_requests(&mut pair);
    // The last two parts do not ask for an acknowledgement. A probe finds out that they have arrived.
    assert!(!pair.run(Time::from_ms(100), |_| false));
    let counters = pair.ends[0].counters();
    assert_eq!((counters.parts, counters.signaled, counters.samples), (4 + 133, 4 + 2, 4 + 2));
    assert_eq!((counters.recoveries, pair.ids(0)), (0, vec![(1, Status::Success)]));
    assert_eq!(pair.wire.nics[1].bytes(pair.memory[1].id).unwrap()[..200_000], [0; 200_000]);
}

/// If the peer has fewer receives than messages arrive, the messages wait at the peer, and are lost neither by timeouts
/// nor by probes.
#[test]
fn over_uc_messages_wait_for_receives() {
    let config = Config { service: Service::Uc, receives: 512, ..control("none") };
    let mut pair = Pair::new(Wire::perfect(), 400_000, &config);
    let (addr, rkey) = (pair.memory[1].addr, pair.memory[1].rkey);
    let imm = |id: u64| (id as u32).wrapping_mul(0x9e37_79b9);
    for id in 0..600 {
        pair.post(0, id, SendOp::WriteImm { addr: addr + id * 8, rkey, imm: imm(id) }, id * 8, 8, true);
    }
    assert!(!pair.run(Time::from_ms(50), |_| false));
    assert!(pair.found[0].is_empty() && pair.found[1].is_empty());
    for id in 0..600 {
        pair.receive(1, 1_000 + id, 0, 0);
        let until = pair.wire.now + Time::from_us(100);
        pair.run(until, |_| false);
    }
    assert!(pair.run(Time::from_ms(200), |pair| pair.found[0].len() == 600));
    let received: Vec<_> = pair.found[1].iter().map(|c| (c.wr_id, c.imm)).collect();
    assert_eq!(received, (0..600).map(|id| (1_000 + id, Some(imm(id)))).collect::<Vec<_>>());
    assert_eq!(pair.ends.each_ref().map(|end| end.counters().recoveries), [0, 0]);
}

/// The peer's response in a recovery is lost, while the requester already sends parts through the shadow, and the peer
/// accepts them. The peer's next message contains an old count, and gets another response.
#[test]
fn over_uc_a_lost_answer_is_repeated() {
    let config = Config { service: Service::Uc, ..control("none") };
    let mut pair = Pair::new(Wire::perfect(), 400_000, &config);
    let primary = pair.ends[1].primary().0;
    // The 70th packet to the responder's primary is lost, and so is the first message of the requester's layer.
    let control = pair.ends[1].address().control.0;
    let (mut packets, mut notes) = (0, 0);
    pair.wire.filter = Box::new(move |from, qpn| {
        packets += u32::from(from == 0 && qpn == primary);
        notes += u32::from(from == 0 && qpn == control);
        !(from == 0 && (qpn == primary && packets == 70 || qpn == control && notes == 1))
    });
    pair.post(0, 1, pair.write(0), 0, 200_000, true);
    assert!(pair.run(Time::from_ms(50), |pair| !pair.found[0].is_empty()));
    assert_eq!(pair.ids(0), [(1, Status::Success)]);
    let end = pair.wire.now + Time::from_ms(20);
    pair.run(end, |_| false);
    // Both sides are at rest in the same epoch, and the next Write needs no recovery.
    pair.post(1, 2, SendOp::Write { addr: pair.memory[0].addr, rkey: pair.memory[0].rkey }, 0, 70_000, true);
    let end = pair.wire.now + Time::from_ms(20);
    assert!(pair.run(end, |pair| !pair.found[1].is_empty()), "the responder does not wait any more");
    assert_eq!(pair.ends.each_ref().map(|end| (end.epoch(), end.counters().recoveries)), [(1, 1); 2]);
}
