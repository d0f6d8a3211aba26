//! Unnecessary retransmissions of IRN without a loss, after a late packet or an early timeout.
//!
//! A partial acknowledgement makes the sender retransmit the next missing packet without proof of its loss. Such
//! retransmissions do not move the recovery sequence, so at most the packets in flight at their beginning are
//! retransmitted unnecessarily. (If every retransmission moved the recovery sequence, as in the authors' published NIC
//! logic, the recovery could last as long as the flow.)

use crate::common::{Pair, Pipe, Script, Totals};
use rnic_transport::recovery::Irn;
use rnic_transport::{FlowConfig, Time};

const PACKETS: u32 = 1_000;

fn run(script: Script, slow_link_us: u64) -> Totals {
    let pair = Pair::<Irn, Script>::new(FlowConfig::default(), PACKETS, Pipe::SHORT, script);
    let mut pair = pair.behind(Time::from_us(slow_link_us));
    pair.run();
    assert_eq!((pair.totals.data_lost, pair.totals.accepted), (0, u64::from(PACKETS)));
    pair.totals
}

/// Packet 30 arrives after the next five packets.
#[test]
fn a_late_packet_costs_little_where_the_wire_is_the_bottleneck() {
    let late = Script::default().delay(30, 1, Time::from_us(5));
    assert!((1..=10).contains(&run(late, 0).retransmitted));
}

/// Packet 30 arrives late after a link of half the rate, where each acknowledgement allows a retransmission and a new
/// packet.
#[test]
fn a_late_packet_behind_a_slower_link_costs_less_than_a_window() {
    let calm = run(Script::default(), 2);
    assert_eq!(calm.retransmitted, 0);
    let late = run(Script::default().delay(30, 1, Time::from_us(5)), 2);
    assert_eq!((late.timeouts, late.losses), (0, 1));
    assert!((1..=u64::from(FlowConfig::default().bdp_cap)).contains(&late.retransmitted), "{}", late.retransmitted);
    let [calm, late] = [calm, late].map(|totals| totals.acknowledged_at.map_or(0.0, Time::as_us));
    assert!(late < 1.1 * calm, "{late} us instead of {calm} us");
}

/// A timeout without a loss has the same bound: from packet 40 on, the round-trip time is 330 us longer.
#[test]
fn an_early_timeout_behind_a_slower_link_costs_less_than_a_window() {
    let paused = (40..4_000).fold(Script::default(), |script, nth| script.delay_reply(nth, Time::from_us(330)));
    let totals = run(paused, 6);
    assert_eq!(totals.timeouts, 1);
    assert!((1..=u64::from(FlowConfig::default().bdp_cap)).contains(&totals.retransmitted), "{}", totals.retransmitted);
}
