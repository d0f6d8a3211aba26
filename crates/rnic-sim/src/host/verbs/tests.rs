//! Round-trip times that the channels measure on a simulated fabric, and traces of what channels decide there.

use super::*;
use crate::Events;
use crate::catalogue::demands;
use crate::resolve::host::HostPlan;
use crate::resolve::{CongestionError, CongestionNeeds, Demands, resolve};
use rnic_fabric::{Fabric, PartitionPlan};
use rnic_host::record::{Recordable, Recorded};
use rnic_host::{Control, Failure, Link, multipath, rogue};
use rnic_spec::{CongestionSpec, FlowSpec};
use rnic_transport::FlowConfig;
use rnic_transport::congestion::{CongestionControl, RogueDelay};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_verbs::{Completion, MrInfo, Pd, SendRequest, Verbs};

/// What congestion controls require, as the catalogue says it. The catalogue also has the simulator of each of them,
/// which would be compiled a second time for these tests.
struct Needs;

impl CongestionNeeds for Needs {
    fn demands(&self, cc: &CongestionSpec, flow: &FlowConfig) -> Result<Demands, CongestionError> {
        struct Search<'a>(&'a CongestionSpec, &'a FlowConfig, Option<Result<Demands, String>>);
        impl Visitor for Search<'_> {
            fn visit<C: CongestionControl>(&mut self) {
                if C::NAME == self.0.name() {
                    self.2 = Some(demands::<C>(&self.0.settings, self.1));
                }
            }
        }
        let mut search = Search(cc, flow, None);
        visit_congestion_controls(&mut search);
        search.visit::<RogueDelay>();
        let found = search.2.expect("a congestion control of rnic");
        found.map_err(|reason| CongestionError::Settings { name: cc.name(), reason })
    }
}

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
    let resolved = resolve(&Needs, &scenario.runs[0]).unwrap();
    let config = resolved.software.as_ref().unwrap().rogue(Control::default(), 1).unwrap();
    let plan = |topology: &rnic_fabric::Topology| PartitionPlan::whole(topology);
    let mut fabric = Fabric::partitioned(resolved.topology.clone(), &resolved.fabric, 1, 1, plan).unwrap();
    let request = FlowSpec::NO_REQUEST;
    let flow =
        FlowSpec { start: Time::ZERO, src: 0, dst: 1, bytes: 65_536, request, traffic: 0, measured: true, hash: None };
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

/// Settings of the recorded channels of a run: those of a run, as a recorded channel takes them.
trait Settings<C: Recordable>: Clone + Send + Sync + 'static {
    fn with(&self, seed: u64) -> C::Config;
}

impl Settings<rogue::Channel> for rogue::Config {
    fn with(&self, seed: u64) -> rogue::Config {
        rogue::Config { seed, ..self.clone() }
    }
}

impl Settings<multipath::Channel> for MultipathSettings {
    fn with(&self, seed: u64) -> (multipath::Config, multipath::PathPolicy) {
        (multipath::Config { seed, ..self.config.clone() }, self.policy)
    }
}

impl<C> HostChannel for Recorded<C>
where
    C: HostChannel<Settings: Settings<C>> + Recordable<Address = <C as HostChannel>::Address, Config: Send>,
    <C as HostChannel>::Address: Clone + Send,
{
    type Settings = <C as HostChannel>::Settings;
    type Address = <C as HostChannel>::Address;
    type Segment = <C as HostChannel>::Segment;

    fn open(nic: &mut dyn Verbs, pd: Pd, settings: &Self::Settings, seed: u64) -> Result<Self, HostError> {
        Recorded::open(nic, pd, settings.with(seed))
    }
    fn address(&self) -> Self::Address {
        self.channel().address()
    }
    fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &Self::Address, now: Time) -> Result<(), HostError> {
        Recorded::connect(self, nic, link, peer, now)
    }
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        Recorded::post_send(self, request)
    }
    fn post_recv(&mut self, nic: &mut dyn Verbs, region: &MrInfo) -> Result<(), HostError> {
        Recorded::post_recv(self, nic, 0, region, 0, 0)
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        Recorded::progress(self, nic, now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        Recorded::poll(self, out)
    }
    fn next_time(&self) -> Option<Time> {
        self.channel().next_time()
    }
    fn failure(&self) -> Option<Failure> {
        self.channel().failure()
    }
    fn repeated(&self) -> u64 {
        self.channel().repeated()
    }
    fn recoveries(&self) -> u64 {
        self.channel().recoveries()
    }
}

