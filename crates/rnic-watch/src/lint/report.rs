//! The result of a check of a fleet.

use super::checks::{CHECKS, Finding, Severity, UNCHECKED, grouped};
use super::desired::{Accepted, Desired, matches};
use super::fixes::{Fix, fix};
use super::fleet::Fleet;
use super::places::{Lines, Row, positions};
use super::safety::Context;
use super::{Unknown, drift};
use crate::input::InputError;
use rnic_metrics::exposition::{Kind, Metrics};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a check of a fleet.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The findings of the checks, the most severe first.
    pub findings: Vec<Finding>,
    /// Keys, lines and files that no reader recognises.
    pub unknown: Vec<Unknown>,
    /// Mistakes in the inputs.
    pub errors: Vec<InputError>,
    /// Numbers of switches, hosts and links.
    pub devices: (usize, usize, usize),
    /// DSCPs of RDMA packets.
    pub dscps: Vec<u8>,
    /// Names of the switches that were read.
    pub switches: Vec<String>,
    /// Names of all devices that were read, sorted.
    pub devices_read: Vec<String>,
}

/// The findings that make a check of the fleet fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailOn {
    /// Dangers and differences from the desired state.
    #[default]
    Danger,
    /// Also warnings.
    Warning,
    /// Also warnings, and checks that were impossible.
    Unchecked,
}

/// Checks a fleet: finds differences from the desired state, if a desired state is given, and dangerous settings.
pub fn check(fleet: &Fleet, desired: Option<&Desired>) -> Report {
    let none = Desired::default();
    let desired = desired.unwrap_or(&none);
    let role = |device: &str| desired.role_of(device).map(str::to_string);
    let context = Context::new(fleet, &desired.rdma, &role);
    let mut findings = drift::find(fleet, desired);
    findings.extend(context.find());
    for unused in accept(&mut findings, &desired.accepted) {
        findings.push(Finding::new(UNCHECKED, "", unused));
    }
    let mut findings = grouped(findings);
    let mut lines = Lines::default();
    for finding in &mut findings {
        finding.positions = positions(fleet, &mut lines, &finding.device, &finding.ports, &finding.path);
        let suggestion = finding.suggestion.clone();
        finding.fix = suggestion.and_then(|(path, value)| fix(fleet, finding, &path, &value));
    }
    Report {
        findings,
        unknown: fleet.unknown.clone(),
        errors: fleet.errors.clone(),
        devices: (fleet.switches.len(), fleet.hosts.len(), context.links.len()),
        dscps: context.dscps.iter().copied().collect(),
        switches: fleet.switches.keys().cloned().collect(),
        devices_read: fleet
            .switches
            .keys()
            .chain(fleet.hosts.keys())
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    }
}

fn fix_json(fix: &Fix) -> Value {
    match fix {
        Fix::Commands(commands) => json!({"commands": commands}),
        Fix::Fields(changes) => json!({"config_db": changes.iter().map(|change| {
            let Row { table, key, field } = &change.row;
            json!({"table": table, "key": key, "field": field, "value": change.value})
        }).collect::<Vec<_>>()}),
    }
}

/// A finding of several devices that differs only in the device.
#[derive(Clone, PartialEq, Debug)]
pub struct Common<'r> {
    /// The finding of the first device.
    pub finding: &'r Finding,
    /// The names of the devices, in the order of the findings.
    pub devices: Vec<&'r str>,
}

/// Marks the findings that the operator accepts, and returns a sentence for each entry that matches no finding.
fn accept(findings: &mut [Finding], accepted: &[Accepted]) -> Vec<String> {
    let mut unused = Vec::new();
    for entry in accepted {
        let mut used = false;
        for finding in findings.iter_mut().filter(|finding| finding.check.name == entry.check) {
            let port = finding.ports.first().map_or("", String::as_str);
            if matches(&entry.device, &finding.device) && matches(&entry.port, port) {
                finding.accepted = Some(entry.reason.clone());
                used = true;
            }
        }
        if !used {
            unused.push(format!(
                "line {} of the desired state accepts \"{}\", which was not found",
                entry.line, entry.check
            ));
        }
    }
    unused
}

