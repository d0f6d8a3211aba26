//! The Ethernet port of rnic's host, through which a RoCE endpoint outside a guest sends and receives.

use crate::fault::{FaultCounts, Faults, HOLD, Injector};
use crate::frame::{ARP, Arp, Datagram, ETHERNET_HEADER, IPV4, IPV6, Mac, Neighbour, Udp};
use crate::frame::{ethernet, ethertype, multicast_mac, solicited_node};
use crate::host::Host;
use crate::link::{Frames, LinkEnd};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time without a response after which the resolution of a neighbour's Ethernet address fails.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which the request for a neighbour's Ethernet address is repeated.
const NEIGHBOUR_RETRY: Duration = Duration::from_millis(500);

/// Counts of received frames that the port did not pass on to its user.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ignored {
    /// Number of frames of other protocols or to other hosts, which are normal on any link.
    pub other: u64,
    /// Number of broken packets to this port, by the reason. Without injected corruption there should be none.
    pub broken: BTreeMap<&'static str, u64>,
}

/// An Ethernet port with the addresses of [`Host::OURS`].
///
/// A separate thread responds to ARP requests and neighbour solicitations from the start, because the kernel resolves
/// its peer's Ethernet address when a queue pair moves to RTR, and the transition fails without a response. Received
/// datagrams wait in an unbounded queue.
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
    /// Signals that the Ethernet address of a neighbour has become known.
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
    /// Opens a port at one end of a link, without faults.
    pub fn new(link: LinkEnd) -> FramePort {
        FramePort::with_faults(link, Faults::None, Faults::None)
    }

    /// Opens a port with faults: `outgoing` happen to the RoCE frames that it sends, and `incoming` to the RoCE frames
    /// that it receives.
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

    /// Returns the counts of faults so far: first of sent frames, then of received frames.
    pub fn fault_counts(&self) -> (FaultCounts, FaultCounts) {
        self.fault_control().counts()
    }

    /// Replaces the faults of both directions. Scripted faults count frames from 0 again. Frames that are held back at
    /// this moment are lost.
    pub fn set_faults(&mut self, outgoing: Faults, incoming: Faults) {
        self.fault_control().set(outgoing, incoming);
    }

    /// Returns a handle that sets the faults and reads their counts while something else, such as a device, owns the
    /// port.
    pub fn fault_control(&self) -> FaultControl {
        FaultControl(Arc::clone(&self.shared))
    }

    /// Returns the counts of received frames that were not passed on.
    pub fn ignored(&self) -> Ignored {
        self.shared.state().ignored.clone()
    }

    /// Sends a datagram. If the destination's Ethernet address is not known yet, it first resolves the address and
    /// waits for the response.
    ///
    /// # Errors
    /// If address resolution gets no response, or the link fails.
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

    /// Returns the next datagram to this port, or `None` if none arrives within `timeout`. With a timeout of zero it
    /// does not wait.
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

/// A handle to the faults of a port that another object, such as a device, owns.
#[derive(Clone, Debug)]
pub struct FaultControl(Arc<Shared>);

impl FaultControl {
    /// Replaces the faults, as [`FramePort::set_faults`] does.
    pub fn set(&self, outgoing: Faults, incoming: Faults) {
        let mut state = self.0.state();
        state.outgoing = Injector::new(outgoing);
        state.incoming = Injector::new(incoming);
    }

    /// Returns the counts of faults, as [`FramePort::fault_counts`] does.
    pub fn counts(&self) -> (FaultCounts, FaultCounts) {
        let state = self.0.state();
        (state.outgoing.counts(), state.incoming.counts())
    }
}

impl Drop for FramePort {
    fn drop(&mut self) {
        self.shared.link.shut_down();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the panic was already reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Processes received frames until the link fails or is shut down.
    fn listen(&self, arrivals: &Sender<Datagram>) {
        // A frame may be held back at any time by another thread. So the wait is shorter than the time for which frames
        // are held.
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
            // A frame that cannot be sent to the guest is lost, as on a real link.
            outgoing.into_iter().chain(answers).for_each(|frame| drop(self.link.send(&frame)));
        }
    }

    /// Resolves an IP address of the link's network to an Ethernet address.
    fn neighbour(&self, address: IpAddr) -> io::Result<Mac> {
        let deadline = Instant::now() + NEIGHBOUR_PATIENCE;
        let mut state = self.state();
        while Instant::now() < deadline {
            if let Some(mac) = state.neighbours.get(&address) {
                return Ok(*mac);
            }
            self.link.send(&self.question(address))?;
            let is_unknown = |state: &mut State| !state.neighbours.contains_key(&address);
            self.met.wait_while_for(&mut state, is_unknown, NEIGHBOUR_RETRY);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no host responds for {address}")))
    }

    /// Builds the frame that requests the Ethernet address of an IP address: an ARP request or a neighbour
    /// solicitation.
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

    /// Processes a received frame: it passes a datagram on, or learns a neighbour's address. Returns the frame to send
    /// in response, if any.
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
                // Sending fails only while the port is being dropped, and then the datagram is not needed.
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
        // A solicitation from the unspecified address is duplicate address detection and needs no response.
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

    /// Opens a port; returns it with the other end of its link.
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
        // The port has learned the guest's address from the request, so it sends this datagram without a request of its
        // own.
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
