//! Configuration of the switches of a run, derived from the run's settings and its fabric.

use super::{Frames, SetupError};
use crate::host::DATA_PRIORITY;
use rnic_fabric::PathFacts;
use rnic_fabric::config::{
    BufferSpec, EcnSpec, FabricSpec, InputSpec, MarkOn, OutputBuffers, OutputSpec, PauseThreshold, PfcThresholds,
    SchedulerSpec, SharedLimits, SharedPfc, SharedSpec, SwitchSpec, TrimmedPriority,
};
use rnic_run::{InputSetup, OutputSetup, QueueingSetup, RunSpec, SharedSetup};
use rnic_transport::congestion::Marking;
use rnic_transport::transports::SAFETY_TIMEOUT;
use rnic_transport::{Bytes, Timeouts};

/// Maximum number of priorities: those of a PFC pause frame (IEEE 802.1Qbb).
const MAX_PRIORITIES: u8 = 8;

/// Number of priorities of a run's switches: the number that the scenario gives, else the number that the run needs.
pub(super) fn priorities(run: &RunSpec) -> Result<u8, SetupError> {
    let of_traffic = run.traffic.iter().map(|source| source.priority + 1);
    let probed = run.fabric.meshes.iter().map(|mesh| mesh.priority + 1).chain(of_traffic).max().unwrap_or(1);
    let used = run.transport.priorities().unwrap_or(if run.transport.control_priority() { 2 } else { 1 }).max(probed);
    let used = match run.fabric.switch.queueing {
        QueueingSetup::Output(output) => output.needed_priorities(&run.transport).max(probed),
        QueueingSetup::Input(_) | QueueingSetup::Shared(_) => used,
    };
    if used > MAX_PRIORITIES {
        return Err(SetupError::Impossible(format!(
            "transport \"{}\" needs {used} priorities, those of trimmed headers included; a fabric has at most {MAX_PRIORITIES}",
            run.transport.name
        )));
    }
    let priorities = match run.fabric.switch.queueing.priorities() {
        Some(given) if given < used => {
            let why = match run.transport.priorities() {
                Some(_) => format!("transport \"{}\"", run.transport.name),
                None if run.transport.control_priority() => "`control_priority`".to_string(),
                None if probed > 1 => "[[fabric.mesh]] and [[traffic]]".to_string(),
                None => "`trim`".to_string(),
            };
            return Err(SetupError::Impossible(format!("`priorities` = {given}, but with {why} {used} are in use")));
        }
        given => given.unwrap_or(used),
    };
    match run.fabric.switch.scheduler.weights {
        0 => Ok(priorities),
        weights if weights == priorities => Ok(priorities),
        weights => Err(SetupError::Impossible(format!(
            "`weights` has {weights} entries, but the switches have {priorities} priorities; accepted: one weight for each of them, the lowest first"
        ))),
    }
}

/// Configuration of ECN marking with the thresholds `marking`. Packets are marked on enqueue or dequeue as the scenario
/// says; the default depends on the kind of buffer.
pub(super) fn ecn(run: &RunSpec, marking: Marking) -> EcnSpec {
    let default = match run.fabric.switch.queueing {
        QueueingSetup::Input(_) => MarkOn::Enqueue,
        QueueingSetup::Shared(_) | QueueingSetup::Output(_) => MarkOn::Dequeue,
    };
    EcnSpec { marking, mark_on: run.fabric.switch.ecn.mark_on.unwrap_or(default) }
}

/// The priority in which ACKs, NACKs and CNPs of the run travel.
pub(super) fn control_priority(run: &RunSpec, switch: &SwitchSpec) -> u8 {
    match switch.buffer {
        BufferSpec::Output(_) if !run.transport.control_priority() => DATA_PRIORITY,
        // The further priorities are those of probes, or of other traffic.
        _ if !run.transport.control_priority()
            && !run.transport.is_message()
            && (run.fabric.meshes.iter().any(|mesh| mesh.priority > 0)
                || run.traffic.iter().any(|source| source.priority > 0)) =>
        {
            DATA_PRIORITY
        }
        _ => switch.priorities - 1,
    }
}

/// The configuration of a run's switches, which have at most `ports` ports. `needed` is the minimum PFC headroom in
/// bytes that prevents drops.
pub(super) fn switch(
    run: &RunSpec, fabric: &FabricSpec, needed: Bytes, longest: PathFacts, frames: &Frames, ports: u64,
) -> Result<SwitchSpec, SetupError> {
    let priorities = fabric.switch.priorities;
    let buffer = match &run.fabric.switch.queueing {
        QueueingSetup::Input(input) => BufferSpec::Input(input_buffer(run, input, needed, longest, frames)?),
        QueueingSetup::Shared(shared) => {
            BufferSpec::Shared(shared_buffer(run, shared, priorities, needed, frames, ports)?)
        }
        QueueingSetup::Output(output) => BufferSpec::Output(output_buffer(run, output, priorities, longest, frames)?),
    };
    Ok(SwitchSpec { buffer, scheduler: run.fabric.switch.scheduler.spec, ecn: None, priorities })
}

