//! `rnic model buffers`.

use super::{ModelFormat, aligned, number, refused};
use crate::error::CliError;
use crate::output;
use clap::Args;
use rnic_model::buffers::{
    Finding, Given, PS_PER_METRE, QUANTUM, Switch, Thresholds, kilobytes, reaction, reaction_quanta,
};
use rnic_model::dcqcn::deployed_marking;
use rnic_transport::{BitRate, Bytes, Time};
use serde_json::{Value, json};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic model buffers\n  \
    rnic model buffers --headroom 22.4KB                     the published thresholds\n  \
    rnic model buffers --rate 100Gbps --buffer 32MB --classes 2 --cable 300\n  \
    rnic model buffers --headroom 22.4KB --t-pfc 24.47KB --t-ecn 120KB\n  \
    rnic model buffers --emit >> scenario.toml\n\n\
    Exit codes: 0 what was given is safe; 1 a value given, or the switch itself, is not; 2 the input is wrong.")]
pub(crate) struct BuffersArgs {
    /// Ports of the switch (n)
    #[arg(long, value_name = "N", default_value_t = 32)]
    ports: u32,

    /// Rate of every port
    #[arg(long, value_name = "RATE", default_value = "40Gbps", allow_hyphen_values = true)]
    rate: BitRate,

    /// Shared buffer (B)
    #[arg(long, value_name = "BYTES", default_value = "12MB", allow_hyphen_values = true)]
    buffer: Bytes,

    /// Classes that must not lose packets (k; the paper's formulas have 8)
    #[arg(long, value_name = "K", default_value_t = 8)]
    classes: u32,

    /// Largest packet; frames have 22 bytes more, and 20 around them on the cable
    #[arg(long, value_name = "BYTES", default_value = "1500B", allow_hyphen_values = true)]
    mtu: Bytes,

    /// Metres of cable, 5 ns each
    #[arg(long, value_name = "METRES", default_value = "100", allow_hyphen_values = true, value_parser = number)]
    cable: f64,

    /// Propagation delay of the cable, one way, instead of its length
    #[arg(long, value_name = "TIME", conflicts_with = "cable", allow_hyphen_values = true)]
    delay: Option<Time>,

    /// What the peer needs to stop: a time, or a number of pause quanta (512 bit times) [default: as IEEE 802.3 allows at this rate]
    #[arg(long, value_name = "TIME|QUANTA", allow_hyphen_values = true)]
    reaction: Option<String>,

    /// Pauses end so far below their threshold [default: 2 MTU]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    resume_distance: Option<Bytes>,

    /// The paper's beta: a dynamic pause threshold is beta times the free buffer, divided by the classes [default: 8]
    #[arg(long, value_name = "BETA", allow_hyphen_values = true, value_parser = number)]
    beta: Option<f64>,

    /// What switches call alpha: a dynamic pause threshold is alpha times the free buffer; alpha = beta / classes
    #[arg(long, value_name = "ALPHA", conflicts_with = "beta", allow_hyphen_values = true, value_parser = number)]
    alpha: Option<f64>,

    /// Headroom of a port and class to use instead of the one from first principles; judged
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    headroom: Option<Bytes>,

    /// A static pause threshold to judge
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    t_pfc: Option<Bytes>,

    /// A marking threshold to judge: against --t-pfc, without it against dynamic pause thresholds
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    t_ecn: Option<Bytes>,

    /// Print the switch as a piece of a scenario file, with dynamic pause thresholds or --t-pfc, and nothing else
    #[arg(long)]
    emit: bool,

    /// What to print on standard output
    #[arg(long, value_enum, default_value_t = ModelFormat::Table)]
    format: ModelFormat,
}

/// What the paper states for its switch, in KB.
const PUBLISHED: [(&str, &str); 4] =
    [("t_flight", "22.4 KB"), ("t_pfc", "24.47 KB"), ("static_t_ecn", "0.85 KB"), ("dynamic_t_ecn", "21.75 KB")];

