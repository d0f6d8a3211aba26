//! The address of a queue pair in the text format of `ibv_rc_pingpong`: LID, QPN, first PSN and GID.

use rnic_endpoint::device::Address;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length in bytes of the message with a queue pair's address, including the zero byte at its end.
pub const MESSAGE: usize = "0000:000000:000000:".len() + 32 + 1;

/// Why a received message is not a usable address of a queue pair.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// The message does not have the format of an address; the field is the received text.
    #[error("the peer's address is {0:?}, not LLLL:QQQQQQ:PPPPPP and 32 digits of a GID, all hexadecimal")]
    Form(String),
    /// The GID is all zeros, because the peer was started without a GID index.
    #[error(
        "the peer gives no GID: start it with -g and the index of its RoCE v2 GID (`ibv_devinfo -v` or `show_gids` lists them)"
    )]
    NoGid,
}

/// Encodes a queue pair's address as a message of `ibv_rc_pingpong`. The message has no UDP port, because RoCEv2 always
/// uses port 4791.
pub fn encode(address: &Address) -> [u8; MESSAGE] {
    let gid = match address.addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut text = format!("0000:{:06x}:{:06x}:", address.qpn & 0xff_ffff, address.psn & 0xff_ffff);
    for byte in gid.octets() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    let mut message = [0; MESSAGE];
    message[..text.len()].copy_from_slice(text.as_bytes());
    message
}

/// Decodes a message of `ibv_rc_pingpong` to a queue pair's address. The message has no UDP port, so the address gets
/// `port`.
///
/// # Errors
/// When the message does not have the format of an address, or its GID is all zeros.
pub fn decode(message: &[u8; MESSAGE], port: u16) -> Result<Address, AddressError> {
    let form = || AddressError::Form(String::from_utf8_lossy(message).trim_end_matches('\0').to_string());
    let text = message.split_last().filter(|(last, _)| **last == 0).map(|(_, text)| text).ok_or_else(form)?;
    let text = std::str::from_utf8(text).map_err(|_| form())?;
    let fields: Vec<&str> = text.split(':').collect();
    let lengths: Vec<usize> = fields.iter().map(|field| field.len()).collect();
    if lengths != [4, 6, 6, 32] || !fields.iter().all(|field| field.bytes().all(|digit| digit.is_ascii_hexdigit())) {
        return Err(form());
    }
    let number = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| form());
    let gid = Ipv6Addr::from(u128::from_str_radix(fields[3], 16).map_err(|_| form())?);
    if gid.is_unspecified() {
        return Err(AddressError::NoGid);
    }
    let ip = gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4);
    Ok(Address::plain(SocketAddr::new(ip, port), number(fields[1])?, number(fields[2])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address message from a capture of rdma-core 44.0.
    const CAPTURED: &[u8; MESSAGE] = b"0000:000019:68553e:00000000000000000000ffff0a4d0002\0";

    #[test]
    fn a_captured_message_both_ways() {
        let address = decode(CAPTURED, 4_791).unwrap();
        assert_eq!(address, Address::plain("10.77.0.2:4791".parse().unwrap(), 0x19, 0x68_553e));
        assert_eq!(&encode(&address), CAPTURED);
    }

    #[test]
    fn addresses_of_ipv6_keep_all_their_bytes() {
        let address = Address::plain("[fe80::5054:ff:fe12:3456]:4791".parse().unwrap(), 0xab_cdef, 0);
        let message = encode(&address);
        assert_eq!(&message[..], b"0000:abcdef:000000:fe80000000000000505400fffe123456\0");
        assert_eq!(decode(&message, 4_791).unwrap(), address);
    }

    #[test]
    fn other_bytes_are_refused() {
        let changed = |at: usize, byte: u8| {
            let mut message = *CAPTURED;
            message[at] = byte;
            decode(&message, 1).unwrap_err().to_string()
        };
        for (at, byte) in [(4, b'0'), (5, b'g'), (51, b'0'), (20, b'+'), (30, 0xff)] {
            assert!(changed(at, byte).starts_with("the peer's address is"), "{}", changed(at, byte));
        }
        let mut without = *CAPTURED;
        without[19..51].fill(b'0');
        assert_eq!(decode(&without, 1), Err(AddressError::NoGid));
    }
}
