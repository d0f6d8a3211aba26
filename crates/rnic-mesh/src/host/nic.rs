//! The agent's device on a real NIC, through libibverbs.
//!
//! The times T2 to T5 are defined in [`rnic_probe::prober`]. If completions have hardware time stamps, the differences
//! T5 - T2 and T4 - T3 are differences of hardware time stamps. Otherwise T2 to T5 are the times at which the software
//! sees the completions. Only differences of hardware time stamps are used, so the hardware's clock and the software's
//! clock are never compared: the arrival time of a response is the software's T2 plus the hardware's T5 - T2.

use super::{CONNECTION_TIMEOUT, NicChoice, NicTimes, Shared};
use crate::agent::{Outgoing, ProbeId};
use parking_lot::Mutex;
use rnic_endpoint::DatagramAddress;
use rnic_endpoint::port::ROCE_PORT;
use rnic_probe::Carrier;
use rnic_probe::connections::{CONNECT_LEN, Connections, Posting};
use rnic_probe::message::{Kind, MESSAGE_LEN, MIN_PROBE, Message};
use rnic_probe::nic::{self, Destination, Event, Nic, NicError, Pair, Received, StampClock, Stamps, Waker, flow};
use rnic_probe::random;
use rnic_probe::responder::Reply;
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum time between two checks of the flag that ends the agent.
const STOP_CHECK_INTERVAL: Time = Time::from_ms(100);

/// An open NIC.
pub(super) struct Device {
    nic: Mutex<Nic>,
    waker: Waker,
    start: Instant,
    pub(super) name: String,
    pub(super) mtu: usize,
    /// The clock of the hardware time stamps; `None` if the NIC has none.
    pub(super) clock: Option<StampClock>,
    /// The address to which peers send.
    pub(super) address: DatagramAddress,
}

impl Device {
    /// Opens the NIC that has this address, if `choice` permits a NIC. Returns `None` and the reason if no NIC has the
    /// address.
    ///
    /// # Errors
    /// Fails if `choice` requires a NIC, and no NIC has the address.
    pub(super) fn open(
        local: SocketAddr, choice: NicChoice, times: NicTimes,
    ) -> Result<Result<Device, String>, NicError> {
        let opened = match local.port() {
            _ if choice == NicChoice::Never => return Ok(Err(String::new())),
            0 | ROCE_PORT => {
                let qkey = random().map_or(0x1234_5678, u32::from_ne_bytes) & 0x7fff_ffff;
                let stamps = match times {
                    NicTimes::Hardware => Stamps::Hardware,
                    NicTimes::Any => Stamps::Any,
                    NicTimes::Software => Stamps::Never,
                };
                Nic::open(local.ip(), qkey, stamps)
            }
            port => Err(NicError::Absent(format!("a NIC has UDP port {ROCE_PORT}, and not {port}"))),
        };
        match opened {
            Ok(nic) => {
                let (qpn, qkey) = nic.address();
                let (waker, name, mtu, clock) = (nic.waker(), nic.name().to_string(), nic.mtu(), nic.clock());
                let address = DatagramAddress { addr: SocketAddr::new(local.ip(), ROCE_PORT), qpn, qkey };
                Ok(Ok(Device { nic: Mutex::new(nic), waker, start: instant(), name, mtu, clock, address }))
            }
            Err(why) if choice == NicChoice::Auto => Ok(Err(why.to_string())),
            Err(why) => Err(why),
        }
    }

    pub(super) fn now(&self) -> Time {
        Time::from_ns((instant() - self.start).as_nanos() as u64)
    }

    pub(super) fn interrupt(&self) {
        self.waker.wake();
    }

    pub(super) fn source_ports(&self, paths: u16) -> Vec<u16> {
        (0..paths).map(|path| nic::source_port(flow(path.into()))).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "an agent measures real time")]
fn instant() -> Instant {
    Instant::now()
}

/// A datagram that has been posted and whose send has not completed.
enum Leaving {
    Probe(ProbeId),
    /// A response, and the arrival time of its probe (T3) by the clocks of the software and of the hardware.
    Response(Reply, Time, Option<u64>),
    Report,
}

/// Time for which the time stamp of a probe is kept: longer than the timeout of any probe.
const KEPT: Time = Time::from_ms(61_000);

/// The departure times of probes (T2), by the software's and by the hardware's clock.
#[derive(Default)]
struct Stamped {
    left: BTreeMap<ProbeId, (Time, u64)>,
    pruned: Time,
}