/// Buffer size of each port and priority, if switches have no shared buffer: the scenario's `buffer`, else twice the
/// bandwidth-delay product of the longest path, at least 16 full packets.
fn buffer(run: &RunSpec, longest: PathFacts, frames: &Frames) -> Bytes {
    let bdp = longest.rate.bytes_in(longest.delay * 2);
    run.fabric.switch.buffer.unwrap_or(Bytes((2 * bdp).max(16 * u64::from(frames.data))))
}

/// Configuration of the buffer of an input-queued switch.
fn input_buffer(
    run: &RunSpec, input: &InputSetup, needed: Bytes, longest: PathFacts, frames: &Frames,
) -> Result<InputSpec, SetupError> {
    let buffer = buffer(run, longest, frames);
    if buffer.0 < u64::from(frames.longest) {
        return Err(SetupError::Impossible(format!(
            "a switch buffer of {buffer} cannot hold one packet of {} bytes",
            frames.longest
        )));
    }
    let InputSetup { arbiter, drop_until_free } = *input;
    if drop_until_free > buffer {
        return Err(SetupError::Impossible(format!(
            "drop_until_free = \"{drop_until_free}\" is more than the buffer of {buffer}"
        )));
    }
    if !run.transport.pfc {
        return Ok(InputSpec { buffer, pfc: None, arbiter, drop_until_free });
    }
    let headroom = run.fabric.switch.headroom.unwrap_or(needed);
    let xoff = match run.fabric.switch.xoff {
        Some(xoff) => xoff,
        None if buffer > headroom => Bytes(buffer.0 - headroom.0),
        None => {
            return Err(SetupError::Impossible(format!(
                "a switch buffer of {buffer} is too small for PFC with a headroom of {headroom}; set a larger `buffer`, or `xoff` by hand"
            )));
        }
    };
    let headroom = run.fabric.switch.headroom.unwrap_or(Bytes(needed.0.max(buffer.0.saturating_sub(xoff.0))));
    let xon = run.fabric.switch.xon.unwrap_or(xoff);
    if xon > xoff {
        return Err(SetupError::Impossible(format!(
            "xon = \"{xon}\" is above xoff, which follows from the buffer as \"{xoff}\""
        )));
    }
    if xoff.0 + headroom.0 < u64::from(frames.longest) {
        return Err(SetupError::Impossible(format!(
            "xoff = \"{xoff}\" and headroom = \"{headroom}\" together cannot hold one packet of {} bytes",
            frames.longest
        )));
    }
    Ok(InputSpec { buffer, pfc: Some(PfcThresholds { xoff, xon, headroom }), arbiter, drop_until_free })
}

/// Default size of a shared buffer: 12 MB, as in the switches of the DCQCN paper (section 4).
const SHARED_BUFFER: Bytes = Bytes(12_000_000);

/// Default of `beta`, the factor of the dynamic PFC threshold of a shared buffer (DCQCN paper, section 4.1).
const SHARED_BETA: f64 = 8.0;

/// Configuration of the shared buffer of a switch with `ports` ports.
fn shared_buffer(
    run: &RunSpec, shared: &SharedSetup, priorities: u8, needed: Bytes, frames: &Frames, ports: u64,
) -> Result<SharedSpec, SetupError> {
    let setup = &run.fabric.switch;
    let impossible = |message: String| Err(SetupError::Impossible(message));
    let buffer = setup.buffer.unwrap_or(SHARED_BUFFER);
    let lossless = run.lossless_priorities();
    let protected = (lossless & (u8::MAX >> (8 - priorities))).count_ones();
    let cells = ports * u64::from(protected);
    let xon_offset = shared.xon_offset.unwrap_or(Bytes(2 * u64::from(frames.longest)));
    if run.transport.pfc {
        let headroom = setup.headroom.unwrap_or(needed);
        let reserved = Bytes(headroom.0.saturating_mul(cells));
        if reserved.0 + u64::from(frames.longest) > buffer.0 {
            return impossible(format!(
                "a shared buffer of {buffer} has no room for a headroom of {headroom} for each of {ports} ports in {protected} priorities, {reserved} in all; set a larger `buffer`, fewer `priorities` or a smaller `headroom`"
            ));
        }
        let pool = Bytes(buffer.0 - reserved.0);
        if let Some(xoff) = setup.xoff.filter(|xoff| *xoff > pool) {
            return impossible(format!(
                "xoff = \"{xoff}\" is more than the {pool} that the headroom leaves of a shared buffer of {buffer}"
            ));
        }
        if let Some(xoff) = setup.xoff.filter(|xoff| xon_offset > *xoff) {
            return impossible(format!("xon_offset = \"{xon_offset}\" is more than xoff = \"{xoff}\""));
        }
        let threshold = match setup.xoff {
            Some(xoff) => PauseThreshold::Static(xoff),
            None => PauseThreshold::Dynamic { beta: shared.beta.unwrap_or(SHARED_BETA) },
        };
        return Ok(SharedSpec {
            buffer,
            limits: SharedLimits::Pfc(SharedPfc { threshold, xon_offset, headroom, lossless }),
        });
    }
    if buffer.0 < u64::from(frames.longest) {
        return impossible(format!("a shared buffer of {buffer} cannot hold one packet of {} bytes", frames.longest));
    }
    Ok(SharedSpec { buffer, limits: SharedLimits::Lossy { egress_alpha: shared.egress_alpha } })
}

