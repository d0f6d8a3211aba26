//! Means and percentiles of many series of values at once, exact, of flows in memory or in a file.
//!
//! The values of flows in memory are collected and sorted. Those of flows in a file are not held: the file is read several times. The first pass
//! counts the values of each series and finds the smallest and the largest. Each later pass narrows the spans in which the wanted ranks lie,
//! by counting the values in equal parts of them, until so few are left that they are collected (Munro and Paterson, "Selection and sorting with
//! limited storage", 1980). Both ways give the same bits.

use super::stats::{mean, nearest_rank, rank};
use rnic_run::FlowLog;
use rnic_run::FlowRecord;

/// Parts of a span, and the most values of one that are collected.
const PARTS: usize = 4_096;

/// What was asked of the values of one series; there was one at least.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranked {
    /// How many values.
    pub count: usize,
    /// Arithmetic mean, added in the order of the flows.
    pub mean: f64,
    /// The wanted percentiles by nearest rank ([`nearest_rank`]).
    pub at: Vec<f64>,
}

impl Ranked {
    /// Of `values`, with these percentiles in thousandths; `None` where there are none. The mean adds in the given order.
    pub fn of(mut values: Vec<f64>, per_mille: &[u32]) -> Option<Ranked> {
        let mean = mean(&values)?;
        values.sort_unstable_by(f64::total_cmp);
        let at = per_mille.iter().filter_map(|per_mille| nearest_rank(&values, *per_mille)).collect();
        Some(Ranked { count: values.len(), mean, at })
    }
}

/// The values that `visit` hands on of each flow, as (number of the series, value): an answer per series, of which `wanted` has the percentiles
/// in thousandths. `None` for a series without values, and for all where the flows cannot be read ([`FlowLog::error`]).
///
/// `visit` sees the flows in order, several times where they are in a file, and must do the same each time.
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

/// What one pass tells of a series.
#[derive(Clone, Debug)]
struct Extent {
    count: u64,
    sum: f64,
    /// Images of the smallest and the largest value.
    least: u64,
    most: u64,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { count: 0, sum: -0.0, least: u64::MAX, most: 0 } // the zero that `Iterator::sum` begins with
    }
}

impl Extent {
    fn add(&mut self, value: f64) {
        let image = image(value);
        self.count += 1;
        self.sum += value;
        (self.least, self.most) = (self.least.min(image), self.most.max(image));
    }

    fn search(&self, per_mille: &[u32]) -> Search {
        let found = per_mille.iter().map(|per_mille| (rank(self.count, *per_mille), None)).collect();
        let mut search = Search { found, spans: Vec::new() };
        if self.count > 0 {
            search.look_in(self.least, self.most, 0, self.count);
        }
        search
    }

    fn with(&self, search: Search) -> Option<Ranked> {
        let at = search.found.into_iter().map(|(_, image)| image.map(value)).collect::<Option<_>>()?;
        (self.count > 0).then(|| Ranked { count: self.count as usize, mean: self.sum / self.count as f64, at })
    }
}

/// For the values of some ranks in one series.
struct Search {
    /// Wanted ranks, counted from 0, and what was found.
    found: Vec<(u64, Option<u64>)>,
    /// Where the others are: ascending, apart from each other.
    spans: Vec<Span>,
}

/// Images from `from` to `to`, both included.
struct Span {
    from: u64,
    to: u64,
    /// Values of the series that are below it.
    below: u64,
    seen: Seen,
}

/// What a pass notes of a span.
enum Seen {
    /// Values in each part: images that are equal when shifted by so many bits, less the first.
    Parts { shift: u32, counts: Vec<u64> },
    /// All images.
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

    /// After a pass.
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
                        self.look_in(start, to.min(start.saturating_add((1 << shift) - 1)), below, count);
                        below += count;
                    }
                }
            }
        }
    }

    /// Goes on between these images, where there are `count` values, if a wanted rank is there.
    fn look_in(&mut self, from: u64, to: u64, below: u64, count: u64) {
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

/// The value's place in [`f64::total_cmp`]'s order.
fn image(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The value of an [`image`].
fn value(image: u64) -> f64 {
    f64::from_bits(if image >> 63 == 1 { image & !(1 << 63) } else { !image })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::flow;
    use super::*;
    use proptest::prelude::*;

    const WANTED: [&[u32]; 3] = [&[0, 1, 500, 999, 1_000, 2_000], &[], &[990]];

    /// One way and the other, over flows whose sizes are the bits of the values; a second series has every third of them.
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

    /// Compares bits: -0.0 is not 0.0 here.
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
            // 1000, 997, ... 1: the value of rank 331 of 334.
            assert_eq!(way[2], Some(Ranked { count: 334, mean: 500.5, at: vec![991.0] }));
            assert_eq!(way[1], None);
        }
        assert_eq!(both_ways(&[]), [vec![None; 3], vec![None; 3]]);
    }

    /// More values than are collected, most of them equal, or next to each other, or far apart.
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
            // Each value is one of few, or one of many between 1 and 2.
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
    fn flows_that_cannot_be_read_have_no_percentiles() {
        let log: FlowLog = (0..5).map(|id| flow(id, 1)).collect();
        let ranked = ranked(&log.unreadable(), &[&[500]], |_, add| add(0, 1.0));
        assert_eq!(ranked, [None]);
    }
}
