//! The NIC configuration that all message transports share.

use super::MessageFacts;
use crate::message::nic::{NicConfig, Order};
use crate::settings::Settings;
use crate::{BitRate, Time};

/// The configuration of the NICs of a message transport.
///
/// `order` and `timeout` apply unless the user set them: `order` is the transport's default order, and `timeout` the
/// retransmission timeout derived from the fabric. `frame` is the length in bytes of a full data frame, frame gap
/// included. Together with `line_rate`, the rate of the host's link, it determines the pace of control packets.
pub fn nic_config(
    settings: &Settings, facts: &MessageFacts, order: Order, timeout: Time, frame: u32, line_rate: BitRate,
) -> NicConfig {
    let timeout = settings.time("rto_high").unwrap_or(timeout);
    let max_timeouts = settings.count("max_timeouts").map_or(10, |count| count as u32);
    // By default a receiver waits for further packets of a message for as long as the sender retransmits.
    let patience = timeout * (u64::from(max_timeouts) + 1);
    NicConfig {
        mtu: facts.mtu,
        rtt_pkts: facts.rtt_pkts,
        timeout,
        max_timeouts,
        rx_timeout: settings.time("rx_timeout").unwrap_or(patience),
        probe: settings.flag("probe").unwrap_or(true),
        order: match settings.choice("send_order").as_deref() {
            Ok("shortest-first") => Order::ShortestFirst,
            Ok(_) => Order::RoundRobin,
            Err(_) => order,
        },
        pace: line_rate.time_for(u64::from(frame)),
        tx_buffers: settings.buffers("tx_buffers"),
        rx_buffers: settings.buffers("rx_buffers"),
        timer_granularity: settings.time("timer_granularity").unwrap_or(Time::ZERO),
    }
}
