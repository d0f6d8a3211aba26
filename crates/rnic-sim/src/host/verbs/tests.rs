//! Round-trip times that the channels measure on a simulated fabric.

use super::*;
use crate::resolve::resolve;
use crate::{Catalogue, Events};
use rnic_fabric::{Fabric, PartitionPlan};
use rnic_host::{Control, rogue};
use rnic_run::FlowSpec;

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
