//! The command `rnic model buffers`, which computes the buffer thresholds of a switch.

use super::{ModelFormat, aligned, number, of_scenario, refused};
use clap::Args;
use rnic_model::buffers::{
    Finding, Given, PS_PER_METRE, QUANTUM, Switch, Thresholds, kilobytes, reaction, reaction_quanta,
};
use rnic_model::dcqcn::deployed_marking;
use rnic_simulator::error::CliError;
use rnic_simulator::selection::{Selection, parse_set};
use rnic_simulator::{Catalogue, output};
use rnic_transport::{BitRate, Bytes, Time};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic model buffers\n  \
    rnic model buffers --headroom 22.4KB                     # the thresholds of the DCQCN paper\n  \
    rnic model buffers --rate 100Gbps --buffer 32MB --priorities 2 --length 300\n  \
    rnic model buffers --headroom 22.4KB --t-pfc 24.47KB --t-ecn 120KB\n  \
    rnic model buffers --emit >> scenario.toml\n  \
    rnic model buffers pod.toml                              # is the ECN threshold of this scenario right?\n\n\
    Exit codes: 0 all given values are safe; 1 a given value or the switch itself is unsafe; 2 invalid input.")]
pub(crate) struct BuffersArgs {
    /// Check the switches of this scenario instead: a file, or the name of a built-in scenario
    #[arg(value_name = "SCENARIO.toml", conflicts_with_all = OF_ONE_SWITCH)]
    scenario: Option<PathBuf>,

    /// The run of the scenario whose switches are checked [default: the first run with PFC]
    #[arg(long, value_name = "NAME", requires = "scenario")]
    run: Option<String>,

    /// Change one setting of the scenario, as for `rnic run`
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_set, requires = "scenario")]
    set: Vec<(String, String)>,

    /// Number of ports of the switch (n)
    #[arg(long, value_name = "N", default_value_t = 32)]
    ports: u32,

    /// Rate of every port
    #[arg(long, value_name = "RATE", default_value = "40Gbps", allow_hyphen_values = true)]
    rate: BitRate,

    /// Size of the shared buffer (B)
    #[arg(long, value_name = "BYTES", default_value = "12MB", allow_hyphen_values = true)]
    buffer: Bytes,

    /// Number of lossless priorities (k; 8 in the paper's formulas)
    #[arg(long, value_name = "K", default_value_t = 8)]
    priorities: u32,

    /// Maximum packet size; a frame is 22 bytes larger, and occupies another 20 bytes on the link
    #[arg(long, value_name = "BYTES", default_value = "1500B", allow_hyphen_values = true)]
    mtu: Bytes,

    /// Length of the links, with a propagation delay of 5 ns per metre
    #[arg(long, value_name = "METRES", default_value = "100", allow_hyphen_values = true, value_parser = number)]
    length: f64,

    /// One-way propagation delay of the links, instead of --length
    #[arg(long, value_name = "TIME", conflicts_with = "length", allow_hyphen_values = true)]
    delay: Option<Time>,

    /// Time until the peer reacts to a pause, as a time or in pause quanta (512 bit times) [default: the limit of IEEE
    /// 802.3 at this rate]
    #[arg(long, value_name = "TIME|QUANTA", allow_hyphen_values = true)]
    reaction: Option<String>,

    /// Distance of the XON threshold below the pause threshold [default: 2 MTU]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    xon_offset: Option<Bytes>,

    /// beta of the paper: dynamic pause threshold = beta x free shared bytes / number of priorities [default: 8]
    #[arg(long, value_name = "BETA", allow_hyphen_values = true, value_parser = number)]
    beta: Option<f64>,

    /// alpha of switches: dynamic pause threshold = alpha x free shared bytes; alpha = beta / number of priorities
    #[arg(long, value_name = "ALPHA", conflicts_with = "beta", allow_hyphen_values = true, value_parser = number)]
    alpha: Option<f64>,

    /// Headroom per port and priority to check, and to use instead of the computed headroom
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    headroom: Option<Bytes>,

    /// Static pause threshold to check
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    t_pfc: Option<Bytes>,

    /// ECN threshold to check against --t-pfc, or against dynamic pause thresholds if --t-pfc is not given
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    t_ecn: Option<Bytes>,

    /// Print only the section [fabric.switch] of a scenario file, with dynamic pause thresholds or --t-pfc
    #[arg(long)]
    emit: bool,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = ModelFormat::Table)]
    format: ModelFormat,
}

