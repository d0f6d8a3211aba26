//! The settings that a desired state can contain: their paths and the kinds of their values.
//!
//! Each value has a canonical text, which does not depend on the notation of the value. So the desired value and the
//! running value are equal if and only if their canonical texts are equal.

use crate::input::shown;
use rnic_transport::{BitRate, Bytes, Time};
use std::collections::BTreeSet;
use toml::de::DeValue;

/// The kind of a setting's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// A whole number from 0 to this maximum.
    Integer(u64),
    /// A size such as `"1 MB"`.
    Bytes,
    /// A time in whole milliseconds such as `"200 ms"`.
    Time,
    /// A rate such as `"100 Gbps"`.
    Rate,
    /// A length in whole metres such as `"300 m"`.
    Metres,
    /// `true` or `false`.
    Boolean,
    /// A list of priorities such as `[3, 4]`.
    Priorities,
    /// A power of two such as `"1/8"`, 0.125 or 4.
    Alpha,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text; also a number or boolean, as text.
    Text,
    /// A traffic class from 0 to 255, or `"none"`.
    ClassOrNone,
}

/// A setting.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Setting {
    /// Path, in which `N` stands for a number and `NAME` for a name.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    /// Whether each port or interface has the setting. Otherwise the device has it.
    pub(crate) per_port: bool,
    /// Maximum of the number `N` in the path.
    pub(crate) max: u8,
}

const fn port(path: &'static str, kind: Kind) -> Setting {
    Setting { path, kind, per_port: true, max: 0 }
}

const fn numbered(path: &'static str, max: u8, kind: Kind) -> Setting {
    Setting { path, kind, per_port: true, max }
}

const fn device(path: &'static str, kind: Kind) -> Setting {
    Setting { path, kind, per_port: false, max: 0 }
}

/// The settings of a switch.
pub(crate) const SWITCH: [Setting; 32] = [
    port("up", Kind::Boolean),
    port("mtu", Kind::Bytes),
    port("speed", Kind::Rate),
    port("length", Kind::Metres),
    port("pfc", Kind::Priorities),
    port("watched", Kind::Priorities),
    numbered("dscp_to_tc.N", 63, Kind::Integer(15)),
    numbered("tc_to_queue.N", 15, Kind::Integer(15)),
    numbered("tc_to_pg.N", 15, Kind::Integer(7)),
    numbered("pfc_to_queue.N", 7, Kind::Integer(15)),
    numbered("pfc_to_pg.N", 7, Kind::Integer(7)),
    port("watchdog.action", Kind::Word(&["drop", "forward", "alert"])),
    port("watchdog.detection", Kind::Time),
    port("watchdog.restoration", Kind::Time),
    numbered("queue.N.scheduler", 31, Kind::Word(&["strict", "dwrr", "wrr"])),
    numbered("queue.N.weight", 31, Kind::Integer(255)),
    numbered("queue.N.ecn", 31, Kind::Boolean),
    numbered("queue.N.wred_drop", 31, Kind::Boolean),
    numbered("queue.N.ecn_min", 31, Kind::Bytes),
    numbered("queue.N.ecn_max", 31, Kind::Bytes),
    numbered("queue.N.ecn_percent", 31, Kind::Integer(100)),
    numbered("queue.N.alpha", 31, Kind::Alpha),
    numbered("pg.N.pool", 7, Kind::Text),
    numbered("pg.N.alpha", 7, Kind::Alpha),
    numbered("pg.N.threshold", 7, Kind::Bytes),
    numbered("pg.N.size", 7, Kind::Bytes),
    numbered("pg.N.headroom", 7, Kind::Bytes),
    numbered("pg.N.xon", 7, Kind::Bytes),
    numbered("pg.N.xon_offset", 7, Kind::Bytes),
    device("poll_interval", Kind::Time),
    device("pool.NAME.size", Kind::Bytes),
    device("pool.NAME.headroom", Kind::Bytes),
];

