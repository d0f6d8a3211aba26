//! One rank of a program: its open operations, and the messages for it.

use super::lane::{Lane, Taken};
use super::operation::{Action, Mark, Operations, Tag};
use super::path::Path;
use super::todo::{Next, OpenTask, Todo};
use super::{Agenda, Message};
use rnic_trace::Work;
use rnic_transport::Time;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Where a rank keeps messages that wait for their receive operation, and receive operations that wait for messages:
/// the sending rank ([`ANY`] for messages from any rank), the space of the tag, and the tag.
pub(super) type Mailbox = (u32, u32, u64);

/// Stands for all senders in a [`Mailbox`].
const ANY: u32 = u32::MAX;

impl Tag {
    /// The mailbox of a message from the rank `from`. Tags of different spaces never match.
    pub(super) fn mailbox(self, from: u32, space: u32) -> Mailbox {
        match self {
            Tag::From(tag) => (from, space, tag),
            Tag::Any(tag) => (ANY, space, tag),
        }
    }

    /// The repetition of the collective operation to which a message belongs; see [`Tag::number`].
    pub(super) fn repeat(self) -> u32 {
        let (Tag::From(tag) | Tag::Any(tag)) = self;
        (tag >> REPEAT) as u32
    }

    /// Number of bits that number the messages of a repetition; see [`Tag::number`].
    pub(super) const MESSAGE_BITS: u32 = REPEAT;

    /// The number of a tag: the repetition, and which message of the operation.
    pub(super) fn number(repeat: u32, message: u64) -> u64 {
        debug_assert!(message < 1 << REPEAT, "fewer messages than 10^12");
        u64::from(repeat) << REPEAT | message
    }
}

/// Position of the repetition in the number of a tag.
const REPEAT: u32 = 40;

/// Something that happens to a rank at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    /// The rank begins its program.
    Begin,
    /// The rank notices that a message has arrived, at the end of this path.
    Arrive(Mailbox, Path),
    /// The operation completes, at the end of this path.
    Complete(Place, Path),
}

/// An operation of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// Index of the lane, or [`TASKS`] for a task.
    pub lane: u32,
    /// Number of the operation in its lane, or id of the task.
    pub number: u64,
}

/// Value of [`Place::lane`] for a task.
pub(super) const TASKS: u32 = u32::MAX;

/// Receive operations and messages that have not found each other; only one of the two exists at a time.
#[derive(Debug, Default)]
struct Mail {
    /// Receive operations, each with the number of messages that it still waits for.
    waiting: VecDeque<(Place, u32)>,
    /// Number of messages.
    arrived: u32,
}

/// One rank.
#[derive(Debug)]
pub(super) struct Rank {
    /// Index of the traffic source's program.
    job: u32,
    /// Sequences of operations that the rank carries out at the same time. A rank with tasks has one for each
    /// collective operation that it is carrying out.
    lanes: Vec<Option<Lane>>,
    free: Vec<u32>,
    tasks: Option<Todo>,
    /// The first step of which the rank has not completed all tasks, as far as its source knows.
    front: u32,
    mail: BTreeMap<Mailbox, Mail>,
    /// For each processor, the end of its latest computation, and the path to this end.
    computes: SmallVec<[(Time, Path); 1]>,
    /// The path to what happens now.
    path: Path,
    /// Operations that complete now and have not been processed, with their paths; empty between two events.
    completing: Vec<(Place, Path)>,
    /// Lanes that may take another operation; empty between two events.
    active: Vec<u32>,
}

impl Rank {
    /// A rank that carries out one sequence of operations.
    pub(super) fn new(job: u32, operations: Box<dyn Operations>) -> Rank {
        Rank { lanes: vec![Some(Lane::new(operations, 0))], ..Rank::empty(job) }
    }

    /// A rank that carries out tasks.
    pub(super) fn of_tasks(job: u32, tasks: Todo) -> Rank {
        Rank { tasks: Some(tasks), ..Rank::empty(job) }
    }

