//! Reads the shape of a server from files of others: NCCL's topology file (XML), and the first dimension of the network
//! file of ASTRA-sim (YAML).

use super::astra;
use super::list::{AtLine, number};
use super::xml::{self, Element};
use rnic_transport::{BitRate, Time};

/// Maximum number of accelerators, and of NICs, of a server in a file.
const MAX_DEVICES: usize = 1_024;

/// The shape of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerShape {
    /// Number of accelerators.
    pub accelerators: u32,
    /// For each accelerator, the index of its NIC among the NICs of the server: a permutation.
    pub nics: Vec<u32>,
    /// Rate of an accelerator's port in the server's domain; `None` if the file does not state it.
    pub rate: Option<BitRate>,
    /// Latency of a message in the domain; `None` if the file does not state it.
    pub latency: Option<Time>,
    /// Rate of the NICs; `None` if the file does not state it.
    pub speed: Option<BitRate>,
}

/// Reads the shape of a server from the text of a file.
///
/// # Errors
/// The line (0 for the whole file), and one sentence: what is wrong and what would be accepted.
pub(crate) fn read(content: &str) -> Result<ServerShape, AtLine> {
    match content.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('<') {
        true => nccl(&xml::parse(content)?),
        false => astra::server(content),
    }
}

/// An accelerator or NIC of NCCL's file.
struct Device<'x> {
    element: &'x Element,
    /// The child of a `pci` element that describes the device; `None` for a `pci` element alone.
    detail: Option<&'x Element>,
    /// Indices of the elements from the root to the device.
    path: Vec<usize>,
}

impl Device<'_> {
    /// A number that an attribute of the device gives.
    fn number(&self, name: &str) -> Result<Option<u64>, AtLine> {
        let Some(detail) = self.detail else { return Ok(None) };
        let parse = |text| number(name, text, u32::MAX.into()).map_err(|error| (detail.line, error));
        detail.attribute(name).map(parse).transpose()
    }

    fn name(&self) -> String {
        let named = self.detail.and_then(|detail| detail.attribute("name"));
        let name = named.or_else(|| self.element.attribute("busid"));
        name.map_or_else(|| format!("of line {}", self.element.line), |name| name.escape_debug().to_string())
    }
}

/// Devices of a file.
#[derive(Default)]
struct Devices<'x> {
    gpus: Vec<Device<'x>>,
    /// `net` elements.
    nets: Vec<Device<'x>>,
    /// `pci` elements of network devices without a `net` element.
    bare: Vec<Device<'x>>,
}

impl<'x> Devices<'x> {
    fn visit(&mut self, element: &'x Element, path: &mut Vec<usize>) {
        let class = element.attribute("class").unwrap_or("");
        let device = |detail, path: &[usize]| Device { element, detail, path: path.to_vec() };
        match element.name.as_str() {
            "pci" if class.starts_with("0x03") => {
                let detail = element.children.iter().find(|child| child.name == "gpu");
                self.gpus.push(device(detail, path));
                return;
            }
            "gpu" => self.gpus.push(device(Some(element), path)),
            "net" => self.nets.push(device(Some(element), path)),
            "pci" if class.starts_with("0x02") && element.children.is_empty() => self.bare.push(device(None, path)),
            _ => {}
        }
        for (index, child) in element.children.iter().enumerate() {
            path.push(index);
            self.visit(child, path);
            path.pop();
        }
    }
}

/// Sorts devices by their attribute `dev`, if all have it.
fn sort(devices: &mut Vec<Device<'_>>) -> Result<(), AtLine> {
    let numbers: Vec<Option<u64>> = devices.iter().map(|device| device.number("dev")).collect::<Result<_, _>>()?;
    if numbers.iter().any(Option::is_none) {
        return Ok(());
    }
    let mut numbered: Vec<_> = numbers.into_iter().zip(devices.drain(..)).collect();
    numbered.sort_by_key(|(number, _)| *number);
    let twice = numbered.windows(2).find(|pair| pair[0].0 == pair[1].0);
    let twice = twice.map(|pair| (pair[1].1.element.line, pair[1].0.unwrap_or(0)));
    devices.extend(numbered.into_iter().map(|(_, device)| device));
    match twice {
        Some((line, dev)) => Err((line, format!("two devices of a kind have dev {dev}; accepted: different numbers"))),
        None => Ok(()),
    }
}

