//! Configuration of a run's transport in host software, derived from the run's settings and its fabric.

use super::TransportError;
use super::links::Frames;
use crate::host::{MultipathSettings, NicTiming, VerbsConfig, try_out};
use rnic_host::{Control, HostError, multipath, rogue};
use rnic_spec::RunSpec;
use rnic_transport::settings::Settings;
use rnic_transport::{BitRate, Bytes, FlowConfig, Time};
use rnic_verbs::{DeviceConfig, Limits, MAX_IN_FLIGHT, Service};

/// Complete configuration of a run's transport in host software.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HostPlan {
    timing: NicTiming,
    chunk: u32,
    cores: u32,
    /// Messages of up to this length have a channel of their own.
    small: u64,
    receives: u32,
    max_window: u64,
    max_rate: Option<BitRate>,
    patience: Time,
    /// Round-trip time of a full packet on an empty fabric, from its posting to the timestamp of its completion.
    base_rtt: Time,
    /// Packets that a queue pair may have in flight.
    in_flight: u32,
    line_rate: BitRate,
    header: u32,
    ack: u32,
    mtu: u32,
    pub(crate) kind: HostKind,
}

/// The kind of channel, with its own settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum HostKind {
    /// RoGUE.
    Rogue(RogueSettings),
    /// Multipath over UC.
    Multipath {
        paths: u32,
        policy: multipath::PathPolicy,
        credit: Option<multipath::Credit>,
        /// Rate of credit as a multiple of the rate of the receiver's link.
        credit_rate: f64,
        timeout: Time,
        tolerance: f64,
        probes: u32,
        attempts: u32,
        /// What the NIC has besides the abilities of a commodity NIC.
        extras: NicExtras,
    },
}

/// The settings of RoGUE's channels and of the application above them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct RogueSettings {
    service: Service,
    /// Whether a flow is a Read of its receiver.
    reads: bool,
    /// Bytes of messages for which a sender asks for one completion; 0: it asks for a completion of each message.
    signal_every: u64,
    min_rate: BitRate,
    timeout: u8,
    retry_count: u8,
    sync_interval: Time,
    max_recoveries: u32,
}

/// Abilities of a run's NICs that commodity NICs lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NicExtras {
    marks: bool,
    trim: bool,
    spread: bool,
}

/// The configuration of a run's transport in host software.
pub(super) fn plan(run: &RunSpec, flow: &FlowConfig, frames: &Frames) -> Result<HostPlan, TransportError> {
    read(run, flow, frames).map_err(TransportError::Settings).and_then(|plan| {
        let none = Control::default;
        let tried = match plan.kind {
            HostKind::Rogue(_) => plan.rogue(none(), 0).and_then(|config| try_out(&config)),
            HostKind::Multipath { .. } => plan.multipath(none(), 0).and_then(|config| try_out(&config)),
        };
        let transport = run.transport.name.clone();
        tried.map_err(|why| TransportError::Refused { transport, reason: why.to_string() })?;
        Ok(plan)
    })
}

fn read(run: &RunSpec, flow: &FlowConfig, frames: &Frames) -> Result<HostPlan, String> {
    let settings = &run.transport.settings;
    let given = |name: &str| settings.is_set(name);
    let timing = NicTiming {
        post: settings.time("doorbell")? + settings.time("dma")?,
        completion: settings.time("completion")?,
        frame: (frames.data, frames.gap),
        rate_step: settings.rate("rate_granularity")?,
        time_step: settings.time("timestamp_granularity")?,
        costs: (settings.time("post_cost")? + settings.time("chunk_cost")?, settings.time("poll_cost")?),
    };
    let chunk = settings.bytes("chunk")? as u32;
    let kind = match run.transport.declaration.name {
        "rogue" => rogue_settings(settings)?,
        _ => multipath_settings(settings, chunk, flow, &timing)?,
    };
    // A NIC acknowledges the packets of RC. Over UC software acknowledges chunks, by posting a request.
    let by_nic = matches!(kind, HostKind::Rogue(RogueSettings { service: Service::Rc, .. }));
    let acknowledging = if by_nic { Time::ZERO } else { timing.post + timing.costs.0 };
    let packets = flow.line_rate.bytes_in(flow.base_rtt).div_ceil(u64::from(frames.data)) as u32;
    Ok(HostPlan {
        timing,
        chunk,
        cores: settings.count("cores")? as u32,
        small: if given("small_channel") { settings.bytes("small_channel")? } else { 0 },
        receives: settings.count("receives")? as u32,
        max_window: if given("max_window") { settings.bytes("max_window")? } else { u64::MAX },
        max_rate: if given("max_rate") { Some(settings.rate("max_rate")?) } else { None },
        patience: settings.time("patience")?,
        base_rtt: flow.base_rtt + timing.post + acknowledging,
        in_flight: packets.saturating_mul(8).clamp(1_024, MAX_IN_FLIGHT),
        line_rate: flow.line_rate,
        header: flow.header,
        ack: frames.ack,
        mtu: flow.mtu,
        kind,
    })
}

fn rogue_settings(settings: &Settings) -> Result<HostKind, String> {
    let service = if settings.choice("service")? == "uc" { Service::Uc } else { Service::Rc };
    let reads = settings.choice("operation")? == "read";
    if reads && service == Service::Uc {
        return Err("unreliable connections have no Reads; `operation = \"read\"` needs `service = \"rc\"`".to_string());
    }
    Ok(HostKind::Rogue(RogueSettings {
        service,
        reads,
        signal_every: if settings.is_set("signal_every") { settings.bytes("signal_every")? } else { 0 },
        min_rate: settings.rate("min_rate")?,
        timeout: settings.count("nic_timeout")? as u8,
        retry_count: settings.count("retry_count")? as u8,
        sync_interval: settings.time("sync_interval")?,
        max_recoveries: settings.count("max_recoveries")? as u32,
    }))
}

