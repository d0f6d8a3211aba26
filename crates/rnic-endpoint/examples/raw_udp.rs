//! How fast and how soon plain datagrams are: `raw_udp serve ADDRESS` on one host, `raw_udp measure ADDRESS` on the other, or
//! `raw_udp namespaces` for both in two network namespaces of this one.
//!
//! A row holds the median of several repetitions by rate, with the smallest and the largest rate, and the CPU time per datagram of the
//! sending and the receiving thread.

use clap::{Parser, Subcommand};
use rnic_endpoint::port::SendError;
use rnic_endpoint::raw::{Case, Mode, RawError, Throughput, round_trips, serve, throughput};
use rnic_netns::Pair;
use rnic_transport::Time;
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Measures plain UDP datagrams between two hosts")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take part in the measurements of others
    Serve {
        /// Where to listen, for example 10.0.0.2:18515
        address: SocketAddr,
    },
    /// Measure towards a host that serves
    Measure {
        /// Where it listens
        address: SocketAddr,
        #[command(flatten)]
        options: Options,
    },
    /// Measure between two network namespaces of this host
    Namespaces {
        /// IP packet sizes of the virtual cable
        #[arg(long, value_delimiter = ',', default_values_t = [1500, 9000])]
        mtu: Vec<u32>,
        /// Use IPv6
        #[arg(long)]
        ipv6: bool,
        #[command(flatten)]
        options: Options,
    },
}

#[derive(clap::Args, Clone)]
struct Options {
    /// UDP payload bytes; sizes that the path does not carry in one piece are left out
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1024, 4096, 8192])]
    sizes: Vec<usize>,
    /// How datagrams pass the kernel: plain, gso, gso+gro
    #[arg(long, value_delimiter = ',', default_values_t = Mode::ALL)]
    modes: Vec<Mode>,
    /// Milliseconds of each measurement
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Repetitions of each
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Most bytes on the way; 0 for as many as can be sent
    #[arg(long, default_value_t = 1 << 20)]
    window: u64,
    /// Round trips of each repetition; 0 for none
    #[arg(long, default_value_t = 20_000)]
    round_trips: u32,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve { address } => listen(address),
        Command::Measure { address, options } => measure(address, &options),
        Command::Namespaces { mtu, ipv6, options } => mtu.iter().try_for_each(|&mtu| between(mtu, ipv6, &options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn listen(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
    Ok(serve(&listener, |error| eprintln!("{error}"))?)
}

fn between(mtu: u32, ipv6: bool, options: &Options) -> Result<(), Box<dyn Error>> {
    let pair = Pair::new(mtu)?;
    let address = SocketAddr::new(if ipv6 { Pair::B6 } else { Pair::B4 }, 18_515);
    let listener = pair.b.run(|| TcpListener::bind(address))?;
    // It ends with the process.
    pair.b.spawn(move || serve(&listener, |error| eprintln!("{error}")));
    println!("# MTU {mtu}, {}", if ipv6 { "IPv6" } else { "IPv4" });
    let measured = pair.a.run(|| measure(address, options).map_err(|error| error.to_string()));
    Ok(measured?)
}

fn measure(address: SocketAddr, options: &Options) -> Result<(), Box<dyn Error>> {
    println!("mode\tsize\tMpps\tGB/s\tmin\tmax\tlost %\tsend ns\treceive ns");
    let window = (options.window > 0).then_some(options.window);
    for &size in &options.sizes {
        for &mode in &options.modes {
            let case = Case { mode, size, duration: Time::from_ms(options.milliseconds), window };
            let runs: Result<Vec<_>, _> = (0..options.repeat.max(1)).map(|_| throughput(address, &case)).collect();
            match runs {
                Ok(runs) => println!("{mode}\t{size}\t{}", row(runs)),
                Err(RawError::Send(SendError::TooLong { .. })) => {
                    println!("{mode}\t{size}\tlonger than the path carries")
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    if options.round_trips == 0 {
        return Ok(());
    }
    let mut trips = Vec::new();
    for _ in 0..options.repeat.max(1) {
        let run = round_trips(address, 64, options.round_trips)?;
        let quantile = |fraction| run.quantile(fraction).unwrap_or(Time::MAX).as_us();
        trips.push([0.0, 0.5, 0.99].map(quantile));
    }
    trips.sort_by(|a, b| a[1].total_cmp(&b[1]));
    let [least, typical, most] = trips[trips.len() / 2];
    println!("round trip\t64\tmin {least:.2} us\tmedian {typical:.2} us\t99 % {most:.2} us");
    Ok(())
}

fn row(mut runs: Vec<Throughput>) -> String {
    runs.sort_by(|a, b| a.gigabytes_per_second().total_cmp(&b.gigabytes_per_second()));
    let (low, high) = (runs[0].gigabytes_per_second(), runs[runs.len() - 1].gigabytes_per_second());
    let run = runs[runs.len() / 2];
    let lost = 100.0 * (1.0 - run.received as f64 / run.sent as f64);
    let (send, receive) = run.cpu_ns_per_datagram();
    let (rate, speed) = (run.million_per_second(), run.gigabytes_per_second());
    format!("{rate:.3}\t{speed:.3}\t{low:.3}\t{high:.3}\t{lost:.2}\t{send:.0}\t{receive:.0}")
}
