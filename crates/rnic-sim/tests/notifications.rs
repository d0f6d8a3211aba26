//! Congestion notifications (CNPs) of a receiving NIC: the minimum time between two CNPs of all its flows.

use crate::common::*;
use rnic_spec::RunStatus;

/// Three flows of 1 MB share the link of each of two receivers, which takes 3 x 977 packets of 1,106 B, or 648 us. The
/// links to the switch are as fast, so all packets but the first wait there and are CE-marked. Each flow sends at most
/// one CNP, because `cnp_interval` is longer than the flows.
fn cnps(nic_cnp_interval: &str) -> u64 {
    let text = r#"
        [fabric]
        topology = "single-switch"
        hosts = 8
        rate = "40 Gbps"
        delay = "2 us"
        mtu = "1024 B"
        [fabric.switch]
        ecn = { kmin = "0 B", kmax = "0 B", pmax = 1.0 }
        [[traffic]]
        name = "left"
        pattern = "incast"
        senders = 3
        receiver = 0
        total = "3 MB"
        [[traffic]]
        name = "right"
        pattern = "incast"
        senders = 3
        receiver = 1
        total = "3 MB"
    "#;
    let keys = format!(
        "cc = \"dcqcn\"\npfc = true\ndcqcn = {{ cnp_interval = \"1 s\", nic_cnp_interval = \"{nic_cnp_interval}\" }}"
    );
    let output = outputs(&scenario(text, &["roce"], &keys).unwrap(), 1).remove(0);
    assert_eq!(output.status, RunStatus::Completed);
    assert_eq!(output.flows.len(), 6);
    output.totals.notifications
}

/// The receivers' CNPs are at least one interval apart, whichever flows they are for, and each receiver is a NIC of its
/// own. A flow whose CNP must wait gets it with a later packet. With 250 us the third CNP follows at 500 us; with
/// 400 us it would follow after the end of the flows.
#[test]
fn cnps_of_all_flows_of_a_nic_are_apart() {
    assert_eq!(cnps("0 us"), 2 * 3);
    assert_eq!(cnps("1 us"), 2 * 3);
    assert_eq!(cnps("250 us"), 2 * 3);
    assert_eq!(cnps("400 us"), 2 * 2);
    assert_eq!(cnps("1 ms"), 2);
}
