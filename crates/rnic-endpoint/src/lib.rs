//! A RoCEv2 endpoint in user space: RDMA verbs over any Ethernet, without RDMA hardware or a kernel module. Linux only.
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | the safe interface: devices, memory regions, completion queues, queue pairs |
//! | [`config`] | how a device is opened |
//! | [`driver`] | moves packets between a port and the queue pairs, checks and writes their ICRC |
//! | [`port`] | datagrams in batches: UDP sockets, a pair in memory, a port with faults |
//! | [`clock`] | monotonic time |
//! | [`idle`] | what a progress loop does between two packets: spin or sleep |
//! | [`exchange`] | what two ends tell each other over TCP before the first packet |
//!
//! The programs in `examples` are the way in: `pingpong`, `key_value` and `atomic_counter`. What happens underneath is told in
//! `docs/concepts/endpoint.md`.

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rnic-endpoint needs Linux: it uses UDP_SEGMENT, UDP_GRO and control messages of Linux sockets");

pub mod clock;
pub mod config;
pub mod device;
pub mod driver;
pub mod exchange;
pub mod idle;
pub mod port;

pub use clock::{Clock, TimeSource};
pub use config::{Acknowledge, Config, Identification, Mode};
pub use device::{
    Address, CompletionQueue, Counters, Device, Error, MemoryRegion, PathOptions, ProtectionDomain, QpOptions,
    QueuePair, SharedReceiveQueue,
};
pub use port::{Arrival, Batch, FaultyPort, Port, UdpPort};
pub use rnic_transport::{BitRate, Time, Timeouts};
pub use rnic_verbs::{
    Access, Capacities, Completion, Congestion, Data, DeviceConfig, Event, ForeignMemory, Limits, Notify, Opcode, Qpn,
    SendFlags, SendOp, SendRequest, Service, Sge, State, Status, Verbs, VerbsError,
};
