//! Reads where the ranks of a program run.

use super::reader::{Result, Table};
use rnic_spec::{Server, Straggler};
use rnic_transport::settings::Kind;

/// Reads the number of ranks, at most the number of hosts.
pub(super) fn read_ranks(table: &Table<'_>, hosts: u32) -> Result<u32> {
    match table.get("ranks") {
        Some(item) => item.narrowed(Kind::Count { min: 2, max: hosts.into() }).typed(),
        None => Ok(hosts),
    }
}

/// Reads the servers, if they have several accelerators.
pub(super) fn read_server(table: &Table<'_>) -> Result<Option<Server>> {
    let accelerators: u32 = table.value("accelerators")?;
    if accelerators > 1 {
        let (rate, latency) = (table.value("domain_rate")?, table.value("domain_latency")?);
        return Ok(Some(Server { accelerators, rate, latency }));
    }
    match ["domain_rate", "domain_latency"].iter().find_map(|key| Some((key, table.get(key)?))) {
        None => Ok(None),
        Some((key, item)) => {
            let message = format!("`{key}` has no effect on servers with one accelerator");
            Err(item.error(message, format!("set `accelerators`, or remove `{key}`")))
        }
    }
}

/// Reads the rank that computes longer than the others.
pub(super) fn read_straggler(table: &Table<'_>) -> Result<Option<Straggler>> {
    match (table.given("straggler")?, table.get("straggler_delay")) {
        (Some(rank), Some(delay)) => Ok(Some(Straggler { rank, delay: delay.typed()? })),
        (None, None) => Ok(None),
        (Some(_), None) => table.require("straggler_delay").map(|_| None),
        (None, Some(delay)) => {
            Err(delay.error("`straggler_delay` has no effect without a straggler", "set `straggler` to a rank"))
        }
    }
}
