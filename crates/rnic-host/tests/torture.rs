//! The torture test of the channels: random operations over a network that loses, duplicates, reorders and corrupts
//! packets, while queue pairs die.

use crate::wire::Wire;
use crate::world::{End, Report, Rules, World};
use rnic_host::multipath::{self, Builtin, Credit, Grants, PathPolicy};
use rnic_host::{Control, Failure, Frames, HostError, Link, rogue};
use rnic_torture::network::{Dice, Faults};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Completion, MrInfo, RecvRequest, SendRequest, Service, Sge, Transition, Verbs};

impl End for rogue::Channel {
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        rogue::Channel::post_send(self, request)
    }
    fn post_recv(
        &mut self, nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError> {
        let scatter = [Sge { addr: region.addr + offset, len, lkey: region.lkey }];
        rogue::Channel::post_recv(self, nic, &RecvRequest { wr_id, scatter: &scatter })
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        rogue::Channel::progress(self, nic, now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        rogue::Channel::poll(self, out)
    }
    fn next_time(&self) -> Option<Time> {
        rogue::Channel::next_time(self)
    }
    fn failure(&self) -> Option<Failure> {
        rogue::Channel::failure(self)
    }
    fn harm(&mut self, nic: &mut dyn Verbs, _dice: &mut Dice) {
        nic.modify_qp(self.primary(), Transition::Error).unwrap();
    }
    fn troubles(&self) -> (u64, u64) {
        (self.counters().recoveries, self.counters().replayed)
    }
}

/// A multipath channel, and the credit that it grants.
struct Multipath {
    channel: multipath::Channel,
    grants: Option<Grants>,
}

impl End for Multipath {
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        self.channel.post_send(request)
    }
    fn post_recv(
        &mut self, _nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError> {
        self.channel.post_recv(wr_id, region, offset, len)
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        self.channel.progress(nic, now)?;
        match &mut self.grants {
            Some(grants) => grants.run(nic, now, &mut [&mut self.channel]),
            None => Ok(()),
        }
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        self.channel.poll(out)
    }
    fn next_time(&self) -> Option<Time> {
        let credit = self.grants.as_ref().and_then(|grants| grants.next_time(&[&self.channel]));
        [self.channel.next_time(), credit].into_iter().flatten().min()
    }
    fn failure(&self) -> Option<Failure> {
        self.channel.failure()
    }
    fn harm(&mut self, nic: &mut dyn Verbs, dice: &mut Dice) {
        let address = self.channel.address();
        let qpns = [address.outbound, address.inbound].concat();
        nic.modify_qp(dice.pick(&qpns), Transition::Error).unwrap();
    }
    fn troubles(&self) -> (u64, u64) {
        let counters = self.channel.counters();
        assert_eq!(counters.duplicates, 0, "the loss detection is exact");
        (counters.resets, counters.retransmitted)
    }
}

fn rogue(seed: u64, steps: u64, atomics: bool) -> Report {
    rogue_over(seed, steps, atomics, &[Service::Rc, Service::Rc, Service::Irn])
}

fn rogue_over(seed: u64, steps: u64, atomics: bool, services: &[Service]) -> Report {
    let mut dice = Dice::new(seed);
    let faults = Faults::random(&mut dice);
    let mut wire = Wire::new(faults, seed, BitRate::from_gbps(dice.pick(&[1, 10, 100])));
    let service = dice.pick(services);
    let control = Control::named(dice.pick(&["rogue", "rogue", "none", "timely", "aimd", "dctcp"]), &[]).unwrap();
    // Over UC every loss and every packet out of order costs a whole part, so parts must be short to arrive at all.
    let (chunks, mtus): (&[u32], &[u32]) = match service {
        Service::Uc => (&[4_096], &[1_024, 4_096]),
        _ => (&[4_096, 8_192, 65_536], &[256, 1_024, 4_096]),
    };
    let mtu = dice.pick(mtus);
    let config = rogue::Config {
        service,
        chunk: dice.pick(chunks),
        control,
        send_wr: dice.pick(&[4, 16, 256]),
        receives: 16,
        timeout: if mtu == 4_096 { 11 } else { dice.within(9, 10) as u8 },
        retry_count: dice.within(1, 4) as u8,
        max_rd_atomic: dice.within(1, 8) as u8,
        max_recoveries: 1_000,
        ..rogue::Config::default()
    };
    let mut ends = [0, 1].map(|side| {
        let config = rogue::Config { seed: dice.word(), ..config.clone() };
        let pd = wire.pds[side];
        rogue::Channel::open(wire.nic(side), pd, config).unwrap()
    });
    let addresses = [ends[0].address(), ends[1].address()];
    for side in 0..2 {
        let link = Link::new(Wire::addr(1 - side), mtu);
        ends[side].connect(wire.nic(side), link, addresses[1 - side], Time::ZERO).unwrap();
    }
    let is_reliable = service != Service::Uc;
    let rules = Rules { reads: is_reliable, sends: is_reliable, atomics, fences: service == Service::Irn };
    World::new(wire, ends, dice, rules).run(steps).unwrap_or_else(|what| panic!("seed {seed}: {what}"))
}

#[test]
fn rogue_channels_equal_the_model() {
    let sum = (1..=40).map(|seed| rogue(seed, 400, false)).fold(Report::default(), Report::plus);
    assert!(sum.posted >= 40 * 400 && (sum.failed, sum.ended) == (0, 0), "{sum:?}");
    assert_eq!(sum.completed, sum.posted + 80, "and the last operation of each direction: {sum:?}");
    let troubles = [sum.lost, sum.recoveries, sum.replayed, sum.received];
    assert!(troubles.iter().all(|count| *count > 300), "{sum:?}");
}

#[test]
fn rogue_channels_with_atomics_end_or_equal_the_model() {
    let sum = (1..=40).map(|seed| rogue(seed, 200, true)).fold(Report::default(), Report::plus);
    assert!(sum.ended > 5 && sum.ended < 35 && sum.failed > 20 && sum.recoveries > 30, "{sum:?}");
}

#[test]
fn rogue_channels_over_uc_equal_the_model() {
    let uc = |seed, steps| rogue_over(seed, steps, false, &[Service::Uc]);
    let sum = (1..=40).map(|seed| uc(seed, 400)).fold(Report::default(), Report::plus);
    assert!(sum.posted >= 40 * 400 && (sum.failed, sum.ended) == (0, 0), "{sum:?}");
    assert_eq!(sum.completed, sum.posted + 80, "and the last operation of each direction: {sum:?}");
    let troubles = [sum.lost, sum.recoveries, sum.replayed, sum.received];
    assert!(troubles.iter().all(|count| *count > 300), "{sum:?}");
    for seed in [3, 4] {
        assert_eq!(uc(seed, 300), uc(seed, 300));
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [3, 4] {
        assert_eq!(rogue(seed, 300, false), rogue(seed, 300, false));
    }
    assert_ne!(rogue(3, 300, false).digest, rogue(4, 300, false).digest);
}

/// A world of a multipath channel. With `spread` all paths share a queue pair, and the network keeps the order of
/// packets, because the loss detection is exact only if packets stay in order.
fn multipath(seed: u64, steps: u64, spread: bool) -> Report {
    let mut dice = Dice::new(seed);
    let mut faults = Faults::random(&mut dice);
    if spread {
        (faults.reorder, faults.duplicate) = (0, 0);
    }
    let line_rate = BitRate::from_gbps(dice.pick(&[1, 10, 100]));
    let mut wire = Wire::new(faults, seed, line_rate);
    let control = Control::named(dice.pick(&["rogue", "none", "timely", "aimd", "dctcp"]), &[]).unwrap();
    let unsolicited = dice.pick(&[0, 4_096, 100_000]);
    let credit = dice.chance(400).then_some(Credit { unsolicited });
    let mtu = dice.pick(&[256, 1_024, 4_096]);
    let config = multipath::Config {
        paths: dice.pick(&[1, 2, 3, 8, 64]),
        chunk: dice.pick(&[mtu, 4 * mtu]),
        control,
        credit,
        receives: 8,
        spread,
        ecn: spread,
        send_wr: dice.pick(&[4, 64]),
        recv_wr: dice.pick(&[4, 64]),
        timeout: Time::from_us(dice.within(50, 500)),
        path_probes: dice.within(1, 4) as u32,
        max_attempts: 10_000,
        ..multipath::Config::default()
    };
    let policy = dice.pick(&[PathPolicy::PowerOfTwo, PathPolicy::RoundRobin, PathPolicy::Single]);
    let mut ends = [0, 1].map(|side| {
        let config = multipath::Config { seed: dice.word(), connection: side as u8, ..config.clone() };
        let pd = wire.pds[side];
        let hooks = Box::new(Builtin::new(policy));
        let channel = multipath::Channel::open(wire.nic(side), pd, config.clone(), hooks).unwrap();
        let frames = Frames { mtu, header: 62 };
        let grants = credit.map(|_| Grants::new(line_rate, config.chunk, frames).unwrap());
        Multipath { channel, grants }
    });
    let addresses = [ends[0].channel.address(), ends[1].channel.address()];
    for side in 0..2 {
        let link = Link::new(Wire::addr(1 - side), mtu);
        ends[side].channel.connect(wire.nic(side), link, &addresses[1 - side], Time::ZERO).unwrap();
    }
    let rules = Rules { reads: false, sends: true, atomics: false, fences: true };
    World::new(wire, ends, dice, rules).run(steps).unwrap_or_else(|what| panic!("seed {seed}: {what}"))
}

#[test]
fn multipath_channels_equal_the_model() {
    let sum = (1..=40).map(|seed| multipath(seed, 400, false)).fold(Report::default(), Report::plus);
    assert!(sum.posted >= 40 * 400 && (sum.failed, sum.ended) == (0, 0), "{sum:?}");
    assert_eq!(sum.completed, sum.posted + 80, "and the last operation of each direction: {sum:?}");
    let troubles = [sum.lost, sum.recoveries, sum.replayed, sum.received];
    assert!(troubles.iter().all(|count| *count > 300), "{sum:?}");
    for seed in [3, 4] {
        assert_eq!(multipath(seed, 300, false), multipath(seed, 300, false));
    }
}

#[test]
fn channels_with_one_queue_pair_for_all_paths_equal_the_model() {
    let sum = (1..=20).map(|seed| multipath(seed, 300, true)).fold(Report::default(), Report::plus);
    assert!(sum.posted >= 20 * 300 && (sum.failed, sum.ended) == (0, 0), "{sum:?}");
    assert!([sum.lost, sum.replayed, sum.received].iter().all(|count| *count > 100), "{sum:?}");
}

/// A regression test: an acknowledgement for an earlier chunk once stopped the repetition of a path's reset.
#[test]
fn what_was_wrong_once() {
    assert_eq!(multipath(1_037, 300, false).ended, 0);
}
