//! TCP, the transport under iWARP: byte-counted congestion window, loss recovery with or without selective acknowledgements.
//!
//! | what | after |
//! |---|---|
//! | slow start, congestion avoidance, fast retransmit, fast recovery, initial window | RFC 5681 |
//! | limited transmit | RFC 3042 |
//! | recovery with selective acknowledgements: scoreboard, `pipe`, what to send next | RFC 6675 |
//! | recovery without: NewReno, with the "impatient" timer of its section 4 | RFC 6582 |
//! | retransmission timer, round-trip time | RFC 6298, RFC 7323 section 4 |
//! | acknowledgements, at once or delayed | RFC 5681 section 4.2 |
//!
//! The source has all its data from the start, so every segment but the flow's last is full and sequence numbers count
//! segments. Windows count bytes; there the last segment counts as a full one.
//!
//! Where the standards leave a choice or the model simplifies:
//!
//! - *Acknowledgements.* An arrival out of order is answered at once by a NACK descriptor: a duplicate acknowledgement with one
//!   SACK block, the one that holds the arrival and up to 255 segments right below it (RFC 2018 wants this block first). The
//!   blocks that a real option repeats after it were each reported by the arrivals that made them: only a lost
//!   acknowledgement makes a difference, and mostly the next one of the same block repairs it. Duplicate data earns a plain
//!   acknowledgement; without `sack`, all acknowledgements are plain.
//! - *Round-trip time.* Every packet carries its departure time and every acknowledgement echoes one, so retransmissions give
//!   valid measurements. As in RFC 7323 section 4.3, only acknowledgements of new data are measured, and a delayed one echoes
//!   the oldest segment that it covers. A duplicate acknowledgement echoes the segment that caused it, not the last one in order:
//!   the sender measures it only if the acknowledgement of that one was lost, and then it is a true round trip.
//! - *After a timeout* selective acknowledgements stay valid (RFC 6675 section 5.1), unless the first missing segment is among
//!   them: then the receiver has dropped data and all are forgotten. Everything else below the recovery point counts as lost and
//!   is sent again in slow start.
//! - *FlightSize*, where `ssthresh` is set, leaves out what limited transmit sent: it is at most the congestion window. A timeout
//!   during fast recovery is of the window that was halved already, and does not halve it again.
//! - *Growth* follows RFC 5681, equations 2 and 3, per acknowledgement of new data, up to the receive window.
//! - *Connection setup* is a SYN and its answer; the third segment is the first one with data. Since the answer is measured, a
//!   lost SYN does not force a longer timeout on the data (RFC 6298, rule 5.7); the initial window is one segment then (RFC
//!   5681 section 3.1).

mod receiver;
mod scoreboard;
mod sender;

pub use receiver::TcpReceiver;
pub use sender::TcpSender;

use super::Protocol;
use crate::bitmap::BitWindow;
use crate::config::FlowConfig;

/// Marker of the protocol.
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

/// The bitmap for a flow of `packets`: no larger than the flow or the receive window needs.
fn window(cfg: &FlowConfig, packets: u64) -> BitWindow {
    BitWindow::new(u64::from(cfg.tcp.receive_window_segments(cfg.mtu)).min(packets) as u32)
}
