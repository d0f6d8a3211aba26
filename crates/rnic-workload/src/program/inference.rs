//! The tasks of instances of a large language model that answer requests.
//!
//! An instance works in iterations: the prompt of one request, or one token for each request of its batch. Between two
//! iterations requests join the batch and leave it (continuous batching; Yu et al.: Orca: A Distributed Serving System
//! for Transformer-Based Generative Models, 2022). A prompt goes before tokens. The first rank of an instance decides
//! what the next iteration is when an iteration has ended, and sends a message to each other rank of the instance,
//! which begins the iteration when it has this message.
//!
//! With separate instances for prompts (Patel et al.: Splitwise: Efficient generative LLM inference using phase
//! splitting, 2024), each rank sends the keys and values of its heads to the rank with the same number of another
//! instance, in parts of several layers, each when the layers are done.

use crate::rng::Stream;
use rnic_spec::{AnsweredRequest, CollectiveOperation, Inference};
use rnic_trace::{Graph, Offer, Task, Tasks, Work};
use rnic_transport::Time;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kinds of tasks; index 0 stands for computations.
const LABELS: [&str; 4] = ["", "tensor", "keys and values", "control"];
const TENSOR: u32 = 1;
const KV: u32 = 2;
const CONTROL: u32 = 3;

/// Tag of the messages with which the first rank of an instance begins an iteration.
const BEGIN_TAG: u64 = 0;
/// Number of bytes of messages that control an instance.
const CONTROL_BYTES: u64 = 1;
/// Number of receive tasks for keys and values that a rank has open, unless one request has more.
const OPEN_RECEIVES: u32 = 512;

/// The requests of a traffic source, and when they were answered.
#[derive(Clone, Debug)]
pub(super) struct Answers(Arc<Mutex<Vec<AnsweredRequest>>>);

/// What an instance does in an iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Iteration {
    /// The prompt of this request.
    Prompt(u32),
    /// One token for each of `requests` requests, which have `context` tokens together.
    Tokens { requests: u32, context: u64 },
    /// There are no requests left.
    Stop,
}

/// The iterations on which the first rank of an instance has decided, and how many each other rank has read.
#[derive(Debug, Default)]
struct Decisions {
    first: u64,
    list: VecDeque<(Iteration, u32)>,
}

type Shared<T> = Arc<Mutex<T>>;

/// Locks what the ranks of a program share; they run on one thread.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answers {
    /// The requests, which arrive from `start` on.
    fn new(inference: &Inference, traffic: u16, start: Time, seed: u64) -> Answers {
        let mut stream = Stream::new(seed, traffic, 0);
        let mut at = start;
        let request = |request| {
            let arrival = at;
            if let Some(rate) = inference.rate {
                at = at.saturating_add(Time::from_ps((stream.exponential() * 1e12 / rate).round() as u64));
            }
            let output = inference.output;
            AnsweredRequest { traffic, request, arrival, begin: None, first_token: None, end: None, output }
        };
        Answers(Arc::new(Mutex::new((0..inference.requests).map(request).collect())))
    }

    /// The requests.
    pub(super) fn take(&self) -> Vec<AnsweredRequest> {
        std::mem::take(&mut lock(&self.0))
    }

    fn change(&self, request: u32, change: impl FnOnce(&mut AnsweredRequest)) {
        if let Some(request) = lock(&self.0).get_mut(request as usize) {
            change(request);
        }
    }

    fn arrival(&self, request: u32) -> Time {
        lock(&self.0).get(request as usize).map_or(Time::MAX, |request| request.arrival)
    }
}

/// The tasks of all ranks, and the requests.
pub(super) fn graph(inference: &Inference, traffic: u16, start: Time, seed: u64) -> (Graph, Answers) {
    let answers = Answers::new(inference, traffic, start, seed);
    let tensor = inference.tensor;
    let shared = Arc::new(inference.clone());
    let mut communicators: Vec<Arc<[u32]>> = Vec::new();
    let mut tasks: Vec<Box<dyn Tasks>> = Vec::new();
    for instance in 0..inference.instances() {
        let ranks: Arc<[u32]> = (instance * tensor..(instance + 1) * tensor).collect();
        let decisions = Arc::new(Mutex::new(Decisions::default()));
        for number in 0..tensor {
            let rank = Rank::new(shared.clone(), instance, number, decisions.clone());
            tasks.push(match number {
                0 => Box::new(Leader::new(rank, answers.clone())),
                _ => Box::new(Follower { rank, begin: None, has_ended: false }),
            });
        }
        communicators.push(ranks);
    }
    (Graph { communicators, labels: LABELS.map(String::from).to_vec(), tasks }, answers)
}

