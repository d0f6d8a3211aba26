//! A whole scenario: overrides first, then each run on its own copy of the tree.

use super::fabric;
use super::model::{Limits, RunSpec, Scenario};
use super::overrides;
use super::reader::{Result, Table};
use super::traffic::{self, Context, Lists};
use super::transport;
use super::tree::{Documents, Node};
use crate::catalogue::Catalogue;
use rnic_transport::Time;
use std::path::Path;

const ROOT_KEYS: [&str; 7] = ["title", "seed", "fabric", "traffic", "transport", "run", "limits"];
/// Keys of a run that are not its transport's.
const RUN_KEYS: [&str; 3] = ["name", "transport", "set"];

/// Reads the text of a scenario. `name` is the file's name, for messages and for the scenario's own name.
pub(super) fn scenario(
    catalogue: &Catalogue, text: &str, name: &str, base_dir: &Path, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Scenario> {
    let mut documents = Documents::default();
    let file = documents.add(name, text, false);
    let mut tree = documents.parse(file)?;
    overrides::apply_arguments(&mut documents, &mut tree, overrides)?;
    let root = Table::root(&documents, &tree)?;
    root.accept(&ROOT_KEYS)?;
    let stem = Path::new(name).file_stem().map_or_else(|| name.to_string(), |stem| stem.to_string_lossy().into_owned());
    let title = root.get("title").map(|item| item.string("IRN and RoCE")).transpose()?;
    let written_seed = root.get("seed").map_or(Ok(1), |item| item.integer(0..=i64::MAX as u64))?;
    let seed = seed.unwrap_or(written_seed);
    let lists = Lists::default();
    let source = Source { catalogue, seed, base_dir, lists: &lists };
    Ok(Scenario {
        title: title.map_or_else(|| stem.clone(), str::to_string),
        name: stem,
        seed,
        runs: runs(&documents, &tree, &root, &source)?,
    })
}

fn runs(documents: &Documents, tree: &Node, root: &Table<'_>, source: &Source<'_>) -> Result<Vec<RunSpec>> {
    const HELP: &str = "add [[run]] with `name` and `transport`";
    let item = root.get("run").ok_or_else(|| root.error("the scenario has no run", HELP))?;
    let tables = item.tables("run")?;
    if tables.is_empty() {
        return Err(item.error("the scenario has no run", HELP));
    }
    let mut runs: Vec<RunSpec> = Vec::new();
    for table in tables {
        let name_item = table.require("name", "name = \"IRN\"")?;
        let name = name_item.name("IRN")?;
        if runs.iter().any(|run| run.name == name) {
            let message = format!("two runs are called \"{name}\"");
            return Err(name_item.error(message, "give each run its own name"));
        }
        let table = table.labelled(format!("run \"{name}\""));
        runs.push(run(documents, tree, &table, name, source)?);
    }
    Ok(runs)
}

/// What the runs of a scenario share.
struct Source<'a> {
    catalogue: &'a Catalogue,
    seed: u64,
    /// Folder of the files that the scenario names.
    base_dir: &'a Path,
    lists: &'a Lists,
}

fn run(documents: &Documents, tree: &Node, table: &Table<'_>, name: &str, source: &Source<'_>) -> Result<RunSpec> {
    let mut tree = tree.clone();
    if let Some(set) = table.get("set") {
        overrides::apply_run_set(documents, &mut tree, &set.table(&format!("`set` of run \"{name}\""))?)?;
    }
    let root = Table::root(documents, &tree)?;
    let fabric_table = root.require("fabric", "[fabric]")?.table("[fabric]")?;
    let fabric = fabric::read(&fabric_table)?;
    let hosts = fabric::hosts(&fabric.topology);
    let context = Context { base_dir: source.base_dir, hosts, lists: source.lists };
    let traffic = traffic::read(&root.require("traffic", "[traffic]")?, &context)?;
    let defaults = root.get("transport").map(|item| item.table("[transport]")).transpose()?;
    if let Some(defaults) = &defaults {
        transport::check_defaults(defaults, source.catalogue)?;
    }
    let transport = transport::read(table, defaults.as_ref(), &RUN_KEYS, source.catalogue)?;
    fabric::check_buffer(&fabric_table, &fabric, transport::header(&transport))?;
    let limits = limits(&root)?;
    let (name, base, point, seed) = (name.to_string(), name.to_string(), Vec::new(), source.seed);
    Ok(RunSpec { name, base, point, seed, fabric, traffic, transport, limits })
}

fn limits(root: &Table<'_>) -> Result<Limits> {
    let mut limits = Limits { max_time: None, stall_time: Time::from_ms(1_000) };
    let Some(item) = root.get("limits") else {
        return Ok(limits);
    };
    let table = item.table("[limits]")?;
    table.accept(&["max_time", "stall_time"])?;
    limits.max_time = table.get("max_time").map(|item| item.positive_time("1 s")).transpose()?;
    if let Some(item) = table.get("stall_time") {
        limits.stall_time = item.positive_time("1 s")?;
    }
    Ok(limits)
}
