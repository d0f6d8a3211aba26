//! Checks that the values of a run specification ([`RunSpec`]) are in range, if it is read from JSON. For runs of
//! scenario files, the crate `rnic-scenario` checks the ranges.

use crate::mesh::MeshPairs;
use crate::spec::{QueueingSetup, RunSpec, Traffic, TrafficPattern};
use crate::transport::TransportSpec;
use rnic_fabric::config::{ArbiterSpec, Quantum, TopologySpec};
use rnic_transport::{BitRate, Bytes, Time};

/// Maximum of every time in a run specification: 30 days.
const MAX_TIME: Time = Time::from_ms(30 * 24 * 3_600 * 1_000);
/// Maximum of every size in a run specification: 1,000 TB.
const MAX_BYTES: Bytes = Bytes(1_000_000_000_000_000);
/// Maximum difference of the clock of a host or switch from its nominal rate, in parts per million: 10 %.
pub const MAX_SKEW_PPM: u64 = 100_000;
/// Maximum of the random delay of each frame (`clock_jitter`).
pub const MAX_JITTER: Time = Time::from_ms(1);
/// Maximum of every rate in a run specification: 100 Tbps.
const MAX_RATE: BitRate = BitRate::from_gbps(100_000);

/// Maximum number of pairs of hosts of a mesh of probes.
pub const MAX_PAIRS: u64 = 100_000;

/// Checks that those values of the run `run` on which the simulator relies are in range.
///
/// # Errors
/// A field is out of range. The error is one sentence that names the first such field and the accepted values.
pub(crate) fn check(run: &RunSpec<TransportSpec>) -> Result<(), String> {
    let fabric = &run.fabric;
    rate("run.fabric.link.rate", Some(fabric.link.rate))?;
    time("run.fabric.link.delay", Some(fabric.link.delay), true)?;
    share("run.fabric.link.loss", Some(fabric.link.loss))?;
    range("run.fabric.mtu", fabric.mtu.0, 64, 65_535)?;
    range("run.fabric.frame_gap", fabric.frame_gap.0, 0, 9_000)?;
    range("run.fabric.clocks.skew_ppm", fabric.clocks.skew_ppm.into(), 0, MAX_SKEW_PPM)?;
    within(fabric.clocks.jitter <= MAX_JITTER, "run.fabric.clocks.jitter", "at most 1 ms")?;
    for (index, link) in fabric.links.iter().enumerate() {
        let at = format!("run.fabric.links[{index}]");
        rate(&format!("{at}.rate"), link.rate)?;
        time(&format!("{at}.delay"), link.delay, true)?;
        share(&format!("{at}.loss"), link.loss)?;
    }
    topology(&fabric.topology)?;
    let hosts = crate::hosts(&fabric.topology);
    for (index, storm) in fabric.storms.iter().enumerate() {
        let at = format!("run.fabric.storms[{index}]");
        range(&format!("{at}.host"), storm.host.into(), 0, u64::from(hosts.saturating_sub(1)))?;
        time(&format!("{at}.start"), Some(storm.start), false)?;
        time(&format!("{at}.duration"), storm.duration, true)?;
        range(&format!("{at}.priority"), storm.priority.unwrap_or(0).into(), 0, 7)?;
    }
    faults(run, hosts)?;
    switch(run)?;
    if run.traffic.is_empty() {
        return Err("run.traffic: there is no traffic; at least one source is needed".to_string());
    }
    for (index, source) in run.traffic.iter().enumerate() {
        traffic(&format!("run.traffic[{index}]"), source, hosts)?;
    }
    beside(run)?;
    time("run.limits.duration", run.limits.duration, true)?;
    time("run.limits.max_time", run.limits.max_time, true)?;
    time("run.limits.stall_time", Some(run.limits.stall_time), true)?;
    if let Some(watch) = &run.watch {
        time("run.watch.interval", Some(watch.interval), true)?;
        time("run.watch.start", Some(watch.start), false)?;
    }
    Ok(())
}

