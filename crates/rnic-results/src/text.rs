//! Formatting of numbers, for people (a few digits and a unit) and for files (exact decimals).

use rnic_transport::Time;

/// Rounds `value` to six significant digits. Result files store every statistic rounded like this, so that they do not
/// show the rounding errors of binary fractions. Counts and times of single events are never rounded.
///
/// ```
/// assert_eq!(rnic_results::text::round6(0.1 + 0.2), 0.3);
/// ```
pub fn round6(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A time as an exact decimal number of microseconds: `0.0875` for 87,500 ps.
pub(crate) fn exact_us(time: Time) -> String {
    decimal(time.as_ps(), 6)
}

/// A bit rate, given in bit/s, as an exact decimal number of Gbps: `40` or `0.0000005`.
pub(crate) fn exact_gbps(bps: u64) -> String {
    decimal(bps, 9)
}

/// `value` / 10^`decimals` as a decimal number without trailing zeros.
fn decimal(value: u64, decimals: usize) -> String {
    let scale = 10u64.pow(decimals as u32);
    let text = format!("{}.{:0decimals$}", value / scale, value % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A count with thousands separators: `20,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, never in exponent form: `3.42`, `34.2`, `342`, `34,200`.
pub(crate) fn three_digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    match rounded {
        v if v >= 100.0 => count(v as u64),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A time, given in microseconds, with three digits and a unit from ns to s: `217 us`, `1.23 ms`.
pub fn duration(us: f64) -> String {
    // The limit is 999.5, not 1,000, because 999.9 us rounded to three digits would be `1,000 us`.
    for (unit, scale) in [("ns", 1e-3), ("us", 1.0), ("ms", 1e3)] {
        if us / scale < 999.5 {
            return format!("{} {unit}", three_digits(us / scale));
        }
    }
    format!("{} s", three_digits(us / 1e6))
}

/// A bit rate, given in bit/s, with three digits and a unit from bps to Gbps: `39.2 Gbps`, `0 bps`.
pub fn rate(bps: f64) -> String {
    if bps == 0.0 {
        return "0 bps".to_string();
    }
    for (unit, scale) in [("bps", 1.0), ("Kbps", 1e3), ("Mbps", 1e6)] {
        if bps / scale < 999.5 {
            return format!("{} {unit}", three_digits(bps / scale));
        }
    }
    format!("{} Gbps", three_digits(bps / 1e9))
}

/// A fraction as a percentage: `8.51 %`, `0 %`, `< 0.01 %`.
pub fn percent(fraction: f64) -> String {
    match fraction * 100.0 {
        0.0 => "0 %".to_string(),
        p if p < 0.01 => "< 0.01 %".to_string(),
        p => format!("{} %", three_digits(p)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_significant_digits() {
        for (value, expected) in [
            (1.0 / 3.0, 0.333333),
            (1234567.8, 1234570.0),
            (0.1 + 0.2, 0.3),
            (0.0, 0.0),
            (0.0000123456789, 0.0000123457),
        ] {
            assert_eq!(round6(value), expected);
        }
    }

    #[test]
    fn exact_decimals_have_no_noise() {
        assert_eq!(exact_us(Time::from_ps(87_500)), "0.0875");
        assert_eq!(exact_us(Time::from_us(2)), "2");
        assert_eq!(exact_us(Time::ZERO), "0");
        assert_eq!(exact_us(Time::from_ps(1)), "0.000001");
        assert_eq!(exact_us(Time::from_ps(u64::MAX)), "18446744073709.551615");
        assert_eq!(exact_gbps(40_000_000_000), "40");
        assert_eq!(exact_gbps(2_500_000_001), "2.500000001");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!([count(0), count(999), count(20_000), count(1_234_567)], ["0", "999", "20,000", "1,234,567"]);
        let three = [0.0, 3.417, 9.999, 34.21, 99.99, 341.7, 34_170.0].map(three_digits);
        assert_eq!(three, ["0.00", "3.42", "10.0", "34.2", "100", "342", "34,200"]);
        let times = [0.0, 0.0875, 217.2, 999.9, 1_234.0, 12_345_678.0].map(duration);
        assert_eq!(times, ["0.00 ns", "87.5 ns", "217 us", "1.00 ms", "1.23 ms", "12.3 s"]);
        let rates = [0.0, 12.0, 999_600.0, 1.124e9, 4e10].map(rate);
        assert_eq!(rates, ["0 bps", "12.0 bps", "1.00 Mbps", "1.12 Gbps", "40.0 Gbps"]);
        let percents = [0.0, 0.00001, 0.0851, 1.0].map(percent);
        assert_eq!(percents, ["0 %", "< 0.01 %", "8.51 %", "100 %"]);
    }
}
