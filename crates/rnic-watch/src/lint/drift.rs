//! Differences between the desired state and the running configuration.

use super::checks::{DRIFT, Finding, MISSING, NEIGHBOUR, ROLES};
use super::desired::{Desired, Wanted};
use super::facts::{self, Facts};
use super::fleet::Fleet;
use std::collections::BTreeMap;

/// All differences of a fleet.
pub(crate) fn find(fleet: &Fleet, desired: &Desired) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, switch) in &fleet.switches {
        let facts = facts::of_switch(switch);
        let wanted = desired.of_switch(name, switch.used().map(|(port, _)| port));
        let db = &fleet.databases[name];
        let found = |port: &str, path: &str| match path.strip_prefix("config_db.") {
            Some(path) => db.at(path),
            None => facts.get(&(port.to_string(), path.to_string())).cloned(),
        };
        compare(name, &wanted, &found, &mut findings);
    }
    for (name, host) in &fleet.hosts {
        let facts: Facts = facts::of_host(host);
        let wanted = desired.of_host(name, host.interfaces.keys());
        let found = |port: &str, path: &str| facts.get(&(port.to_string(), path.to_string())).cloned();
        compare(name, &wanted, &found, &mut findings);
    }
    for name in desired.expected() {
        if !fleet.switches.contains_key(&name) && !fleet.hosts.contains_key(&name) {
            findings.push(Finding::new(
                MISSING,
                &name,
                "the desired state names this device; its configuration is missing",
            ));
        }
    }
    neighbours(fleet, &mut findings);
    roles(fleet, desired, &mut findings);
    findings
}

/// Finds devices that match several roles, of which only the first applies.
fn roles(fleet: &Fleet, desired: &Desired, findings: &mut Vec<Finding>) {
    let switches = fleet.switches.keys().map(|name| (name, true));
    for (name, is_switch) in switches.chain(fleet.hosts.keys().map(|name| (name, false))) {
        if let [first, others @ ..] = desired.roles_of(name, is_switch).as_slice()
            && !others.is_empty()
        {
            let others = others.join(", ");
            let text =
                format!("the device has the role {first}; it also matches {others}, whose settings do not apply");
            findings.push(Finding::new(ROLES, name, text));
        }
    }
}

fn compare(
    device: &str, wanted: &BTreeMap<(String, String), Wanted>, found: &dyn Fn(&str, &str) -> Option<String>,
    findings: &mut Vec<Finding>,
) {
    for ((port, path), wanted) in wanted {
        let found = found(port, path);
        if found.as_ref() == Some(&wanted.value) {
            continue;
        }
        let text = match &found {
            Some(found) => format!("wanted {}, found {found} (desired state, line {})", wanted.value, wanted.line),
            None => format!("wanted {}, not configured (desired state, line {})", wanted.value, wanted.line),
        };
        let mut finding = Finding::new(DRIFT, device, text).path(path.as_str());
        finding.ports = Some(port.clone()).filter(|port| !port.is_empty()).into_iter().collect();
        finding.wanted = Some(wanted.value.clone());
        finding.found = found;
        findings.push(finding.suggest(path.as_str(), wanted.value.as_str()));
    }
}

/// Finds ports whose LLDP neighbour is not the planned one.
fn neighbours(fleet: &Fleet, findings: &mut Vec<Finding>) {
    let observed = fleet.observed();
    for (end, planned) in fleet.plan() {
        let Some(found) = observed.get(&end).filter(|found| **found != planned) else { continue };
        let (wanted, found) =
            (format!("{} {}", planned.device, planned.port), format!("{} {}", found.device, found.port));
        let mut finding = Finding::new(NEIGHBOUR, &end.device, format!("planned to {wanted}, connected to {found}"));
        finding = finding.at(&end.port).path("neighbour");
        finding.wanted = Some(wanted);
        finding.found = Some(found);
        findings.push(finding);
    }
    for (line, end) in fleet.unknown_ends() {
        let text = format!("line {line} of the file of links names this port, which the device does not have");
        findings.push(Finding::new(NEIGHBOUR, &end.device, text).at(&end.port).path("neighbour"));
    }
}
