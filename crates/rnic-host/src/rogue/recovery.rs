//! Completions of the NIC, and the recovery when a queue pair fails.
//!
//! A channel has two connections for requests, the primary and the shadow, and an unreliable connection for the
//! messages of the two layers. Over UC a lost part has the same effect as a failed queue pair (`counted`). An epoch is
//! the time in which one of the two is the primary: in epoch e it is queue pair `e % 2`. An end leaves an epoch when
//! its primary fails, or when it learns that the peer has left the epoch:
//!
//! 1. It moves the primary into the error state and polls until all its work requests are completed. From then on no
//!    request of either end is executed through this queue pair, and the count of received messages is final.
//! 2. It posts its receives to the queue pair of the new epoch, and sends a Sync message with the count until the
//!    peer's Sync message arrives.
//! 3. When it has the peer's message, both ends of the old queue pair are dead. It decides by the peer's count which
//!    parts are done and which are replayed ([`verdicts`](super::verdicts)), and posts to the new primary.
//! 4. It resets the old queue pair and connects it again with other first PSNs, as the shadow.
//!
//! The order of steps 3 and 4 matters. A responder acknowledges a request with a PSN before the expected one, because
//! the request looks like a retransmission. If one end were connected with new PSNs while the other still sent requests
//! with the old ones, these requests could be acknowledged although they were never executed. So an end is connected
//! again only when the other end is known to be dead.

use super::sync::Message;
use super::{Channel, RECEIVE};
use crate::error::{Failure, HostError};
use crate::link::{self, Ends};
use rnic_transport::Time;
use rnic_transport::congestion::LossSignal;
use rnic_verbs::{Completion, Opcode, SendAttributes, Status, Transition, Verbs};

/// State of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Not connected.
    Open,
    /// Requests are posted to the primary.
    Active,
    /// The old primary is in the error state, and its work requests are being completed.
    Draining,
    /// This end has sent its Sync message, and waits for the peer's Sync message.
    Waiting {
        /// When the Sync message is retransmitted.
        repeat: Time,
    },
    /// The channel has ended.
    Ended(Failure),
}

/// State of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Recovery {
    /// When this end left the previous epoch.
    began: Time,
    /// The peer's count of received messages, from its Sync message of this epoch.
    peer_received: Option<u64>,
    /// The count in this end's Sync message of this epoch.
    own_received: u64,
    /// The queue pair of this epoch failed before the epoch began.
    pub(super) failed_again: bool,
}

impl Channel {
    /// Connects queue pair `epoch % 2`, which is in state RESET, for this epoch.
    pub(super) fn join(&mut self, nic: &mut dyn Verbs, epoch: u32) -> Result<(), HostError> {
        let Some(peer) = self.peer else { return Err(HostError::NotConnected) };
        let slot = epoch as usize % 2;
        let (send_psn, recv_psn) = match &mut self.counted {
            Some(counted) => counted.connect(slot),
            None => (link::first_psn(self.address().salt, epoch), link::first_psn(peer.address.salt, epoch)),
        };
        let ends = Ends { qpn: self.qpns[slot], peer_qpn: peer.address.qpns[slot], send_psn, recv_psn };
        let attributes = SendAttributes {
            send_psn: ends.send_psn,
            timeout: self.config.timeout,
            retry_count: self.config.retry_count,
            rnr_retry: 7,
            max_rd_atomic: self.config.max_rd_atomic,
            ..SendAttributes::default()
        };
        link::connect(nic, &peer.link, ends, self.config.access, attributes, 1, |_| Ok(()))?;
        self.connected[slot] = epoch;
        Ok(())
    }

    fn rejoin(&mut self, nic: &mut dyn Verbs, epoch: u32) -> Result<(), HostError> {
        nic.modify_qp(self.qpns[epoch as usize % 2], Transition::Reset)?;
        self.join(nic, epoch)
    }