/// The arguments that describe one switch, or thresholds to check, instead of a scenario.
const OF_ONE_SWITCH: [&str; 15] = [
    "ports",
    "rate",
    "buffer",
    "priorities",
    "mtu",
    "length",
    "delay",
    "reaction",
    "xon_offset",
    "beta",
    "alpha",
    "headroom",
    "t_pfc",
    "t_ecn",
    "emit",
];

/// The thresholds that the DCQCN paper states for its switch, as (key, value). The output shows them next to the
/// computed thresholds.
const PUBLISHED: [(&str, &str); 4] =
    [("t_flight", "22.4 KB"), ("t_pfc", "24.47 KB"), ("static_t_ecn", "0.85 KB"), ("dynamic_t_ecn", "21.75 KB")];

/// Computes the thresholds of the switch, checks the given values against them and prints the result; or checks the
/// switches of a scenario.
pub(crate) fn buffers(arguments: &BuffersArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    if let Some(scenario) = &arguments.scenario {
        let selection = Selection { scenario: scenario.clone(), set: arguments.set.clone(), seed: None };
        return of_scenario::check(&selection, arguments.run.as_deref(), arguments.format, catalogue);
    }
    let switch = switch(arguments)?;
    let given = Given { t_pfc: arguments.t_pfc, t_ecn: arguments.t_ecn, headroom: arguments.headroom };
    let limits = switch.thresholds(given.headroom.unwrap_or(switch.headroom()));
    let findings = switch.judge(&given);
    let text = match arguments.format {
        _ if arguments.emit => fragment(&switch, &limits, &given).unwrap_or_default(),
        ModelFormat::Table => table(&switch, &limits, &given, &findings),
        ModelFormat::Json => format!("{:#}\n", document(&switch, &limits, &given, &findings)),
        ModelFormat::Csv => csv(&switch, &limits),
    };
    output::print(|out| write!(out, "{text}"))?;
    let wrong: Vec<String> =
        findings.into_iter().filter(|finding| finding.is_unsafe).map(|finding| finding.text).collect();
    if wrong.is_empty() { Ok(()) } else { Err(CliError::Failed(wrong)) }
}

fn switch(arguments: &BuffersArgs) -> Result<Switch, CliError> {
    let propagation = || {
        let metres = arguments.length;
        if (0.0..=1e6).contains(&metres) {
            return Ok(Time::from_ps((metres * PS_PER_METRE as f64).round() as u64));
        }
        Err(CliError::Input(format!("--length {metres} is out of range; accepted: 0 to 1,000,000 m")))
    };
    let reaction = match &arguments.reaction {
        None if arguments.rate.as_bps() == 0 => Time::ZERO, // `check` refuses a rate of 0
        None => reaction(arguments.rate),
        Some(text) => match text.trim().trim_end_matches("quanta").trim().parse::<u32>() {
            Ok(quanta) if arguments.rate.as_bps() > 0 => arguments.rate.time_for(u64::from(quanta) * QUANTUM),
            Ok(_) => Time::ZERO,
            Err(_) => text.parse::<Time>().map_err(|error| {
                CliError::Input(format!("--reaction: {error}, or a number of pause quanta, for example 118"))
            })?,
        },
    };
    let switch = Switch {
        ports: arguments.ports,
        rate: arguments.rate,
        buffer: arguments.buffer,
        priorities: arguments.priorities,
        mtu: arguments.mtu,
        delay: arguments.delay.map_or_else(propagation, Ok)?,
        reaction,
        xon_offset: arguments.xon_offset.unwrap_or(Bytes(arguments.mtu.0.saturating_mul(2))),
        beta: arguments.alpha.map_or(arguments.beta.unwrap_or(8.0), |alpha| alpha * f64::from(arguments.priorities)),
    };
    switch.check().map_err(refused)?;
    Ok(switch)
}

/// The static pause threshold (`--t-pfc`) if it is given, else the maximum safe one. `None` if no threshold is safe.
fn pause_threshold(limits: &Thresholds, given: &Given) -> Option<Bytes> {
    given.t_pfc.or((limits.t_pfc >= 1.0).then_some(Bytes(limits.t_pfc as u64)))
}

