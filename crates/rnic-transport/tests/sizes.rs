//! Checks the sizes of frames on the wire, and the size of a flow's state.

use rnic_transport::congestion::{Aimd, Cubic, Dcqcn, Dctcp, NoCongestionControl, PatchedTimely, Swift, Timely};
use rnic_transport::recovery::{GoBackN, Irn, Tcp};
use rnic_transport::{FlowConfig, Pdu, Receiver, RxOutcome, Sender, Time, TxDesc, headers};

/// The frame sizes are the sums of the header fields in the InfiniBand, RoCEv2, TCP and iWARP formats.
#[test]
fn frames_add_up() {
    let ethernet = 6 + 6 + 2; // destination, source, type
    let ipv4 = 1 + 1 + 2 + 2 + 2 + 1 + 1 + 2 + 4 + 4;
    let udp = 2 + 2 + 2 + 2;
    let bth = 1 + 1 + 2 + 1 + 3 + 1 + 3; // opcode, flags, P_Key, reserved, queue pair, ack request, PSN
    let (icrc, frame_check) = (4, 4);
    let aeth = 1 + 3; // syndrome, MSN
    let reth = 8 + 4 + 4; // address, key, length
    let data = ethernet + ipv4 + udp + bth + icrc + frame_check;
    assert_eq!(headers::ROCE_DATA, data);
    assert_eq!(headers::ROCE_DATA, 62);
    assert_eq!(headers::IRN_DATA, data + reth);
    assert_eq!(headers::ROCE_ACK, data + aeth);
    assert_eq!(headers::IRN_NACK, data + aeth + 1 + 3); // reserved, triggering PSN
    let tcp = 2 + 2 + 4 + 4 + 2 + 2 + 2 + 2; // ports, numbers, offset and flags, window, checksum, urgent pointer
    let timestamps = 2 + (1 + 1 + 4 + 4); // padding, kind, length, value, echo
    let sack = 2 + (1 + 1 + 4 + 4); // padding, kind, length, edges of one block
    let mpa = 2 + 4; // length, CRC
    let ddp = 1 + 1 + 4 + 8; // control, RDMAP control, steering tag, tagged offset
    let ack = ethernet + ipv4 + tcp + timestamps + frame_check;
    assert_eq!(headers::IWARP_ACK, ack);
    assert_eq!(headers::IWARP_SACK, ack + sack);
    assert_eq!(headers::IWARP_DATA, ack + mpa + ddp);
    assert_eq!(headers::IWARP_DATA, 90);
    assert_eq!(headers::FRAME_GAP, 7 + 1 + 12); // preamble, start of frame, gap
    assert_eq!(FlowConfig::default().header, headers::ROCE_DATA);
}

/// The last packet of a flow carries the remaining bytes. An empty flow consists of one empty packet.
#[test]
fn flows_split_into_packets() {
    let cfg = FlowConfig::default();
    for (bytes, packets, last) in
        [(1, 1, 1), (1_023, 1, 1_023), (1_024, 1, 1_024), (1_025, 2, 1), (2_048, 2, 1_024), (4_000, 4, 928), (0, 1, 0)]
    {
        assert_eq!(cfg.packets(bytes), packets);
        let mut sender = Sender::<Irn, NoCongestionControl>::new(&cfg, &(), bytes, Time::ZERO);
        let mut payloads = Vec::new();
        while let Some(tx) = sender.poll_transmit(&cfg, &(), Time::ZERO) {
            assert_eq!(tx.pdu.is_last(), payloads.len() as u64 + 1 == packets);
            payloads.push(tx.payload);
        }
        assert_eq!(payloads.len() as u64, packets);
        assert_eq!(payloads.last(), Some(&last));
        assert_eq!(payloads.iter().map(|p| u64::from(*p)).sum::<u64>(), bytes);
    }
}

/// The size of a flow's state, with a congestion control without state. The IRN paper argues that it is small. If a
/// bound fails, check whether the growth is justified.
#[test]
fn state_stays_small() {
    assert_eq!(size_of::<Pdu>(), 12);
    assert!(size_of::<TxDesc>() <= 20, "{}", size_of::<TxDesc>());
    assert!(size_of::<RxOutcome>() <= 20, "{}", size_of::<RxOutcome>());
    let sizes = [
        ("IRN sender", size_of::<Sender<Irn, NoCongestionControl>>(), 104),
        ("IRN receiver", size_of::<Receiver<Irn>>(), 56),
        ("go-back-N sender", size_of::<Sender<GoBackN, NoCongestionControl>>(), 72),
        // 16 bytes of them for go-back-0, whose receiver begins again.
        ("go-back-N receiver", size_of::<Receiver<GoBackN>>(), 48),
        ("TCP sender", size_of::<Sender<Tcp, NoCongestionControl>>(), 136),
        ("TCP receiver", size_of::<Receiver<Tcp>>(), 72),
        ("no congestion control", size_of::<NoCongestionControl>(), 0),
        // 48 bytes for the paper's algorithm, and 8 for the intervals in which ConnectX NICs reduce rates.
        ("DCQCN", size_of::<Dcqcn>(), 56),
        ("TIMELY", size_of::<Timely>(), 40),
        ("patched TIMELY", size_of::<PatchedTimely>(), 40),
        ("DCTCP", size_of::<Dctcp>(), 40),
        ("AIMD", size_of::<Aimd>(), 16),
        ("CUBIC", size_of::<Cubic>(), 56),
        ("Swift", size_of::<Swift>(), 48),
    ];
    for (what, size, bound) in sizes {
        println!("{what}: {size} bytes");
        assert!(size <= bound, "{what} grew to {size} bytes, more than {bound}");
    }
}
