//! Many processes on one address, and processes that die.

use crate::common::{alone, await_port, both, command, has, linked, program, start};
use rnic_netns::Namespace;
use std::time::{Duration, Instant};

/// 32 servers and 32 clients at the same time: 64 processes with the address 127.0.0.1.
#[test]
fn processes_share_an_address() {
    if !has("ibv_rc_pingpong") {
        return;
    }
    alone(|namespace| {
        let line = |port: u16| format!("ibv_rc_pingpong -g 0 -n 50 -e -c -p {port}");
        let ports = 20_000..20_032;
        let mut servers: Vec<_> = ports.clone().map(|port| start(namespace, &mut command(&line(port)))).collect();
        for (port, server) in ports.clone().zip(&mut servers) {
            await_port(namespace, port, server);
        }
        let clients = ports.map(|port| start(namespace, &mut command(&format!("{} 127.0.0.1", line(port)))));
        for process in clients.collect::<Vec<_>>().into_iter().chain(servers) {
            let output = process.end().success();
            assert!(output.contains("50 iters") && !output.contains("invalid data"), "{output}");
        }
    });
}

/// The first process has the UDP port. When the first process is killed, another process takes over the port, and the
/// connections continue.
#[test]
fn connections_survive_the_death_of_the_first_process() {
    if !has("ib_send_bw") {
        return;
    }
    linked(|pair| {
        let here = |line: &str| {
            let mut command = command(line);
            command.env("RNIC_DEVICES", "10.77.0.2");
            command
        };
        // It has the port, and waits for a client that never comes.
        let mut first = start(&pair.b, &mut here("ibv_rc_pingpong -g 0 -p 30000"));
        await_port(&pair.b, 30_000, &mut first);
        let mut server = start(&pair.b, &mut here("ib_send_bw -D 3 -p 30001"));
        await_port(&pair.b, 30_001, &mut server);
        let mut client = command("ib_send_bw -D 3 -p 30001 10.77.0.2");
        let client = start(&pair.a, client.env("RNIC_DEVICES", "10.77.0.1"));
        std::thread::sleep(Duration::from_millis(1_000));
        first.kill();
        let output = client.end().success();
        assert!(output.contains("#bytes"), "{output}");
        server.end().success();
    });
}

/// A process receives a message and ends immediately, without destroying its queue pair. The message is still
/// acknowledged, as by a NIC.
#[test]
fn a_process_that_exits_has_acknowledged_what_it_received() {
    let Some(program) = program("leave") else { return };
    alone(|namespace| {
        for _ in 0..10 {
            let output = start(namespace, &mut command(program.to_str().unwrap())).end().success();
            assert_eq!(output, "acknowledged\n");
        }
    });
}

/// If a peer is killed, the program gets an error within the timeout, whether its packets are datagrams or go through
/// memory. The client always has unacknowledged requests. The client of a ping-pong would not do: while it only waits
/// for a message, no NIC reports an error.
#[test]
fn the_death_of_a_peer_is_an_error() {
    if !has("ib_write_bw") || !has("ibv_rc_pingpong") {
        return;
    }
    for local in ["wire", "auto"] {
        alone(|namespace| a_peer_dies(namespace, local));
    }
}

/// Processor time of a process in ticks.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn a_peer_dies(namespace: &Namespace, local: &str) {
    let line = "ib_write_bw -D 100";
    let set = |line: &str| {
        let mut command = command(line);
        command.env("RNIC_LOCAL", local);
        command
    };
    let mut server = start(namespace, &mut set(line));
    await_port(namespace, 18_515, &mut server);
    let client = start(namespace, &mut set(&format!("{line} 127.0.0.1")));
    // It computes for half a second: it has sent for a while.
    while ticks(client.id()) < 50 {
        std::thread::sleep(Duration::from_millis(10));
    }
    server.kill();
    // Eight timeouts of 67 ms.
    let begin = Instant::now();
    let ended = client.end();
    assert!(!ended.status.success() && begin.elapsed() < Duration::from_secs(20), "{local}: {}", ended.output);
    // IBV_WC_RETRY_EXC_ERR.
    assert!(ended.output.contains("Failed status 12"), "{local}: {}", ended.output);
    // The address is free for others at once.
    both(namespace, "ibv_rc_pingpong -g 0 -n 10", 18_515, &|_| {});
}
