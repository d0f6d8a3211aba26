//! The agent of a host: it probes the targets of its pinglist and answers the probers that the list admits. It uses
//! neither sockets nor clocks, so that a simulated host runs the same code as a real one.
//!
//! An agent does not trust its list with the network: each pair and the whole host have rates that no list can exceed
//! ([`Limits`]). After three fetches in a row without an answer of the controller the agent stops probing, until a
//! fetch succeeds again.

use crate::record::{
    Batch, Health, MAX_PATHS, MAX_PROBES, MAX_TARGETS, PROTOCOL, Pinglist, ProbeRecord, ProbeResult, Target, Trace, ns,
};
use crate::rotation;
use rnic_endpoint::DatagramAddress;
use rnic_perf::ping::Carrier;
use rnic_perf::ping::message::{Kind, MAX_PROBE, MESSAGE, MIN_PROBE, Message};
use rnic_perf::ping::prober::{ProbeError, Prober, ProberConfig};
use rnic_perf::ping::responder::{Answer, Responder};
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Number of fetches without an answer after which an agent stops probing.
pub const MAX_FAILED_FETCHES: u32 = 3;

/// Bounds that no pinglist can exceed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Maximum probes per second of this host.
    pub rate: f64,
    /// Minimum time between two probes of a pair.
    pub interval: Time,
    /// Maximum number of results that wait for the controller; beyond it the oldest are thrown away.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { rate: 1_000.0, interval: Time::from_ms(10), waiting: 1_000_000 }
    }
}

/// A probe to be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Identifies the probe in [`Agent::sent`].
    pub id: ProbeId,
    /// The target.
    pub to: DatagramAddress,
    /// What carries the probe.
    pub carrier: Carrier,
    /// Flow label, which selects the UDP source port.
    pub path: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// The message.
    pub message: Message,
    /// Payload bytes of the datagram.
    pub len: usize,
}

/// A probe of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeId {
    /// Session with the target.
    pub session: u64,
    /// Number of the probe in the session.
    pub sequence: u64,
}

struct Series {
    target: Target,
    prober: Prober,
    due: Option<Time>,
    /// Number of the target in [`Agent::targets`].
    number: u16,
    /// Numbers of the paths.
    paths: Vec<u16>,
}

/// The state of an agent.
pub struct Agent {
    host: String,
    incarnation: u64,
    limits: Limits,
    version: u64,
    list: Option<Pinglist>,
    failed_fetches: u32,
    /// The targets, by session.
    series: BTreeMap<u64, Series>,
    /// When each series wants to be looked at next.
    due: BTreeSet<(Time, u64)>,
    responder: Responder,
    /// Probes that may leave, and when this was computed.
    allowance: (f64, Time),
    source_ports: Vec<u16>,
    /// Maximum bytes of a probe, if the device has no reliable connections.
    only_datagrams: Option<usize>,
    /// Names and incarnations of targets that records refer to.
    targets: Vec<(String, u64)>,
    records: VecDeque<ProbeRecord>,
    traces: VecDeque<Trace>,
    /// Batches that the controller has not confirmed, in order.
    batches: VecDeque<Batch>,
    in_batches: usize,
    next_batch: u64,
    health: Health,
}

impl Agent {
    /// An agent without a pinglist. `source_ports` has the UDP source port of each path; `incarnation` is random.
    pub fn new(host: &str, incarnation: u64, source_ports: Vec<u16>, limits: Limits, now: Time) -> Agent {
        Agent {
            host: host.to_string(),
            incarnation,
            limits,
            version: 0,
            list: None,
            failed_fetches: 0,
            series: BTreeMap::new(),
            due: BTreeSet::new(),
            responder: Responder::new(now),
            allowance: (1.0, now),
            source_ports,
            only_datagrams: None,
            targets: Vec::new(),
            records: VecDeque::new(),
            traces: VecDeque::new(),
            batches: VecDeque::new(),
            in_batches: 0,
            next_batch: 1,
            health: Health::default(),
        }
    }

    /// The device has no reliable connections, and datagrams of at most this many bytes; `None`: no such bounds.
    pub fn only_datagrams(&mut self, max: Option<usize>) {
        self.only_datagrams = max;
    }

