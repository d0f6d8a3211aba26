//! Checks frames of every opcode with independent software: tshark must decode the same opcode and fields, and scapy
//! must compute the same ICRC.
//!
//! The tests need tshark 4 and scapy 2.8. Where one is not installed, its tests print a message and pass without
//! checking anything.

use crate::common::{headers_of, payload_len};
use rnic_wire::pcapng::Writer;
use rnic_wire::{
    Bth, Envelope, Ethernet, Headers, Ip, Ipv4, Ipv6, MacAddr, Opcode, Packet, Pfc, Service, Vlan, pad_count,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

/// A frame and the values that it was built from.
struct Sample {
    envelope: Envelope,
    headers: Headers,
    payload: Vec<u8>,
    bytes: Vec<u8>,
}

impl Sample {
    fn of(envelope: Envelope, mut headers: Headers, payload: Vec<u8>) -> Sample {
        headers.bth.pad = pad_count(payload.len()) as u8;
        let mut bytes = vec![0; 200 + payload.len()];
        let len = envelope.emit(&Packet::new(headers, &payload), &mut bytes);
        bytes.truncate(len);
        Sample { envelope, headers, payload, bytes }
    }
}

/// Pseudo-random numbers (xorshift) with a fixed seed, so that every bit of every field is both 0 and 1 in some frame.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn envelope(number: usize, random: u64) -> Envelope {
    let byte = |at: u32| (random >> (8 * at)) as u8;
    let ip = match number % 2 {
        0 => Ip::V4(Ipv4 {
            id: random as u16,
            tos: byte(2),
            ttl: byte(3).max(1),
            flags: if random & 1 == 0 { 0 } else { 0x4000 },
            ..Ipv4::new([10, 0, byte(4), 1].into(), [10, 0, byte(5), 2].into())
        }),
        _ => Ip::V6(Ipv6 {
            traffic_class: byte(2),
            flow_label: random as u32 & 0xf_ffff,
            hop_limit: byte(3).max(1),
            ..Ipv6::new([0xfd00, 0, 0, 0, 0, 0, random as u16, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 9, 2].into())
        }),
    };
    let tag = Vlan(byte(6).into());
    let vlans = match number % 3 {
        0 => [None; 2],
        1 => [Some(tag), None],
        _ => [Some(tag), Some(Vlan(0x6005))],
    };
    let mut envelope = Envelope::new(B, A, ip, 0xc000 | random as u16 & 0x3fff);
    envelope.ethernet = Ethernet { vlans, ..envelope.ethernet };
    envelope.udp_checksum = number % 4 < 2;
    envelope
}

/// Frames of each opcode over IPv4 and IPv6, with several payload lengths.
fn samples() -> Vec<Sample> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut samples = Vec::new();
    for opcode in Opcode::ALL {
        for wish in [0, 1, 2, 3, 4, 63, 1024, 4096] {
            let len = payload_len(*opcode, wish);
            let random = numbers.next();
            let bit = |at: u32| random >> at & 1 == 1;
            let mut headers = headers_of(*opcode, std::array::from_fn(|_| numbers.next() as u32));
            headers.bth = Bth {
                solicited: bit(0),
                migrated: bit(1),
                pkey: (random >> 8) as u16,
                fecn: bit(2),
                becn: bit(3) || *opcode == Opcode::CNP,
                ack_request: bit(4),
                // Skip queue pairs 0 and 1: tshark decodes their payload as management datagrams.
                ..Bth::new(*opcode, (random >> 24) as u32 & 0x7f_ffff | 0x10, (random >> 40) as u32 & 0xff_ffff)
            };
            let payload: Vec<u8> = match *opcode {
                Opcode::CNP => vec![0; len],
                _ => (0..len).map(|_| numbers.next() as u8).collect(),
            };
            for _ in 0..2 {
                samples.push(Sample::of(envelope(samples.len(), numbers.next()), headers, payload.clone()));
            }
        }
    }
    samples
}

fn write(folder: &Path, frames: impl Iterator<Item = Vec<u8>>) -> PathBuf {
    let path = folder.join("frames.pcapng");
    let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &["wire"]).unwrap();
    for (number, bytes) in (0..).zip(frames) {
        writer.frame(0, 1_700_000_000_000_000_000 + number, &bytes).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// The values that tshark decodes for these fields, one row per frame. Prints a message and returns `None` if tshark is
/// not installed.
fn tshark(file: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tshark is not installed (Debian: tshark)");
        return None;
    }
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]);
    // Disable dissectors that guess at the contents of the payload.
    for protocol in ["rpcordma", "infiniband.eoib"] {
        command.args(["--disable-protocol", protocol]);
    }
    for setting in ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "udp.ignore_ipv6_zero_checksum:TRUE"] {
        command.args(["-o", setting]);
    }
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect())
}

