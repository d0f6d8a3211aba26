//! Conversion between decimal numbers in files of other tools and whole numbers, without floating point.

use rnic_transport::Time;

/// A unit in which flow lists state times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// Number of decimals of the unit whose last decimal is one picosecond: 6 for microseconds.
    decimals: usize,
    /// Whether a time between two picoseconds is rounded to the nearest one; otherwise it is an error.
    rounds: bool,
    /// Example of a valid time in this unit, for error messages.
    example: &'static str,
}

/// The unit of times in microseconds.
pub(crate) const MICROSECONDS: Unit = Unit { decimals: 6, rounds: false, example: "12.5" };
/// The unit of times in seconds. Programs write such times from floating-point numbers, with digits beyond picoseconds.
pub(crate) const SECONDS: Unit = Unit { decimals: 12, rounds: true, example: "2.000001" };
/// The unit of times in picoseconds, which programs may write with decimals.
pub(crate) const PICOSECONDS: Unit = Unit { decimals: 0, rounds: true, example: "12500000" };

/// Why a text is not a decimal number in range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotDecimal {
    /// The text is no decimal number.
    Syntax,
    /// The number is negative.
    Negative,
    /// The number has more decimals than the unit.
    Finer,
    /// The number does not fit into 64 bits.
    Large,
}

/// Maximum number of digits of a number, before and after the point together.
const MAX_DIGITS: usize = 400;

/// The decimal number `text` times 10^`decimals`, as a whole number. The number may have a point and an exponent:
/// `12.5`, `.5`, `1.25e-05`. A fraction that is left is rounded to the nearest whole number if `rounds`.
pub(crate) fn scaled(text: &str, decimals: usize, rounds: bool) -> Result<u64, NotDecimal> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], exponent(&text[at + 1..]).ok_or(NotDecimal::Syntax)?),
        None => (text, 0),
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let length = whole.len() + fraction.len();
    if !is_digits(whole) || !is_digits(fraction) || length == 0 || length > MAX_DIGITS {
        return Err(NotDecimal::Syntax);
    }
    if sign == "-" {
        return Err(NotDecimal::Negative);
    }
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    // The number is 0.DIGITS times 10^point, with the digits that are left.
    let leading = (all.len() - all.trim_start_matches('0').len()) as i64;
    let point = whole.len() as i64 - leading + i64::from(exponent) + decimals as i64;
    if point > 20 {
        return Err(NotDecimal::Large);
    }
    let (kept, rest) = digits.split_at((point.max(0) as usize).min(digits.len()));
    if !rest.is_empty() && !rounds {
        return Err(NotDecimal::Finer);
    }
    let padded = format!("{kept:0<width$}", width = point.max(0) as usize);
    let number: u128 = if padded.is_empty() { 0 } else { padded.parse().map_err(|_| NotDecimal::Large)? };
    // The first digit that is left decides, unless zeros precede it.
    let up = point >= 0 && rest.as_bytes().first().is_some_and(|digit| *digit >= b'5');
    u64::try_from(number + u128::from(up)).map_err(|_| NotDecimal::Large)
}

/// The exponent of a number in scientific notation, such as `-05`.
fn exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.strip_prefix('+').unwrap_or(text).parse().ok() } else { None }
}

