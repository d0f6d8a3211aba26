//! Queue pairs and shared receive queues.

use super::shared::Shared;
use super::{CompletionQueue, Device, Error, ProtectionDomain};
use crate::clock::TimeSource;
use rnic_transport::BitRate;
use rnic_verbs::{
    Access, Capacities, Congestion, Connection, Data, MAX_MTU, Qpn, RecvRequest, SendAttributes, SendFlags, SendOp,
    SendRequest, Service, Sge, SrqId, State, until_full,
};
use std::net::SocketAddr;
use std::sync::Arc;

pub(super) struct SrqInner {
    pub(super) domain: ProtectionDomain,
    pub(super) id: SrqId,
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        let _ = self.domain.0.device.shared().verbs().destroy_srq(self.id);
    }
}

/// Receives for several queue pairs.
#[derive(Clone)]
pub struct SharedReceiveQueue(pub(super) Arc<SrqInner>);

impl SharedReceiveQueue {
    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full or the memory does not admit it.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let mut verbs = self.0.domain.0.device.shared().verbs();
        Ok(verbs.post_srq_recv(self.0.id, &RecvRequest { wr_id, scatter })?)
    }

    /// Raises [`SharedReceiveLimit`](rnic_verbs::Event::SharedReceiveLimit), once, when fewer than `limit` receives are left.
    ///
    /// # Errors
    /// None is expected.
    pub fn arm(&self, limit: u32) -> Result<(), Error> {
        Ok(self.0.domain.0.device.shared().verbs().arm_srq(self.0.id, limit)?)
    }
}

/// What a queue pair is made of.
#[derive(Clone)]
pub struct QpOptions {
    /// Service: RC, IRN or UC.
    pub service: Service,
    /// Where sends complete.
    pub send_cq: CompletionQueue,
    /// Where receives complete.
    pub recv_cq: CompletionQueue,
    /// Receives come from here.
    pub srq: Option<SharedReceiveQueue>,
    /// Sizes of its queues.
    pub capacities: Capacities,
    /// Every send is signalled.
    pub signal_all: bool,
    /// What the peer may do.
    pub access: Access,
    /// Congestion control; the device's without.
    pub congestion: Option<Congestion>,
}

impl QpOptions {
    /// RC, everything in one completion queue, everything allowed to the peer.
    pub fn new(cq: &CompletionQueue) -> QpOptions {
        QpOptions {
            service: Service::Rc,
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            srq: None,
            capacities: Capacities::default(),
            signal_all: false,
            access: Access::ALL,
            congestion: None,
        }
    }
}

/// What the other end needs to know of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// Where its packets go.
    pub addr: SocketAddr,
    /// Its number.
    pub qpn: u32,
    /// The first PSN that it sends.
    pub psn: u32,
}

/// What both ends agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOptions {
    /// Payload bytes of a full packet; `None`: the largest that the path and the service take.
    pub mtu: Option<u32>,
    /// Reads and atomics outstanding, each way.
    pub rd_atomic: u8,
    /// Code of the time that a peer waits for a missing receive.
    pub min_rnr_timer: u8,
    /// Acknowledgement timeout 4.096 us times 2^n (RC).
    pub timeout: u8,
    /// Retries without an answer.
    pub retry_count: u8,
    /// Retries without a receive; 7: without limit.
    pub rnr_retry: u8,
    /// Differentiated services code point.
    pub dscp: u8,
}

impl Default for PathOptions {
    fn default() -> PathOptions {
        PathOptions { mtu: None, rd_atomic: 16, min_rnr_timer: 12, timeout: 14, retry_count: 7, rnr_retry: 7, dscp: 0 }
    }
}

pub(super) struct QpInner {
    pub(super) domain: ProtectionDomain,
    pub(super) options: QpOptions,
    pub(super) qpn: Qpn,
    pub(super) psn: u32,
}

impl Drop for QpInner {
    fn drop(&mut self) {
        let shared = self.domain.0.device.shared();
        shared.flush();
        let _ = shared.verbs().destroy_qp(self.qpn);
    }
}

/// One end of a connection.
#[derive(Clone)]
pub struct QueuePair(pub(super) Arc<QpInner>);

impl QueuePair {
    fn device(&self) -> &Device {
        &self.0.domain.0.device
    }

    fn shared(&self) -> &Shared {
        self.device().shared()
    }

    /// What the other end needs to know.
    pub fn address(&self) -> Address {
        Address { addr: self.shared().local, qpn: self.0.qpn.0, psn: self.0.psn }
    }

