//! The `[sweep]` table: lists of values for any keys of the scenario, and the points (combinations of values) at which
//! the scenario's runs are simulated.

use super::overrides::{self, Step};
use super::reader::{Item, Result, Table};
use super::tree::{At, Documents, Node, Repair, Value};
use rnic_spec::settings;

/// Maximum number of runs that a scenario with a sweep may have.
const MOST_RUNS: u128 = 10_000;

/// An axis of a sweep: one swept key and the list of its values.
pub(super) struct Axis {
    /// The dotted path of the swept key.
    key: String,
    /// The shortest suffix of `key` that no other swept key has; run names contain it.
    label: String,
    steps: Vec<Step>,
    /// Position of the swept key in the text.
    at: At,
    values: Vec<Node>,
}

/// The sweep of a scenario: its axes (swept keys) and its points (combinations of their values). A scenario without a
/// sweep has no axis and a single point.
pub(super) struct Sweep {
    axes: Vec<Axis>,
    points: Vec<Point>,
}

/// One point of the sweep: for each axis (swept key), the index of the value at this point.
pub(super) struct Point(Vec<usize>);

impl Sweep {
    /// Reads the `[sweep]` table of a scenario. `runs` is the number of its `[[run]]` tables.
    pub(super) fn read(documents: &Documents, root: &Table<'_>, runs: usize) -> Result<Sweep> {
        let Some(item) = root.get("sweep") else {
            return Ok(Sweep { axes: Vec::new(), points: vec![Point(Vec::new())] });
        };
        let table = item.table()?;
        let zip = table.value::<String>("mode")? == "zip";
        let mut lists = Vec::new();
        overrides::collect(documents, table.entries(), &[], &|_| false, &mut lists)?;
        let lists = overridden(documents, lists)
            .into_iter()
            .filter(|(steps, _)| !(steps.len() == 1 && steps[0].name == "mode"));
        let mut axes: Vec<Axis> = lists.map(|(steps, list)| axis(documents, steps, &list)).collect::<Result<_>>()?;
        check_overlap(documents, &axes)?;
        label(&mut axes);
        if zip {
            check_lengths(documents, &axes)?;
        }
        let lengths = axes.iter().map(|axis| axis.values.len() as u128);
        let points = if zip { lengths.max().unwrap_or(1) } else { lengths.fold(1, u128::saturating_mul) };
        let all = points.saturating_mul(runs as u128);
        if all > MOST_RUNS {
            let help = format!("accepted: at most {MOST_RUNS} runs, that is points times [[run]]");
            return Err(table.error(format!("the sweep makes {all} runs"), &help));
        }
        let points: Vec<Point> = (0..points as usize).map(|number| point(&axes, zip, number)).collect();
        let sweep = Sweep { axes, points };
        sweep.check_repetition(documents)?;
        Ok(sweep)
    }

