//! Opcodes: the first byte of the base transport header.
//!
//! The upper three bits of an opcode give the service, the lower five bits the operation. The opcodes of RC, UC, UD and
//! CNP are those of the InfiniBand Architecture Specification (volume 1, table 38, and annex A17 for CNP). IRN packets
//! carry extension headers that RC packets lack, so IRN has opcodes of its own: `0xC0` plus the RC opcode, in the range
//! that the specification reserves for manufacturers.

use std::fmt;

/// The transport service of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification packets (CNPs).
    Cnp,
    /// Reliable connection with IRN's loss recovery.
    Irn,
}

impl Service {
    /// The name of the service: "RC", "UC", "UD", "CNP" or "IRN".
    pub const fn name(self) -> &'static str {
        match self {
            Service::Rc => "RC",
            Service::Uc => "UC",
            Service::Ud => "UD",
            Service::Cnp => "CNP",
            Service::Irn => "IRN",
        }
    }

    /// The upper three bits that all opcodes of the service share; the lower five bits are 0.
    const fn base(self) -> u8 {
        match self {
            Service::Rc => 0x00,
            Service::Uc => 0x20,
            Service::Ud => 0x60,
            Service::Cnp => 0x80,
            Service::Irn => 0xc0,
        }
    }

    /// The service whose range of opcodes contains this byte value, whether or not the value is a defined opcode;
    /// `None` if the range belongs to no service that this crate supports.
    pub const fn of(code: u8) -> Option<Service> {
        match code & 0xe0 {
            0x00 => Some(Service::Rc),
            0x20 => Some(Service::Uc),
            0x60 => Some(Service::Ud),
            0x80 => Some(Service::Cnp),
            0xc0 => Some(Service::Irn),
            _ => None,
        }
    }
}

/// The operation that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Send: a packet of a message that goes to a posted receive.
    Send,
    /// RDMA Write: a packet of a message that goes to the responder's memory.
    Write,
    /// RDMA Read request.
    ReadRequest,
    /// RDMA Read response: carries data from the responder's memory.
    ReadResponse,
    /// Acknowledgement of requests: ACK, NAK or RNR NAK.
    Acknowledge,
    /// Response to an atomic request.
    AtomicAcknowledge,
    /// Request for an atomic compare-and-swap.
    CompareSwap,
    /// Request for an atomic fetch-and-add.
    FetchAdd,
    /// IRN: the requester's ACK or NACK of read and atomic responses.
    ReadAcknowledge,
    /// IRN: asks the peer of a connection, before its first packet, whether it has IRN, or answers this question.
    Offer,
    /// Congestion notification packet: tells a sender that its packets met congestion.
    Cnp,
}

impl Operation {
    /// Whether the packet is a request to the responder. IRN's read acknowledgements, although the requester sends
    /// them, offers and CNPs are not requests.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Operation::Send | Operation::Write | Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd
        )
    }
    /// Whether the packet is a responder's response to a request.
    pub const fn is_response(self) -> bool {
        matches!(self, Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge)
    }
    /// Whether the packet is an atomic request.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Operation::CompareSwap | Operation::FetchAdd)
    }
}

/// Position of a packet in its message. A packet of an operation that always takes one packet has position `Only`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Position {
    /// First packet of a message of at least two packets.
    First,
    /// Neither the first nor the last packet of its message.
    Middle,
    /// Last packet of a message of at least two packets.
    Last,
    /// The only packet of its message.
    Only,
}

/// Additional field in the last or only packet of a Send or Write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Extra {
    /// No additional field.
    #[default]
    None,
    /// "With Immediate": four bytes of immediate data.
    Immediate,
    /// "With Invalidate": the remote key that the responder shall invalidate.
    Invalidate,
}

/// Payload length that the specification allows for an opcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum PayloadRule {
    /// No payload.
    Empty,
    /// Exactly one path MTU: a First or Middle packet.
    Full,
    /// From one byte to one path MTU: a Last packet.
    Some,
    /// From zero bytes to one path MTU: an Only packet.
    Any,
    /// The 16 reserved bytes of a CNP.
    Reserved,
}

