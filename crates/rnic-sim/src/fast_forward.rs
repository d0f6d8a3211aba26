//! Skips simulated time in which the set of flows, their rates and all queues repeat (the setting `fast_forward`).
//!
//! The state of the run is observed every few round-trip times. A window of 4, 8, 16 ... observations is steady if, in
//! three windows of this length one after the other, every flow has received as many packets, and every queue has had
//! the same mean length, up to the bound. If the next window repeats them too, whole windows are skipped: each flow
//! loses the packets that it would have received, at both ends, the counters advance, and the simulated time does. What
//! is under way stays where it is. After the skip, a window is simulated and compared again; every further window that
//! repeats allows a longer skip. A straight line through the rates of a flow in all windows limits how far they are
//! extrapolated, so a slow drift is not taken for a steady state.
//!
//! No skip passes the start of a flow, the last windows of a flow, an observation or change by another observer, or the
//! end of the run. One of four skips is simulated instead, at least in part, and the difference between what was
//! expected and what happened is recorded.

use crate::host::{FlowId, HostTotals, Observer, Remaining, RunHosts, Skipped};
use rnic_fabric::{Body, Counted, Fabric, PortId};
use rnic_spec::FastForwardRecord;
use rnic_transport::Time;
use std::collections::VecDeque;

/// Number of round-trip times between two observations.
const RTTS_PER_TICK: u64 = 4;

/// Binary logarithms of the numbers of observations in the shortest and the longest window.
const LEVELS: std::ops::RangeInclusive<u32> = 2..=12;

/// Number of windows that the first skip of a steady state skips at most, and the factor by which each further skip may
/// be longer.
const FIRST_SKIP: u64 = 16;
const LONGER: u64 = 4;

/// Number of windows that the longest skip skips.
const LONGEST_SKIP: u64 = 1 << 14;

/// One of this many skips is checked: simulated instead of skipped, up to [`CHECKED_WINDOWS`] windows.
const CHECK_EVERY: u32 = 4;
const CHECKED_WINDOWS: u64 = 4;

/// What a run with `fast_forward` has, for the search of steady states.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ForwardPlan {
    /// Largest relative difference of rates and queues that repeat: the setting.
    pub(crate) bound: f64,
    /// Round-trip time of the longest path of the empty fabric.
    pub(crate) base_rtt: Time,
    /// Bytes of a full packet, and bytes that a host sends in `base_rtt`.
    pub(crate) packet: u64,
    pub(crate) bdp: u64,
}

/// Sums at one observation since the set of flows last changed: the packets that each flow has received, and the bytes
/// of each queue, summed over the observations.
#[derive(Clone, Debug, Default)]
struct Sums {
    packets: Vec<u64>,
    queued: Vec<u64>,
}

impl Sums {
    /// The increase since `before`.
    fn since(&self, before: &Sums) -> Sums {
        let minus = |now: &[u64], before: &[u64]| now.iter().zip(before).map(|(now, before)| now - before).collect();
        Sums { packets: minus(&self.packets, &before.packets), queued: minus(&self.queued, &before.queued) }
    }
}

/// The packets that a flow receives in the windows of a steady state, for a line through them.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    windows: f64,
    /// Sums over the windows i = 0, 1, 2 ...: of i, of its square, of the packets, and of i times the packets.
    index: f64,
    square: f64,
    packets: f64,
    product: f64,
}

impl Line {
    fn add(&mut self, packets: f64) {
        let index = self.windows;
        self.windows += 1.0;
        self.index += index;
        self.square += index * index;
        self.packets += packets;
        self.product += index * packets;
    }

    /// Packets that the flow receives in a window, on average.
    fn mean(&self) -> f64 {
        self.packets / self.windows
    }

    /// Change of the packets from a window to the next by least squares, as a share of their mean, without its sign. A
    /// change of one packet between the first and the last window counts as none.
    fn slope(&self) -> f64 {
        let spread = self.windows * self.square - self.index * self.index;
        let slope = (self.windows * self.product - self.index * self.packets) / spread;
        (slope.abs() - 1.0 / (self.windows - 1.0)).max(0.0) / self.mean()
    }
}

