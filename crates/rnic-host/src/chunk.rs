//! The local memory of a request, which is divided into slices for chunks; and the length of a chunk on the wire.

use crate::error::HostError;
use rnic_verbs::{Data, SendRequest, Sge};
use smallvec::SmallVec;

/// Scatter-gather elements of one chunk.
pub(crate) type Sges = SmallVec<[Sge; 4]>;

/// Maximum length of a request in bytes, 2^31, as for a message of the NIC.
pub(crate) const MAX_REQUEST: u64 = 1 << 31;

/// The local memory of a request.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    Gather(Sges),
    Inline(Box<[u8]>),
}

impl Local {
    /// Copies the description of a request's memory; for inline data also the bytes.
    ///
    /// # Errors
    /// If no NIC accepts the request: inline data of a read or atomic, more than `max_inline` bytes of inline data, an
    /// atomic whose length is not 8 bytes, or more than [`MAX_REQUEST`] bytes.
    pub(crate) fn of(request: &SendRequest<'_>, max_inline: u32) -> Result<(Local, u64), HostError> {
        let (local, len) = match request.data {
            _ if request.op.is_local() => {
                return Err(HostError::Unsupported("a channel has no memory windows: bind them with a queue pair"));
            }
            Data::Bind(_) => return Err(HostError::Unsupported("only `SendOp::Bind` binds a memory window")),
            Data::Inline(bytes) => {
                if request.op.is_fetching() {
                    return Err(HostError::Unsupported(
                        "a read or atomic cannot have inline data: its response needs registered memory",
                    ));
                }
                if bytes.len() > max_inline as usize {
                    let possible = format!("0 to {max_inline} bytes");
                    return Err(HostError::range("the length of inline data", bytes.len() as u64, possible));
                }
                (Local::Inline(bytes.into()), bytes.len() as u64)
            }
            Data::Gather(sges) => {
                let len = sges.iter().map(|sge| u64::from(sge.len)).sum();
                (Local::Gather(sges.into()), len)
            }
        };
        if request.op.is_atomic() && len != 8 {
            return Err(HostError::range("the length", len, "8 bytes for an atomic"));
        }
        if len > MAX_REQUEST {
            return Err(HostError::range("the length", len, "0 to 2147483648 bytes"));
        }
        Ok((local, len))
    }

    /// Calls `f` with `len` bytes of the memory from `offset` on, as the data of a request.
    pub(crate) fn with_slice<R>(&self, offset: u64, len: u64, f: impl FnOnce(Data<'_>) -> R) -> R {
        match self {
            Local::Inline(bytes) => f(Data::Inline(&bytes[offset as usize..(offset + len) as usize])),
            Local::Gather(sges) => f(Data::Gather(&slice(sges, offset, len))),
        }
    }
}

/// The scatter-gather elements of `len` bytes from `offset` on.
fn slice(sges: &[Sge], mut offset: u64, mut len: u64) -> Sges {
    let mut out = Sges::new();
    for sge in sges {
        let all = u64::from(sge.len);
        if offset >= all {
            offset -= all;
            continue;
        }
        let part = (all - offset).min(len);
        if part == 0 {
            break;
        }
        out.push(Sge { addr: sge.addr + offset, len: part as u32, lkey: sge.lkey });
        (offset, len) = (0, len - part);
    }
    out
}

/// The frames in which a NIC sends a message: the payload of a full packet, and the headers of each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// Path MTU: payload bytes of a full packet.
    pub mtu: u32,
    /// Bytes of a frame besides its payload, without preamble and inter-frame gap.
    pub header: u32,
}

impl Frames {
    /// Number of packets of a message of `len` bytes, at least 1.
    pub fn packets(self, len: u64) -> u64 {
        len.div_ceil(u64::from(self.mtu)).max(1)
    }

    /// Length in bytes of all frames of a message of `len` bytes: a rate limit of the NIC counts these bytes.
    ///
    /// ```
    /// use rnic_host::Frames;
    ///
    /// let frames = Frames { mtu: 4_096, header: 62 };
    /// assert_eq!(frames.wire(65_536), 65_536 + 16 * 62);
    /// assert_eq!(frames.wire(0), 62, "a message without payload is one packet");
    /// ```
    pub fn wire(self, len: u64) -> u64 {
        len + self.packets(len) * u64::from(self.header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_crosses_elements() {
        let sge = |addr, len| Sge { addr, len, lkey: 7 };
        let all = [sge(100, 10), sge(500, 0), sge(200, 5), sge(300, 20)];
        assert_eq!(slice(&all, 8, 10).as_slice(), [sge(108, 2), sge(200, 5), sge(300, 3)]);
        assert_eq!(slice(&all, 15, 20).as_slice(), [sge(300, 20)]);
        assert_eq!(slice(&all, 35, 0).as_slice(), []);
        // All slices of a request together are the request.
        let whole: u64 =
            (0..35).step_by(7).map(|at| slice(&all, at, 7).iter().map(|s| u64::from(s.len)).sum::<u64>()).sum();
        assert_eq!(whole, 35);
    }
}
