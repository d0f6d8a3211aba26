//! Settings at their limits are accepted unchanged, or refused with a reason.

use crate::common::*;
use rnic_fabric::config::{BufferSpec, InputSpec, TopologySpec};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_spec::RunSpec;
use rnic_spec::RunStatus;
use rnic_transport::{Bytes, Time};

fn refused(run: &RunSpec) -> String {
    let run = RunSpec { traffic: list(&[flow(0, 0, 1, 1_000)]), ..run.clone() };
    resolve(&Catalogue::standard(), &run).unwrap_err().to_string()
}

#[test]
fn a_frame_longer_than_the_fabric_can_carry_is_refused() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    run.fabric.mtu = Bytes(65_536);
    run.fabric.switch.buffer = Some(Bytes(10_000_000));
    assert!(refused(&run).contains("65535"), "{}", refused(&run));
    run.fabric.mtu = Bytes((1 << 32) + 1_024);
    assert!(refused(&run).contains("65535"), "{}", refused(&run));
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "irn");
    let error = run.transport.set("ack_size", Bytes(70_000)).unwrap_err();
    assert_eq!(error, "`ack_size` cannot be 70 KB; it takes a size from 1 B to 9 KB");
    // An MTU that yields the longest possible frame is accepted.
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 2 }, "roce");
    run.fabric.mtu = Bytes(65_535 - 62);
    let output = outcome(&run, &[flow(0, 0, 1, 200_000)]);
    assert_eq!(output.status, RunStatus::Completed);
    assert_eq!(fct(&output.flows.get(0).unwrap()), output.flows.get(0).unwrap().ideal.as_ps());
}

/// The PFC headroom is computed for the longest frame of the run, which may be an ACK.
#[test]
fn a_lossless_fabric_has_headroom_for_control_packets_longer_than_data() {
    let mut run = run_on(TopologySpec::SingleSwitch { hosts: 3 }, "irn");
    run.fabric.mtu = Bytes(64);
    run.transport.pfc = true;
    run.transport.set("ack_size", Bytes(9_000)).unwrap();
    run.transport.set("bdp_cap", 2_000_u64).unwrap();
    run.transport.set("timeouts", false).unwrap();
    run.fabric.switch.buffer = Some(Bytes(60_000));
    // Every 142-byte packet triggers a 9,000-byte ACK. ACKs to h1 and h2 share no link with data, but ACKs from h0
    // share its link.
    let flows = [flow(0, 1, 0, 30_000), flow(0, 2, 0, 30_000), flow(0, 2, 1, 30_000)];
    let resolved = resolved(&run, &flows);
    assert!(resolved.lossless);
    let output = outcome(&run, &flows);
    assert_eq!(output.status, RunStatus::Completed);
    assert_eq!(output.totals.dropped, 0);
    // The headroom covers 4 us at 40 Gbps (20,000 bytes), two frames of 9,020 bytes on the link, a pause frame of 84
    // bytes, and an overshoot of 9,000 bytes.
    let BufferSpec::Input(InputSpec { pfc: Some(pfc), .. }) = resolved.fabric.switch.buffer else { panic!() };
    assert_eq!(60_000 - pfc.xoff.0, 20_000 + 2 * 9_020 + 84 + 9_000);
}

/// Section 4.1 of the IRN paper: `RTO_high` is the propagation delay of the longest path, both ways, and the time to
/// drain a switch whose input buffers are full. Timeouts are off if PFC makes the fabric lossless.
#[test]
fn timeouts_follow_from_the_fabric_and_are_off_with_pfc() {
    let mut run = fat_tree("irn");
    run.fabric.switch.buffer = Some(Bytes(240_000));
    let flows = [flow(0, 0, 53, 1_000)];
    // 6 links of 2 us, both ways; 6 inputs of 240 KB at 40 Gbps, which are 5 bytes per ns: 288 us.
    let timeouts = resolved(&run, &flows).flow.timeouts.unwrap();
    assert_eq!((timeouts.high, timeouts.low, timeouts.low_packets), (Time::from_us(24 + 288), Time::from_us(100), 3));
    for transport in ["roce", "irn"] {
        run.transport = rnic_spec::TransportSpec::named(transport).unwrap();
        let without_pfc = resolved(&run, &flows);
        assert_eq!((without_pfc.lossless, without_pfc.flow.timeouts.is_some()), (false, true), "{transport}");
        run.transport.pfc = true;
        let with_pfc = resolved(&run, &flows);
        assert_eq!((with_pfc.lossless, with_pfc.flow.timeouts), (true, None), "{transport}");
    }
}
