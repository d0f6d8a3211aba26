//! Reads the output of `dcb app show` (the priority of traffic by EtherType, destination port or DSCP, IEEE 802.1Qaz)
//! and of `devlink dev param show` (whether a NIC has RoCE).

use super::Remarks;
use crate::input::{InputError, shown};
use std::collections::{BTreeMap, BTreeSet};

/// Priorities of traffic, by what selects it: `udp:4791`, `tcp:445`, `port:4791` (UDP and TCP), `ethertype:0x8915`,
/// `dscp:26`, `pcp:3`, or `default` for all other traffic.
pub(crate) type App = BTreeMap<String, BTreeSet<u8>>;

/// The tables of `dcb app show`, and the word for each in an [`App`].
const TABLES: [(&str, &str); 6] = [
    ("ethtype-prio", "ethertype"),
    ("stream-port-prio", "tcp"),
    ("dgram-port-prio", "udp"),
    ("port-prio", "port"),
    ("dscp-prio", "dscp"),
    ("pcp-prio", "pcp"),
];

/// Parses the output of `dcb app show dev IF`: a line for each table, with entries `SELECTOR:PRIORITY`.
///
/// # Errors
/// No line is one of a table.
pub(crate) fn parse_app(text: &str, file: &str, remarks: &mut Remarks<'_>) -> Result<App, InputError> {
    let (mut app, mut found) = (App::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_whitespace();
        let Some(table) = words.next() else { continue };
        let kind = TABLES.iter().find(|(name, _)| *name == table).map(|(_, kind)| *kind);
        if kind.is_none() && table != "default-prio" {
            remarks.unknown(format!("{file}:{number}"), format!("unknown line `{}`", shown(line.trim())));
            continue;
        }
        found = true;
        for word in words {
            match entry(kind, word) {
                Some((selector, priority)) => _ = app.entry(selector).or_default().insert(priority),
                None => {
                    let wanted = if kind.is_some() { "SELECTOR:PRIORITY" } else { "PRIORITY" };
                    let message = format!("`{}` is not of the form {wanted}, PRIORITY 0 to 7", shown(word));
                    remarks.errors.push(InputError::line(file, number, message));
                }
            }
        }
    }
    // A NIC without entries has an empty output.
    if found || text.trim().is_empty() {
        Ok(app)
    } else {
        Err(InputError::line(file, 1, "no line such as `dgram-port-prio 4791:3`; is this the output of dcb app show?"))
    }
}

/// An entry of a table of the kind `kind`; without a kind, the default priority.
fn entry(kind: Option<&str>, word: &str) -> Option<(String, u8)> {
    let Some(kind) = kind else { return Some(("default".to_string(), priority(word)?)) };
    let (selector, value) = word.rsplit_once(':')?;
    let selector = match kind {
        "ethertype" => {
            let digits = selector.strip_prefix("0x").or_else(|| selector.strip_prefix("0X"));
            let number = digits.map_or_else(|| selector.parse(), |digits| u16::from_str_radix(digits, 16)).ok()?;
            format!("0x{number:04x}")
        }
        "dscp" => dscp(selector)?.to_string(),
        "pcp" => selector.to_ascii_lowercase(),
        _ => selector.parse::<u16>().ok()?.to_string(),
    };
    Some((format!("{kind}:{}", shown(&selector)), priority(value)?))
}

fn priority(text: &str) -> Option<u8> {
    text.parse().ok().filter(|priority| *priority <= 7)
}

/// A DSCP as a number, or as one of the names of RFC 4594 that iproute2 prints.
fn dscp(text: &str) -> Option<u8> {
    let digit =
        |byte: u8, range: std::ops::RangeInclusive<u8>| Some(byte.wrapping_sub(b'0')).filter(|n| range.contains(n));
    match text.as_bytes() {
        b"EF" => Some(46),
        b"VA" => Some(44),
        b"LE" => Some(1),
        [b'C', b'S', class] => Some(8 * digit(*class, 0..=7)?),
        [b'A', b'F', class, drop] => Some(8 * digit(*class, 1..=4)? + 2 * digit(*drop, 1..=3)?),
        _ => {
            let hex = text.strip_prefix("0x").map(|digits| u8::from_str_radix(digits, 16));
            hex.unwrap_or_else(|| text.parse()).ok().filter(|dscp| *dscp <= 63)
        }
    }
}

/// Parses the output of `devlink dev param show`: whether RoCE is on, by PCI address. Devices without the parameter
/// `enable_roce` are left out.
///
/// # Errors
/// The output names no device, or a value is neither true nor false.
pub(crate) fn parse_roce(text: &str, file: &str) -> Result<BTreeMap<String, bool>, InputError> {
    let (mut found, mut device, mut parameter, mut devices) = (BTreeMap::new(), "", "", 0);
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name] if !line.starts_with(char::is_whitespace) && name.ends_with(':') => {
                device = name.trim_end_matches(':').rsplit('/').next().unwrap_or_default();
                (parameter, devices) = ("", devices + 1);
            }
            ["name", name, ..] => parameter = name,
            ["cmode", _, "value", value, ..] if parameter == "enable_roce" => {
                let is_on = value.parse().map_err(|_| {
                    InputError::line(file, number, format!("`{}` is neither true nor false", shown(value)))
                })?;
                found.insert(device.to_string(), is_on);
            }
            _ => {}
        }
    }
    if devices == 0 {
        return Err(InputError::line(
            file,
            1,
            "no line such as `pci/0000:08:00.0:`; is this the output of devlink dev param show?",
        ));
    }
    Ok(found)
}
