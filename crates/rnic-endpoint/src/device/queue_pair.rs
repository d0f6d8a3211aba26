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

/// A receive queue that several queue pairs share.
#[derive(Clone)]
pub struct SharedReceiveQueue(pub(super) Arc<SrqInner>);

impl SharedReceiveQueue {
    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full or a scatter-gather element cannot be used.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let mut verbs = self.0.domain.0.device.shared().verbs();
        Ok(verbs.post_srq_recv(self.0.id, &RecvRequest { wr_id, scatter })?)
    }

    /// Requests one event [`SharedReceiveLimit`](rnic_verbs::Event::SharedReceiveLimit) as soon as the queue holds
    /// fewer than `limit` receives.
    ///
    /// # Errors
    /// None is expected.
    pub fn arm(&self, limit: u32) -> Result<(), Error> {
        Ok(self.0.domain.0.device.shared().verbs().arm_srq(self.0.id, limit)?)
    }
}

/// The attributes with which a queue pair is created.
#[derive(Clone)]
pub struct QpOptions {
    /// Transport service: RC, IRN or UC.
    pub service: Service,
    /// Completion queue of sends.
    pub send_cq: CompletionQueue,
    /// Completion queue of receives.
    pub recv_cq: CompletionQueue,
    /// Shared receive queue; `None`: the queue pair has its own receive queue.
    pub srq: Option<SharedReceiveQueue>,
    /// Sizes of its queues.
    pub capacities: Capacities,
    /// Every send is signalled, whatever its flags.
    pub signal_all: bool,
    /// The rights of the peer.
    pub access: Access,
    /// Congestion control; `None`: that of the device.
    pub congestion: Option<Congestion>,
}

impl QpOptions {
    /// RC with one completion queue and all rights for the peer.
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

/// The address of a queue pair: what the peer needs to connect to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// IP address and UDP port on which its device receives.
    pub addr: SocketAddr,
    /// Queue pair number.
    pub qpn: u32,
    /// First PSN of its requests.
    pub psn: u32,
}

/// The attributes of a connection, on which both ends agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOptions {
    /// Path MTU in payload bytes; `None`: the maximum of the path and the service.
    pub mtu: Option<u32>,
    /// Maximum reads and atomics outstanding, each way.
    pub rd_atomic: u8,
    /// Code of the time that the peer waits after an RNR NAK (0 to 31; 12 is 0.64 ms).
    pub min_rnr_timer: u8,
    /// Retransmission timeout of RC: 4.096 us times 2^n for n from 1 to 31; 0: none.
    pub timeout: u8,
    /// Maximum retransmissions after timeouts, 0 to 7.
    pub retry_count: u8,
    /// Maximum retransmissions after RNR NAKs, 0 to 6; 7: without limit.
    pub rnr_retry: u8,
    /// Differentiated services code point, 0 to 63.
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

    /// The address of the queue pair, for [`QueuePair::connect`] at the other end.
    pub fn address(&self) -> Address {
        Address { addr: self.shared().local, qpn: self.0.qpn.0, psn: self.0.psn }
    }

    /// The maximum MTU of the path to `peer` and the service, in payload bytes.
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

    /// Connects to the other end: brings the queue pair to RTS. Both ends must use the same MTU.
    ///
    /// # Errors
    /// If an attribute is out of range or the queue pair is connected already.
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

    /// The state of the queue pair.
    ///
    /// # Errors
    /// None is expected.
    pub fn state(&self) -> Result<State, Error> {
        Ok(self.shared().verbs().state(self.0.qpn)?)
    }

    /// The transport service of the queue pair.
    pub fn service(&self) -> Service {
        self.0.options.service
    }

    /// The queue pair number.
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

    /// Posts a signalled send request on registered memory.
    ///
    /// # Errors
    /// As [`QueuePair::post_send`].
    pub fn post(&self, wr_id: u64, op: SendOp, local: &[Sge]) -> Result<(), Error> {
        self.post_send(&SendRequest { wr_id, op, data: Data::Gather(local), flags: SendFlags::SIGNALED })
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full or a scatter-gather element cannot be used.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let request = RecvRequest { wr_id, scatter };
        Ok(self.device().post_receives_to(self.0.qpn, |verbs| verbs.post_recv(self.0.qpn, &request))?)
    }

    /// Limits the rate at which the queue pair sends requests, and that at which it sends responses to RDMA Reads;
    /// `None`: the link's rate. It counts whole Ethernet frames, without preamble and gap.
    ///
    /// # Errors
    /// If the rate is 0.
    pub fn set_rate(&self, rate: Option<BitRate>) -> Result<(), Error> {
        self.shared().verbs().set_rate(self.0.qpn, rate)?;
        self.shared().posted();
        Ok(())
    }

    /// Drains the send queue: no message begins any more, and the event
    /// [`SendQueueDrained`](rnic_verbs::Event::SendQueueDrained) follows when all messages that have begun are
    /// complete.
    ///
    /// # Errors
    /// If the state is not RTS.
    pub fn drain(&self) -> Result<(), Error> {
        Ok(self.shared().verbs().to_sqd(self.0.qpn)?)
    }

    /// Moves the queue pair into the error state: all outstanding work is flushed.
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
