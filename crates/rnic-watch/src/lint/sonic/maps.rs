//! Reads the maps of DSCPs, traffic classes and PFC priorities, the queues, and the PFC watchdog.

use super::fields::{Fields, Row};
use crate::input::shown;
use crate::lint::switch::{Map, Port, Scheduler, Switch, Watchdog, Wred};
use std::collections::BTreeMap;

/// Fields of PORT_QOS_MAP that are read.
const PORT_FIELDS: [&str; 9] = [
    "dscp_to_tc_map",
    "tc_to_queue_map",
    "tc_to_pg_map",
    "pfc_to_queue_map",
    "pfc_to_pg_map",
    "tc_to_dscp_map",
    "pfc_enable",
    "pfcwd_sw_enable",
    "scheduler",
];
/// Fields of PORT_QOS_MAP that do not concern RoCE over IP: VLAN priorities and MPLS.
const PORT_OTHER: [&str; 5] =
    ["dot1p_to_tc_map", "dscp_to_fc_map", "exp_to_fc_map", "mpls_tc_to_tc_map", "tc_to_dot1p_map"];

pub(super) fn read(fields: &Fields<'_>, switch: &mut Switch) {
    let maps = Maps {
        fields,
        dscp_to_tc: read_maps(fields, "DSCP_TO_TC_MAP", 63, 15),
        tc_to_queue: read_maps(fields, "TC_TO_QUEUE_MAP", 15, 15),
        tc_to_pg: read_maps(fields, "TC_TO_PRIORITY_GROUP_MAP", 15, 7),
        pfc_to_queue: read_maps(fields, "MAP_PFC_PRIORITY_TO_QUEUE", 7, 15),
        pfc_to_pg: read_maps(fields, "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", 7, 7),
    };
    let known: Vec<&str> = PORT_FIELDS.into_iter().chain(PORT_OTHER).collect();
    let rows = fields.rows_with("PORT_QOS_MAP", &known);
    // The maps of the row `global` apply to every port without maps of its own.
    for row in rows.iter().filter(|row| row.key.eq_ignore_ascii_case("global")) {
        for port in switch.ports.values_mut() {
            maps.apply(*row, port);
        }
    }
    for row in rows.iter().filter(|row| !row.key.eq_ignore_ascii_case("global")) {
        for name in row.key.split(',') {
            match switch.ports.get_mut(name.trim()) {
                Some(port) => maps.apply(*row, port),
                None => fields.dangling(format!("PORT_QOS_MAP|{}", row.key), "PORT", name.trim()),
            }
        }
    }
    read_queues(fields, switch);
    read_watchdog(fields, switch);
}

/// The maps of the switch, by table and name.
struct Maps<'f, 'd> {
    fields: &'f Fields<'d>,
    dscp_to_tc: BTreeMap<String, Map>,
    tc_to_queue: BTreeMap<String, Map>,
    tc_to_pg: BTreeMap<String, Map>,
    pfc_to_queue: BTreeMap<String, Map>,
    pfc_to_pg: BTreeMap<String, Map>,
}

impl<'d> Maps<'_, 'd> {
    /// Applies a row of PORT_QOS_MAP to a port.
    fn apply(&self, row: Row<'d>, port: &mut Port) {
        let choose = |field: &str, table: &str, maps: &BTreeMap<String, Map>, of: &mut Option<Map>| {
            let Some(name) = self.fields.reference(row, field) else { return };
            match maps.get(&name) {
                Some(map) => *of = Some(map.clone()),
                None => self.fields.dangling(row.path(field), table, &name),
            }
        };
        choose("dscp_to_tc_map", "DSCP_TO_TC_MAP", &self.dscp_to_tc, &mut port.dscp_to_tc);
        choose("tc_to_queue_map", "TC_TO_QUEUE_MAP", &self.tc_to_queue, &mut port.tc_to_queue);
        choose("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", &self.tc_to_pg, &mut port.tc_to_pg);
        choose("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", &self.pfc_to_queue, &mut port.pfc_to_queue);
        choose("pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", &self.pfc_to_pg, &mut port.pfc_to_pg);
        port.reads_pcp |= row.entry.contains_key("dot1p_to_tc_map");
        port.rewrites_dscp |= row.entry.contains_key("tc_to_dscp_map");
        if let Some(pfc) = self.fields.priorities(row, "pfc_enable") {
            port.pfc = pfc;
        }
        if let Some(watched) = self.fields.priorities(row, "pfcwd_sw_enable") {
            port.watched = Some(watched);
        }
    }
}

