//! Protection of the packets between two rnic endpoints, in the manner of PSP: each packet is authenticated, or
//! authenticated and encrypted, with AES-128-GCM and the keys of its connection. The keys come from an X25519 agreement
//! between the two queue pairs.
//!
//! | module | holds |
//! |---|---|
//! | [`agreement`] | key pairs of queue pairs, and the agreement between two of them |
//! | [`keys`] | key schedule: the keys of packets |
//! | [`seal`] | the sending side: packet numbers, headers, tags |
//! | [`open`] | the receiving side: authentication, decryption |
//! | [`replay`] | the window of packet numbers that were received |
//!
//! The module uses neither sockets nor clocks. `docs/concepts/security.md` has the threat model.
//!
//! ```
//! use rnic_endpoint::secure::{KeyPair, Protection};
//! use rnic_wire::{Bth, Opcode, ProtectedHeader};
//!
//! # fn main() -> Result<(), rnic_endpoint::secure::CryptoError> {
//! // Two queue pairs exchange their numbers and public keys.
//! let [a, b] = [KeyPair::generate()?, KeyPair::generate()?];
//! let mut here = a.agree(17, b.public(), 18, Protection::Encrypted)?;
//! let mut there = b.agree(18, a.public(), 17, Protection::Encrypted)?;
//!
//! // A packet, its length, room for the header before them and for the tag after them.
//! let bth = Bth::new(Opcode::CNP, 18, 0).emit();
//! let inside = [&ProtectedHeader::length(Bth::LEN)[..], &bth].concat();
//! let mut packet = [&[0; ProtectedHeader::LEN][..], &inside, &[0; ProtectedHeader::TAG_LEN]].concat();
//! here.sealer.seal(&mut packet)?;
//!
//! let mut plain = Vec::new();
//! let opened = there.opener.open(&packet, &mut plain).unwrap().next().unwrap();
//! assert_eq!(opened[..Bth::LEN], bth);
//! assert!(there.opener.open(&packet, &mut plain).is_err(), "nobody can send the packet again");
//! # Ok(())
//! # }
//! ```

pub mod agreement;
pub mod keys;
pub mod open;
pub mod replay;
pub mod seal;
#[cfg(test)]
mod tests;

pub use agreement::{KeyPair, PublicKey, Session};
pub use keys::{CryptoError, EPOCH, Protection};
pub use open::{OpenError, Opener};
pub use seal::Sealer;