    /// Takes a new pinglist. Targets that were in the list before go on undisturbed. `phase` returns a number from 0 to
    /// 1 for each new target, so that hosts do not probe in step.
    ///
    /// # Errors
    /// A sentence, if the list asks for something that an agent does not do. The agent keeps its list then.
    pub fn set_pinglist(&mut self, list: Pinglist, now: Time, mut phase: impl FnMut() -> f64) -> Result<(), String> {
        self.failed_fetches = 0;
        let size = usize::from(list.size);
        if !(MIN_PROBE..=MAX_PROBE).contains(&size) {
            return Err(format!("the pinglist has probes of {size} bytes; possible are {MIN_PROBE} to {MAX_PROBE}"));
        }
        if let Some(max) = self.only_datagrams {
            if list.transport != Carrier::Ud {
                let name = list.transport.name();
                return Err(format!(
                    "the pinglist asks for {name} probes; a NIC of libibverbs sends ud probes here: start the agent \
                     with --nic never"
                ));
            }
            if size > max {
                return Err(format!(
                    "the pinglist has probes of {size} bytes; datagrams of the NIC have at most {max}"
                ));
            }
        }
        let paths = usize::from(list.paths);
        if paths == 0 || paths > self.source_ports.len() {
            let own = self.source_ports.len();
            return Err(format!("the pinglist has {paths} paths; this agent has 1 to {own}"));
        }
        if list.rotation > 0 && self.source_ports.len() < usize::from(MAX_PATHS) {
            return Err("the pinglist changes source ports; this agent has too few".to_string());
        }
        if list.targets.len() > MAX_TARGETS || !(1..=60_000).contains(&list.timeout_ms) || list.dscp > 63 {
            return Err("the pinglist has too many targets, or a timeout or DSCP out of range".to_string());
        }
        let same = |series: &Series| {
            let settings = self.list.as_ref().map(|old| (old.paths, old.timeout_ms, old.transport));
            settings == Some((list.paths, list.timeout_ms, list.transport)) && list.targets.contains(&series.target)
        };
        let (kept, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.series).into_iter().partition(|(_, series)| same(series));
        self.series = kept;
        for mut series in ended.into_values() {
            // The target may have gone; its probes that wait prove nothing.
            series.prober.end(ProbeError::Gone);
            self.collect(&mut series, now);
        }
        for target in &list.targets {
            if self.series.contains_key(&target.session) {
                continue;
            }
            let interval = Time::from_ms(target.interval_ms.min(3_600_000)).max(self.limits.interval);
            let config = ProberConfig {
                session: target.session,
                paths: list.paths,
                interval,
                timeout: Time::from_ms(list.timeout_ms),
                count: None,
            };
            let start = now + interval.scale(phase().clamp(0.0, 1.0));
            let number = self.number(&target.host, target.incarnation);
            let prober = Prober::new(config, start);
            let series = Series { target: target.clone(), prober, due: None, number, paths: Vec::new() };
            self.series.insert(target.session, series);
        }
        for series in self.series.values_mut() {
            series.paths = rotation::paths(&self.host, &series.target.host, list.rotation, list.paths);
            series.prober.set_paths(series.paths.clone());
        }
        let admitted: BTreeMap<u64, DatagramAddress> = list.admit.iter().map(|a| (a.session, a.prober)).collect();
        let closed: Vec<u64> = self
            .responder
            .sessions()
            .filter(|number| admitted.get(number) != self.responder.prober(*number).as_ref())
            .collect();
        closed.into_iter().for_each(|number| self.responder.close(number));
        for (number, prober) in admitted {
            if self.responder.prober(number).is_none() {
                // A prober beyond the maximum number is not answered; its host sees a timeout.
                let _ = self.responder.open(number, prober, now);
            }
        }
        self.version = list.version;
        self.list = Some(list);
        self.schedule();
        Ok(())
    }

    /// The controller confirmed that the list is current.
    pub fn unchanged(&mut self, version: u64) {
        self.version = version;
        let stopped = self.stopped();
        self.failed_fetches = 0;
        if stopped {
            self.schedule();
        }
    }

