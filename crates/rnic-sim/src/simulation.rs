//! A simulation that another program drives: it submits flows, lets simulated time advance, and learns of completions.

use crate::Catalogue;
use crate::events::Events;
use crate::resolve::{SetupError, resolve};
use crate::run::{Sharing, run_fed};
use rnic_fabric::{PortId, PortStates, Topology};
use rnic_spec::{FlowSpec, RunRecord, RunSpec, RunStatus, TrafficPattern};
use rnic_transport::{Bytes, Time};
use rnic_workload::{Feed, FlowCompletion, Grant};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Maximum number of flows of a simulation.
const MAX_FLOWS: u64 = rnic_spec::settings::MAX_FLOWS;

/// A flow that a program submits to a [`Simulation`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRequest {
    /// Start of the flow.
    pub start: Time,
    /// Number of the sending host, from 0.
    pub src: u32,
    /// Number of the receiving host, from 0.
    pub dst: u32,
    /// Payload bytes, from 1 to the `largest` of the scenario.
    pub bytes: u64,
}

/// The state of a port, with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortUse {
    /// Name of the host or switch that has the port.
    pub node: String,
    /// Number of the port in its node, from 0.
    pub port: u32,
    /// Name of the node at the other end of the link.
    pub peer: String,
    /// Bytes in the switch's buffer that wait for this output port; 0 for a host's port.
    pub queued: Bytes,
    /// Bytes of all frames that the port has begun to transmit so far.
    pub sent: Bytes,
    /// Time for which the port has been transmitting so far; divided by the time of the state, its utilisation.
    pub busy: Time,
    /// Bitmap of the priorities in which the port is paused.
    pub paused: u8,
}

/// Why a call of a [`Simulation`] has failed. Only [`SimulationError::Ended`] and [`SimulationError::Interrupted`] end
/// the simulation.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// The run has no traffic source with the pattern `outside`.
    #[error(
        "run \"{0}\" has no traffic source for the flows of this program; add a [traffic] table with pattern = \"outside\""
    )]
    NotOutside(String),
    /// The run has several traffic sources with the pattern `outside`.
    #[error("run \"{0}\" has several traffic sources with pattern = \"outside\"; accepted: one")]
    Several(String),
    /// The run cannot be set up.
    #[error("run \"{run}\" cannot be set up: {reason}")]
    Setup {
        /// Name of the run.
        run: String,
        /// What is wrong.
        reason: Box<SetupError>,
    },
    /// The operating system has no thread left.
    #[error("the thread of the simulation cannot be started: {0}")]
    Thread(String),
    /// A flow is impossible.
    #[error("flow {index}: {reason}")]
    Flow {
        /// Position of the flow in the submitted list.
        index: usize,
        /// What is wrong, and what is accepted.
        reason: String,
    },
    /// The program asks for a time that has passed.
    #[error("simulated time is {now} already, so it cannot advance to {until}; accepted: {now} or later")]
    Past {
        /// Time of the simulation.
        now: Time,
        /// The time that the program asked for.
        until: Time,
    },
    /// The simulation has ended, with this reason.
    #[error("the simulation has ended: {0}")]
    Ended(String),
    /// The user has interrupted the program.
    #[error("the simulation was interrupted")]
    Interrupted,
}

