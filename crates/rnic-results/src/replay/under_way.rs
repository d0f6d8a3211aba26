//! The flows that are under way at a frame, and those that a page shows while the run continues.

use rnic_spec::{Frame, FrameFlow};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// Number of flows under way that a page shows, besides the named ones: half of them the first to start, half of them
/// those with the most bytes.
const SHOWN: usize = 8;
/// Largest number of flows that a page shows, besides the named ones, with those that have ended.
const MAX_SHOWN: usize = 48;

/// A flow under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) flow: FrameFlow,
    /// Payload bytes that have arrived.
    pub(super) delivered: u64,
}

/// The flows under way, in order of their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay(pub(super) Vec<Open>);

impl UnderWay {
    /// Takes a frame. Calls `moved` with the sender, the receiver and the bytes that have arrived since the frame
    /// before.
    pub(super) fn take(&mut self, frame: &Frame, mut moved: impl FnMut(u32, u32, u64)) {
        self.0.extend(frame.started.iter().map(|flow| Open { flow: *flow, delivered: 0 }));
        let mut open = self.0.iter_mut().peekable();
        for &(id, bytes) in &frame.delivered {
            while open.next_if(|open| open.flow.flow < id).is_some() {}
            if let Some(Open { flow, delivered }) = open.next_if(|open| open.flow.flow == id) {
                moved(flow.src, flow.dst, bytes.saturating_sub(*delivered));
                *delivered = bytes.max(*delivered);
            }
        }
        self.end(frame, &mut moved);
    }

    fn end(&mut self, frame: &Frame, moved: &mut impl FnMut(u32, u32, u64)) {
        let mut ended = frame.ended.iter().peekable();
        self.0.retain(|Open { flow, delivered }| {
            while let Some(end) = ended.next_if(|end| end.flow < flow.flow) {
                moved(end.src, end.dst, end.bytes);
            }
            let end = ended.next_if(|end| end.flow == flow.flow);
            end.inspect(|end| moved(end.src, end.dst, end.bytes.saturating_sub(*delivered))).is_none()
        });
        ended.for_each(|end| moved(end.src, end.dst, end.bytes));
    }
}

/// A flow that a page shows.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) flow: FrameFlow,
    /// Why the flow is shown, such as "largest".
    pub(super) why: &'static str,
    /// When it ended, and the bytes that had arrived.
    pub(super) end: Option<(Time, u64)>,
}

/// The flows that a page shows, in the order in which they were chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownFlows(pub(super) VecDeque<Shown>);

impl ShownFlows {
    /// Takes a frame, after which `open` are the flows under way. The flows `named` are shown in any case.
    pub(super) fn take(&mut self, frame: &Frame, open: &UnderWay, named: &[u32]) {
        let named_now = frame.started.iter().filter(|flow| named.contains(&flow.flow));
        self.0.extend(named_now.map(|flow| Shown { flow: *flow, why: "named", end: None }));
        for shown in self.0.iter_mut().filter(|shown| shown.end.is_none()) {
            if let Ok(at) = frame.ended.binary_search_by_key(&shown.flow.flow, |end| end.flow) {
                let end = &frame.ended[at];
                shown.end = Some((end.finish.unwrap_or(frame.time), end.bytes));
            }
        }
        let is_first = |shown: &&Shown| shown.why == FIRST && shown.end.is_none();
        let is_largest = |shown: &&Shown| shown.why == LARGEST && shown.end.is_none();
        let mut missing =
            [self.0.iter().filter(is_first).count(), self.0.iter().filter(is_largest).count()].map(|n| SHOWN / 2 - n);
        if missing == [0, 0] {
            return;
        }
        let shown: BTreeSet<u32> = self.0.iter().map(|shown| shown.flow.flow).collect();
        let mut rest: Vec<&Open> = open.0.iter().filter(|open| !shown.contains(&open.flow.flow)).collect();
        let first = missing[0].min(rest.len());
        let mut chosen: Vec<(&Open, &'static str)> = rest.drain(..first).map(|open| (open, FIRST)).collect();
        missing[1] = missing[1].min(rest.len());
        if missing[1] > 0 {
            let key = |open: &&Open| (Reverse(open.delivered), open.flow.flow);
            rest.select_nth_unstable_by_key(missing[1] - 1, key);
            rest.truncate(missing[1]);
            rest.sort_unstable_by_key(key);
            chosen.extend(rest.into_iter().map(|open| (open, LARGEST)));
        }
        let chosen: Vec<Shown> =
            chosen.into_iter().map(|(open, why)| Shown { flow: open.flow, why, end: None }).collect();
        self.0.extend(chosen);
        self.forget(named.len());
    }

    /// Whether a flow is shown.
    pub(super) fn contains(&self, flow: u32) -> bool {
        self.0.iter().any(|shown| shown.flow.flow == flow)
    }

    /// Forgets the oldest flows that have ended, if the flows are too many.
    fn forget(&mut self, named: usize) {
        while self.0.len() > MAX_SHOWN + named {
            let Some(oldest) = self.0.iter().position(|shown| shown.end.is_some() && shown.why != "named") else {
                return;
            };
            self.0.remove(oldest);
        }
    }
}

const FIRST: &str = "longest under way";
const LARGEST: &str = "most bytes";

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_spec::FrameEnd;