    fn empty(job: u32) -> Rank {
        Rank {
            job,
            lanes: Vec::new(),
            free: Vec::new(),
            tasks: None,
            front: 0,
            mail: BTreeMap::new(),
            computes: SmallVec::new(),
            path: Path::new(0, Time::ZERO),
            completing: Vec::new(),
            active: Vec::new(),
        }
    }

    /// Index of the traffic source's program.
    pub(super) fn job(&self) -> u32 {
        self.job
    }

    /// Processes an event of this rank, whose number is `own`.
    pub(super) fn handle(&mut self, own: u32, event: Event, now: Time, agenda: &mut Agenda) {
        match event {
            Event::Begin => {
                self.path = Path::new(0, now);
                if self.tasks.is_none() {
                    self.active.push(0);
                }
            }
            Event::Complete(place, path) => self.completing.push((place, path)),
            Event::Arrive(mailbox, path) => self.deliver(mailbox, path),
        }
        self.settle(own, now, agenda);
        self.note_front(now, agenda);
    }

    /// Notes which steps the rank has completed.
    fn note_front(&mut self, now: Time, agenda: &mut Agenda) {
        if let Some(tasks) = &self.tasks {
            let front = tasks.unfinished_step();
            if front != self.front {
                agenda.move_front(self.job, (self.front, front), now);
                self.front = front;
            }
        }
    }

    /// Hands a message to the receive operation that waits for it, or keeps it.
    fn deliver(&mut self, (from, space, tag): Mailbox, path: Path) {
        let waits = |mailbox: &Mailbox| self.mail.get(mailbox).is_some_and(|mail| !mail.waiting.is_empty());
        let (own, any) = ((from, space, tag), (ANY, space, tag));
        // Only tasks have receive operations for messages of any rank that name their sender.
        let mailbox = if space == 0 && self.tasks.is_some() && !waits(&own) && waits(&any) { any } else { own };
        let mail = self.mail.entry(mailbox).or_default();
        match mail.waiting.front_mut() {
            None => mail.arrived += 1,
            Some((_, left)) if *left > 1 => *left -= 1,
            Some((operation, _)) => {
                self.completing.push((*operation, path));
                mail.waiting.pop_front();
                self.forget_empty(mailbox);
            }
        }
    }

    /// Completes operations and begins those that can begin, until nothing is left to do at `now`.
    fn settle(&mut self, own: u32, now: Time, agenda: &mut Agenda) {
        loop {
            if let Some((place, path)) = self.completing.pop() {
                self.path = path;
                match place.lane {
                    TASKS => self.complete_task(own, place.number, now, agenda),
                    lane => self.complete(own, lane, place.number, now, agenda),
                }
            } else if let Some(lane) = self.active.last().copied() {
                if !self.take_next(own, lane, now, agenda) {
                    self.active.pop();
                }
            } else if !self.take_task(own, now, agenda) {
                return;
            }
        }
    }

    fn complete(&mut self, own: u32, lane: u32, number: u64, now: Time, agenda: &mut Agenda) {
        let Some(sequence) = &mut self.lanes[lane as usize] else { return };
        let (mark, begun) = sequence.complete(number);
        if let Mark::Begin(repeat) = mark {
            self.path = Path::new(repeat, now);
        }
        agenda.mark(self.job, own, mark, self.path, now);
        for number in begun {
            self.begin(own, Place { lane, number }, now, agenda);
        }
        if self.active.last() != Some(&lane) {
            self.active.push(lane);
        }
    }

    /// Takes the next operation of a lane from the generator, unless enough are open; returns whether it took one.
    fn take_next(&mut self, own: u32, lane: u32, now: Time, agenda: &mut Agenda) -> bool {
        let Some(sequence) = &mut self.lanes[lane as usize] else { return false };
        if let Some(path) = sequence.opening.take() {
            self.path = path;
        }
        match sequence.take_next() {
            Taken::Begins(number) => self.begin(own, Place { lane, number }, now, agenda),
            Taken::Waits => {}
            Taken::Nothing => {
                if let Some(task) = sequence.task.filter(|_| sequence.is_over()) {
                    self.lanes[lane as usize] = None;
                    self.free.push(lane);
                    self.completing.push((Place { lane: TASKS, number: task }, self.path));
                }
                return false;
            }
        }
        true
    }

