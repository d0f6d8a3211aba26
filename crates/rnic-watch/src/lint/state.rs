//! The times at which findings were first seen: a small file that is read before a check and written after it.

use super::checks::Finding;
use crate::input::{InputError, Place, read_file};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The times at which findings were first seen, in seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    since: BTreeMap<String, u64>,
}

/// The key that identifies a finding on a port: the check, the place, and the found value.
fn key(finding: &Finding, port: &str) -> String {
    let found = finding.found.as_deref().unwrap_or(&finding.text);
    let wanted = finding.wanted.as_deref().unwrap_or_default();
    [finding.check.name, &finding.device, port, &finding.path, wanted, found].join("\u{1f}")
}

impl State {
    /// Reads the state from a file. If the file does not exist, the state is empty.
    ///
    /// # Errors
    /// The file cannot be read or is not a state.
    pub fn read(path: &Path) -> Result<State, InputError> {
        if !path.exists() {
            return Ok(State::default());
        }
        let name = path.display().to_string();
        let error = |message: String| {
            InputError::new(
                name.as_str(),
                Place::File,
                format!("is not a state of rnic lint ({message}); remove it to start again"),
            )
        };
        let value: Value = serde_json::from_str(&read_file(path)?).map_err(|cause| error(cause.to_string()))?;
        let since =
            value.get("since").and_then(Value::as_object).ok_or_else(|| error("no member `since`".to_string()))?;
        let time = |(key, time): (&String, &Value)| Some((key.clone(), time.as_u64()?));
        let since: Option<BTreeMap<String, u64>> = since.iter().map(time).collect();
        since.map(|since| State { since }).ok_or_else(|| error("a time is not a number of seconds".to_string()))
    }

    /// Sets the time at which each finding was first seen (`now` for a new finding), and removes findings that no
    /// longer exist from the state. If the clock was set back, the time at which a known finding was first seen does
    /// not change.
    pub fn update(&mut self, findings: &mut [Finding], now: u64) {
        let mut seen = BTreeMap::new();
        for finding in findings {
            let whole = [String::new()];
            let ports: &[String] = if finding.ports.is_empty() { &whole } else { &finding.ports };
            let mut earliest = now;
            for port in ports {
                let key = key(finding, port);
                let since = self.since.get(&key).copied().unwrap_or(now).min(now);
                earliest = earliest.min(since);
                seen.insert(key, since);
            }
            finding.since = Some(earliest);
        }
        self.since = seen;
    }

    /// Writes the state to a file: completely, or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let since: Map<String, Value> = self.since.iter().map(|(key, time)| (key.clone(), json!(time))).collect();
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let result = (|| {
            let mut file = File::create(&temporary)?;
            writeln!(file, "{:#}", json!({ "since": since }))?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        })();
        if result.is_err() {
            // The caller reports the error of the write, not an error of this removal.
            let _ = fs::remove_file(&temporary);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::checks::DRIFT;

    fn finding(port: &str, found: &str) -> Finding {
        let mut finding = Finding::new(DRIFT, "leaf1", "t").at(port).path("mtu");
        finding.found = Some(found.to_string());
        finding
    }

    #[test]
    fn findings_keep_their_first_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut state = State::read(&path).unwrap();
        let mut findings = [finding("Ethernet0", "1500"), finding("Ethernet4", "1500")];
        state.update(&mut findings, 100);
        assert_eq!(findings.each_ref().map(|finding| finding.since), [Some(100); 2]);
        state.write(&path).unwrap();
        let mut state = State::read(&path).unwrap();
        let mut findings = [finding("Ethernet0", "1500"), finding("Ethernet4", "9000")];
        state.update(&mut findings, 200);
        assert_eq!(findings.each_ref().map(|finding| finding.since), [Some(100), Some(200)]);
        // A finding that disappears and comes back is new.
        state.update(&mut [], 300);
        let mut findings = [finding("Ethernet0", "1500")];
        state.update(&mut findings, 400);
        assert_eq!(findings[0].since, Some(400));
        state.update(&mut findings, 50);
        assert_eq!(findings[0].since, Some(50), "the clock was set back");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file remains");
        fs::write(&path, "{\"since\": {\"a\": \"b\"}}").unwrap();
        let error = State::read(&path).unwrap_err().to_string();
        assert!(
            error
                .ends_with("is not a state of rnic lint (a time is not a number of seconds); remove it to start again")
        );
        assert!(state.write(Path::new("/nonexistent/state.json")).is_err());
    }
}
