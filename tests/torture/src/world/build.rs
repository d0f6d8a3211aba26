//! Builds a world from its seed: hosts, the network, and connections of all services with random attributes.

use super::{ANSWERS, Attacker, Direction, GUARD, Host, Packets, Places, Plan, Queue, Report, Shared, World};
use crate::network::{Dice, Faults, Network};
use rnic_endpoint::secure::{EPOCH, KeyPair, Protection, Session};
use rnic_transport::{Time, Timeouts};
use rnic_verbs::{
    Access, Batch, Capacities, Congestion, Connection, CqId, Device, DeviceConfig, MrInfo, QpInit, Qpn, SendAttributes,
    Service,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl World {
    /// Creates the world that the plan's seed describes.
    pub fn new(plan: Plan) -> World {
        let mut dice = Dice::new(plan.seed);
        let faults = Faults::random(&mut dice);
        let names = ["none", "dcqcn", "timely", "dctcp", "aimd"];
        let congestion = Congestion::named(dice.pick(&names)).unwrap_or_else(|| unreachable!());
        let in_flight = dice.pick(&[1, 2, 3, 4, 16, 64, 256]);
        // In some worlds the network fails for so long that connections fail, too.
        let flaky = dice.chance(250);
        let partition = if flaky { Time::from_ms(dice.within(5, 1_000)) } else { Time::from_ms(3) };
        let timeouts = Timeouts {
            high: Time::from_us(dice.within(200, 20_000)),
            low: Time::from_us(200),
            low_packets: dice.below(5) as u32,
            dynamic: dice.chance(500).then_some(Time::from_us(500)),
        };
        let ipv6 = dice.chance(300);
        let count = dice.within(1, 3);
        let mut world = World {
            plan,
            now: Time::from_us(1),
            hosts: Vec::new(),
            queues: Vec::new(),
            directions: Vec::new(),
            by_qpn: BTreeMap::new(),
            sessions: BTreeMap::new(),
            secure_dice: Dice::new(plan.seed ^ 0x5ec_0de),
            attacker: (plan.packets == Packets::Attacked).then(|| Attacker::new(plan.seed)),
            plain: Vec::new(),
            network: Network::new(faults, dice.word()),
            partition,
            report: Report::default(),
            next_id: 0,
            left: plan.steps,
            still: 0,
            dice,
        };
        for at in 0..count {
            let ip = if ipv6 {
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, at as u16 + 1))
            } else {
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, at as u8 + 1))
            };
            let config = DeviceConfig {
                seed: world.dice.word(),
                in_flight,
                congestion: congestion.clone(),
                base_rtt: Time::from_us(10),
                timeouts,
                ..DeviceConfig::default()
            };
            let mut device = Device::new(config);
            let pd = device.create_pd();
            let batch = Batch::new(1 + world.dice.below(16) as usize);
            let addr = SocketAddr::new(ip, rnic_wire::ROCE_PORT);
            world.hosts.push(Host { device, pd, batch, addr, shared: None });
        }
        let connections = if world.dice.chance(100) { world.dice.within(10, 40) } else { world.dice.within(1, 4) };
        let jumbo = connections < 10 && world.dice.chance(250);
        for _ in 0..connections {
            let service = world.dice.pick(&[Service::Rc, Service::Irn, Service::Irn, Service::Uc]);
            let ends = [world.dice.below(count) as usize, world.dice.below(count) as usize];
            let mtu = match (jumbo, service) {
                (false, _) => 256 << world.dice.below(3),
                (true, Service::Rc) => 4_096,
                (true, _) => 4_096 << world.dice.below(2),
            };
            world.connect(service, ends, mtu, flaky);
        }
        world
    }

    fn connect(&mut self, service: Service, ends: [usize; 2], mtu: u32, flaky: bool) {
        let attributes = SendAttributes {
            send_psn: 0,
            timeout: self.dice.within(6, 9) as u8,
            retry_count: if flaky { self.dice.within(1, 7) as u8 } else { 7 },
            rnr_retry: if flaky && self.dice.chance(300) { self.dice.within(2, 6) as u8 } else { 7 },
            max_rd_atomic: self.dice.within(1, 8) as u8,
            give_up_after: (flaky && service != Service::Uc && self.dice.chance(300))
                .then(|| Time::from_us(self.dice.within(1_000, 20_000))),
            keep_alive: None,
        };
        let protection = match (self.plan.packets, self.secure_dice.chance(500)) {
            (Packets::Plain, _) => None,
            (_, true) => Some(Protection::Authenticated),
            (_, false) => Some(Protection::Encrypted),
        };
        let at = self.directions.len();
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let mut direction = self.end(service, from, to, mtu, attributes);
            direction.protection = protection;
            self.directions.push(direction);
            self.queue_pair(self.directions.len() - 1);
        }
        self.directions[at].peer = at + 1;
        self.directions[at + 1].peer = at;
        self.directions[at].psn = self.dice.word() as u32 & 0xff_ffff;
        self.directions[at + 1].psn = self.dice.word() as u32 & 0xff_ffff;
        self.join(at);
    }

    pub(super) fn register(&mut self, host: usize, len: u64, access: Access) -> MrInfo {
        let Host { device, pd, .. } = &mut self.hosts[host];
        let bytes = vec![0; len as usize];
        device.register(*pd, bytes, None, access).unwrap_or_else(|why| panic!("register: {why}"))
    }

    /// Registers memory for `count` messages of `unit` bytes.
    fn places(&mut self, host: usize, count: u64, unit: u64) -> Places {
        let info = self.register(host, count * unit, Access::LOCAL);
        Places { info, unit, free: (0..count).collect() }
    }

    /// Returns a completion queue at `host`: a new one, or one that other queue pairs use.
    fn queue(&mut self, host: usize) -> CqId {
        let shared = self.queues.iter().find(|queue| queue.host == host).map(|queue| queue.id);
        if let Some(id) = shared.filter(|_| self.dice.chance(400)) {
            return id;
        }
        let id = self.hosts[host].device.create_cq(8_192).unwrap_or_else(|why| panic!("{why}"));
        self.queues.push(Queue { host, id, armed: None });
        id
    }

    /// Creates a queue pair at `from`, and the memory for the direction from `from` to `to`.
    fn end(&mut self, service: Service, from: usize, to: usize, mtu: u32, attributes: SendAttributes) -> Direction {
        let unit = u64::from(3 * mtu).max(5_000);
        let area = 4 * unit;
        let source = self.register(from, area, Access::LOCAL_READ);
        let answers = self.register(from, ANSWERS as u64 * unit, Access::LOCAL);
        let target = self.register(to, area + 2 * GUARD, Access::ALL);
        let noise: Vec<u8> = (0..area).map(|_| self.dice.word() as u8).collect();
        if let Some(bytes) = self.hosts[from].device.bytes_mut(source.id) {
            bytes.copy_from_slice(&noise);
        }
        let uses_shared = self.dice.chance(250);
        if uses_shared && self.hosts[from].shared.is_none() {
            // Each receive buffer has room for the longest message of any connection.
            let places = self.places(from, 24, 24_576);
            let host = &mut self.hosts[from];
            let srq = host.device.create_srq(host.pd, 24, 2).unwrap_or_else(|why| panic!("{why}"));
            host.shared = Some(Shared { srq, places, posted: BTreeSet::new(), limit: 0 });
        }
        let receives = if uses_shared { 0 } else { self.dice.within(1, 16) };
        let places = self.places(from, receives, unit);
        let (send_cq, recv_cq) = (self.queue(from), self.queue(from));
        Direction {
            service,
            protection: None,
            from,
            to,
            qpn: Qpn(0),
            send_cq,
            recv_cq,
            peer: 0,
            mtu,
            unit,
            psn: 0,
            attributes,
            source,
            answers,
            target,
            model: vec![0; (area + 2 * GUARD) as usize],
            base: vec![0; (area + 2 * GUARD) as usize],
            pending: VecDeque::new(),
            flushed: Vec::new(),
            messages: VecDeque::new(),
            places,
            posted: VecDeque::new(),
            uses_shared,
            free_answers: (0..ANSWERS).collect(),
            invalidable: None,
            drained: false,
            dead: false,
        }
    }

    /// Creates a new queue pair for the direction `at`.
    pub(super) fn queue_pair(&mut self, at: usize) {
        let direction = &mut self.directions[at];
        let host = &mut self.hosts[direction.from];
        let capacities = Capacities { send_wr: 24, recv_wr: 16, ..Capacities::default() };
        let init = QpInit {
            service: direction.service,
            send_cq: direction.send_cq,
            recv_cq: direction.recv_cq,
            srq: host.shared.as_ref().filter(|_| direction.uses_shared).map(|shared| shared.srq),
            capacities,
            signal_all: false,
        };
        direction.qpn = host.device.create_qp(host.pd, init).unwrap_or_else(|why| panic!("{why}"));
        self.by_qpn.insert((direction.from, direction.qpn.0), at);
    }

    /// Gives both ends of a connection their keys, from new key pairs. Half of the ends soon change to the next key.
    fn agree(&mut self, at: usize, protection: Protection) {
        let ends = [at, at + 1].map(|end| (self.directions[end].from, self.directions[end].qpn.0));
        let pairs = ends.map(|_| KeyPair::generate().unwrap_or_else(|why| panic!("{why}")));
        for (end, other) in [(0, 1), (1, 0)] {
            let agreed = pairs[end].agree(ends[end].1, pairs[other].public(), ends[other].1, protection);
            let mut session: Session = agreed.unwrap_or_else(|why| panic!("{why}"));
            if self.secure_dice.chance(500) {
                let before = self.secure_dice.within(0, 400);
                session.sealer.skip_to(EPOCH - before).unwrap_or_else(|why| panic!("{why}"));
            }
            self.sessions.insert(ends[end], session);
        }
    }

    /// Brings both ends of a connection from RESET to RTS.
    pub(super) fn join(&mut self, at: usize) {
        let most = self.directions[at].attributes.max_rd_atomic;
        let rnr = self.dice.within(1, 12) as u8;
        if let Some(protection) = self.directions[at].protection {
            self.agree(at, protection);
        }
        for (end, other) in [(at, at + 1), (at + 1, at)] {
            let peer = &self.directions[other];
            let connection = Connection {
                peer: self.hosts[peer.from].addr,
                peer_qpn: peer.qpn,
                peer_source_port: None,
                protected: peer.protection.is_some(),
                peer_in_flight: rnic_verbs::MAX_IN_FLIGHT,
                path_mtu: peer.mtu,
                recv_psn: peer.psn,
                max_dest_rd_atomic: most,
                min_rnr_timer: rnr,
                dscp: 0,
            };
            let direction = &self.directions[end];
            let qpn = direction.qpn;
            let attributes = SendAttributes { send_psn: direction.psn, ..direction.attributes };
            let device = &mut self.hosts[direction.from].device;
            let done = device
                .to_init(qpn, Access::ALL)
                .and_then(|()| device.to_rtr(qpn, connection, self.now))
                .and_then(|()| device.to_rts(qpn, attributes, self.now));
            done.unwrap_or_else(|why| panic!("{why}"));
        }
    }
}