/// The settings of a host.
pub(crate) const HOST: [Setting; 23] = [
    port("mtu", Kind::Bytes),
    port("speed", Kind::Rate),
    port("length", Kind::Metres),
    port("trust", Kind::Word(&["dscp", "pcp", "both", "none"])),
    port("pfc", Kind::Priorities),
    numbered("dscp_to_priority.N", 63, Kind::Integer(7)),
    numbered("priority_to_buffer.N", 7, Kind::Integer(7)),
    numbered("buffer.N", 7, Kind::Bytes),
    numbered("class.N.algorithm", 7, Kind::Word(&["strict", "ets", "vendor"])),
    numbered("class.N.bandwidth", 7, Kind::Integer(100)),
    numbered("class.N.rate_limit", 7, Kind::Text),
    numbered("class.N.priorities", 7, Kind::Priorities),
    port("pause.rx", Kind::Boolean),
    port("pause.tx", Kind::Boolean),
    port("ecn_np", Kind::Priorities),
    port("ecn_rp", Kind::Priorities),
    port("roce_tos", Kind::ClassOrNone),
    port("traffic_class", Kind::ClassOrNone),
    port("roce", Kind::Boolean),
    port("app.NAME", Kind::Priorities),
    port("roce_mode", Kind::Word(&["v1", "v2"])),
    port("firmware", Kind::Text),
    port("dcqcn.NAME", Kind::Text),
];

/// The settings of SONiC's CONFIG_DB without a path of their own: `config_db."TABLE|key|field"`.
pub(crate) const RAW: Setting = device("config_db.NAME", Kind::Text);

/// The canonical text of a list of priorities.
pub(crate) fn priorities_text(priorities: &BTreeSet<u8>) -> String {
    if priorities.is_empty() {
        return "none".to_string();
    }
    priorities.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
}

/// The canonical text of alpha = 2^n.
pub(crate) fn alpha_text(exponent: i8) -> String {
    let power = 1u32 << exponent.unsigned_abs().min(31);
    if exponent < 0 { format!("1/{power}") } else { power.to_string() }
}

/// The canonical text of a number of bytes.
pub(crate) fn bytes_text(bytes: u64) -> String {
    format!("{bytes} B")
}

/// The canonical text of a number of milliseconds.
pub(crate) fn time_text(milliseconds: u64) -> String {
    format!("{milliseconds} ms")
}

/// The canonical text of a number of metres.
pub(crate) fn metres_text(metres: u64) -> String {
    format!("{metres} m")
}

impl Kind {
    /// The canonical text of a value, or a sentence about the mistake and the accepted values.
    pub(crate) fn canonical(self, value: &DeValue<'_>) -> Result<String, String> {
        let text = match value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        };
        let integer = match value {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let refused = |accepted: &str| Err(format!("{} is not accepted; accepted: {accepted}", described(value)));
        match self {
            Kind::Integer(max) => match integer.and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= max) {
                Some(number) => Ok(number.to_string()),
                None => refused(&format!("a whole number from 0 to {max}")),
            },
            Kind::Bytes => match (text.map(str::parse::<Bytes>), integer) {
                (Some(Ok(bytes)), _) => Ok(bytes_text(bytes.0)),
                _ => refused("a size such as \"9100 B\" or \"1 MB\" (1,000,000 B) or \"1 MiB\" (1,048,576 B)"),
            },
            Kind::Time => match text.map(str::parse::<Time>) {
                Some(Ok(time)) if time.as_ps() % 1_000_000_000 == 0 => Ok(time_text(time.as_ps() / 1_000_000_000)),
                _ => refused("a time in whole milliseconds such as \"200 ms\""),
            },
            Kind::Rate => match text.map(str::parse::<BitRate>) {
                Some(Ok(rate)) => Ok(rate.to_string()),
                _ => refused("a rate such as \"100 Gbps\""),
            },
            Kind::Metres => {
                let metres = text.and_then(|text| text.strip_suffix('m')?.trim().parse::<u64>().ok());
                metres.map_or_else(|| refused("a length such as \"300 m\""), |metres| Ok(metres_text(metres)))
            }
            Kind::Boolean => match value {
                DeValue::Boolean(value) => Ok(value.to_string()),
                _ => refused("true, false"),
            },
            Kind::Priorities => match priorities(value) {
                Some(priorities) => Ok(priorities_text(&priorities)),
                None => refused("a list of priorities from 0 to 7, such as [3]"),
            },
            Kind::Alpha => match alpha(value) {
                Some(exponent) => Ok(alpha_text(exponent)),
                None => refused("a power of two from 1/256 to 128, such as \"1/8\" or 2"),
            },
            Kind::Word(words) => match text.and_then(|text| words.iter().find(|word| **word == text)) {
                Some(word) => Ok((*word).to_string()),
                None => refused(&words.join(", ")),
            },
            Kind::Text => match (value, text) {
                (_, Some(text)) => Ok(text.to_string()),
                (DeValue::Integer(number), _) => Ok(number.to_string()),
                (DeValue::Float(number), _) => Ok(number.to_string()),
                (DeValue::Boolean(value), _) => Ok(value.to_string()),
                _ => refused("text or a number"),
            },
            Kind::ClassOrNone => match (text, integer) {
                (Some("none"), _) => Ok("none".to_string()),
                (_, Some(class @ 0..=255)) => Ok(class.to_string()),
                _ => refused("a traffic class (TOS) from 0 to 255, or \"none\""),
            },
        }
    }
}

