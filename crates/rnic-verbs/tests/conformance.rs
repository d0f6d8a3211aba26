//! Runs the conformance checks of [`Verbs`] on two devices in virtual time.

use rnic_transport::Time;
use rnic_verbs::conformance::{Fabric, check};
use rnic_verbs::{Batch, Device, DeviceConfig, Verbs};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Two devices, and a link between them with a delay of 1 us.
struct Link {
    devices: [Device; 2],
    batch: [Batch; 2],
    now: Time,
    /// Packets on the link: time of arrival, receiving side, and bytes.
    flying: VecDeque<(Time, usize, Vec<u8>)>,
}

impl Fabric for Link {
    fn nic(&mut self, side: usize) -> &mut dyn Verbs {
        &mut self.devices[side]
    }

    fn addr(&self, side: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, side as u8 + 1], 4_791))
    }

    fn progress(&mut self) {
        self.now += Time::from_ns(200);
        while let Some((_, to, bytes)) = self.flying.pop_front_if(|(at, ..)| *at <= self.now) {
            let source = self.addr(1 - to);
            let _ = self.devices[to].receive(self.now, source, false, &bytes);
        }
        for (from, device) in self.devices.iter_mut().enumerate() {
            device.on_time(self.now);
            while device.transmit(self.now, &mut self.batch[from]) {
                let arrival = self.now + crate::common::DELAY;
                let packets = self.batch[from].datagrams_mut().map(|packet| (arrival, 1 - from, packet.to_vec()));
                self.flying.extend(packets);
            }
        }
    }
}

#[test]
fn a_device_conforms() {
    check(&mut || {
        let devices = [1, 2].map(|seed| Device::new(DeviceConfig { seed, ..DeviceConfig::default() }));
        Box::new(Link { devices, batch: [16, 16].map(Batch::new), now: Time::ZERO, flying: VecDeque::new() })
    });
}

/// The documentation names a test for each rule of the specification; every named test exists.
#[test]
fn the_conformance_table_names_tests_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("../../docs/reference/conformance.md")).unwrap();
    let named: Vec<(&str, &str)> =
        table.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    assert!(named.len() > 50);
    for (file, function) in named.into_iter().filter(|(_, function)| !["", "name"].contains(function)) {
        let source = std::fs::read_to_string(root.join(format!("tests/{file}.rs"))).unwrap();
        assert!(source.contains(&format!("fn {function}()")), "{file}::{function}");
    }
}