/// Computes, judges, prints.
pub(crate) fn buffers(arguments: &BuffersArgs) -> Result<(), CliError> {
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
    let cable = || {
        let metres = arguments.cable;
        if (0.0..=1e6).contains(&metres) {
            return Ok(Time::from_ps((metres * PS_PER_METRE as f64).round() as u64));
        }
        Err(CliError::Input(format!("a cable of {metres} m is impossible; 0 to 1,000,000 m")))
    };
    let reaction = match &arguments.reaction {
        None if arguments.rate.as_bps() == 0 => Time::ZERO, // which the check refuses
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
        classes: arguments.classes,
        mtu: arguments.mtu,
        delay: arguments.delay.map_or_else(cable, Ok)?,
        reaction,
        resume_distance: arguments.resume_distance.unwrap_or(Bytes(arguments.mtu.0.saturating_mul(2))),
        beta: arguments.alpha.map_or(arguments.beta.unwrap_or(8.0), |alpha| alpha * f64::from(arguments.classes)),
    };
    switch.check().map_err(refused)?;
    Ok(switch)
}

/// The static pause threshold: as given, else the largest.
fn pause_threshold(limits: &Thresholds, given: &Given) -> Option<Bytes> {
    given.t_pfc.or((limits.t_pfc >= 1.0).then_some(Bytes(limits.t_pfc as u64)))
}

