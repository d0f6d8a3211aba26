//! The channels of `rnic-host` as the simulated hosts use them: one trait for both kinds.

use super::packet::{Segment, VerbsSegment};
use rnic_host::{Failure, HostError, Link, multipath, rogue};
use rnic_transport::Time;
use rnic_verbs::{Completion, MrInfo, Pd, RecvRequest, SendRequest, Verbs};

/// One end of a channel between two hosts.
pub(crate) trait HostChannel: Send + Sized + 'static {
    /// Settings of all channels of a run.
    type Settings: Clone + Send + Sync;
    /// What an end tells the other one.
    type Address;
    /// Body of the packets. It has room for the headers and for the messages between the two layers.
    type Segment: Segment;

    /// Opens an end on `nic`. `seed` differs for each end of the run.
    fn open(nic: &mut dyn Verbs, pd: Pd, settings: &Self::Settings, seed: u64) -> Result<Self, HostError>;
    fn address(&self) -> Self::Address;
    fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &Self::Address, now: Time) -> Result<(), HostError>;
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError>;
    /// Posts a receive for a Write with Immediate.
    fn post_recv(&mut self, nic: &mut dyn Verbs, region: &MrInfo) -> Result<(), HostError>;
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError>;
    fn poll(&mut self, out: &mut [Completion]) -> usize;
    fn next_time(&self) -> Option<Time>;
    fn failure(&self) -> Option<Failure>;
    /// Chunks that the software has retransmitted or replayed so far.
    fn repeated(&self) -> u64;
    /// Recoveries from failures of queue pairs or paths so far.
    fn recoveries(&self) -> u64;
    /// Grants the credit that a host's link allows at `now` to the peers of its channels.
    fn grant(
        _grants: &mut multipath::Grants, _nic: &mut dyn Verbs, _now: Time, _channels: &mut [&mut Self],
    ) -> Result<Option<Time>, HostError> {
        Ok(None)
    }
}

impl HostChannel for rogue::Channel {
    type Settings = rogue::Config;
    type Address = rogue::Address;
    // A Write with Immediate has 32 bytes of headers, a message between the layers has 12 + 16 bytes.
    type Segment = VerbsSegment<32>;

    fn open(nic: &mut dyn Verbs, pd: Pd, settings: &rogue::Config, seed: u64) -> Result<Self, HostError> {
        rogue::Channel::open(nic, pd, rogue::Config { seed, ..settings.clone() })
    }
    fn address(&self) -> rogue::Address {
        rogue::Channel::address(self)
    }
    fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &rogue::Address, now: Time) -> Result<(), HostError> {
        rogue::Channel::connect(self, nic, link, *peer, now)
    }
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        rogue::Channel::post_send(self, request)
    }
    fn post_recv(&mut self, nic: &mut dyn Verbs, _region: &MrInfo) -> Result<(), HostError> {
        rogue::Channel::post_recv(self, nic, &RecvRequest { wr_id: 0, scatter: &[] })
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        rogue::Channel::progress(self, nic, now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        rogue::Channel::poll(self, out)
    }
    fn next_time(&self) -> Option<Time> {
        rogue::Channel::next_time(self)
    }
    fn failure(&self) -> Option<Failure> {
        rogue::Channel::failure(self)
    }
    fn repeated(&self) -> u64 {
        self.counters().replayed
    }
    fn recoveries(&self) -> u64 {
        self.counters().recoveries
    }
}

/// Settings of the multipath channels of a run.
#[derive(Clone)]
pub(crate) struct MultipathSettings {
    pub(crate) config: multipath::Config,
    pub(crate) policy: multipath::PathPolicy,
}

impl HostChannel for multipath::Channel {
    type Settings = MultipathSettings;
    type Address = multipath::Address;
    // A message between the layers has 12 + 128 bytes.
    type Segment = VerbsSegment<140>;

    fn open(nic: &mut dyn Verbs, pd: Pd, settings: &MultipathSettings, seed: u64) -> Result<Self, HostError> {
        let hooks = Box::new(multipath::Builtin::new(settings.policy));
        multipath::Channel::open(nic, pd, multipath::Config { seed, ..settings.config.clone() }, hooks)
    }
    fn address(&self) -> multipath::Address {
        multipath::Channel::address(self)
    }
    fn connect(
        &mut self, nic: &mut dyn Verbs, link: Link, peer: &multipath::Address, now: Time,
    ) -> Result<(), HostError> {
        multipath::Channel::connect(self, nic, link, peer, now)
    }
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        multipath::Channel::post_send(self, request)
    }
    fn post_recv(&mut self, _nic: &mut dyn Verbs, region: &MrInfo) -> Result<(), HostError> {
        multipath::Channel::post_recv(self, 0, region, 0, 0)
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        multipath::Channel::progress(self, nic, now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        multipath::Channel::poll(self, out)
    }
    fn next_time(&self) -> Option<Time> {
        multipath::Channel::next_time(self)
    }
    fn failure(&self) -> Option<Failure> {
        multipath::Channel::failure(self)
    }
    fn repeated(&self) -> u64 {
        self.counters().retransmitted
    }
    fn recoveries(&self) -> u64 {
        self.counters().resets
    }
    fn grant(
        grants: &mut multipath::Grants, nic: &mut dyn Verbs, now: Time, channels: &mut [&mut Self],
    ) -> Result<Option<Time>, HostError> {
        grants.run(nic, now, channels)?;
        let channels: Vec<&Self> = channels.iter().map(|channel| &**channel).collect();
        Ok(grants.next_time(&channels))
    }
}
