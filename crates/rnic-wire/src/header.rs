//! The base transport header and the extension headers, as plain structs and as bytes.
//!
//! The function `parse` of a header takes an array of exactly the header's length, and `emit` returns such an array. So
//! `emit` cannot fail, and only `parse` of the AETH can, because some values of the syndrome are reserved. Reserved
//! bits are written as zero and ignored on reception.

use crate::bytes::{array, put, read_u16, read_u32, read_u64};
use crate::opcode::{Opcode, Service};
use crate::syndrome::Syndrome;

const LOW_24: u32 = crate::MAX_24;

/// Base transport header (BTH), the first header of every packet.
///
/// ```
/// use rnic_wire::{Bth, BthView, Opcode};
///
/// let bth = Bth { ack_request: true, ..Bth::new(Opcode::RC_SEND_ONLY, 17, 0xabcdef) };
/// let bytes = bth.emit();
/// assert_eq!(bytes[..4], [0x04, 0x40, 0xff, 0xff], "opcode; M flag; default partition key");
///
/// let view = BthView::new(&bytes).unwrap();
/// assert_eq!((view.dest_qp(), view.psn(), view.ack_request()), (17, 0xabcdef, true));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// Opcode.
    pub opcode: Opcode,
    /// SE: the receive completion of this message is a solicited event.
    pub solicited: bool,
    /// M, the path migration state; set on a connection that never migrates.
    pub migrated: bool,
    /// PadCnt: bytes of padding between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// FECN, forward congestion notification. InfiniBand uses it; RoCEv2 uses the ECN bits of the IP header instead.
    pub fecn: bool,
    /// BECN, backward congestion notification; set in a CNP.
    pub becn: bool,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// A: the requester asks for an acknowledgement of this packet.
    pub ack_request: bool,
    /// Number of earlier transmissions of this packet, 0 to 127 (IRN only). An acknowledgement repeats the attempt of
    /// the packet that caused it. In packets of other services the field is reserved and 0.
    pub attempt: u8,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 12;
    /// Maximum of [`Bth::attempt`]. If a packet is transmitted more often, the field keeps this value.
    pub const MAX_ATTEMPTS: u8 = 127;
    /// Default partition key: full membership of the default partition.
    pub const DEFAULT_PKEY: u16 = 0xffff;

    /// A header with the default partition key, M set and every other flag clear. For a CNP M is clear and BECN is set,
    /// as network cards send it.
    pub const fn new(opcode: Opcode, dest_qp: u32, psn: u32) -> Bth {
        let is_cnp = opcode.to_u8() == Opcode::CNP.to_u8();
        Bth {
            opcode,
            solicited: false,
            migrated: !is_cnp,
            pad: 0,
            pkey: Bth::DEFAULT_PKEY,
            fecn: false,
            becn: is_cnp,
            dest_qp,
            ack_request: false,
            attempt: 0,
            psn,
        }
    }

    /// The header as bytes on the wire, with transport version 0.
    #[inline]
    pub fn emit(&self) -> [u8; Bth::LEN] {
        let flags = u8::from(self.solicited) << 7 | u8::from(self.migrated) << 6 | (self.pad & 3) << 4;
        let first = [self.opcode.to_u8(), flags, (self.pkey >> 8) as u8, self.pkey as u8];
        let congestion = u32::from(self.fecn) << 31 | u32::from(self.becn) << 30;
        let mut out = [0; Bth::LEN];
        put(&mut out, 0, &first);
        put(&mut out, 4, &(congestion | self.dest_qp & LOW_24).to_be_bytes());
        let attempt = if self.opcode.service() == Service::Irn { self.attempt & Bth::MAX_ATTEMPTS } else { 0 };
        let reliability = u32::from(self.ack_request) << 31 | u32::from(attempt) << 24;
        put(&mut out, 8, &(reliability | self.psn & LOW_24).to_be_bytes());
        out
    }
}

/// A view of a base transport header in a packet that has not been validated: reads single fields without parsing the
/// packet.
#[derive(Clone, Copy, Debug)]
pub struct BthView<'a> {
    bytes: &'a [u8],
}

