//! Compares every header with bytes that were written by hand from the header's bit layout.

use rnic_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, BthView, Credits, Deth, Headers, Ieth, ImmDt, NakCode, Opcode, Packet, ReadEth,
    RecvEth, Reth, RnrTimer, SackEth, SendEth, Syndrome,
};

/// Checks that a header is emitted as the given bytes, and that these bytes are parsed as the header.
macro_rules! vector {
    ($type:ident, $value:expr, $bytes:expr) => {{
        let (value, bytes) = ($value, $bytes);
        assert_eq!(value.emit(), bytes);
        assert_eq!($type::parse(&bytes), value);
        assert_eq!($type::LEN, bytes.len());
    }};
}

#[test]
fn base_transport_header() {
    let bth = Bth {
        solicited: true,
        migrated: false,
        pad: 2,
        pkey: 0x8001,
        fecn: false,
        becn: true,
        ack_request: true,
        ..Bth::new(Opcode::RC_SEND_LAST_INV, 0x123456, 0x789abc)
    };
    // 0x16; SE 1, M 0, PadCnt 2, TVer 0; P_Key; FECN 0, BECN 1; queue pair; A 1; PSN.
    let bytes = [0x16, 0xa0, 0x80, 0x01, 0x40, 0x12, 0x34, 0x56, 0x80, 0x78, 0x9a, 0xbc];
    assert_eq!(bth.emit(), bytes);
    assert_eq!(Headers::parse(&[&bytes[..], &[0; 4]].concat()).unwrap().bth, bth);
    assert_eq!(Bth::LEN, 12);

    // Only IRN packets carry the attempt.
    for (opcode, byte) in [(Opcode::IRN_ACKNOWLEDGE, 0xff), (Opcode::RC_ACKNOWLEDGE, 0x80)] {
        let bth = Bth { ack_request: true, attempt: 255, ..Bth::new(opcode, 1, 2) };
        assert_eq!(bth.emit()[8], byte);
        assert_eq!(BthView::new(&bth.emit()).unwrap().attempt(), byte & 127);
    }

    let plain = Bth { fecn: true, ..Bth::new(Opcode::UC_SEND_MIDDLE, 1, 2) };
    assert_eq!(plain.emit(), [0x21, 0x40, 0xff, 0xff, 0x80, 0, 0, 1, 0, 0, 0, 2]);
}

#[test]
fn a_view_reads_each_field_of_the_base_transport_header() {
    let bytes = [0x99, 0xbf, 0x12, 0x34, 0x7f, 0xfe, 0xdc, 0xba, 0x7f, 0x65, 0x43, 0x21];
    let view = BthView::new(&bytes).unwrap();
    assert_eq!((view.opcode_byte(), view.opcode()), (0x99, None));
    assert_eq!((view.solicited(), view.migrated(), view.pad(), view.transport_version()), (true, false, 3, 15));
    assert_eq!((view.pkey(), view.fecn(), view.becn(), view.dest_qp()), (0x1234, false, true, 0xfedcba));
    assert_eq!((view.ack_request(), view.psn()), (false, 0x654321));
    assert!(BthView::new(&bytes[..11]).is_none());
}

#[test]
fn numbers_of_24_bits_do_not_spill_into_their_neighbours() {
    let bth = Bth::new(Opcode::RC_WRITE_MIDDLE, u32::MAX, u32::MAX).emit();
    assert_eq!(bth[4..], [0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff]);
    assert_eq!(
        Aeth { syndrome: Syndrome::Nak(NakCode::PsnSequenceError), msn: u32::MAX }.emit(),
        [0x60, 255, 255, 255]
    );
    assert_eq!(Deth { qkey: 0, src_qp: u32::MAX }.emit(), [0, 0, 0, 0, 0, 255, 255, 255]);
    assert_eq!(SendEth { recv_wqe_sn: u32::MAX, offset: 1 }.emit(), [0, 255, 255, 255, 0, 0, 0, 1]);
    assert_eq!(RecvEth { recv_wqe_sn: u32::MAX }.emit(), [0, 255, 255, 255]);
    assert_eq!(ReadEth { read_wqe_sn: u32::MAX }.emit(), [0, 255, 255, 255]);
    assert_eq!(SackEth { psn: u32::MAX, before: 0 }.emit(), [0, 255, 255, 255]);
}

