//! Tests of unreliable datagrams (InfiniBand volume 1, section 9.8.3): who receives them, what the receiver learns of
//! their sender, and what strangers cannot do.

use crate::common::{address, bytes_of, pattern};
use proptest::prelude::*;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, AddressHandle, Batch, Capacities, Completion, Congestion, Connection, CqId, Data, DatagramAttributes,
    Device, DeviceConfig, Dropped, Event, GRH_LEN, MrInfo, NetworkHeader, Opcode, Pd, QpChange, QpInit, Qpn, Recipient,
    RecvRequest, SendAttributes, SendFlags, SendOp, SendRequest, Service, Sge, State, Status, Transition, Verbs,
    VerbsError,
};
use rnic_wire::{Bth, Deth, Headers, ImmDt, Opcode as Wire, Packet};
use std::net::SocketAddr;

const QKEY: u32 = 0x1234_5678;
const MTU: u32 = 1_024;
const REGION: usize = 1 << 16;

/// A device with a UD queue pair in state RTS.
struct Node {
    device: Device,
    addr: SocketAddr,
    pd: Pd,
    send_cq: CqId,
    recv_cq: CqId,
    qpn: Qpn,
    memory: MrInfo,
    batch: Batch,
    now: Time,
}

fn init(send_cq: CqId, recv_cq: CqId, service: Service) -> QpInit {
    QpInit { service, send_cq, recv_cq, srq: None, capacities: Capacities::default(), signal_all: true }
}

impl Node {
    fn new(number: u8) -> Node {
        let mut node = Node::unopened(number);
        node.open(QKEY);
        node
    }

    fn unopened(number: u8) -> Node {
        let mut device = Device::new(DeviceConfig { seed: number.into(), ..DeviceConfig::default() });
        let pd = device.create_pd();
        let (send_cq, recv_cq) = (device.create_cq(1_000).unwrap(), device.create_cq(1_000).unwrap());
        let qpn = device.create_qp(pd, init(send_cq, recv_cq, Service::Ud)).unwrap();
        let memory = device.register(pd, vec![0; REGION], None, Access::LOCAL).unwrap();
        let addr = SocketAddr::new([10, 0, 0, number].into(), 4_791);
        Node { device, addr, pd, send_cq, recv_cq, qpn, memory, batch: Batch::new(16), now: Time::from_us(1) }
    }

    fn open(&mut self, qkey: u32) {
        self.device.to_init(self.qpn, Access::default()).unwrap();
        self.device.to_datagrams(self.qpn, DatagramAttributes { qkey, path_mtu: MTU }, self.now).unwrap();
        let attributes = SendAttributes { send_psn: 0xff_ffff, ..SendAttributes::default() };
        self.device.to_rts(self.qpn, attributes, self.now).unwrap();
    }

    fn sge(&self, offset: u64, len: u32) -> Sge {
        Sge { addr: self.memory.addr + offset, len, lkey: self.memory.lkey }
    }

    fn recv(&mut self, wr_id: u64, offset: u64, len: u32) {
        let scatter = [self.sge(offset, len)];
        self.device.post_recv(self.qpn, &RecvRequest { wr_id, scatter: &scatter }).unwrap();
    }

    fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.device.bytes(self.memory.id).unwrap()[offset..offset + len]
    }

    fn recipient(&self) -> Recipient {
        Recipient { path: AddressHandle::to(self.addr), qpn: self.qpn, qkey: QKEY }
    }

    fn post(&mut self, wr_id: u64, op: SendOp, len: u32, to: &Recipient) -> Result<(), VerbsError> {
        let gather = [self.sge(0, len)];
        let request = SendRequest { wr_id, op, data: Data::Gather(&gather), flags: SendFlags::default() };
        self.device.post_datagram(self.qpn, &request, to)
    }

    fn send(&mut self, wr_id: u64, len: u32, to: &Recipient) {
        self.post(wr_id, SendOp::Send, len, to).unwrap();
    }

    fn poll(&mut self, cq: CqId) -> Vec<Completion> {
        let mut all = [Completion::BLANK; 64];
        let count = self.device.poll_cq(cq, &mut all).unwrap();
        all[..count].to_vec()
    }

    fn sent(&mut self) -> Vec<(u64, Status)> {
        self.poll(self.send_cq).iter().map(|completion| (completion.wr_id, completion.status)).collect()
    }

    fn received(&mut self) -> Vec<(u64, Status, u32)> {
        self.poll(self.recv_cq).iter().map(|c| (c.wr_id, c.status, c.byte_len)).collect()
    }

    /// All batches that the device sends: path and packets.
    fn take(&mut self) -> Vec<(SocketAddr, u32, u8, Vec<Vec<u8>>)> {
        let mut all = Vec::new();
        while self.device.transmit(self.now, &mut self.batch) {
            let to = self.batch.destination().unwrap();
            assert!(!to.ecn && !to.protected && to.qpn == self.qpn);
            all.push((to.peer, to.flow, to.dscp, self.batch.datagrams_mut().map(|packet| packet.to_vec()).collect()));
        }
        all
    }

    fn arrive(&mut self, from: SocketAddr, bytes: &[u8]) -> Result<(), Dropped> {
        let network = NetworkHeader { source: from, destination: self.addr.ip(), traffic_class: 0x68 };
        self.device.receive_from(self.now, network, bytes)
    }

    fn dropped(&self, why: Dropped) -> u64 {
        self.device.counters().dropped(why)
    }

    /// A datagram to this node's queue pair.
    fn datagram(&self, opcode: Wire, qkey: u32, len: usize) -> Vec<u8> {
        let mut headers = Headers::new(Bth::new(opcode, self.qpn.0, 77));
        headers.deth = Some(Deth { qkey, src_qp: 0xabc });
        headers.imm = (opcode == Wire::UD_SEND_ONLY_IMM).then_some(ImmDt(5));
        bytes_of(headers, &pattern(len, 3))
    }
}

#[test]
fn datagrams_go_to_any_queue_pair() {
    let [mut a, mut b, mut c] = [1, 2, 3].map(Node::new);
    let data = pattern(1_024, 9);
    a.device.bytes_mut(a.memory.id).unwrap()[..1_024].copy_from_slice(&data);
    for node in [&mut b, &mut c] {
        node.recv(7, 100, 2_000);
        node.recv(8, 3_000, 2_000);
    }
    a.send(1, 1_024, &b.recipient());
    a.send(2, 10, &c.recipient());
    a.post(3, SendOp::SendImm(0xdead_beef), 0, &b.recipient()).unwrap();
    let batches = a.take();
    assert_eq!(a.sent(), [1, 2, 3].map(|wr_id| (wr_id, Status::Success)));
    let source = SocketAddr::new(a.addr.ip(), 50_000);
    let mut psns = Vec::new();
    for (peer, _, _, packets) in batches {
        for packet in packets {
            psns.push(Packet::parse(&packet).unwrap().headers.bth.psn);
            let node = if peer == b.addr { &mut b } else { &mut c };
            node.arrive(source, &packet).unwrap();
        }
    }
    assert_eq!(psns, [0xff_ffff, 0, 1]);
    let received = b.poll(b.recv_cq);
    assert_eq!(received.len(), 2);
    for (at, completion) in received.iter().enumerate() {
        let from = completion.source.unwrap();
        assert_eq!((from.ip(), from.port(), from.qpn()), (source.ip(), 50_000, a.qpn));
        let expected = Completion {
            wr_id: 7 + at as u64,
            opcode: Opcode::Recv,
            byte_len: [1_064, 40][at],
            imm: [None, Some(0xdead_beef)][at],
            source: Some(from),
            qpn: b.qpn,
            time: b.now,
            ..Completion::BLANK
        };
        assert_eq!(*completion, expected);
    }
    assert_eq!(b.bytes(140, 1_024), data);
    assert_eq!(c.received(), [(7, Status::Success, 50)]);
    assert_eq!(c.bytes(140, 10), &data[..10]);
    // The IPv4 header precedes the data.
    assert_eq!(b.bytes(100, 20), [0; 20]);
    assert_eq!(b.bytes(120, 4), [0x45, 0x68, 0x04, 28 + 12 + 8 + 4]);
    assert_eq!(b.bytes(132, 8), [10, 0, 0, 1, 10, 0, 0, 2]);

    // The completion has what a reply needs.
    a.recv(1, 0, 100);
    let reply = received[0].source.unwrap().reply(4_791, QKEY);
    assert_eq!(reply, a.recipient());
    b.send(9, 20, &reply);
    let (peer, .., packets) = b.take().remove(0);
    assert_eq!(peer, a.addr);
    a.arrive(b.addr, &packets[0]).unwrap();
    assert_eq!(a.received(), [(1, Status::Success, 60)]);
}

