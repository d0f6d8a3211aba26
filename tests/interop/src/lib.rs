//! The interoperability test bed: it tests rnic against the Linux kernel's RoCE in software (`rdma_rxe`).
//!
//! A guest is a virtual machine that qemu emulates in software, with Debian's kernel and RDMA programs in an initramfs.
//! It needs neither root nor KVM. The guest's Ethernet port is one [`LinkEnd`] of a link, which carries raw frames over
//! a pair of local sockets. The other end of the link is either a [`FramePort`], through which rnic sends and receives,
//! or another guest. A [`Relay`] between the two ends can drop and reorder frames.
//!
//! | module | holds |
//! |---|---|
//! | [`image`] | the guest's kernel and initramfs, made by `build_guest.py` |
//! | [`guest`] | one running virtual machine: it boots, runs commands, and ends |
//! | [`payload`] | files that a case adds to its guest |
//! | [`link`] | links, and the relay that joins two links |
//! | [`fault`] | seeded or scripted loss, reordering, duplication and corruption of frames |
//! | [`frame`] | Ethernet, ARP, IPv4, IPv6, neighbour discovery and UDP, as bytes |
//! | [`port`] | the Ethernet port of rnic's side |
//! | [`endpoint`] | rnic's endpoint on this Ethernet port |
//! | [`mod@tap`] | rnic's side with real sockets in a network namespace, for programs |
//! | [`roce`] | base transport header and ICRC, to test the test bed itself |
//! | [`pcap`] | captures of the link, and the capture files made of them |
//! | [`host`] | the addresses of the hosts on a link |
//! | [`mod@bench`] | the guests and ports that a case works with, and how cases are run |
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
pub mod payload;
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
