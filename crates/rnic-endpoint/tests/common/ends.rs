//! Two devices in memory, which send and receive packets only when a test lets them.

use rnic_endpoint::port::loopback::{LoopbackConfig, LoopbackPort, pair};
use rnic_endpoint::port::{self, Interest, Limits, Meta, Port, SendError};
use rnic_endpoint::{
    Access, Arrival, Batch, CompletionQueue, Config, Device, MemoryRegion, Mode, PathOptions, QpOptions, QueuePair,
    Service, Time,
};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// The datagrams that a [`Tapped`] port has received, and the datagrams that it will receive next.
#[derive(Default)]
pub(crate) struct Tap {
    pub(crate) seen: Vec<(Meta, Vec<u8>)>,
    pub(crate) inject: VecDeque<(Meta, Vec<u8>)>,
    /// Whether the device gets only the datagrams of `inject`, and none of the peer's.
    pub(crate) holds: bool,
}

/// A port whose received datagrams a test can observe, hold back and supplement.
struct Tapped {
    port: LoopbackPort,
    tap: Arc<Mutex<Tap>>,
    current: Vec<u8>,
}

impl Port for Tapped {
    fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        self.port.source_port(hash)
    }
    fn limits(&self) -> Limits {
        self.port.limits()
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.port.longest_datagram(destination)
    }
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        self.port.send(batch)
    }
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        let mut tap = self.tap.lock().unwrap();
        if let Some((meta, bytes)) = tap.inject.pop_front() {
            self.current = bytes;
            return Ok(Some(Arrival { meta, segment: self.current.len(), data: &self.current }));
        }
        let Tap { seen, holds, .. } = &mut *tap;
        let mut listen = |arrival: &Arrival<'_>| {
            seen.extend(arrival.segments().map(|bytes| (arrival.meta, bytes.to_vec())));
        };
        if *holds {
            while let Some(arrival) = self.port.receive()? {
                listen(&arrival);
            }
            return Ok(None);
        }
        Ok(self.port.receive()?.inspect(listen))
    }
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.port.wait(interest, timeout)
    }
    fn waker(&self) -> Waker {
        self.port.waker()
    }
    fn counters(&self) -> port::Counters {
        self.port.counters()
    }
}

/// A device with a queue pair, and a region of which each byte is 7.
pub(crate) struct End {
    pub(crate) device: Device,
    pub(crate) cq: CompletionQueue,
    pub(crate) qp: QueuePair,
    pub(crate) region: MemoryRegion,
    pub(crate) tap: Arc<Mutex<Tap>>,
}

/// Two devices with queue pairs of a service, and regions of `len` bytes.
pub(crate) fn ends(configs: [Config; 2], service: Service, len: usize) -> [End; 2] {
    let (a, b) = pair(LoopbackConfig::default());
    let end = |port, config| {
        let tap = Arc::<Mutex<Tap>>::default();
        let port = Tapped { port, tap: tap.clone(), current: Vec::new() };
        let device = Device::on_port(Box::new(port), Config { mode: Mode::Polled, ..config }).unwrap();
        let cq = device.completion_queue(16).unwrap();
        let domain = device.protection_domain();
        let region = domain.register(vec![7; len], Access::ALL).unwrap();
        let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
        End { device, cq, qp, region, tap }
    };
    let [here, there] = configs;
    [end(a, here), end(b, there)]
}

/// Connects the queue pairs.
pub(crate) fn connect([a, b]: &[End; 2]) {
    a.qp.connect(&b.qp.address(), &PathOptions::default()).unwrap();
    b.qp.connect(&a.qp.address(), &PathOptions::default()).unwrap();
}