/// A simulation that the calling program drives.
///
/// Its run has a traffic source with the pattern `outside`, whose flows the program submits. Simulated time is what the
/// program says: [`advance`](Simulation::advance) to `T` promises that no later submitted flow starts before `T`, and
/// shows every completion that is visible at `T`. A completion is visible one *reaction* after the last byte has
/// arrived; a reaction is at least one window of simulated time, the time of a minimum frame on the shortest link. The
/// engine simulates exactly the windows that end at `T` or before. So it never simulates a window before it knows all
/// flows of the window: the results are those of a scenario with the same list of flows, to the byte, whatever times
/// the program advances to.
///
/// ```
/// use rnic_sim::{Catalogue, FlowRequest, Simulation};
/// use rnic_transport::Time;
/// let text = r#"
///     [fabric]
///     topology = "single-switch"
///     hosts = 4
///     rate = "100 Gbps"
///     delay = "1 us"
///     [traffic]
///     pattern = "outside"
///     [[run]]
///     name = "RoCE"
///     transport = "roce"
/// "#;
/// let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None)?;
/// let mut simulation = Simulation::new(Catalogue::standard(), scenario.runs[0].clone(), 1)?;
/// simulation.submit(&[FlowRequest { start: Time::ZERO, src: 0, dst: 1, bytes: 1_000_000 }])?;
/// simulation.advance_to_completion(Time::MAX)?;
/// let completions = simulation.completions();
/// assert_eq!(completions[0].flow, 0);
/// // The answer starts 5 us after the program knows of the arrival.
/// let start = simulation.now() + Time::from_us(5);
/// simulation.submit(&[FlowRequest { start, src: 1, dst: 0, bytes: 64 }])?;
/// let record = simulation.finish()?;
/// assert_eq!(record.output.flows.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    feed: Arc<Feed>,
    thread: Option<JoinHandle<RunRecord>>,
    record: Option<RunRecord>,
    spec: Arc<RunSpec>,
    topology: Arc<Topology>,
    largest: Bytes,
    now: Time,
    delivered: u64,
}

