//! Configuration of the switches of a run, derived from the run's settings and its fabric.

use super::SwitchError;
use super::links::Links;
use crate::host::DATA_PRIORITY;
use rnic_fabric::config::{
    BufferSpec, InputSpec, OutputBuffers, OutputSpec, PauseThreshold, PfcThresholds, SchedulerSpec, SharedPfc,
    SharedSpec, SwitchSpec, TrimmedPriority,
};
use rnic_spec::{InputSetup, OutputSetup, QueueingSetup, RunSpec, SharedSetup};
use rnic_transport::transports::SAFETY_TIMEOUT;
use rnic_transport::{Bytes, Timeouts};

/// Maximum number of priorities: those of a PFC pause frame (IEEE 802.1Qbb).
const MAX_PRIORITIES: u8 = 8;

/// Number of priorities of a run's switches: the number that the scenario gives, else the number that the run needs.
pub(super) fn priorities(run: &RunSpec) -> Result<u8, SwitchError> {
    let of_traffic = run.traffic.iter().map(|source| source.priority + 1);
    let probed = run.fabric.meshes.iter().map(|mesh| mesh.priority + 1).chain(of_traffic).max().unwrap_or(1);
    let used = run.transport.priorities().unwrap_or(if run.transport.control_priority() { 2 } else { 1 }).max(probed);
    let used = match run.fabric.switch.queueing {
        QueueingSetup::Output(output) => output.needed_priorities(&run.transport).max(probed),
        QueueingSetup::Input(_) | QueueingSetup::Shared(_) => used,
    };
    if used > MAX_PRIORITIES {
        return Err(SwitchError::Priorities { transport: run.transport.name.clone(), used, max: MAX_PRIORITIES });
    }
    let priorities = match run.fabric.switch.queueing.priorities() {
        Some(given) if given < used => {
            let why = match run.transport.priorities() {
                Some(_) => format!("transport \"{}\"", run.transport.name),
                None if run.transport.control_priority() => "`control_priority`".to_string(),
                None if probed > 1 => "[[fabric.mesh]] and [[traffic]]".to_string(),
                None => "`trim`".to_string(),
            };
            return Err(SwitchError::GivenPriorities { given, why, used });
        }
        given => given.unwrap_or(used),
    };
    match run.fabric.switch.scheduler.weights {
        0 => Ok(priorities),
        weights if weights == priorities => Ok(priorities),
        weights => Err(SwitchError::Weights { weights, priorities }),
    }
}

/// The priority in which ACKs, NACKs and CNPs of the run travel: with `control_priority` the highest of the switches,
/// else the priority of data. Further priorities, which the scenario gives or other traffic needs, do not change it.
pub(super) fn control_priority(run: &RunSpec, switch: &SwitchSpec) -> u8 {
    if run.transport.control_priority() { switch.priorities - 1 } else { DATA_PRIORITY }
}

/// The configuration of a run's switches without ECN.
pub(super) fn switch(run: &RunSpec, priorities: u8, links: &Links) -> Result<SwitchSpec, SwitchError> {
    let buffer = match &run.fabric.switch.queueing {
        QueueingSetup::Input(input) => BufferSpec::Input(input_buffer(run, input, links)?),
        QueueingSetup::Shared(shared) => BufferSpec::Shared(shared_buffer(run, shared, priorities, links)?),
        QueueingSetup::Output(output) => BufferSpec::Output(output_buffer(run, output, priorities, links)?),
    };
    Ok(SwitchSpec { buffer, scheduler: run.fabric.switch.scheduler.spec, ecn: None, priorities })
}

/// Buffer size of each port and priority, if switches have no shared buffer: the scenario's `buffer`, else twice the
/// bandwidth-delay product of the longest path, at least 16 full packets.
fn buffer(run: &RunSpec, links: &Links) -> Bytes {
    let bdp = links.longest.rate.bytes_in(links.longest.delay * 2);
    run.fabric.switch.buffer.unwrap_or(Bytes((2 * bdp).max(16 * u64::from(links.frames.data))))
}

