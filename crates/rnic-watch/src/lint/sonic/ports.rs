//! Reads ports: speed, MTU, link, VLANs and neighbours.

use super::fields::{Fields, Row};
use crate::input::shown;
use crate::lint::switch::{Port, Switch};
use rnic_transport::BitRate;

/// Fields of a port that are not read, because no check depends on them.
const OTHER: [&str; 25] = [
    "lanes",
    "index",
    "description",
    "fec",
    "autoneg",
    "adv_speeds",
    "adv_interface_types",
    "interface_type",
    "tpid",
    "pfc_asym",
    "asic_port_name",
    "subport",
    "core_id",
    "core_port_id",
    "num_voq",
    "coreId",
    "corePortId",
    "numVoq",
    "mode",
    "dhcp_rate_limit",
    "laser_freq",
    "tx_power",
    "link_training",
    "macsec",
    "mux_cable",
];

pub(super) fn read(fields: &Fields<'_>, switch: &mut Switch) {
    let known: Vec<&str> = OTHER.iter().copied().chain(["alias", "admin_status", "speed", "mtu", "role"]).collect();
    for row in fields.rows_with("PORT", &known) {
        let port = Port {
            alias: fields.text(row, "alias"),
            // Without the field `admin_status`, SONiC leaves the port down.
            up: fields.choice(row, "admin_status", &["up", "down"]).is_some_and(|status| status == "up"),
            speed: fields.number::<u64>(row, "speed", 1..=10_000_000).map(|mbps| BitRate::from_bps(mbps * 1_000_000)),
            mtu: fields.number(row, "mtu", 68..=65_535),
            internal: internal_role(fields, row),
            ..Port::default()
        };
        switch.ports.insert(row.key.to_string(), port);
    }
    read_lengths(fields, switch);
    for row in fields.rows_with("DEVICE_NEIGHBOR", &["name", "port", "mgmt_addr", "local_port", "type"]) {
        // Older configurations use the neighbour's address as the key, and have the local port in a field.
        let local = fields.text(row, "local_port").unwrap_or_else(|| row.key.to_string());
        if let (Some(port), Some(name)) = (switch.ports.get_mut(&local), fields.text(row, "name")) {
            port.neighbour = Some((name, fields.text(row, "port")));
        }
    }
    // A port channel may be a member of a VLAN; the ports of the channel are then members.
    let channels: Vec<(&str, &str)> =
        fields.rows("PORTCHANNEL_MEMBER").filter_map(|row| row.key.split_once('|')).collect();
    for row in fields.rows("VLAN_MEMBER") {
        let Some((vlan, name)) = row.key.split_once('|') else { continue };
        let members = channels.iter().filter(|(channel, _)| *channel == name).map(|(_, port)| *port);
        for name in members.chain([name]) {
            if let Some(port) = switch.ports.get_mut(name) {
                port.vlans.insert(vlan.to_string());
            }
        }
    }
    for row in fields.rows_with("PORT_STORM_CONTROL", &["kbps"]) {
        if let Some((name, kind)) = row.key.split_once('|')
            && let Some(port) = switch.ports.get_mut(name)
        {
            port.storm_control.insert(kind.to_string());
        }
    }
}

/// The role of a port that is not connected to a host or switch by a link: `Rec` (recirculation), `Inb` (in-band port
/// of a chassis) or `Dpc` (to a data processing unit inside the switch). `None` for all other ports.
fn internal_role(fields: &Fields<'_>, row: Row<'_>) -> Option<&'static str> {
    const ROLES: [&str; 5] = ["Rec", "Inb", "Dpc", "Ext", "Int"];
    let found = match fields.text(row, "role") {
        Some(role) => {
            let known = ROLES.into_iter().find(|known| known.eq_ignore_ascii_case(role.trim()));
            if known.is_none() {
                let text = format!("`{}` is not a known role ({})", shown(&role), ROLES.join(", "));
                fields.unknown(&row.path("role"), &text);
            }
            known
        }
        None if row.key.starts_with("Ethernet-Rec") => Some("Rec"),
        None if row.key.starts_with("Ethernet-IB") => Some("Inb"),
        None => None,
    };
    found.filter(|role| ROLES[..3].contains(role))
}

/// Reads CABLE_LENGTH: one entry, whose fields are ports, with values such as `300m`.
fn read_lengths(fields: &Fields<'_>, switch: &mut Switch) {
    for row in fields.rows("CABLE_LENGTH") {
        for name in row.entry.keys() {
            let Some(text) = fields.text(row, name) else { continue };
            match text.strip_suffix('m').and_then(|metres| metres.parse::<u64>().ok()).filter(|m| *m <= 100_000_000) {
                Some(metres) => {
                    if let Some(port) = switch.ports.get_mut(name) {
                        port.length = Some(metres);
                    }
                }
                None => fields.error(row.path(name), format!("`{}` is not a length such as 300m", shown(&text))),
            }
        }
    }
}
