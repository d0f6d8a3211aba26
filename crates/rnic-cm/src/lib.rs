//! The communication manager (CM) of InfiniBand: it sets up and ends the connections of queue pairs with management
//! datagrams (MADs) to queue pair 1 (InfiniBand volume 1, chapter 12), with the private header of the RDMA IP CM
//! service (annex A11). The crate has no sockets and no clocks: [`Manager`] takes received MADs and the time, and
//! returns MADs to send and events.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | the messages as plain structs; their bytes |
//! | [`ip`] | service IDs of port numbers; the header in which a REQ carries IP addresses |
//! | [`packet`] | the RoCEv2 packet that carries a MAD |
//! | [`manager`] | the state machine of all connections of an address |
//! | [`rsocket`], [`datagram`] | the protocols of rsockets: streams, datagrams |
//! | [`unmatched`] | responses to messages that match no connection and no listener |
//! | [`connection_list`] | the connections of a process, for another process that ends them if it is killed |
//!
//! A peer may send any bytes. All state that a peer can create is bounded ([`manager::Limits`]). A message of a
//! connection must come from the address of the connection's peer, and must contain both communication IDs. Half of the
//! bits of each communication ID are random.
#![forbid(unsafe_code)]

mod connection;
pub mod connection_list;
pub mod datagram;
pub mod ip;
pub mod manager;
pub mod message;
pub mod packet;
pub mod rsocket;
pub mod unmatched;

pub use manager::{Event, Manager, ManagerError};
pub use message::Transmit;
pub use message::{Message, Parsed};
