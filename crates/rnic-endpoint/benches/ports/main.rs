//! Compares ways to move batches of datagrams through the kernel: the system calls that `UdpPort` uses, several batches
//! per system call, io_uring, and AF_XDP.
//!
//! `cargo bench -p rnic-endpoint --bench ports` prints the CPU time of one thread per datagram, as median, minimum and
//! maximum of several repetitions. The repetitions of alternatives alternate, so that other load on the machine affects
//! all of them alike. One thread sends and then receives, over a virtual link between two network namespaces, so the
//! numbers do not depend on how two threads meet. `-- TEXT` runs only the lines that contain the text. The bench needs
//! root.
//!
//! The bench does not cover a NIC whose driver gives AF_XDP its buffers without copies, and a third core that polls for
//! io_uring.
#![allow(missing_docs, reason = "a program, not a library")]
#![allow(unsafe_code, reason = "rings that the kernel shares have no safe interface")]

mod uring;
mod xdp;

use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, sendmmsg, sendmsg};
use rnic_endpoint::clock::thread_cpu_time;
use rnic_netns::Pair;
use socket2::Socket;
use std::error::Error;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

type Failure = Box<dyn Error + Send + Sync>;

/// Batches that are sent before they are received. They fit into the receive buffer.
const BATCHES: usize = 8;
const REPEAT: usize = 15;
/// Rounds of sending and receiving `BATCHES` batches in one repetition.
const ROUNDS: usize = 60;
const PORT: u16 = 4_791;

/// Datagrams of one length for one `UDP_SEGMENT` call.
#[derive(Clone, Copy)]
struct Shape {
    segment: usize,
    count: usize,
}

impl Shape {
    fn bytes(self) -> usize {
        self.segment * self.count
    }
}

/// A way of sending: it sends `BATCHES` batches of the bytes.
type Sending<'a> = Box<dyn FnMut(&[u8], Shape) -> Result<(), Failure> + 'a>;
/// A way of receiving: it receives all datagrams that have arrived, and returns their bytes.
type Receiving<'a> = Box<dyn FnMut() -> Result<usize, Failure> + 'a>;

/// The sockets of the two namespaces.
struct Sockets {
    from: UdpSocket,
    to: UdpSocket,
    destination: SockaddrIn,
}

