//! The command `rnic model dcqcn`, which solves the fluid model of DCQCN.

use super::figures::{self, FigureName};
use super::report::{Fixed, Report};
use super::{FlowArgs, SolveArgs, number, parse_setting, refused, size};
use clap::Args;
use rnic_model::dcqcn::{Dcqcn, PARAMETERS};
use rnic_model::series::Group;
use rnic_simulator::error::CliError;
use rnic_transport::congestion::{CongestionControl, Dcqcn as Algorithm};
use rnic_transport::{BitRate, Bytes, Time};

#[derive(Args, Debug)]
#[command(after_help = help())]
pub(super) struct DcqcnArgs {
    #[command(flatten)]
    flows: FlowArgs,

    /// Rate of the bottleneck and of every host's link
    #[arg(long, value_name = "RATE", default_value = "40Gbps", allow_hyphen_values = true)]
    rate: BitRate,

    /// Control delay: age of the ECN marks and of the packet rate to which a sender reacts
    #[arg(long, value_name = "TIME", default_value = "50us", allow_hyphen_values = true)]
    delay: Time,

    /// Packet size; the marking probability is per packet
    #[arg(long, value_name = "BYTES", default_value = "1000B", allow_hyphen_values = true)]
    packet: Bytes,

    /// Use the parameters of QCN and DCTCP as defaults (B 150 KB, T 1.5 ms, Kmin = Kmax = 40 KB, Pmax 1, g 1/16)
    #[arg(long)]
    strawman: bool,

    /// Change a parameter; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,

    /// Solve the model for each of these values of a parameter, and compare the solutions
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = parse_setting)]
    sweep: Option<(String, String)>,

    /// Solve the model for the cases of a figure of the DCQCN paper
    #[arg(long, value_enum, value_name = "FIGURE", conflicts_with_all = ["sweep", "set", "strawman", "flows", "start", "begin", "check_step"])]
    figure: Option<FigureName>,

    #[command(flatten)]
    pub(super) solve: SolveArgs,
}

/// Symbols of the DCQCN paper, each with the key of the parameter that it stands for.
const LETTERS: [(&str, &str); 9] = [
    ("B", "dcqcn.byte_counter"),
    ("T", "dcqcn.rate_timer"),
    ("F", "dcqcn.fast_recovery"),
    ("g", "dcqcn.g"),
    ("R_AI", "dcqcn.r_ai"),
    ("Kmin", "ecn.kmin"),
    ("Kmax", "ecn.kmax"),
    ("Pmax", "ecn.pmax"),
    ("N", "flows"),
];

fn help() -> String {
    let mut text = "Parameters of --set and --sweep, named as in scenarios, and their defaults:\n".to_string();
    for parameter in Algorithm::PARAMETERS.iter().filter(|parameter| PARAMETERS.contains(&parameter.name)) {
        let default = parameter.default_value().map_or(String::new(), |value| value.to_string());
        let key = format!("dcqcn.{}", parameter.name);
        text += &format!("  {key:21}  {default}: {}\n", parameter.about.split(';').next().unwrap_or_default());
    }
    let marking = Dcqcn::deployed(BitRate::from_gbps(40)).marking;
    text += &format!("  {:21}  {}: no packet is marked up to this queue length\n", "ecn.kmin", marking.kmin);
    text += &format!("  {:21}  {}: every packet is marked above this queue length\n", "ecn.kmax", marking.kmax);
    text += &format!("  {:21}  {}: marking probability at kmax\n", "ecn.pmax", marking.pmax);
    text += "--sweep also accepts flows, rate, delay and packet. Both accept the symbols of the paper: B, T, F, g, R_AI, Kmin, Kmax, Pmax, N.\n\n\
        Examples:\n  \
        rnic model dcqcn -N 8\n  \
        rnic model dcqcn --start 40Gbps,0Gbps --plot rates.svg\n  \
        rnic model dcqcn -N 4 --set dcqcn.g=1/16 --check-step\n  \
        rnic model dcqcn -N 8 --sweep g=1/16,1/64,1/256 --format csv\n  \
        rnic model dcqcn --figure fig11 --plot fig11.svg";
    text
}

/// The model to solve, and its number of flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) model: Dcqcn,
    /// Number of flows; `None` if it was not given.
    pub(super) flows: Option<u32>,
}

impl Setup {
    /// Sets the parameter with this key or symbol, the number of flows, the rate, the delay or the packet size.
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), CliError> {
        let key = LETTERS.iter().find(|(letter, _)| *letter == key).map_or(key, |(_, name)| name);
        let wrong = |why: String| CliError::Input(format!("{key}: {why}"));
        let rate = || text.parse::<BitRate>().map_err(|error| wrong(error.to_string()));
        let time = || text.parse::<Time>().map_err(|error| wrong(error.to_string()));
        let bytes = || text.parse::<Bytes>().map_err(|error| wrong(error.to_string()));
        let number = || number(text).map_err(wrong);
        let count =
            || text.parse::<u32>().map_err(|_| wrong(format!("`{text}` is not a whole number; write for example 5")));
        let model = &mut self.model;
        match key {
            "dcqcn.g" => model.g = number()?,
            "dcqcn.rate_timer" => model.rate_timer = time()?,
            "dcqcn.byte_counter" => model.byte_counter = bytes()?,
            "dcqcn.fast_recovery" => model.fast_recovery = u64::from(count()?),
            "dcqcn.cnp_interval" => model.cnp_interval = time()?,
            "dcqcn.alpha_timer" => model.alpha_timer = time()?,
            "dcqcn.r_ai" => model.r_ai = rate()?,
            "ecn.kmin" => model.marking.kmin = bytes()?,
            "ecn.kmax" => model.marking.kmax = bytes()?,
            "ecn.pmax" => model.marking.pmax = number()?,
            "flows" => self.flows = Some(count()?),
            "rate" => model.rate = rate()?,
            "delay" => model.delay = time()?,
            "packet" => model.packet = bytes()?,
            _ => return Err(CliError::Input(unknown(key))),
        }
        Ok(())
    }
}