impl Stamped {
    fn sent(&mut self, id: ProbeId, at: Time, stamp: u64) {
        if at.saturating_sub(self.pruned) > KEPT {
            self.pruned = at;
            self.left.retain(|_, (left, _)| at.saturating_sub(*left) <= KEPT);
        }
        self.left.insert(id, (at, stamp));
    }

    /// The arrival time of a response that the software saw at `at`. It is computed from hardware time stamps if both
    /// the probe and the response have one.
    fn arrived(&self, clock: Option<StampClock>, received: &Received, at: Time) -> Time {
        let times = || {
            let (clock, stamp) = (clock?, received.stamp?);
            let message = Message::parse(&received.head).filter(|message| message.kind == Kind::Response)?;
            let id = ProbeId { session: message.session, sequence: message.sequence };
            let (left, before) = *self.left.get(&id)?;
            Some(left + time(clock.between(before, stamp)))
        };
        // The software cannot see a response before it has arrived.
        times().map_or(at, |arrived| arrived.min(at))
    }
}

fn time(duration: Duration) -> Time {
    Time::from_ns(duration.as_nanos() as u64)
}

/// Datagrams and connections of the NIC.
struct ProbeLoop<'a> {
    shared: &'a Shared,
    device: &'a Device,
    leaving: BTreeMap<u64, Leaving>,
    next_token: u64,
    stamps: Stamped,
    connections: Connections<Pair>,
    /// Time at which the connections of closed sessions were last closed.
    closed: Time,
}

/// Sends and receives datagrams until the agent ends.
pub(super) fn run(shared: &Shared, device: &Device) -> Result<(), NicError> {
    let mut nic = device.nic.lock();
    let mut probe_loop = ProbeLoop {
        shared,
        device,
        leaving: BTreeMap::new(),
        next_token: 0,
        stamps: Stamped::default(),
        connections: Connections::default(),
        closed: shared.now(),
    };
    let mut events = Vec::new();
    while !shared.ended.load(Ordering::Acquire) {
        let now = shared.now();
        loop {
            let Some(probe) = shared.agent().poll_send(now) else { break };
            probe_loop.send(&mut nic, &probe, now)?;
        }
        if now.saturating_sub(probe_loop.closed) > Time::from_ms(1_000) {
            probe_loop.closed = now;
            let agent = shared.agent();
            probe_loop.connections.retain(&mut *nic, |key| agent.uses(key), |session| agent.serves(session));
        }
        nic.arm()?;
        nic.poll(|event| events.push((event, shared.now())))?;
        let idle = events.is_empty();
        for (event, at) in events.drain(..) {
            match event {
                Event::Sent(token, sent, stamp) => probe_loop.left(&mut nic, token, sent, stamp, at)?,
                Event::Received(received) => probe_loop.received(&mut nic, &received, at)?,
                Event::Acknowledged(id, ok) => {
                    let posted = probe_loop.connections.completed(&mut *nic, id, ok);
                    if let Some(posted) = posted.filter(|_| ok) {
                        let id = ProbeId { session: posted.key.0, sequence: posted.sequence };
                        shared.agent().acknowledged(id, posted.at, at, shared.now());
                    }
                }
            }
        }
        if idle {
            let next = shared.agent().next_time();
            let wait =
                next.map_or(STOP_CHECK_INTERVAL, |next| next.saturating_sub(shared.now()).min(STOP_CHECK_INTERVAL));
            nic.sleep((wait.as_ps() / 1_000_000_000) as u16)?;
        }
    }
    Ok(())
}

