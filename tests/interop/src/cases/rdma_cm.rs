//! Cases in which unmodified programs connect with `rdma_cm`: with rnic's libraries in a network namespace of this
//! machine, and with the kernel's RoCE in the guest. Each program is the server in one run and the client in another.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::guest::{COMMAND_PATIENCE, Guest};
use crate::host::{Gid, Host};
use crate::tap::HostNetwork;
use std::process::Command;

pub(super) const CASES: &[Case] = &[
    Case { name: "cm-rping", about: "rping over rnic's librdmacm either way, IPv4 and IPv6", run: rping },
    Case {
        name: "cm-rdmacm-utils",
        about: "ucmatose, udaddy and rdma_server over rnic's librdmacm either way",
        run: utils,
    },
    Case { name: "cm-perftest", about: "perftest -R in the guest as client of servers over rnic", run: perftest },
    Case {
        name: "cm-perftest-client",
        about: "perftest -R over rnic as client of servers in the guest",
        run: perftest_client,
    },
    Case { name: "cm-rsockets", about: "rstream over rnic's librdmacm either way", run: rsockets },
    Case { name: "cm-riostream", about: "riostream: direct writes of rsockets, either way", run: riostream },
    Case { name: "cm-loss", about: "rping either way, 5 % lost each way", run: loss },
    Case {
        name: "cm-idle",
        about: "a connection that is idle for 15 s, and the death of the kernel's side",
        run: idle,
    },
    Case {
        name: "cm-killed",
        about: "rping in the guest that only receives learns of the death of its peer over rnic",
        run: killed,
    },
];

/// Fails if a program is not installed on the host. The guest has its own programs.
fn needs(program: &str) -> Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    if path.split(':').any(|directory| std::path::Path::new(directory).join(program).exists()) {
        return Ok(());
    }
    Err(Error::Unavailable(format!("{program} is not installed on this machine")))
}

/// A pair of commands; `{}` stands for the server's address.
struct Pair {
    server: String,
    client: String,
    /// Text that the client's output must contain.
    said: &'static str,
}

/// Runs the server with rnic's libraries and the client in the guest, then the server in the guest and the client with
/// rnic's libraries.
fn both_ways(guest: &mut Guest, network: &HostNetwork, gid: Gid, pair: &Pair) -> Result<()> {
    let Pair { server, client, said } = pair;
    let ours = gid.address(Host::OURS).to_string();
    let theirs = gid.address(guest.host()).to_string();

    let mut program = network.verbs(&server.replace("{}", &ours))?;
    program.await_message("rdma_listen")?;
    let job = guest.spawn(&client.replace("{}", &ours))?;
    let output = guest.finish(job, COMMAND_PATIENCE)?;
    ensure!(output.contains(said), "{client} in the guest printed:\n{output}");
    program.finish()?;

    let job = guest.spawn(&server.replace("{}", &theirs))?;
    guest.await_rdma_listener()?;
    let output = network.verbs(&client.replace("{}", &theirs))?.finish()?;
    ensure!(output.contains(said), "{client} over rnic printed:\n{output}");
    guest.finish(job, COMMAND_PATIENCE)?;
    Ok(())
}

fn rping_pair(options: &str) -> Pair {
    Pair {
        server: format!("rping -s -a {{}} {options}"),
        client: format!("rping -c -a {{}} -v {options}"),
        said: "ping data: rdma-ping-9:",
    }
}

fn rping(bench: &Bench) -> Result<()> {
    needs("rping")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    for gid in [Gid::Ipv4, Gid::Ipv6] {
        guest.reach(gid.address(Host::OURS))?;
        both_ways(&mut guest, &network, gid, &rping_pair("-V -C 10 -S 1000"))?;
    }
    Ok(())
}

fn utils(bench: &Bench) -> Result<()> {
    needs("ucmatose")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    for (server, client, said) in [
        ("ucmatose -c 4 -C 10 -S 3000 -b {}", "ucmatose -c 4 -C 10 -S 3000 -s {}", "return status 0"),
        ("udaddy -c 2 -b {}", "udaddy -c 2 -s {}", "return status 0"),
        ("rdma_server", "rdma_client -s {}", "rdma_client: end 0"),
    ] {
        let pair = Pair { server: server.to_string(), client: client.to_string(), said };
        both_ways(&mut guest, &network, Gid::Ipv4, &pair)?;
    }
    Ok(())
}

/// perftest's server binds its port after both ends have agreed to connect. If the client is faster, rnic lets its
/// connection request wait for the server.
fn perftest(bench: &Bench) -> Result<()> {
    needs("ib_write_bw")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    for line in ["ib_write_bw -s 5000", "ib_send_lat -s 64", "ib_read_bw -s 5000 -q 2"] {
        let mut server = network.verbs(&format!("{line} -R -F -n 100"))?;
        server.await_message("rdma_listen")?;
        let client = guest.spawn(&format!("{line} -R -F -n 100 {}", Host::OURS.ipv4()))?;
        let output = guest.finish(client, COMMAND_PATIENCE)?;
        ensure!(output.contains("#bytes"), "{line} in the guest printed:\n{output}");
        server.finish()?;
    }
    Ok(())
}

