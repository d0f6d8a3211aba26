//! A NIC as the software of its host sees it: the [`Verbs`] of a device, with the latencies of the bus between them.
//!
//! A request reaches the NIC after the latency of its doorbell and of the NIC's reads from memory. Polling software
//! sees a completion some time after the completion's timestamp. A change of a queue pair's state is a command that the
//! software waits for; it takes longer than both, so it applies to all requests before it, and the software sees all
//! completions before it.

use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, Completion, CqId, Data, Device, DeviceInfo, Event, Extras, ForeignMemory, MrId, MrInfo, Opcode, Pd, QpInfo,
    QpInit, Qpn, RecvRequest, SendFlags, SendOp, SendRequest, Sge, Transition, Verbs, VerbsError,
};
use std::collections::VecDeque;

/// Latencies and granularities of a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NicTiming {
    /// Time from posting a request until the NIC can send its first packet.
    pub(crate) post: Time,
    /// Time from the timestamp of a completion until software sees it.
    pub(crate) completion: Time,
    /// Length of a full frame, and of the gap after it, in bytes.
    pub(crate) frame: (u32, u32),
    /// Step of rate limits.
    pub(crate) rate_step: BitRate,
    /// Step of timestamps; zero for exact ones.
    pub(crate) time_step: Time,
    /// CPU time for posting a request, with the layer's work for it, and for taking a completion.
    pub(crate) costs: (Time, Time),
}

/// CPU time that the software of a host has spent: for sending, and for receiving.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Spent {
    pub(super) send: Time,
    pub(super) receive: Time,
}

impl Spent {
    pub(super) fn total(&self) -> Time {
        self.send + self.receive
    }
}

/// The data of a posted request: slices of memory, or a copy of inline data.
enum Payload {
    Gather(Vec<Sge>),
    Inline(Vec<u8>),
}

/// A request on its way to the NIC.
pub(super) struct Posted {
    pub(super) due: Time,
    pub(super) qpn: Qpn,
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    payload: Payload,
    /// Chooses the path of the request, if its queue pair spreads requests over paths.
    entropy: Option<u16>,
}

impl Posted {
    /// Hands the request to the NIC.
    pub(super) fn post(&self, device: &mut Device) -> Result<(), VerbsError> {
        let data = match &self.payload {
            Payload::Gather(sges) => Data::Gather(sges),
            Payload::Inline(bytes) => Data::Inline(bytes),
        };
        let request = SendRequest { wr_id: self.wr_id, op: self.op, data, flags: self.flags };
        match self.entropy {
            None => device.post_send(self.qpn, &request),
            Some(entropy) => device.post_spread(self.qpn, &request, entropy),
        }
    }
}

/// Completions of one channel that its software has not seen, and the channel's objects of the NIC.
#[derive(Default)]
pub(super) struct Arrived {
    cq: Option<CqId>,
    queue: VecDeque<Completion>,
    /// Queue pairs that the channel has created.
    pub(super) qpns: Vec<Qpn>,
}

impl Arrived {
    /// Takes the completions that the NIC has written.
    pub(super) fn fetch(&mut self, device: &mut Device) {
        let Some(cq) = self.cq else { return };
        let mut found = [Completion::BLANK; 16];
        while let Ok(count @ 1..) = device.poll_cq(cq, &mut found) {
            self.queue.extend(&found[..count]);
        }
    }

    /// When software sees the next completion.
    pub(super) fn next(&self, timing: &NicTiming) -> Option<Time> {
        self.queue.front().map(|completion| completion.time + timing.completion)
    }
}

/// A NIC as the software of one channel sees it at one time.
pub(super) struct View<'a> {
    pub(super) device: &'a mut Device,
    pub(super) doorbells: &'a mut VecDeque<Posted>,
    pub(super) arrived: &'a mut Arrived,
    pub(super) timing: &'a NicTiming,
    pub(super) now: Time,
    /// When the core of the channel is free, at least `now`, and the CPU time that the channel has used since.
    pub(super) free: Time,
    pub(super) spent: Spent,
    /// Whether software sees all completions, because it has waited for a command.
    pub(super) has_waited: bool,
}

