//! Queue pairs: services, states, and the attributes of transitions between states.

use super::{Access, CqId, DatagramAttributes, Qpn, SrqId};
use rnic_transport::{BitRate, Time, Timeouts};
use std::net::SocketAddr;

/// Abilities of a queue pair that commodity NICs lack, and that authors of transports in host software ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// The packets carry the ECN codepoint ECT(0), whatever the congestion control of the queue pair, so that switches
    /// may CE-mark them. The peer's completions tell it ([`Completion::marked`](super::Completion::marked)).
    pub ecn: bool,
    /// Each request may take its own path: [`Verbs::post_spread`](crate::Verbs::post_spread) gives it an entropy, from
    /// which the UDP source port of its packets follows. The receiver takes messages in any order, so both ends must
    /// have this ability. Only unreliable connections can.
    pub spread: bool,
    /// A queue pair of the service RC uses IRN if its peer has this ability too, and RC otherwise. The two agree by
    /// packets of their own before the first request, which waits for an answer for up to 250 ms.
    /// [`QpInfo::service`] tells the result.
    pub offer_irn: bool,
}

/// State of a queue pair (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// RESET: the queue pair takes no work requests.
    Reset,
    /// INIT: the application can post receives.
    Init,
    /// RTR: the queue pair is connected (a UD queue pair has its queue key), and processes received requests.
    ReadyToReceive,
    /// RTS: the queue pair sends requests too.
    ReadyToSend,
    /// SQD (send queue drain): the queue pair finishes messages that it has begun to send, and begins no other.
    SendQueueDrain,
    /// SQE (send queue error): a send request of an unreliable connection or a datagram failed. The queue pair still
    /// receives.
    SendQueueError,
    /// ERR: all work requests complete as flushed ([`Status::WorkRequestFlushed`](super::Status::WorkRequestFlushed)),
    /// and the queue pair drops received packets.
    Error,
}

/// The transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Service {
    /// Reliable connection with go-back-N, the loss recovery of RoCE. It interoperates with every RoCEv2 endpoint.
    #[default]
    Rc,
    /// Reliable connection with selective retransmission, the loss recovery of IRN ("Revisiting Network Support for
    /// RDMA", SIGCOMM 2018). Both ends must be rnic.
    Irn,
    /// Unreliable connection, for Sends and RDMA Writes. If a packet is lost, the receiver drops the whole message.
    Uc,
    /// Unreliable datagrams: Sends of one packet each, to any UD queue pair. A lost datagram is lost. It interoperates
    /// with every RoCEv2 endpoint.
    Ud,
}

impl Service {
    /// All services.
    pub const ALL: [Service; 4] = [Service::Rc, Service::Irn, Service::Uc, Service::Ud];
    /// The services whose queue pairs are connected to one peer.
    pub const CONNECTED: [Service; 3] = [Service::Rc, Service::Irn, Service::Uc];

    /// The name in messages of the out-of-band exchange and on command lines: `rc`, `irn`, `uc` or `ud`.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Rc => "rc",
            Service::Irn => "irn",
            Service::Uc => "uc",
            Service::Ud => "ud",
        }
    }

    /// The service with this name.
    pub fn named(name: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|service| service.name() == name)
    }
}

/// Maximum sizes of a queue pair's queues and work requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacities {
    /// Maximum number of send requests that are not completed.
    pub send_wr: u32,
    /// Maximum number of receives that are not completed; ignored with a shared receive queue.
    pub recv_wr: u32,
    /// Maximum number of scatter-gather elements of a send request.
    pub send_sge: u32,
    /// Maximum number of scatter-gather elements of a receive; ignored with a shared receive queue.
    pub recv_sge: u32,
    /// Maximum length in bytes of the inline data of a send request.
    pub inline: u32,
}

impl Default for Capacities {
    fn default() -> Capacities {
        Capacities { send_wr: 128, recv_wr: 128, send_sge: 4, recv_sge: 4, inline: 256 }
    }
}

/// The attributes that a queue pair gets when it is created.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Transport service.
    pub service: Service,
    /// Completion queue for send requests.
    pub send_cq: CqId,
    /// Completion queue for receives.
    pub recv_cq: CqId,
    /// Shared receive queue; `None`: the queue pair has a receive queue of its own.
    pub srq: Option<SrqId>,
    /// Sizes of the queue pair's queues and work requests.
    pub capacities: Capacities,
    /// Whether every send request is signalled, whatever its flags.
    pub signal_all: bool,
}

