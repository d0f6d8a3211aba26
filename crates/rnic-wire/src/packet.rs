//! Whole packets: headers, payload, and the reasons to reject a packet.

use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, BthView, Deth, Ieth, ImmDt, ReadEth, Reader, RecvEth, Reth, SackEth, SendEth,
};
use crate::icrc::IcrcSeed;
use crate::opcode::{Opcode, PayloadRule, Service, ext};
use crate::{CNP_RESERVED_LEN, ICRC_LEN, MAX_24};

/// Number of padding bytes after a payload of `len` bytes, 0 to 3.
pub const fn pad_count(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// All headers of a packet. The opcode determines which extension headers are present.
///
/// ```
/// use rnic_wire::{Bth, Headers, ImmDt, Opcode};
///
/// let bth = Bth::new(Opcode::RC_SEND_ONLY_IMM, 17, 100);
/// assert!(!Headers::new(bth).are_complete(), "the opcode requires immediate data");
/// let headers = Headers { imm: Some(ImmDt(42)), ..Headers::new(bth) };
/// assert!(headers.are_complete());
///
/// let mut bytes = [0; 16];
/// assert_eq!(headers.emit(&mut bytes), 16);
/// assert_eq!(Headers::parse(&bytes)?, headers);
/// # Ok::<(), rnic_wire::Reject>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Base transport header.
    pub bth: Bth,
    /// Datagram header; present in UD packets.
    pub deth: Option<Deth>,
    /// RDMA header; present in read requests, in the first or only packet of a Write, and in every packet of an IRN
    /// Write.
    pub reth: Option<Reth>,
    /// Atomic header; present in atomic requests.
    pub atomic: Option<AtomicEth>,
    /// ACK header; present in acknowledgements, in atomic acknowledgements, and in First, Last and Only packets of read
    /// responses.
    pub aeth: Option<Aeth>,
    /// Result of an atomic operation; present in atomic acknowledgements.
    pub atomic_ack: Option<AtomicAckEth>,
    /// IRN's receive number and offset; present in every packet of an IRN Send.
    pub send: Option<SendEth>,
    /// Immediate data; present in packets "with Immediate".
    pub imm: Option<ImmDt>,
    /// Remote key to invalidate; present in packets "with Invalidate".
    pub ieth: Option<Ieth>,
    /// IRN's receive number; present in the last or only packet of an IRN Write with immediate data.
    pub recv: Option<RecvEth>,
    /// IRN's number of the request in the order of execution; present in IRN read and atomic requests.
    pub read: Option<ReadEth>,
    /// IRN's selective acknowledgement; present in IRN acknowledgements of requests and of responses.
    pub sack: Option<SackEth>,
}

impl Headers {
    /// Headers without extension headers. The caller adds the extension headers of the opcode:
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

    /// Length of all headers in bytes, which the opcode determines.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub const fn len(&self) -> usize {
        self.bth.opcode.header_len()
    }

    /// Whether all extension headers that the opcode requires are present, and no others.
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

    /// Writes all headers to the start of `out` and returns their length in bytes.
    ///
    /// # Panics
    /// If [`Headers::are_complete`] is false, or `out` is shorter than [`Headers::len`].
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

    /// Parses the headers at the start of `bytes` and ignores the bytes after them. Use it for a truncated packet, of
    /// which a capture holds only the start.
    ///
    /// # Errors
    /// If `bytes` ends before the headers do, or a header has forbidden values.
    pub fn parse(bytes: &[u8]) -> Result<Headers, Reject> {
        let len = bytes.len();
        let view = BthView::new(bytes).ok_or(Reject::TooShort { len })?;
        let opcode = check_bth(view)?;
        let needed = opcode.header_len();
        if len < needed {
            return Err(Reject::HeadersTruncated { opcode, len, needed });
        }
        Headers::parse_extensions(view.fields(opcode), bytes)
    }

    /// Parses the extension headers of `bth.opcode` from `bytes`. The caller has checked that `bytes` holds all
    /// headers.
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

