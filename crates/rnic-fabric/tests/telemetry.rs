//! Tests of the telemetry records that switches write into packets.

use crate::common::*;
use rnic_fabric::config::{BufferSpec, FabricSpec, OutputBuffers, OutputSpec, SharedSpec, TopologySpec};
use rnic_fabric::{Body, Ending, Fabric, HostId, Packet};
use rnic_transport::telemetry::{HopRecord, Telemetry};
use rnic_transport::{BitRate, Bytes};

const F: u32 = FRAME as u32;

#[derive(Clone, Copy, Default, Debug)]
struct Probe {
    number: u32,
    telemetry: Telemetry,
}
impl Body for Probe {
    const TELEMETRY: bool = true;
    fn stamp(&mut self, hop: HopRecord) {
        self.telemetry.push(hop);
    }
}
impl Numbered for Probe {
    fn number(&self) -> u32 {
        self.number
    }
}

fn probe(dst: u32, number: u32) -> Packet<Probe> {
    Packet { dst: HostId(dst), bytes: FRAME, body: Probe { number, ..Probe::default() }, ..Packet::default() }
}

fn kinds(topology: TopologySpec) -> [FabricSpec; 3] {
    let kind = |buffer| {
        let mut spec = spec(topology.clone());
        spec.switch.buffer = buffer;
        spec
    };
    let buffer = Bytes(1_000_000);
    let output = OutputSpec { buffers: OutputBuffers::Equal(buffer), trim: None, count_in_service: false };
    [input_buffer(buffer.0), BufferSpec::Shared(SharedSpec::lossy(buffer)), BufferSpec::Output(output)].map(kind)
}

/// Three pairs of frames arrive for one output, a pair every T. The first frame of the first pair leaves at once; then
/// one frame leaves every T, the second and third after the next two pairs have arrived. A control packet carries no
/// record.
#[test]
fn the_records_of_a_known_queue() {
    for spec in kinds(TopologySpec::SingleSwitch { hosts: 3 }) {
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let mut script = Script::new(3);
        for k in 0..3 {
            script.send(0, 0, probe(2, k));
            script.send(1, 0, probe(2, 100 + k));
        }
        script.send(0, 100 * US, Packet { flags: Packet::<Probe>::CONTROL, ..probe(2, 3) });
        assert_eq!(fabric.run(&mut script), Ending::Idle);
        for (k, (packet, behind)) in (0u32..).zip(script.packets.iter().zip([0, 2, 3, 2, 1, 0])) {
            let expected = HopRecord {
                timestamp_ns: ((T + 2 * US + u64::from(k) * T) / 1_000) as u32,
                tx_bytes: k * F,
                queue_bytes: behind * F,
                rate_mbps: 40_000,
            };
            assert_eq!(packet.body.telemetry.hops(), [expected], "{k} {:?}", spec.switch.buffer);
        }
        let control = script.packets.last().unwrap();
        assert_eq!((control.body.number, control.body.telemetry.hops()), (3, &[][..]));
    }
}

#[test]
fn every_switch_adds_its_record() {
    let (left, right, bottleneck_delay) = (1, 1, None);
    let bottleneck_rate = Some(BitRate::from_gbps(10));
    for spec in kinds(TopologySpec::Dumbbell { left, right, bottleneck_rate, bottleneck_delay }) {
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        let mut script = Script::new(2);
        (0..2).for_each(|number| script.send(0, 0, probe(1, number)));
        assert_eq!(fabric.run(&mut script), Ending::Idle);
        // A frame takes four times as long on the link in the middle. So the second frame waits 3 T for this link, and
        // nowhere else.
        let middle = T + 2 * US;
        let right = middle + 4 * T + 2 * US;
        for (number, packet) in (0u64..).zip(&script.packets) {
            let hop = |at: u64, rate_mbps| HopRecord {
                timestamp_ns: (at / 1_000) as u32,
                tx_bytes: number as u32 * F,
                queue_bytes: 0,
                rate_mbps,
            };
            let wait = number * 4 * T;
            assert_eq!(packet.body.telemetry.hops(), [hop(middle + wait, 10_000), hop(right + wait, 40_000)]);
        }
    }
}