/// The shape of the server that NCCL's topology file describes.
fn nccl(root: &Element) -> Result<ServerShape, AtLine> {
    if root.name != "system" {
        return Err((
            root.line,
            format!("`<{}>` is not a topology of NCCL; accepted: `<system>`", root.name.escape_debug()),
        ));
    }
    let mut devices = Devices::default();
    devices.visit(root, &mut Vec::new());
    let Devices { mut gpus, mut nets, bare } = devices;
    if nets.is_empty() {
        nets = bare;
    }
    if gpus.len() < 2 || gpus.len() > MAX_DEVICES {
        return Err((0, format!("the file has {} accelerators; accepted: 2 to {MAX_DEVICES}", gpus.len())));
    }
    if nets.len() != gpus.len() {
        return Err((
            0,
            format!("the file has {} NICs for {} accelerators; accepted: a NIC for each", nets.len(), gpus.len()),
        ));
    }
    sort(&mut gpus)?;
    sort(&mut nets)?;
    Ok(ServerShape {
        accelerators: gpus.len() as u32,
        nics: nearest(&gpus, &nets),
        rate: domain(&gpus)?,
        latency: None,
        speed: speed(&nets)?,
    })
}

/// For each accelerator in turn, the free NIC that shares most of the elements above it.
fn nearest(gpus: &[Device<'_>], nets: &[Device<'_>]) -> Vec<u32> {
    let mut free: Vec<usize> = (0..nets.len()).collect();
    let shared = |one: &[usize], other: &[usize]| one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let mut taken = Vec::with_capacity(gpus.len());
    for gpu in gpus {
        // The first of the nearest NICs: `max_by_key` returns the last one of equal keys.
        let near = free.iter().enumerate().rev().max_by_key(|(_, nic)| shared(&gpu.path, &nets[**nic].path));
        let at = near.map_or(0, |(at, _)| at);
        taken.push(free.remove(at) as u32);
    }
    taken
}

/// Rate of one NVLink of a GPU with this compute capability, as NCCL assumes it (`src/graph/topo.h` of NCCL 2.29).
fn nvlink(capability: u64) -> BitRate {
    let tenths_of_gigabytes = match capability {
        100.. => 401,
        90..100 => 206,
        86 => 120,
        70..90 => 200,
        60..70 => 180,
        _ => 200,
    };
    BitRate::from_bps(tenths_of_gigabytes * 800_000_000)
}

