//! The syndrome of an acknowledgement: the first byte of the AETH (InfiniBand volume 1, section 9.7.5.1 and tables 44 to 47).

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// Everything up to the packet's PSN has been executed.
    Ack {
        /// Receives that the responder has posted beyond those that the MSN accounts for.
        credits: Credits,
    },
    /// The responder has no receive for the message at this PSN: send it again later.
    RnrNak {
        /// The least time to wait.
        timer: RnrTimer,
    },
    /// The request at this PSN was not executed.
    Nak(NakCode),
}

impl Syndrome {
    /// An acknowledgement without end-to-end flow control.
    pub const ACK: Syndrome = Syndrome::Ack { credits: Credits::UNLIMITED };

    /// The byte on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits.0,
            Syndrome::RnrNak { timer } => 0x20 | timer.0,
            Syndrome::Nak(code) => 0x60 | code as u8,
        }
    }

    /// What the byte means; `None` if it is reserved (bit 7 set, type 2, or NAK code 5 to 31).
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

/// Why a request was not executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// A packet before this one is missing.
    PsnSequenceError = 0,
    /// The request makes no sense here: an unexpected opcode, a wrong length, an operation that the queue pair does not allow.
    InvalidRequest = 1,
    /// The key, the bounds or the rights of the memory do not admit it.
    RemoteAccessError = 2,
    /// The responder could not execute it.
    RemoteOperationalError = 3,
    /// Of reliable datagrams only.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// The code of this number, 0 to 4.
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

    /// Its name in words.
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

/// End-to-end credits, as the five bits that an ACK carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Credits(u8);

/// Credits by code; code 31 is no number.
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
    8192, 12288, 16384, 24576, 32768,
];

impl Credits {
    /// No end-to-end flow control: the ACK says nothing about receives.
    pub const UNLIMITED: Credits = Credits(31);

    /// The low five bits of `code`.
    pub const fn from_code(code: u8) -> Credits {
        Credits(code & 0x1f)
    }
    /// The five bits.
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The largest value that promises no more than `receives`.
    pub const fn at_most(receives: u32) -> Credits {
        let mut code = 30;
        while code > 0 && CREDITS[code] > receives {
            code -= 1;
        }
        Credits(code as u8)
    }
    /// How many receives it promises; `None` without end-to-end flow control.
    pub const fn count(self) -> Option<u32> {
        if self.0 == 31 { None } else { Some(CREDITS[self.0 as usize]) }
    }
}

/// The least time before a message is sent again that met no receive, as the five bits that an RNR NAK carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RnrTimer(u8);

/// Microseconds by code.
const RNR_MICROS: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
    10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];

impl RnrTimer {
    /// The low five bits of `code`.
    pub const fn from_code(code: u8) -> RnrTimer {
        RnrTimer(code & 0x1f)
    }
    /// The five bits.
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The shortest timer of at least `micros` microseconds; the longest (655.36 ms) if none is.
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