/// The bits of a set of extension headers, one for each header. On the wire, a header with a lower bit precedes a
/// header with a higher bit.
pub(crate) mod ext {
    pub(crate) const DETH: u16 = 1 << 0;
    pub(crate) const RETH: u16 = 1 << 1;
    pub(crate) const ATOMIC: u16 = 1 << 2;
    pub(crate) const AETH: u16 = 1 << 3;
    pub(crate) const ATOMIC_ACK: u16 = 1 << 4;
    pub(crate) const SEND: u16 = 1 << 5;
    pub(crate) const IMM: u16 = 1 << 6;
    pub(crate) const IETH: u16 = 1 << 7;
    pub(crate) const RECV: u16 = 1 << 8;
    pub(crate) const READ: u16 = 1 << 9;
    pub(crate) const SACK: u16 = 1 << 10;
}

/// Properties of an opcode.
#[derive(Clone, Copy)]
struct Info {
    known: bool,
    service: Service,
    operation: Operation,
    position: Position,
    extra: Extra,
    payload: PayloadRule,
    extensions: u16,
    header_len: u8,
}

/// The opcode of a packet; every value of this type is an opcode that this crate supports.
///
/// ```
/// use rnic_wire::{Extra, Opcode, Operation, PayloadRule, Position, Service};
///
/// let opcode = Opcode::new(Service::Rc, Operation::Write, Position::Last, Extra::Immediate).unwrap();
/// assert_eq!(opcode, Opcode::RC_WRITE_LAST_IMM);
/// assert_eq!(opcode.to_string(), "RC RDMA WRITE Last with Immediate");
/// assert_eq!(opcode.payload_rule(), PayloadRule::Some);
/// assert!(opcode.consumes_receive());
///
/// assert_eq!(Opcode::from_u8(0x1c), None, "FLUSH is not supported");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(u8);

