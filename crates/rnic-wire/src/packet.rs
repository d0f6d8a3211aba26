//! A whole packet: its headers, its payload, and what may be wrong with it.

use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, BthView, Deth, Ieth, ImmDt, ReadEth, Reader, RecvEth, Reth, SackEth, SendEth,
};
use crate::icrc::IcrcSeed;
use crate::opcode::{Opcode, PayloadRule, Service, ext};
use crate::{CNP_RESERVED_LEN, ICRC_LEN, MAX_24};

/// Bytes of padding after a payload of `len` bytes.
pub const fn pad_count(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// All headers of a packet. Which extension headers it has follows from the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Base transport header.
    pub bth: Bth,
    /// UD.
    pub deth: Option<Deth>,
    /// Read requests; first or only packet of a Write; every packet of an IRN Write.
    pub reth: Option<Reth>,
    /// Atomic requests.
    pub atomic: Option<AtomicEth>,
    /// Acknowledgements, atomic answers, read responses except middle ones.
    pub aeth: Option<Aeth>,
    /// Atomic answers.
    pub atomic_ack: Option<AtomicAckEth>,
    /// IRN Sends.
    pub send: Option<SendEth>,
    /// "With Immediate".
    pub imm: Option<ImmDt>,
    /// "With Invalidate".
    pub ieth: Option<Ieth>,
    /// IRN Writes with immediate data.
    pub recv: Option<RecvEth>,
    /// IRN read and atomic requests.
    pub read: Option<ReadEth>,
    /// IRN acknowledgements, of requests and of read responses.
    pub sack: Option<SackEth>,
}

impl Headers {
    /// Headers without extensions; add those that the opcode asks for:
    /// `Headers { reth: Some(reth), ..Headers::new(bth) }`.
    #[inline]
    pub const fn new(bth: Bth) -> Headers {
        Headers {
            bth,
            deth: None,
            reth: None,
            atomic: None,
            aeth: None,
            atomic_ack: None,
            send: None,
            imm: None,
            ieth: None,
            recv: None,
            read: None,
            sack: None,
        }
    }

