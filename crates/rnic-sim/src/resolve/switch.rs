//! The switches of a run.

use super::{Frames, SAFETY_TIMEOUT, SetupError};
use crate::host::DATA_PRIORITY;
use rnic_fabric::PathFacts;
use rnic_fabric::config::{FabricSpec, Headers, OutputSpec, PfcThresholds, QueueingSpec, SharedSpec, SwitchSpec};
use rnic_run::{OutputSetup, QueueingSetup, RunSpec, SharedSetup};
use rnic_transport::{Bytes, Timeouts};

/// As many as a pause frame has bits for.
const MOST_PRIORITIES: u8 = 8;

/// Priorities that switches have.
pub(super) fn priorities(run: &RunSpec) -> Result<u8, SetupError> {
    let used = run.transport.bands().unwrap_or(if run.transport.control_priority { 2 } else { 1 });
    let (key, given, used) = match run.fabric.switch.queueing {
        QueueingSetup::Input => ("", None, used),
        QueueingSetup::Shared(shared) => ("classes", shared.classes, used),
        QueueingSetup::Output(output) => ("priorities", output.priorities, output.needed_priorities(&run.transport)),
    };
    if used > MOST_PRIORITIES {
        return Err(SetupError::Impossible(format!(
            "transport \"{}\" needs {used} priorities, those of trimmed headers included; a fabric has at most {MOST_PRIORITIES}",
            run.transport.transport
        )));
    }
    match given {
        Some(given) if given < used => {
            let why = match run.transport.bands() {
                Some(_) => format!("transport \"{}\"", run.transport.transport),
                None if run.transport.control_priority => "`control_priority`".to_string(),
                None => "`trim`".to_string(),
            };
            Err(SetupError::Impossible(format!("`{key}` = {given}, but with {why} {used} are in use")))
        }
        given => Ok(given.unwrap_or(used)),
    }
}

/// The priority of ACKs, NACKs and CNPs.
pub(super) fn control_priority(run: &RunSpec, switch: &SwitchSpec) -> u8 {
    match switch.queueing {
        QueueingSpec::Output(_) if !run.transport.control_priority => DATA_PRIORITY,
        _ => switch.priorities - 1,
    }
}

/// A run's switches, of at most `ports` ports; `needed` is the headroom that makes them lossless.
pub(super) fn switch(
    run: &RunSpec, fabric: &FabricSpec, needed: Bytes, longest: PathFacts, frames: &Frames, ports: u64,
) -> Result<SwitchSpec, SetupError> {
    match &run.fabric.switch.queueing {
        QueueingSetup::Input => input_switch(run, fabric, needed, longest, frames),
        QueueingSetup::Shared(shared) => shared_switch(run, shared, fabric, needed, frames, ports),
        QueueingSetup::Output(output) => output_switch(run, output, fabric, longest, frames),
    }
}

/// The buffer of a port and priority.
fn buffer(run: &RunSpec, longest: PathFacts, frames: &Frames) -> Bytes {
    let bdp = longest.rate.bytes_in(longest.delay * 2);
    run.fabric.switch.buffer.unwrap_or(Bytes((2 * bdp).max(16 * u64::from(frames.data))))
}

