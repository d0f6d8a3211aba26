//! UD queue pairs on sockets: datagrams between devices with IPv4 and IPv6, source ports, and datagrams from hosts
//! without a connection.

use rnic_endpoint::port::{ArrivalTimes, ROCE_PORT, UdpConfig};
use rnic_endpoint::{
    Access, AddressHandle, Completion, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Device, Error,
    GRH_LEN, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair, Recipient, Security, SendFlags, SendOp,
    SendRequest, Service, Status, Time, TimeSource, Verbs,
};
use rnic_verbs::{Dropped, QpInit};
use rnic_wire::{Bth, Deth, Headers, IcrcSeed, Opcode, Packet};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const PATIENCE: Time = Time::from_ms(10_000);
const SLOT: usize = 4_096 + GRH_LEN as usize;
const SLOTS: usize = 64;

struct End {
    device: Device,
    cq: CompletionQueue,
    recv_cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
    address: DatagramAddress,
}

fn open(ip: IpAddr, mode: Mode, source_ports: usize) -> End {
    open_with(ip, mode, UdpConfig { source_ports, ..UdpConfig::default() })
}

fn open_with(ip: IpAddr, mode: Mode, udp: UdpConfig) -> End {
    let config = Config { mode, udp, security: Security::None, ..Config::default() };
    let device = Device::open_at(SocketAddr::new(ip, 0), config).unwrap();
    let (cq, recv_cq) = (device.completion_queue(256).unwrap(), device.completion_queue(256).unwrap());
    let pd = device.protection_domain();
    let region = pd.register(vec![0; SLOT * SLOTS], Access::LOCAL).unwrap();
    let options = QpOptions { service: Service::Ud, recv_cq: recv_cq.clone(), ..QpOptions::new(&cq) };
    let qp = pd.queue_pair(&options).unwrap();
    let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu: 4_096 }).unwrap();
    End { device, cq, recv_cq, qp, region, address }
}

impl End {
    fn recv(&self, slot: usize, len: usize) {
        self.qp.post_recv(slot as u64, &[self.region.slice(slot * SLOT, len).unwrap()]).unwrap();
    }

    fn send(&self, wr_id: u64, bytes: &[u8], to: &Recipient) {
        let data = Data::Inline(bytes);
        self.qp.post_datagram(&SendRequest { wr_id, op: SendOp::Send, data, flags: SendFlags::SIGNALED }, to).unwrap();
    }

    fn received(&self) -> Completion {
        self.recv_cq.wait_one(PATIENCE).unwrap()
    }

    fn dropped(&self, why: Dropped) -> u64 {
        self.device.counters().verbs.dropped(why)
    }

    /// Waits until the device has dropped `count` packets for the reason `why`.
    fn await_dropped(&self, why: Dropped, count: u64) {
        let clock = rnic_endpoint::Clock::start();
        while self.dropped(why) < count {
            assert!(clock.now() < PATIENCE, "{why:?}: {} of {count}", self.dropped(why));
            self.device.wait(Time::from_ms(1)).unwrap();
        }
        assert_eq!(self.dropped(why), count);
    }
}

#[test]
fn datagrams_go_between_devices() {
    for (ip, mode) in [(V4, Mode::Polled), (V4, Mode::Thread), (V6, Mode::Polled), (V6, Mode::Thread)] {
        let ends = [open(ip, mode, 4), open(ip, Mode::Thread, 4), open(ip, Mode::Thread, 4)];
        let bytes: Vec<u8> = (0..200).collect();
        for to in &ends[1..] {
            to.recv(3, SLOT);
        }
        for (wr_id, to) in ends[1..].iter().enumerate() {
            ends[0].send(wr_id as u64, &bytes, &to.address.recipient());
            let sent = ends[0].cq.wait_one(PATIENCE).unwrap();
            assert_eq!((sent.wr_id, sent.source), (wr_id as u64, None));
        }
        for to in &ends[1..] {
            let got = to.received();
            assert_eq!((got.wr_id, got.status, got.byte_len), (3, Status::Success, 240));
            let source = got.source.unwrap();
            assert_eq!((source.ip(), source.qpn()), (ip, ends[0].qp.qpn()));
            assert_eq!(source.port(), ends[0].device.source_port(0));
            to.region.with(|memory| {
                let slot = &memory[3 * SLOT..];
                assert_eq!(slot[40..240], bytes);
                match ip {
                    IpAddr::V4(ip) => assert_eq!((&slot[..20], &slot[36..40]), (&[0; 20][..], &ip.octets()[..])),
                    IpAddr::V6(ip) => assert_eq!((slot[0], &slot[24..40]), (0x60, &ip.octets()[..])),
                }
            });
            // The completion has what the reply needs, apart from the UDP port, which is 4791 in RoCEv2.
            let reply = source.reply(ends[0].address.addr.port(), ends[0].address.qkey);
            assert_eq!(reply, ends[0].address.recipient());
            ends[0].recv(5, SLOT);
            to.send(9, b"reply", &reply);
            let got = ends[0].received();
            assert_eq!((got.wr_id, got.byte_len, got.source.unwrap().qpn()), (5, 45, to.qp.qpn()));
            assert!(got.time <= ends[0].device.clock().now());
        }
    }
}

