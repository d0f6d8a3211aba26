//! Links to which the traffic of a run offers more than their rates.

use super::Resolved;
use crate::link_faults::link_name;
use rnic_fabric::{Demand, HostId, PortId, Topology};
use rnic_spec::RunSpec;
use rnic_transport::BitRate;
use rnic_workload::{Offered, offered};

/// A link counts as overloaded if its load is more than this multiple of its rate: loads are sums of rounded numbers.
const TOLERANCE: f64 = 1.001;

/// Warns if the average load of a link is above its rate, with the routes at the start of the run and with those around
/// links that fail later.
pub(super) fn warn(run: &RunSpec, resolved: &mut Resolved) {
    let Resolved { topology, routes, fabric, network, flow, faults, warnings, .. } = resolved;
    let offered = offered(&run.traffic, network, flow.header + fabric.frame_gap);
    if offered.is_empty() {
        return;
    }
    let Some(mut demand) = Demand::new(topology, routes) else { return };
    offered.iter().for_each(|one| add(&mut demand, one));

    let mut warned: Vec<Overload> = Vec::new();
    for case in faults.links.cases(topology) {
        let around = case.routes(topology, routes);
        let Some(loads) = demand.loads(topology, around.as_ref().unwrap_or(routes)) else { return };
        let Some(overload) = Overload::of(topology, &loads, |port| case.rate(topology, port)) else { continue };
        // A failure that leaves the worst link as it is needs no sentence of its own.
        if warned.iter().any(|known| known.is_as_bad_as(&overload)) {
            continue;
        }
        let when = case.describe(topology).map_or(String::new(), |when| format!("{when}, "));
        warnings.push(format!("{when}{}", overload.sentence(topology)));
        warned.push(overload);
    }
}

fn add(demand: &mut Demand, offered: &Offered) {
    match offered {
        Offered::ToAllOthers(rates) => demand.to_all_others(rates),
        Offered::FromAllOthers { to, rate } => demand.from_all_others(HostId(*to), *rate),
        Offered::Pairs(pairs) => {
            pairs.iter().for_each(|(from, to, rate)| demand.pair(HostId(*from), HostId(*to), *rate));
        }
    }
}

/// The links whose loads are above their rates.
struct Overload {
    /// The link with the highest load relative to its rate, by the port that transmits.
    worst: PortId,
    /// Load and rate of this link in bit/s.
    load: f64,
    rate: f64,
    /// Number of further overloaded links, counted in each direction.
    others: usize,
}

impl Overload {
    fn of(topology: &Topology, loads: &[f64], rate: impl Fn(PortId) -> BitRate) -> Option<Overload> {
        let rate = |port: PortId| rate(port).as_bps() as f64;
        let over: Vec<PortId> =
            topology.port_ids().filter(|port| loads[port.index()] > rate(*port) * TOLERANCE).collect();
        let relative = |port: &PortId| loads[port.index()] / rate(*port);
        let most = over.iter().map(relative).fold(0.0, f64::max);
        // The first of the links that are equally loaded, but for rounding.
        let worst = *over.iter().find(|port| relative(port) * TOLERANCE >= most)?;
        Some(Overload { worst, load: loads[worst.index()], rate: rate(worst), others: over.len() - 1 })
    }

    fn is_as_bad_as(&self, other: &Overload) -> bool {
        self.load / self.rate * TOLERANCE >= other.load / other.rate && self.others >= other.others
    }

    fn sentence(&self, topology: &Topology) -> String {
        let Overload { worst, load, rate, others } = self;
        let link = link_name(topology, *worst);
        let others = match others {
            0 => String::new(),
            1 => ", and too much to another link".to_string(),
            _ => format!(", and too much to {others} other links"),
        };
        format!(
            "overload: the traffic offers {} on average to the link {link} of {}, {:.0} % of its rate{others}; queues grow for \
             as long as flows start, so completion times depend on the number of flows, and do not describe a steady state",
            rounded(*load),
            rounded(*rate),
            load / rate * 100.0
        )
    }
}

/// A rate with three digits.
fn rounded(bps: f64) -> BitRate {
    let unit = 10f64.powf(bps.max(1.0).log10().floor() - 2.0);
    BitRate::from_bps(((bps / unit).round() * unit) as u64)
}
