//! Who has which address on the link.

use crate::frame::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One host on a link. All its addresses follow from its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host(u8);

impl Host {
    /// Our side, the peer of a single guest.
    pub const OURS: Host = Host(1);

    /// The guest of this number, from 1.
    ///
    /// # Panics
    /// If the number is 0 or above 253.
    pub fn guest(number: u8) -> Host {
        assert!((1..=253).contains(&number), "guests are numbered from 1 to 253");
        Host(number + 1)
    }

    /// The Ethernet address, 52:54:00:77:00:NN.
    pub fn mac(self) -> Mac {
        [0x52, 0x54, 0, 0x77, 0, self.0]
    }

    /// The Ethernet address of the guest's second port, which carries TCP to the host only.
    pub(crate) fn out_of_band_mac(self) -> Mac {
        [0x52, 0x54, 0, 0x77, 1, self.0]
    }

    /// The IPv4 address, 10.77.0.N in a network of 24 bits.
    pub fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.0)
    }

    /// The IPv6 address, fd77::N in a network of 64 bits.
    pub fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, self.0.into())
    }

    /// The link-local IPv6 address, made of the Ethernet address as RFC 4291, appendix A, has it.
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.mac().map(u16::from);
        Ipv6Addr::new(0xfe80, 0, 0, 0, (a ^ 2) << 8 | b, c << 8 | 0xff, 0xfe00 | d, e << 8 | f)
    }

    /// Whether the host answers to this address.
    pub fn has(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address == self.ipv4(),
            IpAddr::V6(address) => address == self.ipv6() || address == self.link_local(),
        }
    }
}

/// The GID that rxe gives an address, and the index under which a guest has it.
///
/// rxe fills its table in the order in which the addresses appear: link-local first, then IPv4, then IPv6.
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
    /// The index in the table of `rxe0`, as `-g` and `-x` of the RDMA programs take it.
    pub fn index(self) -> u8 {
        self as u8
    }

    /// A host's address behind this GID.
    pub fn address(self, host: Host) -> IpAddr {
        match self {
            Gid::LinkLocal => host.link_local().into(),
            Gid::Ipv4 => host.ipv4().into(),
            Gid::Ipv6 => host.ipv6().into(),
        }
    }

    /// A host's GID as its 16 bytes.
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
        // As the kernel has it for this Ethernet address.
        assert_eq!(host.link_local().to_string(), "fe80::5054:ff:fe77:2");
    }

    #[test]
    fn a_gid_of_ipv4_is_the_mapped_address() {
        let gid = Gid::Ipv4.bytes(Host::guest(1));
        assert_eq!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2]);
    }
}