fn multipath_settings(
    settings: &Settings, chunk: u32, flow: &FlowConfig, timing: &NicTiming,
) -> Result<HostKind, String> {
    let chunk = u64::from(chunk);
    // Credit comes back after a round trip through the network, the NICs and the software of both hosts. A grant is for
    // a whole chunk, which arrives as a whole.
    let round_trip = flow.base_rtt + (timing.post + timing.completion) * 2;
    let unsolicited = match settings.is_set("unsolicited") {
        true => settings.bytes("unsolicited")?,
        false => flow.line_rate.bytes_in(round_trip) + 2 * chunk,
    };
    let credit = settings.flag("credit")?;
    if credit && unsolicited < chunk {
        return Err(format!(
            "`unsolicited` is {}; it must be at least the chunk size of {chunk} bytes",
            Bytes(unsolicited)
        ));
    }
    Ok(HostKind::Multipath {
        paths: settings.count("paths")? as u32,
        policy: match settings.choice("path_choice")?.as_str() {
            "round-robin" => multipath::PathPolicy::RoundRobin,
            "single" => multipath::PathPolicy::Single,
            _ => multipath::PathPolicy::PowerOfTwo,
        },
        credit: credit.then_some(multipath::Credit { unsolicited }),
        credit_rate: settings.number("credit_rate")?,
        timeout: settings.time("path_timeout")?,
        tolerance: settings.number("loss_tolerance")?,
        extras: NicExtras {
            marks: settings.flag("nic_marks")?,
            trim: settings.flag("nic_trim")?,
            spread: settings.flag("spread")?,
        },
        probes: settings.count("path_probes")? as u32,
        attempts: settings.count("max_attempts")? as u32,
    })
}

impl HostPlan {
    /// The maximum rate of a channel, if the run sets it.
    pub(super) fn max_rate(&self) -> Option<BitRate> {
        self.max_rate
    }

    fn config<X: crate::host::HostChannel>(&self, settings: X::Settings, seed: u64) -> VerbsConfig<X> {
        let limits = Limits { bytes: u64::MAX, queue_pairs: 1 << 16, ..Limits::default() };
        VerbsConfig {
            settings,
            timing: self.timing,
            device: DeviceConfig {
                limits,
                line_rate: self.line_rate,
                base_rtt: self.base_rtt,
                in_flight: self.in_flight,
                ..DeviceConfig::default()
            },
            header: self.header,
            ack: self.ack,
            receives: self.receives,
            mtu: self.mtu,
            seed,
            chunk: self.chunk,
            cores: self.cores,
            small: self.small,
            credit_rate: match self.kind {
                HostKind::Multipath { credit: Some(_), credit_rate, .. } => Some(credit_rate),
                _ => None,
            },
            reads: matches!(self.kind, HostKind::Rogue(RogueSettings { reads: true, .. })),
            signal_every: if let HostKind::Rogue(settings) = self.kind { settings.signal_every } else { 0 },
            trim: matches!(self.kind, HostKind::Multipath { extras: NicExtras { trim: true, .. }, .. }),
        }
    }

    /// The configuration of the hosts of a run with RoGUE and the congestion control `control`.
    ///
    /// # Errors
    /// The run has another transport.
    pub(crate) fn rogue(&self, control: Control, seed: u64) -> Result<VerbsConfig<rogue::Channel>, HostError> {
        let HostKind::Rogue(settings) = self.kind else {
            return Err(HostError::Unsupported("the transport is not RoGUE"));
        };
        let RogueSettings { service, min_rate, timeout, retry_count, sync_interval, max_recoveries, .. } = settings;
        let config = rogue::Config {
            service,
            chunk: self.chunk,
            control,
            max_window: self.max_window,
            max_rate: self.max_rate,
            base_rtt: self.base_rtt,
            receives: self.receives,
            min_rate,
            timeout,
            retry_count,
            sync_interval,
            max_recoveries,
            patience: self.patience,
            ..rogue::Config::default()
        };
        Ok(self.config(config, seed))
    }

    /// The configuration of the hosts of a run with multipath and the congestion control `control`.
    ///
    /// # Errors
    /// The run has another transport.
    pub(crate) fn multipath(&self, control: Control, seed: u64) -> Result<VerbsConfig<multipath::Channel>, HostError> {
        let HostKind::Multipath { paths, policy, credit, timeout, tolerance, probes, attempts, extras, .. } = self.kind
        else {
            return Err(HostError::Unsupported("the transport is not multipath"));
        };
        let config = multipath::Config {
            paths,
            spread: extras.spread,
            ecn: extras.marks,
            chunk: self.chunk,
            control,
            credit,
            max_window: self.max_window,
            max_rate: self.max_rate,
            base_rtt: self.base_rtt,
            receives: self.receives,
            timeout,
            loss_tolerance: tolerance,
            path_probes: probes,
            max_attempts: attempts,
            patience: self.patience,
            ..multipath::Config::default()
        };
        Ok(self.config(MultipathSettings { config, policy }, seed))
    }
}

/// Passes the settings of the transport to `put`, as (key, value with unit) for the results.
pub(super) fn put(run: &RunSpec, plan: &HostPlan, put: &mut impl FnMut(&str, String)) {
    for (key, value) in run.transport.declaration.describe_host(&run.transport.settings) {
        put(key, value);
    }
    if let HostKind::Multipath { credit: Some(credit), .. } = plan.kind
        && !run.transport.settings.is_set("unsolicited")
    {
        put("unsolicited", Bytes(credit.unsolicited).to_string());
    }
    put("nic_window", format!("{} packets", plan.in_flight));
}