    /// Bytes of all headers, as the opcode determines them.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub const fn len(&self) -> usize {
        self.bth.opcode.header_len()
    }

    /// Whether exactly the extension headers are there that the opcode asks for.
    #[inline]
    pub const fn are_complete(&self) -> bool {
        const fn bit(present: bool, bit: u16) -> u16 {
            if present { bit } else { 0 }
        }
        let present = bit(self.deth.is_some(), ext::DETH)
            | bit(self.reth.is_some(), ext::RETH)
            | bit(self.atomic.is_some(), ext::ATOMIC)
            | bit(self.aeth.is_some(), ext::AETH)
            | bit(self.atomic_ack.is_some(), ext::ATOMIC_ACK)
            | bit(self.send.is_some(), ext::SEND)
            | bit(self.imm.is_some(), ext::IMM)
            | bit(self.ieth.is_some(), ext::IETH)
            | bit(self.recv.is_some(), ext::RECV)
            | bit(self.read.is_some(), ext::READ)
            | bit(self.sack.is_some(), ext::SACK);
        present == self.bth.opcode.extensions()
    }

    /// Writes all headers to the start of `out` and returns how many bytes they are.
    ///
    /// # Panics
    /// If the extension headers are not those of the opcode, or `out` is shorter than [`Headers::len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        assert!(self.are_complete(), "{} does not have these extension headers: {self:?}", self.bth.opcode);
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.bth.emit());
        if let Some(header) = &self.deth {
            put(&header.emit());
        }
        if let Some(header) = &self.reth {
            put(&header.emit());
        }
        if let Some(header) = &self.atomic {
            put(&header.emit());
        }
        if let Some(header) = &self.aeth {
            put(&header.emit());
        }
        if let Some(header) = &self.atomic_ack {
            put(&header.emit());
        }
        if let Some(header) = &self.send {
            put(&header.emit());
        }
        if let Some(header) = &self.imm {
            put(&header.emit());
        }
        if let Some(header) = &self.ieth {
            put(&header.emit());
        }
        if let Some(header) = &self.recv {
            put(&header.emit());
        }
        if let Some(header) = &self.read {
            put(&header.emit());
        }
        if let Some(header) = &self.sack {
            put(&header.emit());
        }
        at
    }

    /// Reads the headers at the start of `bytes`, whatever follows them; for what is left of a packet that was cut off.
    ///
    /// # Errors
    /// If they are not all there or have forbidden values.
    pub fn parse(bytes: &[u8]) -> Result<Headers, Reject> {
        let len = bytes.len();
        let view = BthView::new(bytes).ok_or(Reject::TooShort { len })?;
        let opcode = check_bth(view)?;
        let needed = opcode.header_len();
        if len < needed {
            return Err(Reject::HeadersCut { opcode, len, needed });
        }
        Headers::parse_extensions(view.fields(opcode), bytes)
    }

    /// Reads the extension headers of `bth.opcode` from `bytes`, which are at least as long as they.
    #[inline]
    fn parse_extensions(bth: Bth, bytes: &[u8]) -> Result<Headers, Reject> {
        let set = bth.opcode.extensions();
        let mut headers = Headers::new(bth);
        let mut reader = Reader::new(bytes, Bth::LEN);
        if set & ext::DETH != 0 {
            headers.deth = Some(Deth::parse(&reader.take()));
        }
        if set & ext::RETH != 0 {
            headers.reth = Some(Reth::parse(&reader.take()));
        }
        if set & ext::ATOMIC != 0 {
            headers.atomic = Some(AtomicEth::parse(&reader.take()));
        }
        if set & ext::AETH != 0 {
            headers.aeth = Some(Aeth::parse(&reader.take()).map_err(Reject::Syndrome)?);
        }
        if set & ext::ATOMIC_ACK != 0 {
            headers.atomic_ack = Some(AtomicAckEth::parse(&reader.take()));
        }
        if set & ext::SEND != 0 {
            headers.send = Some(SendEth::parse(&reader.take()));
        }
        if set & ext::IMM != 0 {
            headers.imm = Some(ImmDt::parse(&reader.take()));
        }
        if set & ext::IETH != 0 {
            headers.ieth = Some(Ieth::parse(&reader.take()));
        }
        if set & ext::RECV != 0 {
            headers.recv = Some(RecvEth::parse(&reader.take()));
        }
        if set & ext::READ != 0 {
            headers.read = Some(ReadEth::parse(&reader.take()));
        }
        if set & ext::SACK != 0 {
            headers.sack = Some(SackEth::parse(&reader.take()));
        }
        Ok(headers)
    }
}

