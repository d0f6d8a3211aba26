//! The syndrome of an acknowledgement: the first byte of the AETH (InfiniBand volume 1, section 9.7.5.1 and tables 44
//! to 47).

/// The syndrome of an acknowledgement: ACK, RNR NAK or NAK.
///
/// ```
/// use rnic_wire::{Credits, NakCode, Syndrome};
///
/// assert_eq!(Syndrome::from_byte(0x60), Some(Syndrome::Nak(NakCode::PsnSequenceError)));
/// let ack = Syndrome::Ack { credits: Credits::at_most(20) };
/// assert_eq!(Syndrome::from_byte(ack.to_byte()), Some(ack));
/// assert_eq!(Syndrome::from_byte(0x80), None, "reserved");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// ACK: the responder has executed all requests up to and including the PSN in the acknowledgement's BTH.
    Ack {
        /// End-to-end credits: the number of receives that the responder has posted for messages after the AETH's MSN.
        credits: Credits,
    },
    /// RNR NAK: the responder has no posted receive for the request packet whose PSN is in the acknowledgement's BTH.
    /// The requester must retry later.
    RnrNak {
        /// Minimum time before the requester retries.
        timer: RnrTimer,
    },
    /// NAK: the responder did not execute the request packet whose PSN is in the acknowledgement's BTH.
    Nak(NakCode),
}

impl Syndrome {
    /// An ACK without end-to-end flow control.
    pub const ACK: Syndrome = Syndrome::Ack { credits: Credits::UNLIMITED };

    /// The syndrome as the byte on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits.0,
            Syndrome::RnrNak { timer } => 0x20 | timer.0,
            Syndrome::Nak(code) => 0x60 | code as u8,
        }
    }

    /// Decodes a syndrome byte; `None` if the value is reserved (bit 7 set, type 2, or NAK code 5 to 31).
    pub const fn from_byte(byte: u8) -> Option<Syndrome> {
        match byte >> 5 {
            0 => Some(Syndrome::Ack { credits: Credits(byte & 0x1f) }),
            1 => Some(Syndrome::RnrNak { timer: RnrTimer(byte & 0x1f) }),
            3 => match NakCode::from_code(byte & 0x1f) {
                Some(code) => Some(Syndrome::Nak(code)),
                None => None,
            },
            _ => None,
        }
    }
}

/// The reason why the responder did not execute a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// A packet with an earlier PSN is missing.
    PsnSequenceError = 0,
    /// The request is invalid: an unexpected opcode, a wrong length, or an operation that the queue pair does not
    /// allow.
    InvalidRequest = 1,
    /// The remote key is wrong, the range exceeds the memory region, or the region's access rights do not allow the
    /// operation.
    RemoteAccessError = 2,
    /// The responder failed while it executed the request.
    RemoteOperationalError = 3,
    /// Invalid request of a reliable datagram (RD service only).
    InvalidRdRequest = 4,
}

impl NakCode {
    /// The NAK code with this number, 0 to 4; `None` for any other number.
    pub const fn from_code(code: u8) -> Option<NakCode> {
        match code {
            0 => Some(NakCode::PsnSequenceError),
            1 => Some(NakCode::InvalidRequest),
            2 => Some(NakCode::RemoteAccessError),
            3 => Some(NakCode::RemoteOperationalError),
            4 => Some(NakCode::InvalidRdRequest),
            _ => None,
        }
    }

    /// The name of the code, for example "PSN sequence error".
    pub const fn name(self) -> &'static str {
        match self {
            NakCode::PsnSequenceError => "PSN sequence error",
            NakCode::InvalidRequest => "invalid request",
            NakCode::RemoteAccessError => "remote access error",
            NakCode::RemoteOperationalError => "remote operational error",
            NakCode::InvalidRdRequest => "invalid RD request",
        }
    }
}

/// End-to-end credits (the number of posted receives), as the five-bit code that an ACK carries.
///
/// ```
/// use rnic_wire::Credits;
///
/// // The code has no value for 20, so the ACK announces the next smaller number.
/// assert_eq!(Credits::at_most(20).count(), Some(16));
/// assert_eq!(Credits::UNLIMITED.count(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Credits(u8);

/// Number of posted receives for each credit code. Code 31 means that the ACK carries no credits.
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
    8192, 12288, 16384, 24576, 32768,
];

impl Credits {
    /// No end-to-end flow control: the ACK does not limit the number of messages.
    pub const UNLIMITED: Credits = Credits(31);

    /// The credits that this code stands for; the upper three bits of `code` are ignored.
    pub const fn from_code(code: u8) -> Credits {
        Credits(code & 0x1f)
    }
    /// The five-bit code that an ACK carries.
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The largest number of credits up to `receives` for which a code exists.
    pub const fn at_most(receives: u32) -> Credits {
        let mut code = 30;
        while code > 0 && CREDITS[code] > receives {
            code -= 1;
        }
        Credits(code as u8)
    }
    /// The number of posted receives; `None` without end-to-end flow control.
    pub const fn count(self) -> Option<u32> {
        if self.0 == 31 { None } else { Some(CREDITS[self.0 as usize]) }
    }
}

/// The minimum time before the requester retries a message that found no posted receive, as the five-bit code that an
/// RNR NAK carries.
///
/// ```
/// use rnic_wire::RnrTimer;
///
/// assert_eq!(RnrTimer::at_least(50).micros(), 60);
/// assert_eq!(RnrTimer::from_code(0).micros(), 655_360, "code 0 is the longest time");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RnrTimer(u8);

/// Time in microseconds for each code of the RNR timer.
const RNR_MICROS: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
    10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];

impl RnrTimer {
    /// The time that this code stands for; the upper three bits of `code` are ignored.
    pub const fn from_code(code: u8) -> RnrTimer {
        RnrTimer(code & 0x1f)
    }
    /// The five-bit code that an RNR NAK carries.
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The shortest time of at least `micros` microseconds for which a code exists; the longest time (655.36 ms) if
    /// `micros` exceeds it.
    pub const fn at_least(micros: u32) -> RnrTimer {
        let mut code = 1;
        while code < 32 && RNR_MICROS[code] < micros {
            code += 1;
        }
        RnrTimer((code & 31) as u8)
    }
    /// The time in microseconds.
    pub const fn micros(self) -> u32 {
        RNR_MICROS[self.0 as usize]
    }
}
