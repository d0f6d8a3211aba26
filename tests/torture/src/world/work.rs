//! The work of applications: posting receives and operations, arming notifications, draining and resuming send queues.

use super::{Direction, GUARD, Message, Pending, RECEIVE, World, word};
use rnic_verbs::{
    Access, Data, Notify, RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, State, VerbsError,
};

impl World {
    /// Does something random with a random direction, as an application would: most often it posts an operation.
    pub(super) fn act(&mut self) -> Result<(), String> {
        let at = self.dice.below(self.directions.len() as u64) as usize;
        match self.dice.below(1_000) {
            0..300 => self.refill(at),
            300..304 => self.hold(at),
            304..330 => self.resume(at),
            330..360 => self.ask(at),
            360 => self.kill(at),
            _ => self.post(at),
        }
    }

    /// Posts receives until the receive queue is full.
    pub(super) fn refill(&mut self, at: usize) -> Result<(), String> {
        let direction = &mut self.directions[at];
        if direction.dead {
            return Ok(());
        }
        let host = &mut self.hosts[direction.from];
        let (places, shared) = match &mut host.shared {
            Some(shared) if direction.uses_shared => (&mut shared.places, Some((shared.srq, &mut shared.posted))),
            _ => (&mut direction.places, None),
        };
        let mut taken = Vec::new();
        while let Some(place) = places.free.pop() {
            let start = places.info.addr + place * places.unit;
            let scatter = [
                Sge { addr: start, len: 1_000, lkey: places.info.lkey },
                Sge { addr: start + 1_000, len: places.unit as u32 - 1_000, lkey: places.info.lkey },
            ];
            let request = RecvRequest { wr_id: place | RECEIVE, scatter: &scatter };
            let posted = match &shared {
                Some((srq, _)) => host.device.post_srq_recv(*srq, &request),
                None => host.device.post_recv(direction.qpn, &request),
            };
            posted.map_err(|why| format!("post a receive: {why}"))?;
            taken.push(place);
        }
        match shared {
            Some((_, posted)) => posted.extend(taken),
            None => direction.posted.extend(taken),
        }
        Ok(())
    }

    /// Kills one end of a reliable connection silently. The other end must notice when it next sends a request.
    fn kill(&mut self, at: usize) -> Result<(), String> {
        let peer_is_dead = self.directions[self.directions[at].peer].dead;
        let direction = &mut self.directions[at];
        if direction.service == Service::Uc || peer_is_dead || self.dice.chance(700) {
            return Ok(());
        }
        direction.dead = true;
        direction.drained = false;
        self.report.killed += 1;
        self.hosts[direction.from].device.to_error(direction.qpn).map_err(|why| why.to_string())
    }

    /// Drains a send queue.
    fn hold(&mut self, at: usize) -> Result<(), String> {
        let direction = &self.directions[at];
        if direction.state(&self.hosts) != Ok(State::ReadyToSend) {
            return Ok(());
        }
        self.hosts[direction.from].device.to_sqd(direction.qpn).map_err(|why| why.to_string())
    }

    /// Resumes a drained send queue.
    pub(super) fn resume(&mut self, at: usize) -> Result<(), String> {
        let direction = &mut self.directions[at];
        if !std::mem::take(&mut direction.drained) {
            return Ok(());
        }
        let device = &mut self.hosts[direction.from].device;
        device.to_rts(direction.qpn, SendAttributes::default(), self.now).map_err(|why| why.to_string())
    }

    /// Arms a notification, or the limit event of a shared receive queue.
    fn ask(&mut self, at: usize) -> Result<(), String> {
        let from = self.directions[at].from;
        let limit = self.dice.below(8) as u32;
        let host = &mut self.hosts[from];
        if let Some(shared) = &mut host.shared
            && self.dice.chance(300)
        {
            shared.limit = limit;
            host.device.arm_srq(shared.srq, limit).map_err(|why| why.to_string())?;
            // The number of receives may already be below the limit, so the event may come at once.
            return self.events();
        }
        let which = self.dice.below(self.queues.len() as u64) as usize;
        let notify = self.dice.pick(&[Notify::Any, Notify::Solicited]);
        let queue = &mut self.queues[which];
        let device = &mut self.hosts[queue.host].device;
        // The notification is armed only while the queue is empty. Earlier completions in the queue would raise no
        // notification, and the test could not distinguish them from new ones.
        if device.cq_len(queue.id) == 0 {
            device.arm_cq(queue.id, notify).map_err(|why| why.to_string())?;
            queue.armed = queue.armed.max(Some(notify));
        }
        Ok(())
    }

