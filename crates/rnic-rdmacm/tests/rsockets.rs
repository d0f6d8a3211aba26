//! rsockets: the programs of the distribution, and those of the folder `programs`.

use crate::common::{Running, alone_waiting, command, has, start};
use crate::interface::compile;
use crate::ladder::await_listener;
use rnic_netns::Namespace;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Runs a server and its client; returns the output of both.
fn both(namespace: &Namespace, server: &str, client: &str) -> [String; 2] {
    let with = |line: &str| {
        let mut command = command(line);
        command.env("RNIC_TRACE", "1");
        command
    };
    let server: Running = start(namespace, &mut with(server));
    await_listener(&server);
    let client = start(namespace, &mut with(client)).end();
    if !client.status.success() {
        let output = server.output();
        server.kill();
        panic!("{}: {}\nserver: {output}", client.status, client.output);
    }
    [server.end().success(), client.output]
}

/// With messages of any length, a message can reach the end of the send buffer at any byte. A Write wraps around there:
/// otherwise the first Write that ends a few bytes before the end would make all later Writes as short as those few
/// bytes.
#[test]
fn long_messages_are_long_writes() {
    if !has("rstream") {
        return;
    }
    alone_waiting(|namespace| {
        let server = "rstream -S 1000000 -I 5 -C 1 -T v -T n";
        let [server, client] = both(namespace, server, &format!("{server} -s 127.0.0.1"));
        for output in [server, client] {
            let posts = output.matches("ibv_post_send").count();
            // 5 MB, mostly in Writes of 64 KiB, and the peer's credits for them.
            assert!((80..1_000).contains(&posts), "{posts} Writes");
        }
    });
}

/// Each with blocking and non-blocking calls, and with verified data.
#[test]
fn streams_of_rdmacm_utils_run() {
    if !has("rstream") {
        return;
    }
    alone_waiting(|namespace| {
        for options in
            ["-S 1000000 -I 10 -C 1 -T v -T n", "-S 64 -I 200 -C 3 -T b -T v", "-S 65536 -I 20 -C 5 -T a -T v"]
        {
            let server = format!("rstream {options}");
            let [_, client] = both(namespace, &server, &format!("{server} -s 127.0.0.1"));
            assert!(client.contains("Gb/sec"), "{options}: {client}");
        }
        for options in ["-S 65536 -I 20 -C 3 -T v", "-S 4096 -I 50 -C 2 -T n"] {
            let server = format!("riostream {options}");
            let [_, client] = both(namespace, &server, &format!("{server} -s 127.0.0.1"));
            assert!(client.contains("Gb/sec"), "{options}: {client}");
        }
    });
}

#[test]
fn datagrams_of_rdmacm_utils_run() {
    datagrams("127.0.0.1", "udp");
}

#[test]
fn datagrams_of_rdmacm_utils_run_over_ipv6() {
    datagrams("::1", "udp6");
}

/// The server runs until it is killed.
fn datagrams(address: &str, table: &str) {
    if !has("udpong") {
        return;
    }
    alone_waiting(|namespace| {
        let server = start(namespace, command(&format!("udpong -b {address}")).env("RNIC_DEVICES", address));
        let is_bound = || {
            let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
            table.contains(":1C06 ")
        };
        let begin = std::time::Instant::now();
        while !namespace.run(is_bound) {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{}", server.output());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // A client asks again after 1 ms, and its server answers each time, so that a busy machine gets busier: there
        // are few transfers, and one trace. Datagrams without an echo may be lost: nothing limits their sender.
        for (options, trace) in [
            ("-S 1000 -C 10 -T e", "1"),
            ("-S 64 -C 20 -T e -T b", "0"),
            ("-S 1536 -C 20 -T e -T a", "0"),
            ("-S 1000 -C 50", "0"),
        ] {
            let mut client = command(&format!("udpong -s {address} {options}"));
            client.env("RNIC_TRACE", trace).env("RNIC_DEVICES", address);
            let output = start(namespace, &mut client).end().success();
            let over_queue_pairs = trace == "0" || output.contains("go to QP");
            assert!(over_queue_pairs && output.contains("custom"), "{options}: {output}");
        }
        server.kill();
    });
}

#[test]
fn rcopy_copies_a_file() {
    if !has("rcopy") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    let content: Vec<u8> = (0..3_000_017_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &content).unwrap();
    alone_waiting(|namespace| {
        let server = start(namespace, command("rcopy").env("RNIC_TRACE", "1"));
        await_listener(&server);
        let line = format!("rcopy {} 127.0.0.1:{}", from.display(), to.display());
        let output = start(namespace, &mut command(&line)).end().success();
        assert!(std::fs::read(&to).unwrap() == content, "{output}");
        server.kill();
    });
}

/// Makes commands that run `stream.c`, a program for ordinary sockets, with librspreload.so; `None` if the library or a
/// compiler is not installed.
fn over_sockets() -> Option<impl Fn(&str) -> Command> {
    // Tests of this file run at the same time, and all start the one program.
    static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| compile(&programs("stream.c"), &[]));
    let preload = Path::new("/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so");
    let program = PROGRAM.as_deref()?;
    if !preload.exists() {
        eprintln!("skipped: librspreload.so of librdmacm1 is not installed");
        return None;
    }
    Some(move |arguments: &str| {
        let mut command = command(&format!("{} {arguments}", program.display()));
        command.env("RNIC_TRACE", "1").env("LD_PRELOAD", preload);
        command
    })
}

/// A program that knows sockets only.
#[test]
fn programs_with_sockets_run_over_rsockets() {
    let Some(with) = over_sockets() else { return };
    alone_waiting(|namespace| {
        let server = start(namespace, &mut with("server 9000"));
        await_listener(&server);
        let client = start(namespace, &mut with("client 9000 127.0.0.1")).end();
        assert!(client.status.success(), "{}\nserver: {}", client.output, server.output());
        let server = server.end().success();
        for output in [client.output, server] {
            assert!(output.contains("rsocket = ") && output.contains("8000000 bytes are right"), "{output}");
        }
    });
}

fn programs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Right and wrong calls of all functions.
#[test]
fn rsockets_answer_as_sockets_do() {
    let library = crate::common::library().join(rnic_ibverbs::library::RDMACM.name);
    let verbs = crate::common::library().join(rnic_ibverbs::library::IBVERBS.name);
    let arguments = [library.to_str().unwrap(), verbs.to_str().unwrap(), "-lpthread"];
    let Some(program) = compile(&programs("rsockets.c"), &arguments) else { return };
    alone_waiting(|namespace| {
        let mut command = command(&program.display().to_string());
        let output = start(namespace, command.env("RNIC_TRACE", "1")).end().success();
        assert!(output.contains("all calls are right"), "{output}");
    });
}

/// A peer that is killed ends the connection.
#[test]
fn the_death_of_a_peer_ends_a_stream() {
    let Some(with) = over_sockets() else { return };
    alone_waiting(|namespace| {
        let server = start(namespace, &mut with("idle 9001"));
        await_listener(&server);
        let client = start(namespace, &mut with("wait 9001 127.0.0.1"));
        while !client.output().contains("waits") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // It has the connection for a while, so that both ends know that their peer responds to probes.
        std::thread::sleep(std::time::Duration::from_millis(6_000));
        let begin = std::time::Instant::now();
        server.kill();
        let output = client.end().success();
        assert!(output.contains("the peer has gone"), "{output}");
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    });
}