/// Whether two values are equal. Numbers may be written in decimal or hexadecimal; other text must be identical.
fn same(seen: &str, expected: &str) -> bool {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    // tshark prints some fields twice.
    let one = |seen: &str| seen == expected || (number(seen).is_some() && number(seen) == number(expected));
    seen == expected || seen.split(',').all(one)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields that tshark should decode from a frame, as (field, value). For opcodes that tshark does not know (IRN and
/// CNP) it decodes nothing after the base transport header.
fn expected(sample: &Sample) -> Vec<(&'static str, String)> {
    let (headers, bth, bytes) = (&sample.headers, &sample.headers.bth, &sample.bytes);
    let flag = |flag: bool| u8::from(flag).to_string();
    let number = |value: u64| value.to_string();
    let mut fields = vec![
        ("eth.src", A.to_string()),
        ("eth.dst", B.to_string()),
        ("udp.srcport", sample.envelope.source_port.to_string()),
        ("udp.dstport", "4791".to_string()),
        ("udp.length", (bytes.len() - sample.envelope.header_len() + 8).to_string()),
        ("infiniband.bth.opcode", bth.opcode.to_u8().to_string()),
        ("infiniband.bth.se", flag(bth.solicited)),
        ("infiniband.bth.m", flag(bth.migrated)),
        ("infiniband.bth.padcnt", bth.pad.to_string()),
        ("infiniband.bth.tver", "0".to_string()),
        ("infiniband.bth.p_key", bth.pkey.to_string()),
        ("infiniband.bth.destqp", bth.dest_qp.to_string()),
        ("infiniband.bth.a", flag(bth.ack_request)),
        ("infiniband.bth.psn", bth.psn.to_string()),
        ("udp.checksum.status", if sample.envelope.udp_checksum { "1" } else { "3" }.to_string()),
    ];
    let tags: Vec<String> = sample.envelope.ethernet.vlans.iter().flatten().map(|tag| tag.id().to_string()).collect();
    fields.push(("vlan.id", tags.join(",")));
    match sample.envelope.ip {
        Ip::V4(ip) => fields.extend([
            ("ip.src", ip.source.to_string()),
            ("ip.dst", ip.destination.to_string()),
            ("ip.id", ip.id.to_string()),
            ("ip.ttl", ip.ttl.to_string()),
            ("ip.dsfield", ip.tos.to_string()),
            ("ip.flags.df", flag(ip.flags == 0x4000)),
            ("ip.checksum.status", "1".to_string()),
        ]),
        Ip::V6(ip) => fields.extend([
            ("ipv6.src", ip.source.to_string()),
            ("ipv6.dst", ip.destination.to_string()),
            ("ipv6.flow", ip.flow_label.to_string()),
            ("ipv6.tclass", ip.traffic_class.to_string()),
            ("ipv6.hlim", ip.hop_limit.to_string()),
        ]),
    }
    if matches!(bth.opcode.service(), Service::Irn | Service::Cnp) {
        return fields;
    }
    fields.push(("infiniband.invariant.crc", u32::from_be_bytes(*bytes.last_chunk().unwrap()).to_string()));
    if let Some(reth) = headers.reth {
        fields.extend([
            ("infiniband.reth.va", number(reth.va)),
            ("infiniband.reth.r_key", reth.rkey.to_string()),
            ("infiniband.reth.dmalen", reth.dma_len.to_string()),
        ]);
    }
    if let Some(atomic) = headers.atomic {
        fields.extend([
            ("infiniband.reth.va", number(atomic.va)),
            ("infiniband.reth.r_key", atomic.rkey.to_string()),
            ("infiniband.atomiceth.swapdt", number(atomic.swap_add)),
            ("infiniband.atomiceth.cmpdt", number(atomic.compare)),
        ]);
    }
    if let Some(aeth) = headers.aeth {
        fields.extend([
            ("infiniband.aeth.syndrome", aeth.syndrome.to_byte().to_string()),
            ("infiniband.aeth.msn", aeth.msn.to_string()),
        ]);
    }
    if let Some(header) = headers.atomic_ack {
        fields.push(("infiniband.atomicacketh.origremdt", number(header.original)));
    }
    if let Some(header) = headers.imm {
        fields.push(("infiniband.immdt", hex(&header.emit())));
    }
    if let Some(header) = headers.ieth {
        fields.push(("infiniband.ieth", hex(&header.emit())));
    }
    if let Some(header) = headers.deth {
        fields.extend([
            ("infiniband.deth.q_key", header.qkey.to_string()),
            ("infiniband.deth.srcqp", header.src_qp.to_string()),
        ]);
    }
    if !sample.payload.is_empty() {
        fields.push(("data.data", hex(&sample.payload) + &"00".repeat(bth.pad.into())));
    }
    fields
}

#[test]
fn tshark_sees_what_was_written() {
    let samples = samples();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), samples.iter().map(|sample| sample.bytes.clone()));
    let mut names: Vec<&str> =
        samples.iter().flat_map(|sample| expected(sample).into_iter().map(|(name, _)| name)).collect();
    names.sort_unstable();
    names.dedup();
    let Some(rows) = tshark(&file, &names) else { return };
    assert_eq!(rows.len(), samples.len());
    for (row, sample) in rows.iter().zip(&samples) {
        let expected = expected(sample);
        for (name, seen) in names.iter().zip(row) {
            let wanted = expected.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value);
            assert!(
                same(seen, wanted),
                "{name} of {}: tshark decodes `{seen}`, expected `{wanted}`",
                sample.headers.bth.opcode
            );
        }
    }
}

