//! Two network namespaces joined by a virtual cable, for tests and benchmarks of real sockets.
//!
//! The namespaces have no names: they live as long as something of the process is in them or holds them open. So nothing is left
//! behind, however the process ends. Making them needs the right to administer the network: root, or a user namespace, into
//! which [`with_pair`] moves a test by itself where the system allows that.
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

mod test;

pub use test::with_pair;

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::{JoinHandle, scope, spawn};
use std::time::Duration;

/// Why there are no namespaces.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The process may not make them.
    #[error("network namespaces need root or a user namespace (`unshare --user --map-root-user`): {0}")]
    Privilege(#[source] io::Error),
    /// `ip` could not be started.
    #[error("`ip` could not be started; install iproute2: {0}")]
    NoIp(#[source] io::Error),
    /// `ip` failed.
    #[error("`ip {arguments}` failed: {message}")]
    Ip {
        /// What it was asked to do.
        arguments: String,
        /// What it said.
        message: String,
    },
    /// Nothing passes.
    #[error("no datagram crosses the virtual cable: {0}")]
    Cable(#[source] io::Error),
}

/// How often to try whether datagrams cross a new cable, and how long to wait for each: ten seconds in all.
const PROBES: u32 = 1_000;
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

/// A network namespace.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<File>);

impl Namespace {
    /// A new one, in which only the loopback device exists; it is up.
    ///
    /// # Errors
    ///
    /// The process may not make one, or `ip` is missing.
    pub fn new() -> Result<Namespace, NetnsError> {
        let made = spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = join(made).map_err(NetnsError::Privilege)?;
        let namespace = Namespace(Arc::new(file));
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Runs `work` in a thread inside the namespace and waits for it. Sockets it opens, and processes it starts, stay in there.
    ///
    /// # Panics
    ///
    /// If `work` does.
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

    /// Starts a process inside the namespace, which is killed when the handle is dropped.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`].
    pub fn child(&self, command: &mut Command) -> io::Result<KilledChild> {
        self.run(|| command.spawn()).map(KilledChild)
    }

    /// Runs `ip` with these arguments, separated by spaces, inside the namespace.
    ///
    /// # Errors
    ///
    /// It is not installed, or fails.
    pub fn ip(&self, arguments: &str) -> Result<(), NetnsError> {
        let output = self.run(|| Command::new("ip").args(arguments.split_whitespace()).output());
        let output = output.map_err(NetnsError::NoIp)?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
        Err(NetnsError::Ip { arguments: arguments.to_string(), message })
    }

    /// A path by which other processes of the same user can open it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Moves the calling thread into it. A process that may make a namespace may also enter it.
    fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("a namespace of the process's own can be entered");
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct KilledChild(Child);

impl Deref for KilledChild {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for KilledChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        // It fails for one that has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two namespaces and a virtual cable between them.
///
/// The device is called `veth` at either end. Neighbours are known from the start, so that the first datagram meets what all others do.
#[derive(Clone, Debug)]
pub struct Pair {
    /// One end, with [`Pair::A4`] and [`Pair::A6`].
    pub a: Namespace,
    /// The other, with [`Pair::B4`] and [`Pair::B6`].
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

    /// Two namespaces whose cable carries IP packets of up to `mtu` bytes.
    ///
    /// # Errors
    ///
    /// As [`Namespace::new`], or the cable cannot be made: no such device in the kernel, or an MTU below 1280 (IPv6's smallest) or
    /// above 65535.
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
            await_cable(&pair.a, a, &pair.b, b)?;
        }
        Ok(pair)
    }
}

/// Waits until datagrams cross in both directions: the kernel brings up the ends some time after it was told.
fn await_cable(a: &Namespace, a_address: IpAddr, b: &Namespace, b_address: IpAddr) -> Result<(), NetnsError> {
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
    last.map_err(NetnsError::Cable)
}
