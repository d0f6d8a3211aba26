//! Settings that only message transports have.

use crate::spec::TransportSpec;
use rnic_transport::message::buffers::BufferClass;
use rnic_transport::message::nic::Order;
use rnic_transport::{Bytes, Time};

/// Settings of a message transport. `None`: not given.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MessageSpec {
    /// Packets that a new message may send at once (`rtt_packets`); default those of the longest path's round trip at line rate.
    pub rtt_packets: Option<u32>,
    /// Timeouts in a row without a word of the receiver after which a message is given up (`max_timeouts`); default 10.
    pub max_timeouts: Option<u32>,
    /// Time without a packet of a message after which its receiver forgets it (`garbage_time`); default as long as a sender tries.
    pub garbage_time: Option<Time>,
    /// Period in which timers are looked at (`timer_scan`); default 0: they are exact.
    pub timer_scan: Option<Time>,
    /// Whether the last packet is sent again at a timeout with nothing else to send (`probe`); default yes.
    pub probe: Option<bool>,
    /// Which message a NIC sends of (`send_order`); default the transport's own.
    pub send_order: Option<Order>,
    /// Buffers of messages being sent (`tx_buffers`); default without limit.
    pub tx_buffers: Vec<BufferClass>,
    /// Buffers of messages being received (`rx_buffers`); default without limit.
    pub rx_buffers: Vec<BufferClass>,
    /// Homa: priorities for packets that nobody has granted (`unscheduled_levels`); default 1.
    pub unscheduled_levels: Option<u8>,
    /// Homa: priorities for granted packets (`scheduled_levels`); default 3.
    pub scheduled_levels: Option<u8>,
    /// Homa: messages that a receiver grants at the same time (`overcommitment`); default as many as there are scheduled levels.
    pub overcommitment: Option<u8>,
    /// NDP: whether NACKs leave at the pace of PULLs (`paced_nacks`); default yes.
    pub paced_nacks: Option<bool>,
    /// HPCC: utilisation to aim for (`eta`); default 0.95.
    pub eta: Option<f64>,
    /// HPCC: steps of additive increase in a row (`max_stage`); default 5.
    pub max_stage: Option<u32>,
    /// HPCC: what each step adds to the window (`w_ai`); default a sixteenth of what `eta` leaves free of the first window.
    pub w_ai: Option<Bytes>,
    /// P4: other values for constants of the program (`constants`).
    pub constants: Vec<(String, u128)>,
}

/// Homa's priorities for packets that nobody has granted, and for granted ones.
pub fn homa_levels(transport: &TransportSpec) -> (u8, u8) {
    let MessageSpec { unscheduled_levels, scheduled_levels, .. } = transport.message;
    (unscheduled_levels.unwrap_or(1), scheduled_levels.unwrap_or(3))
}

/// Priorities that a message transport uses.
pub(crate) fn bands(transport: &TransportSpec) -> u8 {
    if let Some(program) = &transport.program {
        return program.bands;
    }
    match transport.transport.as_str() {
        "homa" | "homa-tr" => {
            let (unscheduled, scheduled) = homa_levels(transport);
            unscheduled + scheduled
        }
        _ => 2,
    }
}