    fn flow(id: u32) -> FrameFlow {
        FrameFlow { flow: id, src: id, dst: 9, bytes: 1_000, start: Time::from_us(1), priority: 0, data_hash: id }
    }

    fn end(id: u32, bytes: u64, finish: bool) -> FrameEnd {
        FrameEnd { flow: id, src: id, dst: 9, bytes, finish: finish.then(|| Time::from_us(3)) }
    }

    fn take(under_way: &mut UnderWay, frame: &Frame) -> Vec<(u32, u64)> {
        let mut moved = Vec::new();
        under_way.take(frame, |src, _, bytes| moved.push((src, bytes)));
        moved.retain(|(_, bytes)| *bytes > 0);
        moved
    }

    #[test]
    fn each_byte_moves_once() {
        let mut under_way = UnderWay::default();
        let first =
            Frame { started: vec![flow(1), flow(2), flow(4)], delivered: vec![(1, 100), (4, 50)], ..Frame::default() };
        assert_eq!(take(&mut under_way, &first), [(1, 100), (4, 50)]);
        // Flow 1 ends, flow 3 started and ended since the first frame, and flow 4 is aborted.
        let second = Frame {
            delivered: vec![(2, 300)],
            ended: vec![end(1, 1_000, true), end(3, 1_000, true), end(4, 0, false)],
            ..Frame::default()
        };
        assert_eq!(take(&mut under_way, &second), [(2, 300), (1, 900), (3, 1_000)]);
        assert_eq!(under_way.0.iter().map(|open| open.flow.flow).collect::<Vec<_>>(), [2]);
        // A flow may be missing for a frame before it ends.
        assert_eq!(take(&mut under_way, &Frame::default()), []);
        assert_eq!(take(&mut under_way, &Frame { ended: vec![end(2, 1_000, true)], ..Frame::default() }), [(2, 700)]);
    }

    #[test]
    fn a_page_shows_the_first_and_the_largest_flows() {
        let (mut under_way, mut shown) = (UnderWay::default(), ShownFlows::default());
        let mut frame = Frame { started: (0..20).map(flow).collect(), ..Frame::default() };
        frame.delivered = (0..20).map(|id| (id, if id < 12 { 10 } else { u64::from(id) * 100 })).collect();
        let take = |under_way: &mut UnderWay, shown: &mut ShownFlows, frame: &Frame| {
            under_way.take(frame, |_, _, _| {});
            shown.take(frame, under_way, &[7]);
            shown.0.iter().filter(|shown| shown.end.is_none()).map(|shown| shown.flow.flow).collect::<Vec<_>>()
        };
        assert_eq!(take(&mut under_way, &mut shown, &frame), [7, 0, 1, 2, 3, 19, 18, 17, 16]);
        let next = Frame { ended: vec![end(1, 1_000, true), end(19, 1_000, true)], ..Frame::default() };
        assert_eq!(take(&mut under_way, &mut shown, &next), [7, 0, 2, 3, 18, 17, 16, 4, 15]);
        assert_eq!(shown.0[2].end, Some((Time::from_us(3), 1_000)));
        // Flows that have ended are forgotten, the first one first.
        for round in 0..200 {
            let id = 20 + round;
            let ended = under_way.0.iter().map(|open| end(open.flow.flow, 1_000, true)).collect();
            take(&mut under_way, &mut shown, &Frame { started: vec![flow(id)], ended, ..Frame::default() });
        }
        assert!(shown.0.len() <= MAX_SHOWN + 1 && shown.contains(7) && !shown.contains(0));
    }
}