/// A steady state: what repeats, since when, and how far it may be extrapolated.
struct Steady {
    /// Number of observations in a window.
    window: u64,
    /// Packets that each flow receives in a window, and the line through all windows.
    packets: Vec<f64>,
    lines: Vec<Line>,
    /// Bytes of each queue, summed over the observations of a window.
    queued: Vec<u64>,
    /// The state at the begin of the current window.
    begin: Begin,
    /// Number of windows that the next skip skips at most.
    longest: u64,
}

/// The state at the begin of a window.
struct Begin {
    /// Number of the observation.
    tick: u64,
    sums: Sums,
    losses: Vec<(u32, u32)>,
    totals: HostTotals,
    vanished: u64,
    counted: Counted,
}

/// A skip that is simulated instead: the observation at which it ends, the state at its begin, and its number of
/// windows.
struct Check {
    ends: u64,
    sums: Sums,
    windows: u64,
}

/// Observes a run together with its other observers, and skips simulated time.
pub(crate) struct FastForward<'w, 'o, B> {
    plan: ForwardPlan,
    /// Simulated time at which the run ends at the latest.
    until: Time,
    others: &'w mut Vec<&'o mut dyn Observer<B>>,
    next: Time,
    /// The flows that are under way, with the number of packets that they had left when their set last changed; skipped
    /// packets are not counted.
    flows: Vec<Remaining>,
    first_left: Vec<u64>,
    /// Number of observations since then, and number of changes since the last steady state.
    ticks: u64,
    changes: u32,
    sums: Sums,
    /// For each length of windows: the sums at the last ends of windows, the oldest first.
    ends: Vec<VecDeque<Sums>>,
    steady: Option<Steady>,
    check: Option<Check>,
    /// Number of skips, checked ones included.
    attempts: u32,
    record: FastForwardRecord,
}

impl<'w, 'o, B: Body> FastForward<'w, 'o, B> {
    /// Watches a run that ends at `until` at the latest, together with its observers `others`.
    pub(crate) fn new(plan: ForwardPlan, until: Time, others: &'w mut Vec<&'o mut dyn Observer<B>>) -> Self {
        FastForward {
            plan,
            until,
            others,
            next: plan.base_rtt * RTTS_PER_TICK,
            flows: Vec::new(),
            first_left: Vec::new(),
            ticks: 0,
            changes: 0,
            sums: Sums::default(),
            ends: Vec::new(),
            steady: None,
            check: None,
            attempts: 0,
            record: FastForwardRecord { bound: plan.bound, ..FastForwardRecord::default() },
        }
    }

    /// How much was skipped, and how well it was foreseen.
    pub(crate) fn record(&self) -> FastForwardRecord {
        self.record
    }

    fn tick(&self) -> Time {
        self.plan.base_rtt * RTTS_PER_TICK
    }

    /// Forgets what has been observed, because the set of flows has changed.
    #[cold]
    fn begin_again(&mut self, queues: usize) {
        self.first_left = self.flows.iter().map(|flow| flow.left).collect();
        self.ticks = 0;
        self.sums = Sums { packets: vec![0; self.flows.len()], queued: vec![0; queues] };
        self.ends = LEVELS.map(|_| VecDeque::from([self.sums.clone()])).collect();
        (self.steady, self.check) = (None, None);
    }

    /// Whether two windows of `window` observations are equal up to the bound. Each flow must have received so many
    /// packets that one packet is within the bound.
    fn repeats(&self, window: u64, a: (&[f64], &[u64]), b: &Sums) -> bool {
        let bound = self.plan.bound;
        let rates = a.0.iter().zip(&b.packets).all(|(a, b)| {
            let (a, b) = (*a, *b as f64);
            a.min(b) * bound >= 1.0 && (a - b).abs() <= bound * a.max(b)
        });
        let slack = (bound * self.plan.bdp as f64).max(self.plan.packet as f64) * window as f64;
        rates
            && a.1.iter().zip(&b.queued).all(|(a, b)| {
                let (a, b) = (*a as f64, *b as f64);
                (a - b).abs() <= (bound * a.max(b)).max(slack)
            })
    }

