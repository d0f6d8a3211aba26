//! The path within the host: rings of packets in memory ([`crate::ring`]) between the devices of an address, in place
//! of datagrams.
//!
//! A device that listens at the name of its slot has this path. The first packet for such a device makes the sender
//! connect to that name. A *link* carries packets in one direction, from the process that has connected:
//!
//! ```text
//!   sender                                            receiver
//!     │  connects to the name of the receiver's slot     │
//!     │ ───────────────────────────────────────────────▶ │
//!     │  Offer: own slot, own UDP port, memory of a ring │
//!     │ ───────────────────────────────────────────────▶ │  is this the port of the slot in the directory?
//!     │            Acceptance: memory of the bell        │
//!     │ ◀─────────────────────────────────────────────── │
//!     │  records in the ring, and bits in the bell       │
//!     │ ═══════════════════════════════════════════════▶ │
//!     │  a byte, if the receiver sleeps                  │
//!     │ ───────────────────────────────────────────────▶ │
//!     │  a byte, when there is room again                │
//!     │ ◀─────────────────────────────────────────────── │
//! ```
//!
//! Until the acceptance arrives, and whenever a step fails, packets go as datagrams. Each end checks that its peer
//! belongs to the same user. The packets have the same format as on the wire, but no correct ICRC: the receiver's own
//! queue pairs check keys, bounds, rights and order, and its own process writes its memory. A sender can write nothing
//! but the ring and the bell.

use super::message::Directory;
use super::{SLOTS, socket};
use crate::memory::SharedMemory;
use crate::port::{Batch, Meta, Received, TrafficClass};
use crate::ring::{BELL_SLOTS, Bell, Broken, MAX_RECORD, Record, RingReceiver, RingSender};
use nix::errno::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Maximum number of links from a device. Packets for further devices go as datagrams.
const MAX_OUTGOING: usize = 64;
/// Maximum number of connections that have not made their offer yet. A further connection replaces the oldest.
const MAX_UNKNOWN: usize = 64;
/// How long a sender waits for room in a ring if the receiver removes no packets. After this time it drops packets,
/// like a full receive buffer, until the receiver removes some: a stopped process must not block a sender that also
/// sends to other processes.
const MAX_STALL: Duration = Duration::from_millis(20);
/// Number of batches that go as datagrams after a failed attempt to make a link, before the next attempt. The number
/// doubles with each failure.
const RETRY: (u32, u32) = (64, 1 << 16);

/// First byte of an offer, and of an acceptance. The names of the sockets contain the version.
const OFFER: u8 = 1;
const ACCEPTANCE: u8 = 2;
const OFFER_LEN: usize = 1 + 4 + 2;

fn offer(slot: u32, port: u16) -> [u8; OFFER_LEN] {
    let ([a, b, c, d], [e, f]) = (slot.to_le_bytes(), port.to_le_bytes());
    [OFFER, a, b, c, d, e, f]
}

/// The slot and the UDP port in an offer.
fn read_offer(bytes: &[u8]) -> Option<(u32, u16)> {
    let [OFFER, a, b, c, d, e, f] = *bytes else { return None };
    let (slot, port) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
    (slot < SLOTS && port != 0).then_some((slot, port))
}

/// A link to another device.
struct Outgoing {
    socket: OwnedFd,
    /// The UDP port of the receiver. It distinguishes the receiver from a later device with the same slot.
    port: u16,
    ring: RingSender,
    /// The receiver's bell; `None` until it has accepted the link.
    bell: Option<Bell>,
    /// Since when the ring has been full, and the receiver's position at that time.
    full: Option<(Instant, u64)>,
}

/// What a device knows about the path to another device.
enum Path {
    Link(Box<Outgoing>),
    /// Packets go as datagrams. The next attempt to make a link follows after `left` batches.
    Datagrams {
        left: u32,
        /// [`RETRY`].
        next: u32,
    },
}

/// A link from another device.
struct Incoming {
    socket: OwnedFd,
    /// The UDP port of the sender.
    port: u16,
    ring: RingReceiver,
    /// Whether datagrams that the sender sent before may wait in the socket.
    is_fresh: bool,
    /// Whether the sender has ended. The link ends when its ring is empty.
    has_ended: bool,
}

