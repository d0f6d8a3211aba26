//! Reads the `[fabric.switch]` table of a scenario, and checks it against the run's transport.

use super::output;
use super::reader::{Item, Result, Table};
use rnic_fabric::config::{ArbiterSpec, ChooseScheduler, Quantum, SCHEDULERS, SchedulerSpec, Weights};
use rnic_spec::{EcnSetup, FabricSetup, InputSetup, QueueingSetup, SchedulerSetup, SharedSetup, SwitchSetup};
use rnic_transport::Bytes;
use rnic_transport::settings::Value;

/// Default scheduler if the table has `weights`: deficit round robin.
const WEIGHTED: &str = "drr";
/// Default scheduler if the table has no `weights`: strict priority.
const UNWEIGHTED: &str = "strict";

/// Reads the `[fabric.switch]` table.
pub(super) fn read(table: &Table<'_>) -> Result<SwitchSetup> {
    let queueing = match table.variant() {
        "shared" => QueueingSetup::Shared(read_shared(table)?),
        "output" => QueueingSetup::Output(output::read(table)?),
        _ => QueueingSetup::Input(read_input(table)?),
    };
    let mut scheduler = read_scheduler(table, queueing.priorities())?;
    if let QueueingSetup::Output(output) = &queueing {
        scheduler.spec = output::bound_headers(table, output, scheduler.spec)?;
    }
    let switch = SwitchSetup {
        queueing,
        buffer: table.given("buffer")?,
        xoff: table.given("xoff")?,
        xon: table.given("xon")?,
        headroom: table.given("headroom")?,
        scheduler,
        ecn: table.get("ecn").map_or(Ok(EcnSetup::default()), |item| read_ecn(&item))?,
    };
    const OR_ELSE: &str = ": change both, or leave it out";
    table.ordered(("xoff", switch.xoff), ("buffer", switch.buffer), OR_ELSE)?;
    if let QueueingSetup::Input(InputSetup { drop_until_free, .. }) = switch.queueing {
        table.ordered(("drop_until_free", Some(drop_until_free)), ("buffer", switch.buffer), OR_ELSE)?;
    }
    table.ordered(("xon", switch.xon), ("xoff", switch.xoff), OR_ELSE)?;
    table.ordered(("xon", switch.xon), ("buffer", switch.buffer), OR_ELSE)?;
    Ok(switch)
}

/// Reads the keys that only an input-queued switch has: `arbiter`, `arbiter_quantum` and `drop_until_free`.
fn read_input(table: &Table<'_>) -> Result<InputSetup> {
    let arbiter: String = table.value("arbiter")?;
    let quantum = table.get("arbiter_quantum");
    let arbiter = match (arbiter.as_str(), quantum) {
        ("oldest-first", None) => ArbiterSpec::OldestFirst,
        ("oldest-first", Some(item)) => {
            let help = "remove `arbiter_quantum`, or write `arbiter = \"round-robin\"`";
            return Err(item.error("arbiter \"oldest-first\" has no `arbiter_quantum`", help));
        }
        (_, None) => ArbiterSpec::default(),
        (_, Some(item)) => ArbiterSpec::RoundRobin(match item.value()? {
            Value::Bytes(bytes) => Quantum::Bytes(bytes),
            _ => Quantum::Packets(item.typed()?),
        }),
    };
    Ok(InputSetup { arbiter, drop_until_free: table.value("drop_until_free")? })
}

fn read_shared(table: &Table<'_>) -> Result<SharedSetup> {
    if let (Some(beta), Some(_)) = (table.get("beta"), table.get("xoff")) {
        let help = "`beta` makes PFC's threshold dynamic, `xoff` static: remove one of them";
        return Err(beta.wrong("`beta` and `xoff` are both given", help));
    }
    Ok(SharedSetup {
        beta: table.given("beta")?,
        xon_offset: table.given("xon_offset")?,
        egress_alpha: table.given("egress_alpha")?,
        priorities: table.given("priorities")?,
    })
}

