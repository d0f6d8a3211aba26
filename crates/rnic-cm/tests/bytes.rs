//! The bytes of the messages are compared with bytes computed by hand, with messages of Linux, and with what tshark
//! decodes.

use rnic_cm::ip::{self, IpHeader};
use rnic_cm::message::{About, MadBytes, Path, Reject, Reply, Request, ServiceReply, private};
use rnic_cm::{Message, Parsed, packet};
use rnic_wire::pcapng::Writer;
use rnic_wire::{Envelope, Ip, Ipv4, MacAddr, Packet};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn request() -> Request {
    let mut private = [0; private::REQUEST];
    IpHeader { source: SocketAddr::new(address(A), 0xb0cd), destination: address(B) }.emit(&mut private);
    private[ip::LEN..ip::LEN + 5].copy_from_slice(b"hello");
    Request {
        local_id: 0x0102_0304,
        service: ip::service(0x0106, 7_174),
        ca_guid: 0x1122_3344_5566_7788,
        qkey: 0,
        qpn: 0xabcdef,
        responder_resources: 5,
        initiator_depth: 6,
        remote_response_timeout: 17,
        transport: 1,
        flow_control: true,
        psn: 0x654321,
        local_response_timeout: 18,
        retry_count: 7,
        pkey: 0xffff,
        mtu: 3,
        rnr_retry_count: 6,
        max_cm_retries: 15,
        srq: true,
        path: Path {
            lids: [0xffff; 2],
            local_gid: ip::gid(address(A)),
            remote_gid: ip::gid(address(B)),
            flow_label: 0x12345,
            rate: 7,
            traffic_class: 0x68,
            hop_limit: 64,
            service_level: 3,
            subnet_local: false,
            ack_timeout: 19,
        },
        private,
    }
}

fn reply() -> Reply {
    Reply {
        local_id: 0x0a0b_0c0d,
        remote_id: 0x0102_0304,
        qkey: 0,
        qpn: 0x123456,
        psn: 0x00ff00,
        responder_resources: 6,
        initiator_depth: 5,
        ack_delay: 15,
        flow_control: true,
        rnr_retry_count: 7,
        srq: true,
        ca_guid: 0x0807_0605_0403_0201,
        private: [9; private::REPLY],
    }
}

fn mad(message: Message) -> MadBytes {
    Parsed { transaction: 0x0000_0002_0102_0304, message }.emit()
}

