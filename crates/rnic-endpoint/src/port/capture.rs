//! Captures the packets of a port in a pcapng file.

use super::{Arrival, Batch, Counters, Interest, Limits, Port, SendError};
use crate::sync::lock;
use rnic_transport::Time;
use rnic_wire::pcapng::Writer;
use rnic_wire::{Envelope, Ip, Ipv4, Ipv6, MacAddr, Packet};
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

/// A capture file in the format pcapng, into which several ports can write.
#[derive(Clone)]
pub struct CaptureFile(Arc<Mutex<Writer<File>>>);

impl CaptureFile {
    /// Creates the file, or overwrites it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> io::Result<CaptureFile> {
        Ok(CaptureFile(Arc::new(Mutex::new(Writer::new(File::create(path)?, &["rnic"])?))))
    }
}

/// A port that captures all packets that another port sends and receives. Datagrams that are not RoCEv2 packets are
/// left out. A socket does not show the identification of received packets, so the ICRC in the file is computed for the
/// identification that the IPv4 header in the file has. Ethernet addresses are 0.
pub struct CapturePort<P> {
    inner: P,
    file: CaptureFile,
    frame: Vec<u8>,
}

impl<P: Port> CapturePort<P> {
    /// Captures the packets of `inner` in `file`.
    pub fn new(inner: P, file: CaptureFile) -> CapturePort<P> {
        CapturePort { inner, file, frame: vec![0; 1 << 16] }
    }
}

/// Addresses of captured packets.
struct Route {
    source: SocketAddr,
    destination: SocketAddr,
    class: u8,
}

fn capture(file: &CaptureFile, frame: &mut [u8], path: &Route, packets: impl Iterator<Item = impl AsRef<[u8]>>) {
    #[expect(clippy::disallowed_methods, reason = "a capture file has the time of day of each packet")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut bytes = Vec::new();
    for (id, packet) in packets.enumerate() {
        let Ok(packet) = Packet::parse(packet.as_ref()) else { continue };
        let ip = match (path.source.ip(), path.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Ip::V4(Ipv4 { tos: path.class, id: id as u16, ..Ipv4::new(from, to) })
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => Ip::V6(Ipv6 { traffic_class: path.class, ..Ipv6::new(from, to) }),
            _ => continue,
        };
        let mut envelope = Envelope::new(MacAddr::default(), MacAddr::default(), ip, path.source.port());
        envelope.destination_port = path.destination.port();
        let len = envelope.emit(&packet, frame);
        bytes.push(frame[..len].to_vec());
    }
    let mut file = lock(&file.0);
    for frame in bytes {
        // A capture that cannot be written must not stop the program.
        let _ = file.frame(0, now, &frame);
    }
}

/// Captures one packet that was sent without a [`CapturePort`].
pub(super) fn record_sent(file: &CaptureFile, source: SocketAddr, destination: SocketAddr, packet: &[u8]) {
    // Ethernet, IPv6 and UDP headers are shorter than 128 bytes.
    let mut frame = vec![0; packet.len() + 128];
    capture(file, &mut frame, &Route { source, destination, class: 0 }, std::iter::once(packet));
}

impl<P: Port> Port for CapturePort<P> {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        self.inner.source_port(hash)
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.inner.longest_datagram(destination)
    }

    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        let taken = self.inner.send(batch)?;
        let bytes: Vec<u8> = batch.data.iter().flat_map(|slice| slice.iter().copied()).collect();
        let source = SocketAddr::new(batch.source_address.unwrap_or(self.local_addr().ip()), batch.source_port);
        let path = Route { source, destination: batch.destination, class: batch.traffic_class.byte() };
        capture(&self.file, &mut self.frame, &path, bytes.chunks(batch.segment.max(1)).take(taken));
        Ok(taken)
    }

    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        let local = self.inner.local_addr();
        let Some(arrival) = self.inner.receive()? else { return Ok(None) };
        let destination = SocketAddr::new(arrival.meta.destination, local.port());
        let path = Route { source: arrival.meta.source, destination, class: arrival.meta.traffic_class.byte() };
        capture(&self.file, &mut self.frame, &path, arrival.segments());
        Ok(Some(arrival))
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.inner.wait(interest, timeout)
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