/// Configuration of the buffer of an input-queued switch.
fn input_buffer(run: &RunSpec, input: &InputSetup, links: &Links) -> Result<InputSpec, SwitchError> {
    let buffer = buffer(run, links);
    let longest = u64::from(links.frames.longest);
    if buffer.0 < longest {
        return Err(SwitchError::Buffer { buffer, packet: links.frames.longest });
    }
    let InputSetup { arbiter, drop_until_free } = *input;
    if drop_until_free > buffer {
        return Err(SwitchError::DropUntilFree { drop_until_free, buffer });
    }
    if !run.transport.pfc {
        return Ok(InputSpec { buffer, pfc: None, arbiter, drop_until_free });
    }
    let headroom = run.fabric.switch.headroom.unwrap_or(links.headroom);
    let xoff = match run.fabric.switch.xoff {
        Some(xoff) if xoff > buffer => return Err(SwitchError::XoffAboveBuffer { xoff, buffer }),
        Some(xoff) => xoff,
        None if buffer > headroom => Bytes(buffer.0 - headroom.0),
        None => return Err(SwitchError::Headroom { buffer, headroom }),
    };
    let headroom = run.fabric.switch.headroom.unwrap_or(Bytes(links.headroom.0.max(buffer.0.saturating_sub(xoff.0))));
    let xon = run.fabric.switch.xon.unwrap_or(xoff);
    if xon > xoff {
        return Err(SwitchError::Xon { xon, xoff });
    }
    if xoff.0 + headroom.0 < longest {
        return Err(SwitchError::Xoff { xoff, headroom, packet: links.frames.longest });
    }
    Ok(InputSpec { buffer, pfc: Some(PfcThresholds { xoff, xon, headroom }), arbiter, drop_until_free })
}

/// Default size of a shared buffer: 12 MB, as in the switches of the DCQCN paper (section 4).
const SHARED_BUFFER: Bytes = Bytes(12_000_000);

/// Default of `beta`, the factor of the dynamic PFC threshold of a shared buffer (DCQCN paper, section 4.1).
const SHARED_BETA: f64 = 8.0;

/// Configuration of the shared buffer of a switch.
fn shared_buffer(
    run: &RunSpec, shared: &SharedSetup, priorities: u8, links: &Links,
) -> Result<SharedSpec, SwitchError> {
    let setup = &run.fabric.switch;
    let buffer = setup.buffer.unwrap_or(SHARED_BUFFER);
    let lossless = run.lossless_priorities();
    let protected = (lossless & (u8::MAX >> (8 - priorities))).count_ones();
    let longest = u64::from(links.frames.longest);
    let cells = links.ports * u64::from(protected);
    let xon_offset = shared.xon_offset.unwrap_or(Bytes(2 * longest));
    if run.transport.pfc {
        let headroom = setup.headroom.unwrap_or(links.headroom);
        let reserved = Bytes(headroom.0.saturating_mul(cells));
        if reserved.0 + longest > buffer.0 {
            let (ports, priorities) = (links.ports, protected);
            return Err(SwitchError::SharedHeadroom { buffer, headroom, ports, priorities, reserved });
        }
        let pool = Bytes(buffer.0 - reserved.0);
        if let Some(xoff) = setup.xoff.filter(|xoff| *xoff > pool) {
            return Err(SwitchError::SharedXoff { xoff, pool, buffer });
        }
        if let Some(xoff) = setup.xoff.filter(|xoff| xon_offset > *xoff) {
            return Err(SwitchError::XonOffset { xon_offset, xoff });
        }
        let threshold = match setup.xoff {
            Some(xoff) => PauseThreshold::Static(xoff),
            None => PauseThreshold::Dynamic { beta: shared.beta.unwrap_or(SHARED_BETA) },
        };
        let pfc = Some(SharedPfc { threshold, xon_offset, headroom, lossless });
        return Ok(SharedSpec { buffer, pfc, egress_alpha: shared.egress_alpha });
    }
    if buffer.0 < longest {
        return Err(SwitchError::SharedBuffer { buffer, packet: links.frames.longest });
    }
    Ok(SharedSpec { buffer, pfc: None, egress_alpha: shared.egress_alpha })
}

