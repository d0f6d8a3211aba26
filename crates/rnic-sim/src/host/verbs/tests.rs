//! Round-trip times that the channels measure on a simulated fabric, and traces of what channels decide there.

use super::packet::VerbsSegment;
use super::*;
use crate::resolve::resolve;
use crate::{Catalogue, Events};
use rnic_fabric::{Fabric, PartitionPlan};
use rnic_host::trace::{Recorder, Replay, Trace};
use rnic_host::{Control, Failure, Link, rogue};
use rnic_run::FlowSpec;
use rnic_verbs::{Completion, Data, MrInfo, Pd, RecvRequest, SendFlags, SendOp, SendRequest, Sge, Verbs};

/// One chunk of 64 packets crosses a bottleneck of half the rate. The NIC sends it in 56,643 ns, which the formula
/// subtracts. A frame with its gap takes 884.8 ns at 10 Gbps, and twice as long at 5 Gbps. The first has a RETH, so
/// 12.8 ns more, and the last immediate data, 3.2 ns. The last one arrives 900 ns (bus) + 897.6 (first frame) +
/// 1,795.2 + 62 x 1,769.6 + 1,776 (bottleneck) + 888 ns + 3 us (delays) after the request; the ACK of 86 bytes takes
/// 68.8 + 137.6 + 68.8 ns + 3 us. That is 122,247.2 ns, and the timestamp is rounded down to 122,247 ns.
#[test]
fn the_rtt_of_a_chunk_is_the_queue_that_it_has_built() {
    let text = r#"
        [fabric]
        topology = "dumbbell"
        left = 1
        right = 1
        rate = "10 Gbps"
        bottleneck_rate = "5 Gbps"
        delay = "1 us"
        mtu = "1024 B"
        switch = { buffer = "1 MB" }
        [traffic]
        pattern = "incast"
        senders = 1
        total = "65536 B"
        receiver = 1
        [[run]]
        name = "RoGUE"
        transport = "rogue"
        post_cost = "0 ns"
        chunk_cost = "0 ns"
    "#;
    let scenario = rnic_scenario::from_str(text, "test.toml", "".as_ref(), &[], None).unwrap();
    let resolved = resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap();
    let config = resolved.software.as_ref().unwrap().rogue(Control::default(), 1).unwrap();
    let plan = |topology: &rnic_fabric::Topology| PartitionPlan::whole(topology);
    let mut fabric = Fabric::partitioned(resolved.topology.clone(), &resolved.fabric, 1, 1, plan).unwrap();
    let request = FlowSpec::NO_REQUEST;
    let flow = FlowSpec { start: Time::ZERO, src: 0, dst: 1, bytes: 65_536, request, traffic: 0, measured: true };
    let events = Events::ignored();
    let table = FlowTable::new(resolved.host_config, 1_024, &fabric, [flow].into_iter(), None, &events);
    let plan = fabric.plan().clone();
    let mut hosts = VerbsHosts::<rogue::Channel, _>::new(&config, &resolved.network.host_rate, plan, table);
    fabric.run_watched(&mut hosts, &mut (), Time::MAX);
    let channel = &hosts.host(hosts.plan.node(0)).nic.ends[0].channel;
    // At line rate the frames leave at 10 Gbps x 1,086 / 1,106, because of their gaps; the request has 20 bytes of RETH
    // and immediate data besides.
    let left = rnic_transport::BitRate::from_bps(10_000_000_000 * 1_086 / 1_106).time_for(64 * 1_086 + 20);
    assert_eq!(left.as_ps() / 1_000, 56_643);
    assert_eq!(channel.rtt(), Some(Time::from_ps(122_247_000) - left));
}

/// What the host does with a channel.
enum Act {
    Connect(Link, rogue::Address, Time),
    Send(u64, SendOp, Vec<Sge>, SendFlags),
    Receive,
    Progress(Time),
    /// Polls at most this number of completions; the list is what the channel returned.
    Poll(usize, Vec<Completion>),
}

/// A RoGUE channel that records what it is given and what it asks of its NIC.
struct Traced {
    channel: rogue::Channel,
    opened: (Pd, rogue::Config),
    trace: Trace,
    acts: Vec<Act>,
}

impl HostChannel for Traced {
    type Settings = rogue::Config;
    type Address = rogue::Address;
    type Segment = VerbsSegment<32>;