impl<'a> BthView<'a> {
    /// A view of the header at the start of `bytes`; `None` if `bytes` is shorter than [`Bth::LEN`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<BthView<'a>> {
        bytes.get(..Bth::LEN).map(|bytes| BthView { bytes })
    }
    /// The opcode byte, whether or not the opcode is supported.
    #[inline]
    pub fn opcode_byte(self) -> u8 {
        self.bytes[0]
    }
    /// The opcode; `None` if it is not supported.
    #[inline]
    pub fn opcode(self) -> Option<Opcode> {
        Opcode::from_u8(self.bytes[0])
    }
    /// Whether the solicited event flag is set.
    #[inline]
    pub fn solicited(self) -> bool {
        self.bytes[1] & 0x80 != 0
    }
    /// Whether M, the path migration state, is set.
    #[inline]
    pub fn migrated(self) -> bool {
        self.bytes[1] & 0x40 != 0
    }
    /// PadCnt: number of padding bytes between payload and ICRC, 0 to 3.
    #[inline]
    pub fn pad(self) -> u8 {
        self.bytes[1] >> 4 & 3
    }
    /// Transport version; only 0 is defined.
    #[inline]
    pub fn transport_version(self) -> u8 {
        self.bytes[1] & 15
    }
    /// Partition key.
    #[inline]
    pub fn pkey(self) -> u16 {
        read_u16(self.bytes, 2)
    }
    /// Whether FECN (forward congestion notification) is set.
    #[inline]
    pub fn fecn(self) -> bool {
        self.bytes[4] & 0x80 != 0
    }
    /// Whether BECN (backward congestion notification) is set.
    #[inline]
    pub fn becn(self) -> bool {
        self.bytes[4] & 0x40 != 0
    }
    /// Destination queue pair, 24 bits.
    #[inline]
    pub fn dest_qp(self) -> u32 {
        read_u32(self.bytes, 4) & LOW_24
    }
    /// Whether the requester asks for an acknowledgement of this packet (bit A).
    #[inline]
    pub fn ack_request(self) -> bool {
        self.bytes[8] & 0x80 != 0
    }
    /// Number of earlier transmissions of this packet, 0 to 127, in IRN packets. In packets of other services these
    /// bits are reserved.
    #[inline]
    pub fn attempt(self) -> u8 {
        self.bytes[8] & Bth::MAX_ATTEMPTS
    }
    /// Packet sequence number.
    #[inline]
    pub fn psn(self) -> u32 {
        read_u32(self.bytes, 8) & LOW_24
    }
    /// All fields of the header as a struct. The caller has decoded `opcode` from this header.
    #[inline]
    pub(crate) fn fields(self, opcode: Opcode) -> Bth {
        Bth {
            opcode,
            solicited: self.solicited(),
            migrated: self.migrated(),
            pad: self.pad(),
            pkey: self.pkey(),
            fecn: self.fecn(),
            becn: self.becn(),
            dest_qp: self.dest_qp(),
            ack_request: self.ack_request(),
            attempt: if opcode.service() == Service::Irn { self.attempt() } else { 0 },
            psn: self.psn(),
        }
    }
}

/// RDMA extended transport header (RETH): the range of the responder's memory that a Write or Read accesses.
///
/// In the first packet of an RC or UC Write and in a read request, the header describes the whole message. In an IRN
/// Write every packet carries the header: `va` is the address of this packet's first byte, and `dma_len` is the number
/// of bytes from there to the end of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    /// Virtual address in the responder's memory.
    pub va: u64,
    /// Remote key of the responder's memory region.
    pub rkey: u32,
    /// Length of the memory range in bytes.
    pub dma_len: u32,
}

impl Reth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 16;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; Reth::LEN]) -> Reth {
        Reth { va: read_u64(bytes, 0), rkey: read_u32(bytes, 8), dma_len: read_u32(bytes, 12) }
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; Reth::LEN] {
        let mut out = [0; Reth::LEN];
        put(&mut out, 0, &self.va.to_be_bytes());
        put(&mut out, 8, &self.rkey.to_be_bytes());
        put(&mut out, 12, &self.dma_len.to_be_bytes());
        out
    }
}

/// Atomic extended transport header (AtomicETH): a compare-and-swap or fetch-and-add on eight bytes of the responder's
/// memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicEth {
    /// Virtual address in the responder's memory, a multiple of 8.
    pub va: u64,
    /// Remote key of the responder's memory region.
    pub rkey: u32,
    /// Compare-and-swap: the value to store if the comparison holds. Fetch-and-add: the value to add.
    pub swap_add: u64,
    /// Compare-and-swap: the value to compare with. Fetch-and-add: unused.
    pub compare: u64,
}

impl AtomicEth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 28;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; AtomicEth::LEN]) -> AtomicEth {
        AtomicEth {
            va: read_u64(bytes, 0),
            rkey: read_u32(bytes, 8),
            swap_add: read_u64(bytes, 12),
            compare: read_u64(bytes, 20),
        }
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; AtomicEth::LEN] {
        let mut out = [0; AtomicEth::LEN];
        put(&mut out, 0, &self.va.to_be_bytes());
        put(&mut out, 8, &self.rkey.to_be_bytes());
        put(&mut out, 12, &self.swap_add.to_be_bytes());
        put(&mut out, 20, &self.compare.to_be_bytes());
        out
    }
}

/// ACK extended transport header (AETH) of ACKs, NAKs and responses to reads and atomics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// Syndrome: ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Message sequence number (MSN): how many messages the responder has completed, modulo 2^24.
    pub msn: u32,
}

impl Aeth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 4;

    /// Parses the header.
    ///
    /// # Errors
    /// The syndrome byte, if its value is reserved.
    #[inline]
    pub fn parse(bytes: &[u8; Aeth::LEN]) -> Result<Aeth, u8> {
        let syndrome = Syndrome::from_byte(bytes[0]).ok_or(bytes[0])?;
        Ok(Aeth { syndrome, msn: u32::from_be_bytes(*bytes) & LOW_24 })
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; Aeth::LEN] {
        (u32::from(self.syndrome.to_byte()) << 24 | self.msn & LOW_24).to_be_bytes()
    }
}

