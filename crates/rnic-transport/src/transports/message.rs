//! The NIC configuration that all message transports share.

use super::{Description, MessageFacts, Transport};
use crate::message::nic::{NicConfig, Order};
use crate::settings::{Parameter, Settings};
use crate::{BitRate, Time};

/// Rate of paced control packets, such as NDP's PULLs: a parameter of the transports whose programs pace control
/// packets.
pub(super) const PULL_RATE: Parameter =
    Parameter::number("pull_rate", 1.0, 0.01, 10.0, "rate of PULLs, as a multiple of the line rate; 1");

/// When a sender retransmits a trimmed packet: a parameter of the transports whose receivers request such packets and
/// grant packets with different control packets.
pub(super) const RETRANSMIT_ON_GRANT: Parameter = Parameter::flag(
    "retransmit_on_grant",
    false,
    "a trimmed packet waits for its message's next GRANT; no: retransmitted when the NACK arrives",
);

/// Transports whose programs are read from files, such as P4 programs.
pub(super) struct Programs;

impl Transport for Programs {
    fn priorities(&self, _settings: &Settings) -> Option<u8> {
        Some(2)
    }

    fn describe_messages(&self, settings: &Settings, _fabric: &MessageFacts) -> Description {
        let pull_rate = settings.number(PULL_RATE.name).ok().filter(|rate| *rate != 1.0);
        pull_rate.map(|rate| (PULL_RATE.name, rate.to_string())).into_iter().collect()
    }
}

/// The configuration of the NICs of a message transport.
///
/// `order` and `timeout` apply unless the user set them: `order` is the transport's default order, and `timeout` the
/// retransmission timeout derived from the fabric. `frame` is the length in bytes of a full data frame, frame gap
/// included. Together with `line_rate`, the rate of the host's link, and the setting `pull_rate` it determines the pace
/// of control packets.
pub fn nic_config(
    settings: &Settings, fabric: &MessageFacts, order: Order, timeout: Time, frame: u32, line_rate: BitRate,
) -> NicConfig {
    let timeout = settings.time("rto_high").unwrap_or(timeout);
    let pull_rate = settings.number(PULL_RATE.name).unwrap_or(1.0);
    let max_timeouts = settings.count("max_timeouts").map_or(10, |count| count as u32);
    // By default a receiver waits for further packets of a message for as long as the sender retransmits.
    let sender_retries = timeout * (u64::from(max_timeouts) + 1);
    NicConfig {
        mtu: fabric.mtu,
        rtt_pkts: fabric.rtt_pkts,
        timeout,
        max_timeouts,
        rx_timeout: settings.time("rx_timeout").unwrap_or(sender_retries),
        probe: settings.flag("probe").unwrap_or(true),
        order: match settings.choice("send_order").as_deref() {
            Ok("shortest-first") => Order::ShortestFirst,
            Ok(_) => Order::RoundRobin,
            Err(_) => order,
        },
        rtx_needs_credit: settings.flag(RETRANSMIT_ON_GRANT.name).unwrap_or(false),
        pace: line_rate.time_for(u64::from(frame)).scale(1.0 / pull_rate),
        tx_buffers: settings.buffers("tx_buffers"),
        rx_buffers: settings.buffers("rx_buffers"),
        timer_granularity: settings.time("timer_granularity").unwrap_or(Time::ZERO),
    }
}
