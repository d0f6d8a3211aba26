//! Alarms: rules that compare a metric over a window with a bound, with hysteresis.

use crate::scope::Scope;
use crate::window::{Cell, Series, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metric that a rule compares with its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Median of the round-trip time of the network, in microseconds.
    P50Us,
    /// 99th percentile of the round-trip time of the network, in microseconds.
    P99Us,
    /// 99.9th percentile of the round-trip time of the network, in microseconds.
    P999Us,
    /// Share of lost probes, 0 to 1.
    Loss,
}

impl Metric {
    /// The metric's value in a cell; `None` if the cell has no such value.
    pub fn of(self, cell: &Cell) -> Option<f64> {
        match self {
            Metric::P50Us => cell.quantile_us(0.5),
            Metric::P99Us => cell.quantile_us(0.99),
            Metric::P999Us => cell.quantile_us(0.999),
            Metric::Loss => (cell.probes > 0).then(|| cell.loss()),
        }
    }

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::P50Us => "p50-us",
            Metric::P99Us => "p99-us",
            Metric::P999Us => "p999-us",
            Metric::Loss => "loss",
        }
    }
}

/// The set of probes that a rule covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// All probes of one scope: between hosts of the same ToR switch, of the same podset, and so on.
    Scope,
    /// The probes from hosts below one ToR switch to hosts below another.
    TorPair,
}

/// A rule for an alarm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the alarm.
    pub name: String,
    /// The set of probes that the rule covers.
    pub about: About,
    /// The scopes to which the rule applies; all scopes if empty.
    #[serde(default)]
    pub scopes: Vec<Scope>,
    /// The metric that the rule compares with `raise` and `clear`.
    pub metric: Metric,
    /// The window over which the metric is computed.
    pub over: Window,
    /// The alarm begins when the metric is above this value.
    pub raise: f64,
    /// The alarm ends when the metric is below this value, which is at most `raise`.
    pub clear: f64,
    /// Number of consecutive evaluations that must agree before the alarm begins or ends.
    #[serde(default = "two")]
    pub verdicts: u32,
    /// Minimum number of probes in the window. With fewer probes the alarm does not change.
    #[serde(default = "twenty")]
    pub probes: u64,
}

fn two() -> u32 {
    2
}

fn twenty() -> u64 {
    20
}

impl Rule {
    /// The rules of an inventory without rules, with the bounds of the TCP Pingmesh (99th percentile above 5 ms, more
    /// than one probe in 1000 lost), for each pair of ToR switches over a minute and ten minutes.
    pub fn defaults() -> Vec<Rule> {
        let rule = |name: &str, metric, over, raise, clear, probes| Rule {
            name: name.to_string(),
            about: About::TorPair,
            scopes: Vec::new(),
            metric,
            over,
            raise,
            clear,
            verdicts: 2,
            probes,
        };
        vec![
            rule("latency", Metric::P99Us, Window::Minute, 5_000.0, 2_500.0, 20),
            // Three lost probes of 60 are not a coincidence.
            rule("heavy-loss", Metric::Loss, Window::Minute, 0.05, 0.01, 20),
            rule("loss", Metric::Loss, Window::TenMinutes, 1e-3, 5e-4, 1_000),
        ]
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Returns a sentence that describes the mistake.
    pub fn check(&self) -> Result<(), String> {
        let Rule { name, raise, clear, .. } = self;
        if !(raise.is_finite() && clear.is_finite() && (0.0..=*raise).contains(clear)) {
            return Err(format!("alarm {name}: clear = {clear} must be from 0 to raise = {raise}"));
        }
        if self.metric == Metric::Loss && *raise >= 1.0 {
            return Err(format!("alarm {name}: raise = {raise} can never be exceeded; a loss is below 1"));
        }
        if self.verdicts == 0 || self.probes == 0 {
            return Err(format!("alarm {name}: verdicts and probes must be at least 1"));
        }
        Ok(())
    }

    /// The metric's value over the rule's window, without the cells that begin before the time `after` in ms; `None` if
    /// the window has too few probes.
    pub fn value(&self, series: &Series, after: u64, now: u64) -> Option<f64> {
        self.value_over(series, (self.over, after), self.probes, now)
    }

    fn value_over(&self, series: &Series, over: (Window, u64), min: u64, now: u64) -> Option<f64> {
        let (probes, lost) = series.counts(over, now);
        match self.metric {
            _ if probes < min => None,
            Metric::Loss => Some(lost as f64 / probes as f64),
            metric => metric.of(&series.over(over, now)),
        }
    }

    fn is_below_clear(&self, value: f64) -> bool {
        value < self.clear || (self.clear == 0.0 && value == 0.0)
    }

    /// Whether the probes of the last minute show that the fault of an alarm with this value has ended. For an alarm on
    /// the share of lost probes, the minute must have enough probes: if the share were still the alarm's, three probes
    /// would be lost on average, so a minute without losses would have a probability below 5 %.
    fn has_ended(&self, series: &Series, alarm: f64, now: u64) -> bool {
        let minute = (Window::Minute, 0);
        let below = self.value_over(series, minute, RECENT, now).is_some_and(|value| self.is_below_clear(value));
        below && (self.metric != Metric::Loss || series.counts(minute, now).0 as f64 * alarm >= 3.0)
    }

    /// Whether the rule applies to a scope.
    pub fn applies(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.contains(&scope)
    }
}

/// An alarm that is on.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alarm {
    /// Name of the rule.
    pub rule: String,
    /// The scope or the pair of ToR switches, in words.
    pub about: String,
    /// Time in ms at which the alarm began, by the controller's monotonic clock.
    pub since_ms: u64,
    /// The latest value of the metric.
    pub value: f64,
    /// The rule's metric.
    pub metric: Metric,
    /// The rule's bound for raising the alarm.
    pub raise: f64,
    /// Time in ms at which the fault ended, if the last minute shows that it has; from then on, `value` covers only the
    /// probes since that time. If the fault does not return, the alarm ends two minutes after it.
    pub recovering_ms: Option<u64>,
}

