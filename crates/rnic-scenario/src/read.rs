//! Reads a whole scenario: parses the text into a tree, applies the overrides (`--set`), then reads each run at each
//! point of the sweep from its own copy of the tree.

use super::beside;
use super::error::{Mistake, ScenarioError};
use super::extends::{self, Files};
use super::fabric;
use super::list::{self, Context, Lists};
use super::output;
use super::overrides;
use super::reader::{Item, Result, Table};
use super::repair::Repairs;
use super::sweep::{Point, Sweep};
use super::switch;
use super::traffic;
use super::transport;
use super::tree::{Documents, Node};
use rnic_spec::Vocabulary;
use rnic_spec::settings::Effect;
use rnic_spec::{FabricSetup, Fidelity, Limits, RunSpec, Scenario, Watch, WatchedLinks, WatchedQueues};
use rnic_transport::{Bytes, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The text of a scenario, and the file from which it was read.
pub(super) struct Text<'t> {
    pub(super) text: &'t str,
    /// Name of the file: for error messages, and without its extension the name of the scenario.
    pub(super) name: &'t str,
    /// Folder at which relative paths in the scenario start.
    pub(super) folder: &'t Path,
    /// Where to read the files that the scenario extends or names.
    pub(super) files: Files<'t>,
}

/// Reads a scenario from its text. If it has mistakes, the error has all of them that do not follow from others.
pub(super) fn scenario(
    vocabulary: &Vocabulary, text: &Text<'_>, overrides: &[(String, String)], given_seed: Option<u64>,
) -> Result<Scenario> {
    let mut documents = Documents::default();
    let mut tree = extends::tree(&mut documents, text.files, text.name, text.text, text.folder)?;
    overrides::apply_arguments(&mut documents, &mut tree, overrides)?;
    let lists = Lists::new(text.files);
    let mut repairs = Repairs::default();
    loop {
        match read(vocabulary, text, &documents, &tree, &lists, given_seed) {
            Ok((scenario, unused)) if repairs.is_empty() && unused.is_empty() => return Ok(scenario),
            Ok((_, unused)) if repairs.is_empty() => return Err(ScenarioError::of(unused)),
            Ok(_) => return Err(repairs.error()),
            Err(error) => repairs.repair(&documents, &mut tree, error)?,
        }
    }
}

/// The mistakes about keys without effect in the tree of a scenario; none if it has other mistakes.
pub(super) fn without_effect(
    vocabulary: &Vocabulary, text: &Text<'_>, documents: &Documents, tree: &Node,
) -> Vec<Mistake> {
    read(vocabulary, text, documents, tree, &Lists::new(text.files), None).map_or(Vec::new(), |(_, unused)| unused)
}

/// Reads a scenario from its tree. Returns the first mistake as an error, and mistakes about keys without effect with
/// the scenario.
fn read(
    vocabulary: &Vocabulary, text: &Text<'_>, documents: &Documents, tree: &Node, lists: &Lists<'_>,
    given_seed: Option<u64>,
) -> Result<(Scenario, Vec<Mistake>)> {
    let root = Table::root(documents, tree)?;
    if let Some(item) = root.get("extends") {
        return Err(item.error("`extends` cannot be overridden", "change it in the file"));
    }
    let name = Path::new(text.name);
    let stem = name.file_stem().map_or_else(|| text.name.to_string(), |stem| stem.to_string_lossy().into_owned());
    let title: Option<String> = root.given("title")?;
    let seed = given_seed.unwrap_or(root.value("seed")?);
    let uses = RefCell::default();
    let source = Source { documents, vocabulary, given_seed, seed, lists, uses: &uses };
    let runs = runs(tree, &root, &source)?;
    let unused = uses.into_inner().into_values().filter(|key| !key.has_effect).filter_map(|key| key.without_effect);
    let scenario = Scenario { title: title.unwrap_or_else(|| stem.clone()), name: stem, seed, runs };
    Ok((scenario, unused.collect()))
}

/// A key of the scenario that has an effect only in some runs, such as `xoff` in runs with PFC.
struct Use {
    /// Whether the key has an effect in at least one of the runs read so far.
    has_effect: bool,
    /// The mistake to report if the key has an effect in no run.
    without_effect: Option<Mistake>,
}

/// Some keys of `[fabric]` and `[fabric.switch]` have an effect only with PFC, some only without PFC, and one only with
/// a pause storm. For each such key of a run, notes whether the key has an effect in this run. Keys in files that the
/// scenario extends are ignored, because they may be without effect in all runs. `pfc` says for each transport of the
/// run whether PFC protects its packets.
fn note_uses(table: &Table<'_>, pfc: &[bool], fabric: &FabricSetup, source: &Source<'_>) -> Result<()> {
    let has_pfc = pfc.contains(&true);
    let switch = table.table("switch")?;
    for table in switch.iter().chain([table]) {
        for setting in table.settings() {
            let (has_effect, why) = match setting.effect {
                Effect::Always => continue,
                Effect::WithPfc => (has_pfc, ("no run has `pfc` = true", "write `pfc = true` in a run")),
                Effect::WithoutPfc => {
                    (pfc.contains(&false), ("every transport has `pfc` = true", "remove `pfc` from a run"))
                }
                Effect::WithStorm => (
                    has_pfc && !fabric.storms.is_empty(),
                    ("no run with `pfc` = true has a [[fabric.storm]]", "add a storm to a run with `pfc = true`"),
                ),
            };
            note_use(table, setting.key, has_effect, why, source);
        }
    }
    Ok(())
}

