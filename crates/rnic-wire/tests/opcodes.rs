//! Checks the opcode table against the specification, and that a packet of each opcode survives emitting and parsing.

use crate::common::{any_packet, headers_of};
use proptest::prelude::*;
use rnic_wire::{
    Extra, IcrcSeed, MAX_HEADER_LEN, Opcode, Operation, Packet, PayloadRule, Position, ROCE_PORT, Service,
};
use std::collections::BTreeSet;

#[test]
fn what_is_known() {
    let low = |codes: &[std::ops::RangeInclusive<u8>], base: u8| -> Vec<u8> {
        codes.iter().cloned().flatten().map(|code| base | code).collect()
    };
    let rc = low(&[0x00..=0x14, 0x16..=0x17], 0x00);
    let uc = low(&[0x00..=0x0b], 0x20);
    let irn = low(&[0x00..=0x14, 0x16..=0x19], 0xc0);
    let expected: Vec<u8> = [rc, uc, vec![0x64, 0x65, 0x81], irn].concat();
    let known: Vec<u8> = (0..=255).filter(|code| Opcode::from_u8(*code).is_some()).collect();
    assert_eq!(known, expected);
    assert_eq!(Opcode::ALL.iter().map(|opcode| opcode.to_u8()).collect::<Vec<_>>(), expected);
}

#[test]
fn each_has_a_name_of_its_own() {
    let names: BTreeSet<String> = Opcode::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), Opcode::ALL.len());
    assert_eq!(Opcode::RC_WRITE_FIRST.name(), "RDMA WRITE First");
    assert_eq!(Opcode::IRN_READ_ACKNOWLEDGE.to_string(), "IRN RDMA READ Acknowledge");
    assert_eq!(Opcode::CNP.to_string(), "CNP");
    assert_eq!(format!("{:?}", Opcode::UD_SEND_ONLY), "UD SEND Only (0x64)");
}

#[test]
fn new_finds_each_by_what_it_is_and_nothing_else() {
    use Operation as O;
    let operations = [
        O::Send,
        O::Write,
        O::ReadRequest,
        O::ReadResponse,
        O::Acknowledge,
        O::AtomicAcknowledge,
        O::CompareSwap,
        O::FetchAdd,
        O::ReadAcknowledge,
        O::Offer,
        O::Cnp,
    ];
    let mut found = BTreeSet::new();
    for service in [Service::Rc, Service::Uc, Service::Ud, Service::Cnp, Service::Irn] {
        for operation in operations {
            for position in [Position::First, Position::Middle, Position::Last, Position::Only] {
                for extra in [Extra::None, Extra::Immediate, Extra::Invalidate] {
                    let Some(opcode) = Opcode::new(service, operation, position, extra) else { continue };
                    assert_eq!(opcode.service(), service);
                    assert_eq!((opcode.operation(), opcode.position(), opcode.extra()), (operation, position, extra));
                    assert!(found.insert(opcode), "{opcode} has two meanings");
                }
            }
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), Opcode::ALL);
}

#[test]
fn irn_mirrors_rc() {
    for opcode in Opcode::ALL.iter().filter(|opcode| opcode.service() == Service::Rc) {
        let irn = Opcode::from_u8(0xc0 | opcode.to_u8()).unwrap();
        assert_eq!(irn.service(), Service::Irn);
        assert_eq!(
            (irn.operation(), irn.position(), irn.extra()),
            (opcode.operation(), opcode.position(), opcode.extra())
        );
        assert_eq!((irn.name(), irn.payload_rule()), (opcode.name(), opcode.payload_rule()));
    }
}