impl View<'_> {
    /// Requests of a queue pair that have not reached the NIC.
    fn under_way(&self, qpn: Qpn) -> u32 {
        self.doorbells.iter().filter(|posted| posted.qpn == qpn).count() as u32
    }

    /// Puts a request on its way to the NIC.
    fn enqueue(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: Option<u16>) -> Result<(), VerbsError> {
        let info = self.device.query_qp(qpn)?;
        if info.sends + self.under_way(qpn) >= info.capacities.send_wr {
            return Err(VerbsError::Full("send queue"));
        }
        let payload = match request.data {
            Data::Gather(sges) => Payload::Gather(sges.to_vec()),
            Data::Inline(bytes) => Payload::Inline(bytes.to_vec()),
            Data::Bind(_) => return Err(VerbsError::Unsupported("the simulated NIC has no memory windows")),
        };
        let SendRequest { wr_id, op, flags, .. } = *request;
        // The destination of a flow pays for the Reads that carry it.
        let side = if matches!(op, SendOp::Read { .. }) { &mut self.spent.receive } else { &mut self.spent.send };
        *side += self.timing.costs.0;
        let due = self.free + self.spent.total() + self.timing.post;
        // Channels on other cores may have posted requests that arrive later.
        let later = self.doorbells.iter().rev().take_while(|posted| posted.due > due).count();
        let posted = Posted { due, qpn, wr_id, op, flags, payload, entropy };
        self.doorbells.insert(self.doorbells.len() - later, posted);
        Ok(())
    }
}

impl Verbs for View<'_> {
    fn now(&self) -> Time {
        self.now
    }
    fn query_device(&self) -> DeviceInfo {
        let (rate_granularity, time_granularity) = (self.timing.rate_step, self.timing.time_step.max(Time::from_ps(1)));
        let info = Verbs::query_device(self.device);
        // Rates count frames without their gaps, so this is the rate of full frames on a busy link.
        let (frame, gap) = (u128::from(self.timing.frame.0), u128::from(self.timing.frame.1));
        let bps = u128::from(info.line_rate.as_bps()) * frame / (frame + gap).max(1);
        DeviceInfo { rate_granularity, time_granularity, line_rate: BitRate::from_bps(bps as u64), ..info }
    }
    fn create_pd(&mut self) -> Result<Pd, VerbsError> {
        Verbs::create_pd(self.device)
    }
    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        self.device.destroy_pd(pd)
    }
    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError> {
        self.device.register(pd, bytes, addr, access)
    }
    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.device.register_foreign(pd, memory, addr, access)
    }
    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        self.device.deregister(id)
    }
    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        self.device.read_memory(id, offset, out)
    }
    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        self.device.write_memory(id, offset, data)
    }
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        let cq = self.device.create_cq(capacity)?;
        self.arrived.cq = Some(cq);
        Ok(cq)
    }
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        self.device.destroy_cq(cq)
    }
    fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        if self.arrived.cq != Some(cq) {
            return Err(VerbsError::Unknown("such completion queue of the channel"));
        }
        self.arrived.fetch(self.device);
        let is_visible =
            |completion: &mut Completion| self.has_waited || completion.time + self.timing.completion <= self.now;
        let step = self.timing.time_step.as_ps().max(1);
        let mut count = 0;
        while count < out.len()
            && let Some(completion) = self.arrived.queue.pop_front_if(is_visible)
        {
            let time = Time::from_ps(completion.time.as_ps() / step * step);
            out[count] = Completion { time, ..completion };
            let is_receive = matches!(completion.opcode, Opcode::Recv | Opcode::RecvWithImmediate | Opcode::Read);
            let side = if is_receive { &mut self.spent.receive } else { &mut self.spent.send };
            *side += self.timing.costs.1;
            count += 1;
        }
        Ok(count)
    }
    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        let qpn = self.device.create_qp(pd, init)?;
        self.arrived.qpns.push(qpn);
        Ok(qpn)
    }
    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError> {
        if matches!(transition, Transition::Error | Transition::Reset) {
            let mut own = Vec::new();
            self.doorbells.retain_mut(|posted| {
                let is_other = posted.qpn != qpn;
                if !is_other {
                    own.push(posted.post(self.device));
                }
                is_other
            });
            own.into_iter().collect::<Result<(), VerbsError>>()?;
            self.has_waited = true;
        }
        Verbs::modify_qp(self.device, qpn, transition)
    }
    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        let info = self.device.query_qp(qpn)?;
        Ok(QpInfo { sends: info.sends + self.under_way(qpn), ..info })
    }
    fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError> {
        let step = self.timing.rate_step.as_bps().max(1);
        let rate = rate.map(|rate| BitRate::from_bps((rate.as_bps() / step * step).max(step)));
        self.device.set_rate(qpn, rate)?;
        Ok(rate)
    }
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        self.doorbells.retain(|posted| posted.qpn != qpn);
        self.device.destroy_qp(qpn)
    }
    fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        self.device.set_extras(qpn, extras)
    }
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        self.enqueue(qpn, request, None)
    }
    fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        self.enqueue(qpn, request, Some(entropy))
    }
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        self.device.post_recv(qpn, request)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.device.poll_event()
    }
}
