//! Reliable RDMA transport protocols as pure state machines: no sockets, no clocks, no threads, no payload bytes.
//!
//! The same code runs inside the packet-level simulator and behind real sockets. Its shape is *pull*: what arrives is handed
//! in as a small parsed value, and the owner asks what to send when the wire is free.
//!
//! | module | holds |
//! |---|---|
//! | [`time`], [`units`] | picosecond time, rates, sizes |
//! | [`psn`], [`bitmap`] | 24-bit sequence numbers, the sliding bitmap of a window |
//! | [`pdu`], [`headers`] | what travels between the halves of a flow, and how large it is on a wire |
//! | [`recovery`] | go-back-N, IRN and TCP, sender and receiver |
//! | [`rto`] | the retransmission timeout that follows from measured round trips |
//! | [`congestion`] | the congestion control trait and its implementations |
//! | [`flow`] | recovery and congestion control together: [`flow::Sender`], [`flow::Receiver`] |
//! | [`message`] | message transports: the NanoTransport engine and its programs |
//! | [`telemetry`] | in-band network telemetry |
//! | [`registry`] | what exists, by name |
//! | [`conformance`] | what every congestion control must do, as a test |

pub mod bitmap;
pub mod config;
pub mod conformance;
pub mod congestion;
pub mod flow;
pub mod headers;
pub mod message;
pub mod pdu;
pub mod psn;
pub mod recovery;
pub mod registry;
pub mod rto;
pub mod telemetry;
pub mod time;
pub mod units;

pub use config::{FlowConfig, NackPolicy, TcpConfig, Timeouts};
pub use flow::{Notifier, Receiver, Regulator, Sender, Timer};
pub use pdu::{Pdu, PduKind, RxMeta, RxOutcome, TxDesc};
pub use psn::Psn;
pub use time::Time;
pub use units::{BitRate, Bytes};
