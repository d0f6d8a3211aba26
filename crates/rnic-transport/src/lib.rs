//! Reliable RDMA transport protocols as pure state machines: no sockets, no clocks, no threads, no payload bytes.
//!
//! The same code runs inside the packet-level simulator and in the endpoint, a program that sends the packets over real
//! sockets. The interface of a flow is *pull*: its owner (the simulator or the endpoint) passes each received packet to
//! the flow as a small parsed value, and asks the flow for the next packet to transmit whenever the link is idle.
//!
//! ```
//! use rnic_transport::congestion::NoCongestionControl;
//! use rnic_transport::recovery::Irn;
//! use rnic_transport::{FlowConfig, Receiver, RxMeta, Sender, Time};
//!
//! let cfg = FlowConfig::default(); // an MTU of 1024 B
//! let mut sender = Sender::<Irn, NoCongestionControl>::new(&cfg, &(), 3_000, Time::ZERO);
//! let mut receiver = Receiver::<Irn>::new(&cfg, 3_000, Time::ZERO);
//!
//! // A network with a one-way delay of 1 us.
//! let (sent_at, received_at, acked_at) = (Time::ZERO, Time::from_us(1), Time::from_us(2));
//! let mut payload = 0;
//! while let Some(packet) = sender.poll_transmit(&cfg, &(), sent_at) {
//!     payload += packet.payload;
//!     let outcome = receiver.handle(&cfg, received_at, packet.pdu, RxMeta::default());
//!     sender.handle(&cfg, &(), acked_at, outcome.reply.expect("IRN acknowledges every packet"));
//! }
//! assert_eq!(payload, 3_000);
//! assert!(receiver.is_complete() && sender.is_complete());
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`time`], [`units`] | time in picoseconds, rates, sizes |
//! | [`psn`], [`bitmap`] | 24-bit packet sequence numbers, the bitmap of a sliding window |
//! | [`pdu`], [`headers`] | the packets that sender and receiver of a flow exchange, and their sizes on the wire |
//! | [`recovery`] | loss recovery of sender and receiver: go-back-N, IRN, sprayed IRN, TCP |
//! | [`rto`] | a retransmission timeout (RTO) that is computed from measured round-trip times |
//! | [`paths`] | path selection of senders: which entropy each packet has |
//! | [`congestion`] | the congestion control trait and its implementations |
//! | [`credit`] | credit that the NIC of a receiver grants to its senders |
//! | [`config`] | the settings that all flows of a simulation or endpoint share |
//! | [`flow`] | a flow: its [`flow::Sender`] and [`flow::Receiver`], with loss recovery and congestion control |
//! | [`message`] | transports of one-way messages (NDP, HPCC, Homa) on the NIC of the NanoTransport paper |
//! | [`telemetry`] | in-band network telemetry: the records that switches write into data packets |
//! | [`transports`], [`settings`] | the transports that users can choose, and the parameters that users can set |
//! | [`registry`] | the names of all transports and congestion controls |
//! | [`random`] | random bits as a number below a bound |
//! | [`conformance`] | a test that every congestion control must pass |

pub mod bitmap;
pub mod config;
pub mod conformance;
pub mod congestion;
pub mod credit;
pub mod flow;
pub mod headers;
pub mod message;
pub mod paths;
pub mod pdu;
pub mod psn;
pub mod random;
pub mod recovery;
pub mod registry;
pub mod rto;
pub mod settings;
pub mod telemetry;
pub mod time;
pub mod transports;
pub mod units;

pub use config::{FlowConfig, GoBack, NackPolicy, TcpConfig, Timeouts, TimerRestart};
pub use flow::{Notifier, Receiver, Regulator, Sender, Timer};
pub use pdu::{Pdu, PduKind, RxMeta, RxOutcome, TxDesc};
pub use psn::Psn;
pub use time::Time;
pub use units::{BitRate, Bytes};
