//! Simulates runs of RC-like transports (reliable flows). The code is compiled for each loss recovery `P` and each
//! congestion control `C`.

use super::engine::run_hosts;
use super::sharing::Sharing;
use crate::capture::Capture;
use crate::events::{Events, Listener};
use crate::host::{FlowTable, RcHosts, Segment};
use crate::in_band::InBand;
use crate::resolve::Resolved;
use rnic_fabric::Fabric;
use rnic_spec::{FlowSpec, RunOutput};
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_workload::Source;

/// Simulates one run with `flows`, which must be in order of start. `resolved` has the settings of the run, `P` is its
/// loss recovery, and `C` is its congestion control with the parameters `params`.
///
/// ```
/// use rnic_spec::FlowSpec;
/// use rnic_sim::{Catalogue, Events, resolve::resolve, run::simulate};
/// use rnic_transport::{Time, congestion::NoCongestionControl, recovery::Irn};
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 2
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     repeats = 1
/// #     interval = "1 ms"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// # let spec = &scenario.runs[0];
/// let resolved = resolve(&Catalogue::standard(), spec).unwrap();
/// let request = FlowSpec::NO_REQUEST;
/// let (start, hash) = (Time::ZERO, None);
/// let flow = FlowSpec { start, src: 0, dst: 1, bytes: 4_096, request, traffic: 0, measured: true, hash };
/// let output = simulate::<Irn, NoCongestionControl, _>(&resolved, (), 1, [flow].into_iter(), &Events::ignored());
/// assert!(output.flows.get(0).unwrap().finish.is_some());
/// ```
pub fn simulate<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>>(
    resolved: &Resolved, params: C::Params, seed: u64, flows: S, events: &Events<'_>,
) -> RunOutput {
    simulate_captured::<P, C, S, ()>(resolved, params, (seed, &Sharing::among(1)), (flows, None), events, None)
}

/// As [`simulate`], with further inputs: the threads that share the run, the traffic whose flows start when
/// earlier flows complete, the telemetry field `T` of packets, and a capture of a link's frames.
pub(crate) fn simulate_captured<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand>(
    resolved: &Resolved, params: C::Params, (seed, sharing): (u64, &Sharing<'_>), flows: (S, Option<Box<dyn Source>>),
    events: &dyn Listener, capture: Option<&mut Capture>,
) -> RunOutput {
    let mut fabric = match sharing.fabric(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let output = run_on::<P, C, S, T>(&mut fabric, resolved, params, flows, events, capture);
    sharing.done(&fabric);
    output
}

/// As [`simulate`], on `fabric`, which the caller has built.
pub fn simulate_on<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>>(
    mut fabric: Fabric<Segment>, resolved: &Resolved, params: C::Params, flows: S, events: &Events<'_>,
) -> RunOutput {
    run_on::<P, C, S, ()>(&mut fabric, resolved, params, (flows, None), events, None)
}

fn run_on<P: Protocol, C: CongestionControl, S: Iterator<Item = FlowSpec>, T: InBand>(
    fabric: &mut Fabric<Segment<T>>, resolved: &Resolved, params: C::Params,
    (flows, source): (S, Option<Box<dyn Source>>), events: &dyn Listener, capture: Option<&mut Capture>,
) -> RunOutput {
    let (cfg, config) = (resolved.flow.clone(), resolved.host_config);
    let table = FlowTable::new(config, cfg.mtu, fabric, flows, source, events);
    let plan = fabric.plan().clone();
    let mut hosts = RcHosts::<P, C, S, T>::new(cfg, params, config, plan, table);
    if resolved.splits_excess {
        fabric.hand_frames();
        hosts.measure_delays();
    }
    if let Some(capture) = &capture {
        capture.begin(fabric);
        hosts.keep_addresses();
    }
    let output = run_hosts(fabric, resolved, &mut hosts, events);
    if let Some(capture) = capture {
        capture.end(fabric, &hosts.take_addresses(), &output.flows);
    }
    output
}