/// A busy thread processes a datagram 50 ms after the kernel received it. The completion of the receive has the time of
/// the kernel if the device asks for it, and otherwise that of the thread.
#[test]
#[expect(clippy::disallowed_methods, reason = "the kernel's clock passes in real time")]
fn a_late_thread_knows_when_datagrams_arrived() {
    let late = Time::from_ms(50);
    for (ip, arrival_times) in [(V4, true), (V6, true), (V4, false)] {
        let a = open(ip, Mode::Polled, 1);
        let b = open_with(ip, Mode::Polled, UdpConfig { arrival_times, ..UdpConfig::default() });
        let kernel = if arrival_times { ArrivalTimes::Kernel } else { ArrivalTimes::NotRequested };
        assert_eq!(b.device.arrival_times(), kernel);
        let clock = b.device.clock();
        let mut in_time = Vec::new();
        // The kernel begins to take time stamps some time after the first socket of the host asks for them.
        while in_time.len() < 3 || arrival_times && in_time.len() < 40 && !in_time[in_time.len() - 3..].contains(&true)
        {
            b.recv(0, SLOT);
            let before = clock.now();
            a.send(0, b"probe", &b.address.recipient());
            a.cq.wait_one(PATIENCE).unwrap();
            let after = clock.now();
            std::thread::sleep(Duration::from_millis(50));
            let got = b.received();
            assert!(got.time <= clock.now());
            // Two readings of a clock may differ by the resolution of the other one.
            let (first, last) = (before.saturating_sub(Time::from_us(10)), after + Time::from_us(10));
            in_time.push((first..=last).contains(&got.time));
            assert!(in_time.last() == Some(&true) || got.time >= before + late, "{before} {} {after}", got.time);
        }
        assert_eq!(in_time.last(), Some(&arrival_times), "{in_time:?}");
    }
}

/// Each flow label has a UDP source port, and the receiver sees it. So a sender chooses among the paths of ECMP.
#[test]
fn flow_labels_choose_source_ports() {
    let (a, b) = (open(V4, Mode::Thread, 8), open(V4, Mode::Thread, 1));
    let mut ports = BTreeSet::new();
    for flow in 0..16 {
        b.recv(0, SLOT);
        let to = b.address.recipient();
        a.send(0, b"x", &Recipient { path: AddressHandle { flow, dscp: 46, ..to.path }, ..to });
        let port = b.received().source.unwrap().port();
        assert_eq!(port, a.device.source_port(flow));
        assert_eq!(port, a.device.source_port(flow + 8));
        ports.insert(port);
        b.region.with(|memory| assert_eq!(memory[21] >> 2, 46, "the DSCP is in the network header"));
    }
    assert_eq!(ports.len(), 8);
}

