//! Recovery from chosen losses: counts and completion times by hand.

mod common;

use common::*;
use rnic_run::RunSpec;
use rnic_run::RunStatus;
use rnic_transport::{Bytes, Time};

/// A NACK of 66 bytes and the gap, on a 40 Gbps link.
const ROCE_NACK: u64 = 17_200;
/// A NACK of 70 bytes and the gap.
const IRN_NACK: u64 = 18_000;

/// RoCE or IRN with timeouts too long to matter.
fn run(transport: &str) -> RunSpec {
    let mut run = fat_tree(transport);
    run.transport.set("rto_high", Time::from_ms(10)).unwrap();
    run.transport.set("rto_low", Time::from_ms(10)).unwrap();
    run
}

/// Time at which a NACK for packet `lost` is back at the sender: packet `lost + 1` crosses all links, then the NACK
/// does.
fn nack_back(lost: u64, links: u64, frame: u64, nack: u64) -> u64 {
    (lost + 1) * frame + links * (frame + D) + links * (nack + D)
}

#[test]
fn go_back_n_sends_everything_again_from_the_lost_packet() {
    let packets = 200;
    for (dst, links) in [(1, 2), (3, 4), (9, 6)] {
        for lost in [0, 1, 17, 60] {
            let output = outcome_with_losses(&run("roce"), &[flow(0, 0, dst, packets * 1_024)], &[(0, &[lost])]);
            // The sender completes the packet that it transmits when the NACK arrives, and then retransmits the lost
            // packet.
            let sent = nack_back(lost, links, ROCE, ROCE_NACK).div_ceil(ROCE);
            assert!(sent < packets);
            let record = &output.flows.get(0).unwrap();
            assert_eq!(u64::from(record.retransmitted), sent - lost, "{lost} over {links} links");
            let in_all = sent + packets - lost;
            assert_eq!(output.totals.data, in_all);
            assert_eq!(fct(record), (in_all - 1) * ROCE + links * (ROCE + D));
            assert_eq!((output.totals.control, output.totals.lost, record.timeouts), (1, 1, 0));
            assert_accounts(&output);
        }
    }
    // In numbers: over two links 8,476,800 ps, 38.3 frame times: 39 frames after the frame that follows the lost one,
    // and that frame.
    let output = outcome_with_losses(&run("roce"), &[flow(0, 0, 1, 200 * 1_024)], &[(0, &[60])]);
    assert_eq!(output.flows.get(0).unwrap().retransmitted, 40);
}

#[test]
fn go_back_n_that_has_sent_everything_waits_for_the_nack() {
    let output = outcome_with_losses(&run("roce"), &[flow(0, 0, 9, 10 * 1_024)], &[(0, &[3])]);
    let record = &output.flows.get(0).unwrap();
    assert_eq!(record.retransmitted, 7);
    assert_eq!(fct(record), nack_back(3, 6, ROCE, ROCE_NACK) + 6 * ROCE + 6 * (ROCE + D));
}

/// The receiver sends another NACK when the timeout has passed since the last packet in order.
#[test]
fn a_lost_tail_is_asked_for_after_the_timeout() {
    let mut run = fat_tree("roce");
    run.transport.set("rto_high", Time::from_us(320)).unwrap();
    let output = outcome_with_losses(&run, &[flow(0, 0, 9, 10 * 1_024)], &[(0, &[9])]);
    let record = &output.flows.get(0).unwrap();
    let packet_8 = 8 * ROCE + 6 * (ROCE + D);
    assert_eq!(fct(record), packet_8 + 320_000_000 + 6 * (ROCE_NACK + D) + 6 * (ROCE + D));
    assert_eq!((record.retransmitted, record.timeouts), (1, 1));
}

#[test]
fn irn_sends_the_lost_packet_once_and_nothing_else() {
    let packets = 200;
    for lost in [0, 1, 17, 60] {
        let output = outcome_with_losses(&run("irn"), &[flow(0, 0, 1, packets * 1_024)], &[(0, &[lost])]);
        let record = &output.flows.get(0).unwrap();
        assert_eq!((record.retransmitted, record.timeouts), (1, 0));
        // The retransmission takes one frame time on the link from the other packets. The lost packet stays the first
        // missing packet for two round trips, from its departure to the ACK of its retransmission: 76 frame times over
        // two links, within the cap of 111 packets in flight.
        assert_eq!(output.totals.data, packets + 1);
        assert_eq!(fct(record), packets * IRN + 2 * (IRN + D), "packet {lost}");
        assert_accounts(&output);
    }
}

#[test]
fn irn_waits_for_the_acknowledgement_when_the_cap_is_reached() {
    // Over four links the two round trips are 153 frame times: 111 packets from the lost one on are in flight before
    // its ACK is back.
    for lost in [0, 1, 17, 60] {
        let output = outcome_with_losses(&run("irn"), &[flow(0, 0, 3, 200 * 1_024)], &[(0, &[lost])]);
        let record = &output.flows.get(0).unwrap();
        assert_eq!((record.retransmitted, record.timeouts), (1, 0));
        let again = nack_back(lost, 4, IRN, IRN_NACK).div_ceil(IRN) * IRN;
        let acknowledged = again + 4 * (IRN + D) + 4 * (17_200 + D);
        assert!(acknowledged > (lost + 112) * IRN, "the sender has stopped");
        // Packet lost + 111 leaves first, packet 199 last.
        let last = acknowledged + (199 - (lost + 111)) * IRN;
        assert_eq!(fct(record), last + 4 * (IRN + D), "packet {lost}");
        assert_accounts(&output);
    }
}