    /// Begins an operation of a lane.
    fn begin(&mut self, own: u32, place: Place, now: Time, agenda: &mut Agenda) {
        let Some(sequence) = &self.lanes[place.lane as usize] else { return };
        let (action, space, step) = (sequence.action(place.number), sequence.space, sequence.step);
        match action {
            Action::Join => self.completing.push((place, self.path)),
            Action::Compute { time } => self.compute(own, place, (time, 0), now, agenda),
            Action::Send { to, bytes, tag, connection } => {
                let path = self.path;
                let message = Message { from: own, to, operation: place, tag, space, connection, step, path };
                agenda.send(self.job, now, bytes, message);
            }
            Action::Reduce { to, bytes, tag, members } => {
                let (path, connection) = (self.path, 0);
                let message = Message { from: own, to, operation: place, tag, space, connection, step, path };
                agenda.reduce(self.job, now, (bytes, members), message);
            }
            Action::Multicast { first, stride, members, bytes, tag } => {
                let (path, connection) = (self.path, 0);
                let message = Message { from: own, to: first, operation: place, tag, space, connection, step, path };
                agenda.multicast(self.job, now, bytes, message, (stride, members));
            }
            Action::Receive { from, tag } => self.receive(place, tag.mailbox(from, space), 1),
            Action::Gather { messages, tag } => self.receive(place, tag.mailbox(ANY, space), messages),
        }
    }

    /// Computes for a time on a processor, after the computations that have begun there.
    fn compute(&mut self, own: u32, place: Place, (time, processor): (Time, u8), now: Time, agenda: &mut Agenda) {
        let processor = usize::from(processor);
        if self.computes.len() <= processor {
            self.computes.resize(processor + 1, (Time::ZERO, Path::new(0, Time::ZERO)));
        }
        // The computation begins when the ones before it have ended.
        let (until, path) = self.computes[processor];
        let begin = until.max(now);
        let path = if begin > now { path.in_step(self.path.step, begin) } else { self.path };
        let (end, path) = (begin.saturating_add(time), path.computed(time));
        self.computes[processor] = (end, path);
        agenda.events.push(std::cmp::Reverse((end, own, Event::Complete(place, path))));
    }

    /// Begins an operation that waits for `messages` messages in a mailbox.
    fn receive(&mut self, place: Place, mailbox: Mailbox, messages: u32) {
        let mail = self.mail.entry(mailbox).or_default();
        let here = mail.arrived.min(messages);
        mail.arrived -= here;
        if here == messages {
            self.completing.push((place, self.path));
            self.forget_empty(mailbox);
        } else {
            mail.waiting.push_back((place, messages - here));
        }
    }

    fn forget_empty(&mut self, mailbox: Mailbox) {
        if self.mail.get(&mailbox).is_some_and(|mail| mail.arrived == 0 && mail.waiting.is_empty()) {
            self.mail.remove(&mailbox);
        }
    }

    /// What the first open operation waits for, as words; `None` if the rank has completed its program. `name` returns
    /// the number of a rank in its traffic source.
    pub(super) fn waits_for(&self, agenda: &Agenda, name: impl Fn(u32) -> u32 + Copy) -> Option<String> {
        let Some(tasks) = &self.tasks else {
            return self.lanes.first()?.as_ref()?.waits_for(name);
        };
        let of_task = |id| self.lanes.iter().flatten().find(|lane| lane.task == Some(id))?.waits_for(name);
        tasks.waits_for(agenda, self.job, of_task)
    }

