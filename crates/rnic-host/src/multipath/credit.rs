//! Receiver credit: a receiver grants its senders what its link can take, in turns.

use super::Channel;
use crate::chunk::Frames;
use crate::error::HostError;
use rnic_transport::{BitRate, Time};
use rnic_verbs::Verbs;

/// Grants credit to the peers of several channels, at the rate of this host's link: one chunk to each peer in turn,
/// like the pull queue of EQDS (NSDI 2022) and NDP (SIGCOMM 2017). So the chunks of many senders arrive at most at the
/// rate of the link.
///
/// ```
/// use rnic_host::multipath::Grants;
/// use rnic_host::{Frames, HostError};
/// use rnic_transport::{BitRate, Time};
/// use rnic_verbs::{Device, DeviceConfig};
///
/// let frames = Frames { mtu: 4_096, header: 62 };
/// let mut grants = Grants::new(BitRate::from_gbps(100), 32_768, frames)?;
/// let mut nic = Device::new(DeviceConfig::default());
/// grants.run(&mut nic, Time::ZERO, &mut [])?;
/// assert_eq!(grants.next_time(&[]), None, "nobody wants credit");
/// # Ok::<(), HostError>(())
/// ```
#[derive(Debug)]
pub struct Grants {
    rate: BitRate,
    chunk: u64,
    frames: Frames,
    /// When the next chunk is granted.
    next: Time,
    /// The channel whose turn it is.
    turn: usize,
}

impl Grants {
    /// Grants credit of `chunk` bytes at a time, at the rate `rate` of frames on the link.
    ///
    /// # Errors
    /// If the rate or the chunk is 0.
    pub fn new(rate: BitRate, chunk: u32, frames: Frames) -> Result<Grants, HostError> {
        if rate.as_bps() == 0 {
            return Err(HostError::range("the rate of credit", 0, "1 bit per second or more"));
        }
        if chunk == 0 {
            return Err(HostError::range("the credit of one turn", 0, "1 byte or more"));
        }
        Ok(Grants { rate, chunk: chunk.into(), frames, next: Time::ZERO, turn: 0 })
    }

    /// Grants as many bytes as the rate allows at `now`. `channels` are all channels whose credit this host's link
    /// limits, always in the same order.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn run(&mut self, nic: &mut dyn Verbs, now: Time, channels: &mut [&mut Channel]) -> Result<(), HostError> {
        while self.next <= now {
            let count = channels.len();
            let wants = |at: &usize| channels[*at].wanted() > 0;
            let Some(at) = (0..count).map(|step| (self.turn + step) % count).find(wants) else { return Ok(()) };
            let bytes = channels[at].wanted().min(self.chunk);
            channels[at].grant(nic, now, bytes)?;
            self.turn = (at + 1) % count;
            self.next = self.next.max(now) + self.rate.time_for(self.frames.wire(bytes));
        }
        Ok(())
    }

    /// The time at which [`Grants::run`] must be called next; `None`: not before the peer of a channel demands credit.
    pub fn next_time(&self, channels: &[&Channel]) -> Option<Time> {
        channels.iter().any(|channel| channel.wanted() > 0).then_some(self.next)
    }
}

impl Channel {
    /// Number of bytes that the peer wants to transmit, and for which it has no credit.
    pub fn wanted(&self) -> u64 {
        let unsolicited = self.config.credit.map_or(u64::MAX, |credit| credit.unsolicited);
        if self.ended.is_some() {
            0
        } else {
            self.peer_demand.saturating_sub(self.own_granted.saturating_add(unsolicited))
        }
    }

    /// Allows the peer to transmit `bytes` more bytes, and sends it a note with the grant.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn grant(&mut self, nic: &mut dyn Verbs, now: Time, bytes: u64) -> Result<(), HostError> {
        self.own_granted = self.own_granted.saturating_add(bytes);
        self.send_note(nic, now, super::note::Topic::State)
    }
}