/// The offsets of tables 102 and 108 of the specification, each plus 24 bytes: the tables begin 24 bytes after the
/// start of the MAD.
#[test]
fn a_request_and_a_reply_by_hand() {
    let bytes = mad(Message::Request(request()));
    let expect = |from: usize, expected: &[u8]| assert_eq!(&bytes[from..from + expected.len()], expected, "{from}");
    expect(0, &[1, 7, 2, 3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 3, 4, 0, 0x10, 0, 0, 0, 0, 0, 0]);
    expect(24, &[1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0x1c, 0x06]);
    expect(24 + 16, &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect(24 + 32, &[0xab, 0xcd, 0xef, 5, 0, 0, 0, 6, 0, 0, 0, 17 << 3 | 1 << 1 | 1]);
    expect(24 + 44, &[0x65, 0x43, 0x21, 18 << 3 | 7, 0xff, 0xff, 3 << 4 | 6, 15 << 4 | 8, 0xff, 0xff, 0xff, 0xff]);
    expect(24 + 56, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
    expect(24 + 72, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2]);
    expect(24 + 88, &[0x12, 0x34, 0x50, 7, 0x68, 64, 3 << 4, 19 << 3]);
    expect(24 + 96, &[0; 44]);
    // Version 0, IPv4, the port, and addresses in the last four bytes of 16.
    expect(24 + 140, &[0, 0x40, 0xb0, 0xcd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    expect(24 + 160, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    expect(24 + 176, b"hello\0");
    let bytes = mad(Message::Reply(reply()));
    let expect = |from: usize, expected: &[u8]| assert_eq!(&bytes[from..from + expected.len()], expected, "{from}");
    expect(16, &[0, 0x13]);
    expect(24, &[10, 11, 12, 13, 1, 2, 3, 4, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0, 0, 0, 0, 0, 0xff, 0, 0]);
    expect(48, &[6, 5, 15 << 3 | 1, 7 << 5 | 1 << 4, 8, 7, 6, 5, 4, 3, 2, 1, 9, 9]);
    assert_eq!(bytes[255], 9);
}

#[test]
fn the_other_messages_by_hand() {
    let reject = Reject {
        local_id: 1,
        remote_id: 2,
        about: About::Reply,
        reason: 28,
        info_len: 8,
        info: [3; 72],
        private: [4; private::REJECT],
    };
    let bytes = mad(Message::Reject(reject));
    assert_eq!(bytes[17], 0x12);
    assert_eq!(bytes[24..24 + 14], [0, 0, 0, 1, 0, 0, 0, 2, 1 << 6, 8 << 1, 0, 28, 3, 3]);
    assert_eq!(bytes[24 + 83..24 + 86], [3, 4, 4]);
    let (local_id, remote_id) = (1, 2);
    let bytes = mad(Message::Mra { local_id, remote_id, about: About::Request, service_timeout: 24 });
    assert_eq!((bytes[17], &bytes[32..35]), (0x11, &[0, 24 << 3, 0][..]));
    let private = [5; private::DISCONNECT];
    let bytes = mad(Message::Disconnect { local_id, remote_id, remote_qpn: 0x010203, private });
    assert_eq!((bytes[17], &bytes[32..37]), (0x15, &[1, 2, 3, 0, 5][..]));
    let bytes = mad(Message::ReadyToUse { local_id, remote_id, private: [6; private::READY] });
    assert_eq!((bytes[17], &bytes[24..33]), (0x14, &[0, 0, 0, 1, 0, 0, 0, 2, 6][..]));
    let bytes = mad(Message::Disconnected { local_id, remote_id, private: [6; private::READY] });
    assert_eq!((bytes[17], bytes[32]), (0x16, 6));
    let private = [7; private::SERVICE_REQUEST];
    let (request_id, service) = (9, ip::service(0x0111, 80));
    let bytes = mad(Message::ServiceRequest { request_id, pkey: 0xffff, service, private });
    assert_eq!(bytes[17], 0x17);
    assert_eq!(bytes[24..41], [0, 0, 0, 9, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 1, 0x11, 0, 80, 7]);
    let private = [8; private::SERVICE_REPLY];
    let reply = ServiceReply { request_id, status: 2, qpn: 0x040506, service, qkey: 0x0123_4567, private };
    let bytes = mad(Message::ServiceReply(reply));
    assert_eq!(bytes[17], 0x18);
    let start = [0, 0, 0, 9, 2, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 1, 0x11, 0, 80, 1, 0x23, 0x45, 0x67, 0];
    assert_eq!(bytes[24..49], start);
    assert_eq!(bytes[24 + 95..24 + 97], [0, 8]);
}

#[test]
fn messages_are_read_as_they_were_written() {
    let (local_id, remote_id) = (1, 2);
    for message in [
        Message::Request(request()),
        Message::Reply(reply()),
        Message::Mra { local_id, remote_id, about: About::Reply, service_timeout: 31 },
        Message::ReadyToUse { local_id, remote_id, private: [1; private::READY] },
        Message::Disconnect { local_id, remote_id, remote_qpn: 0xffffff, private: [2; private::DISCONNECT] },
        Message::Disconnected { local_id, remote_id, private: [3; private::READY] },
    ] {
        let parsed = Parsed { transaction: 77, message };
        assert_eq!(Parsed::parse(&parsed.emit()), Some(parsed));
    }
    let mut other = mad(Message::Request(request()));
    for (at, value) in [(0, 2), (1, 3), (2, 1), (3, 0x81), (17, 0x19), (17, 0x0f)] {
        let before = std::mem::replace(&mut other[at], value);
        assert_eq!(Parsed::parse(&other), None, "byte {at}");
        other[at] = before;
    }
    assert!(Parsed::parse(&other).is_some());
}

/// The messages of Linux's `rdma_cm` are decoded completely: encoding the decoded messages gives the same bytes.
#[test]
fn messages_of_linux_are_understood() {
    let mut seen = Vec::new();
    for line in include_str!("linux.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, source, port, destination, payload] = fields[..] else { panic!("{line}") };
        let packet: Vec<u8> =
            (0..payload.len()).step_by(2).map(|at| u8::from_str_radix(&payload[at..at + 2], 16).unwrap()).collect();
        let source = SocketAddr::new(address(source), port.parse().unwrap());
        let mad = packet::parse(&packet, source, address(destination)).expect("a packet with a right ICRC");
        assert!(packet::parse(&packet, source, address("10.77.0.9")).is_none(), "the ICRC covers the addresses");
        let parsed = Parsed::parse(&mad).unwrap();
        if let Message::Request(request) = &parsed.message {
            let header = IpHeader::parse(&request.private).unwrap();
            assert_eq!(
                (header.source, header.destination),
                (SocketAddr::new(source.ip(), 0xb0cd), address(destination))
            );
            assert_eq!((ip::port(request.service), request.mtu, request.path.ack_timeout), (0x1c06, 3, 0x13));
            assert_eq!(request.path.local_gid, ip::gid(source.ip()));
            assert_eq!(ip::address(request.path.remote_gid), address(destination));
        }
        assert_eq!(parsed.emit(), mad, "{name}");
        seen.push(name);
    }
    assert_eq!(seen, ["REQ", "REP", "RTU", "DREQ", "DREP"]);
}

#[test]
fn only_mads_to_queue_pair_1_are_taken() {
    let source = SocketAddr::new(address(A), 50_000);
    let mad = mad(Message::Request(request()));
    let good = packet::emit(&mad, 7, source, address(B)).unwrap();
    assert_eq!(packet::parse(&good, source, address(B)), Some(mad));
    assert!(packet::emit(&mad, 7, source, address("fd00::1")).is_none());
    let v6 = SocketAddr::new(address("fd00::1"), 50_000);
    let over_v6 = packet::emit(&mad, 7, v6, address("fd00::2")).unwrap();
    assert_eq!(packet::parse(&over_v6, v6, address("fd00::2")), Some(mad));
    assert!(packet::parse(&good[..packet::LEN - 4], source, address(B)).is_none());
    // A bit anywhere: opcode, partition, destination, Q_Key, MAD, ICRC. Bytes 4 and 8 have bits that are not checked.
    for at in (0..packet::LEN).filter(|at| ![4, 8].contains(at)) {
        let mut bad = good;
        bad[at] ^= 0x10;
        assert!(packet::parse(&bad, source, address(B)).is_none(), "byte {at}");
    }
}

/// tshark, an independent decoder of these messages, decodes the encoded bytes. For the flow label and the packet rate,
/// tshark does not read the bits that the specification defines: it reads three bytes as if they were four, and it
/// reads the first byte.
#[test]
fn tshark_reads_the_messages() {
    let reject = Reject {
        local_id: 1,
        remote_id: 2,
        about: About::Request,
        reason: 28,
        info_len: 0,
        info: [0; 72],
        private: [0; private::REJECT],
    };
    let messages = [Message::Request(request()), Message::Reply(reply()), Message::Reject(reject)];
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::new(file.reopen().unwrap(), &["rnic"]).unwrap();
    let (IpAddr::V4(from), IpAddr::V4(to)) = (address(A), address(B)) else { unreachable!() };
    for message in messages {
        let source = SocketAddr::new(address(A), 50_000);
        let bytes = packet::emit(&mad(message), 7, source, address(B)).unwrap();
        let packet = Packet::parse(&bytes).unwrap();
        let envelope =
            Envelope::new(MacAddr::default(), MacAddr::default(), Ip::V4(Ipv4::new(from, to)), source.port());
        let mut frame = [0; 512];
        let len = envelope.emit(&packet, &mut frame);
        writer.frame(0, 0, &frame[..len]).unwrap();
    }
    writer.finish().unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-r"]).arg(file.path()).args(["-V"]);
    let output = match tshark.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: tshark cannot be run: {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "CM ConnectRequest",
        "Local Communication ID: 0x01020304",
        "Destination Port: 0x1c06",
        "Local CA GUID: 0x1122334455667788",
        "Local QPN: 0xabcdef",
        "Responder Resources: 0x05",
        "Initiator Depth: 0x06",
        "Remote CM Response Timeout: 0x11",
        "Transport Service Type: 0x1",
        "End-to-End Flow Control: 0x1",
        "Starting PSN: 0x654321",
        "Local CM Response Timeout: 0x12",
        "Retry Count: 0x7",
        "Path Packet Payload MTU: 0x3",
        "RNR Retry Count: 0x6",
        "Max CM Retries: 0xf",
        "SRQ: 0x1",
        "Primary Local Port GID: 10.0.0.1",
        "Primary Traffic Class: 0x68",
        "Primary SL: 0x3",
        "Primary Local ACK Timeout: 0x13",
        "IP CM Source Port: 0xb0cd",
        "IP CM Source IP: 10.0.0.1",
        "IP CM Destination IP: 10.0.0.2",
        "CM ConnectReply",
        "Remote Communication ID: 0x01020304",
        "Local QPN: 0x123456",
        "Starting PSN: 0x00ff00",
        "Target ACK Delay: 0x0f",
        "RNR Retry Count: 0x7",
        "CM ConnectReject",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