/// A packet: what is in a UDP datagram to port 4791.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Its headers; `bth.pad` is the padding that the payload's length asks for.
    pub headers: Headers,
    /// The message's bytes in it, without padding. In a CNP the 16 reserved bytes.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A packet of these headers and this payload; sets the padding count.
    #[inline]
    pub const fn new(mut headers: Headers, payload: &'a [u8]) -> Packet<'a> {
        headers.bth.pad = pad_count(payload.len()) as u8;
        Packet { headers, payload }
    }

    /// A congestion notification for the queue pair `dest_qp`.
    pub const fn cnp(dest_qp: u32) -> Packet<'static> {
        Packet { headers: Headers::new(Bth::new(Opcode::CNP, dest_qp, 0)), payload: &[0; CNP_RESERVED_LEN] }
    }

    /// Bytes on the wire, ICRC included.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub const fn len(&self) -> usize {
        self.headers.len() + self.payload.len() + pad_count(self.payload.len()) + ICRC_LEN
    }

    /// Reads a packet from what a UDP datagram carries. Checks everything that can be checked without knowing the queue pair, except the
    /// ICRC, which depends on the IP header ([`IcrcSeed::check`]).
    ///
    /// # Errors
    /// What the specification forbids. Whatever the bytes are, there is no panic.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Reject> {
        let len = bytes.len();
        if len < Bth::LEN + ICRC_LEN {
            return Err(Reject::TooShort { len });
        }
        let view = BthView::new(bytes).ok_or(Reject::TooShort { len })?;
        let opcode = check_bth(view)?;
        if !len.is_multiple_of(4) {
            return Err(Reject::NotWords { len });
        }
        let header_len = opcode.header_len();
        if len < header_len + ICRC_LEN {
            return Err(Reject::HeadersCut { opcode, len: len - ICRC_LEN, needed: header_len });
        }
        let padded = &bytes[header_len..len - ICRC_LEN];
        let pad = view.pad();
        let payload_len = padded.len().checked_sub(usize::from(pad)).ok_or(Reject::PadBeyond { opcode, pad })?;
        let payload = &padded[..payload_len];
        check_payload(opcode, payload_len, pad)?;
        if view.dest_qp() == MAX_24 && opcode.service() != Service::Ud {
            return Err(Reject::MulticastQp { opcode });
        }
        let headers = Headers::parse_extensions(view.fields(opcode), bytes)?;
        Ok(Packet { headers, payload })
    }

    /// Checks the payload's length against the path MTU.
    ///
    /// # Errors
    /// [`Reject::NotMtu`] for a first or middle packet that is not full, [`Reject::OverMtu`] for one that is too long.
    #[inline]
    pub fn check_mtu(&self, mtu: usize) -> Result<(), Reject> {
        let (opcode, len) = (self.headers.bth.opcode, self.payload.len());
        match opcode.payload_rule() {
            PayloadRule::Full if len != mtu => Err(Reject::NotMtu { opcode, len, mtu }),
            PayloadRule::Some | PayloadRule::Any if len > mtu => Err(Reject::OverMtu { opcode, len, mtu }),
            _ => Ok(()),
        }
    }

    /// Writes the packet to the start of `out`, with the ICRC for the flow of `seed` and this IPv4 identification (IPv6: any number),
    /// and returns how many bytes it is.
    ///
    /// # Panics
    /// As [`Headers::emit`], or if `out` is shorter than [`Packet::len`].
    #[inline]
    pub fn emit(&self, seed: &IcrcSeed, id: u16, out: &mut [u8]) -> usize {
        let at = self.emit_without_icrc(out);
        let icrc = seed.icrc(id, &out[..at]);
        out[at..at + ICRC_LEN].copy_from_slice(&icrc.to_le_bytes());
        at + ICRC_LEN
    }

    /// Writes headers, payload and padding to the start of `out` and returns how many bytes they are.
    ///
    /// # Panics
    /// As [`Headers::emit`], or if `out` is too short.
    #[inline]
    pub fn emit_without_icrc(&self, out: &mut [u8]) -> usize {
        let mut headers = self.headers;
        let pad = pad_count(self.payload.len());
        headers.bth.pad = pad as u8;
        let start = headers.emit(out);
        let end = start + self.payload.len();
        out[start..end].copy_from_slice(self.payload);
        out[end..end + pad].fill(0);
        end + pad
    }
}

#[inline]
fn check_bth(view: BthView) -> Result<Opcode, Reject> {
    let opcode = view.opcode().ok_or(Reject::UnknownOpcode(view.opcode_byte()))?;
    match view.transport_version() {
        0 => Ok(opcode),
        version => Err(Reject::TransportVersion(version)),
    }
}

#[inline]
fn check_payload(opcode: Opcode, len: usize, pad: u8) -> Result<(), Reject> {
    match opcode.payload_rule() {
        PayloadRule::Empty if len != 0 || pad != 0 => {
            Err(Reject::PayloadForbidden { opcode, len: len + usize::from(pad) })
        }
        PayloadRule::Full | PayloadRule::Some if len == 0 => Err(Reject::PayloadMissing { opcode }),
        PayloadRule::Full if pad != 0 => Err(Reject::PadForbidden { opcode, pad }),
        PayloadRule::Reserved if len != CNP_RESERVED_LEN => Err(Reject::CnpLength { len }),
        _ => Ok(()),
    }
}

