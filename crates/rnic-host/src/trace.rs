//! Traces of a channel's decisions: a NIC that records a channel's calls and their results, and a NIC that replays such
//! a trace.
//!
//! A channel's decisions depend only on its inputs: the requests and times that its owner passes, and the results of
//! the NIC. So a channel with the same inputs makes the same decisions with every NIC: the device in virtual time, a
//! simulated NIC or sockets. [`Replay`] checks this call by call. A trace also helps to find the reason for a channel's
//! decision.
//!
//! ```
//! use rnic_host::trace::{Recorder, Replay, Trace};
//! use rnic_host::rogue;
//! use rnic_verbs::{Device, DeviceConfig, Verbs};
//!
//! let mut nic = Device::new(DeviceConfig::default());
//! let pd = Verbs::create_pd(&mut nic)?;
//! let mut trace = Trace::default();
//! rogue::Channel::open(&mut Recorder::new(&mut nic, &mut trace), pd, rogue::Config::default())?;
//! assert!(trace.len() > 5, "it has created queues and memory");
//!
//! let mut again = Replay::new(trace.clone());
//! rogue::Channel::open(&mut again, pd, rogue::Config::default())?;
//! assert_eq!(again.finish(), Ok(()));
//! // Another channel asks for other queues.
//! let mut other = Replay::new(trace);
//! let config = rogue::Config { receives: 3, ..rogue::Config::default() };
//! assert!(rogue::Channel::open(&mut other, pd, config).is_err());
//! assert!(other.finish().is_err());
//! # Ok::<(), rnic_host::HostError>(())
//! ```

use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, Completion, CqId, DeviceInfo, Event, Extras, ForeignMemory, MrId, MrInfo, Pd, QpInfo, QpInit, Qpn,
    RecvRequest, SendRequest, Transition, Verbs, VerbsError,
};
use std::cell::RefCell;
use std::collections::VecDeque;

/// What a NIC answered.
#[derive(Clone, PartialEq, Debug)]
enum Answer {
    Done(Result<(), VerbsError>),
    Time(Time),
    Device(DeviceInfo),
    Domain(Result<Pd, VerbsError>),
    Region(Result<MrInfo, VerbsError>),
    Bytes(Result<Vec<u8>, VerbsError>),
    Queue(Result<CqId, VerbsError>),
    Completions(Result<Vec<Completion>, VerbsError>),
    QueuePair(Result<Qpn, VerbsError>),
    Info(Result<QpInfo, VerbsError>),
    Rate(Result<Option<BitRate>, VerbsError>),
    Event(Option<Event>),
}

/// What a channel asked of its NIC, in order, and what the NIC answered.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Trace(VecDeque<(String, Answer)>);

impl Trace {
    /// Number of calls.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls as text, with their arguments and without the answers.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(call, _)| call.as_str())
    }
}

/// A NIC that records in a trace what is asked of another NIC.
pub struct Recorder<'a> {
    nic: &'a mut dyn Verbs,
    trace: RefCell<&'a mut Trace>,
}

impl<'a> Recorder<'a> {
    /// Records the calls to `nic` at the end of `trace`.
    pub fn new(nic: &'a mut dyn Verbs, trace: &'a mut Trace) -> Recorder<'a> {
        Recorder { nic, trace: RefCell::new(trace) }
    }

    fn note(&self, call: String, answer: Answer) {
        self.trace.borrow_mut().0.push_back((call, answer));
    }
}

/// A NIC that returns the results in a trace, as long as the calls are the calls in the trace.
pub struct Replay {
    left: RefCell<VecDeque<(String, Answer)>>,
    diverged: RefCell<Option<String>>,
}

impl Replay {
    /// Replays `trace`.
    pub fn new(trace: Trace) -> Replay {
        Replay { left: RefCell::new(trace.0), diverged: RefCell::new(None) }
    }

    /// Checks that all calls were the calls in the trace.
    ///
    /// # Errors
    /// The first call that was another one, or that calls of the trace are missing.
    pub fn finish(self) -> Result<(), String> {
        let left = self.left.into_inner();
        match (self.diverged.into_inner(), left.front()) {
            (Some(why), _) => Err(why),
            (None, Some((call, _))) => Err(format!("{} calls are missing, first {call}", left.len())),
            (None, None) => Ok(()),
        }
    }

    /// The result of a call; `None` if the call is not the next call in the trace.
    fn answer(&self, call: &str) -> Option<Answer> {
        let next = self.left.borrow_mut().pop_front();
        match next {
            Some((expected, answer)) if expected == call => Some(answer),
            other => {
                let expected = other.map_or("the end".to_string(), |(call, _)| call);
                self.diverged.borrow_mut().get_or_insert_with(|| format!("asked {call}, in the trace {expected}"));
                None
            }
        }
    }
}

const DIVERGED: VerbsError = VerbsError::Unsupported("a call that is not in the trace");

