//! Programs of the distribution that connect by `rdma_cm`.

use crate::common::{Running, alone, await_text, command, has, linked, start};
use rnic_netns::{Namespace, Pair};
use std::time::{Duration, Instant};

/// Runs a server and, as soon as it listens, its client; returns the output of both.
fn both(namespaces: [&Namespace; 2], server: &str, client: &str, devices: [&str; 2]) -> [String; 2] {
    both_after(&|_, server| await_listener(server), namespaces, server, client, devices)
}

/// As [`both`]; `await_server` waits until the server is ready.
fn both_after(
    await_server: &dyn Fn(&Namespace, &Running), namespaces: [&Namespace; 2], server: &str, client: &str,
    devices: [&str; 2],
) -> [String; 2] {
    let with = |line: &str, device: &str| {
        let mut command = command(line);
        command.env("RNIC_DEVICES", device);
        command
    };
    let server = start(namespaces[0], with(server, devices[0]).env("RNIC_TRACE", "1"));
    await_server(namespaces[0], &server);
    let client = start(namespaces[1], &mut with(client, devices[1])).end();
    if !client.status.success() {
        let output = server.output();
        server.kill();
        panic!("{}: {}\nserver: {output}", client.status, client.output);
    }
    [server.end().success(), client.output]
}

/// Waits until a program that writes its trace to standard error listens: programs that connect by `rdma_cm` do not
/// print when they listen.
pub(crate) fn await_listener(server: &Running) {
    await_text(server, "rdma_listen");
}

