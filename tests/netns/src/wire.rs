//! A wire between two network devices of a namespace that can lose and delay frames. It forwards frames between the
//! devices with packet sockets, so it does not need the kernel's queueing disciplines.

use crate::Namespace;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{bind, recvfrom, send, setsockopt, socket};
use nix::sys::time::TimeVal;
use parking_lot::Mutex;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The loss and the delay that a wire applies to frames.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fault {
    /// Probability that a frame is lost, 0 to 1.
    pub loss: f64,
    /// Delay of each frame.
    pub delay: Duration,
}

/// A running wire. It ends when it is dropped.
#[derive(Debug)]
pub struct Wire {
    fault: Arc<Mutex<Fault>>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Wire {
    /// Joins two devices of a namespace, in both directions and without fault.
    ///
    /// # Errors
    ///
    /// If a device does not exist, or the process lacks the privilege for packet sockets.
    pub fn new(namespace: &Namespace, devices: [&str; 2]) -> io::Result<Wire> {
        let sockets = namespace.run(|| -> io::Result<[Arc<OwnedFd>; 2]> {
            Ok([Arc::new(open(devices[0])?), Arc::new(open(devices[1])?)])
        })?;
        let mut wire = Wire { fault: Arc::default(), ended: Arc::default(), threads: Vec::new() };
        for (from, to) in [(0, 1), (1, 0)] {
            let (input, output) = (sockets[from].clone(), sockets[to].clone());
            let (fault, ended) = (wire.fault.clone(), wire.ended.clone());
            let (frames, due) = mpsc::channel();
            wire.threads.push(std::thread::spawn(move || receive(&input, &fault, &ended, &frames, from as u64)));
            wire.threads.push(std::thread::spawn(move || deliver(&output, &due)));
        }
        Ok(wire)
    }

    /// Changes the fault of both directions, for the frames that arrive from now on.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread was already reported in that thread.
            let _ = thread.join();
        }
    }
}

fn open(device: &str) -> io::Result<OwnedFd> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("there is no device {device}"));
    let link = |name: &str, address: Option<nix::sys::socket::SockaddrStorage>| -> Option<LinkAddr> {
        (name == device).then_some(address?.as_link_addr().copied()).flatten()
    };
    let address = getifaddrs()?.find_map(|entry| link(&entry.interface_name, entry.address)).ok_or_else(missing)?;
    let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    bind(fd.as_raw_fd(), &address)?;
    setsockopt(&fd, ReceiveTimeout, &TimeVal::new(0, 100_000))?;
    Ok(fd)
}

#[expect(clippy::disallowed_methods, reason = "a wire delays frames in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Receives frames until the wire ends, and passes on the frames that are not lost.
fn receive(
    input: &OwnedFd, fault: &Mutex<Fault>, ended: &AtomicBool, frames: &mpsc::Sender<(Instant, Vec<u8>)>, seed: u64,
) {
    let mut buffer = vec![0; 65_536];
    let mut state = seed;
    while !ended.load(Ordering::Relaxed) {
        let Ok((len, from)) = recvfrom::<LinkAddr>(input.as_raw_fd(), &mut buffer) else { continue };
        // Packet sockets see the frames that they send, too.
        if from.is_some_and(|from| from.as_ref().sll_pkttype == OUTGOING) {
            continue;
        }
        let Fault { loss, delay } = *fault.lock();
        // SplitMix64 (Steele, Lea, Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let drawn = ((z ^ (z >> 27)) >> 11) as f64 / (1u64 << 53) as f64;
        if drawn >= loss {
            let mut frame = buffer[..len].to_vec();
            without_checksum(&mut frame);
            if frames.send((now() + delay, frame)).is_err() {
                return;
            }
        }
    }
}

/// `PACKET_OUTGOING` of Linux.
const OUTGOING: u8 = 4;

/// Sets the UDP checksum of a frame to 0, which means "no checksum" over IPv4. The sender leaves the checksum to the
/// device, and a packet socket gets the frame before the device computes it.
fn without_checksum(frame: &mut [u8]) {
    let is_udp = frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17);
    let header = frame.get(14).map_or(0, |byte| usize::from(byte & 15) * 4);
    if is_udp && let Some(checksum) = frame.get_mut(14 + header + 6..14 + header + 8) {
        checksum.fill(0);
    }
}

/// Sends frames when their delay has passed, until the receiver ends.
#[expect(clippy::disallowed_methods, reason = "a wire delays frames in real time")]
fn deliver(output: &OwnedFd, frames: &mpsc::Receiver<(Instant, Vec<u8>)>) {
    while let Ok((due, frame)) = frames.recv() {
        sleep(due.saturating_duration_since(now()));
        // A device that is down loses the frame.
        let _ = send(output.as_raw_fd(), &frame, MsgFlags::empty());
    }
}
