//! `rnic mesh show`: the page of the mesh over the probes of a simulated run.

use crate::perf::parse_time;
use clap::Args;
use rnic_campaign::RunListener;
use rnic_mesh::controller::{self, ControllerError};
use rnic_mesh::inventory::Scope;
use rnic_mesh::recorded::{Probe, inventory, record};
use rnic_mesh::state::MeshState;
use rnic_mesh::verdict::{Finding, Symptom};
use rnic_mesh::window::Window;
use rnic_metrics::suspects::{self, PauseSuspect};
use rnic_sim::resolve::resolve;
use rnic_sim::{Catalogue, Events, MeshProbe, Sharing};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::progress::Bars;
use rnic_simulator::selection::Selection;
use rnic_simulator::{cannot_be_set_up, load_selected, output, select};
use rnic_spec::{RunEvent, RunStatus};
use rnic_transport::Time;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic mesh show at-scale/storm --run storm              a pause storm, as its operator would have seen it\n  \
    rnic mesh show at-scale/fig8 --run load --mesh RDMA\n  \
    rnic mesh show at-scale/deadlock --print               the findings and alarms as text, without the page\n\n\
    The run is simulated first; the same scenario and seed give the same page. The scenario needs [[fabric.mesh]].\n\
    Exit codes: 0 ended by a signal, or printed; 1 the run failed, or the address is in use; 2 invalid input.")]
pub(super) struct ShowArgs {
    #[command(flatten)]
    selection: Selection,

    /// The run that is shown [default: the first run]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,

    /// The mesh of probes that is shown [default: the first mesh]
    #[arg(long, value_name = "NAME")]
    mesh: Option<String>,

    /// Time that the run takes on the page, 60 s to 3600 s
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "600 s")]
    length: Time,

    /// Loopback address of the page
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:18518")]
    page: SocketAddr,

    /// Print what the page would show first, and do not serve it
    #[arg(long, conflicts_with = "page")]
    print: bool,

    /// Do not print a progress bar
    #[arg(long)]
    quiet: bool,
}

/// Simulates the run, and serves or prints its page.
pub(super) fn show(arguments: &ShowArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let interruption = Interruption::listen()?;
    let (mut state, pauses) = simulate(arguments, catalogue, &interruption)?;
    if arguments.print {
        return print(&state, &pauses);
    }
    for pause in &pauses {
        state.append_note(&format!("; pause counters: {pause}"));
    }
    let note = state.note().to_string();
    let opened = |page| output::note(&format!("{note}; page at http://{page}/"));
    controller::show(state, arguments.page, interruption.flag(), opened).map_err(|error| match error {
        ControllerError::Setup(why) => CliError::Input(why),
        error => CliError::Failed(vec![error.to_string()]),
    })
}

