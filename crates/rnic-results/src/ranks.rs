//! Exact means and percentiles of several series of values, from flow records in memory or in a file.
//!
//! If the records are in memory, their values are collected and sorted. If the records are in a file, the file is read
//! in several passes, so the values need not fit in memory. The first pass counts the values of each series and finds
//! their minimum and maximum. A later pass divides the ranges that contain the wanted ranks into equal parts and counts
//! the values in each part. The search continues in the parts with the wanted ranks, until few enough values remain to
//! collect them (Munro and Paterson, "Selection and sorting with limited storage", 1980). The results from memory and
//! from a file are bit-identical.

use rnic_spec::FlowLog;
use rnic_spec::FlowRecord;

/// Number of equal parts into which a pass over the flow records divides a range of values. A range with at most this
/// many values is not divided: its values are collected and sorted.
const PARTS: usize = 4_096;

/// The arithmetic mean, summed in the order of the slice; `None` for an empty slice.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// The percentile `per_mille` / 10 by the nearest-rank method: the value of rank `ceil(per_mille / 1000 * n)`, at least
/// 1, among the `n` ascending values of `sorted`. `None` if `sorted` is empty. A `per_mille` above 1000 counts as 1000.
///
/// ```
/// use rnic_results::stats::nearest_rank;
///
/// assert_eq!(nearest_rank(&[15, 20, 35, 40, 50], 400), Some(20));
/// ```
pub fn nearest_rank<T: Copy>(sorted: &[T], per_mille: u32) -> Option<T> {
    sorted.get(rank(sorted.len() as u64, per_mille) as usize).copied()
}

/// Index, counted from 0, that [`nearest_rank`] selects among `count` ascending values.
pub fn rank(count: u64, per_mille: u32) -> u64 {
    let rank = (u128::from(count) * u128::from(per_mille.min(1000))).div_ceil(1000) as u64;
    rank.saturating_sub(1)
}

/// Mean and percentiles of a series with at least one value.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranked {
    /// Number of values in the series.
    pub count: usize,
    /// Arithmetic mean of the values, summed in the order of the flows.
    pub mean: f64,
    /// The requested percentiles by nearest rank ([`nearest_rank`]), in the order of the request.
    pub at: Vec<f64>,
}

impl Ranked {
    /// Mean and percentiles of `values`; `None` if `values` is empty. `per_mille` lists the percentiles in thousandths.
    /// The mean is summed in the given order.
    pub fn of(mut values: Vec<f64>, per_mille: &[u32]) -> Option<Ranked> {
        let mean = mean(&values)?;
        values.sort_unstable_by(f64::total_cmp);
        let at = per_mille.iter().filter_map(|per_mille| nearest_rank(&values, *per_mille)).collect();
        Some(Ranked { count: values.len(), mean, at })
    }
}

/// Means and percentiles of several series of values, which are computed from flows. `visit` is called for each flow.
/// It passes each value of the flow to its second argument, as (index of the series, value). `wanted` lists the
/// percentiles of each series in thousandths.
///
/// A series without values has the result `None`. All results are `None` if the flows cannot be read
/// ([`FlowLog::error`]).
///
/// `visit` sees the flows in order, several times if they are in a file. It must yield the same values each time.
///
/// ```
/// use rnic_results::ranks::ranked;
/// use rnic_spec::FlowLog;
///
/// // Median and 99th percentile of the flow sizes.
/// let flows = FlowLog::new();
/// let sizes = ranked(&flows, &[&[500, 990]], |flow, add| add(0, flow.bytes as f64));
/// assert_eq!(sizes, [None]);
/// ```
pub fn ranked<V>(flows: &FlowLog, wanted: &[&[u32]], visit: V) -> Vec<Option<Ranked>>
where
    V: Fn(&FlowRecord, &mut dyn FnMut(usize, f64)),
{
    if flows.is_in_file() { in_passes(flows, wanted, visit) } else { sorted(flows, wanted, visit) }
}

fn sorted<V>(flows: &FlowLog, wanted: &[&[u32]], visit: V) -> Vec<Option<Ranked>>
where
    V: Fn(&FlowRecord, &mut dyn FnMut(usize, f64)),
{
    let mut values = vec![Vec::new(); wanted.len()];
    for flow in flows {
        visit(&flow, &mut |series, value| values[series].push(value));
    }
    values.into_iter().zip(wanted).map(|(values, per_mille)| Ranked::of(values, per_mille)).collect()
}

