//! Checks completions, notifications, events and memory, and reconnects failed connections.

use super::{ANSWERS, GUARD, Pending, RECEIVE, World};
use rnic_verbs::{Completion, Event, Notify, Opcode, Qpn, SendOp, Service, State, Status};

impl World {
    /// Polls and checks all completions and events.
    pub(super) fn look(&mut self) -> Result<(), String> {
        for at in 0..self.queues.len() {
            self.poll(at)?;
        }
        self.events()
    }

    fn poll(&mut self, at: usize) -> Result<(), String> {
        let (host, id) = (self.queues[at].host, self.queues[at].id);
        let (mut any, mut urgent) = (false, false);
        let mut found = [Completion::BLANK; 8];
        loop {
            let count = self.hosts[host].device.poll_cq(id, &mut found).map_err(|why| why.to_string())?;
            if count == 0 {
                break;
            }
            for completion in &found[..count] {
                any = true;
                urgent |= self.on_completion(host, completion)?;
            }
        }
        let asked = self.queues[at].armed;
        let expected = any && asked == Some(Notify::Any) || urgent && asked.is_some();
        if self.hosts[host].device.take_notification(id) != expected {
            return Err(format!("{id:?} of host {host}: {asked:?} was asked for, and the notification is wrong"));
        }
        if expected {
            self.queues[at].armed = None;
            self.report.notified += 1;
        }
        Ok(())
    }

    /// Checks a completion. Returns whether it raises a notification even if only solicited completions are armed.
    fn on_completion(&mut self, host: usize, completion: &Completion) -> Result<bool, String> {
        let Some(&at) = self.by_qpn.get(&(host, completion.qpn.0)) else {
            return Err(format!("{completion:?} of a queue pair that is not there"));
        };
        self.mix(completion.wr_id);
        if completion.wr_id & RECEIVE == 0 {
            self.on_sent(at, completion)?;
            return Ok(completion.status != Status::Success);
        }
        self.on_received(at, completion)
    }

    fn on_sent(&mut self, at: usize, completion: &Completion) -> Result<(), String> {
        let success = completion.status == Status::Success;
        if self.directions[at].drained && success {
            return Err(format!("direction {at}: {completion:?} though the send queue is drained"));
        }
        loop {
            let Some(pending) = self.directions[at].pending.pop_front() else {
                return Err(format!("direction {at}: {completion:?} of nothing"));
            };
            let mine = pending.wr_id == completion.wr_id;
            if !mine && pending.signaled {
                return Err(format!("direction {at}: {completion:?} before {pending:?}"));
            }
            if mine && success && !pending.signaled {
                return Err(format!("direction {at}: {completion:?} was not asked for"));
            }
            if mine && !success {
                // It is unknown whether a flushed operation was executed.
                self.report.flushed += 1;
                self.directions[at].flushed.push(pending);
                return Ok(());
            }
            // The unsignalled operations before this one have succeeded, because failures are always reported.
            self.report.completed += 1;
            self.verify(at, &pending)?;
            if let Some(answer) = pending.answer {
                self.directions[at].free_answers.push(answer);
            }
            if mine {
                return Ok(());
            }
        }
    }

    /// Checks that the bytes of a completed operation are right.
    fn verify(&mut self, at: usize, done: &Pending) -> Result<(), String> {
        let direction = &mut self.directions[at];
        let start = done.start as usize;
        direction.base[start..start + done.after.len()].copy_from_slice(&done.after);
        if let Some(answer) = done.answer {
            let start = answer * direction.unit as usize;
            let place = self.hosts[direction.from].device.bytes(direction.answers.id).unwrap_or_default();
            if place[start..start + done.bytes.len()] != done.bytes[..] {
                return Err(format!("direction {at} ({:?}): wrong bytes fetched by {done:?}", direction.service));
            }
            self.report.checked += done.bytes.len() as u64;
            return Ok(());
        }
        let later = direction.pending.iter().chain(&direction.flushed).any(|other| {
            let overlaps = other.start < done.start + done.len && done.start < other.start + other.len;
            overlaps && !matches!(other.op, SendOp::Read { .. })
        });
        if done.len == 0 || later {
            return Ok(());
        }
        self.compare(at, done.start, done.len)
    }

