//! Measures RDMA between two hosts over `rnic-endpoint`, an RDMA NIC in software: bandwidth and latency of every
//! operation, as perftest does.
//!
//! | module | holds |
//! |---|---|
//! | crate root | [`run`] and [`serve`], client and server of `rnic perf`; [`run_perftest`], with a perftest program as
//! the peer |
//! | [`ibverbs`] | the out-of-band exchanges and the traffic of `ibv_rc_pingpong` and of perftest |
//! | [`raw`] | throughput and round-trip time of plain UDP datagrams: the upper bound for every transport above UDP |
//!
//! The client's [`Plan`] has all settings of a measurement, and the client sends it to the server. The server needs
//! only a TCP listener:
//!
//! ```
//! use rnic_perf::{Amount, Op, Plan, ServeOptions, run, serve};
//! use std::net::TcpListener;
//! use std::sync::atomic::AtomicBool;
//!
//! let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//! let address = listener.local_addr().unwrap();
//! let server = std::thread::spawn(move || {
//!     let options = ServeOptions { roce_port: 0, once: true, ..ServeOptions::default() };
//!     serve(&listener, options, &AtomicBool::new(false), |served| assert!(served.result.is_ok()))
//! });
//! // Client and server run on one host, so they cannot both use UDP port 4791; port 0 stands for any free port.
//! let (op, amount) = (Op::Write, Amount::Messages(100));
//! let plan = Plan { op, sizes: vec![4_096], amount, roce_port: 0, ..Plan::default() };
//! let report = run(address, &plan, &AtomicBool::new(false), |_, _| {}).unwrap();
//! assert_eq!(report.rows[0].messages, 100);
//! server.join().unwrap().unwrap();
//! ```
#![forbid(unsafe_code)]

pub mod ibverbs;
mod op;
mod peak;
mod perf;
pub mod raw;
mod reception;
mod statistics;

pub use op::Op;
pub use perf::{
    Amount, CHANNEL_GIVE_UP_AFTER, Carrier, ChannelPlan, ChannelService, Counts, DEFAULT_MAX_MEMORY, DEFAULT_PORT,
    FaultError, FaultPlan, GIVE_UP_AFTER, HostTransport, Latencies, Live, LiveFaults, Meter, PathSelection, PerfError,
    Plan, PlanError, Point, QueuePairPoint, Report, Row, SIZES, ServeOptions, Served, Side, Unit, Verified, run,
    run_perftest, serve,
};
pub use reception::serve_speakers;
pub use statistics::publish;