    fn open(nic: &mut dyn Verbs, pd: Pd, settings: &rogue::Config, seed: u64) -> Result<Self, HostError> {
        let (mut trace, config) = (Trace::default(), rogue::Config { seed, ..settings.clone() });
        let channel = rogue::Channel::open(&mut Recorder::new(nic, &mut trace), pd, config.clone())?;
        Ok(Traced { channel, opened: (pd, config), trace, acts: Vec::new() })
    }
    fn address(&self) -> rogue::Address {
        self.channel.address()
    }
    fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &rogue::Address, now: Time) -> Result<(), HostError> {
        self.acts.push(Act::Connect(link, *peer, now));
        self.channel.connect(&mut Recorder::new(nic, &mut self.trace), link, *peer, now)
    }
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        let Data::Gather(sges) = request.data else { return Err(HostError::Unsupported("inline data in this test")) };
        self.acts.push(Act::Send(request.wr_id, request.op, sges.to_vec(), request.flags));
        self.channel.post_send(request)
    }
    fn post_recv(&mut self, nic: &mut dyn Verbs, _region: &MrInfo) -> Result<(), HostError> {
        self.acts.push(Act::Receive);
        self.channel.post_recv(&mut Recorder::new(nic, &mut self.trace), &RecvRequest { wr_id: 0, scatter: &[] })
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        self.acts.push(Act::Progress(now));
        self.channel.progress(&mut Recorder::new(nic, &mut self.trace), now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        let count = self.channel.poll(out);
        self.acts.push(Act::Poll(out.len(), out[..count].to_vec()));
        count
    }
    fn next_time(&self) -> Option<Time> {
        self.channel.next_time()
    }
    fn failure(&self) -> Option<Failure> {
        self.channel.failure()
    }
    fn repeated(&self) -> u64 {
        self.channel.counters().replayed
    }
    fn recoveries(&self) -> u64 {
        self.channel.counters().recoveries
    }
}

impl Traced {
    /// Gives a new channel, without the simulator, what this one was given; it must do the same.
    fn replay(&self) {
        let mut nic = Replay::new(self.trace.clone());
        let mut channel = rogue::Channel::open(&mut nic, self.opened.0, self.opened.1.clone()).unwrap();
        for act in &self.acts {
            match act {
                Act::Connect(link, peer, now) => channel.connect(&mut nic, *link, *peer, *now).unwrap(),
                Act::Send(wr_id, op, sges, flags) => {
                    let (wr_id, op, data, flags) = (*wr_id, *op, Data::Gather(sges), *flags);
                    channel.post_send(&SendRequest { wr_id, op, data, flags }).unwrap();
                }
                Act::Receive => channel.post_recv(&mut nic, &RecvRequest { wr_id: 0, scatter: &[] }).unwrap(),
                Act::Progress(now) => channel.progress(&mut nic, *now).unwrap(),
                Act::Poll(most, expected) => {
                    let mut found = vec![Completion::BLANK; *most];
                    let count = channel.poll(&mut found);
                    assert_eq!(found[..count], expected[..]);
                }
            }
        }
        assert_eq!(nic.finish(), Ok(()));
    }
}

/// The decisions of a channel follow from what it is given alone.
#[test]
fn the_decisions_in_the_simulator_are_those_of_a_replay() {
    let text = r#"
        [fabric]
        topology = "single-switch"
        hosts = 3
        rate = "10 Gbps"
        delay = "1 us"
        mtu = "1024 B"
        loss = 0.001
        switch = { buffer = "1 MB" }
        [traffic]
        pattern = "incast"
        senders = 1
        total = "65536 B"
        receiver = 1
        [[run]]
        name = "RoGUE"
        transport = "rogue"
        retry_count = 0
    "#;
    let scenario = rnic_scenario::from_str(text, "test.toml", "".as_ref(), &[], None).unwrap();
    let resolved = resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap();
    let VerbsConfig { settings, timing, device, header, ack, receives, mtu, seed, chunk, cores, small, credit, trim } =
        resolved.software.as_ref().unwrap().rogue(Control::default(), 1).unwrap();
    let config: VerbsConfig<Traced> =
        VerbsConfig { settings, timing, device, header, ack, receives, mtu, seed, chunk, cores, small, credit, trim };
    let plan = |topology: &rnic_fabric::Topology| PartitionPlan::whole(topology);
    let mut fabric = Fabric::partitioned(resolved.topology.clone(), &resolved.fabric, 1, 1, plan).unwrap();
    let request = FlowSpec::NO_REQUEST;
    let flow = |src, bytes| FlowSpec { start: Time::ZERO, src, dst: 2, bytes, request, traffic: 0, measured: true };
    let flows = [flow(0, 3_000_000), flow(1, 2_000_000), flow(0, 1_000)];
    let events = Events::ignored();
    let table = FlowTable::new(resolved.host_config, 1_024, &fabric, flows.into_iter(), None, &events);
    let plan = fabric.plan().clone();
    let mut hosts = VerbsHosts::<Traced, _>::new(&config, &resolved.network.host_rate, plan, table);
    fabric.run_watched(&mut hosts, &mut (), Time::MAX);
    for host in 0..3 {
        for end in &hosts.host(hosts.plan.node(host)).nic.ends {
            assert!(end.channel.trace.len() >= 50, "host {host}: {} events", end.channel.trace.len());
            end.channel.replay();
        }
    }
}
