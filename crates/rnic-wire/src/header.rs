//! The base transport header and the extension headers, as plain structs and as bytes.
//!
//! `parse` takes exactly the header's bytes and `emit` returns them, so neither can fail except where a field has forbidden values.
//! Reserved bits are zero on emission and ignored on reception.

use crate::bytes::{array, put, read_u16, read_u32, read_u64};
use crate::opcode::{Opcode, Service};
use crate::syndrome::Syndrome;

const LOW_24: u32 = crate::MAX_24;

/// Base transport header: what every packet begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// The completion that the message causes shall raise an event.
    pub solicited: bool,
    /// Path migration state; set on a connection that never migrates.
    pub migrated: bool,
    /// Bytes of padding between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification (InfiniBand; RoCEv2 uses the IP header's ECN bits).
    pub fecn: bool,
    /// Backward congestion notification; set in a CNP.
    pub becn: bool,
    /// Queue pair to which the packet goes, 24 bits.
    pub dest_qp: u32,
    /// The requester wants an acknowledgement of this packet.
    pub ack_request: bool,
    /// IRN: how often the packet was sent before, at most 127; in an acknowledgement, that of the packet which caused it. Reserved, and 0,
    /// in packets of other services.
    pub attempt: u8,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = 12;
    /// The largest number of attempts that is told.
    pub const MOST_ATTEMPTS: u8 = 127;
    /// The partition that every port is a full member of.
    pub const DEFAULT_PKEY: u16 = 0xffff;

    /// A header with the default partition key, migrated, and every other flag clear. A CNP has BECN set instead, as network cards send it.
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

    /// The bytes on the wire; transport version 0.
    #[inline]
    pub fn emit(&self) -> [u8; Bth::LEN] {
        let flags = u8::from(self.solicited) << 7 | u8::from(self.migrated) << 6 | (self.pad & 3) << 4;
        let first = [self.opcode.to_u8(), flags, (self.pkey >> 8) as u8, self.pkey as u8];
        let congestion = u32::from(self.fecn) << 31 | u32::from(self.becn) << 30;
        let mut out = [0; Bth::LEN];
        put(&mut out, 0, &first);
        put(&mut out, 4, &(congestion | self.dest_qp & LOW_24).to_be_bytes());
        let attempt = if self.opcode.service() == Service::Irn { self.attempt & Bth::MOST_ATTEMPTS } else { 0 };
        let reliability = u32::from(self.ack_request) << 31 | u32::from(attempt) << 24;
        put(&mut out, 8, &(reliability | self.psn & LOW_24).to_be_bytes());
        out
    }
}

/// A look at the base transport header of bytes that have not been checked any further.
#[derive(Clone, Copy, Debug)]
pub struct BthView<'a> {
    bytes: &'a [u8],
}

impl<'a> BthView<'a> {
    /// A view of the header at the start of `bytes`; `None` if they are too few.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<BthView<'a>> {
        bytes.get(..Bth::LEN).map(|bytes| BthView { bytes })
    }
    /// The byte that names the opcode.
    #[inline]
    pub fn opcode_byte(self) -> u8 {
        self.bytes[0]
    }
    /// The opcode, if it is known.
    #[inline]
    pub fn opcode(self) -> Option<Opcode> {
        Opcode::from_u8(self.bytes[0])
    }
    /// Whether the solicited event flag is set.
    #[inline]
    pub fn solicited(self) -> bool {
        self.bytes[1] & 0x80 != 0
    }
    /// Whether the migration flag is set.
    #[inline]
    pub fn migrated(self) -> bool {
        self.bytes[1] & 0x40 != 0
    }
    /// Bytes of padding.
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
    /// Forward congestion notification.
    #[inline]
    pub fn fecn(self) -> bool {
        self.bytes[4] & 0x80 != 0
    }
    /// Backward congestion notification.
    #[inline]
    pub fn becn(self) -> bool {
        self.bytes[4] & 0x40 != 0
    }
    /// Queue pair to which the packet goes.
    #[inline]
    pub fn dest_qp(self) -> u32 {
        read_u32(self.bytes, 4) & LOW_24
    }
    /// Whether an acknowledgement is wanted.
    #[inline]
    pub fn ack_request(self) -> bool {
        self.bytes[8] & 0x80 != 0
    }
    /// IRN: how often the packet was sent before; reserved in other packets.
    #[inline]
    pub fn attempt(self) -> u8 {
        self.bytes[8] & Bth::MOST_ATTEMPTS
    }
    /// Packet sequence number.
    #[inline]
    pub fn psn(self) -> u32 {
        read_u32(self.bytes, 8) & LOW_24
    }
    /// All fields, with an opcode that the caller has found to be known.
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

/// RDMA extended transport header: where in the responder's memory.
///
/// In the first packet of an RC or UC Write and in a read request it describes the message. In an IRN Write every packet has one: `va`
/// is where this packet's first byte goes, `dma_len` counts from there to the end of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    /// Virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length in bytes.
    pub dma_len: u32,
}

impl Reth {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; Reth::LEN]) -> Reth {
        Reth { va: read_u64(bytes, 0), rkey: read_u32(bytes, 8), dma_len: read_u32(bytes, 12) }
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; Reth::LEN] {
        let mut out = [0; Reth::LEN];
        put(&mut out, 0, &self.va.to_be_bytes());
        put(&mut out, 8, &self.rkey.to_be_bytes());
        put(&mut out, 12, &self.dma_len.to_be_bytes());
        out
    }
}

