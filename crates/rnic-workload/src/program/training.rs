//! The tasks of training steps of a large language model.
//!
//! A step of a rank consists of passes: the forward or backward pass of one micro-batch through the layers of the
//! rank's stage of the pipeline. The passes of a rank follow each other. Messages between stages, and operations on
//! gradients that overlap with the backward pass, do not delay the next pass.
//!
//! The number of operations of a layer is that of its matrix products, of which each costs two operations per parameter
//! and token, and of its attention, whose two products cost 4 x sequence x hidden operations per token (Narayanan et
//! al.: Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021). A backward pass costs
//! twice the operations of a forward pass.

use super::collectives::flows_of_group;
use super::job::of_communicator;
use rnic_spec::{CollectiveOperation, PipelineSchedule, Training};
use rnic_trace::{Graph, Task, Tasks, Work};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The kinds of tasks; index 0 stands for computations and the ends of steps.
const LABELS: [&str; 8] =
    ["", "tensor", "expert", "pipeline", "gradients", "expert gradients", "parameters", "context"];
const TENSOR: u32 = 1;
const EXPERT: u32 = 2;
const PIPELINE: u32 = 3;
const GRADIENTS: u32 = 4;
const EXPERT_GRADIENTS: u32 = 5;
const PARAMETERS: u32 = 6;
const CONTEXT: u32 = 7;

/// Tag of the messages between context ranks. Context ranks and stages of the pipeline are different ranks.
const BLOCK_TAG: u64 = 0;

/// A rank's place in the division of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Coordinates {
    tensor: u32,
    context: u32,
    data: u32,
    stage: u32,
}

impl Coordinates {
    fn of(training: &Training, rank: u32) -> Coordinates {
        let (tensor, context, data) = (training.tensor, training.context, training.data());
        let (inner, replicas) = (rank / tensor, context * data);
        let (context, data) = (inner % context, inner / context % data);
        Coordinates { tensor: rank % tensor, context, data, stage: inner / replicas }
    }

    fn rank(self, training: &Training) -> u32 {
        let replica = self.context + training.context * self.data;
        self.tensor + training.tensor * (replica + training.replicas() * self.stage)
    }
}

/// The communicators of a rank; `None` if one would have no other rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Communicators {
    tensor: Option<u32>,
    data: Option<u32>,
    expert: Option<u32>,
    /// Data ranks with the same experts.
    expert_data: Option<u32>,
}

/// Every `step`-th data rank from `first` on, with each of its context ranks.
fn replicas(first: u32, data: u32, step: u32, context: u32) -> impl Iterator<Item = (u32, u32)> {
    (first..data).step_by(step as usize).flat_map(move |data| (0..context).map(move |context| (data, context)))
}

/// The communicators of all ranks, and those of each rank.
fn communicators(training: &Training) -> (Vec<Arc<[u32]>>, Vec<Communicators>) {
    let Training { tensor, pipeline, context, expert, .. } = *training;
    let data = training.data();
    let mut of_rank = vec![Communicators::default(); training.deployment.ranks as usize];
    let mut lists: Vec<Arc<[u32]>> = Vec::new();
    let mut add = |ranks: Vec<Coordinates>, put: fn(&mut Communicators, u32)| {
        if ranks.len() > 1 {
            let ranks: Arc<[u32]> = ranks.into_iter().map(|at| at.rank(training)).collect();
            ranks.iter().for_each(|rank| put(&mut of_rank[*rank as usize], lists.len() as u32));
            lists.push(ranks);
        }
    };
    for stage in 0..pipeline {
        for (data, context) in replicas(0, data, 1, context) {
            let ranks = (0..tensor).map(|tensor| Coordinates { tensor, context, data, stage });
            add(ranks.collect(), |own, number| own.tensor = Some(number));
        }
        for tensor in 0..tensor {
            let at = |(data, context)| Coordinates { tensor, context, data, stage };
            add(replicas(0, data, 1, context).map(at).collect(), |own, number| own.data = Some(number));
            if expert == 1 {
                continue;
            }
            for (first, context) in replicas(0, data, expert, context) {
                let ranks = (first..first + expert).map(|data| at((data, context)));
                add(ranks.collect(), |own, number| own.expert = Some(number));
            }
            for first in 0..expert {
                let ranks = replicas(first, data, expert, context).map(at);
                add(ranks.collect(), |own, number| own.expert_data = Some(number));
            }
        }
    }
    (lists, of_rank)
}