impl Sockets {
    fn open(pair: &Pair, merge: bool) -> Result<Sockets, Failure> {
        let open = |ip, port| -> std::io::Result<UdpSocket> {
            let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM.nonblocking(), None)?;
            socket.bind(&SocketAddr::new(ip, port).into())?;
            Ok(socket.into())
        };
        let from = pair.a.run(|| open(Pair::A4, 0))?;
        let to = pair.b.run(|| open(Pair::B4, PORT))?;
        nix::sys::socket::setsockopt(&to, nix::sys::socket::sockopt::RcvBufForce, &(16 << 20))?;
        nix::sys::socket::setsockopt(&from, nix::sys::socket::sockopt::SndBufForce, &(16 << 20))?;
        nix::sys::socket::setsockopt(&to, nix::sys::socket::sockopt::UdpGroSegment, &merge)?;
        let SocketAddr::V4(destination) = SocketAddr::new(Pair::B4, PORT) else { unreachable!() };
        Ok(Sockets { from, to, destination: destination.into() })
    }

    /// One `sendmsg` for each batch, as `UdpPort` does.
    fn sendmsg(&self) -> Sending<'_> {
        Box::new(|data, shape| {
            let segment = shape.segment as u16;
            for _ in 0..BATCHES {
                let control = [ControlMessage::UdpGsoSegments(&segment)];
                let (data, to) = ([IoSlice::new(data)], Some(&self.destination));
                sendmsg(self.from.as_raw_fd(), &data, &control, MsgFlags::empty(), to)?;
            }
            Ok(())
        })
    }

    /// One `sendmmsg` for all batches.
    fn sendmmsg(&self) -> Sending<'_> {
        let mut headers = MultiHeaders::preallocate(BATCHES, Some(nix::cmsg_space!(u16)));
        Box::new(move |data, shape| {
            let segment = shape.segment as u16;
            let control = [ControlMessage::UdpGsoSegments(&segment)];
            let (slices, to) = ([[IoSlice::new(data)]; BATCHES], [Some(self.destination); BATCHES]);
            let sent = sendmmsg(self.from.as_raw_fd(), &mut headers, &slices, to, control, MsgFlags::empty())?.count();
            if sent == BATCHES { Ok(()) } else { Err(format!("{sent} of {BATCHES} batches were sent").into()) }
        })
    }

    /// One `recvmsg` for each arrival, until there is none, as `UdpPort` does.
    fn recv(&self) -> Receiving<'_> {
        let mut buffer = vec![0; 65_535];
        Box::new(move || {
            let mut bytes = 0;
            loop {
                match self.to.recv(&mut buffer) {
                    Ok(count) => bytes += count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(bytes),
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }

    /// One `recvmmsg` for up to `BATCHES` arrivals.
    fn recvmmsg(&self) -> Receiving<'_> {
        let mut buffers = vec![vec![0u8; 65_535]; BATCHES];
        Box::new(move || {
            let mut bytes = 0;
            loop {
                // What they cost is little beside the system call.
                let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| [std::io::IoSliceMut::new(buffer)]).collect();
                let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCHES, None);
                let fd = self.to.as_raw_fd();
                match nix::sys::socket::recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::empty(), None) {
                    Ok(messages) => {
                        let counts: Vec<usize> = messages.map(|message| message.bytes).collect();
                        bytes += counts.iter().sum::<usize>();
                        if counts.len() < BATCHES {
                            return Ok(bytes);
                        }
                    }
                    Err(nix::errno::Errno::EAGAIN) => return Ok(bytes),
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }
}

/// Nanoseconds of CPU time per datagram: of sending and of receiving, in each repetition.
#[derive(Default)]
struct Samples {
    send: Vec<f64>,
    receive: Vec<f64>,
    error: Option<String>,
}

/// Runs one repetition; adds its results to `samples`.
fn repetition(send: &mut Sending<'_>, receive: &mut Receiving<'_>, data: &[u8], shape: Shape, samples: &mut Samples) {
    let mut run = || -> Result<(f64, f64), Failure> {
        let (mut sending, mut receiving) = (0.0, 0.0);
        let all = BATCHES * shape.bytes();
        for _ in 0..ROUNDS {
            let start = thread_cpu_time();
            send(data, shape)?;
            let middle = thread_cpu_time();
            let mut bytes = 0;
            // Softirqs deliver the datagrams, mostly before the sending call returns.
            for _ in 0..1_000_000 {
                bytes += receive()?;
                if bytes >= all {
                    break;
                }
            }
            let end = thread_cpu_time();
            if bytes != all {
                return Err(format!("{bytes} of {all} bytes arrived").into());
            }
            sending += (middle - start).as_us();
            receiving += (end - middle).as_us();
        }
        let datagrams = (ROUNDS * BATCHES * shape.count) as f64;
        Ok((sending * 1e3 / datagrams, receiving * 1e3 / datagrams))
    };
    match run() {
        Ok((sending, receiving)) => {
            samples.send.push(sending);
            samples.receive.push(receiving);
        }
        Err(error) => samples.error = Some(error.to_string()),
    }
}

fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    match values {
        [] => String::new(),
        _ => format!("{:>9.1} ({:.1} to {:.1})", values[values.len() / 2], values[0], values[values.len() - 1]),
    }
}

fn main() -> Result<(), Failure> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (mtu, segment) in [(1_500, 64), (1_500, 1_472), (9_000, 8_972)] {
        let shape = Shape { segment, count: (65_000 / segment).min(64) };
        let data = vec![7; shape.bytes()];
        println!(
            "\n{} datagrams of {segment} B in a batch, {BATCHES} batches, MTU {mtu}: CPU time in ns per datagram",
            shape.count
        );
        let pair = Pair::new(mtu)?;
        let sockets = Sockets::open(&pair, true)?;
        let xdp_pair = Pair::new(mtu)?;
        let mut ways: Vec<(&str, Sending<'_>, Receiving<'_>)> = vec![
            ("sendmsg / recvmsg", sockets.sendmsg(), sockets.recv()),
            ("sendmmsg / recvmmsg", sockets.sendmmsg(), sockets.recvmmsg()),
        ];
        for zero_copy in [false, true] {
            let name = if zero_copy { "io_uring, SENDMSG_ZC / RECVMSG" } else { "io_uring, SENDMSG / RECVMSG" };
            let (from, to) = (sockets.from.as_raw_fd(), sockets.to.as_raw_fd());
            match uring::ways(from, to, sockets.destination, zero_copy) {
                Ok((send, receive)) => ways.push((name, send, receive)),
                Err(error) => println!("{name:<40} not possible: {error}"),
            }
        }
        // XDP without fragments carries frames of up to a page.
        if mtu <= 3_000 {
            match xdp::ways(&xdp_pair, shape) {
                Ok((send, receive)) => ways.push(("AF_XDP in copy mode, both ends", send, receive)),
                Err(error) => println!("AF_XDP not possible: {error}"),
            }
        }
        ways.retain(|(name, ..)| name.contains(&wanted));
        let mut samples: Vec<Samples> = ways.iter().map(|_| Samples::default()).collect();
        for _ in 0..REPEAT {
            for ((_, send, receive), samples) in ways.iter_mut().zip(&mut samples) {
                repetition(send, receive, &data, shape, samples);
            }
        }
        for ((name, ..), samples) in ways.iter().zip(&mut samples) {
            let (send, receive) = (spread(&mut samples.send), spread(&mut samples.receive));
            println!("{name:<40} send {send:<28} receive {receive:<28}");
            if let Some(error) = &samples.error {
                println!("{name:<40} failed: {error}");
            }
        }
    }
    Ok(())
}

/// Index of the virtual link's device in the namespace of the calling thread.
fn device_index() -> Result<u32, Failure> {
    Ok(nix::net::if_::if_nametoindex("veth")?)
}