/// Atomic extended transport header: a compare-and-swap or fetch-and-add of eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicEth {
    /// Virtual address, a multiple of 8.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// The value to store if the comparison holds, or to add.
    pub swap_add: u64,
    /// The value to compare with; without meaning in a fetch-and-add.
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes on the wire.
    pub const LEN: usize = 28;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; AtomicEth::LEN]) -> AtomicEth {
        AtomicEth {
            va: read_u64(bytes, 0),
            rkey: read_u32(bytes, 8),
            swap_add: read_u64(bytes, 12),
            compare: read_u64(bytes, 20),
        }
    }
    /// The bytes on the wire.
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

/// ACK extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// What the acknowledgement says.
    pub syndrome: Syndrome,
    /// Message sequence number: messages that the responder has completed, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// The header in these bytes.
    ///
    /// # Errors
    /// The syndrome, if it is a reserved one.
    #[inline]
    pub fn parse(bytes: &[u8; Aeth::LEN]) -> Result<Aeth, u8> {
        let syndrome = Syndrome::from_byte(bytes[0]).ok_or(bytes[0])?;
        Ok(Aeth { syndrome, msn: u32::from_be_bytes(*bytes) & LOW_24 })
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; Aeth::LEN] {
        (u32::from(self.syndrome.to_byte()) << 24 | self.msn & LOW_24).to_be_bytes()
    }
}

/// Atomic ACK extended transport header: the eight bytes that were there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicAckEth {
    /// The value before the operation.
    pub original: u64,
}

impl AtomicAckEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; AtomicAckEth::LEN]) -> AtomicAckEth {
        AtomicAckEth { original: u64::from_be_bytes(*bytes) }
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; AtomicAckEth::LEN] {
        self.original.to_be_bytes()
    }
}

/// Datagram extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Queue pair that sent it, 24 bits.
    pub src_qp: u32,
}

impl Deth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; Deth::LEN]) -> Deth {
        Deth { qkey: read_u32(bytes, 0), src_qp: read_u32(bytes, 4) & LOW_24 }
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; Deth::LEN] {
        let mut out = [0; Deth::LEN];
        put(&mut out, 0, &self.qkey.to_be_bytes());
        put(&mut out, 4, &(self.src_qp & LOW_24).to_be_bytes());
        out
    }
}

/// IRN, in every Send packet: which receive it belongs to and where in the message, so that it can be placed in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendEth {
    /// Number of the receive work request, in order of use, 24 bits.
    pub recv_wqe_sn: u32,
    /// Bytes of the message before this packet's payload.
    pub offset: u32,
}

impl SendEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; SendEth::LEN]) -> SendEth {
        SendEth { recv_wqe_sn: read_u32(bytes, 0) & LOW_24, offset: read_u32(bytes, 4) }
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; SendEth::LEN] {
        let [a, b, c, d] = (self.recv_wqe_sn & LOW_24).to_be_bytes();
        let [e, f, g, h] = self.offset.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

/// A header that is one 32-bit word: all of it, or its low 24 bits.
macro_rules! word {
    ($(#[$about:meta])* $name:ident { $(#[$field_about:meta])* $field:ident } & $mask:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $(#[$field_about])*
            pub $field: u32,
        }

        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = 4;

            /// The header in these bytes.
            #[inline]
            pub fn parse(bytes: &[u8; 4]) -> $name {
                $name { $field: u32::from_be_bytes(*bytes) & $mask }
            }
            /// The bytes on the wire.
            #[inline]
            pub fn emit(&self) -> [u8; 4] {
                (self.$field & $mask).to_be_bytes()
            }
        }
    };
}

word! {
    /// Invalidate extended transport header.
    Ieth {
        /// The key that the responder shall invalidate.
        rkey
    } & u32::MAX
}

word! {
    /// IRN, in the last packet of a Write with immediate data: which receive it uses up.
    RecvEth {
        /// Number of the receive work request, in order of use, 24 bits.
        recv_wqe_sn
    } & LOW_24
}

word! {
    /// IRN, in read and atomic requests: the responder executes them in this order, whatever order they arrive in.
    ReadEth {
        /// Number of the read or atomic request, 24 bits.
        read_wqe_sn
    } & LOW_24
}

/// IRN, in every ACK and NACK: the packet whose arrival caused it, of the PSN space that is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackEth {
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// So many packets directly before it have arrived as well: one NACK speaks for a run of packets.
    pub before: u8,
}

impl SackEth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; SackEth::LEN]) -> SackEth {
        SackEth { psn: u32::from_be_bytes(*bytes) & LOW_24, before: bytes[0] }
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; SackEth::LEN] {
        (u32::from(self.before) << 24 | self.psn & LOW_24).to_be_bytes()
    }
}

/// Immediate data: four bytes for the receiving application, first byte on the wire most significant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImmDt(pub u32);

impl ImmDt {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// The header in these bytes.
    #[inline]
    pub fn parse(bytes: &[u8; 4]) -> ImmDt {
        ImmDt(u32::from_be_bytes(*bytes))
    }
    /// The bytes on the wire.
    #[inline]
    pub fn emit(&self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

/// Reads headers one after the other from bytes that are long enough.
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
