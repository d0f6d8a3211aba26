//! Encodes and decodes the messages that perftest exchanges over TCP.

use rnic_endpoint::device::Address;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length in bytes of perftest's first message, its version.
pub const VERSION: usize = 16;
/// Length in bytes of the message that describes a queue pair and its buffer ([`Keys`]), including the zero byte at its
/// end.
pub const KEYS: usize = 108;
/// The last message that each end of a perftest test sends.
pub const DONE: &[u8; 5] = b"done\0";

/// The version that the local end sends: the perftest version whose protocol it implements.
const OUR_VERSION: &str = "6.06";
/// The oldest version of a peer that perftest itself accepts.
const OLDEST: (u32, u32) = (5, 70);

/// Why a received message is not a message of perftest.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// The version message is not a text of two numbers separated by a dot.
    #[error(
        "the peer's version is {0:?}, not one of perftest such as \"6.06\"; it must be started without --dont_xchg_versions"
    )]
    Version(String),
    /// The peer's version of perftest is too old, and uses another protocol.
    #[error("the peer has version {0}; 5.70 or later is needed")]
    Old(String),
    /// The code of the peer's path MTU is unknown.
    #[error("the peer's MTU is {0:?}, not a digit from 1 to 5")]
    Mtu(String),
    /// A size in the peer's greeting (page size or cache line size) is too large.
    #[error("the peer's {what} is {value}; it must be at most {max}")]
    Size {
        /// The name of the size: page size or cache line size.
        what: &'static str,
        /// The value that the peer sent.
        value: u32,
        /// The maximum that the local end accepts.
        max: u32,
    },
    /// The message that describes a queue pair and its buffer has another format; the field is the received text.
    #[error("the peer's keys are {0:?}, not the 107 characters that perftest writes")]
    Keys(String),
    /// The GID is all zeros, because the peer was started without a GID index.
    #[error(
        "the peer gives no GID: start it with -x and the index of its RoCE v2 GID (`ibv_devinfo -v` or `show_gids` lists them)"
    )]
    NoGid,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string()
}

/// Encodes the version message of the local end.
pub fn encode_version() -> [u8; VERSION] {
    let mut message = [0; VERSION];
    message[..OUR_VERSION.len()].copy_from_slice(OUR_VERSION.as_bytes());
    message
}

/// Checks whether the peer's version is 5.70 or later, which has the protocol of this module.
///
/// # Errors
/// When the version is older, or the message is not a version.
pub fn check_version(message: &[u8; VERSION]) -> Result<(), MessageError> {
    let version = text(message);
    let numbers = version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match numbers {
        None => Err(MessageError::Version(version)),
        Some(numbers) if numbers < OLDEST => Err(MessageError::Old(version)),
        Some(_) => Ok(()),
    }
}

/// Encodes a size of perftest's greeting (page size or cache line size), big-endian.
pub fn encode_size(bytes: u32) -> [u8; 4] {
    bytes.to_be_bytes()
}

/// Decodes a size of perftest's greeting (page size or cache line size).
///
/// # Errors
/// When the size is larger than `max`. The limit is necessary because the size determines how much memory the local end
/// allocates.
pub fn decode_size(message: [u8; 4], what: &'static str, max: u32) -> Result<u32, MessageError> {
    let value = u32::from_be_bytes(message);
    if value > max { Err(MessageError::Size { what, value, max }) } else { Ok(value) }
}

/// Encodes the largest path MTU (256, 512, 1024, 2048 or 4096) that is at most `bytes`; 256 if `bytes` is smaller.
pub fn encode_mtu(bytes: u32) -> [u8; 2] {
    let code = [512, 1_024, 2_048, 4_096].iter().filter(|mtu| **mtu <= bytes).count() as u8;
    [b'1' + code, 0]
}

/// Decodes a path MTU message to the MTU in bytes.
///
/// # Errors
/// When the message is not one of the five MTU codes.
pub fn decode_mtu(message: [u8; 2]) -> Result<u32, MessageError> {
    match message {
        [code @ b'1'..=b'5', 0] => Ok(256 << (code - b'1')),
        _ => Err(MessageError::Mtu(text(&message))),
    }
}