fn faults(run: &RunSpec<TransportSpec>, hosts: u32) -> Result<(), String> {
    let (faults, watchdogs) = (&run.fabric.faults, &run.fabric.watchdogs);
    let last = u64::from(hosts.saturating_sub(1));
    for (index, rule) in faults.drops.iter().enumerate() {
        range(&format!("run.fabric.faults.drops[{index}].every"), rule.every, 1, MAX_BYTES.0)?;
    }
    for (index, dead) in faults.dead.iter().enumerate() {
        let at = format!("run.fabric.faults.dead[{index}]");
        range(&format!("{at}.host"), dead.host.into(), 0, last)?;
        time(&format!("{at}.start"), Some(dead.start), false)?;
        time(&format!("{at}.duration"), dead.duration, true)?;
    }
    for (index, slow) in faults.receivers.iter().enumerate() {
        let at = format!("run.fabric.faults.receivers[{index}]");
        for host in &slow.hosts {
            range(&format!("{at}.hosts"), (*host).into(), 0, last)?;
        }
        range(&format!("{at}.page"), slow.page.0, 1, MAX_BYTES.0)?;
        range(&format!("{at}.entries"), slow.entries.into(), 1, 1_000_000)?;
        range(&format!("{at}.memory"), slow.memory.0, 1, MAX_BYTES.0)?;
        range(&format!("{at}.buffer"), slow.buffer.0, 1, MAX_BYTES.0)?;
        range(&format!("{at}.xoff"), slow.xoff.0, 1, slow.buffer.0)?;
        range(&format!("{at}.xon"), slow.xon.0, 0, slow.xoff.0)?;
        time(&format!("{at}.miss"), Some(slow.miss), false)?;
    }
    for (index, mesh) in run.fabric.meshes.iter().enumerate() {
        let at = format!("run.fabric.meshes[{index}]");
        match &mesh.pairs {
            MeshPairs::Random(pairs) => range(&format!("{at}.pairs"), (*pairs).into(), 1, MAX_PAIRS)?,
            MeshPairs::Listed(pairs) => {
                range(&format!("the number of pairs of {at}"), pairs.len() as u64, 1, MAX_PAIRS)?;
                for (from, to) in pairs {
                    range(&format!("{at}.pairs"), (*from).max(*to).into(), 0, last)?;
                    within(from != to, &format!("{at}.pairs"), "two different hosts")?;
                }
            }
        }
        time(&format!("{at}.interval"), Some(mesh.interval), true)?;
        time(&format!("{at}.start"), Some(mesh.start), false)?;
        time(&format!("{at}.window"), Some(mesh.window), true)?;
        range(&format!("{at}.payload"), mesh.payload.0, 1, 9_000)?;
        range(&format!("{at}.priority"), mesh.priority.into(), 0, 7)?;
        if let Some(stack) = mesh.stack {
            time(&format!("{at}.stack.median"), Some(stack.median), true)?;
            time(&format!("{at}.stack.p99"), Some(stack.p99), true)?;
            within(stack.p99 >= stack.median, &format!("{at}.stack.p99"), "at least the median")?;
        }
    }
    time("run.fabric.watchdogs.nic.detection", watchdogs.nic.map(|nic| nic.detection), true)?;
    if let Some(switch) = watchdogs.switch {
        time("run.fabric.watchdogs.switch.detection", Some(switch.detection), true)?;
        time("run.fabric.watchdogs.switch.restoration", Some(switch.restoration), true)?;
        time("run.fabric.watchdogs.switch.interval", Some(switch.interval), true)?;
    }
    Ok(())
}

fn switch(run: &RunSpec<TransportSpec>) -> Result<(), String> {
    let switch = &run.fabric.switch;
    for (name, bytes) in
        [("buffer", switch.buffer), ("xoff", switch.xoff), ("xon", switch.xon), ("headroom", switch.headroom)]
    {
        range(&format!("run.fabric.switch.{name}"), bytes.unwrap_or_default().0, 0, MAX_BYTES.0)?;
    }
    share("run.fabric.switch.ecn.pmax", switch.ecn.pmax)?;
    for (name, bytes) in [("kmin", switch.ecn.kmin), ("kmax", switch.ecn.kmax)] {
        range(&format!("run.fabric.switch.ecn.{name}"), bytes.unwrap_or_default().0, 0, MAX_BYTES.0)?;
    }
    range("run.fabric.switch.scheduler.weights", switch.scheduler.weights.into(), 0, 8)?;
    let priorities = switch.queueing.priorities().map_or(1, u64::from);
    range("run.fabric.switch.queueing.priorities", priorities, 1, 8)?;
    match &switch.queueing {
        QueueingSetup::Input(input) => {
            if let ArbiterSpec::RoundRobin(quantum) = input.arbiter {
                let quantum = match quantum {
                    Quantum::Packets(packets) => packets.into(),
                    Quantum::Bytes(bytes) => bytes.0,
                };
                range("run.fabric.switch.queueing.arbiter.round-robin", quantum, 1, MAX_BYTES.0)?;
            }
            range("run.fabric.switch.queueing.drop_until_free", input.drop_until_free.0, 0, MAX_BYTES.0)?;
        }
        QueueingSetup::Shared(shared) => {
            for (name, value) in [("beta", shared.beta), ("egress_alpha", shared.egress_alpha)] {
                let fits = value.is_none_or(|value| value > 0.0 && value <= 1e6);
                within(fits, &format!("run.fabric.switch.queueing.{name}"), "a number above 0, at most 1000000")?;
            }
            let offset = shared.xon_offset.unwrap_or_default().0;
            range("run.fabric.switch.queueing.xon_offset", offset, 0, MAX_BYTES.0)?;
        }
        QueueingSetup::Output(output) => {
            for bytes in output.buffers.into_iter().flatten() {
                range("run.fabric.switch.queueing.buffers", bytes.0, 0, MAX_BYTES.0)?;
            }
            let to = output.trim.map_or(64, |trim| u64::from(trim.to));
            range("run.fabric.switch.queueing.trim.to", to, 64, 9_000)?;
        }
    }
    Ok(())
}

