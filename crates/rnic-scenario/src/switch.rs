//! Reads the `[fabric.switch]` table of a scenario, and checks it against the run's transport.

use super::error::ScenarioError;
use super::output;
use super::reader::{Item, Result, Table, Variant};
use rnic_fabric::config::{ArbiterSpec, ChooseScheduler, MarkOn, Quantum, SCHEDULERS, SchedulerSpec, Weights};
use rnic_run::{EcnSetup, FabricSetup, InputSetup, QueueingSetup, SchedulerSetup, SharedSetup, SwitchSetup};
use rnic_transport::Bytes;

/// The keys of `[fabric.switch]` that every kind of switch has.
pub(super) const COMMON: [&str; 5] = ["queueing", "buffer", "scheduler", "weights", "ecn"];
/// The keys of `[fabric.switch]` that exist only with one value of `queueing`, for each of its values.
pub(super) const VARIANTS: [Variant; 3] = [
    Variant { name: "input", keys: &["xoff", "headroom", "xon", "arbiter", "arbiter_quantum", "drop_until_free"] },
    Variant { name: "shared", keys: &["xoff", "headroom", "beta", "xon_offset", "egress_alpha", "priorities"] },
    Variant { name: "output", keys: &output::KEYS },
];
/// The keys of `[fabric.switch.ecn]`.
pub(super) const ECN_KEYS: [&str; 4] = ["kmin", "kmax", "pmax", "mark_on"];
/// Default scheduler if the table has `weights`: deficit round robin.
const WEIGHTED: &str = "drr";
/// Default scheduler if the table has no `weights`: strict priority.
const UNWEIGHTED: &str = "strict";

/// The keys of `[fabric.switch]` that have an effect only in runs with PFC, or only in runs without PFC, each with the
/// value of `pfc` that it needs.
pub(super) const BOUND_TO_PFC: [(&str, bool); 6] =
    [("xoff", true), ("xon", true), ("headroom", true), ("beta", true), ("xon_offset", true), ("egress_alpha", false)];

/// Reads the `[fabric.switch]` table.
pub(super) fn read(table: &Table<'_>) -> Result<SwitchSetup> {
    let queueing = table.get("queueing").map_or(Ok("input"), |item| item.choice(&["input", "shared", "output"]))?;
    table.accept_variant(&COMMON, "queueing", queueing, &VARIANTS)?;
    let queueing = match queueing {
        "shared" => QueueingSetup::Shared(read_shared(table)?),
        "output" => QueueingSetup::Output(output::read(table)?),
        _ => QueueingSetup::Input(read_input(table)?),
    };
    let mut scheduler = read_scheduler(table, queueing.priorities())?;
    if let QueueingSetup::Output(output) = &queueing {
        scheduler.spec = output::bound_headers(table, output, scheduler.spec)?;
    }
    let at_least =
        |least: u64, key: &str| table.get(key).map(|item| item.bytes(least..=1_000_000_000_000, "240 KB")).transpose();
    let size = |key: &str| at_least(1, key);
    let ecn = table.get("ecn").map_or(Ok(EcnSetup::default()), |item| read_ecn(&item))?;
    let switch = SwitchSetup {
        queueing,
        buffer: size("buffer")?,
        xoff: size("xoff")?,
        xon: size("xon")?,
        headroom: at_least(0, "headroom")?,
        scheduler,
        ecn,
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
    let arbiter =
        table.get("arbiter").map_or(Ok("round-robin"), |item| item.choice(&["round-robin", "oldest-first"]))?;
    let quantum = table.get("arbiter_quantum");
    let arbiter = match (arbiter, quantum) {
        ("oldest-first", None) => ArbiterSpec::OldestFirst,
        ("oldest-first", Some(item)) => {
            let help = "remove `arbiter_quantum`, or write `arbiter = \"round-robin\"`";
            return Err(item.error("arbiter \"oldest-first\" has no `arbiter_quantum`", help));
        }
        (_, None) => ArbiterSpec::default(),
        (_, Some(item)) if item.text().is_some() => {
            ArbiterSpec::RoundRobin(Quantum::Bytes(item.bytes(1..=1_000_000_000, "9 KB")?))
        }
        (_, Some(item)) => ArbiterSpec::RoundRobin(Quantum::Packets(item.count(1_000_000)?)),
    };
    let free = table.get("drop_until_free").map_or(Ok(Bytes(0)), |item| item.bytes(0..=1_000_000_000_000, "60 KB"))?;
    Ok(InputSetup { arbiter, drop_until_free: free })
}

fn read_shared(table: &Table<'_>) -> Result<SharedSetup> {
    let factor = |key: &str| {
        let positive = |item: Item<'_>| match item.number("8")? {
            factor if factor > 0.0 && factor <= 1e6 => Ok(factor),
            factor => {
                let help = "accepted: more than 0, at most 1000000";
                Err(item.wrong(format!("`{key}` is out of range: {factor}"), help))
            }
        };
        table.get(key).map(positive).transpose()
    };
    if let (Some(beta), Some(_)) = (table.get("beta"), table.get("xoff")) {
        let help = "`beta` makes PFC's threshold dynamic, `xoff` static: remove one of them";
        return Err(beta.wrong("`beta` and `xoff` are both given", help));
    }
    Ok(SharedSetup {
        beta: factor("beta")?,
        xon_offset: table.get("xon_offset").map(|item| item.bytes(0..=1_000_000_000_000, "3 KB")).transpose()?,
        egress_alpha: factor("egress_alpha")?,
        priorities: table.get("priorities").map(|item| item.integer(1..=8)).transpose()?.map(|count| count as u8),
    })
}