/// Reads a table of maps from numbers up to `max_key` to numbers up to `max_value`.
fn read_maps(fields: &Fields<'_>, table: &'static str, max_key: u8, max_value: u8) -> BTreeMap<String, Map> {
    let mut maps = BTreeMap::new();
    for row in fields.rows(table) {
        let mut map = Map::new();
        for key in row.entry.keys().filter(|key| *key != "NULL") {
            match key.parse::<u8>() {
                Ok(number) if number <= max_key => {
                    if let Some(value) = fields.number(row, key, 0..=i64::from(max_value)) {
                        map.insert(number, value);
                    }
                }
                _ => fields.error(row.path(key), format!("`{}` is not a number from 0 to {max_key}", shown(key))),
            }
        }
        maps.insert(row.key.to_string(), map);
    }
    maps
}

fn read_queues(fields: &Fields<'_>, switch: &mut Switch) {
    let mut schedulers = BTreeMap::new();
    for row in fields.rows_with("SCHEDULER", &["type", "weight", "priority", "meter_type", "cir", "pir", "cbs", "pbs"])
    {
        let kind = fields.choice(row, "type", &["dwrr", "wrr", "strict"]).unwrap_or_else(|| "wrr".to_string());
        let weight = fields.number(row, "weight", 1..=255).unwrap_or(1);
        schedulers.insert(row.key.to_string(), Scheduler { kind, weight });
    }
    let wred = read_wred(fields);
    for row in fields.rows_with("QUEUE", &["scheduler", "wred_profile"]) {
        let scheduler = fields.reference(row, "scheduler");
        let profile = fields.reference(row, "wred_profile");
        if let Some(name) = scheduler.as_ref().filter(|name| !schedulers.contains_key(*name)) {
            fields.dangling(row.path("scheduler"), "SCHEDULER", name);
        }
        if let Some(name) = profile.as_ref().filter(|name| !wred.contains_key(*name)) {
            fields.dangling(row.path("wred_profile"), "WRED_PROFILE", name);
        }
        for (name, index) in fields.key(row, 31) {
            // The queues of the switch's CPU port do not belong to any port.
            let Some(port) = switch.ports.get_mut(&name) else { continue };
            let queue = port.queues.entry(index).or_default();
            if let Some(scheduler) = scheduler.as_ref().and_then(|name| schedulers.get(name)) {
                queue.scheduler = Some(scheduler.clone());
            }
            if let Some(profile) = profile.as_ref().and_then(|name| wred.get(name)) {
                queue.wred = Some(profile.clone());
            }
        }
    }
}

fn read_wred(fields: &Fields<'_>) -> BTreeMap<String, Wred> {
    const KINDS: [&str; 8] = [
        "ecn_none",
        "ecn_green",
        "ecn_yellow",
        "ecn_red",
        "ecn_green_yellow",
        "ecn_green_red",
        "ecn_yellow_red",
        "ecn_all",
    ];
    let mut known = vec!["ecn".to_string(), "gmin".to_string()];
    for colour in ["green", "yellow", "red"] {
        known.push(format!("wred_{colour}_enable"));
        known.extend(["min_threshold", "max_threshold", "drop_probability"].map(|field| format!("{colour}_{field}")));
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut profiles = BTreeMap::new();
    for row in fields.rows_with("WRED_PROFILE", &known) {
        let ecn = fields.choice(row, "ecn", &KINDS);
        let wred = Wred {
            name: row.key.to_string(),
            ecn: ecn.is_some_and(|ecn| ecn == "ecn_all" || ecn.contains("green")),
            drops: fields.boolean(row, "wred_green_enable").unwrap_or(false),
            min: fields.bytes(row, "green_min_threshold"),
            max: fields.bytes(row, "green_max_threshold"),
            percent: fields.number(row, "green_drop_probability", 0..=100).unwrap_or(100),
        };
        if let (Some(min), Some(max)) = (wred.min, wred.max)
            && min > max
        {
            fields.error(row.path("green_min_threshold"), format!("{min} is above green_max_threshold, {max}"));
        }
        profiles.insert(row.key.to_string(), wred);
    }
    profiles
}

fn read_watchdog(fields: &Fields<'_>, switch: &mut Switch) {
    let known = ["action", "detection_time", "restoration_time", "pfc_stat_history", "POLL_INTERVAL", "BIG_RED_SWITCH"];
    for row in fields.rows_with("PFC_WD", &known) {
        if row.key == "GLOBAL" {
            switch.poll_interval = fields.number(row, "POLL_INTERVAL", 1..=1_000_000);
            continue;
        }
        let watchdog = Watchdog {
            action: fields.choice(row, "action", &["drop", "forward", "alert"]).unwrap_or_else(|| "drop".to_string()),
            detection: fields.number(row, "detection_time", 1..=1_000_000),
            restoration: fields.number(row, "restoration_time", 1..=1_000_000),
        };
        for name in row.key.split(',') {
            match switch.ports.get_mut(name.trim()) {
                Some(port) => port.watchdog = Some(watchdog.clone()),
                None => fields.dangling(format!("PFC_WD|{}", row.key), "PORT", name.trim()),
            }
        }
    }
}
