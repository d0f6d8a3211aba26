//! Frames of a run: the state of all ports, pauses and flows at successive instants of simulated time.

use crate::events::Listener;
use crate::frame_listener::FrameListener;
use crate::host::{HostState, Observer, RunHosts};
use rnic_fabric::{Body, Cause, Fabric, PortId, Wait, pause_tree};
use rnic_spec::{Frame, FrameEnd, FrameFlow, FramePause, FramePort, PauseRow, RootKind};
use rnic_transport::Time;

/// Maximum number of pauses between two frames; further ones are in no frame and not reported.
const MAX_PAUSES: usize = 200_000;

/// The flows of a frame.
#[derive(Default)]
struct Flows {
    started: Vec<FrameFlow>,
    ended: Vec<FrameEnd>,
    delivered: Vec<(u32, u64)>,
}

/// Takes the frames of a run at their times.
pub(crate) struct FrameRecorder<'e> {
    listener: &'e dyn FrameListener,
    next: Time,
    interval: Time,
    /// The next frame of the plan.
    regular: Time,
    /// Number of frames until the interval doubles.
    left: u32,
    /// Number of frames after the first doubling until the next.
    half: u32,
    /// The state of each port in the latest frame.
    ports: Vec<FramePort>,
    /// Number of ports in the latest frame.
    changed: usize,
    /// One more than the largest id of a flow in an earlier frame: ids are in the order in which flows start.
    known: u32,
    /// Whether this recorder reports pauses, because nothing else samples them.
    takes_pauses: bool,
    has_begun: bool,
    /// The flows of the last frame.
    last: Flows,
}

