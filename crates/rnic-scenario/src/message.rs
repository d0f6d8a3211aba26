//! What only message transports have: the keys of a run with `transport = "ndp"`, `"homa"`, `"homa-tr"`, `"hpcc"` or `"p4:FILE"`.

use super::reader::{Item, Result};
use rnic_run::MessageSpec;
use rnic_transport::Bytes;
use rnic_transport::message::buffers::BufferClass;
use rnic_transport::message::nic::Order;

/// Keys of all message transports.
pub(super) const KEYS: [&str; 9] = [
    "rtt_packets",
    "rto_high",
    "max_timeouts",
    "garbage_time",
    "timer_scan",
    "probe",
    "send_order",
    "tx_buffers",
    "rx_buffers",
];

/// Reads the keys that `get` finds.
pub(super) fn read<'a>(get: &dyn Fn(&str) -> Option<Item<'a>>) -> Result<MessageSpec> {
    let level = |key: &str| get(key).map(|item| item.integer(1..=7).map(|level| level as u8)).transpose();
    let time = |key: &str, example: &str| get(key).map(|item| item.positive_time(example)).transpose();
    let count = |key: &str, most: u32| get(key).map(|item| item.count(most)).transpose();
    let order = get("send_order").map(|item| item.choice(&["round-robin", "shortest-first"])).transpose()?;
    Ok(MessageSpec {
        rtt_packets: count("rtt_packets", 1_000_000)?,
        max_timeouts: count("max_timeouts", 1_000_000)?,
        garbage_time: time("garbage_time", "1 ms")?,
        timer_scan: get("timer_scan").map(|item| item.time("100 ns")).transpose()?,
        probe: get("probe").map(|item| item.boolean()).transpose()?,
        send_order: order.map(|order| match order {
            "shortest-first" => Order::ShortestFirst,
            _ => Order::RoundRobin,
        }),
        tx_buffers: buffers(get("tx_buffers"))?,
        rx_buffers: buffers(get("rx_buffers"))?,
        unscheduled_levels: level("unscheduled_levels")?,
        scheduled_levels: level("scheduled_levels")?,
        overcommitment: level("overcommitment")?,
        paced_nacks: get("paced_nacks").map(|item| item.boolean()).transpose()?,
        eta: get("eta").map(|item| share(&item)).transpose()?,
        max_stage: count("max_stage", 1_000)?,
        w_ai: get("w_ai").map(|item| item.bytes(1..=1_000_000_000, "80 B")).transpose()?,
        constants: get("constants").map(|item| constants(&item)).transpose()?.unwrap_or_default(),
    })
}

/// Reads a part of a whole that is neither nothing nor all.
fn share(item: &Item<'_>) -> Result<f64> {
    let number = item.number("0.95")?;
    if (0.01..=0.999).contains(&number) {
        return Ok(number);
    }
    Err(item.error(format!("`eta` is out of range: {number}"), "accepted: 0.01 to 0.999"))
}

/// Reads a list of buffer sizes.
fn buffers(item: Option<Item<'_>>) -> Result<Vec<BufferClass>> {
    const EXAMPLE: &str = "[{ size = \"2 KB\", count = 32 }, { size = \"39 KB\", count = 16 }]";
    let Some(item) = item else {
        return Ok(Vec::new());
    };
    let mut classes = Vec::new();
    for class in item.array(EXAMPLE)? {
        let table = class.table("a class of buffers")?;
        table.accept(&["size", "count"])?;
        let Bytes(bytes) = table.require("size", "size = \"2 KB\"")?.bytes(1..=u64::from(u32::MAX), "2 KB")?;
        let count = table.require("count", "count = 32")?.count(1_000_000)?;
        classes.push(BufferClass { bytes: bytes as u32, count });
    }
    if classes.is_empty() {
        return Err(item.error("no buffers at all", format!("accepted: {EXAMPLE}; without the key there is no limit")));
    }
    Ok(classes)
}

/// Reads other values for a program's constants.
fn constants(item: &Item<'_>) -> Result<Vec<(String, u128)>> {
    let table = item.table("`constants`")?;
    let mut constants = Vec::new();
    for entry in table.entries() {
        let Some(value) = table.get(&entry.key) else { continue };
        let value = match value.boolean() {
            Ok(flag) => u64::from(flag),
            Err(_) => value.integer(0..=i64::MAX as u64)?,
        };
        constants.push((entry.key.clone(), u128::from(value)));
    }
    Ok(constants)
}