#[test]
fn paths_differ_by_flow_label_and_dscp() {
    let [mut a, b] = [1, 2].map(Node::new);
    for flow in [5, 5, 6, 5] {
        let to = b.recipient();
        a.send(1, 64, &Recipient { path: AddressHandle { flow, ..to.path }, ..to });
    }
    let to = b.recipient();
    a.send(1, 64, &Recipient { path: AddressHandle { dscp: 26, ..to.path }, ..to });
    let paths: Vec<_> = a.take().into_iter().map(|(_, flow, dscp, packets)| (flow, dscp, packets.len())).collect();
    assert_eq!(paths, [(5, 0, 2), (6, 0, 1), (5, 0, 1), (0, 26, 1)]);
}

/// Longer datagrams to the same recipient, and datagrams to others, begin a new batch, and all stay in order.
#[test]
fn batches_keep_the_order_and_the_recipients() {
    let [mut a, mut b, mut c] = [1, 2, 3].map(Node::new);
    let mut expected = [Vec::new(), Vec::new()];
    for wr_id in 0..60_u32 {
        let to = (wr_id * 7 / 3 % 2) as usize;
        let len = wr_id * 37 % 200;
        a.send(wr_id.into(), len, &[&b, &c][to].recipient());
        expected[to].push(len + GRH_LEN);
        [&mut b, &mut c][to].recv(wr_id.into(), 0, 1_000);
    }
    for (peer, _, _, packets) in a.take() {
        for packet in packets {
            let node = if peer == b.addr { &mut b } else { &mut c };
            node.arrive(a.addr, &packet).unwrap();
        }
    }
    let lengths = |node: &mut Node| node.received().iter().map(|received| received.2).collect::<Vec<_>>();
    assert_eq!([lengths(&mut b), lengths(&mut c)], expected);
}

#[test]
fn a_wrong_q_key_is_dropped_and_counted() {
    let mut node = Node::new(1);
    node.recv(1, 0, 1_000);
    for qkey in [0, QKEY ^ 1, QKEY ^ 0x8000_0000, u32::MAX] {
        let packet = node.datagram(Wire::UD_SEND_ONLY, qkey, 100);
        assert_eq!(node.arrive(address("192.0.2.1:1"), &packet), Err(Dropped::QKey));
    }
    assert_eq!(node.dropped(Dropped::QKey), 4);
    assert!(node.received().is_empty() && node.take().is_empty());
    assert_eq!(node.bytes(0, 1_000), [0; 1_000]);
    let packet = node.datagram(Wire::UD_SEND_ONLY, QKEY, 100);
    node.arrive(address("192.0.2.1:1"), &packet).unwrap();
    assert_eq!(node.received(), [(1, Status::Success, 140)]);
}

/// A Q_Key with the most significant bit is that of the sending queue pair.
#[test]
fn a_controlled_q_key_is_the_senders_own() {
    let [mut a, b] = [1, 2].map(Node::new);
    a.device.change(a.qpn, QpChange { qkey: Some(0x8000_0001), ..QpChange::default() }).unwrap();
    assert_eq!(a.device.query_qp(a.qpn).unwrap().datagrams.unwrap().qkey, 0x8000_0001);
    for (asked, sent) in [(QKEY, QKEY), (0xffff_0000, 0x8000_0001)] {
        a.send(1, 4, &Recipient { qkey: asked, ..b.recipient() });
        let packets = a.take().remove(0).3;
        let deth = Packet::parse(&packets[0]).unwrap().headers.deth;
        assert_eq!(deth, Some(Deth { qkey: sent, src_qp: a.qpn.0 }));
    }
    assert!((0..100).all(|_| a.device.random_qkey() >> 31 == 0));
}

/// Without receives a flood changes counters, and nothing else: no state grows, nothing is sent, no event comes.
#[test]
fn a_flood_without_receives_is_dropped() {
    let mut node = Node::new(1);
    let packet = node.datagram(Wire::UD_SEND_ONLY, QKEY, 1_000);
    for number in 0..100_000_u32 {
        let from = SocketAddr::new(number.to_be_bytes().into(), number as u16);
        assert_eq!(node.arrive(from, &packet), Err(Dropped::NoReceive));
    }
    assert_eq!(node.dropped(Dropped::NoReceive), 100_000);
    assert!(node.take().is_empty() && node.device.poll_event().is_none());
    assert_eq!(node.device.next_time(&node.batch), None);
    node.recv(1, 0, 2_000);
    node.arrive(address("192.0.2.1:1"), &packet).unwrap();
    assert_eq!(node.received(), [(1, Status::Success, 1_040)]);
}