/// Reads the keys of an output's scheduler, for example `scheduler = "wrr"` and `weights = [1, 4]`.
fn read_scheduler(table: &Table<'_>, priorities: Option<u8>) -> Result<SchedulerSetup> {
    let weights = table.get("weights");
    let default = if weights.is_some() { WEIGHTED } else { UNWEIGHTED };
    let names = SCHEDULERS.map(|entry| entry.name);
    let name = table.get("scheduler").map_or(Ok(default), |item| item.choice(&names))?;
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
    let items = item.array("[1, 0]")?;
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
        *weight = item.integer(0..=1_000)? as u32;
    }
    Ok((items.len() as u8, weights))
}

/// Reads `ecn`: a boolean, or the table `[fabric.switch.ecn]` with thresholds.
fn read_ecn(item: &Item<'_>) -> Result<EcnSetup> {
    if !item.is_table() {
        let off = !item.boolean()?;
        return Ok(EcnSetup { off, ..EcnSetup::default() });
    }
    let table = item.table("[fabric.switch.ecn]")?;
    table.accept(&ECN_KEYS)?;
    let size = |key: &str| table.get(key).map(|item| item.bytes(0..=1_000_000_000_000, "5 KB")).transpose();
    let pmax = |item: Item<'_>| match item.number("0.01")? {
        pmax if (0.0..=1.0).contains(&pmax) => Ok(pmax),
        pmax => {
            Err(item.wrong(format!("`pmax` is out of range: {pmax}"), "accepted: a probability, 0 to 1".to_string()))
        }
    };
    let mark_on = |item: Item<'_>| {
        let name = item.choice(&["dequeue", "enqueue"])?;
        Ok::<_, ScenarioError>(if name == "dequeue" { MarkOn::Dequeue } else { MarkOn::Enqueue })
    };
    let ecn = EcnSetup {
        off: false,
        kmin: size("kmin")?,
        kmax: size("kmax")?,
        pmax: table.get("pmax").map(pmax).transpose()?,
        mark_on: table.get("mark_on").map(mark_on).transpose()?,
    };
    table.ordered(("kmin", ecn.kmin), ("kmax", ecn.kmax), "")?;
    Ok(ecn)
}

/// Checks that the switch buffer, if the table gives its size, holds one full packet: the fabric's MTU plus `header`
/// bytes.
pub(super) fn check_buffer(table: &Table<'_>, fabric: &FabricSetup, header: Bytes) -> Result<()> {
    let buffer_item = table.get("switch").and_then(|item| item.table("[fabric.switch]").ok()?.get("buffer"));
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