    /// The lines through three windows of the same length that are equal up to the bound, and the mean of their queues;
    /// `None` if they are not equal.
    fn mean_of_equal(&self, window: u64, ends: &VecDeque<Sums>) -> Option<(Vec<Line>, Vec<u64>)> {
        let [a, b, c, d] = [0, 1, 2, 3].map(|end| ends.get(end));
        let windows = [b?.since(a?), c?.since(b?), d?.since(c?)];
        let first: Vec<f64> = windows[0].packets.iter().map(|packets| *packets as f64).collect();
        let equal = windows[1..].iter().all(|other| self.repeats(window, (&first, &windows[0].queued), other));
        equal.then(|| {
            let line = |index: usize| {
                let mut line = Line::default();
                windows.iter().for_each(|window| line.add(window.packets[index] as f64));
                line
            };
            let queued = |index: usize| windows.iter().map(|window| window.queued[index]).sum::<u64>() / 3;
            let (flows, queues) = (windows[0].packets.len(), windows[0].queued.len());
            ((0..flows).map(line).collect(), (0..queues).map(queued).collect())
        })
    }

    /// Observes flows and queues. Returns whether the set of flows is the one of the last observation.
    fn sample(&mut self, now: Time, fabric: &Fabric<B>, hosts: &dyn RunHosts<B>) -> bool {
        let before: Vec<u32> = self.flows.iter().map(|flow| flow.id).collect();
        let mut flows = std::mem::take(&mut self.flows);
        let may_skip = hosts.remaining(now, &mut flows) && !flows.is_empty();
        if !may_skip {
            flows.clear();
        }
        let same = may_skip && flows.iter().map(|flow| flow.id).eq(before);
        self.flows = flows;
        let ports = fabric.topology().ports.len();
        if !same {
            self.begin_again(ports);
            return false;
        }
        self.ticks += 1;
        for ((sum, flow), first) in self.sums.packets.iter_mut().zip(&self.flows).zip(&self.first_left) {
            *sum = first - flow.left;
        }
        let priorities = usize::from(fabric.priorities());
        for (port, sum) in (0..).map(PortId).zip(&mut self.sums.queued) {
            *sum += (0..priorities).map(|priority| fabric.egress(port, priority)).sum::<u64>();
        }
        true
    }

    /// The state now, at the begin of a window.
    fn begin(&self, fabric: &Fabric<B>, hosts: &dyn RunHosts<B>) -> Begin {
        Begin {
            tick: self.ticks,
            sums: self.sums.clone(),
            losses: self.flows.iter().map(|flow| flow.losses).collect(),
            totals: hosts.totals(),
            vanished: fabric.vanished(),
            counted: fabric.counted(),
        }
    }

    /// Looks for the shortest window that repeats.
    fn search(&mut self, fabric: &Fabric<B>, hosts: &dyn RunHosts<B>) {
        for (number, level) in LEVELS.enumerate() {
            let window = 1 << level;
            if !self.ticks.is_multiple_of(window) {
                break;
            }
            self.ends[number].push_back(self.sums.clone());
            if self.ends[number].len() < 4 {
                continue;
            }
            let found = self.mean_of_equal(window, &self.ends[number]);
            self.ends[number].pop_front();
            if let (Some((lines, queued)), None) = (found, &self.steady) {
                self.steady = Some(Steady {
                    window,
                    packets: lines.iter().map(Line::mean).collect(),
                    lines,
                    queued,
                    begin: self.begin(fabric, hosts),
                    longest: FIRST_SKIP,
                });
            }
        }
    }

    /// The largest number of windows that can be skipped at `now`: nothing that is known happens in them, every flow
    /// has two windows left, and no rate drifts by more than the bound.
    fn room(&self, now: Time, steady: &Steady, next_start: Time) -> u64 {
        let window = self.tick().as_ps().saturating_mul(steady.window);
        let before = |at: Time, reserve: u64| (at.saturating_sub(now).as_ps() / window).saturating_sub(reserve);
        let others = self.others.iter().map(|other| other.next()).min().unwrap_or(Time::MAX);
        let mut room = before(next_start, 2).min(before(self.until, 2)).min(before(others, 1));
        for (flow, packets) in self.flows.iter().zip(&steady.packets) {
            let left = flow.left.min(flow.unsent) as f64 / packets - 2.0;
            room = room.min(left.max(0.0) as u64);
        }
        // A line through the windows changes by at most the bound, on average, in the time that is skipped. Of noise
        // the slope becomes smaller as more windows are simulated.
        let steepest = steady.lines.iter().map(Line::slope).fold(0.0, f64::max);
        let straight = if steepest > 0.0 { (2.0 * self.plan.bound / steepest) as u64 } else { u64::MAX };
        room.min(steady.longest).min(straight).min(LONGEST_SKIP)
    }