    /// Handles all completions of the NIC.
    pub(super) fn look(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        let mut found = [Completion::BLANK; 16];
        loop {
            let count = nic.poll_cq(self.cq, &mut found)?;
            for completion in &found[..count] {
                if completion.qpn == self.mailbox.qpn {
                    if let Some(bytes) = self.mailbox.take(nic, completion)?
                        && let Some(message) = Message::from_bytes(&bytes)
                    {
                        self.on_message(nic, now, message, completion.time)?;
                    }
                } else if completion.wr_id & RECEIVE != 0 {
                    self.on_receive(nic, now, completion)?;
                } else {
                    self.on_part(nic, now, completion)?;
                }
            }
            if count < found.len() {
                return Ok(());
            }
        }
    }

    fn on_part(&mut self, nic: &mut dyn Verbs, now: Time, completion: &Completion) -> Result<(), HostError> {
        let success = completion.status == Status::Success;
        // Over UC a completion only says that the packets have left.
        if success && self.counted.is_some() {
            return Ok(());
        }
        // Requests before the first failed one have succeeded, signalled or not. Those after it are flushed.
        let number = match success {
            true => Some(completion.wr_id),
            false => completion.wr_id.checked_sub(1).filter(|_| !self.has_failed && self.counted.is_none()),
        };
        self.has_failed |= !success;
        let (mut last, mut acked) = (None, 0_u32);
        while let Some(part) = number.and_then(|number| self.queue.done(number)) {
            self.fruitless = 0;
            acked += part.packets;
            if let Some(pacing) = self.pacing.as_mut().filter(|_| matches!(self.phase, Phase::Active)) {
                pacing.done(&part);
            }
            last = Some(part);
        }
        if let Some(part) = last.filter(|_| success && matches!(self.phase, Phase::Active))
            && let Some(pacing) = &mut self.pacing
        {
            pacing.sample(&part, acked, completion.time);
            self.counters.samples += 1;
        }
        self.complete(completion.time);
        match completion.status {
            Status::Success => Ok(()),
            Status::TransportRetryExceeded | Status::WorkRequestFlushed => self.failed(nic, now, completion),
            status => self.end(nic, now, status, Failure::Request(status)),
        }
    }

    fn on_receive(&mut self, nic: &mut dyn Verbs, now: Time, completion: &Completion) -> Result<(), HostError> {
        match completion.status {
            Status::WorkRequestFlushed => return self.failed(nic, now, completion),
            Status::Success => {}
            // The receive is at fault, or the message that used it was malformed.
            status => {
                if let Some(receive) = self.take_receive(completion) {
                    self.finish(receive, status, Opcode::Recv, 0, None, None, completion.time);
                }
                return self.end(nic, now, Status::WorkRequestFlushed, Failure::Request(status));
            }
        }
        if self.counted.is_some() {
            return self.on_counted(nic, now, completion);
        }
        let Some(receive) = self.take_receive(completion) else { return Ok(()) };
        self.received += 1;
        // Of a chunked Write with Immediate only the last chunk's length is known.
        let byte_len = if completion.opcode == Opcode::RecvWithImmediate { 0 } else { completion.byte_len };
        let Completion { status, opcode, imm, invalidated, time, .. } = *completion;
        self.finish(receive, status, opcode, byte_len, imm, invalidated, time);
        if matches!(self.phase, Phase::Active | Phase::Waiting { .. }) {
            self.post_receives(nic)?;
        }
        Ok(())
    }

    /// Removes the oldest receive if the completion belongs to it; returns its work request ID.
    fn take_receive(&mut self, completion: &Completion) -> Option<u64> {
        if completion.wr_id & !RECEIVE != self.first_receive {
            return None;
        }
        let receive = self.receives.pop_front()?;
        self.first_receive += 1;
        self.next_receive = self.next_receive.max(self.first_receive);
        Some(receive.wr_id)
    }

