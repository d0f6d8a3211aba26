//! Our side's Ethernet port: what a RoCE endpoint outside a guest sends and receives through.

use crate::fault::{FaultCounts, Faults, HOLD, Injector};
use crate::frame::{ARP, Arp, Datagram, ETHERNET_HEADER, IPV4, IPV6, Mac, Neighbour, Udp};
use crate::frame::{ethernet, ethertype, multicast_mac, solicited_node};
use crate::host::Host;
use crate::link::{Frames, LinkEnd};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a neighbour is asked for its Ethernet address, and how often.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(30);
const NEIGHBOUR_RETRY: Duration = Duration::from_millis(500);

/// Frames that came in and were not handed out.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ignored {
    /// Other protocols, other hosts: expected on any link.
    pub other: u64,
    /// Packets for us that were broken, with the reason: not expected without injected corruption.
    pub broken: BTreeMap<&'static str, u64>,
}

/// An Ethernet port with the addresses of [`Host::OURS`].
///
/// A thread of its own answers ARP and neighbour solicitations from the start: the kernel looks for its peer's Ethernet
/// address when a queue pair becomes ready to receive, and fails if nobody answers. Datagrams wait in a queue without
/// limit.
#[derive(Debug)]
pub struct FramePort {
    shared: Arc<Shared>,
    inbox: Receiver<Datagram>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    link: LinkEnd,
    host: Host,
    state: Mutex<State>,
    /// Signals a new neighbour.
    met: Condvar,
}

#[derive(Debug)]
struct State {
    neighbours: BTreeMap<IpAddr, Mac>,
    outgoing: Injector,
    incoming: Injector,
    ignored: Ignored,
}

impl FramePort {
    /// A port at one end of a link.
    pub fn new(link: LinkEnd) -> FramePort {
        FramePort::with_faults(link, Faults::None, Faults::None)
    }

