//! Two Linux network namespaces connected by a virtual link (veth), for tests and benchmarks with real sockets.
//!
//! The namespaces have no names. The kernel removes a namespace when no thread or process is in it and no file
//! descriptor refers to it. So nothing remains after the process has ended, however it ended. Creating a namespace
//! requires the privilege to administer the network: root, or root in a user namespace. If a test does not have this
//! privilege, [`with_pair`] runs the test in a new user namespace, if the system allows that.
//!
//! ```no_run
//! let pair = rnic_netns::Pair::new(1_500)?;
//! let server = pair.b.run(|| std::net::TcpListener::bind("10.77.0.2:80"))?;
//! let child = pair.a.child(std::process::Command::new("ping").args(["-c", "1", "10.77.0.2"]))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("rnic-netns needs Linux: it uses network namespaces");

mod children;
mod test;
mod wire;

pub use children::{KilledChild, kill_children};
pub use test::{mark_some_packets, with_pair};
pub use wire::{Fault, Wire};

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::Arc;
use std::thread::{JoinHandle, scope, spawn};
use std::time::Duration;

/// The reason why namespaces could not be created.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The process lacks the privilege to create network namespaces.
    #[error("network namespaces need root or a user namespace (`unshare --user --map-root-user`): {0}")]
    Privilege(#[source] io::Error),
    /// The command `ip` could not be started.
    #[error("the command `ip` could not be started; install iproute2: {0}")]
    NoIp(#[source] io::Error),
    /// The command `ip` failed.
    #[error("`ip {arguments}` failed: {message}")]
    Ip {
        /// Arguments of the command.
        arguments: String,
        /// Error message of the command.
        message: String,
    },
    /// No datagram crosses the virtual link.
    #[error("no datagram crossed the virtual link within 10 s: {0}")]
    Link(#[source] io::Error),
}

/// Maximum number of attempts to send datagrams over a new link; with [`PROBE_INTERVAL`] they take up to ten seconds.
const PROBES: u32 = 1_000;
/// Timeout of each attempt to send a datagram over a new link.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// A network namespace.
///
/// ```no_run
/// use std::net::UdpSocket;
///
/// let namespace = rnic_netns::Namespace::new()?;
/// let socket = namespace.run(|| UdpSocket::bind("127.0.0.1:4791"))?;
/// // The same port is free outside, because the namespace has a loopback device of its own.
/// UdpSocket::bind("127.0.0.1:4791")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// Creates a namespace. It has only a loopback device, which is up.
    ///
    /// # Errors
    ///
    /// If the process lacks the privilege, or the command `ip` is missing.
    pub fn new() -> Result<Namespace, NetnsError> {
        let creator = spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = join(creator).map_err(NetnsError::Privilege)?;
        let namespace = Namespace(Arc::new(file));
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Runs `work` in a thread inside the namespace and waits for its result. Sockets that `work` opens and processes
    /// that it starts stay in the namespace.
    ///
    /// # Panics
    ///
    /// If `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            self.enter();
            work()
        };
        scope(|threads| threads.spawn(inside).join().unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Starts a thread inside the namespace.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let namespace = self.clone();
        spawn(move || {
            namespace.enter();
            work()
        })
    }

    /// Starts a process inside the namespace. The process is killed when the returned handle is dropped.
    ///
    /// # Errors
    ///
    /// Like [`Command::spawn`].
    pub fn child(&self, command: &mut Command) -> io::Result<KilledChild> {
        self.run(|| KilledChild::start(command, false))
    }

    /// Like [`Namespace::child`], for a process that starts other processes, such as `mpirun`. All of them are in their
    /// own process group, which is killed as a whole. Ctrl-C on a terminal does not reach this group, so a program that
    /// starts one must call [`kill_children`] when it receives a signal.
    ///
    /// # Errors
    ///
    /// Like [`Command::spawn`].
    pub fn child_group(&self, command: &mut Command) -> io::Result<KilledChild> {
        self.run(|| KilledChild::start(command, true))
    }

    /// Runs the command `ip` inside the namespace. Spaces separate the arguments in `arguments`.
    ///
    /// # Errors
    ///
    /// If the command is not installed, or fails.
    pub fn ip(&self, arguments: &str) -> Result<(), NetnsError> {
        let output = self.run(|| Command::new("ip").args(arguments.split_whitespace()).output());
        let output = output.map_err(NetnsError::NoIp)?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
        Err(NetnsError::Ip { arguments: arguments.to_string(), message })
    }

    /// A path in `/proc` with which other processes of the same user can open the namespace.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Moves the calling thread into the namespace.
    fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET)
            .expect("a process with the privilege to create a namespace has the privilege to enter it");
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Two namespaces and a virtual link between them.
///
/// The network device at each end is called `veth`. The neighbour tables (ARP, NDP) are filled in advance, so that the
/// first datagram is not delayed by address resolution.
///
/// ```no_run
/// use rnic_netns::Pair;
/// use std::net::UdpSocket;
///
/// let pair = Pair::new(1_500)?;
/// let a = pair.a.run(|| UdpSocket::bind((Pair::A4, 0)))?;
/// let b = pair.b.run(|| UdpSocket::bind((Pair::B4, 4791)))?;
/// a.send_to(b"hello", (Pair::B4, 4791))?;
/// let mut buffer = [0; 16];
/// assert_eq!(b.recv_from(&mut buffer)?, (5, a.local_addr()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pair {
    /// The namespace at the end of the link with the addresses [`Pair::A4`] and [`Pair::A6`].
    pub a: Namespace,
    /// The namespace at the end of the link with the addresses [`Pair::B4`] and [`Pair::B6`].
    pub b: Namespace,
}

