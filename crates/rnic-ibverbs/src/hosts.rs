//! The addresses of this host. Each of them is a device.

use crate::environment::Environment;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use rnic_endpoint::port::shared_address::SharedAddressError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

/// An address of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostAddress {
    /// The IP address.
    pub ip: IpAddr,
    /// Name of the network interface.
    pub interface: String,
    /// Index of the network interface.
    pub index: u32,
    /// MTU of the network interface, in bytes of IP packets.
    pub mtu: u32,
    /// Whether the interface is the loopback interface.
    pub is_loopback: bool,
    /// The name of the device that the user has chosen; `None`: it follows from the device's position.
    pub name: Option<String>,
}

impl HostAddress {
    /// The name of the device with this address, which is at position `index` in the list of devices.
    pub fn device_name(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("rnic{index}"))
    }

    /// The largest path MTU of RoCEv2 that the interface admits: 256, 512, 1024, 2048 or 4096 bytes of payload.
    pub fn path_mtu(&self) -> u32 {
        let ip = if self.ip.is_ipv4() { 20 } else { 40 };
        let room = (self.mtu as usize).saturating_sub(ip + 8 + rnic_verbs::AROUND_PAYLOAD);
        1 << (room as u32).clamp(256, 4_096).ilog2()
    }
}

/// Whether programs of this user already share the device of the address `ip`, so that other programs can join them.
///
/// # Errors
/// Another user prevents programs of this user from sharing the device.
pub fn is_shared(ip: IpAddr) -> Result<bool, SharedAddressError> {
    rnic_endpoint::port::shared_address::check_names(ip)
}

/// The addresses that are devices, in the order of the devices: by default first those by which other hosts reach this
/// one, IPv4 before IPv6, and then 127.0.0.1. `::1` is a device only if the environment names it. Link-local addresses
/// are not devices: a GID does not contain the interface.
///
/// # Errors
/// A sentence, if the system cannot list the addresses, or the environment names something that does not exist.
pub fn addresses(environment: &Environment) -> Result<Vec<HostAddress>, String> {
    let all = all().map_err(|error| format!("cannot list the addresses of this host: {error}"))?;
    let Some(names) = &environment.devices else {
        let mut usual: Vec<HostAddress> = all.into_iter().filter(is_usual).collect();
        usual.sort_by_key(|address| (address.is_loopback, address.ip.is_ipv6()));
        return Ok(usual);
    };
    let mut chosen: Vec<HostAddress> = Vec::new();
    for choice in names {
        let name = &choice.place;
        let ip = name.parse::<IpAddr>().ok();
        let on_loopback = ip.and_then(|ip| on_loopback(ip, &all));
        let named: Vec<&HostAddress> = all
            .iter()
            .chain(&on_loopback)
            .filter(|address| match ip {
                Some(ip) => address.ip == ip,
                None => address.interface == *name && !is_link_local(address),
            })
            .collect();
        if let Some(address) = named.iter().find(|address| is_link_local(address)) {
            return Err(format!(
                "RNIC_DEVICES: `{}` is a link-local address, and a GID does not say to which interface it belongs; name \
                 another address",
                address.ip
            ));
        }
        if named.is_empty() {
            let known = all
                .iter()
                .filter(|address| !is_link_local(address))
                .map(|address| format!("{} ({})", address.ip, address.interface));
            return Err(format!(
                "RNIC_DEVICES: `{name}` is neither an address nor a network interface of this host; it has {}",
                known.collect::<Vec<_>>().join(", ")
            ));
        }
        if let (Some(device), [_, _, ..]) = (&choice.name, &named[..]) {
            let ips: Vec<String> = named.iter().map(|address| address.ip.to_string()).collect();
            return Err(format!(
                "RNIC_DEVICES: `{device}={name}` gives one name to {} addresses; name one of {}",
                ips.len(),
                ips.join(", ")
            ));
        }
        for address in named {
            match chosen.iter_mut().find(|known| known.ip == address.ip) {
                Some(known) if choice.name.is_some() && known.name.is_some() => {
                    return Err(format!("RNIC_DEVICES: {} has two names; an address is one device", address.ip));
                }
                Some(known) => known.name = known.name.take().or(choice.name.clone()),
                None => chosen.push(HostAddress { name: choice.name.clone(), ..address.clone() }),
            }
        }
    }
    for (index, address) in chosen.iter().enumerate() {
        let name = address.device_name(index);
        if chosen[..index].iter().enumerate().any(|(index, other)| other.device_name(index) == name) {
            return Err(format!("RNIC_DEVICES: two devices have the name `{name}`; name both of them"));
        }
    }
    Ok(chosen)
}

