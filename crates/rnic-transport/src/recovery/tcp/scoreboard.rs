//! What the sender knows of the segments in flight: RFC 6675, sections 3 and 4.

use crate::Psn;
use crate::bitmap::BitWindow;

/// The segments from the first one not acknowledged to the last one sent.
///
/// `IsLost` of RFC 6675 holds for a segment when at least `DupThresh` segments above it are selectively acknowledged (all
/// segments are full, so its two conditions are one). That is so for exactly the unacknowledged ones below the `DupThresh`-th
/// highest acknowledged one: a single number, [`lost_below`](Scoreboard::lost_below), which only moves up. A timeout moves it past
/// everything sent. `pipe` and the questions of `NextSeg` follow from it, from `HighRxt` and from counts kept up to date.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    /// First segment not acknowledged cumulatively (SND.UNA, `HighACK` + 1).
    first: Psn,
    /// First segment never sent (SND.NXT, `HighData` + 1).
    next: Psn,
    /// Segments below this one that are not acknowledged are lost.
    lost_below: Psn,
    /// Segments below this one count as retransmitted (`HighRxt` + 1).
    retransmit_next: Psn,
    /// Highest segment selectively acknowledged; meaningful while one is.
    highest_sacked: Psn,
    /// Segments selectively acknowledged from `lost_below` on.
    sacked_above: u32,
    /// Segments selectively acknowledged below `retransmit_next`.
    sacked_retransmitted: u32,
    sacked: BitWindow,
}

impl Scoreboard {
    /// Nothing sent; segments are numbered from `first`.
    pub(super) fn new(first: Psn, sacked: BitWindow) -> Scoreboard {
        Scoreboard {
            first,
            next: first,
            lost_below: first,
            retransmit_next: first,
            highest_sacked: first,
            sacked_above: 0,
            sacked_retransmitted: 0,
            sacked,
        }
    }

    /// First segment not acknowledged cumulatively.
    pub(super) fn first(&self) -> Psn {
        self.first
    }

    /// First segment never sent.
    pub(super) fn next(&self) -> Psn {
        self.next
    }

    /// Segments sent and not acknowledged cumulatively (FlightSize).
    pub(super) fn in_flight(&self) -> u32 {
        self.next.since(self.first)
    }

    /// Segments believed to be in the network (`SetPipe`): not lost, plus retransmitted, less those acknowledged.
    pub(super) fn pipe(&self) -> u32 {
        let not_lost = self.next.since(self.lost_below) - self.sacked_above;
        let retransmitted = self.retransmit_next.since(self.first) - self.sacked_retransmitted;
        not_lost + retransmitted
    }

    /// A new segment is sent.
    pub(super) fn send_new(&mut self) -> Psn {
        let psn = self.next;
        self.next = psn.plus(1);
        psn
    }

    /// Everything before `expected`, which is not after `next`, has arrived; returns how many segments that acknowledges.
    pub(super) fn slide(&mut self, expected: Psn) -> u32 {
        let count = expected.since(self.first);
        let before = self.sacked.count();
        self.sacked.clear(self.first, count);
        let cleared = before - self.sacked.count();
        self.first = expected;
        if self.retransmit_next.is_before(expected) {
            self.forget_retransmissions();
        } else {
            self.sacked_retransmitted -= cleared;
        }
        if self.lost_below.is_before(expected) {
            self.lost_below = expected;
            self.sacked_above = self.sacked.count();
        }
        count
    }

    /// `trigger` and the `below` segments before it have arrived; returns whether any of that is news (`Update`).
    pub(super) fn mark(&mut self, trigger: Psn, below: u32) -> bool {
        let offset = trigger.distance_from(self.first);
        if offset <= 0 || offset as u32 >= self.in_flight() {
            return false;
        }
        let end = trigger.plus(1);
        let mut at = trigger.plus(Psn::MODULUS - below.min(offset as u32 - 1));
        if self.sacked.count() == 0 || self.highest_sacked.is_before(trigger) {
            self.highest_sacked = trigger;
        }
        let before = self.sacked.count();
        while at != end {
            let mut to = end;
            for cut in [self.lost_below, self.retransmit_next] {
                if at.is_before(cut) && cut.is_before(to) {
                    to = cut;
                }
            }
            let new = self.sacked.set_run(at, to.since(at));
            if !at.is_before(self.lost_below) {
                self.sacked_above += new;
            }
            if at.is_before(self.retransmit_next) {
                self.sacked_retransmitted += new;
            }
            at = to;
        }
        self.sacked.count() > before
    }

    /// Concludes which segments are lost from what is selectively acknowledged above them.
    pub(super) fn conclude_losses(&mut self, dup_thresh: u32) {
        let dup_thresh = dup_thresh.max(1);
        while self.sacked_above >= dup_thresh {
            let span = self.next.since(self.lost_below);
            let Some(sacked) = self.sacked.first_set(self.lost_below, span) else { return };
            self.lost_below = sacked;
            if self.sacked_above == dup_thresh {
                return;
            }
            self.lost_below = sacked.plus(1);
            self.sacked_above -= 1;
        }
    }

    /// A timeout: what is in flight and not selectively acknowledged is lost, nothing is retransmitted yet.
    pub(super) fn lose_all(&mut self) {
        if self.sacked.get(self.first) {
            self.sacked.clear(self.first, self.in_flight()); // the receiver has dropped what it had
        }
        self.lost_below = self.next;
        self.sacked_above = 0;
        self.forget_retransmissions();
    }

    /// What was retransmitted may be retransmitted again (`HighRxt` = `HighACK`).
    pub(super) fn forget_retransmissions(&mut self) {
        self.retransmit_next = self.first;
        self.sacked_retransmitted = 0;
    }

    /// Whether the first segment not acknowledged is lost.
    pub(super) fn first_is_lost(&self) -> bool {
        self.first.is_before(self.lost_below)
    }

    /// Whether a lost segment is not yet retransmitted (rule 1 of `NextSeg`).
    pub(super) fn has_lost(&self) -> bool {
        let span = self.lost_below.distance_from(self.retransmit_next);
        let sacked = i64::from(self.sacked.count()) - i64::from(self.sacked_above + self.sacked_retransmitted);
        i64::from(span) > sacked.max(0)
    }

    /// Whether a segment below the highest selectively acknowledged one is neither retransmitted nor acknowledged (rule 3).
    pub(super) fn has_hole(&self) -> bool {
        let sacked = self.sacked.count() - self.sacked_retransmitted;
        sacked > 0 && self.highest_sacked.distance_from(self.retransmit_next) + 1 > sacked as i32
    }

    /// Takes the next segment to retransmit, lost or not. There must be one.
    pub(super) fn retransmit(&mut self) -> Psn {
        let from = self.retransmit_next;
        let psn = self.sacked.first_clear(from, self.next.since(from)).unwrap_or(from);
        self.sacked_retransmitted += psn.since(from);
        self.retransmit_next = psn.plus(1);
        psn
    }

    /// The highest segment in flight that is not acknowledged (rule 4).
    pub(super) fn last_missing(&self) -> Option<Psn> {
        self.sacked.last_clear(self.first, self.in_flight())
    }

    /// Whether some segment in flight is not acknowledged.
    pub(super) fn has_missing(&self) -> bool {
        self.sacked.count() < self.in_flight()
    }
}
