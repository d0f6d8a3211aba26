//! The rates of flows that share links: max-min fair, kept up to date as flows start and end.
//!
//! A flow uses each link of its way in proportion to its rate: the factor (share) is 1 on a single path, and a part
//! of 1 on each of several paths. The rates are max-min fair if each flow below its own limit has a *bottleneck*: a
//! full link on which no other flow is faster (Bertsekas and Gallager, *Data Networks*, section 6.5).
//!
//! Progressive filling computes such rates: all rates rise together; when a link is full, the rates of its flows are
//! final. A change affects few flows, as a rule, so the rates are not computed for all flows again, but for a growing
//! set of *affected* flows (compare the lazy updates of SimGrid): first the new flows and those whose bottleneck has
//! room again. Their rates are computed, with all other rates as they are; then the condition above is checked on the
//! links that the affected flows use, and a flow that violates it is affected, too. Once no flow violates it, all rates
//! are those of a computation for all flows.
//!
//! The ACKs of a flow use the links of the way back. They reduce the room of other flows there, but they do not slow
//! down their own flow: a switch does not divide its link fairly between ACKs and data. The caller says when changed
//! loads of ACKs count ([`Shares::count_acks`]), because they change with every rate.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Relative tolerance of comparisons: of rates with each other, and of loads with the rate of a link.
const TOLERANCE: f64 = 1e-9;

/// The load of ACKs on a link counts again when it has changed by more than this part of the link's rate.
const ACK_STEP: f64 = 5e-3;

/// Number of a link: that of its transmitting port.
pub(super) type Link = u32;

/// Bottleneck of a flow that no link slows down: its own limit, or nothing yet.
const NO_LINK: Link = Link::MAX;

/// A link on the way of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Hop {
    pub(super) link: Link,
    /// Bytes on this link for each byte of the flow.
    pub(super) share: f64,
}

/// A link, with the flows that use it.
#[derive(Clone, Debug, Default)]
struct LinkState {
    /// Bytes per picosecond; 0 while the link is down.
    rate: f64,
    /// Rate without faults, which is never exceeded.
    nominal: f64,
    /// Load of the flows, by their rates, in bytes per picosecond.
    load: f64,
    /// Load of ACKs: the current one, and the one that the rates account for.
    acks: f64,
    acks_counted: f64,
    /// Number of flows whose ACKs use the link.
    ack_flows: u32,
    /// Number of flows whose bottleneck this link is.
    held: u32,
    /// The flows that use the link, each with the index of the link among its hops.
    members: Vec<(u32, u32)>,
    is_dirty: bool,
    /// Whether `acks` has changed enough to count again.
    has_new_acks: bool,
    /// The computation to which the fields below belong.
    epoch: u64,
    /// Room for the affected flows whose rates are not final, and the sum of their shares.
    room: f64,
    weight: f64,
    /// Number of affected flows whose rates are not final.
    open: u32,
    /// The rate at which this link became the bottleneck of affected flows; negative if it did not.
    level: f64,
}

/// A flow, with its way.
#[derive(Clone, Debug, Default)]
struct FlowState {
    hops: Vec<Hop>,
    /// Index of the flow in the list of members of each hop.
    places: Vec<u32>,
    /// The way of the ACKs; a share is the bytes of ACKs for each byte of the flow.
    acks: Vec<Hop>,
    /// Maximum rate; infinite if only the links limit the flow.
    limit: f64,
    /// The rate at which the flow fills the slowest link of its way, without other flows and without faults.
    alone: f64,
    rate: f64,
    bottleneck: Link,
    /// The solution in which the flow is affected, and its rate there.
    affected: u64,
    next_rate: f64,
    next_bottleneck: Link,
    /// The computation in which the rate is final.
    frozen: u64,
}

/// Links and the flows that share them.
#[derive(Debug, Default)]
pub(super) struct Shares {
    links: Vec<LinkState>,
    flows: Vec<FlowState>,
    dirty: Vec<Link>,
    new_acks: Vec<Link>,
    added: Vec<u32>,
    affected: Vec<u32>,
    /// The links of affected flows.
    touched: Vec<Link>,
    changed: Vec<u32>,
    /// Number of the current solution, and of the current computation (a solution takes several).
    solution: u64,
    epoch: u64,
    levels: BinaryHeap<Level>,
    limits: Vec<(f64, u32)>,
}

