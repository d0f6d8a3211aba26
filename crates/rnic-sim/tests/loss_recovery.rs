//! Recovery from the loss of chosen packets: packet counts and completion times are checked against values worked out
//! by hand.

use crate::common::*;
use rnic_spec::RunSpec;
use rnic_spec::RunStatus;
use rnic_transport::{Bytes, Time};

/// Serialisation time of a RoCE NACK (66 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
const ROCE_NACK: u64 = 17_200;
/// Serialisation time of an IRN NACK (70 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
const IRN_NACK: u64 = 18_000;

/// A run of RoCE or IRN whose timeouts are too long to expire.
fn run(transport: &str) -> RunSpec {
    let mut run = fat_tree(transport);
    run.transport.set("rto_high", Time::from_ms(10)).unwrap();
    if transport == "irn" {
        run.transport.set("rto_low", Time::from_ms(10)).unwrap();
    }
    run
}

/// Time at which a NACK for packet `lost` is back at the sender: packet `lost + 1` crosses all links and triggers the
/// NACK, which crosses all links back.
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
    // In numbers: over two links, the NACK is back 8,476,800 ps, or 38.3 frame times, after the frame that follows the
    // lost frame. The sender has sent this frame and 39 more by then, and retransmits all 40 packets from the lost one
    // on.
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

/// A receiver that misses the last packets of a flow sends a NACK when the timeout has passed since the last in-order
/// packet.
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
        // The retransmission delays the other packets by one frame time on the link. The lost packet is the first
        // missing packet for two round trips, from its departure to the ACK of its retransmission. Over two links,
        // these are 76 frame times, so the default cap of 114 packets in flight is not reached.
        assert_eq!(output.totals.data, packets + 1);
        assert_eq!(fct(record), packets * IRN + 2 * (IRN + D), "packet {lost}");
        assert_accounts(&output);
    }
}

#[test]
fn irn_waits_for_the_acknowledgement_when_the_cap_is_reached() {
    // Over four links, the two round trips are 153 frame times. The sender reaches the cap of 111 packets in flight,
    // counted from the lost packet, before the ACK of the retransmission is back.
    let mut run = run("irn");
    run.transport.set("bdp_cap", 111_u64).unwrap();
    for lost in [0, 1, 17, 60] {
        let output = outcome_with_losses(&run, &[flow(0, 0, 3, 200 * 1_024)], &[(0, &[lost])]);
        let record = &output.flows.get(0).unwrap();
        assert_eq!((record.retransmitted, record.timeouts), (1, 0));
        let again = nack_back(lost, 4, IRN, IRN_NACK).div_ceil(IRN) * IRN;
        let acknowledged = again + 4 * (IRN + D) + 4 * (17_200 + D);
        assert!(acknowledged > (lost + 112) * IRN, "the sender has stopped");
        // When the ACK is back, packet `lost + 111` leaves first; packet 199 is the last.
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
        // ACKs are short: each ACK has left when the next frame arrives, so the NACK does not wait.
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

/// The only packet of a flow is lost. IRN uses its short timeout (`rto_low`), because only one packet is in flight.
#[test]
fn irn_repeats_a_lost_single_packet_after_the_short_timeout() {
    let output = outcome_with_losses(&fat_tree("irn"), &[flow(0, 0, 9, 1_024)], &[(0, &[0])]);
    let record = &output.flows.get(0).unwrap();
    assert_eq!(fct(record), 100_000_000 + 6 * (IRN + D));
    assert_eq!((record.retransmitted, record.timeouts), (1, 1));
}

/// The last four of ten packets are lost. More than N = 3 packets are in flight, so IRN uses its long timeout
/// (`rto_high`), which runs from the last cumulative progress.
#[test]
fn irn_repeats_a_long_lost_tail_after_the_long_timeout() {
    let mut run = fat_tree("irn");
    run.transport.set("rto_high", Time::from_us(320)).unwrap();
    let output = outcome_with_losses(&run, &[flow(0, 0, 9, 10 * 1_024)], &[(0, &[6, 7, 8, 9])]);
    let record = &output.flows.get(0).unwrap();
    // Time at which the ACK of packet 5 is back.
    let progress = 5 * IRN + 6 * (IRN + D) + 6 * (17_200 + D);
    // After the timeout, the sender retransmits packet 6. The ACK of packet 6 shows progress that does not reach the
    // recovery sequence number, so the sender retransmits packet 7, and so on. Each of these retransmissions takes one
    // round trip.
    let round_trip = 6 * (IRN + D) + 6 * (17_200 + D);
    assert_eq!(fct(record), progress + 320_000_000 + 3 * round_trip + 6 * (IRN + D));
    assert_eq!((record.retransmitted, record.timeouts), (4, 1));
}

#[test]
fn a_lost_ack_costs_nothing_when_a_later_one_arrives() {
    // h9 sends only ACKs. The first three of them are lost.
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
    // The receiver acknowledges the duplicate, and then the sender is done.
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
