//! Queue pairs and shared receive queues of a device.

use super::shared::Shared;
use super::{CompletionQueue, Device, Error, ProtectionDomain};
use crate::clock::TimeSource;
use crate::config::Security;
use crate::secure::{KeyPair, PublicKey, Session};
use crate::sync::lock;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    AROUND_PAYLOAD, Access, Capacities, Congestion, Connection, Data, MAX_IN_FLIGHT, MAX_MTU, Qpn, RecvRequest,
    SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, SrqId, State, VerbsError, until_full,
};
use rnic_wire::ProtectedHeader;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

pub(super) struct SrqInner {
    pub(super) domain: ProtectionDomain,
    pub(super) id: SrqId,
}

impl Drop for SrqInner {
    fn drop(&mut self) {
        let _ = self.domain.0.device.shared().verbs().destroy_srq(self.id);
    }
}

/// A shared receive queue (SRQ): a receive queue from which several queue pairs take their receives.
#[derive(Clone)]
pub struct SharedReceiveQueue(pub(super) Arc<SrqInner>);

impl SharedReceiveQueue {
    /// Posts a receive to the shared receive queue.
    ///
    /// # Errors
    /// If the queue is full or a scatter-gather element cannot be used.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let mut verbs = self.0.domain.0.device.shared().verbs();
        Ok(verbs.post_srq_recv(self.0.id, &RecvRequest { wr_id, scatter })?)
    }

    /// Arms the queue's limit: the device reports one event
    /// [`SharedReceiveLimit`](rnic_verbs::Event::SharedReceiveLimit) as soon as the queue holds fewer than `limit`
    /// receives.
    ///
    /// # Errors
    /// None is expected.
    pub fn arm(&self, limit: u32) -> Result<(), Error> {
        let shared = self.0.domain.0.device.shared();
        shared.verbs().arm_srq(self.0.id, limit)?;
        // The event may have come already.
        shared.notify();
        Ok(())
    }
}

/// The attributes with which a queue pair is created.
#[derive(Clone)]
pub struct QpOptions {
    /// Transport service: RC, IRN, UC or UD.
    pub service: Service,
    /// Completion queue for the send queue.
    pub send_cq: CompletionQueue,
    /// Completion queue for the receive queue.
    pub recv_cq: CompletionQueue,
    /// Shared receive queue from which the queue pair takes its receives. With `None` the queue pair has its own
    /// receive queue.
    pub srq: Option<SharedReceiveQueue>,
    /// Maximum work requests, scatter-gather elements and inline bytes of the queue pair's queues.
    pub capacities: Capacities,
    /// Whether every send request generates a completion, whatever its flags.
    pub signal_all: bool,
    /// The operations that the peer may do on this queue pair: RDMA Writes, RDMA Reads, atomics.
    pub access: Access,
    /// Congestion control of this queue pair. With `None` it uses the device's congestion control
    /// ([`Config::verbs`](crate::Config::verbs)).
    pub congestion: Option<Congestion>,
}

impl QpOptions {
    /// Options for an RC queue pair with one completion queue for sends and receives. The peer gets all rights.
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

/// The address of a queue pair: the numbers that the peer needs to connect to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// IP address and UDP port on which the queue pair's device receives.
    pub addr: SocketAddr,
    /// Queue pair number.
    pub qpn: u32,
    /// PSN of the first request packet that the queue pair sends.
    pub psn: u32,
    /// UDP source port of the packets that the queue pair sends. `None` if it is unknown; then any port is accepted.
    #[serde(default)]
    pub source_port: Option<u16>,
    /// Maximum number of packets that the queue pair has in flight. `None`: not known.
    #[serde(default)]
    pub in_flight: Option<u32>,
    /// How the queue pair's device protects packets.
    #[serde(default = "no_security")]
    pub security: Security,
    /// Public key of the queue pair, if its device protects packets. It is not a secret. But if an attacker replaces it
    /// during the exchange, the peer connects to the attacker.
    #[serde(default)]
    pub key: Option<PublicKey>,
}

fn no_security() -> Security {
    Security::None
}

impl Address {
    /// The address of a queue pair of another implementation of RoCEv2, which has neither protection nor a known source
    /// port.
    pub fn plain(addr: SocketAddr, qpn: u32, psn: u32) -> Address {
        Address { addr, qpn, psn, source_port: None, in_flight: None, security: Security::None, key: None }
    }
}

