//! The registry of transports and congestion controls, one line each.

use crate::congestion::{Aimd, CongestionControl, Dcqcn, Dctcp, Hpcc, NoCongestionControl, PatchedTimely, Timely};

/// Name and one-line description of a transport.
pub type Entry = (&'static str, &'static str);

/// All transports. A scenario's key `transport` takes one of these names.
pub const TRANSPORTS: &[Entry] = &[
    ("roce", "RoCE NIC: go-back-N, NACK for the first (or every) out-of-order packet, fixed timeout; ACKs optional"),
    ("irn", "IRN: selective retransmission (bitmap SACK), BDP-FC, two timeouts; needs no lossless network"),
    (
        "iwarp",
        "iWARP: a full TCP stack (slow start, SACK or NewReno recovery, RFC 6298 timeout); needs no lossless network",
    ),
    (
        "ndp",
        "NDP: message transport; one window unsolicited, then the receiver pulls at its link rate; needs trimming switches",
    ),
    (
        "homa",
        "Homa: message transport; the receiver grants the shortest message first and assigns priorities; loss by timeout",
    ),
    ("homa-tr", "Homa with NDP's trimming: message transport; a NACK requests a trimmed packet again at once"),
    ("hpcc", "HPCC as a message transport: window from in-band telemetry, in fixed-point arithmetic"),
];

/// The [`TRANSPORTS`] that combine a loss recovery with a separate congestion control; the others are message
/// transports.
pub const FLOWS: &[&str] = &["roce", "irn", "iwarp"];

/// A function that is generic over the type of a congestion control; see [`visit_congestion_controls`].
pub trait Visitor {
    /// Called once for each congestion control that needs no in-band telemetry.
    fn visit<C: CongestionControl>(&mut self);
    /// Called once for each congestion control that needs in-band telemetry. Its packets must have room for telemetry
    /// records, and switches must write them. The default implementation does nothing.
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {}
}

/// Calls `visitor` with the type of every congestion control. To register a congestion control, add a line here.
///
/// ```
/// use rnic_transport::congestion::CongestionControl;
/// use rnic_transport::registry::{Visitor, visit_congestion_controls};
///
/// struct Names(Vec<&'static str>);
/// impl Visitor for Names {
///     fn visit<C: CongestionControl>(&mut self) {
///         self.0.push(C::NAME);
///     }
/// }
///
/// let mut names = Names(Vec::new());
/// visit_congestion_controls(&mut names);
/// assert!(names.0.contains(&"dcqcn"));
/// assert!(!names.0.contains(&"hpcc"), "HPCC needs telemetry");
/// ```
pub fn visit_congestion_controls<V: Visitor>(visitor: &mut V) {
    visitor.visit::<NoCongestionControl>();
    visitor.visit::<Dcqcn>();
    visitor.visit::<Timely>();
    visitor.visit::<PatchedTimely>();
    visitor.visit::<Dctcp>();
    visitor.visit::<Aimd>();
    visitor.visit_with_telemetry::<Hpcc>();
}
