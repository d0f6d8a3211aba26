//! Handles events: completions of the NIC, chunks, notes, and timers.
//!
//! A path that is silent, although the sender probed it, is reset, so that its chunks can be transmitted on other
//! paths:
//!
//! 1. The sender resets its queue pair, and connects it again with the next PSN. It sends this PSN to the receiver.
//! 2. The receiver resets its queue pair, handles the queue pair's completions, and connects it again. From now on the
//!    queue pair drops every packet from before the reset as a duplicate. The receiver responds with the list of
//!    received chunks.
//! 3. From the response the sender learns which chunks of the path are lost. It then uses the path again.

use super::header::{Header, Kind};
use super::hooks::{AckView, ChunkView, View};
use super::note::{self, Note, Topic, WINDOW};
use super::record::{self, Record};
use super::sender::Room;
use super::{Channel, RECEIVE};
use crate::error::{Failure, HostError};
use rnic_transport::Time;
use rnic_transport::congestion::{AckSample, LossSignal};
use rnic_verbs::{Completion, Opcode, RecvRequest, Status, Transition, Verbs};

impl Channel {
    /// Handles all completions of the NIC.
    pub(super) fn look(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        let mut found = [Completion::BLANK; 32];
        loop {
            let count = nic.poll_cq(self.cq, &mut found)?;
            for completion in &found[..count] {
                if completion.qpn == self.mailbox.qpn {
                    if let Some(bytes) = self.mailbox.take(nic, completion)?
                        && let Some(note) = Note::from_bytes(&bytes)
                    {
                        self.on_note(nic, now, completion.time, &note)?;
                    }
                    continue;
                }
                let Some((is_outbound, path)) = self.by_qpn.get(&completion.qpn).copied() else { continue };
                match (is_outbound, completion.status) {
                    (true, Status::Success) => {}
                    (true, Status::LocalProtection) => {
                        self.end(nic, now, Status::LocalProtection, Failure::Request(Status::LocalProtection))?;
                    }
                    // Something else has stopped the queue pair.
                    (true, _) => self.reset_path(nic, path, now)?,
                    (false, Status::Success) => self.on_chunk(nic, path, now, completion)?,
                    (false, _) if completion.trimmed => self.on_trimmed(nic, path, completion),
                    // The sender gets no response to its probes of the path, and resets it.
                    (false, _) => {}
                }
            }
            if count < found.len() {
                return Ok(());
            }
        }
    }

    /// A chunk has arrived on an inbound queue pair.
    fn on_chunk(
        &mut self, nic: &mut dyn Verbs, path: u32, now: Time, completion: &Completion,
    ) -> Result<(), HostError> {
        // A completion from before a reset of the queue pair returns no receive, because the reset posted all again.
        let _ = nic.post_recv(completion.qpn, &RecvRequest { wr_id: RECEIVE, scatter: &[] });
        let Some(imm) = completion.imm.filter(|_| self.ended.is_none()) else { return Ok(()) };
        let header = Header::from_imm(imm, self.receiver.next());
        if header.connection != self.config.connection {
            return Ok(());
        }
        if header.kind == Kind::Probe {
            let probe = imm % (1 << 22);
            self.answers.push(Topic::Probed { path: path as u16, probe });
            return Ok(());
        }
        let is_record = header.kind == Kind::Record;
        if !self.receiver.receive(header.number, is_record) {
            self.counters.duplicates += 1;
        }
        self.counters.received += 1;
        self.marks.0 = self.marks.0.wrapping_add(1);
        self.marks.1 = self.marks.1.wrapping_add(u32::from(completion.marked));
        self.newest = Some((header.number, completion.time));
        let len = if is_record { 0 } else { completion.byte_len };
        let attempts = u32::from(header.kind == Kind::Retransmission);
        let shown = ChunkView { number: header.number, len, path, attempts };
        self.with_view(now, |hooks, view| hooks.on_receive(view, &shown));
        while let Some((number, is_record)) = self.receiver.advance() {
            if is_record {
                let mut bytes = [0; record::LEN];
                let at = (number % WINDOW) as usize * record::LEN;
                nic.read_memory(self.ring.id, at, &mut bytes)?;
                if let Some(record) = Record::from_bytes(&bytes) {
                    self.on_record(record, completion.time);
                }
            }
        }
        Ok(())
    }

    /// The NIC tells that a chunk has lost payload in a switch.
    fn on_trimmed(&mut self, nic: &mut dyn Verbs, path: u32, completion: &Completion) {
        let _ = nic.post_recv(completion.qpn, &RecvRequest { wr_id: RECEIVE, scatter: &[] });
        let Some(imm) = completion.imm.filter(|_| self.ended.is_none()) else { return };
        let header = Header::from_imm(imm, self.receiver.next());
        if header.connection == self.config.connection && header.kind != Kind::Probe {
            self.answers.push(Topic::Trimmed { path: path as u16, number: header.number });
        }
    }

