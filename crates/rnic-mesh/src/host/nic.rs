//! The device of an agent on a real NIC, through libibverbs.
//!
//! If completions have time stamps of the hardware, the differences T5 - T2 and T4 - T3 are those of time stamps.
//! Otherwise the times are those at which the software sees the completions. Only differences are used, so the clocks
//! of hardware and software are never compared: a response arrives at the software's T2 plus the hardware's T5 - T2.

use super::{NicChoice, Shared, random};
use crate::agent::ProbeId;
use rnic_endpoint::DatagramAddress;
use rnic_endpoint::port::ROCE_PORT;
use rnic_nic::{Destination, Event, Nic, NicError, Received, StampClock, Waker};
use rnic_perf::ping::message::{Kind, MESSAGE, Message};
use rnic_perf::ping::responder::Answer;
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time between two looks at the flag that ends the agent.
const LOOK: Time = Time::from_ms(100);

/// An open NIC.
pub(super) struct Device {
    nic: Mutex<Nic>,
    waker: Waker,
    start: Instant,
    pub(super) name: String,
    pub(super) mtu: usize,
    /// The clock of the hardware's time stamps, if there are some.
    pub(super) clock: Option<StampClock>,
    /// Where others send to.
    pub(super) address: DatagramAddress,
}

impl Device {
    /// Opens the NIC that has this address, as `choice` asks for it; `None` with the reason if there is none.
    ///
    /// # Errors
    /// If a NIC is required, and there is none.
    pub(super) fn open(local: SocketAddr, choice: NicChoice) -> Result<Result<Device, String>, NicError> {
        let opened = match local.port() {
            _ if choice == NicChoice::Never => return Ok(Err(String::new())),
            0 | ROCE_PORT => {
                let qkey = random().map_or(0x1234_5678, u32::from_ne_bytes) & 0x7fff_ffff;
                Nic::open(local.ip(), qkey)
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
        (0..paths).map(|path| rnic_nic::source_port(flow(path.into()))).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "an agent measures real time")]
fn instant() -> Instant {
    Instant::now()
}

/// The flow label of a path. Drivers do not derive a source port from flow label 0.
const fn flow(path: u32) -> u32 {
    path + 1
}

/// A datagram that has been posted and has not left.
enum Leaving {
    Probe(ProbeId),
    /// A response, and when its probe arrived (T3), by the software and by the hardware.
    Response(Answer, Time, Option<u64>),
    Report,
}

/// Time for which the time stamp of a probe is kept: longer than any probe waits.
const KEPT: Time = Time::from_ms(61_000);

/// When the probes left, by the software and by the hardware (T2).
#[derive(Default)]
struct Stamps {
    left: BTreeMap<ProbeId, (Time, u64)>,
    pruned: Time,
}

impl Stamps {
    fn sent(&mut self, id: ProbeId, at: Time, stamp: u64) {
        if at.saturating_sub(self.pruned) > KEPT {
            self.pruned = at;
            self.left.retain(|_, (left, _)| at.saturating_sub(*left) <= KEPT);
        }
        self.left.insert(id, (at, stamp));
    }

    /// When a response arrived that the software saw at `at`: by the hardware, if it has made both time stamps.
    fn arrived(&self, clock: Option<StampClock>, received: &Received, at: Time) -> Time {
        let times = || {
            let (clock, stamp) = (clock?, received.stamp?);
            let message = Message::parse(&received.head).filter(|message| message.kind == Kind::Response)?;
            let id = ProbeId { session: message.session, sequence: message.sequence };
            let (left, before) = *self.left.get(&id)?;
            Some(left + time(clock.between(before, stamp)))
        };
        // The software cannot see what has not arrived.
        times().map_or(at, |arrived| arrived.min(at))
    }
}

fn time(duration: Duration) -> Time {
    Time::from_ns(duration.as_nanos() as u64)
}

/// Moves datagrams until the agent ends.
pub(super) fn run(shared: &Shared, device: &Device) -> Result<(), NicError> {
    let mut nic = device.nic.lock().unwrap_or_else(PoisonError::into_inner);
    let mut leaving: BTreeMap<u64, Leaving> = BTreeMap::new();
    let mut next_token = 0_u64;
    let mut post = |nic: &mut Nic, leaving: &mut BTreeMap<u64, Leaving>, what, to: &Destination, bytes: &[u8], len| {
        next_token += 1;
        let posted = nic.send(next_token, to, bytes, len)?;
        if posted {
            leaving.insert(next_token, what);
        }
        Ok::<bool, NicError>(posted)
    };
    let mut events = Vec::new();
    let mut stamps = Stamps::default();
    while !shared.ended.load(Ordering::Acquire) {
        let now = shared.now();
        loop {
            let Some(probe) = shared.agent().poll_send(now) else { break };
            let (ip, qpn, qkey) = (probe.to.addr.ip(), probe.to.qpn, probe.to.qkey);
            let to = Destination { ip, qpn, qkey, flow: flow(probe.path.into()), dscp: probe.dscp };
            let what = Leaving::Probe(probe.id);
            if !post(&mut nic, &mut leaving, what, &to, &probe.message.emit(), probe.len)? {
                shared.agent().unsendable(probe.id, now);
            }
        }
        nic.arm()?;
        nic.poll(|event| events.push((event, shared.now())))?;
        let idle = events.is_empty();
        for (event, at) in events.drain(..) {
            match event {
                Event::Sent(token, sent, stamp) => match leaving.remove(&token) {
                    Some(Leaving::Probe(id)) if sent => {
                        shared.agent().sent(id, at);
                        if let Some(stamp) = stamp {
                            stamps.sent(id, at, stamp);
                        }
                    }
                    Some(Leaving::Probe(id)) => shared.agent().unsendable(id, at),
                    Some(Leaving::Response(answer, arrived, before)) if sent => {
                        let by_hardware = device.clock.zip(before).zip(stamp);
                        let delay = match by_hardware {
                            Some(((clock, before), stamp)) => time(clock.between(before, stamp)),
                            None => at.saturating_sub(arrived),
                        };
                        let report = answer.report(delay).emit();
                        post(&mut nic, &mut leaving, Leaving::Report, &destination(&answer), &report, MESSAGE)?;
                    }
                    Some(Leaving::Response(..) | Leaving::Report) | None => {}
                },
                Event::Received(received) => {
                    let Received { source, qpn, len, head, stamp } = received;
                    let arrived = stamps.arrived(device.clock, &received, at);
                    let mut datagram = head.to_vec();
                    datagram.resize(len, 0);
                    let answer = shared.agent().received(arrived, shared.now(), (source, qpn), &datagram);
                    if let Some(answer) = answer {
                        let what = Leaving::Response(answer, at, stamp);
                        let bytes = answer.response.emit();
                        post(&mut nic, &mut leaving, what, &destination(&answer), &bytes, answer.len)?;
                    }
                }
            }
        }
        if idle {
            let next = shared.agent().next_time();
            let wait = next.map_or(LOOK, |next| next.saturating_sub(shared.now()).min(LOOK));
            nic.sleep((wait.as_ps() / 1_000_000_000) as u16)?;
        }
    }
    Ok(())
}

fn destination(answer: &Answer) -> Destination {
    let path = answer.to.path;
    let (qpn, qkey) = (answer.to.qpn.0, answer.to.qkey);
    Destination { ip: path.peer.ip(), qpn, qkey, flow: flow(path.flow), dscp: path.dscp }
}
