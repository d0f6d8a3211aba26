//! The test bed of rnic against the Linux kernel's own software RoCE (`rdma_rxe`).
//!
//! A guest is a virtual machine that qemu emulates in software, with Debian's kernel and RDMA programs in an initramfs;
//! neither root nor KVM is needed. Its Ethernet port hangs on a [`LinkEnd`]: raw frames over a pair of local sockets.
//! The other end is a [`FramePort`], which speaks for our side, or another guest, directly or through a [`Relay`] that
//! loses and disorders frames.
//!
//! | module | holds |
//! |---|---|
//! | [`image`] | the guest's kernel and initramfs, made by `build_guest.py` |
//! | [`guest`] | one running virtual machine: boot, commands, end |
//! | [`link`] | links and the relay between two of them |
//! | [`fault`] | seeded or scripted loss, reordering, duplication and corruption of frames |
//! | [`frame`] | Ethernet, ARP, IPv4, IPv6, neighbour discovery and UDP, as bytes |
//! | [`port`] | our side's Ethernet port |
//! | [`endpoint`] | rnic's endpoint on that port |
//! | [`mod@tap`] | our side with real sockets, for programs |
//! | [`roce`] | base transport header and ICRC, for the bed's own proof |
//! | [`pcap`] | captures of the link, and the fixtures made of them |
//! | [`host`] | who has which address |
//! | [`mod@bench`] | what a case works with, and how cases are run |
//! | [`cases`] | the table of cases |
#![expect(clippy::disallowed_methods, reason = "the test bed drives real machines in real time")]

pub mod bench;
pub mod cases;
pub mod endpoint;
pub mod error;
pub mod fault;
pub mod frame;
pub mod glibc;
pub mod guest;
pub mod host;
pub mod image;
pub mod link;
pub mod pcap;
pub mod port;
pub mod roce;
pub mod tap;

pub use bench::{Bench, Case};
pub use error::{Error, Result};
pub use fault::{Fault, Faults};
pub use frame::{Datagram, Udp};
pub use guest::{Guest, GuestOptions, Job};
pub use host::Host;
pub use image::GuestImage;
pub use link::{Frames, Link, LinkEnd, Relay};
pub use port::FramePort;
pub use tap::HostNetwork;