/// The attributes of a connection, on which both ends agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOptions {
    /// Path MTU: maximum payload bytes of a packet. With `None` it is the maximum that the path and the transport
    /// service admit.
    pub mtu: Option<u32>,
    /// Maximum number of outstanding RDMA Reads and atomics in each direction.
    pub rd_atomic: u8,
    /// Code of the minimum time that the peer waits after an RNR (receiver not ready) NAK: 0 to 31, as in the
    /// InfiniBand specification. Code 12 is 0.64 ms.
    pub min_rnr_timer: u8,
    /// Retransmission timeout of RC as an exponent n from 1 to 31: the timeout is 4.096 us times 2^n. With 0 the queue
    /// pair has no timeout.
    pub timeout: u8,
    /// RC without `give_up_after`: maximum number of consecutive retransmissions after timeouts, 0 to 7. After one more
    /// timeout the request fails.
    pub retry_count: u8,
    /// Maximum number of consecutive retransmissions after RNR NAKs, 0 to 6; 7 means no limit.
    pub rnr_retry: u8,
    /// Differentiated services code point (DSCP) of the packets that the queue pair sends, 0 to 63.
    pub dscp: u8,
    /// RC and IRN: time without a response after which the queue pair aborts, 1 ms to 1 day: its requests fail with
    /// [`TransportRetryExceeded`](rnic_verbs::Status::TransportRetryExceeded). With `None`, IRN takes
    /// [`Config::give_up_after`](crate::Config::give_up_after), and RC aborts after `retry_count` retransmissions, as
    /// InfiniBand prescribes.
    pub give_up_after: Option<Time>,
    /// RC and IRN: idle time after which the queue pair probes whether its peer is alive, 1 ms to 1 day. If the peer is
    /// dead, the device raises the event [`QueuePairError`](rnic_verbs::Event::QueuePairError) at most `keep_alive`
    /// plus `give_up_after` after the peer's last response. Every RC peer responds to the probes. With `None` an idle
    /// queue pair does not detect that its peer is dead.
    pub keep_alive: Option<Time>,
}

impl Default for PathOptions {
    fn default() -> PathOptions {
        PathOptions {
            mtu: None,
            rd_atomic: 16,
            min_rnr_timer: 12,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            dscp: 0,
            give_up_after: None,
            keep_alive: None,
        }
    }
}

pub(super) struct QpInner {
    pub(super) domain: ProtectionDomain,
    pub(super) options: QpOptions,
    pub(super) qpn: Qpn,
    /// Locked while the queue pair is connected or reset.
    pub(super) identity: Mutex<Identity>,
}

/// What a queue pair uses for one connection only.
pub(super) struct Identity {
    pub(super) address: Address,
    /// The key pair, until the queue pair is connected. `None` without protection too.
    pub(super) keys: Option<KeyPair>,
}

impl Identity {
    /// Draws a first PSN, and generates a key pair if the device protects packets.
    pub(super) fn new(shared: &Shared, qpn: Qpn) -> Result<Identity, Error> {
        let keys = match shared.security {
            Security::None => None,
            _ => Some(KeyPair::generate().map_err(|error| Error::Security(error.to_string()))?),
        };
        let psn = shared.verbs().random_psn();
        let source_port = shared.ask(|driver| driver.port().source_port(qpn.0));
        let address = Address {
            addr: shared.local,
            qpn: qpn.0,
            psn,
            source_port: Some(source_port),
            in_flight: Some(shared.in_flight),
            security: shared.security,
            key: keys.as_ref().map(KeyPair::public),
        };
        Ok(Identity { address, keys })
    }
}

impl Device {
    /// The largest path MTU, in payload bytes, that the path to `peer` and a transport service admit.
    pub(crate) fn path_mtu(&self, service: Service, peer: SocketAddr) -> Result<u32, Error> {
        let longest = self.shared().ask(|driver| driver.port().longest_datagram(peer))?;
        // Each packet with payload also has headers, the ICRC, and protection.
        let protection = if self.shared().security != Security::None { ProtectedHeader::OVERHEAD } else { 0 };
        let room = longest.saturating_sub(AROUND_PAYLOAD + protection) as u32;
        let power = |largest: u32| 1 << room.clamp(256, largest).ilog2();
        Ok(match service {
            Service::Rc | Service::Ud => power(4_096),
            Service::Uc => power(8_192),
            // IRN has no fixed set of MTUs; its payloads are multiples of 4 bytes, so that they need no padding.
            Service::Irn => (room / 4 * 4).clamp(256, MAX_MTU),
        })
    }
}

impl Drop for QpInner {
    fn drop(&mut self) {
        let shared = self.domain.0.device.shared();
        shared.flush();
        let _ = shared.verbs().destroy_qp(self.qpn);
        shared.sessions.remove(self.qpn);
    }
}

/// A queue pair, to which the application posts send requests and receives: one end of a connection, or with UD the
/// sender and receiver of datagrams.
#[derive(Clone)]
pub struct QueuePair(pub(super) Arc<QpInner>);