/// Parses a decimal number, `text`, as a time in `unit`. The error text continues a sentence that begins with the name
/// of the field.
pub(crate) fn parse(text: &str, unit: Unit) -> Result<Time, String> {
    match scaled(text, unit.decimals, unit.rounds) {
        Ok(picoseconds) if picoseconds < u64::MAX => Ok(Time::from_ps(picoseconds)),
        Err(NotDecimal::Negative) => Err(format!("`{text}` is negative; times count from 0")),
        Err(NotDecimal::Syntax) => Err(format!("`{text}` is not a number; write for example {}", unit.example)),
        Err(NotDecimal::Finer) => {
            Err(format!("`{text}` is finer than a picosecond; write at most {} decimals", unit.decimals))
        }
        Ok(_) | Err(NotDecimal::Large) => Err(format!("`{text}` is too large; times end after 213 days")),
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
        assert_eq!(parse("000", MICROSECONDS), Ok(Time::ZERO));
        assert_eq!(parse("0e-99", MICROSECONDS), Ok(Time::ZERO));
        assert_eq!(format(Time::from_ps(12_500_000), MICROSECONDS, 0), "12.5");
        assert_eq!(format(Time::from_us(3), MICROSECONDS, 0), "3");
        assert_eq!(format(Time::from_us(3), SECONDS, 9), "0.000003000");
        assert_eq!(format(Time::from_ps(1), SECONDS, 9), "0.000000000001");
    }

    #[test]
    fn numbers_may_have_an_exponent() {
        for (text, ps) in [
            ("5e-06", 5_000_000),
            ("1.25e-05", 12_500_000),
            ("2.0e+00", 2_000_000_000_000),
            ("2E0", 2_000_000_000_000),
            ("1e-12", 1),
            ("0.0001e3", 100_000_000_000),
            ("12e2", 1_200_000_000_000_000),
            ("1.8446744e7", 18_446_744_000_000_000_000),
        ] {
            assert_eq!(parse(text, SECONDS), Ok(Time::from_ps(ps)), "{text}");
        }
        assert_eq!(parse("1e3", MICROSECONDS), Ok(Time::from_ms(1)));
        assert_eq!(parse("1.5e-5", MICROSECONDS), Ok(Time::from_ps(15)));
    }

    #[test]
    fn seconds_are_rounded_to_picoseconds() {
        // 0.1 + 0.2 as a 64-bit floating-point number, and numbers around half a picosecond.
        for (text, ps) in [
            ("0.30000000000000004", 300_000_000_000),
            ("1.2345678901234567e-05", 12_345_679),
            ("0.0000000000005", 1),
            ("4.9e-13", 0),
            ("5e-14", 0),
            ("9.99e-99", 0),
            ("0.9999999999996", 1_000_000_000_000),
        ] {
            assert_eq!(parse(text, SECONDS), Ok(Time::from_ps(ps)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_said() {
        for (text, error) in [
            ("-1", "`-1` is negative; times count from 0"),
            ("-0.5", "`-0.5` is negative; times count from 0"),
            ("soon", "`soon` is not a number; write for example 12.5"),
            ("", "`` is not a number; write for example 12.5"),
            (".", "`.` is not a number; write for example 12.5"),
            ("1e", "`1e` is not a number; write for example 12.5"),
            ("e3", "`e3` is not a number; write for example 12.5"),
            ("1e99999", "`1e99999` is not a number; write for example 12.5"),
            ("1e-7", "`1e-7` is finer than a picosecond; write at most 6 decimals"),
            ("1e15", "`1e15` is too large; times end after 213 days"),
            ("1.2.3", "`1.2.3` is not a number; write for example 12.5"),
            ("1.1234567", "`1.1234567` is finer than a picosecond; write at most 6 decimals"),
            ("99999999999999", "`99999999999999` is too large; times end after 213 days"),
        ] {
            assert_eq!(parse(text, MICROSECONDS), Err(error.to_string()));
        }
    }

    proptest! {
        #[test]
        fn scientific_notation_is_exact(digits in 1u64..1_000_000_000_000, exponent in -11i32..3) {
            // The same number with the point moved by hand.
            let expected = match exponent {
                0.. => u128::from(digits) * 10u128.pow(12 + exponent as u32),
                _ => u128::from(digits) * 10u128.pow((12 + exponent) as u32),
            };
            let read = scaled(&format!("{digits}e{exponent}"), 12, false);
            prop_assert_eq!(read, u64::try_from(expected).map_err(|_| NotDecimal::Large));
        }

        #[test]
        fn arbitrary_numbers_never_panic(text in "[0-9.eE+-]{0,30}", decimals in 0usize..13, rounds: bool) {
            let _ = scaled(&text, decimals, rounds);
        }

        #[test]
        fn every_time_survives(ps in 0..u64::MAX, decimals in 0usize..10) {
            let time = Time::from_ps(ps);
            prop_assert_eq!(parse(&format(time, MICROSECONDS, decimals.min(6)), MICROSECONDS), Ok(time));
            prop_assert_eq!(parse(&format(time, SECONDS, decimals), SECONDS), Ok(time));
        }
    }
}