    /// Compares `len` bytes of the target from `start` on with the model. UC may lose messages, so with UC only the
    /// guard bytes around the target are checked.
    pub(super) fn compare(&mut self, at: usize, start: u64, len: u64) -> Result<(), String> {
        let direction = &self.directions[at];
        let target = self.hosts[direction.to].device.bytes(direction.target.id).unwrap_or_default();
        let guard = GUARD as usize;
        let wrong = if direction.service == Service::Uc {
            let inside = guard..target.len() - guard;
            (0..target.len()).find(|byte| !inside.contains(byte) && target[*byte] != 0)
        } else {
            (start as usize..(start + len) as usize).find(|byte| target[*byte] != direction.model[*byte])
        };
        if let Some(byte) = wrong {
            let service = direction.service;
            return Err(format!("direction {at} ({service:?}): memory differs from the model at {byte}"));
        }
        self.report.checked += len;
        Ok(())
    }

    /// Checks a completed receive of the queue pair that sends in direction `at`. The received message belongs to the
    /// opposite direction, that of the peer. Returns whether the message was solicited, or the receive failed.
    fn on_received(&mut self, at: usize, completion: &Completion) -> Result<bool, String> {
        let direction = &mut self.directions[at];
        let host = &mut self.hosts[direction.from];
        let place = completion.wr_id & !RECEIVE;
        let places = match &mut host.shared {
            Some(shared) if direction.uses_shared => {
                if !shared.posted.remove(&place) {
                    return Err(format!("direction {at}: {completion:?} was not posted"));
                }
                &mut shared.places
            }
            _ => {
                let oldest = direction.posted.pop_front();
                if oldest != Some(place) {
                    return Err(format!("direction {at}: {completion:?}, but the oldest receive is {oldest:?}"));
                }
                &mut direction.places
            }
        };
        places.free.push(place);
        if completion.status != Status::Success {
            self.report.flushed += 1;
            return Ok(true);
        }
        let start = (place * places.unit) as usize;
        let buffer = host.device.bytes(places.info.id).unwrap_or_default();
        let lossy = direction.service == Service::Uc;
        let peer = direction.peer;
        loop {
            let Some(message) = self.directions[peer].messages.pop_front() else {
                return Err(format!("direction {peer}: {completion:?} of no message"));
            };
            let len = message.bytes.len();
            let same = completion.byte_len as usize == len
                && completion.imm == message.imm
                && completion.invalidated == message.rkey
                && completion.opcode == if message.write { Opcode::RecvWithImmediate } else { Opcode::Recv }
                && (message.write || buffer[start..start + len] == message.bytes[..]);
            if same {
                self.report.received += 1;
                self.report.checked += len as u64;
                if message.rkey.is_some() {
                    self.renew(peer)?;
                }
                return Ok(message.solicited);
            }
            if !lossy {
                return Err(format!("direction {peer}: {completion:?} instead of {message:?}"));
            }
        }
    }

    /// Re-registers an invalidated region, which gives it a new key.
    fn renew(&mut self, at: usize) -> Result<(), String> {
        let direction = &mut self.directions[at];
        let Some(info) = direction.invalidable else { return Ok(()) };
        // Outstanding sends still name the current key, so it must stay valid for them.
        if direction.messages.iter().any(|message| message.rkey == Some(info.rkey)) {
            return Ok(());
        }
        let device = &mut self.hosts[direction.to].device;
        direction.invalidable = Some(device.rekey(info.id).map_err(|why| why.to_string())?);
        Ok(())
    }

