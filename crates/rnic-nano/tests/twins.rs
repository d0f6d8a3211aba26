//! Compares each P4 program in `p4/` with its twin, the same transport in Rust. Both must send the same packets at the
//! same times, also over a network that drops, trims, delays and duplicates packets.

use crate::network::cases::{Case, MTU, RTT_PKTS, cases};
use crate::network::{Network, Planned, Weather};
use proptest::prelude::*;
use rnic_nano::{NicParameters, P4Header, P4Pipeline, Program, compile_file};
use rnic_transport::Time;
use rnic_transport::message::programs::{Homa, HomaSettings, Hpcc, HpccHeader, HpccSettings, NativeHeader, Ndp};
use rnic_transport::message::{NicConfig, Order, Outgoing, Pipeline};
use rnic_transport::telemetry::HopRecord;
use std::path::Path;
use std::sync::LazyLock;

const BASE_RTT_NS: u32 = 525;

/// The contents of a packet's header, in the same form for a P4 program and its twin in Rust.
#[derive(PartialEq, Eq, Debug)]
struct Said {
    native: NativeHeader,
    /// The telemetry records that a receiver returns to the sender in this packet.
    echo: Vec<HopRecord>,
}

trait Says {
    /// Parses the header. `telemetry` says whether the headers of this transport can carry telemetry.
    fn says(&self, telemetry: bool) -> Said;
}

impl Says for NativeHeader {
    fn says(&self, _: bool) -> Said {
        Said { native: *self, echo: Vec::new() }
    }
}

impl Says for HpccHeader {
    fn says(&self, _: bool) -> Said {
        Said { native: self.native, echo: self.echo.hops().to_vec() }
    }
}

impl Says for P4Header<256> {
    /// Parses the transport's header, which follows Ethernet (14 bytes) and IPv4 (20 bytes).
    fn says(&self, telemetry: bool) -> Said {
        let bytes = &self.bytes[..usize::from(self.len)];
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap());
        let native = NativeHeader {
            src_ip: word(26),
            src_context: half(34),
            dst_context: half(36),
            tx_msg_id: word(38),
            msg_len: word(42),
            pkt_offset: word(46),
            credit: word(50),
            rank: bytes[54],
            flags: bytes[55],
        };
        let records = if telemetry { &bytes[57..] } else { &bytes[56..] };
        assert!(telemetry || records.is_empty(), "{} bytes", bytes.len());
        assert!(!telemetry || usize::from(bytes[56]) * 16 == records.len());
        let word = |record: &[u8], at: usize| u32::from_be_bytes(record[at..at + 4].try_into().unwrap());
        let record = |record: &[u8]| HopRecord {
            timestamp_ns: word(record, 0),
            tx_bytes: word(record, 4),
            queue_bytes: word(record, 8),
            rate_mbps: word(record, 12),
        };
        Said { native, echo: records.chunks_exact(16).map(record).collect() }
    }
}

/// Compiles a program in `p4/`. Each pair in `constants` replaces the value of a constant.
fn program(name: &str, constants: &[(&str, u128)]) -> Program {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
    let constants: Vec<_> = constants.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    compile_file(&file, &constants).unwrap_or_else(|what| panic!("{what}"))
}

/// Loads a program into a NIC that has the given IP address.
fn on_nic(program: &Program, ip: u32) -> P4Pipeline<256> {
    let nic = NicParameters {
        ip,
        rtt_pkts: RTT_PKTS,
        mtu: MTU as u16,
        line_rate_mbps: 200_000,
        base_rtt_ns: BASE_RTT_NS,
        ..NicParameters::default()
    };
    P4Pipeline::new(program, &nic).unwrap()
}

/// Time limit of a test case. Every case ends earlier, unless a transport stalls.
const LIMIT: Time = Time::from_ms(10_000);

/// Runs a test case to its end. Returns the network, which has a trace of all packets.
fn run<P: Pipeline>(case: &Case, program: impl Fn(u32) -> P) -> Network<P> {
    let Case { cfg, hosts, plan, weather, seed } = case.clone();
    let mut network = Network::new(cfg, hosts, program, plan, weather, seed);
    network.trace = Some(Vec::new());
    assert!(network.run(LIMIT), "at {}: {:?}", network.now, network.totals);
    network
}

/// Runs a test case with a transport in Rust and with its P4 program, and compares the packets that they send.
fn compare<P: Pipeline>(
    case: &Case, native: impl Fn(u32) -> P, p4: &Program, telemetry: bool,
) -> Result<(), TestCaseError>
where
    P::Header: Says,
{
    let (native, p4) = (run(case, native), run(case, |ip| on_nic(p4, ip)));
    let packet = |at: Time, from, dst, said, out: (u8, u32, bool, bool, u32)| (at, from, dst, said, out);
    let of = |out: (u8, u32, bool, bool, u32)| out;
    let (left, right) = (native.trace.as_ref().unwrap(), p4.trace.as_ref().unwrap());
    for (number, (a, b)) in left.iter().zip(right).enumerate() {
        let Outgoing { dst_ip, header, priority, payload, is_rtx, is_control, tag } = a.2;
        let a = packet(a.0, a.1, dst_ip, header.says(telemetry), of((priority, payload, is_rtx, is_control, tag)));
        let Outgoing { dst_ip, header, priority, payload, is_rtx, is_control, tag } = b.2;
        let b = packet(b.0, b.1, dst_ip, header.says(telemetry), of((priority, payload, is_rtx, is_control, tag)));
        prop_assert_eq!(a, b, "packet {}", number);
    }
    prop_assert_eq!(left.len(), right.len());
    prop_assert_eq!(native.totals, p4.totals);
    prop_assert_eq!(&native.records, &p4.records);
    for host in 0..case.hosts {
        prop_assert_eq!(native.nic(host).counters(), p4.nic(host).counters());
        prop_assert_eq!(p4.nic(host).program().counters(), Default::default());
    }
    Ok(())
}