/// The keys message of perftest: the attributes of one queue pair and of its buffer, which each end sends to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// The address of the queue pair. Its UDP port is not in the message, because RoCEv2 always uses port 4791.
    pub address: Address,
    /// Maximum number of RDMA Reads and atomics that the peer may have outstanding.
    pub outstanding_reads: u16,
    /// Remote key of the sending end's buffer.
    pub rkey: u32,
    /// Start address of the part of the buffer that the peer accesses through this queue pair.
    pub buffer: u64,
}

/// Encodes the attributes of a queue pair and its buffer as perftest's keys message.
pub fn encode_keys(keys: &Keys) -> [u8; KEYS] {
    let gid = match keys.address.addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let gid = gid.octets().map(|byte| format!("{byte:02x}")).join(":");
    let Keys { address, outstanding_reads, rkey, buffer } = keys;
    let (qpn, psn) = (address.qpn & 0xff_ffff, address.psn & 0xff_ffff);
    let text = format!("0000:{outstanding_reads:04x}:{qpn:06x}:{psn:06x}:{rkey:08x}:{buffer:016x}:{gid}:00000000:");
    let mut message = [0; KEYS];
    message[..text.len()].copy_from_slice(text.as_bytes());
    message
}

/// Number of hexadecimal digits of each field of perftest's keys message: LID, outstanding reads, queue pair, PSN,
/// rkey, address, sixteen bytes of the GID, SRQ.
const DIGITS: [usize; 23] = {
    let mut digits = [2; 23];
    (digits[0], digits[1], digits[2], digits[3], digits[4], digits[5], digits[22]) = (4, 4, 6, 6, 8, 16, 8);
    digits
};

/// Decodes perftest's keys message, which describes a queue pair and its buffer. The message has no UDP port, so the
/// address gets `port`.
///
/// # Errors
/// When the message has another format, or its GID is all zeros.
pub fn decode_keys(message: &[u8; KEYS], port: u16) -> Result<Keys, MessageError> {
    let form = || MessageError::Keys(text(message));
    let fields = message.strip_suffix(b":\0").and_then(|text| std::str::from_utf8(text).ok()).ok_or_else(form)?;
    let fields: Vec<&str> = fields.split(':').collect();
    let digits = |field: &str| field.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !fields.iter().map(|field| field.len()).eq(DIGITS) || !fields.iter().all(|field| digits(field)) {
        return Err(form());
    }
    let number = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| form());
    let mut gid = [0; 16];
    for (byte, digits) in gid.iter_mut().zip(&fields[6..22]) {
        *byte = number(digits)? as u8;
    }
    let gid = Ipv6Addr::from(gid);
    if gid.is_unspecified() {
        return Err(MessageError::NoGid);
    }
    let ip = gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4);
    Ok(Keys {
        address: Address::plain(SocketAddr::new(ip, port), number(fields[2])? as u32, number(fields[3])? as u32),
        outstanding_reads: number(fields[1])? as u16,
        rkey: number(fields[4])? as u32,
        buffer: number(fields[5])?,
    })
}

/// The report that an end sends to its peer after a test of bandwidth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// Message size in bytes.
    pub size: u64,
    /// Number of messages over all queue pairs.
    pub messages: u64,
    /// Peak bandwidth in MiB/s, or in Gbit/s if the client has `--report_gbits`.
    pub peak: f64,
    /// Average bandwidth, in the same unit as the peak.
    pub average: f64,
    /// Message rate in millions per second.
    pub rate: f64,
}

/// Encodes a report as its five messages, in the order in which they are sent.
pub fn encode_report(report: &Report) -> [[u8; 8]; 5] {
    let Report { size, messages, peak, average, rate } = *report;
    [size.to_be_bytes(), messages.to_be_bytes(), peak.to_be_bytes(), average.to_be_bytes(), rate.to_be_bytes()]
}

