//! Reads the files of sysfs and configfs that configure RoCE.

use super::{Host, Interface, Remarks};
use crate::dump::Dump;
use crate::input::{InputError, shown};
use rnic_transport::BitRate;
use std::collections::BTreeSet;

const INFINIBAND: &str = "sys/class/infiniband";
const NET: &str = "sys/class/net";
const RDMA_CM: &str = "sys/kernel/config/rdma_cm";

/// Reads all interfaces with an RDMA device.
pub(super) fn read(dump: &Dump, host: &mut Host, remarks: &mut Remarks<'_>) {
    for device in dump.list(INFINIBAND) {
        for port in dump.list(&format!("{INFINIBAND}/{device}/ports")) {
            if let Err(error) = read_port(dump, host, &device, &port, remarks) {
                remarks.errors.push(error);
            }
        }
    }
    for name in dump.list(NET) {
        let folder = format!("{NET}/{name}");
        let has_dcqcn = !dump.list(&format!("{folder}/ecn")).is_empty();
        let has_text = dump.list("").iter().any(|file| file.trim_end_matches(".txt").ends_with(&format!("-{name}")));
        if host.interfaces.contains_key(&name) || has_dcqcn || has_text {
            let interface = host.interfaces.entry(name.clone()).or_default();
            read_interface(dump, &folder, interface, remarks);
        }
    }
}

/// Reads a file with one value, without white space around it.
fn value(dump: &Dump, path: &str) -> Result<Option<String>, InputError> {
    Ok(dump.read(path)?.map(|text| text.trim().to_string()).filter(|text| !text.is_empty()))
}

/// Reads a file with one number.
fn number(dump: &Dump, path: &str) -> Result<Option<i64>, InputError> {
    let parse = |text: String| {
        text.parse().map_err(|_| InputError::line(&dump.called(path), 1, format!("`{}` is not a number", shown(&text))))
    };
    value(dump, path)?.map(parse).transpose()
}

fn read_port(
    dump: &Dump, host: &mut Host, device: &str, port: &str, remarks: &mut Remarks<'_>,
) -> Result<(), InputError> {
    let folder = format!("{INFINIBAND}/{device}");
    if let Some(layer) = value(dump, &format!("{folder}/ports/{port}/link_layer"))?
        && layer != "Ethernet"
    {
        host.other_links.push((device.to_string(), port.to_string(), shown(&layer)));
        return Ok(());
    }
    // The attributes of a GID name its interface. Without them, the device's folder lists its interfaces; rxe names the
    // interface in `parent`.
    let gid = value(dump, &format!("{folder}/ports/{port}/gid_attrs/ndevs/0"))?;
    let parent = value(dump, &format!("{folder}/parent"))?;
    let Some(name) = gid.or_else(|| dump.list(&format!("{folder}/device/net")).into_iter().next()).or(parent) else {
        remarks.unknown(folder, "no file says to which interface this device belongs");
        return Ok(());
    };
    let interface = host.interfaces.entry(name).or_default();
    interface.device = Some(device.to_string());
    interface.firmware = value(dump, &format!("{folder}/fw_ver"))?.map(|text| shown(&text));
    let path = format!("{RDMA_CM}/{device}/ports/{port}/default_roce_mode");
    if let Some(text) = value(dump, &path)? {
        match parse_mode(&text, &dump.called(&path)) {
            Ok(mode) => interface.roce_mode = Some(mode),
            Err(error) => remarks.errors.push(error),
        }
    }
    interface.roce = has_roce_v2(dump, &format!("{folder}/ports/{port}/gid_attrs/types"))?;
    let path = format!("{folder}/tc/{port}/traffic_class");
    if !dump.list(&format!("{folder}/tc/{port}")).is_empty() {
        interface.traffic_class =
            Some(parse_traffic_class(&dump.read(&path)?.unwrap_or_default(), &dump.called(&path))?);
    }
    let path = format!("{RDMA_CM}/{device}/ports/{port}/default_roce_tos");
    if let Some(text) = dump.read(&path)? {
        interface.roce_tos = Some(parse_tos(&text, &dump.called(&path))?);
    }
    Ok(())
}

/// Whether a port has a GID of RoCE v2; `None` if the dump has no types of GIDs.
fn has_roce_v2(dump: &Dump, folder: &str) -> Result<Option<bool>, InputError> {
    let mut has = None;
    for file in dump.list(folder) {
        // The file of a free GID cannot be read, so that its copy is empty.
        if let Some(text) = value(dump, &format!("{folder}/{file}"))? {
            has = Some(has == Some(true) || text.eq_ignore_ascii_case("roce v2"));
        }
    }
    Ok(has)
}

/// Parses a TOS: a number from 0 to 255.
pub(super) fn parse_tos(text: &str, file: &str) -> Result<u8, InputError> {
    let text = text.trim();
    text.parse().map_err(|_| InputError::line(file, 1, format!("`{}` is not a TOS; accepted: 0 to 255", shown(text))))
}

/// Parses a RoCE mode of rdma_cm: `RoCE v2` or `IB/RoCE v1`. Returns the version, `v1` or `v2`.
pub(super) fn parse_mode(text: &str, file: &str) -> Result<&'static str, InputError> {
    match text.trim().to_ascii_lowercase().as_str() {
        "roce v2" => Ok("v2"),
        "ib/roce v1" | "roce v1" => Ok("v1"),
        other => {
            let message = format!("`{}` is not a RoCE mode; accepted: RoCE v2, IB/RoCE v1", shown(other));
            Err(InputError::line(file, 1, message))
        }
    }
}

