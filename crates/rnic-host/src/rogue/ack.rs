//! Over UC: handles parts, acknowledgements and probes that arrive, and decides when to send acknowledgements and
//! probes. The module `counted` describes the rules.

use super::Channel;
use super::counted;
use super::recovery::Phase;
use super::sync::Message;
use crate::error::HostError;
use rnic_transport::Time;
use rnic_transport::congestion::LossSignal;
use rnic_verbs::{Completion, Opcode, Status, Verbs};

/// Minimum time until a probe, besides round-trip times: software may be late.
const PROBE: Time = Time::from_us(100);

impl Channel {
    /// A part arrived through this end's primary, or through the old primary, which is being drained.
    pub(super) fn on_counted(
        &mut self, nic: &mut dyn Verbs, now: Time, completion: &Completion,
    ) -> Result<(), HostError> {
        let slot = if self.phase == Phase::Draining { self.epoch + 1 } else { self.epoch } as usize % 2;
        let Some(counted) = &mut self.counted else { return Ok(()) };
        if matches!(self.phase, Phase::Ended(_)) || completion.qpn != self.qpns[slot] {
            return Ok(());
        }
        counted.posted = counted.posted.saturating_sub(1);
        let was_complete = !counted.is_missing;
        let is_complete = counted.arrive(completion.imm);
        if !is_complete && was_complete {
            self.lost(nic, now)?;
        }
        if is_complete { self.accept(nic, completion.time, true) } else { Ok(()) }
    }

    /// A part of the peer is missing.
    fn lost(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        match self.phase {
            Phase::Active => self.leave(nic, now, self.epoch + 1, (None, None)),
            Phase::Waiting { .. } => {
                self.recovery.failed_again = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Accepts the parts that have arrived and need no more receives than the application has posted, and acknowledges
    /// them. `is_prompt`: the last of these parts has just arrived.
    pub(super) fn accept(&mut self, nic: &mut dyn Verbs, time: Time, is_prompt: bool) -> Result<(), HostError> {
        let mut asks = false;
        while let Some(counted) = &mut self.counted
            && let Some((mark, message)) = counted.accept(!self.receives.is_empty())
        {
            asks |= mark.asks;
            if let Some(imm) = message
                && let Some(receive) = self.receives.pop_front()
            {
                self.received += 1;
                let (status, opcode) = (Status::Success, Opcode::RecvWithImmediate);
                self.finish(receive.wr_id, status, opcode, 0, Some(imm), None, time);
            }
        }
        // While the old primary is drained, the epoch is already the next one.
        if !matches!(self.phase, Phase::Active | Phase::Waiting { .. }) {
            return Ok(());
        }
        self.post_receives(nic)?;
        if asks { self.acknowledge(nic, is_prompt) } else { Ok(()) }
    }

    fn acknowledge(&mut self, nic: &mut dyn Verbs, is_prompt: bool) -> Result<(), HostError> {
        let Some(counted) = &self.counted else { return Ok(()) };
        let ack = Message::Ack { epoch: self.epoch, accepted: counted.accepted as u32, is_prompt };
        self.mailbox.send(nic, &ack.to_bytes())
    }

    /// The number of a part that the peer names by its low 32 bits; `None` if no such part is outstanding.
    pub(super) fn widen(&self, low: u32) -> Option<u64> {
        let base = self.queue.oldest().0.map_or(self.next_part, |part| part.number);
        Some(counted::widen(base, low)).filter(|number| *number <= self.next_part)
    }

    /// The peer has accepted all parts before `accepted`. `arrived` is the time of the acknowledgement.
    pub(super) fn on_ack(&mut self, now: Time, accepted: u32, is_prompt: bool, arrived: Time) {
        let Some(accepted) = self.widen(accepted).filter(|_| matches!(self.phase, Phase::Active)) else { return };
        if let Some(counted) = &mut self.counted {
            counted.answer_at(now);
        }
        let (mut last, mut acked) = (None, 0_u32);
        while let Some(part) = accepted.checked_sub(1).and_then(|number| self.queue.done(number)) {
            self.fruitless = 0;
            acked += part.packets;
            if let Some(pacing) = &mut self.pacing {
                pacing.done(&part);
            }
            last = Some(part);
        }
        if let Some(part) = last.filter(|part| part.asks && is_prompt)
            && let Some(pacing) = &mut self.pacing
        {
            pacing.sample(&part, acked, arrived);
            self.counters.samples += 1;
        }
        self.complete(arrived);
    }

    /// The peer has not received an acknowledgement for a long time, and has sent all parts before `before`.
    pub(super) fn on_probe(&mut self, nic: &mut dyn Verbs, now: Time, before: u32) -> Result<(), HostError> {
        let Some(counted) = &self.counted else { return Ok(()) };
        match self.phase {
            Phase::Active | Phase::Waiting { .. } => {}
            _ => return Ok(()),
        }
        let missing = before.wrapping_sub(counted.arrived_to() as u32);
        // Everything that this end's NIC has received is handled: the probe was polled from the same queue.
        if (1..=counted::PARTS).contains(&missing) { self.lost(nic, now) } else { self.acknowledge(nic, false) }
    }

    /// Time after which a probe requests the acknowledgement of a part. It doubles with each probe without a response.
    fn timeout(&self, probes: u8) -> Time {
        let rtt = self.rtt().unwrap_or(self.config.base_rtt);
        ((rtt * 4 + PROBE) * (1_u64 << probes.min(8))).min(Time::from_ns(4_096 << self.config.timeout))
    }

    /// When the peer is asked whether the oldest part has arrived.
    pub(super) fn probe_time(&self) -> Option<Time> {
        let counted = self.counted.as_ref().filter(|_| matches!(self.phase, Phase::Active))?;
        let oldest = self.queue.oldest().0?;
        Some(oldest.departure.left.max(counted.answered).saturating_add(self.timeout(counted.probes)))
    }

    /// Sends a probe if one is due. After too many probes without a response, this end leaves the epoch.
    pub(super) fn probe(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        if self.probe_time().is_none_or(|at| at > now) {
            return Ok(());
        }
        let timeout = self.timeout(self.counted.as_ref().map_or(0, |counted| counted.probes));
        let due = |left: Time| left.saturating_add(timeout) <= now;
        let last = self.queue.flight().take_while(|part| due(part.departure.left)).last().map(|part| part.number);
        let (Some(last), Some(counted)) = (last, &mut self.counted) else { return Ok(()) };
        if counted.probes > self.config.retry_count {
            return self.leave(nic, now, self.epoch + 1, (None, Some(LossSignal::Timeout)));
        }
        counted.probes += 1;
        counted.answered = now;
        let probe = Message::Probe { epoch: self.epoch, before: (last + 1) as u32 };
        self.mailbox.send(nic, &probe.to_bytes())
    }
}
