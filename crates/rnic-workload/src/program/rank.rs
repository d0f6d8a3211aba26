//! One rank of a program: its open operations, and the messages for it.

use super::operation::{Action, After, Distances, Mark, Operation, Operations, Tag};
use super::{Agenda, Message};
use rnic_transport::Time;
use std::collections::{BTreeMap, VecDeque};

/// Where a rank keeps messages that wait for their receive operation, and receive operations that wait for messages:
/// the sending rank ([`ANY`] for messages from any rank), and the tag.
pub(super) type Mailbox = (u32, u64);

/// Stands for all senders in a [`Mailbox`].
const ANY: u32 = u32::MAX;

impl Tag {
    /// The mailbox of a message from the rank `from`.
    pub(super) fn mailbox(self, from: u32) -> Mailbox {
        match self {
            Tag::From(tag) => (from, tag),
            Tag::Any(tag) => (ANY, tag),
        }
    }

    /// The repetition of the collective operation to which a message belongs; see [`Tag::number`].
    pub(super) fn repeat(self) -> u32 {
        let (Tag::From(tag) | Tag::Any(tag)) = self;
        (tag >> REPEAT) as u32
    }

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
    /// The rank notices that a message has arrived.
    Arrive(Mailbox),
    /// The operation with this number completes.
    Complete(u64),
}

/// An operation that has been taken from the generator.
#[derive(Clone, Debug)]
struct Open {
    action: Action,
    mark: Mark,
    /// Number of operations that must complete before this one begins. [`BARRIER`] if all earlier ones must.
    waits: u32,
    done: bool,
    /// Operations that wait for this one, as distances from it.
    dependents: Distances,
}

/// Value of [`Open::waits`] for an operation that waits for all earlier ones.
const BARRIER: u32 = u32::MAX;

/// Receive operations and messages that have not found each other; only one of the two exists at a time.
#[derive(Debug, Default)]
struct Mail {
    /// Receive operations, each with the number of messages that it still waits for.
    waiting: VecDeque<(u64, u32)>,
    /// Number of messages.
    arrived: u32,
}

/// One rank.
#[derive(Debug)]
pub(super) struct Rank {
    /// Index of the traffic source's program.
    job: u32,
    operations: Box<dyn Operations>,
    exhausted: bool,
    /// The operations from the first open one on; `first` is the number of the first one.
    window: VecDeque<Open>,
    first: u64,
    /// Number of operations in `window` that have not completed.
    open: usize,
    mail: BTreeMap<Mailbox, Mail>,
    /// End of the latest computation.
    computes_until: Time,
    /// Operations that complete now and have not been processed; empty between two events.
    completing: Vec<u64>,
}

impl Rank {
    pub(super) fn new(job: u32, operations: Box<dyn Operations>) -> Rank {
        Rank {
            job,
            operations,
            exhausted: false,
            window: VecDeque::new(),
            first: 0,
            open: 0,
            mail: BTreeMap::new(),
            computes_until: Time::ZERO,
            completing: Vec::new(),
        }
    }

    /// Index of the traffic source's program.
    pub(super) fn job(&self) -> u32 {
        self.job
    }

    /// Processes an event of this rank, whose number is `own`.
    pub(super) fn handle(&mut self, own: u32, event: Event, now: Time, agenda: &mut Agenda) {
        match event {
            Event::Begin => {}
            Event::Complete(operation) => self.completing.push(operation),
            Event::Arrive(mailbox) => {
                let mail = self.mail.entry(mailbox).or_default();
                match mail.waiting.front_mut() {
                    None => mail.arrived += 1,
                    Some((_, left)) if *left > 1 => *left -= 1,
                    Some((operation, _)) => {
                        self.completing.push(*operation);
                        mail.waiting.pop_front();
                        self.forget_empty(mailbox);
                    }
                }
            }
        }
        self.settle(own, now, agenda);
    }

    /// Completes operations and begins those that can begin, until nothing is left to do at `now`.
    fn settle(&mut self, own: u32, now: Time, agenda: &mut Agenda) {
        loop {
            if let Some(operation) = self.completing.pop() {
                self.complete(own, operation, now, agenda);
            } else if !self.take_next(own, now, agenda) {
                return;
            }
        }
    }

