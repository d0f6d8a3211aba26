//! The ideal completion time of a flow: the time that the flow would take alone on an empty fabric.

use crate::ids::PortId;
use crate::topology::Topology;
use rnic_transport::Time;

/// Ideal completion time of a flow: from its start until the last bit of its last packet arrives, if no other packet is
/// on the fabric and the sender sends packets back to back. `path` lists the transmitting ports; every switch stores a
/// whole frame before it forwards the frame.
///
/// The flow has `packets` frames. The last frame takes `last` bytes on a link, and every other frame takes `full`
/// bytes, frame gap included. The result is at most [`Time::MAX`].
///
/// ```
/// use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
/// use rnic_fabric::{HostId, Routes, Topology, completion_time};
/// use rnic_transport::{BitRate, Bytes, Time};
///
/// let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
/// let switch = SwitchSpec::input_queued(Bytes(240_000));
/// let topology = Topology::build(&FabricSpec::new(TopologySpec::SingleSwitch { hosts: 2 }, link, switch))?;
/// let path = Routes::new(&topology, 1)?.path(&topology, HostId(0), HostId(1), 0);
/// // Ten frames of 1,106 bytes at 200 ps follow each other; the last crosses two links of 2 us.
/// let time = completion_time(&topology, &path, 10, 1_106, 1_106);
/// assert_eq!(time, Time::from_ps(11 * 221_200 + 2 * 2_000_000));
/// # Ok::<(), rnic_fabric::TopologyError>(())
/// ```
pub fn completion_time(topology: &Topology, path: &[PortId], packets: u64, full: u64, last: u64) -> Time {
    let mut sum_full: u128 = 0; // sum of a full frame's serialisation times so far
    let mut slowest_full = 0; // the longest of these serialisation times
    let mut delays = 0;
    let mut done = 0; // time at which the last frame has arrived over the previous link
    for (hop, port) in path.iter().enumerate() {
        let link = topology.port(*port).link;
        let time = |bytes: u64| u128::from(link.rate.time_for(bytes).as_ps());
        let (full_time, last_time) = (time(full), time(last));
        sum_full += full_time;
        slowest_full = slowest_full.max(full_time);
        // Time at which the frame before the last has left the transmitter of this link.
        let before = if packets > 1 { delays + sum_full + u128::from(packets - 2) * slowest_full } else { 0 };
        let arrived = if hop == 0 { 0 } else { done };
        let delay = u128::from(link.delay.as_ps());
        done = arrived.max(before) + last_time + delay;
        delays += delay;
    }
    Time::from_ps(u64::try_from(done).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FabricSpec, LinkSpec, Paths, SwitchSpec, TopologySpec};
    use rnic_transport::{BitRate, Bytes};

    fn dumbbell(middle: u64) -> Topology {
        Topology::build(&FabricSpec {
            topology: TopologySpec::Dumbbell {
                left: 1,
                right: 1,
                bottleneck_rate: Some(BitRate::from_gbps(middle)),
                bottleneck_delay: None,
            },
            link: LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 },
            links: vec![],
            routes: Vec::new(),
            switch: SwitchSpec::input_queued(Bytes(240_000)),
            paths: Paths::Ecmp,
            flowlet_gap: crate::config::Paths::FLOWLET_GAP,
            frame_gap: 20,
            clocks: crate::config::ClockSpec::default(),
        })
        .unwrap()
    }

    #[test]
    fn one_packet_is_serialised_at_every_hop() {
        let topology = dumbbell(40);
        // All links are equal, so any three ports will do.
        let path = [topology.host_port(crate::HostId(0)), PortId(4), PortId(3)];
        let time = completion_time(&topology, &path, 1, 1_106, 1_106);
        assert_eq!(time, Time::from_ps(3 * (221_200 + 2_000_000)));
    }

    #[test]
    fn a_small_last_packet_waits_behind_a_full_one() {
        let topology = dumbbell(40);
        let path = [PortId(0); 3];
        // Two packets of 1,000 and 100 bytes at 200 ps per byte: the second packet leaves each hop 20 ns after the
        // first.
        let time = completion_time(&topology, &path, 2, 1_000, 100);
        assert_eq!(time, Time::from_ps(3 * (200_000 + 2_000_000) + 20_000));
    }

    #[test]
    fn a_slow_middle_link_sets_the_pace() {
        let topology = dumbbell(10);
        let middle = topology.port_ids().find(|port| topology.port(*port).link.rate == BitRate::from_gbps(10)).unwrap();
        // Ten full frames of 1,000 bytes: 200 ns at the edges, 800 ns in the middle.
        let time = completion_time(&topology, &[PortId(0), middle, PortId(0)], 10, 1_000, 1_000);
        assert_eq!(time, Time::from_ps(3 * 2_000_000 + 200_000 + 10 * 800_000 + 200_000));
    }
}
