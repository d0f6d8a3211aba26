//! What IRN sends in vain when nothing was lost: a late packet, or a timeout that came too early.
//!
//! A partial acknowledgement retransmits the next missing packet without proof of its loss. Such retransmissions do not
//! move the recovery sequence, so what is sent in vain is at most what was in flight when they began. (If every
//! retransmission moved it up, as in the authors' published NIC logic, recovery could last as long as the flow.)

mod common;

use common::{Pair, Pipe, Script, Totals};
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

/// Packet 30 arrives after its five followers.
#[test]
fn a_late_packet_costs_little_where_the_wire_is_the_bottleneck() {
    let late = Script::default().delay(30, 1, Time::from_us(5));
    assert!((1..=10).contains(&run(late, 0).resent));
}

/// The same behind a link of half the rate, where acknowledgements leave the wire room for a retransmission and a new
/// packet each.
#[test]
fn a_late_packet_behind_a_slower_link_costs_less_than_a_window() {
    let calm = run(Script::default(), 2);
    assert_eq!(calm.resent, 0);
    let late = run(Script::default().delay(30, 1, Time::from_us(5)), 2);
    assert_eq!((late.timeouts, late.losses), (0, 1));
    assert!((1..=u64::from(FlowConfig::default().bdp_cap)).contains(&late.resent), "{}", late.resent);
    let [calm, late] = [calm, late].map(|totals| totals.acknowledged_at.map_or(0.0, Time::as_us));
    assert!(late < 1.1 * calm, "{late} us instead of {calm} us");
}

/// Nor does a single timeout without loss cost more: from packet 40 on, the round trip is longer by 330 us.
#[test]
fn an_early_timeout_behind_a_slower_link_costs_less_than_a_window() {
    let paused = (40..4_000).fold(Script::default(), |script, nth| script.delay_reply(nth, Time::from_us(330)));
    let totals = run(paused, 6);
    assert_eq!(totals.timeouts, 1);
    assert!((1..=u64::from(FlowConfig::default().bdp_cap)).contains(&totals.resent), "{}", totals.resent);
}