/// The tasks of all ranks.
pub(super) fn graph(training: &Training) -> Graph {
    let (communicators, of_rank) = communicators(training);
    let training = Arc::new(training.clone());
    let tasks = (0..).zip(of_rank).map(|(rank, own)| -> Box<dyn Tasks> {
        Box::new(Steps { step: 0, index: 0, passes: Passes::new(training.clone(), rank, own) })
    });
    Graph { communicators, labels: LABELS.map(String::from).to_vec(), tasks: tasks.collect() }
}

/// Number of flows of a training: of messages between ranks of different servers.
pub(super) fn flows(training: &Training) -> u128 {
    let (lists, of_rank) = communicators(training);
    let plan = training.plan();
    let shared = Arc::new(training.clone());
    let accelerators = training.deployment.accelerators();
    let mut known = BTreeMap::new();
    let (last, steps) = (training.micro_batches - 1, u128::from(training.steps));
    let mut sum = 0;
    for (rank, own) in (0u32..).zip(of_rank) {
        let mut of_task = |work: Work| match work {
            Work::Send { to, .. } => u128::from(to / accelerators != rank / accelerators),
            Work::Collective { communicator, operation, bytes } => {
                let ranks = &lists[communicator as usize];
                // The first rank of a communicator counts for all.
                let counts = ranks[0] == rank;
                let flows = || {
                    let collective = of_communicator(&plan, ranks, operation, bytes);
                    flows_of_group(&collective, |position| ranks[position as usize])
                };
                if counts { *known.entry((communicator, operation, bytes)).or_insert_with(flows) } else { 0 }
            }
            _ => 0,
        };
        let mut passes = Passes::new(shared.clone(), rank, own);
        // All forward passes are alike, and all backward passes but the last.
        for (is_forward, micro, times) in [(true, 0, last + 1), (false, 0, last), (false, last, 1)] {
            if times > 0 {
                passes.pass(0, is_forward, micro);
                let flows: u128 = passes.queue.drain(..).map(|task| of_task(task.work)).sum();
                sum += flows * u128::from(times) * steps;
            }
        }
        passes.end_step(0);
        sum += passes.queue.drain(..).map(|task| of_task(task.work)).sum::<u128>() * steps;
    }
    sum
}

/// At least the number of bytes of the largest message.
pub(super) fn largest(training: &Training) -> u64 {
    let exchange = exchanged(training).div_ceil(u64::from(training.expert.max(1)));
    // A block of keys and values goes around the ring with its gradient.
    let blocks = if training.context > 1 { 2 * block(training) } else { 0 };
    activations(training).max(training.chunk.0 + 1).max(exchange).max(blocks)
}

/// Bytes of the keys and values of a rank's tokens in one layer.
fn block(training: &Training) -> u64 {
    (training.own_tokens() * training.model.kv_bytes()).div_ceil(u64::from(training.tensor))
}

/// Bytes of the activations of a micro-batch between two layers, of all tensor ranks with the same tokens.
fn whole_activations(training: &Training) -> u64 {
    training.own_tokens() * u64::from(training.model.hidden) * u64::from(training.model.parameter_bytes)
}

/// Bytes of activations that a rank sends to the next stage: its part of the sequence.
fn activations(training: &Training) -> u64 {
    whole_activations(training).div_ceil(u64::from(training.tensor))
}

/// Bytes of activations that a rank sends to experts: those of its part of the sequence, to each active expert.
fn exchanged(training: &Training) -> u64 {
    activations(training) * u64::from(training.model.active_experts)
}

/// The steps of a rank.
#[derive(Debug)]
struct Steps {
    step: u32,
    /// Index of the next pass in the step.
    index: u32,
    passes: Passes,
}