fn topology(topology: &TopologySpec) -> Result<(), String> {
    let rates = match topology {
        TopologySpec::LeafSpine { uplink_rate, .. } => vec![*uplink_rate],
        TopologySpec::LeafSpineCore { uplink_rate, core_rate, .. } => vec![*uplink_rate, *core_rate],
        TopologySpec::Dumbbell { bottleneck_rate, .. } => vec![*bottleneck_rate],
        _ => Vec::new(),
    };
    let delays = match topology {
        TopologySpec::LeafSpine { uplink_delay, .. } => vec![*uplink_delay],
        TopologySpec::LeafSpineCore { uplink_delay, core_delay, .. } => vec![*uplink_delay, *core_delay],
        TopologySpec::Dumbbell { bottleneck_delay, .. } => vec![*bottleneck_delay],
        _ => Vec::new(),
    };
    rates.into_iter().try_for_each(|value| rate("run.fabric.topology: rate", value))?;
    delays.into_iter().try_for_each(|value| time("run.fabric.topology: delay", value, true))?;
    // The simulation state of a fabric with more hosts would not fit into memory.
    range("run.fabric.topology: number of hosts", crate::hosts(topology).into(), 1, 1 << 20)
}

/// Checks the transports beside the run's own: each is for another priority, and they can share the hosts.
fn beside(run: &RunSpec<TransportSpec>) -> Result<(), String> {
    for (index, beside) in run.beside.iter().enumerate() {
        let name = format!("run.beside[{index}].priority");
        range(&name, beside.priority.into(), 1, 7)?;
        if run.beside[..index].iter().any(|other| other.priority == beside.priority) {
            return Err(format!("{name} is {}, which another transport has; accepted: one for each", beside.priority));
        }
    }
    run.cannot_share().map_or(Ok(()), |why| Err(format!("run.beside: {why}")))
}

fn traffic(at: &str, source: &Traffic, hosts: u32) -> Result<(), String> {
    range(&format!("{at}.priority"), source.priority.into(), 0, 7)?;
    time(&format!("{at}.start"), Some(source.start), false)?;
    let count = |name: &str, value: u64| range(&format!("{at}.{name}"), value, 1, u32::MAX.into());
    let interval = |value: Time| time(&format!("{at}.interval"), Some(value), true);
    let sizes = match &source.pattern {
        TrafficPattern::Poisson { sizes, load, flows } => {
            within(*load > 0.0 && *load <= 100.0, &format!("{at}.load"), "a number above 0, at most 100")?;
            count("flows", *flows)?;
            Some(sizes)
        }
        TrafficPattern::Incast { total, repeats, interval: every, .. } => {
            range(&format!("{at}.total"), total.0, 1, MAX_BYTES.0)?;
            count("repeats", (*repeats).into())?;
            every.map_or(Ok(()), interval)?;
            None
        }
        TrafficPattern::Permutation { sizes, repeats, interval: every }
        | TrafficPattern::AllToAll { sizes, repeats, interval: every } => {
            count("repeats", (*repeats).into())?;
            interval(*every)?;
            Some(sizes)
        }
        TrafficPattern::List { flows } => {
            let sorted = flows.is_sorted_by_key(|flow| flow.start);
            within(sorted && !flows.is_empty(), &format!("{at}.flows"), "at least one flow, in order of start")?;
            for (index, flow) in flows.iter().enumerate() {
                let fits = flow.src < hosts && flow.dst < hosts && flow.src != flow.dst;
                within(fits, &format!("{at}.flows[{index}]"), &format!("two different hosts from 0 to {}", hosts - 1))?;
                range(&format!("{at}.flows[{index}].bytes"), flow.bytes, 1, MAX_BYTES.0)?;
                time(&format!("{at}.flows[{index}].start"), Some(flow.start), false)?;
            }
            None
        }
        TrafficPattern::Pairs { sizes, .. } | TrafficPattern::AllToAllLoop { sizes, .. } => Some(sizes),
        TrafficPattern::IncastLoop { incast, .. } => {
            range(&format!("{at}.incast.total"), incast.total.0, 1, MAX_BYTES.0)?;
            None
        }
    };
    match sizes {
        Some(sizes) => sizes.validate().map_err(|error| format!("{at}: {error}")),
        None => Ok(()),
    }
}

fn within(fits: bool, name: &str, accepted: &str) -> Result<(), String> {
    if fits { Ok(()) } else { Err(format!("{name} is out of range; accepted: {accepted}")) }
}

fn range(name: &str, value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{name} is {value}; accepted: {min} to {max}")) }
}

fn rate(name: &str, rate: Option<BitRate>) -> Result<(), String> {
    let fits = rate.is_none_or(|rate| rate >= BitRate::from_bps(1_000) && rate <= MAX_RATE);
    within(fits, name, &format!("1 Kbps to {MAX_RATE}"))
}

fn time(name: &str, time: Option<Time>, positive: bool) -> Result<(), String> {
    let fits = time.is_none_or(|time| time <= MAX_TIME && (time > Time::ZERO || !positive));
    within(fits, name, if positive { "a time above 0, at most 30 days" } else { "at most 30 days" })
}

fn share(name: &str, share: Option<f64>) -> Result<(), String> {
    within(share.is_none_or(|share| (0.0..=1.0).contains(&share)), name, "0 to 1")
}
