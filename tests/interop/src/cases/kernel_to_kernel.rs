//! Cases with two guests on one link, both with the kernel's RoCE. They test the test bed itself. Their frames are
//! stored as the captures in `tests/interop/captures`.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::Result;
use crate::fault::{Fault, Faults};
use crate::frame::{Datagram, ETHERNET_HEADER, roce_payload};
use crate::guest::{COMMAND_PATIENCE, Guest, OUT_OF_BAND_PORT};
use crate::pcap;
use crate::roce::icrc_is_right;

pub(super) const CASES: &[Case] = &[
    Case { name: "kernel-pingpong", about: "RC, UC and UD pingpong between two guests, IPv4 and IPv6", run: pingpong },
    Case { name: "kernel-perftest", about: "write, read, send and atomics between two guests", run: perftest },
    Case { name: "kernel-large-mtu", about: "a path MTU of 4096 on a link of 9000", run: large_mtu },
    Case { name: "kernel-rdma-cm", about: "rping between two guests, connected by rdma_cm", run: rdma_cm },
    Case { name: "kernel-loss", about: "two guests recover from lost frames", run: loss },
    Case { name: "kernel-receiver-not-ready", about: "one guest sends faster than the other posts", run: not_ready },
];

/// A program that runs on both guests, and a text that the client's output must contain.
struct Meeting {
    /// Name of the capture file that the run writes.
    capture: &'static str,
    /// The program and its options. On the client the server's address is appended.
    command: &'static str,
    /// Text that the client must print.
    expected: &'static str,
}

fn pingpong(bench: &Bench) -> Result<()> {
    // Each message has three packets, of which the last one has two bytes of padding. A message of UD has only one
    // packet.
    let meetings = [
        ("rc-pingpong-ipv4", "ibv_rc_pingpong -d rxe0 -g 1 -n 3 -m 256 -s 514", "3084 bytes in"),
        ("rc-pingpong-ipv6", "ibv_rc_pingpong -d rxe0 -g 2 -n 3 -m 256 -s 514", "3084 bytes in"),
        ("uc-pingpong-ipv4", "ibv_uc_pingpong -d rxe0 -g 1 -n 2 -m 256 -s 514", "2056 bytes in"),
        ("ud-pingpong-ipv6", "ibv_ud_pingpong -d rxe0 -g 2 -n 2 -s 77", "308 bytes in"),
    ];
    run_all(bench, &mut bench.two_guests(1500)?, &meetings)
}

fn perftest(bench: &Bench) -> Result<()> {
    // The option `-u 18` sets the ACK timeout to one second, so that a slow machine does not cause retransmissions.
    let meetings = [
        ("write-ipv4", "ib_write_bw -d rxe0 -u 18 -x 1 -n 5 -m 256 -s 514", " 514 "),
        ("write-ipv6", "ib_write_bw -d rxe0 -u 18 -x 2 -n 5 -m 256 -s 514", " 514 "),
        ("read-ipv4", "ib_read_lat -d rxe0 -u 18 -x 1 -n 5 -m 256 -s 514", " 514 "),
        ("read-ipv6", "ib_read_lat -d rxe0 -u 18 -x 2 -n 5 -m 256 -s 514", " 514 "),
        ("send-ipv4", "ib_send_lat -d rxe0 -u 18 -x 1 -n 5 -s 33", " 33 "),
        ("fetch-and-add-ipv4", "ib_atomic_lat -d rxe0 -u 18 -x 1 -n 5 -A FETCH_AND_ADD", " 8 "),
        ("compare-and-swap-ipv6", "ib_atomic_lat -d rxe0 -u 18 -x 2 -n 5 -A CMP_AND_SWAP", " 8 "),
    ];
    run_all(bench, &mut bench.two_guests(1500)?, &meetings)
}

fn large_mtu(bench: &Bench) -> Result<()> {
    let mut guests = bench.two_guests(9000)?;
    let information = guests[0].run("ibv_devinfo -d rxe0")?;
    ensure!(information.contains("active_mtu:\t\t4096"), "rxe0 says:\n{information}");
    run_all(bench, &mut guests, &[("write-mtu-4096", "ib_write_bw -d rxe0 -u 18 -x 1 -n 5 -s 4100", " 4100 ")])
}