/// A packet: the payload of a UDP datagram to port 4791, except the ICRC at its end.
///
/// ```
/// use rnic_wire::{IcrcSeed, Packet, ROCE_PORT};
///
/// let cnp = Packet::cnp(17);
/// assert_eq!(cnp.len(), 32, "BTH, 16 reserved bytes and ICRC");
///
/// let mut datagram = [0; 32];
/// let seed = IcrcSeed::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 49152, ROCE_PORT);
/// cnp.emit(&seed, 0, &mut datagram);
/// assert_eq!(Packet::parse(&datagram)?, cnp);
///
/// let error = Packet::parse(&datagram[..28]).unwrap_err();
/// assert_eq!(error.to_string(), "12 B follow the header of the CNP, not 16 B");
/// # Ok::<(), rnic_wire::Reject>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Headers; `bth.pad` is the number of padding bytes after `payload`.
    pub headers: Headers,
    /// Payload without padding; in a CNP, the 16 reserved bytes.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A packet with these headers and this payload; sets `headers.bth.pad`.
    #[inline]
    pub const fn new(mut headers: Headers, payload: &'a [u8]) -> Packet<'a> {
        headers.bth.pad = pad_count(payload.len()) as u8;
        Packet { headers, payload }
    }

    /// A congestion notification packet to queue pair `dest_qp`.
    pub const fn cnp(dest_qp: u32) -> Packet<'static> {
        Packet { headers: Headers::new(Bth::new(Opcode::CNP, dest_qp, 0)), payload: &[0; CNP_RESERVED_LEN] }
    }

    /// Length on the wire in bytes, ICRC included.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub const fn len(&self) -> usize {
        self.headers.len() + self.payload.len() + pad_count(self.payload.len()) + ICRC_LEN
    }

    /// Parses a packet from `bytes`, the payload of a UDP datagram. It checks everything that can be checked without
    /// knowing the queue pair, except the ICRC, which also covers the IP header ([`IcrcSeed::check`]).
    ///
    /// # Errors
    /// If the packet violates the specification. No input causes a panic.
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
            return Err(Reject::HeadersTruncated { opcode, len: len - ICRC_LEN, needed: header_len });
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
    /// [`Reject::NotMtu`] for a First or Middle packet whose payload is not exactly one MTU, [`Reject::OverMtu`] for a
    /// Last or Only packet whose payload exceeds the MTU. First and Middle packets of IRN may have any payload up to
    /// the MTU that is a multiple of 4, except none.
    #[inline]
    pub fn check_mtu(&self, mtu: usize) -> Result<(), Reject> {
        let (opcode, len) = (self.headers.bth.opcode, self.payload.len());
        match opcode.payload_rule() {
            PayloadRule::Full if opcode.service() == Service::Irn => match len {
                0 => Err(Reject::NotMtu { opcode, len, mtu }),
                _ if len > mtu => Err(Reject::OverMtu { opcode, len, mtu }),
                _ if !len.is_multiple_of(4) => Err(Reject::NotMtu { opcode, len, mtu }),
                _ => Ok(()),
            },
            PayloadRule::Full if len != mtu => Err(Reject::NotMtu { opcode, len, mtu }),
            PayloadRule::Some | PayloadRule::Any if len > mtu => Err(Reject::OverMtu { opcode, len, mtu }),
            _ => Ok(()),
        }
    }

    /// Writes the packet with its ICRC to the start of `out` and returns its length in bytes. `seed` holds the
    /// addresses and ports of the datagram; `id` is its IPv4 identification (ignored for IPv6).
    ///
    /// # Panics
    /// Like [`Headers::emit`], or if `out` is shorter than [`Packet::len`].
    #[inline]
    pub fn emit(&self, seed: &IcrcSeed, id: u16, out: &mut [u8]) -> usize {
        let at = self.emit_without_icrc(out);
        let icrc = seed.icrc(id, &out[..at]);
        out[at..at + ICRC_LEN].copy_from_slice(&icrc.to_le_bytes());
        at + ICRC_LEN
    }

    /// Writes headers, payload and padding to the start of `out` and returns their length in bytes.
    ///
    /// # Panics
    /// Like [`Headers::emit`], or if `out` is too short.
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

