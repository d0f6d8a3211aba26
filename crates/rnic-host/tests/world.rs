//! A world with one channel: random operations on random memory in both directions, and a plain model that predicts
//! memory and messages.
//!
//! The model is the model of the torture test of the verbs: each direction has its own target memory at the responder.
//! The model applies an operation when it is posted. Operations whose order nothing guarantees get the fence flag.

use crate::wire::Wire;
use rnic_host::{Failure, HostError};
use rnic_torture::network::{Dice, Faults};
use rnic_transport::Time;
use rnic_verbs::{Completion, Data, MrInfo, Opcode, SendFlags, SendOp, SendRequest, Sge, Status, Verbs};
use std::collections::VecDeque;
use std::fmt;

/// One end of a channel under test.
pub(crate) trait End {
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError>;
    fn post_recv(
        &mut self, nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError>;
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError>;
    fn poll(&mut self, out: &mut [Completion]) -> usize;
    fn next_time(&self) -> Option<Time>;
    fn failure(&self) -> Option<Failure>;
    /// Does some harm to the end's queue pairs.
    fn harm(&mut self, nic: &mut dyn Verbs, dice: &mut Dice);
    /// Number of recoveries, and number of replayed or retransmitted parts.
    fn troubles(&self) -> (u64, u64);
}

/// The rules of the channel under test.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Whether reads are possible.
    pub(crate) reads: bool,
    /// Whether Sends are possible.
    pub(crate) sends: bool,
    /// Whether atomics are posted.
    pub(crate) atomics: bool,
    /// Whether each operation that overlaps an outstanding operation needs a fence; otherwise only Writes and atomics
    /// that overlap an outstanding Read.
    pub(crate) fences: bool,
}

const AREA: u64 = 40_000;
const UNIT: u64 = 20_000;
const RECEIVES: u64 = 8;
const ANSWERS: u64 = 8;

/// An operation that has not completed.
struct Pending {
    wr_id: u64,
    op: SendOp,
    signaled: bool,
    start: u64,
    len: u64,
    /// The bytes that a Read or atomic must return.
    bytes: Vec<u8>,
    answer: Option<u64>,
}

#[derive(Debug)]
struct Message {
    /// `None` for a Write with Immediate.
    bytes: Option<Vec<u8>>,
    imm: Option<u32>,
}

/// The direction from one end to the other.
struct Direction {
    source: MrInfo,
    answers: MrInfo,
    target: MrInfo,
    places: MrInfo,
    model: Vec<u8>,
    pending: VecDeque<Pending>,
    failed: Vec<Pending>,
    messages: VecDeque<Message>,
    /// The receives at this direction's responder.
    free_places: Vec<u64>,
    posted: VecDeque<u64>,
    free_answers: Vec<u64>,
}

#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) posted: u64,
    pub(crate) completed: u64,
    pub(crate) received: u64,
    pub(crate) failed: u64,
    pub(crate) recoveries: u64,
    pub(crate) replayed: u64,
    pub(crate) lost: u64,
    pub(crate) ended: u64,
    pub(crate) digest: u64,
}

impl Report {
    pub(crate) fn plus(self, other: Report) -> Report {
        Report {
            posted: self.posted + other.posted,
            completed: self.completed + other.completed,
            received: self.received + other.received,
            failed: self.failed + other.failed,
            recoveries: self.recoveries + other.recoveries,
            replayed: self.replayed + other.replayed,
            lost: self.lost + other.lost,
            ended: self.ended + other.ended,
            digest: self.digest.rotate_left(7) ^ other.digest,
        }
    }
}

pub(crate) struct World<E> {
    pub(crate) wire: Wire,
    pub(crate) ends: [E; 2],
    pub(crate) dice: Dice,
    rules: Rules,
    directions: [Direction; 2],
    next_id: u64,
    report: Report,
    harm: u64,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pending { wr_id, op, signaled, start, len, .. } = self;
        write!(f, "request {wr_id} ({op:?}, signalled {signaled}, {len} bytes at {start})")
    }
}

