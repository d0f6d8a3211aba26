//! The models of `rnic-model`: fluid models of congestion controls, buffer thresholds.

use crate::arrow::Table;
use crate::tables;
use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt32Array};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rnic_model::buffers::{Given, Switch, reaction};
use rnic_model::dcqcn::{self, Dcqcn};
use rnic_model::series::{Group, Run, Series};
use rnic_model::timely::{self, Timely};
use rnic_transport::congestion::{
    CongestionControl, Dcqcn as DcqcnAlgorithm, PatchedTimely, Timely as TimelyAlgorithm,
};
use rnic_transport::settings::{Parameter, Settings};
use rnic_transport::{BitRate, Bytes, Time};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The quantity in `text`, such as "40 Gbps"; `name` is the argument.
fn quantity<T: FromStr<Err: Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| PyValueError::new_err(format!("{name}: {error}")))
}

/// The flows of a fluid model: the rate and the start of each flow, as text. All flows are identical if there is one
/// rate and one start.
fn groups(count: u32, rates: &[String], starts: &[String], default: BitRate) -> PyResult<Vec<Group>> {
    for (name, values) in [("start", rates.len()), ("begin", starts.len())] {
        if values > 1 && values != count as usize {
            return Err(PyValueError::new_err(format!(
                "`{name}` has {values} values for {count} flows; accepted: one value for each flow, or one for all"
            )));
        }
    }
    let group = |count: u32, index: usize| -> PyResult<Group> {
        let rate = rates.get(index).or(rates.first()).map_or(Ok(default), |text| quantity("start", text))?;
        let start = starts.get(index).or(starts.first()).map_or(Ok(Time::ZERO), |text| quantity("begin", text))?;
        Ok(Group { count, rate, start })
    };
    match rates.len().max(starts.len()) {
        0 | 1 => Ok(vec![group(count, 0)?]),
        apart => (0..apart).map(|index| group(1, index)).collect(),
    }
}

/// The settings of a congestion control, of which `accepted` are parameters of its fluid model.
fn settings(declared: &'static [Parameter], accepted: &[&str], given: &[(String, String)]) -> PyResult<Settings> {
    let mut settings = Settings::new(declared);
    for (name, text) in given {
        let parameter = declared.iter().find(|parameter| parameter.name == name && accepted.contains(&parameter.name));
        let Some(parameter) = parameter else {
            let known = accepted.join(", ");
            return Err(PyValueError::new_err(format!("the fluid model has no parameter `{name}`; accepted: {known}")));
        };
        let value = parameter.kind.parse(text).map_err(|why| PyValueError::new_err(format!("{name}: {why}")))?;
        settings.set(name, value).map_err(refused)?;
    }
    Ok(settings)
}

/// Duration, time step and time between samples, as text.
type Times = (String, String, String);

fn run((duration, step, sample): &Times) -> PyResult<Run> {
    Ok(Run {
        duration: quantity("duration", duration)?,
        step: quantity("step", step)?,
        sample: quantity("sample", sample)?,
    })
}

/// The columns of a solution: time, queue, marking probability if the model has it, and the rate and state of each
/// group of flows.
fn table(series: Series) -> PyResult<Table> {
    let mut columns = vec![("time_s".to_string(), series.time), ("queue_bytes".to_string(), series.queue)];
    if !series.marking.is_empty() {
        columns.push(("marking".to_string(), series.marking));
    }
    for (index, flow) in series.flows.into_iter().enumerate() {
        columns.push((format!("flow{index}.rate_bps"), flow.rate));
        columns.extend(flow.state.into_iter().map(|(name, values)| (format!("flow{index}.{name}"), values)));
    }
    let column = |(name, values)| (name, Arc::new(Float64Array::from(values)) as ArrayRef);
    tables::of_columns(columns.into_iter().map(column)).map_err(refused)
}

/// A fluid model of DCQCN from its arguments.
fn dcqcn_of(
    rate: &str, delay: &str, packet: &str, parameters: &[(String, String)], marking: &[(String, String)],
) -> PyResult<Dcqcn> {
    let settings = settings(DcqcnAlgorithm::PARAMETERS, &dcqcn::PARAMETERS, parameters)?;
    let mut model = Dcqcn::new(quantity("rate", rate)?, &settings).map_err(refused)?;
    (model.delay, model.packet) = (quantity("delay", delay)?, quantity("packet", packet)?);
    for (name, text) in marking {
        match name.as_str() {
            "kmin" => model.marking.kmin = quantity("kmin", text)?,
            "kmax" => model.marking.kmax = quantity("kmax", text)?,
            _ => model.marking.pmax = quantity("pmax", text)?,
        }
    }
    model.check().map_err(refused)?;
    Ok(model)
}

/// Solves the fluid model of DCQCN.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python function that calls it names them")]
pub(crate) fn dcqcn_solve(
    py: Python<'_>, rate: &str, delay: &str, packet: &str, parameters: Vec<(String, String)>,
    marking: Vec<(String, String)>, flows: u32, start: Vec<String>, begin: Vec<String>, times: Times,
) -> PyResult<Table> {
    let model = dcqcn_of(rate, delay, packet, &parameters, &marking)?;
    let (groups, run) = (groups(flows, &start, &begin, model.rate)?, run(&times)?);
    table(py.detach(|| model.solve(&groups, &run)).map_err(refused)?)
}