    fn on_record(&mut self, record: Record, time: Time) {
        let (opcode, len, imm) = match record {
            Record::Receive { addr, rkey, len } => return self.sender.push_room(Room { addr, rkey, len }),
            Record::Written { len, imm } => (Opcode::RecvWithImmediate, len, Some(imm)),
            Record::Sent { len, imm } => (Opcode::Recv, len, imm),
        };
        if let Some(wr_id) = self.receives.pop_front() {
            self.finish(wr_id, Status::Success, opcode, len, imm, time);
        }
    }

    fn with_view(&mut self, now: Time, f: impl FnOnce(&mut dyn super::Hooks, &View<'_>)) {
        let random = self.random();
        let allowed = self.allowance();
        let view = View {
            now,
            chunk: self.chunk_length.get(),
            paths: &self.views,
            rate: allowed.and_then(|allowed| allowed.rate),
            window: allowed.and_then(|allowed| allowed.window),
            outstanding: self.sender.bytes,
            not_before: self.not_before,
            random,
        };
        f(self.hooks.as_mut(), &view);
    }

    fn on_note(&mut self, nic: &mut dyn Verbs, now: Time, time: Time, note: &Note) -> Result<(), HostError> {
        if let Topic::Close = note.topic {
            return self.end(nic, now, Status::WorkRequestFlushed, Failure::Peer);
        }
        if self.ended.is_some() {
            return self.send_note(nic, now, Topic::Close);
        }
        self.on_acknowledgement(now, time, note);
        if note.granted > self.granted {
            let bytes = note.granted - self.granted;
            self.granted = note.granted;
            self.with_view(now, |hooks, view| hooks.on_credit(view, bytes));
        }
        self.peer_demand = self.peer_demand.max(note.demand);
        match note.topic {
            Topic::Reset { path, generation, psn } => self.on_reset(nic, path.into(), generation, psn),
            Topic::Starved => {
                self.answers.push(Topic::State);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn on_acknowledgement(&mut self, now: Time, time: Time, note: &Note) {
        let Some(peer) = &mut self.peer else { return };
        let newest = note.newest.and_then(|(number, held)| Some((self.sender.chunk(number)?.departure, number, held)));
        let (mut acked, mut bytes, mut packets, mut sample) = (0, 0, 0, None);
        let (paths, least) = (&mut self.paths, self.config.timeout);
        let (shrinks, tolerance) = (self.config.shrink, self.config.loss_tolerance);
        let lengths = &mut self.chunk_length;
        let mut touched = Vec::new();
        let is_valid = self.sender.acknowledge(note.next, &note.bits, |number, path, len| {
            acked += 1;
            bytes += u64::from(len);
            if shrinks {
                lengths.sample(len, false, tolerance, peer.frames.mtu);
            }
            packets += peer.frames.packets(len.into());
            paths[path as usize].acked(len.into());
            if !touched.contains(&path) {
                touched.push(path);
            }
            if let Some((departure, _, held)) = newest.filter(|(_, newest, _)| *newest == number) {
                let rtt = departure.rtt(time).saturating_sub(Time::from_ns(held.into()));
                sample = Some((path, rtt));
            }
        });
        if !is_valid {
            return;
        }
        self.sender.bytes -= bytes;
        self.sender.packets -= packets;
        let mut lost = Vec::new();
        for path in &touched {
            let is_acked = |number| self.sender.is_acked(number);
            paths[*path as usize].heard(now, least, is_acked, |number| lost.push((*path, number)));
        }
        match note.topic {
            Topic::Trimmed { path, number } => {
                // Paths that share a queue pair are not told apart by the receiver, but by who transmitted the chunk.
                let of = self.sender.path_of(number).filter(|own| self.config.spread || *own == u32::from(path));
                if let Some(path) = of.filter(|path| paths[*path as usize].drop_chunk(number)) {
                    self.counters.trimmed += 1;
                    lost.push((path, number));
                    touched.push(path);
                    self.heard = now;
                }
            }
            Topic::Probed { path, probe } if u32::from(path) < self.config.paths => {
                let path = match self.config.spread {
                    true => (0..self.config.paths).find(|at| paths[*at as usize].awaits(probe)).unwrap_or_default(),
                    false => u32::from(path),
                };
                let is_acked = |number| self.sender.is_acked(number);
                paths[path as usize].answered(probe, now, least, is_acked, |number| lost.push((path, number)));
                touched.push(path);
                self.heard = now;
            }
            Topic::Ready { path, generation } => {
                let all = if self.config.spread { 0..self.config.paths } else { path.into()..u32::from(path) + 1 };
                for path in all {
                    let state = paths.get_mut(path as usize);
                    if let Some(state) = state.filter(|state| state.generation == generation && state.reset.is_some()) {
                        let missing = state.end_reset().into_iter().map(|(_, number)| number);
                        let missing = missing.filter(|number| !self.sender.is_acked(*number));
                        lost.extend(missing.map(|number| (path, number)));
                        touched.push(path);
                    }
                }
                self.heard = now;
            }
            _ => {}
        }
        let slot = self.rtt.get().unwrap_or(self.config.base_rtt);
        for (path, number) in &lost {
            let (len, attempts) = self.sender.chunk(*number).map_or((0, 0), |chunk| (chunk.to.len, chunk.attempts));
            paths[*path as usize].lost(len.into());
            if shrinks {
                lengths.sample(len, true, tolerance, peer.frames.mtu);
            }
            self.losses.back_off(attempts, now, slot, crate::link::mix(self.random ^ *number));
            self.sender.lose(*number, |len| peer.frames.packets(len));
        }
        if acked > 0 || self.sender.open() == 0 {
            self.heard = now;
        }
        if let Some((path, rtt)) = sample {
            paths[path as usize].sample(rtt);
            self.rtt.sample(rtt);
            self.counters.samples += 1;
        }
        if acked > 0 {
            let rtt = sample.map(|(_, rtt)| rtt).or(self.rtt.get()).unwrap_or(self.config.base_rtt);
            let in_flight = self.sender.packets as u32;
            let marked = self.counters.marked;
            self.counters.marked += match note.topic {
                Topic::Marks { received, marked } => {
                    let before = std::mem::replace(&mut self.told_marks, (received, marked));
                    let (received, marked) = (received.wrapping_sub(before.0), marked.wrapping_sub(before.1));
                    // The counts are the peer's, so they may be anything.
                    (u64::from(marked) * u64::from(acked) / u64::from(received).max(1)).min(acked.into())
                }
                _ => 0,
            };
            let share = (packets * (self.counters.marked - marked)).div_ceil(u64::from(acked));
            for (acked, marked) in [(share as u32, true), ((packets - share) as u32, false)] {
                if acked > 0 {
                    peer.law.on_ack(&AckSample { now, rtt, acked, in_flight, marked });
                }
            }
        }
        if self.losses.exceed(acked, lost.len() as u32, self.config.loss_tolerance) {
            peer.law.on_loss(now, LossSignal::Nack);
        }
        for path in touched {
            self.views[path as usize] = self.paths[path as usize].view();
        }
        if acked > 0 || !lost.is_empty() {
            let shown = AckView { acked, bytes, lost: lost.len() as u32, sample };
            self.with_view(now, |hooks, view| hooks.on_ack(view, &shown));
        }
    }

    /// The peer has reset its end of an inbound path.
    fn on_reset(&mut self, nic: &mut dyn Verbs, path: u32, generation: u32, psn: u32) -> Result<(), HostError> {
        let Some(own) = self.generations.get_mut(path as usize) else { return Ok(()) };
        if generation == own.wrapping_add(1) {
            *own = generation;
            nic.modify_qp(self.inbound[path as usize], Transition::Reset)?;
            self.join_inbound(nic, path, psn & 0xff_ffff)?;
        } else if generation != *own {
            return Ok(());
        }
        // The answer follows when all completions are polled, those from before the reset too.
        self.answers.push(Topic::Ready { path: path as u16, generation });
        Ok(())
    }

    /// Resets an outbound path.
    fn reset_path(&mut self, nic: &mut dyn Verbs, path: u32, now: Time) -> Result<(), HostError> {
        let state = &mut self.paths[path as usize];
        if state.reset.is_some() || self.ended.is_some() {
            return Ok(());
        }
        // All paths of a shared queue pair are reset together.
        let (first, all) = match self.config.spread {
            true => (0, 0..self.config.paths),
            false => (path, path..path + 1),
        };
        let psn = self.paths[first as usize].next_psn();
        for path in all {
            let state = &mut self.paths[path as usize];
            state.begin_reset(psn);
            // One note repeats the reset of all.
            state.deadline = (path == first).then_some(now);
            self.views[path as usize] = state.view();
        }
        self.path_deadline = Some(now);
        self.counters.resets += 1;
        nic.modify_qp(self.paths[first as usize].qpn, Transition::Reset)?;
        self.join_outbound(nic, first, psn)
    }

    /// Fires timers.
    pub(super) fn on_time(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        if let Some(peer) = &mut self.peer
            && peer.law.next_timer().is_some_and(|at| at <= now)
        {
            peer.law.on_timer(now);
        }
        if self.sender.open() > 0 && now >= self.heard + self.config.patience {
            let why = Failure::PeerSilent(self.config.patience);
            return self.end(nic, now, Status::TransportRetryExceeded, why);
        }
        if self.path_deadline.is_none_or(|at| at > now) {
            return Ok(());
        }
        for path in 0..self.config.paths {
            if self.paths[path as usize].deadline.is_some_and(|at| at <= now) {
                self.on_silence(nic, path, now)?;
                self.views[path as usize] = self.paths[path as usize].view();
            }
        }
        self.path_deadline = self.paths.iter().filter_map(|path| path.deadline).min();
        Ok(())
    }

    /// A path is silent: it is probed; after many probes it is reset.
    fn on_silence(&mut self, nic: &mut dyn Verbs, path: u32, now: Time) -> Result<(), HostError> {
        let least = self.config.timeout;
        let state = &mut self.paths[path as usize];
        if state.reset.is_none() && state.silent >= self.config.path_probes {
            self.reset_path(nic, path, now)?;
            if self.paths[path as usize].deadline.is_none() {
                return Ok(()); // the first path repeats the reset
            }
        }
        let state = &mut self.paths[path as usize];
        let generation = state.generation;
        if let Some(psn) = state.reset {
            state.deadline = Some(now + least);
            return self.send_note(nic, now, Topic::Reset { path: path as u16, generation, psn });
        }
        state.deadline = Some(now + least);
        // The first probe finds out what was lost. Only a path that does not answer is a sign of congestion.
        if state.silent == 1
            && let Some(peer) = &mut self.peer
        {
            peer.law.on_loss(now, LossSignal::Timeout);
        }
        self.probe(nic, path, now)?;
        Ok(())
    }

    /// While this end waits for credit, sends the peer the number of bytes that it wants to transmit.
    pub(super) fn request_credit(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        if !self.is_starved {
            self.next_request = None;
            return Ok(());
        }
        let demand = self.transmitted + self.sender.waiting;
        if demand != self.told_demand || self.next_request.is_none_or(|at| at <= now) {
            self.told_demand = demand;
            self.next_request = Some(now + self.config.timeout);
            self.send_note(nic, now, Topic::Starved)?;
        }
        Ok(())
    }

    /// Acknowledges what arrived, and answers probes and resets.
    pub(super) fn answer(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        let answers = std::mem::take(&mut self.answers);
        if answers.is_empty() && self.newest.is_some() {
            let (received, marked) = self.marks;
            let topic = if self.config.ecn { Topic::Marks { received, marked } } else { Topic::State };
            self.send_note(nic, now, topic)?;
        }
        answers.into_iter().try_for_each(|topic| self.send_note(nic, now, topic))
    }

    pub(super) fn send_note(&mut self, nic: &mut dyn Verbs, now: Time, topic: Topic) -> Result<(), HostError> {
        let held = |time: Time| u32::try_from(now.saturating_sub(time).as_ps() / 1_000).unwrap_or(u32::MAX);
        let note = Note {
            topic,
            next: self.receiver.next(),
            bits: *self.receiver.bits(),
            newest: self.newest.take().map(|(number, time)| (number, held(time))),
            granted: self.own_granted,
            demand: self.transmitted + self.sender.waiting,
        };
        self.counters.notes += 1;
        let bytes: [u8; note::LEN] = note.to_bytes();
        self.mailbox.send(nic, &bytes)
    }

    /// Ends the channel: the oldest request completes with `status`, the other requests and all receives complete as
    /// flushed.
    pub(super) fn end(
        &mut self, nic: &mut dyn Verbs, now: Time, status: Status, why: Failure,
    ) -> Result<(), HostError> {
        if self.ended.is_some() {
            return Ok(());
        }
        // Requests that the last acknowledgement completed have succeeded.
        self.complete(now);
        self.ended = Some(why);
        for qpn in self.by_qpn.keys() {
            nic.modify_qp(*qpn, Transition::Error)?;
        }
        let mut status = status;
        while let Some(request) = self.sender.abandon() {
            self.finish(request.wr_id, status, request.op.completion(), 0, None, now);
            status = Status::WorkRequestFlushed;
        }
        while let Some(wr_id) = self.receives.pop_front() {
            self.finish(wr_id, Status::WorkRequestFlushed, Opcode::Recv, 0, None, now);
        }
        if why != Failure::Peer && self.peer.is_some() {
            self.send_note(nic, now, Topic::Close)?;
        }
        Ok(())
    }
}
