//! The Ethernet and IP addresses of the hosts on a link, and their GIDs.

use crate::frame::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host on a link: the host of rnic, or a guest. All addresses follow from the host's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host(u8);

impl Host {
    /// The host of rnic, which is the peer of a single guest.
    pub const OURS: Host = Host(1);

    /// Returns the guest with this number, counted from 1.
    ///
    /// # Panics
    /// If the number is 0 or above 253.
    pub fn guest(number: u8) -> Host {
        assert!((1..=253).contains(&number), "guests are numbered from 1 to 253");
        Host(number + 1)
    }

    /// The Ethernet address of host N: 52:54:00:77:00:NN.
    pub fn mac(self) -> Mac {
        [0x52, 0x54, 0, 0x77, 0, self.0]
    }

    /// The Ethernet address of the guest's second port, which carries TCP to the host only.
    pub(crate) fn out_of_band_mac(self) -> Mac {
        [0x52, 0x54, 0, 0x77, 1, self.0]
    }

    /// The IPv4 address of host N: 10.77.0.N in a network with a prefix of 24 bits.
    pub fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.0)
    }

    /// The IPv6 address of host N: fd77::N in a network with a prefix of 64 bits.
    pub fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, self.0.into())
    }

    /// The link-local IPv6 address, which is derived from the Ethernet address (RFC 4291, appendix A).
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.mac().map(u16::from);
        Ipv6Addr::new(0xfe80, 0, 0, 0, (a ^ 2) << 8 | b, c << 8 | 0xff, 0xfe00 | d, e << 8 | f)
    }

    /// Whether this address is an IP address of the host.
    pub fn has(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address == self.ipv4(),
            IpAddr::V6(address) => address == self.ipv6() || address == self.link_local(),
        }
    }
}

/// The kind of a GID of a guest's `rxe0`. Each kind has a fixed index in the guest's GID table.
///
/// rxe fills the table in the order in which the interface gets its addresses: first link-local, then IPv4, then IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gid {
    /// Index 0: the link-local IPv6 address.
    LinkLocal,
    /// Index 1: the IPv4 address as ::ffff:a.b.c.d.
    Ipv4,
    /// Index 2: the IPv6 address.
    Ipv6,
}

impl Gid {
    /// The index of the GID in the table of `rxe0`, which is the value of the options `-g` and `-x` of the RDMA
    /// programs.
    pub fn index(self) -> u8 {
        self as u8
    }

    /// Returns the IP address of `host` that this GID stands for.
    pub fn address(self, host: Host) -> IpAddr {
        match self {
            Gid::LinkLocal => host.link_local().into(),
            Gid::Ipv4 => host.ipv4().into(),
            Gid::Ipv6 => host.ipv6().into(),
        }
    }

    /// Returns the 16 bytes of the GID of `host`.
    pub fn bytes(self, host: Host) -> [u8; 16] {
        match self.address(host) {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_the_first_guest() {
        let host = Host::guest(1);
        assert_eq!(host.mac(), [0x52, 0x54, 0x00, 0x77, 0x00, 0x02]);
        assert_eq!(host.ipv4().to_string(), "10.77.0.2");
        assert_eq!(host.ipv6().to_string(), "fd77::2");
        // The link-local address that the kernel derives from this Ethernet address.
        assert_eq!(host.link_local().to_string(), "fe80::5054:ff:fe77:2");
    }

    #[test]
    fn a_gid_of_ipv4_is_the_mapped_address() {
        let gid = Gid::Ipv4.bytes(Host::guest(1));
        assert_eq!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2]);
    }
}
