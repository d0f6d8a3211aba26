//! Our side's Ethernet port: what a RoCE endpoint outside a guest sends and receives through.

use crate::cable::CableEnd;
use crate::fault::{FaultCounts, Faults, Injector};
use crate::frame::{ARP, Arp, Datagram, ETHERNET_HEADER, IPV4, IPV6, Mac, Neighbour, Udp};
use crate::frame::{ethernet, ethertype, multicast_mac, solicited_node};
use crate::host::Host;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// How long a neighbour is asked for its Ethernet address, and how often.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(30);
const NEIGHBOUR_RETRY: Duration = Duration::from_millis(500);

/// Frames that came in and were neither for us nor of use.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ignored {
    /// Other protocols, other hosts: expected on any cable.
    pub other: u64,
    /// Packets for us that were broken, with the reason: not expected without injected corruption.
    pub broken: BTreeMap<&'static str, u64>,
}

/// An Ethernet port with the addresses of [`Host::OURS`] that answers ARP and neighbour solicitations, and asks them itself.
///
/// Nothing runs in the background: frames are answered while the port is asked for a datagram, or looks for a neighbour.
#[derive(Debug)]
pub struct FramePort {
    cable: CableEnd,
    host: Host,
    neighbours: BTreeMap<IpAddr, Mac>,
    inbox: VecDeque<Datagram>,
    outgoing: Injector,
    incoming: Injector,
    ignored: Ignored,
}

impl FramePort {
    /// A port at one end of a cable.
    pub fn new(cable: CableEnd) -> FramePort {
        FramePort::with_faults(cable, Faults::None, Faults::None)
    }

    /// A port whose RoCE frames suffer faults: those it sends, and those that come in.
    pub fn with_faults(cable: CableEnd, outgoing: Faults, incoming: Faults) -> FramePort {
        FramePort {
            cable,
            host: Host::OURS,
            neighbours: BTreeMap::new(),
            inbox: VecDeque::new(),
            outgoing: Injector::new(outgoing),
            incoming: Injector::new(incoming),
            ignored: Ignored::default(),
        }
    }

    /// The faults so far of frames sent, and of frames that came in.
    pub fn fault_counts(&self) -> (FaultCounts, FaultCounts) {
        (self.outgoing.counts(), self.incoming.counts())
    }

    /// Replaces the faults from here on; scripted faults count frames from 0 again.
    pub fn set_faults(&mut self, outgoing: Faults, incoming: Faults) {
        self.outgoing = Injector::new(outgoing);
        self.incoming = Injector::new(incoming);
    }

    /// What came in and was not handed out.
    pub fn ignored(&self) -> &Ignored {
        &self.ignored
    }

    /// Sends a datagram. The first one to an address asks for the neighbour's Ethernet address and waits for the answer.
    ///
    /// # Errors
    /// If the neighbour does not answer, or the cable fails.
    pub fn send_udp(&mut self, datagram: &Udp) -> io::Result<()> {
        self.send_packet(datagram.dst, &datagram.emit())
    }

    /// Sends a whole IP packet to the neighbour with this address.
    ///
    /// # Errors
    /// As [`FramePort::send_udp`].
    pub fn send_packet(&mut self, dst: IpAddr, packet: &[u8]) -> io::Result<()> {
        let mac = self.neighbour(dst)?;
        let kind = if dst.is_ipv4() { IPV4 } else { IPV6 };
        let frame = ethernet(mac, self.host.mac(), kind, packet);
        for frame in self.outgoing.pass(frame, Instant::now()) {
            self.cable.send(&frame)?;
        }
        Ok(())
    }