#[test]
fn reserved_bits_are_ignored() {
    let bth = [0x01, 0x40, 0xff, 0xff, 0x3f, 0, 0, 1, 0x7f, 0, 0, 2];
    assert_eq!(Headers::parse(&bth).unwrap().bth, Bth::new(Opcode::RC_SEND_MIDDLE, 1, 2));
    assert_eq!(Deth::parse(&[0, 0, 0, 0, 0xff, 0, 0, 9]).src_qp, 9);
    assert_eq!(SendEth::parse(&[0xff, 0, 0, 9, 0, 0, 0, 0]).recv_wqe_sn, 9);
    assert_eq!(RecvEth::parse(&[0xff, 0, 0, 9]).recv_wqe_sn, 9);
    assert_eq!(ReadEth::parse(&[0xff, 0, 0, 9]).read_wqe_sn, 9);
    assert_eq!(SackEth::parse(&[0xff, 0, 0, 9]), SackEth { psn: 9, before: 255 });
}

#[test]
fn extension_headers() {
    vector!(
        Reth,
        Reth { va: 0x0102_0304_0506_0708, rkey: 0x090a_0b0c, dma_len: 0x0d0e_0f10 },
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    );
    vector!(
        AtomicEth,
        AtomicEth {
            va: 0x0102_0304_0506_0708,
            rkey: 0x090a_0b0c,
            swap_add: 0x0d0e_0f10_1112_1314,
            compare: 0x1516_1718_191a_1b1c
        },
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
    );
    vector!(AtomicAckEth, AtomicAckEth { original: 0x0102_0304_0506_0708 }, [1, 2, 3, 4, 5, 6, 7, 8]);
    vector!(ImmDt, ImmDt(0x0102_0304), [1, 2, 3, 4]);
    vector!(Ieth, Ieth { rkey: 0xf102_0304 }, [0xf1, 2, 3, 4]);
    vector!(Deth, Deth { qkey: 0x8001_0000, src_qp: 0x0a0b0c }, [0x80, 1, 0, 0, 0, 10, 11, 12]);
    vector!(SendEth, SendEth { recv_wqe_sn: 0x010203, offset: 0x8405_0607 }, [0, 1, 2, 3, 0x84, 5, 6, 7]);
    vector!(RecvEth, RecvEth { recv_wqe_sn: 0x010203 }, [0, 1, 2, 3]);
    vector!(ReadEth, ReadEth { read_wqe_sn: 0x010203 }, [0, 1, 2, 3]);
    vector!(SackEth, SackEth { psn: 0x010203, before: 7 }, [7, 1, 2, 3]);
}

#[test]
fn acknowledgements() {
    let cases = [
        (Syndrome::ACK, 0x1f),
        (Syndrome::Ack { credits: Credits::at_most(0) }, 0x00),
        (Syndrome::Ack { credits: Credits::at_most(10) }, 0x06),
        (Syndrome::RnrNak { timer: RnrTimer::from_code(0) }, 0x20),
        (Syndrome::RnrNak { timer: RnrTimer::at_least(10) }, 0x21),
        (Syndrome::RnrNak { timer: RnrTimer::from_code(31) }, 0x3f),
        (Syndrome::Nak(NakCode::PsnSequenceError), 0x60),
        (Syndrome::Nak(NakCode::InvalidRequest), 0x61),
        (Syndrome::Nak(NakCode::RemoteAccessError), 0x62),
        (Syndrome::Nak(NakCode::RemoteOperationalError), 0x63),
        (Syndrome::Nak(NakCode::InvalidRdRequest), 0x64),
    ];
    for (syndrome, byte) in cases {
        let aeth = Aeth { syndrome, msn: 0x0a0b0c };
        assert_eq!(aeth.emit(), [byte, 10, 11, 12]);
        assert_eq!(Aeth::parse(&[byte, 10, 11, 12]), Ok(aeth));
    }
    let reserved = |byte: &u8| (0x40..0x60).contains(byte) || *byte > 0x64;
    for byte in 0..=255 {
        assert_eq!(Aeth::parse(&[byte, 0, 0, 0]).is_err(), reserved(&byte), "{byte:#04x}");
    }
}

#[test]
fn credits_and_timers_go_both_ways() {
    for code in 0..31 {
        let credits = Credits::from_code(code);
        let count = credits.count().unwrap();
        assert_eq!(Credits::at_most(count), credits);
        assert_eq!(
            Credits::at_most(count + u32::from(code >= 4)),
            credits,
            "a number between two codes is rounded down"
        );
    }
    assert_eq!(Credits::at_most(u32::MAX).count(), Some(32_768));
    assert_eq!((Credits::UNLIMITED.code(), Credits::UNLIMITED.count()), (31, None));
    assert_eq!(Credits::from_code(12).count(), Some(64));

    for code in 0..32 {
        let timer = RnrTimer::from_code(code);
        assert_eq!(RnrTimer::at_least(timer.micros()), timer);
        assert_eq!(RnrTimer::at_least(timer.micros() - 1), timer, "a time between two codes is rounded up");
    }
    // 0.01 ms, 0.64 ms, 491.52 ms, and the longest time as code 0.
    let micros = [1, 12, 31, 0].map(|code| RnrTimer::from_code(code).micros());
    assert_eq!(micros, [10, 640, 491_520, 655_360]);
    assert_eq!(RnrTimer::at_least(0).code(), 1);
    assert_eq!(RnrTimer::at_least(u32::MAX).code(), 0);
}

