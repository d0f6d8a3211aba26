//! The control queue pair of a channel: an unreliable connection for short messages between the two layers.
//!
//! An unreliable connection cannot fail by loss, so the two layers can still agree after any outage. Its messages may
//! be lost, so the sender must be able to repeat them.

use crate::error::HostError;
use crate::link::{self, Ends, Link};
use crate::objects::Objects;
use rnic_verbs::{
    Access, Capacities, Completion, CqId, Data, MrInfo, Pd, QpInit, Qpn, RecvRequest, SendAttributes, SendFlags,
    SendOp, SendRequest, Service, Sge, Status, URGENT_DSCP, Verbs, VerbsError,
};

/// Set in the work request ids of the control queue pair's receives; the other bits are the buffer's number.
const RECEIVE: u64 = 1 << 63;

pub(crate) struct Mailbox<const LEN: usize> {
    pub(crate) qpn: Qpn,
    region: MrInfo,
    depth: u32,
}

impl<const LEN: usize> Mailbox<LEN> {
    /// Creates the control queue pair, with `depth` receives of `LEN` bytes.
    pub(crate) fn open(
        nic: &mut dyn Verbs, objects: &mut Objects, pd: Pd, cq: CqId, depth: u32,
    ) -> Result<Mailbox<LEN>, HostError> {
        let region = objects.region(nic, pd, depth as usize * LEN, Access::LOCAL)?;
        let capacities = Capacities { send_wr: depth, recv_wr: depth, send_sge: 1, recv_sge: 1, inline: LEN as u32 };
        let init = QpInit { service: Service::Uc, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all: false };
        let qpn = objects.qp(nic, pd, init)?;
        Ok(Mailbox { qpn, region, depth })
    }

    pub(crate) fn connect(
        &self, nic: &mut dyn Verbs, link: &Link, peer_qpn: Qpn, send_psn: u32, recv_psn: u32,
    ) -> Result<(), HostError> {
        let ends = Ends { qpn: self.qpn, peer_qpn, send_psn, recv_psn };
        // Acknowledgements and credit must not wait behind the data of the same host.
        let link = &Link { dscp: URGENT_DSCP, ..*link };
        link::connect(nic, link, ends, Access::LOCAL, SendAttributes::default(), 0, |nic| {
            (0..self.depth).try_for_each(|slot| self.post(nic, slot))
        })
    }

    fn post(&self, nic: &mut dyn Verbs, slot: u32) -> Result<(), HostError> {
        let sge =
            Sge { addr: self.region.addr + u64::from(slot) * LEN as u64, len: LEN as u32, lkey: self.region.lkey };
        Ok(nic.post_recv(self.qpn, &RecvRequest { wr_id: RECEIVE | u64::from(slot), scatter: &[sge] })?)
    }

    /// Sends a message. If the send queue is full the message is lost, as if the network had dropped it.
    pub(crate) fn send(&self, nic: &mut dyn Verbs, message: &[u8; LEN]) -> Result<(), HostError> {
        let request =
            SendRequest { wr_id: 0, op: SendOp::Send, data: Data::Inline(message), flags: SendFlags::SIGNALED };
        match nic.post_send(self.qpn, &request) {
            Ok(()) | Err(VerbsError::Full(_)) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Handles a completion of the control queue pair. Returns the message if the completion belongs to a receive.
    pub(crate) fn take(&self, nic: &mut dyn Verbs, completion: &Completion) -> Result<Option<[u8; LEN]>, HostError> {
        if completion.wr_id & RECEIVE == 0 || completion.status != Status::Success {
            return Ok(None);
        }
        let slot = (completion.wr_id & !RECEIVE) as u32;
        let mut message = [0; LEN];
        nic.read_memory(self.region.id, slot as usize * LEN, &mut message)?;
        self.post(nic, slot)?;
        Ok((completion.byte_len as usize == LEN).then_some(message))
    }
}