impl<'e> FrameRecorder<'e> {
    /// A recorder for the frames that `events` asks for; `None` if it asks for none, or if the run has several ranks,
    /// of which each knows its own ports only. `has_pauses` says that pauses are sampled apart from frames.
    pub(crate) fn new<B: Body>(
        fabric: &mut Fabric<B>, events: &'e dyn Listener, has_pauses: bool,
    ) -> Option<FrameRecorder<'e>> {
        let (plan, listener) = events.frames()?;
        if fabric.ranks().is_some() {
            return None;
        }
        if !has_pauses {
            fabric.log_pauses(MAX_PAUSES);
        }
        let ports = fabric.topology().port_ids().map(|port| FramePort { port: port.0, ..FramePort::default() });
        Some(FrameRecorder {
            listener,
            next: Time::ZERO,
            interval: plan.interval.max(Time::from_ns(1)),
            regular: Time::ZERO,
            left: plan.frames.max(2),
            half: plan.frames.max(2) / 2,
            ports: ports.collect(),
            changed: 0,
            known: 0,
            takes_pauses: !has_pauses,
            has_begun: false,
            last: Flows::default(),
        })
    }

    /// Notes the flows at the end of the run, before the hosts give their records away.
    pub(crate) fn end(&mut self, now: Time, hosts: &mut dyn HostState) {
        self.last = self.flows(now, hosts);
    }

    /// Takes the last frame, at the end of the run.
    pub(crate) fn finish<B: Body>(mut self, fabric: &mut Fabric<B>) {
        let last = std::mem::take(&mut self.last);
        self.take(fabric.now(), fabric, last);
        if !self.takes_pauses {
            return;
        }
        for port in fabric.topology().clone().port_ids() {
            let mask = fabric.paused(port);
            for priority in (0..8u8).filter(|priority| mask & (1 << priority) != 0) {
                let from = fabric.paused_since(port, usize::from(priority));
                self.listener.pause(PauseRow { port: port.0, priority, from, to: None, root: None });
            }
        }
    }

    /// The instant of the frame after that of `now`.
    fn next_after(&mut self, now: Time) -> Time {
        if now >= self.regular {
            self.left -= 1;
            if self.left == 0 {
                self.left = self.half;
                self.interval = self.interval * 2;
            }
            self.regular = now.saturating_add(self.interval);
        }
        match self.listener.interval_to_next() {
            None => self.regular,
            Some(asked) if asked < self.interval => now.saturating_add(asked.max(Time::from_ns(1))).min(self.regular),
            Some(asked) => now.saturating_add(asked),
        }
    }

    /// The flows that started and ended since the frame before, and those under way.
    fn flows(&mut self, now: Time, hosts: &mut dyn HostState) -> Flows {
        if !self.has_begun {
            hosts.note_ends();
        }
        let started = hosts.under_way(now, self.known).into_iter().map(|flow| FrameFlow {
            flow: flow.id,
            src: flow.src.0,
            dst: flow.dst.0,
            bytes: flow.bytes,
            start: flow.start,
            priority: flow.priority,
            data_hash: flow.data_hash,
        });
        let mut flows = Flows { started: started.collect(), ..Flows::default() };
        flows.started.sort_unstable_by_key(|flow| flow.flow);
        self.known = flows.started.last().map_or(self.known, |flow| flow.flow + 1);
        hosts.take_ended(&mut flows.ended);
        flows.ended.sort_unstable_by_key(|flow| flow.flow);
        flows.delivered = hosts.delivered(now);
        flows.delivered.sort_unstable();
        flows
    }

    fn take<B: Body>(&mut self, now: Time, fabric: &mut Fabric<B>, flows: Flows) {
        if !self.has_begun {
            self.has_begun = true;
            self.listener.begin(fabric.topology(), fabric.routes());
        }
        if self.takes_pauses {
            for pause in fabric.take_pauses().0 {
                let (port, priority) = (pause.port.0, pause.priority);
                self.listener.pause(PauseRow { port, priority, from: pause.from, to: Some(pause.to), root: None });
            }
        }
        let mut changed = Vec::with_capacity(self.changed);
        let (mut ports, mut queued) = (self.ports.iter_mut(), Vec::new());
        for node in 0..fabric.topology().nodes() {
            fabric.queued_at(node, &mut queued);
            for (queued, before) in queued.iter().zip(ports.by_ref()) {
                let mut state = state(fabric, PortId(before.port), *queued);
                // A pause frame that is being sent reduces the sending time for a moment.
                state.busy_ps = state.busy_ps.max(before.busy_ps);
                if *before != state {
                    *before = state;
                    changed.push(state);
                }
            }
        }
        self.changed = changed.len();
        let tree = pause_tree(fabric);
        let pauses = tree.paused().map(|paused| FramePause {
            port: paused.port.0,
            priority: paused.priority,
            since: paused.since,
            waits_for: match paused.waits_for {
                Wait::Port(index) => Some(tree.ports[index].port.0),
                Wait::Root(_) => None,
            },
            root: match paused.cause {
                Cause::Congestion { port } => Some((RootKind::Congestion, port.0)),
                Cause::Nic { port } => Some((RootKind::Nic, port.0)),
                Cause::Cycle { port } => Some((RootKind::Cycle, port.0)),
                Cause::Released => None,
            },
        });
        let pauses = pauses.collect();
        let cycle = tree.cycle.iter().map(|port| port.0).collect();
        let Flows { started, ended, delivered } = flows;
        self.listener.frame(Frame { time: now, ports: changed, pauses, cycle, started, ended, delivered });
    }
}

/// The state of a port now, for which `queued` bytes wait.
fn state<B: Body>(fabric: &Fabric<B>, port: PortId, queued: u64) -> FramePort {
    let mut state =
        FramePort { port: port.0, queued, busy_ps: fabric.sending_time(port).as_ps(), ..FramePort::default() };
    for counters in fabric.counters(port) {
        state.dropped += counters.drops;
        state.lost += counters.lost;
        state.trimmed += counters.trimmed + counters.returned;
        state.marked += counters.marked;
    }
    state
}

impl<B: Body> Observer<B> for FrameRecorder<'_> {
    fn next(&self) -> Time {
        self.next
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        let flows = self.flows(now, hosts);
        self.take(now, fabric, flows);
        self.next = self.next_after(now);
    }
}
