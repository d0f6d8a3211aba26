//! Where a setting is: the row of CONFIG_DB or the file of a host's dump, with its line.

use super::config_db::ConfigDb;
use super::fleet::Fleet;
use std::collections::BTreeMap;

/// The place of a setting in a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    /// The file.
    pub file: String,
    /// JSON pointer (RFC 6901) to the member of the file; empty if the file is not JSON. If the setting is absent, the
    /// pointer leads to where it would be.
    pub pointer: String,
    /// Line of the member, from 1; of its nearest parent if it is absent.
    pub line: Option<usize>,
}

/// A row of CONFIG_DB, or one field of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Row {
    pub(crate) table: String,
    pub(crate) key: String,
    pub(crate) field: String,
}

fn row(table: &str, key: impl Into<String>, field: &str) -> Option<Row> {
    Some(Row { table: table.to_string(), key: key.into(), field: field.to_string() })
}

/// The rows of the maps of a port: name of the setting, field of PORT_QOS_MAP, table.
const MAPS: [(&str, &str, &str); 6] = [
    ("dscp_to_tc", "dscp_to_tc_map", "DSCP_TO_TC_MAP"),
    ("tc_to_queue", "tc_to_queue_map", "TC_TO_QUEUE_MAP"),
    ("tc_to_pg", "tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"),
    ("pfc_to_queue", "pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
    ("pfc_to_pg", "pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
    ("tc_to_dscp_map", "tc_to_dscp_map", "TC_TO_DSCP_MAP"),
];

/// Fields of a port's row: setting, table and field.
const OF_PORT: [(&str, &str, &str); 9] = [
    ("up", "PORT", "admin_status"),
    ("mtu", "PORT", "mtu"),
    ("speed", "PORT", "speed"),
    ("pfc", "PORT_QOS_MAP", "pfc_enable"),
    ("watched", "PORT_QOS_MAP", "pfcwd_sw_enable"),
    ("watchdog", "PFC_WD", ""),
    ("watchdog.action", "PFC_WD", "action"),
    ("watchdog.detection", "PFC_WD", "detection_time"),
    ("watchdog.restoration", "PFC_WD", "restoration_time"),
];

/// The row of a switch's setting; `None` if no single row has the setting.
pub(crate) fn row_of(db: &ConfigDb, port: &str, path: &str) -> Option<Row> {
    if let Some((_, table, field)) = OF_PORT.iter().find(|(setting, ..)| *setting == path) {
        return row(table, key_of(db, table, port, None).unwrap_or_else(|| port.to_string()), field);
    }
    let parts: Vec<&str> = path.splitn(3, '.').collect();
    match parts.as_slice() {
        ["length"] => row("CABLE_LENGTH", db.table("CABLE_LENGTH").next()?.0, port),
        ["poll_interval"] => row("PFC_WD", "GLOBAL", "POLL_INTERVAL"),
        ["neighbour"] => row("DEVICE_NEIGHBOR", port, ""),
        ["storm_control", kind] => row("PORT_STORM_CONTROL", format!("{port}|{kind}"), "kbps"),
        ["config_db", ..] => {
            let (table, rest) = path.strip_prefix("config_db.")?.split_once('|')?;
            let (key, field) = rest.rsplit_once('|')?;
            row(table, key, field)
        }
        ["pool", name, rest @ ..] => row("BUFFER_POOL", *name, if rest == ["headroom"] { "xoff" } else { "size" }),
        ["queue", index, rest @ ..] => queue(db, port, index.parse().ok()?, rest.first().copied()),
        ["pg", index, rest @ ..] => group(db, port, index.parse().ok()?, rest.first().copied()),
        [map, rest @ ..] => {
            let (_, field, table) = MAPS.iter().find(|(setting, ..)| setting == map)?;
            let key = key_of(db, "PORT_QOS_MAP", port, None).unwrap_or_else(|| port.to_string());
            match (rest.first(), reference(db, "PORT_QOS_MAP", &key, field)) {
                (Some(index), Some(name)) => row(table, name, index),
                _ => row("PORT_QOS_MAP", key, field),
            }
        }
        [] => None,
    }
}

fn queue(db: &ConfigDb, port: &str, index: u8, setting: Option<&str>) -> Option<Row> {
    let (table, field, target, name) = match setting {
        Some("scheduler") => ("QUEUE", "scheduler", "SCHEDULER", "type"),
        Some("weight") => ("QUEUE", "scheduler", "SCHEDULER", "weight"),
        Some("ecn") => ("QUEUE", "wred_profile", "WRED_PROFILE", "ecn"),
        Some("wred_drop") => ("QUEUE", "wred_profile", "WRED_PROFILE", "wred_green_enable"),
        Some("ecn_min") => ("QUEUE", "wred_profile", "WRED_PROFILE", "green_min_threshold"),
        Some("ecn_max") => ("QUEUE", "wred_profile", "WRED_PROFILE", "green_max_threshold"),
        Some("ecn_percent") => ("QUEUE", "wred_profile", "WRED_PROFILE", "green_drop_probability"),
        Some("alpha") => ("BUFFER_QUEUE", "profile", "BUFFER_PROFILE", "dynamic_th"),
        _ => ("QUEUE", "", "", ""),
    };
    referred(db, (table, port, index), field, (target, name))
}

fn group(db: &ConfigDb, port: &str, index: u8, setting: Option<&str>) -> Option<Row> {
    let name = match setting {
        Some("pool") => "pool",
        Some("alpha") => "dynamic_th",
        Some("threshold") => "static_th",
        Some("size") => "size",
        Some("headroom") => "xoff",
        Some("xon") => "xon",
        Some("xon_offset") => "xon_offset",
        _ => "",
    };
    referred(db, ("BUFFER_PG", port, index), "profile", ("BUFFER_PROFILE", name))
}

/// The field of the object to which a field of a port's row refers; the referring field itself if no object exists.
fn referred(
    db: &ConfigDb, (table, port, index): (&str, &str, u8), field: &str, (target, name): (&str, &str),
) -> Option<Row> {
    let key = key_of(db, table, port, Some(index)).unwrap_or_else(|| format!("{port}|{index}"));
    match reference(db, table, &key, field).filter(|_| !name.is_empty()) {
        Some(object) => row(target, object, name),
        None => row(table, key, field),
    }
}

/// The key of the row of a port, and of one of its queues or groups: keys can list ports and have ranges.
fn key_of(db: &ConfigDb, table: &str, port: &str, index: Option<u8>) -> Option<String> {
    let has = |key: &str| {
        let (ports, range) = key.rsplit_once('|').filter(|_| index.is_some()).unwrap_or((key, ""));
        let in_range = index.is_none_or(|index| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let ends = (first.parse::<u8>(), last.parse::<u8>());
            matches!(ends, (Ok(first), Ok(last)) if (first..=last).contains(&index))
        });
        in_range && ports.split(',').any(|one| one == port)
    };
    db.table(table).map(|(key, _)| key).find(|key| has(key)).cloned()
}

/// The name of the object to which a field refers: `name`, or in old versions `[TABLE|name]`.
fn reference(db: &ConfigDb, table: &str, key: &str, field: &str) -> Option<String> {
    let text = db.tables.get(table)?.get(key)?.get(field)?.text()?;
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    Some(inner.map_or(text.as_str(), |inner| inner.split_once('|').map_or(inner, |(_, name)| name)).to_string())
}

/// The files of a host's settings. `IF` and `DEV` stand for the interface and its RDMA device.
const OF_HOST: [(&str, &str); 13] = [
    ("trust", "mlnx_qos-IF.txt"),
    ("pfc", "mlnx_qos-IF.txt"),
    ("length", "mlnx_qos-IF.txt"),
    ("dscp_to_priority", "mlnx_qos-IF.txt"),
    ("priority_to_buffer", "mlnx_qos-IF.txt"),
    ("buffer", "mlnx_qos-IF.txt"),
    ("class", "mlnx_qos-IF.txt"),
    ("pause", "ethtool-a-IF.txt"),
    ("mtu", "sys/class/net/IF/mtu"),
    ("speed", "sys/class/net/IF/speed"),
    ("roce_tos", "cma_roce_tos-DEV.txt"),
    ("roce_mode", "cma_roce_mode-DEV.txt"),
    ("traffic_class", "sys/class/infiniband/DEV/tc/1/traffic_class"),
];

/// The places of a finding's setting, one for each of its ports, without duplicates.
pub(crate) fn positions(fleet: &Fleet, lines: &mut Lines, device: &str, ports: &[String], path: &str) -> Vec<Position> {
    let one = [String::new()];
    let ports = if ports.is_empty() { &one[..] } else { ports };
    let mut found: Vec<Position> = Vec::new();
    for port in ports {
        let position = match (fleet.databases.get(device), fleet.hosts.get(device)) {
            (Some(db), _) if !path.is_empty() => row_of(db, port, path).map(|row| lines.of(device, db, &row)),
            (None, Some(host)) => {
                let interface = host.interfaces.get(port);
                let rdma = interface.and_then(|interface| interface.device.as_deref());
                let kind = path.split('.').next().unwrap_or_default();
                let file = OF_HOST.iter().find(|(setting, _)| *setting == kind).map(|(_, file)| *file);
                file.filter(|file| rdma.is_some() || !file.contains("DEV")).map(|file| {
                    let file = file.replace("IF", port).replace("DEV", rdma.unwrap_or_default());
                    let file = format!("{}/{file}", fleet.folders.get(device).map_or(device, String::as_str));
                    Position { file, pointer: String::new(), line: None }
                })
            }
            _ => None,
        };
        found.extend(position.filter(|position| !found.contains(position)));
    }
    found
}

/// The lines of the members of each switch's file, which are computed when they are first needed.
#[derive(Default)]
pub(crate) struct Lines(BTreeMap<String, BTreeMap<Vec<String>, usize>>);

impl Lines {
    fn of(&mut self, device: &str, db: &ConfigDb, row: &Row) -> Position {
        let lines = self.0.entry(device.to_string()).or_insert_with(|| index(&db.source));
        let flat = format!("{}|{}", row.table, row.key);
        let mut names = match (db.is_dump, lines.contains_key(std::slice::from_ref(&flat))) {
            (true, _) => vec![flat, "value".to_string()],
            (false, true) => vec![flat],
            (false, false) => vec![row.table.clone(), row.key.clone()],
        };
        if !row.field.is_empty() {
            names.push(row.field.clone());
        }
        let line = (1..=names.len()).rev().find_map(|len| lines.get(&names[..len])).copied();
        let pointer = names.iter().map(|name| format!("/{}", escaped(name))).collect();
        Position { file: db.file.clone(), pointer, line }
    }
}

/// A name as a part of a JSON pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The line of each member of the objects in a JSON text, by the names that lead to it. The text is valid JSON.
fn index(text: &str) -> BTreeMap<Vec<String>, usize> {
    let bytes = text.as_bytes();
    let (mut lines, mut names, mut line, mut at) = (BTreeMap::new(), Vec::<Option<String>>::new(), 1, 0);
    // Whether the next string is the name of a member.
    let mut expects_name = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\n' => line += 1,
            b'{' => {
                names.push(None);
                expects_name = true;
            }
            b'[' => {
                names.push(None);
                expects_name = false;
            }
            b'}' | b']' => {
                names.pop();
                expects_name = false;
            }
            // In a list, the next string is not followed by a colon.
            b',' => expects_name = true,
            b':' => expects_name = false,
            b'"' => {
                let end = string_end(bytes, at);
                let rest = text.get(end..).unwrap_or_default().trim_start();
                if expects_name
                    && rest.starts_with(':')
                    && let Some(last) = names.last_mut()
                {
                    *last = text.get(at..end).and_then(|name| serde_json::from_str(name).ok());
                    let path: Option<Vec<String>> = names.iter().cloned().collect();
                    if let Some(path) = path.filter(|path| path.len() <= MAX_DEPTH) {
                        lines.entry(path).or_insert(line);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    lines
}

/// Depth of the members of CONFIG_DB.
const MAX_DEPTH: usize = 3;

/// The index after the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn db(text: &str) -> ConfigDb {
        ConfigDb::parse(text, "leaf1/config_db.json").unwrap()
    }

    fn place(db: &ConfigDb, port: &str, path: &str) -> (String, Option<usize>) {
        let position = Lines::default().of("leaf1", db, &row_of(db, port, path).unwrap());
        (position.pointer, position.line)
    }

    #[test]
    fn settings_are_found_in_all_forms_of_the_file() {
        let plain = db("{\n\"PORT\": {\n \"Ethernet0\": {\n  \"mtu\": \"9100\"}},\n\"BUFFER_PG\": {\n \
                        \"Ethernet0,Ethernet4|3-4\": {\"profile\": \"[BUFFER_PROFILE|a/b]\"}},\n\"BUFFER_PROFILE\": {\n \
                        \"a/b\": {\"list\": [\"x\", \"y\"],\n\"xoff\": \"5\"}}}");
        assert_eq!(place(&plain, "Ethernet0", "mtu"), ("/PORT/Ethernet0/mtu".to_string(), Some(4)));
        assert_eq!(place(&plain, "Ethernet0", "up"), ("/PORT/Ethernet0/admin_status".to_string(), Some(3)));
        assert_eq!(place(&plain, "Ethernet4", "pg.3.headroom"), ("/BUFFER_PROFILE/a~1b/xoff".to_string(), Some(9)));
        assert_eq!(place(&plain, "Ethernet4", "pfc").0, "/PORT_QOS_MAP/Ethernet4/pfc_enable");
        let flat = db("{\"PORT|Ethernet0\": {\n\"mtu\": \"9100\"}}");
        assert_eq!(place(&flat, "Ethernet0", "mtu"), ("/PORT|Ethernet0/mtu".to_string(), Some(2)));
        let dump = db("{\"PORT|Ethernet0\": {\"type\": \"hash\",\n\"value\": {\n\"mtu\": \"9100\"}}}");
        assert_eq!(place(&dump, "Ethernet0", "mtu"), ("/PORT|Ethernet0/value/mtu".to_string(), Some(3)));
    }
}
