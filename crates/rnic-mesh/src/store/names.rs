//! Names of the files in the folder. Files with other names belong to the user: the store neither reads nor removes
//! them.

use std::ops::Range;
use time::{Date, Month, PrimitiveDateTime, Time};

/// The parts of a file name `probes-HOUR-N.ENDING`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name<'n> {
    /// The hour, like `2026-01-31T23`.
    pub(super) hour: &'n str,
    /// Number of the part of this hour.
    pub(super) part: u64,
    /// The text after the first dot: `log`, `parquet`, `parquet.tmp` or `log.damaged`.
    pub(super) ending: &'n str,
}

impl<'n> Name<'n> {
    /// Reads a file name; `None` for a file that is not of the store.
    pub(super) fn of(name: &'n str) -> Option<Name<'n>> {
        let rest = name.strip_prefix("probes-")?;
        let (hour, rest) = (rest.get(..13)?, rest.get(13..)?);
        let (part, ending) = rest.strip_prefix('-')?.split_once('.')?;
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        start(hour).filter(|_| is_number)?;
        Some(Name { hour, part: part.parse().ok()?, ending })
    }

    /// Whether `name` is the name of a file of the store with this ending.
    pub(super) fn is(name: &str, ending: &str) -> bool {
        Name::of(name).is_some_and(|name| name.ending == ending)
    }

    /// The times of the hour, in microseconds since 1970.
    pub(super) fn times(&self) -> Range<u64> {
        let first = start(self.hour).unwrap_or(0);
        first..first + 3_600_000_000
    }
}

/// The start of an hour, given as text, in microseconds since 1970; `None` if the text is not an hour.
fn start(hour: &str) -> Option<u64> {
    let bytes = hour.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T')];
    if bytes.len() != 13 || separators.iter().any(|(at, byte)| bytes[*at] != *byte) {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = hour.get(from..to).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u16>().ok()
    };
    let month = Month::try_from(number(5, 7)? as u8).ok()?;
    let date = Date::from_calendar_date(number(0, 4)?.into(), month, number(8, 10)? as u8).ok()?;
    let time = Time::from_hms(number(11, 13)? as u8, 0, 0).ok()?;
    let seconds = PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp();
    u64::try_from(seconds).ok().map(|seconds| seconds * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_store_are_accepted() {
        let name = Name::of("probes-2026-01-31T23-12.log").unwrap();
        assert_eq!(name, Name { hour: "2026-01-31T23", part: 12, ending: "log" });
        assert_eq!(name.times(), 1_769_900_400_000_000..1_769_904_000_000_000);
        assert_eq!(crate::store::hour(name.times().start), name.hour);
        assert!(Name::is("probes-1970-01-01T00-0.parquet.tmp", "parquet.tmp"));
        for other in [
            "notes.log",
            "probes.log",
            "probes-2026-01-31T23.log",
            "probes-2026-01-31T23-.log",
            "probes-2026-01-31T23-1x.log",
            "probes-2026-01-31T23--1.log",
            "probes-2026-02-30T23-1.log",
            "probes-2026-13-01T23-1.log",
            "probes-2026-01-31T24-1.log",
            "probes-2026-01-31 23-1.log",
            "probes-+026-01-31T23-1.log",
            "probes-2026-01-3éT23-1.log",
            "old-probes-2026-01-31T23-1.log",
        ] {
            assert_eq!(Name::of(other), None, "{other}");
        }
        assert!(!Name::is("probes-2026-01-31T23-1.log.bak", "log"));
    }
}
