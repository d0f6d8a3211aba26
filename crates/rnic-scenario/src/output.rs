//! Reads the keys of `[fabric.switch]` that only `queueing = "output"` has, and checks them against the transport.

use super::reader::{Item, Result, Table};
use rnic_fabric::config::{SchedulerSpec, TrimSpec, TrimmedPriority};
use rnic_spec::{FabricSetup, OutputSetup, QueueingSetup, TransportSpec};
use rnic_transport::Bytes;

/// Default of `trim.in_a_row`: the maximum number of trimmed headers that an output sends in a row while other packets
/// wait, as in NDP's switches.
const HEADERS_IN_A_ROW: u32 = 10;

/// Reads the keys that only an output-queued switch (`queueing = "output"`) has.
pub(super) fn read(table: &Table<'_>) -> Result<OutputSetup> {
    if let (Some(buffers), Some(_)) = (table.get("buffers"), table.get("buffer")) {
        let help = "`buffer` is for all priorities, `buffers` has one for each: remove one of them";
        return Err(buffers.wrong("`buffer` and `buffers` are both given", help));
    }
    let priorities = table.given("priorities")?;
    let buffers = table.get("buffers").map(|item| read_buffers(&item, priorities)).transpose()?;
    Ok(OutputSetup {
        priorities: priorities.or(buffers.map(|(count, _)| count)),
        buffers: buffers.map(|(_, buffers)| buffers),
        trim: table.get("trim").map(|item| read_trim(&item)).transpose()?.flatten(),
        count_in_service: table.value("count_in_service")?,
    })
}

/// Reads `buffers = ["100 KB", "20 KB"]`, the buffer size of each priority. Returns the number of sizes, and the sizes.
fn read_buffers(item: &Item<'_>, priorities: Option<u8>) -> Result<(u8, [Bytes; 8])> {
    let items = item.array()?;
    let wanted = priorities.map_or(1..=8, |count| usize::from(count)..=usize::from(count));
    if !wanted.contains(&items.len()) {
        let help = match priorities {
            Some(count) => format!("accepted: one for each of the {count} priorities, the lowest first"),
            None => "accepted: one for each priority, the lowest first, 8 at most".to_string(),
        };
        return Err(item.error(format!("`buffers` has {} entries", items.len()), help));
    }
    let mut buffers = [Bytes(0); 8];
    for (buffer, item) in buffers.iter_mut().zip(&items) {
        *buffer = item.typed()?;
    }
    Ok((items.len() as u8, buffers))
}

/// Reads `trim`: a boolean, or the table `[fabric.switch.trim]`. `None` if the switch does not trim packets.
fn read_trim(item: &Item<'_>) -> Result<Option<TrimSpec>> {
    let Some(table) = item.table_if_on()? else { return Ok(None) };
    Ok(Some(TrimSpec {
        to: table.value::<Bytes>("to")?.0 as u16,
        headers: table.word("headers")?,
        return_to_sender: table.value("return_to_sender")?,
    }))
}

/// Adds the key `trim.in_a_row` to the strict-priority scheduler: the maximum number of packets that an output sends in
/// a row from the highest priority, which trimmed headers use.
pub(super) fn bound_headers(
    table: &Table<'_>, output: &OutputSetup, scheduler: SchedulerSpec,
) -> Result<SchedulerSpec> {
    let (Some(trim), Some(item)) = (output.trim, table.get("trim")) else { return Ok(scheduler) };
    let given = if item.is_table() { item.table()?.get("in_a_row") } else { None };
    let max_in_a_row = match &given {
        Some(item) => Some(item.typed()?).filter(|max| *max > 0),
        // With `headers = "above"` or `"below"`, the highest priority is not reserved for trimmed headers, so by
        // default the number of its packets in a row is not bounded.
        None => (trim.headers == TrimmedPriority::Highest).then_some(HEADERS_IN_A_ROW),
    };
    match (scheduler, given) {
        (SchedulerSpec::Strict { .. }, _) => Ok(SchedulerSpec::Strict { max_in_a_row }),
        (_, Some(item)) if max_in_a_row.is_some() => {
            let message =
                format!("`in_a_row` bounds scheduler \"strict\", and the switch has \"{}\"", scheduler.name());
            Err(item.error(message, "accepted here: 0, or leave it out"))
        }
        _ => Ok(scheduler),
    }
}

/// Checks that an output-queued switch suits the run's transport: no PFC, enough priorities, and buffers that hold a
/// full packet with a header of `header` bytes.
pub(super) fn check(table: &Table<'_>, fabric: &FabricSetup, transport: &TransportSpec, header: Bytes) -> Result<()> {
    let QueueingSetup::Output(output) = fabric.switch.queueing else { return Ok(()) };
    let Some(switch) = table.table("switch")? else { return Ok(()) };
    if transport.pfc {
        let message = "`queueing` = \"output\" has no PFC, but the run has `pfc` = true";
        return Err(switch.error_at("queueing", message, "accepted with `pfc` = true: \"input\", \"shared\""));
    }
    let needed = output.needed_priorities(transport);
    if let Some(count) = output.priorities.filter(|count| *count < needed) {
        let key = if switch.get("priorities").is_some() { "priorities" } else { "buffers" };
        let why = match (output.trim.is_some(), transport.control_priority()) {
            (true, _) => "`trim` puts headers in a priority of their own",
            (false, _) => "`control_priority` puts control packets in a priority of their own",
        };
        let message = format!("too few priorities: {count}");
        return Err(switch.error_at(key, message, &format!("{why}: accepted: {needed} to 8")));
    }
    let (Some(item), Some(buffers)) = (switch.get("buffers"), output.buffers) else { return Ok(()) };
    let packet = Bytes(fabric.mtu.0 + header.0);
    let items = item.array()?;
    // The highest priority may be reserved for trimmed headers and control packets. Then its buffer need not hold a
    // full packet.
    let full = items.len() - usize::from(output.headers_apart());
    match (0..full).find(|priority| buffers[*priority] < packet) {
        Some(priority) => {
            let message = format!("a buffer of {} does not hold one full packet", buffers[priority]);
            let help = format!("a packet takes {packet} (mtu {} and headers of {header})", fabric.mtu);
            Err(items[priority].error(message, help))
        }
        None => Ok(()),
    }
}
