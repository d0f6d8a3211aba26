//! The scoreboard of TCP's loss recovery: the sender's state of the segments in flight (RFC 6675, sections 3 and 4).

use crate::Psn;
use crate::bitmap::BitWindow;

/// A TCP sender's state of all segments from the first unacknowledged segment to the last segment sent.
///
/// In RFC 6675 `IsLost` holds for a segment if at least `DupThresh` segments after it are selectively acknowledged.
/// (The RFC has a second condition in bytes, which is the same here because all segments are full.) So the lost
/// segments are exactly the unacknowledged segments before the `DupThresh`-th highest selectively acknowledged segment.
/// This segment is [`lost_below`](Scoreboard::lost_below). It only moves up, and a timeout moves it past all segments
/// sent. `pipe` and the rules of `NextSeg` are computed from `lost_below`, from `HighRxt` and from counters.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    /// First segment not acknowledged cumulatively (TCP's SND.UNA, `HighACK` + 1 of RFC 6675).
    first: Psn,
    /// First segment never sent (TCP's SND.NXT, `HighData` + 1 of RFC 6675).
    next: Psn,
    /// First segment that does not count as lost. All earlier segments are acknowledged or lost.
    lost_below: Psn,
    /// First segment that does not count as retransmitted in this recovery (`HighRxt` + 1 of RFC 6675). All earlier
    /// segments count as retransmitted.
    retransmit_next: Psn,
    /// Highest selectively acknowledged segment; valid only while `sacked` has a set bit.
    highest_sacked: Psn,
    /// Number of selectively acknowledged segments from `lost_below`, the first segment that does not count as lost,
    /// on.
    sacked_above: u32,
    /// Number of selectively acknowledged segments before `retransmit_next`, the first segment that does not count as
    /// retransmitted.
    sacked_retransmitted: u32,
    /// Selectively acknowledged segments.
    sacked: BitWindow,
}

impl Scoreboard {
    /// A scoreboard on which no segment has been sent; the first segment has the number `first`.
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

    /// Number of segments sent and not acknowledged cumulatively (FlightSize).
    pub(super) fn in_flight(&self) -> u32 {
        self.next.since(self.first)
    }

    /// Estimated number of segments in the network (`SetPipe` of RFC 6675): unacknowledged segments that are not lost,
    /// plus unacknowledged segments that were retransmitted.
    pub(super) fn pipe(&self) -> u32 {
        let not_lost = self.next.since(self.lost_below) - self.sacked_above;
        let retransmitted = self.retransmit_next.since(self.first) - self.sacked_retransmitted;
        not_lost + retransmitted
    }

    /// Counts the next new segment as sent, and returns its number.
    pub(super) fn send_new(&mut self) -> Psn {
        let psn = self.next;
        self.next = psn.plus(1);
        psn
    }

    /// Handles a cumulative acknowledgement of all segments before `expected`, which must not be after `next`; returns
    /// how many segments it newly acknowledges.
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

