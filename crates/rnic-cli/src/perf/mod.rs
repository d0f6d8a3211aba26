//! The command `rnic perf`, which measures RDMA between two hosts.

mod live;
mod perftest;

use crate::peer;
use crate::trust::TrustArgs;
use clap::{Args, Subcommand, ValueEnum};
use rnic_endpoint::exchange::ExchangeError;
use rnic_endpoint::port::{CaptureFile, CorruptionKind, ROCE_PORT, percentage};
use rnic_endpoint::{Mode, Security};
use rnic_perf::raw::{self, Case};
use rnic_perf::{
    Amount, Carrier, ChannelPlan, ChannelService, DEFAULT_MAX_MEMORY, DEFAULT_PORT, FaultPlan, HostTransport, Op,
    PathSelection, PerfError, Plan, Report, Row, SIZES, ServeOptions, Served, Unit, run, serve,
};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::{self, note};
use rnic_transport::{BitRate, Bytes, Time};
use rnic_verbs::Service;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        rnic perf                                   on one host: the server\n  \
        rnic perf 10.0.0.2 -s 1MiB -D 5             on the other host: bandwidth of Writes\n  \
        rnic perf 10.0.0.2 --op read --latency -s 64\n  \
        rnic perf 10.0.0.2 --op send -a --format json > send.json\n  \
        rnic perf 10.0.0.2 -s 64KiB --loss 1% --verify\n  \
        rnic perf 10.0.0.2 -s 64KiB --loss 1% --service rc\n  \
        rnic perf 10.0.0.2 --security encrypted --secret-file key   with `rnic perf --secret-file key` on the other host\n  \
        rnic perf 10.0.0.2 --perftest -s 4096       with `ib_write_bw -x INDEX -s 4096` on the other host\n  \
        rnic perf --serve                           IRN against go-back-N on a live page, with sliders for faults\n  \
        rnic perf 10.0.0.2 -n 10 --pcap run.pcapng  and then rnic decode run.pcapng
  \
        rnic perf raw 10.0.0.2                      plain datagrams: the upper bound for a transport\n\n\
        Both sides on one host: rnic perf --bind 127.0.0.1, and rnic perf 127.0.0.1 --roce-port 4792"
)]
pub(crate) struct PerfArgs {
    #[command(subcommand)]
    raw: Option<Other>,

    #[command(flatten)]
    measure: MeasureArgs,
}

#[derive(Subcommand, Debug)]
enum Other {
    /// Measure plain UDP datagrams: the upper bound for a transport above UDP
    Raw(RawArgs),
}

#[derive(Args, Debug)]
struct RawArgs {
    /// The server, a host that runs `rnic perf raw`; without it this command is the server
    #[arg(value_name = "HOST")]
    host: Option<String>,

    /// TCP port of the control connection
    #[arg(short, long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,

    /// Server: listen on this address only [default: all]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,

    /// Payload bytes of a datagram
    #[arg(short, long, value_name = "BYTES", value_parser = parse_size, default_value = "4096")]
    size: u32,

    /// Duration of a measurement; a number without unit is in seconds
    #[arg(short = 'D', long, value_name = "TIME", value_parser = parse_time, default_value = "1")]
    duration: Time,
}

#[derive(Args, Debug)]
struct MeasureArgs {
    /// The server, a host that runs `rnic perf`; without it this command is the server
    #[arg(value_name = "HOST")]
    host: Option<String>,

    /// TCP port of the control connection
    #[arg(short, long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,

    /// UDP port of this host's device; with --perftest, UDP port on both hosts
    #[arg(long, value_name = "N", default_value_t = ROCE_PORT)]
    roce_port: u16,

    /// Server: listen on this address only [default: all]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "host")]
    bind: Option<IpAddr>,

    /// Server: end after one client
    #[arg(long, conflicts_with = "host")]
    once: bool,