fn in_passes<V>(flows: &FlowLog, wanted: &[&[u32]], visit: V) -> Vec<Option<Ranked>>
where
    V: Fn(&FlowRecord, &mut dyn FnMut(usize, f64)),
{
    let mut extents = vec![Extent::default(); wanted.len()];
    for flow in flows {
        visit(&flow, &mut |series, value| extents[series].add(value));
    }
    let mut searches: Vec<Search> = extents.iter().zip(wanted).map(|(extent, wanted)| extent.search(wanted)).collect();
    while flows.error().is_none() && searches.iter().any(|search| !search.spans.is_empty()) {
        for flow in flows {
            visit(&flow, &mut |series, value| searches[series].add(image(value)));
        }
        searches.iter_mut().for_each(Search::narrow);
    }
    if flows.error().is_some() {
        return vec![None; wanted.len()];
    }
    extents.iter().zip(searches).map(|(extent, search)| extent.with(search)).collect()
}

/// Result of the first pass over a series: its count, sum, minimum and maximum.
#[derive(Clone, Debug)]
struct Extent {
    count: u64,
    sum: f64,
    /// Minimum and maximum of the values, as integers of the same order ([`image`]).
    min: u64,
    max: u64,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { count: 0, sum: -0.0, min: u64::MAX, max: 0 } // `Iterator::sum` starts with -0.0 too
    }
}

impl Extent {
    fn add(&mut self, value: f64) {
        let image = image(value);
        self.count += 1;
        self.sum += value;
        (self.min, self.max) = (self.min.min(image), self.max.max(image));
    }

    fn search(&self, per_mille: &[u32]) -> Search {
        let found = per_mille.iter().map(|per_mille| (rank(self.count, *per_mille), None)).collect();
        let mut search = Search { found, spans: Vec::new() };
        if self.count > 0 {
            search.descend(self.min, self.max, 0, self.count);
        }
        search
    }

    fn with(&self, search: Search) -> Option<Ranked> {
        let at = search.found.into_iter().map(|(_, image)| image.map(value)).collect::<Option<_>>()?;
        (self.count > 0).then(|| Ranked { count: self.count as usize, mean: self.sum / self.count as f64, at })
    }
}

/// Search for the values at the wanted ranks of one series, in several passes.
struct Search {
    /// For each wanted rank: the rank, counted from 0, and the [`image`] of its value, once it is found.
    found: Vec<(u64, Option<u64>)>,
    /// Disjoint ascending ranges, which contain those wanted ranks whose values are not found yet.
    spans: Vec<Span>,
}

/// A range of the search: all values whose [`image`] lies in `from..=to`.
struct Span {
    from: u64,
    to: u64,
    /// Number of values of the series that are smaller than every value of the range.
    below: u64,
    seen: Seen,
}

/// The values of a range that the current pass has seen.
enum Seen {
    /// Number of values in each part of the range. The index of the part is (image - `from`) >> `shift`.
    Parts { shift: u32, counts: Vec<u64> },
    /// The images of all values of the range.
    All(Vec<u64>),
}

impl Search {
    fn add(&mut self, image: u64) {
        let at = self.spans.partition_point(|span| span.to < image);
        if let Some(span) = self.spans.get_mut(at).filter(|span| span.from <= image) {
            match &mut span.seen {
                Seen::Parts { shift, counts } => counts[((image - span.from) >> *shift) as usize] += 1,
                Seen::All(images) => images.push(image),
            }
        }
    }

    /// Ends a pass: finds the values at the wanted ranks, or narrows the ranges for the next pass.
    fn narrow(&mut self) {
        for Span { from, to, below, seen } in std::mem::take(&mut self.spans) {
            match seen {
                Seen::All(mut images) => {
                    images.sort_unstable();
                    for (rank, found) in self.found.iter_mut().filter(|(_, found)| found.is_none()) {
                        *found = rank.checked_sub(below).and_then(|rank| images.get(rank as usize)).copied();
                    }
                }
                Seen::Parts { shift, counts } => {
                    let mut below = below;
                    for (part, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
                        let start = from + (part << shift);
                        self.descend(start, to.min(start.saturating_add((1 << shift) - 1)), below, count);
                        below += count;
                    }
                }
            }
        }
    }

    /// Continues the search in the range `from..=to` if a wanted rank lies in it. `count` is the number of values in
    /// this range, `below` the number of smaller values.
    fn descend(&mut self, from: u64, to: u64, below: u64, count: u64) {
        let here = |rank: u64| (below..below + count).contains(&rank);
        if from == to {
            self.found.iter_mut().filter(|(rank, _)| here(*rank)).for_each(|(_, found)| *found = Some(from));
        } else if self.found.iter().any(|(rank, _)| here(*rank)) {
            let seen = if count <= PARTS as u64 {
                Seen::All(Vec::with_capacity(count as usize))
            } else {
                let bits = u64::BITS - (to - from).leading_zeros();
                Seen::Parts { shift: bits.saturating_sub(PARTS.ilog2()), counts: vec![0; PARTS] }
            };
            self.spans.push(Span { from, to, below, seen });
        }
    }
}