impl QueuePair {
    pub(super) fn device(&self) -> &Device {
        &self.0.domain.0.device
    }

    pub(super) fn shared(&self) -> &Shared {
        self.device().shared()
    }

    /// The address of the queue pair, which the peer passes to [`QueuePair::connect`]. [`QueuePair::reset`] changes it.
    pub fn address(&self) -> Address {
        lock(&self.0.identity).address
    }

    /// Returns the largest path MTU, in payload bytes, that the path to `peer` and the queue pair's transport service
    /// admit.
    ///
    /// # Errors
    /// When the host has no route to `peer`.
    pub fn path_mtu(&self, peer: SocketAddr) -> Result<u32, Error> {
        self.device().path_mtu(self.0.options.service, peer)
    }

    /// Connects this queue pair to the queue pair at `peer`: the local queue pair moves from INIT through the state RTR
    /// to RTS. Both ends must use the same path MTU.
    ///
    /// If the two devices protect packets ([`Config::security`](crate::Config::security)), the packets of the
    /// connection are protected from now on, with keys that only the two queue pairs know.
    ///
    /// # Errors
    /// If an attribute is out of range, the queue pair is connected already, its service is UD, or only one of the two
    /// devices protects packets.
    pub fn connect(&self, peer: &Address, options: &PathOptions) -> Result<(), Error> {
        if self.service() == Service::Ud {
            let why = "a UD queue pair has no peer: open it with open_datagrams instead of connecting it";
            return Err(VerbsError::Unsupported(why).into());
        }
        let path_mtu = match options.mtu {
            Some(mtu) => mtu,
            None => self.path_mtu(peer.addr)?,
        };
        let mut identity = lock(&self.0.identity);
        let session = self.session(&identity, peer)?;
        let connection = Connection {
            peer: peer.addr,
            peer_source_port: peer.source_port,
            peer_in_flight: peer.in_flight.unwrap_or(MAX_IN_FLIGHT),
            protected: session.is_some(),
            peer_qpn: Qpn(peer.qpn),
            path_mtu,
            recv_psn: peer.psn,
            max_dest_rd_atomic: options.rd_atomic,
            min_rnr_timer: options.min_rnr_timer,
            dscp: options.dscp,
        };
        let attributes = SendAttributes {
            send_psn: identity.address.psn,
            timeout: options.timeout,
            retry_count: options.retry_count,
            rnr_retry: options.rnr_retry,
            max_rd_atomic: options.rd_atomic,
            give_up_after: match self.0.options.service {
                Service::Irn => options.give_up_after.or(Some(self.shared().give_up_after)),
                Service::Rc | Service::Uc | Service::Ud => options.give_up_after,
            },
            keep_alive: options.keep_alive,
        };
        let mut verbs = self.shared().verbs();
        let now = self.shared().clock.now();
        verbs.to_rtr(self.0.qpn, connection, now)?;
        if let Some(session) = session {
            self.shared().sessions.insert(self.0.qpn, session);
            // An attacker who reads the keys of this process later does not find the keys of the past.
            identity.keys = None;
        }
        verbs.to_rts(self.0.qpn, attributes, now)?;
        drop(verbs);
        // The thread that moves packets sleeps until the next timer, and keep-alive has set an earlier one.
        self.shared().posted();
        Ok(())
    }

    /// Derives the keys for the connection to `peer`; `None` if neither device protects packets.
    fn session(&self, identity: &Identity, peer: &Address) -> Result<Option<Session>, Error> {
        let own = identity.address.security;
        let refused = |peer: Security| {
            let name = [own, peer].map(Security::name);
            let why = format!(
                "this device has the security `{}` and the peer `{}`; either both protect packets or neither does",
                name[0], name[1]
            );
            Err(Error::Security(why))
        };
        match (own.protection(), peer.security.protection(), peer.key) {
            (None, None, _) => Ok(None),
            (Some(own), Some(theirs), Some(key)) => {
                let keys = identity.keys.as_ref();
                let keys = keys.ok_or_else(|| Error::Security("the queue pair is connected".to_string()))?;
                let session = keys.agree(self.0.qpn.0, key, peer.qpn, own.max(theirs));
                session.map(Some).map_err(|error| Error::Security(error.to_string()))
            }
            (_, Some(_), None) => Err(Error::Security("the peer's address has no public key".to_string())),
            _ => refused(peer.security),
        }
    }

