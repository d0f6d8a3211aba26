//! Reads a host from the files of its dump: a tree of sysfs and configfs, and the output of tools.
//!
//! | file | contents |
//! |---|---|
//! | `mlnx_qos-IF.txt` | output of `mlnx_qos -i IF` |
//! | `ethtool-a-IF.txt`, `ethtool-S-IF.txt` | output of `ethtool -a IF`, `ethtool -S IF` |
//! | `ethtool-i-IF.txt` | output of `ethtool -i IF` |
//! | `dcb-app-IF.txt` | output of `dcb app show dev IF` |
//! | `devlink-dev-param.txt` | output of `devlink dev param show` |
//! | `cma_roce_tos-DEV.txt`, `cma_roce_mode-DEV.txt` | output of `cma_roce_tos -d DEV`, `cma_roce_mode -d DEV -p 1` |
//! | `sys/...` | files of `/sys` |
//! | `lldp.json` | output of `lldpctl -f json` |

mod dcb;
pub(crate) mod ethtool;
mod mlnx_qos;
mod sysfs;

#[cfg(test)]
pub(crate) use mlnx_qos::parse as parse_mlnx_qos;

use super::switch::Map;
use super::{Device, Unknown};
use crate::dump::Dump;
use crate::input::{InputError, Place, shown};
use rnic_transport::BitRate;
use std::collections::{BTreeMap, BTreeSet};

/// The configuration of a host.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// The interfaces with an RDMA device or with a QoS configuration.
    pub(crate) interfaces: BTreeMap<String, Interface>,
    /// Ports of RDMA devices with another link layer than Ethernet: device, port and link layer.
    pub(crate) other_links: Vec<(String, String, String)>,
}

impl Host {
    /// Whether the dump has no network interface and no RDMA device.
    pub(crate) fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.other_links.is_empty()
    }
}

/// A network interface of a host.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Interface {
    /// Name of the RDMA device on this interface.
    pub(crate) device: Option<String>,
    pub(crate) mtu: Option<u64>,
    pub(crate) speed: Option<BitRate>,
    pub(crate) qos: Option<Qos>,
    pub(crate) pause: Option<ethtool::Pause>,
    /// Priorities in which the notification point (the receiver of marked packets) is enabled; `None` if unknown.
    pub(crate) np: Option<BTreeSet<u8>>,
    /// Priorities in which the reaction point (the sender) is enabled; `None` if unknown.
    pub(crate) rp: Option<BTreeSet<u8>>,
    /// Parameters of DCQCN, such as `roce_np/cnp_dscp`.
    pub(crate) parameters: BTreeMap<String, String>,
    /// TOS of connections that rdma_cm sets up; `None` if unknown.
    pub(crate) roce_tos: Option<u8>,
    /// Traffic class that the device sets in all RoCE packets; `None` if unknown, `Some(None)` if the device sets none.
    pub(crate) traffic_class: Option<Option<u8>>,
    /// The RoCE version that rdma_cm uses for new connections: `v1` or `v2`; `None` if unknown.
    pub(crate) roce_mode: Option<&'static str>,
    /// Whether the NIC has RoCE v2; `None` if unknown.
    pub(crate) roce: Option<bool>,
    /// Priorities of traffic by EtherType, destination port or DSCP; `None` if unknown.
    pub(crate) app: Option<dcb::App>,
    /// PCI address of the NIC.
    pub(crate) bus: Option<String>,
    /// Version of the NIC's firmware.
    pub(crate) firmware: Option<String>,
    /// Counters of `ethtool -S`.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// The QoS configuration of an interface, as `mlnx_qos` shows it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Qos {
    /// The field by which the port assigns priorities: `dscp`, `pcp` (VLAN priority), `both` (the DSCP of IP packets,
    /// the VLAN priority of others), or `none` if the driver has no trust state.
    pub(crate) trust: String,
    /// The priority of each DSCP; `None` unless the port trusts DSCPs.
    pub(crate) dscp_to_priority: Option<Map>,
    /// Sizes of the receive buffers in bytes.
    pub(crate) buffers: Option<Vec<u64>>,
    /// Length of the link in metres, from which the NIC computes its headroom.
    pub(crate) length: Option<u64>,
    /// Priorities with PFC.
    pub(crate) pfc: BTreeSet<u8>,
    /// Receive buffer of each priority.
    pub(crate) priority_to_buffer: Option<Vec<u8>>,
    pub(crate) classes: BTreeMap<u8, Class>,
}

/// A transmission class of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Class {
    pub(crate) rate_limit: String,
    /// `strict`, `ets`, `vendor` or `unknown`.
    pub(crate) algorithm: String,
    /// Share of ETS in percent.
    pub(crate) bandwidth: Option<u8>,
    pub(crate) priorities: BTreeSet<u8>,
}

impl Qos {
    /// Whether the DSCP of IP packets determines their priority.
    pub(crate) fn trusts_dscp(&self) -> bool {
        self.trust == "dscp" || self.trust == "both"
    }

    /// The priority of received and sent packets with this DSCP.
    pub(crate) fn priority_of(&self, dscp: u8) -> u8 {
        match &self.dscp_to_priority {
            Some(map) if self.trusts_dscp() => map.get(&dscp).copied().unwrap_or(0),
            // A packet without a VLAN tag has priority 0.
            _ => 0,
        }
    }
}

/// The errors and unknown items that the reader of a host finds.
pub(crate) struct Remarks<'r> {
    pub(crate) device: &'r str,
    pub(crate) errors: &'r mut Vec<InputError>,
    pub(crate) unknown: &'r mut Vec<Unknown>,
}