/// Many datagrams of different lengths to two recipients arrive in order, and none is lost on one host.
#[test]
fn many_datagrams_arrive() {
    let (a, b, c) = (open(V4, Mode::Thread, 4), open(V4, Mode::Thread, 1), open(V4, Mode::Thread, 1));
    let to = [b.address.recipient(), c.address.recipient()];
    for round in 0..50 {
        let bytes = [7_u8; 256];
        let data = |index: usize| Data::Inline(&bytes[..index * 37 % 250]);
        let request = |index: usize| {
            let (op, flags) = (SendOp::SendImm(index as u32), SendFlags::SIGNALED);
            (SendRequest { wr_id: index as u64, op, data: data(index), flags }, to[index / 3 % 2])
        };
        let requests: Vec<_> = (0..SLOTS).map(request).collect();
        let mut expected = [Vec::new(), Vec::new()];
        for (index, (request, _)) in requests.iter().enumerate() {
            let Data::Inline(bytes) = request.data else { unreachable!() };
            let receiver = index / 3 % 2;
            expected[receiver].push((Some(index as u32), bytes.len() as u32 + GRH_LEN));
            [&b, &c][receiver].recv(index, SLOT);
        }
        assert_eq!(a.qp.post_datagrams(&requests).unwrap(), SLOTS);
        for wr_id in 0..SLOTS as u64 {
            assert_eq!(a.cq.wait_one(PATIENCE).unwrap().wr_id, wr_id);
        }
        for (end, expected) in [&b, &c].into_iter().zip(expected) {
            let got: Vec<_> = expected.iter().map(|_| end.received()).map(|got| (got.imm, got.byte_len)).collect();
            assert_eq!(got, expected, "round {round}");
        }
    }
}

#[test]
fn what_a_device_cannot_do_is_refused_with_a_reason() {
    let end = open(V4, Mode::Polled, 1);
    let six = Recipient { path: AddressHandle::to(SocketAddr::new(V6, ROCE_PORT)), ..end.address.recipient() };
    let (data, flags) = (Data::Inline(b"x"), SendFlags::default());
    let request = SendRequest { wr_id: 1, op: SendOp::Send, data, flags };
    assert_eq!(
        end.qp.post_datagram(&request, &six).unwrap_err().to_string(),
        "the recipient of a datagram and the device must both have IPv4 addresses, or both IPv6 addresses"
    );
    let peer = end.qp.address();
    assert_eq!(
        end.qp.connect(&peer, &PathOptions::default()).unwrap_err().to_string(),
        "a UD queue pair has no peer: open it with open_datagrams instead of connecting it"
    );
    assert!(matches!(end.qp.open_datagrams(&DatagramOptions::default()), Err(Error::Verbs(_))), "it is open");

    // A device that promises to protect its packets sends none without protection.
    let mut device = Device::open_at(SocketAddr::new(V4, 0), Config::default()).unwrap();
    let cq = device.completion_queue(4).unwrap();
    let options = QpOptions { service: Service::Ud, ..QpOptions::new(&cq) };
    let why = device.protection_domain().queue_pair(&options).err().unwrap().to_string();
    let expected = "a device that protects packets has no UD queue pairs, because datagrams cannot be protected; open \
                    the device with the security `none`";
    assert_eq!(why, expected);
    let pd = device.create_pd().unwrap();
    let cq = device.create_cq(4).unwrap();
    let (service, capacities) = (Service::Ud, rnic_endpoint::Capacities::default());
    let init = QpInit { service, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all: false };
    assert_eq!(device.create_qp(pd, init).unwrap_err().to_string(), expected);
}

/// A queue pair that is reset and opened again has another Q_Key, and does not get datagrams for the old one.
#[test]
fn a_reset_queue_pair_has_a_new_q_key() {
    let (a, b) = (open(V4, Mode::Thread, 1), open(V4, Mode::Thread, 1));
    b.qp.reset().unwrap();
    let again = b.qp.open_datagrams(&DatagramOptions::default()).unwrap();
    assert_eq!((again.addr, again.qpn), (b.address.addr, b.address.qpn));
    assert_ne!(again.qkey, b.address.qkey);
    b.recv(0, SLOT);
    a.send(1, b"old", &b.address.recipient());
    b.await_dropped(Dropped::QKey, 1);
    a.send(1, b"new", &again.recipient());
    assert_eq!(b.received().byte_len, 43);
}

/// A stranger with a plain UDP socket, who writes packets with correct ICRCs.
struct Stranger {
    socket: UdpSocket,
    to: DatagramAddress,
}

impl Stranger {
    fn new(to: DatagramAddress) -> Stranger {
        Stranger { socket: UdpSocket::bind(SocketAddr::new(V4, 0)).unwrap(), to }
    }

    fn packet(&self, opcode: Opcode, qkey: u32, payload: &[u8]) -> Vec<u8> {
        let mut headers = Headers::new(Bth::new(opcode, self.to.qpn, 0));
        headers.deth = (opcode == Opcode::UD_SEND_ONLY).then_some(Deth { qkey, src_qp: 99 });
        let packet = Packet::new(headers, payload);
        let mut bytes = vec![0; packet.len()];
        packet.emit(&self.seed(), 0, &mut bytes);
        bytes
    }