/// A value as an error message shows it.
fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", shown(text)),
        DeValue::Integer(number) => shown(&number.to_string()),
        DeValue::Float(number) => shown(&number.to_string()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_string(),
        DeValue::Array(_) => "this list".to_string(),
        DeValue::Table(_) => "a table".to_string(),
    }
}

fn priorities(value: &DeValue<'_>) -> Option<BTreeSet<u8>> {
    let DeValue::Array(list) = value else { return None };
    let priority = |value: &DeValue<'_>| match value {
        DeValue::Integer(number) => number.as_str().parse::<u8>().ok().filter(|priority| *priority <= 7),
        _ => None,
    };
    list.iter().map(|item| priority(item.get_ref())).collect()
}

/// The exponent n of a value 2^n.
fn alpha(value: &DeValue<'_>) -> Option<i8> {
    let number = match value {
        DeValue::String(text) => match text.split_once('/') {
            Some((above, below)) => above.trim().parse::<f64>().ok()? / below.trim().parse::<f64>().ok()?,
            None => text.trim().parse().ok()?,
        },
        DeValue::Integer(number) => number.as_str().parse().ok()?,
        DeValue::Float(number) => number.as_str().parse().ok()?,
        _ => return None,
    };
    (-8..=7).find(|exponent| 2f64.powi(i32::from(*exponent)) == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    fn canonical(kind: Kind, value: &str) -> Result<String, String> {
        let text = format!("x = {value}");
        let table = DeTable::parse(&text).unwrap();
        let value = table.get_ref().get("x").unwrap();
        kind.canonical(value.get_ref())
    }

    #[test]
    fn values_have_one_text() {
        let same = |kind, values: &[&str], text: &str| {
            for value in values {
                assert_eq!(canonical(kind, value).unwrap(), text, "{value}");
            }
        };
        same(Kind::Bytes, &["\"1 MB\"", "\"1000 KB\"", "\"1_000_000 B\""], "1000000 B");
        same(Kind::Alpha, &["\"1/8\"", "0.125", "\"2/16\""], "1/8");
        same(Kind::Alpha, &["4", "\"4\"", "4.0"], "4");
        same(Kind::Priorities, &["[4, 3]", "[3, 4, 3]"], "3,4");
        same(Kind::Priorities, &["[]"], "none");
        same(Kind::Time, &["\"200 ms\"", "\"0.2 s\""], "200 ms");
        same(Kind::Rate, &["\"100 Gbps\"", "\"100000 Mbps\""], "100 Gbps");
        same(Kind::Metres, &["\"300 m\"", "\"300m\""], "300 m");
        same(Kind::ClassOrNone, &["0x6a", "106"], "106");
        same(Kind::Text, &["5", "\"5\""], "5");
    }

    #[test]
    fn every_setting_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/desired-state.md");
        let reference = std::fs::read_to_string(path).unwrap();
        for setting in SWITCH.iter().chain(&HOST) {
            assert!(reference.contains(&format!("`{}`", setting.path)), "{} is missing", setting.path);
        }
    }

    #[test]
    fn other_values_are_refused() {
        let refused = |kind, value: &str, part: &str| {
            let error = canonical(kind, value).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(Kind::Alpha, "\"1/3\"", "\"1/3\" is not accepted; accepted: a power of two");
        refused(Kind::Alpha, "\"1/0\"", "power of two");
        refused(Kind::Bytes, "9100", "9100 is not accepted; accepted: a size such as");
        refused(Kind::Priorities, "[8]", "priorities from 0 to 7");
        refused(Kind::Word(&["dscp", "pcp"]), "\"both\"", "\"both\" is not accepted; accepted: dscp, pcp");
        refused(Kind::Integer(15), "-1", "0 to 15");
        refused(Kind::Time, "\"1 us\"", "milliseconds");
        refused(Kind::ClassOrNone, "256", "0 to 255");
    }
}
