//! Scales of the axes of static pictures: ranges, positions and ticks with labels.
//!
//! The scripts of the pages have the same scales (`scale.js` of the crate `rnic-web`). The tests of both read the same
//! examples.

use super::figure::{Scale, Unit};

/// How an [`AxisScale`] maps values to positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mapping {
    Linear,
    Log,
    Nines,
}

/// An axis with the range of values that it covers.
pub(super) struct AxisScale {
    mapping: Mapping,
    low: f64,
    high: f64,
    /// Candidate sets of tick values, from the set with the most ticks to the set with the fewest.
    ticks: Vec<Vec<f64>>,
    /// Minimum distance of the ticks of a vertical axis in pixels.
    pub(super) apart: f64,
}

impl AxisScale {
    /// The scale of a kind that fits the finite `values`. `round` extends a logarithmic axis so that it begins and ends
    /// at a tick with a label.
    pub(super) fn new(kind: Scale, values: &[f64], round: bool) -> AxisScale {
        let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.is_empty() {
            values = vec![0.0, 1.0];
        }
        let (low, high) = (values[0], values[values.len() - 1]);
        match kind {
            Scale::Nines => AxisScale::nines(low, high),
            Scale::Range if high > low => AxisScale::linear(low, high, None),
            Scale::Zero => AxisScale::linear(0.0, if high > 0.0 { round_above(high) } else { 1.0 }, None),
            Scale::Log | Scale::Auto if low > 0.0 && (kind == Scale::Log || high / low >= 5.0) => {
                let (low, high) = if round { round_ends(low, high) } else { (low, high) };
                AxisScale::log(low, high)
            }
            _ => {
                let pad = if high > low { (high - low) * 0.06 } else { high.abs().max(1.0) * 0.1 };
                let start = if low >= 0.0 { (low - pad).max(0.0) } else { low - pad };
                let own = kind == Scale::Linear && values.len() <= 10;
                AxisScale::linear(start, high + pad, own.then_some(values))
            }
        }
    }

    fn log(low: f64, high: f64) -> AxisScale {
        let (low, high) = if high / low < 1.5 { (low / 1.3, high * 1.3) } else { (low, high) };
        let dense: [&[u32]; 4] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 5], &[1, 3], &[1]];
        let mut ticks: Vec<Vec<f64>> = dense.iter().map(|steps| decimals(steps, low, high)).collect();
        ticks.extend([2, 3, 4, 6].map(|step| decimals(&[1], low, high).into_iter().step_by(step).collect()));
        ticks.retain(|set| set.len() > 1);
        ticks.push(vec![low, high]);
        AxisScale { mapping: Mapping::Log, low, high, ticks, apart: 22.0 }
    }

    /// `own` are tick values to try first.
    fn linear(low: f64, high: f64, own: Option<Vec<f64>>) -> AxisScale {
        let power = 10f64.powf(((high - low) / 10.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0].map(|step| step * power);
        let set = |step: f64| {
            let first = (low / step - 1e-9).ceil() as i64;
            let last = (high / step + 1e-9).floor() as i64;
            (first..=last).map(|i| rounded(i as f64 * step)).collect()
        };
        let ticks = own.into_iter().chain(steps.map(set)).collect();
        AxisScale { mapping: Mapping::Linear, low, high, ticks, apart: 34.0 }
    }

    fn nines(low: f64, high: f64) -> AxisScale {
        let sets: [&[f64]; 3] = [
            &[50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 99.999],
            &[50.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999],
            &[50.0, 90.0, 99.0, 99.9, 99.99, 99.999],
        ];
        let inside = |set: &[f64]| set.iter().copied().filter(|value| (low..=high).contains(value)).collect();
        let ticks = sets.map(inside).to_vec();
        let high = if high > low { high } else { (low + 100.0) / 2.0 };
        AxisScale { mapping: Mapping::Nines, low, high, ticks, apart: 18.0 }
    }

    /// Position of a value along the axis: 0 at the low end, 1 at the high end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let mapped = |value: f64| match self.mapping {
            Mapping::Linear => value,
            Mapping::Log => value.ln(),
            Mapping::Nines => -(1.0 - value.min(99.9999) / 100.0).log10(),
        };
        let (low, high) = (mapped(self.low), mapped(self.high));
        (mapped(value) - low) / (high - low)
    }

    /// The set with the most ticks whose labels do not overlap, as (value, label). `place` maps a value to pixels;
    /// `size` maps a label to the pixels that it takes along the axis.
    pub(super) fn labels(
        &self, unit: Unit, place: impl Fn(f64) -> f64, size: impl Fn(&str) -> f64,
    ) -> Vec<(f64, String)> {
        let mut best = Vec::new();
        for set in &self.ticks {
            let labels: Vec<(f64, String)> = set.iter().map(|value| (*value, unit.axis_label(*value))).collect();
            let clear = labels.windows(2).all(|pair| {
                let apart = (place(pair[1].0) - place(pair[0].0)).abs();
                apart >= (size(&pair[0].1) + size(&pair[1].1)) / 2.0
            });
            if clear && labels.len() > 1 {
                return labels;
            }
            if clear && labels.len() > best.len() {
                best = labels;
            }
        }
        best
    }
}