/// Notes whether `key` of `table`, if the scenario gives it, has an effect in a run. `why` says why a key has an effect
/// in no run, and what to change.
fn note_use(table: &Table<'_>, key: &str, has_effect: bool, why: (&str, &str), source: &Source<'_>) {
    let Some(item) = table.get(key).filter(|item| source.documents.is_own(&item.node().at)) else { return };
    let unused = || {
        let message = format!("`{key}` changes nothing: {}", why.0);
        let without_effect = match item.error(message, format!("{}, or remove `{key}`", why.1)) {
            ScenarioError::Mistake(mistake) => Some(*mistake),
            _ => None,
        };
        Use { has_effect: false, without_effect }
    };
    let mut uses = source.uses.borrow_mut();
    uses.entry(item.node().at.order()).or_insert_with(unused).has_effect |= has_effect;
}

fn runs(tree: &Node, root: &Table<'_>, source: &Source<'_>) -> Result<Vec<RunSpec>> {
    const HELP: &str = "add [[run]] with `name` and `transport`";
    let item = root.get("run").ok_or_else(|| root.error("the scenario has no run", HELP))?;
    let tables = item.tables()?;
    if tables.is_empty() {
        return Err(item.error("the scenario has no run", HELP));
    }
    let sweep = Sweep::read(source.documents, root, tables.len())?;
    let mut names = BTreeSet::new();
    let mut runs: Vec<RunSpec> = Vec::new();
    for point in sweep.points() {
        let mut tree = tree.clone();
        sweep.apply(source.documents, &mut tree, point)?;
        for (table, item) in tables.iter().zip(item.array()?) {
            let name_item = table.require("name")?;
            let base = name_item.name()?;
            let name = sweep.name(source.documents, base, point);
            if !names.insert(name.clone()) {
                let message = format!("two runs are called \"{name}\"");
                return Err(name_item.error(message, "give each run its own name"));
            }
            let spec = Naming { base, name: &name, point, sweep: &sweep };
            runs.push(run(&tree, item.node(), &spec, source).map_err(|error| spec.located(error, source.documents))?);
        }
    }
    Ok(runs)
}

/// The names of a run at one point of the sweep: `base` is the name of its `[[run]]` table, `name` that name with the
/// swept values.
struct Naming<'n> {
    base: &'n str,
    name: &'n str,
    point: &'n Point,
    sweep: &'n Sweep,
}

impl Naming<'_> {
    /// Adds the name of the run to an error, unless the error points at the swept value itself.
    fn located(&self, error: ScenarioError, documents: &Documents) -> ScenarioError {
        match error {
            ScenarioError::Mistake(mut mistake)
                if self.base != self.name
                    && !self.sweep.holds_place(self.point, |at| documents.within(&mistake, at)) =>
            {
                mistake.message += &format!(", in run \"{}\" of the sweep", self.name);
                ScenarioError::Mistake(mistake)
            }
            error => error,
        }
    }
}

/// Inputs that all runs of a scenario share.
struct Source<'a> {
    documents: &'a Documents,
    vocabulary: &'a Vocabulary,
    /// The caller's seed (`--seed`), which replaces the seed of the scenario.
    given_seed: Option<u64>,
    seed: u64,
    lists: &'a Lists<'a>,
    /// Keys that have an effect only in some runs, by their position in the text.
    uses: &'a RefCell<BTreeMap<(usize, usize), Use>>,
}

