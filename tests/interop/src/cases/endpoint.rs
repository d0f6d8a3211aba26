//! Cases that test rnic's endpoint against the kernel's RoCE in software, with ping-pong programs of ibverbs-utils.

use crate::bench::{Bench, Case};
use crate::endpoint::device;
use crate::ensure;
use crate::error::{Error, Result};
use crate::fault::Faults;
use crate::guest::{COMMAND_PATIENCE, GuestOptions, HOST_SEEN_BY_GUEST, OUT_OF_BAND_PORT, listener};
use crate::host::{Gid, Host};
use rnic_endpoint::Device;
use rnic_perf::ibverbs::{Options, Outcome, Pingpong};
use rnic_transport::Time;
use rnic_verbs::Service;

pub(super) const CASES: &[Case] = &[
    Case { name: "endpoint-pingpong-server", about: "ibv_rc_pingpong as client of rnic, IPv4", run: serve },
    Case { name: "endpoint-pingpong-client", about: "ibv_rc_pingpong as server of rnic, IPv6", run: connect },
    Case { name: "endpoint-pingpong-uc", about: "ibv_uc_pingpong as client of rnic", run: serve_uc },
    Case { name: "endpoint-pingpong-ud", about: "ibv_ud_pingpong as client and as server of rnic", run: datagrams },
    Case {
        name: "endpoint-pingpong-loss",
        about: "ibv_rc_pingpong with rnic, 2 % of the frames lost each way",
        run: serve_with_loss,
    },
];

const ROUNDS: u32 = 200;

/// Message size in bytes: several packets per message, or one packet of UD, and a length that needs padding.
fn size(service: Service) -> usize {
    if service == Service::Ud { 1_001 } else { 10_001 }
}

fn options(service: Service) -> Options {
    Options {
        service,
        size: size(service),
        iterations: ROUNDS,
        check: true,
        timeout: Time::from_ms(COMMAND_PATIENCE.as_millis() as u64),
        ..Options::default()
    }
}

/// Code of an ACK timeout of one second. A busy machine may suspend a guest for longer than the usual timeout of 67 ms,
/// and rnic would retransmit although no packet was lost.
const PATIENT: u8 = 18;

fn serve(bench: &Bench) -> Result<()> {
    serve_as(bench, "ibv_rc_pingpong", Service::Rc, Gid::Ipv4, Faults::None)
}

fn serve_uc(bench: &Bench) -> Result<()> {
    serve_as(bench, "ibv_uc_pingpong", Service::Uc, Gid::Ipv4, Faults::None)
}

/// Tests both directions over IPv4 and IPv6. Each end sends a message after it has received one from the peer, so a
/// lost or refused datagram would end the case.
fn datagrams(bench: &Bench) -> Result<()> {
    serve_as(bench, "ibv_ud_pingpong", Service::Ud, Gid::Ipv4, Faults::None)?;
    connect_as(bench, "ibv_ud_pingpong", Service::Ud, Gid::Ipv6)
}

fn serve_with_loss(bench: &Bench) -> Result<()> {
    let faults = Faults::Random { seed: 7, loss: 0.02, reorder: 0.0, duplicate: 0.0, corrupt: 0.0 };
    serve_as(bench, "ibv_rc_pingpong", Service::Rc, Gid::Ipv4, faults)
}

/// Runs rnic as the server and the guest's `program` as its client.
fn serve_as(bench: &Bench, program: &str, service: Service, gid: Gid, faults: Faults) -> Result<()> {
    let (mut guest, mut port) = bench.guest_and_port(&GuestOptions::default())?;
    guest.meet(gid.address(Host::OURS))?;
    let lossy = !matches!(faults, Faults::None);
    port.set_faults(faults.clone(), faults);
    let device = device(port, gid).map_err(failed)?;
    let (listener, tcp_port) = listener()?;
    let client = guest.spawn(&format!(
        "{program} -d rxe0 -g {} -n {ROUNDS} -s {} -c -p {tcp_port} {HOST_SEEN_BY_GUEST}",
        gid.index(),
        size(service)
    ))?;
    // With injected losses, the usual shorter timeout makes the case faster.
    let usual = options(service);
    let options = if lossy { usual } else { Options { ack_timeout: PATIENT, ..usual } };
    let side = Pingpong::new(&device, options).map_err(failed)?;
    let outcome = side.serve(guest.accept(&listener, &client)?).map_err(failed)?;
    let output = guest.finish(client, COMMAND_PATIENCE)?;
    check(&outcome, &output, &device, service, lossy)
}

fn connect(bench: &Bench) -> Result<()> {
    connect_as(bench, "ibv_rc_pingpong", Service::Rc, Gid::Ipv6)
}

/// Runs the guest's `program` as the server and rnic as its client.
fn connect_as(bench: &Bench, program: &str, service: Service, gid: Gid) -> Result<()> {
    let (mut guest, port) = bench.guest_and_port(&GuestOptions::default())?;
    guest.meet(gid.address(Host::OURS))?;
    let device = device(port, gid).map_err(failed)?;
    let command = format!("{program} -d rxe0 -g {} -n {ROUNDS} -s {} -c", gid.index(), size(service));
    let server = guest.spawn(&command)?;
    guest.await_listener(&server, OUT_OF_BAND_PORT)?;
    let options = Options { ack_timeout: PATIENT, ..options(service) };
    let side = Pingpong::new(&device, options).map_err(failed)?;
    let outcome = side.dial(guest.connect()?).map_err(failed)?;
    let output = guest.finish(server, COMMAND_PATIENCE)?;
    check(&outcome, &output, &device, service, false)
}

fn check(outcome: &Outcome, output: &str, device: &Device, service: Service, lossy: bool) -> Result<()> {
    let bytes = u64::from(ROUNDS) * size(service) as u64;
    ensure!(outcome.checked == bytes, "{} of {bytes} bytes were checked", outcome.checked);
    ensure!(output.contains(&format!("{} bytes in", 2 * bytes)), "the guest printed:\n{output}");
    let counters = device.counters();
    ensure!(counters.driver.bad_icrc == 0, "{} packets had a wrong ICRC", counters.driver.bad_icrc);
    let again = counters.verbs.retransmitted;
    ensure!(lossy == (again > 0), "{again} packets were retransmitted: {:?}", counters.verbs);
    Ok(())
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Check(error.to_string())
}
