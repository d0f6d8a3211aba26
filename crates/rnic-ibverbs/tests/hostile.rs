//! Hostile hosts and processes: packets without a request, and arbitrary messages to the broker.

use crate::common::{alone, await_port, both, command, has, start};
use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// Random numbers: xorshift, with 64 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The UDP ports at which processes of the namespace receive.
fn udp_ports() -> Vec<u16> {
    let table = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let local = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    local.filter_map(|address| u16::from_str_radix(address.split(':').nth(1)?, 16).ok()).collect()
}

/// Packets with random bytes, and with headers that are nearly right, to all ports of both ends: the ends still receive
/// every message, and nothing else.
#[test]
fn strangers_packets_change_nothing() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let line = "ibv_rc_pingpong -g 0 -n 2000 -c -e";
        let mut server = start(namespace, &mut command(line));
        await_port(namespace, 18_515, &mut server);
        let client = start(namespace, &mut command(&format!("{line} 127.0.0.1")));
        let sent = namespace.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut random = Random(0x5eed);
            let mut sent = 0;
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(2) {
                for port in udp_ports().into_iter().chain([4_791]) {
                    for _ in 0..20 {
                        let len = random.next() as usize % 1_200;
                        let mut packet: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                        if random.next().is_multiple_of(2) && len >= 12 {
                            // A request of RC with the usual partition key, for any queue pair.
                            packet[..4].copy_from_slice(&[random.next() as u8 % 24, 0, 0xff, 0xff]);
                        }
                        sent += u32::from(socket.send_to(&packet, ("127.0.0.1", port)).is_ok());
                    }
                }
                // Strangers that fill the receive buffers are another matter: no host withstands them.
                std::thread::sleep(Duration::from_millis(5));
            }
            sent
        });
        assert!(sent > 1_000, "{sent}");
        for process in [client, server] {
            let output = process.end().success();
            assert!(output.contains("2000 iters") && !output.contains("invalid data"), "{output}");
        }
    });
}

/// A third host fills the receive buffers of all sockets, so that a slow or busy host receives no packet of its peer.
/// The connection then fails as if the peer were dead, and never delivers wrong data; the next connection works.
#[test]
fn a_flood_ends_a_connection_at_worst() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let line = "ibv_rc_pingpong -g 0 -n 4000 -c -e";
        let mut server = start(namespace, &mut command(line));
        await_port(namespace, 18_515, &mut server);
        let client = start(namespace, &mut command(&format!("{line} 127.0.0.1")));
        let sent = namespace.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let (begin, mut sent) = (Instant::now(), 0);
            while begin.elapsed() < Duration::from_secs(1) {
                for port in udp_ports().into_iter().chain([4_791]) {
                    sent += (0..100).filter(|_| socket.send_to(&[0xab; 1_000], ("127.0.0.1", port)).is_ok()).count();
                }
            }
            sent
        });
        assert!(sent > 1_000, "{sent}");
        for process in [client, server] {
            let ended = process.end();
            let fails = ["retry counter exceeded", "Flushed"].iter().any(|why| ended.output.contains(why));
            let passes = ended.status.success() && ended.output.contains("4000 iters");
            assert!((passes || fails) && !ended.output.contains("invalid data"), "{}", ended.output);
        }
        for output in both(namespace, "ibv_rc_pingpong -g 0 -n 100 -c -e", 18_515, &|_| {}) {
            assert!(output.contains("100 iters") && !output.contains("invalid data"), "{output}");
        }
    });
}

/// Processes that connect to the broker and send no or wrong messages stop neither the broker nor the processes that it
/// serves.
#[test]
fn wrong_messages_do_not_stop_the_broker() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let line = "ibv_rc_pingpong -g 0 -n 500 -c -e";
        let mut server = start(namespace, &mut command(line));
        await_port(namespace, 18_515, &mut server);
        namespace.run(|| {
            let name = SocketAddr::from_abstract_name("rnic/verbs/4/127.0.0.1").unwrap();
            // A socket of another type cannot connect. The library's sockets keep the boundaries of messages.
            assert!(UnixStream::connect_addr(&name).is_err());
        });
        let script = "\
import socket, os, sys
keep = []
for n in range(200):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect('\\0rnic/verbs/4/127.0.0.1')
    try:
        if n % 4 == 1: s.send(os.urandom(n % 90 + 1))
        if n % 4 == 2: s.send(bytes([1, 255, 255, 255, 255, 1, 0]))
        if n % 4 == 3: s.send(bytes([3]) + os.urandom(60000))
        if n % 4: s.send(os.urandom(n % 90 + 1))
    except OSError: pass # the broker has hung up
    keep.append(s)
    if n % 2: keep.pop(0).close()
print('done')
";
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(script.as_bytes()).unwrap();
        if has("python3") {
            // Without the library, which it does not use.
            let mut python = std::process::Command::new("python3");
            let output = start(namespace, python.arg(file.path())).end().success();
            assert!(output.contains("done"), "{output}");
        }
        let client = start(namespace, &mut command(&format!("{line} 127.0.0.1")));
        for process in [client, server] {
            let output = process.end().success();
            assert!(output.contains("500 iters") && !output.contains("invalid data"), "{output}");
        }
    });
}