    /// The state of the queue pair, such as INIT, RTS or Error.
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
    /// If the send queue is full or the request is invalid; in both cases the request is not posted.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), Error> {
        Ok(self.device().post_sends_to(self.0.qpn, |verbs| verbs.post_send(self.0.qpn, request))?)
    }

    /// Posts several send requests, in order, with one lock of the device; returns the number of requests that fitted
    /// in the send queue.
    ///
    /// # Errors
    /// The error of the first request that is refused for a reason other than a full queue. The requests before it are
    /// posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<usize, Error> {
        let qpn = self.0.qpn;
        let post = |verbs: &mut rnic_verbs::Device| until_full(requests, |request| verbs.post_send(qpn, request));
        Ok(self.device().post_sends_to(qpn, post)?)
    }

    /// Posts a send request that generates a completion and whose data are in registered memory (`local`).
    ///
    /// # Errors
    /// As [`QueuePair::post_send`].
    pub fn post(&self, wr_id: u64, op: SendOp, local: &[Sge]) -> Result<(), Error> {
        self.post_send(&SendRequest { wr_id, op, data: Data::Gather(local), flags: SendFlags::SIGNALED })
    }

    /// Posts a receive to the queue pair's own receive queue.
    ///
    /// # Errors
    /// If the queue is full or a scatter-gather element cannot be used.
    pub fn post_recv(&self, wr_id: u64, scatter: &[Sge]) -> Result<(), Error> {
        let request = RecvRequest { wr_id, scatter };
        Ok(self.device().post_receives_to(self.0.qpn, |verbs| verbs.post_recv(self.0.qpn, &request))?)
    }

    /// Limits two rates of the queue pair, each to `rate`: the rate of its requests and the rate of its responses to
    /// RDMA Reads. With `None` each limit is the rate of the link. The limited rate counts whole Ethernet frames,
    /// without preamble and interframe gap.
    ///
    /// # Errors
    /// If the rate is 0.
    pub fn set_rate(&self, rate: Option<BitRate>) -> Result<(), Error> {
        self.shared().verbs().set_rate(self.0.qpn, rate)?;
        self.shared().posted();
        Ok(())
    }

    /// Moves the queue pair to the state SQD (send queue drained): it starts no further messages. When all messages
    /// that it has already started are complete, the device reports the event
    /// [`SendQueueDrained`](rnic_verbs::Event::SendQueueDrained).
    ///
    /// # Errors
    /// If the queue pair is not in the state RTS.
    pub fn drain(&self) -> Result<(), Error> {
        self.shared().verbs().to_sqd(self.0.qpn)?;
        // If no message is outstanding, the event has come already.
        self.shared().notify();
        Ok(())
    }

    /// Moves the queue pair into the error state: all outstanding work requests complete with a flush error.
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

    /// Ends the connection and moves the queue pair to the state INIT, from any state, so that it can be connected
    /// again, to the same peer or to another one. Outstanding work requests complete with a flush error. The queue pair
    /// number, options and rate limit stay. Receives must be posted again.
    ///
    /// The queue pair gets a new address, which it returns and which the next peer needs: it has another first PSN, and
    /// another public key if the device protects packets. So late packets of the old connection are not mistaken for
    /// packets of the new one. The peer gets no notification: its requests fail, unless it resets its queue pair too.
    ///
    /// ```
    /// # use rnic_endpoint::{Config, Device, PathOptions, QpOptions, QueuePair};
    /// # fn main() -> Result<(), rnic_endpoint::Error> {
    /// # let device = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default())?;
    /// # let cq = device.completion_queue(16)?;
    /// # let domain = device.protection_domain();
    /// # let [qp, first, second] = std::array::from_fn(|_| domain.queue_pair(&QpOptions::new(&cq)).unwrap());
    /// qp.connect(&first.address(), &PathOptions::default())?;
    /// // Later, perhaps after an error:
    /// let address = qp.reset()?;
    /// qp.connect(&second.address(), &PathOptions::default())?;
    /// second.connect(&address, &PathOptions::default())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the system has no random numbers; in this case the queue pair does not change.
    pub fn reset(&self) -> Result<Address, Error> {
        let (shared, qpn) = (self.shared(), self.0.qpn);
        let mut identity = lock(&self.0.identity);
        let next = Identity::new(shared, qpn)?;
        // The peer gets the ACKs that wait to be sent.
        shared.flush();
        shared.ask(|_| ());
        let mut verbs = shared.verbs();
        verbs.advance_to(shared.clock.now());
        verbs.to_error(qpn)?;
        verbs.to_reset(qpn)?;
        drop(verbs);
        // The driver may have just taken packets of the old connection, and must not protect them with new keys.
        shared.ask(|_| ());
        shared.sessions.remove(qpn);
        shared.verbs().to_init(qpn, self.0.options.access)?;
        *identity = next;
        drop(identity);
        shared.posted();
        Ok(self.address())
    }
}
