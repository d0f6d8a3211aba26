//! Statistics of flows: exact means and percentiles, computed from all values instead of estimated.

pub use super::ranks::{mean, nearest_rank, rank};

use super::ranks::Ranked;
use rnic_spec::FlowLog;
use rnic_spec::FlowRecord;
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Mean and percentiles of a non-empty set of finite values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Distribution {
    /// Number of values in the set.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median. All percentiles are computed by the nearest-rank method.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl Distribution {
    /// The percentiles of a [`Distribution`], in thousandths, in the order of its fields from the median to the
    /// maximum.
    pub const PER_MILLE: [u32; 5] = [500, 950, 990, 999, 1000];

    /// The distribution of `values`; `None` if `values` is empty. The mean is summed in the given order.
    ///
    /// ```
    /// use rnic_results::stats::Distribution;
    ///
    /// let distribution = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]).expect("four values");
    /// assert_eq!((distribution.mean, distribution.p50, distribution.max), (2.5, 2.0, 4.0));
    /// ```
    pub fn of(values: Vec<f64>) -> Option<Distribution> {
        Distribution::of_ranked(&Ranked::of(values, &Distribution::PER_MILLE)?)
    }

    /// Builds a distribution from the percentiles [`Distribution::PER_MILLE`]; `None` if `ranked` has other
    /// percentiles.
    pub(crate) fn of_ranked(ranked: &Ranked) -> Option<Distribution> {
        let [p50, p95, p99, p999, max] = *ranked.at.as_slice() else { return None };
        Some(Distribution { count: ranked.count, mean: ranked.mean, p50, p95, p99, p999, max })
    }
}

/// The flow completion time: from the time when the application hands the flow to the NIC until all bytes have arrived.
/// `None` for an unfinished flow.
pub fn fct(flow: &FlowRecord) -> Option<Time> {
    flow.finish.map(|finish| finish.saturating_sub(flow.start))
}

/// The flow completion time in microseconds; `None` for an unfinished flow.
pub fn fct_us(flow: &FlowRecord) -> Option<f64> {
    fct(flow).map(Time::as_us)
}

/// The slowdown: flow completion time / ideal completion time. An ideal time of zero counts as one picosecond. `None`
/// for an unfinished flow.
pub fn slowdown(flow: &FlowRecord) -> Option<f64> {
    fct(flow).map(|fct| fct.as_ps() as f64 / flow.ideal.as_ps().max(1) as f64)
}

/// Distribution of the goodput in bit/s over flows, both finished and unfinished ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goodput {
    /// Number of flows in the distribution.
    pub flows: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Minimum.
    pub min: f64,
    /// 10th percentile. All percentiles are computed by the nearest-rank method.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// Maximum.
    pub max: f64,
}

impl Goodput {
    /// The percentiles of a [`Goodput`] distribution in thousandths: minimum, 10th percentile, median, maximum.
    pub const PER_MILLE: [u32; 4] = [0, 100, 500, 1000];

    /// The distribution of `values`; `None` if `values` is empty. The mean is summed in the given order.
    pub fn of(values: Vec<f64>) -> Option<Goodput> {
        Goodput::of_ranked(&Ranked::of(values, &Goodput::PER_MILLE)?)
    }

    /// Builds a distribution from the percentiles [`Goodput::PER_MILLE`]; `None` if `ranked` has other percentiles.
    pub(crate) fn of_ranked(ranked: &Ranked) -> Option<Goodput> {
        let [min, p10, p50, max] = *ranked.at.as_slice() else { return None };
        Some(Goodput { flows: ranked.count, mean: ranked.mean, min, p10, p50, max })
    }
}