#[test]
fn irn_that_has_sent_everything_waits_for_the_nack() {
    for nack_size in [None, Some(200)] {
        let mut run = run("irn");
        if let Some(bytes) = nack_size {
            run.transport.set("nack_size", Bytes(bytes)).unwrap();
        }
        let nack = nack_size.map_or(IRN_NACK, |bytes| (bytes + 20) * 200);
        let output = outcome_with_losses(&run, &[flow(0, 0, 9, 10 * 1_024)], &[(0, &[3])]);
        let record = &output.flows.get(0).unwrap();
        assert_eq!(record.retransmitted, 1);
        // ACKs are short: each has left when the next frame arrives.
        assert_eq!(fct(record), nack_back(3, 6, IRN, nack) + 6 * (IRN + D));
    }
}

#[test]
fn irn_repeats_each_of_several_losses_once() {
    let losses = [5, 6, 7, 20, 40, 41, 99];
    let output = outcome_with_losses(&run("irn"), &[flow(0, 0, 1, 300 * 1_024)], &[(0, &losses)]);
    assert_eq!(output.status, RunStatus::Completed);
    assert_eq!(u64::from(output.flows.get(0).unwrap().retransmitted), losses.len() as u64);
    assert_eq!(output.flows.get(0).unwrap().timeouts, 0);
}

/// The only packet of a flow is lost: IRN uses its short timeout, because one packet is in flight.
#[test]
fn irn_repeats_a_lost_single_packet_after_the_short_timeout() {
    let output = outcome_with_losses(&fat_tree("irn"), &[flow(0, 0, 9, 1_024)], &[(0, &[0])]);
    let record = &output.flows.get(0).unwrap();
    assert_eq!(fct(record), 100_000_000 + 6 * (IRN + D));
    assert_eq!((record.retransmitted, record.timeouts), (1, 1));
}

/// The last four of ten packets are lost: more than N = 3 are in flight, so IRN uses its long timeout, which runs from
/// the last cumulative progress.
#[test]
fn irn_repeats_a_long_lost_tail_after_the_long_timeout() {
    let mut run = fat_tree("irn");
    run.transport.set("rto_high", Time::from_us(320)).unwrap();
    let output = outcome_with_losses(&run, &[flow(0, 0, 9, 10 * 1_024)], &[(0, &[6, 7, 8, 9])]);
    let record = &output.flows.get(0).unwrap();
    // Time at which the ACK of packet 5 is back.
    let progress = 5 * IRN + 6 * (IRN + D) + 6 * (17_200 + D);
    // The timeout retransmits packet 6. Its ACK shows progress short of the recovery sequence, which retransmits packet
    // 7, and so on: one round trip each.
    let round_trip = 6 * (IRN + D) + 6 * (17_200 + D);
    assert_eq!(fct(record), progress + 320_000_000 + 3 * round_trip + 6 * (IRN + D));
    assert_eq!((record.retransmitted, record.timeouts), (4, 1));
}

#[test]
fn a_lost_ack_costs_nothing_when_a_later_one_arrives() {
    // h9 sends nothing but ACKs: its first three are lost.
    let output = outcome_with_losses(&run("irn"), &[flow(0, 0, 9, 50 * 1_024)], &[(9, &[0, 1, 2])]);
    assert_eq!(output.status, RunStatus::Completed);
    assert_eq!(fct(&output.flows.get(0).unwrap()), 49 * IRN + 6 * (IRN + D));
    assert_eq!((output.flows.get(0).unwrap().retransmitted, output.totals.lost), (0, 3));
}

#[test]
fn a_lost_last_ack_is_asked_for_again_after_the_flow_has_finished() {
    let output = outcome_with_losses(&fat_tree("irn"), &[flow(0, 0, 9, 1_024)], &[(9, &[0])]);
    assert_eq!(output.status, RunStatus::Completed);
    let record = &output.flows.get(0).unwrap();
    assert_eq!(fct(record), 6 * (IRN + D));
    assert_eq!((record.retransmitted, record.timeouts), (1, 1));
    // The duplicate is acknowledged, and then the sender is done.
    assert_eq!((output.totals.data, output.totals.control), (2, 2));
}

#[test]
fn a_lost_nack_is_made_good_by_the_timeout() {
    let mut run = fat_tree("roce");
    run.transport.set("rto_high", Time::from_us(320)).unwrap();
    let output = outcome_with_losses(&run, &[flow(0, 0, 9, 10 * 1_024)], &[(0, &[3]), (9, &[0])]);
    let record = &output.flows.get(0).unwrap();
    let packet_2 = 2 * ROCE + 6 * (ROCE + D);
    assert_eq!(fct(record), packet_2 + 320_000_000 + 6 * (ROCE_NACK + D) + 6 * ROCE + 6 * (ROCE + D));
    assert_eq!((record.retransmitted, record.timeouts), (7, 1));
}