/// Configuration of an output-queued switch, which has one buffer for each output and priority.
fn output_buffer(
    run: &RunSpec, output: &OutputSetup, priorities: u8, longest: PathFacts, frames: &Frames,
) -> Result<OutputSpec, SetupError> {
    let impossible = |message: String| Err(SetupError::Impossible(message));
    if run.transport.pfc {
        return impossible("`queueing` = \"output\" has no PFC, but the run has `pfc` = true".to_string());
    }
    let equal = buffer(run, longest, frames);
    let buffers = output.buffers.map_or(OutputBuffers::Equal(equal), OutputBuffers::PerPriority);
    let spec = OutputSpec { buffers, trim: output.trim, count_in_service: output.count_in_service };
    let priorities = usize::from(priorities);
    for priority in 0..priorities {
        let apart = output.headers_apart() && priority + 1 == priorities;
        let longest = if apart { frames.ack.max(frames.nack).max(frames.cnp) } else { frames.longest };
        let buffer = spec.buffer_of(priority);
        if buffer.0 < u64::from(longest) {
            return impossible(format!(
                "the buffer of {buffer} in priority {priority} cannot hold one packet of {longest} bytes"
            ));
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

/// Warns if a switch with a shared buffer can pause a sender by PFC before ECN marks the sender's packets: then the
/// congestion control reacts too late (DCQCN paper, section 4.2).
pub(super) fn warn_of_late_marks(switch: &SwitchSpec, ports: u64, warnings: &mut Vec<String>) {
    let BufferSpec::Shared(SharedSpec { buffer, limits: SharedLimits::Pfc(pfc) }) = switch.buffer else { return };
    let Some(EcnSpec { marking, .. }) = switch.ecn else { return };
    let priorities = u64::from(switch.priorities);
    let pool = buffer.0.saturating_sub(pfc.headroom.0 * ports * pfc.protected(switch.priorities.into())) as f64;
    // ECN compares its thresholds with the length of an egress queue, which may hold packets from all inputs. `bound`
    // is the queue length at which each input may have reached its PFC pause threshold.
    let bound = match pfc.threshold {
        PauseThreshold::Dynamic { beta } => beta * pool / ((priorities * ports) as f64 * (beta + 1.0)),
        PauseThreshold::Static(xoff) => xoff.0 as f64 / ports as f64,
    };
    if marking.kmin.0 as f64 >= bound {
        warnings.push(format!(
            "PFC can pause before ECN marks: kmin = \"{}\" is not below {} bytes, where the inputs of a queue may reach their threshold",
            marking.kmin, bound as u64
        ));
    }
}

/// If the switches trim packets: warns that a flow transport treats a trimmed packet as lost.
pub(super) fn warn_of_trimming(run: &RunSpec, switch: &SwitchSpec, warnings: &mut Vec<String>) {
    let BufferSpec::Output(OutputSpec { trim: Some(trim), .. }) = switch.buffer else { return };
    if run.transport.is_message() || run.transport.settings.flag("nic_trim") == Ok(true) {
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

/// Passes the settings of ECN marking to `put`, for the run's results.
pub(super) fn put_ecn(switch: &SwitchSpec, put: &mut impl FnMut(&str, String)) {
    let Some(EcnSpec { marking, mark_on }) = switch.ecn else { return };
    put("ecn.kmin", marking.kmin.to_string());
    put("ecn.kmax", marking.kmax.to_string());
    put("ecn.pmax", marking.pmax.to_string());
    if mark_on == MarkOn::Dequeue {
        put("ecn.mark_on", mark_on.name().to_string());
    }
}

/// Passes the settings of a shared buffer to `put`, for the run's results.
fn put_shared(shared: &SharedSpec, priorities: u8, put: &mut impl FnMut(&str, String)) {
    put("buffer", shared.buffer.to_string());
    put("queueing", "shared".to_string());
    put("priorities", priorities.to_string());
    match shared.limits {
        SharedLimits::Pfc(pfc) => {
            match pfc.threshold {
                PauseThreshold::Dynamic { beta } => put("beta", beta.to_string()),
                PauseThreshold::Static(xoff) => put("xoff", xoff.to_string()),
            }
            put("xon_offset", pfc.xon_offset.to_string());
            put("headroom", pfc.headroom.to_string());
            if pfc.protected(priorities.into()) < u64::from(priorities) {
                let protected = (0..priorities).filter(|priority| pfc.lossless & (1 << priority) != 0);
                put("lossless priorities", format!("{:?}", protected.collect::<Vec<_>>()));
            }
        }
        SharedLimits::Lossy { egress_alpha: Some(alpha) } => put("egress_alpha", alpha.to_string()),
        SharedLimits::Lossy { egress_alpha: None } => {}
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
