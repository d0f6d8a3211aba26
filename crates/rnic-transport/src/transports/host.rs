//! The transports in host software: the parameters that users may set. They are state machines above the verbs of a NIC
//! (crate `rnic-host`), so this module declares them and does not implement them.

use super::{Description, MAX_IN_FLIGHT, Transport, TransportDeclaration};
use crate::settings::{Kind, Parameter, Settings};
use crate::{BitRate, Time};

/// Parameters of every transport in host software, besides [`COMMON_PARAMETERS`](super::COMMON_PARAMETERS): the NIC
/// below it, and the channel of each pair of hosts.
pub const HOST_PARAMETERS: &[Parameter] = &[
    Parameter::derived(
        "max_window",
        Kind::Bytes,
        "maximum of outstanding bytes of a channel, at least one chunk; without limit",
    ),
    Parameter::derived("max_rate", Kind::Rate, "maximum rate of a channel; the host link's rate"),
    Parameter::count(
        "receives",
        64,
        1,
        4_096,
        "receives that a host keeps posted for each channel; a message takes one; 64 (our choice)",
    ),
    Parameter::derived(
        "small_channel",
        Kind::Bytes,
        "messages of up to this length have a channel of their own between two hosts; none: all share one",
    ),
    Parameter::time("patience", Time::from_ms(10_000), "silence of the peer that ends a channel; 10 s (our choice)"),
    Parameter::delay(
        "doorbell",
        Time::from_ns(200),
        "time from posting a request until its doorbell reaches the NIC; 200 ns, half a PCIe round trip (Neugebauer et al., SIGCOMM 2018)",
    ),
    Parameter::delay(
        "dma",
        Time::from_ns(700),
        "time in which the NIC reads a request and its first data from memory; 700 ns, two overlapping PCIe reads (Neugebauer et al., SIGCOMM 2018)",
    ),
    Parameter::delay(
        "completion",
        Time::from_ns(400),
        "time from a completion's timestamp until polling software sees it; 400 ns, a PCIe write and a poll (our choice)",
    ),
    Parameter::rate(
        "rate_granularity",
        BitRate::from_bps(1_000_000),
        "step of the NIC's rate limits, which are rounded down to it; 1 Mbps (our choice; the verbs API takes kbps)",
    ),
    Parameter::delay(
        "timestamp_granularity",
        Time::from_ns(1),
        "step of the timestamps of completions; 1 ns (ConnectX-5's clock of 1 GHz)",
    ),
    Parameter::delay(
        "post_cost",
        Time::from_ns(100),
        "CPU time for posting a request; 100 ns (our choice, a few hundred cycles as counted by Kalia et al., ATC 2016)",
    ),
    Parameter::delay(
        "poll_cost",
        Time::from_ns(50),
        "CPU time for taking a completion; 50 ns (our choice, as for `post_cost`)",
    ),
    Parameter::count(
        "cores",
        1,
        1,
        1_024,
        "cores of a host that run its channels; a channel uses one, in turn; 1 (UCCL-Tran: one core moves 400 Gbps one way)",
    ),
];

/// The CPU time of a layer for a request to the NIC.
const fn chunk_cost(ns: u64, about: &'static str) -> Parameter {
    Parameter::delay("chunk_cost", Time::from_ns(ns), about)
}

const ROGUE: &[Parameter] = &[
    chunk_cost(55, "CPU time of the layer for each request to the NIC; 55 ns (measured, `cargo bench -p rnic-host`)"),
    Parameter::size("chunk", 1 << 16, CHUNK.0, CHUNK.1, "bytes of a request to the NIC; 64 KB, here 65536 B (RoGUE)"),
    Parameter::choice(
        "service",
        "rc",
        &["rc", "uc"],
        "queue pairs below the layer: reliable connections, or unreliable ones with all recovery in software; reliable (RoGUE supports both)",
    ),
    Parameter::choice(
        "operation",
        "write",
        &["write", "read"],
        "a flow is a Write with Immediate of its source, or a Read of its destination; a Write (our choice)",
    ),
    Parameter::derived(
        "signal_every",
        Kind::Bytes,
        "bytes of messages for which a sender asks for one completion; none: a completion of each message",
    ),
    Parameter::rate(
        "min_rate",
        BitRate::from_bps(100_000_000),
        "minimum rate of a channel; not stated, our choice (100 Mbps)",
    ),
    Parameter::count(
        "nic_timeout",
        11,
        1,
        31,
        "the NIC's retransmission timeout, over UC the maximum time until the layer sends a probe, is 4.096 us x 2^n; not stated, our choice (8.4 ms)",
    ),
    Parameter::count(
        "retry_count",
        7,
        0,
        7,
        "timeouts in a row after which the queue pair fails, over UC one less than the probes; 7, the maximum",
    ),
    Parameter::time(
        "sync_interval",
        Time::from_ms(1),
        "time between two messages to a peer that has not noticed a failure; not stated, our choice (1 ms)",
    ),
    Parameter::count(
        "max_recoveries",
        16,
        1,
        MAX_IN_FLIGHT,
        "recoveries without a completed request that end a channel; not stated, our choice (16)",
    ),
];

