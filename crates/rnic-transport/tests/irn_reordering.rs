//! What IRN sends in vain when nothing was lost: a late packet, or a timeout that came too early.
//!
//! As in the authors' published NIC logic, a partial acknowledgement retransmits the next missing packet without proof of its
//! loss, and every retransmission moves the recovery sequence up to the last new packet. The two feed each other where
//! acknowledgements leave the wire room for both a retransmission and a new packet: recovery then lasts as long as the flow.

mod common;

use common::{Pair, Pipe, Script, Totals};
use rnic_transport::recovery::Irn;
use rnic_transport::{FlowConfig, Time};

const PACKETS: u32 = 1_000;

fn run(script: Script, slow_link_us: u64) -> Totals {
    let pair = Pair::<Irn, Script>::new(FlowConfig::default(), PACKETS, Pipe::SHORT, script);
    let mut pair = pair.behind(Time::from_us(slow_link_us));
    pair.run();
    assert_eq!(
        (pair.totals.data_lost, pair.totals.accepted),
        (0, u64::from(PACKETS))
    );
    pair.totals
}

/// Packet 30 arrives after its five followers. Retransmissions have the wire to themselves, so no new packet moves the
/// recovery sequence, and recovery ends within the window.
#[test]
fn a_late_packet_costs_little_where_the_wire_is_the_bottleneck() {
    let late = Script::default().delay(30, 1, Time::from_us(5));
    assert!((1..=10).contains(&run(late, 0).resent));
}

/// The same behind a link of half the rate: every packet after it is sent twice, and the flow takes twice as long.
#[test]
fn a_late_packet_behind_a_slower_link_doubles_the_rest_of_the_flow() {
    let calm = run(Script::default(), 2);
    assert_eq!(calm.resent, 0);
    let late = run(Script::default().delay(30, 1, Time::from_us(5)), 2);
    assert_eq!((late.timeouts, late.losses), (0, 1));
    assert_eq!(late.resent, u64::from(PACKETS) - 32);
    let [calm, late] = [calm, late].map(|totals| totals.acknowledged_at.map_or(0.0, Time::as_us));
    assert!(late > 1.8 * calm, "{late} us instead of {calm} us");
}

/// So does a single timeout without loss: from packet 40 on, the round trip is longer by 330 us.
#[test]
fn an_early_timeout_behind_a_slower_link_doubles_the_rest_of_the_flow() {
    let paused = (40..4_000).fold(Script::default(), |script, nth| {
        script.delay_reply(nth, Time::from_us(330))
    });
    let totals = run(paused, 6);
    assert_eq!(totals.timeouts, 1);
    assert!(totals.resent > u64::from(PACKETS) / 2, "{}", totals.resent);
}