    /// The points of the sweep in order. In a grid (every combination of values), the value of the first key varies
    /// slowest.
    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Each axis (swept key) with its value at a point of the sweep.
    fn values<'s>(&'s self, point: &'s Point) -> impl Iterator<Item = (&'s Axis, &'s Node)> {
        self.axes.iter().zip(&point.0).map(|(axis, number)| (axis, &axis.values[*number]))
    }

    /// The swept keys and their values at a point, as they are written in the file.
    pub(super) fn texts(&self, documents: &Documents, point: &Point) -> Vec<(String, String)> {
        self.values(point).map(|(axis, value)| (axis.key.clone(), text(documents, value))).collect()
    }

    /// The name of a run at a point of the sweep: `base`, the run's name in the file, followed by the swept keys and
    /// values.
    pub(super) fn name(&self, documents: &Documents, base: &str, point: &Point) -> String {
        let value = |(axis, value): (&Axis, &Node)| format!(", {}={}", axis.label, text(documents, value));
        base.to_string() + &self.values(point).map(value).collect::<String>()
    }

    /// The seed at a point of the sweep; `None` if the sweep does not vary the seed. `given` is the caller's seed,
    /// which must not be combined with a swept seed.
    pub(super) fn seed(&self, documents: &Documents, point: &Point, given: Option<u64>) -> Result<Option<u64>> {
        let Some((axis, value)) = self.values(point).find(|(axis, _)| axis.key == "seed") else {
            return Ok(None);
        };
        if given.is_some() {
            let help = "leave out --seed, or `seed` of [sweep]".to_string();
            return Err(documents.mistake(&axis.at, "--seed is given, but the sweep varies `seed`", Some(help)));
        }
        let item = Item::new(documents, "seed", value);
        let setting = settings::section("").and_then(|root| root.setting("seed", ""));
        setting.map_or(item, |setting| item.of(setting)).typed().map(Some)
    }

    /// Stores the swept values of a point in the scenario's tree, except the values of runs and seeds.
    pub(super) fn apply(&self, documents: &Documents, tree: &mut Node, point: &Point) -> Result<()> {
        let tables = overrides::tables_of_runs();
        let in_tree = |axis: &Axis| tables.contains(&axis.steps[0].name.as_str());
        for (axis, value) in self.values(point).filter(|(axis, _)| in_tree(axis)) {
            overrides::assign(documents, tree, &axis.steps, value.clone())?;
        }
        match self.values(point).find(|(axis, value)| in_tree(axis) && !holds(tree, axis, value)) {
            Some((axis, _)) => Err(overlap(documents, axis, &axis.key)),
            None => Ok(()),
        }
    }

    /// Stores in the `[[run]]` table `run` the values of a point for swept keys of runs. The table must not set the
    /// same keys itself.
    pub(super) fn apply_to_run(&self, documents: &Documents, run: &mut Node, label: &str, point: &Point) -> Result<()> {
        for (axis, value) in self.values(point) {
            let [first, own @ ..] = &axis.steps[..] else { continue };
            if !["run", "transport"].contains(&first.name.as_str()) {
                continue;
            }
            if let Some(node) = overrides::find(run, own).filter(|_| !own.is_empty()) {
                let names: Vec<&str> = own.iter().map(|step| step.name.as_str()).collect();
                let message = format!("{label} has its own `{}`, but the sweep varies `{}`", names.join("."), axis.key);
                return Err(conflict(documents, node, axis, message));
            }
            if first.name == "run" {
                overrides::assign(documents, run, own, value.clone())?;
            }
        }
        Ok(())
    }

    /// Checks that the run's `set` has not changed a swept value. The `set` has already been applied to `tree`.
    pub(super) fn check_set(
        &self, documents: &Documents, tree: &Node, set: &Item<'_>, label: &str, point: &Point,
    ) -> Result<()> {
        let tables = overrides::tables_of_runs();
        let in_tree = |axis: &Axis| tables.contains(&axis.steps[0].name.as_str());
        match self.values(point).find(|(axis, value)| in_tree(axis) && !holds(tree, axis, value)) {
            Some((axis, _)) => {
                let message = format!("`set` of {label} changes `{}`, but the sweep varies it", axis.key);
                Err(conflict(documents, set.node(), axis, message))
            }
            None => Ok(()),
        }
    }

    /// Whether `within` returns true for the position of at least one swept key or value of the point in the text.
    pub(super) fn holds_place(&self, point: &Point, within: impl Fn(&At) -> bool) -> bool {
        self.values(point).any(|(axis, value)| within(&value.at) || within(&axis.at))
    }

    /// Fails if two points of the sweep have the same values as text, because their runs would be equal.
    fn check_repetition(&self, documents: &Documents) -> Result<()> {
        let mut seen = std::collections::BTreeSet::new();
        for point in &self.points {
            let texts: Vec<String> = self.values(point).map(|(_, value)| text(documents, value)).collect();
            let Some((axis, value)) = self.values(point).last() else { continue };
            if !seen.insert(texts) {
                let what = self.name(documents, "", point);
                let message = format!("the sweep has {} twice", what.trim_start_matches(", "));
                let at = if self.axes.len() == 1 { &value.at } else { &axis.at };
                return Err(documents.mistake(at, message, Some("give each value once".to_string())));
            }
        }
        Ok(())
    }
}

/// Whether the scenario's tree `tree` still has the swept value `value` at the key of the axis.
fn holds(tree: &Node, axis: &Axis, value: &Node) -> bool {
    overrides::find(tree, &axis.steps) == Some(value)
}

fn conflict(documents: &Documents, own: &Node, axis: &Axis, message: String) -> super::ScenarioError {
    let help = "remove the one or the other".to_string();
    documents.mistake(documents.later(&own.at, &axis.at), message, Some(help))
}

fn overlap(documents: &Documents, axis: &Axis, other: &str) -> super::ScenarioError {
    let message = format!("the sweep varies `{other}` and, within it, `{}`", axis.key);
    documents.mistake(&axis.at, message, Some("sweep one of them".to_string()))
}