/// Files of sysfs and configfs that have no effect on the checks.
const IRRELEVANT: [&str; 24] = [
    "address",
    "board_id",
    "carrier",
    "flags",
    "hca_type",
    "hw_rev",
    "ifindex",
    "lid",
    "lid_mask_count",
    "link_layer",
    "node_desc",
    "node_guid",
    "node_type",
    "operstate",
    "parent",
    "phys_state",
    "rate",
    "sm_lid",
    "sm_sl",
    "state",
    "sys_image_guid",
    "type",
    "uevent",
    "cap_mask",
];
/// Folders of sysfs whose files have no effect on the checks.
const FOLDERS: [&str; 12] = [
    "counters",
    "hw_counters",
    "statistics",
    "gids",
    "gid_attrs",
    "pkeys",
    "queues",
    "power",
    "device",
    "subsystem",
    "ecn",
    "tc",
];
/// Maximum number of folders of sysfs in which files are listed.
const MAX_FOLDERS: usize = 2_000;

/// Reports files below `sys` that no reader knows.
pub(super) fn list_unread(dump: &Dump, remarks: &mut Remarks<'_>) {
    const READ: [&str; 5] = ["mtu", "speed", "fw_ver", "default_roce_tos", "default_roce_mode"];
    let mut folders = vec!["sys".to_string()];
    let mut visited = 0;
    while let Some(folder) = folders.pop() {
        visited += 1;
        if visited > MAX_FOLDERS {
            return remarks.unknown("sys".to_string(), format!("files in more than {MAX_FOLDERS} folders"));
        }
        for name in dump.list(&folder) {
            let path = format!("{folder}/{name}");
            if dump.is_folder(&path) {
                if !FOLDERS.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if !READ.contains(&name.as_str()) && !IRRELEVANT.contains(&name.as_str()) {
                remarks.unknown(path, "this file is not read");
            }
        }
    }
}

/// Parses the file `traffic_class`: the line `Global tclass=106`, and lines with the traffic class of some connections.
/// `None` if no traffic class applies to all connections.
fn parse_traffic_class(text: &str, file: &str) -> Result<Option<u8>, InputError> {
    let mut global = None;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix("tclass="));
        let class = match (value, line.trim()) {
            (Some(value), _) => value,
            (None, plain) => plain,
        };
        let class = class.parse::<u8>().map_err(|_| {
            InputError::line(file, number, format!("`{}` has no traffic class from 0 to 255", shown(line.trim())))
        })?;
        // A line with addresses applies only to some connections.
        if !["src_ip", "dst_ip", "src=", "dst="].iter().any(|filter| line.contains(filter)) {
            global = Some(class);
        }
    }
    Ok(global.filter(|class| *class != 0))
}

/// Reads the settings of an interface. A file that cannot be read is an error; the other files are still read.
fn read_interface(dump: &Dump, folder: &str, interface: &mut Interface, remarks: &mut Remarks<'_>) {
    interface.mtu = usable(number(dump, &format!("{folder}/mtu")), remarks).and_then(|mtu| u64::try_from(mtu).ok());
    // The speed is -1 if the link is down.
    let mbps = usable(number(dump, &format!("{folder}/speed")), remarks).filter(|mbps| (1..=10_000_000).contains(mbps));
    interface.speed = mbps.map(|mbps| BitRate::from_bps(mbps as u64 * 1_000_000));
    interface.np = usable(read_enabled(dump, &format!("{folder}/ecn/roce_np/enable")), remarks);
    interface.rp = usable(read_enabled(dump, &format!("{folder}/ecn/roce_rp/enable")), remarks);
    for point in ["roce_np", "roce_rp"] {
        let path = format!("{folder}/ecn/{point}");
        for file in dump.list(&path).into_iter().filter(|file| file != "enable") {
            match value(dump, &format!("{path}/{file}")) {
                Ok(Some(text)) => {
                    interface.parameters.insert(format!("{point}/{file}"), shown(&text));
                }
                Ok(None) => remarks.unknown(format!("{path}/{file}"), "the file is empty or a folder"),
                Err(error) => remarks.errors.push(error),
            }
        }
    }
}

/// Returns the value if it was read. Otherwise adds the error to the errors of the host.
fn usable<T>(read: Result<Option<T>, InputError>, remarks: &mut Remarks<'_>) -> Option<T> {
    read.unwrap_or_else(|error| {
        remarks.errors.push(error);
        None
    })
}

/// The priorities whose file in the folder has the value 1; `None` if the folder does not exist.
fn read_enabled(dump: &Dump, folder: &str) -> Result<Option<BTreeSet<u8>>, InputError> {
    let files = dump.list(folder);
    if files.is_empty() {
        return Ok(None);
    }
    let mut enabled = BTreeSet::new();
    for file in files {
        let path = format!("{folder}/{file}");
        let priority: u8 = file.parse().ok().filter(|priority| *priority <= 7).ok_or_else(|| {
            InputError::new(dump.called(&path), crate::input::Place::File, "the name is not a priority from 0 to 7")
        })?;
        match number(dump, &path)? {
            Some(1) => {
                enabled.insert(priority);
            }
            Some(0) | None => {}
            Some(_) => return Err(InputError::line(&dump.called(&path), 1, "is neither 0 nor 1")),
        }
    }
    Ok(Some(enabled))
}
