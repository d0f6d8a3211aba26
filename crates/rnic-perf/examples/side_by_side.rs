//! Compares RDMA by rnic, plain datagrams and other software in one run, between two network namespaces of this host.
//!
//! ```sh
//! cargo run --release -p rnic-perf --example side_by_side -- --mtu 9000,1500 --repeat 5
//! ```
//!
//! It needs root, or a system that allows user namespaces. `--others` also measures libfabric, UCX and iperf3, if they
//! are installed (Debian packages `libfabric-bin`, `ucx-utils` and `iperf3`).
//!
//! The repetitions of all measurements alternate, so that other load on the host affects all measurements alike. Each
//! line of the output holds the median, the minimum and the maximum. The lines "ceiling" are for plain UDP, sent by
//! `UDP_SEGMENT` and received by `UDP_GRO`, with the longest datagrams that the path MTU allows.

use clap::{Parser, ValueEnum};
use nix::sys::resource::{UsageWho, getrusage};
use rnic_endpoint::Security;
use rnic_netns::Pair;
use rnic_perf::raw::{self, Case, Mode};
use rnic_perf::{Amount, FaultPlan, Op, PerfError, Plan, ServeOptions, run, serve};
use rnic_record::{Column, Record, Table, cells};
use rnic_transport::Time;
use rnic_verbs::Service;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
#[command(about = "Compares RDMA by rnic with plain datagrams and other software")]
struct Arguments {
    /// IP packet sizes of the virtual link
    #[arg(long, value_delimiter = ',', default_values_t = [9000, 1500])]
    mtu: Vec<u32>,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Duration of each measurement in milliseconds
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
    /// Also measure libfabric's fi_pingpong over its reliable datagrams, ucx_perftest and iperf3 over TCP, if they are
    /// installed, and the CPU time of both ends per GB
    #[arg(long)]
    others: bool,
    /// Maximum packets in flight on a queue pair; each of several values is measured
    #[arg(long, value_delimiter = ',')]
    in_flight: Vec<u32>,
    /// Protections of the packets; each of several values is measured
    #[arg(long, value_delimiter = ',', default_values = ["none", "authenticated", "encrypted"])]
    security: Vec<SecurityName>,
    /// Message sizes in bytes of IRN Writes, whose bandwidth is measured in addition
    #[arg(long, value_delimiter = ',', default_values_t = [256, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 12 << 10, 16 << 10, 64 << 10, 256 << 10, 8 << 20])]
    sizes: Vec<u32>,
    /// Also print counters of both ends for each measurement: calls that sent packets, packets, retransmissions
    #[arg(long)]
    counters: bool,
    /// File into which the results are also recorded, for `cargo run -p rnic-pages`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Measure only the lines whose names contain this text
    #[arg(long, default_value = "")]
    only: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum SecurityName {
    None,
    Authenticated,
    Encrypted,
}

impl SecurityName {
    fn security(self) -> Security {
        match self {
            SecurityName::None => Security::None,
            SecurityName::Authenticated => Security::Authenticated,
            SecurityName::Encrypted => Security::Encrypted,
        }
    }
}

/// The repeated measurements of one line of the output.
#[derive(Default)]
struct Series {
    unit: &'static str,
    values: Vec<f64>,
}

impl Series {
    fn median(&mut self) -> f64 {
        self.values.sort_by(f64::total_cmp);
        self.values.get(self.values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

struct Bench<'a> {
    arguments: &'a Arguments,
    pair: &'a Pair,
    series: BTreeMap<String, Series>,
}

const RNIC: u16 = 18_515;
const RAW: u16 = 18_516;
const SERVER: IpAddr = Pair::B4;
/// Timeout in seconds for a measurement by other software.
const PATIENCE: &str = "20";

impl Bench<'_> {
    /// Records a result. A result that is not a number is left out, because the other software did not print it.
    fn note(&mut self, name: &str, unit: &'static str, value: f64) {
        if value.is_nan() {
            return;
        }
        let series = self.series.entry(name.to_string()).or_default();
        series.unit = unit;
        series.values.push(value);
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(&self.arguments.only)
    }

    fn duration(&self) -> Time {
        Time::from_ms(self.arguments.milliseconds)
    }

    fn rnic(&mut self, name: &str, plan: &Plan) -> Result<(), PerfError> {
        if !self.wants(name) {
            return Ok(());
        }
        let address = SocketAddr::new(SERVER, RNIC);
        let report = self.pair.a.run(|| run(address, plan, &AtomicBool::new(false), |_, _| {}))?;
        let row = &report.rows[0];
        if self.arguments.counters {
            for (end, side) in [("client", &row.client), ("server", &row.server)] {
                let count = |name: &str| side.as_ref().and_then(|side| side.counts.get(name)).copied().unwrap_or(0);
                let names = ["port_sent_batches", "packets_sent", "retransmitted", "duplicates", "timeouts"];
                let counts: Vec<String> = names.map(|name| format!("{name} {}", count(name))).into();
                eprintln!("{}, {end}: {}", &name[2..], counts.join(", "));
            }
        }
        match (&row.latency, row.bytes < 256) {
            (Some(latency), _) => {
                self.note(name, "us", latency.typical);
                self.note(&format!("{name}, 99th percentile"), "us", latency.percentile_99);
            }
            (None, true) => self.note(name, "Mmsg/s", row.messages_per_second / 1e6),
            (None, false) => self.note(name, "GB/s", row.bytes_per_second / 1e9),
        }
        Ok(())
    }

    fn raw(&mut self, mtu: u32) -> Result<(), raw::RawError> {
        let server = SocketAddr::new(SERVER, RAW);
        let size = mtu as usize - 28;
        for (name, mode, size, window) in [
            ("1 ceiling, datagrams as long as the path carries", Mode::Merged, size, Some(1 << 20)),
            ("1 ceiling, unlimited", Mode::Merged, size, None),
            ("4 ceiling, datagrams of 64 B", Mode::Merged, 64, Some(1 << 18)),
        ] {
            if !self.wants(name) {
                continue;
            }
            let case = Case { mode, size, duration: self.duration(), window };
            let result = self.pair.a.run(|| raw::throughput(server, &case))?;
            if size == 64 {
                self.note(name, "Mmsg/s", result.million_per_second());
            } else {
                self.note(name, "GB/s", result.gigabytes_per_second());
            }
        }
        let name = "5 ceiling, latency 64 B";
        if self.wants(name) {
            let trips = self.pair.a.run(|| raw::round_trips(server, 64, 5_000))?;
            let quantile = |share| trips.quantile(share).unwrap_or(Time::MAX).as_us() / 2.0;
            self.note(name, "us", quantile(0.5));
            self.note(&format!("{name}, 99th percentile"), "us", quantile(0.99));
        }
        Ok(())
    }

    fn all(&mut self, mtu: u32) -> Result<(), Box<dyn Error>> {
        self.raw(mtu)?;
        for security in self.arguments.security.iter().map(|name| name.security()) {
            if self.arguments.in_flight.is_empty() {
                self.endpoint(security, None, "")?;
            }
            for &in_flight in &self.arguments.in_flight {
                self.endpoint(security, Some(in_flight), &format!(", {in_flight} in flight"))?;
            }
        }
        if self.arguments.others {
            // If other software does not finish a measurement, the median leaves it out.
            for done in [self.libfabric(), self.ucx(), self.iperf(), self.cpu()] {
                done.unwrap_or_else(|error| eprintln!("{error}"));
            }
        }
        Ok(())
    }

    fn endpoint(&mut self, security: Security, in_flight: Option<u32>, note: &str) -> Result<(), PerfError> {
        let amount = Amount::Duration(self.duration());
        let large = Plan { sizes: vec![1 << 20], amount, depth: 16, ..Plan::default() };
        let small = Plan { sizes: vec![64], amount, ..Plan::default() };
        let latency = Plan { latency: true, sizes: vec![64], amount: Amount::Messages(5_000), ..Plan::default() };
        let note = format!("{note}, {}", security.name());
        let several = Plan { queue_pairs: 16, ..small.clone() };
        for service in [Service::Irn, Service::Rc] {
            let with = |plan: &Plan, op| Plan { op, service: service.into(), in_flight, security, ..plan.clone() };
            self.rnic(&format!("4 {service:?} write 64 B, 16 queue pairs{note}"), &with(&several, Op::Write))?;
            self.rnic(&format!("2 {service:?} write 1 MiB{note}"), &with(&large, Op::Write))?;
            self.rnic(&format!("2 {service:?} read 1 MiB{note}"), &with(&large, Op::Read))?;
            self.rnic(&format!("2 {service:?} send 1 MiB{note}"), &with(&large, Op::Send))?;
            let loss = FaultPlan { loss: 1.0, seed: 7, ..FaultPlan::default() };
            let lossy = Plan { faults: loss, ..with(&large, Op::Write) };
            self.rnic(&format!("3 {service:?} write 1 MiB, 1 % loss{note}"), &lossy)?;
            self.rnic(&format!("4 {service:?} write 64 B{note}"), &with(&small, Op::Write))?;
            self.rnic(&format!("4 {service:?} send 64 B{note}"), &with(&small, Op::Send))?;
            self.rnic(&format!("5 {service:?} write latency 64 B{note}"), &with(&latency, Op::Write))?;
            self.rnic(&format!("5 {service:?} read latency 64 B (round trip){note}"), &with(&latency, Op::Read))?;
        }
        for bytes in self.arguments.sizes.clone() {
            // The same bytes in flight as with 1 MiB, as far as perf allows.
            let depth = (16u32 << 20).checked_div(bytes).map_or(1, |depth| depth.clamp(16, 1_024));
            let plan = Plan { sizes: vec![bytes], amount, depth, in_flight, security, ..Plan::default() };
            self.rnic(&format!("6 Irn write {bytes:>8} B{note}"), &plan)?;
        }
        Ok(())
    }

    /// Runs the same program as server and as client, and returns the client's output.
    fn two(&self, program: &str, server: &[&str], client: &[&str]) -> Result<String, Box<dyn Error>> {
        let start = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let _server = self.pair.b.child(&mut start(program, server))?;
        // ofi_rxd may hang after a packet loss, so the client runs with a timeout.
        let client: Vec<&str> = [PATIENCE, program].into_iter().chain(client.iter().copied()).collect();
        let mut last = String::new();
        for _ in 0..5 {
            // It takes a while until the server listens.
            std::thread::park_timeout(std::time::Duration::from_millis(100));
            let mut client = start("timeout", &client);
            let output = self.pair.a.run(|| client.stdout(Stdio::piped()).stderr(Stdio::piped()).output())?;
            last = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() {
                return Ok(last);
            }
        }
        Err(format!("{program} does not work: {last}").into())
    }

    fn libfabric(&mut self) -> Result<(), Box<dyn Error>> {
        for (name, size, iterations) in
            [("2 ofi_rxd 1 MiB", "1048576", "200"), ("5 ofi_rxd latency 64 B", "64", "2000")]
        {
            if !self.wants(name) {
                continue;
            }
            let common = ["-p", "udp;ofi_rxd", "-e", "rdm", "-I", iterations, "-S", size];
            let client: Vec<&str> = common.into_iter().chain(["10.77.0.2"]).collect();
            let text = self.two("fi_pingpong", &common, &client)?;
            // bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
            let row: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
            let number = |at: usize| row.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or(f64::NAN);
            if size == "64" {
                self.note(name, "us", number(6));
            } else {
                self.note(name, "GB/s", number(5) / 1e3);
            }
        }
        Ok(())
    }

    fn ucx(&mut self) -> Result<(), Box<dyn Error>> {
        for (name, test, size, iterations) in [
            ("2 UCX over TCP, put 1 MiB", "ucp_put_bw", "1048576", "500"),
            ("4 UCX over TCP, tag 64 B", "tag_bw", "64", "100000"),
            ("5 UCX over TCP, latency 64 B", "tag_lat", "64", "5000"),
            ("5 UCX over TCP, latency 64 B, 99th percentile", "tag_lat", "64", "5000"),
        ] {
            if !self.wants(name) {
                continue;
            }
            let rank = if name.ends_with("percentile") { "99" } else { "50" };
            let row = self.ucx_test(test, size, iterations, rank)?;
            let number = |at: usize| row.get(at).copied().unwrap_or(f64::NAN);
            match size {
                // The first column is that of the percentile.
                "64" if test == "tag_lat" => self.note(name, "us", number(1)),
                "64" => self.note(name, "Mmsg/s", number(7) / 1e6),
                _ => self.note(name, "GB/s", number(5) * f64::from(1 << 20) / 1e9),
            }
        }
        Ok(())
    }

    /// Runs a test of ucx_perftest over TCP. Returns the numbers of its last line: iterations, latency in us (a
    /// percentile, mean of the last interval, mean), MB/s (two columns), messages per second (two columns).
    fn ucx_test(&self, test: &str, size: &str, iterations: &str, rank: &str) -> Result<Vec<f64>, Box<dyn Error>> {
        // UCX looks for network devices in /sys, which shows the devices of the namespace in which it was mounted.
        // So /sys is mounted again in each namespace.
        let mount = "mount -t sysfs none /sys && UCX_TLS=tcp UCX_NET_DEVICES=veth exec ucx_perftest -p 18517";
        let server = ["--mount", "sh", "-c", mount];
        let measure = format!("{mount} {SERVER} -t {test} -s {size} -n {iterations} -R {rank} -f");
        let text = self.two("unshare", &server, &["--mount", "sh", "-c", &measure])?;
        let rows = text.lines().rev();
        let numbers = |line: &str| line.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<f64>>();
        Ok(rows.map(numbers).find(|row| row.len() >= 7).unwrap_or_default())
    }

    /// Runs iperf3 over TCP for `mib` MiB, written in blocks of 1 MiB; returns the GB/s that arrived.
    fn iperf_test(&self, mib: u32) -> Result<f64, Box<dyn Error>> {
        let bytes = format!("{mib}M");
        let (server, port) = (SERVER.to_string(), "18518");
        let client = ["-c", &server, "-p", port, "-n", &bytes, "-l", "1M", "-J"];
        let text = self.two("iperf3", &["-s", "-p", port], &client)?;
        let report: serde_json::Value = serde_json::from_str(&text)?;
        Ok(report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(f64::NAN) / 8e9)
    }

    fn iperf(&mut self) -> Result<(), Box<dyn Error>> {
        let name = "2 iperf3, TCP";
        if self.wants(name) {
            let rate = self.iperf_test(2_048)?;
            self.note(name, "GB/s", rate);
        }
        Ok(())
    }

    /// Measures the CPU time of both ends per GB. The difference between a long and a short transfer excludes the time
    /// to set up the connection.
    fn cpu(&mut self) -> Result<(), Box<dyn Error>> {
        const MIB: [u32; 2] = [512, 3_584];
        let mut measure = |name: &str, run: Transfer<'_, Self>| {
            if !self.wants(name) {
                return Ok(());
            }
            let mut costs = [0.0; 2];
            for (cost, mib) in costs.iter_mut().zip(MIB) {
                let start = cpu_seconds()?;
                run(self, mib)?;
                *cost = cpu_seconds()? - start;
            }
            let gigabytes = f64::from(MIB[1] - MIB[0]) * f64::from(1 << 20) / 1e9;
            self.note(name, "s/GB", (costs[1] - costs[0]) / gigabytes);
            Ok::<(), Box<dyn Error>>(())
        };
        for security in [Security::None, Security::Authenticated, Security::Encrypted] {
            let write = move |bench: &Self, mib: u32| -> Result<(), Box<dyn Error>> {
                let amount = Amount::Messages(mib.into());
                let plan = Plan { sizes: vec![1 << 20], amount, depth: 16, security, ..Plan::default() };
                let address = SocketAddr::new(SERVER, RNIC);
                bench.pair.a.run(|| run(address, &plan, &AtomicBool::new(false), |_, _| {}))?;
                Ok(())
            };
            measure(&format!("7 CPU time, Irn write 1 MiB, {}", security.name()), &write)?;
        }
        measure("7 CPU time, UCX over TCP, put 1 MiB", &|bench, mib| {
            bench.ucx_test("ucp_put_bw", "1048576", &mib.to_string(), "50").map(drop)
        })?;
        measure("7 CPU time, iperf3, TCP", &|bench, mib| bench.iperf_test(mib).map(drop))
    }
}

/// Transfers a number of MiB.
type Transfer<'a, B> = &'a dyn Fn(&B, u32) -> Result<(), Box<dyn Error>>;

/// CPU time in seconds of this process and of its children that have ended.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let mut seconds = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        for time in [usage.user_time(), usage.system_time()] {
            seconds += time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        }
    }
    Ok(seconds)
}