/// A change of a queue pair's state, with the attributes that the change sets (InfiniBand volume 1, section 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transition {
    /// RESET to INIT: the application can post receives. [`Access`] holds the rights of the peer through this queue
    /// pair. In state INIT the transition changes only these rights.
    Init(Access),
    /// INIT to RTR: the queue pair is connected and receives packets.
    ReadyToReceive(Connection),
    /// INIT to RTR of a UD queue pair: the queue pair receives datagrams.
    ReceiveDatagrams(DatagramAttributes),
    /// RTR to RTS: the queue pair may send requests. SQD or SQE to RTS: sending resumes, and the attributes have no
    /// effect.
    ReadyToSend(SendAttributes),
    /// RTS to RTS and SQD to SQD: changes attributes of a connected queue pair.
    Change(QpChange),
    /// RTS to SQD: the queue pair finishes messages that it has begun to send, and begins no other.
    /// [`Event::SendQueueDrained`](super::Event::SendQueueDrained) tells when these messages are completed.
    SendQueueDrain,
    /// Any state to ERR: all outstanding requests and receives complete with
    /// [`Status::WorkRequestFlushed`](super::Status::WorkRequestFlushed).
    Error,
    /// Any state to RESET: outstanding work requests disappear without completions, and the queue pair can be connected
    /// again. The new connection should begin with other PSNs, because packets of the old connection may still arrive.
    Reset,
}

/// New values of attributes of a connected queue pair; `None`: the attribute stays as it is (InfiniBand volume 1,
/// section 11.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpChange {
    /// Rights of the peer through this queue pair; in states RTS and SQD.
    pub access: Option<Access>,
    /// Code of the minimum time after an RNR NAK, as in [`Connection`]; in states RTS and SQD.
    pub min_rnr_timer: Option<u8>,
    /// The peer's IP address and UDP port; in state SQD once the send queue is drained, as all attributes below.
    pub peer: Option<SocketAddr>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: Option<u8>,
    /// Code of RC's retransmission timeout, 0 to 31, as in [`SendAttributes`].
    pub timeout: Option<u8>,
    /// Maximum number of retries of a request after timeouts, 0 to 7.
    pub retry_count: Option<u8>,
    /// Maximum number of retries of a request after RNR NAKs, 0 to 6; 7 means no limit.
    pub rnr_retry: Option<u8>,
    /// Maximum number of reads and atomics that this side has outstanding.
    pub max_rd_atomic: Option<u8>,
    /// Maximum number of reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// Queue key of a UD queue pair, in states RTS and SQD. The other attributes are those of connections, which a UD
    /// queue pair does not have.
    pub qkey: Option<u32>,
}

/// Attributes, state and outstanding work of a queue pair, as [`Verbs::query_qp`](crate::Verbs::query_qp) returns them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInfo {
    /// State of the queue pair.
    pub state: State,
    /// Transport service.
    pub service: Service,
    /// Sizes of the queue pair's queues and work requests.
    pub capacities: Capacities,
    /// Attributes of the connection; `None` before RTR, and for UD.
    pub connection: Option<Connection>,
    /// Attributes of a UD queue pair; `None` before RTR, and for other services.
    pub datagrams: Option<DatagramAttributes>,
    /// Rate limit that the application has set; `None`: only the link limits the rate.
    pub rate: Option<BitRate>,
    /// Number of send requests that are not completed, unsignalled requests included.
    pub sends: u32,
    /// Number of receives that are not completed. With a shared receive queue, this is the number of receives that
    /// messages in progress have taken from the shared queue.
    pub receives: u32,
}

/// Maximum path MTU in bytes of payload, which only IRN supports: 9,000 bytes of a jumbo frame minus the IPv4, UDP and
/// base transport headers.
pub const MAX_MTU: u32 = 8_960;

/// The differentiated services code point (DSCP) of urgent packets. A device sends the packets of a connection with
/// this DSCP before those of all others; only short messages should use it. It is the one that NICs give to CNPs (48).
pub const URGENT_DSCP: u8 = 48;