/// A datagram that does not fit leaves its receive for the next one: otherwise anybody could use up receives, or end
/// the queue pair, as a connection would.
#[test]
fn a_datagram_that_does_not_fit_is_dropped() {
    let mut node = Node::new(1);
    node.recv(1, 0, 139);
    for (len, fits) in [(100, false), (1_024, false), (1_025, false), (99, true)] {
        let packet = node.datagram(Wire::UD_SEND_ONLY, QKEY, len);
        let expected = if fits { Ok(()) } else { Err(Dropped::Length) };
        assert_eq!(node.arrive(address("192.0.2.1:1"), &packet), expected, "{len}");
    }
    assert_eq!(node.received(), [(1, Status::Success, 139)]);
    assert_eq!((node.dropped(Dropped::Length), node.device.state(node.qpn)), (3, Ok(State::ReadyToSend)));
    assert!(node.device.poll_event().is_none());
    // Not even the network header fits.
    node.recv(2, 0, 39);
    let packet = node.datagram(Wire::UD_SEND_ONLY, QKEY, 0);
    assert_eq!(node.arrive(address("192.0.2.1:1"), &packet), Err(Dropped::Length));
}

#[test]
fn other_opcodes_are_dropped_and_never_answered() {
    let mut node = Node::new(1);
    node.recv(1, 0, 2_000);
    for code in 0..=255_u8 {
        if code == Wire::UD_SEND_ONLY.to_u8() || code == Wire::UD_SEND_ONLY_IMM.to_u8() {
            continue;
        }
        for len in [16, 28, 60, 1_024] {
            let mut bytes = node.datagram(Wire::UD_SEND_ONLY, QKEY, len);
            bytes[0] = code;
            let why = node.arrive(address("192.0.2.1:4791"), &bytes).unwrap_err();
            assert!(matches!(why, Dropped::Opcode | Dropped::Malformed), "{code:#x} {why:?}");
        }
    }
    // A CNP, which would slow a connection down.
    let mut cnp = [0; 32];
    Packet::cnp(node.qpn.0).emit_without_icrc(&mut cnp);
    assert_eq!(node.arrive(address("192.0.2.1:4791"), &cnp), Err(Dropped::Opcode));
    assert!(node.take().is_empty() && node.received().is_empty() && node.device.poll_event().is_none());
}

/// A datagram reaches no connected queue pair of the device, and a connected packet no UD queue pair.
#[test]
fn services_do_not_mix() {
    for service in Service::CONNECTED {
        let mut node = Node::new(1);
        let other = node.device.create_qp(node.pd, init(node.send_cq, node.recv_cq, service)).unwrap();
        node.device.to_init(other, Access::ALL).unwrap();
        let connection = Connection {
            peer: address("10.0.0.9:4791"),
            peer_source_port: None,
            peer_in_flight: 100,
            protected: false,
            peer_qpn: Qpn(9),
            path_mtu: MTU,
            recv_psn: 0,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            dscp: 0,
        };
        node.device.to_rtr(other, connection, node.now).unwrap();
        let mut headers = Headers::new(Bth::new(Wire::UD_SEND_ONLY, other.0, 0));
        headers.deth = Some(Deth { qkey: QKEY, src_qp: 1 });
        assert_eq!(node.arrive(connection.peer, &bytes_of(headers, &[1; 8])), Err(Dropped::Opcode));
        let datagrams = DatagramAttributes { qkey: 1, path_mtu: MTU };
        assert!(matches!(node.device.to_datagrams(other, datagrams, node.now), Err(VerbsError::Unsupported(_))));
        let change = QpChange { qkey: Some(1), ..QpChange::default() };
        node.device.to_rts(other, SendAttributes::default(), node.now).unwrap();
        assert!(matches!(node.device.change(other, change), Err(VerbsError::Unsupported(_))));
        let request = SendRequest { wr_id: 1, op: SendOp::Send, data: Data::Inline(&[]), flags: SendFlags::default() };
        let to = node.recipient();
        assert!(matches!(node.device.post_datagram(other, &request, &to), Err(VerbsError::Unsupported(_))));
    }
}

