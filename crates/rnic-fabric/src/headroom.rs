//! PFC headroom: the buffer above the pause threshold that prevents packet loss.

use crate::config::LinkSpec;
use crate::packet::PAUSE_FRAME;
use rnic_transport::Bytes;

/// Maximum number of bytes that can enter an input buffer after its occupancy has reached the pause threshold.
///
/// The link has rate R and propagation delay d. Frames have at most `max_frame` bytes, and take `gap` more bytes on the
/// link. Bytes arrive at rate R throughout, so the headroom is the sum of:
///
/// - the bytes by which the frame that crosses the threshold overshoots it: up to `max_frame`;
/// - one frame with its gap, while the pause frame waits for a frame that has just begun in its direction;
/// - the pause frame with its gap, while the pause frame is serialised;
/// - one frame with its gap, which the upstream transmitter has just begun and finishes;
/// - 2 d R, for the pause frame's way upstream and for the frames that are on the link when the transmitter stops.
///
/// ```
/// use rnic_fabric::{config::LinkSpec, required_headroom};
/// use rnic_transport::{BitRate, Bytes, Time};
///
/// let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
/// assert_eq!(required_headroom(&link, 1_086, 20), Bytes(23_382));
/// ```
pub fn required_headroom(link: &LinkSpec, max_frame: u32, gap: u32) -> Bytes {
    let in_flight = link.rate.bytes_in(link.delay * 2);
    let frames = u64::from(max_frame + gap) * 2 + u64::from(u32::from(PAUSE_FRAME) + gap);
    Bytes(in_flight + frames + u64::from(max_frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::{BitRate, Time};

    #[test]
    fn the_irn_default_case_by_hand() {
        let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
        // 4 us at 5 bytes per ns, two full frames with gaps, one pause frame with gap, and one frame of overshoot.
        assert_eq!(required_headroom(&link, 1_086, 20), Bytes(20_000 + 2 * 1_106 + 84 + 1_086));
    }
}
