//! Streams: queue pairs that carry the messages of a program, one after the other, under one window.
//!
//! A message is a flow in the flow table. All messages of a stream share a sending end and a receiving end, which stay
//! for the rest of the run. The stream itself has a flow id, too, which identifies its timers and its packets.

use crate::host::ids::FlowId;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::{Protocol, ReceiveRecovery, SendRecovery};
use rnic_transport::{FlowConfig, Pdu, Sender, Time, TxDesc};
use std::collections::VecDeque;

/// A message at its sender.
#[derive(Clone, Copy, Debug)]
struct Message {
    flow: FlowId,
    /// Number of packets of the stream before and with this message.
    end: u64,
    packets: u64,
    /// Payload bytes of the last packet.
    last_payload: u32,
}

/// The messages of a stream at its sender.
#[derive(Debug, Default)]
pub(crate) struct SendStream {
    /// Messages that the sender is not done with, in order.
    messages: VecDeque<Message>,
    /// Number of messages at the end of `messages` that have not started.
    waiting: usize,
    /// Number of packets of all messages so far, and of the messages that have started.
    posted: u64,
    started: u64,
}

impl SendStream {
    /// Adds a message of `bytes` bytes that will start later; returns the number of packets before it.
    pub(crate) fn post(&mut self, cfg: &FlowConfig, flow: FlowId, bytes: u64) -> u64 {
        let (before, packets) = (self.posted, cfg.packets(bytes));
        self.posted += packets;
        let last_payload = (bytes - (packets - 1) * u64::from(cfg.mtu)) as u32;
        self.messages.push_back(Message { flow, end: self.posted, packets, last_payload });
        self.waiting += 1;
        before
    }

    /// Starts the next message; returns its number of packets.
    pub(super) fn start(&mut self) -> u64 {
        let Message { packets, .. } = self.messages[self.messages.len() - self.waiting];
        self.waiting -= 1;
        self.started += packets;
        packets
    }

    /// Whether the sender is done with a message: all of its packets are acknowledged.
    pub(super) fn is_acknowledged<R: SendRecovery>(&self, sender: &R, flow: FlowId) -> bool {
        let (_, left) = sender.unacknowledged();
        let message = self.messages.iter().find(|message| message.flow == flow);
        message.is_none_or(|message| message.end <= self.started - left)
    }

    /// Forgets a message that the sender is done with. Returns whether the stream has no other.
    pub(super) fn retire(&mut self, flow: FlowId) -> bool {
        self.messages.retain(|message| message.flow != flow);
        self.messages.is_empty()
    }

    /// The next packet of the stream at `now`, if it may send one.
    #[cold]
    #[inline(never)]
    pub(super) fn poll_transmit<P: Protocol, C: CongestionControl>(
        &self, sender: &mut Sender<P, C>, cfg: &FlowConfig, params: &C::Params, now: Time,
    ) -> Option<TxDesc> {
        let pick = sender.poll(cfg, now)?;
        let (first, left) = sender.recovery().unacknowledged();
        let number = self.started - left + u64::from(pick.psn.since(first));
        let message = self.messages.partition_point(|message| message.end <= number);
        let (last, payload) = match self.messages.get(message) {
            Some(message) if message.end == number + 1 => (true, message.last_payload),
            _ => (false, cfg.mtu),
        };
        let payload = if pick.syn { 0 } else { payload };
        sender.sent(cfg, params, now, payload + cfg.header);
        let pdu = Pdu::data(pick.psn, last, now);
        let pdu = if pick.syn { pdu.with_syn() } else { pdu };
        let pdu = if P::SPRAYS { pdu.with_path(sender.recovery().path()) } else { pdu };
        let pdu = if C::CREDIT { sender.with_credit(params, now, pdu) } else { pdu };
        let pdu = if P::COALESCES { sender.with_ack_request(cfg, pick, pdu) } else { pdu };
        Some(TxDesc { pdu, payload, retransmission: pick.retransmission })
    }
}

/// The messages of a stream at its receiver, which have not arrived as a whole: the flow of each, and its number of
/// packets.
#[derive(Debug, Default)]
pub(crate) struct ReceiveStream(VecDeque<(FlowId, u64)>);

impl ReceiveStream {
    /// Adds a message of `packets` packets.
    pub(crate) fn post<R: ReceiveRecovery>(&mut self, receiver: &mut R, flow: FlowId, packets: u64) {
        receiver.post(packets, !self.0.is_empty());
        self.0.push_back((flow, packets));
    }

    /// The flows of the messages that the packet which has just arrived completes.
    pub(super) fn completed<R: ReceiveRecovery>(&mut self, receiver: &mut R, mut report: impl FnMut(FlowId)) {
        while let Some((flow, _)) = self.0.pop_front() {
            report(flow);
            match self.0.front() {
                Some((_, packets)) if receiver.next_message(*packets) => {}
                _ => return,
            }
        }
    }

    /// Whether all bytes of a message have arrived.
    pub(super) fn is_done(&self, flow: FlowId) -> bool {
        self.0.iter().all(|(other, _)| *other != flow)
    }

    /// Payload bytes of a message of `bytes` bytes that have arrived in order.
    pub(super) fn delivered<R: ReceiveRecovery>(
        &self, receiver: &R, cfg: &FlowConfig, flow: FlowId, bytes: u64,
    ) -> u64 {
        match self.0.front() {
            Some((current, packets)) if *current == flow => {
                let arrived = packets.saturating_sub(receiver.left_of_message());
                (arrived * u64::from(cfg.mtu)).min(bytes)
            }
            _ if self.is_done(flow) => bytes,
            _ => 0,
        }
    }
}