#[test]
fn what_cannot_be_sent_is_refused_with_a_reason() {
    let mut node = Node::new(1);
    let to = node.recipient();
    let refusal = |node: &mut Node, op, len, to: &Recipient| node.post(1, op, len, to).unwrap_err().to_string();
    assert_eq!(
        refusal(&mut node, SendOp::Send, 1_025, &to),
        "the length is 1025; it must be 0 to 1024 bytes, the path MTU, because a datagram is one packet"
    );
    let nothing_else = "a UD queue pair has Send and Send with Immediate, and nothing else";
    for op in [SendOp::SendInv(1), SendOp::Write { addr: 0, rkey: 0 }, SendOp::Read { addr: 0, rkey: 0 }] {
        assert_eq!(refusal(&mut node, op, 8, &to), nothing_else);
    }
    let path = |change: &dyn Fn(&mut AddressHandle)| {
        let mut to = to;
        change(&mut to.path);
        to
    };
    for (peer, why) in [
        ("224.0.0.1:4791", "a datagram goes to one host: there is no multicast"),
        ("255.255.255.255:4791", "a datagram goes to one host"),
        ("[ff02::1]:4791", "a datagram goes to one host"),
        ("[::ffff:224.0.0.1]:4791", "a datagram goes to one host"),
        ("0.0.0.0:4791", "a datagram needs an address of a host"),
        ("10.0.0.1:0", "a datagram needs an address of a host"),
    ] {
        let to = path(&|path| path.peer = address(peer));
        assert!(refusal(&mut node, SendOp::Send, 1, &to).starts_with(why), "{peer}");
    }
    let to_flow = path(&|path| path.flow = 1 << 20);
    assert_eq!(refusal(&mut node, SendOp::Send, 1, &to_flow), "the flow label is 1048576; it must be 0 to 1048575");
    let to_dscp = path(&|path| path.dscp = 64);
    assert_eq!(refusal(&mut node, SendOp::Send, 1, &to_dscp), "the DSCP is 64; it must be 0 to 63");
    let multicast = Recipient { qpn: Qpn(0xff_ffff), ..to };
    assert_eq!(
        refusal(&mut node, SendOp::Send, 1, &multicast),
        "the QPN of the recipient is 16777215; it must be 0 to 16777214"
    );
    let request = SendRequest { wr_id: 1, op: SendOp::Send, data: Data::Inline(&[]), flags: SendFlags::default() };
    let without = node.device.post_send(node.qpn, &request).unwrap_err();
    assert_eq!(without.to_string(), "a datagram needs a recipient: use post_datagram");
    assert!(node.take().is_empty(), "nothing was posted");

    let congestion = node.device.set_congestion(node.qpn, Congestion::named("dcqcn").unwrap());
    assert!(matches!(congestion, Err(VerbsError::Unsupported(_))));
    let change = QpChange { dscp: Some(1), qkey: Some(1), ..QpChange::default() };
    assert!(matches!(node.device.change(node.qpn, change), Err(VerbsError::Unsupported(_))));
    let mut node = Node::unopened(1);
    node.device.to_init(node.qpn, Access::default()).unwrap();
    for path_mtu in [0, 255, 257, 1_500, 8_192] {
        let attributes = DatagramAttributes { qkey: 1, path_mtu };
        let refused = Verbs::modify_qp(&mut node.device, node.qpn, Transition::ReceiveDatagrams(attributes));
        assert!(matches!(refused, Err(VerbsError::Range { .. })), "{path_mtu}");
    }
}

