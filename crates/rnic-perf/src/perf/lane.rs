//! A lane carries messages of a measurement: it is a queue pair, or a channel of a host transport.

use super::PerfError;
use super::control::{Peer, Setup};
use super::plan::{ChannelPlan, HostTransport, PlanError, control};
use rnic_endpoint::config::{Mode, Security};
use rnic_endpoint::device::{
    Address, CompletionQueue, Device, MemoryRegion, PathOptions, ProtectionDomain, QpOptions, QueuePair,
};
use rnic_endpoint::host::{self, Builtin, Channel, ChannelError, Credit, MultipathConfig, RogueConfig};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Capacities, Completion, MAX_IN_FLIGHT, SendRequest, Service};
use std::net::SocketAddr;
use std::ops::Range;

/// The lanes at one end of a measurement: either all queue pairs, which share a completion queue, or all channels, each
/// of which has its own completions.
pub(super) enum Lanes {
    QueuePairs(Vec<QueuePair>, CompletionQueue),
    Channels(Vec<Channel>),
}

/// Bytes that a channel with credit sends before the first grant: the bytes that a link of 10 Gbps transmits in 50 us,
/// the base round-trip time of a channel.
const UNSOLICITED: u64 = 65_536;
/// Maximum number of transmissions of a chunk.
const MAX_ATTEMPTS: u32 = 400;
/// Time for which a thread with several channels sleeps before it polls all of them again.
const NAP: Time = Time::from_us(50);

impl Lanes {
    pub(super) fn open(
        device: &Device, domain: &ProtectionDomain, setup: &Setup, receives: u32,
    ) -> Result<Lanes, PerfError> {
        let service = match Service::named(&setup.service).filter(|service| Service::CONNECTED.contains(service)) {
            Some(service) => service,
            None => return Lanes::channels(domain, setup, receives),
        };
        let cq = device.completion_queue(setup.queue_pairs * (setup.depth + receives) + 16)?;
        let capacities =
            Capacities { send_wr: setup.depth, recv_wr: receives, send_sge: 1, recv_sge: 1, ..Capacities::default() };
        let options = QpOptions { service, capacities, ..QpOptions::new(&cq) };
        let pairs = (0..setup.queue_pairs).map(|_| domain.queue_pair(&options)).collect::<Result<_, _>>()?;
        Ok(Lanes::QueuePairs(pairs, cq))
    }

