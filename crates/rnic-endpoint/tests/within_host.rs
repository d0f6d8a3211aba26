//! The path within the host: packets between devices of one address that go through memory instead of datagrams.

use crate::common::message;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, sendmsg, socket,
};
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::port::shared_address::{SLOTS, SharedAddressPort};
use rnic_endpoint::port::{Interest, ROCE_PORT, TrafficClass};
use rnic_endpoint::{
    Access, Batch, Completion, CompletionQueue, Config, Device, Error, MemoryRegion, Mode, PathOptions, Port,
    QpOptions, QueuePair, Security, SendOp, Service, SharedMemory, Status, Time,
};
use rnic_verbs::Verbs;
use rnic_verbs::conformance::{Fabric, check};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

const LONG: Time = Time::from_ms(20_000);

fn config(mode: Mode) -> Config {
    Config { security: Security::None, mode, ..Config::default() }
}

fn open(address: &str, mode: Mode) -> Device {
    Device::open_shared(address.parse().unwrap(), config(mode)).unwrap()
}

/// A queue pair with its queue and 256 KiB of memory.
struct End {
    qp: QueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

const LEN: usize = 256 << 10;

impl End {
    fn pair(devices: [&Device; 2], service: Service) -> [End; 2] {
        let ends = devices.map(|device| {
            let (pd, cq) = (device.protection_domain(), device.completion_queue(4_096).unwrap());
            let options = QpOptions { service, ..QpOptions::new(&cq) };
            End { qp: pd.queue_pair(&options).unwrap(), cq, memory: pd.allocate(LEN, Access::ALL).unwrap() }
        });
        let path = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
        ends[0].qp.connect(&ends[1].qp.address(), &path).unwrap();
        ends[1].qp.connect(&ends[0].qp.address(), &path).unwrap();
        ends
    }

    fn write_to(&self, peer: &End, len: usize) -> Result<Completion, Error> {
        let op = SendOp::Write { addr: peer.memory.addr(), rkey: peer.memory.rkey() };
        self.qp.post(1, op, &[self.memory.slice(0, len).unwrap()])?;
        self.cq.wait_one(LONG)
    }

    /// Writes until the peer's device gets packets by memory: the first packets are datagrams.
    fn warm_up(&self, peer: &End, from: &Device) {
        let clock = Clock::start();
        while within_host(from).0 == 0 {
            self.write_to(peer, 1_000).unwrap();
            assert!(clock.now() < LONG, "no packet goes through memory");
        }
    }
}

/// Number of packets that a device has sent through memory, and as datagrams.
fn within_host(device: &Device) -> (u64, u64) {
    let port = device.counters().port;
    (port.sent_within_host, port.sent_segments - port.sent_within_host)
}

struct Shared([Device; 2]);

impl Fabric for Shared {
    fn nic(&mut self, side: usize) -> &mut dyn Verbs {
        &mut self.0[side]
    }

    fn addr(&self, side: usize) -> SocketAddr {
        self.0[side].local_addr()
    }

