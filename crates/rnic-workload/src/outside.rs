//! Traffic that another program submits while the simulation runs: the pattern `outside`.
//!
//! The engine and the submitting program are on two threads. The engine asks [`Outside`] before each window of
//! simulated time, and waits until the program has promised to submit no flow that starts before the end of the window.
//! So the windows are those of a run that knows all flows from its beginning, and so are the results.

use super::FlowSpec;
use super::loops::{Loops, Origin};
use super::source::{Completion, Pending, Settled, Source};
use rnic_fabric::PortStates;
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which a waiting program checks whether its user has interrupted it.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A submitted flow has completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowCompletion {
    /// The earliest time at which the submitting program may know of the completion, and react to it.
    pub visible: Time,
    /// Number of the flow: flows are numbered from 0 in order of submission.
    pub flow: u64,
    /// Time at which the last byte had arrived at the receiver.
    pub delivered: Time,
    /// Time at which the sender can know that all bytes have arrived ([`Completion::known`]).
    pub known: Time,
}

/// How far the program lets the simulation run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The program submits no flow that starts before this time.
    pub until: Time,
    /// Whether the simulation stops earlier, at the first time at which a completion becomes visible.
    pub to_completion: bool,
}

/// The queue of flows between the program that submits them and the engine, and of completions in the other direction.
#[derive(Debug)]
pub struct Feed {
    state: Mutex<State>,
    engine: Condvar,
    program: Condvar,
}

#[derive(Debug)]
struct State {
    /// Submitted flows that the engine has not seen, in order of submission.
    arriving: Vec<FlowSpec>,
    submitted: u64,
    grant: Grant,
    /// Minimum time between a completion and its visibility.
    reaction: Time,
    completions: BinaryHeap<Reverse<FlowCompletion>>,
    /// The program submits no further flow.
    closed: bool,
    cancelled: bool,
    /// The engine waits for the program.
    waits: bool,
    ended: bool,
    wants_ports: bool,
    ports: Option<PortStates>,
}

impl State {
    /// The time before which no further flow starts.
    fn granted(&self) -> Time {
        let Grant { until, to_completion } = self.grant;
        match self.completions.peek() {
            Some(Reverse(first)) if to_completion => first.visible.min(until),
            _ => until,
        }
    }
}

impl Feed {
    /// A queue without flows. A completion becomes visible `reaction` later, or one window of simulated time later if
    /// this is longer.
    pub fn new(reaction: Option<Time>) -> Arc<Feed> {
        let state = State {
            arriving: Vec::new(),
            submitted: 0,
            grant: Grant { until: Time::ZERO, to_completion: false },
            reaction: reaction.unwrap_or(Time::ZERO),
            completions: BinaryHeap::new(),
            closed: false,
            cancelled: false,
            waits: false,
            ended: false,
            wants_ports: false,
            ports: None,
        };
        Arc::new(Feed { state: Mutex::new(state), engine: Condvar::new(), program: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits flows, each of which starts at or after the time up to which the simulation may have run. Returns the
    /// number of the first one.
    pub fn submit(&self, flows: impl IntoIterator<Item = FlowSpec>) -> u64 {
        let mut state = self.lock();
        let first = state.submitted;
        let before = state.arriving.len();
        state.arriving.extend(flows);
        state.submitted += (state.arriving.len() - before) as u64;
        first
    }

    /// Number of flows submitted so far.
    pub fn submitted(&self) -> u64 {
        self.lock().submitted
    }

    /// Lets the engine run, and waits until it needs a later grant or has ended. Calls `interrupted` now and then, and
    /// cancels the simulation if that returns true.
    pub fn run(&self, grant: Grant, interrupted: &mut dyn FnMut() -> bool) {
        let mut state = self.lock();
        state.grant = grant;
        self.resume(&mut state);
        self.wait(state, interrupted);
    }

    /// Lets the engine simulate all submitted flows, as no further one will come.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.resume(&mut state);
    }

    /// Ends the simulation without further events.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        self.resume(&mut state);
    }

    /// The state of all ports after the last window of simulated time; `None` if the simulation has ended.
    pub fn ports(&self) -> Option<PortStates> {
        let mut state = self.lock();
        state.wants_ports = true;
        self.resume(&mut state);
        self.wait(state, &mut || false);
        self.lock().ports.take()
    }

    fn resume(&self, state: &mut State) {
        state.waits = false;
        self.engine.notify_one();
    }

    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>, interrupted: &mut dyn FnMut() -> bool) {
        while !state.waits && !state.ended {
            let waited = self.program.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && !state.cancelled && interrupted() {
                state.cancelled = true;
            }
        }
    }

    /// Waits until the engine needs the first grant, or has failed before.
    pub fn await_begin(&self) {
        self.wait(self.lock(), &mut || false);
    }