    /// At the end of a window of the steady state: compares it with those before, and skips what follows.
    fn go_on(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        let Some(mut steady) = self.steady.take_if(|steady| self.ticks == steady.begin.tick + steady.window) else {
            return;
        };
        let last = self.sums.since(&steady.begin.sums);
        if !self.repeats(steady.window, (&steady.packets, &steady.queued), &last) {
            return;
        }
        for ((mean, line), packets) in steady.packets.iter_mut().zip(&mut steady.lines).zip(&last.packets) {
            line.add(*packets as f64);
            *mean = line.mean();
        }
        let windows = self.room(now, &steady, hosts.next_flow_start());
        if windows > 1 {
            self.attempts += 1;
            if self.attempts % CHECK_EVERY == 2 {
                let windows = windows.min(CHECKED_WINDOWS);
                let ends = self.ticks + windows * steady.window;
                self.check = Some(Check { ends, sums: self.sums.clone(), windows });
            } else {
                self.skip(now, windows, &steady, fabric, hosts);
            }
            steady.longest = steady.longest.saturating_mul(LONGER);
        }
        self.changes = 0;
        self.steady = Some(Steady { begin: self.begin(fabric, hosts), ..steady });
    }

    fn skip(&mut self, now: Time, windows: u64, steady: &Steady, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        let span = self.tick() * steady.window * windows;
        let mut flows = Vec::with_capacity(self.flows.len());
        for (index, flow) in self.flows.iter().enumerate() {
            let packets = (steady.packets[index] * windows as f64).round() as u64;
            let before = steady.begin.losses[index];
            let more = |now: u32, before: u32| (u64::from(now - before) * windows).min(u64::from(u32::MAX)) as u32;
            let losses = (more(flow.losses.0, before.0), more(flow.losses.1, before.1));
            flows.push(Skipped { flow: FlowId(flow.flow.0), packets, losses });
            // Skipped packets do not count as received: the windows after the skip are compared with those before.
            self.first_left[index] -= packets;
        }
        let mut counted = hosts.totals().since(steady.begin.totals).times(windows);
        // As many packets are under way after the skip as before.
        counted.delivered = counted.data + counted.control - (fabric.vanished() - steady.begin.vanished) * windows;
        fabric.skip(span, &steady.begin.counted, windows);
        hosts.skip(span, &flows, counted);
        self.record.skips += 1;
        self.record.skipped = self.record.skipped.saturating_add(span);
        self.next = now + span;
    }

    /// At the end of a check: how much the packets of each flow differ from what was expected.
    fn finish_check(&mut self, fabric: &Fabric<B>, hosts: &dyn RunHosts<B>) {
        let Some(check) = self.check.take_if(|check| check.ends == self.ticks) else { return };
        let Some(steady) = self.steady.take() else { return };
        let actual = self.sums.since(&check.sums);
        let difference = steady.packets.iter().zip(&actual.packets).map(|(expected, actual)| {
            let expected = expected * check.windows as f64;
            (*actual as f64 - expected).abs() / expected
        });
        self.record.checked += 1;
        self.record.largest_deviation = difference.fold(self.record.largest_deviation, f64::max);
        self.steady = Some(Steady { begin: self.begin(fabric, hosts), ..steady });
    }
}

impl<B: Body> Observer<B> for FastForward<'_, '_, B> {
    fn next(&self) -> Time {
        self.others.iter().map(|other| other.next()).fold(self.next, Time::min)
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        self.others.observe(now, fabric, hosts);
        if now < self.next {
            return;
        }
        self.next = now;
        if self.sample(now, fabric, hosts) {
            self.finish_check(fabric, hosts);
            self.search(fabric, hosts);
            if self.check.is_none() {
                self.go_on(now, fabric, hosts);
            }
        } else {
            self.changes = (self.changes + 1).min(6);
        }
        // While flows begin and end all the time, the state is observed less often.
        let pause = if self.ticks == 0 { 1 << self.changes.saturating_sub(1) } else { 1 };
        self.next += self.tick() * pause;
    }

    fn acts(&self) -> bool {
        self.others.acts()
    }
}
