//! Reads a [`Switch`] from SONiC's CONFIG_DB.
//!
//! Two generations of the format exist. Until version 3.0.1 of the schema, references between objects were written
//! `[TABLE|key]`, and keys contained lists of ports separated by commas. Later versions write references as plain
//! names. The reader accepts both.

mod buffers;
mod fields;
mod maps;
mod ports;

use super::config_db::ConfigDb;
use super::switch::Switch;
use super::{Device, Unknown};
use crate::input::InputError;
use fields::Fields;

/// Tables that the reader of a switch reads.
const READ: [&str; 20] = [
    "PORT",
    "CABLE_LENGTH",
    "DEVICE_NEIGHBOR",
    "PORT_QOS_MAP",
    "DSCP_TO_TC_MAP",
    "TC_TO_QUEUE_MAP",
    "TC_TO_PRIORITY_GROUP_MAP",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    "SCHEDULER",
    "WRED_PROFILE",
    "QUEUE",
    "BUFFER_POOL",
    "BUFFER_PROFILE",
    "BUFFER_PG",
    "BUFFER_QUEUE",
    "PFC_WD",
    "VLAN_MEMBER",
    "PORT_STORM_CONTROL",
    "DEVICE_METADATA",
];
/// Tables about queues and buffers that have no effect on the checks.
const IRRELEVANT: [&str; 6] = [
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "LOSSLESS_TRAFFIC_PATTERN",
    "TC_TO_DSCP_MAP",
    "SWITCH_TRIMMING",
];
/// Tables whose name contains one of these words concern queues or buffers.
const ABOUT_QOS: [&str; 9] = ["QOS", "BUFFER", "QUEUE", "PFC", "WRED", "DSCP", "_TO_TC", "SCHEDULER", "PRIORITY"];

/// Reads the switch `name` from its configuration. Malformed values are added to `errors`, and unknown keys to
/// `unknown`; the rest of the configuration is still read.
pub(crate) fn read(
    name: &str, file: &str, db: &ConfigDb, errors: &mut Vec<InputError>, unknown: &mut Vec<Unknown>,
) -> Switch {
    let fields = Fields::new(file, db);
    let mut switch = Switch { name: name.to_string(), ..Switch::default() };
    ports::read(&fields, &mut switch);
    maps::read(&fields, &mut switch);
    buffers::read(&fields, &mut switch, db.is_dump);
    for (path, text) in &db.skipped {
        // A malformed table that the checks need is a mistake; any other key is only reported.
        match READ.contains(&path.split('|').next().unwrap_or_default()) {
            true => fields.error(path.clone(), text.clone()),
            false => fields.unknown(path, text),
        }
    }
    for table in db.tables.keys().filter(|table| ABOUT_QOS.iter().any(|word| table.contains(word))) {
        if !READ.contains(&table.as_str()) && !IRRELEVANT.contains(&table.as_str()) {
            fields.unknown(table, "this table is not read");
        }
    }
    let (mistakes, found, dangling) = fields.into_parts();
    errors.extend(mistakes);
    unknown.extend(found.into_iter().map(|(path, text)| Unknown { device: Device(name.to_string()), path, text }));
    switch.dangling = dangling;
    switch
}

#[cfg(test)]
mod tests;