#[test]
fn packets_from_first_to_last_header() {
    let cases: [(Headers, &[u8], &[u8]); 5] = [
        (
            Headers {
                deth: Some(Deth { qkey: 0x1111_1111, src_qp: 3 }),
                imm: Some(ImmDt(0x0102_0304)),
                ..Headers::new(Bth::new(Opcode::UD_SEND_ONLY_IMM, 2, 1))
            },
            b"",
            &[
                0x65, 0x40, 0xff, 0xff, 0, 0, 0, 2, 0, 0, 0, 1, // BTH
                0x11, 0x11, 0x11, 0x11, 0, 0, 0, 3, // DETH
                1, 2, 3, 4, // ImmDt
            ],
        ),
        (
            Headers {
                reth: Some(Reth { va: 0x1000, rkey: 0x22, dma_len: 5 }),
                imm: Some(ImmDt(0x0102_0304)),
                recv: Some(RecvEth { recv_wqe_sn: 7 }),
                ..Headers::new(Bth::new(Opcode::IRN_WRITE_ONLY_IMM, 2, 1))
            },
            b"hello",
            &[
                0xcb, 0x70, 0xff, 0xff, 0, 0, 0, 2, 0, 0, 0, 1, // BTH, three bytes of padding
                0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x22, 0, 0, 0, 5, // RETH
                1, 2, 3, 4, // ImmDt
                0, 0, 0, 7, // receive
                b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
            ],
        ),
        (
            Headers {
                send: Some(SendEth { recv_wqe_sn: 7, offset: 4096 }),
                ieth: Some(Ieth { rkey: 0x55 }),
                ..Headers::new(Bth::new(Opcode::IRN_SEND_LAST_INV, 2, 1))
            },
            b"ab",
            &[
                0xd6, 0x60, 0xff, 0xff, 0, 0, 0, 2, 0, 0, 0, 1, // BTH, two bytes of padding
                0, 0, 0, 7, 0, 0, 0x10, 0, // receive, offset
                0, 0, 0, 0x55, // IETH
                b'a', b'b', 0, 0,
            ],
        ),
        (
            Headers {
                aeth: Some(Aeth { syndrome: Syndrome::Nak(NakCode::PsnSequenceError), msn: 6 }),
                sack: Some(SackEth { psn: 9, before: 0 }),
                ..Headers::new(Bth::new(Opcode::IRN_READ_ACKNOWLEDGE, 2, 1))
            },
            b"",
            &[
                0xd8, 0x40, 0xff, 0xff, 0, 0, 0, 2, 0, 0, 0, 1, // BTH
                0x60, 0, 0, 6, // AETH
                0, 0, 0, 9, // arrived
            ],
        ),
        (
            Headers {
                reth: Some(Reth { va: 0x1000, rkey: 0x22, dma_len: 5 }),
                read: Some(ReadEth { read_wqe_sn: 8 }),
                ..Headers::new(Bth::new(Opcode::IRN_READ_REQUEST, 2, 1))
            },
            b"",
            &[
                0xcc, 0x40, 0xff, 0xff, 0, 0, 0, 2, 0, 0, 0, 1, // BTH
                0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x22, 0, 0, 0, 5, // RETH
                0, 0, 0, 8, // read
            ],
        ),
    ];
    for (headers, payload, bytes) in cases {
        let packet = Packet::new(headers, payload);
        let mut out = vec![0xee; bytes.len()];
        assert_eq!(packet.emit_without_icrc(&mut out), bytes.len());
        assert_eq!(out, bytes, "{}", headers.bth.opcode);
        assert_eq!(packet.len(), bytes.len() + 4);
        out.extend([0; 4]);
        assert_eq!(Packet::parse(&out), Ok(packet));
    }
}

#[test]
fn a_cnp_is_32_bytes_of_which_most_are_zero() {
    let mut out = [0xee; 32];
    assert_eq!(Packet::cnp(0x123456).emit_without_icrc(&mut out), 28);
    assert_eq!(out[..12], [0x81, 0, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56, 0, 0, 0, 0]);
    assert_eq!(out[12..28], [0; 16]);
    assert_eq!(Packet::parse(&out), Ok(Packet::cnp(0x123456)));
}

#[test]
#[should_panic(expected = "does not have these extension headers")]
fn headers_of_another_opcode_are_a_mistake_of_the_caller() {
    Headers::new(Bth::new(Opcode::RC_WRITE_FIRST, 2, 1)).emit(&mut [0; 64]);
}