/// The scope or the pair of ToR switches that an alarm concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// All probes of a scope.
    Scope(Scope),
    /// The probes between two ToR switches, by index.
    TorPair(u32, u32),
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Number of evaluations in a row whose value demands a change of the alarm.
    agreeing: u32,
    /// Number of consecutive evaluations in which the last minute showed that the fault has ended.
    clean: u32,
    on: Option<Alarm>,
    /// End in ms of the latest fault. The rule's window does not include earlier cells, which would raise the alarm
    /// again.
    after: u64,
}

/// The alarms of all rules.
#[derive(Clone, Debug, Default)]
pub struct Alarms {
    states: BTreeMap<(usize, Subject), State>,
    /// Alarms that have ended, each with the time of its end; the newest is last.
    ended: Vec<(Alarm, u64)>,
}

fn end(ended: &mut Vec<(Alarm, u64)>, alarm: Alarm, now: u64) {
    ended.push((alarm, now));
    if ended.len() > MAX_ENDED {
        ended.remove(0);
    }
}

/// Maximum number of ended alarms that are kept.
const MAX_ENDED: usize = 200;
/// Minimum number of probes of a minute that show that a fault has ended.
const RECENT: u64 = 20;
/// Time in ms after the end of a fault at which its alarm ends.
const RECOVERY_MS: u64 = 120_000;

impl Alarms {
    /// Compares a value with a rule's bounds, and raises or clears the alarm. `name` describes the subject in words.
    pub fn judge(
        &mut self, (number, rule): (usize, &Rule), subject: Subject, name: impl FnOnce() -> String, value: Option<f64>,
        now: u64,
    ) {
        let key = (number, subject);
        // Most pairs are healthy, and need no state.
        if value.is_none_or(|value| value <= rule.raise) && !self.states.contains_key(&key) {
            return;
        }
        let state = self.states.entry(key).or_default();
        // Without a value an alarm neither begins nor ends, because missing probes do not show that the network is
        // healthy.
        let wants_change = match (value, &state.on) {
            (Some(value), None) => value > rule.raise,
            (Some(value), Some(_)) => rule.is_below_clear(value),
            (None, _) => false,
        };
        if let (Some(value), Some(alarm)) = (value, &mut state.on) {
            alarm.value = value;
        }
        state.agreeing = if wants_change { state.agreeing + 1 } else { 0 };
        if state.agreeing >= rule.verdicts {
            state.agreeing = 0;
            match state.on.take() {
                Some(alarm) => end(&mut self.ended, alarm, now),
                None => {
                    state.on = Some(Alarm {
                        rule: rule.name.clone(),
                        about: name(),
                        since_ms: now,
                        value: value.unwrap_or_default(),
                        metric: rule.metric,
                        raise: rule.raise,
                        recovering_ms: None,
                    });
                }
            }
        }
        if state.on.is_none() && state.agreeing == 0 && state.after + rule.over.length_ms() <= now {
            self.states.remove(&key);
        }
    }