/// Simulates two hosts that send to a third one over lossy links, with recorded channels, and replays each channel.
fn replayed<C>(text: &str, config: impl FnOnce(&HostPlan) -> VerbsConfig<C>)
where
    C: HostChannel<Settings: Settings<C>> + Recordable<Address = <C as HostChannel>::Address, Config: Send>,
    <C as HostChannel>::Address: Clone + Send,
{
    let scenario = rnic_scenario::from_str(text, "test.toml", "".as_ref(), &[], None).unwrap();
    let resolved = resolve(&Needs, &scenario.runs[0]).unwrap();
    let VerbsConfig {
        settings,
        timing,
        device,
        header,
        ack,
        receives,
        mtu,
        seed,
        chunk,
        cores,
        small,
        credit_rate,
        reads,
        signal_every,
        trim,
    } = config(resolved.software.as_ref().unwrap());
    let config: VerbsConfig<Recorded<C>> = VerbsConfig {
        settings,
        timing,
        device,
        header,
        ack,
        receives,
        mtu,
        seed,
        chunk,
        cores,
        small,
        credit_rate,
        reads,
        signal_every,
        trim,
    };
    let plan = |topology: &rnic_fabric::Topology| PartitionPlan::whole(topology);
    let mut fabric = Fabric::partitioned(resolved.topology.clone(), &resolved.fabric, 1, 1, plan).unwrap();
    let request = FlowSpec::NO_REQUEST;
    let flow = |src, bytes| FlowSpec {
        start: Time::ZERO,
        src,
        dst: 2,
        bytes,
        request,
        traffic: 0,
        measured: true,
        hash: None,
    };
    let flows = [flow(0, 3_000_000), flow(1, 2_000_000), flow(0, 1_000)];
    let events = Events::ignored();
    let table = FlowTable::new(resolved.host_config, 1_024, &fabric, flows.into_iter(), None, &events);
    let plan = fabric.plan().clone();
    let mut hosts = VerbsHosts::<Recorded<C>, _>::new(&config, &resolved.network.host_rate, plan, table);
    fabric.run_watched(&mut hosts, &mut (), Time::MAX);
    let mut repeated = 0;
    for host in 0..3 {
        for end in &hosts.host(hosts.plan.node(host)).nic.ends {
            assert!(end.channel.trace().len() >= 50, "host {host}: {} events", end.channel.trace().len());
            assert_eq!(end.channel.replay(), Ok(()), "host {host}");
            repeated += end.channel.repeated();
        }
    }
    assert!(repeated > 0, "the channels had losses to recover from");
}

const LOSSY: &str = r#"
    [fabric]
    topology = "single-switch"
    hosts = 3
    rate = "10 Gbps"
    delay = "1 us"
    mtu = "1024 B"
    loss = 0.01
    switch = { buffer = "1 MB" }
    [traffic]
    pattern = "incast"
    senders = 1
    total = "65536 B"
    receiver = 1
"#;

/// The decisions of a channel follow from what it is given alone. A test of `rnic-endpoint` shows the same over
/// sockets.
#[test]
fn the_decisions_in_the_simulator_are_those_of_a_replay() {
    let rogue = format!("{LOSSY}\n[[run]]\nname = \"RoGUE\"\ntransport = \"rogue\"\nretry_count = 0\nnic_timeout = 9");
    replayed::<rogue::Channel>(&rogue, |software| software.rogue(Control::default(), 1).unwrap());
    let multipath = format!("{LOSSY}\n[[run]]\nname = \"multipath\"\ntransport = \"multipath\"\npaths = 4");
    replayed::<multipath::Channel>(&multipath, |software| software.multipath(Control::default(), 1).unwrap());
}
