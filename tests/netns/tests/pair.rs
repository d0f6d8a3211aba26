//! Checks that the namespaces are isolated from the host, connected to each other, and removed at the end.

use rnic_netns::{Namespace, NetnsError, Pair, with_pair};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn namespace_id() -> String {
    std::fs::read_link("/proc/thread-self/ns/net").unwrap().display().to_string()
}

#[test]
fn both_address_families_reach_the_other_end_and_nothing_else() {
    with_pair(1_500, |pair| {
        for (from, to) in [(Pair::A4, Pair::B4), (Pair::A6, Pair::B6)] {
            let bound = |ip: IpAddr| UdpSocket::bind(SocketAddr::new(ip, 0)).unwrap();
            let (a, b) = (pair.a.run(|| bound(from)), pair.b.run(|| bound(to)));
            a.send_to(b"over the link", b.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 64];
            let (length, source) = b.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], source), (&b"over the link"[..], a.local_addr().unwrap()));
        }
        // The address of one end does not exist at the other end or on the host.
        assert!(pair.a.run(|| UdpSocket::bind((Pair::B4, 0))).is_err());
        assert!(UdpSocket::bind((Pair::A4, 0)).is_err());
    });
}

#[test]
fn threads_and_processes_are_inside() {
    with_pair(1_500, |pair| {
        let (outside, a, b) = (namespace_id(), pair.a.run(namespace_id), pair.b.spawn(namespace_id).join().unwrap());
        assert!(outside != a && outside != b && a != b, "{outside} {a} {b}");
        let mut command = Command::new("readlink");
        let child = pair.a.child(command.arg("/proc/self/ns/net").stdout(Stdio::piped())).unwrap();
        let mut child = child;
        let mut text = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
        assert_eq!(text.trim(), a);
        assert_eq!(namespace_id(), outside, "the calling thread stays in its namespace");
    });
}

#[test]
fn a_dropped_child_is_killed() {
    with_pair(1_500, |pair| {
        let child = pair.a.child(Command::new("sleep").arg("1000")).unwrap();
        let process = format!("/proc/{}", child.id());
        assert!(std::fs::exists(&process).unwrap());
        drop(child);
        assert!(!std::fs::exists(&process).unwrap());
    });
}

#[test]
fn the_link_has_the_requested_mtu() {
    with_pair(9_000, |pair| {
        for namespace in [&pair.a, &pair.b] {
            let output = namespace.run(|| Command::new("ip").args(["link", "show", "veth"]).output()).unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("mtu 9000"), "{text}");
        }
    });
}

#[test]
fn the_pair_still_works_after_a_panic_inside() {
    with_pair(1_500, |pair| {
        let listener = pair.b.run(|| TcpListener::bind((Pair::B4, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(pair.a.run(|| TcpStream::connect(address)).is_ok());
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pair.a.run(|| panic!("as a test would"))));
        assert!(caught.is_err());
        assert!(pair.a.run(|| TcpStream::connect(address)).is_ok());
    });
}

#[test]
fn errors_name_the_command() {
    let Ok(namespace) = Namespace::new() else {
        return;
    };
    let error = namespace.ip("link set nothing up").unwrap_err();
    assert!(matches!(&error, NetnsError::Ip { .. }));
    assert!(error.to_string().starts_with("`ip link set nothing up` failed: "), "{error}");
    assert!(Pair::new(70_000).is_err());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the kernel is given time to end processes")]
fn a_killed_group_leaves_nobody() {
    with_pair(1_500, |pair| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut group = pair.a.child_group(&mut shell).unwrap();
        let mut line = String::new();
        BufReader::new(group.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // A process that has ended stays in /proc without a command line until its parent waits for it.
        let command = || std::fs::read(format!("/proc/{}/cmdline", line.trim())).unwrap_or_default();
        let becomes = |done: &dyn Fn(&[u8]) -> bool| {
            (0..1_000).any(|_| {
                let is_done = done(&command());
                if !is_done {
                    sleep(Duration::from_millis(10));
                }
                is_done
            })
        };
        // The shell may print the process ID before its child has executed the other program.
        assert!(becomes(&|command| command.starts_with(b"sleep")));
        drop(group);
        assert!(becomes(&<[u8]>::is_empty), "sleep continues");
    });
}
