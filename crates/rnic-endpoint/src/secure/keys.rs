//! The keys of packets.
//!
//! The key schedule, with HKDF-SHA-256 (RFC 5869) and the labels in quotation marks:
//!
//! ```text
//! shared secret  = X25519(own private key, peer's public key)
//! extracted      = Extract(salt "rnic packet protection 1", shared secret)
//! secret[0]      = Expand(extracted, "secret" | protection | sender's QPN | sender's public key
//!                                            | receiver's QPN | receiver's public key)
//! secret[e + 1]  = Expand(secret[e], "next")
//! key[e]         = Expand(secret[e], "key")
//! iv[e]          = Expand(secret[e], "iv")
//! nonce          = iv[e] xor packet number
//! ```
//!
//! Each direction has its own secrets, because the derivation includes sender and receiver. The epoch `e` of a packet
//! is its number divided by [`EPOCH`], so both ends change the key at the same packet, without exchanging a message,
//! and discard the earlier secret. RFC 9001 (section 6.6) limits the packets under one key of AES-128-GCM to 2^23.

use aws_lc_rs::aead::{AES_128_GCM, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};

/// Number of packets that one key protects.
pub const EPOCH: u64 = 1 << 23;

/// How the packets of a connection are protected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Protection {
    /// No third party can alter, forge or repeat a packet, but every host on the path can read it.
    Authenticated,
    /// As [`Protection::Authenticated`], and no third party can read the packet.
    Encrypted,
}

/// The cryptographic library failed. None of its operations can fail with the arguments that this crate passes, except
/// the agreement with an invalid public key, and the generation of keys in a system without randomness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the public key of the peer is invalid, or the system has no random numbers")]
pub struct CryptoError;

impl From<Unspecified> for CryptoError {
    fn from(_: Unspecified) -> CryptoError {
        CryptoError
    }
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand to `N` bytes.
fn expand<const N: usize>(prk: &Prk, info: &[&[u8]]) -> Result<[u8; N], CryptoError> {
    let mut bytes = [0; N];
    prk.expand(info, Len(N))?.fill(&mut bytes)?;
    Ok(bytes)
}

/// The secret of one epoch, from which its key and the secret of the next epoch are derived.
pub(crate) struct Secret(Prk);

impl Secret {
    pub(crate) fn derive(from: &Prk, info: &[&[u8]]) -> Result<Secret, CryptoError> {
        Ok(Secret(Prk::new_less_safe(HKDF_SHA256, &expand::<32>(from, info)?)))
    }

    /// Returns the secret of the next epoch.
    pub(crate) fn next(&self) -> Result<Secret, CryptoError> {
        Secret::derive(&self.0, &[b"next"])
    }

    pub(crate) fn key(&self) -> Result<PacketKey, CryptoError> {
        let key = UnboundKey::new(&AES_128_GCM, &expand::<16>(&self.0, &[b"key"])?)?;
        Ok(PacketKey { key: LessSafeKey::new(key), iv: expand(&self.0, &[b"iv"])? })
    }
}

/// Key and initialization vector of one epoch and direction.
pub(crate) struct PacketKey {
    pub(crate) key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl PacketKey {
    /// The nonce of a packet. No two packets of an epoch have the same number, so none have the same nonce.
    pub(crate) fn nonce(&self, packet_number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}
