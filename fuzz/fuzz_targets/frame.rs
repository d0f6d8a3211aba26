//! Parses arbitrary frames with every link type: nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rnic_wire::{Content, Frame, LinkType, Packet};

fuzz_target!(|bytes: &[u8]| {
    for link in [LinkType::Ethernet, LinkType::LinuxCooked, LinkType::LinuxCooked2, LinkType::RawIp] {
        let (icrc, body, missing) = match Frame::parse(link, bytes).content {
            Content::RoceV2(datagram) => (datagram.icrc(), datagram.body, datagram.missing),
            Content::RoceV1(packet) => (packet.icrc(), packet.body, packet.missing),
            _ => continue,
        };
        assert_eq!(icrc.is_some(), missing == 0 && body.len() >= 16);
        let _ = Packet::parse(body);
    }
});
