//! TCP in the kernel of a host: the TCP of iWARP without RDMA's headers, above a network stack that costs latency and
//! CPU time.
//!
//! The costs are parameters, whose defaults come from measurements of others. This project does not have the text of
//! these papers; each line says what the figure was compared with:
//!
//! - Latency of one message from application to application: 24 us between two Linux hosts (Belay et al., IX, OSDI
//!   2014). Quoted from memory, not checked. How it is divided is our choice.
//! - CPU time of a message, apart from its bytes: 3.36 us for receiving and sending a packet in Linux (Peter et al.,
//!   Arrakis, OSDI 2014). Quoted from memory, not checked.
//! - CPU time of a segment of 64 KB: about 42 Gbps on one core that receives one long flow, and about 89 Gbps on one
//!   core that sends eight flows (Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021). Compared with
//!   quotations of the paper by others, which have both figures.
//!
//! The segments of 64 KB are those that TCP exchanges with the NIC, which divides them into packets (segmentation
//! offload) and merges packets (receive offload). A packet has its share of the cost of such a segment.

use super::iwarp::{self, TCP_PARAMETERS};
use super::{
    Description, FabricFacts, FlowTransport, FrameSizes, ProtocolVisitor, Transport, TransportDeclaration, flow,
};
use crate::Time;
use crate::config::FlowConfig;
use crate::headers::{IWARP_ACK, IWARP_SACK};
use crate::recovery;
use crate::settings::{Parameter, Settings};

/// Payload bytes of the segments that TCP exchanges with the NIC: the maximum of Linux.
pub const OFFLOAD: u32 = 65_536;

/// Parameters of the host's network stack.
const STACK: [Parameter; 7] = [
    Parameter::delay(
        "send_latency",
        Time::from_us(6),
        "time from a message's write until its first segment is in the NIC; 6 us (a part of IX's 24 us, our choice)",
    ),
    Parameter::delay(
        "receive_latency",
        Time::from_us(8),
        "time from a packet's arrival until TCP has it: interrupt and softirq; 8 us (a part of IX's 24 us, our choice)",
    ),
    Parameter::delay(
        "wake_latency",
        Time::from_us(10),
        "time from a message's last byte in TCP until its application runs; 10 us (the rest of IX's 24 us)",
    ),
    Parameter::delay(
        "message_cost",
        Time::from_ps(1_680_000),
        "CPU time of a message at each end, apart from its bytes; 1.68 us (half of Arrakis' 3.36 us)",
    ),
    Parameter::delay(
        "send_cost",
        Time::from_ps(5_890_000),
        "CPU time of the sender for a segment of 64 KB; 5.89 us (89 Gbps per core, Cai et al.)",
    ),
    Parameter::delay(
        "receive_cost",
        Time::from_ps(12_480_000),
        "CPU time of the receiver for a segment of 64 KB; 12.48 us (42 Gbps per core, Cai et al.)",
    ),
    Parameter::count(
        "cores",
        8,
        1,
        1_024,
        "cores of a host that run its network stack; a flow uses one, chosen by its hash; 8 (our choice)",
    ),
];

const PARAMETERS: [Parameter; TCP_PARAMETERS.len() + STACK.len()] = {
    let mut all = [STACK[0]; TCP_PARAMETERS.len() + STACK.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < TCP_PARAMETERS.len() { TCP_PARAMETERS[at] } else { STACK[at - TCP_PARAMETERS.len()] };
        at += 1;
    }
    all
};

/// TCP in the kernel of a host.
#[derive(Clone, Copy, Debug)]
pub struct Tcp;

impl FlowTransport for Tcp {
    const DECLARATION: TransportDeclaration = TransportDeclaration {
        own_parameters: &PARAMETERS,
        frame_sizes: FrameSizes { data_header: IWARP_ACK, ack: IWARP_ACK, nack: IWARP_SACK },
        ..TransportDeclaration::flows(
            &Tcp,
            "tcp",
            "TCP in the hosts' kernel: the TCP of iwarp above a network stack with declared latencies and CPU costs",
        )
    };

    fn select<V: ProtocolVisitor>(_settings: &Settings, visitor: V) -> V::Output {
        visitor.visit::<recovery::Tcp>()
    }
}

impl Transport for Tcp {
    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        iwarp::unused_settings(settings)
    }

    fn configure(&self, settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        Ok(FlowConfig { tcp: iwarp::tcp(settings)?, ..flow::config(settings, fabric, false) })
    }

    fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        let (mut before, after) = iwarp::describe(settings, cfg);
        before.extend(STACK.iter().filter_map(|one| Some((one.name, settings.value(one.name)?.to_string()))));
        (before, after)
    }
}
