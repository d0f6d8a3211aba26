//! The command `rnic perf --perftest`, whose peer is a program of perftest.

use super::{MeasureArgs, ServiceName, listen, mode, print_json, unit};
use crate::peer;
use rnic_endpoint::port::CaptureFile;
use rnic_perf::ibverbs::perftest::{Error, Options, Role};
use rnic_perf::{Op, Report, run_perftest, serve_speakers};
use rnic_simulator::error::CliError;
use rnic_simulator::format::Format;
use rnic_simulator::output::{self, note};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::time::Duration;

/// Runs as the server of a perftest client, or measures as the client of a perftest server.
pub(super) fn perftest(arguments: &MeasureArgs) -> Result<(), CliError> {
    let options = options(arguments)?;
    let capture = super::capture(arguments)?;
    match &arguments.host {
        Some(host) => {
            let timeout = Duration::from_secs_f64(options.timeout.as_secs());
            let programs = format!("`{}` or `rnic perf --perftest`", program(&options));
            let stream = peer::dial(host, arguments.port, timeout, &programs)?;
            print(&measure(arguments, options, Role::Client, stream, capture)?, arguments)
        }
        None => serve(arguments, options, &capture),
    }
}

fn serve(arguments: &MeasureArgs, options: Options, capture: &Option<CaptureFile>) -> Result<(), CliError> {
    let listener = listen(arguments.bind, arguments.port)?;
    let serve = |stream, client| {
        let result = measure(arguments, options, Role::Server, stream, capture.clone());
        let result = result.and_then(|report| print(&report, arguments));
        match result {
            _ if arguments.once => ControlFlow::Break(result),
            Ok(()) => ControlFlow::Continue(()),
            Err(CliError::NobodyReads) => ControlFlow::Break(Err(CliError::NobodyReads)),
            Err(error) => {
                note(&format!("{client}: {error}"));
                ControlFlow::Continue(())
            }
        }
    };
    serve_speakers(&listener, serve)
        .map_err(|error| CliError::Io { doing: "cannot accept connections".to_string(), error })?
}

fn measure(
    arguments: &MeasureArgs, options: Options, role: Role, stream: TcpStream, capture: Option<CaptureFile>,
) -> Result<Report, CliError> {
    let device = peer::device(&stream, None, arguments.roce_port, mode(arguments), capture)?;
    run_perftest(&device, options, role, stream).map_err(failure)
}

fn print(report: &Report, arguments: &MeasureArgs) -> Result<(), CliError> {
    if arguments.format == Format::Json {
        return print_json(report);
    }
    let unit = unit(arguments);
    output::print(|out| {
        report.write_head(out, unit)?;
        report.rows.iter().try_for_each(|row| report.write_row(row, out, unit))
    })
}

fn failure(error: Error) -> CliError {
    match error {
        Error::Options(sentence) => CliError::Input(sentence),
        error => CliError::Failed(vec![error.to_string()]),
    }
}

/// The options of the perftest test that the arguments select.
fn options(arguments: &MeasureArgs) -> Result<Options, CliError> {
    if let Some((option, instead)) = impossible(arguments) {
        return Err(CliError::Input(format!("--perftest cannot be combined with {option}: {instead}")));
    }
    let usual = Options::new(arguments.op, arguments.latency);
    let messages = arguments.iters.unwrap_or(u64::from(usual.messages));
    let messages = u32::try_from(messages).map_err(|_| {
        CliError::Input(format!("--perftest cannot be combined with --iters {messages}: at most {}", u32::MAX))
    })?;
    let options = Options {
        size: arguments.size.unwrap_or(usual.size),
        messages,
        queue_pairs: arguments.queue_pairs,
        mtu: arguments.mtu,
        depth: arguments.tx_depth,
        gbits: arguments.report_gbits,
        ..usual
    };
    options.check().map_err(failure)?;
    Ok(options)
}

/// The first given option that perftest does not support, and a text that says what to do instead.
fn impossible(arguments: &MeasureArgs) -> Option<(&'static str, &'static str)> {
    let faults = "faults are injected on both sides, which perftest cannot do; leave it out";
    let service = "rnic supports its reliable connections only; leave it out or use rc";
    let tells = "perftest has no congestion control; leave it out";
    [
        (arguments.all, "--all", "a test has one size; use --size"),
        (arguments.duration.is_some(), "--duration", "both sides count messages; use --iters"),
        (arguments.service == Some(ServiceName::Irn), "--service irn", service),
        (arguments.service == Some(ServiceName::Uc), "--service uc", service),
        (arguments.service == Some(ServiceName::Rogue), "--service rogue", service),
        (arguments.service == Some(ServiceName::Multipath), "--service multipath", service),
        (arguments.cc.is_some(), "--cc", tells),
        (!arguments.set.is_empty(), "--set", tells),
        (arguments.line_rate.is_some(), "--line-rate", tells),
        (
            arguments.in_flight.is_some(),
            "--in-flight",
            "the device's default applies; --tx-depth limits the outstanding messages",
        ),
        (
            arguments.give_up_after.is_some(),
            "--give-up-after",
            "RC's timeout and number of retries apply, as perftest has them; leave it out",
        ),
        (arguments.verify, "--verify", "the content of perftest's messages is not defined; leave it out"),
        (arguments.loss != 0.0, "--loss", faults),
        (arguments.reorder != 0.0, "--reorder", faults),
        (arguments.duplicate != 0.0, "--duplicate", faults),
        (arguments.corrupt != 0.0, "--corrupt", faults),
        (arguments.fault_seed != 1, "--fault-seed", faults),
    ]
    .into_iter()
    .find_map(|(given, option, instead)| given.then_some((option, instead)))
}

/// The name of the perftest program that corresponds to these options, for example `ib_write_bw`.
fn program(options: &Options) -> String {
    let op = match options.op {
        Op::Write => "write",
        Op::Read => "read",
        Op::Send => "send",
        Op::FetchAdd | Op::CompareSwap => "atomic",
    };
    format!("ib_{op}_{}", if options.latency { "lat" } else { "bw" })
}
