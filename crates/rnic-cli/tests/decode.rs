//! Tests of `rnic decode` on captures of every kind.

use rnic_wire::pcapng::Writer;
use rnic_wire::{
    Aeth, Bth, Credits, Envelope, Ethernet, Headers, ImmDt, Ip, Ipv4, Ipv6, MacAddr, NakCode, Opcode, Packet, Pfc,
    ProtectedHeader, ReadEth, RecvEth, Reth, SackEth, SendEth, Syndrome, Vlan,
};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A CNP that was captured from a ConnectX-4 Lx. The frame is part of the tests of scapy 2.8.
const CNP: &str = "e41d2dab2bc2 7cfe90643b32 0800 45c2003c718c400040119161 0a0011010a001201 0000 12b7 0028 0000
    8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a";

/// A RoCEv1 packet, assembled by hand. Its ICRC was computed with Python's `zlib.crc32` over 8 bytes of ones, the
/// masked GRH, and the rest of the packet.
const V1: &str = "02000000000b 02000000000a 8915 60000000 0018 1b 40 fe800000000000000000000000000001
    fe800000000000000000000000000002 0430ffff 00000011 80abcdef 68656c6c6f 000000 ba5ad7c0";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn envelope() -> Envelope {
    let ip = Ip::V4(Ipv4 { id: 7, ..Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) });
    Envelope::new(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), ip, 49152)
}

fn frame(envelope: &Envelope, headers: Headers, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 200 + payload.len()];
    let len = envelope.emit(&Packet::new(headers, payload), &mut bytes);
    bytes.truncate(len);
    bytes
}

fn write() -> Headers {
    let bth = Bth { ack_request: true, ..Bth::new(Opcode::RC_WRITE_ONLY, 0x11, 5) };
    Headers { reth: Some(Reth { va: 0x1000, rkey: 0x22, dma_len: 5 }), ..Headers::new(bth) }
}

/// A pcapng file that contains the given frames, 1 us apart.
fn pcapng(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &["test"]).unwrap();
    for (number, bytes) in (0..).zip(frames) {
        writer.frame(0, 1_700_000_000_000_000_000 + 1_000 * number, bytes).unwrap();
    }
    writer.finish().unwrap()
}

/// A file in the older pcap format. `magic` defines the byte order and the unit of time; `records` are (captured bytes,
/// length of the frame).
fn pcap(big_endian: bool, magic: u32, link: u32, records: &[(&[u8], usize)]) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file: Vec<u8> = [word(magic), [half(2), half(4)].concat().try_into().unwrap()].concat();
    file.extend([0, 0, 65_535, link].map(word).concat());
    for (second, (bytes, len)) in (100..).zip(records) {
        file.extend([second, 250, bytes.len() as u32, *len as u32].map(word).concat());
        file.extend(*bytes);
    }
    file
}

