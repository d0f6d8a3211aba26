//! A recorded mesh: the probes of a simulated run, shown as on the page of a controller.
//!
//! Incidents of a simulation last milliseconds, but the windows of a controller last minutes. So the time of the run is
//! stretched. Round-trip times are not stretched.

use crate::evaluation::evaluate;
use crate::inventory::Inventory;
use crate::presence::Presence;
use crate::record::{Health, PROTOCOL, ProbeResult, Registration};
use crate::registry::Registry;
use crate::state::{MeshState, START_MS};
use crate::verdict::Mesh;
use rnic_endpoint::DatagramAddress;
use rnic_transport::Time;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// A probe of a simulated run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Index of the prober.
    pub prober: u32,
    /// Index of the target.
    pub target: u32,
    /// When it was posted.
    pub at: Time,
    /// Round-trip time; `None` if no response arrived.
    pub rtt: Option<Time>,
}

/// The address of a simulated host in [`inventory`].
pub fn host_address(host: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0001 + host).into()
}

/// The address of a simulated switch in [`inventory`].
pub fn switch_address(switch: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xac10_0000 + switch).into()
}

/// The inventory of a simulated fabric. All hosts are in one podset. `hosts` has the name and the ToR switch of each
/// host, `switches` the names of all switches, and `mesh` the lines of the table `[mesh]`.
///
/// # Errors
/// A sentence, if `mesh` has a mistake.
pub fn inventory<'a>(
    hosts: impl IntoIterator<Item = (&'a str, &'a str)>, switches: impl IntoIterator<Item = &'a str>, mesh: &str,
) -> Result<Inventory, String> {
    let mut text = format!("[mesh]\n{mesh}\n");
    for (number, (name, tor)) in (0..).zip(hosts) {
        let address = host_address(number);
        // Writing to a string does not fail.
        let _ = writeln!(text, "[[host]]\nname = \"{name}\"\naddress = \"{address}\"\ntor = \"{tor}\"");
    }
    for (number, name) in (0..).zip(switches) {
        let address = switch_address(number);
        let _ = writeln!(text, "[[switch]]\nname = \"{name}\"\naddresses = [\"{address}\"]");
    }
    Inventory::parse(&text)
}

/// Evaluates the probes of a run of length `end`. One second of the run takes `stretch` seconds on the page. Alarms and
/// suspects are evaluated at the inventory's interval, in the time of the page. A probe without a response counts as
/// lost, unless it was posted less than `timeout` before the end.
pub fn record(
    inventory: &Arc<Inventory>, mut probes: Vec<Probe>, (end, timeout): (Time, Time), stretch: f64, note: &str,
) -> MeshState {
    probes.sort_by_key(|probe| probe.at);
    let ms = |at: Time| START_MS + (at.as_ps() as f64 * stretch / 1e9) as u64;
    let mut mesh = Mesh::new(inventory.clone());
    let every = (inventory.settings.evaluate.as_ps() / 1_000_000_000).max(1);
    let mut evaluated = START_MS;
    for probe in probes {
        let at = ms(probe.at);
        while evaluated + every <= at {
            evaluated += every;
            evaluate(&mut mesh, evaluated);
        }
        let ns = |time: Time| time.as_ps() / 1_000;
        let result = match probe.rtt {
            Some(rtt) => ProbeResult::Answered { total_ns: ns(rtt), prober_ns: 0, split_ns: Some((0, ns(rtt))) },
            None if probe.at + timeout > end => continue,
            None => ProbeResult::Timeout,
        };
        mesh.restore((probe.prober, probe.target), (0, 0), result, at, Presence::Up);
    }
    let now = ms(end);
    while evaluated + every <= now {
        evaluated += every;
        evaluate(&mut mesh, evaluated);
    }
    evaluate(&mut mesh, now);
    let mut registry = Registry::new(inventory.clone(), &[0; 32]);
    for host in &inventory.hosts {
        let address = DatagramAddress { addr: (host.address, 4_791).into(), qpn: 1, qkey: 1 };
        let (host, health) = (host.name.clone(), Health::default());
        let (protocol, incarnation, list_version, digest) = (PROTOCOL, 1, 0, 0);
        registry.restore(Registration { protocol, host, incarnation, address, list_version, digest, health }, now);
    }
    MeshState::recorded(mesh, registry, now, note.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Scope;
    use crate::window::Window;

    /// One host is dead for the second half of the run. The last minute of the page shows losses, the earlier windows
    /// do not, and the host is the suspect.
    #[test]
    fn a_dead_host_is_seen() {
        let host = |n: u32| format!("[[host]]\nname=\"h{n}\"\naddress=\"10.0.0.{n}\"\ntor=\"t{}\"\n", n % 2);
        let text = (1..=6).map(host).collect::<String>();
        let inventory = Arc::new(Inventory::parse(&text).unwrap());
        let ms = Time::from_ms;
        let mut probes = Vec::new();
        for at in 0..200 {
            for (prober, target) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let dead = at >= 100 && (prober == 2 || target == 2);
                let rtt = (!dead).then_some(Time::from_us(10));
                probes.push(Probe { prober, target, at: Time::from_us(100 * at), rtt });
            }
        }
        // 20 ms become 20 minutes.
        let state = record(&inventory, probes, (ms(20), ms(0)), 60_000.0, "a test");
        let (mesh, now) = (state.mesh.lock(), state.now());
        assert_eq!(now, START_MS + 20 * 60_000);
        assert_eq!(mesh.findings()[0].parts, ["host h3"]);
        let sum = |window| Scope::ALL.map(|scope| mesh.scope(scope, window, now)).iter().map(|c| c.lost).sum::<u64>();
        assert!(sum(Window::Minute) > 50 && sum(Window::Hour) == 1_000, "{}", sum(Window::Hour));
        assert!(mesh.alarms().on().count() > 0);
        assert!(state.registry.lock().is_up(2, 1, now));
    }
}