    /// Show throughput, latency and retransmissions on a live page with sliders for faults, at this address [default:
    /// 127.0.0.1, any free port]. Without HOST, both ends run in this process: IRN and RC next to each other, or only
    /// the service of --service
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:0",
        conflicts_with_all = [
            "bind", "once", "perftest", "latency", "all", "iters", "verify", "corrupt", "max_memory", "format",
            "report_gbits"
        ]
    )]
    serve: Option<SocketAddr>,

    /// The peer is a program of perftest (ib_write_bw, ib_read_lat, ...), started with the same op, size, iters and qp
    #[arg(long, conflicts_with_all = ["secret_file", "certificate"])]
    perftest: bool,

    /// Operation to measure
    #[arg(long, value_enum, default_value_t = Op::Write)]
    op: Op,

    /// Measure the latency of single messages instead of bandwidth
    #[arg(long)]
    latency: bool,

    /// Bytes of a message, with or without unit (B, KB, MB, GB; KiB, MiB, GiB) [default: 65536; latency 2; atomics 8]
    #[arg(short, long, value_name = "BYTES", value_parser = parse_size)]
    size: Option<u32>,

    /// Measure all message sizes that are powers of two, from 2 B to 8 MiB
    #[arg(short, long, conflicts_with = "size")]
    all: bool,

    /// Number of messages on each queue pair [default: 5000; latency and atomics 1000]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iters: Option<u64>,

    /// Duration of a measurement, instead of a number of messages; a number without unit is in seconds
    #[arg(short = 'D', long, value_name = "TIME", value_parser = parse_time, conflicts_with = "iters")]
    duration: Option<Time>,

    /// Number of queue pairs, 1 to 1024
    #[arg(short, long = "qp", value_name = "N", default_value_t = 1)]
    queue_pairs: u32,

    /// Maximum number of outstanding messages on a queue pair, 1 to 16384
    #[arg(short, long, value_name = "N", default_value_t = 128)]
    tx_depth: u32,

    /// Path MTU in payload bytes: IRN 256 to 8960, a multiple of 4; RC 256, 512, 1024, 2048 or 4096 [default: maximum
    /// of the path]
    #[arg(short, long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// What carries the messages: a transport service of queue pairs, or a host transport [default: irn; with
    /// --perftest rc]
    #[arg(long, value_enum)]
    service: Option<ServiceName>,

    /// With --service rogue or multipath: bytes of a chunk, with or without unit [default: 64 KiB, multipath 32 KiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, conflicts_with = "perftest")]
    chunk: Option<u32>,

    /// With --service rogue: the service of the queue pairs below [default: rc]
    #[arg(long, value_enum, value_name = "SERVICE", conflicts_with = "perftest")]
    over: Option<ChannelService>,

    /// With --service multipath: number of paths, 1 to 256 [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), conflicts_with = "perftest")]
    paths: Option<u32>,

    /// With --service multipath: which path a chunk takes, as `path_choice` of a scenario [default: power-of-two]
    #[arg(long, value_enum, value_name = "POLICY", conflicts_with = "perftest")]
    select: Option<PathSelection>,

    /// With --service multipath: the receiver limits the sender by credit, at the rate of its link (--line-rate)
    #[arg(long, conflicts_with = "perftest")]
    credit: bool,

    /// With --service multipath: chunks may be CE-marked, so that a congestion control such as dctcp sees marks
    #[arg(long, conflicts_with = "perftest")]
    marks: bool,

    /// With --service multipath: one queue pair in each direction, whose requests have an entropy each
    #[arg(long, conflicts_with = "perftest")]
    spread: bool,

    /// Congestion control; `rnic list congestion` lists all [default: none; with --service rogue or multipath rogue]
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,

    /// Change a parameter of the congestion control; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Rate of the link, at which rate-based congestion control starts [default: 100Gbps]
    #[arg(long, value_name = "RATE")]
    line_rate: Option<BitRate>,

    /// Maximum number of packets in flight on a queue pair [default: that of the device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    in_flight: Option<u32>,

    /// Verify every byte of every message
    #[arg(long)]
    verify: bool,

    /// Percentage of received packets that client and server drop, such as 1%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percentage)]
    loss: f64,

    /// Percentage of received packets that client and server deliver after later packets
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percentage)]
    reorder: f64,

    /// Percentage of received packets that client and server deliver twice
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percentage)]
    duplicate: f64,

    /// Percentage of received packets that client and server corrupt
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percentage)]
    corrupt: f64,

    /// How --corrupt changes a packet [default: mixed]
    #[arg(long, value_enum, value_name = "KIND", requires = "corrupt")]
    corrupt_kind: Option<CorruptionName>,

    /// Seed of the faults and of the bytes of --verify
    #[arg(long, value_name = "N", default_value_t = 1)]
    fault_seed: u64,

    /// Time without a response after which an end aborts the connection; without unit in seconds [default: 5 s; with
    /// --service rogue or multipath 10 s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    give_up_after: Option<Time>,

    /// Protection of packets [default: authenticated; with --perftest none]
    #[arg(long, value_enum, conflicts_with = "perftest")]
    security: Option<SecurityName>,

    #[command(flatten)]
    trust: TrustArgs,

    /// Server: maximum memory that a client may use, with or without unit [default: 512 MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with_all = ["host", "perftest"])]
    max_memory: Option<u64>,

    /// Use progress threads in client and server, which sleep while they wait, instead of polling
    #[arg(long)]
    thread: bool,

    /// Capture the packets that this side sends and receives in this file (pcapng), which `rnic decode` and Wireshark
    /// read. The measurement becomes slower
    #[arg(long, value_name = "FILE", conflicts_with = "serve")]
    pcap: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = rnic_simulator::format::Format::Table)]
    format: rnic_simulator::format::Format,

    /// Print bandwidth in 10^9 bits per second instead of 2^20 bytes per second
    #[arg(long = "report_gbits", visible_alias = "report-gbits")]
    report_gbits: bool,

    /// No effect; accepted because perftest has it
    #[arg(short = 'F', hide_short_help = true)]
    force: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum SecurityName {
    /// Plain RoCEv2: anyone who can send packets can disturb the measurement
    None,
    /// Each packet is authenticated
    Authenticated,
    /// Each packet is authenticated and encrypted
    Encrypted,
}

