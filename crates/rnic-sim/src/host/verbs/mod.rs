//! Simulated hosts with a transport in host software: a layer of `rnic-host` above an RDMA NIC, which is the device of
//! `rnic-verbs` over memory without bytes.
//!
//! Two hosts that exchange flows have one channel, or one for small flows and one for the others (`small_channel`). It
//! is opened when the first of these flows starts, and stays. A
//! flow is a Write with Immediate in this channel. It starts when its sender posts it, and finishes when the software
//! of its receiver sees the immediate data. With `operation = "read"` a flow is a Read of its receiver instead.
//!
//! | module | contents |
//! |---|---|
//! | `nic` | a host: its device, its channels, and the fabric's interface to it |
//! | `view` | the device as the host's software sees it, with the latencies of the bus between them |
//! | `channel` | one trait for both kinds of channel |
//! | `packet` | packets with headers and without payload |

mod channel;
mod nic;
mod packet;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use channel::{HostChannel, MultipathSettings};
pub(crate) use packet::Segment as NicSegment;
pub(crate) use view::NicTiming;

use super::ends::FlowHashes;
use super::flow_table::FlowTable;
use super::hosts::{Hosts, NicKind};
use super::ids::FlowId;
use super::messages::{CarriesMessages, Messages, ReceiveEnd, SendEnd};
use super::partition::Notice;
use nic::{HostNic, VerbsShared};
use rnic_fabric::{HostId, PartitionPlan};
use rnic_host::{Frames, HostError, multipath};
use rnic_spec::FlowSpec;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Batch, Counters, DeviceConfig};
use rnic_workload::Origin;
use std::marker::PhantomData;
use std::sync::Arc;

/// The kind of NIC below a transport in host software, with the state of the run that only this kind needs.
pub(crate) struct VerbsNics<X> {
    messages: Messages,
    channels: PhantomData<fn() -> X>,
}

/// All hosts of a run with a transport in host software.
pub(crate) type VerbsHosts<'a, X, S> = Hosts<'a, VerbsNics<X>, S>;

/// Settings of the hosts of a run with a transport in host software.
pub(crate) struct VerbsConfig<X: HostChannel> {
    pub(crate) settings: X::Settings,
    pub(crate) timing: NicTiming,
    pub(crate) device: DeviceConfig,
    pub(crate) header: u32,
    pub(crate) ack: u32,
    pub(crate) receives: u32,
    pub(crate) mtu: u32,
    pub(crate) seed: u64,
    pub(crate) chunk: u32,
    /// Cores of a host that run its channels.
    pub(crate) cores: u32,
    /// Messages of up to this length have a channel of their own.
    pub(crate) small: u64,
    /// Rate at which receivers grant credit, as a multiple of the rate of their links; `None`: they grant none.
    pub(crate) credit_rate: Option<f64>,
    /// Whether a flow is a Read of its receiver.
    pub(crate) reads: bool,
    /// Bytes of messages for which a sender asks for one completion; 0: it asks for a completion of each message.
    pub(crate) signal_every: u64,
    /// Whether NICs tell their software of trimmed packets.
    pub(crate) trim: bool,
}

/// Opens a channel on a NIC of its own, to find out whether the settings are possible.
///
/// # Errors
/// They are not, for the reason in the error.
pub(crate) fn try_out<X: HostChannel>(config: &VerbsConfig<X>) -> Result<(), HostError> {
    let mut nic = HostNic::<X>::new(config.device.clone(), config.cores)?;
    let shared = config.shared();
    let (own, peer) = (HostId(0), HostId(1));
    let number = nic.open(&shared, own, (peer, false))?;
    let (address, region) = (nic.ends[number as usize].channel.address(), nic.region);
    nic.connect(&shared, number, peer, region, &address, Time::ZERO)
}

impl<X: HostChannel> VerbsConfig<X> {
    fn shared(&self) -> VerbsShared<X> {
        VerbsShared {
            settings: self.settings.clone(),
            timing: self.timing,
            header: self.header,
            ack: self.ack,
            receives: self.receives,
            mtu: self.mtu,
            seed: self.seed,
            chunk: self.chunk,
            trim: self.trim,
            small: self.small,
            reads: self.reads,
            signal_every: self.signal_every,
            batch: Batch::new(1),
            error: None,
        }
    }

    fn nic(&self, host: HostId, rate: BitRate) -> Result<HostNic<X>, HostError> {
        let seed = rnic_fabric::rng::mix(self.seed, rnic_fabric::rng::Purpose::FlowHash, &[u64::from(host.0)]);
        let mut nic = HostNic::new(DeviceConfig { seed, line_rate: rate, ..self.device.clone() }, self.cores)?;
        if let Some(factor) = self.credit_rate {
            let frames = Frames { mtu: self.mtu, header: self.header };
            let granted = if factor == 1.0 { rate.as_bps() } else { (rate.as_bps() as f64 * factor).round() as u64 };
            nic.grants = Some(multipath::Grants::new(BitRate::from_bps(granted.max(1)), self.chunk, frames)?);
        }
        Ok(nic)
    }
}