impl Tasks for Steps {
    fn next(&mut self) -> Result<Option<Task>, String> {
        let Training { steps, micro_batches, .. } = *self.passes.training;
        while self.passes.queue.is_empty() && self.step < steps {
            if self.index < 2 * micro_batches {
                let (is_forward, micro) = pass_of(&self.passes.training, self.passes.own.stage, self.index);
                self.passes.pass(self.step, is_forward, micro);
                self.index += 1;
            } else {
                self.passes.end_step(self.step);
                (self.step, self.index) = (self.step + 1, 0);
            }
        }
        Ok(self.passes.queue.pop_front())
    }
}

/// Whether pass `index` of a step of a stage is a forward pass, and its micro-batch.
fn pass_of(training: &Training, stage: u32, index: u32) -> (bool, u32) {
    let batches = training.micro_batches;
    let ahead = match training.schedule {
        PipelineSchedule::GPipe => batches,
        PipelineSchedule::OneForwardOneBackward => (training.pipeline - 1 - stage).min(batches),
    };
    let in_turn = 2 * (batches - ahead);
    match index.checked_sub(ahead) {
        None => (true, index),
        Some(index) if index < in_turn => {
            (index.is_multiple_of(2), index / 2 + if index.is_multiple_of(2) { ahead } else { 0 })
        }
        Some(index) => (false, batches - ahead + (index - in_turn)),
    }
}

/// Makes the tasks of passes of a rank.
#[derive(Debug)]
struct Passes {
    training: Arc<Training>,
    own: Coordinates,
    communicators: Communicators,
    /// Operations of the forward pass through the matrices of the attention of a layer, the attention to a block of
    /// tokens, the feed-forward network, and the output layer.
    attention: f64,
    scores: f64,
    feed_forward: f64,
    output: f64,
    queue: VecDeque<Task>,
    /// Id of the latest task, and of the task after which the rank continues.
    id: u64,
    last: Option<u64>,
    /// Id of the task that ends the previous step; `None` in the first step.
    before: Option<u64>,
    /// Bytes of gradients, per byte of a parameter, that wait for their reduction: of the data ranks, and of experts.
    waiting: [u64; 2],
    /// Operations on gradients of the step, with the number of parameters.
    reductions: Vec<(u64, u32, u64)>,
}

impl Passes {
    fn new(training: Arc<Training>, rank: u32, communicators: Communicators) -> Passes {
        let model = &training.model;
        let per_rank = |operations: f64| operations * training.own_tokens() as f64 / f64::from(training.tensor);
        let scores = 4.0 * f64::from(model.sequence / training.context) * f64::from(model.hidden);
        Passes {
            own: Coordinates::of(&training, rank),
            communicators,
            attention: per_rank(2.0 * model.attention() as f64),
            scores: per_rank(scores),
            feed_forward: per_rank(2.0 * model.expert() as f64 * f64::from(model.active_experts)),
            output: per_rank(2.0 * model.embedding() as f64),
            training,
            queue: VecDeque::new(),
            id: 0,
            last: None,
            before: None,
            waiting: [0; 2],
            reductions: Vec::new(),
        }
    }

    /// Adds a task that begins after `after`; returns its id.
    fn add(&mut self, step: u32, label: u32, work: Work, after: impl IntoIterator<Item = u64>) -> u64 {
        self.id += 1;
        let after: SmallVec<[u64; 4]> = after.into_iter().collect();
        self.queue.push_back(Task { id: self.id, after, work, step, label });
        self.id
    }

    /// Adds a task after which the rank continues.
    fn then(&mut self, step: u32, label: u32, work: Work) {
        let id = self.add(step, label, work, self.last);
        self.last = Some(id);
    }

    fn compute(&mut self, step: u32, operations: f64) {
        let time = self.training.time_of(operations);
        self.then(step, 0, Work::Compute { time, processor: 0 });
    }