#[test]
fn tshark_sees_priority_flow_control() {
    let folder = tempfile::tempdir().unwrap();
    let pfc = Pfc { enabled: 0b1010_0001, quanta: [0xffff, 0, 0, 0, 0, 7, 0, 0] };
    let file = write(folder.path(), std::iter::once(pfc.emit(A).to_vec()));
    let fields = [
        "macc.opcode",
        "macc.cbfc.enbv",
        "macc.cbfc.pause_time.c0",
        "macc.cbfc.pause_time.c5",
        "macc.cbfc.pause_time.c7",
    ];
    let Some(rows) = tshark(&file, &fields) else { return };
    let expected = ["0x0101", "0x00a1", "65535", "7", "0"];
    assert_eq!(rows.len(), 1);
    assert!(rows[0].iter().zip(expected).all(|(seen, wanted)| same(seen, wanted)), "{rows:?}");
}

#[test]
fn tshark_sees_the_time_to_the_nanosecond() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), [vec![0; 60], vec![0; 60]].into_iter());
    let Some(rows) = tshark(&file, &["frame.time_epoch", "frame.interface_name"]) else { return };
    assert_eq!(rows, [["1700000000.000000000", "wire"], ["1700000000.000000001", "wire"]]);
}

/// The path of a Python interpreter with scapy, and of the script to run. If there is no such interpreter, prints a
/// message and returns `None`.
fn python() -> Option<(PathBuf, PathBuf)> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = home.join("tests/scapy_icrc.py");
    let candidates = [home.join("../../target/python/bin/python3"), PathBuf::from("python3")];
    let mut why = "python3 is not installed".to_string();
    for python in candidates {
        match Command::new(&python).arg(&script).output() {
            Ok(output) if output.status.success() => return Some((python, script)),
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().to_string(),
            Err(_) => {}
        }
    }
    eprintln!("SKIPPED: {why} (pip install 'scapy>=2.8')");
    None
}

#[test]
fn scapy_computes_the_same_icrc() {
    let Some((python, script)) = python() else { return };
    let samples = samples();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), samples.iter().map(|sample| sample.bytes.clone()));
    let output = Command::new(python).arg(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let seen: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.len(), samples.len());
    for (seen, sample) in seen.iter().zip(&samples) {
        let bth = &sample.headers.bth;
        let icrc = hex(&sample.bytes[sample.bytes.len() - 4..]);
        assert_eq!(seen["icrc"], icrc, "{} with {} B: {:?}", bth.opcode, sample.payload.len(), sample.envelope);
        let fields = [
            ("opcode", u32::from(bth.opcode.to_u8())),
            ("solicited", u32::from(bth.solicited)),
            ("migreq", u32::from(bth.migrated)),
            ("padcount", u32::from(bth.pad)),
            ("version", 0),
            ("pkey", u32::from(bth.pkey)),
            ("fecn", u32::from(bth.fecn)),
            ("becn", u32::from(bth.becn)),
            ("dqpn", bth.dest_qp),
            ("ackreq", u32::from(bth.ack_request)),
            ("psn", bth.psn),
        ];
        for (name, value) in fields {
            assert_eq!(seen[name], value, "{name} of {}", bth.opcode);
        }
    }
}