fn rdma_cm(bench: &Bench) -> Result<()> {
    let mut guests = bench.two_guests(1500)?;
    let address = guests[1].host().ipv4();
    let server = guests[1].spawn("rping -s -C 2 -S 100")?;
    // The case cannot see when rping listens, so the client retries until it connects.
    let client = guests[0].spawn(&format!(
        "for i in $(seq 20); do rping -c -a {address} -C 2 -S 100 -v && exit; sleep 1; done; exit 1"
    ))?;
    let output = guests[0].finish(client, COMMAND_PATIENCE)?;
    ensure!(output.contains("ping data: rdma-ping-1:"), "rping printed:\n{output}");
    guests[1].finish(server, COMMAND_PATIENCE)?;
    keep_capture(bench, &guests[0], 0, "rdma-cm-ipv4", "rping -C 2 -S 100")
}

fn loss(bench: &Bench) -> Result<()> {
    // The relay drops the sixth packet of the requester, and the third ACK.
    let (forth, back) = (Faults::script([(5, Fault::Drop)]), Faults::script([(2, Fault::Drop)]));
    let (mut guests, relay) = bench.two_guests_with_faults(1500, forth, back)?;
    run_all(bench, &mut guests, &[("loss-ipv4", "ib_write_bw -d rxe0 -u 18 -x 1 -n 5 -m 256 -s 514", " 514 ")])?;
    let dropped = relay.counts().map(|counts| counts.dropped);
    ensure!(dropped == [1, 1], "the relay has dropped {dropped:?} frames");
    Ok(())
}

fn not_ready(bench: &Bench) -> Result<()> {
    let mut guests = bench.two_guests(1500)?;
    // The server posts one receive at a time (`-r 1`) while many messages are in flight, so it must send RNR NAKs.
    let meeting = ("receiver-not-ready-ipv4", "ib_send_bw -d rxe0 -u 18 -x 1 -n 10 -s 64 -r 1", " 64 ");
    run_all(bench, &mut guests, &[meeting])
}

fn run_all(
    bench: &Bench, guests: &mut [Guest; 2], meetings: &[(&'static str, &'static str, &'static str)],
) -> Result<()> {
    // The exchange over TCP resolves IPv4 addresses only, and a queue pair over IPv6 whose peer is not resolved may
    // fail to move to RTR.
    for from in [0, 1] {
        let to = guests[1 - from].host().ipv6();
        guests[from].reach(to.into())?;
    }
    for &(capture, command, expected) in meetings {
        let meeting = Meeting { capture, command, expected };
        let before = pcap::read(&guests[0].capture())?.len();
        let output = meet(guests, meeting.command)?;
        ensure!(output.contains(meeting.expected), "{command} printed:\n{output}");
        keep_capture(bench, &guests[0], before, meeting.capture, meeting.command)?;
    }
    Ok(())
}

/// Starts a server in the second guest and a client in the first one, and checks that both succeed. Returns the output
/// of the client.
fn meet([client, server]: &mut [Guest; 2], command: &str) -> Result<String> {
    let serving = server.spawn(command)?;
    server.await_listener(&serving, OUT_OF_BAND_PORT)?;
    let address = server.host().ipv4();
    let asking = client.spawn(&format!("{command} {address}"))?;
    let output = client.finish(asking, COMMAND_PATIENCE)?;
    server.finish(serving, COMMAND_PATIENCE)?;
    Ok(output)
}

/// Writes the RoCE frames of the capture from frame number `before` on to a file in the case's directory, and checks
/// the ICRC of each frame.
fn keep_capture(bench: &Bench, guest: &Guest, before: usize, name: &str, comment: &str) -> Result<()> {
    let frames = pcap::read(&guest.capture())?.split_off(before);
    for captured in frames.iter().filter(|captured| roce_payload(&captured.frame).is_some()) {
        let datagram = Datagram::parse(&captured.frame[ETHERNET_HEADER..]);
        ensure!(datagram.as_ref().is_ok_and(icrc_is_right), "{name}: wrong ICRC in {:02x?}", captured.frame);
    }
    let file = bench.directory().join(format!("{name}.pcapng"));
    let count = pcap::write_roce(&file, comment, &frames)?;
    ensure!(count > 0, "{name}: no RoCE frame was captured");
    Ok(())
}