/// Minimum and maximum chunk in bytes.
const CHUNK: (u64, u64) = (4_096, 1 << 24);

const MULTIPATH: &[Parameter] = &[
    chunk_cost(
        165,
        "CPU time of the layer for each request to the NIC; 165 ns, half of what a chunk costs both ends (measured, `cargo bench -p rnic-host`)",
    ),
    Parameter::count("paths", 32, 1, 256, "unreliable connections of a channel in each direction; 32 (UCCL-Tran)"),
    Parameter::size(
        "chunk",
        1 << 15,
        CHUNK.0,
        CHUNK.1,
        "bytes of a request to the NIC; 32 KB, here 32768 B (UCCL-Tran)",
    ),
    Parameter::choice(
        "path_choice",
        "power-of-two",
        &["power-of-two", "round-robin", "single"],
        "how a chunk gets its path; power of two choices by round-trip time (UCCL-Tran)",
    ),
    Parameter::flag(
        "nic_marks",
        false,
        "completions tell whether a packet of the chunk was CE-marked, so that `cc` may respond to marks; no (commodity NICs)",
    ),
    Parameter::flag(
        "nic_trim",
        false,
        "completions tell whether a switch trimmed the chunk, which is then retransmitted at once; no (commodity NICs)",
    ),
    Parameter::flag(
        "spread",
        false,
        "one queue pair in each direction sends the chunks of all paths, each with an entropy; no (commodity NICs)",
    ),
    Parameter::flag("credit", false, "receivers limit senders by credit at their link's rate (EQDS); no"),
    Parameter::number(
        "credit_rate",
        1.0,
        0.01,
        10.0,
        "rate of credit, as a multiple of the rate of the receiver's link; below 1 a queue at the receiver's switch drains; 1",
    ),
    Parameter::derived(
        "unsolicited",
        Kind::Bytes,
        "bytes that a channel may send without credit, at least one chunk; one bandwidth-delay product",
    ),
    Parameter::time(
        "path_timeout",
        Time::from_us(50),
        "silence of a path after which it is probed, at least two round-trip times; 50 us (our choice: a probe is no retransmission, for which UCCL-Tran waits 500 us)",
    ),
    Parameter::number(
        "loss_tolerance",
        1.0 / 16.0,
        0.0,
        1.0,
        "share of lost chunks of which the congestion control does not hear; 1/16 (our choice)",
    ),
    Parameter::count("path_probes", 4, 1, MAX_IN_FLIGHT, "unanswered probes that reset a path; 4 (our choice)"),
    Parameter::count(
        "max_attempts",
        50,
        2,
        MAX_IN_FLIGHT,
        "transmissions of a chunk after which the channel ends; 50 (UCCL-Tran: timeouts in a row)",
    ),
];

/// The transports in host software have their implementation in the crate `rnic-host`.
struct HostSoftware;

impl Transport for HostSoftware {
    fn unused_settings(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        let mut unused = Vec::new();
        for of_credit in ["unsolicited", "credit_rate"] {
            if settings.is_set(of_credit) && settings.flag("credit") != Ok(true) {
                unused.push((of_credit, "it needs `credit = true`"));
            }
        }
        if settings.count("paths") == Ok(1) && settings.is_set("path_choice") {
            unused.push(("path_choice", "there is one path (`paths = 1`)"));
        }
        let reads = settings.choice("operation").is_ok_and(|operation| operation == "read");
        for key in ["receives", "signal_every"].into_iter().filter(|key| reads && settings.is_set(key)) {
            unused.push((key, "it needs `operation = \"write\"`"));
        }
        unused
    }
}

/// The declarations of the transports in host software.
pub(super) const DECLARATIONS: [TransportDeclaration; 2] = [
    TransportDeclaration {
        own_parameters: ROGUE,
        ..TransportDeclaration::host(
            &HostSoftware,
            "rogue",
            "RoGUE: software above RC queue pairs; chunks, response to round-trip times, a shadow queue pair; cc \"rogue\" by default",
        )
    },
    TransportDeclaration {
        own_parameters: MULTIPATH,
        ..TransportDeclaration::host(
            &HostSoftware,
            "multipath",
            "multipath: software above many UC queue pairs; chunks sprayed over paths, recovery in software; cc \"rogue\" by default",
        )
    },
];

/// The values of all settings of a transport in host software, for the description of a run; a setting that is derived
/// from the fabric is left out, because only the simulator knows its value.
pub(super) fn describe(parameters: &[Parameter], settings: &Settings) -> Description {
    let all = parameters.iter().chain(HOST_PARAMETERS);
    all.filter_map(|parameter| Some((parameter.name, settings.value(parameter.name)?.to_string()))).collect()
}
