//! Cases with unmodified RDMA programs at both ends: with rnic's libibverbs on this machine, and with the kernel's RoCE
//! in the guest.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::guest::{COMMAND_PATIENCE, Guest, OUT_OF_BAND_PORT};
use crate::host::{Gid, Host};
use crate::tap::HostNetwork;
use std::path::Path;

pub(super) const CASES: &[Case] = &[
    Case { name: "verbs-pingpong", about: "ibv_{rc,uc,ud}_pingpong with rnic's libibverbs, either way", run: pingpong },
    Case { name: "verbs-perftest", about: "perftest's programs with rnic's libibverbs, either way", run: perftest },
    Case { name: "verbs-irn", about: "RNIC_TRANSPORT=irn uses RC with the kernel, either way", run: irn },
];

/// Checks that this machine has the program.
fn needs(program: &str) -> Result<()> {
    let found = ["/usr/bin", "/usr/local/bin"].iter().any(|folder| Path::new(folder).join(program).exists());
    if found { Ok(()) } else { Err(Error::Unavailable(format!("{program} is not installed"))) }
}

/// The arguments of `rnic` that run a program with rnic's libibverbs.
fn ours(settings: &str, program: &str) -> String {
    format!("verbs run env RNIC_DEVICES={} {settings} {program}", Host::OURS.ipv4())
}

/// The option that selects the index of a program's GID. perftest is different, because its `-g` joins a multicast
/// group.
fn gid_option(program: &str) -> &'static str {
    if program.starts_with("ibv_") { "-g" } else { "-x" }
}

/// Runs a program with rnic's libibverbs as the client of a server in the guest. Returns the output of both.
fn as_client(guest: &mut Guest, network: &HostNetwork, settings: &str, program: &str) -> Result<String> {
    let (name, options) = program.split_once(' ').unwrap_or((program, ""));
    let index = gid_option(name);
    let server = guest.spawn(&format!("{name} -d rxe0 {index} {} {options}", Gid::Ipv4.index()))?;
    guest.await_listener(&server, OUT_OF_BAND_PORT)?;
    let client = ours(settings, &format!("{name} {index} 0 {options} {}", guest.host().ipv4()));
    let output = network.rnic(&client)?.finish()?;
    Ok(output + &guest.finish(server, COMMAND_PATIENCE)?)
}

/// Runs a program with rnic's libibverbs as the server of a client in the guest. Returns the output of both.
fn as_server(guest: &mut Guest, network: &HostNetwork, settings: &str, program: &str) -> Result<String> {
    let (name, options) = program.split_once(' ').unwrap_or((program, ""));
    let index = gid_option(name);
    let server = network.rnic(&ours(settings, &format!("{name} {index} 0 {options}")))?;
    // The case cannot see when the server listens, so the client retries until it connects.
    let client = guest.spawn(&format!(
        "for i in $(seq 50); do {name} -d rxe0 {index} {} {options} {} && exit; usleep 200000; done; exit 1",
        Gid::Ipv4.index(),
        Host::OURS.ipv4()
    ))?;
    let output = server.finish()?;
    Ok(output + &guest.finish(client, COMMAND_PATIENCE)?)
}

fn pingpong(bench: &Bench) -> Result<()> {
    needs("ibv_rc_pingpong")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    guest.reach(Host::OURS.ipv4().into())?;
    for (kind, size) in [("rc", 10_001), ("uc", 10_001), ("ud", 1_001)] {
        let check = if kind == "rc" { " -c" } else { "" };
        let program = format!("ibv_{kind}_pingpong -n 100 -s {size}{check}");
        for run in [as_client as fn(&mut _, &_, &str, &str) -> _, as_server] {
            let output = run(&mut guest, &network, "", &program)?;
            ensure!(output.contains("100 iters") && !output.contains("invalid"), "{program} printed:\n{output}");
        }
    }
    Ok(())
}

fn perftest(bench: &Bench) -> Result<()> {
    needs("ib_write_bw")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    guest.reach(Host::OURS.ipv4().into())?;
    for program in [
        "ib_write_bw -s 5000 -n 100 -F",
        "ib_read_bw -s 5000 -n 100 -F",
        "ib_send_bw -s 5000 -n 100 -F",
        "ib_atomic_bw -n 100 -F",
        "ib_write_lat -s 64 -n 100 -F",
        "ib_read_lat -s 64 -n 100 -F",
        "ib_send_lat -s 64 -n 100 -F",
        "ib_atomic_lat -n 100 -F",
        "ib_send_bw -c UD -s 500 -n 100 -F",
        "ib_send_lat -c UC -s 500 -n 100 -F",
    ] {
        for run in [as_client as fn(&mut _, &_, &str, &str) -> _, as_server] {
            let output = run(&mut guest, &network, "", program)?;
            ensure!(output.contains("#bytes"), "{program} printed:\n{output}");
        }
    }
    Ok(())
}

fn irn(bench: &Bench) -> Result<()> {
    needs("ibv_rc_pingpong")?;
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    guest.reach(Host::OURS.ipv4().into())?;
    let program = "ibv_rc_pingpong -n 100 -s 10001 -c";
    for run in [as_client as fn(&mut _, &_, &str, &str) -> _, as_server] {
        let output = run(&mut guest, &network, "RNIC_TRANSPORT=irn", program)?;
        ensure!(output.contains("100 iters") && !output.contains("invalid"), "{program} printed:\n{output}");
    }
    Ok(())
}