    /// The controller did not answer a fetch.
    pub fn fetch_failed(&mut self) {
        self.failed_fetches = self.failed_fetches.saturating_add(1);
        if self.stopped() {
            self.schedule();
        }
    }

    /// Whether the agent does not probe because the controller is away.
    pub fn stopped(&self) -> bool {
        self.failed_fetches >= MAX_FAILED_FETCHES
    }

    /// Version and digest of the list, for the registration; zeros without a list.
    pub fn have(&self) -> (u64, u64) {
        (self.version, self.list.as_ref().map_or(0, |list| list.digest))
    }

    /// The list.
    pub fn list(&self) -> Option<&Pinglist> {
        self.list.as_ref()
    }

    /// The counters.
    pub fn health(&self) -> Health {
        let counters = self.responder.counters();
        Health {
            waiting: (self.records.len() + self.in_batches) as u64,
            answered: counters.answered,
            limited: counters.limited,
            strange: counters.strange,
            ..self.health
        }
    }

    /// The probe to be sent at `now`, if one is due.
    pub fn poll_send(&mut self, now: Time) -> Option<Outgoing> {
        let (allowed, at) = self.allowance;
        let burst = (self.limits.rate / 10.0).max(1.0);
        let allowed = (allowed + now.saturating_sub(at).as_secs() * self.limits.rate).min(burst);
        self.allowance = (allowed, now);
        if self.stopped() {
            return None;
        }
        let list = self.list.as_ref()?;
        let (len, dscp, carrier) = (usize::from(list.size), list.dscp, list.transport);
        while let Some(&(at, session)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, session));
            let Some(series) = self.series.get_mut(&session) else { continue };
            series.due = None;
            series.prober.on_time(now);
            let probe = if allowed >= 1.0 {
                series.prober.poll_send(now)
            } else {
                // The probe leaves when the host's rate admits it.
                self.health.throttled += 1;
                None
            };
            let wait = if allowed >= 1.0 { now } else { now + Time::from_us((1e6 / self.limits.rate) as u64 + 1) };
            let next = series.prober.next_time().map(|next| next.max(wait));
            series.due = next;
            self.due.extend(next.map(|next| (next, session)));
            let to = series.target.address;
            self.drain(session, now);
            if let Some(probe) = probe {
                self.allowance.0 -= 1.0;
                let id = ProbeId { session, sequence: probe.sequence };
                return Some(Outgoing { id, to, carrier, path: probe.path, dscp, message: probe.message, len });
            }
        }
        None
    }

    /// The NIC sent a probe at T2 = `at`.
    pub fn sent(&mut self, id: ProbeId, at: Time) {
        if let Some(series) = self.series.get_mut(&id.session) {
            series.prober.sent(id.sequence, at);
        }
    }

    /// The system cannot send a probe.
    pub fn unsendable(&mut self, id: ProbeId, now: Time) {
        if let Some(series) = self.series.get_mut(&id.session) {
            series.prober.failed(id.sequence, ProbeError::Unreachable);
        }
        self.drain(id.session, now);
    }

    /// A datagram arrived at `arrived` from an IP address and a queue pair number; the agent sees it at `now`. Returns
    /// the response to a probe.
    pub fn received(&mut self, arrived: Time, now: Time, source: (IpAddr, u32), datagram: &[u8]) -> Option<Answer> {
        let message = Message::parse(datagram);
        match message {
            Some(Message { kind: Kind::Response | Kind::Report { .. }, session, .. }) => {
                let own = |series: &&mut Series| {
                    let address = series.target.address;
                    (address.addr.ip().to_canonical(), address.qpn) == (source.0.to_canonical(), source.1)
                };
                let Some(series) = self.series.get_mut(&session).filter(own) else {
                    self.health.strange += 1;
                    return None;
                };
                series.prober.received(arrived, now, &datagram[..datagram.len().min(MESSAGE)]);
                self.drain(session, now);
                None
            }
            _ => self.responder.answer(arrived, source, datagram),
        }
    }

    /// A probe on a reliable connection was posted at `posted`, and acknowledged at `arrived`.
    pub fn acknowledged(&mut self, id: ProbeId, posted: Time, arrived: Time, now: Time) {
        if let Some(series) = self.series.get_mut(&id.session) {
            series.prober.acknowledged(id.sequence, posted, arrived, now);
        }
        self.drain(id.session, now);
    }

    /// A probe that waits for its response, as it is to be sent.
    pub fn waiting(&self, id: ProbeId) -> Option<Outgoing> {
        let (list, series) = (self.list.as_ref()?, self.series.get(&id.session)?);
        let path = series.prober.path_of(id.sequence)?;
        let (kind, session, sequence) = (Kind::Probe, id.session, id.sequence);
        Some(Outgoing {
            id,
            to: series.target.address,
            carrier: list.transport,
            path,
            dscp: list.dscp,
            message: Message { kind, path, session, sequence },
            len: usize::from(list.size),
        })
    }

    /// A datagram that asks for a reliable connection arrived. Returns where the answer goes, and the prober, if it may
    /// have one.
    pub fn connect(
        &mut self, arrived: Time, source: (IpAddr, u32), datagram: &[u8],
    ) -> Option<(Answer, DatagramAddress)> {
        let answer = self.responder.connect(arrived, source, datagram)?;
        Some((answer, self.responder.prober(answer.response.session)?))
    }

    /// The target of a session, if a datagram from `source` comes from it.
    pub fn target(&self, session: u64, source: (IpAddr, u32)) -> Option<DatagramAddress> {
        let address = self.series.get(&session)?.target.address;
        let own = (address.addr.ip().to_canonical(), address.qpn) == (source.0.to_canonical(), source.1);
        own.then_some(address)
    }

    /// Whether the probes of a session take a path.
    pub fn uses(&self, (session, path): (u64, u16)) -> bool {
        self.series.get(&session).is_some_and(|series| series.paths.contains(&path))
    }

    /// Whether the session of a prober is open.
    pub fn serves(&self, session: u64) -> bool {
        self.responder.prober(session).is_some()
    }

    /// When the owner should call [`Agent::poll_send`] next.
    pub fn next_time(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The path of a probe was traced.
    pub fn traced(&mut self, session: u64, path: u16, hops: Vec<Option<IpAddr>>) {
        if let Some(series) = self.series.get(&session) {
            self.traces.push_back(Trace { target: series.number, path, hops });
            if self.traces.len() > MAX_PROBES {
                self.traces.pop_front();
            }
        }
    }

    /// The targets: session, address, and numbers of the paths in use.
    pub fn paths(&self) -> Vec<(u64, std::net::SocketAddr, Vec<u16>)> {
        let of = |(session, series): (&u64, &Series)| (*session, series.target.address.addr, series.paths.clone());
        self.series.iter().map(of).collect()
    }

    /// The UDP source port of a path.
    pub fn source_port(&self, path: u16) -> u16 {
        self.source_ports.get(usize::from(path)).copied().unwrap_or(0)
    }

    /// Puts what was measured so far into a batch, if there is something. `wall` converts a time of the agent into
    /// microseconds since 1970.
    pub fn close_batch(&mut self, wall: impl Fn(Time) -> u64) {
        while !self.records.is_empty() || !self.traces.is_empty() {
            let count = self.records.len().min(MAX_PROBES);
            let probes: Vec<ProbeRecord> = self.records.drain(..count).collect();
            let probes = probes.into_iter().map(|probe| {
                let at = Time::from_us(probe.at_us);
                ProbeRecord { at_us: wall(at), ..probe }
            });
            let batch = Batch {
                protocol: PROTOCOL,
                host: self.host.clone(),
                incarnation: self.incarnation,
                sequence: self.next_batch,
                targets: self.targets.clone(),
                source_ports: self.source_ports.clone(),
                probes: probes.collect(),
                traces: self.traces.drain(..).collect(),
            };
            self.next_batch += 1;
            self.in_batches += batch.probes.len();
            self.batches.push_back(batch);
        }
        while self.in_batches > self.limits.waiting
            && let Some(oldest) = self.batches.pop_front()
        {
            self.in_batches -= oldest.probes.len();
            self.health.discarded += oldest.probes.len() as u64;
        }
    }

    /// The oldest batch that the controller has not confirmed.
    pub fn batch(&self) -> Option<&Batch> {
        self.batches.front()
    }

    /// The oldest batch after the one with this number.
    pub fn batch_after(&self, sequence: u64) -> Option<&Batch> {
        self.batches.iter().find(|batch| batch.sequence > sequence)
    }

    /// The controller confirmed a batch: its content is on disk. `sequence` is the batch's number.
    pub fn confirmed(&mut self, sequence: u64) {
        while let Some(first) = self.batches.front().filter(|batch| batch.sequence <= sequence) {
            self.in_batches -= first.probes.len();
            self.batches.pop_front();
        }
    }

    /// Ends the agent: probes that wait get no result.
    pub fn end(&mut self) {
        self.series.clear();
        self.due.clear();
    }

    /// The number of a target in the table of the batches.
    fn number(&mut self, host: &str, incarnation: u64) -> u16 {
        let found = self.targets.iter().position(|(name, inc)| name == host && *inc == incarnation);
        if let Some(at) = found {
            return at as u16;
        }
        if self.targets.len() >= MAX_TARGETS {
            // The table is full of targets of earlier lists. What was measured leaves with the old table.
            self.close_batch(|time| ns(time) / 1_000);
            self.targets = Vec::new();
            let names: Vec<(u64, String, u64)> =
                self.series.iter().map(|(id, s)| (*id, s.target.host.clone(), s.target.incarnation)).collect();
            for (session, host, incarnation) in names {
                self.targets.push((host, incarnation));
                if let Some(series) = self.series.get_mut(&session) {
                    series.number = (self.targets.len() - 1) as u16;
                }
            }
        }
        self.targets.push((host.to_string(), incarnation));
        (self.targets.len() - 1) as u16
    }

    fn schedule(&mut self) {
        self.due.clear();
        let stopped = self.stopped();
        for (session, series) in &mut self.series {
            // A stopped agent only waits for the probes that are under way.
            series.due = if stopped { None } else { series.prober.next_time() };
            self.due.extend(series.due.map(|due| (due, *session)));
        }
    }

    fn drain(&mut self, session: u64, now: Time) {
        if let Some(mut series) = self.series.remove(&session) {
            self.collect(&mut series, now);
            self.series.insert(session, series);
        }
    }

    /// Moves the outcomes of a series into the records.
    fn collect(&mut self, series: &mut Series, now: Time) {
        while let Some(outcome) = series.prober.poll_outcome() {
            let result = match outcome.result {
                Ok(times) => ProbeResult::Answered {
                    total_ns: ns(times.total),
                    prober_ns: ns(times.prober),
                    split_ns: times.split.map(|split| (ns(split.responder), ns(split.network))),
                },
                Err(ProbeError::Timeout) => ProbeResult::Timeout,
                Err(ProbeError::Unreachable) => ProbeResult::Unreachable,
                Err(ProbeError::Gone) => ProbeResult::Gone,
            };
            self.health.probes += 1;
            // Until the batch is closed, the time is that of the agent's clock.
            let at_us = ns(now) / 1_000;
            self.records.push_back(ProbeRecord { target: series.number, path: outcome.path, at_us, result });
            if self.records.len() > self.limits.waiting {
                self.records.pop_front();
                self.health.discarded += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Admit;

    const SECOND: Time = Time::from_ms(1_000);

    fn address(last: u8) -> DatagramAddress {
        DatagramAddress { addr: ([10, 0, 0, last], 4_791).into(), qpn: last.into(), qkey: 9 }
    }

    fn list(targets: &[u8], interval_ms: u64) -> Pinglist {
        let target = |last: &u8| Target {
            host: format!("h{last}"),
            incarnation: 1,
            address: address(*last),
            session: u64::from(*last),
            interval_ms,
        };
        Pinglist {
            version: 3,
            digest: 4,
            refresh_ms: 1_000,
            report_ms: 1_000,
            trace_ms: 1_000,
            timeout_ms: 500,
            size: 512,
            paths: 2,
            rotation: 0,
            transport: Carrier::Ud,
            dscp: 0,
            targets: targets.iter().map(target).collect(),
            admit: vec![Admit { session: 77, prober: address(9) }],
        }
    }

    fn agent(limits: Limits) -> Agent {
        Agent::new("h1", 5, vec![50_000, 50_001], limits, Time::ZERO)
    }

    /// Runs the agent until `end`; every probe leaves at once, and `answers` decides which ones are answered.
    fn run(agent: &mut Agent, end: Time, answers: impl Fn(&Outgoing) -> bool) -> Vec<(Time, Outgoing)> {
        let mut sent = Vec::new();
        while let Some(now) = agent.next_time().filter(|next| *next < end) {
            while let Some(probe) = agent.poll_send(now) {
                agent.sent(probe.id, now);
                if answers(&probe) {
                    let source = (probe.to.addr.ip(), probe.to.qpn);
                    for kind in [Kind::Response, Kind::Report { delay: Time::from_us(3) }] {
                        let bytes = Message { kind, ..probe.message }.emit();
                        assert_eq!(
                            agent.received(now + Time::from_us(10), now + Time::from_us(11), source, &bytes),
                            None
                        );
                    }
                }
                sent.push((now, probe));
            }
        }
        sent
    }

    #[test]
    fn probes_are_sent_and_reported() {
        let mut agent = agent(Limits::default());
        agent.set_pinglist(list(&[2, 3], 100), Time::ZERO, || 0.5).unwrap();
        let sent = run(&mut agent, SECOND, |probe| probe.to.qpn == 2);
        assert_eq!(sent.len(), 20);
        agent.close_batch(|time| time.as_ps() / 1_000_000 + 7);
        let batch = agent.batch().unwrap().clone();
        let of = |target: u16| batch.probes.iter().filter(move |probe| probe.target == target).collect::<Vec<_>>();
        let answered = ProbeResult::Answered { total_ns: 11_000, prober_ns: 1_000, split_ns: Some((3_000, 7_000)) };
        assert_eq!(of(0).len(), 10);
        assert!(of(0).iter().all(|probe| probe.result == answered));
        assert!(of(1).len() >= 4 && of(1).iter().all(|probe| probe.result == ProbeResult::Timeout));
        assert_eq!((batch.sequence, batch.targets[1].0.as_str()), (1, "h3"));
        assert_eq!(Batch::parse(&batch.emit()), Ok(batch));
        agent.confirmed(1);
        assert_eq!((agent.batch(), agent.health().waiting), (None, 0));
    }

    #[test]
    fn an_agent_without_controller_stops_and_resumes() {
        let mut agent = agent(Limits::default());
        agent.set_pinglist(list(&[2], 100), Time::ZERO, || 0.0).unwrap();
        agent.fetch_failed();
        agent.fetch_failed();
        assert!(agent.next_time().is_some(), "two failures are no reason to stop");
        agent.fetch_failed();
        assert!(agent.stopped() && agent.next_time().is_none() && agent.poll_send(SECOND).is_none());
        agent.unchanged(9);
        assert!(agent.poll_send(SECOND).is_some());
        assert_eq!(agent.have(), (9, 4));
    }

    /// A list that asks for a flood is obeyed within the agent's own limits.
    #[test]
    fn no_list_exceeds_the_limits() {
        let mut agent = agent(Limits { rate: 50.0, ..Limits::default() });
        let targets: Vec<u8> = (2..102).collect();
        agent.set_pinglist(list(&targets, 0), Time::ZERO, || 0.0).unwrap();
        let sent = run(&mut agent, Time::from_ms(2_000), |_| true);
        assert!((90..=110).contains(&sent.len()), "{}", sent.len());
        assert!(agent.health().throttled > 0);
        for wrong in [Pinglist { size: 100, ..list(&[2], 1) }, Pinglist { paths: 3, ..list(&[2], 1) }] {
            assert!(agent.set_pinglist(wrong, SECOND, || 0.0).unwrap_err().contains("the pinglist has"));
        }
    }

    #[test]
    fn only_admitted_probers_are_answered() {
        let mut agent = agent(Limits::default());
        let mut probe = Message { kind: Kind::Probe, path: 0, session: 77, sequence: 0 }.emit().to_vec();
        probe.resize(512, 0);
        let from = |last: u8| (address(last).addr.ip(), u32::from(last));
        assert_eq!(agent.received(SECOND, SECOND, from(9), &probe), None, "without a list nobody is answered");
        agent.set_pinglist(list(&[], 100), Time::ZERO, || 0.0).unwrap();
        assert!(agent.received(SECOND, SECOND, from(9), &probe).is_some());
        assert_eq!(agent.received(SECOND, SECOND, from(8), &probe), None);
        let empty = Pinglist { admit: Vec::new(), ..list(&[], 100) };
        agent.set_pinglist(empty, SECOND, || 0.0).unwrap();
        assert_eq!(agent.received(SECOND, SECOND, from(9), &probe), None);
        assert_eq!(agent.health().strange, 3);
    }

    /// Without a controller the results wait, up to a bound; the oldest go first, and are counted.
    #[test]
    fn what_waits_is_bounded() {
        let mut agent = agent(Limits { waiting: 50, rate: 1_000.0, ..Limits::default() });
        agent.set_pinglist(list(&[2], 10), Time::ZERO, || 0.0).unwrap();
        for turn in 1..=5 {
            run(&mut agent, Time::from_ms(200 * turn), |_| true);
            agent.close_batch(|_| 0);
        }
        let health = agent.health();
        assert_eq!((health.probes, health.waiting + health.discarded), (100, 100));
        assert!(health.waiting <= 50 && agent.batch().unwrap().sequence > 1);
    }

    /// A rotation changes the paths of a target, and nothing else: probes that are under way keep theirs.
    #[test]
    fn a_rotation_changes_the_paths() {
        let ports: Vec<u16> = (0..MAX_PATHS).map(|path| 50_000 + path).collect();
        let mut agent = Agent::new("h1", 5, ports, Limits::default(), Time::ZERO);
        let mut used = std::collections::BTreeSet::new();
        for rotation in 1..=10 {
            let list = Pinglist { rotation, digest: rotation, ..list(&[2], 100) };
            agent.set_pinglist(list, Time::from_ms(1_000 * rotation), || 0.0).unwrap();
            let expected = rotation::paths("h1", "h2", rotation, 2);
            let sent = run(&mut agent, Time::from_ms(1_000 * rotation + 400), |_| true);
            assert!(!sent.is_empty() && sent.iter().all(|(_, probe)| expected.contains(&probe.path)));
            assert!(sent.iter().all(|(_, probe)| probe.message.path == probe.path));
            used.extend(expected);
        }
        assert!(used.len() >= 4, "{used:?}");
        agent.close_batch(|_| 0);
        let batch = agent.batch().unwrap();
        assert!(batch.probes.iter().all(|probe| probe.result != ProbeResult::Gone), "nothing was interrupted");
        assert!(Batch::parse(&batch.emit()).is_ok());
        let mut small = Agent::new("h1", 5, vec![1, 2], Limits::default(), Time::ZERO);
        let refused = small.set_pinglist(Pinglist { rotation: 1, ..list(&[2], 100) }, Time::ZERO, || 0.0);
        assert!(refused.unwrap_err().contains("changes source ports"));
    }

    /// A target that starts anew is a new target; the probes of the old one are no losses.
    #[test]
    fn a_new_incarnation_ends_the_old_probes() {
        let mut agent = agent(Limits::default());
        agent.set_pinglist(list(&[2], 100), Time::ZERO, || 0.0).unwrap();
        run(&mut agent, Time::from_ms(150), |_| false);
        let mut new = list(&[2], 100);
        new.targets[0].incarnation = 2;
        new.targets[0].session = 99;
        agent.set_pinglist(new, Time::from_ms(200), || 0.0).unwrap();
        agent.close_batch(|_| 0);
        let batch = agent.batch().unwrap();
        assert!(batch.probes.iter().all(|probe| probe.result == ProbeResult::Gone) && batch.probes.len() == 2);
        assert_eq!(batch.targets, [("h2".to_string(), 1), ("h2".to_string(), 2)]);
    }
}