impl ProbeLoop<'_> {
    /// Posts a datagram; returns whether it was posted.
    fn post(
        &mut self, nic: &mut Nic, what: Leaving, to: &Destination, bytes: &[u8], len: usize,
    ) -> Result<bool, NicError> {
        self.next_token += 1;
        let posted = nic.send(self.next_token, to, bytes, len)?;
        if posted {
            self.leaving.insert(self.next_token, what);
        }
        Ok(posted)
    }

    /// Sends a probe.
    fn send(&mut self, nic: &mut Nic, probe: &Outgoing, now: Time) -> Result<(), NicError> {
        let (ip, qpn, qkey) = (probe.to.addr.ip(), probe.to.qpn, probe.to.qkey);
        let to = Destination { ip, qpn, qkey, flow: flow(probe.path.into()), dscp: probe.dscp };
        if probe.carrier != Carrier::Ud {
            let key = (probe.id.session, probe.path);
            let next = self.connections.probe(nic, probe.carrier, key, &probe.message, probe.len, now)?;
            match next {
                Posting::Posted | Posting::Waiting => {}
                Posting::Full => self.shared.agent().unsendable(probe.id, now),
                // If the connect datagram is lost, a later probe repeats it.
                Posting::Connect(connect) => {
                    self.post(nic, Leaving::Report, &to, &connect, MIN_PROBE)?;
                }
            }
            return Ok(());
        }
        if !self.post(nic, Leaving::Probe(probe.id), &to, &probe.message.emit(), probe.len)? {
            self.shared.agent().unsendable(probe.id, now);
        }
        Ok(())
    }

    /// Handles the completion of a send.
    fn left(&mut self, nic: &mut Nic, token: u64, sent: bool, stamp: Option<u64>, at: Time) -> Result<(), NicError> {
        match self.leaving.remove(&token) {
            Some(Leaving::Probe(id)) if sent => {
                self.shared.agent().sent(id, at);
                if let Some(stamp) = stamp {
                    self.stamps.sent(id, at, stamp);
                }
            }
            Some(Leaving::Probe(id)) => self.shared.agent().unsendable(id, at),
            Some(Leaving::Response(answer, arrived, before)) if sent => {
                let by_hardware = self.device.clock.zip(before).zip(stamp);
                let delay = match by_hardware {
                    Some(((clock, before), stamp)) => time(clock.between(before, stamp)),
                    None => at.saturating_sub(arrived),
                };
                let report = answer.report(delay).emit();
                self.post(nic, Leaving::Report, &destination(&answer), &report, MESSAGE_LEN)?;
            }
            Some(Leaving::Response(..) | Leaving::Report) | None => {}
        }
        Ok(())
    }

    /// Handles a received datagram.
    fn received(&mut self, nic: &mut Nic, received: &Received, at: Time) -> Result<(), NicError> {
        let &Received { source, qpn, len, ref head, stamp } = received;
        let mut datagram = head.to_vec();
        datagram.resize(len, 0);
        let message = Message::parse(head).filter(|m| matches!(m.kind, Kind::Connect | Kind::Accept));
        if let Some(message) = message {
            return self.on_connection_message(nic, at, (source, qpn), &message, &datagram);
        }
        let arrived = self.stamps.arrived(self.device.clock, received, at);
        let answer = self.shared.agent().received(arrived, self.shared.now(), (source, qpn), &datagram);
        if let Some(answer) = answer {
            let what = Leaving::Response(answer, at, stamp);
            let bytes = answer.response.emit();
            self.post(nic, what, &destination(&answer), &bytes, answer.len)?;
        }
        Ok(())
    }

    /// Handles a datagram about a reliable connection: another agent requests one, or has accepted one.
    fn on_connection_message(
        &mut self, nic: &mut Nic, arrived: Time, source: (IpAddr, u32), message: &Message, datagram: &[u8],
    ) -> Result<(), NicError> {
        if message.kind == Kind::Connect {
            let admitted = self.shared.agent().connect(arrived, source, datagram);
            let Some((answer, prober)) = admitted else { return Ok(()) };
            let accept = self.connections.serve(nic, message, datagram, prober, (CONNECTION_TIMEOUT, 0))?;
            if let Some(accept) = accept {
                self.post(nic, Leaving::Report, &destination(&answer), &accept, CONNECT_LEN)?;
            }
            return Ok(());
        }
        let (target, path) = {
            let agent = self.shared.agent();
            let list = agent.list().map_or((1_000, 0), |list| (list.timeout_ms, list.dscp));
            (agent.target(message.session, source), (Time::from_ms(list.0), list.1))
        };
        let Some(target) = target else { return Ok(()) };
        let session = message.session;
        let key = (session, message.path);
        for sequence in self.connections.accepted(nic, key, datagram, target, path)? {
            let waiting = self.shared.agent().waiting(ProbeId { session, sequence });
            if let Some(probe) = waiting.filter(|probe| probe.path == message.path) {
                self.send(nic, &probe, self.shared.now())?;
            }
        }
        Ok(())
    }
}

fn destination(answer: &Reply) -> Destination {
    let path = answer.to.path;
    let (qpn, qkey) = (answer.to.qpn.0, answer.to.qkey);
    Destination { ip: path.peer.ip(), qpn, qkey, flow: flow(path.flow), dscp: path.dscp }
}
