//! Cases that test the frame port with a minimal RC peer, which can only run `ibv_rc_pingpong` with messages of one
//! packet. They also check how the kernel responds to wrong packets.

use crate::bench::{Bench, Case};
use crate::ensure;
use crate::error::{Error, Result};
use crate::frame::Datagram;
use crate::guest::{COMMAND_PATIENCE, Guest, GuestOptions, HOST_SEEN_BY_GUEST, OUT_OF_BAND_PORT, listener};
use crate::host::{Gid, Host};
use crate::port::FramePort;
use crate::roce::{ACKNOWLEDGE, BTH, Bth, ICRC, SEND_ONLY, WRITE_ONLY, icrc_is_right, packet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case { name: "frame-peer-server", about: "ibv_rc_pingpong as client of our frame port, IPv4", run: serve },
    Case { name: "frame-peer-client", about: "ibv_rc_pingpong as server of our frame port, IPv6", run: connect },
    Case {
        name: "frame-peer-errors",
        about: "what the kernel answers to packets that are out of order or wrong",
        run: probe,
    },
];

const ROUNDS: u32 = 10;
const SIZE: usize = 1024;
/// Time without a response after which the peer counts as silent. The case would take a later response for the response
/// to the next packet, and fail.
const SILENCE: Duration = Duration::from_millis(1500);
const OUR_QP: u32 = 0x00_4711;
/// First PSN of this peer, close to the maximum, so that PSNs wrap around.
const OUR_PSN: u32 = 0xff_fffb;

fn serve(bench: &Bench) -> Result<()> {
    let (mut guest, mut port) = bench.guest_and_port(&GuestOptions::default())?;
    let (listener, tcp_port) = listener()?;
    let gid = Gid::Ipv4;
    let client = guest.spawn(&format!(
        "ibv_rc_pingpong -d rxe0 -g {} -n {ROUNDS} -s {SIZE} -p {tcp_port} {HOST_SEEN_BY_GUEST}",
        gid.index()
    ))?;
    let mut stream = guest.accept(&listener, &client)?;
    let remote = Destination::read(&mut stream)?;
    ensure!(remote.gid == gid.bytes(guest.host()), "the guest's GID is {:02x?}", remote.gid);
    Destination::ours(gid).write(&mut stream)?;
    let mut done = [0; 5];
    stream.read_exact(&mut done).map_err(Error::io("the exchange"))?;
    ensure!(&done == b"done\0", "the client ends its exchange with {done:02x?}");
    // The client sends first.
    let peer = Peer::new(gid, guest.host(), &remote);
    peer.play(&mut port, false)?;
    check_output(&guest.finish(client, COMMAND_PATIENCE)?)
}

fn connect(bench: &Bench) -> Result<()> {
    let (mut guest, mut port) = bench.guest_and_port(&GuestOptions::default())?;
    let gid = Gid::Ipv6;
    guest.meet(gid.address(Host::OURS))?;
    let server = guest.spawn(&format!("ibv_rc_pingpong -d rxe0 -g {} -n {ROUNDS} -s {SIZE}", gid.index()))?;
    guest.await_listener(&server, OUT_OF_BAND_PORT)?;
    let remote = exchange_as_client(&guest, gid)?;
    let peer = Peer::new(gid, guest.host(), &remote);
    peer.play(&mut port, true)?;
    check_output(&guest.finish(server, COMMAND_PATIENCE)?)
}

fn exchange_as_client(guest: &Guest, gid: Gid) -> Result<Destination> {
    let mut stream = guest.connect()?;
    Destination::ours(gid).write(&mut stream)?;
    let remote = Destination::read(&mut stream)?;
    ensure!(remote.gid == gid.bytes(guest.host()), "the guest's GID is {:02x?}", remote.gid);
    stream.write_all(b"done\0").map_err(Error::io("the exchange"))?;
    Ok(remote)
}