impl From<SecurityName> for Security {
    fn from(name: SecurityName) -> Security {
        match name {
            SecurityName::None => Security::None,
            SecurityName::Authenticated => Security::Authenticated,
            SecurityName::Encrypted => Security::Encrypted,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum CorruptionName {
    /// One bit is flipped
    Bit,
    /// 2 to 32 consecutive bytes have random values
    Burst,
    /// 8 bytes anywhere have random values
    Bytes,
    /// Each corrupted packet has one of the three kinds
    Mixed,
}

impl From<CorruptionName> for CorruptionKind {
    fn from(name: CorruptionName) -> CorruptionKind {
        match name {
            CorruptionName::Bit => CorruptionKind::Bit,
            CorruptionName::Burst => CorruptionKind::Burst,
            CorruptionName::Bytes => CorruptionKind::Bytes,
            CorruptionName::Mixed => CorruptionKind::Mixed,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ServiceName {
    /// Reliable connection with go-back-N, as every RoCE NIC has it
    Rc,
    /// Reliable connection with selective retransmission (IRN)
    Irn,
    /// Unreliable connection
    Uc,
    /// RoGUE: congestion control and a shadow queue pair in host software, above RC or the service of --over
    Rogue,
    /// Chunks over many unreliable connections, with loss recovery in host software
    Multipath,
}

impl From<ServiceName> for Carrier {
    fn from(name: ServiceName) -> Carrier {
        match name {
            ServiceName::Rc => Service::Rc.into(),
            ServiceName::Irn => Service::Irn.into(),
            ServiceName::Uc => Service::Uc.into(),
            ServiceName::Rogue => Carrier::Channels(HostTransport::Rogue),
            ServiceName::Multipath => Carrier::Channels(HostTransport::Multipath),
        }
    }
}

/// Runs as the server, or measures as the client of the given host.
pub(crate) fn perf(arguments: &PerfArgs) -> Result<(), CliError> {
    match &arguments.raw {
        Some(Other::Raw(raw)) => match &raw.host {
            None => serve_raw(raw),
            Some(host) => measure_raw(host, raw),
        },
        None if arguments.measure.perftest => perftest::perftest(&arguments.measure),
        None => {
            let interruption = Interruption::listen()?;
            if let Some(address) = arguments.measure.serve {
                return live::live(address, &arguments.measure, &interruption);
            }
            match &arguments.measure.host {
                None => server(&arguments.measure, interruption.flag()),
                Some(host) => client(host, &arguments.measure, &interruption),
            }
        }
    }
}

pub(crate) fn listen(bind: Option<IpAddr>, port: u16) -> Result<TcpListener, CliError> {
    let addresses = match bind {
        Some(address) => vec![address],
        None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::from([0, 0, 0, 0])],
    };
    let mut last = None;
    for address in addresses {
        match TcpListener::bind(SocketAddr::new(address, port)) {
            Ok(listener) => {
                let address = listener.local_addr().map_or(port, |address| address.port());
                note(&format!("waiting for clients at TCP port {address}; Ctrl-C ends"));
                return Ok(listener);
            }
            Err(error) => last = Some((address, error)),
        }
    }
    let (address, error) = last.unwrap_or((IpAddr::V6(Ipv6Addr::UNSPECIFIED), io::Error::other("no address")));
    Err(CliError::Input(format!(
        "cannot listen on TCP port {port} of {address}: {error}; choose another with --port or --bind"
    )))
}

fn server(arguments: &MeasureArgs, stop: &AtomicBool) -> Result<(), CliError> {
    let listener = listen(arguments.bind, arguments.port)?;
    if arguments.security.is_some() {
        let why = "--security is chosen by the client; on the server it has no effect";
        return Err(CliError::Input(why.to_string()));
    }
    if arguments.give_up_after.is_some() {
        let why = "--give-up-after is chosen by the client; on the server it has no effect";
        return Err(CliError::Input(why.to_string()));
    }
    let options = ServeOptions {
        roce_port: arguments.roce_port,
        once: arguments.once,
        max_memory: arguments.max_memory.unwrap_or(DEFAULT_MAX_MEMORY),
        credentials: arguments.trust.credentials()?,
        capture: capture(arguments)?,
        ..ServeOptions::default()
    };
    let mut failed = None;
    let report = |Served { peer, result }: Served| {
        let told = match &result {
            Ok(1) => format!("{peer}: 1 measurement"),
            Ok(count) => format!("{peer}: {count} measurements"),
            Err(error) => format!("{peer}: {error}"),
        };
        note(&told);
        failed = result.err();
    };
    serve(&listener, options, stop, report)
        .map_err(|error| CliError::Io { doing: "cannot accept connections".to_string(), error })?;
    match failed {
        Some(error) if arguments.once && !matches!(error, PerfError::Interrupted) => Err(failure(error)),
        _ => Ok(()),
    }
}

fn client(host: &str, arguments: &MeasureArgs, interruption: &Interruption) -> Result<(), CliError> {
    let plan = Plan { credentials: arguments.trust.credentials()?, capture: capture(arguments)?, ..plan(arguments) };
    let unit = unit(arguments);
    let table = arguments.format == rnic_simulator::format::Format::Table;
    let mut printed = Ok(());
    let mut first = true;
    let row = |report: &Report, row: &Row| {
        if !table || printed.is_err() {
            return;
        }
        printed = output::print(|out| {
            if std::mem::take(&mut first) {
                report.write_head(out, unit)?;
            }
            report.write_row(row, out, unit)
        });
    };
    let interrupted = |message: &str| {
        let code = interruption.exit_code().unwrap_or(1);
        CliError::Interrupted { code, message: message.to_string() }
    };
    let report = run(endpoint(host, arguments.port), &plan, interruption.flag(), row).map_err(|error| match error {
        PerfError::Interrupted => interrupted("nothing was measured"),
        error => failure(error),
    })?;
    printed?;
    if !table {
        print_json(&report)?;
    }
    if report.is_right() {
        return if report.interrupted { Err(interrupted("the last row is partial")) } else { Ok(()) };
    }
    Err(CliError::Failed(vec!["some bytes arrived wrong; the rows above have their number".to_string()]))
}

fn print_json(report: &Report) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(report).map_err(|error| CliError::Failed(vec![error.to_string()]))?;
    output::print(|out| writeln!(out, "{text}"))
}

fn mode(arguments: &MeasureArgs) -> Mode {
    if arguments.thread { Mode::Thread } else { Mode::Polled }
}

fn unit(arguments: &MeasureArgs) -> Unit {
    if arguments.report_gbits { Unit::GigaBits } else { Unit::MegaBytes }
}

fn plan(arguments: &MeasureArgs) -> Plan {
    let op = arguments.op;
    let usual = match (op.is_atomic(), arguments.latency) {
        (true, _) => 8,
        (false, true) => 2,
        (false, false) => 65_536,
    };
    let sizes =
        if arguments.all { SIZES.map(|power| 1 << power).collect() } else { vec![arguments.size.unwrap_or(usual)] };
    let amount = match (arguments.duration, arguments.iters) {
        (Some(time), _) => Amount::Duration(time),
        (None, Some(count)) => Amount::Messages(count),
        (None, None) => Plan::usual_messages(op, arguments.latency),
    };
    let service = arguments.service.map_or(Service::Irn.into(), Carrier::from);
    let is_channel = matches!(service, Carrier::Channels(_));
    Plan {
        op,
        latency: arguments.latency,
        sizes,
        amount,
        queue_pairs: arguments.queue_pairs,
        depth: arguments.tx_depth,
        mtu: arguments.mtu,
        service,
        channel: ChannelPlan {
            chunk: arguments.chunk,
            over: arguments.over,
            paths: arguments.paths,
            select: arguments.select,
            credit: arguments.credit,
            marks: arguments.marks,
            spread: arguments.spread,
        },
        congestion: arguments.cc.clone().unwrap_or_else(|| if is_channel { "rogue" } else { "none" }.to_string()),
        settings: arguments.set.clone(),
        line_rate: arguments.line_rate,
        in_flight: arguments.in_flight,
        verify: arguments.verify,
        faults: FaultPlan {
            loss: arguments.loss,
            reorder: arguments.reorder,
            duplicate: arguments.duplicate,
            corrupt: arguments.corrupt,
            corrupt_kind: arguments.corrupt_kind.map(CorruptionKind::from).unwrap_or_default(),
            seed: arguments.fault_seed,
        },
        // Channels need progress threads in any case.
        mode: if is_channel { Mode::Thread } else { mode(arguments) },
        roce_port: arguments.roce_port,
        give_up_after: arguments.give_up_after,
        security: arguments.security.map(Security::from).unwrap_or_default(),
        credentials: None,
        live: None,
        capture: None,
    }
}

/// The capture file of `--pcap`.
fn capture(arguments: &MeasureArgs) -> Result<Option<CaptureFile>, CliError> {
    arguments.pcap.as_deref().map(peer::capture).transpose()
}

/// `host:port` as text. An IPv6 address gets the brackets that it needs.
pub(crate) fn endpoint(host: &str, port: u16) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn failure(error: PerfError) -> CliError {
    match error {
        PerfError::Plan(error) => CliError::Input(error.to_string()),
        PerfError::Exchange(error @ ExchangeError::Name { .. }) => CliError::Input(error.to_string()),
        error => CliError::Failed(vec![error.to_string()]),
    }
}

fn serve_raw(arguments: &RawArgs) -> Result<(), CliError> {
    let listener = listen(arguments.bind, arguments.port)?;
    let report = |error: raw::RawError| note(&error.to_string());
    raw::serve(&listener, report)
        .map_err(|error| CliError::Io { doing: "cannot accept connections".to_string(), error })
}

fn measure_raw(host: &str, arguments: &RawArgs) -> Result<(), CliError> {
    use std::net::ToSocketAddrs;
    let failed = |error: raw::RawError| CliError::Failed(vec![error.to_string()]);
    let unknown = |error: io::Error| CliError::Input(format!("cannot find {host}: {error}"));
    let server = endpoint(host, arguments.port).to_socket_addrs().map_err(unknown)?.next();
    let server = server.ok_or_else(|| unknown(io::Error::other("it has no address")))?;
    for mode in raw::Mode::ALL {
        let size = arguments.size as usize;
        let case = Case { mode, size, duration: arguments.duration, window: Some(1 << 20) };
        let result = raw::throughput(server, &case).map_err(failed)?;
        let (send, receive) = result.cpu_ns_per_datagram();
        output::print(|out| {
            writeln!(
                out,
                "{mode:<8} {size} bytes: {:.3} Mpps, {:.2} MB/sec, {send:.0} ns to send, {receive:.0} ns to receive",
                result.million_per_second(),
                result.gigabytes_per_second() * 1e9 / f64::from(1 << 20)
            )
        })?;
    }
    let trips = raw::round_trips(server, arguments.size as usize, 10_000).map_err(failed)?;
    let half = |fraction| trips.quantile(fraction).unwrap_or(Time::MAX).as_us() / 2.0;
    output::print(|out| {
        writeln!(
            out,
            "latency  {} bytes: t_min {:.2} us, t_typical {:.2} us, 99 % {:.2} us",
            arguments.size,
            half(0.0),
            half(0.5),
            half(0.99)
        )
    })
}

/// Parses a number of bytes, with or without a unit.
fn parse_size(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes are too many: at most 1 GiB"))
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(bytes) => Ok(bytes),
        Err(_) => Ok(text.parse::<Bytes>().map_err(|error| error.to_string())?.0),
    }
}

/// Parses a time with a unit, or a number of seconds without one.
pub(crate) fn parse_time(text: &str) -> Result<Time, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Time::from_ms(u64::from(seconds) * 1_000)),
        Err(_) => text.parse().map_err(|error: rnic_transport::units::UnitError| error.to_string()),
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("`=` is missing; write KEY=VALUE, for example rate_timer=55us")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units_or_not() {
        assert_eq!(parse_size("64"), Ok(64));
        assert_eq!(parse_size("4KB"), Ok(4_000));
        assert_eq!(parse_size("1 MiB"), Ok(1 << 20));
        assert!(parse_size("5 GB").is_err() && parse_size("1 Gbps").is_err() && parse_size("many").is_err());
        assert_eq!(parse_time("2"), Ok(Time::from_ms(2_000)));
        assert_eq!(parse_time("250 ms"), Ok(Time::from_ms(250)));
        assert!(parse_time("2 KB").is_err());
    }

    #[test]
    fn ipv4_and_ipv6_addresses_get_a_port() {
        assert_eq!(endpoint("10.0.0.2", 5), "10.0.0.2:5");
        assert_eq!(endpoint("fd00::2", 5), "[fd00::2]:5");
        assert_eq!(endpoint("host", 5), "host:5");
    }
}
