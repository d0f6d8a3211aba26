//! DSCP and ECN codepoint: together they are the byte that IPv4 calls type of service and IPv6 calls traffic class.

use std::fmt;

/// The ECN codepoint, by which switches and routers signal congestion (RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: a congested switch drops the packet.
    #[default]
    NotCapable = 0,
    /// ECT(1): the sender supports ECN, and a congested switch may set CE.
    Capable1 = 1,
    /// ECT(0): the sender supports ECN. Senders of RoCEv2 use this codepoint.
    Capable0 = 2,
    /// CE (congestion experienced): a congested switch on the path has marked the packet.
    Congestion = 3,
}

impl Ecn {
    /// Returns the codepoint in the two low bits of `bits`.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Congestion,
        }
    }
}

/// Traffic class byte of the IP header: DSCP (six high bits, RFC 2474) and ECN codepoint (two low bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// Combines `dscp`, 0 to 63, with an ECN codepoint. Higher bits of `dscp` are ignored.
    pub const fn new(dscp: u8, ecn: Ecn) -> TrafficClass {
        TrafficClass(dscp << 2 | ecn as u8)
    }
    /// Makes a traffic class of the byte in an IP header.
    pub const fn from_byte(byte: u8) -> TrafficClass {
        TrafficClass(byte)
    }
    /// The traffic class byte for the IP header.
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
        // Expedited forwarding is DSCP 46 = 0b101110; with ECT(0) = 0b10 the byte is 0b10111010.
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
