//! TCP, the transport under iWARP: a congestion window in bytes, and loss recovery with or without selective
//! acknowledgements.
//!
//! | mechanism | standard |
//! |---|---|
//! | slow start, congestion avoidance, fast retransmit, fast recovery, initial window | RFC 5681 |
//! | limited transmit | RFC 3042 |
//! | loss recovery with SACK: scoreboard, `pipe`, choice of the next segment | RFC 6675 |
//! | loss recovery without SACK: NewReno, with the "impatient" timer of its section 4 | RFC 6582 |
//! | retransmission timer, round-trip time | RFC 6298, RFC 7323 section 4 |
//! | immediate and delayed acknowledgements | RFC 5681 section 4.2 |
//!
//! The TCP sender has all data of a flow from the start, so every segment except the last is full, and sequence numbers
//! count segments instead of bytes. Windows are in bytes, and the last segment counts as a full segment.
//!
//! Where the standards leave a choice, or this model of TCP simplifies them:
//!
//! - *Acknowledgements.* The receiver responds to an out-of-order segment immediately with a [`Pdu`](crate::Pdu) of
//!   kind NACK. This NACK stands for a duplicate acknowledgement with one SACK block. The block contains the segment
//!   and up to 255 segments immediately before it; RFC 2018 requires this block to be the first. A real SACK option
//!   repeats older blocks after the first. The model omits the older blocks, because earlier NACKs have reported each
//!   of them. The omission matters only if an earlier NACK was lost, and usually the next NACK for the same block makes
//!   up for the loss. A duplicate of a cumulatively acknowledged segment triggers an acknowledgement without a SACK
//!   block. If the setting `sack` is off, no acknowledgement has a SACK block.
//! - *Round-trip time.* Every segment carries its departure time, and every acknowledgement echoes the departure time
//!   of a segment, so retransmissions give valid measurements. As in RFC 7323 section 4.3, the sender measures only
//!   acknowledgements of new data, and a delayed acknowledgement echoes the oldest segment that it acknowledges. A
//!   duplicate acknowledgement echoes the segment that caused it, where RFC 7323 echoes the last segment in order. The
//!   sender measures with this echo only if the acknowledgement of the last segment in order was lost. The result is a
//!   correct round-trip time.
//! - *After a timeout* selective acknowledgements stay valid (RFC 6675 section 5.1), unless the first missing segment
//!   is selectively acknowledged. In that case the receiver has discarded data, and the sender forgets all selective
//!   acknowledgements. All other segments before the recovery point count as lost, and the sender retransmits them in
//!   slow start.
//! - *FlightSize*, from which the slow start threshold `ssthresh` is computed, excludes segments sent by limited
//!   transmit, so it is at most the congestion window. A timeout during fast recovery does not halve `ssthresh` again,
//!   because the recovery has halved it already.
//! - *Growth* of the congestion window follows RFC 5681, equations 2 and 3, per acknowledgement of new data, up to the
//!   receive window.
//! - *Connection setup* consists of a SYN and a SYN-ACK; the third segment already carries data. The SYN-ACK gives a
//!   round-trip time measurement, so a lost SYN does not increase the timeout of data (RFC 6298, rule 5.7). After a
//!   lost SYN the initial window is one segment (RFC 5681 section 3.1).

mod receiver;
mod scoreboard;
mod sender;

pub use receiver::TcpReceiver;
pub use sender::TcpSender;

use super::Protocol;
use crate::bitmap::BitWindow;
use crate::config::FlowConfig;

/// The loss recovery protocol TCP: its sender and receiver.
#[derive(Clone, Copy, Debug)]
pub struct Tcp;

impl Protocol for Tcp {
    type Sender = TcpSender;
    type Receiver = TcpReceiver;
    fn sender_learns_completion(_cfg: &FlowConfig) -> bool {
        true
    }
    fn receiver_has_timer(cfg: &FlowConfig) -> bool {
        cfg.tcp.delayed_acks.is_some()
    }
}

/// An empty bitmap of the segments in flight, for a flow of `packets` segments (0 for a flow without a fixed length).
/// It is no larger than the flow or the receive window requires.
fn window(cfg: &FlowConfig, packets: u64) -> BitWindow {
    let packets = if packets == 0 { u64::MAX } else { packets };
    BitWindow::new(u64::from(cfg.tcp.receive_window_segments(cfg.mtu)).min(packets) as u32)
}