/// A link, and the rate of its affected flows at which it is full.
#[derive(PartialEq, Debug)]
struct Level {
    level: f64,
    link: Link,
}

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Level) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lowest level first, then the link with the lowest number.
impl Ord for Level {
    fn cmp(&self, other: &Level) -> Ordering {
        other.level.total_cmp(&self.level).then(other.link.cmp(&self.link))
    }
}

impl Shares {
    /// Links with these rates in bytes per picosecond, without flows.
    pub(super) fn new(rates: impl Iterator<Item = f64>) -> Shares {
        let link = |rate| LinkState { rate, nominal: rate, ..LinkState::default() };
        Shares { links: rates.map(link).collect(), ..Shares::default() }
    }

    /// The rate of a flow in bytes per picosecond, by the latest solution.
    #[cfg(test)]
    pub(super) fn rate(&self, flow: u32) -> f64 {
        self.flows[flow as usize].rate
    }

    /// The way of a flow, and that of its ACKs.
    pub(super) fn ways(&self, flow: u32) -> (&[Hop], &[Hop]) {
        let flow = &self.flows[flow as usize];
        (&flow.hops, &flow.acks)
    }

    /// Whether something has changed since the latest solution.
    pub(super) fn needs_solution(&self) -> bool {
        !self.dirty.is_empty() || !self.added.is_empty()
    }

    /// Adds the flow `flow`, whose rate is 0 until the next solution and at most `limit` bytes per picosecond. No flow
    /// of this number may exist.
    pub(super) fn add(&mut self, flow: u32, hops: &[Hop], acks: &[Hop], limit: f64) {
        let alone = hops.iter().map(|hop| self.links[hop.link as usize].nominal / hop.share);
        let alone = alone.fold(f64::INFINITY, f64::min);
        let index = flow as usize;
        if self.flows.len() <= index {
            self.flows.resize(index + 1, FlowState::default());
        }
        let state = &mut self.flows[index];
        state.hops.clear();
        state.hops.extend_from_slice(hops);
        state.acks.clear();
        state.acks.extend_from_slice(acks);
        state.places.clear();
        for (number, hop) in (0..).zip(hops) {
            let members = &mut self.links[hop.link as usize].members;
            state.places.push(members.len() as u32);
            members.push((flow, number));
        }
        for hop in acks {
            self.links[hop.link as usize].ack_flows += 1;
        }
        (state.limit, state.alone, state.rate, state.bottleneck) = (limit, alone, 0.0, NO_LINK);
        (state.next_rate, state.next_bottleneck) = (0.0, NO_LINK);
        self.added.push(flow);
    }

    /// Removes a flow; its rate is 0 from now on.
    pub(super) fn remove(&mut self, flow: u32) {
        self.added.retain(|added| *added != flow);
        let state = std::mem::take(&mut self.flows[flow as usize]);
        if state.bottleneck != NO_LINK {
            self.links[state.bottleneck as usize].held -= 1;
        }
        for (hop, place) in state.hops.iter().zip(&state.places) {
            let link = &mut self.links[hop.link as usize];
            link.members.swap_remove(*place as usize);
            if let Some((moved, number)) = link.members.get(*place as usize).copied() {
                self.flows[moved as usize].places[number as usize] = *place;
            }
            // Without flows, nothing remains of the errors of earlier additions.
            link.load = if link.members.is_empty() { 0.0 } else { link.load - hop.share * state.rate };
            self.touch(hop.link);
        }
        for hop in &state.acks {
            let link = &mut self.links[hop.link as usize];
            link.ack_flows -= 1;
            link.acks = if link.ack_flows == 0 { 0.0 } else { link.acks - hop.share * state.rate };
            self.note_acks(hop.link);
        }
        // Keep the memory of the lists for the next flow of this number.
        let kept = &mut self.flows[flow as usize];
        (kept.hops, kept.places, kept.acks) = (state.hops, state.places, state.acks);
        kept.hops.clear();
        kept.places.clear();
        kept.acks.clear();
        kept.bottleneck = NO_LINK;
    }

    /// Changes the rate of a link, in bytes per picosecond; 0 while it is down.
    pub(super) fn set_rate(&mut self, link: Link, rate: f64) {
        self.links[link as usize].rate = rate;
        self.touch(link);
    }