/// Implements the verbs of both NICs. `$kind` is the kind of the answer.
macro_rules! verbs {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $kind:ident($result:ty);)*) => {
        impl Verbs for Recorder<'_> {
            fn now(&self) -> Time {
                let now = self.nic.now();
                self.note("now".to_string(), Answer::Time(now));
                now
            }
            fn query_device(&self) -> DeviceInfo {
                let info = self.nic.query_device();
                self.note("query_device".to_string(), Answer::Device(info));
                info
            }
            fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
                let info = self.nic.query_qp(qpn);
                self.note(format!("query_qp {qpn:?}"), Answer::Info(info.clone()));
                info
            }
            fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
                let result = self.nic.read_memory(id, offset, out);
                let call = format!("read_memory {:?}", (id, offset, out.len()));
                self.note(call, Answer::Bytes(result.clone().map(|()| out.to_vec())));
                result
            }
            fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
                let result = self.nic.poll_cq(cq, out);
                let found = result.clone().map(|count| out[..count].to_vec());
                self.note(format!("poll_cq {:?}", (cq, out.len())), Answer::Completions(found));
                result
            }
            fn poll_event(&mut self) -> Option<Event> {
                let event = self.nic.poll_event();
                self.note("poll_event".to_string(), Answer::Event(event));
                event
            }
            $(fn $name(&mut self, $($arg: $type),*) -> $result {
                let call = format!("{} {:?}", stringify!($name), ($(&$arg,)*));
                let result = self.nic.$name($($arg),*);
                self.note(call, Answer::$kind(result.clone()));
                result
            })*
        }

        impl Verbs for Replay {
            fn now(&self) -> Time {
                match self.answer("now") {
                    Some(Answer::Time(now)) => now,
                    _ => Time::ZERO,
                }
            }
            fn query_device(&self) -> DeviceInfo {
                match self.answer("query_device") {
                    Some(Answer::Device(info)) => info,
                    _ => {
                        let (rate, step) = (BitRate::from_bps(1), Time::from_ps(1));
                        let limits = rnic_verbs::Limits::default();
                        DeviceInfo { limits, line_rate: rate, rate_granularity: rate, time_granularity: step }
                    }
                }
            }
            fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
                match self.answer(&format!("query_qp {qpn:?}")) {
                    Some(Answer::Info(info)) => info,
                    _ => Err(DIVERGED),
                }
            }
            fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
                match self.answer(&format!("read_memory {:?}", (id, offset, out.len()))) {
                    Some(Answer::Bytes(bytes)) => bytes.map(|bytes| out.copy_from_slice(&bytes)),
                    _ => Err(DIVERGED),
                }
            }
            fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
                match self.answer(&format!("poll_cq {:?}", (cq, out.len()))) {
                    Some(Answer::Completions(found)) => found.map(|found| {
                        out[..found.len()].copy_from_slice(&found);
                        found.len()
                    }),
                    _ => Err(DIVERGED),
                }
            }
            fn poll_event(&mut self) -> Option<Event> {
                match self.answer("poll_event") {
                    Some(Answer::Event(event)) => event,
                    _ => None,
                }
            }
            $(fn $name(&mut self, $($arg: $type),*) -> $result {
                match self.answer(&format!("{} {:?}", stringify!($name), ($(&$arg,)*))) {
                    Some(Answer::$kind(result)) => result,
                    _ => Err(DIVERGED),
                }
            })*
        }
    };
}

verbs! {
    fn create_pd() -> Domain(Result<Pd, VerbsError>);
    fn destroy_pd(pd: Pd) -> Done(Result<(), VerbsError>);
    fn register(pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Region(Result<MrInfo, VerbsError>);
    fn register_foreign(pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access) -> Region(Result<MrInfo, VerbsError>);
    fn deregister(id: MrId) -> Bytes(Result<Vec<u8>, VerbsError>);
    fn write_memory(id: MrId, offset: usize, data: &[u8]) -> Done(Result<(), VerbsError>);
    fn create_cq(capacity: u32) -> Queue(Result<CqId, VerbsError>);
    fn destroy_cq(cq: CqId) -> Done(Result<(), VerbsError>);
    fn create_qp(pd: Pd, init: QpInit) -> QueuePair(Result<Qpn, VerbsError>);
    fn modify_qp(qpn: Qpn, transition: Transition) -> Done(Result<(), VerbsError>);
    fn set_rate(qpn: Qpn, rate: Option<BitRate>) -> Rate(Result<Option<BitRate>, VerbsError>);
    fn set_extras(qpn: Qpn, extras: Extras) -> Done(Result<(), VerbsError>);
    fn destroy_qp(qpn: Qpn) -> Done(Result<(), VerbsError>);
    fn post_send(qpn: Qpn, request: &SendRequest<'_>) -> Done(Result<(), VerbsError>);
    fn post_spread(qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Done(Result<(), VerbsError>);
    fn post_recv(qpn: Qpn, request: &RecvRequest<'_>) -> Done(Result<(), VerbsError>);
}
