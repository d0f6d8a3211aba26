//! A recycled path if one is known, else the next path of the bitmap: the default of uet-htsim.

use super::bitmap::Bitmap;
use super::reps::Ring;
use super::{PathConfig, Random, Signal};

/// The good paths that are used once more, and the bitmap for all other packets. The ring is that of REPS, without
/// freezing: after a timeout the bitmap avoids the path.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    paths: u16,
    good: Ring,
    bitmap: Bitmap,
}

impl Mixed {
    pub(super) fn new(cfg: &PathConfig, random: Random) -> Mixed {
        Mixed { paths: cfg.paths, good: Ring::default(), bitmap: Bitmap::new(cfg, random) }
    }

    pub(super) fn next(&mut self) -> u16 {
        match self.good.take() {
            Some(path) => path,
            None => self.bitmap.next(),
        }
    }

    pub(super) fn feedback(&mut self, path: u16, signal: Signal) {
        if signal == Signal::Good && path < self.paths {
            self.good.add(path);
        }
        self.bitmap.feedback(path, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_paths_come_first_and_the_bitmap_avoids_the_bad_ones() {
        let cfg = PathConfig { paths: 4, ..PathConfig::default() };
        let mut mixed = Mixed::new(&cfg, Random(5));
        let mut bitmap = Bitmap::new(&cfg, Random(5));
        mixed.feedback(3, Signal::Good);
        mixed.feedback(3, Signal::Good);
        mixed.feedback(2, Signal::Lost);
        bitmap.feedback(2, Signal::Lost);
        assert_eq!([mixed.next(), mixed.next()], [3, 3]);
        let rest: Vec<u16> = (0..12).map(|_| mixed.next()).collect();
        assert_eq!(rest, (0..12).map(|_| bitmap.next()).collect::<Vec<_>>());
        assert!(!rest.contains(&2));
    }
}
