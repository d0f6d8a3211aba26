//! The receiving side of a protected connection.

use super::keys::{CryptoError, EPOCH, PacketKey, Protection, Secret};
use super::replay::ReplayWindow;
use aws_lc_rs::aead::Aad;
use rnic_wire::{BthView, ICRC_LEN, ProtectedHeader};

/// Why a packet was not opened. The receiver drops such packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The packet is not protected, or does not belong to this connection, or has another kind of protection.
    #[error("not a protected packet of this connection")]
    NotProtected,
    /// A packet with this number was received before, or the number is older than the window.
    #[error("the packet was received before")]
    Replayed,
    /// The tag is wrong: a sender without the key wrote or altered the packet.
    #[error("the packet is not authentic")]
    Forged,
}

/// Authenticates and decrypts the packets that a queue pair receives.
pub struct Opener {
    /// Keys of the epoch before the current one, of the current epoch, and of the next epoch. The current epoch is the
    /// highest one of which an authentic packet has arrived, so a forged packet never changes keys.
    previous: Option<PacketKey>,
    current: PacketKey,
    next: PacketKey,
    next_secret: Secret,
    epoch: u64,
    window: ReplayWindow,
    qpn: u32,
    protection: Protection,
}

impl Opener {
    pub(crate) fn new(secret: Secret, qpn: u32, protection: Protection) -> Result<Opener, CryptoError> {
        let next_secret = secret.next()?;
        Ok(Opener {
            previous: None,
            current: secret.key()?,
            next: next_secret.key()?,
            next_secret,
            epoch: 0,
            window: ReplayWindow::new(),
            qpn,
            protection,
        })
    }

    /// Authenticates `packet`, the payload of a UDP datagram, decrypts it if the connection is encrypted, and returns
    /// the packets inside. Each has four bytes of any value where a packet has its ICRC. `plain` is a buffer for
    /// decryption that the caller reuses.
    ///
    /// # Errors
    /// [`OpenError`] says why the packet must be dropped.
    pub fn open<'a>(
        &mut self, packet: &'a [u8], plain: &'a mut Vec<u8>,
    ) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, OpenError> {
        let header = ProtectedHeader::parse(packet).ok_or(OpenError::NotProtected)?;
        let encrypted = self.protection == Protection::Encrypted;
        if header.dest_qp != self.qpn || header.encrypted != encrypted {
            return Err(OpenError::NotProtected);
        }
        let number = header.packet_number;
        if !self.window.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let ahead = (number / EPOCH).wrapping_sub(self.epoch);
        let key = match (ahead, &self.previous) {
            (0, _) => &self.current,
            (1, _) => &self.next,
            (u64::MAX, Some(previous)) => previous,
            _ => return Err(OpenError::Forged),
        };
        let (body, tag) = packet.split_at(packet.len() - ProtectedHeader::TAG_LEN);
        let nonce = key.nonce(number);
        let inner = if encrypted {
            let (head, cipher) = body.split_at(ProtectedHeader::LEN);
            plain.resize(cipher.len() + ICRC_LEN, 0);
            let out = &mut plain[..cipher.len()];
            key.key.open_separate_gather(nonce, Aad::from(head), cipher, tag, out).map_err(|_| OpenError::Forged)?;
            &plain[..]
        } else {
            key.key.open_separate_gather(nonce, Aad::from(body), &[], tag, &mut []).map_err(|_| OpenError::Forged)?;
            // Behind the packets is the tag, of which four bytes stand for an ICRC.
            &packet[ProtectedHeader::LEN..body.len() + ICRC_LEN]
        };
        self.window.insert(number);
        if ahead == 1 {
            self.advance().map_err(|_| OpenError::Forged)?;
        }
        // An authentic peer could still write packets for another queue pair of this device into it.
        let qpn = self.qpn;
        let is_own = move |packet: &&[u8]| BthView::new(packet).is_some_and(|bth| bth.dest_qp() == qpn);
        Ok(ProtectedHeader::packets(inner).take_while(is_own))
    }

    /// Makes the next epoch the current one.
    fn advance(&mut self) -> Result<(), CryptoError> {
        let following = self.next_secret.next()?;
        let key = following.key()?;
        self.next_secret = following;
        self.previous = Some(std::mem::replace(&mut self.current, std::mem::replace(&mut self.next, key)));
        self.epoch += 1;
        Ok(())
    }
}