/// Measures everything with one MTU and prints it; returns the results by name.
fn between(arguments: &Arguments, mtu: u32) -> Result<BTreeMap<String, Series>, Box<dyn Error>> {
    let pair = Pair::new(mtu)?;
    let listen = |port| pair.b.run(|| TcpListener::bind(SocketAddr::new(SERVER, port)));
    let (rnic, plain) = (listen(RNIC)?, listen(RAW)?);
    // The servers' threads end with the process.
    pair.b.spawn(move || {
        let options = ServeOptions::default();
        let failed = |served: rnic_perf::Served| {
            if let Err(error) = served.result {
                eprintln!("server: {error}");
            }
        };
        serve(&rnic, options, &AtomicBool::new(false), failed)
    });
    pair.b.spawn(move || raw::serve(&plain, |error| eprintln!("{error}")));
    let mut bench = Bench { arguments, pair: &pair, series: BTreeMap::new() };
    for _ in 0..arguments.repeat.max(1) {
        bench.all(mtu)?;
    }
    println!("MTU {mtu}: median (smallest to largest) of {}", arguments.repeat);
    for (name, series) in &mut bench.series {
        let median = series.median();
        let (low, high) = (series.values[0], series.values[series.values.len() - 1]);
        println!("  {:<62} {median:>9.3} {:<7} ({low:.3} to {high:.3})", &name[2..], series.unit);
    }
    Ok(bench.series)
}