fn decode_file(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.arg("decode").arg(file).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs `rnic decode` on a file with these bytes; returns standard output, standard error and exit code.
fn decode(bytes: &[u8], arguments: &[&str]) -> (String, String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    fs::write(&file, bytes).unwrap();
    let output = decode_file(&file, arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&file.display().to_string(), "FILE");
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

fn json(bytes: &[u8]) -> Vec<Value> {
    let (out, _, _) = decode(bytes, &["--format", "json"]);
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_for_each_packet() {
    let of = |opcode, psn| Headers::new(Bth::new(opcode, 0x12, psn));
    let ce =
        Envelope { ip: Ip::V4(Ipv4 { tos: 3, ..Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()) }), ..envelope() };
    let v6 = Ip::V6(Ipv6::new("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()));
    let frames = [
        frame(&envelope(), write(), b"hello"),
        frame(&ce, of(Opcode::RC_SEND_MIDDLE, 6), &[0; 1024]),
        frame(
            &Envelope { ip: v6, ..envelope() },
            Headers {
                aeth: Some(Aeth { syndrome: Syndrome::Nak(NakCode::PsnSequenceError), msn: 3 }),
                sack: Some(SackEth { psn: 9, before: 2 }),
                ..of(Opcode::IRN_ACKNOWLEDGE, 7)
            },
            &[],
        ),
        frame(
            &envelope(),
            Headers {
                aeth: Some(Aeth { syndrome: Syndrome::Ack { credits: Credits::at_most(4) }, msn: 3 }),
                ..of(Opcode::RC_ACKNOWLEDGE, 7)
            },
            &[],
        ),
        frame(
            &envelope(),
            Headers {
                send: Some(SendEth { recv_wqe_sn: 4, offset: 4096 }),
                imm: Some(ImmDt(0xab)),
                ..of(Opcode::IRN_SEND_LAST_IMM, 8)
            },
            b"x",
        ),
        frame(
            &envelope(),
            Headers {
                reth: Some(Reth { va: 0x2000, rkey: 1, dma_len: 0 }),
                imm: Some(ImmDt(1)),
                recv: Some(RecvEth { recv_wqe_sn: 5 }),
                ..of(Opcode::IRN_WRITE_ONLY_IMM, 9)
            },
            &[],
        ),
        frame(
            &envelope(),
            Headers {
                reth: Some(Reth { va: 0x2000, rkey: 1, dma_len: 64 }),
                read: Some(ReadEth { read_wqe_sn: 6 }),
                ..of(Opcode::IRN_READ_REQUEST, 10)
            },
            &[],
        ),
        hex(CNP),
        hex(V1),
        Pfc { enabled: 0b11, quanta: [0xffff, 0, 0, 0, 0, 0, 0, 0] }.emit(MacAddr([2, 0, 0, 0, 0, 9])).to_vec(),
    ];
    let expected = "    \
    1  0.000000000  10.0.0.1 > 10.0.0.2  RC RDMA WRITE Only  qp 0x11 psn 5 ack-req  va 0x1000 rkey 0x22 dma_len 5  len 5  icrc ok
    2  0.000001000  10.0.0.1 > 10.0.0.2  RC SEND Middle  qp 0x12 psn 6  ecn CE  len 1024  icrc ok
    3  0.000002000  fd00::1 > fd00::2  IRN Acknowledge  qp 0x12 psn 7  NAK, PSN sequence error msn 3  arrived 9 and 2 before  len 0  icrc ok
    4  0.000003000  10.0.0.1 > 10.0.0.2  RC Acknowledge  qp 0x12 psn 7  ACK, 4 credits msn 3  len 0  icrc ok
    5  0.000004000  10.0.0.1 > 10.0.0.2  IRN SEND Last with Immediate  qp 0x12 psn 8  recv 4 offset 4096  imm 0xab  len 1  icrc ok
    6  0.000005000  10.0.0.1 > 10.0.0.2  IRN RDMA WRITE Only with Immediate  qp 0x12 psn 9  va 0x2000 rkey 0x1 dma_len 0  imm 0x1  recv 5  len 0  icrc ok
    7  0.000006000  10.0.0.1 > 10.0.0.2  IRN RDMA READ Request  qp 0x12 psn 10  va 0x2000 rkey 0x1 dma_len 64  read 6  len 0  icrc ok
    8  0.000007000  10.0.17.1 > 10.0.18.1  CNP  qp 0x118 psn 0  len 16  icrc ok
    9  0.000008000  fe80::1 > fe80::2  RoCEv1 RC SEND Only  qp 0x11 psn 11259375 ack-req  len 5  icrc ok
   10  0.000009000  02:00:00:00:00:09  PFC  priority 0 pause 65535  priority 1 resume
";
    let (out, err, code) = decode(&pcapng(&frames), &[]);
    assert_eq!(out, expected);
    assert_eq!((err.as_str(), code), ("RoCE packets: 9; bad: 0; PFC frames: 1\n", 0));
}

#[test]
fn every_field_on_request() {
    let vlans = [Some(Vlan(0x6064)), Some(Vlan(0x0005))];
    let envelope = Envelope { ethernet: Ethernet { vlans, ..envelope().ethernet }, ..envelope() };
    let file = pcapng(&[frame(&envelope, write(), b"hello")]);
    let expected = "       \
       ethernet      source 02:00:00:00:00:01, destination 02:00:00:00:00:02
       vlan          id 100, priority 3, dei 0
       inner_vlan    id 5, priority 0, dei 0
       ip            source 10.0.0.1, destination 10.0.0.2, dscp 0, ecn not-ECT, id 7, dont_fragment 1, ttl 64
       udp           source_port 49152, destination_port 4791, checksum 0x0000
       bth           opcode 0x0a, name RC RDMA WRITE Only, solicited 0, migrated 1, pad 3, pkey 0xffff, fecn 0, becn 0, dest_qp 0x000011, ack_request 1, psn 5
       reth          va 0x0000000000001000, rkey 0x00000022, dma_len 5
";
    let (out, _, code) = decode(&file, &["--fields"]);
    assert_eq!((out.split_once('\n').unwrap().1, code), (expected, 0));
    let document = &json(&file)[0];
    assert_eq!((&document["frame"], &document["kind"], &document["bad"]), (&1.into(), &"RoCEv2".into(), &Value::Null));
    assert_eq!(document["time"], "1700000000.000000000");
    assert_eq!((&document["interface"], &document["frame_bytes"]), (&"test".into(), &90.into()));
    assert_eq!((&document["vlan"]["id"], &document["inner_vlan"]["id"]), (&100.into(), &5.into()));
    assert_eq!((&document["bth"]["psn"], &document["bth"]["ack_request"]), (&5.into(), &true.into()));
    assert_eq!((&document["reth"]["va"], &document["payload_bytes"]), (&"0x0000000000001000".into(), &5.into()));
    assert_eq!((&document["icrc"]["ok"], &document["missing_bytes"]), (&true.into(), &0.into()));
}

#[test]
fn a_bad_packet_is_said_and_told_by_the_exit_code() {
    let good = frame(&envelope(), write(), b"hello");
    let mut damaged = good.clone();
    damaged[72] ^= 1;
    let mut forbidden = good.clone();
    forbidden[42] = 0x15;
    let mut short = good.clone();
    short.truncate(60);
    let mut malformed = good.clone();
    malformed[39] = 3;
    let (out, err, code) = decode(&pcapng(&[good, damaged, forbidden, short, malformed]), &[]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].ends_with("icrc ok"), "{out}");
    let (head, tail) = lines[1].split_once("  icrc BAD  BAD: the ICRC is 0x").unwrap();
    assert!(head.ends_with("len 5") && tail.contains(", computed 0x"), "{out}");
    // An opcode that rnic does not know is not bad: another program may use it.
    assert!(
        lines[2].ends_with(
            "RC opcode 0x15  qp 0x11 psn 5  (opcode 0x15 is not a supported opcode of RC, UC, UD, CNP or IRN)  icrc BAD"
        ),
        "{out}"
    );
    assert!(lines[3].ends_with("icrc ?  BAD: the frame is 22 B shorter than its headers say"), "{out}");
    assert!(lines[4].ends_with("BAD: the UDP length is inconsistent with the length in the IP header"), "{out}");
    assert_eq!(err, "RoCE packets: 5; bad: 3\nerror: 3 packets of `FILE` are bad\n");
    assert_eq!(code, 1);
}

/// Packets of other programs are shown with their base transport header, and are neither marked as bad nor decoded as
/// IRN packets.
#[test]
fn packets_of_others_are_shown_and_not_claimed() {
    let with_opcode = |code: u8| {
        let mut bytes = frame(&envelope(), write(), b"hello");
        bytes[42] = code;
        bytes
    };
    // An XRC opcode, a manufacturer's opcode without a meaning for rnic, and one that is IRN's "Write Only", but whose
    // key does not fit: the DMA length of the first packet is right.
    let mut other_length = with_opcode(0xca);
    other_length[69] = 9;
    let (out, err, code) =
        decode(&pcapng(&[with_opcode(0xa4), with_opcode(0xff), with_opcode(0xca), other_length]), &[]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("  XRC opcode 0xa4  qp 0x11 psn 5  (opcode 0xa4"), "{out}");
    assert!(lines[1].contains("  manufacturer's opcode 0xff  qp 0x11 psn 5  (opcode 0xff"), "{out}");
    assert!(lines[2].contains("IRN RDMA WRITE Only"), "{out}");
    assert!(lines[3].contains("  manufacturer's opcode 0xca  qp 0x11 psn 5  (not a packet of rnic)"), "{out}");
    assert_eq!(err.lines().next(), Some("RoCE packets: 4; bad: 1"), "{err}");
    assert_eq!(code, 1, "the ICRC of the IRN packet is wrong");
    let (out, _, code) = decode(&pcapng(&[with_opcode(0xa4)]), &["--format", "json"]);
    let packet: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&packet["bth"]["dest_qp"], &packet["bad"]), (&Value::from("0x000011"), &Value::Null));
    assert_eq!((&packet["bth"]["name"], code), (&Value::from("XRC opcode 0xa4"), 0));
}

/// IPv6 extension headers, BSD loopback, and the checksums of IPv4 and UDP.
#[test]
fn other_ways_around_a_packet() {
    let v4 = frame(&envelope(), write(), b"hello");
    // BSD loopback: the family of IPv4 in the byte order of a little-endian host, or of the network.
    for (link, family) in [(0, [2, 0, 0, 0]), (0, [0, 0, 0, 2]), (108, [0, 0, 0, 2])] {
        let bytes = [&family[..], &v4[14..]].concat();
        let (out, _, code) = decode(&pcap(false, 0xa1b2_c3d4, link, &[(&bytes, bytes.len())]), &[]);
        assert!(out.contains("RC RDMA WRITE Only") && code == 0, "{out}");
    }
    // IPv6 with a hop-by-hop and a destination header. The specification defines no ICRC for such a packet.
    let ip = Ip::V6(Ipv6::new("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()));
    let mut v6 = frame(&Envelope { ip, ..envelope() }, write(), b"hello");
    v6[20] = 0;
    v6[19] += 24;
    let extensions = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[17, 1, 1, 12][..], &[0; 12][..]].concat();
    v6.splice(54..54, extensions);
    let (out, err, code) = decode(&pcapng(&[v6.clone()]), &[]);
    assert!(out.contains("RC RDMA WRITE Only") && out.contains("icrc ?"), "{out} {err}");
    assert_eq!(code, 0);
    // A header that announces more bytes than there are.
    v6[55] = 255;
    let (out, _, code) = decode(&pcapng(&[v6]), &[]);
    assert!(out.contains("BAD: the frame ends inside an IPv6 extension header") && code == 1, "{out}");
    // The checksums are right, wrong, and not looked at unless asked.
    let checked = frame(&Envelope { udp_checksum: true, ..envelope() }, write(), b"hello");
    let arguments: &[&str] = &["--checksums"];
    assert_eq!(decode(&pcapng(&[checked.clone(), v4]), arguments).2, 0);
    for (at, name) in [(24, "IPv4 header"), (40, "UDP")] {
        let mut wrong = checked.clone();
        wrong[at] ^= 1;
        let (out, _, code) = decode(&pcapng(&[wrong.clone()]), arguments);
        assert!(out.contains(&format!("BAD: the {name} checksum is 0x")) && code == 1, "{out}");
        assert_eq!(decode(&pcapng(&[wrong]), &[]).2, 0);
    }
}

#[test]
fn json_tells_why() {
    let mut damaged = frame(&envelope(), write(), b"hello");
    damaged[72] ^= 1;
    let mut malformed = damaged.clone();
    malformed[39] = 3;
    let documents = json(&pcapng(&[damaged, malformed, Pfc::of(3, 9).emit(MacAddr::default()).to_vec()]));
    let icrc = &documents[0]["icrc"];
    assert_eq!(icrc["ok"], false);
    assert_ne!(icrc["found"], icrc["computed"]);
    assert!(documents[0]["bad"].as_str().unwrap().starts_with("the ICRC is"));
    assert_eq!((&documents[1]["kind"], &documents[1]["frame"]), (&"malformed".into(), &2.into()));
    assert_eq!(documents[1]["bad"], "the UDP length is inconsistent with the length in the IP header");
    assert_eq!((&documents[2]["kind"], &documents[2]["bad"]), (&"PFC".into(), &Value::Null));
    assert_eq!(documents[2]["pfc"]["quanta"], "0 0 0 9 0 0 0 0");
}

#[test]
fn packets_that_the_capture_cut_off_are_not_bad() {
    let whole = frame(&envelope(), write(), b"hello");
    let file =
        pcap(false, 0xa1b2_c3d4, 1, &[(&whole[..70], whole.len()), (&whole[..60], whole.len()), (&whole[..30], 82)]);
    let (out, err, code) = decode(&file, &[]);
    let expected = "    \
    1  0.000000000  10.0.0.1 > 10.0.0.2  RC RDMA WRITE Only  qp 0x11 psn 5 ack-req  va 0x1000 rkey 0x22 dma_len 5  len 5  icrc ?  truncated: 70 of 82 B captured
    2  1.000000000  10.0.0.1 > 10.0.0.2  RC RDMA WRITE Only  icrc ?  truncated: 60 of 82 B captured
";
    assert_eq!(out, expected);
    assert_eq!(
        err,
        "RoCE packets: 2; bad: 0; truncated by the capture: 2; other frames: 1 (1 truncated by the capture)\n"
    );
    assert_eq!(code, 0);
    assert_eq!(json(&file)[0]["missing_bytes"], 12);
}

/// On one host only one end can have port 4791. Packets to another port are recognised by their ICRC, also in a batch.
#[test]
fn roce_on_other_ports_is_decoded() {
    let to = |port: u16| Envelope { destination_port: port, ..envelope() };
    let good = frame(&to(4792), write(), b"hello");
    let mut damaged = good.clone();
    damaged[72] ^= 1;
    let mut foreign = frame(&to(53), write(), b"hello");
    foreign[72] ^= 1;
    let (out, err, code) = decode(&pcapng(&[damaged.clone(), good.clone(), damaged.clone(), foreign]), &[]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.lines().next().unwrap().contains("2  0.000001000") && out.contains("icrc ok"), "{out}");
    assert!(err.starts_with("RoCE packets: 2; bad: 1; other frames: 2 (2 UDP to another port)\n"), "{err}");
    assert_eq!(code, 1, "the damaged packet after the good one is bad");
    let documents = json(&pcapng(std::slice::from_ref(&good)));
    assert_eq!(documents[0]["udp"]["destination_port"], 4792);
    // A malformed datagram to another port is not bad.
    let mut malformed = good.clone();
    malformed[39] = 3;
    let (_, err, code) = decode(&pcapng(&[malformed]), &[]);
    assert_eq!((err.as_str(), code), ("RoCE packets: 0; bad: 0; other frames: 1 (1 UDP to another port)\n", 0));
    // With --port every packet to the port is decoded, also one that the capture cut off at 64 bytes.
    let file = pcap(false, 0xa1b2_c3d4, 1, &[(&good[..64], good.len())]);
    let (_, err, _) = decode(&file, &[]);
    assert_eq!(err, "RoCE packets: 0; bad: 0; other frames: 1 (1 UDP to another port)\n");
    let (out, err, code) = decode(&file, &["--port", "4792"]);
    assert_eq!((err.as_str(), code), ("RoCE packets: 1; bad: 0; truncated by the capture: 1\n", 0));
    assert!(out.contains("RC RDMA WRITE Only") && out.contains("truncated: 64 of 82 B captured"), "{out}");
}

#[test]
fn compressed_files_are_decoded() {
    let file = pcapng(&[frame(&envelope(), write(), b"hello")]);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&file).unwrap();
    let compressed = encoder.finish().unwrap();
    assert_eq!(decode(&compressed, &[]), decode(&file, &[]));
    let (_, err, code) = decode(&compressed[..compressed.len() / 2], &[]);
    assert!(code == 2 && err.contains("cannot"), "{err}");
}

/// A RoCE packet inside VXLAN is decoded with its own headers.
#[test]
fn roce_inside_vxlan_is_decoded() {
    let inner = frame(&envelope(), write(), b"hello");
    let outer = Envelope { destination_port: 4789, ..envelope() };
    let mut bytes = frame(&outer, write(), b"hello");
    bytes.truncate(42);
    let len = (8 + 8 + inner.len()) as u16;
    bytes[38..40].copy_from_slice(&len.to_be_bytes());
    bytes[16..18].copy_from_slice(&(20 + len).to_be_bytes());
    let bytes = [bytes, vec![8, 0, 0, 0, 0, 0, 7, 0], inner.clone()].concat();
    let document = json(&pcapng(std::slice::from_ref(&bytes))).remove(0);
    assert_eq!((&document["icrc"]["ok"], &document["udp"]["destination_port"]), (&true.into(), &4791.into()));
    // Cut at 64 bytes, the inner headers are missing.
    let (_, err, code) = decode(&pcap(false, 0xa1b2_c3d4, 1, &[(&bytes[..64], bytes.len())]), &[]);
    assert_eq!((err.as_str(), code), ("RoCE packets: 0; bad: 0; other frames: 1 (1 truncated by the capture)\n", 0));
}

#[test]
fn older_files_of_either_byte_order_and_both_units_of_time() {
    let whole = frame(&envelope(), write(), b"hello");
    let time = |big_endian, magic| {
        let documents = json(&pcap(big_endian, magic, 1, &[(&whole, whole.len())]));
        assert_eq!(documents[0]["icrc"]["ok"], true);
        documents[0]["time"].as_str().unwrap().to_string()
    };
    for big_endian in [false, true] {
        assert_eq!(time(big_endian, 0xa1b2_c3d4), "100.000250000");
        assert_eq!(time(big_endian, 0xa1b2_3c4d), "100.000000250");
    }
}

#[test]
fn link_types() {
    let ethernet = frame(&envelope(), write(), b"hello");
    let cooked = [&hex("0000 0001 0006 020000000001 0000 0800")[..], &ethernet[14..]].concat();
    let cooked2 = [&hex("0800 0000 00000002 0001 00 06 020000000001 0000")[..], &ethernet[14..]].concat();
    for (link, bytes) in [(1, &ethernet[..]), (113, &cooked), (276, &cooked2), (101, &ethernet[14..])] {
        let (out, err, code) = decode(&pcap(false, 0xa1b2_c3d4, link, &[(bytes, bytes.len())]), &[]);
        assert!(out.contains("RC RDMA WRITE Only") && out.ends_with("icrc ok\n"), "{link}: {out}");
        assert_eq!((err.as_str(), code), ("RoCE packets: 1; bad: 0\n", 0));
    }
    let (out, err, code) = decode(&pcap(false, 0xa1b2_c3d4, 147, &[(&ethernet, ethernet.len())]), &[]);
    assert_eq!((out.as_str(), code), ("", 0));
    assert_eq!(err, "RoCE packets: 0; bad: 0; other frames: 1 (1 link type 147)\n");
}

#[test]
fn other_frames_are_counted() {
    let mut other_port = frame(&envelope(), write(), b"hello");
    other_port[37] = 0;
    let arp = hex("ffffffffffff 020000000001 0806 0001");
    let tcp = hex("020000000002 020000000001 0800 45000028000040004006 0000 0a000001 0a000002");
    let (out, err, code) = decode(&pcapng(&[arp.clone(), other_port, tcp, arp]), &[]);
    assert_eq!((out.as_str(), code), ("", 0));
    assert_eq!(err, "RoCE packets: 0; bad: 0; other frames: 4 (2 ARP, 1 IP but not UDP, 1 UDP to another port)\n");
}

/// A datagram that the network card has not yet segmented into these packets (headers, bytes of payload).
fn batch(packets: &[(Headers, usize)]) -> Vec<u8> {
    let Ip::V4(ip) = envelope().ip else { unreachable!() };
    let mut body = Vec::new();
    for (id, (headers, len)) in (0xffff_u32..).zip(packets) {
        let envelope = Envelope { ip: Ip::V4(Ipv4 { id: id as u16, ..ip }), ..envelope() };
        body.extend_from_slice(&frame(&envelope, *headers, &vec![0x81; *len])[42..]);
    }
    let mut bytes =
        frame(&Envelope { ip: Ip::V4(Ipv4 { id: 0xffff, ..ip }), ..envelope() }, write(), &[])[..42].to_vec();
    bytes[16..18].copy_from_slice(&(28 + body.len() as u16).to_be_bytes());
    bytes[38..40].copy_from_slice(&(8 + body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The packets of such a batch have no payload, so the batch would not be valid as a single packet with their opcode. A
/// datagram with these UDP payload bytes, from the envelope's addresses.
fn datagram(payload: &[u8]) -> Vec<u8> {
    // A CNP gives the headers; its UDP payload is replaced, and the lengths and the checksums with it.
    let mut bytes = frame(&envelope(), write(), b"hello");
    let (ip, udp) = (14, 14 + 20);
    bytes.truncate(udp + 8);
    bytes.extend(payload);
    bytes[udp + 4..udp + 6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    bytes[udp + 6..udp + 8].fill(0);
    bytes[ip + 2..ip + 4].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
    bytes
}

/// A packet without ICRC, as it is inside a protected datagram, behind its length.
fn inside(headers: Headers, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 200 + payload.len()];
    let len = Packet::new(headers, payload).emit_without_icrc(&mut bytes);
    [&ProtectedHeader::length(len)[..], &bytes[..len]].concat()
}

fn protected(encrypted: bool, packet_number: u64, inside: &[Vec<u8>], len: usize) -> Vec<u8> {
    let header = ProtectedHeader { encrypted, dest_qp: 0x11, packet_number };
    let mut bytes = [&header.emit()[..], &inside.concat()].concat();
    bytes.resize(len - ProtectedHeader::TAG_LEN, 0);
    bytes.extend([0x77; ProtectedHeader::TAG_LEN]);
    bytes
}

#[test]
fn protected_packets() {
    let hello = || inside(write(), b"hello");
    let [one, two] = [vec![hello()], vec![hello(), hello()]];
    // One packet of 12 + 16 + 8 bytes with length, header and tag: 72; two: 112.
    let frames = [
        datagram(&protected(false, 5, &one, 72)),
        datagram(&protected(false, 6, &two, 112)),
        // A batch of two datagrams; the first has zeros after its packet.
        datagram(&[protected(false, 7, &one, 112), protected(false, 8, &two, 112)].concat()),
        datagram(&protected(true, 9, &two, 112)),
        datagram(&[protected(true, 10, &one, 112), protected(true, 11, &one, 80)].concat()),
        // Packets of others: the packet inside has another destination, there is none, or the key is another.
        datagram(&protected(
            false,
            12,
            &[inside(Headers { bth: Bth { dest_qp: 9, ..write().bth }, ..write() }, b"hello")],
            72,
        )),
        datagram(&protected(false, 13, &[], 72)),
    ];
    let (out, error, code) = decode(&pcapng(&frames), &[]);
    assert_eq!((error.as_str(), code), ("RoCE packets: 11; bad: 0\n", 0), "{out}");
    let lines: Vec<&str> = out.lines().map(|line| line.split_once("10.0.0.2  ").unwrap().1).collect();
    let plain = "RC RDMA WRITE Only  qp 0x11 psn 5 ack-req  va 0x1000 rkey 0x22 dma_len 5  len 5";
    assert_eq!(lines[0], format!("{plain}  authenticated, number 5"));
    assert_eq!(lines[1..3], [(); 2].map(|()| format!("{plain}  authenticated, number 6")));
    assert_eq!(lines[3], format!("{plain}  batch 1/2  authenticated, number 7"));
    assert_eq!(lines[4..6], [(); 2].map(|()| format!("{plain}  batch 2/2  authenticated, number 8")));
    assert_eq!(lines[6], "encrypted  qp 0x11  80 B inside  number 9");
    assert_eq!(lines[7], "encrypted  qp 0x11  80 B inside  batch 1/2  number 10");
    assert_eq!(lines[8], "encrypted  qp 0x11  48 B inside  batch 2/2  number 11");
    assert!(lines[9..].iter().all(|line| line.contains("opcode 0xe0")), "{lines:#?}");
    let json = json(&pcapng(&frames[..1]));
    assert_eq!(
        json[0]["protected"],
        serde_json::json!({"encrypted": false, "dest_qp": "0x000011", "packet_number": 5})
    );
    assert_eq!((&json[0]["bth"]["psn"], &json[0]["icrc"]), (&5.into(), &Value::Null));
}

#[test]
fn an_icrc_without_identification_is_right() {
    let mut envelope = envelope();
    let Ip::V4(ip) = &mut envelope.ip else { unreachable!() };
    ip.id = 0;
    let mut bytes = frame(&envelope, write(), b"hello");
    bytes[14 + 4..14 + 6].copy_from_slice(&3u16.to_be_bytes());
    let (out, _, code) = decode(&pcapng(&[bytes]), &[]);
    assert!(out.contains("icrc ok without id") && code == 0, "{out}");
}

#[test]
fn batches_of_read_requests_are_taken_apart() {
    let request = |psn| Headers {
        reth: Some(Reth { va: 0x1000, rkey: 0x22, dma_len: 5 }),
        read: Some(ReadEth { read_wqe_sn: psn }),
        ..Headers::new(Bth::new(Opcode::IRN_READ_REQUEST, 0x12, psn))
    };
    let (out, err, code) = decode(&pcapng(&[batch(&[(request(1), 0), (request(2), 0)])]), &[]);
    assert_eq!((err.as_str(), code), ("RoCE packets: 2; bad: 0\n", 0), "{out}");
    assert_eq!(out.matches("IRN RDMA READ Request").count(), 2, "{out}");
}

/// A captured datagram that the network card has not yet segmented (UDP_SEGMENT) is decoded as several packets. All
/// packets have the same size, except that the last one may be shorter.
#[test]
fn batches_are_taken_apart() {
    let of = |opcode, psn| Headers::new(Bth::new(opcode, 0x12, psn));
    let bytes = batch(&[
        (of(Opcode::RC_SEND_MIDDLE, 1), 256),
        (of(Opcode::RC_SEND_MIDDLE, 2), 256),
        (of(Opcode::RC_SEND_LAST, 3), 13),
    ]);
    let expected = "    \
    1  0.000000000  10.0.0.1 > 10.0.0.2  RC SEND Middle  qp 0x12 psn 1  len 256  batch 1/3  icrc ok
    1  0.000000000  10.0.0.1 > 10.0.0.2  RC SEND Middle  qp 0x12 psn 2  len 256  batch 2/3  icrc ok
    1  0.000000000  10.0.0.1 > 10.0.0.2  RC SEND Last  qp 0x12 psn 3  len 13  batch 3/3  icrc ok
";
    let (out, err, code) = decode(&pcapng(std::slice::from_ref(&bytes)), &[]);
    assert_eq!((out.as_str(), err.as_str(), code), (expected, "RoCE packets: 3; bad: 0\n", 0));
    let documents = json(&pcapng(std::slice::from_ref(&bytes)));
    assert_eq!(documents[2]["batch"], serde_json::json!({"index": 3, "of": 3}));
    assert_eq!((&documents[1]["ip"]["id"], &documents[2]["ip"]["id"]), (&0.into(), &1.into()));
    // If one bit of any packet is wrong, the datagram is not recognised as a batch, and counts as one bad packet.
    for at in [60, 400, 600] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let (_, err, code) = decode(&pcapng(&[damaged]), &[]);
        assert!(err.starts_with("RoCE packets: 1; bad: 1\n") && code == 1, "{at}: {err}");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let whole = pcapng(&[frame(&envelope(), write(), b"hello"), frame(&envelope(), write(), b"hello")]);
    let cases: [(&[u8], &str); 4] = [
        (b"", "the file is empty"),
        (b"not a capture file, but long enough for a header", "the file is neither pcap nor pcapng"),
        (&whole[..whole.len() - 9], "the file ends in the middle of a block after frame 1"),
        (&pcap(false, 0xa1b2_c3d4, 1, &[])[..20], "the file ends inside its header"),
    ];
    for (bytes, why) in cases {
        let (_, err, code) = decode(bytes, &[]);
        assert!(err.ends_with(&format!("error: cannot decode `FILE`: {why}\n")), "{err}");
        assert_eq!(code, 2);
    }
    // The packets before the damaged block are printed.
    let (out, _, _) = decode(&whole[..whole.len() - 9], &[]);
    assert_eq!(out.lines().count(), 1);
    let missing = decode_file(Path::new("/no/such/file"), &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("error: cannot decode `/no/such/file`: No such file"));
}

/// The format of captures has no checksum. The invariant CRC covers the packet from its base transport header on.
#[test]
fn a_changed_bit_of_a_captured_packet_is_noticed() {
    let good = frame(&envelope(), write(), b"hello");
    const BTH: usize = 14 + 20 + 8;
    // The ICRC leaves out one byte of the base transport header, which switches may change.
    let covered = (BTH..good.len()).filter(|at| *at != BTH + 4);
    let changed: Vec<Vec<u8>> = covered
        .flat_map(|at| (0..8).map(move |bit| (at, 1 << bit)))
        .map(|(at, bit)| {
            let mut frame = good.clone();
            frame[at] ^= bit;
            frame
        })
        .collect();
    let (out, err, code) = decode(&pcapng(&changed), &["--format", "json"]);
    let packets: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(packets.len(), changed.len(), "{err}");
    for (packet, changed) in packets.iter().zip(&changed) {
        let at = changed.iter().zip(&good).position(|(one, other)| one != other).unwrap();
        assert_ne!(packet["icrc"]["ok"], true, "byte {at}: {packet}");
    }
    assert_eq!(code, 1);
    assert_eq!(json(&pcapng(&[good]))[0]["icrc"]["ok"], true);
}

#[test]
fn every_prefix_of_a_file_ends_without_a_panic() {
    let whole = pcapng(&[hex(CNP), hex(V1)]);
    for len in 0..whole.len() {
        let (_, err, code) = decode(&whole[..len], &[]);
        assert!(code == 2 || (code == 0 && err.ends_with("bad: 0\n")), "{len}: {err}");
    }
}

#[test]
fn standard_input_and_frames_longer_than_the_buffer() {
    let jumbo = vec![0x55; 150_000];
    let frames = [jumbo, frame(&envelope(), write(), b"hello")];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    let command = command.args(["decode", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The file arrives as through a pipe, 17 bytes at a time, so its header arrives in parts.
    for part in pcapng(&frames).chunks(17) {
        input.write_all(part).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "RoCE packets: 1; bad: 0; other frames: 1 (1 not IP)\n");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("    2  0.000001000  10.0.0.1"));
}

/// The capture files are written by editcap, a tool of Wireshark: as pcapng, as pcap with nanoseconds and with
/// microseconds, and truncated to 60 bytes per frame.
#[test]
fn files_of_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.pcapng"), pcapng(&[hex(CNP), frame(&envelope(), write(), b"hello"), hex(V1)])).unwrap();
    let convert = |arguments: &[&str], to: &str| {
        let mut command = Command::new("editcap");
        command.args(arguments).arg(path("a.pcapng")).arg(path(to)).output().map(|output| output.status.success())
    };
    let Ok(true) = convert(&["-F", "pcapng"], "b.pcapng") else {
        eprintln!("SKIPPED: editcap is not installed (Debian: tshark)");
        return;
    };
    let (first, _, _) = decode(&fs::read(path("a.pcapng")).unwrap(), &[]);
    assert!(convert(&["-F", "nsecpcap"], "b.nsec").unwrap());
    assert!(convert(&["-F", "pcap"], "b.pcap").unwrap());
    for name in ["b.pcapng", "b.nsec", "b.pcap"] {
        let (out, err, code) = decode(&fs::read(path(name)).unwrap(), &[]);
        assert_eq!((out, err.as_str(), code), (first.clone(), "RoCE packets: 3; bad: 0\n", 0), "{name}");
    }
    assert!(convert(&["-F", "pcap", "-s", "60"], "b.cut").unwrap());
    let (_, err, code) = decode(&fs::read(path("b.cut")).unwrap(), &[]);
    assert_eq!((err.as_str(), code), ("RoCE packets: 3; bad: 0; truncated by the capture: 3\n", 0));
}

/// Captures of packets that the Linux kernel sent. For each capture, a file contains the expected lines, which were
/// compared with the fields that tshark shows. All ICRCs are right.
#[test]
fn captures_of_the_kernel() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/captures");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut captures: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "pcapng")).collect();
    captures.sort();
    assert!(captures.len() >= 14, "{captures:?}");
    for capture in captures {
        let expected = fs::read_to_string(capture.with_extension("txt")).unwrap();
        let output = decode_file(&capture, &[]);
        let found = String::from_utf8(output.stdout).unwrap();
        let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{}", capture.display());
        assert_eq!(found, expected, "{}", capture.display());
        assert!(expected.lines().all(|line| line.ends_with("  icrc ok")), "{}", capture.display());
        let summary = format!("RoCE packets: {}; bad: 0\n", expected.lines().count());
        assert_eq!(String::from_utf8_lossy(&output.stderr), summary, "{}", capture.display());
        assert_eq!(output.status.code(), Some(0), "{}", capture.display());
    }
}

/// A block claims a length of 200 MiB, in a file of a kilobyte and in a stream: the command allocates memory for the
/// bytes that arrive, and not for the bytes that the block claims.
#[cfg(unix)]
#[test]
fn the_claimed_length_of_a_block_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("claims.pcapng");
    let mut bytes = pcapng(&[]);
    bytes.extend(6_u32.to_le_bytes());
    bytes.extend((200_u32 << 20).to_le_bytes());
    bytes.extend([0; 1_000]);
    fs::write(&path, bytes).unwrap();
    // The shell limits the address space of the command to 150,000 KiB.
    for script in ["exec \"$0\" decode \"$1\"", "cat \"$1\" | \"$0\" decode -"] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v 150000; {script}"), env!("CARGO_BIN_EXE_rnic")]).arg(&path);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{script}: {said}");
        assert!(said.contains("the file ends in the middle of a block after frame 0"), "{script}: {said}");
    }
}
