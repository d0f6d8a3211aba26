//! ECN marking of a run's switches, derived from the scenario and from the congestion control.

use super::{Demands, EcnError};
use rnic_fabric::config::{BufferSpec, EcnSpec, MarkOn, PauseThreshold, SharedSpec, SwitchSpec};
use rnic_spec::{EcnSetup, QueueingSetup, RunSpec};
use rnic_transport::congestion::Marking;

/// Configuration of the ECN marking of a run, whose congestion control has these demands; `None` if switches mark no
/// packets. Packets are marked on enqueue or dequeue as the scenario says; the default depends on the kind of buffer.
pub(super) fn ecn(run: &RunSpec, demands: &Demands) -> Result<Option<EcnSpec>, EcnError> {
    let cc = run.transport.cc.name();
    if run.transport.is_host() && demands.marking.is_some() && run.transport.settings.flag("nic_marks") != Ok(true) {
        return Err(EcnError::Unseen { cc, transport: run.transport.name.clone() });
    }
    let default = match run.fabric.switch.queueing {
        QueueingSetup::Input(_) => MarkOn::Enqueue,
        QueueingSetup::Shared(_) | QueueingSetup::Output(_) => MarkOn::Dequeue,
    };
    let mark_on = run.fabric.switch.ecn.mark_on.unwrap_or(default);
    Ok(marking(&run.fabric.switch.ecn, demands.marking, cc)?.map(|marking| EcnSpec { marking, mark_on }))
}

/// The ECN thresholds of a run's switches: those of the scenario (`ecn`), else the defaults of the congestion control
/// named `cc` (`demanded`); `None` if switches mark no packets. If the scenario states both thresholds, switches mark
/// packets even if the congestion control ignores marks.
fn marking(ecn: &EcnSetup, demanded: Option<Marking>, cc: &'static str) -> Result<Option<Marking>, EcnError> {
    if ecn.off || (demanded.is_none() && *ecn == EcnSetup::default()) {
        return Ok(None);
    }
    let default = match (demanded, ecn.kmin, ecn.kmax) {
        (Some(default), ..) => default,
        (None, Some(kmin), Some(kmax)) => Marking { kmin, kmax, pmax: 1.0 },
        (None, ..) => {
            let given = [("kmin", ecn.kmin.is_some()), ("kmax", ecn.kmax.is_some()), ("pmax", ecn.pmax.is_some())];
            let key = given.iter().find(|(_, given)| *given).map_or("mark_on", |(name, _)| name);
            return Err(EcnError::Thresholds { key, cc });
        }
    };
    let (kmin, kmax) = match (ecn.kmin, ecn.kmax) {
        (None, None) => (default.kmin, default.kmax),
        (Some(kmin), None) => (kmin, default.kmax.max(kmin)),
        (None, Some(kmax)) => (default.kmin.min(kmax), kmax),
        (Some(kmin), Some(kmax)) => (kmin, kmax),
    };
    if kmin > kmax {
        return Err(EcnError::Order { kmin, kmax });
    }
    Ok(Some(Marking { kmin, kmax, pmax: ecn.pmax.unwrap_or(default.pmax) }))
}

/// Warns if a switch with a shared buffer can pause a sender by PFC before ECN marks the sender's packets: then the
/// congestion control reacts too late (DCQCN paper, section 4.2).
pub(super) fn warn_of_late_marks(switch: &SwitchSpec, ports: u64, warnings: &mut Vec<String>) {
    let BufferSpec::Shared(SharedSpec { buffer, pfc: Some(pfc), .. }) = switch.buffer else { return };
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

/// Passes the settings of ECN marking to `put`, for the run's results.
pub(super) fn put(switch: &SwitchSpec, put: &mut impl FnMut(&str, String)) {
    let Some(EcnSpec { marking, mark_on }) = switch.ecn else { return };
    put("ecn.kmin", marking.kmin.to_string());
    put("ecn.kmax", marking.kmax.to_string());
    put("ecn.pmax", marking.pmax.to_string());
    if mark_on == MarkOn::Dequeue {
        put("ecn.mark_on", mark_on.name().to_string());
    }
}
