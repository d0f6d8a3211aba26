//! A RoCEv2 endpoint in user space: RDMA verbs over any Ethernet, without RDMA hardware or a kernel module. Linux only.
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | the safe interface: devices, memory regions, completion queues, queue pairs; the trait [`Verbs`], for code that works with any NIC |
//! | [`config`] | settings with which an RDMA device is opened |
//! | [`driver`] | moves packets between a port and the queue pairs, checks and writes their ICRC |
//! | [`port`] | ports that send and receive datagrams in batches: UDP sockets, also shared by many processes, a pair of ports in memory for tests, fault injection, captures |
//! | [`clock`] | clocks: monotonic time, and the CPU time of a thread |
//! | [`idle`] | whether a thread that moves packets spins or sleeps while it has no work |
//! | [`memory`] | memory that several processes share, with huge pages, for registration |
//! | [`secure`] | protection of packets: key agreement, sealing and opening of packets, replay window |
//! | [`statistics`] | statistics of the queue pairs of all processes of a host |
//! | `sessions` | the keys of protected connections |
//! | [`exchange`] | the out-of-band exchange over TCP that connects two queue pairs |
//!
//! An example: this program opens two devices on one host, and one device writes into the memory of the other by an
//! RDMA Write.
//!
//! ```
//! use rnic_endpoint::{Access, Config, Device, PathOptions, QpOptions, SendOp, Time};
//!
//! # fn main() -> Result<(), rnic_endpoint::Error> {
//! // UDP port 0 stands for any free one, so that both devices can use the same IP address. Between two hosts, each
//! // program calls `Device::open`, which takes UDP port 4791.
//! let address = "127.0.0.1:0".parse().unwrap();
//! let [here, there] = [Device::open_at(address, Config::default())?, Device::open_at(address, Config::default())?];
//! let (cq, other_cq) = (here.completion_queue(16)?, there.completion_queue(16)?);
//! let (pd, other_pd) = (here.protection_domain(), there.protection_domain());
//! let local = pd.register(b"hello".to_vec(), Access::LOCAL)?;
//! let remote = other_pd.register(vec![0; 64], Access::ALL)?;
//! let (qp, other_qp) = (pd.queue_pair(&QpOptions::new(&cq))?, other_pd.queue_pair(&QpOptions::new(&other_cq))?);
//! qp.connect(&other_qp.address(), &PathOptions::default())?;
//! other_qp.connect(&qp.address(), &PathOptions::default())?;
//!
//! let op = SendOp::Write { addr: remote.addr(), rkey: remote.rkey() };
//! qp.post(1, op, &[local.slice(0, 5)?])?;
//! let completion = cq.wait_one(Time::from_ms(5_000))?;
//! assert_eq!(completion.wr_id, 1);
//! remote.with(|bytes| assert_eq!(&bytes[..5], b"hello"));
//! # Ok(())
//! # }
//! ```
//!
//! The programs in `examples` are complete: `pingpong`, `key_value`, `atomic_counter` and `epoll`.
//! `docs/concepts/endpoint.md` explains how a packet passes through the crate.

#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rnic-endpoint needs Linux: it uses UDP_SEGMENT, UDP_GRO and control messages of Linux sockets");

pub mod clock;
pub mod config;
pub mod device;
pub mod driver;
pub mod exchange;
pub mod host;
pub mod idle;
pub mod memory;
pub mod port;
mod ring;
pub mod secure;
mod sessions;
pub mod statistics;
mod sync;

pub use clock::{Clock, DeviceClock, TimeSource};
pub use config::{Acknowledge, Config, Identification, Mode, Security};
pub use device::{
    Address, CompletionQueue, Counters, DatagramAddress, DatagramOptions, Device, Error, MemoryRegion, MemoryWindow,
    PathOptions, ProtectionDomain, QpOptions, QueuePair, ReadyFd, SharedReceiveQueue,
};
pub use memory::{MemoryError, Pages, SharedMemory};
pub use port::{Arrival, Batch, FaultyPort, Port, UdpPort};
pub use rnic_transport::{BitRate, Time, Timeouts};
pub use rnic_verbs::{
    Access, AddressHandle, Buffer, Capacities, Completion, Congestion, Data, DeviceConfig, Event, ForeignMemory,
    GRH_LEN, Limits, Notify, Opcode, Qpn, Recipient, SendFlags, SendOp, SendRequest, Service, Sge, Source, State,
    Status, Verbs, VerbsError, WindowKind,
};