/// Reads the run of the `[[run]]` table `node`. `tree` is the scenario's tree with the swept values of this run.
fn run(tree: &Node, node: &Node, naming: &Naming<'_>, source: &Source<'_>) -> Result<RunSpec> {
    let (documents, sweep, point) = (source.documents, naming.sweep, naming.point);
    let label = format!("run \"{}\"", naming.base);
    let (mut tree, mut node) = (tree.clone(), node.clone());
    sweep.apply_to_run(documents, &mut node, &label, point)?;
    let table = Item::new(documents, "run", &node).plain_table(&label)?.declared("run")?;
    if let Some(set) = table.get("set") {
        overrides::apply_run_set(documents, &mut tree, &set.plain_table(&format!("`set` of {label}"))?)?;
        sweep.check_set(documents, &tree, &set, &label, point)?;
    }
    let root = Table::root(documents, &tree)?;
    let fabric_table = root.require("fabric")?.table()?;
    let imported = source.lists.topologies.of(&fabric_table)?;
    let mut fabric = fabric::read(&fabric_table, imported.as_deref())?;
    let hosts = rnic_spec::hosts(&fabric.topology);
    let (imported, down) = (imported.as_deref(), RefCell::default());
    let places = hosts / rnic_spec::planes(&fabric.topology);
    let context = Context { hosts, places, rate: fabric::host_rate(&fabric), imported, lists: source.lists, down };
    let traffic_item = root.require("traffic")?;
    let traffic = traffic::read(&traffic_item, &context)?;
    list::add_faults(&mut fabric, context.down.into_inner());
    let defaults = root.table("transport")?;
    if let Some(defaults) = &defaults {
        transport::check_defaults(defaults, source.vocabulary)?;
    }
    let transport = transport::read(&table, defaults.as_ref(), source.vocabulary, source.lists.files)?;
    let beside = beside::read(&table, source.vocabulary, source.lists.files)?;
    let pfc: Vec<bool> =
        std::iter::once(&transport).chain(beside.iter().map(|one| &one.transport)).map(|one| one.pfc).collect();
    note_uses(&fabric_table, &pfc, &fabric, source)?;
    let header = Bytes(transport.header_bytes());
    switch::check_buffer(&fabric_table, &fabric, header)?;
    output::check(&fabric_table, &fabric, &transport, header)?;
    let limits = limits(&root)?;
    let (fidelity, fidelity_quantum): (Fidelity, Time) = (root.word("fidelity")?, root.value("fidelity_quantum")?);
    let why = ("no run has `fidelity` = \"flow\"", "write `fidelity = \"flow\"`");
    note_use(&root, "fidelity_quantum", fidelity == Fidelity::Flow, why, source);
    let fast_forward: f64 = root.value("fast_forward")?;
    let watch = root.get("watch").map(|item| watch(&item, limits.duration)).transpose()?;
    traffic::check_end(&traffic_item, &traffic, limits.duration)?;
    let (name, base) = (naming.name.to_string(), naming.base.to_string());
    let seed = sweep.seed(documents, point, source.given_seed)?.unwrap_or(source.seed);
    let point = sweep.texts(documents, point);
    let run = RunSpec {
        name,
        base,
        point,
        seed,
        fabric,
        traffic,
        transport,
        beside,
        limits,
        watch,
        fidelity,
        fidelity_quantum,
        fast_forward,
    };
    beside::check(&table, &traffic_item, &run)?;
    Ok(run)
}

fn watch(item: &Item<'_>, duration: Option<Time>) -> Result<Watch> {
    let table = item.table()?;
    let start: Time = table.value("start")?;
    if let (Some(item), Some(duration)) = (table.get("start"), duration.filter(|duration| start >= *duration)) {
        let message = format!("no sample would be taken: the run ends at its `duration` of {duration}");
        return Err(item.error(message, "let `start` be before `duration`"));
    }
    // `queues` accepts this word, so it is tried for flows, too.
    if let Some(item) = table.get("flows").filter(|item| item.text() == Some("all")) {
        return Err(item.error("`flows` cannot select flows: it samples all or none", "accepted: true, false"));
    }
    let (flows, pauses): (bool, bool) = (table.value("flows")?, table.value("pauses")?);
    let queues = match table.get("queues") {
        None => WatchedQueues::Named(Vec::new()),
        Some(item) if item.text() == Some("all") => WatchedQueues::All,
        Some(item) => WatchedQueues::Named(item.names()?),
    };
    let links = match table.get("links") {
        None => WatchedLinks::default(),
        Some(item) if item.text() == Some("all") => WatchedLinks::All,
        Some(item) => WatchedLinks::Named(item.names()?),
    };
    let excess = table.value("excess")?;
    let watch = Watch { interval: Watch::NO_SAMPLES, start, queues, links, flows, pauses, excess };
    if !watch.samples() && !excess {
        let help = "write for example `queues = [\"s0:h0\"]`, `links = \"all\"`, `flows = true` or `pauses = true`";
        return Err(item.error("[watch] has nothing to look at", help));
    }
    if !watch.samples() {
        if let Some(key) = table.get("interval").or_else(|| table.get("start")) {
            return Err(key.error("`excess` takes no samples", "leave `interval` and `start` out"));
        }
        return Ok(watch);
    }
    match table.get("interval") {
        None => Err(item.error("`interval` is missing in [watch]", "write for example `interval = \"10 us\"`")),
        Some(_) => Ok(Watch { interval: table.value("interval")?, ..watch }),
    }
}

fn limits(root: &Table<'_>) -> Result<Limits> {
    let table = root.table_or_empty("limits")?;
    let limits = Limits {
        max_time: table.given("max_time")?,
        duration: table.given("duration")?,
        stall_time: table.value("stall_time")?,
    };
    table.ordered(("duration", limits.duration), ("max_time", limits.max_time), "")?;
    Ok(limits)
}
