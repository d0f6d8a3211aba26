//! The receiver of an unreliable connection whose requests take different paths: messages arrive in any order, and the
//! packets of one message in order.
//!
//! A message begins with any packet that begins one. A later packet belongs to the message that expects its PSN. A
//! packet is taken once: a bitmap has the packets of the last [`WINDOW`] PSNs, and older packets are dropped. A message
//! of which a packet is missing is forgotten when [`MESSAGES`] newer ones are in progress.

use super::incoming::Incoming;
use rnic_transport::Psn;
use std::collections::VecDeque;

/// Number of PSNs behind the newest one within which packets may arrive.
const WINDOW: u32 = 1 << 16;
/// Maximum number of messages in progress.
const MESSAGES: usize = 256;

/// A message of which some packets have arrived, and the PSN that it expects next.
struct Open {
    next: Psn,
    message: Incoming,
    marked: bool,
}

/// What has arrived on a queue pair whose requests take different paths.
pub(super) struct Spread {
    /// The PSN after the newest one.
    end: Psn,
    seen: Box<[u64; WINDOW as usize / 64]>,
    open: VecDeque<Open>,
}

impl Spread {
    /// A connection whose first packet has the PSN `first`.
    pub(super) fn new(first: Psn) -> Spread {
        // All PSNs before the first one count as seen.
        Spread { end: first, seen: Box::new([u64::MAX; WINDOW as usize / 64]), open: VecDeque::new() }
    }

    /// Notes that the packet `psn` arrived. Returns `false` if it did before, or is too old to know.
    pub(super) fn see(&mut self, psn: Psn) -> bool {
        let ahead = psn.since(self.end);
        if ahead < Psn::MODULUS / 2 {
            // PSNs that are skipped have not been seen.
            for at in 0..ahead.min(WINDOW) {
                self.clear(self.end.plus(at));
            }
            self.end = psn.plus(1);
        } else if self.end.since(psn) > WINDOW || self.is_set(psn) {
            return false;
        }
        let (word, bit) = Self::place(psn);
        self.seen[word] |= bit;
        true
    }

    fn place(psn: Psn) -> (usize, u64) {
        let at = psn.value() % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }
    fn is_set(&self, psn: Psn) -> bool {
        let (word, bit) = Self::place(psn);
        self.seen[word] & bit != 0
    }
    fn clear(&mut self, psn: Psn) {
        let (word, bit) = Self::place(psn);
        self.seen[word] &= !bit;
    }

    /// Takes the message that expects the packet `psn`, and whether one of its packets was CE-marked.
    pub(super) fn take(&mut self, psn: Psn) -> Option<(Incoming, bool)> {
        let at = self.open.iter().position(|open| open.next == psn)?;
        self.open.remove(at).map(|open| (open.message, open.marked))
    }

    /// Keeps a message that expects the packet `next`.
    pub(super) fn keep(&mut self, next: Psn, message: Incoming, marked: bool) {
        if self.open.len() >= MESSAGES {
            self.open.pop_front();
        }
        self.open.push_back(Open { next, message, marked });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_once() {
        let mut spread = Spread::new(Psn::new(Psn::MODULUS - 2));
        let psn = |value: u32| Psn::new(value % Psn::MODULUS);
        assert!(!spread.see(psn(Psn::MODULUS - 3)), "before the connection");
        // Across the wrap, and out of order.
        assert!(spread.see(psn(Psn::MODULUS - 1)) && spread.see(psn(3)) && spread.see(psn(0)));
        assert!(!spread.see(psn(3)) && !spread.see(psn(0)) && !spread.see(psn(Psn::MODULUS - 1)));
        assert!(spread.see(psn(1)) && spread.see(psn(2)) && spread.see(psn(Psn::MODULUS - 2)));
        // A jump of more than the window forgets what is behind it.
        assert!(spread.see(psn(WINDOW + 100)) && !spread.see(psn(50)) && spread.see(psn(200)));
        assert!(!spread.see(psn(200)));
    }

    #[test]
    fn messages_are_found_by_the_packet_that_they_expect() {
        let mut spread = Spread::new(Psn::new(0));
        for at in 0..MESSAGES as u32 + 1 {
            spread.keep(Psn::new(10 * at), Incoming::Send { done: at }, at == 5);
        }
        assert!(spread.take(Psn::new(0)).is_none(), "the oldest was forgotten");
        assert!(matches!(spread.take(Psn::new(50)), Some((Incoming::Send { done: 5 }, true))));
        assert!(spread.take(Psn::new(50)).is_none() && spread.take(Psn::new(51)).is_none());
    }
}