    /// A port whose RoCE frames suffer faults: those it sends, and those that come in.
    pub fn with_faults(link: LinkEnd, outgoing: Faults, incoming: Faults) -> FramePort {
        let state = State {
            neighbours: BTreeMap::new(),
            outgoing: Injector::new(outgoing),
            incoming: Injector::new(incoming),
            ignored: Ignored::default(),
        };
        let shared = Arc::new(Shared { link, host: Host::OURS, state: Mutex::new(state), met: Condvar::new() });
        let (arrivals, inbox) = mpsc::channel();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.listen(&arrivals)
        });
        FramePort { shared, inbox, thread: Some(thread) }
    }

    /// The faults so far of frames sent, and of frames that came in.
    pub fn fault_counts(&self) -> (FaultCounts, FaultCounts) {
        self.fault_control().counts()
    }

    /// Replaces the faults from here on; scripted faults count frames from 0 again. Frames held back are lost.
    pub fn set_faults(&mut self, outgoing: Faults, incoming: Faults) {
        self.fault_control().set(outgoing, incoming);
    }

    /// Sets and counts the faults when something else owns the port.
    pub fn fault_control(&self) -> FaultControl {
        FaultControl(Arc::clone(&self.shared))
    }

    /// What came in and was not handed out.
    pub fn ignored(&self) -> Ignored {
        self.shared.state().ignored.clone()
    }

    /// Sends a datagram. The first one to an address asks for the neighbour's Ethernet address and waits for the
    /// answer.
    ///
    /// # Errors
    /// If the neighbour does not answer, or the link fails.
    pub fn send_udp(&mut self, datagram: &Udp) -> io::Result<()> {
        self.send_packet(datagram.dst, &datagram.emit())
    }

    /// Sends a whole IP packet to the neighbour with this address.
    ///
    /// # Errors
    /// As [`FramePort::send_udp`].
    pub fn send_packet(&mut self, dst: IpAddr, packet: &[u8]) -> io::Result<()> {
        let mac = self.shared.neighbour(dst)?;
        let kind = if dst.is_ipv4() { IPV4 } else { IPV6 };
        let frame = ethernet(mac, self.shared.host.mac(), kind, packet);
        let frames = self.shared.state().outgoing.pass(frame, Instant::now());
        frames.iter().try_for_each(|frame| self.shared.link.send(frame))
    }

    /// The next datagram for us, or `None` if none comes in this time; a time of zero only looks.
    ///
    /// # Errors
    /// If the link fails.
    pub fn recv_udp(&mut self, timeout: Duration) -> io::Result<Option<Datagram>> {
        let gone = || io::Error::new(io::ErrorKind::UnexpectedEof, "the link has no other end");
        if timeout.is_zero() {
            return match self.inbox.try_recv() {
                Ok(datagram) => Ok(Some(datagram)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(gone()),
            };
        }
        match self.inbox.recv_timeout(timeout) {
            Ok(datagram) => Ok(Some(datagram)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }

    /// Sends a frame as it is, without faults.
    ///
    /// # Errors
    /// If the link fails.
    pub fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        self.shared.link.send(frame)
    }
}

/// The faults of a port that something else owns.
#[derive(Clone, Debug)]
pub struct FaultControl(Arc<Shared>);

impl FaultControl {
    /// As [`FramePort::set_faults`].
    pub fn set(&self, outgoing: Faults, incoming: Faults) {
        let mut state = self.0.state();
        state.outgoing = Injector::new(outgoing);
        state.incoming = Injector::new(incoming);
    }

    /// As [`FramePort::fault_counts`].
    pub fn counts(&self) -> (FaultCounts, FaultCounts) {
        let state = self.0.state();
        (state.outgoing.counts(), state.incoming.counts())
    }
}

impl Drop for FramePort {
    fn drop(&mut self) {
        self.shared.link.shut_down();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deals with frames until the link fails or is shut down.
    fn listen(&self, arrivals: &Sender<Datagram>) {
        // Frames held back may be added at any time, so the wait is no longer than a part of what they are held for.
        while let Ok(frame) = self.link.receive(HOLD / 4) {
            let now = Instant::now();
            let (outgoing, incoming) = {
                let mut state = self.state();
                let incoming = match frame {
                    Some(frame) => state.incoming.pass(frame, now),
                    None => state.incoming.expired(now),
                };
                (state.outgoing.expired(now), incoming)
            };
            let answers = incoming.iter().filter_map(|frame| self.deal_with(frame, arrivals));
            // What the guest does not take is lost, as on a real link.
            outgoing.into_iter().chain(answers).for_each(|frame| drop(self.link.send(&frame)));
        }
    }

    /// The Ethernet address behind an IP address of the link's network.
    fn neighbour(&self, address: IpAddr) -> io::Result<Mac> {
        let deadline = Instant::now() + NEIGHBOUR_PATIENCE;
        let mut state = self.state();
        while Instant::now() < deadline {
            if let Some(mac) = state.neighbours.get(&address) {
                return Ok(*mac);
            }
            self.link.send(&self.question(address))?;
            (state, _) = self
                .met
                .wait_timeout_while(state, NEIGHBOUR_RETRY, |state| !state.neighbours.contains_key(&address))
                .unwrap_or_else(PoisonError::into_inner);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("nobody answers for {address}")))
    }

    /// The frame that asks for an address.
    fn question(&self, address: IpAddr) -> Vec<u8> {
        let mac = self.host.mac();
        match address {
            IpAddr::V4(address) => {
                let request = Arp { reply: false, sender: (mac, self.host.ipv4()), target: ([0; 6], address) };
                ethernet([0xff; 6], mac, ARP, &request.emit())
            }
            IpAddr::V6(address) => {
                let group = solicited_node(address);
                let src = if address.is_unicast_link_local() { self.host.link_local() } else { self.host.ipv6() };
                let link = Some(mac);
                let message = Neighbour { advertisement: false, src, dst: group, target: address, link };
                ethernet(multicast_mac(group), mac, IPV6, &message.emit())
            }
        }
    }

    /// Hands out or learns what a frame brings, and gives the frame that answers it.
    fn deal_with(&self, frame: &[u8], arrivals: &Sender<Datagram>) -> Option<Vec<u8>> {
        let kind = ethertype(frame);
        let packet = frame.get(ETHERNET_HEADER..).unwrap_or_default();
        if kind == Some(ARP)
            && let Some(arp) = Arp::parse(packet)
        {
            return self.deal_with_arp(arp);
        }
        if kind == Some(IPV6)
            && let Some(message) = Neighbour::parse(packet)
        {
            return self.deal_with_neighbour(message);
        }
        let for_us = frame.starts_with(&self.host.mac()) && (kind == Some(IPV4) || kind == Some(IPV6));
        match Datagram::parse(packet) {
            Ok(datagram) if for_us && self.host.has(datagram.dst) => {
                // Nobody listens any more while the port is being dropped.
                let _ = arrivals.send(datagram);
            }
            Err(reason) if for_us && reason != "not UDP" => {
                *self.state().ignored.broken.entry(reason).or_default() += 1
            }
            _ => self.state().ignored.other += 1,
        }
        None
    }

    fn deal_with_arp(&self, arp: Arp) -> Option<Vec<u8>> {
        if arp.sender.1 != Ipv4Addr::UNSPECIFIED {
            self.meet(arp.sender.1.into(), arp.sender.0);
        }
        if arp.reply || !self.host.has(arp.target.1.into()) {
            return None;
        }
        let mac = self.host.mac();
        let reply = Arp { reply: true, sender: (mac, arp.target.1), target: arp.sender };
        Some(ethernet(arp.sender.0, mac, ARP, &reply.emit()))
    }

    fn deal_with_neighbour(&self, message: Neighbour) -> Option<Vec<u8>> {
        let link = message.link?;
        if message.advertisement {
            self.meet(message.target.into(), link);
            return None;
        }
        // A solicitation from no address looks for a duplicate of its own.
        if message.src == Ipv6Addr::UNSPECIFIED {
            return None;
        }
        self.meet(message.src.into(), link);
        if !self.host.has(message.target.into()) {
            return None;
        }
        let mac = self.host.mac();
        let answer = Neighbour {
            advertisement: true,
            src: message.target,
            dst: message.src,
            target: message.target,
            link: Some(mac),
        };
        Some(ethernet(link, mac, IPV6, &answer.emit()))
    }

    fn meet(&self, address: IpAddr, mac: Mac) {
        self.state().neighbours.insert(address, mac);
        self.met.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::link::Link;

    const SOON: Duration = Duration::from_secs(5);

    fn guest() -> Host {
        Host::guest(1)
    }

    /// A port and the other end of its link.
    fn port() -> (FramePort, LinkEnd) {
        let Link { left, right } = Link::new().unwrap();
        (FramePort::new(left), right)
    }

    fn guest_sends(end: &LinkEnd, payload: &[u8]) {
        let packet = Udp::roce(guest().ipv4().into(), Host::OURS.ipv4().into(), 0xc001, payload).emit();
        end.send(&ethernet(Host::OURS.mac(), guest().mac(), IPV4, &packet)).unwrap();
    }

    #[test]
    fn arp_is_answered_and_asked() {
        let (mut port, end) = port();
        let request =
            Arp { reply: false, sender: (guest().mac(), guest().ipv4()), target: ([0; 6], Host::OURS.ipv4()) };
        end.send(&ethernet([0xff; 6], guest().mac(), ARP, &request.emit())).unwrap();
        let reply = end.receive(SOON).unwrap().unwrap();
        assert_eq!(reply[..12], [guest().mac(), Host::OURS.mac()].concat());
        let expected =
            Arp { reply: true, sender: (Host::OURS.mac(), Host::OURS.ipv4()), target: (guest().mac(), guest().ipv4()) };
        assert_eq!(Arp::parse(&reply[14..]), Some(expected));
        // The request has told the guest's address: no question before this datagram.
        port.send_udp(&Udp::roce(Host::OURS.ipv4().into(), guest().ipv4().into(), 9, b"payload")).unwrap();
        let frame = end.receive(SOON).unwrap().unwrap();
        assert_eq!(frame[..14], [&guest().mac()[..], &Host::OURS.mac(), &[8, 0]].concat());
        assert_eq!(Datagram::parse(&frame[14..]).unwrap().payload(), b"payload");
    }

    #[test]
    fn an_unknown_neighbour_is_asked_for_and_datagrams_wait_meanwhile() {
        let (mut port, end) = port();
        let advertisement = Neighbour {
            advertisement: true,
            src: guest().ipv6(),
            dst: Host::OURS.ipv6(),
            target: guest().ipv6(),
            link: Some(guest().mac()),
        };
        let sender = std::thread::spawn(move || {
            port.send_udp(&Udp::roce(Host::OURS.ipv6().into(), guest().ipv6().into(), 9, b"payload")).unwrap();
            port
        });
        let question = end.receive(SOON).unwrap().unwrap();
        assert_eq!(question[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
        assert_eq!(Neighbour::parse(&question[14..]).unwrap().target, guest().ipv6());
        guest_sends(&end, b"meanwhile");
        end.send(&ethernet(Host::OURS.mac(), guest().mac(), IPV6, &advertisement.emit())).unwrap();
        let frame = end.receive(SOON).unwrap().unwrap();
        assert_eq!(frame[..6], guest().mac());
        let mut port = sender.join().unwrap();
        assert_eq!(port.recv_udp(SOON).unwrap().unwrap().payload(), b"meanwhile");
    }

    #[test]
    fn a_solicitation_is_answered() {
        let (_port, end) = port();
        let group = solicited_node(Host::OURS.link_local());
        let target = Host::OURS.link_local();
        let question =
            Neighbour { advertisement: false, src: guest().ipv6(), dst: group, target, link: Some(guest().mac()) };
        end.send(&ethernet(multicast_mac(group), guest().mac(), IPV6, &question.emit())).unwrap();
        let answer = end.receive(SOON).unwrap().unwrap();
        let answer = Neighbour::parse(&answer[14..]).unwrap();
        assert_eq!((answer.advertisement, answer.target, answer.link), (true, target, Some(Host::OURS.mac())));
        assert_eq!(answer.dst, guest().ipv6());
    }

    #[test]
    fn faults_of_incoming_frames_and_broken_packets_are_counted() {
        let Link { left, right: end } = Link::new().unwrap();
        let mut port = FramePort::with_faults(left, Faults::None, Faults::script([(0, Fault::Drop)]));
        guest_sends(&end, b"lost");
        guest_sends(&end, b"arrives");
        let mut broken = Udp::roce(guest().ipv4().into(), Host::OURS.ipv4().into(), 1, b"broken").emit();
        broken[8] ^= 1;
        end.send(&ethernet(Host::OURS.mac(), guest().mac(), IPV4, &broken)).unwrap();
        guest_sends(&end, b"last");
        assert_eq!(port.recv_udp(SOON).unwrap().unwrap().payload(), b"arrives");
        assert_eq!(port.recv_udp(SOON).unwrap().unwrap().payload(), b"last");
        assert_eq!(port.fault_counts().1.dropped, 1);
        assert_eq!(port.ignored().broken, BTreeMap::from([("wrong checksum in the IPv4 header", 1)]));
    }

    #[test]
    fn a_held_datagram_goes_out_in_the_end() {
        let Link { left, right: end } = Link::new().unwrap();
        let mut port = FramePort::with_faults(left, Faults::script([(0, Fault::Delay(1))]), Faults::None);
        port.shared.meet(guest().ipv4().into(), guest().mac());
        port.send_udp(&Udp::roce(Host::OURS.ipv4().into(), guest().ipv4().into(), 9, b"late")).unwrap();
        assert!(end.receive(SOON).unwrap().is_some());
        assert_eq!(port.fault_counts().0.delayed, 1);
    }

    #[test]
    fn datagrams_that_came_before_are_handed_out_without_waiting() {
        let (mut port, end) = port();
        assert_eq!(port.recv_udp(Duration::ZERO).unwrap(), None);
        guest_sends(&end, b"one");
        guest_sends(&end, b"two");
        assert_eq!(port.recv_udp(SOON).unwrap().unwrap().payload(), b"one");
        assert_eq!(port.recv_udp(SOON).unwrap().unwrap().payload(), b"two");
        assert_eq!(port.recv_udp(Duration::ZERO).unwrap(), None);
    }
}
