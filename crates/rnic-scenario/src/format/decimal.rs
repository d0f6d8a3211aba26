//! Exact conversion between decimal fractions in flow lists and times in picoseconds, without floating point.

use rnic_transport::Time;

/// A unit in which flow lists state times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// Number of decimals of the unit whose last decimal is one picosecond: 6 for microseconds.
    decimals: usize,
    /// Example of a valid time in this unit, for error messages.
    example: &'static str,
}

/// The unit of times in microseconds.
pub(crate) const MICROSECONDS: Unit = Unit { decimals: 6, example: "12.5" };
/// The unit of times in seconds.
pub(crate) const SECONDS: Unit = Unit { decimals: 12, example: "2.000001" };

/// Parses a decimal number, `text`, as a time in `unit`. The error text continues a sentence that begins with the name
/// of the field.
pub(crate) fn parse(text: &str, unit: Unit) -> Result<Time, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.strip_prefix('-').is_some_and(|rest| digits(rest) && digits(fraction)) {
        return Err(format!("`{text}` is negative; times count from 0"));
    }
    if !digits(whole) || !digits(fraction) || whole.len() + fraction.len() == 0 {
        return Err(format!("`{text}` is not a number; write for example {}", unit.example));
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > unit.decimals {
        return Err(format!("`{text}` is finer than a picosecond; write at most {} decimals", unit.decimals));
    }
    let picoseconds = format!("{whole}{fraction:0<width$}", width = unit.decimals).parse();
    match picoseconds {
        Ok(picoseconds) if picoseconds < u64::MAX => Ok(Time::from_ps(picoseconds)),
        _ => Err(format!("`{text}` is too large; times end after 213 days")),
    }
}

/// Formats `time` exactly as a decimal number in `unit`, with at least `decimals` digits after the point, and more only
/// if the exact value needs them.
pub(crate) fn format(time: Time, unit: Unit, decimals: usize) -> String {
    let scale = 10u64.pow(unit.decimals as u32);
    let (whole, fraction) = (time.as_ps() / scale, time.as_ps() % scale);
    let fraction = format!("{fraction:0width$}", width = unit.decimals);
    let needed = fraction.trim_end_matches('0').len().max(decimals);
    if needed == 0 { whole.to_string() } else { format!("{whole}.{}", &fraction[..needed]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(parse("12.345678", MICROSECONDS), Ok(Time::from_ps(12_345_678)));
        assert_eq!(parse("0.1", MICROSECONDS), Ok(Time::from_ps(100_000)));
        assert_eq!(parse(".5", MICROSECONDS), Ok(Time::from_ps(500_000)));
        assert_eq!(parse("7.", MICROSECONDS), Ok(Time::from_us(7)));
        assert_eq!(parse("1.50000000", MICROSECONDS), Ok(Time::from_ps(1_500_000)));
        assert_eq!(parse("2", SECONDS), Ok(Time::from_ms(2000)));
        assert_eq!(format(Time::from_ps(12_500_000), MICROSECONDS, 0), "12.5");
        assert_eq!(format(Time::from_us(3), MICROSECONDS, 0), "3");
        assert_eq!(format(Time::from_us(3), SECONDS, 9), "0.000003000");
        assert_eq!(format(Time::from_ps(1), SECONDS, 9), "0.000000000001");
    }

    #[test]
    fn what_is_not_a_time_is_said() {
        for (text, error) in [
            ("-1", "`-1` is negative; times count from 0"),
            ("-0.5", "`-0.5` is negative; times count from 0"),
            ("soon", "`soon` is not a number; write for example 12.5"),
            ("", "`` is not a number; write for example 12.5"),
            (".", "`.` is not a number; write for example 12.5"),
            ("1e3", "`1e3` is not a number; write for example 12.5"),
            ("1.2.3", "`1.2.3` is not a number; write for example 12.5"),
            ("1.1234567", "`1.1234567` is finer than a picosecond; write at most 6 decimals"),
            ("99999999999999", "`99999999999999` is too large; times end after 213 days"),
        ] {
            assert_eq!(parse(text, MICROSECONDS), Err(error.to_string()));
        }
    }

    proptest! {
        #[test]
        fn every_time_survives(ps in 0..u64::MAX, decimals in 0usize..10) {
            let time = Time::from_ps(ps);
            prop_assert_eq!(parse(&format(time, MICROSECONDS, decimals.min(6)), MICROSECONDS), Ok(time));
            prop_assert_eq!(parse(&format(time, SECONDS, decimals), SECONDS), Ok(time));
        }
    }
}
