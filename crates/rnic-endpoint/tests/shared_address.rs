//! Several devices, of one process and of several, share UDP port 4791 of an address.

use crate::common::message;
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::port::shared_address::{SLOTS, has_broker};
use rnic_endpoint::{Access, Config, Device, PathOptions, QpOptions, Security, SendOp, Service, Time};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// Environment variable with the address on which [`a_child_holds_the_address`] opens a device.
const CHILD_ADDRESS: &str = "RNIC_TEST_SHARED_ADDRESS";

fn config() -> Config {
    Config { security: Security::None, ..Config::default() }
}

fn open(address: IpAddr) -> Device {
    Device::open_shared(address, config()).unwrap()
}

/// Two connected queue pairs, with which one device can write to the other.
struct Connection {
    ends: [(rnic_endpoint::QueuePair, rnic_endpoint::CompletionQueue, rnic_endpoint::MemoryRegion); 2],
}

impl Connection {
    fn new(from: &Device, to: &Device, service: Service) -> Connection {
        let ends = [from, to].map(|device| {
            let (pd, cq) = (device.protection_domain(), device.completion_queue(16).unwrap());
            let memory = pd.register(vec![0; 30_000], Access::ALL).unwrap();
            let qp = pd.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
            (qp, cq, memory)
        });
        let path = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
        ends[0].0.connect(&ends[1].0.address(), &path).unwrap();
        ends[1].0.connect(&ends[0].0.address(), &path).unwrap();
        Connection { ends }
    }

    /// Writes 30,000 bytes from the first device to the second one.
    fn write(&self, seed: u64) {
        let [(qp, cq, from), (_, _, to)] = &self.ends;
        let bytes = message(30_000, seed);
        from.with_mut(|memory| memory.copy_from_slice(&bytes));
        qp.post(seed, SendOp::Write { addr: to.addr(), rkey: to.rkey() }, &[from.slice(0, 30_000).unwrap()]).unwrap();
        assert_eq!(cq.wait_one(Time::from_ms(20_000)).unwrap().wr_id, seed);
        to.with(|written| assert!(written == bytes));
    }

    fn qpns(&self) -> [u32; 2] {
        [0, 1].map(|end| self.ends[end].0.address().qpn)
    }
}

/// Packets between devices of one address go directly, and packets of another host through the broker. When the broker
/// is closed, another device becomes the broker, and the connections continue.
#[test]
fn devices_of_an_address_exchange_packets_and_replace_their_broker() {
    let [address, other]: [IpAddr; 2] = ["127.47.91.11", "127.47.91.12"].map(|address| address.parse().unwrap());
    assert!(!has_broker(address));
    let devices = [open(address), open(address), open(address)];
    let outside = Device::open(other, config()).unwrap();
    assert!(has_broker(address) && devices.iter().all(|device| device.local_addr() == devices[0].local_addr()));
    let [broker, second, third] = devices;
    let inside = Connection::new(&second, &third, Service::Rc);
    let inward = Connection::new(&outside, &third, Service::Irn);
    let with_broker = Connection::new(&broker, &second, Service::Rc);
    let slots = [with_broker.qpns()[0], inside.qpns()[0], inside.qpns()[1]].map(|qpn| qpn % SLOTS);
    assert!(slots[0] != slots[1] && slots[1] != slots[2] && slots[0] != slots[2], "{slots:?}");
    assert_eq!(inward.qpns()[1] % SLOTS, slots[2], "all queue pairs of a device have its slot");
    for seed in 1..4 {
        inside.write(seed);
        inward.write(seed);
        with_broker.write(seed);
    }
    drop((with_broker, broker));
    for seed in 4..8 {
        inside.write(seed);
        inward.write(seed);
    }
    let fourth = open(address);
    Connection::new(&fourth, &second, Service::Rc).write(9);
    Connection::new(&outside, &fourth, Service::Rc).write(10);
}

/// Starts another process of this program, that opens a device and holds it until it is killed.
fn child(address: IpAddr) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["shared_address::a_child_holds_the_address", "--exact", "--nocapture"]);
    let mut child =
        command.env(CHILD_ADDRESS, address.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the device is open")), "the child opens a device");
    child
}

/// The program of [`child`]; without the environment variable it does nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent passes the address in the environment")]
fn a_child_holds_the_address() {
    let Some(address) = std::env::var_os(CHILD_ADDRESS) else { return };
    let _device = open(address.to_str().unwrap().parse().unwrap());
    println!("the device is open");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A process that is the broker is killed: the devices of this process take over the address.
#[test]
fn a_process_replaces_a_killed_broker() {
    let [address, other]: [IpAddr; 2] = ["127.47.91.13", "127.47.91.14"].map(|address| address.parse().unwrap());
    let mut broker = child(address);
    let device = open(address);
    let outside = Device::open(other, config()).unwrap();
    let connection = Connection::new(&outside, &device, Service::Rc);
    connection.write(1);
    broker.kill().unwrap();
    broker.wait().unwrap();
    connection.write(2);
    let clock = Clock::start();
    while !has_broker(address) {
        assert!(clock.now() < Time::from_ms(20_000), "no device becomes the broker");
    }
    let mut member = child(address);
    connection.write(3);
    member.kill().unwrap();
    member.wait().unwrap();
}