impl Report {
    /// Number of findings of this severity that are not accepted.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.check.severity == severity && finding.accepted.is_none()).count()
    }

    /// Whether the severity of a finding that is not accepted is at least `on`.
    pub fn fails(&self, on: FailOn) -> bool {
        self.findings.iter().any(|finding| finding.fails(on))
    }

    /// Names of the devices of which a check was impossible, sorted. If the DSCP of RDMA is unknown, these are all
    /// switches.
    pub fn unchecked(&self) -> Vec<&str> {
        let found = self.findings.iter().filter(|finding| finding.check == UNCHECKED && finding.accepted.is_none());
        let mut devices: Vec<&str> =
            found.map(|finding| finding.device.as_str()).filter(|name| !name.is_empty()).collect();
        if self.dscps.is_empty() {
            devices.extend(self.switches.iter().map(String::as_str));
        }
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The findings, with equal findings of several devices joined: they have the same check, setting, sentence and
    /// ports. In the order of the first device of each.
    pub fn by_finding(&self) -> Vec<Common<'_>> {
        let mut common: Vec<Common<'_>> = Vec::new();
        let mut known = BTreeMap::new();
        for finding in &self.findings {
            let (ports, accepted) = (&finding.ports, &finding.accepted);
            let key = (finding.check.name, &finding.path, &finding.text, ports, accepted, finding.since);
            let at = *known.entry(key).or_insert_with(|| {
                common.push(Common { finding, devices: Vec::new() });
                common.len() - 1
            });
            common[at].devices.push(&finding.device);
        }
        common
    }

    /// The report as a JSON document; docs/reference/desired-state.md describes it.
    pub fn to_json(&self) -> Value {
        let counts = Severity::ALL.map(|severity| (severity.name().to_string(), json!(self.count(severity))));
        json!({
            "switches": self.devices.0,
            "hosts": self.devices.1,
            "links": self.devices.2,
            "rdma_dscp": self.dscps,
            "counts": counts.into_iter().collect::<serde_json::Map<_, _>>(),
            "unchecked": self.unchecked(),
            "findings": self.findings.iter().map(|finding| json!({
                "check": finding.check.name,
                "severity": finding.check.severity.name(),
                "device": finding.device,
                "ports": finding.ports,
                "path": finding.path,
                "wanted": finding.wanted,
                "found": finding.found,
                "text": finding.text,
                "positions": finding.positions.iter().map(|position| json!({
                    "file": position.file, "pointer": position.pointer, "line": position.line,
                })).collect::<Vec<_>>(),
                "fix": finding.fix.as_ref().map(fix_json),
                "since": finding.since,
                "accepted": finding.accepted,
            })).collect::<Vec<_>>(),
            "unknown": self.unknown.iter().map(|unknown| json!({
                "device": unknown.device.0, "path": unknown.path, "text": unknown.text,
            })).collect::<Vec<_>>(),
            "errors": self.errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    /// The report as metrics. Every check has a value for every device with findings, and a sum over the fleet, so that
    /// the sum becomes 0 when all findings are fixed.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        for check in CHECKS {
            let of_check = self.findings.iter().filter(|finding| finding.check == *check);
            for accepted in [false, true] {
                let ports = |finding: &Finding| finding.ports.len().max(1) as u64;
                let count: u64 =
                    of_check.clone().filter(|finding| finding.accepted.is_some() == accepted).map(ports).sum();
                let labels = [
                    ("check", check.name),
                    ("severity", check.severity.name()),
                    ("accepted", if accepted { "true" } else { "false" }),
                ];
                let help = "Findings of rnic lint, each port counted.";
                metrics.add("rnic_lint_findings", Kind::Gauge, help, &labels, count);
            }
        }
        let mut devices: Vec<(&str, Severity)> = self
            .findings
            .iter()
            .filter(|finding| finding.accepted.is_none() && !finding.device.is_empty())
            .map(|finding| (finding.device.as_str(), finding.check.severity))
            .collect();
        devices.sort_unstable();
        devices.dedup();
        for (device, severity) in devices {
            let of_device = |finding: &&Finding| {
                finding.device == device && finding.check.severity == severity && finding.accepted.is_none()
            };
            let count: u64 =
                self.findings.iter().filter(of_device).map(|finding| finding.ports.len().max(1) as u64).sum();
            let labels = [("device", device), ("severity", severity.name())];
            let help = "Findings of rnic lint on a device that are not accepted, each port counted.";
            metrics.add("rnic_lint_device_findings", Kind::Gauge, help, &labels, count);
        }
        let mut gauge = |name: &str, help: &str, value: usize| metrics.add(name, Kind::Gauge, help, &[], value as u64);
        gauge("rnic_lint_switches", "Switches whose configuration was read.", self.devices.0);
        gauge("rnic_lint_hosts", "Hosts whose configuration was read.", self.devices.1);
        gauge("rnic_lint_links", "Links between known ports.", self.devices.2);
        gauge("rnic_lint_unknown_keys", "Keys, lines and files that rnic lint does not know.", self.unknown.len());
        gauge("rnic_lint_input_errors", "Mistakes in the inputs of rnic lint.", self.errors.len());
        metrics
    }
}