    /// Posts a random operation.
    fn post(&mut self, at: usize) -> Result<(), String> {
        let state = self.directions[at].state(&self.hosts);
        if self.left == 0 || !matches!(state, Ok(State::ReadyToSend | State::SendQueueDrain)) {
            return Ok(());
        }
        let uc = self.directions[at].service == Service::Uc;
        let kind = if uc { self.dice.pick(&[0, 1, 3, 4]) } else { self.dice.below(8) };
        let fetching = matches!(kind, 5..=7);
        if fetching && self.directions[at].free_answers.is_empty() {
            return Ok(());
        }
        let unit = self.directions[at].unit;
        let most = if self.dice.chance(200) { unit } else { 600 };
        let mut len = self.dice.below(most + 1);
        let area = 4 * unit;
        let mut start = GUARD + self.dice.below(area - len + 1);
        if kind >= 6 {
            (start, len) = (start.min(GUARD + area - 8) & !7, 8);
        }
        let value = self.dice.word();
        let imm = value as u32;
        let direction = &self.directions[at];
        let (addr, rkey) = (direction.target.addr + start, direction.target.rkey);
        // In 70 % of the cases a compare-and-swap compares with the stored value, so that it succeeds.
        let there = word(&direction.model, start);
        let compare = if self.dice.chance(700) { there } else { value };
        let mut op = match kind {
            0 => SendOp::Send,
            1 => SendOp::SendImm(imm),
            2 => SendOp::SendInv(0),
            3 => SendOp::Write { addr, rkey },
            4 => SendOp::WriteImm { addr, rkey, imm },
            5 => SendOp::Read { addr, rkey },
            6 => SendOp::FetchAdd { addr, rkey, add: value },
            _ => SendOp::CompareSwap { addr, rkey, compare, swap: value },
        };
        if let SendOp::SendInv(_) = op {
            // A region of the peer that nothing else uses, registered for this operation.
            let info = match self.directions[at].invalidable {
                Some(info) => info,
                None => self.register(self.directions[at].to, 64, Access::ALL),
            };
            self.directions[at].invalidable = Some(info);
            // A key can be invalidated once, so a plain Send follows until the key is renewed.
            let is_named = self.directions[at].messages.iter().any(|message| message.rkey == Some(info.rkey));
            op = if is_named { SendOp::Send } else { SendOp::SendInv(info.rkey) };
        }
        self.post_op(at, op, start, len)
    }

    fn post_op(&mut self, at: usize, op: SendOp, start: u64, len: u64) -> Result<(), String> {
        let targets = !matches!(op, SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_));
        let changes = targets && !matches!(op, SendOp::Read { .. });
        let from_source = self.dice.below(4 * self.directions[at].unit - len + 1);
        let inline = !op.is_fetching() && len <= 200 && self.dice.chance(300);
        let signaled = self.dice.chance(800);
        let solicited = self.dice.chance(100);
        let split = self.dice.below(len + 1);
        let wr_id = self.next_id;
        let direction = &mut self.directions[at];
        let irn = direction.service == Service::Irn;
        let fence = changes
            && direction.pending.iter().any(|other| {
                let overlaps = start < other.start + other.len && other.start < start + len;
                overlaps && (irn || other.op.is_fetching())
            })
            || self.dice.chance(30);
        let device = &mut self.hosts[direction.from].device;
        let source = device.bytes(direction.source.id).unwrap_or_default();
        let data = source[from_source as usize..(from_source + len) as usize].to_vec();
        let answer = if op.is_fetching() { direction.free_answers.last().copied() } else { None };
        let (base, lkey) = match answer {
            Some(answer) => (direction.answers.addr + answer as u64 * direction.unit, direction.answers.lkey),
            None => (direction.source.addr + from_source, direction.source.lkey),
        };
        let sges =
            [Sge { addr: base, len: split as u32, lkey }, Sge { addr: base + split, len: (len - split) as u32, lkey }];
        let local = if inline { Data::Inline(&data) } else { Data::Gather(&sges) };
        let flags = SendFlags { signaled, solicited, fence };
        match device.post_send(direction.qpn, &SendRequest { wr_id, op, data: local, flags }) {
            Ok(()) => {}
            Err(VerbsError::Full(_)) => return Ok(()),
            Err(why) => return Err(format!("post {op:?}: {why}")),
        }
        self.next_id += 1;
        self.left -= 1;
        self.report.posted += 1;
        let (bytes, after) = direction.apply(op, start, data);
        if op.takes_receive() {
            let (imm, rkey, write) = match op {
                SendOp::SendImm(imm) => (Some(imm), None, false),
                SendOp::WriteImm { imm, .. } => (Some(imm), None, true),
                SendOp::SendInv(rkey) => (None, Some(rkey), false),
                _ => (None, None, false),
            };
            direction.messages.push_back(Message { bytes: bytes.clone(), imm, write, rkey, solicited });
        }
        if answer.is_some() {
            direction.free_answers.pop();
        }
        let len = if targets { len } else { 0 };
        direction.pending.push_back(Pending { wr_id, op, signaled, start, len, bytes, after, answer });
        Ok(())
    }
}

impl Direction {
    /// Applies an operation with `data` to the model; returns the bytes that it returns or holds, and the bytes that
    /// it leaves in the target.
    fn apply(&mut self, op: SendOp, start: u64, data: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let range = start as usize..start as usize + data.len();
        match op {
            SendOp::Read { .. } => (self.model[range].to_vec(), Vec::new()),
            SendOp::Write { .. } | SendOp::WriteImm { .. } => {
                self.model[range].copy_from_slice(&data);
                (data.clone(), data)
            }
            SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. } => {
                let before = word(&self.model, start);
                let after = match op {
                    SendOp::FetchAdd { add, .. } => before.wrapping_add(add),
                    SendOp::CompareSwap { compare, swap, .. } if before == compare => swap,
                    _ => before,
                };
                self.model[range].copy_from_slice(&after.to_ne_bytes());
                (before.to_ne_bytes().to_vec(), after.to_ne_bytes().to_vec())
            }
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) => (data, Vec::new()),
            SendOp::Bind | SendOp::LocalInv(_) => (Vec::new(), Vec::new()),
        }
    }
}
