//! Credit of multipath channels: the credit that a device's channels grant to their peers.
//!
//! All channels of a device share the rate of its link equally: a channel whose peer wants credit grants it at the rate
//! of the link, divided by the number of channels whose peers want credit. So the chunks of many senders arrive at most
//! at the rate of the link, and no channel waits for another channel's thread, as it would if the channels took turns.

use rnic_host::{Frames, HostError, multipath};
use rnic_transport::{BitRate, Time};
use rnic_verbs::Verbs;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum credit that a channel may grant at once after its thread was delayed, as the time that the link needs for
/// these bytes. Without this credit, each delay of a thread would leave the link idle for the same time.
const BACKLOG: Time = Time::from_us(200);

/// The credit of one channel.
#[derive(Debug)]
pub(super) struct Granter {
    rate: BitRate,
    /// Bytes of one grant.
    chunk: u64,
    frames: Frames,
    /// When the channel grants the next chunk, by the channel's clock.
    next: Time,
    claims: bool,
}

impl Granter {
    /// Grants `chunk` bytes at a time, in the frames that `frames` describes, at the channel's share of `rate`.
    pub(super) fn new(rate: BitRate, chunk: u32, frames: Frames) -> Granter {
        Granter { rate, chunk: chunk.into(), frames, next: Time::ZERO, claims: false }
    }

    /// Grants as many bytes as the rate allows at `now`. `claims` is the number of the device's channels whose peers
    /// want credit.
    ///
    /// # Errors
    /// If the NIC fails.
    pub(super) fn run(
        &mut self, nic: &mut dyn Verbs, now: Time, channel: &mut multipath::Channel, claims: &AtomicU32,
    ) -> Result<(), HostError> {
        loop {
            let wanted = channel.wanted();
            self.claim(wanted > 0, claims);
            if wanted == 0 || self.next > now {
                return Ok(());
            }
            let bytes = wanted.min(self.chunk);
            channel.grant(nic, now, bytes)?;
            let span = self.rate.time_for(self.frames.wire(bytes)) * u64::from(claims.load(Ordering::Relaxed)).max(1);
            self.next = self.next.max(now.saturating_sub(BACKLOG)) + span;
        }
    }

    /// When [`Granter::run`] is to be called next; `None`: not before the peer wants credit.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.claims.then_some(self.next)
    }

    /// Whether the peer wants credit.
    pub(super) fn claim(&mut self, wants: bool, claims: &AtomicU32) {
        if wants != self.claims {
            self.claims = wants;
            match wants {
                true => claims.fetch_add(1, Ordering::Relaxed),
                false => claims.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }
}