/// The fixed points of the fluid model of DCQCN for several numbers of flows.
#[pyfunction]
pub(crate) fn dcqcn_fixed_points(
    rate: &str, delay: &str, packet: &str, parameters: Vec<(String, String)>, marking: Vec<(String, String)>,
    flows: Vec<u32>,
) -> PyResult<Table> {
    let model = dcqcn_of(rate, delay, packet, &parameters, &marking)?;
    let points = flows.iter().map(|flows| model.fixed_point(*flows)).collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let numbers = |of: fn(&dcqcn::FixedPoint) -> f64| Arc::new(Float64Array::from_iter_values(points.iter().map(of)));
    let valid: Vec<bool> = points.iter().map(dcqcn::FixedPoint::is_valid).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flows", Arc::new(UInt32Array::from(flows))),
        ("marking", numbers(|point| point.p)),
        ("queue_bytes", numbers(|point| point.queue)),
        ("rate_bps", numbers(|point| point.rate)),
        ("target_bps", numbers(|point| point.target)),
        ("alpha", numbers(|point| point.alpha)),
        ("valid", Arc::new(arrow_array::BooleanArray::from(valid))),
    ];
    tables::of_columns(columns.into_iter().map(|(name, column)| (name.to_string(), column))).map_err(refused)
}

/// Solves the fluid model of TIMELY or of patched TIMELY.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python function that calls it names them")]
pub(crate) fn timely_solve(
    py: Python<'_>, rate: &str, patched: bool, delay: Option<String>, packet: &str, parameters: Vec<(String, String)>,
    flows: u32, start: Vec<String>, begin: Vec<String>, times: Times,
) -> PyResult<Table> {
    let declared = if patched { PatchedTimely::PARAMETERS } else { TimelyAlgorithm::PARAMETERS };
    let settings = settings(declared, &timely::PARAMETERS, &parameters)?;
    let mut model = Timely::new(quantity("rate", rate)?, patched, &settings).map_err(refused)?;
    model.packet = quantity("packet", packet)?;
    if let Some(delay) = delay {
        model.delay = quantity("delay", &delay)?;
    }
    model.check().map_err(refused)?;
    let fair = BitRate::from_bps(model.rate.as_bps() / u64::from(flows.max(1)));
    let (groups, run) = (groups(flows, &start, &begin, fair)?, run(&times)?);
    table(py.detach(|| model.solve(&groups, &run)).map_err(refused)?)
}

/// A switch from its arguments: ports, rate, buffer, priorities, MTU, delay, reaction time, XON offset, beta.
type SwitchArguments = (u32, String, String, u32, String, String, Option<String>, Option<String>, f64);

fn switch(
    (ports, rate, buffer, priorities, mtu, delay, given, xon_offset, beta): &SwitchArguments,
) -> PyResult<Switch> {
    let (rate, mtu): (BitRate, Bytes) = (quantity("rate", rate)?, quantity("mtu", mtu)?);
    let switch = Switch {
        ports: *ports,
        rate,
        buffer: quantity("buffer", buffer)?,
        priorities: *priorities,
        mtu,
        delay: quantity("delay", delay)?,
        reaction: match given {
            Some(text) => quantity("reaction", text)?,
            None if rate.as_bps() == 0 => Time::ZERO, // `check` refuses a rate of 0
            None => reaction(rate),
        },
        xon_offset: match xon_offset {
            Some(text) => quantity("xon_offset", text)?,
            None => Bytes(mtu.0.saturating_mul(2)),
        },
        beta: *beta,
    };
    switch.check().map_err(refused)?;
    Ok(switch)
}

/// The thresholds of switches, a row for each. `headroom` has the headroom of each switch, or `None` if it is computed.
#[pyfunction]
pub(crate) fn buffers(switches: Vec<SwitchArguments>, headroom: Vec<Option<String>>) -> PyResult<Table> {
    let mut rows = Vec::with_capacity(switches.len());
    for (arguments, given) in switches.iter().zip(&headroom) {
        let switch = switch(arguments)?;
        let headroom = given.as_ref().map_or(Ok(switch.headroom()), |text| quantity("headroom", text))?;
        let limits = switch.thresholds(headroom);
        let judged = Given { headroom: given.is_some().then_some(headroom), ..Given::default() };
        let is_safe = !switch.judge(&judged).iter().any(|finding| finding.is_unsafe);
        rows.push((switch.headroom(), limits, is_safe));
    }
    let whole = |of: &dyn Fn(&(Bytes, _, bool)) -> u64| {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| of(row) as i64))) as ArrayRef
    };
    let needed = whole(&|row| row.0.0);
    let headroom = whole(&|row: &(Bytes, rnic_model::buffers::Thresholds, bool)| row.1.headroom.0);
    let numbers = |of: fn(&rnic_model::buffers::Thresholds) -> f64| {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| of(&row.1)))) as ArrayRef
    };
    let safe: Vec<bool> = rows.iter().map(|row| row.2).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("needed_headroom_bytes", needed),
        ("headroom_bytes", headroom),
        ("shared_bytes", numbers(|limits| limits.shared)),
        ("t_pfc_bytes", numbers(|limits| limits.t_pfc)),
        ("static_t_ecn_bytes", numbers(|limits| limits.static_t_ecn)),
        ("dynamic_t_ecn_bytes", numbers(|limits| limits.dynamic_t_ecn)),
        ("dynamic_t_pfc_bytes", numbers(|limits| limits.dynamic_t_pfc)),
        ("alpha", numbers(|limits| limits.alpha)),
        ("safe", Arc::new(arrow_array::BooleanArray::from(safe))),
    ];
    tables::of_columns(columns.into_iter().map(|(name, column)| (name.to_string(), column))).map_err(refused)
}