/// Maps a value to an integer, so that the integers have the order of [`f64::total_cmp`].
fn image(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The value that [`image`] maps to the given integer.
fn value(image: u64) -> f64 {
    f64::from_bits(if image >> 63 == 1 { image & !(1 << 63) } else { !image })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::flow;
    use super::*;
    use proptest::prelude::*;

    const WANTED: [&[u32]; 3] = [&[0, 1, 500, 999, 1_000, 2_000], &[], &[990]];

    /// Results of [`ranked`] from records in memory and from records in a file. The size of each flow is the bit
    /// pattern of a value. Series 2 has every third value.
    fn both_ways(values: &[f64]) -> [Vec<Option<Ranked>>; 2] {
        let log: FlowLog = (0..).zip(values).map(|(id, value)| flow(id, value.to_bits())).collect();
        let visit = |flow: &FlowRecord, add: &mut dyn FnMut(usize, f64)| {
            let value = f64::from_bits(flow.bytes);
            add(0, value);
            if flow.id.is_multiple_of(3) {
                add(2, value);
            }
        };
        [log.clone(), log.in_file()].map(|log| ranked(&log, &WANTED, visit))
    }

    /// Replaces values by their bits, so that a comparison distinguishes -0.0 from 0.0.
    fn bits(ranked: &[Option<Ranked>]) -> Vec<Option<(usize, u64, Vec<u64>)>> {
        let of = |ranked: &Ranked| {
            (ranked.count, ranked.mean.to_bits(), ranked.at.iter().map(|value| value.to_bits()).collect())
        };
        ranked.iter().map(|ranked| ranked.as_ref().map(of)).collect()
    }

    #[test]
    fn by_hand() {
        let values: Vec<f64> = (1..=1_000).rev().map(f64::from).collect();
        for way in both_ways(&values) {
            let at = vec![1.0, 1.0, 500.0, 999.0, 1_000.0, 1_000.0];
            assert_eq!(way[0], Some(Ranked { count: 1_000, mean: 500.5, at }));
            // Series 2 has the values 1000, 997, ..., 1; the requested percentile has rank 331 of 334.
            assert_eq!(way[2], Some(Ranked { count: 334, mean: 500.5, at: vec![991.0] }));
            assert_eq!(way[1], None);
        }
        assert_eq!(both_ways(&[]), [vec![None; 3], vec![None; 3]]);
    }

    /// The series has more values than are collected without a search in several passes. Most values are equal, the
    /// others are adjacent or far apart.
    #[test]
    fn many_equal_values_and_wide_gaps() {
        let scattered = |i: u64| f64::from_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 2);
        let shapes: [&dyn Fn(u64) -> f64; 5] = [
            &|_| 1.0,
            &|i| if i.is_multiple_of(10) { scattered(i) } else { 1.0 },
            &|i| f64::from_bits(1.0_f64.to_bits() + i / 3),
            &|i| if i.is_multiple_of(2) { -0.0 } else { 0.0 },
            &|i| if i < 4_500 { 1e-300 } else { scattered(i) },
        ];
        for (number, shape) in shapes.into_iter().enumerate() {
            let values: Vec<f64> = (0..20_000).map(shape).collect();
            let [sorted, in_passes] = both_ways(&values);
            assert_eq!(bits(&sorted), bits(&in_passes), "{number}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn both_ways_give_the_same_bits(
            few in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, 1..40), count in 0_usize..30_000, seed: u64,
        ) {
            // Each value is either one of `few`, or one of many numbers between 1 and 2.
            let draw = |i: usize| {
                let dice = (i as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                if dice >> 63 == 0 { few[(dice >> 8) as usize % few.len()] } else { 1.0 + (dice >> 20) as f64 / (1_u64 << 44) as f64 }
            };
            let values: Vec<f64> = (0..count).map(draw).collect();
            let [sorted, in_passes] = both_ways(&values);
            prop_assert_eq!(bits(&sorted), bits(&in_passes));
        }

        #[test]
        fn images_keep_the_order(a: f64, b: f64) {
            prop_assert_eq!(image(a).cmp(&image(b)), a.total_cmp(&b));
            prop_assert_eq!((value(image(a)).to_bits(), value(image(b)).to_bits()), (a.to_bits(), b.to_bits()));
        }
    }

    #[test]
    fn unreadable_flows_have_no_percentiles() {
        let log: FlowLog = (0..5).map(|id| flow(id, 1)).collect();
        let ranked = ranked(&log.unreadable(), &[&[500]], |_, add| add(0, 1.0));
        assert_eq!(ranked, [None]);
    }
}
