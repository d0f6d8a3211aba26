//! The sender's state of a path: which chunks were transmitted on it, and when the last acknowledgement for it arrived.
//!
//! An unreliable connection delivers in order: its receiver drops a packet with a PSN before the expected one. So when
//! a chunk is acknowledged, every chunk that was transmitted on the same path before it has either arrived as well or
//! never will. Loss detection is exact, and no chunk is ever retransmitted while an earlier copy may still arrive. This
//! matters because the NIC places data before the software sees it: a late copy of a Write could overwrite memory that
//! the application uses for something else.

use super::hooks::PathView;
use crate::rtt::Smoothed;
use rnic_transport::{Psn, Time};
use rnic_verbs::Qpn;
use std::collections::VecDeque;

/// A probe that was sent on a path.
#[derive(Clone, Copy, Debug)]
struct Probe {
    id: u32,
    /// Number of chunks that were transmitted on the path before the probe.
    after: u64,
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) qpn: Qpn,
    /// PSN of the next packet.
    psn: Psn,
    /// Chunks that were transmitted and are not known to be received or lost: index on the path, and chunk number.
    flight: VecDeque<(u64, u64)>,
    /// Number of chunks transmitted on the path.
    sent: u64,
    /// Requests since the last signalled one.
    pub(super) unsignaled: u32,
    rtt: Smoothed,
    outstanding: u64,
    /// The time at which the path is probed, or its reset repeated; `None` if no chunk is outstanding on it.
    pub(super) deadline: Option<Time>,
    /// Probes since the last sign of the path.
    pub(super) silent: u32,
    probe: Option<Probe>,
    /// The PSN with which the path continues, while it is being reset.
    pub(super) reset: Option<u32>,
    pub(super) generation: u32,
}

impl Path {
    pub(super) fn new(qpn: Qpn, psn: u32) -> Path {
        Path {
            qpn,
            psn: Psn::new(psn),
            flight: VecDeque::new(),
            sent: 0,
            unsignaled: 0,
            rtt: Smoothed::default(),
            outstanding: 0,
            deadline: None,
            silent: 0,
            probe: None,
            reset: None,
            generation: 0,
        }
    }

    pub(super) fn view(&self) -> PathView {
        let is_usable = self.silent == 0 && self.reset.is_none();
        PathView { rtt: self.rtt.get(), outstanding: self.outstanding, is_usable }
    }

    /// The time after which the path is probed: twice the round-trip time, at least `least`, doubled by every probe
    /// without a response.
    pub(super) fn timeout(&self, least: Time) -> Time {
        let span = self.rtt.get().map_or(least, |rtt| least.max(rtt * 2));
        span * (1 << self.silent.min(6))
    }

    /// The queue pair of the path has sent `packets` packets, on this path or, if several paths share the queue pair,
    /// on another path.
    pub(super) fn advance(&mut self, packets: u64) {
        self.psn = self.psn.plus(packets as u32);
    }

    /// Chunk `number` with `bytes` bytes was transmitted.
    pub(super) fn transmitted(&mut self, number: u64, bytes: u64, now: Time, least: Time) {
        self.flight.push_back((self.sent, number));
        self.sent += 1;
        self.outstanding += bytes;
        if self.deadline.is_none() {
            self.deadline = Some(now + self.timeout(least));
        }
    }

    /// A probe was sent.
    pub(super) fn probed(&mut self, id: u32, now: Time, least: Time) {
        self.probe = Some(Probe { id, after: self.sent });
        self.silent += 1;
        self.deadline = Some(now + self.timeout(least));
    }

    /// A chunk with `bytes` bytes on the path was acknowledged.
    pub(super) fn acked(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
    }

    /// The peer has received the chunk that has this index on the path. Calls `lost` for each earlier chunk of the path
    /// for which `is_acked` is false.
    pub(super) fn heard(&mut self, now: Time, least: Time, is_acked: impl Fn(u64) -> bool, mut lost: impl FnMut(u64)) {
        if let Some(last) = self.flight.iter().rposition(|(_, number)| is_acked(*number)) {
            for (_, number) in self.flight.drain(..=last).filter(|(_, number)| !is_acked(*number)) {
                lost(number);
            }
        }
        self.alive(now, least);
    }

    /// The peer has received the probe `id`: every chunk that was transmitted before it and for which `is_acked` is
    /// false is lost.
    pub(super) fn answered(
        &mut self, id: u32, now: Time, least: Time, is_acked: impl Fn(u64) -> bool, mut lost: impl FnMut(u64),
    ) {
        let Some(probe) = self.probe.filter(|probe| probe.id == id) else { return };
        while let Some((_, number)) = self.flight.pop_front_if(|(index, _)| *index < probe.after) {
            if !is_acked(number) {
                lost(number);
            }
        }
        self.probe = None;
        self.alive(now, least);
    }

    /// Whether this probe was sent on the path, and not answered.
    pub(super) fn awaits(&self, id: u32) -> bool {
        self.probe.is_some_and(|probe| probe.id == id)
    }

    /// A chunk of the path counts as lost for another reason than the arrival of a later chunk of the path. Returns
    /// whether it was outstanding.
    pub(super) fn drop_chunk(&mut self, number: u64) -> bool {
        let at = self.flight.iter().position(|(_, own)| *own == number);
        at.and_then(|at| self.flight.remove(at)).is_some()
    }

    fn alive(&mut self, now: Time, least: Time) {
        if self.reset.is_some() {
            // The deadline is that of the reset.
            return;
        }
        self.silent = 0;
        let waits = !self.flight.is_empty();
        if !waits {
            self.outstanding = 0;
        }
        self.deadline = waits.then(|| now + self.timeout(least));
    }

    pub(super) fn lost(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
    }

    pub(super) fn sample(&mut self, rtt: Time) {
        self.rtt.sample(rtt);
    }

    /// This end of the path was reset. It continues with `psn`, so that the receiver drops all packets from before the
    /// reset as duplicates.
    pub(super) fn begin_reset(&mut self, psn: u32) {
        self.generation += 1;
        self.probe = None;
        self.unsignaled = 0;
        self.reset = Some(psn);
    }

    /// The PSN of the queue pair's next packet.
    pub(super) fn next_psn(&self) -> u32 {
        self.psn.value()
    }

    /// The peer has reset its end: no chunk that was transmitted before the reset can arrive any more. Returns the
    /// chunks that were not known to be received or lost.
    pub(super) fn end_reset(&mut self) -> VecDeque<(u64, u64)> {
        self.reset = None;
        self.silent = 0;
        self.deadline = None;
        self.outstanding = 0;
        std::mem::take(&mut self.flight)
    }
}
