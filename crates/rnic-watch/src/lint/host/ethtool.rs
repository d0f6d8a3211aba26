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
        let on = || match value.trim() {
            "on" => Ok(true),
            "off" => Ok(false),
            other => Err(InputError::line(file, number, format!("`{}` is neither on nor off", shown(other)))),
        };
        match key {
            "Autonegotiate" => pause.autonegotiate = on()?,
            "RX" => (pause.rx, found) = (on()?, found + 1),
            "TX" => (pause.tx, found) = (on()?, found + 1),
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

/// Parses the output of `ethtool -S`: returns the number for each name. Names of queue statistics such as
/// `[0]: rx_packets` keep their prefix.
pub(crate) fn parse_statistics(text: &str, file: &str) -> Result<BTreeMap<String, u64>, InputError> {
    let mut counters = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line == "NIC statistics:" {
            continue;
        }
        let (name, value) = line.rsplit_once(':').ok_or_else(|| {
            InputError::line(file, number, format!("`{}` is not of the form NAME: NUMBER", shown(line)))
        })?;
        let value = value.trim().parse().map_err(|_| {
            InputError::line(file, number, format!("`{}` is not a number from 0 to 2^64 - 1", shown(value.trim())))
        })?;
        counters.insert(name.trim().to_string(), value);
    }
    if counters.is_empty() {
        return Err(InputError::line(file, 1, "no statistics; is this the output of ethtool -S?"));
    }
    Ok(counters)
}
