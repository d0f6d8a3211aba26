//! A RoCEv2 endpoint in user space: RDMA verbs over any Ethernet, without RDMA hardware or a kernel module. Linux only.
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | the safe interface: devices, memory regions, completion queues, queue pairs |
//! | [`driver`] | moves packets between a port and the queue pairs, checks and writes their ICRC |
//! | [`port`] | datagrams in batches: UDP sockets, a pair in memory, a port with faults |
//! | [`clock`] | monotonic time |
//! | [`idle`] | what a progress loop does between two packets: spin or sleep |
//! | [`exchange`] | what two ends tell each other over TCP before the first packet |
//! | [`perf`] | bandwidth and latency between two ends |
//! | [`ibverbs`] | exchange and traffic of `ibv_rc_pingpong` and of perftest |
//! | [`raw`] | how fast and how soon plain datagrams are: the bound for any transport on top |

//!
//! The programs in `examples` are the way in: `pingpong`, `key_value` and `atomic_counter`. What happens underneath is told in
//! `docs/concepts/endpoint.md`.

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rnic-endpoint needs Linux: it uses UDP_SEGMENT, UDP_GRO and control messages of Linux sockets");

pub mod clock;
pub mod device;
pub mod driver;
pub mod exchange;
pub mod ibverbs;
pub mod idle;
mod peak;
pub mod perf;
pub mod port;
pub mod raw;

pub use clock::{Clock, TimeSource};
pub use device::{
    Acknowledge, Address, CompletionQueue, Config, Counters, Device, Error, MemoryRegion, Mode, PathOptions,
    ProtectionDomain, QpOptions, QueuePair, SharedReceiveQueue,
};
pub use driver::Identification;
pub use port::{Arrival, Batch, FaultyPort, Port, UdpPort};
pub use rnic_transport::{Time, Timeouts};
pub use rnic_verbs::{
    Access, Capacities, Completion, Congestion, Data, DeviceConfig, Event, Limits, Notify, Opcode, Qpn, SendFlags,
    SendOp, SendRequest, Service, Sge, State, Status, VerbsError,
};

/// The Rust example of the README compiles and runs as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