/// The address `ip` of the network 127.0.0.0/8, if the host has a loopback interface with IPv4 and does not list the
/// address: Linux receives packets to all addresses of this network. `None` for other addresses.
fn on_loopback(ip: IpAddr, all: &[HostAddress]) -> Option<HostAddress> {
    let is_loopback = |ip: IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
    let host = |ip: IpAddr| matches!(ip, IpAddr::V4(ip) if ip != Ipv4Addr::new(127, 255, 255, 255) && ip.octets()[1..] != [0; 3]);
    if !is_loopback(ip) || !host(ip) || all.iter().any(|address| address.ip == ip) {
        return None;
    }
    let listed = all.iter().find(|address| address.is_loopback && is_loopback(address.ip))?;
    Some(HostAddress { ip, ..listed.clone() })
}

fn is_link_local(address: &HostAddress) -> bool {
    matches!(address.ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn is_usual(address: &HostAddress) -> bool {
    match address.ip {
        IpAddr::V4(ip) => !ip.is_unspecified(),
        IpAddr::V6(ip) => ip != Ipv6Addr::LOCALHOST && !is_link_local(address),
    }
}

/// Returns the MTU of a network interface in the network namespace of this process; `None` if the interface was just
/// removed. The function does not read the MTU from sysfs, because a process that has entered a namespace may still see
/// the sysfs of another namespace.
fn mtu(socket: &impl AsRawFd, interface: &str) -> Option<u32> {
    // SAFETY: all zeros are a valid value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name ends with a byte 0.
    let room = request.ifr_name.len() - 1;
    if interface.len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the kernel reads the name and writes the MTU, within the structure.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    if done != 0 {
        return None;
    }
    // SAFETY: the kernel has written this part of the union.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

fn all() -> nix::Result<Vec<HostAddress>> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut all = Vec::new();
    for entry in getifaddrs()? {
        if !entry.flags.contains(InterfaceFlags::IFF_UP) {
            continue;
        }
        let v4 = entry.address.as_ref().and_then(|address| address.as_sockaddr_in()).map(|v4| IpAddr::V4(v4.ip()));
        let v6 = || entry.address.as_ref().and_then(|address| address.as_sockaddr_in6()).map(|v6| IpAddr::V6(v6.ip()));
        let Some(ip) = v4.or_else(v6) else { continue };
        let mtu = mtu(&socket, &entry.interface_name);
        let address = HostAddress {
            ip,
            index: if_nametoindex(entry.interface_name.as_str()).unwrap_or(0),
            mtu: mtu.unwrap_or(1_500),
            is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
            interface: entry.interface_name,
            name: None,
        };
        if !all.contains(&address) {
            all.push(address);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_fits_the_interface() {
        let of = |ip: &str, mtu| HostAddress {
            ip: ip.parse().unwrap(),
            interface: "eth0".into(),
            index: 2,
            mtu,
            is_loopback: false,
            name: None,
        };
        assert_eq!(of("10.0.0.1", 1_500).path_mtu(), 1_024);
        assert_eq!(of("10.0.0.1", 9_000).path_mtu(), 4_096);
        assert_eq!(of("10.0.0.1", 65_536).path_mtu(), 4_096);
        assert_eq!(of("10.0.0.1", 300).path_mtu(), 256);
        // 4,096 bytes need 52 bytes more (base transport header, longest extended header, ICRC), UDP and IP.
        let around = rnic_verbs::AROUND_PAYLOAD as u32 + 8;
        assert_eq!(of("10.0.0.1", 4_096 + around + 20).path_mtu(), 4_096);
        assert_eq!(of("fd00::1", 4_096 + around + 20).path_mtu(), 2_048);
        assert_eq!(of("fd00::1", 4_096 + around + 40).path_mtu(), 4_096);
    }

    /// After this process has entered a network namespace, its sysfs still shows another namespace.
    #[test]
    fn the_mtu_is_that_of_the_namespace() {
        rnic_netns::with_pair(9_000, |pair| {
            let of = |ip: IpAddr| {
                let devices = Some(vec![ip.to_string().as_str().into()]);
                addresses(&Environment { devices, ..Environment::default() }).unwrap()[0].mtu
            };
            assert_eq!(pair.a.run(|| of(rnic_netns::Pair::A4)), 9_000);
            assert_eq!(pair.b.run(|| of(rnic_netns::Pair::B6)), 9_000);
        });
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the kernel takes a moment to give a link its address")]
    fn a_link_local_address_is_no_device() {
        rnic_netns::with_pair(1_500, |pair| {
            pair.a.run(|| {
                let link_local = || all().unwrap().into_iter().find(is_link_local);
                // The kernel assigns an address to a link after the link is up.
                let turns = (0..1_000).find_map(|_| {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    link_local()
                });
                let address = turns.expect("the link has a link-local address");
                let of = |name: &str| {
                    let devices = Some(vec![name.into()]);
                    addresses(&Environment { devices, ..Environment::default() })
                };
                let error = of(&address.ip.to_string()).unwrap_err();
                assert!(error.contains("is a link-local address") && error.starts_with("RNIC_DEVICES"), "{error}");
                assert!(of(&address.interface).unwrap().iter().all(|device| !is_link_local(device)));
            });
        });
    }

    #[test]
    fn the_environment_chooses_addresses() {
        let of = |names: &[&str]| {
            let devices = Environment::read(&|asked| (asked == "RNIC_DEVICES").then(|| names.join(",").into()));
            let devices = devices.unwrap().devices;
            addresses(&Environment { devices, ..Environment::default() })
        };
        let loopback = of(&["127.0.0.1"]).unwrap();
        assert_eq!((loopback.len(), loopback[0].interface.as_str(), loopback[0].is_loopback), (1, "lo", true));
        assert_eq!(of(&["127.0.0.1", "127.0.0.1"]).unwrap(), loopback, "each once");
        assert!(of(&["lo"]).unwrap().contains(&loopback[0]));
        let error = of(&["192.0.2.77"]).unwrap_err();
        assert!(error.contains("192.0.2.77") && error.contains("127.0.0.1 (lo)"), "{error}");
        // Linux has all addresses of 127.0.0.0/8, although it lists one.
        let other = of(&["127.0.0.2", "127.9.8.7"]).unwrap();
        assert_eq!((other[0].interface.as_str(), other[1].index), ("lo", loopback[0].index));
        assert_eq!(other[1].ip, "127.9.8.7".parse::<IpAddr>().unwrap());
        assert!(of(&["127.0.0.0"]).is_err() && of(&["127.255.255.255"]).is_err());
        let named = of(&["127.0.0.1", "mlx5_0=127.0.0.2"]).unwrap();
        assert_eq!([0, 1].map(|index| named[index].device_name(index)), ["rnic0", "mlx5_0"]);
        assert_eq!(of(&["a=127.0.0.1", "127.0.0.1"]).unwrap()[0].device_name(0), "a");
        for (names, part) in [
            (["a=127.0.0.1", "b=127.0.0.1"], "127.0.0.1 has two names"),
            (["127.0.0.1", "rnic0=127.0.0.2"], "two devices have the name `rnic0`"),
        ] {
            let error = of(&names).unwrap_err();
            assert!(error.contains(part) && error.starts_with("RNIC_DEVICES"), "{error}");
        }
        assert!(addresses(&Environment::default()).unwrap().contains(&loopback[0]));
    }
}