static NDP: LazyLock<Program> = LazyLock::new(|| program("ndp.p4", &[]));
static HPCC: LazyLock<Program> = LazyLock::new(|| program("hpcc.p4", &[("W_AI", 80)]));

fn ndp(case: &Case) -> Result<(), TestCaseError> {
    compare(case, |ip| Ndp::new(ip, MTU, RTT_PKTS).with_paced_nacks(), &NDP, false)
}

const HPCC_SETTINGS: HpccSettings = HpccSettings {
    mtu: MTU,
    rtt_pkts: RTT_PKTS,
    base_rtt_ns: BASE_RTT_NS,
    additive_bytes: 80,
    target: 62_259,
    max_stages: 5,
};

fn hpcc(case: &Case) -> Result<(), TestCaseError> {
    compare(case, |ip| Hpcc::new(ip, HPCC_SETTINGS), &HPCC, true)
}

/// Tested settings of Homa: the number of priorities for unscheduled packets, the number of priorities for granted
/// packets, and the overcommitment. The first triple has the default values of the program.
const PRIORITIES: [(u8, u8, u8); 3] = [(1, 3, 3), (2, 1, 1), (3, 4, 6)];

type ByLevels = [Program; PRIORITIES.len()];

fn by_levels(name: &str) -> ByLevels {
    PRIORITIES.map(|(unscheduled, scheduled, overcommitment)| {
        let constants = [
            ("UNSCHEDULED_PRIORITIES", unscheduled.into()),
            ("SCHEDULED_PRIORITIES", scheduled.into()),
            ("OVERCOMMITMENT", overcommitment.into()),
        ];
        program(name, &constants)
    })
}

static HOMA: LazyLock<ByLevels> = LazyLock::new(|| by_levels("homa.p4"));
static HOMA_TR: LazyLock<ByLevels> = LazyLock::new(|| by_levels("homa-tr.p4"));

fn homa(case: &Case, priorities: usize, trimming: bool) -> Result<(), TestCaseError> {
    let (unscheduled_priorities, scheduled_priorities, overcommitment) = PRIORITIES[priorities];
    let settings = HomaSettings {
        mtu: MTU,
        rtt_pkts: RTT_PKTS,
        unscheduled_priorities,
        scheduled_priorities,
        overcommitment: overcommitment.into(),
        trimming,
    };
    let programs = if trimming { &HOMA_TR } else { &HOMA };
    compare(case, |ip| Homa::new(ip, settings), &programs[priorities], false)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ndp_twins(case in cases()) {
        ndp(&case)?;
    }

    #[test]
    fn homa_twins(case in cases(), priorities in 0..PRIORITIES.len()) {
        homa(&case, priorities, false)?;
    }

    #[test]
    fn homa_tr_twins(case in cases(), priorities in 0..PRIORITIES.len()) {
        homa(&case, priorities, true)?;
    }

    #[test]
    fn hpcc_twins(case in cases()) {
        hpcc(&case)?;
    }
}

/// A case in which eight NICs send messages of 1 to 60 packets to the ninth NIC within 2 us. These are more messages
/// than the 16 that a scheduler compares in parallel.
fn rush(seed: u64, weather: Weather) -> Case {
    let message = |number: u64| {
        let packets = (number * 37 + seed * 11) % 60 + 1;
        Planned {
            at: Time::from_ns(number * 40),
            src: (number % 8) as u32,
            dst: 8,
            bytes: (packets * 1_024 - number) as u32,
        }
    };
    let order = if seed.is_multiple_of(2) { Order::RoundRobin } else { Order::ShortestFirst };
    let cfg = NicConfig { order, max_timeouts: 50, rx_timeout: Time::from_ms(1), ..NicConfig::default() };
    Case { cfg, hosts: 9, plan: (0..50).map(message).collect(), weather, seed }
}

fn all(case: &Case) -> Result<(), TestCaseError> {
    ndp(case)?;
    for priorities in 0..PRIORITIES.len() {
        homa(case, priorities, false)?;
        homa(case, priorities, true)?;
    }
    hpcc(case)
}

#[test]
fn in_a_rush() {
    all(&rush(0, Weather::default())).unwrap();
}

#[test]
fn in_a_rush_and_bad_weather() {
    let (late_by, heals_at) = (Time::from_us(5), Time::from_us(100));
    for seed in 1..7 {
        let weather = Weather { loss: 20, trim: 150, back: 200, late: 100, twice: 50, late_by, heals_at };
        all(&rush(seed, weather)).unwrap();
    }
}

/// The comparison must notice P4 programs that differ from their twins: Homa with an overcommitment of one instead of
/// three, HPCC with a target utilisation of 50 %, and NDP with another MTU, so that its PULLs end at another packet.
#[test]
fn deviating_programs_are_noticed() {
    let case = rush(0, Weather::default());
    let settings = HomaSettings {
        mtu: MTU,
        rtt_pkts: RTT_PKTS,
        unscheduled_priorities: 1,
        scheduled_priorities: 3,
        overcommitment: 3,
        trimming: false,
    };
    let alone = program("homa.p4", &[("OVERCOMMITMENT", 1)]);
    assert!(compare(&case, |ip| Homa::new(ip, settings), &alone, false).is_err());
    let half = program("hpcc.p4", &[("W_AI", 80), ("ETA", 32_768)]);
    assert!(compare(&case, |ip| Hpcc::new(ip, HPCC_SETTINGS), &half, true).is_err());
    assert!(compare(&case, |ip| Ndp::new(ip, 1_000, RTT_PKTS).with_paced_nacks(), &NDP, false).is_err());
}
