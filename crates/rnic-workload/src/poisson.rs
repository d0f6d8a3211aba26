//! Random traffic: each host starts flows independently of the other hosts, as a Poisson process or a burstier one. On
//! average it starts them at the rate at which they use the given fraction of its link.

use super::arrivals::Process;
use super::network::Network;
use super::places::Places;
use super::rng::Stream;
use super::{FlowSpec, SizeDistribution};
use rnic_spec::{Arrivals, Locality};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An endless source of random traffic, whose flows are ordered by (start, host).
///
/// Each flow of a Poisson process takes three draws from its host's stream: the time since the previous flow, the
/// destination, the size. A different load therefore changes only the times between the flows, not their destinations
/// and sizes. This also holds for other processes, whose number of draws does not depend on the load.
#[derive(Debug)]
pub(crate) struct Poisson {
    traffic: u16,
    sizes: SizeDistribution,
    process: Process,
    /// Where the receivers are; `None` if they are distributed uniformly.
    places: Option<Places>,
    hosts: Vec<Host>,
    /// Each host's next flow, as (start, host); the earliest is on top.
    pending: BinaryHeap<Reverse<(Time, u32)>>,
}

/// The process of one host.
#[derive(Debug)]
struct Host {
    stream: Stream,
    mean_gap_ps: f64,
    /// What is left of the host's on period, in mean gaps.
    left: f64,
}

impl Poisson {
    /// Creates a source that begins at `start`. Each host starts flows at such a rate that data frames, with headers
    /// and frame gap, use on average the fraction `load` of its link.
    pub(crate) fn new(
        traffic: u16, start: Time, load: f64, sizes: &SizeDistribution, (locality, arrivals): (&Locality, &Arrivals),
        network: &Network, seed: u64,
    ) -> Poisson {
        let wire_bytes = sizes.mean() + sizes.mean_packets(network.mtu) * f64::from(network.wire_overhead);
        let process = Process::new(arrivals);
        let hosts = (0u64..).zip(&network.host_rate).map(|(host, rate)| {
            let mut stream = Stream::new(seed, traffic, host);
            let left = process.begin(&mut stream);
            Host { stream, mean_gap_ps: wire_bytes * 8e12 / (load * rate.as_bps() as f64), left }
        });
        let mut poisson = Poisson {
            traffic,
            sizes: sizes.clone(),
            process,
            places: (!locality.is_uniform()).then(|| Places::new(locality, network)),
            hosts: hosts.collect(),
            pending: BinaryHeap::new(),
        };
        for host in 0..network.hosts {
            let first = poisson.after(host, start);
            poisson.pending.push(Reverse((first, host)));
        }
        poisson
    }

    /// Draws the start of the flow that follows a flow of `host` that started at `previous`.
    fn after(&mut self, host: u32, previous: Time) -> Time {
        let Host { stream, mean_gap_ps, left } = &mut self.hosts[host as usize];
        previous.saturating_add(Time::from_ps((self.process.gap(left, stream) * *mean_gap_ps).round() as u64))
    }

    /// Returns the next flow of any host, in order of start.
    pub(crate) fn next(&mut self) -> Option<FlowSpec> {
        let Reverse((start, src)) = *self.pending.peek()?;
        let others = self.hosts.len() as u32 - 1;
        let stream = &mut self.hosts[src as usize].stream;
        let dst = match &self.places {
            None => {
                let other = stream.below(others);
                if other < src { other } else { other + 1 }
            }
            Some(places) => places.draw(src, stream),
        };
        let bytes = self.sizes.sample(stream.unit());
        let next = self.after(src, start);
        // Replacing the top in place reorders the heap once; `pop` and `push` would do it twice.
        *self.pending.peek_mut()? = Reverse((next, src));
        let traffic = self.traffic;
        Some(FlowSpec { start, src, dst, bytes, request: FlowSpec::NO_REQUEST, traffic, measured: true, hash: None })
    }
}
