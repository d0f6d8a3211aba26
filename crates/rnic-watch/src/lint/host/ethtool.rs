//! Reads the output of `ethtool -a` (pause parameters) and `ethtool -S` (statistics).

use super::Remarks;
use crate::input::{InputError, shown};
use std::collections::BTreeMap;

/// Pause parameters of an interface: whether it sends and obeys pauses of the whole link (IEEE 802.3x, not PFC).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pause {
    pub(crate) autonegotiate: bool,
    pub(crate) rx: bool,
    pub(crate) tx: bool,
}

/// Parses the output of `ethtool -a`.
pub(crate) fn parse_pause(text: &str, file: &str, remarks: &mut Remarks<'_>) -> Result<Pause, InputError> {
    let (mut pause, mut found) = (Pause::default(), 0);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let Some((key, value)) = line.split_once(':') else {
            if !line.is_empty() {
                remarks.unknown(format!("{file}:{number}"), format!("unknown line `{}`", shown(line)));
            }
            continue;
        };
        let is_setting = ["Autonegotiate", "RX", "TX"].contains(&key);
        let on = match value.trim() {
            "on" => true,
            "off" => false,
            other if is_setting => {
                let message = format!("`{}` is neither on nor off", shown(other));
                remarks.errors.push(InputError::line(file, number, message));
                continue;
            }
            _ => false,
        };
        match key {
            "Autonegotiate" => pause.autonegotiate = on,
            "RX" => (pause.rx, found) = (on, found + 1),
            "TX" => (pause.tx, found) = (on, found + 1),
            _ if key.starts_with("Pause parameters for") || key.ends_with("negotiated") => {}
            // Lines that ethtool prints with --include-statistics.
            "Statistics" | "tx_pause_frames" | "rx_pause_frames" => {}
            _ => remarks.unknown(format!("{file}:{number}"), format!("unknown line `{}`", shown(line))),
        }
    }
    if found == 2 {
        Ok(pause)
    } else {
        Err(InputError::line(file, 1, "no lines `RX:` and `TX:`; is this the output of ethtool -a?"))
    }
}

/// The statistics in the output of `ethtool -S`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Statistics {
    /// The number for each name. Names of queue statistics such as `[0]: rx_packets` keep their prefix.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Lines that are not statistics: their numbers from 1, and why.
    pub(crate) skipped: Vec<(usize, String)>,
}

/// Parses the output of `ethtool -S`. A line that is not a statistic, such as the command line above saved output, is
/// skipped.
///
/// # Errors
/// No line is a statistic.
pub(crate) fn parse_statistics(text: &str, file: &str) -> Result<Statistics, InputError> {
    let mut statistics = Statistics::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line == "NIC statistics:" {
            continue;
        }
        let parsed = match line.rsplit_once(':') {
            None => Err(format!("`{}` is not of the form NAME: NUMBER", shown(line))),
            Some((name, value)) => match value.trim().parse() {
                Ok(value) => Ok((name.trim().to_string(), value)),
                Err(_) => Err(format!("`{}` is not a number from 0 to 2^64 - 1", shown(value.trim()))),
            },
        };
        match parsed {
            Ok((name, value)) => drop(statistics.counters.insert(name, value)),
            Err(message) => statistics.skipped.push((number, message)),
        }
    }
    if statistics.counters.is_empty() {
        return Err(InputError::line(file, 1, "no statistics; is this the output of ethtool -S?"));
    }
    Ok(statistics)
}

/// The firmware version in the output of `ethtool -i`; `None` if the driver states none.
pub(crate) fn parse_firmware(text: &str, file: &str) -> Result<Option<String>, InputError> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("firmware-version:"));
    let message = "no line `firmware-version:`; is this the output of ethtool -i?";
    let version = line.ok_or_else(|| InputError::line(file, 1, message))?.trim();
    // mlx5 appends the identifier of the board: `20.31.1014 (MT_0000000224)`.
    let version = version.split_whitespace().next().unwrap_or_default();
    Ok(Some(shown(version)).filter(|version| !version.is_empty() && version != "N/A"))
}

/// The PCI address in the output of `ethtool -i`; `None` if the driver states none.
pub(crate) fn bus(text: &str) -> Option<String> {
    let address = text.lines().find_map(|line| line.trim().strip_prefix("bus-info:"))?.trim();
    Some(address.to_string()).filter(|address| !address.is_empty())
}
