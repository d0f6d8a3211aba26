//! Links: raw Ethernet frames over a pair of connected local datagram sockets.
//!
//! The sockets keep the order of frames and lose no frame: a sender waits while the receiver's queue is full. So every
//! lost frame is an injected fault. The sockets have neither names nor ports, so they leave no files behind, and no
//! case can use the link of another case.

use crate::fault::{FaultCounts, Faults, Injector};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::fmt::Debug;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum length of a frame in bytes: the largest IP packet and an Ethernet header.
pub(crate) const LONGEST: usize = 65_535 + 14;

/// Timeout of a sender whose receiver does not read.
const SEND_PATIENCE: Duration = Duration::from_secs(5);

/// A link with two equivalent ends.
#[derive(Debug)]
pub struct Link {
    /// One end.
    pub left: LinkEnd,
    /// The other end.
    pub right: LinkEnd,
}

impl Link {
    /// Creates a link.
    ///
    /// # Errors
    /// If the system cannot create the sockets.
    pub fn new() -> io::Result<Link> {
        let (left, right) = UnixDatagram::pair()?;
        for end in [&left, &right] {
            end.set_write_timeout(Some(SEND_PATIENCE))?;
        }
        Ok(Link { left: LinkEnd { socket: left }, right: LinkEnd { socket: right } })
    }
}

/// A port that sends and receives Ethernet frames.
pub trait Frames: Debug + Send + Sync {
    /// Sends a frame.
    ///
    /// # Errors
    /// If the other end is closed, or does not read the frame in time.
    fn send(&self, frame: &[u8]) -> io::Result<()>;

    /// Waits for the next frame, up to `timeout`; `None` if no frame arrived. A timeout of zero does not wait.
    ///
    /// # Errors
    /// If the other end is closed.
    fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>>;

    /// Closes the port: waiting calls of `receive` return.
    fn shut_down(&self);
}

/// One end of a link.
#[derive(Debug)]
pub struct LinkEnd {
    socket: UnixDatagram,
}

impl LinkEnd {
    /// Returns the socket as a file descriptor, which qemu inherits.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.socket.into()
    }
}

impl Frames for LinkEnd {
    /// Sends a frame. Fails if the receiver's queue is full and the receiver does not read for five seconds.
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.send(frame).map(|_| ())
    }

    fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        // `poll` has a finer timeout than the socket itself, whose timeout counts the kernel's ticks.
        let timeout = Timespec::try_from(timeout).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut waiting = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let closed = waiting[0].revents().contains(PollFlags::HUP);
        let mut frame = vec![0; LONGEST];
        match recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                frame.truncate(length);
                Ok(Some(frame))
            }
            Err(Errno::AGAIN) if closed => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn shut_down(&self) {
        // An error means that the socket was already shut down.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Forwards frames between two ends and injects faults, until it is dropped.
#[derive(Debug)]
pub struct Relay {
    ends: [Arc<dyn Frames>; 2],
    threads: Vec<JoinHandle<()>>,
    counts: [Arc<Mutex<FaultCounts>>; 2],
}

impl Relay {
    /// Starts a relay between two ends. It injects `to_right` into frames from `left` to `right`, and `to_left` into
    /// frames from `right` to `left`.
    pub fn new(left: impl Frames + 'static, right: impl Frames + 'static, to_right: Faults, to_left: Faults) -> Relay {
        let (left, right): (Arc<dyn Frames>, Arc<dyn Frames>) = (Arc::new(left), Arc::new(right));
        let counts = [(); 2].map(|()| Arc::new(Mutex::new(FaultCounts::default())));
        let threads = vec![
            spawn(Arc::clone(&left), Arc::clone(&right), to_right, Arc::clone(&counts[0])),
            spawn(Arc::clone(&right), Arc::clone(&left), to_left, Arc::clone(&counts[1])),
        ];
        Relay { ends: [left, right], threads, counts }
    }

    /// Returns the counts of frames and faults so far: first from `left` to `right`, then from `right` to `left`.
    pub fn counts(&self) -> [FaultCounts; 2] {
        [0, 1].map(|direction| *self.counts[direction].lock())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for end in &self.ends {
            end.shut_down();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn(
    from: Arc<dyn Frames>, to: Arc<dyn Frames>, faults: Faults, counts: Arc<Mutex<FaultCounts>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut injector = Injector::new(faults);
        loop {
            let wait =
                injector.deadline().map_or(Duration::from_secs(1), |at| at.saturating_duration_since(Instant::now()));
            let frames = match from.receive(wait) {
                Ok(Some(frame)) => injector.pass(frame, Instant::now()),
                Ok(None) => injector.expired(Instant::now()),
                Err(_) => return,
            };
            *counts.lock() = injector.counts();
            for frame in frames {
                // Sending fails if the guest has ended. The case notices the end of a guest elsewhere.
                let _ = to.send(&frame);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::frame::{IPV4, Udp, ethernet};

    fn roce(number: u8) -> Vec<u8> {
        let packet = Udp::roce("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), 1, &[number; 16]).emit();
        ethernet([2; 6], [4; 6], IPV4, &packet)
    }

    #[test]
    fn a_link_carries_frames_both_ways_in_order() {
        let Link { left, right } = Link::new().unwrap();
        left.send(b"first").unwrap();
        left.send(b"second").unwrap();
        right.send(&[7; LONGEST]).unwrap();
        assert_eq!(right.receive(Duration::from_secs(1)).unwrap().unwrap(), b"first");
        assert_eq!(right.receive(Duration::ZERO).unwrap().unwrap(), b"second");
        assert_eq!(right.receive(Duration::ZERO).unwrap(), None);
        assert_eq!(left.receive(Duration::ZERO).unwrap().unwrap().len(), LONGEST);
    }

    #[test]
    fn a_relay_joins_two_links_and_counts() {
        let (a, b) = (Link::new().unwrap(), Link::new().unwrap());
        let relay = Relay::new(a.right, b.left, Faults::script([(0, Fault::Drop)]), Faults::None);
        for number in 0..3 {
            a.left.send(&roce(number)).unwrap();
            b.right.send(&roce(number)).unwrap();
        }
        let patience = Duration::from_secs(5);
        for number in 1..3 {
            assert_eq!(b.right.receive(patience).unwrap().unwrap(), roce(number));
        }
        for number in 0..3 {
            assert_eq!(a.left.receive(patience).unwrap().unwrap(), roce(number));
        }
        let [right, left] = relay.counts();
        assert_eq!((right.frames, right.dropped, left.frames, left.dropped), (3, 1, 3, 0));
    }
}