fn table(switch: &Switch, limits: &Thresholds, given: &Given, findings: &[Finding]) -> String {
    let published = |key: &str| match PUBLISHED.iter().find(|(name, _)| *name == key) {
        Some((_, value)) if switch.is_published() => (*value).to_string(),
        _ => String::new(),
    };
    let Switch { ports, rate, buffer, priorities, mtu, .. } = switch;
    let mut text = format!(
        "{ports} ports of {rate}, a shared buffer of {buffer}, {priorities} lossless priorities, MTU {} B\n\n",
        mtu.0
    );
    let row = |name: &str, formula: &str, value: &str, stated: &str| {
        [name, formula, value, stated].map(str::to_string).to_vec()
    };
    let said = if switch.is_published() { "published" } else { "" };
    let mut rows = vec![row("Headroom per port and priority, t_flight", "", "", said)];
    for term in switch.headroom_terms() {
        rows.push(row(&format!("  {}", term.name), &term.formula, &kilobytes(term.bytes as f64), ""));
    }
    rows.push(row("total", "sum", &kilobytes(switch.headroom().0 as f64), &published("t_flight")));
    if let Some(headroom) = given.headroom {
        rows.push(row("given", "--headroom", &kilobytes(headroom.0 as f64), ""));
    }
    rows.push(row("", "", "", ""));
    let bound = |value: f64, frame: f64| match value {
        v if v <= 0.0 => "infeasible".to_string(),
        v if v < frame => format!("infeasible: {}", kilobytes(v)),
        v => kilobytes(v),
    };
    let packet = mtu.0 as f64;
    rows.push(row("Static thresholds", "", "", ""));
    rows.push(row(
        "  pause threshold t_PFC, at most",
        "(B - k n t_flight)/(k n)",
        &bound(limits.t_pfc, 0.0),
        &published("t_pfc"),
    ));
    let resume = pause_threshold(limits, given).and_then(|xoff| xoff.0.checked_sub(switch.xon_offset.0));
    let resume = resume.map_or("infeasible".to_string(), |xon| kilobytes(xon as f64));
    rows.push(row("  XON threshold", &format!("t_PFC - {}", switch.xon_offset), &resume, ""));
    let before = given.t_pfc.map_or(limits.static_t_ecn, |t_pfc| t_pfc.0 as f64 / f64::from(*ports));
    rows.push(row("  ECN threshold t_ECN, below", "t_PFC/n", &bound(before, packet), &published("static_t_ecn")));
    rows.push(row("Dynamic thresholds", "", "", ""));
    rows.push(row(
        "  pause threshold t_PFC, empty switch",
        "beta (B - k n t_flight)/k",
        &bound(limits.dynamic_t_pfc, 0.0),
        "",
    ));
    rows.push(row(
        "  ECN threshold t_ECN, below",
        "beta (B - k n t_flight)/(k n (beta + 1))",
        &bound(limits.dynamic_t_ecn, packet),
        &published("dynamic_t_ecn"),
    ));
    text += &aligned(&rows, 2);
    text.push('\n');
    if rows.iter().any(|row| row[2].starts_with("infeasible")) {
        text += "Infeasible: the threshold would be 0, or less than one packet.\n";
    }
    text += &format!(
        "beta = {}, alpha = beta/k = {}: dynamic pause threshold = alpha x free shared bytes.\n",
        switch.beta, limits.alpha
    );
    if switch.is_published() {
        text += &remark(switch, limits);
    }
    for finding in findings {
        text += &format!("{}: {}.\n", if finding.is_unsafe { "unsafe" } else { "note" }, finding.text);
    }
    text
}

/// Sentences that compare the thresholds stated in the paper with the computed ones.
fn remark(switch: &Switch, limits: &Thresholds) -> String {
    let published = Bytes(22_400);
    let mut text = match switch.delay_for(published) {
        Some(delay) => format!(
            "The paper states a headroom of 22.4 KB, without the length of the links and the reaction time. With a reaction time of {} quanta ({}), it corresponds to a delay of {delay}, or links of {:.0} m.\n",
            (switch.reaction.as_secs() * switch.rate.as_bps() as f64 / 512.0).round(),
            switch.reaction,
            delay.as_ps() as f64 / PS_PER_METRE as f64
        ),
        None => format!(
            "The paper states a headroom of 22.4 KB, without the length of the links and the reaction time. With a reaction time of {}, it is too small for links of any length.\n",
            switch.reaction
        ),
    };
    text += if limits.headroom == published {
        "The paper's 24.47 KB and 21.75 KB follow from it, truncated to two decimals, with 1 KB = 1,000 B. Its 0.85 KB does not: 24.47 KB/32 is 0.76 KB, which is also less than one packet.\n"
    } else {
        "The paper's other numbers follow with --headroom 22.4KB.\n"
    };
    text
}