    fn progress(&mut self) {
        for device in &self.0 {
            device.progress().unwrap();
        }
        std::thread::yield_now();
    }
}

#[test]
fn devices_of_an_address_conform() {
    for (mode, address) in [(Mode::Polled, "127.47.92.1"), (Mode::Thread, "127.47.92.2")] {
        // It admits the others.
        let _broker = open(address, Mode::Thread);
        check(&mut || Box::new(Shared([open(address, mode), open(address, mode)])));
    }
}

/// A Write of 100,000 bytes at 1,024 bytes for each packet has 98 packets; 40 Writes have 3,920. After the first
/// packets none of them, and none of the ACKs, is a datagram, and all bytes are right.
#[test]
fn packets_within_a_host_go_through_memory() {
    let devices = [open("127.47.92.3", Mode::Thread), open("127.47.92.3", Mode::Thread)];
    let ends = End::pair([&devices[0], &devices[1]], Service::Rc);
    ends[0].warm_up(&ends[1], &devices[0]);
    ends[1].warm_up(&ends[0], &devices[1]);
    let before = devices.each_ref().map(within_host);
    for seed in 0..40 {
        let bytes = message(100_000, seed);
        ends[0].memory.with_mut(|memory| memory[..100_000].copy_from_slice(&bytes));
        ends[0].write_to(&ends[1], 100_000).unwrap();
        ends[1].memory.with(|memory| assert!(memory[..100_000] == bytes));
    }
    let after = devices.each_ref().map(within_host);
    assert!(after[0].0 - before[0].0 >= 3_920 && after[1].0 > before[1].0, "{before:?} {after:?}");
    assert_eq!([after[0].1, after[1].1], [before[0].1, before[1].1], "datagrams");
    assert_eq!(devices.each_ref().map(|device| device.counters().driver.bad_icrc), [0, 0]);
    assert!(devices[1].counters().port.received_within_host >= 3_920);
}

/// A port without the path within the host sends and receives datagrams only, even from and to a device that has the
/// path.
#[test]
fn a_port_without_the_path_has_datagrams_only() {
    let address: IpAddr = "127.47.92.4".parse().unwrap();
    let with = Device::open_shared(address, config(Mode::Thread)).unwrap();
    let port = SharedAddressPort::open(address).unwrap();
    let mut config = config(Mode::Thread).fitted_to(port.udp()).unwrap();
    config.verbs.shard = port.shard();
    let without = Device::on_port(Box::new(port), config).unwrap();
    let ends = End::pair([&with, &without], Service::Rc);
    for _ in 0..200 {
        ends[0].write_to(&ends[1], 10_000).unwrap();
        ends[1].write_to(&ends[0], 10_000).unwrap();
    }
    assert_eq!([within_host(&with).0, within_host(&without).0], [0, 0]);
}

/// The receiver's device checks the key and the bounds: a Write beyond the region, and a Write with a wrong key, fail
/// as on the wire, and change no byte.
#[test]
fn the_receiver_checks_keys_and_bounds() {
    let devices = [open("127.47.92.5", Mode::Thread), open("127.47.92.5", Mode::Thread)];
    for wrong in ["bounds", "key", "read"] {
        let ends = End::pair([&devices[0], &devices[1]], Service::Rc);
        ends[0].warm_up(&ends[1], &devices[0]);
        ends[0].memory.with_mut(|memory| memory.fill(7));
        let (addr, rkey) = (ends[1].memory.addr(), ends[1].memory.rkey());
        let op = match wrong {
            "bounds" => SendOp::Write { addr: addr + (LEN - 4) as u64, rkey },
            "key" => SendOp::Write { addr, rkey: rkey ^ 1 },
            _ => SendOp::Read { addr: addr + (LEN - 4) as u64, rkey },
        };
        let before = within_host(&devices[0]).1;
        ends[0].qp.post(2, op, &[ends[0].memory.slice(0, 8).unwrap()]).unwrap();
        let failed = ends[0].cq.wait_one(LONG);
        assert!(matches!(failed, Err(Error::Failed { wr_id: 2, status: Status::RemoteAccess })), "{wrong}: {failed:?}");
        ends[1].memory.with(|memory| assert!(!memory.contains(&7), "{wrong}"));
        assert_eq!(within_host(&devices[0]).1, before, "{wrong}: datagrams");
    }
}

/// A packet of 40 bytes for a queue pair of the device with the slot `slot`.
fn packet(slot: u32, number: u8) -> Vec<u8> {
    let mut packet = vec![number; 40];
    packet[5..8].copy_from_slice(&(5 * SLOTS + slot).to_be_bytes()[1..]);
    packet
}

/// Two ports of an address; the first one has the UDP port of the address.
fn two_ports(address: &str) -> [SharedAddressPort; 2] {
    let address: IpAddr = address.parse().unwrap();
    let open = move || SharedAddressPort::open(address).unwrap().with_path_within_host();
    let mut first = open();
    let second = std::thread::spawn(open);
    while !second.is_finished() {
        first.wait(Interest::Arrival, Some(Time::from_ms(1))).unwrap();
    }
    // It learns of the second one.
    first.wait(Interest::Arrival, Some(Time::ZERO)).unwrap();
    [first, second.join().unwrap()]
}

/// When packets begin to go through memory, datagrams that the same sender has sent before may still wait in the
/// socket. They are received first. Later packets arrive by memory.
#[test]
fn no_packet_is_overtaken_when_the_path_changes() {
    let [mut sender, mut receiver] = two_ports("127.47.92.6");
    let (address, slot) = (sender.local_addr().ip(), receiver.shard().index);
    let send = |sender: &mut SharedAddressPort, number: u8| {
        let data = packet(slot, number);
        let batch = Batch {
            destination: SocketAddr::new(address, ROCE_PORT),
            source_port: sender.source_port(0),
            source_address: None,
            traffic_class: TrafficClass::default(),
            segment: data.len(),
            data: &[IoSlice::new(&data)],
        };
        assert_eq!(sender.send(&batch).unwrap(), 1);
    };
    let mut number = 0;
    while !sender.stays_within_host(SocketAddr::new(address, ROCE_PORT), &packet(slot, 0)) {
        send(&mut sender, number);
        number += 1;
        assert!(number < 100, "no link is made");
        for port in [&mut receiver, &mut sender] {
            port.wait(Interest::Arrival, Some(Time::from_ms(1))).unwrap();
        }
    }
    for _ in 0..100 {
        send(&mut sender, number);
        number += 1;
    }
    let mut numbers = Vec::new();
    let mut within = 0;
    while let Some(arrival) = receiver.receive().unwrap() {
        assert_eq!(arrival.meta.source, SocketAddr::new(address, sender.source_port(0)));
        numbers.extend(arrival.segments().map(|packet| packet[0]));
        within += usize::from(arrival.meta.is_within_host);
    }
    assert_eq!(numbers, (0..number).collect::<Vec<_>>());
    assert_eq!(within, 100);
}

/// A device that removes no packets from its ring, like a stopped process, does not stop the traffic to another device.
/// When the device continues, its own traffic continues too.
#[test]
fn a_stopped_receiver_does_not_stop_others() {
    let address = "127.47.92.7";
    let [sender, other] = [open(address, Mode::Thread), open(address, Mode::Thread)];
    let stopped = open(address, Mode::Polled);
    let with_other = End::pair([&sender, &other], Service::Rc);
    let path = PathOptions { mtu: Some(1_024), give_up_after: Some(Time::from_ms(60_000)), ..PathOptions::default() };
    let ends: [End; 2] = [&sender, &stopped].map(|device| {
        let (pd, cq) = (device.protection_domain(), device.completion_queue(4_096).unwrap());
        let qp = pd.queue_pair(&QpOptions::new(&cq)).unwrap();
        End { qp, cq, memory: pd.allocate(LEN, Access::ALL).unwrap() }
    });
    ends[0].qp.connect(&ends[1].qp.address(), &path).unwrap();
    ends[1].qp.connect(&ends[0].qp.address(), &path).unwrap();
    let write = |number: u64| {
        let op = SendOp::Write { addr: ends[1].memory.addr(), rkey: ends[1].memory.rkey() };
        ends[0].qp.post(number, op, &[ends[0].memory.slice(0, LEN).unwrap()]).unwrap();
    };
    // The link of this pair of devices is made while the receiver works.
    let clock = Clock::start();
    let sent = || sender.counters().port.sent_within_host;
    let mut out = [Completion::BLANK; 8];
    while sent() == 0 {
        write(0);
        while ends[0].cq.poll(&mut out).unwrap() == 0 {
            stopped.progress().unwrap();
            assert!(clock.now() < LONG);
        }
    }
    // 8 MiB: the connection has at most 1 MiB in flight, and the ring holds half of it.
    (1..=32).for_each(&write);
    let begin = clock.now();
    while sender.counters().port.overflowed == 0 {
        std::thread::yield_now();
        assert!(clock.now() - begin < LONG, "the full ring drops nothing");
    }
    for _ in 0..20 {
        let begin = clock.now();
        with_other[0].write_to(&with_other[1], 10_000).unwrap();
        assert!(clock.now() - begin < Time::from_ms(2_000));
    }
    let mut completed = 0;
    while completed < 32 {
        stopped.progress().unwrap();
        let count = ends[0].cq.poll(&mut out).unwrap();
        assert!(out[..count].iter().all(|completion| completion.status == Status::Success));
        completed += count;
        assert!(clock.now() < LONG * 3, "{completed}");
    }
}

/// Connects to the name of a device's slot, as another device of the address does.
fn connect_to(address: &str, slot: u32) -> OwnedFd {
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let name = UnixAddr::new_abstract(format!("rnic/verbs/4/{address}/{slot}").as_bytes()).unwrap();
    connect(fd.as_raw_fd(), &name).unwrap();
    fd
}

fn send(socket: &OwnedFd, bytes: &[u8], file: Option<&SharedMemory>) {
    let files: Vec<i32> = file.iter().map(|file| file.file().as_raw_fd()).collect();
    let control = [ControlMessage::ScmRights(&files)];
    let control = if file.is_some() { &control[..] } else { &[] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None).unwrap();
}

/// If a process connects and sends no valid offer of an existing device, its connection is closed, or replaced by
/// another connection. Afterwards links still work.
#[test]
fn strangers_at_the_name_of_a_slot_change_nothing() {
    let address = "127.47.92.8";
    let devices = [open(address, Mode::Thread), open(address, Mode::Thread)];
    let ends = End::pair([&devices[0], &devices[1]], Service::Rc);
    let slots = ends.each_ref().map(|end| end.qp.address().qpn % SLOTS);
    let silent: Vec<OwnedFd> = (0..100).map(|_| connect_to(address, slots[1])).collect();
    let memory = SharedMemory::create(4_096, rnic_endpoint::Pages::Usual).unwrap();
    let [a, b, c, d] = slots[0].to_le_bytes();
    let offers: [(&[u8], Option<&SharedMemory>); 7] = [
        (&[], None),
        (&[1], None),
        (&[2, 0, 0, 0, 0, 1, 1], Some(&memory)),
        (&[1, a, b, c, d, 1, 0], None),
        // No device receives at UDP port 1.
        (&[1, a, b, c, d, 1, 0], Some(&memory)),
        (&[1, 0xff, 0xff, 0xff, 0xff, 1, 0], Some(&memory)),
        (&[1, a, b, c, d, 1, 0, 0], Some(&memory)),
    ];
    for (bytes, file) in offers {
        let stranger = connect_to(address, slots[1]);
        send(&stranger, bytes, file);
        assert_eq!(recv(stranger.as_raw_fd(), &mut [0; 8], MsgFlags::empty()), Ok(0), "{bytes:?}");
    }
    ends[0].warm_up(&ends[1], &devices[0]);
    // At most 64 of the silent ones are still connected.
    let open = silent.iter().filter(|fd| recv(fd.as_raw_fd(), &mut [0; 8], MsgFlags::MSG_DONTWAIT) != Ok(0)).count();
    assert!(open <= 64, "{open}");
    ends[0].write_to(&ends[1], 10_000).unwrap();
}

/// A valid offer of the same user is accepted, and the same offer of another user gets no response: the connection is
/// closed, and no descriptor arrives.
#[test]
fn another_user_gets_no_link() {
    let address = "127.47.92.11";
    let [mut device, other] = two_ports(address);
    let [a, b, c, d] = other.shard().index.to_le_bytes();
    let [e, f] = other.udp().local_addr().port().to_le_bytes();
    let slot = device.shard().index;
    // The memory of a ring.
    let memory = SharedMemory::create(4_096 + (512 << 10), rnic_endpoint::Pages::Usual).unwrap();
    let mut answer = |stranger: OwnedFd| {
        for _ in 0..100 {
            device.wait(Interest::Arrival, Some(Time::from_ms(1))).unwrap();
            match recv(stranger.as_raw_fd(), &mut [0; 8], MsgFlags::MSG_DONTWAIT) {
                Err(nix::errno::Errno::EAGAIN) => {}
                answer => return answer,
            }
        }
        panic!("no answer");
    };
    let offer = move || {
        let stranger = connect_to(address, slot);
        send(&stranger, &[1, a, b, c, d, e, f], Some(&memory));
        stranger
    };
    assert_eq!(answer(offer()), Ok(1), "the acceptance");
    let by_nobody = std::thread::spawn(move || {
        // The user of this thread alone.
        rustix::thread::set_thread_uid(rustix::thread::Uid::from_raw(65_534)).map(|()| offer())
    });
    match by_nobody.join().unwrap() {
        Ok(stranger) => assert!(matches!(answer(stranger), Ok(0) | Err(nix::errno::Errno::ECONNRESET))),
        Err(why) => eprintln!("skipped: only root becomes another user: {why}"),
    }
}

/// Devices on one address are opened and closed, so that slots are reused: each new device gets packets by memory.
#[test]
fn each_device_that_comes_gets_a_link() {
    let address = "127.47.92.9";
    let first = open(address, Mode::Thread);
    for _ in 0..6 {
        let second = open(address, Mode::Thread);
        let ends = End::pair([&first, &second], Service::Rc);
        let before = within_host(&first).0;
        let clock = Clock::start();
        while within_host(&first).0 == before {
            ends[0].write_to(&ends[1], 1_000).unwrap();
            assert!(clock.now() < LONG, "no packet goes through memory");
        }
        ends[1].write_to(&ends[0], 100_000).unwrap();
    }
}

/// A device connects two of its own queue pairs: their packets go through memory too.
#[test]
fn a_device_reaches_itself() {
    let device = open("127.47.92.10", Mode::Thread);
    let ends = End::pair([&device, &device], Service::Rc);
    ends[0].warm_up(&ends[1], &device);
    let before = within_host(&device);
    for seed in 0..10 {
        let bytes = message(100_000, seed);
        ends[0].memory.with_mut(|memory| memory[..100_000].copy_from_slice(&bytes));
        ends[0].write_to(&ends[1], 100_000).unwrap();
        ends[1].memory.with(|memory| assert!(memory[..100_000] == bytes));
    }
    let after = within_host(&device);
    assert!(after.0 >= before.0 + 980 && after.1 == before.1, "{before:?} {after:?}");
}
