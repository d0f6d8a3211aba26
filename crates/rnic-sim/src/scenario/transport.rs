//! How the hosts of a run send: the keys of `[[run]]` and their defaults in `[transport]`.

use super::model::TransportSpec;
use super::names::names;
use super::reader::{Item, Result, Table, Variant};
use rnic_transport::headers::{IRN_DATA, ROCE_DATA};
use rnic_transport::registry::{CONGESTION_CONTROLS, TRANSPORTS};
use rnic_transport::{Bytes, NackPolicy};

/// Keys that every transport uses.
const COMMON: [&str; 10] = [
    "cc",
    "pfc",
    "timeouts",
    "rto_high",
    "header",
    "ack_size",
    "nack_size",
    "control_priority",
    "nic_burst",
    "max_rate",
];
/// Keys that only some use.
const VARIANTS: [Variant; 2] = [
    Variant { name: "roce", keys: &["acks", "nacks"] },
    Variant { name: "irn", keys: &["rto_low", "rto_low_packets", "bdp_cap"] },
];
/// Most packets in flight: half of the 24-bit packet sequence numbers.
const MOST_IN_FLIGHT: u32 = (1 << 23) - 1;

/// A run's own table over the defaults; keys that its transport does not use are not looked up.
struct Layers<'t, 'a> {
    run: &'t Table<'a>,
    defaults: Option<&'t Table<'a>>,
    used: Vec<&'static str>,
}

impl<'a> Layers<'_, 'a> {
    fn get(&self, key: &str) -> Option<Item<'a>> {
        if !self.used.contains(&key) {
            return None;
        }
        self.run.get(key).or_else(|| self.defaults?.get(key))
    }
}

/// Checks a `[transport]` table by itself: every key and value, whichever transport uses it.
pub(super) fn check_defaults(table: &Table<'_>) -> Result<()> {
    let used = COMMON.iter().chain(VARIANTS.iter().flat_map(|variant| variant.keys)).copied().collect();
    let layers = Layers { run: table, defaults: None, used };
    table.accept(&layers.used)?;
    check_timeouts(table, None, &read_settings("", &layers)?)
}

/// Reads a run's transport; `own` are the keys of a run that belong to no transport.
pub(super) fn read(run: &Table<'_>, defaults: Option<&Table<'_>>, own: &[&str]) -> Result<TransportSpec> {
    let transport = run.require("transport", "transport = \"irn\"")?.choice(&names(TRANSPORTS))?;
    run.accept_variant(&[own, &COMMON].concat(), "transport", transport, &VARIANTS)?;
    let specific = VARIANTS.iter().filter(|variant| variant.name == transport).flat_map(|variant| variant.keys);
    let used = COMMON.iter().chain(specific).copied().collect();
    let spec = read_settings(transport, &Layers { run, defaults, used })?;
    check_timeouts(run, defaults, &spec)?;
    Ok(spec)
}

fn read_settings(transport: &str, layers: &Layers<'_, '_>) -> Result<TransportSpec> {
    let flag = |key: &str| layers.get(key).map(|item| item.boolean()).transpose();
    let time = |key: &str, example: &str| layers.get(key).map(|item| item.positive_time(example)).transpose();
    let size = |key: &str| layers.get(key).map(|item| item.bytes(1..=9_000, "66 B")).transpose();
    let packets = |key: &str, least: u32| {
        let range = u64::from(least)..=u64::from(MOST_IN_FLIGHT);
        layers.get(key).map(|item| item.integer(range).map(|packets| packets as u32)).transpose()
    };
    let spec = TransportSpec {
        transport: transport.to_string(),
        cc: layers.get("cc").map_or(Ok("none"), |item| item.choice(&names(CONGESTION_CONTROLS)))?.to_string(),
        pfc: flag("pfc")?.unwrap_or(false),
        timeouts: flag("timeouts")?,
        rto_high: time("rto_high", "320 us")?,
        rto_low: time("rto_low", "100 us")?,
        rto_low_packets: packets("rto_low_packets", 0)?,
        bdp_cap: packets("bdp_cap", 1)?,
        acks: flag("acks")?,
        nacks: match layers.get("nacks").map(|item| item.choice(&["first", "every"])).transpose()? {
            Some("every") => NackPolicy::Every,
            _ => NackPolicy::First,
        },
        header: size("header")?,
        ack_size: size("ack_size")?,
        nack_size: size("nack_size")?,
        control_priority: flag("control_priority")?.unwrap_or(false),
        nic_burst: packets("nic_burst", 1)?.unwrap_or(1),
        max_rate: layers.get("max_rate").map(|item| item.rate()).transpose()?,
    };
    Ok(spec)
}

/// Checks that the short timeout is not the longer one; the two may stand in different tables.
fn check_timeouts(run: &Table<'_>, defaults: Option<&Table<'_>>, spec: &TransportSpec) -> Result<()> {
    let table = if run.get("rto_low").or(run.get("rto_high")).is_some() { run } else { defaults.unwrap_or(run) };
    table.ordered(("rto_low", spec.rto_low), ("rto_high", spec.rto_high), "")
}

/// Headers and trailers of a data packet: what the run says, else the transport's own.
pub(super) fn header(spec: &TransportSpec) -> Bytes {
    let own = if spec.transport == "irn" { IRN_DATA } else { ROCE_DATA };
    spec.header.unwrap_or(Bytes(u64::from(own)))
}