    /// The next datagram for us, or `None` if none comes in this time; a time of zero only looks.
    ///
    /// # Errors
    /// If the cable fails.
    pub fn recv_udp(&mut self, timeout: Duration) -> io::Result<Option<Datagram>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(datagram) = self.inbox.pop_front() {
                return Ok(Some(datagram));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let came = self.receive_once(left)?;
            if !came && left.is_zero() {
                return Ok(self.inbox.pop_front());
            }
        }
    }

    /// Sends a frame as it is, without faults.
    ///
    /// # Errors
    /// If the cable fails.
    pub fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        self.cable.send(frame)
    }

    /// The Ethernet address behind an IP address of the cable's network.
    fn neighbour(&mut self, address: IpAddr) -> io::Result<Mac> {
        let deadline = Instant::now() + NEIGHBOUR_PATIENCE;
        while Instant::now() < deadline {
            if let Some(mac) = self.neighbours.get(&address) {
                return Ok(*mac);
            }
            self.solicit(address)?;
            let retry = Instant::now() + NEIGHBOUR_RETRY;
            while !self.neighbours.contains_key(&address) && Instant::now() < retry {
                self.receive_once(retry.saturating_duration_since(Instant::now()))?;
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("nobody answers for {address}")))
    }

    fn solicit(&self, address: IpAddr) -> io::Result<()> {
        let mac = self.host.mac();
        let frame = match address {
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
        };
        self.cable.send(&frame)
    }

    /// Sends what is due, then waits for one frame and deals with it. Returns whether one came.
    fn receive_once(&mut self, timeout: Duration) -> io::Result<bool> {
        let now = Instant::now();
        for frame in self.outgoing.expired(now) {
            self.cable.send(&frame)?;
        }
        for frame in self.incoming.expired(now) {
            self.deal_with(&frame)?;
        }
        let due = [self.outgoing.deadline(), self.incoming.deadline()].into_iter().flatten().min();
        let wait = due.map_or(timeout, |due| timeout.min(due.saturating_duration_since(now)));
        let Some(frame) = self.cable.receive(wait)? else { return Ok(false) };
        for frame in self.incoming.pass(frame, Instant::now()) {
            self.deal_with(&frame)?;
        }
        Ok(true)
    }

    fn deal_with(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(kind) = ethertype(frame) else {
            self.ignored.other += 1;
            return Ok(());
        };
        let packet = &frame[ETHERNET_HEADER..];
        let mac = self.host.mac();
        if kind == ARP
            && let Some(arp) = Arp::parse(packet)
        {
            return self.deal_with_arp(arp);
        }
        if kind == IPV6
            && let Some(message) = Neighbour::parse(packet)
        {
            return self.deal_with_neighbour(message);
        }
        if frame[..6] != mac || (kind != IPV4 && kind != IPV6) {
            self.ignored.other += 1;
            return Ok(());
        }
        match Datagram::parse(packet) {
            Ok(datagram) if self.host.has(datagram.dst) => self.inbox.push_back(datagram),
            Ok(_) | Err("not UDP") => self.ignored.other += 1,
            Err(reason) => *self.ignored.broken.entry(reason).or_default() += 1,
        }
        Ok(())
    }

    fn deal_with_arp(&mut self, arp: Arp) -> io::Result<()> {
        if arp.sender.1 != Ipv4Addr::UNSPECIFIED {
            self.neighbours.insert(arp.sender.1.into(), arp.sender.0);
        }
        if arp.reply || !self.host.has(arp.target.1.into()) {
            return Ok(());
        }
        let mac = self.host.mac();
        let reply = Arp { reply: true, sender: (mac, arp.target.1), target: arp.sender };
        self.cable.send(&ethernet(arp.sender.0, mac, ARP, &reply.emit()))
    }

    fn deal_with_neighbour(&mut self, message: Neighbour) -> io::Result<()> {
        if message.advertisement {
            if let Some(link) = message.link {
                self.neighbours.insert(message.target.into(), link);
            }
            return Ok(());
        }
        // A solicitation from no address looks for a duplicate of its own.
        let Some(link) = message.link.filter(|_| message.src != Ipv6Addr::UNSPECIFIED) else { return Ok(()) };
        self.neighbours.insert(message.src.into(), link);
        if !self.host.has(message.target.into()) {
            return Ok(());
        }
        let mac = self.host.mac();
        let answer = Neighbour {
            advertisement: true,
            src: message.target,
            dst: message.src,
            target: message.target,
            link: Some(mac),
        };
        self.cable.send(&ethernet(link, mac, IPV6, &answer.emit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cable::Cable;
    use crate::fault::Fault;

    const SOON: Duration = Duration::from_secs(5);

    fn guest() -> Host {
        Host::guest(1)
    }

    /// A port and the other end of its cable.
    fn port() -> (FramePort, CableEnd) {
        let Cable { left, right } = Cable::new().unwrap();
        (FramePort::new(left), right)
    }

    fn guest_sends(end: &CableEnd, payload: &[u8]) {
        let packet = Udp::roce(guest().ipv4().into(), Host::OURS.ipv4().into(), 0xc001, payload).emit();
        end.send(&ethernet(Host::OURS.mac(), guest().mac(), IPV4, &packet)).unwrap();
    }

    #[test]
    fn arp_is_answered_and_asked() {
        let (mut port, end) = port();
        let request =
            Arp { reply: false, sender: (guest().mac(), guest().ipv4()), target: ([0; 6], Host::OURS.ipv4()) };
        end.send(&ethernet([0xff; 6], guest().mac(), ARP, &request.emit())).unwrap();
        assert_eq!(port.recv_udp(Duration::ZERO).unwrap(), None);
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
        guest_sends(&end, b"early");
        let advertisement = Neighbour {
            advertisement: true,
            src: guest().ipv6(),
            dst: Host::OURS.ipv6(),
            target: guest().ipv6(),
            link: Some(guest().mac()),
        };
        end.send(&ethernet(Host::OURS.mac(), guest().mac(), IPV6, &advertisement.emit())).unwrap();
        port.send_udp(&Udp::roce(Host::OURS.ipv6().into(), guest().ipv6().into(), 9, b"payload")).unwrap();
        let question = end.receive(SOON).unwrap().unwrap();
        assert_eq!(question[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
        assert_eq!(Neighbour::parse(&question[14..]).unwrap().target, guest().ipv6());
        let frame = end.receive(SOON).unwrap().unwrap();
        assert_eq!(frame[..6], guest().mac());
        assert_eq!(port.recv_udp(Duration::ZERO).unwrap().unwrap().payload(), b"early");
    }

    #[test]
    fn a_solicitation_is_answered() {
        let (mut port, end) = port();
        let group = solicited_node(Host::OURS.link_local());
        let target = Host::OURS.link_local();
        let question =
            Neighbour { advertisement: false, src: guest().ipv6(), dst: group, target, link: Some(guest().mac()) };
        end.send(&ethernet(multicast_mac(group), guest().mac(), IPV6, &question.emit())).unwrap();
        assert_eq!(port.recv_udp(Duration::ZERO).unwrap(), None);
        let answer = end.receive(SOON).unwrap().unwrap();
        let answer = Neighbour::parse(&answer[14..]).unwrap();
        assert_eq!((answer.advertisement, answer.target, answer.link), (true, target, Some(Host::OURS.mac())));
        assert_eq!(answer.dst, guest().ipv6());
    }

    #[test]
    fn faults_of_incoming_frames_and_broken_packets_are_counted() {
        let Cable { left, right: end } = Cable::new().unwrap();
        let mut port = FramePort::with_faults(left, Faults::None, Faults::script([(0, Fault::Drop)]));
        guest_sends(&end, b"lost");
        guest_sends(&end, b"arrives");
        let mut broken = Udp::roce(guest().ipv4().into(), Host::OURS.ipv4().into(), 1, b"broken").emit();
        broken[8] ^= 1;
        end.send(&ethernet(Host::OURS.mac(), guest().mac(), IPV4, &broken)).unwrap();
        assert_eq!(port.recv_udp(SOON).unwrap().unwrap().payload(), b"arrives");
        assert_eq!(port.recv_udp(Duration::from_millis(1)).unwrap(), None);
        assert_eq!(port.fault_counts().1.dropped, 1);
        assert_eq!(port.ignored().broken, BTreeMap::from([("wrong checksum in the IPv4 header", 1)]));
    }

    #[test]
    fn a_held_datagram_goes_out_while_the_port_waits() {
        let Cable { left, right: end } = Cable::new().unwrap();
        let mut port = FramePort::with_faults(left, Faults::script([(0, Fault::Delay(1))]), Faults::None);
        port.neighbours.insert(guest().ipv4().into(), guest().mac());
        port.send_udp(&Udp::roce(Host::OURS.ipv4().into(), guest().ipv4().into(), 9, b"late")).unwrap();
        assert_eq!(end.receive(Duration::ZERO).unwrap(), None);
        assert_eq!(port.recv_udp(crate::fault::HOLD * 2).unwrap(), None);
        assert!(end.receive(Duration::ZERO).unwrap().is_some());
    }
}