/// The attributes of a connection, which the transition from INIT to RTR sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The peer's IP address, and the UDP port to which packets are sent. The device drops received packets with
    /// another source IP address.
    pub peer: SocketAddr,
    /// The UDP source port of the peer's packets; the device drops packets with another one. `None`: any, for a peer
    /// that does not tell its source port. The port keeps out packets that other users of the peer's host send.
    pub peer_source_port: Option<u16>,
    /// Maximum number of packets that the peer has in flight, 1 to [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT). IRN drops
    /// packets further ahead than this (rounded up to a power of two, at least 128), so a stranger has to guess the PSN
    /// the more exactly the smaller the number is. For a peer that does not tell it, the number is
    /// [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT). RC and UC do not use it.
    pub peer_in_flight: u32,
    /// Whether the owner of the device protects the packets of the connection, which are authenticated then. The device
    /// drops packets that are protected although the connection is not, and the other way round. In a [`Batch`] each
    /// protected packet has room for its header before it, and for its tag instead of the ICRC after it.
    ///
    /// [`Batch`]: crate::Batch
    pub protected: bool,
    /// QPN of the peer's queue pair.
    pub peer_qpn: Qpn,
    /// Path MTU: payload bytes of a full packet. RC allows 256, 512, 1024, 2048 and 4096. UC allows 8192 too, if both
    /// ends are rnic. IRN allows any multiple of 4 from 256 to [`MAX_MTU`].
    pub path_mtu: u32,
    /// PSN of the peer's first request packet, 24 bits.
    pub recv_psn: u32,
    /// Maximum number of reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// RNR NAK timer: the five-bit code of the minimum time that the peer waits after an RNR NAK before it retries. The
    /// code is 0 to 31, and code 0 is the longest time, 655.36 ms.
    pub min_rnr_timer: u8,
    /// Differentiated services code point of the packets sent, 0 to 63.
    pub dscp: u8,
}

/// The attributes that a queue pair gets in the transition from RTR to RTS, for the requests that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendAttributes {
    /// PSN of this side's first request packet, 24 bits.
    pub send_psn: u32,
    /// Code n of RC's retransmission timeout, 0 to 31: the timeout is 4.096 us times 2^n; 0 means no timeout.
    pub timeout: u8,
    /// Maximum number of retries of a request after timeouts, 0 to 7. It has no effect if `give_up_after` is set.
    pub retry_count: u8,
    /// Maximum number of retries of a request after RNR NAKs, 0 to 6; 7 means no limit.
    pub rnr_retry: u8,
    /// Maximum number of reads and atomics that this side may have outstanding.
    pub max_rd_atomic: u8,
    /// RC and IRN: time after which the queue pair gives up a peer that does not respond, 1 ms to 1 day, whatever the
    /// number of timeouts until then. `None`: it gives up after `retry_count` retries, as InfiniBand prescribes.
    ///
    /// The time counts from the last response that acknowledged a packet for the first time, or from the transmission
    /// of the oldest outstanding request if that was later. An RNR NAK shows that the peer is alive, so the time counts
    /// again when the wait that it asks for ends.
    pub give_up_after: Option<Time>,
    /// RC and IRN: idle time after which the queue pair probes whether its peer is alive, 1 ms to 1 day. `None`: it
    /// never does, so it notices a dead peer only when it sends a request.
    ///
    /// A queue pair without outstanding requests whose last response arrived that long ago sends a probe: an RDMA Write
    /// of 0 bytes with the PSN of its last packet. The peer takes it for a duplicate and acknowledges it, so it needs
    /// no receive and no access right. Without a response the queue pair repeats the probe, 8 times within
    /// `give_up_after`, or else `retry_count` times after RC's timeout or IRN's `timeouts.high`. Then it goes into the
    /// error state, with the event [`QueuePairError`](super::Event::QueuePairError).
    pub keep_alive: Option<Time>,
}

impl Default for SendAttributes {
    fn default() -> SendAttributes {
        SendAttributes {
            send_psn: 0,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 16,
            give_up_after: None,
            keep_alive: None,
        }
    }
}

impl SendAttributes {
    /// RC's retransmission timeout; `None` if there is none.
    pub(crate) fn timeouts(&self) -> Option<Timeouts> {
        let span = Time::from_ns(4_096 << self.timeout);
        (self.timeout > 0).then_some(Timeouts { high: span, low: span, low_packets: 0, dynamic: None })
    }
}
