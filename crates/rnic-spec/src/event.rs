//! The events that a run emits while it is simulated: start, progress, samples, pauses and end.

use crate::record::PauseRow;
use rnic_transport::Time;
use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};

/// Progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunProgress {
    /// Number of flows that have finished.
    pub flows_done: u64,
    /// Number of flows of the whole run; `None` if it is not known, as for endless traffic.
    pub flows_total: Option<u64>,
    /// Number of transmissions of data and control packets on links so far; each link on a packet's path counts
    /// (packet-hops).
    pub hops: u64,
    /// Simulated time reached so far, in picoseconds.
    #[serde(rename = "time_ps", with = "crate::stored::time")]
    #[schemars(with = "u64")]
    pub time: Time,
    /// The run's `duration`, at which the run ends at the latest, in picoseconds; `None` if the run has none.
    #[serde(rename = "duration_ps", with = "crate::stored::optional_time", default)]
    #[schemars(with = "Option<u64>")]
    pub duration: Option<Time>,
}

impl RunProgress {
    /// The part of the run that is done, from 0 to 1: by finished flows, or by simulated time if the run has a
    /// `duration`. `None` if neither is known.
    ///
    /// ```
    /// use rnic_spec::RunProgress;
    /// use rnic_transport::Time;
    /// let (time, duration) = (Time::from_us(3), Some(Time::from_us(12)));
    /// let progress = RunProgress { time, duration, ..RunProgress::default() };
    /// assert_eq!(progress.fraction(), Some(0.25));
    /// ```
    pub fn fraction(&self) -> Option<f64> {
        let flows = self.flows_total.map(|total| self.flows_done as f64 / total.max(1) as f64);
        let time = self.duration.map(|duration| self.time.as_ps() as f64 / duration.as_ps().max(1) as f64);
        flows.into_iter().chain(time).reduce(f64::max).map(|fraction| fraction.min(1.0))
    }
}

/// Packets of one port and priority that were dropped or lost between two samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DropRow {
    /// Index of the port.
    pub port: u32,
    /// Priority of the packets.
    pub priority: u8,
    /// Number of packets that arrived at this port and that the switch dropped because its buffer had no room.
    pub dropped: u64,
    /// Number of packets that this port sent and that the link lost.
    pub lost: u64,
}

/// One event that a run emits while it is simulated.
///
/// A run emits [`RunEvent::Started`] first, then any number of other events, and [`RunEvent::Finished`],
/// [`RunEvent::Interrupted`] or [`RunEvent::Failed`] last. A run that cannot be set up emits only `Failed`.
///
/// In the JSON form of an event, the field `event` names its kind:
///
/// ```
/// use rnic_spec::RunEvent;
///
/// let event = RunEvent::Failed { reason: "no flow progressed for 1 s".into() };
/// let line = serde_json::to_string(&event)?;
/// assert_eq!(line, r#"{"event":"failed","reason":"no flow progressed for 1 s"}"#);
/// assert_eq!(serde_json::from_str::<RunEvent>(&line)?, event);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The simulation of the run begins.
    Started {
        /// Name of the run.
        run: String,
        /// Seed of the run's pseudo-random numbers.
        seed: u64,
        /// The settings of the run in effect, including those derived from others: (key, value with unit).
        parameters: Vec<(String, String)>,
        /// Warnings for readers of the results, one sentence each.
        warnings: Vec<String>,
    },
    /// The progress of the run so far; emitted repeatedly.
    Progress(RunProgress),
    /// A sample of the queues, links and flows that the run's `[watch]` table names.
    Sample {
        /// Simulated time of the sample, in picoseconds.
        #[serde(rename = "time_ps", with = "crate::stored::time")]
        #[schemars(with = "u64")]
        time: Time,
        /// Bytes in each watched queue, in the order of [`crate::Samples::queues`].
        queue_bytes: Vec<u32>,
        /// Time in picoseconds for which the transmitters of each watched link have been sending since the start of the
        /// run, in the order of [`crate::Samples::links`]; absent if no link is watched.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        link_busy_ps: Vec<u64>,
        /// Id of each active flow, and the payload bytes that it has delivered so far; empty if flows are not watched.
        delivered: Vec<(u32, u64)>,
    },
    /// Packets that were dropped or lost since the previous sample. The event follows a sample, and the end
    /// of the run, if there were any.
    Drops {
        /// Simulated time of the sample or the end, in picoseconds.
        #[serde(rename = "time_ps", with = "crate::stored::time")]
        #[schemars(with = "u64")]
        time: Time,
        /// The ports with such packets, in the order of ports and priorities.
        ports: Vec<DropRow>,
    },
    /// A PFC pause of a transmitter. The event is emitted after the pause has ended, or at the end of the run.
    Pause(PauseRow),
    /// The run has completed.
    Finished {
        /// Simulated time at the end of the run, in picoseconds.
        #[serde(rename = "time_ps", with = "crate::stored::time")]
        #[schemars(with = "u64")]
        time: Time,
        /// Number of flows that finished.
        flows_done: u64,
        /// Number of flows of the whole run.
        flows_total: u64,
    },
    /// The run was interrupted, for example by Ctrl-C. Its results are partial.
    Interrupted {
        /// Simulated time at which the run was interrupted, in picoseconds.
        #[serde(rename = "time_ps", with = "crate::stored::time")]
        #[schemars(with = "u64")]
        time: Time,
        /// Number of flows that finished.
        flows_done: u64,
        /// Number of flows that started.
        flows_started: u64,
    },
    /// The run could not be set up, or did not complete.
    Failed {
        /// Reason why the run failed, one sentence.
        reason: String,
    },
}

impl RunEvent {
    /// The JSON Schema of one event; `rnic exec --events` prints one event per line.
    pub fn json_schema() -> serde_json::Value {
        schema_for!(RunEvent).to_value()
    }
}
