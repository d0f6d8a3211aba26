//! Reports in the formats of other tools: SARIF (OASIS, version 2.1.0) for code review, JUnit XML for CI servers.

use super::checks::{CHECKS, Finding, Severity};
use super::places::Position;
use super::report::{FailOn, Report};
use crate::input::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The report as a SARIF document. A finding has the device and the setting as its logical location; a mistake in an
/// input has its file and line.
pub fn sarif(report: &Report) -> Value {
    let rules: Vec<Value> = CHECKS
        .iter()
        .map(|check| {
            json!({
                "id": check.name,
                "shortDescription": {"text": check.about},
                "defaultConfiguration": {"level": level(check.severity)},
            })
        })
        .collect();
    let findings = report.findings.iter().map(result);
    let errors = report.errors.iter().map(|error| {
        let mut physical = json!({"artifactLocation": {"uri": uri(&error.file)}});
        match error.place {
            Place::Line(line) => physical["region"] = json!({"startLine": line.max(1)}),
            Place::Column(line, column) => {
                physical["region"] = json!({"startLine": line.max(1), "startColumn": column.max(1)});
            }
            Place::File | Place::Path(_) => {}
        }
        json!({
            "level": "error",
            "descriptor": {"id": "malformed-input"},
            "message": {"text": error.to_string()},
            "locations": [{"physicalLocation": physical}],
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "rnic lint", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": findings.collect::<Vec<_>>(),
            "invocations": [{
                "executionSuccessful": report.errors.is_empty(),
                "toolExecutionNotifications": errors.collect::<Vec<_>>(),
            }],
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Drift | Severity::Danger => "error",
    }
}

/// A path as a relative reference: all bytes except unreserved characters and `/` are percent-encoded (RFC 3986).
fn uri(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// The locations of a finding: the settings, and where they are in files.
fn locations(finding: &Finding, named: Vec<Value>) -> Vec<Value> {
    if finding.positions.is_empty() {
        return vec![json!({"logicalLocations": named})];
    }
    let location = |position: &Position| {
        let mut physical = json!({"artifactLocation": {"uri": uri(&position.file)}});
        if let Some(line) = position.line {
            physical["region"] = json!({"startLine": line});
        }
        json!({"physicalLocation": physical, "logicalLocations": named})
    };
    finding.positions.iter().take(MAX_LOCATIONS).map(location).collect()
}

/// Maximum number of locations of a finding: a finding on all ports of a large switch needs no more.
const MAX_LOCATIONS: usize = 16;

fn result(finding: &Finding) -> Value {
    let names: Vec<String> = match finding.ports.as_slice() {
        [] => vec![finding.device.clone()],
        ports => ports.iter().map(|port| format!("{}/{port}", finding.device)).collect(),
    };
    let named = names.iter().filter(|name| !name.is_empty()).map(|name| {
        let full = if finding.path.is_empty() { name.clone() } else { format!("{name}/{}", finding.path) };
        json!({"fullyQualifiedName": full, "kind": "resource"})
    });
    let mut result = json!({
        "ruleId": finding.check.name,
        "level": level(finding.check.severity),
        "message": {"text": format!("{}: {}", place(finding), finding.text)},
        "locations": locations(finding, named.collect::<Vec<_>>()),
        "properties": {"severity": finding.check.severity.name(), "wanted": finding.wanted, "found": finding.found},
    });
    if let Some(index) = CHECKS.iter().position(|check| check.name == finding.check.name) {
        result["ruleIndex"] = json!(index);
    }
    if let Some(reason) = &finding.accepted {
        result["suppressions"] = json!([{"kind": "external", "justification": reason}]);
    }
    result
}

fn place(finding: &Finding) -> String {
    let place = finding.place();
    if place.is_empty() { "the fleet".to_string() } else { place }
}

/// The report as JUnit XML. Each device is a test suite, and each of its findings a test case: a failure if it makes
/// the check fail, and skipped otherwise. A mistake in an input is an error. A device without findings has one test
/// case that succeeds.
pub fn junit(report: &Report, on: FailOn) -> String {
    let mut suites: BTreeMap<&str, Vec<&Finding>> =
        report.devices_read.iter().map(|name| (name.as_str(), Vec::new())).collect();
    for finding in &report.findings {
        suites.entry(&finding.device).or_default().push(finding);
    }
    let failures = report.findings.iter().filter(|finding| finding.fails(on)).count();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let cases = suites.values().map(|findings| findings.len().max(1)).sum::<usize>() + report.errors.len();
    let errors = report.errors.len();
    let _ =
        writeln!(text, "<testsuites name=\"rnic lint\" tests=\"{cases}\" failures=\"{failures}\" errors=\"{errors}\">");
    for (device, findings) in suites {
        suite(&mut text, if device.is_empty() { "the fleet" } else { device }, &findings, on);
    }
    if errors > 0 {
        let _ = writeln!(text, "  <testsuite name=\"inputs\" tests=\"{errors}\" failures=\"0\" errors=\"{errors}\">");
        for error in &report.errors {
            let (file, message) = (xml(&error.file), xml(&error.to_string()));
            let _ = writeln!(
                text,
                "    <testcase classname=\"inputs\" name=\"{file}\"><error message=\"{message}\"/></testcase>"
            );
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}

fn suite(text: &mut String, device: &str, findings: &[&Finding], on: FailOn) {
    let failures = findings.iter().filter(|finding| finding.fails(on)).count();
    let (device, tests) = (xml(device), findings.len().max(1));
    let skipped = findings.len() - failures;
    let _ = writeln!(
        text,
        "  <testsuite name=\"{device}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">"
    );
    if findings.is_empty() {
        let _ = writeln!(text, "    <testcase classname=\"{device}\" name=\"all checks\"/>");
    }
    for finding in findings {
        let (check, severity) = (finding.check.name, finding.check.severity);
        let name = xml(&format!("{check}: {}", place(finding)));
        let reason = finding.accepted.as_ref().map(|reason| format!(" (accepted: {reason})")).unwrap_or_default();
        let message = xml(&format!("{}{reason}", finding.text));
        let element = match finding.fails(on) {
            true => format!("<failure type=\"{severity}\" message=\"{message}\"/>"),
            false => format!("<skipped message=\"{severity}: {message}\"/>"),
        };
        let _ = writeln!(text, "    <testcase classname=\"{device}\" name=\"{name}\">{element}</testcase>");
    }
    text.push_str("  </testsuite>\n");
}

/// Text as the value of an XML attribute. Characters that XML 1.0 does not allow are replaced by U+FFFD.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(escaped, "&#{};", u32::from(c));
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(xml("a<b>\"&\u{1}\n"), "a&lt;b&gt;&quot;&amp;\u{fffd}&#10;");
        assert_eq!(uri("a b/c%é.json"), "a%20b/c%25%C3%A9.json");
    }
}