/// Rounds to nine significant digits, which removes the rounding errors of binary fractions.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// `digits` * 10^`power`. The number is parsed from a decimal literal, because 10^-1 * 2 would have a rounding error.
fn decimal(digits: impl std::fmt::Display, power: i32) -> f64 {
    format!("{digits}e{power}").parse().unwrap_or(f64::NAN)
}

/// The values s * 10^d from `low` to `high`, for each step s and each integer d.
fn decimals(steps: &[u32], low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| decimal(step, power)));
    all.filter(|value| *value >= low * 0.999 && *value <= high * 1.001).collect()
}

/// The smallest round number that is not less than `value`, which must be positive.
fn round_above(value: f64) -> f64 {
    let power = value.log10().floor() as i32;
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| decimal(step, power)).find(|round| *round >= value * 0.9999).unwrap_or(value)
}

/// The range of a logarithmic axis, extended to ticks with labels.
fn round_ends(low: f64, high: f64) -> (f64, f64) {
    let outer = decimals(&[1, 2, 5], low / 5.0, high * 5.0);
    let first = outer.iter().rfind(|value| **value <= low * 1.001);
    let last = outer.iter().find(|value| **value >= high * 0.999);
    (first.copied().unwrap_or(low), last.copied().unwrap_or(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The examples that the scripts of the pages must also agree with.
    fn examples() -> Value {
        serde_json::from_str(include_str!("../../../rnic-web/tests/axes.json")).unwrap()
    }

    fn unit(name: &Value) -> Unit {
        let units = [Unit::Number, Unit::Time, Unit::Bytes, Unit::Percent, Unit::Factor];
        units.into_iter().find(|unit| name == unit.key()).unwrap()
    }

    #[test]
    fn labels_have_units() {
        for example in examples()["labels"].as_array().unwrap() {
            assert_eq!(unit(&example["unit"]).axis_label(example["value"].as_f64().unwrap()), example["text"]);
        }
    }

    #[test]
    fn scales_have_their_positions_and_ticks() {
        let kinds = [Scale::Auto, Scale::Linear, Scale::Range, Scale::Zero, Scale::Log, Scale::Nines];
        for example in examples()["scales"].as_array().unwrap() {
            let kind = kinds.into_iter().find(|kind| example["kind"] == kind.key()).unwrap();
            let number = |value: &Value| value.as_f64().unwrap();
            let values: Vec<f64> = example["values"].as_array().unwrap().iter().map(number).collect();
            let scale = AxisScale::new(kind, &values, example["round"].as_bool().unwrap());
            for pair in example["at"].as_array().unwrap() {
                let found = scale.at(number(&pair[0]));
                assert!((found - number(&pair[1])).abs() < 1e-6, "{}: {found} at {}", example["about"], pair[0]);
            }
            let place = |value: f64| number(&example["pixels"]) * scale.at(value);
            let labels = scale.labels(unit(&example["unit"]), place, |_| number(&example["apart"]));
            let texts: Vec<&str> = labels.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(serde_json::json!(texts), example["labels"], "{}", example["about"]);
        }
    }

    #[test]
    fn values_that_are_not_finite_do_not_extend_an_axis() {
        let scale = AxisScale::new(Scale::Zero, &[f64::NAN, 20.0, f64::INFINITY], false);
        assert_eq!(scale.at(10.0), 0.5);
    }
}