/// Waits until a table of sockets has an entry.
fn await_entry(namespace: &Namespace, tables: [&str; 2], entry: &str) {
    let begin = Instant::now();
    let exists = || {
        let table = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        tables.iter().any(|name| table(name).contains(entry))
    };
    while !namespace.run(exists) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const LOCAL: [&str; 2] = ["127.0.0.1"; 2];

fn here(server: &str, client: &str) -> [String; 2] {
    let mut outputs = Default::default();
    alone(|namespace| outputs = both([namespace; 2], server, client, LOCAL));
    outputs
}

#[test]
fn rping_runs() {
    if !has("rping") {
        return;
    }
    let [server, client] = here("rping -s -a 127.0.0.1 -v -V -C 20", "rping -c -a 127.0.0.1 -v -V -C 20");
    assert!(server.contains("server ping data: rdma-ping-19:"), "{server}");
    assert!(client.contains("ping data: rdma-ping-19:"), "{client}");
}

/// One server for several clients, which runs until it is killed. Each client begins when the request of the previous
/// client is accepted: rping's thread for events keeps one request for its main thread (`child_cm_id`), and overwrites
/// it if the next request arrives before the main thread has taken it. The client of the overwritten request waits for
/// ever, over any library.
#[test]
fn a_persistent_rping_serves_many() {
    if !has("rping") {
        return;
    }
    alone(|namespace| {
        let server = start(namespace, command("rping -s -P -a 127.0.0.1 -v").env("RNIC_TRACE", "1"));
        await_listener(&server);
        let clients = (1..=4).map(|count| {
            let client = start(namespace, &mut command("rping -c -a 127.0.0.1 -v -V -C 20"));
            let begin = Instant::now();
            while server.output().matches("rdma_accept").count() < count {
                assert!(begin.elapsed() < Duration::from_secs(60), "client {count}: {}", server.output());
                std::thread::sleep(Duration::from_millis(5));
            }
            client
        });
        for client in clients.collect::<Vec<_>>() {
            let output = client.end().success();
            assert!(output.contains("ping data: rdma-ping-19:"), "{output}");
        }
        server.kill();
    });
}

#[test]
fn examples_of_librdmacm_run() {
    if !has("ucmatose") {
        return;
    }
    for (server, client) in [
        ("ucmatose", "ucmatose -s 127.0.0.1"),
        ("ucmatose -c 20 -C 10 -S 3000", "ucmatose -c 20 -C 10 -S 3000 -s 127.0.0.1"),
        ("udaddy -c 4", "udaddy -c 4 -s 127.0.0.1"),
    ] {
        for output in here(server, client) {
            assert!(output.contains("data transfers complete") && output.contains("return status 0"), "{output}");
        }
    }
    let [server, client] = here("rdma_server", "rdma_client -s 127.0.0.1");
    assert!(server.contains("rdma_server: end 0") && client.contains("rdma_client: end 0"), "{server}{client}");
}

/// 1,000 connections of one process with another process, and 64 processes of one address that connect at the same
/// time.
#[test]
fn many_connections_and_many_processes() {
    if !has("ucmatose") || !has("rping") {
        return;
    }
    for output in here("ucmatose -c 1000 -C 2", "ucmatose -c 1000 -C 2 -s 127.0.0.1") {
        assert!(output.contains("return status 0"), "{output}");
    }
    alone(|namespace| {
        let ports = 20_000..20_032;
        let line = |side: &str, port: u16| format!("rping -{side} -a 127.0.0.1 -p {port} -V -C 5");
        let server = |port: u16| start(namespace, command(&line("s", port)).env("RNIC_TRACE", "1"));
        let servers: Vec<_> = ports.clone().map(server).collect();
        servers.iter().for_each(await_listener);
        let clients: Vec<_> = ports.map(|port| start(namespace, &mut command(&line("c", port)))).collect();
        for process in clients.into_iter().chain(servers) {
            process.end().success();
        }
    });
}

/// What is missing is refused.
#[test]
fn refusals_are_sentences() {
    if !has("mckey") {
        return;
    }
    alone(|namespace| {
        let mut multicast = command("mckey -m 239.1.1.1 -b 127.0.0.1");
        multicast.env("RNIC_TRACE", "1");
        let ended = start(namespace, &mut multicast).end();
        assert!(ended.output.contains("rdma_join_multicast") && ended.output.contains("no multicast"), "{ended:?}");
    });
}

#[test]
fn perftest_connects_by_rdma_cm() {
    if !has("ib_write_bw") {
        return;
    }
    for line in ["ib_write_bw -n 200", "ib_send_lat -n 100", "ib_send_bw -n 200 -c UD", "ib_read_bw -n 200 -q 2"] {
        let [_, client] = here(&format!("{line} -R"), &format!("{line} -R 127.0.0.1"));
        assert!(client.contains("#bytes") && client.contains("rdma_cm QPs\t : ON"), "{line}: {client}");
    }
}

#[test]
fn qperf_runs() {
    if !has("qperf") {
        return;
    }
    alone(|namespace| {
        // qperf's server runs until it is killed. Its tests of UC and UD know no GIDs, which RoCE needs.
        let mut server = start(namespace, &mut command("qperf"));
        crate::common::await_port(namespace, 19_765, &mut server);
        let tests = "rc_lat rc_bw rc_bi_bw rc_rdma_write_bw rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_lat \
                     rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add";
        let client = start(namespace, &mut command(&format!("qperf -t 1 -cm1 127.0.0.1 {tests}"))).end().success();
        server.kill();
        for test in tests.split_whitespace() {
            assert!(client.contains(&format!("{test}:")), "{test}: {client}");
        }
    });
}

#[test]
fn fio_runs() {
    if !has("fio") {
        return;
    }
    // fio's Sends have no flow control, and no retry if the receiver is not ready. So it sends no more messages than
    // receives that are posted at the beginning.
    for (verb, size) in [("write", 4_096), ("read", 4_096), ("send", 512)] {
        let common = format!(
            "--ioengine=rdma --hostname=127.0.0.1 --port=16789 --mem=malloc --bs=64k --size={size}k --iodepth=8"
        );
        // The job that reads is the server, whatever the verb of the other one.
        let server = format!("fio --name=receiver --thread --rw=read {common}");
        let client = format!("fio --name=sender --thread --rw=write {common} --verb={verb}");
        let [_, client] = here(&server, &client);
        assert!(client.contains(&format!("io={size}KiB")), "{verb}: {client}");
    }
}

/// libfabric's provider `verbs`, over a link, because it leaves loopback interfaces out.
#[test]
fn libfabric_runs() {
    if !has("fi_pingpong") {
        return;
    }
    linked(|pair| {
        let (a, b) = (Pair::A4.to_string(), Pair::B4.to_string());
        for kind in ["-p verbs -e msg", "-p verbs;ofi_rxm -e rdm"] {
            let line = format!("fi_pingpong {kind} -I 10 -S 4096");
            // The server opens its device after the client has come by TCP, to port 47592.
            let ready = |namespace: &Namespace, _: &Running| await_entry(namespace, ["tcp", "tcp6"], ":B9E8 ");
            let client = format!("{line} {b}");
            let [_, client] = both_after(&ready, [&pair.b, &pair.a], &line, &client, [&b, &a]);
            assert!(client.contains("=10"), "{kind}: {client}");
        }
    });
}

/// Two hosts over IPv4 and IPv6.
#[test]
fn two_hosts_connect_over_a_link() {
    if !has("rping") {
        return;
    }
    linked(|pair| {
        for (own, peer) in [(Pair::A4.to_string(), Pair::B4.to_string()), (Pair::A6.to_string(), Pair::B6.to_string())]
        {
            let server = format!("rping -s -a {peer} -C 20 -v -V");
            let client = format!("rping -c -a {peer} -C 20 -v -V");
            let [server, _] = both([&pair.b, &pair.a], &server, &client, [&peer, &own]);
            assert!(server.contains("rdma-ping-19:"), "{server}");
        }
    });
}

/// Lost, repeated and damaged messages delay a connection, and change nothing else.
#[test]
fn connections_survive_faults() {
    if !has("ucmatose") {
        return;
    }
    alone(|namespace| {
        let faults = "loss=10%,duplicate=10%,corrupt=5%,seed=3";
        let set = |line: &str| {
            let mut command = command(line);
            command.env("RNIC_FAULTS", faults);
            command
        };
        let server = start(namespace, set("ucmatose -c 8 -C 5").env("RNIC_TRACE", "1"));
        await_listener(&server);
        let client = start(namespace, &mut set("ucmatose -c 8 -C 5 -s 127.0.0.1")).end().success();
        for output in [client, server.end().success()] {
            assert!(output.contains("return status 0"), "{output}");
        }
    });
}