/// What became of a batch for another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// The ring has it, or it was dropped because the receiver takes nothing out.
    Taken { dropped: bool },
    /// The ring has no room now.
    Full,
    /// The device has no link to the receiver: the batch must go as datagrams.
    Datagrams,
}

/// What a look at the rings has found.
pub(super) enum Found {
    Nothing,
    /// Packets, in the buffer.
    Packets(Received),
    /// Packets of a new link. Earlier datagrams of the same sender are delivered before them.
    AfterDatagrams,
}

/// What a descriptor that [`Links::descriptors`] returns is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    Listener,
    Unknown,
    Outgoing(u32),
    Incoming(u32),
}

/// The links of a device.
pub(super) struct Links {
    ip: IpAddr,
    slot: u32,
    port: u16,
    /// The bell of the device, and the memory of the bell; `None` before the first link to the device.
    bell: Option<(Bell, SharedMemory)>,
    /// By slot.
    outgoing: Box<[Option<Path>]>,
    outgoing_slots: Vec<u32>,
    /// By slot.
    incoming: Box<[Option<Incoming>]>,
    incoming_slots: Vec<u32>,
    unknown: Vec<OwnedFd>,
    /// Which rings have packets, by slot.
    ready: [u64; BELL_SLOTS / 64],
    /// The slot whose ring was polled last.
    latest: u32,
    /// The slot of a link whose ring was full at the latest send.
    blocked: Option<u32>,
}

impl Links {
    /// Makes the device with the slot `slot`, which receives datagrams at UDP port `port`, ready for links. `name` is
    /// the socket that has claimed the slot.
    pub(super) fn new(ip: IpAddr, slot: u32, port: u16, name: &OwnedFd) -> Links {
        // Without it, other devices send datagrams to this one.
        let _ = socket::listen_at(name);
        Links {
            ip,
            slot,
            port,
            bell: None,
            outgoing: (0..SLOTS).map(|_| None).collect(),
            outgoing_slots: Vec::new(),
            incoming: (0..SLOTS).map(|_| None).collect(),
            incoming_slots: Vec::new(),
            unknown: Vec::new(),
            ready: [0; BELL_SLOTS / 64],
            latest: 0,
            blocked: None,
        }
    }

    /// Whether packets for the device with this slot go into a ring.
    pub(super) fn reaches(&self, slot: u32) -> bool {
        matches!(self.outgoing.get(slot as usize), Some(Some(Path::Link(link))) if link.bell.is_some())
    }

    /// Whether the latest send found a full ring.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Sends a batch to the device with the slot `slot`, which receives datagrams at UDP port `port`.
    pub(super) fn send(&mut self, slot: u32, port: u16, batch: &Batch<'_>, data: &[u8]) -> Sent {
        let links = self.outgoing_slots.len();
        let path = &mut self.outgoing[slot as usize];
        let link = match path {
            Some(Path::Link(link)) if link.port == port => link,
            Some(Path::Datagrams { left, .. }) if *left > 0 => {
                *left -= 1;
                return Sent::Datagrams;
            }
            _ => {
                let next = if let Some(Path::Datagrams { next, .. }) = path { *next } else { RETRY.0 };
                self.connect(slot, port, links, next);
                return Sent::Datagrams;
            }
        };
        let Some(bell) = &link.bell else { return Sent::Datagrams };
        let record = Record {
            length: data.len(),
            segment: batch.segment.min(data.len()),
            source_port: batch.source_port,
            traffic_class: batch.traffic_class.byte(),
        };
        if data.len() > MAX_RECORD {
            return Sent::Datagrams;
        }
        self.blocked = None;
        match link.ring.push(&record, data) {
            Ok(true) => {
                link.full = None;
                let closed = bell.ring(self.slot) && is_closed(socket::send(&link.socket, &[0]));
                if closed {
                    self.drop_outgoing(slot);
                }
                Sent::Taken { dropped: false }
            }
            Ok(false) => match link.wait_for_room() {
                Ok(true) => {
                    self.blocked = Some(slot);
                    Sent::Full
                }
                // A receiver that has ended the link, and not its device, gets datagrams again.
                Ok(false) if !is_end(socket::receive(&link.socket, &mut [0; 8])) => Sent::Taken { dropped: true },
                Ok(false) | Err(Broken) => {
                    self.drop_outgoing(slot);
                    Sent::Datagrams
                }
            },
            Err(Broken) => {
                self.drop_outgoing(slot);
                Sent::Datagrams
            }
        }
    }