fn probe(bench: &Bench) -> Result<()> {
    let (mut guest, mut port) = bench.guest_and_port(&GuestOptions::default())?;
    let gid = Gid::Ipv4;
    let server = guest.spawn(&format!("ibv_rc_pingpong -d rxe0 -g {} -s {SIZE}", gid.index()))?;
    guest.await_listener(&server, OUT_OF_BAND_PORT)?;
    let remote = exchange_as_client(&guest, gid)?;
    let peer = Peer::new(gid, guest.host(), &remote);
    let psn = |number: u32| (OUR_PSN + number) & 0xff_ffff;
    let send = |number: u32| Bth { ack_request: true, ..Bth::new(SEND_ONLY, remote.qp, psn(number)) };

    let answer = |port: &mut FramePort, step: &str, bth: &Bth, rest: &[u8], expected: Option<(u32, u32)>| {
        peer.send(port, bth, rest)?;
        let got = peer.answer(port, if expected.is_some() { COMMAND_PATIENCE } else { SILENCE })?;
        ensure!(got == expected, "{step}: the answer is {got:x?}, expected {expected:x?}");
        Ok(())
    };
    let message = [0x7b; SIZE];
    // ACKs have syndrome 1f and the number of messages received so far (MSN).
    answer(&mut port, "in order", &send(0), &message, Some((psn(0), 0x1f00_0001)))?;
    answer(&mut port, "ahead", &send(2), &message, Some((psn(1), 0x6000_0001)))?;
    answer(&mut port, "ahead again", &send(3), &message, None)?;
    answer(&mut port, "in order again", &send(1), &message, Some((psn(1), 0x1f00_0002)))?;
    answer(&mut port, "a duplicate", &send(0), &message, Some((psn(1), 0x1f00_0002)))?;
    answer(&mut port, "an unknown queue pair", &Bth { dest_qp: 0x70, ..send(2) }, &message, None)?;
    answer(&mut port, "a foreign partition", &Bth { pkey: 0x8001, ..send(2) }, &message, None)?;

    let (src, dst) = (gid.address(Host::OURS), gid.address(guest.host()));
    let mut broken = packet(src, dst, 0xd1ce, 1, &send(2), &message);
    *broken.last_mut().expect("a packet has an ICRC") ^= 1;
    port.send_packet(dst, &broken)?;
    let got = peer.answer(&mut port, SILENCE)?;
    ensure!(got.is_none(), "a wrong ICRC: the answer is {got:x?}");

    // The program does not grant the right to RDMA Writes.
    let reth = [&[0; 8][..], &[0; 4], &8_u32.to_be_bytes(), &[0; 8]].concat();
    let write = Bth { opcode: WRITE_ONLY, ..send(2) };
    answer(&mut port, "a write without permission", &write, &reth, Some((psn(2), 0x6100_0002)))?;
    let outcome = guest.outcome(server, COMMAND_PATIENCE)?;
    ensure!(outcome.code != 0, "ibv_rc_pingpong succeeds, and prints:\n{}", outcome.output);
    Ok(())
}

fn check_output(output: &str) -> Result<()> {
    let expected = format!("{} bytes in", ROUNDS as usize * SIZE * 2);
    ensure!(output.contains(&expected), "ibv_rc_pingpong printed:\n{output}");
    Ok(())
}

/// The address of a queue pair, which the two ends of ibv_rc_pingpong exchange.
struct Destination {
    qp: u32,
    psn: u32,
    gid: [u8; 16],
}

impl Destination {
    const LENGTH: usize = 52;

    fn ours(gid: Gid) -> Destination {
        Destination { qp: OUR_QP, psn: OUR_PSN, gid: gid.bytes(Host::OURS) }
    }

    fn write(&self, stream: &mut TcpStream) -> Result<()> {
        let gid: String = self.gid.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{:04x}:{:06x}:{:06x}:{gid}\0", 0, self.qp, self.psn);
        stream.write_all(text.as_bytes()).map_err(Error::io("the exchange"))
    }

    fn read(stream: &mut TcpStream) -> Result<Destination> {
        let mut bytes = [0; Destination::LENGTH];
        stream.read_exact(&mut bytes).map_err(Error::io("the exchange"))?;
        let nonsense = || Error::Check(format!("the guest's address is {}", String::from_utf8_lossy(&bytes)));
        let text = std::str::from_utf8(&bytes).map_err(|_| nonsense())?.trim_end_matches('\0');
        let fields: Vec<u128> = text.split(':').filter_map(|field| u128::from_str_radix(field, 16).ok()).collect();
        let &[_, qp, psn, gid] = &fields[..] else { return Err(nonsense()) };
        Ok(Destination { qp: qp as u32, psn: psn as u32, gid: gid.to_be_bytes() })
    }
}

/// One end of a ping-pong: it sends a message, waits for a message of the guest, and so on.
struct Peer {
    gid: Gid,
    guest: Host,
    remote_qp: u32,
    remote_psn: u32,
}

impl Peer {
    fn new(gid: Gid, guest: Host, remote: &Destination) -> Peer {
        Peer { gid, guest, remote_qp: remote.qp, remote_psn: remote.psn }
    }