impl Remarks<'_> {
    pub(crate) fn unknown(&mut self, path: String, text: impl Into<String>) {
        self.unknown.push(Unknown { device: Device(self.device.to_string()), path: shown(&path), text: text.into() });
    }
}

/// Reads a host from its dump. Malformed files are added to `errors`; the rest of the host is still read.
pub(crate) fn read(dump: &Dump, errors: &mut Vec<InputError>, unknown: &mut Vec<Unknown>) -> Host {
    let mut host = Host { name: dump.name.clone(), ..Host::default() };
    let mut remarks = Remarks { device: &dump.name, errors, unknown };
    sysfs::read(dump, &mut host, &mut remarks);
    for file in dump.list("") {
        if ["sys", "lldp.json", "lldp.txt", DEVLINK].contains(&file.as_str()) {
            continue;
        }
        if let Err(error) = read_text(dump, &file, &mut host, &mut remarks) {
            remarks.errors.push(error);
        }
    }
    if let Err(error) = read_devlink(dump, &mut host, &mut remarks) {
        remarks.errors.push(error);
    }
    sysfs::list_unread(dump, &mut remarks);
    if host.is_empty() && remarks.errors.is_empty() {
        let message = "has neither config_db.json of a switch nor mlnx_qos-IF.txt or sys/class/infiniband of a host";
        remarks.errors.push(InputError::new(dump.name.as_str(), Place::File, message));
    }
    host
}

/// The file with the output of `devlink dev param show`.
const DEVLINK: &str = "devlink-dev-param.txt";

/// Reads which NICs have RoCE off. The PCI address of each interface is in the output of `ethtool -i`.
fn read_devlink(dump: &Dump, host: &mut Host, remarks: &mut Remarks<'_>) -> Result<(), InputError> {
    let Some(text) = dump.read(DEVLINK)? else { return Ok(()) };
    for (bus, is_on) in dcb::parse_roce(&text, &dump.called(DEVLINK))? {
        let mut found = false;
        for interface in host.interfaces.values_mut().filter(|one| one.bus.as_ref() == Some(&bus)) {
            // A NIC with RoCE may have no GID of version 2 yet, and one without RoCE cannot have any.
            interface.roce = if is_on { interface.roce.or(Some(true)) } else { Some(false) };
            found = true;
        }
        if !found {
            let message =
                format!("the dump does not say which interface `{}` is: ethtool-i-IF.txt is missing", shown(&bus));
            remarks.unknown(DEVLINK.to_string(), message);
        }
    }
    Ok(())
}

/// Reads the output of a tool. The name of the file determines the tool.
fn read_text(dump: &Dump, file: &str, host: &mut Host, remarks: &mut Remarks<'_>) -> Result<(), InputError> {
    let stem = file.strip_suffix(".txt").unwrap_or(file);
    let text = || dump.read(file).map(Option::unwrap_or_default);
    let called = dump.called(file);
    if let Some(name) = stem.strip_prefix("mlnx_qos-") {
        let qos = mlnx_qos::parse(&text()?, &called, remarks)?;
        host.interfaces.entry(name.to_string()).or_default().qos = Some(qos);
    } else if let Some(name) = stem.strip_prefix("ethtool-a-") {
        let pause = ethtool::parse_pause(&text()?, &called, remarks)?;
        host.interfaces.entry(name.to_string()).or_default().pause = Some(pause);
    } else if let Some(name) = stem.strip_prefix("ethtool-S-") {
        let statistics = ethtool::parse_statistics(&text()?, &called)?;
        for (number, message) in statistics.skipped {
            remarks.unknown(format!("{called}:{number}"), message);
        }
        host.interfaces.entry(name.to_string()).or_default().counters = statistics.counters;
    } else if let Some(name) = stem.strip_prefix("ethtool-i-") {
        let firmware = ethtool::parse_firmware(&text()?, &called)?;
        let interface = host.interfaces.entry(name.to_string()).or_default();
        interface.bus = ethtool::bus(&text()?);
        interface.firmware = interface.firmware.take().or(firmware);
    } else if let Some(name) = stem.strip_prefix("dcb-app-") {
        let app = dcb::parse_app(&text()?, &called, remarks)?;
        host.interfaces.entry(name.to_string()).or_default().app = Some(app);
    } else if let Some(device) = stem.strip_prefix("cma_roce_tos-") {
        let tos = sysfs::parse_tos(&text()?, &called)?;
        if let Some(interface) = of_device(host, device, file, remarks) {
            interface.roce_tos = Some(tos);
        }
    } else if let Some(device) = stem.strip_prefix("cma_roce_mode-") {
        let mode = sysfs::parse_mode(&text()?, &called)?;
        if let Some(interface) = of_device(host, device, file, remarks) {
            interface.roce_mode = Some(mode);
        }
    } else {
        remarks.unknown(file.to_string(), "no format of this name is known");
    }
    Ok(())
}

/// The interface of an RDMA device; `None`, with a remark about `file`, if the dump does not name it.
fn of_device<'h>(host: &'h mut Host, device: &str, file: &str, remarks: &mut Remarks<'_>) -> Option<&'h mut Interface> {
    let found = host.interfaces.values_mut().find(|interface| interface.device.as_deref() == Some(device));
    if found.is_none() {
        let message = format!("the dump does not say to which interface `{}` belongs", shown(device));
        remarks.unknown(file.to_string(), format!("{message}: sys/class/infiniband is missing"));
    }
    found
}

#[cfg(test)]
mod tests;
