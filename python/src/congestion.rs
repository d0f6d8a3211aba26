//! Congestion controls written in Python.
//!
//! The simulator is compiled for one type, [`InPython`], whose functions call the methods of a Python object, an
//! instance for each flow. Rate, window and timer are copied from the object after each call, because the simulator
//! reads them more often than they change.

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use rnic_sim::Catalogue;
use rnic_transport::congestion::{self, CongestionControl, LossSignal, Marking, Settings};
use rnic_transport::{BitRate, Bytes, FlowConfig, Time};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Value of `cc` for runs with a congestion control in Python.
pub(crate) const NAME: &str = "python";

/// Minimum rate of a flow in bit/s.
const MIN_RATE: f64 = 1_000.0;

/// Interval at which Python's signals are checked while a simulation waits for another one.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether a simulation with a class is running. There is at most one at a time: several would wait for each other in
/// each call, because Python executes one of them at a time.
static RUNS: Mutex<bool> = Mutex::new(false);
/// Notified when a simulation with a class ends.
static ENDED: Condvar = Condvar::new();

thread_local! {
    /// The class of the simulation in this thread. The trait that the simulator uses gets its parameters from
    /// scenarios, which cannot hold a class.
    static CURRENT: RefCell<Option<Arc<Class>>> = const { RefCell::new(None) };
    /// Whether this thread has started a simulation with a class, which is still running.
    static STARTED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `simulate`, which simulates in this thread with the congestion control `class`.
pub(crate) fn with<T>(class: &Arc<Class>, simulate: impl FnOnce() -> T) -> T {
    CURRENT.set(Some(class.clone()));
    let result = simulate();
    CURRENT.set(None);
    result
}

/// All congestion controls that scenarios may name.
pub(crate) fn catalogue() -> Catalogue {
    Catalogue::standard().with::<InPython>()
}

/// A class of congestion controls, or a function that returns an object of such a class.
pub(crate) struct Class {
    factory: Py<PyAny>,
    /// The class `rnic.CongestionControl`.
    base: Py<PyType>,
    marking: Option<Marking>,
    cnp_interval: Option<Time>,
    /// The methods of the class; `None` for a function, whose objects may have several classes.
    hooks: Option<Hooks>,
    /// Whether a method has raised an exception. The congestion controls do nothing from then on.
    failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

/// The methods that the class has overridden; the others are not called.
#[derive(Clone, Copy, Default)]
struct Hooks {
    send: bool,
    ack: bool,
    cnp: bool,
    loss: bool,
    timer: bool,
}

impl Hooks {
    fn of(class: &Bound<'_, PyAny>, base: &Bound<'_, PyType>) -> PyResult<Hooks> {
        let overrides = |name: &str| -> PyResult<bool> { Ok(!class.getattr(name)?.is(&base.getattr(name)?)) };
        Ok(Hooks {
            send: overrides("on_send")?,
            ack: overrides("on_ack")?,
            cnp: overrides("on_cnp")?,
            loss: overrides("on_loss")?,
            timer: overrides("on_timer")?,
        })
    }
}

/// The result of `rnic.congestion.prepared`: the class of all objects or `None`, and its attributes `marking` and
/// `cnp_interval_us`.
type Prepared<'py> = (Option<Bound<'py, PyAny>>, Option<(u64, u64, f64)>, Option<f64>);

impl Class {
    /// Checks a class or function, and waits until no other simulation with a class runs. The next one may start
    /// when the result is dropped.
    pub(crate) fn enter(control: &Bound<'_, PyAny>) -> PyResult<Current> {
        let py = control.py();
        let module = py.import("rnic.congestion")?;
        let base = module.getattr("CongestionControl")?.cast_into::<PyType>()?;
        let (class, marking, cnp_interval): Prepared<'_> = module.getattr("prepared")?.call1((control,))?.extract()?;
        if let Some((kmin, kmax, pmax)) = marking.filter(|(min, max, p)| min > max || !(0.0..=1.0).contains(p)) {
            return Err(PyValueError::new_err(format!(
                "marking = ({kmin}, {kmax}, {pmax}); accepted: (kmin, kmax, pmax) with kmin <= kmax in bytes and pmax \
                 from 0 to 1"
            )));
        }
        let class = Arc::new(Class {
            factory: control.clone().unbind(),
            marking: marking.map(|(kmin, kmax, pmax)| Marking { kmin: Bytes(kmin), kmax: Bytes(kmax), pmax }),
            cnp_interval: cnp_interval.map(|us| time("cnp_interval_us", us)).transpose()?,
            hooks: class.map(|class| Hooks::of(&class, &base)).transpose()?,
            base: base.unbind(),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        });
        wait_for_others(py)?;
        Ok(Current(class))
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The exception that a method has raised.
    pub(crate) fn error(&self) -> Option<PyErr> {
        self.error.lock().take()
    }

    /// Keeps the first exception, and ends the simulation.
    fn fail(&self, error: PyErr) {
        self.error.lock().get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Waits until no simulation with a class runs, and notes that there is one now.
fn wait_for_others(py: Python<'_>) -> PyResult<()> {
    if STARTED.get() || CURRENT.with_borrow(Option::is_some) {
        return Err(PyRuntimeError::new_err(
            "a method of a congestion control, or a function that shows the progress, cannot start another simulation \
             with a congestion control in Python",
        ));
    }
    // A thread that waits must not hold the GIL, which the simulation needs.
    let enters = || {
        let mut runs = RUNS.lock();
        if *runs {
            ENDED.wait_for(&mut runs, SIGNAL_INTERVAL);
        }
        !std::mem::replace(&mut *runs, true)
    };
    while !py.detach(enters) {
        py.check_signals()?;
    }
    STARTED.set(true);
    Ok(())
}

/// A class whose simulation runs until this value is dropped.
pub(crate) struct Current(pub(crate) Arc<Class>);

impl Drop for Current {
    fn drop(&mut self) {
        STARTED.set(false);
        *RUNS.lock() = false;
        ENDED.notify_one();
    }
}

/// The congestion control of a flow whose methods are in Python.
#[derive(Clone)]
pub(crate) struct InPython {
    /// The object; `None` if it could not be made.
    object: Option<Arc<Py<PyAny>>>,
    hooks: Hooks,
    ceiling: BitRate,
    rate: BitRate,
    window: u32,
    timer: Option<Time>,
}

/// The measurements that an ACK or NACK gives to the congestion control.
#[pyclass(frozen, get_all, module = "rnic._rnic")]
pub(crate) struct AckSample {
    /// Arrival time of the ACK or NACK, in microseconds.
    now_us: f64,
    /// Time since the departure of the data packet that caused the ACK or NACK, in microseconds.
    rtt_us: f64,
    /// Number of packets that are newly acknowledged cumulatively.
    acked: u32,
    /// Number of packets in flight after the ACK or NACK.
    in_flight: u32,
    /// Whether the data packet was CE-marked.
    marked: bool,
}

/// What a congestion control knows of its flow and of the fabric.
#[pyclass(frozen, get_all, module = "rnic._rnic")]
pub(crate) struct Flow {
    /// Maximum rate of the flow, in bit/s.
    line_rate_bps: u64,
    /// Round-trip time of the longest path without queueing, in microseconds.
    base_rtt_us: f64,
    /// Bandwidth-delay product of the longest path, in packets.
    bdp: u32,
    /// Payload of a full packet, in bytes.
    mtu: u32,
    /// Headers and trailers of a data packet, in bytes.
    header: u32,
}

impl InPython {
    fn make(class: &Class, flow: &FlowConfig, now: Time) -> PyResult<InPython> {
        Python::attach(|py| {
            let ceiling = congestion::ceiling(flow);
            let about = Flow {
                line_rate_bps: ceiling.as_bps(),
                base_rtt_us: flow.base_rtt.as_us(),
                bdp: flow.bdp,
                mtu: flow.mtu,
                header: flow.header,
            };
            let object = class.factory.bind(py).call1((about, now.as_us()))?;
            let hooks = match class.hooks {
                Some(hooks) => hooks,
                None => {
                    let base = class.base.bind(py);
                    if !object.is_instance(base)? {
                        return Err(PyTypeError::new_err(format!(
                            "the function `congestion` returned {}; accepted: an object of a subclass of \
                             rnic.CongestionControl",
                            object.repr()?
                        )));
                    }
                    Hooks::of(object.get_type().as_any(), base)?
                }
            };
            let object = Some(Arc::new(object.unbind()));
            let mut made = InPython { object, hooks, ceiling, rate: ceiling, window: u32::MAX, timer: None };
            made.read(py)?;
            Ok(made)
        })
    }

    /// Copies rate, window and timer from the object.
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(object) = &self.object else { return Ok(()) };
        let object = object.bind(py);
        let rate: f64 = object.getattr(intern!(py, "rate_bps"))?.extract()?;
        if rate.is_nan() || rate < MIN_RATE {
            return Err(PyValueError::new_err(format!("rate_bps = {rate}; accepted: {MIN_RATE} bit/s or more")));
        }
        // As congestion controls in Rust that limit only the window: packets are not paced.
        self.rate = match rate == f64::INFINITY {
            true => BitRate::from_bps(u64::MAX),
            false => BitRate::from_bps(rate.min(self.ceiling.as_bps() as f64) as u64),
        };
        let window: Option<f64> = object.getattr(intern!(py, "window"))?.extract()?;
        self.window = match window {
            None => u32::MAX,
            Some(packets) if packets >= 1.0 => packets.min(f64::from(u32::MAX)) as u32,
            Some(packets) => {
                let message = format!("window = {packets}; accepted: 1 packet or more, or None for no limit");
                return Err(PyValueError::new_err(message));
            }
        };
        let timer: Option<f64> = object.getattr(intern!(py, "next_timer_us"))?.extract()?;
        self.timer = timer.map(|us| time("next_timer_us", us)).transpose()?;
        Ok(())
    }

    /// Calls a method of the object.
    fn call<'a, A>(&mut self, class: &Class, name: fn(Python<'_>) -> &Bound<'_, PyString>, arguments: A)
    where
        A: for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + 'a,
    {
        let Some(object) = self.object.clone().filter(|_| !class.failed()) else { return };
        let called = Python::attach(|py| {
            object.bind(py).call_method1(name(py), arguments(py)?)?;
            self.read(py)
        });
        if let Err(error) = called {
            class.fail(error);
        }
    }
}

/// A time of this many microseconds.
fn time(name: &str, us: f64) -> PyResult<Time> {
    // 30 days, as for the starts of flows.
    if (0.0..=2.6e12).contains(&us) {
        return Ok(Time::from_ps((us * 1e6).round() as u64));
    }
    Err(PyValueError::new_err(format!("{name} = {us}; accepted: microseconds from 0 to 30 days, or None")))
}

impl CongestionControl for InPython {
    type Params = Arc<Class>;
    const NAME: &'static str = NAME;
    const ABOUT: &'static str = "a class in Python: Scenario.run(congestion=...)";

    fn params(_: &Settings, _: &FlowConfig) -> Result<Arc<Class>, String> {
        CURRENT.with_borrow(Clone::clone).ok_or_else(|| {
            "there is no class; accepted in Python only, with a class as in `run(congestion=MyControl)`".to_string()
        })
    }

    fn marking(class: &Arc<Class>, _: &FlowConfig) -> Option<Marking> {
        class.marking
    }

    fn cnp_interval(class: &Arc<Class>) -> Option<Time> {
        class.cnp_interval
    }

    fn new(class: &Arc<Class>, flow: &FlowConfig, now: Time) -> InPython {
        let hooks = Hooks::default();
        let nothing = |rate| InPython { object: None, hooks, ceiling: rate, rate, window: u32::MAX, timer: None };
        if class.failed() {
            return nothing(congestion::ceiling(flow));
        }
        InPython::make(class, flow, now).unwrap_or_else(|error| {
            class.fail(error);
            nothing(congestion::ceiling(flow))
        })
    }

    fn on_send(&mut self, class: &Arc<Class>, now: Time, bytes: u32) {
        if self.hooks.send {
            self.call(class, |py| intern!(py, "on_send"), |py| (now.as_us(), bytes).into_pyobject(py));
        }
    }

    fn on_ack(&mut self, class: &Arc<Class>, sample: &congestion::AckSample) {
        if self.hooks.ack {
            let sample = AckSample {
                now_us: sample.now.as_us(),
                rtt_us: sample.rtt.as_us(),
                acked: sample.acked,
                in_flight: sample.in_flight,
                marked: sample.marked,
            };
            self.call(class, |py| intern!(py, "on_ack"), |py| (sample,).into_pyobject(py));
        }
    }

    fn on_cnp(&mut self, class: &Arc<Class>, now: Time) {
        if self.hooks.cnp {
            self.call(class, |py| intern!(py, "on_cnp"), |py| (now.as_us(),).into_pyobject(py));
        }
    }

    fn on_loss(&mut self, class: &Arc<Class>, now: Time, signal: LossSignal) {
        if self.hooks.loss {
            let signal = match signal {
                LossSignal::Nack | LossSignal::LastHop => "nack",
                LossSignal::Timeout => "timeout",
            };
            self.call(class, |py| intern!(py, "on_loss"), |py| (now.as_us(), signal).into_pyobject(py));
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, class: &Arc<Class>, now: Time) {
        self.timer = None;
        if !self.hooks.timer {
            let message = "next_timer_us is set, but the class has no method on_timer".to_string();
            return class.fail(PyValueError::new_err(message));
        }
        self.call(class, |py| intern!(py, "on_timer"), |py| (now.as_us(),).into_pyobject(py));
        if class.failed() {
            self.timer = None;
        } else if let Some(timer) = self.timer.filter(|timer| *timer <= now) {
            self.timer = None;
            class.fail(PyValueError::new_err(format!(
                "next_timer_us = {} after on_timer at {} us; accepted: a later time, or None",
                timer.as_us(),
                now.as_us()
            )));
        }
    }

    fn rate(&self) -> BitRate {
        self.rate
    }

    fn window(&self) -> u32 {
        self.window
    }
}