/// Configuration of an output-queued switch, which has one buffer for each output and priority.
fn output_buffer(
    run: &RunSpec, output: &OutputSetup, priorities: u8, links: &Links,
) -> Result<OutputSpec, SwitchError> {
    if run.transport.pfc {
        return Err(SwitchError::OutputPfc);
    }
    let equal = buffer(run, links);
    let frames = &links.frames;
    let buffers = output.buffers.map_or(OutputBuffers::Equal(equal), OutputBuffers::PerPriority);
    let spec = OutputSpec { buffers, trim: output.trim, count_in_service: output.count_in_service };
    let priorities = usize::from(priorities);
    for priority in 0..priorities {
        let apart = output.headers_apart() && priority + 1 == priorities;
        let packet = if apart { frames.ack.max(frames.nack).max(frames.cnp) } else { frames.longest };
        let buffer = spec.buffer_of(priority);
        if buffer.0 < u64::from(packet) {
            return Err(SwitchError::OutputBuffer { buffer, priority, packet });
        }
    }
    Ok(spec)
}

/// Maximum number of bytes that a switch of `ports` ports can hold in its buffers for one output.
pub(super) fn most_ahead(switch: &SwitchSpec, ports: u64) -> u64 {
    match switch.buffer {
        BufferSpec::Input(input) => input.buffer.0 * ports,
        BufferSpec::Shared(shared) => shared.buffer.0,
        BufferSpec::Output(output) => {
            (0..usize::from(switch.priorities)).map(|priority| output.buffer_of(priority).0).sum()
        }
    }
}

/// Warns if the PFC headroom is too small to prevent drops, or if `xoff` plus headroom exceeds the buffer.
pub(super) fn warn_of_headroom(
    switch: &SwitchSpec, needed: Bytes, timeouts: Option<Timeouts>, warnings: &mut Vec<String>,
) {
    let Some(headroom) = switch.buffer.pfc_headroom() else { return };
    let guard = if timeouts.is_some_and(|t| t.high == SAFETY_TIMEOUT) {
        format!("; a timeout of {SAFETY_TIMEOUT} guards against a lost last packet")
    } else {
        String::new()
    };
    if headroom < needed {
        warnings.push(format!(
            "PFC can lose packets: headroom = \"{headroom}\", but the links need \"{needed}\" at worst{guard}"
        ));
    } else if let BufferSpec::Input(InputSpec { buffer, pfc: Some(pfc), .. }) = switch.buffer
        && pfc.xoff.0 + pfc.headroom.0 > buffer.0
    {
        let beyond = Bytes(pfc.xoff.0 + pfc.headroom.0 - buffer.0);
        warnings.push(format!(
            "PFC headroom: {} above xoff = \"{}\" take {beyond} more than the buffer of {buffer}; set `headroom` to reserve less",
            pfc.headroom, pfc.xoff
        ));
    }
}

/// If the switches trim packets: warns that a flow transport treats a trimmed packet as lost.
pub(super) fn warn_of_trimming(run: &RunSpec, switch: &SwitchSpec, warnings: &mut Vec<String>) {
    let BufferSpec::Output(OutputSpec { trim: Some(trim), .. }) = switch.buffer else { return };
    if run.transport.declaration.handles_trimming || run.transport.settings.flag("nic_trim") == Ok(true) {
        return;
    }
    let transport = &run.transport.name;
    warnings.push(format!("transport \"{transport}\" takes a trimmed packet for a lost one"));
    if trim.return_to_sender {
        warnings.push(format!(
            "`return_to_sender` changes nothing: packets of transport \"{transport}\" do not tell who sent them"
        ));
    }
}

