//! The key pair of each queue pair, and the agreement between two queue pairs.

use super::keys::{CryptoError, Protection, Secret};
use super::open::Opener;
use super::seal::Sealer;
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use std::fmt;

/// The public key of a queue pair. It is not a secret, but an attacker who replaces it on its way to the peer can
/// impersonate the queue pair. In text formats it is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> String {
        format!("{key:?}")
    }
}

impl TryFrom<String> for PublicKey {
    type Error = String;

    fn try_from(text: String) -> Result<PublicKey, String> {
        let digit = |at: usize| text.as_bytes().get(at).and_then(|digit| (*digit as char).to_digit(16));
        let byte = |at: usize| Some((digit(2 * at)? << 4 | digit(2 * at + 1)?) as u8);
        let mut key = [0; 32];
        for (at, out) in key.iter_mut().enumerate() {
            *out = byte(at).ok_or("a public key has 64 hexadecimal digits")?;
        }
        if text.len() == 64 { Ok(PublicKey(key)) } else { Err("a public key has 64 hexadecimal digits".to_string()) }
    }
}

/// The key pair of a queue pair, for one connection.
pub struct KeyPair {
    private: PrivateKey,
    public: PublicKey,
}

impl KeyPair {
    /// Generates a key pair from the system's random numbers.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<KeyPair, CryptoError> {
        KeyPair::new(PrivateKey::generate(&X25519)?)
    }

    /// The key pair of a private key.
    #[cfg(test)]
    pub(crate) fn of(private: &[u8; 32]) -> KeyPair {
        KeyPair::new(PrivateKey::from_private_key(&X25519, private).unwrap()).unwrap()
    }

    fn new(private: PrivateKey) -> Result<KeyPair, CryptoError> {
        let public = private.compute_public_key()?;
        let public = PublicKey(public.as_ref().try_into().map_err(|_| CryptoError)?);
        Ok(KeyPair { private, public })
    }

    /// The public key, for the peer.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Derives the keys of the connection between this queue pair, which has the number `qpn`, and the queue pair
    /// `peer_qpn` with the public key `peer`. Both ends must pass the same `protection`; otherwise neither can open the
    /// other's packets.
    ///
    /// # Errors
    /// When the public key is invalid.
    pub fn agree(
        &self, qpn: u32, peer: PublicKey, peer_qpn: u32, protection: Protection,
    ) -> Result<Session, CryptoError> {
        let extracted = agree(&self.private, UnparsedPublicKey::new(&X25519, peer.0), CryptoError, |shared| {
            Ok(Salt::new(HKDF_SHA256, b"rnic packet protection 1").extract(shared))
        })?;
        let secret = |sender: (u32, PublicKey), receiver: (u32, PublicKey)| {
            let [from, to] = [sender, receiver].map(|(qpn, _)| qpn.to_be_bytes());
            let info: [&[u8]; 6] = [b"secret", &[protection as u8], &from, &sender.1.0, &to, &receiver.1.0];
            Secret::derive(&extracted, &info)
        };
        let [own, theirs] = [(qpn, self.public), (peer_qpn, peer)];
        Ok(Session {
            sealer: Sealer::new(secret(own, theirs)?, peer_qpn, protection)?,
            opener: Opener::new(secret(theirs, own)?, qpn, protection)?,
        })
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

/// The two directions of a protected connection.
pub struct Session {
    /// Protects the packets that this end sends.
    pub sealer: Sealer,
    /// Authenticates and decrypts the packets that this end receives.
    pub opener: Opener,
}
