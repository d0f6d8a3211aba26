//! The registry of all transports and congestion controls. The simulator and the `rnic` command find them here by name.

use crate::congestion::{
    Aimd, CongestionControl, Cubic, Dcqcn, Dctcp, Hpcc, NoCongestionControl, Nscc, PatchedTimely, Rccc, RogueDelay,
    Swift, Timely,
};
pub use crate::transports::{transports, visit_transports};

/// A function that is generic over the type of a congestion control. [`visit_congestion_controls`] calls it for every
/// congestion control.
pub trait Visitor {
    /// Called once for each congestion control that needs no in-band telemetry, such as DCQCN.
    fn visit<C: CongestionControl>(&mut self);
    /// Called once for each congestion control that needs in-band telemetry, such as HPCC. Flows with this congestion
    /// control need packets with room for telemetry records, and switches that write the records. The default
    /// implementation does nothing.
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {}
    /// Called once for each congestion control that only transports in host software can use, because it responds to
    /// chunks, such as RoGUE's. The default implementation does nothing.
    fn visit_in_host<C: CongestionControl>(&mut self) {}
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
    visitor.visit::<Cubic>();
    visitor.visit::<Swift>();
    visitor.visit::<Nscc>();
    visitor.visit::<Rccc>();
    visitor.visit_with_telemetry::<Hpcc>();
    visitor.visit_in_host::<RogueDelay>();
}
