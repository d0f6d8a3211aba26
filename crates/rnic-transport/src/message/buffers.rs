//! Message buffers of a NIC, in a few fixed sizes, with a free list for each size.

/// A class of buffers of the same size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct BufferClass {
    /// Size of each buffer in bytes.
    pub bytes: u32,
    /// Number of buffers.
    pub count: u32,
}

/// The reason why no buffer could be allocated for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoBuffer {
    /// The message is longer than the largest buffer, so it can never be sent or received.
    #[error("a message of {bytes} bytes is longer than the largest buffer of {largest} bytes")]
    TooLong {
        /// Length of the message in bytes.
        bytes: u32,
        /// Size of the largest buffer in bytes.
        largest: u32,
    },
    /// All buffers that are large enough are in use. A buffer becomes free when another message ends.
    #[error("all buffers for a message of {bytes} bytes are in use; try again when another message is complete")]
    NoneFree {
        /// Length of the message in bytes.
        bytes: u32,
    },
}

/// The free lists of a NIC's message buffers for one direction, sending or receiving. Buffers contain no payload here,
/// so a free list is only a count.
///
/// ```
/// use rnic_transport::message::buffers::Buffers;
/// use rnic_transport::message::{BufferClass, NoBuffer};
///
/// let mut buffers = Buffers::new(&[BufferClass { bytes: 1_024, count: 1 }, BufferClass { bytes: 65_536, count: 1 }]);
/// let small = buffers.allocate(1_000)?;
/// buffers.allocate(1_000)?; // only the large buffer is left
/// assert_eq!(buffers.allocate(1_000), Err(NoBuffer::NoneFree { bytes: 1_000 }));
/// buffers.release(small);
/// assert_eq!(buffers.allocate(1_000), Ok(small));
/// # Ok::<(), NoBuffer>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffers {
    /// Classes by size, smallest first, each with its number of free buffers. If there are no classes, the number of
    /// buffers is unlimited.
    classes: Vec<(BufferClass, u32)>,
    /// Number of allocated buffers.
    in_use: usize,
}

/// An allocated buffer, identified by its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Buffer(u16);

impl Buffers {
    /// Buffers of these classes, all free. If `classes` is empty, the number of buffers is unlimited.
    pub fn new(classes: &[BufferClass]) -> Buffers {
        let mut classes: Vec<_> = classes.iter().map(|class| (*class, class.count)).collect();
        classes.sort_by_key(|(class, _)| class.bytes);
        Buffers { classes, in_use: 0 }
    }

    /// Allocates the smallest free buffer for a message of `bytes` bytes.
    ///
    /// # Errors
    /// If the message is longer than the largest buffer, or no buffer that is large enough is free.
    pub fn allocate(&mut self, bytes: u32) -> Result<Buffer, NoBuffer> {
        let Some((largest, _)) = self.classes.last() else {
            self.in_use += 1;
            return Ok(Buffer(0));
        };
        if bytes > largest.bytes {
            return Err(NoBuffer::TooLong { bytes, largest: largest.bytes });
        }
        let class = self.classes.iter().position(|(class, free)| class.bytes >= bytes && *free > 0);
        let class = class.ok_or(NoBuffer::NoneFree { bytes })?;
        self.classes[class].1 -= 1;
        self.in_use += 1;
        Ok(Buffer(class as u16))
    }

    /// Frees a buffer.
    pub fn release(&mut self, buffer: Buffer) {
        if let Some((_, free)) = self.classes.get_mut(usize::from(buffer.0)) {
            *free += 1;
        }
        self.in_use -= 1;
    }

    /// Whether all buffers are free.
    pub fn all_free(&self) -> bool {
        self.in_use == 0 && self.classes.iter().all(|(class, free)| class.count == *free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_buffer_that_fits() {
        let classes = [BufferClass { bytes: 4_096, count: 1 }, BufferClass { bytes: 1_024, count: 2 }];
        let mut buffers = Buffers::new(&classes);
        let small = buffers.allocate(1_024).unwrap();
        assert_eq!(buffers.allocate(0), Ok(small));
        let large = buffers.allocate(10).unwrap();
        assert_ne!(large, small, "the small ones are in use");
        assert_eq!(buffers.allocate(10), Err(NoBuffer::NoneFree { bytes: 10 }));
        assert_eq!(buffers.allocate(4_097), Err(NoBuffer::TooLong { bytes: 4_097, largest: 4_096 }));
        buffers.release(small);
        assert_eq!(buffers.allocate(1_025), Err(NoBuffer::NoneFree { bytes: 1_025 }));
        buffers.release(large);
        assert_eq!(buffers.allocate(1_025), Ok(large));
        assert!(!buffers.all_free());
        buffers.release(large);
        buffers.release(small);
        assert!(buffers.all_free());
    }

    #[test]
    fn without_classes_there_is_no_limit() {
        let mut buffers = Buffers::new(&[]);
        let all: Vec<_> = (0..1_000).map(|_| buffers.allocate(u32::MAX).unwrap()).collect();
        assert!(!buffers.all_free());
        all.into_iter().for_each(|buffer| buffers.release(buffer));
        assert!(buffers.all_free());
    }
}