    /// Notes that the flows of a link may need other rates.
    fn touch(&mut self, link: Link) {
        let state = &mut self.links[link as usize];
        if !std::mem::replace(&mut state.is_dirty, true) {
            self.dirty.push(link);
        }
    }

    /// Notes that the load of ACKs on a link has changed. The end of all ACKs counts at once.
    fn note_acks(&mut self, number: Link) {
        let link = &mut self.links[number as usize];
        if link.ack_flows == 0 && link.acks_counted > 0.0 {
            link.acks_counted = 0.0;
            self.touch(number);
        } else if (link.acks - link.acks_counted).abs() > ACK_STEP * link.rate && !link.has_new_acks {
            link.has_new_acks = true;
            self.new_acks.push(number);
        }
    }

    /// Whether loads of ACKs have changed that do not count yet.
    pub(super) fn has_new_acks(&self) -> bool {
        !self.new_acks.is_empty()
    }

    /// Lets the current loads of ACKs count from the next solution on.
    pub(super) fn count_acks(&mut self) {
        for number in std::mem::take(&mut self.new_acks) {
            let link = &mut self.links[number as usize];
            link.has_new_acks = false;
            if (link.acks - link.acks_counted).abs() > ACK_STEP * link.rate {
                link.acks_counted = link.acks;
                self.touch(number);
            }
        }
    }

    /// Computes the rates that the flows have from now on. Calls `each` for the flows whose rates change, with the new
    /// rates.
    pub(super) fn solve(&mut self, mut each: impl FnMut(u32, f64)) {
        self.changed.clear();
        self.solve_once();
        for flow in &self.changed {
            each(*flow, self.flows[*flow as usize].rate);
        }
    }

    fn solve_once(&mut self) {
        self.solution += 1;
        self.affected.clear();
        for flow in std::mem::take(&mut self.added) {
            self.affect(flow);
        }
        for link in std::mem::take(&mut self.dirty) {
            self.links[link as usize].is_dirty = false;
            self.check_dirty(link);
        }
        let mut known = usize::MAX;
        while known != self.affected.len() {
            known = self.affected.len();
            self.fill();
            self.check_touched();
        }
        self.commit();
    }

    /// Adds a flow to the affected flows.
    fn affect(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if state.affected != self.solution {
            state.affected = self.solution;
            self.affected.push(flow);
        }
    }

    /// Checks a link whose flows or rate have changed: if it is overloaded, all its flows are affected; if it has room,
    /// those whose bottleneck it is.
    fn check_dirty(&mut self, number: Link) {
        let link = &self.links[number as usize];
        let room = link.rate - link.acks_counted - link.load;
        let slack = TOLERANCE * link.rate;
        if room < -slack || (link.rate == 0.0 && !link.members.is_empty()) {
            self.affect_members(number, |_| true);
        } else if room > slack && link.held > 0 {
            self.affect_members(number, |flow| flow.bottleneck == number);
        }
    }

    /// Makes those flows of a link affected for which `which` returns true.
    fn affect_members(&mut self, link: Link, which: impl Fn(&FlowState) -> bool) {
        let Shares { links, flows, affected, solution, .. } = self;
        for (flow, _) in &links[link as usize].members {
            let state = &mut flows[*flow as usize];
            if state.affected != *solution && which(state) {
                state.affected = *solution;
                affected.push(*flow);
            }
        }
    }

    /// Progressive filling of the affected flows, with the rates of all other flows as they are.
    fn fill(&mut self) {
        self.prepare();
        let mut limits = std::mem::take(&mut self.limits);
        limits.sort_by(|(a, flow), (b, other)| a.total_cmp(b).then(flow.cmp(other)));
        let mut limits_left = limits.iter().copied().peekable();
        loop {
            let next = self.next_level();
            let below = |(limit, _): &(f64, u32)| next.is_none_or(|(level, _)| *limit <= level);
            if let Some((limit, flow)) = limits_left.next_if(below) {
                if self.flows[flow as usize].frozen != self.epoch {
                    self.freeze(flow, limit, NO_LINK);
                }
            } else if let Some((level, link)) = next {
                self.levels.pop();
                self.freeze_members(link, level);
            } else {
                break;
            }
        }
        drop(limits_left);
        self.limits = limits;
    }