/// Warns of a scheduler that has no effect because the switches have only one priority.
pub(super) fn warn_of_scheduler(switch: &SwitchSpec, warnings: &mut Vec<String>) {
    if switch.priorities == 1 && !matches!(switch.scheduler, SchedulerSpec::Strict { .. }) {
        let name = switch.scheduler.name();
        warnings.push(format!("`scheduler` = \"{name}\" changes nothing: the switches have one priority"));
    }
}

/// Passes the settings of the run's switches to `put`, for the run's results.
pub(super) fn put_switch(switch: &SwitchSpec, put: &mut impl FnMut(&str, String)) {
    match &switch.buffer {
        BufferSpec::Input(InputSpec { buffer, pfc, arbiter, drop_until_free }) => {
            put("buffer", buffer.to_string());
            put("arbiter", arbiter.to_string());
            if *drop_until_free > Bytes(0) {
                put("drop_until_free", drop_until_free.to_string());
            }
            if let Some(pfc) = pfc {
                put("xoff", pfc.xoff.to_string());
                put("xon", pfc.xon.to_string());
                put("headroom", pfc.headroom.to_string());
            }
        }
        BufferSpec::Shared(shared) => put_shared(shared, switch.priorities, put),
        BufferSpec::Output(output) => put_output(output, switch, put),
    }
    if !matches!(switch.scheduler, SchedulerSpec::Strict { .. }) {
        put("scheduler", switch.scheduler.name().to_string());
    }
    if let Some(weights) = switch.scheduler.weights() {
        put("weights", format!("{:?}", &weights[..usize::from(switch.priorities)]));
    }
}

/// Passes the settings of a shared buffer to `put`, for the run's results.
fn put_shared(shared: &SharedSpec, priorities: u8, put: &mut impl FnMut(&str, String)) {
    put("buffer", shared.buffer.to_string());
    put("queueing", "shared".to_string());
    put("priorities", priorities.to_string());
    if let Some(pfc) = shared.pfc {
        match pfc.threshold {
            PauseThreshold::Dynamic { beta } => put("beta", beta.to_string()),
            PauseThreshold::Static(xoff) => put("xoff", xoff.to_string()),
        }
        put("xon_offset", pfc.xon_offset.to_string());
        put("headroom", pfc.headroom.to_string());
        if pfc.protected(priorities.into()) < u64::from(priorities) {
            let protected = (0..priorities).filter(|priority| pfc.protects(usize::from(*priority)));
            put("lossless priorities", format!("{:?}", protected.collect::<Vec<_>>()));
        }
    }
    if let Some(alpha) = shared.egress_alpha {
        put("egress_alpha", alpha.to_string());
    }
}

/// Passes the settings of an output-queued switch to `put`, for the run's results.
fn put_output(output: &OutputSpec, switch: &SwitchSpec, put: &mut impl FnMut(&str, String)) {
    let priorities = usize::from(switch.priorities);
    put("queueing", "output".to_string());
    put("priorities", priorities.to_string());
    match output.buffers {
        OutputBuffers::PerPriority(buffers) => {
            let buffers: Vec<String> = buffers[..priorities].iter().map(Bytes::to_string).collect();
            put("buffers", buffers.join(", "));
        }
        OutputBuffers::Equal(buffer) => put("buffer", buffer.to_string()),
    }
    if output.count_in_service {
        put("count_in_service", true.to_string());
    }
    if let Some(trim) = output.trim {
        let headers = match trim.headers {
            TrimmedPriority::Highest => "the highest priority",
            TrimmedPriority::Above => "one priority above",
            TrimmedPriority::Below => "one priority below",
        };
        put("trim", format!("to {} into {headers}", Bytes(u64::from(trim.to))));
        if let SchedulerSpec::Strict { max_in_a_row: Some(max) } = switch.scheduler {
            put("in_a_row", format!("{max} of the highest priority while others wait"));
        }
        put("return_to_sender", trim.return_to_sender.to_string());
    }
}