impl<E: End> World<E> {
    pub(crate) fn new(mut wire: Wire, ends: [E; 2], mut dice: Dice, rules: Rules) -> World<E> {
        let mut direction = |from: usize| {
            let source = wire.register(from, dice.bytes(AREA as usize));
            Direction {
                source,
                answers: wire.register(from, vec![0; (ANSWERS * UNIT) as usize]),
                target: wire.register(1 - from, vec![0; AREA as usize]),
                places: wire.register(1 - from, vec![0; (RECEIVES * UNIT) as usize]),
                model: vec![0; AREA as usize],
                pending: VecDeque::new(),
                failed: Vec::new(),
                messages: VecDeque::new(),
                free_places: (0..RECEIVES).collect(),
                posted: VecDeque::new(),
                free_answers: (0..ANSWERS).collect(),
            }
        };
        let directions = [direction(0), direction(1)];
        let harm = if dice.chance(700) { dice.within(1, 40) } else { 0 };
        World { wire, ends, dice, rules, directions, next_id: 0, report: Report::default(), harm }
    }

    /// Posts `steps` operations and lets them complete.
    pub(crate) fn run(mut self, steps: u64) -> Result<Report, String> {
        self.play(steps).map_err(|what| format!("at {}: {what}", self.wire.now))?;
        for end in &self.ends {
            let (recoveries, replayed) = end.troubles();
            self.report.recoveries += recoveries;
            self.report.replayed += replayed;
        }
        self.report.lost = self.wire.network.damage.lost;
        Ok(self.report)
    }

    fn play(&mut self, steps: u64) -> Result<(), String> {
        while self.report.posted < steps && self.ends.iter().all(|end| end.failure().is_none()) {
            if self.dice.chance(2) {
                let span = Time::from_us(self.dice.below(60_000));
                self.wire.network.partition = self.wire.now + span;
            }
            for _ in 0..self.dice.within(1, 4) {
                let side = self.dice.below(2) as usize;
                self.refill(side)?;
                if self.dice.chance(self.harm) {
                    self.ends[side].harm(&mut self.wire.nics[side], &mut self.dice);
                }
                self.post(side)?;
            }
            for _ in 0..self.dice.within(1, 30) {
                self.advance()?;
            }
        }
        // Without faults, all outstanding work completes.
        self.wire.network.faults = Faults::NONE;
        self.wire.network.partition = self.wire.now;
        let limit = self.wire.now + Time::from_ms(60_000);
        // The last operation of each direction is signalled.
        for side in 0..2 {
            self.finish(side)?;
        }
        while self.is_open() {
            for side in 0..2 {
                self.refill(side)?;
            }
            let has_moved = self.advance()?;
            let have_ended = self.ends.iter().all(|end| end.failure().is_some());
            if have_ended {
                break;
            }
            if self.is_open() && (!has_moved || self.wire.now > limit) {
                let pending = self.directions.each_ref().map(|d| (d.pending.front(), d.messages.len()));
                return Err(format!("it never comes to rest: {pending:?}"));
            }
        }
        self.settle()
    }

    /// Whether an operation has not completed or a message has not been received.
    fn is_open(&self) -> bool {
        self.directions.iter().any(|direction| !direction.pending.is_empty() || !direction.messages.is_empty())
    }