#[test]
fn states_are_those_of_other_queue_pairs() {
    let mut node = Node::unopened(1);
    let to = node.recipient();
    assert!(matches!(node.post(1, SendOp::Send, 4, &to), Err(VerbsError::WrongState { .. })));
    node.open(QKEY);
    // SQD: requests wait.
    node.device.to_sqd(node.qpn).unwrap();
    assert_eq!(node.device.poll_event(), Some(Event::SendQueueDrained(node.qpn)));
    node.send(1, 4, &to);
    assert!(node.take().is_empty());
    node.device.to_rts(node.qpn, SendAttributes::default(), node.now).unwrap();
    assert_eq!(node.take().len(), 1);
    // The send memory disappears: SQE, in which the queue pair still receives. Afterwards it sends to the right
    // recipients.
    let lost = node.device.register(node.pd, vec![0; 8], None, Access::LOCAL).unwrap();
    let gather = [Sge { addr: lost.addr, len: 8, lkey: lost.lkey }];
    let flags = SendFlags::default();
    let request = SendRequest { wr_id: 2, op: SendOp::Send, data: Data::Gather(&gather), flags };
    node.device.post_datagram(node.qpn, &request, &to).unwrap();
    node.send(3, 4, &to);
    node.device.deregister(lost.id).unwrap();
    assert!(node.take().is_empty());
    assert_eq!(node.sent(), [(1, Status::Success), (2, Status::LocalProtection), (3, Status::WorkRequestFlushed)]);
    assert_eq!(node.device.state(node.qpn), Ok(State::SendQueueError));
    node.recv(1, 0, 100);
    let packet = node.datagram(Wire::UD_SEND_ONLY_IMM, QKEY, 4);
    node.arrive(address("10.0.0.7:1"), &packet).unwrap();
    node.device.to_rts(node.qpn, SendAttributes::default(), node.now).unwrap();
    let other = Recipient { path: AddressHandle::to(address("10.0.0.8:4791")), ..to };
    node.send(4, 4, &other);
    assert_eq!(node.take()[0].0, other.path.peer);
    // ERR flushes, RESET forgets, and afterwards the queue pair has its new Q_Key.
    node.recv(2, 0, 100);
    node.send(5, 4, &to);
    node.device.to_error(node.qpn).unwrap();
    assert_eq!(node.sent(), [(4, Status::Success), (5, Status::WorkRequestFlushed)]);
    assert_eq!(node.received(), [(1, Status::Success, 44), (2, Status::WorkRequestFlushed, 0)]);
    assert_eq!(node.arrive(address("10.0.0.7:1"), &packet), Err(Dropped::State));
    node.device.to_reset(node.qpn).unwrap();
    node.open(7);
    assert_eq!(node.arrive(address("10.0.0.7:1"), &packet), Err(Dropped::QKey));
    assert_eq!(node.device.query_qp(node.qpn).unwrap().connection, None);
}

/// The memory of a receive disappears: the receive fails, and the queue pair with it, as that of UC.
#[test]
fn a_receive_without_memory_fails() {
    let mut node = Node::new(1);
    let lost = node.device.register(node.pd, vec![0; 100], None, Access::LOCAL).unwrap();
    let scatter = [Sge { addr: lost.addr, len: 100, lkey: lost.lkey }];
    node.device.post_recv(node.qpn, &RecvRequest { wr_id: 1, scatter: &scatter }).unwrap();
    node.device.deregister(lost.id).unwrap();
    let packet = node.datagram(Wire::UD_SEND_ONLY, QKEY, 4);
    assert_eq!(node.arrive(address("10.0.0.7:1"), &packet), Err(Dropped::Refused));
    assert_eq!(node.received(), [(1, Status::LocalProtection, 0)]);
}

#[test]
fn the_rate_limit_holds() {
    let mut node = Node::new(1);
    node.device.set_rate(node.qpn, Some(BitRate::from_bps(8_000_000))).unwrap();
    let to = node.recipient();
    for wr_id in 0..10 {
        // With headers each frame has 1024 + 12 + 8 + 4 + 46 bytes: 1.094 ms at 8 Mbit/s.
        node.send(wr_id, 1_024, &to);
    }
    let mut times = Vec::new();
    while times.len() < 10 {
        for (.., packets) in node.take() {
            times.extend(packets.iter().map(|_| node.now));
        }
        node.now = node.device.next_time(&node.batch).unwrap_or(node.now + Time::from_ms(1));
        node.device.on_time(node.now);
    }
    let span = times[9] - times[0];
    assert_eq!(span, Time::from_us(9 * 1_094));
}

