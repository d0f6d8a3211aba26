//! Recorded channels: a channel with all its inputs from its owner and its NIC, so that its decisions can be compared
//! with the decisions of another channel with the same inputs.
//!
//! A [`Recorded`] channel is used like any other, above the simulated NIC or above sockets. [`Recorded::replay`] then
//! passes the same requests, times and results to a new channel without a NIC, and compares each call to the NIC and
//! each completion. This shows that a channel's decisions depend on its inputs alone, in a simulation as well as over
//! sockets.
//!
//! ```
//! use rnic_host::record::Recorded;
//! use rnic_host::rogue;
//! use rnic_transport::Time;
//! use rnic_verbs::{Device, DeviceConfig, Verbs};
//!
//! let mut nic = Device::new(DeviceConfig::default());
//! let pd = Verbs::create_pd(&mut nic)?;
//! let mut channel = Recorded::<rogue::Channel>::open(&mut nic, pd, rogue::Config::default())?;
//! channel.progress(&mut nic, Time::from_us(1))?;
//! assert_eq!(channel.replay(), Ok(()));
//! # Ok::<(), rnic_host::HostError>(())
//! ```

use crate::error::HostError;
use crate::link::Link;
use crate::multipath::{self, Builtin, PathPolicy};
use crate::rogue;
use crate::trace::{Recorder, Replay, Trace};
use rnic_transport::Time;
use rnic_verbs::{Completion, Data, MrInfo, Pd, RecvRequest, SendFlags, SendOp, SendRequest, Sge, Verbs};

/// A channel that can be recorded: the functions that both kinds of channels have, with the same arguments.
pub trait Recordable: Sized {
    /// Settings of a channel.
    type Config: Clone;
    /// What the two sides tell each other.
    type Address: Clone;

    /// Opens a channel.
    ///
    /// # Errors
    /// As the channel's own function; so do the others.
    fn open(nic: &mut dyn Verbs, pd: Pd, config: Self::Config) -> Result<Self, HostError>;
    /// Connects it.
    ///
    /// # Errors
    /// As the channel's own function.
    fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &Self::Address, now: Time) -> Result<(), HostError>;
    /// Posts a request.
    ///
    /// # Errors
    /// As the channel's own function.
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError>;
    /// Posts a receive of `len` bytes into a region, from `offset` on.
    ///
    /// # Errors
    /// As the channel's own function.
    fn post_recv(
        &mut self, nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError>;
    /// Lets it work.
    ///
    /// # Errors
    /// As the channel's own function.
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError>;
    /// Takes its completions.
    fn poll(&mut self, out: &mut [Completion]) -> usize;
}

impl Recordable for rogue::Channel {
    type Config = rogue::Config;
    type Address = rogue::Address;

    fn open(nic: &mut dyn Verbs, pd: Pd, config: rogue::Config) -> Result<Self, HostError> {
        rogue::Channel::open(nic, pd, config)
    }
    fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &rogue::Address, now: Time) -> Result<(), HostError> {
        rogue::Channel::connect(self, nic, link, *peer, now)
    }
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        rogue::Channel::post_send(self, request)
    }
    fn post_recv(
        &mut self, nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError> {
        let all = [Sge { addr: region.addr + offset, len, lkey: region.lkey }];
        let scatter = if len > 0 { &all[..] } else { &[] };
        rogue::Channel::post_recv(self, nic, &RecvRequest { wr_id, scatter })
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        rogue::Channel::progress(self, nic, now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        rogue::Channel::poll(self, out)
    }
}

impl Recordable for multipath::Channel {
    type Config = (multipath::Config, PathPolicy);
    type Address = multipath::Address;

    fn open(nic: &mut dyn Verbs, pd: Pd, (config, policy): Self::Config) -> Result<Self, HostError> {
        multipath::Channel::open(nic, pd, config, Box::new(Builtin::new(policy)))
    }
    fn connect(
        &mut self, nic: &mut dyn Verbs, link: Link, peer: &multipath::Address, now: Time,
    ) -> Result<(), HostError> {
        multipath::Channel::connect(self, nic, link, peer, now)
    }
    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        multipath::Channel::post_send(self, request)
    }
    fn post_recv(
        &mut self, _nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError> {
        multipath::Channel::post_recv(self, wr_id, region, offset, len)
    }
    fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        multipath::Channel::progress(self, nic, now)
    }
    fn poll(&mut self, out: &mut [Completion]) -> usize {
        multipath::Channel::poll(self, out)
    }
}

/// The data of a recorded request.
enum Bytes {
    Gather(Vec<Sge>),
    Inline(Vec<u8>),
}

/// A call of a channel's owner, with the result that the channel returned.
enum Act<A> {
    Connect(Link, A, Time, Result<(), HostError>),
    Send(u64, SendOp, Bytes, SendFlags, Result<(), HostError>),
    Receive(u64, MrInfo, u64, u32, Result<(), HostError>),
    Progress(Time, Result<(), HostError>),
    /// The length of the list, and the completions that the channel returned.
    Poll(usize, Vec<Completion>),
}

