//! Random hosts, messages, buffers and faults.

use super::{Planned, Weather};
use proptest::prelude::*;
use rnic_transport::Time;
use rnic_transport::message::{BufferClass, NicConfig, Order};

pub(crate) const RTT_PKTS: u32 = 9;
pub(crate) const MTU: u32 = 1_024;

/// A random test case: the number of hosts, the messages to send, and the faults.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) cfg: NicConfig,
    pub(crate) hosts: u32,
    pub(crate) plan: Vec<Planned>,
    pub(crate) weather: Weather,
    pub(crate) seed: u64,
}

/// Lengths of messages: one packet, a few packets, more than an unscheduled window, and rarely a long message.
fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..3_000, 4 => 0u32..40_000, 2 => 0u32..60 * MTU, 1 => 0u32..400 * MTU]
}

fn weathers() -> impl Strategy<Value = Weather> {
    let rates = (0u32..=300, 0u32..=300, 0u32..=500, 0u32..=300, 0u32..=300);
    (rates, 0u64..100, 0u64..250).prop_map(|((loss, trim, back, late, twice), late_us, heals_us)| Weather {
        loss,
        trim,
        back,
        late,
        twice,
        late_by: Time::from_us(late_us),
        heals_at: Time::from_us(heals_us),
    })
}

fn classes() -> impl Strategy<Value = Vec<BufferClass>> {
    let limited = (1u32..6, 1u32..4, 1u32..3).prop_map(|(small, middle, large)| {
        vec![
            BufferClass { bytes: 2 * MTU, count: small },
            BufferClass { bytes: 38 * MTU, count: middle },
            BufferClass { bytes: 400 * MTU, count: large },
        ]
    });
    prop_oneof![Just(Vec::new()), limited]
}

fn nics() -> impl Strategy<Value = NicConfig> {
    let scan = prop::sample::select(vec![0u64, 300, 5_000]);
    (classes(), classes(), any::<bool>(), scan, 3u32..8).prop_map(|(tx, rx, shortest, scan_ns, max_timeouts)| {
        NicConfig {
            tx_buffers: tx,
            rx_buffers: rx,
            order: if shortest { Order::ShortestFirst } else { Order::RoundRobin },
            timer_granularity: Time::from_ns(scan_ns),
            max_timeouts,
            rx_timeout: Time::from_us(7 * (u64::from(max_timeouts) + 2)),
            ..NicConfig::default()
        }
    })
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let message = (0u64..400_000, 0u32..12, 0u32..12, sizes());
    (2u32..5, any::<bool>(), prop::collection::vec(message, 1..40), nics(), weathers(), any::<u64>()).prop_map(
        |(hosts, incast, messages, cfg, weather, seed)| {
            let plan = messages.into_iter().map(|(ns, src, step, bytes)| {
                let at = Time::from_ns(ns);
                if incast {
                    return Planned { at, src: 1 + src % (hosts - 1), dst: 0, bytes };
                }
                let src = src % hosts;
                Planned { at, src, dst: (src + 1 + step % (hosts - 1)) % hosts, bytes }
            });
            let mut plan: Vec<_> = plan.collect();
            plan.sort_by_key(|message| message.at);
            Case { cfg, hosts, plan, weather, seed }
        },
    )
}