/// As [`perftest`], with the roles exchanged. The kernel refuses the first connection request, and rnic sends it again.
fn perftest_client(bench: &Bench) -> Result<()> {
    needs("ib_write_bw")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    guest.reach(Host::OURS.ipv4().into())?;
    for line in ["ib_write_bw -s 5000", "ib_send_lat -s 64", "ib_read_bw -s 5000 -q 2"] {
        let server = guest.spawn(&format!("{line} -R -F -n 100"))?;
        guest.await_rdma_listener()?;
        let output = network.verbs(&format!("{line} -R -F -n 100 {}", guest.host().ipv4()))?.finish()?;
        ensure!(output.contains("#bytes"), "{line} over rnic printed:\n{output}");
        guest.finish(server, COMMAND_PATIENCE)?;
    }
    Ok(())
}

fn rsockets(bench: &Bench) -> Result<()> {
    needs("rstream")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    for line in ["rstream -S 100000 -I 10 -C 1 -T v", "rstream -S 64 -I 50 -C 20 -T n -T v"] {
        let pair = Pair { server: line.to_string(), client: format!("{line} -s {{}}"), said: "Gb/sec" };
        both_ways(&mut guest, &network, Gid::Ipv4, &pair)?;
    }
    Ok(())
}

/// The receiver polls its memory, and calls the library only after it has seen the last byte.
fn riostream(bench: &Bench) -> Result<()> {
    needs("riostream")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    guest.reach(Host::OURS.ipv4().into())?;
    for line in
        ["riostream -S 64 -I 10 -C 1 -T v", "riostream -S 5000 -I 10 -C 1 -T v", "riostream -S 5000 -I 3 -C 8 -T b"]
    {
        let pair = Pair { server: line.to_string(), client: format!("{line} -s {{}}"), said: "Gb/sec" };
        both_ways(&mut guest, &network, Gid::Ipv4, &pair)?;
    }
    Ok(())
}

fn loss(bench: &Bench) -> Result<()> {
    needs("rping")?;
    let (mut guest, network, relay) = bench.guest_and_network(Faults::loss(7, 0.05), Faults::loss(8, 0.05))?;
    both_ways(&mut guest, &network, Gid::Ipv4, &rping_pair("-V -C 10 -S 5000"))?;
    let dropped: u64 = relay.counts().iter().map(|counts| counts.dropped).sum();
    ensure!(dropped > 5, "{dropped} frames were lost");
    Ok(())
}

/// The kernel receives the probes of rnic's communication manager, does not respond, and keeps the connection. When the
/// process in the guest is killed, the kernel notifies rnic.
fn idle(bench: &Bench) -> Result<()> {
    needs("rping")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    let address = Host::OURS.ipv4();
    let mut server = network.verbs(&format!("rping -s -a {address} -v -S 100"))?;
    server.await_message("rdma_listen")?;
    let client = guest.spawn(&format!("exec rping -c -a {address} -v -S 100 -C 10000000"))?;
    server.await_message("server ping data: rdma-ping-3:")?;
    guest.signal(&client, "STOP")?;
    std::thread::sleep(std::time::Duration::from_secs(15));
    ensure!(server.is_running()?, "the server has ended while its client was idle:\n{}", server.ended()?);
    guest.kill(client, "KILL")?;
    let ended = server.ended()?;
    ensure!(ended.contains("RDMA_CM_EVENT_DISCONNECTED"), "the server did not hear of the end:\n{ended}");
    Ok(())
}

/// A program that uses rnic's libraries is killed while the peer in the guest only waits for a message. Another process
/// on the program's host disconnects the peer: a second program, or `rnic verbs keep`.
fn killed(bench: &Bench) -> Result<()> {
    needs("rping")?;
    let client = bench.directory().join("deaths");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/rnic-rdmacm/tests/programs/deaths.c");
    let mut cc = Command::new("cc");
    let compiled = cc.args(["-O1", "-o"]).arg(&client).arg(source).args(["-lrdmacm", "-libverbs"]).output();
    if !compiled.is_ok_and(|compiled| compiled.status.success()) {
        return Err(Error::Unavailable("`cc`, or librdmacm-dev, is not installed on this machine".to_string()));
    }
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    let (ours, theirs) = (Host::OURS.ipv4(), guest.host().ipv4());
    guest.reach(ours.into())?;
    for is_keeper in [false, true] {
        let survivor = if is_keeper {
            let mut keeper = network.rnic("verbs keep")?;
            keeper.await_message(&format!("at {ours}"))?;
            keeper
        } else {
            let mut listener = network.verbs(&format!("rping -s -a {ours}"))?;
            listener.await_message("rdma_listen")?;
            listener
        };
        let server = guest.spawn(&format!("rping -s -a {theirs} -v 2>&1; echo ended"))?;
        // The case cannot see when the server listens.
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        let mut program = network.verbs(&format!("{} client {theirs} 7174 1 wait", client.display()))?;
        program.await_message("connected")?;
        // The case cannot see when `rnic verbs keep` has found the program.
        std::thread::sleep(std::time::Duration::from_millis(1_000));
        drop(program);
        let output = guest.finish(server, COMMAND_PATIENCE)?;
        ensure!(
            output.contains("DISCONNECT EVENT") && output.contains("ended"),
            "rping in the guest printed:\n{output}"
        );
        drop(survivor);
    }
    Ok(())
}