/// The reason why received bytes are rejected: they are not a valid packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reject {
    /// The packet is shorter than a base transport header and an ICRC.
    #[error("the packet is {len} B long; base transport header and ICRC alone are 16 B")]
    TooShort {
        /// Length of the packet in bytes.
        len: usize,
    },
    /// The opcode is reserved, or belongs to a service or operation that this crate does not support.
    #[error("opcode {0:#04x} is not a supported opcode of RC, UC, UD, CNP or IRN")]
    UnknownOpcode(u8),
    /// The transport version is not 0, the only version that the specification defines.
    #[error("the transport version is {0}, not 0")]
    TransportVersion(u8),
    /// The length of the packet is not a multiple of four bytes, although every sender pads its packets to such a
    /// length.
    #[error("the packet is {len} B long, which is not a multiple of 4 B")]
    NotWords {
        /// Length of the packet in bytes.
        len: usize,
    },
    /// The packet ends before its headers do.
    #[error("the headers of {opcode} are {needed} B long, but the packet has only {len} B for them")]
    HeadersTruncated {
        /// The opcode.
        opcode: Opcode,
        /// Number of bytes that can hold headers: the packet's length without the ICRC, or, for [`Headers::parse`], the
        /// number of given bytes.
        len: usize,
        /// Length of all headers in bytes.
        needed: usize,
    },
    /// The padding count exceeds the number of bytes between the headers and the ICRC.
    #[error("{opcode} has a padding count of {pad}, but fewer bytes than that after its headers")]
    PadBeyond {
        /// The opcode.
        opcode: Opcode,
        /// Padding count.
        pad: u8,
    },
    /// The packet has payload or padding, which its opcode forbids.
    #[error("{opcode} must not have payload or padding, but {len} B follow the headers")]
    PayloadForbidden {
        /// The opcode.
        opcode: Opcode,
        /// Length of payload and padding in bytes.
        len: usize,
    },
    /// A First, Middle or Last packet has no payload.
    #[error("{opcode} must have at least 1 B of payload, but has none")]
    PayloadMissing {
        /// The opcode.
        opcode: Opcode,
    },
    /// A First or Middle packet has padding, although its payload must be a full MTU.
    #[error("{opcode} has a padding count of {pad}; a packet with a full MTU of payload must not have padding")]
    PadForbidden {
        /// The opcode.
        opcode: Opcode,
        /// Padding count.
        pad: u8,
    },
    /// The length of a CNP's reserved field is not 16 bytes.
    #[error("{len} B follow the header of the CNP, not 16 B")]
    CnpLength {
        /// Bytes after the header, without padding and ICRC.
        len: usize,
    },
    /// A packet of another service than UD is addressed to queue pair 0xffffff, which is only for UD multicast.
    #[error("{opcode} is addressed to queue pair 0xffffff, which accepts only UD multicast")]
    MulticastQp {
        /// The opcode.
        opcode: Opcode,
    },
    /// The AETH syndrome has a reserved value.
    #[error("AETH syndrome {0:#04x} is reserved")]
    Syndrome(u8),
    /// The payload of a First or Middle packet is not exactly one path MTU.
    #[error("{opcode} has {len} B of payload, not exactly the path MTU of {mtu} B")]
    NotMtu {
        /// The opcode.
        opcode: Opcode,
        /// Length of the payload in bytes.
        len: usize,
        /// Path MTU in bytes.
        mtu: usize,
    },
    /// The payload exceeds the path MTU.
    #[error("{opcode} has {len} B of payload, more than the path MTU of {mtu} B")]
    OverMtu {
        /// The opcode.
        opcode: Opcode,
        /// Length of the payload in bytes.
        len: usize,
        /// Path MTU in bytes.
        mtu: usize,
    },
}

impl Reject {
    /// A short stable name of the reason, for use as the label of a counter.
    pub const fn label(&self) -> &'static str {
        match self {
            Reject::TooShort { .. } => "too_short",
            Reject::UnknownOpcode(_) => "unknown_opcode",
            Reject::TransportVersion(_) => "transport_version",
            Reject::NotWords { .. } => "not_words",
            Reject::HeadersTruncated { .. } => "headers_truncated",
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