/// Reads the keys of an output's scheduler, for example `scheduler = "wrr"` and `weights = [1, 4]`.
fn read_scheduler(table: &Table<'_>, priorities: Option<u8>) -> Result<SchedulerSetup> {
    let weights = table.get("weights");
    let default = if weights.is_some() { WEIGHTED } else { UNWEIGHTED };
    let name: String = table.given("scheduler")?.unwrap_or(default.to_string());
    let choose = SCHEDULERS.iter().find(|entry| entry.name == name).map(|entry| entry.choose);
    match (choose.unwrap_or(ChooseScheduler::Unweighted(SchedulerSpec::STRICT)), weights) {
        (ChooseScheduler::Unweighted(spec), None) => Ok(SchedulerSetup { spec, weights: 0 }),
        (ChooseScheduler::Unweighted(_), Some(item)) => {
            let weighted = SCHEDULERS.iter().filter(|entry| matches!(entry.choose, ChooseScheduler::Weighted(_)));
            let weighted: Vec<String> = weighted.map(|entry| format!("\"{}\"", entry.name)).collect();
            let help = format!("accepted with `weights`: `scheduler` = {}", weighted.join(" or "));
            Err(item.error(format!("scheduler \"{name}\" has no `weights`"), help))
        }
        (ChooseScheduler::Weighted(_), None) => {
            let help = "write for example `weights = [1, 4]`, one for each priority, the lowest first";
            Err(table.error_at("scheduler", format!("scheduler \"{name}\" needs `weights`"), help))
        }
        (ChooseScheduler::Weighted(choose), Some(item)) => {
            let (count, weights) = read_weights(&item, priorities)?;
            Ok(SchedulerSetup { spec: choose(weights), weights: count })
        }
    }
}

/// Reads `weights = [1, 4, 0]`, the scheduler's weight of each priority. Returns the number of weights, and the
/// weights.
fn read_weights(item: &Item<'_>, priorities: Option<u8>) -> Result<(u8, Weights)> {
    let items = item.array()?;
    let wanted = priorities.map_or(1..=8, |count| usize::from(count)..=usize::from(count));
    if !wanted.contains(&items.len()) {
        let help = match priorities {
            Some(count) => format!("accepted: one for each of the {count} priorities, the lowest first"),
            None => "accepted: one for each priority, the lowest first, 8 at most".to_string(),
        };
        return Err(item.error(format!("`weights` has {} entries", items.len()), help));
    }
    let mut weights = [0; 8];
    for (weight, item) in weights.iter_mut().zip(&items) {
        *weight = item.typed()?;
    }
    Ok((items.len() as u8, weights))
}

/// Reads `ecn`: a boolean, or the table `[fabric.switch.ecn]` with thresholds.
fn read_ecn(item: &Item<'_>) -> Result<EcnSetup> {
    if !item.is_table() {
        let off = !item.typed::<bool>()?;
        return Ok(EcnSetup { off, ..EcnSetup::default() });
    }
    let table = item.table()?;
    let ecn = EcnSetup {
        off: false,
        kmin: table.given("kmin")?,
        kmax: table.given("kmax")?,
        pmax: table.given("pmax")?,
        mark_on: table.given_word("mark_on")?,
    };
    table.ordered(("kmin", ecn.kmin), ("kmax", ecn.kmax), "")?;
    Ok(ecn)
}

/// Checks that the switch buffer, if the table gives its size, holds one full packet: the fabric's MTU plus `header`
/// bytes.
pub(super) fn check_buffer(table: &Table<'_>, fabric: &FabricSetup, header: Bytes) -> Result<()> {
    let buffer_item = table.table("switch")?.and_then(|table| table.get("buffer"));
    let packet = Bytes(fabric.mtu.0 + header.0);
    match (fabric.switch.buffer, buffer_item) {
        (Some(buffer), Some(item)) if buffer < packet => {
            let message = format!("`buffer` of {buffer} does not hold one full packet");
            let help = format!("a packet takes {packet} (mtu {} and headers of {header})", fabric.mtu);
            Err(item.error(message, help))
        }
        _ => Ok(()),
    }
}