fn unknown(key: &str) -> String {
    let name = key.strip_prefix("dcqcn.").unwrap_or(key);
    let known: Vec<String> = PARAMETERS.iter().map(|name| format!("dcqcn.{name}")).collect();
    let known = format!("accepted: {}, ecn.kmin, ecn.kmax, ecn.pmax, flows, rate, delay, packet", known.join(", "));
    if PARAMETERS.contains(&name) {
        format!("unknown parameter `{key}`; write `dcqcn.{name}`")
    } else if Algorithm::PARAMETERS.iter().any(|parameter| parameter.name == name) {
        format!("DCQCN has `{name}`, but its fluid model does not; {known}")
    } else {
        format!("unknown parameter `{key}`; {known}")
    }
}

/// Solves the fluid model of DCQCN and prints the solution.
pub(super) fn dcqcn(arguments: &DcqcnArgs) -> Result<(), CliError> {
    let run = arguments.solve.run()?;
    let base = if arguments.strawman { Dcqcn::strawman(arguments.rate) } else { Dcqcn::deployed(arguments.rate) };
    let model = Dcqcn { delay: arguments.delay, packet: arguments.packet, ..base };
    let mut setup = Setup { model, flows: arguments.flows.flows };
    for (key, value) in &arguments.set {
        setup.set(key, value)?;
    }
    if let Some(figure) = arguments.figure {
        return figures::figure(figure, model, &arguments.solve);
    }
    if let Some((key, values)) = &arguments.sweep {
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        let groups = |setup: &Setup| groups(arguments, setup);
        return figures::sweep(&setup, key, &values, &groups, &arguments.solve);
    }
    let groups = groups(arguments, &setup)?;
    let model = setup.model;
    let flows = groups.iter().map(|group| group.count).sum();
    let point = model.fixed_point(flows).map_err(refused)?;
    let series = model.solve(&groups, &run).map_err(refused)?;
    let check = arguments.solve.check_step.then(|| model.check_step(&groups, &run)).transpose().map_err(refused)?;
    Report {
        title: format!(
            "DCQCN: {flows} flows, {}, control delay {}, packets of {}",
            model.rate, model.delay, model.packet
        ),
        parameters: parameters(&model),
        remarks: vec![range(&model)?],
        fixed_point: Some(Fixed {
            queue: point.queue,
            values: vec![
                ("marking probability", "p", point.p, format!("{:.6}", point.p)),
                ("queue", "queue_bytes", point.queue, size(point.queue)),
                ("rate of each flow, R_C", "rate_bps", point.rate, super::gbps(point.rate)),
                ("target rate of each flow, R_T", "target_bps", point.target, super::gbps(point.target)),
                ("alpha", "alpha", point.alpha, format!("{:.6}", point.alpha)),
            ],
            residuals: point.residuals,
            limits: point.limits,
        }),
        series: &series,
        check,
        solve: &arguments.solve,
    }
    .give()
}

fn groups(arguments: &DcqcnArgs, setup: &Setup) -> Result<Vec<Group>, CliError> {
    arguments.flows.groups(setup.flows, setup.model.rate)
}

/// The parameters of the model, as (scenario key, value).
pub(super) fn parameters(model: &Dcqcn) -> Vec<(&'static str, String)> {
    vec![
        ("dcqcn.g", model.g.to_string()),
        ("dcqcn.rate_timer", model.rate_timer.to_string()),
        ("dcqcn.byte_counter", model.byte_counter.to_string()),
        ("dcqcn.fast_recovery", model.fast_recovery.to_string()),
        ("dcqcn.cnp_interval", model.cnp_interval.to_string()),
        ("dcqcn.alpha_timer", model.alpha_timer.to_string()),
        ("dcqcn.r_ai", model.r_ai.to_string()),
        ("ecn.kmin", model.marking.kmin.to_string()),
        ("ecn.kmax", model.marking.kmax.to_string()),
        ("ecn.pmax", model.marking.pmax.to_string()),
    ]
}

/// A sentence that says for which numbers of flows the fixed point is valid.
fn range(model: &Dcqcn) -> Result<String, CliError> {
    const MAX_FLOWS: u32 = 2_000;
    if model.marking.kmin == model.marking.kmax {
        return Ok(
            "With Kmin = Kmax, marking is a step function: the queue oscillates around this threshold.".to_string()
        );
    }
    Ok(match model.first_above_kmax(MAX_FLOWS).map_err(refused)? {
        Some(2) => "With these parameters the fixed point is above Kmax for any number of flows.".to_string(),
        Some(flows) => format!(
            "With these parameters the fixed point is below Kmax for up to {} flows; from {flows} flows on it is above Kmax and not valid.",
            flows - 1
        ),
        None => format!(
            "With these parameters the fixed point is below Kmax for up to {MAX_FLOWS} flows, and perhaps for more."
        ),
    })
}
