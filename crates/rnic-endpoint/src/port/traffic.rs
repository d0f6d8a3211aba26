//! DSCP and ECN: the byte that IPv4 calls type of service and IPv6 traffic class.

use std::fmt;

/// The ECN codepoint, by which switches and routers signal congestion (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: a congested switch drops the packet.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0), which senders of RoCEv2 use.
    Capable0 = 2,
    /// CE: a switch on the path was congested.
    Congestion = 3,
}

impl Ecn {
    /// From the two low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Congestion,
        }
    }
}

/// DSCP (six bits, RFC 2474) and ECN codepoint (two bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// `dscp` is 0 to 63; higher bits are ignored.
    pub const fn new(dscp: u8, ecn: Ecn) -> TrafficClass {
        TrafficClass(dscp << 2 | ecn as u8)
    }
    /// The byte in the IP header.
    pub const fn from_byte(byte: u8) -> TrafficClass {
        TrafficClass(byte)
    }
    /// The byte in the IP header.
    pub const fn byte(self) -> u8 {
        self.0
    }
    /// The DSCP, 0 to 63.
    pub const fn dscp(self) -> u8 {
        self.0 >> 2
    }
    /// The ECN codepoint.
    pub const fn ecn(self) -> Ecn {
        Ecn::from_bits(self.0)
    }
}

impl fmt::Debug for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DSCP {} {:?}", self.dscp(), self.ecn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_is_six_bits_of_dscp_and_two_of_ecn() {
        // Expedited forwarding is DSCP 46 = 0b101110, so that 0b10111010 is it with ECT(0).
        let class = TrafficClass::new(46, Ecn::Capable0);
        assert_eq!(class.byte(), 0b1011_1010);
        assert_eq!((class.dscp(), class.ecn()), (46, Ecn::Capable0));
        assert_eq!(TrafficClass::new(64 + 1, Ecn::Congestion).byte(), 0b0000_0111);
        for byte in 0..=255 {
            let class = TrafficClass::from_byte(byte);
            assert_eq!(TrafficClass::new(class.dscp(), class.ecn()).byte(), byte);
        }
    }
}