macro_rules! opcodes {
    ($($name:ident = $code:literal, $about:literal;)*) => {
        impl Opcode {
            $(#[doc = $about] pub const $name: Opcode = Opcode($code);)*

            /// All supported opcodes, in ascending order.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name),*];
        }
    };
}

opcodes! {
    RC_SEND_FIRST = 0x00, "First packet of a Send.";
    RC_SEND_MIDDLE = 0x01, "Middle packet of a Send.";
    RC_SEND_LAST = 0x02, "Last packet of a Send.";
    RC_SEND_LAST_IMM = 0x03, "Last packet of a Send, with immediate data.";
    RC_SEND_ONLY = 0x04, "Send of one packet.";
    RC_SEND_ONLY_IMM = 0x05, "Send of one packet, with immediate data.";
    RC_WRITE_FIRST = 0x06, "First packet of an RDMA Write.";
    RC_WRITE_MIDDLE = 0x07, "Middle packet of an RDMA Write.";
    RC_WRITE_LAST = 0x08, "Last packet of an RDMA Write.";
    RC_WRITE_LAST_IMM = 0x09, "Last packet of an RDMA Write, with immediate data.";
    RC_WRITE_ONLY = 0x0a, "RDMA Write of one packet.";
    RC_WRITE_ONLY_IMM = 0x0b, "RDMA Write of one packet, with immediate data.";
    RC_READ_REQUEST = 0x0c, "RDMA Read request.";
    RC_READ_RESPONSE_FIRST = 0x0d, "First packet of an RDMA Read response.";
    RC_READ_RESPONSE_MIDDLE = 0x0e, "Middle packet of an RDMA Read response.";
    RC_READ_RESPONSE_LAST = 0x0f, "Last packet of an RDMA Read response.";
    RC_READ_RESPONSE_ONLY = 0x10, "RDMA Read response of one packet.";
    RC_ACKNOWLEDGE = 0x11, "ACK, RNR NAK or NAK.";
    RC_ATOMIC_ACKNOWLEDGE = 0x12, "Response to an atomic request.";
    RC_COMPARE_SWAP = 0x13, "Atomic compare-and-swap request.";
    RC_FETCH_ADD = 0x14, "Atomic fetch-and-add request.";
    RC_SEND_LAST_INV = 0x16, "Last packet of a Send with Invalidate.";
    RC_SEND_ONLY_INV = 0x17, "Send of one packet, with Invalidate.";
    UC_SEND_FIRST = 0x20, "First packet of a Send.";
    UC_SEND_MIDDLE = 0x21, "Middle packet of a Send.";
    UC_SEND_LAST = 0x22, "Last packet of a Send.";
    UC_SEND_LAST_IMM = 0x23, "Last packet of a Send, with immediate data.";
    UC_SEND_ONLY = 0x24, "Send of one packet.";
    UC_SEND_ONLY_IMM = 0x25, "Send of one packet, with immediate data.";
    UC_WRITE_FIRST = 0x26, "First packet of an RDMA Write.";
    UC_WRITE_MIDDLE = 0x27, "Middle packet of an RDMA Write.";
    UC_WRITE_LAST = 0x28, "Last packet of an RDMA Write.";
    UC_WRITE_LAST_IMM = 0x29, "Last packet of an RDMA Write, with immediate data.";
    UC_WRITE_ONLY = 0x2a, "RDMA Write of one packet.";
    UC_WRITE_ONLY_IMM = 0x2b, "RDMA Write of one packet, with immediate data.";
    UD_SEND_ONLY = 0x64, "Datagram.";
    UD_SEND_ONLY_IMM = 0x65, "Datagram with immediate data.";
    CNP = 0x81, "Congestion notification packet.";
    IRN_SEND_FIRST = 0xc0, "First packet of an IRN Send.";
    IRN_SEND_MIDDLE = 0xc1, "Middle packet of an IRN Send.";
    IRN_SEND_LAST = 0xc2, "Last packet of an IRN Send.";
    IRN_SEND_LAST_IMM = 0xc3, "Last packet of an IRN Send, with immediate data.";
    IRN_SEND_ONLY = 0xc4, "IRN Send of one packet.";
    IRN_SEND_ONLY_IMM = 0xc5, "IRN Send of one packet, with immediate data.";
    IRN_WRITE_FIRST = 0xc6, "First packet of an IRN RDMA Write.";
    IRN_WRITE_MIDDLE = 0xc7, "Middle packet of an IRN RDMA Write.";
    IRN_WRITE_LAST = 0xc8, "Last packet of an IRN RDMA Write.";
    IRN_WRITE_LAST_IMM = 0xc9, "Last packet of an IRN RDMA Write, with immediate data.";
    IRN_WRITE_ONLY = 0xca, "IRN RDMA Write of one packet.";
    IRN_WRITE_ONLY_IMM = 0xcb, "IRN RDMA Write of one packet, with immediate data.";
    IRN_READ_REQUEST = 0xcc, "IRN RDMA Read request.";
    IRN_READ_RESPONSE_FIRST = 0xcd, "First packet of an IRN RDMA Read response.";
    IRN_READ_RESPONSE_MIDDLE = 0xce, "Middle packet of an IRN RDMA Read response.";
    IRN_READ_RESPONSE_LAST = 0xcf, "Last packet of an IRN RDMA Read response.";
    IRN_READ_RESPONSE_ONLY = 0xd0, "IRN RDMA Read response of one packet.";
    IRN_ACKNOWLEDGE = 0xd1, "IRN ACK, NACK, RNR NAK or NAK of requests.";
    IRN_ATOMIC_ACKNOWLEDGE = 0xd2, "Response to an IRN atomic request.";
    IRN_COMPARE_SWAP = 0xd3, "IRN atomic compare-and-swap request.";
    IRN_FETCH_ADD = 0xd4, "IRN atomic fetch-and-add request.";
    IRN_SEND_LAST_INV = 0xd6, "Last packet of an IRN Send with Invalidate.";
    IRN_SEND_ONLY_INV = 0xd7, "IRN Send of one packet, with Invalidate.";
    IRN_READ_ACKNOWLEDGE = 0xd8, "IRN ACK or NACK of read and atomic responses.";
    IRN_OFFER = 0xd9, "Offer of IRN, before the first packet of a connection.";
}

/// Properties of every opcode byte; `known` is false for a byte that is not a supported opcode.
static TABLE: [Info; 256] = table();

const fn table() -> [Info; 256] {
    let unknown = Info {
        known: false,
        service: Service::Rc,
        operation: Operation::Send,
        position: Position::Only,
        extra: Extra::None,
        payload: PayloadRule::Empty,
        extensions: 0,
        header_len: 12,
    };
    let mut table = [unknown; 256];
    let mut at = 0;
    while at < Opcode::ALL.len() {
        let code = Opcode::ALL[at].0;
        if let Some(info) = describe(code) {
            table[code as usize] = info;
        }
        at += 1;
    }
    table
}

const fn describe(code: u8) -> Option<Info> {
    let Some(service) = Service::of(code) else { return None };
    let (operation, position, extra) = if matches!(service, Service::Cnp) {
        (Operation::Cnp, Position::Only, Extra::None)
    } else {
        match operation(code & 0x1f) {
            Some(found) => found,
            None => return None,
        }
    };
    let payload = match (operation, position) {
        (Operation::Cnp, _) => PayloadRule::Reserved,
        (Operation::Send | Operation::Write | Operation::ReadResponse, Position::First | Position::Middle) => {
            PayloadRule::Full
        }
        (Operation::Send | Operation::Write | Operation::ReadResponse, Position::Last) => PayloadRule::Some,
        (Operation::Send | Operation::Write | Operation::ReadResponse, Position::Only) => PayloadRule::Any,
        _ => PayloadRule::Empty,
    };
    let extensions = extensions(service, operation, position, extra);
    let header_len = 12 + extension_len(extensions);
    Some(Info { known: true, service, operation, position, extra, payload, extensions, header_len })
}

/// Decodes the lower five bits of an opcode of any service other than CNP.
const fn operation(low: u8) -> Option<(Operation, Position, Extra)> {
    use Operation as O;
    use Position as P;
    let (operation, position, extra) = match low {
        0x00 => (O::Send, P::First, Extra::None),
        0x01 => (O::Send, P::Middle, Extra::None),
        0x02 => (O::Send, P::Last, Extra::None),
        0x03 => (O::Send, P::Last, Extra::Immediate),
        0x04 => (O::Send, P::Only, Extra::None),
        0x05 => (O::Send, P::Only, Extra::Immediate),
        0x06 => (O::Write, P::First, Extra::None),
        0x07 => (O::Write, P::Middle, Extra::None),
        0x08 => (O::Write, P::Last, Extra::None),
        0x09 => (O::Write, P::Last, Extra::Immediate),
        0x0a => (O::Write, P::Only, Extra::None),
        0x0b => (O::Write, P::Only, Extra::Immediate),
        0x0c => (O::ReadRequest, P::Only, Extra::None),
        0x0d => (O::ReadResponse, P::First, Extra::None),
        0x0e => (O::ReadResponse, P::Middle, Extra::None),
        0x0f => (O::ReadResponse, P::Last, Extra::None),
        0x10 => (O::ReadResponse, P::Only, Extra::None),
        0x11 => (O::Acknowledge, P::Only, Extra::None),
        0x12 => (O::AtomicAcknowledge, P::Only, Extra::None),
        0x13 => (O::CompareSwap, P::Only, Extra::None),
        0x14 => (O::FetchAdd, P::Only, Extra::None),
        0x16 => (O::Send, P::Last, Extra::Invalidate),
        0x17 => (O::Send, P::Only, Extra::Invalidate),
        0x18 => (O::ReadAcknowledge, P::Only, Extra::None),
        0x19 => (O::Offer, P::Only, Extra::None),
        _ => return None,
    };
    Some((operation, position, extra))
}

const fn extensions(service: Service, operation: Operation, position: Position, extra: Extra) -> u16 {
    let irn = matches!(service, Service::Irn);
    let starts = matches!(position, Position::First | Position::Only);
    let mut set = match operation {
        Operation::Send if irn => ext::SEND,
        Operation::Write if irn || starts => ext::RETH,
        Operation::ReadRequest => ext::RETH,
        // With IRN all packets of a response have headers of the same length, so that they fit into one batch.
        Operation::ReadResponse if irn || !matches!(position, Position::Middle) => ext::AETH,
        Operation::Acknowledge | Operation::ReadAcknowledge => ext::AETH,
        Operation::AtomicAcknowledge => ext::AETH | ext::ATOMIC_ACK,
        Operation::CompareSwap | Operation::FetchAdd => ext::ATOMIC,
        _ => 0,
    };
    if matches!(service, Service::Ud) {
        set |= ext::DETH;
    }
    match extra {
        Extra::None => {}
        Extra::Immediate => set |= ext::IMM,
        Extra::Invalidate => set |= ext::IETH,
    }
    if irn {
        set |= match operation {
            Operation::Write if matches!(extra, Extra::Immediate) => ext::RECV,
            Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd => ext::READ,
            Operation::Acknowledge | Operation::ReadAcknowledge => ext::SACK,
            _ => 0,
        };
    }
    set
}

const fn extension_len(set: u16) -> u8 {
    // In the order of the bits in `ext`: DETH RETH Atomic AETH AtomicAck Send Imm IETH Recv Read Sack.
    const LENGTHS: [u8; 11] = [8, 16, 28, 4, 8, 8, 4, 4, 4, 4, 4];
    let (mut sum, mut bit) = (0, 0);
    while bit < LENGTHS.len() {
        if set & (1 << bit) != 0 {
            sum += LENGTHS[bit];
        }
        bit += 1;
    }
    sum
}

impl Opcode {
    /// The opcode with this byte value; `None` if the value is reserved, or belongs to a service or operation that this
    /// crate does not support (RD, XRC, FLUSH, ATOMIC WRITE).
    pub const fn from_u8(code: u8) -> Option<Opcode> {
        if TABLE[code as usize].known { Some(Opcode(code)) } else { None }
    }

    /// The byte value of the opcode.
    pub const fn to_u8(self) -> u8 {
        self.0
    }

    /// The opcode with these properties; `None` if the service has no such packet.
    ///
    /// Read requests, atomic requests, acknowledgements and CNPs are always one packet: their position is `Only` and
    /// their `extra` is `None`.
    pub const fn new(service: Service, operation: Operation, position: Position, extra: Extra) -> Option<Opcode> {
        let low = match (operation, position, extra) {
            (Operation::Cnp, Position::Only, Extra::None) => 0x01,
            (Operation::Send, Position::First, Extra::None) => 0x00,
            (Operation::Send, Position::Middle, Extra::None) => 0x01,
            (Operation::Send, Position::Last, Extra::None) => 0x02,
            (Operation::Send, Position::Last, Extra::Immediate) => 0x03,
            (Operation::Send, Position::Only, Extra::None) => 0x04,
            (Operation::Send, Position::Only, Extra::Immediate) => 0x05,
            (Operation::Write, Position::First, Extra::None) => 0x06,
            (Operation::Write, Position::Middle, Extra::None) => 0x07,
            (Operation::Write, Position::Last, Extra::None) => 0x08,
            (Operation::Write, Position::Last, Extra::Immediate) => 0x09,
            (Operation::Write, Position::Only, Extra::None) => 0x0a,
            (Operation::Write, Position::Only, Extra::Immediate) => 0x0b,
            (Operation::ReadRequest, Position::Only, Extra::None) => 0x0c,
            (Operation::ReadResponse, Position::First, Extra::None) => 0x0d,
            (Operation::ReadResponse, Position::Middle, Extra::None) => 0x0e,
            (Operation::ReadResponse, Position::Last, Extra::None) => 0x0f,
            (Operation::ReadResponse, Position::Only, Extra::None) => 0x10,
            (Operation::Acknowledge, Position::Only, Extra::None) => 0x11,
            (Operation::AtomicAcknowledge, Position::Only, Extra::None) => 0x12,
            (Operation::CompareSwap, Position::Only, Extra::None) => 0x13,
            (Operation::FetchAdd, Position::Only, Extra::None) => 0x14,
            (Operation::Send, Position::Last, Extra::Invalidate) => 0x16,
            (Operation::Send, Position::Only, Extra::Invalidate) => 0x17,
            (Operation::ReadAcknowledge, Position::Only, Extra::None) => 0x18,
            (Operation::Offer, Position::Only, Extra::None) => 0x19,
            _ => return None,
        };
        if matches!(operation, Operation::Cnp) != matches!(service, Service::Cnp) {
            return None;
        }
        Opcode::from_u8(service.base() | low)
    }

    const fn info(self) -> &'static Info {
        &TABLE[self.0 as usize]
    }

    /// The service of the opcode.
    pub const fn service(self) -> Service {
        self.info().service
    }
    /// The operation of the opcode.
    pub const fn operation(self) -> Operation {
        self.info().operation
    }
    /// The position of the packet in its message.
    pub const fn position(self) -> Position {
        self.info().position
    }
    /// The additional field of the packet: immediate data, or a key to invalidate.
    pub const fn extra(self) -> Extra {
        self.info().extra
    }
    /// The payload length that the packet may have.
    pub const fn payload_rule(self) -> PayloadRule {
        self.info().payload
    }
    /// Length of all headers in bytes, base transport header included.
    pub const fn header_len(self) -> usize {
        self.info().header_len as usize
    }
    pub(crate) const fn extensions(self) -> u16 {
        self.info().extensions
    }

    /// Whether the packet is the first of a message of at least two packets.
    pub const fn is_first(self) -> bool {
        matches!(self.position(), Position::First)
    }
    /// Whether the packet is neither the first nor the last of its message.
    pub const fn is_middle(self) -> bool {
        matches!(self.position(), Position::Middle)
    }
    /// Whether the packet is the last of a message of at least two packets.
    pub const fn is_last(self) -> bool {
        matches!(self.position(), Position::Last)
    }
    /// Whether the packet is the only one of its message.
    pub const fn is_only(self) -> bool {
        matches!(self.position(), Position::Only)
    }
    /// Whether a message begins with the packet: its position is First or Only.
    pub const fn starts_message(self) -> bool {
        matches!(self.position(), Position::First | Position::Only)
    }
    /// Whether a message ends with the packet: its position is Last or Only.
    pub const fn ends_message(self) -> bool {
        matches!(self.position(), Position::Last | Position::Only)
    }
    /// Whether the packet carries immediate data.
    pub const fn has_imm(self) -> bool {
        matches!(self.extra(), Extra::Immediate)
    }
    /// Whether the packet carries a remote key to invalidate.
    pub const fn has_invalidate(self) -> bool {
        matches!(self.extra(), Extra::Invalidate)
    }
    /// Whether the packet's message consumes a posted receive at the responder. True for every packet of a Send, and
    /// for the last or only packet of a Write with immediate data.
    pub const fn consumes_receive(self) -> bool {
        match self.operation() {
            Operation::Send => true,
            Operation::Write => self.has_imm(),
            _ => false,
        }
    }

    /// The name of the opcode without its service, as the specification writes it, for example "RDMA WRITE First".
    pub const fn name(self) -> &'static str {
        if matches!(self.service(), Service::Cnp) {
            return "CNP";
        }
        match self.0 & 0x1f {
            0x00 => "SEND First",
            0x01 => "SEND Middle",
            0x02 => "SEND Last",
            0x03 => "SEND Last with Immediate",
            0x04 => "SEND Only",
            0x05 => "SEND Only with Immediate",
            0x06 => "RDMA WRITE First",
            0x07 => "RDMA WRITE Middle",
            0x08 => "RDMA WRITE Last",
            0x09 => "RDMA WRITE Last with Immediate",
            0x0a => "RDMA WRITE Only",
            0x0b => "RDMA WRITE Only with Immediate",
            0x0c => "RDMA READ Request",
            0x0d => "RDMA READ Response First",
            0x0e => "RDMA READ Response Middle",
            0x0f => "RDMA READ Response Last",
            0x10 => "RDMA READ Response Only",
            0x11 => "Acknowledge",
            0x12 => "ATOMIC Acknowledge",
            0x13 => "CmpSwap",
            0x14 => "FetchAdd",
            0x16 => "SEND Last with Invalidate",
            0x17 => "SEND Only with Invalidate",
            0x18 => "RDMA READ Acknowledge",
            _ => "Offer",
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service() {
            Service::Cnp => f.write_str("CNP"),
            service => write!(f, "{} {}", service.name(), self.name()),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({:#04x})", self.0)
    }
}