    fn settle(&mut self) -> Result<(), String> {
        for side in 0..2 {
            self.look(side)?;
            // Every failure is reported, so unsignalled requests without a completion have succeeded.
            if let Some(pending) = self.directions[side].pending.iter().find(|pending| pending.signaled) {
                return Err(format!("direction {side}: {pending:?} never completes"));
            }
        }
        let failures = self.ends.each_ref().map(End::failure);
        self.report.ended += u64::from(failures != [None, None]);
        for (from, direction) in self.directions.iter().enumerate() {
            let target = self.wire.nics[1 - from].bytes(direction.target.id).unwrap();
            let mut open = vec![false; target.len()];
            for failed in &direction.failed {
                if !matches!(failed.op, SendOp::Read { .. }) {
                    open[failed.start as usize..(failed.start + failed.len) as usize].fill(true);
                }
            }
            if let Some(byte) = (0..target.len()).find(|at| !open[*at] && target[*at] != direction.model[*at]) {
                return Err(format!("direction {from}: memory differs from the model at {byte}; {failures:?}"));
            }
            if failures == [None, None] && !direction.failed.is_empty() {
                return Err(format!("direction {from}: {:?} failed on a channel that lives", direction.failed));
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<bool, String> {
        for side in 0..2 {
            self.ends[side].progress(&mut self.wire.nics[side], self.wire.now).map_err(|why| why.to_string())?;
            self.look(side)?;
        }
        let next = self.ends.iter().filter_map(End::next_time).min();
        Ok(self.wire.advance(next))
    }

    fn look(&mut self, side: usize) -> Result<(), String> {
        let mut found = [Completion::BLANK; 8];
        loop {
            let count = self.ends[side].poll(&mut found);
            for completion in &found[..count] {
                let word = completion.wr_id ^ completion.status as u64 ^ self.wire.now.as_ps();
                self.report.digest = (self.report.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
                match completion.opcode {
                    Opcode::Recv | Opcode::RecvWithImmediate => self.on_received(side, completion)?,
                    _ => self.on_sent(side, completion)?,
                }
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn on_sent(&mut self, from: usize, completion: &Completion) -> Result<(), String> {
        let direction = &mut self.directions[from];
        loop {
            let Some(pending) = direction.pending.pop_front() else {
                return Err(format!("direction {from}: {completion:?} of nothing"));
            };
            let mine = pending.wr_id == completion.wr_id;
            if !mine && pending.signaled {
                return Err(format!("direction {from}: {completion:?} before {pending:?}"));
            }
            if mine && completion.status != Status::Success {
                self.report.failed += 1;
                direction.failed.push(pending);
                return Ok(());
            }
            if !direction.failed.is_empty() {
                return Err(format!("direction {from}: {completion:?} after a failure"));
            }
            self.report.completed += 1;
            if let Some(answer) = pending.answer {
                let start = (answer * UNIT) as usize;
                let bytes = self.wire.nics[from].bytes(direction.answers.id).unwrap();
                if bytes[start..start + pending.bytes.len()] != pending.bytes[..] {
                    return Err(format!("direction {from}: wrong bytes fetched by {:?}", pending.op));
                }
                direction.free_answers.push(answer);
            }
            if mine {
                return Ok(());
            }
        }
    }

    /// A receive at `side`: the message belongs to the other direction.
    fn on_received(&mut self, side: usize, completion: &Completion) -> Result<(), String> {
        let direction = &mut self.directions[1 - side];
        let Some(place) = direction.posted.pop_front().filter(|place| *place == completion.wr_id) else {
            return Err(format!("side {side}: {completion:?} is not of the oldest receive"));
        };
        direction.free_places.push(place);
        if completion.status != Status::Success {
            return Ok(());
        }
        let Some(message) = direction.messages.pop_front() else {
            return Err(format!("side {side}: {completion:?} of no message"));
        };
        self.report.received += 1;
        let places = self.wire.nics[side].bytes(direction.places.id).unwrap();
        let start = (place * UNIT) as usize;
        let same = match &message.bytes {
            None => completion.opcode == Opcode::RecvWithImmediate,
            Some(bytes) => {
                completion.byte_len as usize == bytes.len() && places[start..start + bytes.len()] == bytes[..]
            }
        };
        if !same || message.imm != completion.imm {
            return Err(format!("side {side}: {completion:?} instead of {:?}", message.imm));
        }
        Ok(())
    }

    fn refill(&mut self, side: usize) -> Result<(), String> {
        let direction = &mut self.directions[1 - side];
        if self.ends[side].failure().is_some() {
            return Ok(());
        }
        while let Some(place) = direction.free_places.pop() {
            let (nic, region) = (&mut self.wire.nics[side], &direction.places);
            let posted = self.ends[side].post_recv(nic, place, region, place * UNIT, UNIT as u32);
            posted.map_err(|why| why.to_string())?;
            direction.posted.push_back(place);
        }
        Ok(())
    }

    fn finish(&mut self, side: usize) -> Result<(), String> {
        if self.ends[side].failure().is_some() {
            return Ok(());
        }
        let target = self.directions[side].target;
        let op = SendOp::Write { addr: target.addr, rkey: target.rkey };
        let flags = SendFlags { signaled: true, solicited: false, fence: true };
        let request = SendRequest { wr_id: self.next_id, op, data: Data::Inline(&[]), flags };
        self.ends[side].post_send(&request).map_err(|why| why.to_string())?;
        let (wr_id, bytes) = (self.next_id, Vec::new());
        let pending = Pending { wr_id, op, signaled: true, start: 0, len: 0, bytes, answer: None };
        self.directions[side].pending.push_back(pending);
        self.next_id += 1;
        Ok(())
    }

    fn post(&mut self, side: usize) -> Result<(), String> {
        let dice = &mut self.dice;
        let direction = &mut self.directions[side];
        if direction.pending.len() > 40 || self.ends[side].failure().is_some() {
            return Ok(());
        }
        let kind = match dice.below(100) {
            0..25 => 0,
            25..50 if self.rules.sends => 1,
            25..50 => 2,
            50..75 => 2,
            75..90 if self.rules.reads => 3,
            90..100 if self.rules.atomics => 4,
            _ => 0,
        };
        if kind >= 3 && direction.free_answers.is_empty() {
            return Ok(());
        }
        let len = if kind == 4 {
            8
        } else if dice.chance(300) {
            dice.below(UNIT + 1)
        } else {
            dice.below(600)
        };
        let start = dice.below(AREA - len + 1) & if kind == 4 { !7 } else { !0 };
        let from = dice.below(AREA - len + 1);
        let imm = dice.word() as u32;
        let (addr, rkey) = (direction.target.addr + start, direction.target.rkey);
        let op = match kind {
            0 => SendOp::Write { addr, rkey },
            1 if imm.is_multiple_of(2) => SendOp::Send,
            1 => SendOp::SendImm(imm),
            2 => SendOp::WriteImm { addr, rkey, imm },
            3 => SendOp::Read { addr, rkey },
            _ => SendOp::FetchAdd { addr, rkey, add: imm.into() },
        };
        let changes = !matches!(op, SendOp::Read { .. } | SendOp::Send | SendOp::SendImm(_));
        let targets = !matches!(op, SendOp::Send | SendOp::SendImm(_));
        let fence = targets
            && direction.pending.iter().any(|other| {
                let overlaps = start < other.start + other.len && other.start < start + len;
                overlaps && (self.rules.fences || changes && other.op.is_fetching())
            });
        let source = self.wire.nics[side].bytes(direction.source.id).unwrap();
        let data = source[from as usize..(from + len) as usize].to_vec();
        let answer = if op.is_fetching() { direction.free_answers.pop() } else { None };
        let (base, lkey) = match answer {
            Some(answer) => (direction.answers.addr + answer * UNIT, direction.answers.lkey),
            None => (direction.source.addr + from, direction.source.lkey),
        };
        let split = dice.below(len + 1);
        let sges =
            [Sge { addr: base, len: split as u32, lkey }, Sge { addr: base + split, len: (len - split) as u32, lkey }];
        let inline = !op.is_fetching() && len <= 200 && dice.chance(300);
        let flags = SendFlags { signaled: dice.chance(800), solicited: false, fence };
        let local = if inline { Data::Inline(&data) } else { Data::Gather(&sges) };
        let request = SendRequest { wr_id: self.next_id, op, data: local, flags };
        self.ends[side].post_send(&request).map_err(|why| format!("post {op:?}: {why}"))?;
        let range = start as usize..(start + len) as usize;
        let before = direction.model[range.clone()].to_vec();
        match op {
            SendOp::Write { .. } | SendOp::WriteImm { .. } => direction.model[range].copy_from_slice(&data),
            SendOp::FetchAdd { add, .. } => {
                let word = u64::from_ne_bytes(before[..].try_into().unwrap()).wrapping_add(add);
                direction.model[range].copy_from_slice(&word.to_ne_bytes());
            }
            _ => {}
        }
        match op {
            SendOp::WriteImm { imm, .. } => direction.messages.push_back(Message { bytes: None, imm: Some(imm) }),
            SendOp::SendImm(imm) => direction.messages.push_back(Message { bytes: Some(data), imm: Some(imm) }),
            SendOp::Send => direction.messages.push_back(Message { bytes: Some(data), imm: None }),
            _ => {}
        }
        let (wr_id, signaled) = (self.next_id, flags.signaled);
        let len = if targets { len } else { 0 };
        direction.pending.push_back(Pending { wr_id, op, signaled, start, len, bytes: before, answer });
        self.next_id += 1;
        self.report.posted += 1;
        Ok(())
    }
}