impl<'a, X: HostChannel, S: Iterator<Item = FlowSpec>> VerbsHosts<'a, X, S> {
    /// Hosts that will start the flows of `table`; `rates` are the rates of their links.
    ///
    /// # Panics
    /// [`try_out`] refuses `config`.
    pub(crate) fn new(
        config: &VerbsConfig<X>, rates: &[BitRate], plan: Arc<PartitionPlan>, table: FlowTable<'a, S>,
    ) -> Self {
        let kind = VerbsNics { messages: Messages::default(), channels: PhantomData };
        Hosts::with(
            kind,
            plan,
            table,
            || config.shared(),
            |host| config.nic(host, rates[host.index()]).expect("the settings were tried out"),
        )
    }

    /// Opens the channel of two hosts.
    fn open_channel(&mut self, spec: &FlowSpec) -> Result<(), HostError> {
        let pair = [HostId(spec.src), HostId(spec.dst)];
        let mut opened = Vec::new();
        let is_small = spec.bytes <= self.shared().small;
        for (own, peer) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let at = self.plan.node(own.0);
            let partition = &mut self.partitions[at.partition as usize];
            let nic = &mut partition.hosts[at.slot.index()].nic;
            let number = nic.open(&partition.shared, own, (peer, is_small))?;
            opened.push((number, nic.ends[number as usize].channel.address(), nic.region));
        }
        for (side, (own, peer)) in [(pair[0], pair[1]), (pair[1], pair[0])].into_iter().enumerate() {
            let ((number, ..), (_, theirs, target)) = (&opened[side], &opened[1 - side]);
            let at = self.plan.node(own.0);
            let partition = &mut self.partitions[at.partition as usize];
            let nic = &mut partition.hosts[at.slot.index()].nic;
            nic.connect(&partition.shared, *number, peer, *target, theirs, spec.start)?;
        }
        Ok(())
    }

    /// The first error of a host, for which the run fails.
    pub(crate) fn error(&self) -> Option<String> {
        self.partitions.iter().find_map(|partition| partition.shared.error.clone())
    }

    /// Adds warnings of recoveries and aborted messages.
    pub(crate) fn warn(&self, warnings: &mut Vec<String>) {
        let nics = || self.partitions.iter().flat_map(|partition| &partition.hosts).map(|host| &host.nic);
        let channels = || nics().flat_map(|nic| &nic.ends).map(|end| &end.channel);
        let sum = |of: fn(&Counters) -> u64| nics().map(|nic| of(nic.counters())).sum::<u64>();
        let recoveries: u64 = channels().map(HostChannel::recoveries).sum();
        let ended = channels().filter_map(HostChannel::failure);
        let aborted = self.kind.messages.aborted();
        for (count, what) in [
            (recoveries, "recoveries of channels from failed queue pairs or silent paths"),
            (sum(|counters| counters.queue_pair_errors), "failures of queue pairs"),
            (sum(|counters| counters.rnr_naks_sent), "messages found no receive (RNR NAK)"),
            (aborted, "messages were aborted by their channels"),
        ] {
            if count > 0 {
                warnings.push(format!("{count} {what}"));
            }
        }
        if let Some(why) = ended.map(|why| why.to_string()).next() {
            warnings.push(format!("a channel has ended: {why}"));
        }
    }
}

impl<X: HostChannel> CarriesMessages for VerbsNics<X> {
    fn messages(&mut self) -> &mut Messages {
        &mut self.messages
    }
}

impl<X: HostChannel> NicKind for VerbsNics<X> {
    type SendEnd = SendEnd;
    type ReceiveEnd = ReceiveEnd;
    type Nic = HostNic<X>;
    type Shared = VerbsShared<X>;

    fn open<S: Iterator<Item = FlowSpec>>(
        hosts: &mut VerbsHosts<'_, X, S>, spec: &FlowSpec, hashes: FlowHashes, _origin: Origin,
    ) -> FlowId {
        let at = hosts.plan.node(spec.src);
        let is_small = spec.bytes <= hosts.shared().small;
        let known = hosts.host(at).nic.by_peer.contains_key(&(HostId(spec.dst), is_small));
        if !known && let Err(why) = hosts.open_channel(spec) {
            let shared = &mut hosts.partitions[at.partition as usize].shared;
            let (src, dst) = (spec.src, spec.dst);
            shared.error.get_or_insert_with(|| format!("no channel between host {src} and host {dst}: {why}"));
        }
        hosts.open_message(spec, hashes).0
    }

    /// The receiver may have to announce receives when its channel has just been opened.
    fn wakes_receivers(_shared: &VerbsShared<X>) -> bool {
        true
    }

    fn process<S: Iterator<Item = FlowSpec>>(hosts: &mut VerbsHosts<'_, X, S>, notice: Notice) {
        hosts.process_message(notice);
    }

    /// Does nothing, because flows of message transports retire as soon as the notes about them are processed.
    fn retire<S: Iterator<Item = FlowSpec>>(_hosts: &mut VerbsHosts<'_, X, S>) {}

    fn is_idle(&self) -> bool {
        self.messages.is_idle()
    }
    fn is_aborted(&self, flow: FlowId) -> bool {
        self.messages.is_aborted(flow)
    }
    fn aborted(&self) -> u64 {
        self.messages.aborted()
    }
    fn delivered(_shared: &VerbsShared<X>, end: &ReceiveEnd, _flow: FlowId, _bytes: u64) -> u64 {
        end.delivered
    }
}
