//! Fuzzes the verbs: calls them in any order, with handles that are valid, belong to another device or are destroyed,
//! and with values at the limits.
//!
//! It checks that every accepted work request completes at most once, that the completions of a queue come in order,
//! and that a queue pair which enters the error state completes all its work requests.

use super::Summary;
use crate::network::Dice;
use rnic_transport::Time;
use rnic_verbs::{
    Access, AddressHandle, Batch, Bind, Capacities, Completion, Congestion, Connection, CqId, Data, DatagramAttributes,
    Device, DeviceConfig, Extras, Limits, MrInfo, Notify, Pd, QpInit, Qpn, Recipient, RecvRequest, SendAttributes,
    SendFlags, SendOp, SendRequest, Service, Sge, SrqId, State, Status, VerbsError, WindowInfo, WindowKind,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Queue key of all UD queue pairs.
const QKEY: u32 = 7;

/// Runs at most `steps` steps, until the choices of `dice` are used up.
///
/// # Errors
/// A description of the violation.
pub fn run(dice: Dice, steps: u64) -> Result<Summary, String> {
    let mut fuzz = Fuzz::new(dice);
    for step in 0..steps {
        if fuzz.dice.is_spent() {
            break;
        }
        fuzz.step().map_err(|what| format!("step {step}: {what}"))?;
    }
    Ok(fuzz.summary)
}

/// The outstanding work requests of a queue pair.
#[derive(Default)]
struct Work {
    /// The work request id of each send, and whether its success generates a completion.
    sends: VecDeque<(u64, bool)>,
    receives: VecDeque<u64>,
}

struct Host {
    device: Device,
    batch: Batch,
    addr: SocketAddr,
    domains: Vec<Pd>,
    regions: Vec<MrInfo>,
    windows: Vec<WindowInfo>,
    cqs: Vec<CqId>,
    srqs: Vec<SrqId>,
    qps: Vec<Qpn>,
    work: BTreeMap<Qpn, Work>,
    /// The receives posted to shared receive queues.
    shared: BTreeSet<u64>,
    /// Completion queues that overflowed or were destroyed.
    lost: BTreeSet<CqId>,
    inits: BTreeMap<Qpn, QpInit>,
}

struct Fuzz {
    dice: Dice,
    now: Time,
    hosts: [Host; 2],
    wire: VecDeque<(usize, usize, Vec<u8>)>,
    next_id: u64,
    summary: Summary,
}

/// Maximum number of handles of each kind that are kept, including destroyed ones.
const KEPT: usize = 12;

fn keep<T: Copy>(dice: &mut Dice, these: &mut Vec<T>, this: T) {
    if these.len() < KEPT {
        these.push(this);
    } else {
        let at = dice.below(KEPT as u64) as usize;
        these[at] = this;
    }
}

impl Fuzz {
    fn new(mut dice: Dice) -> Fuzz {
        let hosts = [1u8, 2].map(|at| {
            let limits = Limits {
                queue_pairs: 8,
                completion_queues: 8,
                completions: 64,
                shared_receive_queues: 4,
                work_requests: 16,
                scatter_gather: 4,
                inline: 64,
                regions: 8,
                windows: 4,
                protection_domains: 8,
                bytes: 1 << 20,
            };
            let device = Device::new(DeviceConfig { seed: dice.word(), limits, ..DeviceConfig::default() });
            let addr = SocketAddr::from(([10, 0, 0, at], rnic_wire::ROCE_PORT));
            Host {
                device,
                batch: Batch::new(4),
                addr,
                domains: Vec::new(),
                regions: Vec::new(),
                windows: Vec::new(),
                cqs: Vec::new(),
                srqs: Vec::new(),
                qps: Vec::new(),
                work: BTreeMap::new(),
                shared: BTreeSet::new(),
                lost: BTreeSet::new(),
                inits: BTreeMap::new(),
            }
        });
        let (now, wire) = (Time::from_us(1), VecDeque::new());
        let mut fuzz = Fuzz { dice, now, hosts, wire, next_id: 0, summary: Summary::default() };
        for _ in 0..40 {
            fuzz.make(0);
            fuzz.make(1);
        }
        fuzz
    }

    fn step(&mut self) -> Result<(), String> {
        self.summary.steps += 1;
        let at = self.dice.below(2) as usize;
        match self.dice.below(100) {
            0..4 => self.make(at),
            4..5 => self.end(at)?,
            5..8 => self.transition(at)?,
            8..12 => self.connect(),
            12..36 => self.post_send(at)?,
            36..50 => self.post_recv(at)?,
            50..52 => self.ask(at),
            52..56 => {
                self.now += Time::from_us(self.dice.below(20_000));
                self.hosts[at].device.on_time(self.now);
            }
            _ => self.exchange(),
        }
        if self.dice.chance(300) {
            self.poll(at)?;
        }
        Ok(())
    }

    /// Exchanges packets between the devices.
    fn exchange(&mut self) {
        for from in 0..2 {
            let Host { device, batch, .. } = &mut self.hosts[from];
            if device.transmit(self.now, batch) {
                let peer = batch.destination().map(|to| to.peer);
                let to = usize::from(peer != Some(self.hosts[0].addr));
                let packets: Vec<Vec<u8>> =
                    self.hosts[from].batch.datagrams_mut().map(|packet| packet.to_vec()).collect();
                self.wire.extend(packets.into_iter().map(|packet| (from, to, packet)));
            }
        }
        for _ in 0..8 {
            let Some((from, to, packet)) = self.wire.pop_front() else { return };
            self.summary.packets += 1;
            let source = self.hosts[from].addr;
            let taken = self.hosts[to].device.receive(self.now, source, false, &packet);
            self.summary.taken += u64::from(taken.is_ok());
        }
        while self.wire.len() > 200 {
            self.wire.pop_front();
        }
    }

    fn one<T: Copy>(&mut self, these: impl Fn(&Fuzz) -> &Vec<T>) -> Option<T> {
        let count = these(self).len() as u64;
        if count == 0 {
            return None;
        }
        // Sometimes this is a handle of the other device, which names a different object on this device.
        let at = self.dice.below(count) as usize;
        Some(these(self)[at])
    }

    fn own<T: Copy>(&mut self, at: usize, of: fn(&Host) -> &Vec<T>) -> Option<T> {
        let at = if self.dice.chance(30) { 1 - at } else { at };
        self.one(|fuzz| of(&fuzz.hosts[at]))
    }

    /// Returns a queue pair, usually an existing one.
    fn queue_pair(&mut self, at: usize) -> Option<Qpn> {
        if self.dice.chance(50) {
            return self.own(at, |host| &host.qps);
        }
        let which = self.dice.below(self.hosts[at].inits.len().max(1) as u64) as usize;
        self.hosts[at].inits.keys().nth(which).copied()
    }

    fn number(&mut self) -> u32 {
        match self.dice.below(6) {
            0 => 0,
            1 => u32::MAX,
            2 => self.dice.word() as u32,
            _ => self.dice.below(20) as u32,
        }
    }

    fn access(&mut self) -> Access {
        if self.dice.chance(700) {
            return Access::ALL;
        }
        let word = self.dice.word();
        Access {
            local_write: word & 1 != 0,
            remote_write: word & 2 != 0,
            remote_read: word & 4 != 0,
            remote_atomic: word & 8 != 0,
            remote_invalidate: word & 16 != 0,
            bind_window: word & 32 != 0,
        }
    }

    fn make(&mut self, at: usize) {
        let pd = self.own(at, |host| &host.domains);
        let (number, other) = match self.dice.chance(700) {
            true => (16, 2),
            false => (self.number(), self.number()),
        };
        let host = &mut self.hosts[at];
        match self.dice.below(7) {
            0 => {
                if host.domains.len() < KEPT {
                    let pd = host.device.create_pd();
                    host.domains.push(pd);
                }
            }
            1 => {
                if let Ok(cq) = host.device.create_cq(number) {
                    keep(&mut self.dice, &mut host.cqs, cq);
                }
            }
            2 => {
                if let Some(pd) = pd
                    && let Ok(srq) = host.device.create_srq(pd, number, other)
                {
                    keep(&mut self.dice, &mut host.srqs, srq);
                }
            }
            3 => {
                let Some(pd) = pd else { return };
                let bytes = vec![0; self.dice.below(5_000) as usize];
                let addr = self.dice.chance(300).then(|| self.dice.word());
                let access = self.access();
                let host = &mut self.hosts[at];
                if let Ok(info) = host.device.register(pd, bytes, addr, access) {
                    keep(&mut self.dice, &mut host.regions, info);
                }
            }
            4 => {
                let Some(pd) = pd else { return };
                let kind = if number.is_multiple_of(2) { WindowKind::Type1 } else { WindowKind::Type2 };
                if let Ok(window) = host.device.allocate_window(pd, kind) {
                    keep(&mut self.dice, &mut host.windows, window);
                }
            }
            _ => self.make_qp(at, pd),
        }
    }

    fn make_qp(&mut self, at: usize, pd: Option<Pd>) {
        let (send_cq, recv_cq) = (self.own(at, |host| &host.cqs), self.own(at, |host| &host.cqs));
        let (Some(pd), Some(send_cq), Some(recv_cq)) = (pd, send_cq, recv_cq) else { return };
        let srq = if self.dice.chance(300) { self.own(at, |host| &host.srqs) } else { None };
        let mut capacities = Capacities { send_wr: 8, recv_wr: 8, send_sge: 2, recv_sge: 2, inline: 32 };
        if self.dice.chance(200) {
            capacities =
                Capacities { send_wr: self.number(), recv_wr: self.number(), send_sge: self.number(), ..capacities };
        }
        let service = self.dice.pick(&Service::ALL);
        let signal_all = self.dice.chance(200);
        let init = QpInit { service, send_cq, recv_cq, srq, capacities, signal_all };
        let host = &mut self.hosts[at];
        if let Ok(qpn) = host.device.create_qp(pd, init.clone()) {
            if self.dice.chance(300) {
                let _ = host.device.set_extras(qpn, Extras { offer_irn: true, ..Extras::default() });
            }
            keep(&mut self.dice, &mut host.qps, qpn);
            host.inits.insert(qpn, init);
            host.work.insert(qpn, Work::default());
        }
    }

    fn end(&mut self, at: usize) -> Result<(), String> {
        self.poll(at)?;
        let which = self.dice.below(8);
        let (pd, cq) = (self.own(at, |host| &host.domains), self.own(at, |host| &host.cqs));
        let (srq, qpn) = (self.own(at, |host| &host.srqs), self.own(at, |host| &host.qps));
        let region = self.own(at, |host| &host.regions);
        let (window, number) = (self.own(at, |host| &host.windows), self.number());
        let host = &mut self.hosts[at];
        let device = &mut host.device;
        match (which, pd, cq, srq, qpn, region) {
            (0, Some(pd), ..) if device.destroy_pd(pd).is_ok() => host.domains.retain(|other| *other != pd),
            (1, _, Some(cq), ..) if device.destroy_cq(cq).is_ok() => drop(host.lost.insert(cq)),
            (2, _, _, Some(srq), ..) => drop(device.destroy_srq(srq)),
            (3, _, _, _, Some(qpn), _) if device.destroy_qp(qpn).is_ok() => {
                host.work.remove(&qpn);
                host.inits.remove(&qpn);
            }
            (4, .., Some(region)) => drop(device.deregister(region.id)),
            (5, .., Some(region)) => drop(device.rekey(region.id)),
            (6, _, _, Some(srq), ..) => drop(device.resize_srq(srq, number)),
            (7, ..) => drop(window.map(|window| device.free_window(window.id))),
            _ => {}
        }
        Ok(())
    }

    fn transition(&mut self, at: usize) -> Result<(), String> {
        let Some(qpn) = self.own(at, |host| &host.qps) else { return Ok(()) };
        self.poll(at)?;
        let (number, access) = (self.number(), self.access());
        let wild = self.dice.chance(200);
        let peer = self.hosts[self.dice.below(2) as usize].addr;
        let peer_qpn = self.one(|fuzz| &fuzz.hosts[1 - at].qps).unwrap_or(Qpn(number));
        let connection = Connection {
            peer,
            peer_qpn: if wild { Qpn(number) } else { peer_qpn },
            peer_source_port: None,
            protected: false,
            peer_in_flight: rnic_verbs::MAX_IN_FLIGHT,
            path_mtu: if wild { number } else { 256 },
            recv_psn: if wild { number } else { 0 },
            max_dest_rd_atomic: number as u8,
            min_rnr_timer: if wild { number as u8 } else { 1 },
            dscp: if wild { number as u8 } else { 0 },
        };
        let attributes = SendAttributes {
            send_psn: if wild { number } else { 0 },
            timeout: if wild { number as u8 } else { 6 },
            retry_count: if wild { number as u8 } else { 2 },
            rnr_retry: if wild { number as u8 } else { 2 },
            max_rd_atomic: number as u8,
            give_up_after: (wild && number % 3 == 0).then(|| Time::from_us(number.into())),
            keep_alive: (wild && number % 5 == 0).then(|| Time::from_us(number.into())),
        };
        let host = &mut self.hosts[at];
        let device = &mut host.device;
        // The verb may fail in the current state.
        let _ = match self.dice.below(9) {
            0 => device.to_init(qpn, access),
            1 => device.to_rtr(qpn, connection, self.now),
            2 => device.to_rts(qpn, attributes, self.now),
            3 => device.to_sqd(qpn),
            4 => {
                if device.to_error(qpn).is_ok() {
                    return self.is_flushed(at, qpn);
                }
                Ok(())
            }
            5 => {
                if device.to_reset(qpn).is_ok()
                    && let Some(work) = host.work.get_mut(&qpn)
                {
                    *work = Work::default();
                }
                Ok(())
            }
            6 => match Congestion::named("dcqcn") {
                Some(congestion) => device.set_congestion(qpn, congestion),
                None => Ok(()),
            },
            7 => {
                let (qkey, path_mtu) = if wild { (number, number) } else { (QKEY, 256) };
                device.to_datagrams(qpn, DatagramAttributes { qkey, path_mtu }, self.now)
            }
            _ => Ok(()),
        };
        Ok(())
    }

    /// Connects two queue pairs of the same service, or opens them for datagrams, if there are any.
    fn connect(&mut self) {
        let Some((&a, init)) = self.hosts[0].inits.iter().nth(self.dice.below(8) as usize) else { return };
        let of_its_kind = self.hosts[1].inits.iter().filter(|(_, other)| other.service == init.service);
        let Some((&b, _)) = of_its_kind.clone().nth(self.dice.below(of_its_kind.count().max(1) as u64) as usize) else {
            return;
        };
        let psns = [self.dice.word() as u32 & 0xff_ffff, self.dice.word() as u32 & 0xff_ffff];
        for (at, own, other) in [(0, a, b), (1, b, a)] {
            let connection = Connection {
                peer: self.hosts[1 - at].addr,
                peer_qpn: other,
                peer_source_port: None,
                protected: false,
                peer_in_flight: rnic_verbs::MAX_IN_FLIGHT,
                path_mtu: 256,
                recv_psn: psns[1 - at],
                max_dest_rd_atomic: 2,
                min_rnr_timer: 1,
                dscp: 0,
            };
            let attributes = SendAttributes {
                send_psn: psns[at],
                timeout: 6,
                retry_count: 3,
                rnr_retry: 3,
                max_rd_atomic: 2,
                ..SendAttributes::default()
            };
            let device = &mut self.hosts[at].device;
            if device.to_reset(own).is_ok()
                && let Some(work) = self.hosts[at].work.get_mut(&own)
            {
                *work = Work::default();
            }
            let device = &mut self.hosts[at].device;
            let _ = device
                .to_init(own, Access::ALL)
                .and_then(|()| match init.service {
                    Service::Ud => device.to_datagrams(own, DatagramAttributes { qkey: QKEY, path_mtu: 256 }, self.now),
                    _ => device.to_rtr(own, connection, self.now),
                })
                .and_then(|()| device.to_rts(own, attributes, self.now));
        }
    }

    fn sges(&mut self, at: usize) -> Vec<Sge> {
        let count = self.dice.below(3);
        let mut sges = Vec::new();
        for _ in 0..count {
            let Some(info) = self.own(at, |host| &host.regions) else { continue };
            let wild = self.dice.chance(50);
            let len = if wild { self.number() } else { self.dice.below(info.len / 2 + 1) as u32 };
            let offset = if wild { self.dice.word() } else { self.dice.below(info.len / 2 + 1) };
            sges.push(Sge { addr: info.addr.wrapping_add(offset), len, lkey: info.lkey });
        }
        sges
    }

    fn post_send(&mut self, at: usize) -> Result<(), String> {
        let Some(qpn) = self.queue_pair(at) else { return Ok(()) };
        let target = self.one(|fuzz| &fuzz.hosts[1 - at].regions);
        let (addr, rkey) = target.map_or((0, 0), |info| (info.addr, info.rkey));
        let addr = if self.dice.chance(100) { self.dice.word() } else { addr };
        let (imm, value) = (self.number(), self.dice.word());
        let window = self.one(|fuzz| &fuzz.hosts[1 - at].windows);
        // The keys of windows that the other host has bound lately, or is about to bind.
        let rkey = window.filter(|_| self.dice.chance(300)).map_or(rkey, |window| window.rkey | imm & 3);
        let bind = self.bind(at);
        let op = match self.dice.below(10) {
            0 => SendOp::Send,
            1 => SendOp::SendImm(imm),
            2 => SendOp::SendInv(rkey),
            8 => SendOp::Bind,
            9 => SendOp::LocalInv(bind.map_or(rkey, |bind| bind.rkey)),
            3 => SendOp::Write { addr, rkey },
            4 => SendOp::WriteImm { addr, rkey, imm },
            5 => SendOp::Read { addr, rkey },
            6 => SendOp::FetchAdd { addr: addr & !7, rkey, add: value },
            _ => SendOp::CompareSwap { addr: addr & !7, rkey, compare: 0, swap: value },
        };
        let mut sges = self.sges(at);
        if op.is_atomic() && self.dice.chance(900) {
            sges.truncate(1);
            sges.iter_mut().for_each(|sge| sge.len = 8);
        }
        let inline = vec![7; self.dice.below(40) as usize];
        let data = match &bind {
            Some(bind) if op == SendOp::Bind || self.dice.chance(20) => Data::Bind(bind),
            _ if op.is_local() && self.dice.chance(900) => Data::Gather(&[]),
            _ if self.dice.chance(300) => Data::Inline(&inline),
            _ => Data::Gather(&sges),
        };
        let word = self.dice.word();
        let flags = SendFlags { signaled: word & 3 != 0, solicited: word & 4 != 0, fence: word & 24 == 0 };
        let wr_id = self.next_id;
        self.next_id += 1;
        let recipient = self.recipient(at);
        let host = &mut self.hosts[at];
        let request = SendRequest { wr_id, op, data, flags };
        let is_datagram = host.inits.get(&qpn).is_some_and(|init| init.service == Service::Ud);
        let posted = match is_datagram {
            true => host.device.post_datagram(qpn, &request, &recipient),
            false => host.device.post_send(qpn, &request),
        };
        if posted.is_ok() {
            let signaled = flags.signaled || host.inits.get(&qpn).is_some_and(|init| init.signal_all);
            host.work.entry(qpn).or_default().sends.push_back((wr_id, signaled));
        }
        Ok(())
    }

    /// A binding of a window of this host, or of the other one.
    fn bind(&mut self, at: usize) -> Option<Bind> {
        let window = self.own(at, |host| &host.windows)?;
        let region = self.own(at, |host| &host.regions);
        let (word, len) = (self.dice.word(), self.dice.below(600));
        let addr = region.map_or(word, |info| info.addr.wrapping_add(word % (info.len + 9)));
        let rkey = if word & 31 == 0 { word as u32 } else { window.rkey | word as u32 & 3 };
        let (region, access) = (region.map(|info| info.id), self.access());
        Some(Bind { window: window.id, rkey, region, addr, len, access, zero_based: word & 64 == 0 })
    }

    /// A recipient of datagrams, mostly a queue pair of the other host.
    fn recipient(&mut self, at: usize) -> Recipient {
        let qpn = self.one(|fuzz| &fuzz.hosts[1 - at].qps).unwrap_or(Qpn(9));
        let peer = self.hosts[1 - at].addr;
        if self.dice.chance(900) {
            let flow = self.dice.below(3) as u32;
            return Recipient { path: AddressHandle { flow, ..AddressHandle::to(peer) }, qpn, qkey: QKEY };
        }
        let (flow, qkey) = (self.number(), self.number());
        let path = AddressHandle { peer, flow, dscp: flow as u8 };
        Recipient { path, qpn: Qpn(self.number()), qkey }
    }

    fn post_recv(&mut self, at: usize) -> Result<(), String> {
        let sges = self.sges(at);
        let wr_id = self.next_id;
        self.next_id += 1;
        let request = RecvRequest { wr_id, scatter: &sges };
        if self.dice.chance(300) {
            let Some(srq) = self.own(at, |host| &host.srqs) else { return Ok(()) };
            let host = &mut self.hosts[at];
            if host.device.post_srq_recv(srq, &request).is_ok() {
                host.shared.insert(wr_id);
            }
            return Ok(());
        }
        let Some(qpn) = self.queue_pair(at) else { return Ok(()) };
        let host = &mut self.hosts[at];
        if host.device.post_recv(qpn, &request).is_ok() {
            host.work.entry(qpn).or_default().receives.push_back(wr_id);
        }
        Ok(())
    }

    fn ask(&mut self, at: usize) {
        let (cq, srq) = (self.own(at, |host| &host.cqs), self.own(at, |host| &host.srqs));
        let (number, notify) = (self.number(), self.dice.pick(&[Notify::Any, Notify::Solicited]));
        let device = &mut self.hosts[at].device;
        if let Some(cq) = cq {
            let _ = device.arm_cq(cq, notify);
            device.take_notification(cq);
            device.cq_len(cq);
        }
        if let Some(srq) = srq {
            let _ = device.arm_srq(srq, number);
        }
        while device.poll_event().is_some() {}
    }

    fn poll(&mut self, at: usize) -> Result<(), String> {
        let mut found = [Completion::BLANK; 16];
        let host = &mut self.hosts[at];
        for cq in host.cqs.clone() {
            loop {
                match host.device.poll_cq(cq, &mut found) {
                    Ok(0) => break,
                    Ok(count) => {
                        for completion in &found[..count] {
                            host.completed(completion, &mut self.summary)?;
                        }
                    }
                    Err(VerbsError::Overflow | VerbsError::Unknown(_)) => {
                        host.lost.insert(cq);
                        break;
                    }
                    Err(why) => return Err(why.to_string()),
                }
            }
        }
        Ok(())
    }

    /// Checks that a queue pair which has just entered the error state has no outstanding work, as far as its
    /// completions could be polled.
    fn is_flushed(&mut self, at: usize, qpn: Qpn) -> Result<(), String> {
        self.poll(at)?;
        let host = &mut self.hosts[at];
        if host.device.state(qpn) != Ok(State::Error) {
            return Err(format!("host {at}: {qpn:?} is not in error"));
        }
        let (Some(init), Some(work)) = (host.inits.get(&qpn), host.work.get(&qpn)) else { return Ok(()) };
        self.summary.restarted += 1;
        let taken = |cq: &CqId| host.cqs.contains(cq) && !host.lost.contains(cq);
        if taken(&init.send_cq) && work.sends.iter().any(|(_, signaled)| *signaled) {
            return Err(format!("host {at}: sends {:?} of {qpn:?} were not flushed", work.sends));
        }
        if taken(&init.recv_cq) && !work.receives.is_empty() {
            return Err(format!("host {at}: receives {:?} of {qpn:?} were not flushed", work.receives));
        }
        Ok(())
    }
}

impl Host {
    fn completed(&mut self, completion: &Completion, summary: &mut Summary) -> Result<(), String> {
        let success = completion.status == Status::Success;
        summary.completed += u64::from(success);
        summary.failed += u64::from(!success);
        if self.shared.remove(&completion.wr_id) {
            return Ok(());
        }
        // A completion of an unknown queue pair: the queue pair was destroyed or reset.
        let Some(work) = self.work.get_mut(&completion.qpn) else { return Ok(()) };
        if let Some(at) = work.receives.iter().position(|wr_id| *wr_id == completion.wr_id) {
            if at > 0 {
                return Err(format!("{completion:?} before {:?}", work.receives));
            }
            work.receives.pop_front();
            return Ok(());
        }
        if let Some(at) = work.sends.iter().position(|(wr_id, _)| *wr_id == completion.wr_id) {
            if work.sends.iter().take(at).any(|(_, signaled)| *signaled) {
                return Err(format!("{completion:?} before {:?}", work.sends));
            }
            if success && !work.sends[at].1 {
                return Err(format!("{completion:?} was not asked for"));
            }
            work.sends.drain(..=at);
            return Ok(());
        }
        // The request was posted before the queue pair was reset, and its completion was already in the queue.
        Ok(())
    }
}
