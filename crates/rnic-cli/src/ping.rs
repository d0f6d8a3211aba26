//! The command `rnic ping`, which probes the latency to another host over unreliable datagrams.

use crate::perf::{endpoint, listen, parse_time};
use crate::trust::TrustArgs;
use clap::Args;
use rnic_endpoint::exchange::ExchangeError;
use rnic_endpoint::port::ROCE_PORT;
use rnic_probe::summary::write_outcome;
use rnic_probe::{Carrier, PING_PORT, PingError, PingEvent, PingOptions, RespondEvent, RespondOptions, Summary};
use rnic_simulator::error::CliError;
use rnic_simulator::format::Format;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::{self, note};
use rnic_transport::Time;
use std::io::Write;
use std::net::IpAddr;

/// Options that `--listen` refuses, because they apply only to the prober.
const PROBER: [&str; 10] =
    ["host", "count", "interval", "timeout", "size", "paths", "transport", "dscp", "format", "quiet"];

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic ping --listen                          on one host: the responder\n  \
    rnic ping 10.0.0.2                          on the other host: a probe per second, until Ctrl-C\n  \
    rnic ping 10.0.0.2 -c 1000 -i 10ms -q       1000 probes, and the summary alone\n  \
    rnic ping 10.0.0.2 --paths 16 -c 160        over 16 UDP source ports, so over several paths of ECMP\n  \
    rnic ping 10.0.0.2 --transport rc-write     RDMA Writes: no software of the responder takes part\n  \
    rnic ping 10.0.0.2 -c 100 --format json > ping.json\n\n\
    Both sides on one host: rnic ping --listen --bind 127.0.0.1, and rnic ping 127.0.0.1 --roce-port 4792\n\n\
    Exit codes: 0 there was a response; 1 there was none, nobody listens, or the responder ended; 2 invalid input;\n\
    130 and 143 interrupted before all probes of -c.")]
pub(crate) struct PingArgs {
    /// The host to probe, which runs `rnic ping --listen`
    #[arg(value_name = "HOST", required_unless_present = "listen")]
    host: Option<String>,

    /// Be the responder: answer probes until Ctrl-C
    #[arg(short, long, conflicts_with_all = PROBER)]
    listen: bool,

    /// Number of probes [default: until Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Time between two probes; a number without unit is in seconds
    #[arg(short, long, value_name = "TIME", value_parser = parse_seconds, default_value = "1")]
    interval: Time,

    /// Time after which a probe without response is lost; a number without unit is in seconds
    #[arg(short = 'W', long, value_name = "TIME", value_parser = parse_seconds, default_value = "1")]
    timeout: Time,

    /// Payload bytes of a probe, 136 to 4096
    #[arg(short, long, value_name = "BYTES", default_value_t = 512)]
    size: usize,

    /// Number of paths, 1 to 256: each has its own UDP source port, and the probes use the paths in turn
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    paths: u16,

    /// Transport service that carries the probes
    #[arg(long, value_enum, default_value_t = Carrier::Ud)]
    transport: Carrier,

    /// Differentiated services code point of the probes, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: u8,

    /// TCP port of the responder, at which a session begins
    #[arg(short, long, value_name = "N", default_value_t = PING_PORT)]
    port: u16,

    /// UDP port of this host's device
    #[arg(long, value_name = "N", default_value_t = ROCE_PORT)]
    roce_port: u16,

    /// With --listen: listen on this address only [default: all]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "host")]
    bind: Option<IpAddr>,

    #[command(flatten)]
    trust: TrustArgs,

    /// Print the summary alone, and no line for each probe
    #[arg(short, long)]
    quiet: bool,