    /// The all-reduce of the tensor ranks, which ends each half of a layer.
    fn reduce(&mut self, step: u32) {
        if let Some(communicator) = self.communicators.tensor {
            let (operation, bytes) = (CollectiveOperation::AllReduce, whole_activations(&self.training));
            self.then(step, TENSOR, Work::Collective { communicator, operation, bytes });
        }
    }

    /// The feed-forward network of a layer: with experts, tokens go to the ranks of their experts and back.
    fn feed_forward(&mut self, step: u32, times: f64) {
        let exchange = |own: &mut Passes| {
            if let Some(communicator) = own.communicators.expert {
                let (operation, bytes) = (CollectiveOperation::AllToAll, exchanged(&own.training));
                own.then(step, EXPERT, Work::Collective { communicator, operation, bytes });
            }
        };
        exchange(self);
        self.compute(step, times * self.feed_forward);
        exchange(self);
        self.reduce(step);
    }

    /// The attention of a layer. The blocks of keys and values go around the ring of context ranks: in a forward pass a
    /// rank forwards a block while it computes with it; in a backward pass the block follows the computation, together
    /// with its gradient, and the gradient returns to the rank of the block.
    fn attend(&mut self, step: u32, is_forward: bool) {
        let context = self.training.context;
        if context == 1 {
            let times = if is_forward { 1.0 } else { 2.0 };
            return self.compute(step, times * (self.attention + self.scores));
        }
        let neighbour = |distance: u32| {
            let context = (self.own.context + distance) % context;
            Coordinates { context, ..self.own }.rank(&self.training)
        };
        let (next, previous) = (neighbour(1), neighbour(context - 1));
        let (bytes, tag) = (block(&self.training), BLOCK_TAG);
        let receive = Work::Receive { from: Some(previous), tag };
        if is_forward {
            self.compute(step, self.attention);
            let mut has_block = self.last;
            for index in 0..context {
                let mut received = None;
                if index + 1 < context {
                    self.add(step, CONTEXT, Work::Send { to: next, bytes, tag }, has_block);
                    received = Some(self.add(step, CONTEXT, receive, None));
                }
                let after = self.last.into_iter().chain(has_block);
                let time = self.training.time_of(self.scores);
                self.last = Some(self.add(step, 0, Work::Compute { time, processor: 0 }, after));
                has_block = received;
            }
        } else {
            for index in 0..context {
                self.compute(step, 2.0 * self.scores);
                // The last gradient goes home alone.
                let bytes = if index + 1 < context { 2 * bytes } else { bytes };
                self.add(step, CONTEXT, Work::Send { to: next, bytes, tag }, self.last);
                let received = self.add(step, CONTEXT, receive, None);
                let both = self.last.into_iter().chain([received]);
                self.last = Some(self.add(step, 0, Work::Nothing, both));
            }
            self.compute(step, 2.0 * self.attention);
        }
    }

    /// Adds the forward or backward pass of a micro-batch.
    fn pass(&mut self, step: u32, is_forward: bool, micro: u32) {
        let training = self.training.clone();
        let stages = training.pipeline;
        let (previous, next) = (self.own.stage.checked_sub(1), Some(self.own.stage + 1).filter(|next| *next < stages));
        let (from, to) = if is_forward { (previous, next) } else { (next, previous) };
        let at = |stage| Coordinates { stage, ..self.own }.rank(&training);
        let (from, to) = (from.map(at), to.map(at));
        let number = u64::from(step) * u64::from(training.micro_batches) + u64::from(micro);
        let tag = number * 2 + u64::from(!is_forward);
        if let Some(from) = from {
            // The rank waits for the message from the beginning of the step on, not while it carries out the step
            // before.
            let receive = self.add(step, PIPELINE, Work::Receive { from: Some(from), tag }, self.before);
            let both = self.last.into_iter().chain([receive]);
            self.last = Some(self.add(step, 0, Work::Nothing, both));
        }
        match is_forward {
            true => self.forward(step, next.is_none()),
            false => self.backward(step, next.is_none(), micro == training.micro_batches - 1),
        }
        if let Some(to) = to {
            let bytes = activations(&training);
            self.add(step, PIPELINE, Work::Send { to, bytes, tag }, self.last);
        }
    }