    /// A queue pair has failed. If it is the primary, this end leaves the epoch.
    fn failed(&mut self, nic: &mut dyn Verbs, now: Time, completion: &Completion) -> Result<(), HostError> {
        match self.phase {
            Phase::Active if completion.qpn == self.primary() => {
                self.leave(nic, now, self.epoch + 1, (None, Some(LossSignal::Timeout)))
            }
            Phase::Waiting { .. } if completion.qpn == self.primary() => {
                self.recovery.failed_again = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Leaves all epochs before `epoch`. If the peer has left the epochs first, its count is known. The signal is
    /// passed to the congestion control if requests of this end were lost.
    pub(super) fn leave(
        &mut self, nic: &mut dyn Verbs, now: Time, epoch: u32, (peer_received, loss): (Option<u64>, Option<LossSignal>),
    ) -> Result<(), HostError> {
        nic.modify_qp(self.primary(), Transition::Error)?;
        if matches!(self.phase, Phase::Active) {
            // A side without requests cannot make progress that it sees.
            self.fruitless = if self.queue.len() > 0 { self.fruitless + 1 } else { 0 };
            if let Some(pacing) = &mut self.pacing {
                pacing.failed(now, loss);
            }
        }
        self.epoch = epoch;
        self.phase = Phase::Draining;
        self.recovery = Recovery { began: now, peer_received, own_received: 0, failed_again: false };
        Ok(())
    }

    fn on_message(&mut self, nic: &mut dyn Verbs, now: Time, message: Message, arrived: Time) -> Result<(), HostError> {
        if matches!(self.phase, Phase::Ended(_)) {
            // The answer to Close would be Close, and so on.
            let is_close = message == Message::Close;
            return if is_close { Ok(()) } else { self.mailbox.send(nic, &Message::Close.to_bytes()) };
        }
        match (message, &mut self.counted) {
            (Message::Close, _) => self.end(nic, now, Status::WorkRequestFlushed, Failure::Peer),
            (Message::Sync { epoch, received, is_answer }, None) => {
                self.on_sync(nic, now, (epoch, is_answer), Some(received), Some(LossSignal::Timeout))
            }
            (Message::Counted { epoch, received, psns, is_answer }, Some(counted)) => {
                // Later messages of this epoch repeat the PSNs.
                if epoch == self.epoch.wrapping_add(1) || epoch == self.epoch {
                    counted.learn(psns);
                }
                let received = self.widen(received);
                let loss = self.queue.oldest().0.map(|_| LossSignal::Nack);
                self.on_sync(nic, now, (epoch, is_answer), received, loss)
            }
            (Message::Ack { epoch, accepted, is_prompt }, Some(_)) if epoch == self.epoch => {
                self.on_ack(now, accepted, is_prompt, arrived);
                Ok(())
            }
            (Message::Probe { epoch, before }, Some(_)) if epoch == self.epoch => self.on_probe(nic, now, before),
            // A late message of an earlier epoch, or of a peer with another service.
            _ => Ok(()),
        }
    }

    fn on_sync(
        &mut self, nic: &mut dyn Verbs, now: Time, (epoch, is_answer): (u32, bool), received: Option<u64>,
        loss: Option<LossSignal>,
    ) -> Result<(), HostError> {
        match self.phase {
            // The peer has begun the next epoch. It cannot be further ahead, because it needs a message of this end for
            // each epoch.
            _ if epoch == self.epoch.wrapping_add(1) && received.is_some() => {
                self.leave(nic, now, epoch, (received, loss))
            }
            Phase::Draining | Phase::Waiting { .. } if epoch == self.epoch => {
                self.recovery.peer_received = received.or(self.recovery.peer_received);
                Ok(())
            }
            // The peer still waits for this end's message, which was lost. Over UC the count in that message may be old
            // by now.
            Phase::Active if epoch == self.epoch && !is_answer && epoch > 0 => self.send_sync(nic, true),
            _ => Ok(()),
        }
    }

    fn send_sync(&mut self, nic: &mut dyn Verbs, is_answer: bool) -> Result<(), HostError> {
        let (epoch, received) = (self.epoch, self.recovery.own_received);
        let sync = match &self.counted {
            None => Message::Sync { epoch, received, is_answer },
            Some(counted) => {
                let psns = counted.announced(epoch);
                Message::Counted { epoch, received: received as u32, psns, is_answer }
            }
        };
        self.mailbox.send(nic, &sync.to_bytes())
    }

    /// Continues a recovery.
    pub(super) fn recover(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        if self.phase == Phase::Draining && self.is_drained(nic, now)? {
            if self.connected[self.epoch as usize % 2] != self.epoch {
                // The peer's message says that its end of this queue pair is dead.
                self.rejoin(nic, self.epoch)?;
            }
            self.next_receive = self.first_receive;
            if let Some(counted) = &mut self.counted {
                counted.switch(now);
            }
            self.post_receives(nic)?;
            self.recovery.own_received = self.counted.as_ref().map_or(self.received, |counted| counted.accepted);
            self.send_sync(nic, self.recovery.peer_received.is_some())?;
            self.phase = Phase::Waiting { repeat: now + self.config.sync_interval };
        }
        if let Phase::Waiting { repeat } = self.phase {
            if let Some(received) = self.recovery.peer_received {
                return self.activate(nic, now, received);
            }
            let silence = now.saturating_sub(self.recovery.began);
            if silence >= self.config.patience {
                let why = Failure::PeerSilent(self.config.patience);
                return self.end(nic, now, Status::TransportRetryExceeded, why);
            }
            if now >= repeat {
                self.send_sync(nic, false)?;
                self.phase = Phase::Waiting { repeat: now + self.config.sync_interval };
            }
        }
        Ok(())
    }

    /// Whether all work requests of the old primary are completed and polled.
    fn is_drained(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<bool, HostError> {
        let old = nic.query_qp(self.qpns[(self.epoch as usize + 1) % 2])?;
        if old.sends > 0 || old.receives > 0 {
            return Ok(false);
        }
        self.look(nic, now)?;
        Ok(self.phase == Phase::Draining)
    }

    /// Both ends of the old queue pair are dead: begins the epoch.
    fn activate(&mut self, nic: &mut dyn Verbs, now: Time, received: u64) -> Result<(), HostError> {
        self.counters.recoveries += 1;
        self.unsignaled = (0, 0);
        self.has_failed = false;
        let recovered = match &mut self.counted {
            None => self.queue.recover(received),
            Some(counted) => {
                counted.answer_at(now);
                self.next_part = received;
                Ok(self.queue.recover_counted(received))
            }
        };
        let Ok((settled, replayed)) = recovered else {
            self.complete(now);
            return self.end(nic, now, Status::TransportRetryExceeded, Failure::AtomicUnknown);
        };
        self.counters.settled += settled;
        self.counters.replayed += replayed;
        if self.counted.is_some() && settled > 0 {
            self.fruitless = 0;
        }
        self.complete(now);
        self.phase = Phase::Active;
        self.rejoin(nic, self.epoch + 1)?;
        if self.fruitless > self.config.max_recoveries {
            let why = Failure::NoProgress(self.config.max_recoveries);
            return self.end(nic, now, Status::TransportRetryExceeded, why);
        }
        // The rate limit belongs to the queue pair.
        let (primary, Some(pacing)) = (self.primary(), &mut self.pacing) else { return Ok(()) };
        pacing.set_rate(now, nic.set_rate(primary, pacing.allowance().rate)?, self.queue.flight());
        if self.recovery.failed_again {
            return self.leave(nic, now, self.epoch + 1, (None, None));
        }
        Ok(())
    }

    /// Ends the channel: the oldest request completes with `status`, the other requests and all receives complete as
    /// flushed.
    pub(super) fn end(
        &mut self, nic: &mut dyn Verbs, now: Time, status: Status, why: Failure,
    ) -> Result<(), HostError> {
        if matches!(self.phase, Phase::Ended(_)) {
            return Ok(());
        }
        self.phase = Phase::Ended(why);
        for qpn in self.qpns {
            nic.modify_qp(qpn, Transition::Error)?;
        }
        let mut status = status;
        while let Some(request) = self.queue.abandon() {
            let opcode = request.op.completion();
            self.finish(request.wr_id, status, opcode, 0, None, None, now);
            status = Status::WorkRequestFlushed;
        }
        while let Some(receive) = self.receives.pop_front() {
            self.finish(receive.wr_id, Status::WorkRequestFlushed, Opcode::Recv, 0, None, None, now);
        }
        if why != Failure::Peer && self.peer.is_some() {
            self.mailbox.send(nic, &Message::Close.to_bytes())?;
        }
        Ok(())
    }

    /// When the recovery needs [`Channel::progress`] next.
    pub(super) fn recovery_time(&self) -> Option<Time> {
        match self.phase {
            Phase::Draining => Some(self.recovery.began),
            Phase::Waiting { repeat } => Some(repeat.min(self.recovery.began + self.config.patience)),
            _ => None,
        }
    }
}
