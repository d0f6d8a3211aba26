//! Runs the conformance tests of the trait [`Verbs`](rnic_verbs::Verbs) on the endpoint's device, over sockets of this
//! host, in both modes.

use rnic_endpoint::{Config, Device, Mode};
use rnic_verbs::Verbs;
use rnic_verbs::conformance::{Fabric, check};
use std::net::SocketAddr;

struct Sockets([Device; 2]);

impl Fabric for Sockets {
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

fn sockets(mode: Mode) -> Box<dyn Fabric> {
    let open = || Device::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), Config { mode, ..Config::default() }).unwrap();
    Box::new(Sockets([open(), open()]))
}

#[test]
fn a_polled_device_conforms() {
    check(&mut || sockets(Mode::Polled));
}

#[test]
fn a_device_with_a_progress_thread_conforms() {
    check(&mut || sockets(Mode::Thread));
}