/// At least the number of bytes of the largest message.
pub(super) fn largest(inference: &Inference) -> u64 {
    let layers = inference.model.layers.div_ceil(inference.kv_parts);
    let kv = if inference.prefill > 0 { inference.kv_bytes(layers) } else { 0 };
    kv.max(inference.chunk.0 + 1)
}

/// The part of an instance on one rank.
#[derive(Debug)]
struct Rank {
    inference: Arc<Inference>,
    instance: u32,
    /// Number of the rank in its instance.
    number: u32,
    decisions: Shared<Decisions>,
    queue: VecDeque<Task>,
    /// Id of the latest task, and of the task after which the rank continues.
    id: u64,
    last: Option<u64>,
    /// Requests whose keys and values the rank has not received, with the task that ends their reception.
    receiving: VecDeque<(u32, u64)>,
    /// Number of requests for which the rank has receive tasks.
    received: u32,
}

impl Rank {
    fn new(inference: Arc<Inference>, instance: u32, number: u32, decisions: Shared<Decisions>) -> Rank {
        Rank {
            inference,
            instance,
            number,
            decisions,
            queue: VecDeque::new(),
            id: 0,
            last: None,
            receiving: VecDeque::new(),
            received: 0,
        }
    }

    /// Adds a task that begins after `after`; returns its id.
    fn add(&mut self, label: u32, work: Work, after: impl IntoIterator<Item = u64>) -> u64 {
        self.id += 1;
        let after: SmallVec<[u64; 4]> = after.into_iter().collect();
        self.queue.push_back(Task { id: self.id, after, work, step: 0, label });
        self.id
    }

    /// Adds a task after which the rank continues.
    fn then(&mut self, label: u32, work: Work) {
        let id = self.add(label, work, self.last);
        self.last = Some(id);
    }

    /// The rank with the same number in another instance.
    fn peer(&self, instance: u32) -> u32 {
        instance * self.inference.tensor + self.number
    }

    /// The first rank of the instance.
    fn first(&self) -> u32 {
        self.instance * self.inference.tensor
    }

    /// Whether the instance receives keys and values.
    fn is_receiver(&self) -> bool {
        self.inference.prefill > 0 && self.instance >= self.inference.prefill
    }

    /// The request with the index `index` among those of this instance, which takes every n-th; `None` after the last.
    fn request(&self, index: u32) -> Option<u32> {
        let Inference { prefill, requests, .. } = *self.inference;
        let instances = self.inference.instances();
        let (first, step) = match (prefill, self.is_receiver()) {
            (0, _) => (self.instance, instances),
            (_, false) => (self.instance, prefill),
            (_, true) => (self.instance - prefill, instances - prefill),
        };
        let request = u64::from(first) + u64::from(step) * u64::from(index);
        (request < u64::from(requests)).then_some(request as u32)
    }

    /// Adds receive tasks for the keys and values of the next requests, unless enough are open. Each rank but the first
    /// reports to the first when it has everything of a request.
    fn receive(&mut self, is_open: &dyn Fn(u64) -> bool) {
        if !self.is_receiver() {
            return;
        }
        // The first rank keeps a request until it joins the batch.
        while self.number > 0 && self.receiving.front().is_some_and(|(_, id)| self.is_done(*id, is_open)) {
            self.receiving.pop_front();
        }
        let Inference { kv_parts, tensor, prefill, .. } = *self.inference;
        let tasks = kv_parts + if self.number == 0 { tensor } else { 2 };
        let requests = (OPEN_RECEIVES / tasks).max(1);
        while self.receiving.len() < requests as usize
            && let Some(request) = self.request(self.received)
        {
            self.received += 1;
            let tag = u64::from(request);
            let from = Some(self.peer(request % prefill));
            let mut parts: Vec<u64> = (0..kv_parts).map(|_| self.add(KV, Work::Receive { from, tag }, None)).collect();
            if self.number == 0 {
                let first = self.first();
                for other in 1..tensor {
                    parts.push(self.add(CONTROL, Work::Receive { from: Some(first + other), tag }, None));
                }
            }
            let all = self.add(0, Work::Nothing, parts);
            if self.number > 0 {
                let to = self.first();
                self.add(CONTROL, Work::Send { to, bytes: CONTROL_BYTES, tag }, Some(all));
            }
            self.receiving.push_back((request, all));
        }
    }

    /// Whether a task has been taken, and has completed.
    fn is_done(&self, id: u64, is_open: &dyn Fn(u64) -> bool) -> bool {
        self.queue.front().is_none_or(|task| id < task.id) && !is_open(id)
    }