    /// Notes that the simulation has ended.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.program.notify_all();
    }

    /// Whether the simulation has ended.
    pub fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// The time at which the next completion becomes visible, if the engine knows one.
    pub fn next_visible(&self) -> Option<Time> {
        self.lock().completions.peek().map(|Reverse(first)| first.visible)
    }

    /// Moves the completions that are visible at `now` to `into`, in order of visibility, then of number.
    pub fn take_completions(&self, now: Time, into: &mut Vec<FlowCompletion>) {
        let mut state = self.lock();
        while let Some(Reverse(first)) = state.completions.peek().copied()
            && first.visible <= now
        {
            into.push(first);
            state.completions.pop();
        }
    }

    /// Minimum time between a completion and its visibility.
    pub fn reaction(&self) -> Time {
        self.lock().reaction
    }
}

/// A submitted flow: start, sending host, number, receiving host, bytes. In this order flows start.
type Submitted = (Time, u32, u64, u32, u64);

/// The engine's end of a [`Feed`].
#[derive(Debug)]
pub struct Outside {
    feed: Arc<Feed>,
    traffic: u16,
    warmup: u64,
    /// The declared reaction.
    reaction: Option<Time>,
    /// Number of flows received from the program, and number of flows started.
    received: u64,
    made: u64,
    flows: BinaryHeap<Reverse<Submitted>>,
    /// Number of the flow that [`Source::take`] has returned last.
    taken: u64,
    /// For each flow in the simulator's flow table, its number; [`u64::MAX`] for flows of other sources.
    slots: Vec<u64>,
    is_open: bool,
}

impl Outside {
    /// A value of `slots` for flows of other sources.
    const OTHER: u64 = u64::MAX;

    /// The flows of `feed` as the traffic source of index `traffic`, of which the first `warmup` flows are not
    /// measured.
    pub fn new(feed: Arc<Feed>, traffic: u16, warmup: u64, reaction: Option<Time>) -> Outside {
        let (flows, slots) = (BinaryHeap::new(), Vec::new());
        Outside { feed, traffic, warmup, reaction, received: 0, made: 0, flows, taken: 0, slots, is_open: true }
    }

    fn receive(&mut self, state: &mut State) {
        for FlowSpec { start, src, dst, bytes, .. } in state.arriving.drain(..) {
            self.flows.push(Reverse((start, src, self.received, dst, bytes)));
            self.received += 1;
        }
    }
}

impl Source for Outside {
    fn head(&self) -> Option<(Time, u16)> {
        self.flows.peek().map(|Reverse((start, ..))| (*start, self.traffic))
    }

    fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        let Reverse((start, src, number, dst, bytes)) = self.flows.pop()?;
        self.taken = number;
        let measured = self.made >= self.warmup;
        self.made += 1;
        let (request, traffic) = (FlowSpec::NO_REQUEST, self.traffic);
        let flow = FlowSpec { start, src, dst, bytes, request, traffic, measured, hash: None };
        Some((flow, Origin { member: 0, ..Loops::OUTSIDE }))
    }

    fn place(&mut self, flow: u32, member: u32) {
        if self.slots.len() <= flow as usize {
            self.slots.resize(flow as usize + 1, Outside::OTHER);
        }
        self.slots[flow as usize] = if member == Loops::NONE { Outside::OTHER } else { self.taken };
    }

    fn holds(&self, flow: u32) -> bool {
        self.slots.get(flow as usize).is_some_and(|number| *number != Outside::OTHER)
    }

    fn complete(&mut self, flow: u32, Completion { delivered, known, .. }: Completion) {
        let number = std::mem::replace(&mut self.slots[flow as usize], Outside::OTHER);
        let mut state = self.feed.lock();
        let visible = delivered.saturating_add(state.reaction);
        state.completions.push(Reverse(FlowCompletion { visible, flow: number, delivered, known }));
    }

    fn total(&self) -> Option<u64> {
        None
    }

    fn reaction(&self) -> Option<Time> {
        self.reaction
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn settle(&mut self, pending: &Pending<'_>) -> Settled {
        let feed = self.feed.clone();
        let mut state = feed.lock();
        // No reaction may fall into the window of its cause.
        state.reaction = state.reaction.max(pending.window);
        loop {
            self.receive(&mut state);
            if state.cancelled {
                self.is_open = false;
                return Settled::Cancelled;
            }
            if state.closed {
                self.is_open = false;
                return Settled::Known;
            }
            let next = self.next_event();
            let start = next.min(if pending.held { Time::MAX } else { pending.next });
            if start < Time::MAX && start.saturating_add(pending.window) <= state.granted() {
                return Settled::Known;
            }
            if std::mem::take(&mut state.wants_ports) {
                state.ports = Some((pending.ports)());
            }
            state.waits = true;
            feed.program.notify_all();
            while state.waits {
                state = feed.engine.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}
