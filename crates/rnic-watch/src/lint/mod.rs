//! Checks of running configurations: differences from the desired state, and dangerous settings, whatever the desired
//! state is.
//!
//! ```
//! use rnic_watch::lint::{Desired, Fleet, Severity, check};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(folder.path().join("leaf1")).unwrap();
//! # let leaf = r#"{"PORT": {"Ethernet0": {"admin_status": "up", "mtu": "1500"}}}"#;
//! # std::fs::write(folder.path().join("leaf1/config_db.json"), leaf).unwrap();
//! let desired = Desired::parse("[switch]\nmtu = \"9100 B\"\n", "desired.toml").unwrap();
//! let fleet = Fleet::read(&[folder.path().to_path_buf()], None);
//! let report = check(&fleet, Some(&desired));
//! assert_eq!(report.count(Severity::Drift), 1);
//! assert_eq!(report.findings[0].wanted.as_deref(), Some("9100 B"));
//! ```

mod checks;
mod config_db;
mod desired;
mod drift;
mod exchange;
mod facts;
mod fixes;
mod fleet;
mod host;
#[cfg(test)]
mod hostile;
mod neighbours;
mod places;
mod report;
mod safety;
mod settings;
mod sonic;
mod state;
mod switch;
mod twin;

pub use checks::{CHECKS, Check, Finding, Severity};
pub use desired::Desired;
pub use exchange::{junit, sarif};
pub use fixes::{Change, Fix, fix_commands};
pub use fleet::Fleet;
pub use places::Position;
pub use report::{Common, FailOn, Report, check};
pub use state::State;
pub use twin::{Twin, scenario};

/// The statistics in the output of `ethtool -S`, and the number of its lines that are not statistics; `None` if no line
/// is a statistic.
pub(crate) fn parse_ethtool_statistics(text: &str) -> Option<(std::collections::BTreeMap<String, u64>, u64)> {
    let statistics = host::ethtool::parse_statistics(text, "ethtool -S").ok()?;
    Some((statistics.counters, statistics.skipped.len() as u64))
}

/// A device and its port.
pub(crate) type LinkEnd = (String, String);

/// The links in a file with all links.
pub(crate) fn links(text: &str, file: &str) -> Result<Vec<[LinkEnd; 2]>, crate::input::InputError> {
    let links = neighbours::parse_links(text, file)?;
    Ok(links.into_iter().map(|link| link.ends.map(|end| (end.device, end.port))).collect())
}

/// Name of a switch or host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Device(pub String);

/// A key, line or file that no reader recognises. It is reported instead of being ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// The switch or host; empty if the file does not belong to a device.
    pub device: Device,
    /// Path of the key, or file and line.
    pub path: String,
    /// Description of the unknown item.
    pub text: String,
}