    /// Sets up the room on all links of the affected flows.
    fn prepare(&mut self) {
        self.epoch += 1;
        self.touched.clear();
        self.levels.clear();
        self.limits.clear();
        let Shares { links, flows, affected, touched, limits, epoch, .. } = self;
        let mut fastest: f64 = 0.0;
        for flow in affected.iter() {
            let state = &flows[*flow as usize];
            fastest = fastest.max(state.alone);
            // The level of a link can rise above the rate of a flow alone, when other flows are at their limits.
            limits.push((state.limit.min(state.alone), *flow));
            for hop in &state.hops {
                let link = &mut links[hop.link as usize];
                if link.epoch != *epoch {
                    link.epoch = *epoch;
                    link.room = link.rate - link.acks_counted - link.load;
                    (link.weight, link.open, link.level) = (0.0, 0, -1.0);
                    touched.push(hop.link);
                }
                link.room += hop.share * state.rate;
                link.weight += hop.share;
                link.open += 1;
            }
        }
        let mut levels = std::mem::take(&mut self.levels).into_vec();
        for number in touched.iter() {
            let link = &mut links[*number as usize];
            if link.open as usize == link.members.len() {
                link.room = link.rate - link.acks_counted; // exact, without the errors of the sum
            }
            // A link that would be full above the rate of the fastest flow alone slows down no flow.
            let level = link.room / link.weight;
            if level < fastest * (1.0 - TOLERANCE) {
                levels.push(Level { level, link: *number });
            }
        }
        self.levels = BinaryHeap::from(levels);
    }

    /// The link that is full next, with its level, which is the first entry of `levels`; `None` if the rates of all
    /// affected flows are final.
    fn next_level(&mut self) -> Option<(f64, Link)> {
        while let Some(mut first) = self.levels.peek_mut() {
            let link = &self.links[first.link as usize];
            if link.open == 0 {
                PeekMut::pop(first);
                continue;
            }
            // The level of a link rises as flows get their final rates on other links.
            let level = (link.room / link.weight).max(0.0);
            if level <= first.level * (1.0 + TOLERANCE * 1e-3) || level <= 0.0 {
                return Some((level, first.link));
            }
            first.level = level;
        }
        None
    }

    /// Makes the rates of all affected flows of a full link final.
    fn freeze_members(&mut self, number: Link, level: f64) {
        self.links[number as usize].level = level;
        // The list is taken out, because a flow also changes its other links.
        let members = std::mem::take(&mut self.links[number as usize].members);
        for (flow, _) in &members {
            let state = &self.flows[*flow as usize];
            if state.affected == self.solution && state.frozen != self.epoch {
                self.freeze(*flow, level, number);
            }
        }
        self.links[number as usize].members = members;
    }

    /// Makes the rate of an affected flow final.
    fn freeze(&mut self, flow: u32, rate: f64, bottleneck: Link) {
        let state = &mut self.flows[flow as usize];
        (state.frozen, state.next_rate, state.next_bottleneck) = (self.epoch, rate, bottleneck);
        for hop in &state.hops {
            let link = &mut self.links[hop.link as usize];
            link.room -= hop.share * rate;
            link.weight -= hop.share;
            link.open -= 1;
        }
    }

    /// Checks on all links of affected flows that every other flow still has a bottleneck and takes no more than its
    /// fair share; those that do not are affected, too.
    fn check_touched(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for number in &touched {
            let link = &self.links[*number as usize];
            let (is_bottleneck, others) = (link.level >= 0.0, link.members.len());
            // Links for which no flow waits need no check.
            if others > 0 && (is_bottleneck || link.held > 0) {
                self.check(*number);
            }
        }
        self.touched = touched;
    }

    fn check(&mut self, number: Link) {
        let link = &self.links[number as usize];
        let (room, level) = (link.room, link.level);
        let has_room = room > TOLERANCE * link.rate;
        let rate = |flow: &FlowState| if flow.affected == self.solution { flow.next_rate } else { flow.rate };
        let rates = link.members.iter().map(|(flow, _)| rate(&self.flows[*flow as usize]));
        let fastest = rates.fold(0.0, f64::max);
        let slower = 1.0 - TOLERANCE;
        self.affect_members(number, |flow| {
            let waits_here = flow.bottleneck == number;
            (waits_here && (has_room || flow.rate < fastest * slower)) || (level >= 0.0 && flow.rate * slower > level)
        });
    }