/// Notes the end of the simulation, even if its thread panics.
struct End(Arc<Feed>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Simulation {
    /// Begins the simulation of the run `spec` on up to `threads` threads, on which results do not depend.
    ///
    /// # Errors
    /// The run cannot be set up, or does not have exactly one traffic source with the pattern `outside`.
    pub fn new(catalogue: Catalogue, spec: RunSpec, threads: usize) -> Result<Simulation, SimulationError> {
        let outside = spec.traffic.iter().filter_map(|source| match source.pattern {
            TrafficPattern::Outside { largest, reaction } => Some((largest, reaction)),
            _ => None,
        });
        let outside: Vec<_> = outside.collect();
        let [(largest, reaction)] = outside[..] else {
            let (none, name) = (outside.is_empty(), spec.name);
            return Err(if none { SimulationError::NotOutside(name) } else { SimulationError::Several(name) });
        };
        let resolved = resolve(&catalogue, &spec)
            .map_err(|reason| SimulationError::Setup { run: spec.name.clone(), reason: Box::new(reason) })?;
        let (feed, topology, spec) = (Feed::new(reaction), resolved.topology.clone(), Arc::new(spec));
        let (of_thread, run) = (feed.clone(), spec.clone());
        let simulate = move || {
            let _end = End(of_thread.clone());
            run_fed(&catalogue, &run, &resolved, (None, Some(of_thread)), &Sharing::among(threads), &Events::ignored())
        };
        let thread = std::thread::Builder::new().name("rnic-sim".to_string()).spawn(simulate);
        let thread = Some(thread.map_err(|error| SimulationError::Thread(error.to_string()))?);
        feed.await_begin();
        let mut simulation =
            Simulation { feed, thread, record: None, spec, topology, largest, now: Time::ZERO, delivered: 0 };
        simulation.check_end()?;
        Ok(simulation)
    }

    /// The run that is simulated.
    pub fn spec(&self) -> &RunSpec {
        &self.spec
    }
    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.topology.hosts
    }
    /// Simulated time: flows may start at this time or later.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Time from the completion of a flow until it is visible.
    pub fn reaction(&self) -> Time {
        self.feed.reaction()
    }
    /// Number of flows that the program has submitted and of whose completion it does not know.
    pub fn under_way(&self) -> u64 {
        self.feed.submitted() - self.delivered
    }

    /// Submits flows, all or none. Their numbers follow each other; the first is returned, and flows are numbered from
    /// 0. Flows that start at the same time from the same host start in order of their numbers.
    ///
    /// # Errors
    /// A flow starts before [`now`](Simulation::now), or its hosts or its size are impossible; or the simulation has
    /// ended.
    pub fn submit(&mut self, flows: &[FlowRequest]) -> Result<u64, SimulationError> {
        self.check_end()?;
        self.refuse_ended()?;
        let submitted = self.feed.submitted();
        for (index, flow) in flows.iter().enumerate() {
            self.check(flow).map_err(|reason| SimulationError::Flow { index, reason })?;
        }
        if submitted + flows.len() as u64 > MAX_FLOWS {
            let reason = format!("a simulation has at most {MAX_FLOWS} flows");
            return Err(SimulationError::Flow { index: (MAX_FLOWS - submitted) as usize, reason });
        }
        Ok(self.feed.submit(flows.iter().map(|flow| FlowSpec {
            start: flow.start,
            src: flow.src,
            dst: flow.dst,
            bytes: flow.bytes,
            request: FlowSpec::NO_REQUEST,
            traffic: 0,
            measured: true,
            hash: None,
        })))
    }

    fn check(&self, flow: &FlowRequest) -> Result<(), String> {
        let FlowRequest { start, src, dst, bytes } = *flow;
        let (now, hosts, largest) = (self.now, self.topology.hosts, self.largest);
        if src >= hosts || dst >= hosts || src == dst {
            return Err(format!(
                "from host {src} to host {dst}; accepted: two different hosts from 0 to {}",
                hosts - 1
            ));
        }
        if bytes == 0 || bytes > largest.0 {
            return Err(format!("{bytes} bytes; accepted: 1 to {}, the `largest` of the traffic source", largest.0));
        }
        if start < now || start == Time::MAX {
            return Err(format!(
                "starts at {start} ({} ps); accepted: {now} ({} ps) or later",
                start.as_ps(),
                now.as_ps()
            ));
        }
        Ok(())
    }

    /// Advances simulated time to `until`: from now on, flows start at `until` or later, and all completions that are
    /// visible at `until` can be taken.
    ///
    /// # Errors
    /// `until` has passed, or the simulation has failed.
    pub fn advance(&mut self, until: Time) -> Result<(), SimulationError> {
        self.advance_unless(until, &mut || false)
    }

    /// As [`advance`](Simulation::advance), ended by `interrupted`, which is called every 50 ms.
    ///
    /// # Errors
    /// As [`advance`](Simulation::advance), or `interrupted` has returned true.
    pub fn advance_unless(
        &mut self, until: Time, interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SimulationError> {
        if until < self.now {
            return Err(SimulationError::Past { now: self.now, until });
        }
        self.run(Grant { until, to_completion: false }, interrupted)?;
        self.now = until;
        Ok(())
    }

    /// Advances simulated time to the first time at which a completion is visible, at most to `limit`, and returns this
    /// time. Returns `None` if no completion becomes visible until `limit`: simulated time is then `limit`, or
    /// unchanged if `limit` is [`Time::MAX`].
    ///
    /// # Errors
    /// `limit` has passed, or the simulation has failed.
    pub fn advance_to_completion(&mut self, limit: Time) -> Result<Option<Time>, SimulationError> {
        self.advance_to_completion_unless(limit, &mut || false)
    }

    /// As [`advance_to_completion`](Simulation::advance_to_completion), ended by `interrupted`, which is called every
    /// 50 ms.
    ///
    /// # Errors
    /// As [`advance_to_completion`](Simulation::advance_to_completion), or `interrupted` has returned true.
    pub fn advance_to_completion_unless(
        &mut self, limit: Time, interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Time>, SimulationError> {
        if limit < self.now {
            return Err(SimulationError::Past { now: self.now, until: limit });
        }
        if self.under_way() > 0 && self.feed.next_visible().is_none_or(|visible| visible > limit) {
            self.run(Grant { until: limit, to_completion: true }, interrupted)?;
        } else if self.under_way() == 0 {
            self.refuse_ended()?;
        }
        match self.feed.next_visible().filter(|visible| *visible <= limit) {
            Some(visible) => self.now = self.now.max(visible),
            None if limit == Time::MAX => return Ok(None),
            None => {
                self.now = limit;
                return Ok(None);
            }
        }
        Ok(Some(self.now))
    }

    /// Takes the completions that are visible, in order of the time at which they became visible, then of number.
    pub fn completions(&mut self) -> Vec<FlowCompletion> {
        let mut completions = Vec::new();
        self.feed.take_completions(self.now, &mut completions);
        self.delivered += completions.len() as u64;
        completions
    }

    /// The state of all ports after the last window that has been simulated, and the end of this window: a time of at
    /// most [`now`](Simulation::now).
    ///
    /// # Errors
    /// The simulation has ended.
    pub fn ports(&mut self) -> Result<(Time, Vec<PortUse>), SimulationError> {
        self.check_end()?;
        self.refuse_ended()?;
        let Some(PortStates { at, ports }) = self.feed.ports() else {
            self.check_end()?;
            return Err(SimulationError::Ended("it was interrupted".to_string()));
        };
        let topology = &self.topology;
        let name = |node: u32| topology.names.get(node as usize).cloned().unwrap_or_default();
        let port = |(id, state): (PortId, rnic_fabric::PortState)| PortUse {
            node: name(topology.port(id).node),
            port: topology.port_in_node(id),
            peer: name(topology.peer_node(id)),
            queued: state.queued,
            sent: state.sent,
            busy: state.busy,
            paused: state.paused,
        };
        Ok((at, topology.port_ids().zip(ports).map(port).collect()))
    }

    /// Simulates all submitted flows to their end, and returns the record of the run.
    ///
    /// # Errors
    /// The simulation was interrupted, or the thread of the simulation has panicked. A run that failed has a record,
    /// whose status says why.
    pub fn finish(mut self) -> Result<RunRecord, SimulationError> {
        self.feed.close();
        self.join()?;
        self.record.take().ok_or(SimulationError::Interrupted)
    }

    fn run(&mut self, grant: Grant, interrupted: &mut dyn FnMut() -> bool) -> Result<(), SimulationError> {
        let mut was_interrupted = false;
        self.feed.run(grant, &mut || {
            was_interrupted |= interrupted();
            was_interrupted
        });
        if was_interrupted {
            self.join()?;
            self.record = None;
            return Err(SimulationError::Interrupted);
        }
        self.check_end()
    }

    fn join(&mut self) -> Result<(), SimulationError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match thread.join() {
            Ok(record) => self.record = Some(record),
            Err(_) => return Err(SimulationError::Ended("internal error: its thread has panicked".to_string())),
        }
        Ok(())
    }

    /// If the simulation has ended: takes its record, and fails unless the run has completed.
    fn check_end(&mut self) -> Result<(), SimulationError> {
        if !self.feed.has_ended() {
            return Ok(());
        }
        self.join()?;
        match self.record.as_ref().map(|record| &record.output.status) {
            Some(RunStatus::Completed) => Ok(()),
            Some(RunStatus::Failed(reason)) => Err(SimulationError::Ended(reason.clone())),
            Some(RunStatus::Interrupted) | None => Err(SimulationError::Interrupted),
        }
    }

    /// Fails if the simulation has ended because the run's `duration` is over.
    fn refuse_ended(&self) -> Result<(), SimulationError> {
        match &self.record {
            None => Ok(()),
            Some(record) => {
                Err(SimulationError::Ended(format!("the run's `duration` was over at {}", record.output.end)))
            }
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.feed.cancel();
        if let Some(thread) = self.thread.take() {
            // The record of a dropped simulation is of no interest, and neither is a panic of its thread.
            let _ = thread.join();
        }
    }
}
