//! What exists: one line per transport and congestion control.

use crate::congestion::{Aimd, CongestionControl, Dcqcn, Dctcp, Hpcc, NoCongestionControl, PatchedTimely, Timely};

/// Name and one-line description.
pub type Entry = (&'static str, &'static str);

/// Transports, as a scenario's `transport` names them.
pub const TRANSPORTS: &[Entry] = &[
    ("roce", "RoCE NIC: go-back-N, NACK on the first packet out of order (or every one), fixed timeout; ACKs optional"),
    ("irn", "IRN: selective retransmission (bitmap SACK), BDP-FC, two timeouts; no lossless network needed"),
    (
        "iwarp",
        "iWARP: a full TCP stack (slow start, SACK or NewReno recovery, RFC 6298 timeout); no lossless network needed",
    ),
    (
        "ndp",
        "NDP: messages; a blind first window, then pulled by the receiver at its link's pace; for switches that trim",
    ),
    ("homa", "Homa: messages; the receiver grants the shortest first and assigns priorities; loss by timeout"),
    ("homa-tr", "Homa with NDP's trimming: a trimmed packet is asked for again at once"),
    ("hpcc", "HPCC as a message transport: a window from in-band telemetry, in fixed-point arithmetic"),
];

/// Those of [`TRANSPORTS`] that are reliable flows with a congestion control beside them; the others are transports of messages.
pub const FLOWS: &[&str] = &["roce", "irn", "iwarp"];

/// Does something with a congestion control's type.
pub trait Visitor {
    /// Called once for each that needs nothing but what packets carry anyway.
    fn visit<C: CongestionControl>(&mut self);
    /// Called once for each that needs in-band telemetry: its packets must have room for it, and switches that write it. A visitor without
    /// these passes over them.
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {}
}

/// Shows every congestion control to a visitor. To register one, add its line.
pub fn visit_congestion_controls<V: Visitor>(visitor: &mut V) {
    visitor.visit::<NoCongestionControl>();
    visitor.visit::<Dcqcn>();
    visitor.visit::<Timely>();
    visitor.visit::<PatchedTimely>();
    visitor.visit::<Dctcp>();
    visitor.visit::<Aimd>();
    visitor.visit_with_telemetry::<Hpcc>();
}