    /// Offers a link to the device with the slot `slot`.
    fn connect(&mut self, slot: u32, port: u16, links: usize, next: u32) {
        self.drop_outgoing(slot);
        let path = if links < MAX_OUTGOING { self.make_offer(slot, port) } else { None };
        self.outgoing[slot as usize] = Some(match path {
            Some(link) => {
                self.outgoing_slots.push(slot);
                Path::Link(Box::new(link))
            }
            None => Path::Datagrams { left: next, next: (next * 2).min(RETRY.1) },
        });
    }

    fn make_offer(&self, slot: u32, port: u16) -> Option<Outgoing> {
        let socket = socket::connect_slot(self.ip, slot).ok()?.ok()?;
        let (ring, memory) = RingSender::create().ok()?;
        socket::send_with(&socket, &offer(self.slot, self.port), &memory).ok()?;
        Some(Outgoing { socket, port, ring, bell: None, full: None })
    }

    /// Ends the link to the device with the slot `slot`. Packets go as datagrams, and later another link may be made.
    fn drop_outgoing(&mut self, slot: u32) {
        self.outgoing[slot as usize] = Some(Path::Datagrams { left: RETRY.0, next: RETRY.0 * 2 });
        self.outgoing_slots.retain(|known| *known != slot);
        self.blocked = self.blocked.filter(|blocked| *blocked != slot);
    }

    fn drop_incoming(&mut self, slot: u32) {
        self.incoming[slot as usize] = None;
        self.incoming_slots.retain(|known| *known != slot);
    }

    /// Copies the packets of a ring, if one has some, to the beginning of `data`. `datagrams_are_received` says whether
    /// no datagram waits at the device's UDP port.
    pub(super) fn receive(&mut self, data: &mut Vec<u8>, datagrams_are_received: bool) -> Found {
        let Some((bell, _)) = &self.bell else { return Found::Nothing };
        bell.take(&mut self.ready);
        while let Some(slot) = self.next_ready() {
            let Some(link) = &mut self.incoming[slot as usize] else {
                self.ready[slot as usize / 64] &= !(1 << (slot % 64));
                continue;
            };
            if link.is_fresh && !datagrams_are_received {
                return Found::AfterDatagrams;
            }
            link.is_fresh = false;
            self.latest = slot;
            match link.ring.pop(data) {
                Ok(Some(Record { length, segment, source_port, traffic_class })) => {
                    if link.ring.take_wish_for_room() {
                        let _ = socket::send(&link.socket, &[0]);
                    }
                    let meta = Meta {
                        source: SocketAddr::new(self.ip, source_port),
                        destination: self.ip,
                        traffic_class: TrafficClass::from_byte(traffic_class),
                        identification: None,
                        is_within_host: true,
                        arrived_ns: None,
                    };
                    return Found::Packets(Received { meta, segment, length });
                }
                Ok(None) => {
                    self.ready[slot as usize / 64] &= !(1 << (slot % 64));
                    if link.has_ended {
                        self.drop_incoming(slot);
                    }
                }
                Err(Broken) => self.drop_incoming(slot),
            }
        }
        Found::Nothing
    }

    /// The next slot in turn whose ring may have packets.
    fn next_ready(&self) -> Option<u32> {
        let start = (self.latest + 1) % SLOTS;
        let (word, bit) = (start as usize / 64, start % 64);
        let count = self.ready.len();
        let above = self.ready[word] & (u64::MAX << bit);
        if above != 0 {
            return Some(word as u32 * 64 + above.trailing_zeros());
        }
        // Ends at the first word again, whose low bits come last.
        let word = (1..=count).map(|step| (word + step) % count).find(|word| self.ready[*word] != 0)?;
        Some(word as u32 * 64 + self.ready[word].trailing_zeros())
    }