/// Queue pairs share a receive queue; datagrams take the oldest receive.
#[test]
fn datagrams_use_a_shared_receive_queue() {
    let mut node = Node::unopened(1);
    let srq = node.device.create_srq(node.pd, 4, 1).unwrap();
    let shared = QpInit { srq: Some(srq), ..init(node.send_cq, node.recv_cq, Service::Ud) };
    node.device.destroy_qp(node.qpn).unwrap();
    node.qpn = node.device.create_qp(node.pd, shared).unwrap();
    node.open(QKEY);
    let scatter = [node.sge(0, 50)];
    node.device.post_srq_recv(srq, &RecvRequest { wr_id: 3, scatter: &scatter }).unwrap();
    // The datagram that does not fit leaves the receive for the next.
    for (len, expected) in [(11, Err(Dropped::Length)), (10, Ok(())), (10, Err(Dropped::NoReceive))] {
        let packet = node.datagram(Wire::UD_SEND_ONLY, QKEY, len);
        assert_eq!(node.arrive(address("10.0.0.7:1"), &packet), expected);
    }
    assert_eq!(node.received(), [(3, Status::Success, 50)]);
}

proptest! {
    /// Whatever bytes a stranger sends, the device writes at most one posted receive for each packet, sends nothing,
    /// and the queue pair stays in its state.
    #[test]
    fn strangers_do_no_harm(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0..6_u8, any::<u32>()), 1..40)
    ) {
        let mut node = Node::new(1);
        for wr_id in 0..4 {
            node.recv(wr_id, 1_000 * wr_id, 100 + 40 * wr_id as u32);
        }
        let mut taken = 0;
        for (mut bytes, shape, number) in packets {
            if shape > 0 {
                // A packet that is more and more like a right one.
                let right = node.datagram(Wire::UD_SEND_ONLY, QKEY, bytes.len() / 4 * 4);
                let keep = [0, 1, 8, 12, 20, right.len()][usize::from(shape)];
                bytes.resize(right.len(), 0);
                bytes[..keep].copy_from_slice(&right[..keep]);
            }
            let from = SocketAddr::new(number.to_be_bytes().into(), number as u16);
            taken += usize::from(node.arrive(from, &bytes).is_ok());
        }
        let received = node.received();
        prop_assert_eq!(received.len(), taken);
        prop_assert!(received.iter().enumerate().all(|(at, c)| c.0 == at as u64 && c.2 <= 100 + 40 * at as u32));
        prop_assert!(node.take().is_empty());
        prop_assert_eq!(node.device.state(node.qpn), Ok(State::ReadyToSend));
        prop_assert_eq!(node.device.poll_event(), None);
        // No byte outside the receives was written.
        for at in 0..4 {
            let end = 1_000 * at + 100 + 40 * at;
            prop_assert!(node.bytes(end, 1_000 * (at + 1) - end).iter().all(|byte| *byte == 0));
        }
    }
}

/// A datagram of `ibv_ud_pingpong` on the Linux kernel's RoCE in software (`tests/interop/captures/ud-pingpong-ipv6`),
/// with another destination: rnic receives it, and sends the same bytes, apart from the bit M (migrated).
#[test]
fn a_datagram_of_the_kernel_is_received_and_sent() {
    let payload = [0x7b; 77];
    let mut kernel =
        vec![0x64, 0x30, 0xff, 0xff, 0, 0, 0, 0x14, 0, 0xa8, 0x54, 0x0a, 0x11, 0x11, 0x11, 0x11, 0, 0, 0, 0x14];
    kernel.extend(payload);
    kernel.extend([0, 0, 0, 0x1d, 0xb3, 0x1a, 0xee]);
    let mut node = Node::unopened(1);
    node.open(0x1111_1111);
    node.recv(1, 0, 200);
    kernel[5..8].copy_from_slice(&node.qpn.0.to_be_bytes()[1..]);
    node.arrive(address("10.0.0.2:50000"), &kernel).unwrap();
    let received = node.poll(node.recv_cq);
    assert_eq!((received[0].byte_len, received[0].source.unwrap().qpn()), (117, Qpn(0x14)));
    assert_eq!(node.bytes(40, 77), payload);

    node.device.bytes_mut(node.memory.id).unwrap()[..77].copy_from_slice(&payload);
    let to = Recipient { path: AddressHandle::to(address("10.0.0.2:4791")), qpn: node.qpn, qkey: 0x1111_1111 };
    node.send(1, 77, &to);
    let mut sent = node.take().remove(0).3.remove(0);
    assert_eq!(sent[1], kernel[1] | 0x40);
    sent[1] = kernel[1];
    for (at, len) in [(8, 4), (17, 3), (100, 4)] {
        // PSN, source queue pair, and the ICRC, which the owner of the device writes.
        sent[at..at + len].copy_from_slice(&kernel[at..at + len]);
    }
    assert_eq!(sent, kernel);
}