/// Request completion times in microseconds, ordered by (traffic source, request). A request's completion time lasts
/// from the first start to the last finish among its measured flows. Requests with an unfinished flow are left out. The
/// memory that this function needs grows with the number of requests, not with the number of flows.
pub fn request_completion_us(flows: &FlowLog) -> Vec<f64> {
    let mut spans: BTreeMap<(u16, u32), (Time, Option<Time>)> = BTreeMap::new();
    for flow in flows.iter().filter(|f| f.measured && f.request != u32::MAX) {
        spans
            .entry((flow.traffic, flow.request))
            .and_modify(|(first, last)| {
                *first = (*first).min(flow.start);
                *last = last.zip(flow.finish).map(|(a, b)| a.max(b));
            })
            .or_insert((flow.start, flow.finish));
    }
    spans.into_values().filter_map(|(first, last)| Some(last?.saturating_sub(first).as_us())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::flow;
    use super::*;

    #[test]
    fn nearest_rank_by_hand() {
        let five = [15, 20, 35, 40, 50];
        // This example of the nearest-rank method is found in textbooks.
        for (per_mille, expected) in
            [(0, 15), (50, 15), (300, 20), (400, 20), (500, 35), (950, 50), (1000, 50), (2000, 50)]
        {
            assert_eq!(nearest_rank(&five, per_mille), Some(expected), "{per_mille} per mille");
        }
        let thousand: Vec<u32> = (1..=1000).collect();
        assert_eq!(nearest_rank(&thousand, 990), Some(990));
        assert_eq!(nearest_rank(&thousand, 999), Some(999));
        assert_eq!(nearest_rank(&thousand[..999], 999), Some(999));
        assert_eq!(nearest_rank::<u32>(&[], 500), None);
    }

    #[test]
    fn distribution_sorts_first_and_is_none_without_values() {
        let d = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((d.count, d.mean, d.p50, d.p95, d.p99, d.p999, d.max), (4, 2.5, 2.0, 4.0, 4.0, 4.0, 4.0));
        assert_eq!(Distribution::of(vec![]), None);
    }

    #[test]
    fn flow_times_by_hand() {
        let mut f = flow(0, 1_000);
        (f.start, f.finish, f.ideal) = (Time::from_us(10), Some(Time::from_ps(17_500_000)), Time::from_ps(2_500_000));
        assert_eq!(fct_us(&f), Some(7.5));
        assert_eq!(slowdown(&f), Some(3.0));
        f.ideal = Time::ZERO;
        assert!(slowdown(&f).unwrap().is_finite());
        f.finish = None;
        assert_eq!((fct_us(&f), slowdown(&f)), (None, None));
    }

    #[test]
    fn goodput_by_hand() {
        // Three flows: 1,000 B in 10 us; an unfinished flow with 600 B in the 3 us until the end of the run; a flow
        // that starts at the end of the run.
        let mut f = flow(0, 1_000);
        let end = Time::from_us(13);
        assert_eq!(f.goodput_bps(end), Some(8e8));
        (f.start, f.finish, f.delivered) = (Time::from_us(10), None, 600);
        assert_eq!(f.goodput_bps(end), Some(1.6e9));
        assert_eq!(f.goodput_bps(Time::from_us(10)), None);
        let of = Goodput::of((1..=20).rev().map(f64::from).collect()).unwrap();
        let expected = Goodput { flows: 20, mean: 10.5, min: 1.0, p10: 2.0, p50: 10.0, max: 20.0 };
        assert_eq!((of, Goodput::of(Vec::new())), (expected, None));
    }

    #[test]
    fn a_request_lasts_from_its_first_start_to_its_last_finish() {
        let part = |request, traffic, start, finish: Option<u64>| FlowRecord {
            request,
            traffic,
            start: Time::from_us(start),
            finish: finish.map(Time::from_us),
            ..flow(0, 1_000)
        };
        let flows = [
            part(0, 0, 10, Some(50)),
            part(0, 0, 12, Some(70)),
            part(0, 0, 11, Some(60)),
            part(0, 1, 100, Some(105)), // Another source counts its requests from 0 too.
            part(1, 0, 200, Some(210)),
            part(1, 0, 200, None), // Unfinished: no completion time.
            part(u32::MAX, 0, 0, Some(1)),
            FlowRecord { measured: false, ..part(2, 0, 0, Some(1)) },
        ];
        let log = (0..).zip(flows).map(|(id, flow)| FlowRecord { id, ..flow }).collect();
        assert_eq!(request_completion_us(&log), [60.0, 5.0]);
        assert!(request_completion_us(&FlowLog::new()).is_empty());
    }
}