    fn play(&self, port: &mut FramePort, first: bool) -> Result<()> {
        let deadline = Instant::now() + COMMAND_PATIENCE;
        let (mut sent, mut acknowledged, mut received) = (0, 0, 0);
        let mut resend = Instant::now();
        loop {
            // The counts of messages determine whose turn it is: the end that starts is one message ahead.
            if acknowledged == sent && sent < ROUNDS && (if first { received >= sent } else { received > sent }) {
                sent += 1;
                resend = Instant::now();
            }
            if acknowledged < sent && Instant::now() >= resend {
                self.send_message(port, sent - 1)?;
                resend = Instant::now() + Duration::from_millis(500);
            }
            if acknowledged == ROUNDS && received == ROUNDS {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "sent {sent}, acknowledged {acknowledged}, received {received}");
            let Some(datagram) = port.recv_udp(Duration::from_millis(100))? else { continue };
            let bth = self.check(&datagram)?;
            match bth.opcode {
                ACKNOWLEDGE => {
                    let syndrome = datagram.payload()[BTH];
                    ensure!(syndrome >> 5 == 0, "the guest answers with syndrome {syndrome:02x}");
                    acknowledged = acknowledged.max(distance(OUR_PSN, bth.psn) + 1);
                }
                SEND_ONLY => {
                    let message = &datagram.payload()[BTH..datagram.payload().len() - ICRC];
                    ensure!(message == [0x7b; SIZE], "the guest's message is not what ibv_rc_pingpong fills it with");
                    let number = distance(self.remote_psn, bth.psn);
                    ensure!(number <= received, "message {number} came before message {received}");
                    received = received.max(number + 1);
                    self.acknowledge(port, bth.psn, received)?;
                }
                opcode => return Err(Error::Check(format!("the guest sends opcode {opcode:02x}"))),
            }
        }
    }

    /// Waits for the next acknowledgement. Returns its PSN and its AETH, or `None` if none arrives within `patience`.
    /// While waiting, acknowledges messages of the guest.
    fn answer(&self, port: &mut FramePort, patience: Duration) -> Result<Option<(u32, u32)>> {
        let deadline = Instant::now() + patience;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let Some(datagram) = port.recv_udp(left)? else { break };
            let bth = self.check(&datagram)?;
            if bth.opcode == ACKNOWLEDGE {
                let aeth = datagram.payload()[BTH..BTH + 4].try_into().expect("four bytes");
                return Ok(Some((bth.psn, u32::from_be_bytes(aeth))));
            }
            self.acknowledge(port, bth.psn, distance(self.remote_psn, bth.psn) + 1)?;
        }
        Ok(None)
    }

    /// Checks the header fields that every packet of the kernel must have.
    fn check(&self, datagram: &Datagram) -> Result<Bth> {
        let Some(bth) = Bth::parse(datagram.payload()) else {
            return Err(Error::Check("a packet is too short".into()));
        };
        ensure!(icrc_is_right(datagram), "wrong ICRC in {datagram:02x?}");
        ensure!(datagram.src == self.gid.address(self.guest), "a packet comes from {}", datagram.src);
        ensure!(bth.dest_qp == OUR_QP && bth.pkey == 0xffff && bth.pad == 0, "a packet has the header {bth:x?}");
        Ok(bth)
    }

    fn send_message(&self, port: &mut FramePort, number: u32) -> Result<()> {
        let bth = Bth { ack_request: true, ..Bth::new(SEND_ONLY, self.remote_qp, (OUR_PSN + number) & 0xff_ffff) };
        self.send(port, &bth, &[0x7b; SIZE])
    }

    fn acknowledge(&self, port: &mut FramePort, psn: u32, messages: u32) -> Result<()> {
        // Syndrome 1f means an ACK without end-to-end credits.
        let aeth = (0x1f << 24 | messages).to_be_bytes();
        self.send(port, &Bth::new(ACKNOWLEDGE, self.remote_qp, psn), &aeth)
    }

    fn send(&self, port: &mut FramePort, bth: &Bth, rest: &[u8]) -> Result<()> {
        let (src, dst) = (self.gid.address(Host::OURS), self.gid.address(self.guest));
        // Any IPv4 identification is valid, as long as the ICRC is computed with it.
        let ip_id = (bth.psn as u16).wrapping_mul(0x9e37);
        port.send_packet(dst, &packet(src, dst, 0xd1ce, ip_id, bth, rest))?;
        Ok(())
    }
}

/// Returns how far the PSN `to` is ahead of the PSN `from`, modulo 2^24.
fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & 0xff_ffff
}