impl Pair {
    /// IPv4 address of `a`.
    pub const A4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
    /// IPv4 address of `b`.
    pub const B4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
    /// IPv6 address of `a`.
    pub const A6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
    /// IPv6 address of `b`.
    pub const B6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2));

    /// Creates two namespaces and a virtual link between them that carries IP packets of up to `mtu` bytes.
    ///
    /// # Errors
    ///
    /// Like [`Namespace::new`], or if the link cannot be created: the kernel does not support veth devices, or the MTU
    /// is below 1280 (the minimum of IPv6) or above 65535.
    pub fn new(mtu: u32) -> Result<Pair, NetnsError> {
        let pair = Pair { a: Namespace::new()?, b: Namespace::new()? };
        let (mac_a, mac_b) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let other = pair.b.path();
        pair.a.ip(&format!(
            "link add veth address {mac_a} mtu {mtu} type veth peer name veth address {mac_b} mtu {mtu} netns {other}"
        ))?;
        let ends = [(&pair.a, Pair::A4, Pair::A6), (&pair.b, Pair::B4, Pair::B6)];
        for (namespace, v4, v6) in ends {
            namespace.ip(&format!("address add {v4}/24 dev veth"))?;
            namespace.ip(&format!("address add {v6}/64 dev veth nodad"))?;
            namespace.ip("link set veth up")?;
        }
        for (namespace, addresses, mac) in
            [(&pair.a, [Pair::B4, Pair::B6], mac_b), (&pair.b, [Pair::A4, Pair::A6], mac_a)]
        {
            for address in addresses {
                namespace.ip(&format!("neighbour replace {address} lladdr {mac} nud permanent dev veth"))?;
            }
        }
        for (a, b) in [(Pair::A4, Pair::B4), (Pair::A6, Pair::B6)] {
            await_link(&pair.a, a, &pair.b, b)?;
        }
        Ok(pair)
    }
}

/// Waits until datagrams cross the link in both directions, because the kernel brings up the devices asynchronously.
fn await_link(a: &Namespace, a_address: IpAddr, b: &Namespace, b_address: IpAddr) -> Result<(), NetnsError> {
    let crosses = || {
        let open = |namespace: &Namespace, address| namespace.run(|| UdpSocket::bind((address, 0)));
        let sockets = [open(a, a_address)?, open(b, b_address)?];
        let addresses = [sockets[0].local_addr()?, sockets[1].local_addr()?];
        for (from, to) in [(0, 1), (1, 0)] {
            sockets[from].send_to(&[0], addresses[to])?;
            sockets[to].set_read_timeout(Some(PROBE_INTERVAL))?;
            sockets[to].recv_from(&mut [0])?;
        }
        io::Result::Ok(())
    };
    let mut last = crosses();
    for _ in 1..PROBES {
        if last.is_ok() {
            break;
        }
        last = crosses();
    }
    last.map_err(NetnsError::Link)
}