    /// Adds the tasks of an iteration.
    fn iterate(&mut self, iteration: Iteration) {
        let own = self.inference.clone();
        let Inference { model, tensor, prefill, kv_parts, .. } = *own;
        // Tokens that go through the layers, pairs of tokens in the attention, tokens whose keys and values are read,
        // and tokens that go through the output layer.
        let (tokens, pairs, cached, outputs) = match iteration {
            Iteration::Prompt(_) => (u64::from(own.prompt), u64::from(own.prompt) * u64::from(own.prompt), 0, 1),
            Iteration::Tokens { requests, context } => (requests.into(), context, context, requests),
            Iteration::Stop => return,
        };
        let share = 1.0 / f64::from(tensor);
        let bytes_of = |parameters: u64| parameters as f64 * f64::from(model.parameter_bytes) * share;
        let operations_of = |parameters: u64, tokens: u64| 2.0 * parameters as f64 * tokens as f64 * share;
        let scores = 4.0 * f64::from(model.hidden) * pairs as f64 * share;
        let cache = model.kv_bytes() as f64 * cached as f64 * share;
        let attention =
            own.time_of(operations_of(model.attention(), tokens) + scores, bytes_of(model.attention()) + cache);
        // Each token goes to other experts, as long as there are any.
        let experts = (tokens * u64::from(model.active_experts)).min(model.experts.into());
        let feed_forward = own.time_of(
            operations_of(model.expert(), tokens * u64::from(model.active_experts)),
            bytes_of(model.expert() * experts),
        );
        let output = own.time_of(operations_of(model.embedding(), outputs.into()), bytes_of(model.embedding()));
        let bytes = tokens * u64::from(model.hidden) * u64::from(model.parameter_bytes);
        let reduce = |rank: &mut Rank| {
            if tensor > 1 {
                let (communicator, operation) = (rank.instance, CollectiveOperation::AllReduce);
                rank.then(TENSOR, Work::Collective { communicator, operation, bytes });
            }
        };
        let mut layer = 0;
        for part in 0..kv_parts {
            let layers = own.layers_of_part(part);
            for _ in 0..layers {
                self.then(0, Work::Compute { time: attention, processor: 0 });
                reduce(self);
                self.then(0, Work::Compute { time: feed_forward, processor: 0 });
                reduce(self);
            }
            layer += layers;
            if let Iteration::Prompt(request) = iteration
                && prefill > 0
            {
                let to = self.peer(prefill + request % (own.instances() - prefill));
                let (bytes, tag) = (own.kv_bytes(layers), u64::from(request));
                self.add(KV, Work::Send { to, bytes, tag }, self.last);
            }
        }
        debug_assert_eq!(layer, model.layers);
        self.then(0, Work::Compute { time: output, processor: 0 });
    }
}

/// The first rank of an instance, which decides what the instance does.
#[derive(Debug)]
struct Leader {
    rank: Rank,
    answers: Answers,
    /// The iteration under way, and its last task.
    current: Option<(Iteration, Option<u64>)>,
    /// Number of requests of this instance that have begun.
    begun: u32,
    /// The requests of the batch, with the number of their tokens so far.
    batch: Vec<(u32, u32)>,
    has_ended: bool,
}

impl Leader {
    fn new(rank: Rank, answers: Answers) -> Leader {
        Leader { rank, answers, current: None, begun: 0, batch: Vec::new(), has_ended: false }
    }

    /// Notes the end of an iteration.
    fn end(&mut self, iteration: Iteration, now: Time) {
        let Inference { output, prefill, .. } = *self.rank.inference;
        match iteration {
            Iteration::Prompt(request) => {
                self.answers.change(request, |answer| answer.first_token = Some(now));
                if prefill == 0 {
                    self.batch.push((request, 1));
                }
            }
            Iteration::Tokens { .. } => {
                self.batch.iter_mut().for_each(|(_, tokens)| *tokens += 1);
                for (request, _) in self.batch.extract_if(.., |(_, tokens)| *tokens >= output) {
                    self.answers.change(request, |answer| answer.end = Some(now));
                }
            }
            Iteration::Stop => {}
        }
    }