fn table(switch: &Switch, limits: &Thresholds, given: &Given, findings: &[Finding]) -> String {
    let published = |key: &str| match PUBLISHED.iter().find(|(name, _)| *name == key) {
        Some((_, value)) if switch.is_published() => (*value).to_string(),
        _ => String::new(),
    };
    let Switch { ports, rate, buffer, classes, mtu, .. } = switch;
    let mut text = format!(
        "{ports} ports of {rate}, a shared buffer of {buffer}, {classes} lossless classes, MTU {} B\n\n",
        mtu.0
    );
    let row = |name: &str, formula: &str, value: &str, stated: &str| {
        [name, formula, value, stated].map(str::to_string).to_vec()
    };
    let said = if switch.is_published() { "published" } else { "" };
    let mut rows = vec![row("Headroom of a port and class, t_flight", "", "", said)];
    for term in switch.headroom_terms() {
        rows.push(row(&format!("  {}", term.name), &term.formula, &kilobytes(term.bytes as f64), ""));
    }
    rows.push(row("from first principles", "sum", &kilobytes(switch.headroom().0 as f64), &published("t_flight")));
    if let Some(headroom) = given.headroom {
        rows.push(row("used below", "--headroom", &kilobytes(headroom.0 as f64), ""));
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
        "  pauses, t_PFC at most",
        "(B - k n t_flight)/(k n)",
        &bound(limits.t_pfc, 0.0),
        &published("t_pfc"),
    ));
    let resume = pause_threshold(limits, given).and_then(|xoff| xoff.0.checked_sub(switch.resume_distance.0));
    let resume = resume.map_or("infeasible".to_string(), |xon| kilobytes(xon as f64));
    rows.push(row("  resume", &format!("t_PFC - {}", switch.resume_distance), &resume, ""));
    let before = given.t_pfc.map_or(limits.static_t_ecn, |t_pfc| t_pfc.0 as f64 / f64::from(*ports));
    rows.push(row("  marks before pauses, t_ECN below", "t_PFC/n", &bound(before, packet), &published("static_t_ecn")));
    rows.push(row("Dynamic thresholds", "", "", ""));
    rows.push(row(
        "  pauses in an empty switch, t_PFC",
        "beta (B - k n t_flight)/k",
        &bound(limits.dynamic_t_pfc, 0.0),
        "",
    ));
    rows.push(row(
        "  marks before pauses, t_ECN below",
        "beta (B - k n t_flight)/(k n (beta + 1))",
        &bound(limits.dynamic_t_ecn, packet),
        &published("dynamic_t_ecn"),
    ));
    text += &aligned(&rows, 2);
    text.push('\n');
    if rows.iter().any(|row| row[2].starts_with("infeasible")) {
        text += "Infeasible: no bytes are left, or less than one packet.\n";
    }
    text += &format!(
        "beta is {} and alpha, beta/k, is {}: a dynamic pause threshold is alpha times the shared bytes that are free.\n",
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

/// How the paper's figures relate to these.
fn remark(switch: &Switch, limits: &Thresholds) -> String {
    let published = Bytes(22_400);
    let mut text = match switch.delay_for(published) {
        Some(delay) => format!(
            "Published: 22.4 KB of headroom, without the cable or the reaction time behind it. With {} quanta ({}) to react it would be a delay of {delay}, {:.0} m of cable.\n",
            (switch.reaction.as_secs() * switch.rate.as_bps() as f64 / 512.0).round(),
            switch.reaction,
            delay.as_ps() as f64 / PS_PER_METRE as f64
        ),
        None => format!(
            "Published: 22.4 KB of headroom, without the cable or the reaction time behind it. With {} to react no cable is short enough for it.\n",
            switch.reaction
        ),
    };
    text += if limits.headroom == published {
        "From it 24.47 KB and 21.75 KB follow, cut off after two decimals, with KB and MB as powers of 1,000; 0.85 KB does not: 24.47 KB/32 is 0.76 KB, below one packet too.\n"
    } else {
        "--headroom 22.4KB computes the other published figures.\n"
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
            "classes": switch.classes,
            "mtu_bytes": switch.mtu.0,
            "delay_us": switch.delay.as_us(),
            "reaction_us": switch.reaction.as_us(),
            "reaction_quanta_802_3": reaction_quanta(switch.rate),
            "resume_distance_bytes": switch.resume_distance.0,
            "beta": switch.beta,
            "alpha": limits.alpha,
        },
        "headroom_terms": switch.headroom_terms().map(|term| json!({
            "name": term.name, "formula": term.formula, "bytes": term.bytes,
        })),
        "headroom_from_first_principles_bytes": switch.headroom().0,
        "headroom_bytes": limits.headroom.0,
        "static": {
            "t_pfc_at_most_bytes": bound(limits.t_pfc),
            "resume_bytes": pause_threshold(limits, given).and_then(|xoff| xoff.0.checked_sub(switch.resume_distance.0)),
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
        ("headroom from first principles", switch.headroom().0 as f64),
        ("headroom", limits.headroom.0 as f64),
        ("static t_pfc at most", limits.t_pfc),
        ("static t_ecn below", limits.static_t_ecn),
        ("dynamic t_pfc in an empty switch", limits.dynamic_t_pfc),
        ("dynamic t_ecn below", limits.dynamic_t_ecn),
    ] {
        text += &format!("{name},{value}\n");
    }
    text
}

/// The switch as `[fabric.switch]` of a scenario, with dynamic pause thresholds unless a static one is given; `None` where nothing is left
/// to share.
fn fragment(switch: &Switch, limits: &Thresholds, given: &Given) -> Option<String> {
    pause_threshold(limits, given)?;
    let marking = deployed_marking(switch.rate);
    let kmin = given.t_ecn.unwrap_or(marking.kmin);
    let threshold = match given.t_pfc {
        Some(xoff) => format!("xoff = \"{xoff}\""),
        None => format!("beta = {}", switch.beta),
    };
    let Switch { ports, rate, buffer, classes, resume_distance, .. } = switch;
    Some(format!(
        "# For {ports} ports of {rate}.\n\
         [fabric.switch]\n\
         queueing = \"shared\"\n\
         buffer = \"{buffer}\"\n\
         priorities = {classes}\n\
         headroom = \"{}\"\n\
         {threshold}\n\
         xon_offset = \"{resume_distance}\"\n\
         ecn = {{ kmin = \"{kmin}\", kmax = \"{}\", pmax = {} }}\n",
        limits.headroom,
        marking.kmax.max(kmin),
        marking.pmax,
    ))
}