    fn complete(&mut self, own: u32, number: u64, now: Time, agenda: &mut Agenda) {
        let index = (number - self.first) as usize;
        let operation = &mut self.window[index];
        let (mark, dependents) = (operation.mark, std::mem::take(&mut operation.dependents));
        operation.done = true;
        self.open -= 1;
        agenda.mark(self.job, own, mark, now);
        for distance in dependents {
            let dependent = &mut self.window[index + distance as usize];
            dependent.waits -= 1;
            if dependent.waits == 0 {
                self.begin(own, number + u64::from(distance), now, agenda);
            }
        }
        while self.window.front().is_some_and(|operation| operation.done) {
            self.window.pop_front();
            self.first += 1;
        }
        if self.window.front().is_some_and(|operation| operation.waits == BARRIER) {
            self.window[0].waits = 0;
            self.begin(own, self.first, now, agenda);
        }
    }

    /// Takes the next operation from the generator, unless enough are open; returns whether it took one.
    fn take_next(&mut self, own: u32, now: Time, agenda: &mut Agenda) -> bool {
        let barrier = self.window.back().is_some_and(|operation| operation.waits == BARRIER);
        if self.exhausted || barrier || self.open >= self.operations.ahead() {
            return false;
        }
        let Some(Operation { action, after, mark }) = self.operations.next() else {
            self.exhausted = true;
            return false;
        };
        let position = self.window.len();
        let mut waits = 0;
        match after {
            After::Nothing => {}
            After::All if position == 0 => {}
            After::All => waits = BARRIER,
            After::Earlier(distances) => {
                for distance in distances {
                    let earlier = position.checked_sub(distance as usize).and_then(|index| self.window.get_mut(index));
                    if let Some(earlier) = earlier.filter(|earlier| !earlier.done) {
                        earlier.dependents.push(distance);
                        waits += 1;
                    }
                }
            }
        }
        self.window.push_back(Open { action, mark, waits, done: false, dependents: Distances::new() });
        self.open += 1;
        if waits == 0 {
            self.begin(own, self.first + position as u64, now, agenda);
        }
        true
    }

    /// Begins the operation with the number `number`.
    fn begin(&mut self, own: u32, number: u64, now: Time, agenda: &mut Agenda) {
        match self.window[(number - self.first) as usize].action {
            Action::Join => self.completing.push(number),
            Action::Compute { time } => {
                self.computes_until = self.computes_until.max(now).saturating_add(time);
                agenda.events.push(std::cmp::Reverse((self.computes_until, own, Event::Complete(number))));
            }
            Action::Send { to, bytes, tag, connection } => {
                let message = Message { from: own, to, operation: number, tag, connection };
                agenda.send(self.job, now, bytes, message);
            }
            Action::Receive { from, tag } => self.receive(number, tag.mailbox(from), 1),
            Action::Gather { messages, tag } => self.receive(number, tag.mailbox(ANY), messages),
        }
    }

    /// Begins an operation that waits for `messages` messages in a mailbox.
    fn receive(&mut self, number: u64, mailbox: Mailbox, messages: u32) {
        let mail = self.mail.entry(mailbox).or_default();
        let here = mail.arrived.min(messages);
        mail.arrived -= here;
        if here == messages {
            self.completing.push(number);
            self.forget_empty(mailbox);
        } else {
            mail.waiting.push_back((number, messages - here));
        }
    }

    fn forget_empty(&mut self, mailbox: Mailbox) {
        if self.mail.get(&mailbox).is_some_and(|mail| mail.arrived == 0 && mail.waiting.is_empty()) {
            self.mail.remove(&mailbox);
        }
    }

    /// What the first open operation waits for, as words; `None` if the rank has completed its program. `name` returns
    /// the number of a rank in its traffic source.
    pub(super) fn waits_for(&self, name: impl Fn(u32) -> u32) -> Option<String> {
        let open = self.window.front()?;
        Some(match open.action {
            Action::Receive { from, .. } => format!("a message from rank {}", name(from)),
            Action::Gather { messages, .. } => format!("{messages} messages"),
            Action::Send { to, bytes, .. } => format!("the arrival of {bytes} B at rank {}", name(to)),
            Action::Compute { time } => format!("the end of a computation of {time}"),
            Action::Join => "earlier operations".to_string(),
        })
    }
}