/// Atomic ACK extended transport header (AtomicAckETH): the result of an atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicAckEth {
    /// The value in the responder's memory before the operation.
    pub original: u64,
}

impl AtomicAckEth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 8;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; AtomicAckEth::LEN]) -> AtomicAckEth {
        AtomicAckEth { original: u64::from_be_bytes(*bytes) }
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; AtomicAckEth::LEN] {
        self.original.to_be_bytes()
    }
}

/// Datagram extended transport header (DETH) of every UD packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deth {
    /// Queue key (Q_Key) that the receiving queue pair compares with its own.
    pub qkey: u32,
    /// Source queue pair, 24 bits.
    pub src_qp: u32,
}

impl Deth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 8;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; Deth::LEN]) -> Deth {
        Deth { qkey: read_u32(bytes, 0), src_qp: read_u32(bytes, 4) & LOW_24 }
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; Deth::LEN] {
        let mut out = [0; Deth::LEN];
        put(&mut out, 0, &self.qkey.to_be_bytes());
        put(&mut out, 4, &(self.src_qp & LOW_24).to_be_bytes());
        out
    }
}

/// IRN extension header of every Send packet: gives the receive that the message consumes and the payload's offset in
/// the message, so that the responder can place packets that arrive out of order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendEth {
    /// Sequence number of the receive work request that the message consumes, 24 bits.
    pub recv_wqe_sn: u32,
    /// Offset in bytes of this packet's payload from the start of the message.
    pub offset: u32,
}

impl SendEth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 8;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; SendEth::LEN]) -> SendEth {
        SendEth { recv_wqe_sn: read_u32(bytes, 0) & LOW_24, offset: read_u32(bytes, 4) }
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; SendEth::LEN] {
        let [a, b, c, d] = (self.recv_wqe_sn & LOW_24).to_be_bytes();
        let [e, f, g, h] = self.offset.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

/// Defines a header that is one 32-bit word with one field: the whole word, or its low 24 bits.
macro_rules! word {
    ($(#[$about:meta])* $name:ident { $(#[$field_about:meta])* $field:ident } & $mask:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $(#[$field_about])*
            pub $field: u32,
        }

        impl $name {
            /// Length on the wire in bytes.
            pub const LEN: usize = 4;

            /// Parses the header.
            #[inline]
            pub fn parse(bytes: &[u8; 4]) -> $name {
                $name { $field: u32::from_be_bytes(*bytes) & $mask }
            }
            /// The header as bytes on the wire.
            #[inline]
            pub fn emit(&self) -> [u8; 4] {
                (self.$field & $mask).to_be_bytes()
            }
        }
    };
}

word! {
    /// Invalidate extended transport header (IETH) of the last packet of a Send with Invalidate.
    Ieth {
        /// The remote key that the responder shall invalidate.
        rkey
    } & u32::MAX
}

word! {
    /// IRN extension header of the last packet of a Write with immediate data: gives the receive that the Write
    /// consumes.
    RecvEth {
        /// Sequence number of the receive work request that the Write consumes, 24 bits.
        recv_wqe_sn
    } & LOW_24
}

word! {
    /// IRN extension header of read and atomic requests: gives the order in which the responder executes them, whatever
    /// order they arrive in.
    ReadEth {
        /// Sequence number of the request among the requester's reads and atomics, 24 bits.
        read_wqe_sn
    } & LOW_24
}

/// IRN extension header of every ACK and NACK: selectively acknowledges the packets whose arrival triggered the ACK or
/// NACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackEth {
    /// PSN of the packet whose arrival triggered the ACK or NACK, 24 bits. It is the PSN of a request or of a response,
    /// which IRN numbers separately.
    pub psn: u32,
    /// Number of packets immediately before `psn` that this header acknowledges too, so that one NACK covers a run of
    /// packets.
    pub before: u8,
}

impl SackEth {
    /// Length on the wire in bytes.
    pub const LEN: usize = 4;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; SackEth::LEN]) -> SackEth {
        SackEth { psn: u32::from_be_bytes(*bytes) & LOW_24, before: bytes[0] }
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; SackEth::LEN] {
        (u32::from(self.before) << 24 | self.psn & LOW_24).to_be_bytes()
    }
}

/// Immediate data (ImmDt): four bytes for the receiving application, as a big-endian number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImmDt(pub u32);

impl ImmDt {
    /// Length on the wire in bytes.
    pub const LEN: usize = 4;

    /// Parses the header.
    #[inline]
    pub fn parse(bytes: &[u8; 4]) -> ImmDt {
        ImmDt(u32::from_be_bytes(*bytes))
    }
    /// The header as bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

/// Reads the headers of a packet one after the other. The caller has checked that `bytes` holds all of them.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Reader<'a> {
        Reader { bytes, at }
    }
    #[inline(always)]
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = array(self.bytes, self.at);
        self.at += N;
        field
    }
}
