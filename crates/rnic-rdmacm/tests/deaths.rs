//! Processes that are killed, end, or have children that end: what their peers hear. A peer that hears a DREQ gets the
//! event with the status 0; one that notices the death by its probes gets it with the status `-ETIMEDOUT`.

use crate::common::{Running, alone, command, has, library, linked, start};
use crate::interface::compile;
use rnic_ibverbs::keeper::Keeper;
use rnic_netns::{Namespace, Pair};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PORT: u16 = 7_000;

pub(crate) fn program() -> Option<PathBuf> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(compiled).clone()
}

fn compiled() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/deaths.c");
    let [cm, verbs] = rnic_ibverbs::library::ALL.map(|one| library().join(one.name).to_str().unwrap().to_string());
    compile(&source, &[&verbs, &cm, "-lpthread"])
}

/// Starts the program with these arguments, and waits until it has said something.
pub(crate) fn run(namespace: &Namespace, device: &str, arguments: &str, said: &str) -> Running {
    let program = library().join("deaths");
    let mut command = command(&format!("{} {arguments}", program.display()));
    let running = start(namespace, command.env("RNIC_DEVICES", device).env("RNIC_TRACE", "1"));
    await_output(&running, said);
    running
}

fn await_output(running: &Running, said: &str) {
    let begin = Instant::now();
    while !running.output().contains(said) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no `{said}`: {}", running.output());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that a server has heard the end of all its connections by DREQs.
#[track_caller]
pub(crate) fn heard(server: Running, count: usize) {
    let output = server.end().success();
    assert_eq!(output.matches("\ndisconnected, status 0\n").count(), count, "{output}");
}

/// A process of another host is killed. Another process of that host tells its peers, whoever of them is the broker.
#[test]
fn a_survivor_tells_the_peers_of_a_killed_process() {
    if program().is_none() {
        return;
    }
    linked(|pair| {
        let (a, b) = (Pair::A4.to_string(), Pair::B4.to_string());
        for survivor_first in [true, false] {
            let server = run(&pair.a, &a, &format!("server {a} {PORT} 3"), "listens");
            let survive = || run(&pair.b, &b, &format!("listen {b} {PORT}"), "listens");
            let survivor = survivor_first.then(survive);
            let client = run(&pair.b, &b, &format!("client {a} {PORT} 3 wait"), "connected");
            let survivor = survivor.unwrap_or_else(survive);
            client.kill();
            heard(server, 3);
            await_output(&survivor, "has gone: 3 connections were ended, 0 of them without a response");
            survivor.kill();
        }
    });
}

/// The processes of one address: the peer itself survives, as the broker or as its successor.
#[test]
fn a_peer_of_the_same_host_hears_at_once() {
    if program().is_none() {
        return;
    }
    alone(|namespace| {
        let here = |arguments: &str, said: &str| run(namespace, "127.0.0.1", arguments, said);
        // The server is the broker.
        let server = here(&format!("server 127.0.0.1 {PORT} 2"), "listens");
        let client = here(&format!("client 127.0.0.1 {PORT} 2 wait"), "connected");
        client.kill();
        heard(server, 2);
        // A process that is killed together with the client is the broker.
        let broker = here(&format!("listen 127.0.0.1 {}", PORT + 1), "listens");
        let server = here(&format!("server 127.0.0.1 {PORT} 2"), "listens");
        let client = here(&format!("client 127.0.0.1 {PORT} 2 wait"), "connected");
        broker.kill();
        client.kill();
        heard(server, 2);
    });
}

/// A survivor that does not connect by `rdma_cm`, and has the UDP port.
#[test]
fn a_broker_without_connections_tells_the_peers() {
    if program().is_none() || !has("ibv_rc_pingpong") {
        return;
    }
    linked(|pair| {
        let (a, b) = (Pair::A4.to_string(), Pair::B4.to_string());
        let mut broker = command("ibv_rc_pingpong -g 0 -p 30000");
        let mut broker = start(&pair.b, broker.env("RNIC_DEVICES", &b));
        crate::common::await_port(&pair.b, 30_000, &mut broker);
        let server = run(&pair.a, &a, &format!("server {a} {PORT} 1"), "listens");
        run(&pair.b, &b, &format!("client {a} {PORT} 1 wait"), "connected").kill();
        heard(server, 1);
        broker.kill();
    });
}

/// The only program of a host is killed, before which somebody keeps its connections.
#[test]
fn a_keeper_tells_the_peers_of_the_last_program() {
    if program().is_none() {
        return;
    }
    linked(|pair| {
        let (a, b) = (Pair::A4.to_string(), Pair::B4.to_string());
        let (joined, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let server = run(&pair.a, &a, &format!("server {a} {PORT} 4"), "listens");
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                pair.b.run(|| {
                    let mut keeper = Keeper::open(Pair::B4).unwrap();
                    while !ended.load(Ordering::Relaxed) {
                        keeper.watch(Duration::from_millis(10)).unwrap();
                        joined.store(keeper.has_joined(), Ordering::Relaxed);
                    }
                });
            });
            // Two programs, one after the other.
            for _ in 0..2 {
                let client = run(&pair.b, &b, &format!("client {a} {PORT} 2 wait"), "connected");
                let begin = Instant::now();
                while !joined.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // It has got the ledger together with the permission to join, or just after it.
                std::thread::sleep(Duration::from_millis(200));
                client.kill();
                while joined.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            heard(server, 4);
            ended.store(true, Ordering::Relaxed);
            keeper.join().unwrap();
        });
    });
}

/// Children of a process that end, or run another program, end none of its connections. A process that exits ends its
/// own, and no others of its host.
#[test]
fn connections_that_live_on_are_not_ended() {
    if program().is_none() {
        return;
    }
    alone(|namespace| {
        let here = |arguments: &str, said: &str| run(namespace, "127.0.0.1", arguments, said);
        let server = here(&format!("server 127.0.0.1 {PORT} 1"), "listens");
        let other = here(&format!("server 127.0.0.1 {} 2", PORT + 1), "listens");
        let client = here(&format!("client 127.0.0.1 {PORT} 1 fork"), "the children have ended");
        here(&format!("client 127.0.0.1 {} 2 exit", PORT + 1), "connected").end().success();
        heard(other, 2);
        await_output(&server, "message, status 0");
        assert!(!server.output().contains("disconnected"), "{}", server.output());
        client.kill();
        heard(server, 1);
    });
}

/// The only process of a host is killed soon after its connection was established: nobody is left who would tell its
/// peer, which notices it by its probes.
#[test]
fn the_last_process_of_a_host_is_missed() {
    if program().is_none() {
        return;
    }
    linked(|pair| {
        let (a, b) = (Pair::A4.to_string(), Pair::B4.to_string());
        let server = run(&pair.a, &a, &format!("server {a} {PORT} 1"), "listens");
        run(&pair.b, &b, &format!("client {a} {PORT} 1 wait"), "connected").kill();
        let output = server.end().success();
        assert!(output.contains(&format!("\ndisconnected, status {}\n", -libc::ETIMEDOUT)), "{output}");
    });
}