    pub(super) fn events(&mut self) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            while let Some(event) = self.hosts[host].device.poll_event() {
                let direction = |world: &World, qpn: Qpn| world.by_qpn.get(&(host, qpn.0)).copied();
                match event {
                    Event::QueuePairError(qpn, status) => {
                        let Some(at) = direction(self, qpn) else { continue };
                        self.mix(status as u64);
                        if !self.directions[at].may_fail_with(status) {
                            return Err(format!("direction {at}: the connection fails with {status:?}"));
                        }
                        // The other end may already have reported the failure of this connection.
                        if self.directions[at].state(&self.hosts) == Ok(State::Error) {
                            self.reconnect(at - at % 2)?;
                        }
                    }
                    Event::SendQueueDrained(qpn) => {
                        let Some(at) = direction(self, qpn) else { continue };
                        if self.directions[at].state(&self.hosts) != Ok(State::SendQueueDrain) {
                            continue;
                        }
                        self.directions[at].drained = true;
                        self.report.drained += 1;
                    }
                    Event::SharedReceiveLimit(srq) => {
                        let shared = self.hosts[host].shared.as_mut().filter(|shared| shared.srq == srq);
                        let Some(shared) = shared else { return Err(format!("{srq:?} is nobody's")) };
                        if shared.limit == 0 {
                            return Err(format!("{event:?} was not asked for"));
                        }
                        shared.limit = 0;
                    }
                    Event::CompletionQueueOverflow(cq) => return Err(format!("{cq:?} of host {host} overflows")),
                    Event::CommunicationEstablished(_) | Event::LastReceiveTaken(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Handles a failed connection: checks that everything is flushed, reconnects both ends, and copies the actual
    /// memory to the model.
    fn reconnect(&mut self, at: usize) -> Result<(), String> {
        self.report.failed += 1;
        for end in [at, at + 1] {
            let (from, qpn) = (self.directions[end].from, self.directions[end].qpn);
            self.hosts[from].device.to_error(qpn).map_err(|why| why.to_string())?;
            self.directions[end].drained = false;
            self.directions[end].dead = false;
        }
        for queue in 0..self.queues.len() {
            self.poll(queue)?;
        }
        for end in [at, at + 1] {
            self.is_flushed(end)?;
        }
        let again = self.dice.chance(500);
        for end in [at, at + 1] {
            let (from, qpn) = (self.directions[end].from, self.directions[end].qpn);
            let device = &mut self.hosts[from].device;
            // Packets of the old connection are still in flight. The new connection has the same queue pair numbers
            // with distant PSNs, or other numbers.
            if again {
                device.to_reset(qpn).map_err(|why| why.to_string())?;
                self.directions[end].psn = (self.directions[end].psn + 0x40_0000) & 0xff_ffff;
            } else {
                device.destroy_qp(qpn).map_err(|why| why.to_string())?;
                self.by_qpn.remove(&(from, qpn.0));
                self.sessions.remove(&(from, qpn.0));
                self.queue_pair(end);
            }
        }
        self.join(at);
        Ok(())
    }

    /// Checks that all outstanding work of a direction was flushed. Also checks that those bytes of the target which no
    /// flushed operation covers are as completed operations left them.
    fn is_flushed(&mut self, at: usize) -> Result<(), String> {
        if let Some(place) = self.directions[at].posted.front() {
            return Err(format!("direction {at}: receive {place} was not flushed"));
        }
        while let Some(pending) = self.directions[at].pending.pop_front() {
            if pending.signaled {
                return Err(format!("direction {at}: {pending:?} was not flushed"));
            }
            self.report.completed += 1;
            self.verify(at, &pending)?;
        }
        let direction = &mut self.directions[at];
        let device = &self.hosts[direction.to].device;
        let target = device.bytes(direction.target.id).unwrap_or_default();
        let mut open = vec![direction.service == Service::Uc; target.len()];
        for flushed in direction.flushed.drain(..) {
            if !matches!(flushed.op, SendOp::Read { .. }) {
                open[flushed.start as usize..(flushed.start + flushed.len) as usize].fill(true);
            }
        }
        let wrong = (0..target.len()).find(|byte| !open[*byte] && target[*byte] != direction.base[*byte]);
        if let Some(byte) = wrong {
            return Err(format!("direction {at}: byte {byte} changed though nothing that covers it was outstanding"));
        }
        direction.model = target.to_vec();
        direction.base = target.to_vec();
        direction.messages.clear();
        direction.free_answers = (0..ANSWERS).collect();
        Ok(())
    }
}