/// Simulates the run. Returns the state for the page, and a sentence for each origin of its pauses.
fn simulate(
    arguments: &ShowArgs, catalogue: &Catalogue, interruption: &Interruption,
) -> Result<(MeshState, Vec<String>), CliError> {
    let scenario = load_selected(catalogue, &arguments.selection)?;
    let spec = select(&scenario, arguments.run.as_deref())?;
    let meshes = &spec.fabric.meshes;
    let names = || meshes.iter().map(|mesh| format!("\"{}\"", mesh.name)).collect::<Vec<_>>().join(", ");
    let mesh = match &arguments.mesh {
        None if meshes.is_empty() => {
            return Err(CliError::Input(format!(
                "the run \"{}\" has no probes; add [[fabric.mesh]] to the scenario",
                spec.name
            )));
        }
        None => 0,
        Some(name) => meshes
            .iter()
            .position(|mesh| mesh.name == *name)
            .ok_or_else(|| CliError::Input(format!("unknown mesh \"{name}\"; accepted: {}", names())))?,
    };
    if !(Time::from_ms(60_000)..=Time::from_ms(3_600_000)).contains(&arguments.length) {
        return Err(CliError::Input(format!("--length {}: accepted are 1 minute to 1 hour", arguments.length)));
    }
    let resolved = resolve(catalogue, spec).map_err(|error| cannot_be_set_up((spec.name.clone(), error)))?;
    let topology = &resolved.topology;
    let name = |node: u32| topology.names[node as usize].as_str();
    let hosts = topology.host_ids().map(|host| (name(host.0), name(topology.peer_node(topology.host_port(host)))));
    let inventory = inventory(hosts, (topology.hosts..topology.nodes()).map(name), "");
    let inventory = Arc::new(inventory.map_err(|why| CliError::Input(format!("run \"{}\": {why}", spec.name)))?);
    let bars = if arguments.quiet { None } else { Bars::on_terminal([spec.name.as_str()].into_iter()) };
    let mut report = |event: RunEvent| {
        if let Some(bars) = &bars {
            let _ = bars.event(0, &event);
        }
        interruption.flow()
    };
    let mut probes = Vec::new();
    let mut collect = |probe: MeshProbe| {
        if probe.mesh == mesh {
            let (prober, target) = probe.ends;
            probes.push(Probe { prober, target, at: probe.at, rtt: probe.rtt });
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let events = Events::to(&mut report).with_probes(&mut collect);
    let run = rnic_sim::run::run(catalogue, spec, &resolved, None, &Sharing::among(processors), &events);
    drop(events);
    drop(bars);
    match &run.output.status {
        RunStatus::Completed => {}
        RunStatus::Interrupted => {
            let (code, message) = (interruption.exit_code().unwrap_or(130), "the run was interrupted".to_string());
            return Err(CliError::Interrupted { code, message });
        }
        RunStatus::Failed(why) => {
            return Err(CliError::Failed(vec![format!("run \"{}\" failed: {why}", spec.name)]));
        }
    }
    let end = run.output.end;
    let stretch = arguments.length.as_secs() / end.as_secs().max(1e-9);
    let mut times: Vec<Time> = probes.iter().filter_map(|probe| probe.rtt).collect();
    times.sort_unstable();
    // A probe that was posted just before the end of the run had no time for a response.
    let timeout = times.get(times.len() / 2).map_or(Time::ZERO, |median| median.scale(20.0));
    // The last tenth of the run stands for the interval between two readings of the counters.
    let transmitters = suspects::of_run(&run, resolved.topology.hosts, end.scale(0.1));
    let pauses: Vec<String> = suspects::suspects(&transmitters).iter().map(PauseSuspect::text).collect();
    let note = format!(
        "Simulated: {}, run \"{}\", mesh \"{}\"; one second here is {} of the run",
        scenario.title,
        spec.name,
        meshes[mesh].name,
        Time::from_ps((1e12 / stretch) as u64)
    );
    Ok((record(&inventory, probes, (end, timeout), stretch, &note), pauses))
}

/// Prints the initial contents of the page.
fn print(state: &MeshState, pauses: &[String]) -> Result<(), CliError> {
    let (mesh, now) = (state.mesh(), state.now());
    output::print(|out| {
        writeln!(out, "{}", state.note())?;
        writeln!(
            out,
            "{:<12} {:>8} {:>8} {:>10} {:>10} {:>10}",
            "scope", "probes", "lost", "p50 us", "p99 us", "p99.9 us"
        )?;
        for scope in Scope::ALL {
            let cell = mesh.scope(scope, Window::Hour, now);
            if cell.probes > 0 {
                let us = |part| cell.quantile_us(part).map_or("-".to_string(), |us| format!("{us:.1}"));
                let (p50, p99, p999) = (us(0.5), us(0.99), us(0.999));
                let (name, probes, lost) = (scope.name(), cell.probes, cell.lost);
                writeln!(out, "{name:<12} {probes:>8} {lost:>8} {p50:>10} {p99:>10} {p999:>10}")?;
            }
        }
        for Finding { symptom, parts, probes, bad, .. } in mesh.findings() {
            let what = if *symptom == Symptom::Loss { "lost" } else { "slow" };
            writeln!(out, "suspect: {}: {bad} of {probes} probes through it are {what}", parts.join(" or "))?;
        }
        for pause in pauses {
            writeln!(out, "suspect by pause counters: {pause}")?;
        }
        for alarm in mesh.alarms().on() {
            let since = (now - alarm.since_ms) / 1_000;
            let state = if alarm.recovering_ms.is_some() { "recovering alarm" } else { "alarm" };
            writeln!(
                out,
                "{state}: {} of {}: {} = {:.4} for {since} s",
                alarm.rule,
                alarm.about,
                alarm.metric.name(),
                alarm.value
            )?;
        }
        for (alarm, end) in mesh.alarms().ended() {
            let (since, end) = ((now - alarm.since_ms) / 1_000, (now - end) / 1_000);
            writeln!(out, "ended alarm: {} of {}: from {since} s to {end} s before the end", alarm.rule, alarm.about)?;
        }
        if mesh.findings().is_empty() && pauses.is_empty() && mesh.alarms().on().next().is_none() {
            writeln!(out, "no part of the network explains failures, and no alarm is on")?;
        }
        Ok(())
    })
}