/// Replaces the value lists of the `[sweep]` table by the lists that `--set` gives for the same keys, whether the path
/// is quoted or not.
fn overridden(documents: &Documents, lists: Vec<(Vec<Step>, Node)>) -> Vec<(Vec<Step>, Node)> {
    let mut kept: Vec<(Vec<Step>, Node)> = Vec::new();
    for (steps, list) in lists {
        let same = |other: &[Step]| other.iter().map(|step| &step.name).eq(steps.iter().map(|step| &step.name));
        match kept.iter_mut().find(|(other, node)| same(other) && !documents.same_text(&node.at, &list.at)) {
            Some(other) if documents.later(&list.at, &other.1.at) == &list.at => *other = (steps, list),
            Some(_) => {}
            None => kept.push((steps, list)),
        }
    }
    kept
}

/// Reads one axis of the sweep: a swept key and its list of values.
fn axis(documents: &Documents, steps: Vec<Step>, list: &Node) -> Result<Axis> {
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    let key = names.join(".");
    let known = match names[..] {
        ["seed"] => true,
        ["run", own, ..] => !["name", "set"].contains(&own),
        [first, ..] => overrides::tables_of_runs().contains(&first),
        [] => false,
    };
    let at = steps.last().map_or_else(|| list.at.clone(), |step| step.at.clone());
    if !known {
        let help = "a path in [sweep] is `seed`, or begins with fabric, traffic, transport or limits, or with run for a \
            key of every run";
        let error = documents.mistake(&at, format!("the sweep cannot vary `{key}`"), Some(help.to_string()));
        return Err(documents.repaired_by(Repair::Remove, error));
    }
    let help = || Some(format!("write a list of values, for example `\"{key}\" = [1, 2]`"));
    let Value::Array(values) = &list.value else {
        let message = format!("`{key}` must be a list in [sweep], not {}", list.value.kind());
        return Err(documents.repaired_by(Repair::Remove, documents.mistake(&list.at, message, help())));
    };
    if values.is_empty() {
        let error = documents.mistake(&list.at, format!("`{key}` has no values in [sweep]"), help());
        return Err(documents.repaired_by(Repair::Remove, error));
    }
    Ok(Axis { label: key.clone(), key, steps, at, values: values.clone() })
}

/// Fails if a swept key is equal to another swept key or lies within the table of another, because one value would
/// overwrite the other.
fn check_overlap(documents: &Documents, axes: &[Axis]) -> Result<()> {
    let names = |axis: &Axis| axis.steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>();
    for (number, axis) in axes.iter().enumerate() {
        for other in &axes[..number] {
            let (longer, shorter) = if axis.steps.len() < other.steps.len() { (other, axis) } else { (axis, other) };
            if names(longer) == names(shorter) {
                let help = Some("write one list".to_string());
                return Err(documents.mistake(&axis.at, format!("the sweep varies `{}` twice", axis.key), help));
            }
            if names(longer).starts_with(&names(shorter)) {
                return Err(overlap(documents, longer, &shorter.key));
            }
        }
    }
    Ok(())
}

fn check_lengths(documents: &Documents, axes: &[Axis]) -> Result<()> {
    let Some((first, others)) = axes.split_first() else { return Ok(()) };
    match others.iter().find(|axis| axis.values.len() != first.values.len()) {
        Some(axis) => {
            let lengths = (axis.values.len(), first.values.len());
            let message = format!("`{}` has {} values, but `{}` has {}", axis.key, lengths.0, first.key, lengths.1);
            let help = "with mode = \"zip\" all lists are equally long; \"grid\" combines each value with each";
            Err(documents.mistake(&axis.at, message, Some(help.to_string())))
        }
        None => Ok(()),
    }
}

/// Sets the label of each axis for the names of runs: the shortest suffix of the axis's key that no other axis has.
fn label(axes: &mut [Axis]) {
    let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
    let labels = rnic_spec::short_keys(&keys);
    for (axis, label) in axes.iter_mut().zip(labels) {
        axis.label = label;
    }
}

fn point(axes: &[Axis], zip: bool, mut number: usize) -> Point {
    if zip {
        return Point(vec![number; axes.len()]);
    }
    let digit = |axis: &Axis| {
        let digit = number % axis.values.len();
        number /= axis.values.len();
        digit
    };
    let mut digits: Vec<usize> = axes.iter().rev().map(digit).collect();
    digits.reverse();
    Point(digits)
}

/// The text of a swept value as it is written in the file, on one line; strings lose their quotes.
fn text(documents: &Documents, value: &Node) -> String {
    let text = match &value.value {
        Value::String(text) => text,
        _ => documents.text_at(&value.at),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