    fn seed(&self) -> IcrcSeed {
        let from = self.socket.local_addr().unwrap().port();
        IcrcSeed::ipv4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, from, self.to.addr.port())
    }

    fn send(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.to.addr).unwrap();
    }
}

#[test]
fn strangers_reach_posted_receives_only_with_the_q_key() {
    let end = open(V4, Mode::Thread, 1);
    let stranger = Stranger::new(end.address);
    let right = |payload: &[u8]| stranger.packet(Opcode::UD_SEND_ONLY, end.address.qkey, payload);
    // No receive is posted.
    stranger.send(&right(&[1; 64]));
    end.await_dropped(Dropped::NoReceive, 1);
    end.recv(0, 140);
    for qkey in [0, end.address.qkey ^ 1, u32::MAX] {
        stranger.send(&stranger.packet(Opcode::UD_SEND_ONLY, qkey, &[2; 64]));
    }
    end.await_dropped(Dropped::QKey, 3);
    // Longer than the receive, and longer than the MTU.
    stranger.send(&right(&[3; 104]));
    stranger.send(&right(&[3; 4_100]));
    end.await_dropped(Dropped::Length, 2);
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::UC_SEND_ONLY, Opcode::RC_SEND_FIRST] {
        stranger.send(&stranger.packet(opcode, 0, &[4; 256]));
    }
    stranger.send(&stranger.packet(Opcode::CNP, 0, &[0; 16]));
    end.await_dropped(Dropped::Opcode, 4);
    // Truncated at every length: the ICRC or the headers are wrong.
    let whole = right(&[5; 32]);
    for len in 0..whole.len() {
        stranger.send(&whole[..len]);
    }
    let mut altered = whole.clone();
    altered[30] ^= 1;
    stranger.send(&altered);
    stranger.send(&right(&[6; 100]));
    let got = end.received();
    assert_eq!((got.byte_len, got.source.unwrap().qpn().0), (140, 99));
    end.region.with(|memory| {
        assert_eq!(memory[40..140], [6; 100]);
        assert!(memory[140..].iter().all(|byte| *byte == 0));
    });
    // Nothing was answered.
    stranger.socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
    assert!(stranger.socket.recv(&mut [0; 100]).is_err());
    assert_eq!(end.device.counters().verbs.packets_sent, 0);
    assert_eq!(end.device.counters().port.sent_segments, 0);
}

/// Floods of datagrams without receives and with wrong Q_Keys neither end a connected queue pair of the same device,
/// nor increase the device's memory.
#[test]
fn a_flood_disturbs_no_connected_queue_pair() {
    let (end, other) = (open(V4, Mode::Thread, 2), open(V4, Mode::Thread, 2));
    let connected = [&end, &other].map(|end| {
        let pd = end.device.protection_domain();
        let cq = end.device.completion_queue(16).unwrap();
        let region = pd.register(vec![7; 4_096], Access::ALL).unwrap();
        (pd.queue_pair(&QpOptions::new(&cq)).unwrap(), cq, region)
    });
    let [(a, cq, local), (b, _, remote)] = &connected;
    a.connect(&b.address(), &PathOptions::default()).unwrap();
    b.connect(&a.address(), &PathOptions::default()).unwrap();
    let stranger = Stranger::new(other.address);
    let bad = stranger.packet(Opcode::UD_SEND_ONLY, other.address.qkey ^ 1, &[1; 512]);
    let good = stranger.packet(Opcode::UD_SEND_ONLY, other.address.qkey, &[1; 512]);
    for round in 0..100 {
        for _ in 0..50 {
            stranger.send(&bad);
            stranger.send(&good);
        }
        let op = SendOp::Write { addr: remote.addr(), rkey: remote.rkey() };
        a.post(round, op, &[local.slice(0, 4_096).unwrap()]).unwrap();
        assert_eq!(cq.wait_one(PATIENCE).unwrap().wr_id, round);
    }
    let verbs = other.device.counters().verbs;
    assert!(verbs.dropped(Dropped::QKey) > 100 && verbs.dropped(Dropped::NoReceive) > 100, "{verbs:?}");
    assert_eq!(verbs.queue_pair_errors, 0);
}
