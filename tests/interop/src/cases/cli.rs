//! Cases that test the command `rnic` against the kernel, with real sockets: the link ends in a network namespace of
//! this machine.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::guest::{COMMAND_PATIENCE, Guest, OUT_OF_BAND_PORT};
use crate::host::{Gid, Host};
use crate::tap::HostNetwork;
use serde_json::Value;

pub(super) const CASES: &[Case] = &[
    Case { name: "cli-perftest-client", about: "`rnic perf --perftest` as client of all tests of perftest", run: ask },
    Case { name: "cli-perftest-server", about: "`rnic perf --perftest` as their server", run: answer },
    Case { name: "cli-perftest-loss", about: "the same either way, 2 % lost each way", run: loss },
    Case { name: "cli-pingpong", about: "`rnic pingpong` and ibv_rc_pingpong either way, IPv6", run: pingpong },
];

/// The tests: options of `rnic perf`, and the corresponding command of perftest.
const TESTS: [(&str, &str); 9] = [
    ("--op write -s 5001 -q 2", "ib_write_bw -s 5001 -q 2"),
    ("--op read -s 5001 -q 2", "ib_read_bw -s 5001 -q 2"),
    ("--op send -s 5001 -q 2", "ib_send_bw -s 5001 -q 2"),
    ("--op fetch-add", "ib_atomic_bw -A FETCH_AND_ADD"),
    ("--op compare-swap", "ib_atomic_bw -A CMP_AND_SWAP"),
    ("--op write --latency -s 64", "ib_write_lat -s 64"),
    ("--op read --latency -s 64", "ib_read_lat -s 64"),
    ("--op send --latency -s 64", "ib_send_lat -s 64"),
    ("--op fetch-add --latency", "ib_atomic_lat -A FETCH_AND_ADD"),
];
const MESSAGES: u64 = 100;

fn command(program: &str) -> String {
    format!("{program} -d rxe0 -x {} -F -n {MESSAGES}", Gid::Ipv4.index())
}

/// Runs rnic as the client of a perftest server. Returns rnic's report and the output of perftest.
fn as_client(guest: &mut Guest, network: &HostNetwork, (ours, theirs): (&str, &str)) -> Result<(Value, String)> {
    let server = guest.spawn(&command(theirs))?;
    guest.await_listener(&server, OUT_OF_BAND_PORT)?;
    let arguments = format!("perf {} --perftest {ours} -n {MESSAGES} --format json", guest.host().ipv4());
    let out = network.rnic(&arguments)?.finish()?;
    Ok((parse(&out)?, guest.finish(server, COMMAND_PATIENCE)?))
}

/// Runs rnic as the server of a perftest client. Returns rnic's report and the output of perftest.
fn as_server(guest: &mut Guest, network: &HostNetwork, (ours, theirs): (&str, &str)) -> Result<(Value, String)> {
    let arguments = format!("perf --perftest --once {ours} -n {MESSAGES} --format json");
    let mut server = network.rnic(&arguments)?;
    server.await_message("waiting for clients")?;
    let client = guest.spawn(&format!("{} {}", command(theirs), Host::OURS.ipv4()))?;
    let output = guest.finish(client, COMMAND_PATIENCE)?;
    Ok((parse(&server.finish()?)?, output))
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::Check(format!("rnic printed no JSON: {error}\n{text}")))
}

/// Checks the report of rnic, which had the role `side` in the test. Returns the counters of rnic's device.
fn check(report: &Value, side: &str, (ours, theirs): (&str, &str)) -> Result<Value> {
    let row = &report["rows"][0];
    let pairs = if ours.contains("-q 2") { 2 } else { 1 };
    ensure!(row["messages"] == pairs * MESSAGES, "{theirs}: the report is {report}");
    let rate = row["messages_per_second"].as_f64().unwrap_or(0.0);
    ensure!(rate.is_normal(), "{theirs}: a rate of {rate}");
    let measured = ours.contains("--latency") && (side == "client" || ours.contains("write") || ours.contains("send"));
    ensure!(row["latency"].is_object() == measured, "{theirs}: the latency is {}", row["latency"]);
    let counts = &row[side]["counts"];
    ensure!(counts["bad_icrc"] == 0 && counts["packets_received"] != 0, "{theirs}: the counters are {counts}");
    Ok(counts.clone())
}

fn ask(bench: &Bench) -> Result<()> {
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    for test in TESTS {
        let (report, _) = as_client(&mut guest, &network, test)?;
        check(&report, "client", test)?;
    }
    Ok(())
}

fn answer(bench: &Bench) -> Result<()> {
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    for test in TESTS {
        let (report, output) = as_server(&mut guest, &network, test)?;
        check(&report, "server", test)?;
        ensure!(output.contains(&format!(" {} ", report["rows"][0]["bytes"])), "{} printed:\n{output}", test.1);
    }
    Ok(())
}

fn loss(bench: &Bench) -> Result<()> {
    let (mut guest, network, relay) = bench.guest_and_network(Faults::loss(3, 0.02), Faults::loss(4, 0.02))?;
    let mut again = 0;
    for test in &TESTS[..3] {
        for (side, run) in [("client", as_client as fn(&mut _, &_, _) -> _), ("server", as_server)] {
            let (report, _) = run(&mut guest, &network, *test)?;
            let counts = check(&report, side, *test)?;
            again += ["retransmitted", "duplicates", "naks_sent"]
                .map(|name| counts[name].as_u64().unwrap_or(0))
                .iter()
                .sum::<u64>();
        }
    }
    let dropped: u64 = relay.counts().iter().map(|counts| counts.dropped).sum();
    ensure!(dropped > 10 && again > 0, "{dropped} frames were lost, {again} came again");
    Ok(())
}

fn pingpong(bench: &Bench) -> Result<()> {
    let (mut guest, network, _relay) = bench.guest_and_network(Faults::None, Faults::None)?;
    guest.reach(Gid::Ipv6.address(Host::OURS))?;
    let program = format!("ibv_rc_pingpong -d rxe0 -g {} -n 100 -s 10001 -c", Gid::Ipv6.index());
    let arguments = "-n 100 -s 10001 -c";
    let checked = |out: &str| {
        ensure!(out.contains("1000100 bytes received and checked"), "rnic pingpong printed:\n{out}");
        Ok(())
    };
    // The program listens for TCP over IPv4 only, even if its GID is IPv6.
    let server = guest.spawn(&program)?;
    guest.await_listener(&server, OUT_OF_BAND_PORT)?;
    let client = format!("pingpong {} --address {} {arguments}", guest.host().ipv4(), Host::OURS.ipv6());
    checked(&network.rnic(&client)?.finish()?)?;
    guest.finish(server, COMMAND_PATIENCE)?;

    let server = network.rnic(&format!("pingpong {arguments}"))?;
    // The case cannot see when rnic listens, so the client retries until it connects.
    let client = guest.spawn(&format!(
        "for i in $(seq 50); do {program} {} && exit; usleep 200000; done; exit 1",
        Host::OURS.ipv6()
    ))?;
    checked(&server.finish()?)?;
    guest.finish(client, COMMAND_PATIENCE)?;
    Ok(())
}
