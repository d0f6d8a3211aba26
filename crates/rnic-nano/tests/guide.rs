//! Tests the guide "Write a transport in P4". Its code blocks together are the program `p4/window.p4`, and the change
//! that it proposes has the described effect.

use crate::network::{Network, Planned, Weather};
use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Pipeline, Program, compile};
use rnic_transport::Time;
use rnic_transport::message::NicConfig;

const GUIDE: &str = include_str!("../../../docs/guides/write-a-transport-in-p4.md");
const PROGRAM: &str = include_str!("../../../p4/window.p4");

/// Returns the code blocks of the guide that have the given info string (the text after the three backquotes).
fn blocks(kind: &str) -> Vec<&'static str> {
    let start = format!("```{kind}\n");
    let parts = GUIDE.split(start.as_str()).skip(1);
    parts.map(|part| part.split_once("\n```").expect("a block ends").0).collect()
}

/// Returns the program with the change that the guide describes.
fn changed() -> String {
    let (old, new) = (blocks("p4 old"), blocks("p4 new"));
    assert_eq!((old.len(), new.len()), (2, 2));
    old.iter().zip(new).fold(PROGRAM.to_string(), |program, (old, new)| {
        assert_eq!(program.matches(old).count(), 1, "{old}");
        program.replace(old, new)
    })
}

fn compiled(text: &str) -> Program {
    let main = SourceFile { name: "window.p4".into(), text: text.into() };
    compile(main, &|_| None, &[]).unwrap_or_else(|what| panic!("{what}"))
}

#[test]
fn the_code_blocks_are_the_program() {
    let (_, program) = PROGRAM.split_once("\n\n").expect("a comment comes first");
    assert_eq!(format!("{}\n", blocks("p4").join("\n\n")), program);
}

/// Sends two long messages at the same time over a network that trims every fifth packet. Returns the time of the last
/// packet in microseconds, and the number of retransmissions.
fn with_trimming(text: &str) -> (u64, u64) {
    let program = compiled(text);
    let nic = |ip| NicParameters { ip, rtt_pkts: 9, mtu: 1_024, ..NicParameters::default() };
    let plan = [1, 2].map(|src| Planned { at: Time::ZERO, src, dst: 0, bytes: 300 * 1_024 });
    let weather = Weather { trim: 200, heals_at: Time::from_ms(100), ..Weather::default() };
    let cfg = NicConfig { timeout: Time::from_us(20), rx_timeout: Time::from_ms(10), ..NicConfig::default() };
    let mut network =
        Network::new(cfg, 3, |ip| P4Pipeline::<64>::new(&program, &nic(ip)).unwrap(), plan.to_vec(), weather, 1);
    assert!(network.run(Time::from_ms(100)), "{:?}", network.totals);
    assert!(network.records.iter().all(|record| record.delivered == 1));
    let late = network.log.iter().map(|packet| packet.0).max().unwrap_or(Time::ZERO);
    (late.as_ps() / 1_000_000, network.totals.retransmitted)
}

#[test]
fn with_the_change_trimmed_packets_are_retransmitted_early() {
    let (before, retransmitted_before) = with_trimming(PROGRAM);
    let (after, retransmitted) = with_trimming(&changed());
    assert!(retransmitted_before > 50 && retransmitted > 50, "{retransmitted_before} {retransmitted}");
    assert!(after * 4 < before, "microseconds: {before} before, {after} after");
}