    /// Takes the next task, unless enough are open; returns whether it took one.
    fn take_task(&mut self, own: u32, now: Time, agenda: &mut Agenda) -> bool {
        let Some(tasks) = &mut self.tasks else { return false };
        match tasks.take_next(now) {
            Ok(Next::Nothing) => return false,
            Ok(Next::Later(time)) => {
                agenda.events.push(std::cmp::Reverse((time, own, Event::Begin)));
                return false;
            }
            Ok(Next::Waits) => {}
            Ok(Next::Begins(id)) => self.begin_task(own, id, now, agenda),
            Err(error) => agenda.fail(self.job, own, error),
        }
        true
    }

    fn complete_task(&mut self, own: u32, id: u64, now: Time, agenda: &mut Agenda) {
        let Some((done, begun)) = self.tasks.as_mut().and_then(|tasks| tasks.complete(id)) else { return };
        agenda.end_task(self.job, own, &done, self.path, now);
        for id in begun {
            self.begin_task(own, id, now, agenda);
        }
    }

    fn begin_task(&mut self, own: u32, id: u64, now: Time, agenda: &mut Agenda) {
        let Some(task) = self.tasks.as_mut().and_then(|tasks| tasks.begin(id, now)) else { return };
        self.path = self.path.in_step(task.step, now);
        agenda.begin_task(self.job, own, &task, now);
        if let Err(error) = self.work(own, id, &task, now, agenda) {
            agenda.fail(self.job, own, format!("task {id}: {error}"));
        }
    }

    /// Carries out a task. After an error the task does not complete.
    fn work(&mut self, own: u32, id: u64, task: &OpenTask, now: Time, agenda: &mut Agenda) -> Result<(), String> {
        let place = Place { lane: TASKS, number: id };
        match task.work {
            Work::Nothing => self.completing.push((place, self.path)),
            Work::Compute { time, processor } => self.compute(own, place, (time, processor), now, agenda),
            Work::Send { to, bytes, tag } => {
                let (to, tag, step) = (agenda.rank_of(self.job, to)?, Tag::From(tag), task.step);
                if to == own {
                    return Err("the rank sends to itself".to_string());
                }
                let (space, connection, path) = (0, 0, self.path);
                let message = Message { from: own, to, operation: place, tag, space, connection, step, path };
                agenda.send(self.job, now, bytes.max(1), message);
            }
            Work::Receive { from: Some(from), tag } => {
                let from = agenda.rank_of(self.job, from)?;
                self.receive(place, (from, 0, tag), 1);
            }
            Work::Receive { from: None, tag } => {
                let has = |((_, space, own), mail): &(&Mailbox, &Mail)| *space == 0 && *own == tag && mail.arrived > 0;
                let mailbox = self.mail.iter().find(has).map_or((ANY, 0, tag), |(mailbox, _)| *mailbox);
                self.receive(place, mailbox, 1);
            }
            Work::Collective { communicator, operation, bytes } => {
                match agenda.schedule(self.job, own, (communicator, operation, bytes), task.sequence)? {
                    None => self.completing.push((place, self.path)),
                    Some(operations) => {
                        let lane = Lane::new(operations, communicator.saturating_add(1));
                        self.open_lane(lane.of_task(id, self.path.open(now)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Allows the rank to look further ahead in its tasks; returns whether it did.
    pub(super) fn look_further(&mut self, own: u32, now: Time, agenda: &mut Agenda) -> bool {
        let helps = self.tasks.as_mut().is_some_and(Todo::look_further);
        if helps {
            self.path = Path::new(self.path.step, now);
            self.settle(own, now, agenda);
            self.note_front(now, agenda);
        }
        helps
    }

    /// The first step of which the rank has not completed all tasks.
    pub(super) fn unfinished_step(&self) -> u32 {
        self.tasks.as_ref().map_or(u32::MAX, Todo::unfinished_step)
    }

    fn open_lane(&mut self, lane: Lane) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() as u32 - 1
        });
        self.lanes[index as usize] = Some(lane);
        self.active.push(index);
    }
}