    /// The largest MTU that the path to `peer` and the service take.
    ///
    /// # Errors
    /// When there is no route.
    pub fn path_mtu(&self, peer: SocketAddr) -> Result<u32, Error> {
        let longest = self.shared().ask(|driver| driver.port().longest_datagram(peer))?;
        // Headers, padding and ICRC around the payload.
        let room = longest.saturating_sub(rnic_wire::MAX_HEADER_LEN + rnic_wire::ICRC_LEN + 3) as u32;
        let power = |largest: u32| 1 << room.clamp(256, largest).ilog2();
        Ok(match self.0.options.service {
            Service::Rc => power(4_096),
            Service::Uc => power(8_192),
            // Whole cache lines.
            Service::Irn => (room / 64 * 64).clamp(256, MAX_MTU),
        })
    }

    /// Connects to the other end: brings the queue pair to RTS. Both ends must give the same MTU.
    ///
    /// # Errors
    /// If an option is out of range or the queue pair is connected already.
    pub fn connect(&self, peer: &Address, options: &PathOptions) -> Result<(), Error> {
        let path_mtu = match options.mtu {
            Some(mtu) => mtu,
            None => self.path_mtu(peer.addr)?,
        };
        let connection = Connection {
            peer: peer.addr,
            peer_qpn: Qpn(peer.qpn),
            path_mtu,
            recv_psn: peer.psn,
            max_dest_rd_atomic: options.rd_atomic,
            min_rnr_timer: options.min_rnr_timer,
            dscp: options.dscp,
        };
        let attributes = SendAttributes {
            send_psn: self.0.psn,
            timeout: options.timeout,
            retry_count: options.retry_count,
            rnr_retry: options.rnr_retry,
            max_rd_atomic: options.rd_atomic,
        };
        let now = self.shared().clock.now();
        let mut verbs = self.shared().verbs();
        verbs.to_rtr(self.0.qpn, connection, now)?;
        verbs.to_rts(self.0.qpn, attributes, now)?;
        Ok(())
    }

    /// Its state.
    ///
    /// # Errors
    /// None is expected.
    pub fn state(&self) -> Result<State, Error> {
        Ok(self.shared().verbs().state(self.0.qpn)?)
    }

    /// Its service.
    pub fn service(&self) -> Service {
        self.0.options.service
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.0.qpn
    }

    /// Posts a send request.
    ///
    /// # Errors
    /// If the send queue is full or the request is not possible; nothing is posted then.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), Error> {
        Ok(self.device().post_sends_to(self.0.qpn, |verbs| verbs.post_send(self.0.qpn, request))?)
    }

    /// Posts several send requests under one lock; returns how many fitted in the send queue.
    ///
    /// # Errors
    /// Of the first request that is refused for another reason than a full queue; those before it are posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<usize, Error> {
        let qpn = self.0.qpn;
        let post = |verbs: &mut rnic_verbs::Device| until_full(requests, |request| verbs.post_send(qpn, request));
        Ok(self.device().post_sends_to(qpn, post)?)
    }

    /// Posts an operation on registered memory, signalled.
    ///
    /// # Errors
    /// As [`QueuePair::post_send`].
    pub fn post(&self, wr_id: u64, op: SendOp, local: &[Sge]) -> Result<(), Error> {
        self.post_send(&SendRequest { wr_id, op, data: Data::Gather(local), flags: SendFlags::SIGNALED })
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full or the memory does not admit it.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let request = RecvRequest { wr_id, scatter };
        Ok(self.device().post_receives_to(self.0.qpn, |verbs| verbs.post_recv(self.0.qpn, &request))?)
    }

    /// Limits the rate at which the queue pair sends requests, and that at which it sends responses to RDMA Reads; `None`: the link's rate.
    /// It counts whole Ethernet frames, without preamble and gap.
    ///
    /// # Errors
    /// If the rate is 0.
    pub fn set_rate(&self, rate: Option<BitRate>) -> Result<(), Error> {
        self.shared().verbs().set_rate(self.0.qpn, rate)?;
        self.shared().posted();
        Ok(())
    }

    /// Starts nothing new; [`SendQueueDrained`](rnic_verbs::Event::SendQueueDrained) tells when all that was started is done.
    ///
    /// # Errors
    /// If the state is not RTS.
    pub fn drain(&self) -> Result<(), Error> {
        Ok(self.shared().verbs().to_sqd(self.0.qpn)?)
    }

    /// Goes into error: everything outstanding is flushed.
    ///
    /// # Errors
    /// None is expected.
    pub fn abort(&self) -> Result<(), Error> {
        let mut verbs = self.shared().verbs();
        verbs.advance_to(self.shared().clock.now());
        verbs.to_error(self.0.qpn)?;
        drop(verbs);
        self.shared().posted();
        Ok(())
    }
}
