//! The program of one traffic source, and how far it is.

use super::inference::Answers;
use super::operation::Operations;
use super::path::Path;
use super::todo::OpenTask;
use super::{Agenda, FlowSpec, Message, Progress, collectives, position};
use crate::boundaries::Boundary;
use rnic_spec::{
    Algorithm, Collective, CollectiveOperation, Deployment, Grouping, MAX_TASK_COLLECTIVES, MAX_TIMELINE,
    OperationRecord, PathRecord, ProgramRecords, Server, StepRecord, TaskCollective, TaskCollectives, TaskKind,
    TaskSpan, Timeline, Traffic,
};
use rnic_trace::Work;
use rnic_transport::{Bytes, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The program of one traffic source.
#[derive(Debug)]
pub(super) struct Job {
    pub traffic: u16,
    pub name: String,
    /// The first rank of the source, in the list of the ranks of all sources.
    pub first_rank: u32,
    pub deployment: Deployment,
    pub kind: Kind,
    /// Number of flows that the source has generated so far, and in all.
    pub made: u64,
    /// `total` is `None` if the number is not known before.
    pub total: Option<u64>,
    pub warmup: u64,
    pub cooldown: u64,
    /// The requests that the ranks answer, if they do.
    pub answers: Option<Answers>,
}

/// What the ranks of a traffic source carry out.
#[derive(Debug)]
pub(super) enum Kind {
    /// They repeat a collective operation.
    Collective { collective: Collective, first_request: u32, records: Vec<Progress> },
    /// They carry out tasks.
    Tasks(Box<TaskJob>),
}

/// The tasks of a traffic source: what all ranks share.
#[derive(Debug)]
pub(super) struct TaskJob {
    communicators: Vec<Arc<[u32]>>,
    labels: Vec<String>,
    /// Number of first steps whose flows do not count in the statistics.
    warmup_steps: u32,
    /// How ranks carry out collective operations.
    plan: Collective,
    /// The first rank whose tasks cannot be carried out, and why.
    failed: Option<(u32, String)>,
    /// For each step, its record; `end` is the latest end of a task so far.
    steps: BTreeMap<u32, StepRecord>,
    /// For the latest steps, the time for which each rank has computed.
    computed: BTreeMap<u32, Vec<Time>>,
    ranks: u32,
    /// Number of ranks by the first step of which they have not completed all tasks.
    fronts: BTreeMap<u32, u32>,
    /// The first step that not all ranks have completed, as far as is known.
    front: u32,
    /// The step whose tasks are recorded, and the recorded tasks.
    recorded: Option<u32>,
    timeline: Timeline,
    /// Collective operations that a rank has begun and not all have ended, by communicator and number.
    open: BTreeMap<(u32, u32), OpenCollective>,
    /// Collective operations that have ended. `left_out` counts those that have begun and are not recorded.
    collectives: TaskCollectives,
    /// Number of operations in `open` that are recorded.
    open_recorded: usize,
    /// Operations that have ended, by label, operation (a message without one) and number of ranks.
    operations: BTreeMap<(u32, Option<CollectiveOperation>, u32), OperationRecord>,
}

/// Number of steps for which the computations of each rank are known. Ranks are rarely more than one step apart.
const OPEN_STEPS: usize = 16;

/// A collective operation that a rank has begun.
#[derive(Clone, Copy, Debug)]
struct OpenCollective {
    record: TaskCollective,
    /// Whether the operation is one of those of which results have the record.
    is_recorded: bool,
    /// Number of ranks that have ended their part.
    ended: u32,
}

impl Job {
    pub(super) fn new(
        traffic: u16, source: &Traffic, (first_rank, total): (u32, Option<u64>), deployment: Deployment, kind: Kind,
    ) -> Job {
        let Traffic { name, warmup, cooldown, .. } = source;
        let (name, warmup, cooldown) = (name.clone(), *warmup, *cooldown);
        Job { traffic, name, first_rank, deployment, kind, made: 0, total, warmup, cooldown, answers: None }
    }

    /// The request id of a message, and whether its step counts in the statistics.
    pub(super) fn request(&self, message: &Message) -> (u32, bool) {
        match &self.kind {
            Kind::Collective { collective, first_request, .. } => {
                let (group, _) = position(collective, message.from - self.first_rank);
                (first_request + group * collective.repeats + message.tag.repeat(), true)
            }
            Kind::Tasks(tasks) => (FlowSpec::NO_REQUEST, message.step >= tasks.warmup_steps),
        }
    }

    /// Why the rank with this number in the source cannot carry out its tasks.
    pub(super) fn failed(&self, rank: u32) -> Option<String> {
        let Kind::Tasks(tasks) = &self.kind else { return None };
        let (failed, why) = tasks.failed.as_ref()?;
        (*failed == rank).then(|| format!("a task that cannot be carried out: {why}"))
    }

    /// Moves the records of the source to `all`. Steps from `unfinished` on have not ended.
    pub(super) fn take_records(&mut self, all: &mut ProgramRecords, unfinished: u32) {
        all.answered.extend(self.answers.take().into_iter().flat_map(|answers| answers.take()));
        match &mut self.kind {
            Kind::Collective { records, .. } => {
                let begun = records.iter().filter(|progress| progress.begun);
                all.collectives.extend(begun.map(|progress| progress.record));
            }
            Kind::Tasks(tasks) => {
                let steps = std::mem::take(&mut tasks.steps);
                all.steps.extend(steps.into_values().map(|record| StepRecord {
                    end: record.end.filter(|_| record.step < unfinished),
                    is_measured: record.step >= tasks.warmup_steps,
                    traffic: self.traffic,
                    ..record
                }));
                let mut timeline = std::mem::take(&mut tasks.timeline);
                if tasks.recorded.is_some() {
                    timeline.labels = tasks.labels.clone();
                    timeline.spans.iter_mut().for_each(|span| span.traffic = self.traffic);
                    timeline.spans.sort_unstable();
                    all.timeline.extend(timeline);
                }
                all.task_collectives.extend(tasks.take_collectives(self.traffic));
                let operations = std::mem::take(&mut tasks.operations).into_values();
                all.operations.extend(operations.map(|record| OperationRecord { traffic: self.traffic, ..record }));
            }
        }
    }
}

impl TaskJob {
    pub(super) fn new(
        communicators: Vec<Arc<[u32]>>, labels: Vec<String>, warmup: u32, plan: Collective, recorded: Option<u32>,
    ) -> TaskJob {
        TaskJob {
            communicators,
            labels,
            warmup_steps: warmup,
            ranks: plan.ranks,
            fronts: BTreeMap::from([(0, plan.ranks)]),
            front: 0,
            plan,
            failed: None,
            steps: BTreeMap::new(),
            computed: BTreeMap::new(),
            recorded,
            timeline: Timeline::default(),
            open: BTreeMap::new(),
            collectives: TaskCollectives::default(),
            open_recorded: 0,
            operations: BTreeMap::new(),
        }
    }

    /// The records of collective operations, including operations that have not ended.
    fn take_collectives(&mut self, traffic: u16) -> TaskCollectives {
        let mut all = std::mem::take(&mut self.collectives);
        let open = std::mem::take(&mut self.open).into_values();
        all.records.extend(open.filter(|open| open.is_recorded).map(|open| open.record));
        all.records.iter_mut().for_each(|record| record.traffic = traffic);
        all.records.sort_unstable_by_key(|record| (record.start, record.communicator, record.number));
        all.labels = self.labels.clone();
        all
    }

    /// Notes that a rank begins its part of a collective operation of a communicator.
    fn begin_collective(&mut self, task: &OpenTask, now: Time) {
        let Work::Collective { communicator, operation, bytes } = task.work else { return };
        if let Some(open) = self.open.get_mut(&(communicator, task.sequence)) {
            open.record.last_start = open.record.last_start.max(now);
            return;
        }
        let ranks = self.communicators.get(communicator as usize).cloned().unwrap_or_default();
        let fits = self.collectives.records.len() + self.open_recorded < MAX_TASK_COLLECTIVES;
        let (is_communication, algorithm) = (ranks.len() > 1, algorithm(&self.plan, &ranks, operation).0);
        self.collectives.left_out += u64::from(is_communication && !fits);
        let is_recorded = is_communication && fits;
        self.open_recorded += usize::from(is_recorded);
        let record = TaskCollective {
            traffic: 0,
            communicator,
            number: task.sequence,
            step: task.step,
            label: task.label,
            operation,
            algorithm,
            bytes,
            ranks: ranks.len() as u32,
            start: now,
            last_start: now,
            end: None,
            path: PathRecord::default(),
        };
        self.open.insert((communicator, task.sequence), OpenCollective { record, is_recorded, ended: 0 });
    }

    /// Notes that a rank ends its part of a collective operation of a communicator, at the end of `path`.
    fn end_collective(&mut self, task: &OpenTask, (path, splits_excess): (Path, bool), now: Time) {
        let Work::Collective { communicator, operation, bytes } = task.work else { return };
        let at = (communicator, task.sequence);
        let Some(open) = self.open.get_mut(&at) else { return };
        open.ended += 1;
        let OpenCollective { record, is_recorded, ended } = *open;
        if ended < record.ranks {
            return;
        }
        self.open.remove(&at);
        if is_recorded {
            self.open_recorded -= 1;
            let path = path.since_opened().record(record.start, now, splits_excess);
            self.collectives.records.push(TaskCollective { end: Some(now), path, ..record });
        }
        let time = now.saturating_sub(record.start);
        self.ended(task, (Some(operation), record.ranks), bytes, time);
    }

    /// Notes that a rank computes for `time` in a step.
    fn compute(&mut self, step: u32, rank: u32, time: Time) {
        let ranks = self.ranks as usize;
        let computed = &mut self.computed.entry(step).or_insert_with(|| vec![Time::ZERO; ranks])[rank as usize];
        *computed = computed.saturating_add(time);
        let longest = *computed;
        if let Some(record) = self.steps.get_mut(&step) {
            record.compute = record.compute.saturating_add(time);
            record.longest_compute = record.longest_compute.max(longest);
        }
        if self.computed.len() > OPEN_STEPS {
            self.computed.pop_first();
        }
    }

    /// Records a task that the rank `rank` has completed.
    #[cold]
    fn record(&mut self, rank: u32, task: &OpenTask, now: Time) {
        let (start, kind) = match task.work {
            // The rank may have begun the computation after others.
            Work::Compute { time, .. } => (now.saturating_sub(time), TaskKind::Compute),
            Work::Send { .. } => (task.begun, TaskKind::Send),
            Work::Receive { .. } => (task.begun, TaskKind::Receive),
            Work::Collective { operation, .. } => (task.begun, TaskKind::Collective(operation)),
            Work::Nothing => return,
        };
        if self.timeline.spans.len() < MAX_TIMELINE {
            self.timeline.spans.push(TaskSpan { traffic: 0, rank, start, end: now, kind, label: task.label });
        } else {
            self.timeline.left_out += 1;
        }
    }

    fn boundary(&self, traffic: u16, step: u32, at: Time, begins: bool) -> Boundary {
        Boundary { at, traffic, step, is_measured: step >= self.warmup_steps, begins }
    }

    fn step(&mut self, step: u32, now: Time) -> &mut StepRecord {
        self.steps.entry(step).or_insert(StepRecord { step, start: now, ..StepRecord::default() })
    }

    /// Notes that an operation has ended.
    fn ended(
        &mut self, task: &OpenTask, (operation, ranks): (Option<CollectiveOperation>, u32), bytes: u64, time: Time,
    ) {
        let labels = &self.labels;
        let record = self.operations.entry((task.label, operation, ranks)).or_insert_with(|| OperationRecord {
            traffic: 0,
            label: labels.get(task.label as usize).cloned().unwrap_or_default(),
            operation,
            ranks,
            count: 0,
            bytes: 0,
            total_time: Time::ZERO,
            longest: Time::ZERO,
        });
        record.count += 1;
        record.bytes = record.bytes.saturating_add(bytes);
        record.total_time = record.total_time.saturating_add(time);
        record.longest = record.longest.max(time);
    }
}

/// One operation of a communicator, carried out as `plan` says. Operations of fewer bytes than ranks and channels count
/// as one byte for each. Operations that the algorithm of the plan cannot carry out use their own first algorithm.
pub(super) fn of_communicator(
    plan: &Collective, ranks: &[u32], operation: CollectiveOperation, bytes: u64,
) -> Collective {
    let (algorithm, server) = algorithm(plan, ranks, operation);
    let channels = if algorithm == Algorithm::Ring { plan.channels } else { 1 };
    let ranks = ranks.len() as u32;
    let size = Bytes(bytes.max(u64::from(ranks) * u64::from(channels)));
    let (group, grouping) = (ranks, Grouping::Consecutive);
    Collective { operation, algorithm, channels, size, ranks, group, grouping, server, repeats: 1, ..plan.clone() }
}

/// How the ranks of a communicator carry out an operation if the plan allows it, and their servers.
fn algorithm(plan: &Collective, ranks: &[u32], operation: CollectiveOperation) -> (Algorithm, Option<Server>) {
    let algorithms = operation.algorithms();
    let algorithm = if algorithms.contains(&plan.algorithm) { plan.algorithm } else { algorithms[0] };
    if !matches!(algorithm, Algorithm::Hierarchical | Algorithm::Nvls) {
        return (algorithm, plan.server);
    }
    let fits = |accelerators: &u32| match algorithm {
        Algorithm::Nvls => ranks.chunks(*accelerators as usize).all(is_evenly_spaced),
        _ => *accelerators < ranks.len() as u32,
    };
    match (plan.server, of_each_server(ranks, plan.accelerators()).filter(fits)) {
        (Some(own), Some(accelerators)) => (algorithm, Some(Server { accelerators, ..own })),
        _ => (Algorithm::Ring, plan.server),
    }
}

/// Whether the ranks ascend by the same number each.
fn is_evenly_spaced(ranks: &[u32]) -> bool {
    ranks.windows(3).all(|three| three[1].checked_sub(three[0]) == three[2].checked_sub(three[1]))
        && ranks.is_sorted_by(|one, other| one < other)
}

/// Number of ranks that a communicator has in each of its servers, of `accelerators` ranks each; `None` unless it has
/// the same number of ranks (at least two) in each, and the ranks of a server one after the other.
fn of_each_server(ranks: &[u32], accelerators: u32) -> Option<u32> {
    let mut parts = ranks.chunk_by(|one, other| one / accelerators == other / accelerators);
    let servers: std::collections::BTreeSet<u32> = parts.clone().map(|part| part[0] / accelerators).collect();
    let own = parts.next()?.len();
    let fits = own > 1 && servers.len() * own == ranks.len() && parts.all(|part| part.len() == own);
    fits.then_some(own as u32)
}

impl Agenda {
    fn tasks(&mut self, job: u32) -> Option<&mut TaskJob> {
        match &mut self.sources[job as usize].kind {
            Kind::Tasks(tasks) => Some(tasks.as_mut()),
            Kind::Collective { .. } => None,
        }
    }

    /// The first rank of the source of a job.
    pub(super) fn first_rank(&self, job: u32) -> u32 {
        self.sources[job as usize].first_rank
    }

    /// The name of a kind of tasks.
    pub(super) fn label(&self, job: u32, label: u32) -> String {
        match &self.sources[job as usize].kind {
            Kind::Tasks(tasks) => tasks.labels.get(label as usize).cloned().unwrap_or_default(),
            Kind::Collective { .. } => String::new(),
        }
    }

    /// Notes that a rank cannot carry out its tasks.
    pub(super) fn fail(&mut self, job: u32, own: u32, why: String) {
        let rank = own - self.first_rank(job);
        if let Some(tasks) = self.tasks(job) {
            tasks.failed.get_or_insert((rank, why));
        }
    }

    /// The rank with this number in the source; an error says that it does not exist.
    pub(super) fn rank_of(&self, job: u32, rank: u32) -> Result<u32, String> {
        let Job { deployment, first_rank, .. } = &self.sources[job as usize];
        match rank < deployment.ranks {
            true => Ok(first_rank + rank),
            false => Err(format!("rank {rank} does not exist; accepted: 0 to {}", deployment.ranks - 1)),
        }
    }

    /// The operations of the rank `own` for a collective operation; `None` if the communicator has no other rank.
    ///
    /// # Errors
    /// One sentence that says why the rank cannot carry out the operation.
    pub(super) fn schedule(
        &mut self, job: u32, own: u32, (communicator, operation, bytes): (u32, CollectiveOperation, u64), sequence: u32,
    ) -> Result<Option<Box<dyn Operations>>, String> {
        let first = self.first_rank(job);
        let Some(tasks) = self.tasks(job) else { return Ok(None) };
        let ranks = tasks.communicators.get(communicator as usize);
        let ranks = ranks.ok_or_else(|| format!("communicator {communicator} does not exist"))?;
        let position = ranks.iter().position(|rank| first + rank == own);
        let position = position.ok_or_else(|| format!("the rank is not in communicator {communicator}"))?;
        if ranks.len() < 2 {
            return Ok(None);
        }
        let collective = of_communicator(&tasks.plan, ranks, operation, bytes);
        Ok(Some(collectives::once(&collective, ranks.clone(), position as u32, (first, sequence))))
    }

    /// Notes that a rank's first step with tasks that it has not completed has changed.
    pub(super) fn move_front(&mut self, job: u32, (from, to): (u32, u32), now: Time) {
        let Job { traffic, kind, .. } = &mut self.sources[job as usize];
        let Kind::Tasks(tasks) = kind else { return };
        let left = tasks.fronts.entry(from).or_default();
        *left = left.saturating_sub(1);
        if *left == 0 {
            tasks.fronts.remove(&from);
        }
        *tasks.fronts.entry(to).or_default() += 1;
        let front = tasks.fronts.keys().next().copied().unwrap_or(u32::MAX);
        if front > tasks.front {
            if let Some(boundaries) = &self.boundaries {
                for (step, _) in tasks.steps.range(tasks.front..front) {
                    boundaries.add(tasks.boundary(*traffic, *step, now, false));
                }
            }
            tasks.front = front;
        }
    }

    /// Notes that a rank begins a task.
    pub(super) fn begin_task(&mut self, job: u32, own: u32, task: &OpenTask, now: Time) {
        let rank = own - self.first_rank(job);
        let Job { traffic, kind, .. } = &mut self.sources[job as usize];
        let Kind::Tasks(tasks) = kind else { return };
        if let Some(boundaries) = &self.boundaries
            && !tasks.steps.contains_key(&task.step)
        {
            boundaries.add(tasks.boundary(*traffic, task.step, now, true));
        }
        let step = tasks.step(task.step, now);
        step.start = step.start.min(now);
        match task.work {
            Work::Compute { time, .. } => tasks.compute(task.step, rank, time),
            Work::Collective { .. } => tasks.begin_collective(task, now),
            _ => {}
        }
    }

    /// Notes that a rank has completed a task, which it began at `task.begun`, at the end of `path`.
    pub(super) fn end_task(&mut self, job: u32, own: u32, task: &OpenTask, path: Path, now: Time) {
        let (rank, splits_excess) = (own - self.first_rank(job), self.splits_excess);
        let Some(tasks) = self.tasks(job) else { return };
        if tasks.recorded == Some(task.step) {
            tasks.record(rank, task, now);
        }
        let step = tasks.step(task.step, now);
        if step.end.is_none_or(|end| end <= now) {
            step.end = Some(now);
            step.path = path.in_step(task.step, now).record(step.start, now, splits_excess);
        }
        match task.work {
            Work::Send { bytes, .. } => tasks.ended(task, (None, 2), bytes, now.saturating_sub(task.begun)),
            Work::Collective { .. } => tasks.end_collective(task, (path, splits_excess), now),
            _ => {}
        }
    }
}