/// An input-queued switch.
fn input_switch(
    run: &RunSpec, fabric: &FabricSpec, needed: Bytes, longest: PathFacts, frames: &Frames,
) -> Result<SwitchSpec, SetupError> {
    let buffer = buffer(run, longest, frames);
    if buffer.0 < u64::from(frames.longest) {
        return Err(SetupError::Impossible(format!(
            "a switch buffer of {buffer} cannot hold one packet of {} bytes",
            frames.longest
        )));
    }
    let mut spec = SwitchSpec { buffer, ..fabric.switch };
    if !run.transport.pfc {
        return Ok(spec);
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
    spec.pfc = Some(PfcThresholds { xoff, xon, headroom });
    Ok(spec)
}

/// A shared buffer, when nothing else is said: that of the switches in the DCQCN paper (section 4).
const SHARED_BUFFER: Bytes = Bytes(12_000_000);

/// Its dynamic threshold (section 4.1).
const SHARED_BETA: f64 = 8.0;

/// A switch of `ports` ports with a shared buffer.
fn shared_switch(
    run: &RunSpec, shared: &SharedSetup, fabric: &FabricSpec, needed: Bytes, frames: &Frames, ports: u64,
) -> Result<SwitchSpec, SetupError> {
    let setup = &run.fabric.switch;
    let impossible = |message: String| Err(SetupError::Impossible(message));
    let buffer = setup.buffer.unwrap_or(SHARED_BUFFER);
    let cells = ports * u64::from(fabric.switch.priorities);
    let resume = shared.resume.unwrap_or(Bytes(2 * u64::from(frames.longest)));
    let mut spec = SwitchSpec { buffer, ..fabric.switch };
    if run.transport.pfc {
        let headroom = setup.headroom.unwrap_or(needed);
        let reserved = Bytes(headroom.0.saturating_mul(cells));
        if reserved.0 + u64::from(frames.longest) > buffer.0 {
            return impossible(format!(
                "a shared buffer of {buffer} has no room for a headroom of {headroom} for each of {ports} ports in {} classes, {reserved} in all; set a larger `buffer`, fewer `classes` or a smaller `headroom`",
                fabric.switch.priorities
            ));
        }
        let pool = Bytes(buffer.0 - reserved.0);
        if let Some(xoff) = setup.xoff.filter(|xoff| *xoff > pool) {
            return impossible(format!(
                "xoff = \"{xoff}\" is more than the {pool} that the headroom leaves of a shared buffer of {buffer}"
            ));
        }
        if let Some(xoff) = setup.xoff.filter(|xoff| resume > *xoff) {
            return impossible(format!("resume = \"{resume}\" is more than xoff = \"{xoff}\""));
        }
        let xoff = setup.xoff.unwrap_or_default();
        spec.pfc = Some(PfcThresholds { xoff, xon: Bytes(xoff.0.saturating_sub(resume.0)), headroom });
    } else if buffer.0 < u64::from(frames.longest) {
        return impossible(format!("a shared buffer of {buffer} cannot hold one packet of {} bytes", frames.longest));
    }
    spec.queueing = QueueingSpec::Shared(SharedSpec {
        beta: setup.xoff.is_none().then_some(shared.beta.unwrap_or(SHARED_BETA)),
        resume,
        egress_alpha: shared.egress_alpha,
        weights: shared.weights,
        mark_departures: shared.mark_departures,
    });
    Ok(spec)
}

/// A switch with a buffer for each output and priority.
fn output_switch(
    run: &RunSpec, output: &OutputSetup, fabric: &FabricSpec, longest: PathFacts, frames: &Frames,
) -> Result<SwitchSpec, SetupError> {
    let impossible = |message: String| Err(SetupError::Impossible(message));
    if run.transport.pfc {
        return impossible("`queueing` = \"output\" has no PFC, but the run has `pfc` = true".to_string());
    }
    let buffer = buffer(run, longest, frames);
    let queueing = OutputSpec { buffers: output.buffers, trim: output.trim, mark_departures: output.mark_departures };
    let priorities = usize::from(fabric.switch.priorities);
    for priority in 0..priorities {
        let apart = output.headers_apart() && priority + 1 == priorities;
        let longest = if apart { frames.ack.max(frames.nack).max(frames.cnp) } else { frames.longest };
        let buffer = queueing.buffer_of(priority, buffer);
        if buffer.0 < u64::from(longest) {
            return impossible(format!(
                "the buffer of {buffer} in priority {priority} cannot hold one packet of {longest} bytes"
            ));
        }
    }
    Ok(SwitchSpec { queueing: QueueingSpec::Output(queueing), buffer, ..fabric.switch })
}

/// Bytes that a switch of `ports` ports can hold for one output.
pub(super) fn most_ahead(switch: &SwitchSpec, ports: u64) -> u64 {
    match switch.queueing {
        QueueingSpec::Input => switch.buffer.0 * ports,
        QueueingSpec::Shared(_) => switch.buffer.0,
        QueueingSpec::Output(output) => {
            (0..usize::from(switch.priorities)).map(|priority| output.buffer_of(priority, switch.buffer).0).sum()
        }
    }
}

/// Warns of headroom that is too small, or that takes more than the buffer.
pub(super) fn warn_of_headroom(
    pfc: PfcThresholds, needed: Bytes, buffer: Bytes, timeouts: Option<Timeouts>, warnings: &mut Vec<String>,
) {
    let guard = if timeouts.is_some_and(|t| t.high == SAFETY_TIMEOUT) {
        format!("; a timeout of {SAFETY_TIMEOUT} guards against a lost last packet")
    } else {
        String::new()
    };
    if pfc.headroom < needed {
        warnings.push(format!(
            "PFC can lose packets: headroom = \"{}\", but the links need \"{needed}\" at worst{guard}",
            pfc.headroom
        ));
    } else if pfc.xoff.0 + pfc.headroom.0 > buffer.0 {
        let beyond = Bytes(pfc.xoff.0 + pfc.headroom.0 - buffer.0);
        warnings.push(format!(
            "PFC headroom: {} above xoff = \"{}\" take {beyond} more than the buffer of {buffer}; set `headroom` to reserve less",
            pfc.headroom, pfc.xoff
        ));
    }
}

/// Warns when PFC can come before the first mark: then congestion control learns of congestion too late (DCQCN paper, section 4.2).
pub(super) fn warn_of_late_marks(switch: &SwitchSpec, ports: u64, warnings: &mut Vec<String>) {
    let QueueingSpec::Shared(shared) = switch.queueing else { return };
    let (Some(pfc), Some(marking)) = (switch.pfc, switch.marking) else { return };
    let classes = u64::from(switch.priorities);
    let pool = switch.buffer.0.saturating_sub(pfc.headroom.0 * ports * classes) as f64;
    // All inputs may feed the one queue that ECN looks at.
    let bound = match shared.beta {
        Some(beta) => beta * pool / ((classes * ports) as f64 * (beta + 1.0)),
        None => pfc.xoff.0 as f64 / ports as f64,
    };
    if marking.kmin.0 as f64 >= bound {
        warnings.push(format!(
            "PFC can pause before ECN marks: kmin = \"{}\" is not below {} bytes, where the inputs of a queue may reach their threshold",
            marking.kmin, bound as u64
        ));
    }
}

/// Warns of what a transport of flows makes of trimming.
pub(super) fn warn_of_trimming(run: &RunSpec, switch: &SwitchSpec, warnings: &mut Vec<String>) {
    let QueueingSpec::Output(OutputSpec { trim: Some(trim), .. }) = switch.queueing else { return };
    if run.transport.is_message() {
        return;
    }
    let transport = &run.transport.transport;
    warnings.push(format!("transport \"{transport}\" takes a trimmed packet for a lost one"));
    if trim.return_to_sender {
        warnings.push(format!(
            "`return_to_sender` changes nothing: packets of transport \"{transport}\" do not tell who sent them"
        ));
    }
}

/// The settings of the switches.
pub(super) fn put_switch(switch: &SwitchSpec, put: &mut impl FnMut(&str, String)) {
    if !matches!(switch.queueing, QueueingSpec::Output(_)) {
        put("buffer", switch.buffer.to_string());
    }
    match (switch.queueing, switch.pfc) {
        (QueueingSpec::Shared(shared), pfc) => put_shared(&shared, pfc, switch.priorities, put),
        (QueueingSpec::Output(output), _) => put_output(&output, switch, put),
        (QueueingSpec::Input, Some(pfc)) => {
            put("xoff", pfc.xoff.to_string());
            put("xon", pfc.xon.to_string());
            put("headroom", pfc.headroom.to_string());
        }
        (QueueingSpec::Input, None) => {}
    }
}

/// The settings of a shared buffer.
fn put_shared(shared: &SharedSpec, pfc: Option<PfcThresholds>, classes: u8, put: &mut impl FnMut(&str, String)) {
    put("queueing", "shared".to_string());
    put("classes", classes.to_string());
    if let Some(pfc) = pfc {
        match shared.beta {
            Some(beta) => put("beta", beta.to_string()),
            None => put("xoff", pfc.xoff.to_string()),
        }
        put("resume", shared.resume.to_string());
        put("headroom", pfc.headroom.to_string());
    } else if let Some(alpha) = shared.egress_alpha {
        put("egress_alpha", alpha.to_string());
    }
    if shared.mark_departures {
        put("mark", "departures".to_string());
    }
    if let Some(weights) = shared.weights {
        put("weights", format!("{:?}", &weights[..usize::from(classes)]));
    }
}

/// The settings of a switch with a buffer for each output and priority.
fn put_output(output: &OutputSpec, switch: &SwitchSpec, put: &mut impl FnMut(&str, String)) {
    let priorities = usize::from(switch.priorities);
    put("queueing", "output".to_string());
    put("priorities", priorities.to_string());
    if let Some(buffers) = output.buffers {
        let buffers: Vec<String> = buffers[..priorities].iter().map(Bytes::to_string).collect();
        put("buffers", buffers.join(", "));
    } else {
        put("buffer", switch.buffer.to_string());
    }
    if output.mark_departures {
        put("mark", "departures".to_string());
    }
    if let Some(trim) = output.trim {
        let headers = match trim.headers {
            Headers::Highest => "the highest priority",
            Headers::Above => "one priority above",
        };
        put("trim", format!("to {} into {headers}", Bytes(u64::from(trim.to))));
        if let Some(most) = trim.in_a_row {
            put("in_a_row", format!("{most} of the highest priority while others wait"));
        }
        put("return_to_sender", trim.return_to_sender.to_string());
    }
}
