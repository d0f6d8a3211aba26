//! Checks the tables in `docs/reference/wire.md` against the code.

use crate::common::headers_of;
use rnic_wire::{Opcode, PayloadRule, Reject, Service};

const REFERENCE: &str = include_str!("../../../docs/reference/wire.md");

/// The rows of the table whose first column is headed `head`, without their outer bars.
fn table(head: &str) -> Vec<Vec<String>> {
    let row = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_string()).collect() };
    let lines = REFERENCE.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|')).map(|line| row(line.trim_matches('|')));
    rows.collect()
}

/// The names, as in the reference, of the extension headers of an opcode.
fn extensions(opcode: Opcode) -> Vec<&'static str> {
    let headers = headers_of(opcode, [0; 14]);
    let all = [
        (headers.deth.is_some(), "DETH"),
        (headers.reth.is_some(), "RETH"),
        (headers.atomic.is_some(), "AtomicETH"),
        (headers.aeth.is_some(), "AETH"),
        (headers.atomic_ack.is_some(), "AtomicAckETH"),
        (headers.send.is_some(), "SendEth"),
        (headers.imm.is_some(), "ImmDt"),
        (headers.ieth.is_some(), "IETH"),
        (headers.recv.is_some(), "RecvEth"),
        (headers.read.is_some(), "ReadEth"),
        (headers.sack.is_some(), "SackEth"),
    ];
    all.iter().filter(|(there, _)| *there).map(|(_, name)| *name).collect()
}

#[test]
fn opcodes() {
    let mut seen = Vec::new();
    for row in table("operation") {
        let services = [Service::Rc, Service::Uc, Service::Ud, Service::Irn];
        for (column, service) in (1..).zip(services) {
            let Ok(code) = u8::from_str_radix(&row[column], 16) else { continue };
            let opcode = Opcode::from_u8(code).unwrap();
            seen.push(opcode);
            if opcode == Opcode::CNP {
                continue;
            }
            assert_eq!((opcode.service(), opcode.name()), (service, row[0].as_str()));
            let cell = if service == Service::Irn { &row[6] } else { &row[5] };
            let cell =
                if service == Service::Ud { cell.replace("UD: ", "").replace("then ", "") } else { cell.clone() };
            let cell =
                if service == Service::Ud { cell } else { cell.replace("UD: DETH, then ", "").replace("UD: DETH", "") };
            assert_eq!(cell, extensions(opcode).join(", "), "{opcode}");
            let payload = match opcode.payload_rule() {
                PayloadRule::Empty => "none",
                PayloadRule::Full => "MTU",
                PayloadRule::Some => "1 to MTU",
                PayloadRule::Any => "0 to MTU",
                PayloadRule::Reserved => "16 reserved bytes",
            };
            assert_eq!(row[7], payload, "{opcode}");
        }
    }
    seen.sort();
    assert_eq!(seen, Opcode::ALL);
}

#[test]
fn rejections() {
    let opcode = Opcode::CNP;
    let all = [
        Reject::TooShort { len: 0 },
        Reject::UnknownOpcode(0),
        Reject::TransportVersion(0),
        Reject::NotWords { len: 0 },
        Reject::HeadersTruncated { opcode, len: 0, needed: 0 },
        Reject::PadBeyond { opcode, pad: 0 },
        Reject::PayloadForbidden { opcode, len: 0 },
        Reject::PayloadMissing { opcode },
        Reject::PadForbidden { opcode, pad: 0 },
        Reject::CnpLength { len: 0 },
        Reject::MulticastQp { opcode },
        Reject::Syndrome(0),
        Reject::NotMtu { opcode, len: 0, mtu: 0 },
        Reject::OverMtu { opcode, len: 0, mtu: 0 },
    ];
    let labels: Vec<String> = all.iter().map(|reject| format!("`{}`", reject.label())).collect();
    let rows: Vec<String> = table("label").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(rows, labels);
}