/// Decodes the five messages of a report.
pub fn decode_report(messages: [[u8; 8]; 5]) -> Report {
    let [size, count, peak, average, rate] = messages;
    Report {
        size: u64::from_be_bytes(size),
        messages: u64::from_be_bytes(count),
        peak: f64::from_be_bytes(peak),
        average: f64::from_be_bytes(average),
        rate: f64::from_be_bytes(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A keys message from a capture of perftest 4.5.
    const CAPTURED: &[u8; KEYS] = b"0000:0001:000011:5109a1:0000026c:00005597922e6000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:02:00000000:\0";

    #[test]
    fn captured_keys_both_ways() {
        let keys = decode_keys(CAPTURED, 4_791).unwrap();
        let address = Address::plain("10.77.0.2:4791".parse().unwrap(), 0x11, 0x51_09a1);
        assert_eq!(keys, Keys { address, outstanding_reads: 1, rkey: 0x26c, buffer: 0x5597_922e_6000 });
        assert_eq!(&encode_keys(&keys), CAPTURED);
    }

    #[test]
    fn a_captured_greeting_both_ways() {
        let version = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(encode_version(), version);
        assert_eq!(check_version(&version), Ok(()));
        assert_eq!(encode_size(4_096), [0, 0, 0x10, 0]);
        assert_eq!(decode_size([0, 0, 0, 0x40], "cache line", 4_096), Ok(64));
        assert_eq!((encode_mtu(1_024), decode_mtu(*b"3\0")), (*b"3\0", Ok(1_024)));
    }

    #[test]
    fn all_mtus() {
        for (code, bytes) in [(b'1', 256), (b'2', 512), (b'3', 1_024), (b'4', 2_048), (b'5', 4_096)] {
            assert_eq!((encode_mtu(bytes), decode_mtu([code, 0])), ([code, 0], Ok(bytes)));
        }
        assert_eq!((encode_mtu(1_023), encode_mtu(8_192), encode_mtu(0)), (*b"2\0", *b"5\0", *b"1\0"));
        for wrong in [*b"0\0", *b"6\0", *b"33", [0, 0]] {
            assert!(decode_mtu(wrong).unwrap_err().to_string().contains("from 1 to 5"));
        }
    }

    #[test]
    fn other_versions_are_refused() {
        let check = |text: &[u8]| {
            let mut message = [0; VERSION];
            message[..text.len()].copy_from_slice(text);
            check_version(&message).map_err(|error| error.to_string())
        };
        assert_eq!(check(b"5.70"), Ok(()));
        assert_eq!(check(b"25.10"), Ok(()));
        assert!(check(b"5.69").unwrap_err().contains("has version 5.69"));
        assert!(check(b"").unwrap_err().contains("--dont_xchg_versions"));
        assert!(check(&CAPTURED[..16]).unwrap_err().contains("0000:0001:000011"));
        let size = decode_size([0x7f, 0, 0, 0], "page size", 1 << 20).unwrap_err().to_string();
        assert_eq!(size, "the peer's page size is 2130706432; it must be at most 1048576");
    }

    #[test]
    fn other_keys_are_refused() {
        let changed = |at: usize, byte: u8| {
            let mut message = *CAPTURED;
            message[at] = byte;
            decode_keys(&message, 1).unwrap_err().to_string()
        };
        for (at, byte) in [(0, b'+'), (4, b'0'), (10, b'x'), (52, b'0'), (106, b'0'), (107, b'0'), (60, 0xff)] {
            assert!(changed(at, byte).starts_with("the peer's keys are"), "{}", changed(at, byte));
        }
        let mut without = *CAPTURED;
        without[80..82].copy_from_slice(b"00");
        without[83..85].copy_from_slice(b"00");
        without[86..97].copy_from_slice(b"00:00:00:00");
        assert_eq!(decode_keys(&without, 1), Err(MessageError::NoGid));
    }

    #[test]
    fn a_report_by_hand() {
        let report = Report { size: 514, messages: 5, peak: 0.0, average: 1.0, rate: -2.0 };
        let messages = encode_report(&report);
        assert_eq!(messages[0], [0, 0, 0, 0, 0, 0, 2, 2]);
        assert_eq!(messages[3], [0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(messages[4], [0xc0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_report(messages), report);
    }

    proptest! {
        #[test]
        fn keys_survive(
            qpn in 0_u32..1 << 24, psn in 0_u32..1 << 24, outstanding_reads: u16, rkey: u32, buffer: u64, ip: u128, v4: bool,
        ) {
            let ip = if v4 { IpAddr::V4((ip as u32).into()) } else { IpAddr::V6((ip | 1 << 127).into()) };
            let keys = Keys { address: Address::plain(SocketAddr::new(ip, 9), qpn, psn), outstanding_reads, rkey, buffer };
            prop_assert_eq!(decode_keys(&encode_keys(&keys), 9), Ok(keys));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), KEYS)) {
            let _ = decode_keys(&bytes.try_into().unwrap(), 1);
        }
    }
}
