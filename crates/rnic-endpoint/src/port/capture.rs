//! Captures the packets of a port in a pcapng file.

use super::{Arrival, ArrivalTimes, Batch, Counters, Interest, Limits, Port, SendError};
use crate::sync::lock;
use rnic_transport::Time;
use rnic_wire::pcapng::Writer;
use rnic_wire::{Envelope, Ip, Ipv4, Ipv6, MacAddr, Packet, ProtectedHeader};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

/// A capture file in the format pcapng, into which several ports can write.
///
/// If the file cannot be written, for example because the disk is full, the capture ends: the file keeps the earlier
/// packets, as complete blocks, and the ports continue without it.
#[derive(Clone)]
pub struct CaptureFile(Arc<Mutex<Capture>>);

impl fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureFile").finish_non_exhaustive()
    }
}

/// The end of a capture whose file could not be written.
#[derive(Debug)]
pub struct CaptureFailure {
    /// The error of the system.
    pub error: io::Error,
    /// Number of packets that the file has.
    pub packets: u64,
}

/// A function that learns of the end of a capture.
type Report = Box<dyn FnOnce(CaptureFailure) + Send>;

struct Capture {
    /// `None` after a failure.
    writer: Option<Writer<Blocks>>,
    packets: u64,
    report: Option<Report>,
}

impl CaptureFile {
    /// Creates the file, or overwrites it. Calls `failed` if a packet cannot be written, from the thread that has sent
    /// or received it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, failed: impl FnOnce(CaptureFailure) + Send + 'static) -> io::Result<CaptureFile> {
        let writer = Some(Writer::new(Blocks::new(Box::new(File::create(path)?)), &["rnic"])?);
        Ok(CaptureFile(Arc::new(Mutex::new(Capture { writer, packets: 0, report: Some(Box::new(failed)) }))))
    }
}

impl Capture {
    fn write(&mut self, ns: u64, frame: &[u8]) {
        let Some(writer) = &mut self.writer else { return };
        match writer.frame(0, ns, frame) {
            Ok(()) => self.packets += 1,
            // A capture that cannot be written must not stop the program.
            Err(error) => {
                self.writer = None;
                if let Some(report) = self.report.take() {
                    report(CaptureFailure { error, packets: self.packets });
                }
            }
        }
    }
}

/// A file that can be shortened.
trait Shorten: Write + Send {
    fn shorten(&mut self, len: u64) -> io::Result<()>;
}

impl Shorten for File {
    fn shorten(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// Writes each block of a pcapng file by one call, and removes a block of which only a part could be written.
struct Blocks {
    file: Box<dyn Shorten>,
    /// The bytes of a block that is not complete.
    block: Vec<u8>,
    /// Number of bytes in the file.
    len: u64,
}

impl Blocks {
    fn new(file: Box<dyn Shorten>) -> Blocks {
        Blocks { file, block: Vec::new(), len: 0 }
    }
}

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        // A block begins with its type and its length, 4 bytes each.
        let length = self.block.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        if length.is_some_and(|length| self.block.len() >= length as usize) {
            let written = self.file.write_all(&self.block);
            if let Err(error) = written {
                // If the file cannot be shortened either, as a pipe, its reader gets the part of the block.
                let _ = self.file.shorten(self.len);
                return Err(error);
            }
            self.len += self.block.len() as u64;
            self.block.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A port that captures all packets that another port sends and receives. Protected datagrams of rnic are captured as
/// they are; other datagrams that are not RoCEv2 packets are left out. A socket does not show the identification of
/// received packets, so the ICRC in the file is computed for the identification that the IPv4 header in the file has.
/// Ethernet addresses are 0.
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
        let datagram = packet.as_ref();
        let parsed = Packet::parse(datagram);
        if parsed.is_err() && ProtectedHeader::parse(datagram).is_none() {
            continue;
        }
        let ip = match (path.source.ip(), path.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Ip::V4(Ipv4 { tos: path.class, id: id as u16, ..Ipv4::new(from, to) })
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => Ip::V6(Ipv6 { traffic_class: path.class, ..Ipv6::new(from, to) }),
            _ => continue,
        };
        let mut envelope = Envelope::new(MacAddr::default(), MacAddr::default(), ip, path.source.port());
        envelope.destination_port = path.destination.port();
        let len = match parsed {
            Ok(packet) => envelope.emit(&packet, frame),
            Err(_) => envelope.emit_datagram(datagram, frame),
        };
        bytes.push(frame[..len].to_vec());
    }
    let mut file = lock(&file.0);
    bytes.iter().for_each(|frame| file.write(now, frame));
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
    fn arrival_times(&self) -> ArrivalTimes {
        self.inner.arrival_times()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A disk with room for some bytes.
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        room: usize,
    }

    impl Disk {
        /// A disk, and the bytes on it.
        fn new(room: usize) -> (Disk, Arc<Mutex<Vec<u8>>>) {
            let bytes = Arc::<Mutex<Vec<u8>>>::default();
            (Disk { bytes: bytes.clone(), room }, bytes)
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = lock(&self.bytes);
            let count = bytes.len().min(self.room - disk.len());
            disk.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shorten for Disk {
        fn shorten(&mut self, len: u64) -> io::Result<()> {
            lock(&self.bytes).truncate(len as usize);
            Ok(())
        }
    }

    /// Lengths of the head of a file and of a block with a frame of 61 bytes.
    fn lengths() -> (usize, usize) {
        let head = Writer::new(Vec::new(), &["rnic"]).unwrap().finish().unwrap().len();
        let mut writer = Writer::new(Vec::new(), &["rnic"]).unwrap();
        writer.frame(0, 1, &[7; 61]).unwrap();
        (head, writer.finish().unwrap().len() - head)
    }

    /// Whatever room the disk has, the file ends with a whole block.
    #[test]
    fn a_full_disk_leaves_whole_blocks() {
        let (head, block) = lengths();
        for room in 0..=3 * block + head {
            let (disk, bytes) = Disk::new(room);
            let Ok(mut writer) = Writer::new(Blocks::new(Box::new(disk)), &["rnic"]) else {
                assert!(room < head, "{room}");
                continue;
            };
            let frames = (0..4).take_while(|_| writer.frame(0, 1, &[7; 61]).is_ok()).count();
            assert_eq!(frames, (room - head) / block);
            assert_eq!(lock(&bytes).len(), head + frames * block, "{room}");
        }
    }

    #[test]
    fn the_end_of_a_capture_is_reported_once() {
        let (head, block) = lengths();
        let (disk, _) = Disk::new(head + block + 1);
        let (sender, failures) = mpsc::channel();
        let mut capture = Capture {
            writer: Some(Writer::new(Blocks::new(Box::new(disk)), &["rnic"]).unwrap()),
            packets: 0,
            report: Some(Box::new(move |failure| sender.send(failure).unwrap())),
        };
        for _ in 0..4 {
            capture.write(1, &[7; 61]);
        }
        let failure = failures.recv().unwrap();
        assert_eq!((failure.error.kind(), failure.packets), (io::ErrorKind::StorageFull, 1));
        assert!(failures.recv().is_err(), "one report");
    }

    /// With `/dev/full`, the head of the capture cannot be written.
    #[test]
    fn a_capture_without_room_does_not_begin() {
        let error = CaptureFile::create(Path::new("/dev/full"), |_| {}).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