    /// Handles offers, acceptances and changes of the directory.
    pub(super) fn serve(&mut self, directory: &Directory, name: &OwnedFd) {
        while let Some(socket) = socket::accept(name) {
            if self.unknown.len() >= MAX_UNKNOWN {
                self.unknown.remove(0);
            }
            self.unknown.push(socket);
        }
        for socket in std::mem::take(&mut self.unknown) {
            let mut buffer = [0; OFFER_LEN + 1];
            match socket::receive_with(&socket, &mut buffer) {
                Err(Errno::EAGAIN) => self.unknown.push(socket),
                Ok((length, Some(file))) => {
                    let known = |(slot, port): &(u32, u16)| directory[*slot as usize] == *port;
                    if let Some((slot, port)) = read_offer(&buffer[..length]).filter(known) {
                        self.accept(socket, slot, port, file);
                    }
                }
                Ok((_, None)) | Err(_) => {}
            }
        }
        for index in (0..self.outgoing_slots.len()).rev() {
            let slot = self.outgoing_slots[index];
            let Some(Path::Link(link)) = &mut self.outgoing[slot as usize] else { continue };
            if link.port != directory[slot as usize] || (link.bell.is_none() && link.read_acceptance().is_err()) {
                self.drop_outgoing(slot);
            }
        }
        for index in (0..self.incoming_slots.len()).rev() {
            let slot = self.incoming_slots[index];
            let Some(link) = &mut self.incoming[slot as usize] else { continue };
            link.has_ended |= link.port != directory[slot as usize];
            if link.has_ended && link.ring.is_empty() != Ok(false) {
                self.drop_incoming(slot);
            }
        }
    }

    /// Accepts a link from the device with the slot `slot`, whose ring is in `file`. An earlier link of this device has
    /// ended: a device offers another link only after the end of the earlier one.
    fn accept(&mut self, socket: OwnedFd, slot: u32, port: u16, file: OwnedFd) {
        let Ok(Some(ring)) = RingReceiver::open(file) else { return };
        if self.bell.is_none() {
            self.bell = Bell::create().ok();
        }
        let Some((_, memory)) = &self.bell else { return };
        if socket::send_with(&socket, &[ACCEPTANCE], memory).is_err() {
            return;
        }
        self.drop_incoming(slot);
        self.incoming[slot as usize] = Some(Incoming { socket, port, ring, is_fresh: true, has_ended: false });
        self.incoming_slots.push(slot);
    }

    /// Prepares to wait for a wake-up. Returns `false` if a ring has packets; in this case the thread must not wait.
    pub(super) fn fall_asleep(&self) -> bool {
        let quiet = self.ready.iter().all(|word| *word == 0);
        quiet && self.bell.as_ref().is_none_or(|(bell, _)| bell.fall_asleep())
    }

    /// Ends the wait. `ready` are the descriptors that were readable.
    pub(super) fn wake_up(&mut self, ready: impl Iterator<Item = Watched>) {
        if let Some((bell, _)) = &self.bell {
            bell.wake_up();
        }
        let mut buffer = [0; 8];
        for watched in ready {
            match watched {
                // `serve` handles them.
                Watched::Listener | Watched::Unknown => {}
                Watched::Outgoing(slot) => {
                    let Some(Path::Link(link)) = &self.outgoing[slot as usize] else { continue };
                    if link.bell.is_some() && is_end(socket::receive(&link.socket, &mut buffer)) {
                        self.drop_outgoing(slot);
                    }
                }
                Watched::Incoming(slot) => {
                    let Some(link) = &mut self.incoming[slot as usize] else { continue };
                    link.has_ended |= is_end(socket::receive(&link.socket, &mut buffer));
                    if link.has_ended && link.ring.is_empty() != Ok(false) {
                        self.drop_incoming(slot);
                    }
                }
            }
        }
    }