    /// Compares the probes of a series with a rule's bounds. In addition to [`Alarms::judge`], this detects the end of
    /// a fault before it has left the rule's window.
    pub fn watch(
        &mut self, (number, rule): (usize, &Rule), subject: Subject, name: impl FnOnce() -> String, series: &Series,
        now: u64,
    ) {
        let key = (number, subject);
        let after = self.states.get(&key).map_or(0, |state| state.after);
        self.judge((number, rule), subject, name, rule.value(series, after, now), now);
        if rule.over == Window::Minute {
            return;
        }
        let Some(state) = self.states.get_mut(&key) else { return };
        let Some(alarm) = &mut state.on else { return };
        let minute = rule.value_over(series, (Window::Minute, 0), RECENT, now);
        match alarm.recovering_ms {
            None => {
                state.clean = if rule.has_ended(series, alarm.value, now) { state.clean + 1 } else { 0 };
                if state.clean >= rule.verdicts {
                    state.clean = 0;
                    state.after = series.minute_start(now);
                    alarm.recovering_ms = Some(state.after);
                }
            }
            // The fault has returned, or went on where the minute's probes did not meet it.
            Some(_) if minute.is_some_and(|value| value > rule.raise) => {
                state.after = 0;
                alarm.recovering_ms = None;
            }
            Some(since) => {
                let value = rule.value_over(series, (Window::Hour, since), 1, now).or(minute);
                alarm.value = value.unwrap_or(alarm.value);
                if now >= since + RECOVERY_MS && minute.is_some_and(|value| rule.is_below_clear(value)) {
                    state.on.take().into_iter().for_each(|alarm| end(&mut self.ended, alarm, now));
                }
            }
        }
    }

    /// Keeps the alarms whose rule and subject still exist, after the inventory has changed. `subject` returns the new
    /// subject of an old one.
    pub fn renumber(&mut self, old: &[Rule], new: &[Rule], subject: impl Fn(Subject) -> Option<Subject>) {
        let rule = |number: usize| new.iter().position(|rule| Some(rule) == old.get(number));
        let states = std::mem::take(&mut self.states).into_iter();
        let states = states.filter_map(|((number, old), state)| Some(((rule(number)?, subject(old)?), state)));
        self.states = states.collect();
    }

    /// The alarms that are on.
    pub fn on(&self) -> impl Iterator<Item = &Alarm> {
        self.states.values().filter_map(|state| state.on.as_ref())
    }

    /// Alarms that have ended, each with the time of its end; the newest is last.
    pub fn ended(&self) -> &[(Alarm, u64)] {
        &self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_has_hysteresis() {
        let rule = Rule { probes: 10, ..Rule::defaults()[1].clone() };
        let mut alarms = Alarms::default();
        let mut judge = |lost: u64, probes: u64, now| {
            let value = (probes >= 10).then(|| lost as f64 / probes as f64);
            alarms.judge((0, &rule), Subject::TorPair(1, 2), || "t1 to t2".to_string(), value, now);
            alarms.on().count()
        };
        // One bad value does not raise the alarm; two in a row do.
        assert_eq!([judge(10, 100, 1), judge(0, 100, 2), judge(10, 100, 3), judge(10, 100, 4)], [0, 0, 0, 1]);
        // A value between the two bounds, or no probes, does not change the alarm.
        assert_eq!([judge(3, 100, 5), judge(0, 0, 6), judge(3, 100, 7)], [1, 1, 1]);
        assert_eq!([judge(0, 100, 8), judge(2, 100, 9), judge(0, 100, 10), judge(0, 100, 11)], [1, 1, 1, 0]);
        assert_eq!(alarms.ended()[0].0.since_ms, 4);
        assert_eq!(alarms.ended()[0].1, 11);
    }

    /// A fault of five minutes with 20 % loss: its alarm over ten minutes is recovering a minute after the repair, ends
    /// a little more than a minute later, and does not return; a second fault raises it again.
    #[test]
    fn an_alarm_ends_soon_after_its_fault() {
        use crate::record::ProbeResult;
        let rule = Rule::defaults()[2].clone();
        let (mut alarms, mut series) = (Alarms::default(), Series::default());
        let mut states = Vec::new();
        for now in (7_200_000..9_000_000_u64).step_by(10_000) {
            let faulty = (600..900).contains(&(now / 1_000 - 7_200)) || now / 1_000 - 7_200 > 1_700;
            for probe in 0..40 {
                let answered = ProbeResult::Answered { total_ns: 9, prober_ns: 1, split_ns: Some((1, 1)) };
                series.add(now, if faulty && probe % 5 == 0 { ProbeResult::Timeout } else { answered });
            }
            alarms.watch((2, &rule), Subject::TorPair(1, 2), || "t1 to t2".to_string(), &series, now);
            let state = alarms.on().next().map(|alarm| alarm.recovering_ms.is_some());
            if states.last().is_none_or(|(_, last)| *last != state) {
                states.push((now / 1_000 - 7_200, state));
            }
        }
        let expected = [(0, None), (610, Some(false)), (960, Some(true)), (1_030, None), (1_720, Some(false))];
        assert_eq!(states, expected);
        assert_eq!((alarms.ended().len(), alarms.ended()[0].0.value), (1, 0.0), "no loss since the repair");
    }

    #[test]
    fn rules_are_checked() {
        for rule in Rule::defaults() {
            assert_eq!(rule.check(), Ok(()));
        }
        let rule = Rule { clear: 0.1, ..Rule::defaults()[1].clone() };
        assert_eq!(rule.check().unwrap_err(), "alarm heavy-loss: clear = 0.1 must be from 0 to raise = 0.05");
    }
}
