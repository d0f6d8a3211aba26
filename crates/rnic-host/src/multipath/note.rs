//! Notes: the messages on the control queue pair. Each note carries all state of its sender that the peer needs, so the
//! next note replaces a lost one.

/// Number of chunks that may be outstanding, and that an acknowledgement describes. UCCL-Tran has 128: 4 MB of chunks
/// of 32 KB, which a connection of 400 Gbps fills in 84 us. If the recovery of a lost chunk took longer, the connection
/// would stall.
pub(super) const WINDOW: u64 = 512;
const WORDS: usize = WINDOW as usize / 64;
/// Length of a note in bytes.
pub(super) const LEN: usize = 128;

/// A bitmap of the chunks from the first missing one on.
pub(super) type Bits = [u64; WORDS];

/// What a note asks or answers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Topic {
    /// Only the state.
    #[default]
    State,
    /// The sender waits for credit, and requests the note with the latest grant again, because this note may have been
    /// lost.
    Starved,
    /// Of the chunks received so far (their number modulo 2^32), this many were CE-marked.
    Marks { received: u32, marked: u32 },
    /// A switch trimmed the payload of this chunk on this path.
    Trimmed { path: u16, number: u64 },
    /// The probe with this number arrived on this path.
    Probed { path: u16, probe: u32 },
    /// The sender has reset its end of this path and continues with this PSN.
    Reset { path: u16, generation: u32, psn: u32 },
    /// The sender has reset its end of this path too: no chunk that was transmitted before the reset can arrive any
    /// more.
    Ready { path: u16, generation: u32 },
    /// The sender's channel has ended.
    Close,
}

/// A note.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Note {
    pub(super) topic: Topic,
    /// Number of the first chunk that the sender of the note has not received.
    pub(super) next: u64,
    /// Which of the chunks from `next` on it has received.
    pub(super) bits: Bits,
    /// The newest chunk, and how long the sender of the note held it back, in nanoseconds; `None`: no new chunk.
    pub(super) newest: Option<(u64, u32)>,
    /// Bytes that the sender of the note allows its peer in total (receiver credit).
    pub(super) granted: u64,
    /// Bytes that the sender of the note has transmitted or wants to transmit, in total.
    pub(super) demand: u64,
}

impl Note {
    pub(super) fn to_bytes(self) -> [u8; LEN] {
        let (kind, path, a, b) = match self.topic {
            Topic::State => (0, 0, 0, 0),
            Topic::Starved => (7, 0, 0, 0),
            Topic::Marks { received, marked } => (5, 0, received, marked),
            Topic::Trimmed { path, number } => (6, path, number as u32, (number >> 32) as u32),
            Topic::Probed { path, probe } => (1, path, probe, 0),
            Topic::Reset { path, generation, psn } => (2, path, generation, psn),
            Topic::Ready { path, generation } => (3, path, generation, 0),
            Topic::Close => (4, 0, 0, 0),
        };
        let mut bytes = [0; LEN];
        let (newest, held) = self.newest.unwrap_or_default();
        bytes[0] = kind;
        bytes[1] = self.newest.is_some().into();
        bytes[2..4].copy_from_slice(&u16::to_le_bytes(path));
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(a));
        bytes[8..12].copy_from_slice(&u32::to_le_bytes(b));
        bytes[12..16].copy_from_slice(&u32::to_le_bytes(held));
        let words = [self.next, newest, self.granted, self.demand].into_iter().chain(self.bits);
        for (place, word) in bytes[16..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&u64::to_le_bytes(word));
        }
        bytes
    }

    /// Returns `None` for a note of unknown kind.
    pub(super) fn from_bytes(bytes: &[u8; LEN]) -> Option<Note> {
        let half = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let word = |index: usize| {
            let at = 16 + 8 * index;
            u64::from(half(at)) | u64::from(half(at + 4)) << 32
        };
        let path = u16::from_le_bytes([bytes[2], bytes[3]]);
        let topic = match bytes[0] {
            0 => Topic::State,
            1 => Topic::Probed { path, probe: half(4) },
            2 => Topic::Reset { path, generation: half(4), psn: half(8) },
            3 => Topic::Ready { path, generation: half(4) },
            4 => Topic::Close,
            7 => Topic::Starved,
            5 => Topic::Marks { received: half(4), marked: half(8) },
            6 => Topic::Trimmed { path, number: u64::from(half(4)) | u64::from(half(8)) << 32 },
            _ => return None,
        };
        Some(Note {
            topic,
            next: word(0),
            newest: (bytes[1] != 0).then_some((word(1), half(12))),
            granted: word(2),
            demand: word(3),
            bits: std::array::from_fn(|index| word(4 + index)),
        })
    }
}

const _: () = assert!(16 + 8 * (4 + WORDS) <= LEN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let topics = [
            Topic::State,
            Topic::Probed { path: 255, probe: 0x0102_0304 },
            Topic::Reset { path: 3, generation: 4, psn: 0xff_ffff },
            Topic::Ready { path: 3, generation: 4 },
            Topic::Close,
            Topic::Starved,
            Topic::Marks { received: u32::MAX, marked: 7 },
            Topic::Trimmed { path: 255, number: u64::MAX - 9 },
        ];
        for topic in topics {
            let bits = std::array::from_fn(|at| 0x1111_1111_1111_1111 * at as u64);
            let note = Note { topic, next: 1 << 40, bits, newest: Some((9, 10)), granted: 11, demand: 12 };
            assert_eq!(Note::from_bytes(&note.to_bytes()), Some(note));
            assert_eq!(Note::from_bytes(&Note { newest: None, ..note }.to_bytes()).unwrap().newest, None);
        }
        assert_eq!(Note::from_bytes(&[8; LEN]), None);
    }
}
