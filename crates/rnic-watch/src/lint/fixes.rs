//! Proposed changes: how a setting gets another value. Nothing is ever applied.

use super::checks::{Finding, Severity};
use super::config_db::ConfigDb;
use super::fleet::Fleet;
use super::places::{Row, escaped, row_of};
use super::report::Report;
use rnic_transport::BitRate;
use rnic_untrusted::text;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A proposed change for a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fix {
    /// Fields of SONiC's CONFIG_DB with their new values.
    Fields(Vec<Change>),
    /// Commands of a host's shell.
    Commands(Vec<String>),
}

/// A field of SONiC's CONFIG_DB with its new value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Change {
    pub(crate) row: Row,
    /// The new value of the field.
    pub value: String,
}

/// The change that gives the setting of a finding the value `wanted`, in its canonical text; `None` if rnic does not
/// know it.
pub(crate) fn fix(fleet: &Fleet, finding: &Finding, path: &str, wanted: &str) -> Option<Fix> {
    let one = [String::new()];
    let ports = if finding.ports.is_empty() { &one[..] } else { &finding.ports[..] };
    if let Some(db) = fleet.databases.get(&finding.device) {
        let value = in_config_db(path, wanted)?;
        let row = |port: &String| row_of(db, port, path).filter(|row| !row.field.is_empty());
        let rows: Option<BTreeSet<Row>> = ports.iter().map(row).collect();
        return Some(Fix::Fields(rows?.into_iter().map(|row| Change { row, value: value.clone() }).collect()));
    }
    let host = fleet.hosts.get(&finding.device)?;
    let mut commands = Vec::new();
    for port in ports {
        let device = host.interfaces.get(port).and_then(|interface| interface.device.as_deref());
        commands.extend(of_host(port, device, path, wanted)?);
    }
    commands.dedup();
    Some(Fix::Commands(commands))
}

/// The operations of a JSON patch (RFC 6902), for SONiC's `config apply-patch`, that make these changes together.
pub(crate) fn patch(db: Option<&ConfigDb>, changes: &[Change]) -> Vec<Value> {
    let mut tables: BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, &str>>> = BTreeMap::new();
    for Change { row, value } in changes {
        tables.entry(&row.table).or_default().entry(&row.key).or_default().insert(&row.field, value);
    }
    let mut operations = Vec::new();
    // An operation `add` replaces a member that exists, and needs the parent of a new member.
    let mut add = |path: String, value: Value| operations.push(json!({"op": "add", "path": path, "value": value}));
    for (table, rows) in tables {
        let known = db.and_then(|db| db.tables.get(table));
        let Some(known) = known else {
            add(format!("/{}", escaped(table)), json!(rows));
            continue;
        };
        for (key, fields) in rows {
            let path = format!("/{}/{}", escaped(table), escaped(key));
            if !known.contains_key(key) {
                add(path, json!(fields));
                continue;
            }
            for (field, value) in fields {
                add(format!("{path}/{}", escaped(field)), json!(value));
            }
        }
    }
    operations
}

/// A script with the proposed changes of all findings that are not accepted, by device. For a finding without a
/// proposed change, a line that begins with `#` says why.
pub fn fix_commands(fleet: &Fleet, report: &Report) -> String {
    let mut text =
        "# Proposed by rnic lint. Review each change: objects such as buffer profiles can be shared by several \
                    ports.\n"
            .to_string();
    let open = |finding: &&Finding| finding.accepted.is_none() && !finding.device.is_empty();
    let mut devices: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in report.findings.iter().filter(open) {
        devices.entry(&finding.device).or_default().push(finding);
    }
    for (device, findings) in devices {
        let mut values: BTreeMap<&Row, BTreeSet<&str>> = BTreeMap::new();
        let mut commands: Vec<&str> = Vec::new();
        let mut without = 0;
        for finding in findings {
            match &finding.fix {
                None => without += usize::from(finding.check.severity >= Severity::Warning),
                Some(Fix::Commands(own)) => commands.extend(own.iter().map(String::as_str)),
                Some(Fix::Fields(changes)) => {
                    for Change { row, value } in changes {
                        values.entry(row).or_default().insert(value);
                    }
                }
            }
        }
        let _ = writeln!(text, "\n# {}", text::escaped(device));
        let mut changes = Vec::new();
        for (row, values) in values {
            let mut all = values.iter();
            match (all.next(), all.next()) {
                (Some(value), None) => changes.push(Change { row: row.clone(), value: (*value).to_string() }),
                _ => {
                    let name = format!("{}|{}|{}", row.table, row.key, row.field);
                    let values = values.into_iter().collect::<Vec<_>>().join(", ");
                    let why = format!("# not changed: {name}, for which different values are wanted: {values}");
                    let _ = writeln!(text, "{}", text::escaped(&why));
                }
            }
        }
        if !changes.is_empty() {
            let operations = Value::Array(patch(fleet.databases.get(device), &changes));
            let _ = writeln!(text, "cat > rnic-fix.json <<'RNIC_PATCH'\n{operations:#}\nRNIC_PATCH");
            text += "sudo config apply-patch rnic-fix.json\n";
        }
        commands.dedup();
        for command in commands {
            let _ = writeln!(text, "{}", text::escaped(command));
        }
        if without > 0 {
            let _ = writeln!(text, "# {without} findings have no proposed change");
        }
    }
    text
}