    /// Handles a SACK block that consists of segment `trigger` and the `below` segments before it (`Update` of RFC
    /// 6675). Returns whether it newly acknowledges any segment.
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
            for boundary in [self.lost_below, self.retransmit_next] {
                if at.is_before(boundary) && boundary.is_before(to) {
                    to = boundary;
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

    /// Moves `lost_below` up. A segment is lost if at least `dup_thresh` segments after it are selectively
    /// acknowledged; all lost segments are before `lost_below`.
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

    /// Handles a retransmission timeout: all segments in flight that are not selectively acknowledged count as lost,
    /// and no segment counts as retransmitted.
    pub(super) fn lose_all(&mut self) {
        if self.sacked.get(self.first) {
            self.sacked.clear(self.first, self.in_flight()); // the receiver has discarded its out-of-order segments
        }
        self.lost_below = self.next;
        self.sacked_above = 0;
        self.forget_retransmissions();
    }

    /// Allows every unacknowledged segment to be retransmitted once more (`HighRxt` = `HighACK` in RFC 6675).
    pub(super) fn forget_retransmissions(&mut self) {
        self.retransmit_next = self.first;
        self.sacked_retransmitted = 0;
    }

    /// Whether the first unacknowledged segment is lost.
    pub(super) fn first_is_lost(&self) -> bool {
        self.first.is_before(self.lost_below)
    }

    /// Whether some lost segment has not been retransmitted (rule 1 of `NextSeg` in RFC 6675).
    pub(super) fn has_lost(&self) -> bool {
        let span = self.lost_below.distance_from(self.retransmit_next);
        let sacked = i64::from(self.sacked.count()) - i64::from(self.sacked_above + self.sacked_retransmitted);
        i64::from(span) > sacked.max(0)
    }

    /// Whether some segment before the highest selectively acknowledged segment is neither retransmitted nor
    /// acknowledged (rule 3 of `NextSeg` in RFC 6675).
    pub(super) fn has_hole(&self) -> bool {
        let sacked = self.sacked.count() - self.sacked_retransmitted;
        sacked > 0 && self.highest_sacked.distance_from(self.retransmit_next) + 1 > sacked as i32
    }

    /// Returns the next unacknowledged segment to retransmit, lost or not, and counts it as retransmitted. The caller
    /// must have checked that there is such a segment.
    pub(super) fn retransmit(&mut self) -> Psn {
        let from = self.retransmit_next;
        let psn = self.sacked.first_clear(from, self.next.since(from)).unwrap_or(from);
        self.sacked_retransmitted += psn.since(from);
        self.retransmit_next = psn.plus(1);
        psn
    }

    /// The highest unacknowledged segment in flight (rule 4 of `NextSeg` in RFC 6675).
    pub(super) fn last_missing(&self) -> Option<Psn> {
        self.sacked.last_clear(self.first, self.in_flight())
    }

    /// Whether some segment in flight is neither cumulatively nor selectively acknowledged.
    pub(super) fn has_missing(&self) -> bool {
        self.sacked.count() < self.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const DUP_THRESH: usize = 3;
    const WINDOW: u32 = 100;

    /// A slow reference model, with which the test compares the scoreboard: it applies the definitions of RFC 6675
    /// section 4 literally to sets of absolute segment numbers.
    #[derive(Default)]
    struct Model {
        first: u64,
        next: u64,
        sacked: BTreeSet<u64>,
        /// First segment that does not count as retransmitted: `HighRxt` + 1 of RFC 6675.
        retransmit_next: u64,
        /// First segment that the last timeout did not declare lost: the first segment never sent (`HighData` + 1 of
        /// RFC 6675) at that timeout.
        timed_out: u64,
    }

    impl Model {
        fn missing(&self) -> impl Iterator<Item = u64> {
            (self.first..self.next).filter(|segment| !self.sacked.contains(segment))
        }
        fn is_lost(&self, segment: u64) -> bool {
            segment < self.timed_out || self.sacked.range(segment..).count() >= DUP_THRESH
        }
        fn pipe(&self) -> usize {
            let not_lost = self.missing().filter(|segment| !self.is_lost(*segment)).count();
            not_lost + self.missing().filter(|segment| *segment < self.retransmit_next).count()
        }
        fn next_lost(&self) -> Option<u64> {
            self.missing().find(|segment| *segment >= self.retransmit_next && self.is_lost(*segment))
        }
        fn next_hole(&self) -> Option<u64> {
            let highest = *self.sacked.last()?;
            self.missing().find(|segment| *segment >= self.retransmit_next && *segment < highest)
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send(u32),
        Slide(u32),
        Mark(u32, u32),
        Retransmit,
        Restart,
        Timeout,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (1u32..30).prop_map(Step::Send),
            2 => (0u32..20).prop_map(Step::Slide),
            6 => (0u32..WINDOW, prop_oneof![0u32..3, 0u32..=255]).prop_map(|(trigger, below)| Step::Mark(trigger, below)),
            4 => Just(Step::Retransmit),
            1 => Just(Step::Restart),
            1 => Just(Step::Timeout),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_the_definitions(start in prop_oneof![0..Psn::MODULUS, Psn::MODULUS - 60..Psn::MODULUS], steps in steps()) {
            let psn = |absolute: u64| Psn::new(start.wrapping_add(absolute as u32));
            let mut board = Scoreboard::new(psn(0), BitWindow::new(WINDOW));
            let mut model = Model::default();
            for step in steps {
                match step {
                    Step::Send(count) => for _ in 0..count.min(WINDOW - board.in_flight()) {
                        prop_assert_eq!(board.send_new(), psn(model.next));
                        model.next += 1;
                    },
                    Step::Slide(count) => {
                        // The cumulative acknowledgement ends at a segment that the receiver does not have.
                        let to = (model.first + u64::from(count)).min(model.next);
                        let to = (to..).find(|segment| !model.sacked.contains(segment)).unwrap_or(to);
                        prop_assert_eq!(u64::from(board.slide(psn(to))), to - model.first);
                        model.first = to;
                        model.sacked = model.sacked.split_off(&to);
                        model.retransmit_next = model.retransmit_next.max(to);
                    }
                    Step::Mark(trigger, below) => {
                        let trigger = model.first + u64::from(trigger);
                        let before = model.sacked.len();
                        if trigger > model.first && trigger < model.next {
                            let from = trigger.saturating_sub(u64::from(below)).max(model.first + 1);
                            model.sacked.extend(from..=trigger);
                        }
                        prop_assert_eq!(board.mark(psn(trigger), below), model.sacked.len() > before);
                    }
                    Step::Retransmit => {
                        board.conclude_losses(DUP_THRESH as u32);
                        let due = model.next_lost().or(model.next_hole());
                        if let Some(segment) = due {
                            prop_assert_eq!(board.retransmit(), psn(segment));
                            model.retransmit_next = segment + 1;
                        }
                    }
                    Step::Restart => {
                        board.forget_retransmissions();
                        model.retransmit_next = model.first;
                    }
                    Step::Timeout => {
                        board.lose_all();
                        model.timed_out = model.next;
                        model.retransmit_next = model.first;
                    }
                }
                // The model has no such call, because it determines losses on demand.
                board.conclude_losses(DUP_THRESH as u32);
                prop_assert_eq!(board.pipe() as usize, model.pipe());
                prop_assert_eq!(u64::from(board.in_flight()), model.next - model.first);
                prop_assert_eq!(board.has_lost(), model.next_lost().is_some());
                prop_assert_eq!(board.has_lost() || board.has_hole(), model.next_lost().or(model.next_hole()).is_some());
                prop_assert_eq!(board.has_missing(), model.missing().next().is_some());
                prop_assert_eq!(board.last_missing(), model.missing().last().map(psn));
                let first_lost = model.first < model.next && model.is_lost(model.first);
                prop_assert_eq!(board.first_is_lost(), first_lost);
            }
        }
    }

    /// Segments 2 to 3 are selectively acknowledged, then a cumulative acknowledgement says that segment 3 is missing:
    /// the receiver has discarded data. The next timeout voids all selective acknowledgements.
    #[test]
    fn a_receiver_that_drops_data_is_not_believed() {
        let mut board = Scoreboard::new(Psn::new(0), BitWindow::new(WINDOW));
        for _ in 0..10 {
            board.send_new();
        }
        assert!(board.mark(Psn::new(3), 1) && board.mark(Psn::new(7), 0));
        board.slide(Psn::new(3));
        board.lose_all();
        let again: Vec<u32> = std::iter::from_fn(|| board.has_lost().then(|| board.retransmit().value())).collect();
        assert_eq!(again, [3, 4, 5, 6, 7, 8, 9]);
    }
}