#[test]
fn questions_of_a_queue_pair() {
    let last = Opcode::RC_WRITE_LAST_IMM;
    assert!(last.is_last() && last.has_imm() && last.ends_message() && last.consumes_receive());
    assert!(
        !last.is_only() && !last.is_first() && !last.is_middle() && !last.starts_message() && !last.has_invalidate()
    );
    let only = Opcode::IRN_SEND_ONLY_INV;
    assert!(only.is_only() && only.starts_message() && only.ends_message() && only.has_invalidate() && !only.has_imm());
    assert!(Opcode::UC_SEND_FIRST.is_first() && Opcode::UC_SEND_MIDDLE.is_middle());
    assert!(Opcode::RC_SEND_MIDDLE.consumes_receive() && !Opcode::RC_WRITE_LAST.consumes_receive());
    assert!(Operation::FetchAdd.is_atomic() && Operation::FetchAdd.is_request() && !Operation::Send.is_atomic());
    assert!(Operation::ReadResponse.is_response() && !Operation::ReadResponse.is_request());
    assert!(!Operation::Offer.is_request() && !Operation::Offer.is_response());
    assert!(!Operation::Cnp.is_request() && !Operation::ReadAcknowledge.is_response());
}

#[test]
fn header_lengths() {
    let lengths = [
        (Opcode::RC_SEND_MIDDLE, 12),
        (Opcode::RC_WRITE_ONLY_IMM, 12 + 16 + 4),
        (Opcode::RC_WRITE_LAST_IMM, 12 + 4),
        (Opcode::RC_SEND_ONLY_INV, 12 + 4),
        (Opcode::RC_READ_RESPONSE_MIDDLE, 12),
        (Opcode::RC_READ_RESPONSE_LAST, 12 + 4),
        (Opcode::RC_ATOMIC_ACKNOWLEDGE, 12 + 4 + 8),
        (Opcode::RC_COMPARE_SWAP, 12 + 28),
        (Opcode::UD_SEND_ONLY_IMM, 12 + 8 + 4),
        (Opcode::CNP, 12),
        (Opcode::IRN_SEND_MIDDLE, 12 + 8),
        (Opcode::IRN_WRITE_MIDDLE, 12 + 16),
        (Opcode::IRN_WRITE_LAST_IMM, 12 + 16 + 4 + 4),
        (Opcode::IRN_READ_REQUEST, 12 + 16 + 4),
        (Opcode::IRN_READ_RESPONSE_MIDDLE, 12 + 4),
        (Opcode::IRN_ACKNOWLEDGE, 12 + 4 + 4),
        (Opcode::IRN_ATOMIC_ACKNOWLEDGE, 12 + 4 + 8),
        (Opcode::IRN_FETCH_ADD, 12 + 28 + 4),
        (Opcode::IRN_READ_ACKNOWLEDGE, 12 + 4 + 4),
        (Opcode::IRN_OFFER, 12),
    ];
    for (opcode, len) in lengths {
        assert_eq!(opcode.header_len(), len, "{opcode}");
    }
    assert_eq!(Opcode::ALL.iter().map(|opcode| opcode.header_len()).max(), Some(MAX_HEADER_LEN));
}

#[test]
fn payload_rules() {
    for opcode in Opcode::ALL {
        let expected = match (opcode.operation(), opcode.position()) {
            (Operation::Cnp, _) => PayloadRule::Reserved,
            (Operation::Send | Operation::Write | Operation::ReadResponse, position) => match position {
                Position::First | Position::Middle => PayloadRule::Full,
                Position::Last => PayloadRule::Some,
                Position::Only => PayloadRule::Any,
            },
            _ => PayloadRule::Empty,
        };
        assert_eq!(opcode.payload_rule(), expected, "{opcode}");
    }
}

#[test]
fn the_headers_in_a_test_are_those_of_the_opcode() {
    for opcode in Opcode::ALL {
        assert!(headers_of(*opcode, [3; 14]).are_complete(), "{opcode}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(packet in any_packet(), id in any::<u16>()) {
        let (headers, payload) = packet;
        let packet = Packet::new(headers, &payload);
        let seed = IcrcSeed::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 49152, ROCE_PORT);
        let mut out = vec![0xee; packet.len()];
        prop_assert_eq!(packet.emit(&seed, id, &mut out), out.len());
        prop_assert_eq!(Packet::parse(&out), Ok(packet));
        prop_assert!(seed.check(id, &out));
        prop_assert_eq!(seed.solve_id(&out), Some(id));
    }
}