/// The value of a switch's setting in CONFIG_DB.
fn in_config_db(path: &str, wanted: &str) -> Option<String> {
    let setting = path.rsplit('.').next()?;
    let kind = path.split('.').next()?;
    Some(match (kind, setting) {
        ("config_db", _) => wanted.to_string(),
        ("up", _) => if wanted == "true" { "up" } else { "down" }.to_string(),
        ("speed", _) => (wanted.parse::<BitRate>().ok()?.as_bps() / 1_000_000).to_string(),
        ("length", _) => wanted.replace(' ', ""),
        ("pfc" | "watched", _) if wanted == "none" => String::new(),
        (_, "alpha") => exponent(wanted)?.to_string(),
        (_, "scheduler") => wanted.to_uppercase(),
        (_, "ecn") => if wanted == "true" { "ecn_all" } else { "ecn_none" }.to_string(),
        _ => wanted.strip_suffix(" B").or_else(|| wanted.strip_suffix(" ms")).unwrap_or(wanted).to_string(),
    })
}

/// The exponent of a power of two in its canonical text, such as `1/8`.
fn exponent(wanted: &str) -> Option<i32> {
    let (number, sign) = wanted.strip_prefix("1/").map_or((wanted, 1), |number| (number, -1));
    let number: u32 = number.parse().ok().filter(|number: &u32| number.is_power_of_two())?;
    Some(sign * number.trailing_zeros() as i32)
}

/// The commands that set a host's setting. Names from a dump are quoted for the shell.
fn of_host(interface: &str, device: Option<&str>, path: &str, wanted: &str) -> Option<Vec<String>> {
    let name = quoted(interface);
    let list = |wanted: &str| -> Vec<u8> { wanted.split(',').filter_map(|one| one.parse().ok()).collect() };
    let one = |command: String| Some(vec![command]);
    match path {
        "mtu" => one(format!("ip link set dev {name} mtu {}", wanted.strip_suffix(" B")?)),
        "trust" if ["dscp", "pcp"].contains(&wanted) => one(format!("mlnx_qos -i {name} --trust {wanted}")),
        "pfc" => {
            let on = list(wanted);
            let bits: Vec<&str> = (0..8).map(|priority| if on.contains(&priority) { "1" } else { "0" }).collect();
            one(format!("mlnx_qos -i {name} --pfc {}", bits.join(",")))
        }
        "pause.rx" | "pause.tx" => {
            let state = if wanted == "true" { "on" } else { "off" };
            one(format!("ethtool -A {name} {} {state}", path.strip_prefix("pause.")?))
        }
        "pause" => one(format!("ethtool -A {name} rx off tx off")),
        "ecn_np" | "ecn_rp" => {
            let (point, on) = (path.replace("ecn_", "roce_"), list(wanted));
            let enable = |priority: u8| {
                let value = u8::from(on.contains(&priority));
                format!("echo {value} > /sys/class/net/{name}/ecn/{point}/enable/{priority}")
            };
            Some((0..8).map(enable).collect())
        }
        "roce_tos" => one(format!("cma_roce_tos -d {} -t {}", quoted(device?), wanted.parse::<u8>().ok()?)),
        "roce_mode" => {
            let mode = if wanted == "v2" { 2 } else { 1 };
            one(format!("cma_roce_mode -d {} -p 1 -m {mode}", quoted(device?)))
        }
        "traffic_class" => {
            let class: u8 = wanted.parse().ok()?;
            one(format!("echo {class} > /sys/class/infiniband/{}/tc/1/traffic_class", quoted(device?)))
        }
        _ if path.starts_with("app.") => {
            let (kind, selector) = path.strip_prefix("app.")?.split_once(':')?;
            let table = match kind {
                "udp" => "dgram-port-prio",
                "tcp" => "stream-port-prio",
                "port" => "port-prio",
                "ethertype" => "ethtype-prio",
                "dscp" => "dscp-prio",
                _ => return None,
            };
            // `replace` removes the other entries of the selector.
            let entries = list(wanted).into_iter().map(|priority| format!(" {}:{priority}", quoted(selector)));
            let entries: String = entries.collect();
            if entries.is_empty() { None } else { one(format!("dcb app replace dev {name} {table}{entries}")) }
        }
        _ => {
            let parameter = path.strip_prefix("dcqcn.")?;
            one(format!("echo {} > /sys/class/net/{name}/ecn/{}", quoted(wanted), quoted(parameter)))
        }
    }
}

/// Returns `name` as a word for a shell. It is put into quotes if it contains characters that are unusual in names.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_notation_of_sonic() {
        for (path, wanted, value) in [
            ("mtu", "9100 B", "9100"),
            ("up", "false", "down"),
            ("speed", "100 Gbps", "100000"),
            ("length", "300 m", "300m"),
            ("pfc", "3,4", "3,4"),
            ("pfc", "none", ""),
            ("pg.3.alpha", "1/8", "-3"),
            ("queue.3.alpha", "4", "2"),
            ("queue.3.scheduler", "dwrr", "DWRR"),
            ("queue.3.ecn", "true", "ecn_all"),
            ("watchdog.detection", "200 ms", "200"),
            ("pool.ingress.size", "5 B", "5"),
        ] {
            assert_eq!(in_config_db(path, wanted).as_deref(), Some(value), "{path}");
        }
    }

    #[test]
    fn names_are_quoted_for_the_shell() {
        let commands = of_host("eth0; reboot", Some("mlx5_0"), "mtu", "9000 B").unwrap();
        assert_eq!(commands, ["ip link set dev 'eth0; reboot' mtu 9000"]);
        assert_eq!(of_host("eth0", None, "roce_mode", "v2"), None, "the RDMA device is unknown");
        let commands = of_host("eth0", None, "app.udp:4791", "3").unwrap();
        assert_eq!(commands, ["dcb app replace dev eth0 dgram-port-prio 4791:3"]);
        let commands = of_host("eth0", Some("mlx5_0"), "pfc", "3").unwrap();
        assert_eq!(commands, ["mlnx_qos -i eth0 --pfc 0,0,0,1,0,0,0,0"]);
    }
}