    /// The descriptors to wait for: `name`, which is the socket of the device's slot, and the descriptors of the links.
    pub(super) fn descriptors<'a>(&'a self, name: &'a OwnedFd) -> impl Iterator<Item = (Watched, BorrowedFd<'a>)> + 'a {
        let unknown = self.unknown.iter().map(|socket| (Watched::Unknown, socket.as_fd()));
        let incoming = self.incoming_slots.iter().filter_map(|slot| {
            // A link that has ended stays readable.
            let link = self.incoming[*slot as usize].as_ref().filter(|link| !link.has_ended)?;
            Some((Watched::Incoming(*slot), link.socket.as_fd()))
        });
        let outgoing = self.outgoing_slots.iter().filter_map(|slot| match &self.outgoing[*slot as usize] {
            Some(Path::Link(link)) => Some((Watched::Outgoing(*slot), link.socket.as_fd())),
            _ => None,
        });
        [(Watched::Listener, name.as_fd())].into_iter().chain(unknown).chain(incoming).chain(outgoing)
    }
}

impl Outgoing {
    /// Reads the acceptance of the receiver, if it has arrived.
    fn read_acceptance(&mut self) -> Result<(), Broken> {
        let mut buffer = [0; 2];
        match socket::receive_with(&self.socket, &mut buffer) {
            Err(Errno::EAGAIN) => Ok(()),
            Ok((1, Some(file))) if buffer[0] == ACCEPTANCE => {
                self.bell = Some(Bell::open(file).ok().flatten().ok_or(Broken)?);
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    /// Requests a notification of room from the receiver. Returns `false` if the receiver has not removed packets from
    /// the ring for so long that the sender no longer waits.
    fn wait_for_room(&mut self) -> Result<bool, Broken> {
        let head = self.ring.ask_for_room()?;
        match self.full {
            Some((since, before)) if before == head => Ok(since.elapsed() < MAX_STALL),
            _ => {
                self.full = Some((Instant::now(), head));
                Ok(true)
            }
        }
    }
}

/// Whether a message could not be sent because the other end has closed its socket.
fn is_closed(sent: nix::Result<()>) -> bool {
    !matches!(sent, Ok(()) | Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM))
}

/// Whether the other end has closed its socket.
fn is_end(received: nix::Result<usize>) -> bool {
    !matches!(received, Ok(1..) | Err(Errno::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::ROCE_PORT;
    use crate::ring::CAPACITY;
    use std::io::IoSlice;

    /// A device of an address, with the UDP port 5,000 + `slot`.
    struct Peer {
        links: Links,
        name: OwnedFd,
    }

    impl Peer {
        fn new(ip: &str, slot: u32) -> Peer {
            let ip = ip.parse().unwrap();
            let name = socket::claim_slot(ip, slot).unwrap();
            Peer { links: Links::new(ip, slot, 5_000 + slot as u16, &name), name }
        }

        fn send(&mut self, slot: u32, data: &[u8]) -> Sent {
            let destination = SocketAddr::new(self.links.ip, ROCE_PORT);
            let slices = [IoSlice::new(data)];
            let batch = Batch {
                destination,
                source_port: 50_000,
                source_address: None,
                traffic_class: TrafficClass::from_byte(0x6a),
                segment: 1_000,
                data: &slices,
            };
            self.links.send(slot, 5_000 + slot as u16, &batch, data)
        }

        fn receive(&mut self) -> Option<Vec<u8>> {
            let mut data = Vec::new();
            match self.links.receive(&mut data, true) {
                Found::Packets(received) => {
                    let Meta { source, destination, traffic_class, is_within_host, .. } = received.meta;
                    assert_eq!((source.port(), received.segment.min(1_000)), (50_000, received.length.min(1_000)));
                    assert!(is_within_host && traffic_class.byte() == 0x6a && source.ip() == destination);
                    Some(data[..received.length].to_vec())
                }
                Found::Nothing => None,
                Found::AfterDatagrams => panic!("the datagrams were received"),
            }
        }

        fn serve(&mut self, slots: &[u32]) {
            let mut directory = [0; SLOTS as usize];
            slots.iter().for_each(|slot| directory[*slot as usize] = 5_000 + *slot as u16);
            self.links.serve(&directory, &self.name);
        }

        /// Makes a link to `other`.
        fn link_to(&mut self, other: &mut Peer) {
            let slots = [self.links.slot, other.links.slot];
            assert_eq!(self.send(slots[1], b"first"), Sent::Datagrams);
            other.serve(&slots);
            self.serve(&slots);
            assert!(self.links.reaches(slots[1]) && !other.links.reaches(slots[0]), "a link has one direction");
        }
    }

    #[test]
    fn a_link_carries_packets_one_way() {
        let [mut a, mut b] = [3, 70].map(|slot| Peer::new("127.47.93.1", slot));
        a.link_to(&mut b);
        let long = vec![9; 40_000];
        assert_eq!(a.send(70, &long), Sent::Taken { dropped: false });
        assert_eq!(a.send(70, b"short"), Sent::Taken { dropped: false });
        // Datagrams of the sender may wait, only before the first packets of a link.
        assert!(matches!(b.links.receive(&mut Vec::new(), false), Found::AfterDatagrams));
        assert_eq!(b.receive(), Some(long));
        assert!(matches!(b.links.receive(&mut Vec::new(), false), Found::Packets(_)));
        assert_eq!(b.receive(), None);
        assert_eq!(a.receive(), None);
    }

    /// Three senders with many packets each get turns.
    #[test]
    fn rings_are_polled_in_turn() {
        let mut receiver = Peer::new("127.47.93.2", 500);
        let mut senders = [63, 64, 1_023].map(|slot| Peer::new("127.47.93.2", slot));
        let slots = [500, 63, 64, 1_023];
        for sender in &mut senders {
            assert_eq!(sender.send(500, b"x"), Sent::Datagrams);
        }
        receiver.serve(&slots);
        for sender in &mut senders {
            sender.serve(&slots);
            for _ in 0..3 {
                assert_eq!(sender.send(500, &sender.links.slot.to_le_bytes()), Sent::Taken { dropped: false });
            }
        }
        let order = std::iter::from_fn(|| receiver.receive()).map(|data| u32::from_le_bytes(data.try_into().unwrap()));
        assert_eq!(order.collect::<Vec<_>>(), [63, 64, 1_023, 63, 64, 1_023, 63, 64, 1_023]);
    }

    /// When the directory no longer contains a device, both ends drop the link; packets that are in the ring are
    /// received.
    #[test]
    fn a_link_ends_with_its_devices() {
        let [mut a, mut b] = [1, 2].map(|slot| Peer::new("127.47.93.3", slot));
        a.link_to(&mut b);
        assert_eq!(a.send(2, b"last"), Sent::Taken { dropped: false });
        b.serve(&[2]);
        assert_eq!(b.links.incoming_slots, [1], "a packet is left");
        assert_eq!(b.receive(), Some(b"last".to_vec()));
        assert_eq!((b.receive(), b.links.incoming_slots.len()), (None, 0));
        a.serve(&[1]);
        assert!(!a.links.reaches(2) && a.links.outgoing_slots.is_empty());
        // A device that no longer exists gets no packets, and the sender tries again only later.
        drop(b);
        for _ in 0..RETRY.0 {
            assert_eq!(a.send(2, b"x"), Sent::Datagrams);
        }
        let mut b = Peer::new("127.47.93.3", 2);
        a.link_to(&mut b);
        // The process ends: the next message that would wake it finds the socket closed.
        assert!(b.links.fall_asleep());
        b.links.incoming[1] = None;
        assert_eq!(a.send(2, b"x"), Sent::Taken { dropped: false });
        assert!(!a.links.reaches(2));
    }

    /// A sleeping receiver is woken by one message, and a sender that found the ring full is woken by another message.
    #[test]
    fn sleepers_are_woken() {
        let [mut a, mut b] = [1, 2].map(|slot| Peer::new("127.47.93.4", slot));
        a.link_to(&mut b);
        assert!(b.links.fall_asleep());
        assert_eq!(a.send(2, b"x"), Sent::Taken { dropped: false });
        assert_eq!(a.send(2, b"y"), Sent::Taken { dropped: false });
        let mut buffer = [0; 8];
        let wakes = |link: &OwnedFd, buffer: &mut [u8]| socket::receive(link, buffer) == Ok(1);
        assert!(wakes(&b.links.incoming[1].as_ref().unwrap().socket, &mut buffer));
        assert!(!wakes(&b.links.incoming[1].as_ref().unwrap().socket, &mut buffer), "one message");
        b.links.wake_up(std::iter::empty());
        assert!(b.receive().is_some() && b.receive().is_some() && b.receive().is_none());
        let data = vec![0; 60_000];
        let sent = (0..100).take_while(|_| a.send(2, &data) == Sent::Taken { dropped: false }).count();
        // A record takes 60,032 bytes.
        assert_eq!((sent, a.links.is_blocked()), (CAPACITY / 60_032, true));
        let Some(Path::Link(link)) = &a.links.outgoing[2] else { panic!("no link") };
        assert!(!wakes(&link.socket, &mut buffer));
        assert!(b.receive().is_some());
        assert!(wakes(&link.socket, &mut buffer));
        assert_eq!(a.send(2, &data), Sent::Taken { dropped: false });
        assert!(!a.links.is_blocked());
    }

    /// A receiver that removes no packets from the ring for 20 ms loses packets, until it removes some.
    #[test]
    fn a_stopped_receiver_loses_packets() {
        let [mut a, mut b] = [1, 2].map(|slot| Peer::new("127.47.93.5", slot));
        a.link_to(&mut b);
        let data = vec![0; 60_000];
        while a.send(2, &data) == (Sent::Taken { dropped: false }) {}
        assert_eq!(a.send(2, &data), Sent::Full);
        std::thread::sleep(MAX_STALL);
        assert_eq!(a.send(2, &data), Sent::Taken { dropped: true });
        assert_eq!(a.send(2, &data), Sent::Taken { dropped: true });
        assert!(b.receive().is_some());
        assert_eq!(a.send(2, &data), Sent::Taken { dropped: false });
        assert_eq!(a.send(2, &data), Sent::Full, "the time begins again");
    }

    /// An offer for a slot and UDP port that the directory does not contain is refused, and tried again later.
    #[test]
    fn devices_that_are_not_in_the_directory_get_no_link() {
        let [mut a, mut b] = [1, 2].map(|slot| Peer::new("127.47.93.6", slot));
        assert_eq!(a.send(2, b"x"), Sent::Datagrams);
        b.serve(&[2]);
        a.serve(&[1, 2]);
        assert!(!a.links.reaches(2) && b.links.incoming_slots.is_empty());
        for _ in 0..RETRY.0 {
            assert_eq!(a.send(2, b"x"), Sent::Datagrams);
        }
        a.link_to(&mut b);
    }

    #[test]
    fn the_number_of_links_is_bounded() {
        let mut a = Peer::new("127.47.93.7", 1_000);
        let mut others: Vec<Peer> = (0..MAX_OUTGOING as u32 + 1).map(|slot| Peer::new("127.47.93.7", slot)).collect();
        let slots: Vec<u32> = (0..=1_000).collect();
        for slot in 0..others.len() as u32 {
            assert_eq!(a.send(slot, b"x"), Sent::Datagrams);
        }
        others.iter_mut().for_each(|other| other.serve(&slots));
        a.serve(&slots);
        let reached = (0..others.len() as u32).filter(|slot| a.links.reaches(*slot)).count();
        assert_eq!(reached, MAX_OUTGOING);
        assert_eq!(a.send(MAX_OUTGOING as u32, b"x"), Sent::Datagrams);
    }

    /// A peer that writes impossible positions loses its link. Its packets go as datagrams.
    #[test]
    fn a_broken_ring_ends_its_link() {
        let [mut a, mut b] = [1, 2].map(|slot| Peer::new("127.47.93.8", slot));
        a.link_to(&mut b);
        let Some(Path::Link(link)) = &mut a.links.outgoing[2] else { panic!("no link") };
        link.ring.corrupt();
        assert_eq!(a.send(2, b"x"), Sent::Taken { dropped: false });
        assert_eq!((b.receive(), b.links.incoming_slots.len()), (None, 0));
        // No process removes records from the ring any more.
        let data = vec![0; 60_000];
        while a.send(2, &data) == (Sent::Taken { dropped: false }) {}
        std::thread::sleep(MAX_STALL);
        assert_eq!(a.send(2, &data), Sent::Datagrams);
    }
}