fn document(switch: &Switch, limits: &Thresholds, given: &Given, findings: &[Finding]) -> Value {
    let bound = |value: f64| if value > 0.0 { json!(value) } else { Value::Null };
    json!({
        "switch": {
            "ports": switch.ports,
            "rate_bps": switch.rate.as_bps(),
            "buffer_bytes": switch.buffer.0,
            "priorities": switch.priorities,
            "mtu_bytes": switch.mtu.0,
            "delay_us": switch.delay.as_us(),
            "reaction_us": switch.reaction.as_us(),
            "reaction_quanta_802_3": reaction_quanta(switch.rate),
            "xon_offset_bytes": switch.xon_offset.0,
            "beta": switch.beta,
            "alpha": limits.alpha,
        },
        "headroom_terms": switch.headroom_terms().map(|term| json!({
            "name": term.name, "formula": term.formula, "bytes": term.bytes,
        })),
        "headroom_from_first_principles_bytes": switch.headroom().0,
        "headroom_bytes": limits.headroom.0,
        "static": {
            "t_pfc_max_bytes": bound(limits.t_pfc),
            "resume_bytes": pause_threshold(limits, given).and_then(|xoff| xoff.0.checked_sub(switch.xon_offset.0)),
            "t_ecn_below_bytes": bound(limits.static_t_ecn),
            "t_ecn_is_feasible": limits.static_t_ecn >= switch.mtu.0 as f64,
        },
        "dynamic": {
            "t_pfc_empty_bytes": bound(limits.dynamic_t_pfc),
            "t_ecn_below_bytes": bound(limits.dynamic_t_ecn),
            "t_ecn_is_feasible": limits.dynamic_t_ecn >= switch.mtu.0 as f64,
        },
        "published": switch.is_published().then(|| {
            PUBLISHED.iter().map(|(name, value)| (name.to_string(), json!(value))).collect::<serde_json::Map<_, _>>()
        }),
        "findings": findings.iter().map(|finding| json!({
            "unsafe": finding.is_unsafe, "text": finding.text,
        })).collect::<Vec<_>>(),
    })
}

fn csv(switch: &Switch, limits: &Thresholds) -> String {
    let mut text = "quantity,bytes\n".to_string();
    for term in switch.headroom_terms() {
        text += &format!("headroom: {},{}\n", term.name, term.bytes);
    }
    for (name, value) in [
        ("headroom total", switch.headroom().0 as f64),
        ("headroom", limits.headroom.0 as f64),
        ("static t_pfc max", limits.t_pfc),
        ("static t_ecn below", limits.static_t_ecn),
        ("dynamic t_pfc in an empty switch", limits.dynamic_t_pfc),
        ("dynamic t_ecn below", limits.dynamic_t_ecn),
    ] {
        text += &format!("{name},{value}\n");
    }
    text
}

/// The section `[fabric.switch]` of a scenario file. It has dynamic pause thresholds, unless a static pause threshold
/// is given. `None` if the PFC headrooms take the whole buffer.
fn fragment(switch: &Switch, limits: &Thresholds, given: &Given) -> Option<String> {
    pause_threshold(limits, given)?;
    let marking = deployed_marking(switch.rate);
    let kmin = given.t_ecn.unwrap_or(marking.kmin);
    let threshold = match given.t_pfc {
        Some(xoff) => format!("xoff = \"{xoff}\""),
        None => format!("beta = {}", switch.beta),
    };
    let Switch { ports, rate, buffer, priorities, xon_offset, .. } = switch;
    Some(format!(
        "# For {ports} ports of {rate}.\n\
         [fabric.switch]\n\
         queueing = \"shared\"\n\
         buffer = \"{buffer}\"\n\
         priorities = {priorities}\n\
         headroom = \"{}\"\n\
         {threshold}\n\
         xon_offset = \"{xon_offset}\"\n\
         ecn = {{ kmin = \"{kmin}\", kmax = \"{}\", pmax = {} }}\n",
        limits.headroom,
        marking.kmax.max(kmin),
        marking.pmax,
    ))
}
