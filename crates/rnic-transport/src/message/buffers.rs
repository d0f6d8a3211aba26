//! Message buffers: a few fixed sizes, a free list for each.

/// Buffers of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferClass {
    /// Size of each in bytes.
    pub bytes: u32,
    /// How many there are.
    pub count: u32,
}

/// Why a message cannot be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoBuffer {
    /// It is longer than every buffer: it will never be taken.
    #[error("a message of {bytes} bytes is longer than the largest buffer; {largest} bytes would fit")]
    TooLong {
        /// Its length.
        bytes: u32,
        /// Size of the largest buffer.
        largest: u32,
    },
    /// All buffers that it would fit into are in use: try again when a message is done.
    #[error("all buffers for a message of {bytes} bytes are in use; one is free when a message is done")]
    NoneFree {
        /// Its length.
        bytes: u32,
    },
}

/// The free lists of one direction. There is no payload, so a list is its length.
#[derive(Clone, Debug)]
pub struct Buffers {
    /// By size, smallest first: size, free ones. Empty: no limit.
    classes: Vec<(BufferClass, u32)>,
    in_use: usize,
}

/// The class of a buffer that was given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Buffer(u16);

impl Buffers {
    /// All of them free; without classes there is no limit.
    pub fn new(classes: &[BufferClass]) -> Buffers {
        let mut classes: Vec<_> = classes.iter().map(|class| (*class, class.count)).collect();
        classes.sort_by_key(|(class, _)| class.bytes);
        Buffers { classes, in_use: 0 }
    }

    /// The smallest free buffer that a message of `bytes` fits into.
    pub fn allocate(&mut self, bytes: u32) -> Result<Buffer, NoBuffer> {
        let Some((largest, _)) = self.classes.last() else {
            self.in_use += 1;
            return Ok(Buffer(0));
        };
        if bytes > largest.bytes {
            return Err(NoBuffer::TooLong { bytes, largest: largest.bytes });
        }
        let place = self.classes.iter().position(|(class, free)| class.bytes >= bytes && *free > 0);
        let place = place.ok_or(NoBuffer::NoneFree { bytes })?;
        self.classes[place].1 -= 1;
        self.in_use += 1;
        Ok(Buffer(place as u16))
    }

    /// Takes a buffer back.
    pub fn release(&mut self, buffer: Buffer) {
        if let Some((_, free)) = self.classes.get_mut(usize::from(buffer.0)) {
            *free += 1;
        }
        self.in_use -= 1;
    }

    /// Whether every buffer is free.
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