/// Why bytes are not a packet that may be looked at any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reject {
    /// There is no room for a base transport header and an ICRC.
    #[error("the packet is {len} B long, base transport header and ICRC alone are 16 B")]
    TooShort {
        /// Bytes that are there.
        len: usize,
    },
    /// The opcode is reserved, or of a service that is not known here.
    #[error("opcode {0:#04x} is not one of RC, UC, UD, CNP or IRN")]
    UnknownOpcode(u8),
    /// Only version 0 is defined.
    #[error("transport version {0} is not 0")]
    TransportVersion(u8),
    /// Padding makes every packet a whole number of words.
    #[error("the packet is {len} B long, not a multiple of 4 B")]
    NotWords {
        /// Bytes that are there.
        len: usize,
    },
    /// The packet ends before its headers do.
    #[error("the headers of {opcode} are {needed} B long, this packet has {len} B for them")]
    HeadersCut {
        /// The opcode.
        opcode: Opcode,
        /// Bytes before the ICRC.
        len: usize,
        /// Bytes of all headers.
        needed: usize,
    },
    /// The padding count exceeds what follows the headers.
    #[error("{opcode} has a padding count of {pad} and fewer bytes after its headers")]
    PadBeyond {
        /// The opcode.
        opcode: Opcode,
        /// Padding count.
        pad: u8,
    },
    /// Something follows the headers of a packet that has no payload.
    #[error("{opcode} has no payload, {len} B follow the headers of this one")]
    PayloadForbidden {
        /// The opcode.
        opcode: Opcode,
        /// Bytes of payload and padding.
        len: usize,
    },
    /// A first, middle or last packet has no payload.
    #[error("{opcode} is one of several packets and must have payload, this one has none")]
    PayloadMissing {
        /// The opcode.
        opcode: Opcode,
    },
    /// A first or middle packet has padding.
    #[error("{opcode} has a padding count of {pad}, a full packet has no padding")]
    PadForbidden {
        /// The opcode.
        opcode: Opcode,
        /// Padding count.
        pad: u8,
    },
    /// A CNP does not have its 16 reserved bytes.
    #[error("{len} B follow the header of the CNP, not 16 B")]
    CnpLength {
        /// Bytes that are there.
        len: usize,
    },
    /// A connected packet is addressed to the multicast queue pair.
    #[error("{opcode} is addressed to queue pair 0xffffff, which is for multicast datagrams")]
    MulticastQp {
        /// The opcode.
        opcode: Opcode,
    },
    /// The syndrome of an acknowledgement is reserved.
    #[error("syndrome {0:#04x} is reserved")]
    Syndrome(u8),
    /// A first or middle packet is not full.
    #[error("{opcode} has {len} B of payload, not the path MTU of {mtu} B")]
    NotMtu {
        /// The opcode.
        opcode: Opcode,
        /// Bytes of payload.
        len: usize,
        /// Path MTU in bytes.
        mtu: usize,
    },
    /// A packet is longer than the path allows.
    #[error("{opcode} has {len} B of payload, more than the path MTU of {mtu} B")]
    OverMtu {
        /// The opcode.
        opcode: Opcode,
        /// Bytes of payload.
        len: usize,
        /// Path MTU in bytes.
        mtu: usize,
    },
}

impl Reject {
    /// A short name that does not change, for counters.
    pub const fn label(&self) -> &'static str {
        match self {
            Reject::TooShort { .. } => "too_short",
            Reject::UnknownOpcode(_) => "unknown_opcode",
            Reject::TransportVersion(_) => "transport_version",
            Reject::NotWords { .. } => "not_words",
            Reject::HeadersCut { .. } => "headers_cut",
            Reject::PadBeyond { .. } => "pad_beyond",
            Reject::PayloadForbidden { .. } => "payload_forbidden",
            Reject::PayloadMissing { .. } => "payload_missing",
            Reject::PadForbidden { .. } => "pad_forbidden",
            Reject::CnpLength { .. } => "cnp_length",
            Reject::MulticastQp { .. } => "multicast_qp",
            Reject::Syndrome(_) => "syndrome",
            Reject::NotMtu { .. } => "not_mtu",
            Reject::OverMtu { .. } => "over_mtu",
        }
    }
}