    fn forward(&mut self, step: u32, is_last_stage: bool) {
        for _ in 0..self.training.layers_of_stage() {
            self.attend(step, true);
            self.reduce(step);
            self.feed_forward(step, 1.0);
        }
        if is_last_stage {
            self.compute(step, self.output);
        }
    }

    /// The backward pass; in that of the last micro-batch, gradients are complete.
    fn backward(&mut self, step: u32, is_last_stage: bool, is_last: bool) {
        let model = self.training.model;
        if is_last_stage {
            self.compute(step, 2.0 * self.output);
            self.wait_for_reduction(step, is_last, [model.embedding(), 0]);
        }
        let experts = u64::from(model.experts / self.training.expert) * model.expert();
        let layer = match self.training.expert {
            1 => [model.attention() + experts, 0],
            _ => [model.attention(), experts],
        };
        for _ in 0..self.training.layers_of_stage() {
            self.feed_forward(step, 2.0);
            self.attend(step, false);
            self.wait_for_reduction(step, is_last, layer);
            self.reduce(step);
        }
        if self.own.stage == 0 {
            self.wait_for_reduction(step, is_last, [model.embedding(), 0]);
        }
    }

    /// Adds gradients of as many parameters, of all tensor ranks, to those that wait for their reduction, and reduces
    /// them if they are enough.
    fn wait_for_reduction(&mut self, step: u32, is_last: bool, parameters: [u64; 2]) {
        if !is_last {
            return;
        }
        let bytes = u64::from(self.training.model.gradient_bytes);
        for (kind, parameters) in parameters.into_iter().enumerate() {
            self.waiting[kind] += parameters.div_ceil(u64::from(self.training.tensor));
            if self.training.overlap && self.waiting[kind] * bytes >= self.training.bucket.0 {
                self.reduce_gradients(step, kind);
            }
        }
    }

    /// Reduces the gradients that wait; the rank does not wait for the end of the reduction.
    fn reduce_gradients(&mut self, step: u32, kind: usize) {
        let parameters = std::mem::take(&mut self.waiting[kind]);
        let communicator = if kind == 0 { self.communicators.data } else { self.communicators.expert_data };
        let Some(communicator) = communicator.filter(|_| parameters > 0) else { return };
        let operation = match self.training.sharded {
            true => CollectiveOperation::ReduceScatter,
            false => CollectiveOperation::AllReduce,
        };
        let bytes = parameters * u64::from(self.training.model.gradient_bytes);
        let label = if kind == 0 { GRADIENTS } else { EXPERT_GRADIENTS };
        let id = self.add(step, label, Work::Collective { communicator, operation, bytes }, self.last);
        self.reductions.push((id, communicator, parameters));
    }

    /// Ends a step: the gradients that are left, the new parameters, and the wait for everything.
    fn end_step(&mut self, step: u32) {
        let bucket = (self.training.bucket.0 / u64::from(self.training.model.gradient_bytes)).max(1);
        for kind in 0..2 {
            while self.waiting[kind] > 0 {
                // Without overlap, the gradients of all layers wait.
                let rest = self.waiting[kind].saturating_sub(bucket);
                let rest = if self.training.overlap { 0 } else { rest };
                self.waiting[kind] -= rest;
                self.reduce_gradients(step, kind);
                self.waiting[kind] = rest;
            }
        }
        let reductions = std::mem::take(&mut self.reductions);
        let mut all: Vec<u64> = self.last.into_iter().chain(reductions.iter().map(|(id, ..)| *id)).collect();
        if self.training.sharded {
            for (id, communicator, parameters) in reductions {
                let bytes = parameters * u64::from(self.training.model.parameter_bytes);
                let operation = CollectiveOperation::AllGather;
                let work = Work::Collective { communicator, operation, bytes };
                let after = self.last.into_iter().chain([id]);
                all.push(self.add(step, PARAMETERS, work, after));
            }
        }
        self.last = Some(self.add(step, 0, Work::Nothing, all));
        self.before = self.last;
    }
}