    /// Output format; json is one document, the summary
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// The note for a device that does not know when the kernel received packets, for the reason `why`.
pub(crate) fn without_arrival_times(why: &str) -> String {
    format!("{why}; the time until this program runs counts as network")
}

/// Probes the given host, or answers probes.
pub(crate) fn ping(arguments: &PingArgs) -> Result<(), CliError> {
    let interruption = Interruption::listen()?;
    match &arguments.host {
        Some(host) => probe(host, arguments, &interruption),
        None => respond(arguments, &interruption),
    }
}

fn probe(host: &str, arguments: &PingArgs, interruption: &Interruption) -> Result<(), CliError> {
    let options = PingOptions {
        count: arguments.count,
        interval: arguments.interval,
        timeout: arguments.timeout,
        size: arguments.size,
        paths: arguments.paths,
        dscp: arguments.dscp,
        roce_port: arguments.roce_port,
        carrier: arguments.transport,
        credentials: arguments.trust.credentials()?,
    };
    let table = arguments.format == Format::Table;
    let mut printed = Ok(());
    let event = |event: PingEvent<'_>, port| {
        if let PingEvent::NoArrivalTimes(why) = event {
            return note(&without_arrival_times(why));
        }
        if !table || printed.is_err() {
            return;
        }
        let lines = |out: &mut dyn Write| match event {
            PingEvent::Open(responder, qpn) => {
                let (size, paths) = (options.size, options.paths);
                let paths = if paths == 1 { "1 path".to_string() } else { format!("{paths} paths") };
                writeln!(out, "{host}: {responder}, queue pair {qpn:#x}; probes of {size} bytes over {paths}")
            }
            PingEvent::NoArrivalTimes(_) => Ok(()),
            PingEvent::Outcome(_) if arguments.quiet => Ok(()),
            PingEvent::Outcome(outcome) => write_outcome(outcome, port, out),
        };
        printed = output::print(lines);
        if printed.is_err() {
            // The output is closed, so stop the probes.
            interruption.flag().store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let summary =
        rnic_probe::ping(&endpoint(host, arguments.port), &options, interruption.flag(), event).map_err(failure)?;
    printed?;
    let summary = Summary { host: host.to_string(), ..summary };
    match arguments.format {
        Format::Table => output::print(|out| summary.write(out))?,
        Format::Json => {
            let text =
                serde_json::to_string_pretty(&summary).map_err(|error| CliError::Failed(vec![error.to_string()]))?;
            output::print(|out| writeln!(out, "{text}"))?;
        }
    }
    verdict(&summary, arguments, interruption.exit_code())
}

/// The result of the command after the summary: an error if it was interrupted early, if the responder ended, or if no
/// probe was answered. `signal` is the exit code of an interruption.
fn verdict(summary: &Summary, arguments: &PingArgs, signal: Option<u8>) -> Result<(), CliError> {
    let Summary { host, probes, answered, responder_ended, .. } = summary;
    match (signal, arguments.count) {
        (Some(code), Some(count)) if *probes < count => {
            let message = format!("{probes} of {count} probes have a result");
            return Err(CliError::Interrupted { code, message });
        }
        (Some(code), None) if *probes == 0 => {
            return Err(CliError::Interrupted { code, message: "no probe has a result".to_string() });
        }
        _ => {}
    }
    if *responder_ended {
        return Err(CliError::Failed(vec![format!("the responder at {host} ended")]));
    }
    if *answered == 0 {
        let port = summary.responder.port();
        return Err(CliError::Failed(vec![format!(
            "{host} opened a session over TCP, but answered none of {probes} probes: \
             does a firewall drop UDP port {port} or {}?",
            arguments.roce_port
        )]));
    }
    Ok(())
}

fn respond(arguments: &PingArgs, interruption: &Interruption) -> Result<(), CliError> {
    let listener = listen(arguments.bind, arguments.port)?;
    let options = RespondOptions { roce_port: arguments.roce_port, credentials: arguments.trust.credentials()? };
    let event = |event| {
        note(&match event {
            RespondEvent::Opened(peer) => format!("{peer}: a session begins"),
            RespondEvent::Closed(peer) => format!("{peer}: the session ends"),
            RespondEvent::Failed(peer, why) => format!("{peer}: {why}"),
            RespondEvent::NoArrivalTimes(address, why) => format!("{address}: {}", without_arrival_times(&why)),
        });
    };
    let counters = rnic_probe::respond(&listener, options, interruption.flag(), event)
        .map_err(|error| CliError::Io { doing: "cannot accept connections".to_string(), error })?;
    note(&format!(
        "{} probes answered, {} beyond the rate, {} datagrams of strangers",
        counters.answered, counters.limited, counters.unexpected
    ));
    Ok(())
}

fn failure(error: PingError) -> CliError {
    match error {
        PingError::Option(why) => CliError::Input(why),
        PingError::Exchange(error @ ExchangeError::Name { .. }) => CliError::Input(error.to_string()),
        error => CliError::Failed(vec![error.to_string()]),
    }
}

/// Parses a time with a unit, or a number of seconds without one, such as 0.2.
fn parse_seconds(text: &str) -> Result<Time, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Time::from_us((seconds * 1e6).round() as u64)),
        Ok(_) => Err("it must be 0 to 86400 seconds".to_string()),
        Err(_) => parse_time(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        assert_eq!(parse_seconds("0.2"), Ok(Time::from_ms(200)));
        assert_eq!(parse_seconds("3"), Ok(Time::from_ms(3_000)));
        assert_eq!(parse_seconds("10ms"), Ok(Time::from_ms(10)));
        assert!(parse_seconds("-1").is_err() && parse_seconds("NaN").is_err() && parse_seconds("1e9").is_err());
    }
}
