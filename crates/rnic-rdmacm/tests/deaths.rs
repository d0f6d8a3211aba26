//! The events that peers get when a process is killed, ends, or has children that end. The event has the status 0 if
//! the peer has received a DREQ, and `-ETIMEDOUT` if its probes have detected the death.

use crate::common::{await_port, await_text, command, has, start};
use crate::hosts::{PORT, expect_disconnects, one_host, two_hosts};
use rnic_endpoint::port::shared_address::Standby;
use rnic_netns::Pair;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A process of another host is killed. Another process of that host disconnects the peers of the killed process,
/// whichever process is the broker.
#[test]
fn a_survivor_disconnects_the_peers_of_a_killed_process() {
    two_hosts(|a, b| {
        for survivor_first in [true, false] {
            let server = a.serve(PORT, 3);
            let survivor = survivor_first.then(|| b.listen(PORT));
            let client = b.connect(a, 3);
            let survivor = survivor.unwrap_or_else(|| b.listen(PORT));
            client.kill();
            expect_disconnects(server, 3);
            await_text(&survivor, "has gone: 3 connections were ended, 0 of them without a response");
            survivor.kill();
        }
    });
}

/// All processes have the same address: the peer itself survives, as the broker or as the broker's successor.
#[test]
fn a_peer_of_the_same_host_is_disconnected_immediately() {
    one_host(|host| {
        // The server is the broker.
        let server = host.serve(PORT, 2);
        host.connect(host, 2).kill();
        expect_disconnects(server, 2);
        // A process that is killed together with the client is the broker.
        let broker = host.listen(PORT + 1);
        let server = host.serve(PORT, 2);
        let client = host.connect(host, 2);
        broker.kill();
        client.kill();
        expect_disconnects(server, 2);
    });
}

/// A survivor that does not connect by `rdma_cm`, and has the UDP port.
#[test]
fn a_broker_without_connections_tells_the_peers() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    two_hosts(|a, b| {
        let mut broker = command("ibv_rc_pingpong -g 0 -p 30000");
        let mut broker = start(b.namespace, broker.env("RNIC_DEVICES", &b.address));
        await_port(b.namespace, 30_000, &mut broker);
        let server = a.serve(PORT, 1);
        b.connect(a, 1).kill();
        expect_disconnects(server, 1);
        broker.kill();
    });
}

/// The only program of a host is killed. A standby has its connection list.
#[test]
fn a_standby_disconnects_the_peers_of_the_last_program() {
    two_hosts(|a, b| {
        let (joined, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let server = a.serve(PORT, 4);
        std::thread::scope(|scope| {
            let standby = scope.spawn(|| {
                b.namespace.run(|| {
                    let mut standby = Standby::open(Pair::B4).unwrap();
                    while !ended.load(Ordering::Relaxed) {
                        standby.watch(Duration::from_millis(10)).unwrap();
                        joined.store(standby.has_joined(), Ordering::Relaxed);
                    }
                });
            });
            // Two programs, one after the other.
            for _ in 0..2 {
                let client = b.connect(a, 2);
                let begin = Instant::now();
                while !joined.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // It has received the connection list together with the permission to join, or just after it.
                std::thread::sleep(Duration::from_millis(200));
                client.kill();
                while joined.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            expect_disconnects(server, 4);
            ended.store(true, Ordering::Relaxed);
            standby.join().unwrap();
        });
    });
}

/// If a child of a process ends or executes another program, the connections of the process continue. A process that
/// exits ends its own connections, and no other connections of its host.
#[test]
fn connections_that_live_on_are_not_ended() {
    one_host(|host| {
        let server = host.serve(PORT, 1);
        let other = host.serve(PORT + 1, 2);
        let client = host.run(&format!("client {} {PORT} 1 fork", host.address), "the children have ended");
        host.run(&format!("client {} {} 2 exit", host.address, PORT + 1), "connected").end().success();
        expect_disconnects(other, 2);
        await_text(&server, "message, status 0");
        assert!(!server.output().contains("disconnected"), "{}", server.output());
        client.kill();
        expect_disconnects(server, 1);
    });
}

/// The only process of a host is killed soon after its connection was established: no process is left to disconnect its
/// peer, which detects it by its probes.
#[test]
fn the_last_process_of_a_host_is_missed() {
    two_hosts(|a, b| {
        let server = a.serve(PORT, 1);
        b.connect(a, 1).kill();
        let output = server.end().success();
        assert!(output.contains(&format!("\ndisconnected, status {}\n", -libc::ETIMEDOUT)), "{output}");
    });
}