    fn channels(domain: &ProtectionDomain, setup: &Setup, receives: u32) -> Result<Lanes, PerfError> {
        let plan = &setup.channel;
        let Some(kind) = HostTransport::named(&setup.service) else {
            let why = format!("unknown service `{}`; there are rc, irn, uc, rogue and multipath", setup.service);
            return Err(PlanError(why).into());
        };
        let control = control(&setup.congestion, &setup.settings)?;
        let patience = setup.give_up_after_us.map(Time::from_us);
        let max_rate = setup.line_rate.map(BitRate::from_bps);
        let open = || match kind {
            HostTransport::Rogue => {
                let usual = RogueConfig::default();
                let config = RogueConfig {
                    service: plan.over.unwrap_or_default().into(),
                    chunk: plan.chunk.unwrap_or(usual.chunk),
                    requests: setup.depth,
                    receives,
                    control: control.clone(),
                    patience: patience.unwrap_or(usual.patience),
                    max_rate,
                    ..usual
                };
                Channel::rogue(domain, config)
            }
            HostTransport::Multipath => {
                let usual = MultipathConfig::default();
                let chunk = plan.chunk.unwrap_or(usual.chunk);
                let config = MultipathConfig {
                    chunk,
                    credit: plan.credit.then_some(Credit { unsolicited: UNSOLICITED.max(chunk.into()) }),
                    ecn: plan.marks,
                    spread: plan.spread,
                    paths: plan.paths.unwrap_or(ChannelPlan::PATHS),
                    requests: setup.depth,
                    receives,
                    control: control.clone(),
                    patience: patience.unwrap_or(usual.patience),
                    max_rate,
                    // The chunks that are in flight when losses begin have the full length, and may need many attempts.
                    shrink: true,
                    max_attempts: MAX_ATTEMPTS,
                    ..usual
                };
                Channel::multipath(domain, config, Box::new(Builtin::new(plan.select.unwrap_or_default().policy())))
            }
        };
        Ok(Lanes::Channels((0..setup.queue_pairs).map(|_| open()).collect::<Result<_, ChannelError>>()?))
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Lanes::QueuePairs(pairs, _) => pairs.len(),
            Lanes::Channels(channels) => channels.len(),
        }
    }

    pub(super) fn path_mtu(&self, peer: SocketAddr) -> Result<u32, PerfError> {
        Ok(match self {
            Lanes::QueuePairs(pairs, _) => pairs[0].path_mtu(peer)?,
            Lanes::Channels(channels) => channels[0].path_mtu(peer)?,
        })
    }

    /// The addresses of queue pairs, the addresses of channels, and the maximum packets in flight of a queue pair.
    pub(super) fn addresses(&self) -> (Vec<Peer>, Vec<host::Address>, u32) {
        match self {
            Lanes::QueuePairs(pairs, _) => {
                let in_flight = pairs[0].address().in_flight.unwrap_or(MAX_IN_FLIGHT);
                (pairs.iter().map(|qp| Peer::of(&qp.address())).collect(), Vec::new(), in_flight)
            }
            Lanes::Channels(channels) => (Vec::new(), channels.iter().map(Channel::address).collect(), MAX_IN_FLIGHT),
        }
    }

    /// Connects each lane to the peer's lane with the same index. The peer's device is at `addr`, and both ends must
    /// have the same number of lanes.
    pub(super) fn connect(
        &self, addr: SocketAddr, (peers, channels): (&[Peer], &[host::Address]), in_flight: u32, mtu: u32,
        setup: &Setup,
    ) -> Result<(), PerfError> {
        match self {
            Lanes::QueuePairs(pairs, _) => {
                let give_up_after = setup.give_up_after_us.map(Time::from_us);
                let options = PathOptions { mtu: Some(mtu), give_up_after, ..PathOptions::default() };
                for (qp, peer) in pairs.iter().zip(peers) {
                    let Peer { qpn, psn, source_port, key } = *peer;
                    let (source_port, in_flight) = (Some(source_port), Some(in_flight));
                    let security: Security = setup.security;
                    qp.connect(&Address { addr, qpn, psn, source_port, in_flight, security, key }, &options)?;
                }
            }
            Lanes::Channels(own) => {
                let options = host::PathOptions { mtu: Some(mtu), ..host::PathOptions::default() };
                for (channel, peer) in own.iter().zip(channels) {
                    // The IP address in the peer's message is not used, because it could be the address of a third
                    // party.
                    let mut peer = peer.clone();
                    peer.addr = addr;
                    channel.connect(&peer, &options)?;
                }
            }
        }
        Ok(())
    }

    /// Posts requests to a lane; returns the number of posted requests.
    pub(super) fn post_sends(&self, lane: usize, requests: &[SendRequest<'_>]) -> Result<usize, PerfError> {
        Ok(match self {
            Lanes::QueuePairs(pairs, _) => pairs[lane].post_sends(requests)?,
            Lanes::Channels(channels) => channels[lane].post_sends(requests)?,
        })
    }

    pub(super) fn post_recv(
        &self, lane: usize, wr_id: u64, region: &MemoryRegion, range: Range<usize>,
    ) -> Result<(), PerfError> {
        match self {
            Lanes::QueuePairs(pairs, _) => pairs[lane].post_recv(wr_id, &[region.slice(range.start, range.len())?])?,
            Lanes::Channels(channels) => channels[lane].post_recv(wr_id, region, range)?,
        }
        Ok(())
    }

    /// Polls completions of all lanes.
    pub(super) fn poll(&self, out: &mut [Completion]) -> Result<usize, PerfError> {
        match self {
            Lanes::QueuePairs(_, cq) => Ok(cq.poll(out)?),
            Lanes::Channels(channels) => {
                let mut count = 0;
                for channel in channels {
                    count += channel.poll(&mut out[count..])?;
                }
                Ok(count)
            }
        }
    }

    /// Polls completions of all lanes; sleeps for up to `timeout` if there are none.
    pub(super) fn wait(&self, device: &Device, out: &mut [Completion], timeout: Time) -> Result<usize, PerfError> {
        match self {
            Lanes::QueuePairs(_, cq) => Ok(cq.wait(out, timeout)?),
            Lanes::Channels(channels) if channels.len() == 1 => Ok(channels[0].wait(out, timeout)?),
            Lanes::Channels(_) => match self.poll(out)? {
                0 => {
                    device.wait(NAP)?;
                    self.poll(out)
                }
                count => Ok(count),
            },
        }
    }

    /// Whether the last byte of a message arrives last, so that a receiver can detect the message by polling this byte.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self, Lanes::QueuePairs(pairs, _) if pairs[0].service() == Service::Rc)
    }

    /// Counters of the channels: parts posted to the NIC, retransmitted parts, recoveries, and CE-marked parts.
    pub(super) fn counts(&self) -> Option<[u64; 4]> {
        let Lanes::Channels(channels) = self else { return None };
        Some(channels.iter().map(Channel::counters).fold([0; 4], |sum, counters| {
            let host::Counters { parts, repeated, recoveries, marked, .. } = counters;
            [sum[0] + parts, sum[1] + repeated, sum[2] + recoveries, sum[3] + marked]
        }))
    }
}

/// The mode of the device for a setup. Channels need progress threads, because an end that only responds must make
/// progress, too.
pub(super) fn mode(setup: &Setup) -> Mode {
    if setup.polled { Mode::Polled } else { Mode::Thread }
}
