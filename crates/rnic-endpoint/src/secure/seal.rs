//! The sending side of a protected connection.

use super::keys::{CryptoError, EPOCH, PacketKey, Protection, Secret};
use aws_lc_rs::aead::Aad;
use rnic_wire::ProtectedHeader;

/// Protects the packets that a queue pair sends.
pub struct Sealer {
    secret: Secret,
    key: PacketKey,
    peer_qpn: u32,
    protection: Protection,
    next: u64,
}

impl Sealer {
    pub(crate) fn new(secret: Secret, peer_qpn: u32, protection: Protection) -> Result<Sealer, CryptoError> {
        Ok(Sealer { key: secret.key()?, secret, peer_qpn, protection, next: 0 })
    }

    /// Protects a datagram in place, under the next packet number: `packet` is [`ProtectedHeader::LEN`] bytes for the
    /// header, the packets with their lengths, and [`ProtectedHeader::TAG_LEN`] bytes for the tag.
    ///
    /// # Errors
    /// If `packet` has no room for header and tag.
    pub fn seal(&mut self, packet: &mut [u8]) -> Result<(), CryptoError> {
        let inner = packet.len().checked_sub(ProtectedHeader::LEN + ProtectedHeader::TAG_LEN).ok_or(CryptoError)?;
        let number = self.next;
        if number > 0 && number.is_multiple_of(EPOCH) {
            self.secret = self.secret.next()?;
            self.key = self.secret.key()?;
        }
        // The number is used up even if an error follows.
        self.next += 1;
        let encrypted = self.protection == Protection::Encrypted;
        let header = ProtectedHeader { encrypted, dest_qp: self.peer_qpn, packet_number: number };
        packet[..ProtectedHeader::LEN].copy_from_slice(&header.emit());
        let (body, tag) = packet.split_at_mut(ProtectedHeader::LEN + inner);
        let nonce = self.key.nonce(number);
        let made = if encrypted {
            let (header, inner) = body.split_at_mut(ProtectedHeader::LEN);
            self.key.key.seal_in_place_separate_tag(nonce, Aad::from(header), inner)?
        } else {
            self.key.key.seal_in_place_separate_tag(nonce, Aad::from(body), &mut [])?
        };
        tag.copy_from_slice(made.as_ref());
        Ok(())
    }

    /// The number of the next packet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Skips to packet `number`, as if the packets before it had been sent, so that a test reaches a change of keys. A
    /// receiver opens packets of the epoch of the last packet that it received and of the next one, so a test may skip
    /// to the next epoch, but not beyond it.
    ///
    /// # Errors
    /// If the packet was sent already: no number is used twice.
    pub fn skip_to(&mut self, number: u64) -> Result<(), CryptoError> {
        if number < self.next {
            return Err(CryptoError);
        }
        for _ in self.next.saturating_sub(1) / EPOCH..number.saturating_sub(1) / EPOCH {
            self.secret = self.secret.next()?;
            self.key = self.secret.key()?;
        }
        self.next = number;
        Ok(())
    }
}