    /// Gives the affected flows their new rates.
    fn commit(&mut self) {
        for flow in std::mem::take(&mut self.affected) {
            let Shares { links, flows, .. } = self;
            let state = &mut flows[flow as usize];
            if state.bottleneck != state.next_bottleneck {
                if state.bottleneck != NO_LINK {
                    links[state.bottleneck as usize].held -= 1;
                }
                if state.next_bottleneck != NO_LINK {
                    links[state.next_bottleneck as usize].held += 1;
                }
                state.bottleneck = state.next_bottleneck;
            }
            let change = state.next_rate - state.rate;
            if change.abs() <= TOLERANCE * 1e-3 * state.rate {
                continue;
            }
            state.rate = state.next_rate;
            for hop in &state.hops {
                links[hop.link as usize].load += hop.share * change;
            }
            for hop in &state.acks {
                links[hop.link as usize].acks += hop.share * change;
            }
            self.changed.push(flow);
            for index in 0..self.flows[flow as usize].acks.len() {
                self.note_acks(self.flows[flow as usize].acks[index].link);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_fabric::rng::{Purpose, Stream};

    fn hops(links: &[Link]) -> Vec<Hop> {
        links.iter().map(|link| Hop { link: *link, share: 1.0 }).collect()
    }

    fn solved(shares: &mut Shares) {
        shares.solve(|_, _| ());
        while shares.has_new_acks() {
            shares.count_acks();
            shares.solve(|_, _| ());
        }
    }

    /// Checks the condition of max-min fairness for all flows, and the loads of all links.
    fn assert_fair(shares: &Shares, flows: &[u32]) {
        let mut loads = vec![0.0; shares.links.len()];
        let mut fastest = vec![0.0; shares.links.len()];
        for flow in flows {
            let state = &shares.flows[*flow as usize];
            for hop in &state.hops {
                loads[hop.link as usize] += hop.share * state.rate;
                fastest[hop.link as usize] = f64::max(fastest[hop.link as usize], state.rate);
            }
        }
        let room = |link: usize| (shares.links[link].rate - shares.links[link].acks_counted).max(0.0);
        for (link, load) in loads.iter().enumerate() {
            assert!(*load <= room(link) * (1.0 + 1e-6) + 1e-12, "link {link} carries {load} of {}", room(link));
        }
        for flow in flows {
            let state = &shares.flows[*flow as usize];
            let waits = |hop: &Hop| {
                let link = hop.link as usize;
                loads[link] >= room(link) * (1.0 - 1e-6) - 1e-12 && state.rate >= fastest[link] * (1.0 - 1e-6)
            };
            let is_at_limit = state.rate >= state.limit * (1.0 - 1e-6);
            assert!(is_at_limit || state.hops.iter().any(waits), "flow {flow} has no bottleneck: {state:?}");
        }
    }

    #[test]
    fn a_flow_is_no_faster_than_on_empty_links() {
        // Link 1 has room of 2.25 for the last flow once the others are at their limits, but link 0 has a rate of 2.
        let mut shares = Shares::new([2.0, 4.0, 2.0].into_iter());
        for flow in 0..2 {
            shares.add(flow, &hops(&[1, 2]), &[], 0.875);
        }
        shares.add(2, &hops(&[0, 1]), &[], f64::INFINITY);
        solved(&mut shares);
        assert_eq!([0, 1, 2].map(|flow| shares.rate(flow)), [0.875, 0.875, 2.0]);
    }

    #[test]
    fn a_parking_lot() {
        // Three links in a row of rate 1; one flow uses all of them, and each link has another flow of its own. The
        // middle link has two.
        let mut shares = Shares::new([1.0, 1.0, 1.0].into_iter());
        for (flow, way) in [&[0, 1, 2][..], &[0], &[1], &[1], &[2]].into_iter().enumerate() {
            shares.add(flow as u32, &hops(way), &[], f64::INFINITY);
        }
        solved(&mut shares);
        let rates: Vec<f64> = (0..5).map(|flow| shares.rate(flow)).collect();
        let third = 1.0 / 3.0;
        for (rate, expected) in rates.iter().zip([third, 2.0 * third, third, third, 2.0 * third]) {
            assert!((rate - expected).abs() < 1e-12, "{rates:?}");
        }
        // Without the flows of the middle link, the long flow has half of each link.
        shares.remove(2);
        shares.remove(3);
        solved(&mut shares);
        assert!([0, 1, 4].iter().all(|flow| (shares.rate(*flow) - 0.5).abs() < 1e-12));
    }

    #[test]
    fn a_sprayed_flow_is_as_fast_as_its_slowest_path_allows() {
        // Four paths, of which one has a quarter of the rate: a quarter of the flow at rate r needs r / 4 <= 0.25 / 4.
        let mut shares = Shares::new([1.0, 0.0625, 0.25, 0.25, 0.25].into_iter());
        let spread: Vec<Hop> = (1..5).map(|link| Hop { link, share: 0.25 }).collect();
        let way = [hops(&[0]), spread].concat();
        shares.add(0, &way, &[], f64::INFINITY);
        solved(&mut shares);
        assert!((shares.rate(0) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn acks_take_room_but_do_not_slow_down_their_flow() {
        // Two hosts send to each other: x + a x = 1. A third flow shares nothing.
        let mut shares = Shares::new([1.0, 1.0].into_iter());
        let ack = |link| [Hop { link, share: 0.06 }];
        shares.add(0, &hops(&[0]), &ack(1), f64::INFINITY);
        solved(&mut shares);
        assert_eq!(shares.rate(0), 1.0);
        shares.add(1, &hops(&[1]), &ack(0), f64::INFINITY);
        solved(&mut shares);
        for flow in [0, 1] {
            assert!((shares.rate(flow) - 1.0 / 1.06).abs() < 5e-3, "{}", shares.rate(flow));
        }
        shares.remove(1);
        solved(&mut shares);
        assert_eq!(shares.rate(0), 1.0);
    }

    #[test]
    fn a_link_that_fails_stops_its_flows_and_frees_others() {
        let mut shares = Shares::new([1.0, 1.0].into_iter());
        shares.add(0, &hops(&[0, 1]), &[], f64::INFINITY);
        shares.add(1, &hops(&[0]), &[], f64::INFINITY);
        solved(&mut shares);
        assert_eq!((shares.rate(0), shares.rate(1)), (0.5, 0.5));
        shares.set_rate(1, 0.0);
        solved(&mut shares);
        assert_eq!((shares.rate(0), shares.rate(1)), (0.0, 1.0));
        shares.set_rate(1, 0.25);
        solved(&mut shares);
        assert_eq!((shares.rate(0), shares.rate(1)), (0.25, 0.75));
    }

    /// Flows come and go at random, with limits, shares and ACKs: the rates are always those of a computation for all.
    #[test]
    fn rates_stay_fair_as_flows_come_and_go() {
        for seed in 0..20 {
            let mut stream = Stream::new(seed, Purpose::Spray, &[]);
            let mut draw = |below: u64| stream.next_u64() % below;
            let rates: Vec<f64> = (0..24).map(|_| 1.0 + draw(4) as f64).collect();
            let mut shares = Shares::new(rates.iter().copied());
            let mut open: Vec<u32> = Vec::new();
            for step in 0..200 {
                let flow = step as u32;
                let mut way: Vec<Link> = (0..1 + draw(4)).map(|_| draw(24) as Link).collect();
                way.sort_unstable();
                way.dedup();
                let share = if draw(3) == 0 { 0.5 } else { 1.0 };
                let way: Vec<Hop> = way.into_iter().map(|link| Hop { link, share }).collect();
                let limit = if draw(4) == 0 { 0.1 + draw(10) as f64 / 10.0 } else { f64::INFINITY };
                let acks = [Hop { link: draw(24) as Link, share: 0.05 }];
                shares.add(flow, &way, if draw(2) == 0 { &acks } else { &[] }, limit);
                open.push(flow);
                if open.len() > 30 || draw(3) == 0 {
                    let gone = open.swap_remove(draw(open.len() as u64) as usize);
                    shares.remove(gone);
                }
                if draw(20) == 0 {
                    // A fault makes a link at most as fast as it is without faults.
                    let link = draw(24) as usize;
                    shares.set_rate(link as Link, rates[link].min(draw(5) as f64));
                }
                solved(&mut shares);
                assert_fair(&shares, &open);
            }
        }
    }
}
