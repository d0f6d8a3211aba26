//! The command `rnic model timely`, which solves the fluid model of TIMELY or of patched TIMELY.

use super::report::{Fixed, Report};
use super::{FlowArgs, SolveArgs, gbps, number, parse_setting, refused, size};
use clap::Args;
use rnic_model::timely::{PARAMETERS, Timely};
use rnic_simulator::error::CliError;
use rnic_transport::congestion::{CongestionControl, PatchedTimely, Settings, Timely as Algorithm};
use rnic_transport::{BitRate, Bytes, Time};

#[derive(Args, Debug)]
#[command(after_help = help())]
pub(super) struct TimelyArgs {
    #[command(flatten)]
    flows: FlowArgs,

    /// Use patched TIMELY, which has a fixed point
    #[arg(long)]
    patched: bool,

    /// Rate of the bottleneck and of every host's link
    #[arg(long, value_name = "RATE", default_value = "10Gbps", allow_hyphen_values = true)]
    rate: BitRate,

    /// Propagation part of the feedback delay, in addition to queueing and serialisation [default: min_rtt]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    delay: Option<Time>,

    /// Packet size
    #[arg(long, value_name = "BYTES", default_value = "1000B", allow_hyphen_values = true)]
    packet: Bytes,

    /// Change a parameter; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    #[command(flatten)]
    solve: SolveArgs,
}

fn help() -> String {
    let mut text =
        "Parameters of --set, named as in scenarios, and their defaults (patched-timely.KEY with --patched):\n"
            .to_string();
    for parameter in Algorithm::PARAMETERS.iter().filter(|parameter| PARAMETERS.contains(&parameter.name)) {
        let patched = PatchedTimely::PARAMETERS.iter().find(|other| other.name == parameter.name);
        let default = parameter.default_value().map_or("derived".to_string(), |value| value.to_string());
        let own = parameter.default_value();
        let other = patched.and_then(|other| other.default_value()).filter(|value| Some(value) != own.as_ref());
        let other = other.map_or(String::new(), |value| format!(", patched {value}"));
        let key = format!("timely.{}", parameter.name);
        text += &format!("  {key:15}  {default}{other}: {}\n", parameter.about.split(';').next().unwrap_or_default());
    }
    text += "\nExamples:\n  \
        rnic model timely --start 7Gbps,3Gbps --plot timely.svg\n  \
        rnic model timely --patched --start 7Gbps,3Gbps\n  \
        rnic model timely --patched -N 10 --set patched-timely.segment=64KB";
    text
}

/// Solves the fluid model of TIMELY and prints the solution.
pub(super) fn timely(arguments: &TimelyArgs) -> Result<(), CliError> {
    let run = arguments.solve.run()?;
    let name = if arguments.patched { PatchedTimely::NAME } else { Algorithm::NAME };
    let declared = if arguments.patched { PatchedTimely::PARAMETERS } else { Algorithm::PARAMETERS };
    let mut model = Timely::new(arguments.rate, arguments.patched, &Settings::new(declared)).map_err(refused)?;
    for (key, value) in &arguments.set {
        set(&mut model, name, key, value)?;
    }
    model.packet = arguments.packet;
    model.delay = arguments.delay.unwrap_or(model.min_rtt);
    let fair = BitRate::from_bps(model.rate.as_bps() / u64::from(arguments.flows.count(arguments.flows.flows).max(1)));
    let groups = arguments.flows.groups(arguments.flows.flows, fair)?;
    let flows = groups.iter().map(|group| group.count).sum();
    let point = model.fixed_point(flows).map_err(refused)?;
    let series = model.solve(&groups, &run).map_err(refused)?;
    let check = arguments.solve.check_step.then(|| model.check_step(&groups, &run)).transpose().map_err(refused)?;
    let mut remarks = Vec::new();
    if point.is_none() {
        remarks.push(
            "TIMELY has no fixed point: rates grow while the RTT gradient is 0, and do not depend on the queue length. Patched TIMELY (--patched) has one."
                .to_string(),
        );
    }
    let values = [
        model.t_low.to_string(),
        model.t_high.to_string(),
        model.min_rtt.to_string(),
        model.beta.to_string(),
        model.delta.to_string(),
        model.alpha.to_string(),
        model.segment.to_string(),
    ];
    Report {
        title: format!(
            "{}: {flows} flows, {}, delay {}, packets of {}",
            if arguments.patched { "Patched TIMELY" } else { "TIMELY" },
            model.rate,
            model.delay,
            model.packet
        ),
        parameters: PARAMETERS.into_iter().zip(values).collect(),
        fixed_point: point.map(|point| Fixed {
            queue: point.queue,
            values: vec![
                ("queue", "queue_bytes", point.queue, size(point.queue)),
                ("rate of each flow", "rate_bps", point.rate, gbps(point.rate)),
            ],
            residuals: point.residuals,
            limits: point.limits,
        }),
        remarks,
        series: &series,
        check,
        solve: &arguments.solve,
    }
    .give()
}

/// Sets the parameter of `model` with this key. `algorithm` is the name that the key begins with.
fn set(model: &mut Timely, algorithm: &str, key: &str, text: &str) -> Result<(), CliError> {
    let wrong = |why: String| CliError::Input(format!("{key}: {why}"));
    let time = || text.parse::<Time>().map_err(|error| wrong(error.to_string()));
    let number = || number(text).map_err(wrong);
    match key.strip_prefix(algorithm).and_then(|rest| rest.strip_prefix('.')) {
        Some("t_low") => model.t_low = time()?,
        Some("t_high") => model.t_high = time()?,
        Some("min_rtt") => model.min_rtt = time()?,
        Some("beta") => model.beta = number()?,
        Some("alpha") => model.alpha = number()?,
        Some("delta") => {
            model.delta = text.parse().map_err(|error: rnic_transport::units::UnitError| wrong(error.to_string()))?
        }
        Some("segment") => {
            model.segment = text.parse().map_err(|error: rnic_transport::units::UnitError| wrong(error.to_string()))?;
        }
        _ => {
            let known: Vec<String> = PARAMETERS.iter().map(|name| format!("{algorithm}.{name}")).collect();
            return Err(CliError::Input(format!("unknown parameter `{key}`; accepted: {}", known.join(", "))));
        }
    }
    Ok(())
}
