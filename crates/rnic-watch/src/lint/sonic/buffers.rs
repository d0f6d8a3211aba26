//! Reads buffer pools, buffer profiles, and the profiles of priority groups and queues.

use super::fields::Fields;
use crate::lint::switch::{Group, Pool, Profile, Switch, Threshold};
use std::collections::BTreeMap;

const PROFILE: [&str; 9] =
    ["pool", "size", "static_th", "dynamic_th", "xon", "xon_offset", "xoff", "headroom_type", "packet_discard_action"];

/// `is_dump`: the configuration is a dump of a running switch.
pub(super) fn read(fields: &Fields<'_>, switch: &mut Switch, is_dump: bool) {
    for row in fields.rows_with("BUFFER_POOL", &["type", "mode", "size", "xoff", "percentage"]) {
        let kind = fields.choice(row, "type", &["ingress", "egress", "both"]);
        fields.choice(row, "mode", &["static", "dynamic"]);
        let pool = Pool {
            ingress: kind.is_some_and(|kind| kind != "egress"),
            size: fields.bytes(row, "size"),
            xoff: fields.bytes(row, "xoff").unwrap_or(0),
        };
        switch.pools.insert(row.key.to_string(), pool);
    }
    let profiles = read_profiles(fields, switch);
    for row in fields.rows_with("BUFFER_PG", &["profile"]) {
        let Some(name) = fields.reference(row, "profile") else { continue };
        let group = match (name.as_str(), profiles.get(&name)) {
            // The switch computes the profile from the speed and the length of the link.
            ("NULL", _) => Group { profile: None },
            (_, Some(profile)) => Group { profile: Some(profile.clone()) },
            // The switch creates the profiles with this prefix, and older versions do not save them.
            (name, None) if name.starts_with("pg_lossless_") => Group { profile: None },
            (name, None) => {
                fields.dangling(row.path("profile"), "BUFFER_PROFILE", name);
                continue;
            }
        };
        for (name, index) in fields.key(row, 7) {
            if let Some(port) = switch.ports.get_mut(&name) {
                port.groups.insert(index, group.clone());
            }
        }
    }
    // SONiC adds the lossless groups of all ports at the same time. So a port without one stays without one if another
    // port has one, or if the configuration is a dump of the running switch.
    let is_lossless = |group: &Group| group.profile.as_ref().is_none_or(Profile::lossless);
    let complete = is_dump || switch.used().any(|(_, port)| port.groups.values().any(is_lossless));
    for port in switch.ports.values_mut() {
        port.groups_are_complete = complete;
    }
    for row in fields.rows_with("BUFFER_QUEUE", &["profile"]) {
        let Some(name) = fields.reference(row, "profile") else { continue };
        let Some(profile) = profiles.get(&name) else {
            fields.dangling(row.path("profile"), "BUFFER_PROFILE", &name);
            continue;
        };
        for (name, index) in fields.key(row, 31) {
            if let Some(port) = switch.ports.get_mut(&name) {
                port.queues.entry(index).or_default().buffer = Some(profile.clone());
            }
        }
    }
}

fn read_profiles(fields: &Fields<'_>, switch: &Switch) -> BTreeMap<String, Profile> {
    let mut profiles = BTreeMap::new();
    for row in fields.rows_with("BUFFER_PROFILE", &PROFILE) {
        let pool = fields.reference(row, "pool").unwrap_or_default();
        if !pool.is_empty() && !switch.pools.contains_key(&pool) {
            fields.dangling(row.path("pool"), "BUFFER_POOL", &pool);
        }
        let fixed = fields.bytes(row, "static_th").map(Threshold::Static);
        let dynamic = fields.number(row, "dynamic_th", -8..=7).map(Threshold::Dynamic);
        let xoff = fields.bytes(row, "xoff");
        let computed =
            fields.choice(row, "headroom_type", &["static", "dynamic"]).is_some_and(|kind| kind == "dynamic");
        let profile = Profile {
            name: row.key.to_string(),
            pool,
            size: fields.bytes(row, "size").unwrap_or(0),
            threshold: dynamic.or(fixed),
            xon: fields.bytes(row, "xon").unwrap_or(0),
            xon_offset: fields.bytes(row, "xon_offset"),
            xoff,
            computed: computed && xoff.is_none(),
        };
        profiles.insert(row.key.to_string(), profile);
    }
    profiles
}