/// A channel that records its inputs and its calls to the NIC.
pub struct Recorded<C: Recordable> {
    channel: C,
    opened: (Pd, C::Config),
    trace: Trace,
    acts: Vec<Act<C::Address>>,
}

impl<C: Recordable> Recorded<C> {
    /// Opens a channel and records it from the beginning.
    ///
    /// # Errors
    /// As the channel's own function.
    pub fn open(nic: &mut dyn Verbs, pd: Pd, config: C::Config) -> Result<Recorded<C>, HostError> {
        let mut trace = Trace::default();
        let channel = C::open(&mut Recorder::new(nic, &mut trace), pd, config.clone())?;
        Ok(Recorded { channel, opened: (pd, config), trace, acts: Vec::new() })
    }

    /// The channel.
    pub fn channel(&self) -> &C {
        &self.channel
    }

    /// What the channel has asked of its NIC so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Connects the channel.
    ///
    /// # Errors
    /// As the channel's own function.
    pub fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: &C::Address, now: Time) -> Result<(), HostError> {
        let result = self.channel.connect(&mut Recorder::new(nic, &mut self.trace), link, peer, now);
        self.acts.push(Act::Connect(link, peer.clone(), now, result.clone()));
        result
    }

    /// Posts a request.
    ///
    /// # Errors
    /// As the channel's own function.
    pub fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        let result = self.channel.post_send(request);
        let bytes = match request.data {
            Data::Gather(sges) => Bytes::Gather(sges.to_vec()),
            Data::Inline(bytes) => Bytes::Inline(bytes.to_vec()),
            // The channel has refused it.
            Data::Bind(_) => Bytes::Inline(Vec::new()),
        };
        self.acts.push(Act::Send(request.wr_id, request.op, bytes, request.flags, result.clone()));
        result
    }

    /// Posts a receive of `len` bytes into a region, from `offset` on.
    ///
    /// # Errors
    /// As the channel's own function.
    pub fn post_recv(
        &mut self, nic: &mut dyn Verbs, wr_id: u64, region: &MrInfo, offset: u64, len: u32,
    ) -> Result<(), HostError> {
        let nic = &mut Recorder::new(nic, &mut self.trace);
        let result = self.channel.post_recv(nic, wr_id, region, offset, len);
        self.acts.push(Act::Receive(wr_id, *region, offset, len, result.clone()));
        result
    }

    /// Lets the channel work.
    ///
    /// # Errors
    /// As the channel's own function.
    pub fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        let result = self.channel.progress(&mut Recorder::new(nic, &mut self.trace), now);
        self.acts.push(Act::Progress(now, result.clone()));
        result
    }

    /// Takes completions of the channel.
    pub fn poll(&mut self, out: &mut [Completion]) -> usize {
        let count = self.channel.poll(out);
        self.acts.push(Act::Poll(out.len(), out[..count].to_vec()));
        count
    }

    /// Passes the recorded inputs to a new channel without a NIC, and compares its calls and results with the recorded
    /// ones.
    ///
    /// # Errors
    /// The first difference: a call to the NIC, a completion or a result that differs.
    pub fn replay(&self) -> Result<(), String> {
        let mut nic = Replay::new(self.trace.clone());
        let (pd, config) = self.opened.clone();
        let mut channel = C::open(&mut nic, pd, config).map_err(|why| why.to_string())?;
        for (number, act) in self.acts.iter().enumerate() {
            let (found, expected) = match act {
                Act::Connect(link, peer, now, result) => (channel.connect(&mut nic, *link, peer, *now), result),
                Act::Send(wr_id, op, bytes, flags, result) => {
                    let data = match bytes {
                        Bytes::Gather(sges) => Data::Gather(sges),
                        Bytes::Inline(bytes) => Data::Inline(bytes),
                    };
                    (channel.post_send(&SendRequest { wr_id: *wr_id, op: *op, data, flags: *flags }), result)
                }
                Act::Receive(wr_id, region, offset, len, result) => {
                    (channel.post_recv(&mut nic, *wr_id, region, *offset, *len), result)
                }
                Act::Progress(now, result) => (channel.progress(&mut nic, *now), result),
                Act::Poll(most, expected) => {
                    let mut found = vec![Completion::BLANK; *most];
                    let count = channel.poll(&mut found);
                    if found[..count] != expected[..] {
                        let found = &found[..count];
                        return Err(format!("act {number}: completions {found:?}, recorded {expected:?}"));
                    }
                    continue;
                }
            };
            if found != *expected {
                let nic = nic.finish().err().unwrap_or_default();
                return Err(format!("act {number}: result {found:?}, recorded {expected:?}; {nic}"));
            }
        }
        nic.finish()
    }
}