    /// The next iteration; `Err` says when there may be one.
    fn decide(&mut self, now: Time, is_open: &dyn Fn(u64) -> bool) -> Result<Iteration, Offer> {
        let Inference { prompt, batch, .. } = *self.rank.inference;
        let next = self.rank.request(self.begun);
        if self.rank.is_receiver() {
            let mut index = 0;
            while self.batch.len() < batch as usize
                && let Some((request, id)) = self.rank.receiving.get(index).copied()
            {
                if self.rank.is_done(id, is_open) {
                    self.rank.receiving.remove(index);
                    self.batch.push((request, 1));
                    self.begun += 1;
                } else {
                    index += 1;
                }
            }
            if self.batch.is_empty() {
                let is_last = self.rank.request(self.begun).is_none();
                return if is_last { Ok(Iteration::Stop) } else { Err(Offer::Waits) };
            }
        } else if let Some(request) = next.filter(|_| self.batch.len() < batch as usize) {
            let arrival = self.answers.arrival(request);
            if arrival <= now {
                self.begun += 1;
                self.answers.change(request, |answer| answer.begin = Some(now));
                return Ok(Iteration::Prompt(request));
            }
            if self.batch.is_empty() {
                return Err(Offer::Later(arrival));
            }
        } else if self.batch.is_empty() {
            return Ok(Iteration::Stop);
        }
        // The token that a request has generated last is not in its keys and values; the iteration adds it.
        let context = self.batch.iter().map(|(_, tokens)| u64::from(prompt) + u64::from(*tokens)).sum();
        Ok(Iteration::Tokens { requests: self.batch.len() as u32, context })
    }
}

impl Tasks for Leader {
    fn next(&mut self) -> Result<Option<Task>, String> {
        Err("the tasks of an inference depend on the time".to_string())
    }

    fn offer(&mut self, now: Time, is_open: &dyn Fn(u64) -> bool) -> Result<Offer, String> {
        loop {
            if let Some(task) = self.rank.queue.pop_front() {
                return Ok(Offer::Task(task));
            }
            if self.has_ended {
                return Ok(Offer::End);
            }
            if let Some((iteration, last)) = self.current {
                if last.is_some_and(is_open) {
                    return Ok(Offer::Waits);
                }
                self.current = None;
                self.end(iteration, now);
            }
            if self.rank.received == 0 {
                self.rank.receive(is_open);
                if !self.rank.queue.is_empty() {
                    continue;
                }
            }
            let iteration = match self.decide(now, is_open) {
                Ok(iteration) => iteration,
                Err(offer) => return Ok(offer),
            };
            self.rank.receive(is_open);
            if self.rank.inference.tensor > 1 {
                lock(&self.rank.decisions).list.push_back((iteration, 0));
            }
            let first = self.rank.first();
            for other in 1..self.rank.inference.tensor {
                let begin = Work::Send { to: first + other, bytes: CONTROL_BYTES, tag: BEGIN_TAG };
                self.rank.add(CONTROL, begin, None);
            }
            self.rank.iterate(iteration);
            self.has_ended = iteration == Iteration::Stop;
            self.current = Some((iteration, self.rank.last));
        }
    }
}

/// Another rank of an instance.
#[derive(Debug)]
struct Follower {
    rank: Rank,
    /// The task that receives the next decision, and the number of this decision.
    begin: Option<(u64, u64)>,
    has_ended: bool,
}

impl Follower {
    /// Reads the decision with this number.
    fn decision(&self, number: u64) -> Iteration {
        let others = self.rank.inference.tensor - 1;
        let mut decisions = lock(&self.rank.decisions);
        let index = (number - decisions.first) as usize;
        let Some((iteration, readers)) = decisions.list.get_mut(index) else { return Iteration::Stop };
        *readers += 1;
        let iteration = *iteration;
        while decisions.list.front().is_some_and(|(_, readers)| *readers >= others) {
            decisions.list.pop_front();
            decisions.first += 1;
        }
        iteration
    }
}

impl Tasks for Follower {
    fn next(&mut self) -> Result<Option<Task>, String> {
        Err("the tasks of an inference depend on the time".to_string())
    }

    fn offer(&mut self, _: Time, is_open: &dyn Fn(u64) -> bool) -> Result<Offer, String> {
        loop {
            if let Some(task) = self.rank.queue.pop_front() {
                return Ok(Offer::Task(task));
            }
            if self.has_ended {
                return Ok(Offer::End);
            }
            self.rank.receive(is_open);
            let number = match self.begin {
                Some((task, _)) if self.rank.queue.is_empty() && is_open(task) => return Ok(Offer::Waits),
                Some(_) if !self.rank.queue.is_empty() => continue,
                Some((_, number)) => {
                    let iteration = self.decision(number);
                    self.rank.iterate(iteration);
                    self.has_ended = iteration == Iteration::Stop;
                    number + 1
                }
                None => 0,
            };
            if !self.has_ended {
                let from = Some(self.rank.first());
                let task = self.rank.add(CONTROL, Work::Receive { from, tag: BEGIN_TAG }, None);
                self.begin = Some((task, number));
            }
        }
    }
}
