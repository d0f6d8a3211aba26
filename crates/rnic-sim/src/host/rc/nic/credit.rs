//! Credit in the NIC of a simulated host: grants to the senders of its receiving ends, and requests of its sending
//! ends. The rest of the NIC calls these functions only if the congestion control needs credit.

use super::super::RcNics;
use super::super::segment::Segment;
use super::{RcNic, RcShared, TimerEnd};
use crate::host::ids::{EndSlot, FlowId};
use crate::host::partition::NicPartition;
use crate::in_band::InBand;
use rnic_fabric::{Packet, SlotId};
use rnic_transport::congestion::CongestionControl;
use rnic_transport::credit::Received;
use rnic_transport::paths::flow_hash;
use rnic_transport::recovery::Protocol;
use rnic_transport::{Pdu, Time};
use std::cmp::Reverse;

impl<T> RcNic<T> {
    /// Begins to count the credit of the receiving end in `slot` again, for another flow.
    #[cold]
    pub(crate) fn forget_credit(&mut self, slot: EndSlot) {
        if let Some(pacer) = &mut self.credit {
            pacer.forget(slot.0);
        }
    }
}

impl<P: Protocol, C: CongestionControl, T: InBand> NicPartition<RcNics<P, C, T>> {
    /// A packet has arrived that asks for credit for its flow. Returns whether it only asks, so that it is no data
    /// packet.
    pub(super) fn asks(&mut self, host: SlotId, now: Time, packet: &Packet<Segment<T>>) -> bool {
        let Segment { slot, pdu, .. } = packet.body;
        if pdu.is_syn() {
            return false; // a probe, which asks for no credit
        }
        let hash = self.hosts[host.index()].receivers[slot].peer.hashes.data;
        if packet.flow_hash != if P::SPRAYS { flow_hash(hash, pdu.path()) } else { hash } {
            return pdu.is_credit(); // a packet of an earlier flow in this slot
        }
        let Some(pacer) = &mut self.hosts[host.index()].nic.credit else { return false };
        if !pdu.is_credit() {
            pacer.note(
                now,
                match packet.is_trimmed() {
                    true => Received::Trimmed { last_hop: pdu.is_last_hop() },
                    false => Received::Whole { marked: packet.is_marked() },
                },
            );
        }
        let waits = pacer.next().is_some();
        let total = pacer.ask(slot.0, pdu.credit());
        // A sender that asks again for what it has been granted has not got the grant.
        let repeat = pdu.is_credit() && total == pdu.credit();
        if !waits && let Some(at) = pacer.next() {
            if at > now {
                let entry = (at, FlowId::NONE, TimerEnd::CREDIT);
                self.hosts[host.index()].nic.timers.push(Reverse(entry));
            } else {
                self.grant(host, now);
            }
        }
        if repeat {
            self.reply(host, slot, Pdu::credit_grant(total), T::default());
        }
        pdu.is_credit()
    }

    /// Grants credit to the flow whose turn it is, and sets the timer for the next grant.
    pub(super) fn grant(&mut self, host: SlotId, now: Time) {
        let nic = &mut self.hosts[host.index()].nic;
        let Some(pacer) = &mut nic.credit else { return };
        let grant = pacer.grant(now);
        if let Some(at) = pacer.next() {
            nic.timers.push(Reverse((at, FlowId::NONE, TimerEnd::CREDIT)));
        }
        if let Some(grant) = grant {
            self.reply(host, EndSlot(grant.flow), Pdu::credit_grant(grant.total), T::default());
        }
    }

    /// Lets the flow whose sending end is in `slot` ask for credit if it needs some and no data packet can ask.
    pub(super) fn request_credit(&mut self, host: SlotId, slot: EndSlot, now: Time) {
        let RcShared { cfg, params, host: config } = &self.shared;
        let host = &mut self.hosts[host.index()];
        if let Some(pdu) = host.senders[slot].sender.credit_request(cfg, params, now) {
            host.ask_receiver(config, slot, pdu);
        }
        host.arm_sender(cfg, slot);
    }
}