/// The tables of a record: the first character of a name in the output, and the table of the names that begin with it.
const TABLES: [(&str, &str, &str); 7] = [
    ("1", "bandwidth", "1 MiB, GB/s"),
    ("2", "bandwidth", "1 MiB, GB/s"),
    ("3", "bandwidth", "1 MiB, GB/s"),
    ("4", "rate", "64 B, million messages/s"),
    ("5", "latency", "64 B, us"),
    ("6", "sizes", "IRN Write, GB/s"),
    ("7", "cpu", "CPU time of both sides, s/GB"),
];

/// Records the results, a column for each MTU.
fn record(arguments: &Arguments, all: &[(u32, BTreeMap<String, Series>)]) -> Record {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("cargo run --release -p rnic-perf --example side_by_side -- {}", words.join(" "));
    let mut record = Record::now("The endpoint beside other software", command);
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, series)| series.keys()).collect();
    for (_, table, title) in TABLES {
        let mut columns = vec![Column::new(title)];
        columns.extend(arguments.mtu.iter().map(|mtu| Column::new(format!("MTU {mtu}")).decimals(2)));
        let mut own = Table::new(columns);
        let belongs = |name: &&&String| TABLES.iter().any(|(first, to, _)| *to == table && name.starts_with(first));
        for name in names.iter().filter(belongs) {
            let of = |(_, series): &(u32, BTreeMap<String, Series>)| match series.get(*name).map(|own| &own.values) {
                Some(values) if !values.is_empty() => {
                    cells(&[values[values.len() / 2], values[0], values[values.len() - 1]])
                }
                _ => Value::Null,
            };
            own.rows.push(std::iter::once(json!(name[2..])).chain(all.iter().map(of)).collect());
        }
        if !own.rows.is_empty() {
            record.put(table, own);
        }
    }
    record
}

/// Measures with all MTUs, and records the results.
fn measure(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut all = Vec::new();
    for &mtu in &arguments.mtu {
        all.push((mtu, between(arguments, mtu)?));
    }
    if let Some(path) = &arguments.record {
        record(arguments, &all).write(path)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