/// Rate of the NVLinks of an accelerator, the same for all; `None` without NVLinks.
fn domain(gpus: &[Device<'_>]) -> Result<Option<BitRate>, AtLine> {
    let mut rates = Vec::with_capacity(gpus.len());
    for gpu in gpus {
        let links = gpu.detail.iter().flat_map(|detail| &detail.children).filter(|child| child.name == "nvlink");
        let mut count = 0u64;
        for link in links {
            let missing = || (link.line, "an `nvlink` has no `count`; accepted: the number of links".to_string());
            let own = link.attribute("count").ok_or_else(missing)?;
            count += number("count", own, 1_000).map_err(|error| (link.line, error))?;
            let target = link.attribute("target").unwrap_or("");
            let is_direct = gpus.iter().any(|other| other.element.attribute("busid") == Some(target));
            if is_direct && gpus.len() > 2 {
                let error =
                    format!("accelerator {} has a direct link to another one, {}", gpu.name(), target.escape_debug());
                return Err((link.line, format!("{error}; accepted: NVLinks to NVSwitches")));
            }
        }
        let capability = gpu.number("sm")?;
        match (count, capability) {
            (0, _) => rates.push(None),
            (_, None) => {
                let error =
                    format!("accelerator {} has NVLinks, but no `sm`, from which their rate follows", gpu.name());
                return Err((gpu.element.line, format!("{error}; write for example `sm=\"90\"`")));
            }
            (count, Some(capability)) => {
                let bps = nvlink(capability).as_bps().saturating_mul(count);
                rates.push(Some(BitRate::from_bps(bps)));
            }
        }
    }
    match rates.iter().position(|rate| *rate != rates[0]) {
        None => Ok(rates[0]),
        Some(other) => {
            let shown = |rate: Option<BitRate>| rate.map_or("no NVLinks".to_string(), |rate| rate.to_string());
            let (first, second) = (shown(rates[0]), shown(rates[other]));
            let error = format!("accelerators {} and {} have {first} and {second}", gpus[0].name(), gpus[other].name());
            Err((gpus[other].element.line, format!("{error}; accepted: the same for all")))
        }
    }
}

/// The common rate of the NICs; `None` if no NIC states one.
fn speed(nets: &[Device<'_>]) -> Result<Option<BitRate>, AtLine> {
    let mut common: Option<(u64, String)> = None;
    for net in nets {
        let Some(speed) = net.number("speed")? else { continue };
        match &common {
            Some((other, name)) if *other != speed => {
                let error = format!("NICs {name} and {} have {other} and {speed} Mbps", net.name());
                return Err((net.element.line, format!("{error}; accepted: the same for all")));
            }
            _ => common = Some((speed, net.name())),
        }
    }
    Ok(common.map(|(speed, _)| BitRate::from_bps(speed * 1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two PCI switches with two GPUs and two NICs each; each GPU has 18 NVLinks to NVSwitches.
    const SERVER: &str = include_str!("../../tests/server.xml");

    #[test]
    fn a_server_of_nccl() {
        let shape = read(SERVER).unwrap();
        assert_eq!((shape.accelerators, shape.latency), (4, None));
        // 18 NVLinks of 20.6 GB/s.
        assert_eq!(shape.rate, Some(BitRate::from_bps(2_966_400_000_000)));
        assert_eq!(shape.speed, Some(BitRate::from_gbps(400)));
        // GPUs 0 and 1 are on the switch of the NICs with dev 2 and 3.
        assert_eq!(shape.nics, [2, 3, 0, 1]);
    }

    #[test]
    fn devices_without_details_count() {
        // As cloud providers write it: PCI devices only.
        let pci = |class, bus| format!("<pci busid=\"{bus}\" class=\"{class}\" link_width=\"16\"/>");
        let half = |gpu, nic| format!("<pci class=\"0x060400\">{}{}</pci>", pci("0x030200", gpu), pci("0x020700", nic));
        let text =
            format!("<system version=\"1\"><cpu numaid=\"0\">{}{}</cpu></system>", half("1", "2"), half("3", "4"));
        let expected = ServerShape { accelerators: 2, nics: vec![0, 1], rate: None, latency: None, speed: None };
        assert_eq!(read(&text), Ok(expected));
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let error = |from: &str, to: &str| {
            assert!(SERVER.contains(from), "{from}");
            read(&SERVER.replacen(from, to, 1)).unwrap_err().1
        };
        assert_eq!(error("<system", "<system/><x"), "the file has 0 accelerators; accepted: 2 to 1024");
        assert_eq!(read("<graphs/>").unwrap_err().1, "`<graphs>` is not a topology of NCCL; accepted: `<system>`");
        assert_eq!(
            error("<net name=\"mlx5_3\" dev=\"3\" speed=\"400000\"/>", ""),
            "the file has 3 NICs for 4 accelerators; accepted: a NIC for each"
        );
        assert_eq!(
            error("count=\"18\"", "count=\"12\""),
            "accelerators 0000:18:00.0 and 0000:2a:00.0 have 1977.6 Gbps and 2966.4 Gbps; accepted: the same for all"
        );
        assert_eq!(
            error("target=\"0000:07:00.0\"", "target=\"0000:2a:00.0\""),
            "accelerator 0000:18:00.0 has a direct link to another one, 0000:2a:00.0; accepted: NVLinks to NVSwitches"
        );
        assert_eq!(error("count=\"18\"", "count=\"x\""), "count `x` is not a whole number from 0 to 1000");
        assert_eq!(
            error("sm=\"90\" ", ""),
            "accelerator 0000:18:00.0 has NVLinks, but no `sm`, from which their rate follows; write for example `sm=\"90\"`"
        );
        assert_eq!(
            error("speed=\"400000\"", "speed=\"200000\""),
            "NICs mlx5_1 and mlx5_2 have 400000 and 200000 Mbps; accepted: the same for all"
        );
        assert_eq!(error("dev=\"1\"", "dev=\"0\""), "two devices of a kind have dev 0; accepted: different numbers");
    }
}
