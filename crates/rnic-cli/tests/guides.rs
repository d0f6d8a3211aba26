//! Runs the commands of the guides in `docs/guides`, in order, with the files that the guides show. Marks in the guides
//! say what else to do with a code block (see [`markdown::Mark`]).

mod markdown;
mod session;

use markdown::{Block, Mark, Step, blocks, compare, steps};
use session::Session;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The guides that the tests below run.
const GUIDES: &[&str] = &[
    "install",
    "first-run",
    "operate",
    "top",
    "mesh",
    "mesh-at-scale",
    "alerts",
    "own-topology-and-traffic",
    "from-a-trace",
    "look-into-one-run",
    "replay",
    "watch",
    "from-other-ai-simulators",
    "compare-with-other-simulators",
    "reproduce-irn",
    "python",
    "inside-your-simulator",
    "campaigns",
    "one-run-on-several-machines",
    "write-a-transport-in-p4",
    "write-a-congestion-control",
    "write-a-path-selection",
    "rdma-without-hardware",
    "rdma-in-ci",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn guide(name: &str) -> String {
    fs::read_to_string(repository().join(format!("docs/guides/{name}.md"))).unwrap()
}

/// Which blocks a test runs, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All except the slow ones.
    Fast,
    /// All except the slow ones, in a folder that keeps builds.
    Building,
    /// All, in a folder that keeps builds.
    Slow,
    /// All except the slow ones, in a network namespace.
    Networked,
}

/// Runs all commands of a guide.
#[track_caller]
fn follow(name: &str, kind: Kind) {
    let blocks = blocks(&guide(name)).unwrap_or_else(|error| panic!("{name}.md: {error}"));
    let session = match kind {
        Kind::Fast => Some(Session::start()),
        Kind::Building => Some(Session::start_keeping_builds("guide")),
        Kind::Slow => Some(Session::start_keeping_builds("guide-slow")),
        Kind::Networked => Session::start_in_namespace(),
    };
    let Some(mut session) = session else {
        eprintln!("{name}.md is not run: it needs `unshare`, `ip` and the right to create network namespaces");
        return;
    };
    for block in &blocks {
        if let Err(error) = run(&mut session, block, kind) {
            panic!("docs/guides/{name}.md:{}: {error}", block.line);
        }
    }
}

fn run(session: &mut Session, block: &Block, kind: Kind) -> Result<(), String> {
    let (mut shorter, mut background, mut fails) = ("", None, false);
    for mark in &block.marks {
        match mark {
            Mark::File(file) | Mark::Append(file) => {
                return write(session, block, file, matches!(mark, Mark::Append(_)));
            }
            Mark::CheckWith(file) => return check_with(session, block, file),
            Mark::NotRun(_) => return Ok(()),
            Mark::Slow(_) if kind != Kind::Slow => return Ok(()),
            Mark::Slow(_) => {}
            Mark::Needs(command) => {
                if session.run(command, "").is_ok_and(|(_, code)| code != 0) {
                    eprintln!("line {} is not run: `{command}` fails", block.line);
                    return Ok(());
                }
            }
            Mark::Shorter(arguments) => shorter = arguments,
            Mark::Fails(_) => fails = true,
            Mark::Background(text) => background = Some(text),
            Mark::Interrupt(part) => session.interrupt(part),
        }
    }
    match block.language.as_str() {
        "python" => {
            let script = format!("python3 - <<'END'\n{}END", block.text);
            return step(session, &Step { command: script, output: None }, "", false);
        }
        "toml" => return toml_is_valid(&block.text),
        _ => {}
    }
    let steps = steps(block);
    if let Some(text) = background {
        let [Step { command, .. }] = steps.as_slice() else {
            return Err("a background block has one command".to_string());
        };
        return session
            .start_background(command, text)
            .map_err(|output| format!("`{command}` did not print `{text}`, but\n{output}"));
    }
    steps.iter().try_for_each(|one| step(session, one, shorter, fails))
}

fn step(session: &mut Session, step: &Step, shorter: &str, fails: bool) -> Result<(), String> {
    let command = &step.command;
    let (output, code) = session.run(command, shorter).map_err(|error| format!("`{command}`: {error}"))?;
    if (code != 0) != fails {
        return Err(format!("`{command}` ended with code {code}:\n{output}"));
    }
    let compared = compare(step.output.as_deref().unwrap_or_default(), &output);
    compared.map_err(|why| format!("`{command}`: {why}\nThe whole output:\n{output}"))
}

/// Writes a block to a file, or appends it. The prose above the block must name the file, because readers do not see
/// the mark.
fn write(session: &Session, block: &Block, file: &str, append: bool) -> Result<(), String> {
    if !block.before.contains(&format!("`{file}`")) {
        return Err(format!("the text above the block does not say that it belongs to `{file}`"));
    }
    let path = session.root().join(file);
    let opened = OpenOptions::new().create(true).write(true).append(append).truncate(!append).open(&path);
    // As an editor does: an empty line before the appended text.
    let text = if append { format!("\n{}", block.text) } else { block.text.clone() };
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| format!("{}: {error}", path.display()))
}

fn check_with(session: &mut Session, block: &Block, file: &str) -> Result<(), String> {
    let path = session.root().join(file);
    let copy = path.with_extension("checked.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    fs::write(&copy, format!("{text}\n{}", block.text)).map_err(|error| error.to_string())?;
    step(session, &Step { command: format!("rnic check '{}'", copy.display()), output: None }, "", false)
}

fn toml_is_valid(text: &str) -> Result<(), String> {
    text.parse::<toml::Table>().map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn every_guide_has_a_test() {
    let files = fs::read_dir(repository().join("docs/guides")).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(files, GUIDES.iter().map(|&name| name.to_string()).collect());
}

#[test]
fn install() {
    follow("install", Kind::Fast);
}

#[test]
fn first_run() {
    follow("first-run", Kind::Fast);
}

#[test]
fn alerts() {
    follow("alerts", Kind::Fast);
}

#[test]
fn mesh() {
    follow("mesh", Kind::Fast);
}

#[test]
fn mesh_at_scale() {
    follow("mesh-at-scale", Kind::Fast);
}

#[test]
fn operate() {
    follow("operate", Kind::Fast);
}

#[test]
fn top() {
    follow("top", Kind::Networked);
}

#[test]
fn look_into_one_run() {
    follow("look-into-one-run", Kind::Fast);
}

#[test]
fn replay() {
    follow("replay", Kind::Fast);
}

#[test]
fn watch() {
    follow("watch", Kind::Fast);
}

#[test]
fn from_a_trace() {
    follow("from-a-trace", Kind::Fast);
}

#[test]
fn from_other_ai_simulators() {
    follow("from-other-ai-simulators", Kind::Fast);
}

#[test]
fn own_topology_and_traffic() {
    follow("own-topology-and-traffic", Kind::Fast);
}

#[test]
fn compare_with_other_simulators() {
    follow("compare-with-other-simulators", Kind::Fast);
}

#[test]
fn reproduce_irn() {
    follow("reproduce-irn", Kind::Fast);
}

/// The blocks of this guide run only if the environment variable `RNIC_PYTHON` is set: `.ci/run` sets it after it has
/// installed the package, so that no old package is tested.
#[test]
fn python() {
    follow("python", Kind::Fast);
}

/// Its name has the word for which `.ci/run` selects the tests with the Python package.
#[test]
fn inside_your_simulator_from_python() {
    follow("inside-your-simulator", Kind::Fast);
}

/// Its name has the word for which `.ci/run` selects the tests with the Python package.
#[test]
fn campaigns_with_and_without_python() {
    follow("campaigns", Kind::Fast);
}

/// None of its blocks is run: they need MPI, and `.ci/ranks` has such runs.
#[test]
fn one_run_on_several_machines() {
    follow("one-run-on-several-machines", Kind::Fast);
}

#[test]
fn write_a_transport_in_p4() {
    follow("write-a-transport-in-p4", Kind::Fast);
}

#[test]
fn write_a_congestion_control() {
    follow("write-a-congestion-control", Kind::Building);
}

#[test]
#[ignore = "builds the simulator once more, which takes minutes; .ci/long runs it"]
fn write_a_congestion_control_and_simulate_it() {
    follow("write-a-congestion-control", Kind::Slow);
}

#[test]
fn rdma_without_hardware() {
    follow("rdma-without-hardware", Kind::Networked);
}

/// Its block is not run, because a test of `rnic-endpoint` runs the example.
#[test]
fn write_a_path_selection() {
    follow("write-a-path-selection", Kind::Fast);
}

/// None of its blocks is run: they need other programs, and `crates/rnic-ibverbs/tests` run those.
#[test]
fn rdma_in_ci() {
    follow("rdma-in-ci", Kind::Fast);
}

/// The guide shows the code of the template.
#[test]
fn the_congestion_control_of_the_guide_is_that_of_the_template() {
    let template = repository().join("examples/congestion-control/src");
    let read = |file: &str| fs::read_to_string(template.join(file)).unwrap();
    let sources = [read("gentle.rs"), read("main.rs")].concat();
    let blocks = blocks(&guide("write-a-congestion-control")).unwrap();
    let code: Vec<&Block> = blocks.iter().filter(|block| block.language == "rust").collect();
    assert!(code.len() >= 6, "{}", code.len());
    for block in code {
        assert!(sources.contains(&block.text), "not in the template:\n{}", block.text);
    }
}

/// The names of the public fields of `pub struct NAME`, or of the variants of `pub enum NAME`, in a source file.
fn members(file: &str, item: &str) -> BTreeSet<String> {
    let source = fs::read_to_string(repository().join(file)).unwrap();
    let (_, body) = source.split_once(&format!("pub {item} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let member = |line: &str| {
        let line = line.strip_prefix("    ")?;
        let name = line.strip_prefix("pub ").unwrap_or(line);
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        let is_member = line.starts_with("pub ") || line.starts_with(char::is_uppercase);
        is_member.then(|| name[..end].to_string())
    };
    body.lines().filter_map(member).collect()
}

/// The names in the first column of the table of a guide whose head begins with `head`.
fn first_column(guide: &str, head: &str) -> BTreeSet<String> {
    let mut lines = guide.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = std::iter::from_fn(|| lines.next().filter(|line| line.starts_with("| `")));
    let name = |row: &str| row[3..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_string();
    rows.map(name).collect()
}

#[test]
fn the_tables_of_the_guides_list_every_field_and_operation() {
    let congestion_control = guide("write-a-congestion-control");
    let config = members("crates/rnic-transport/src/config.rs", "struct FlowConfig");
    assert_eq!(first_column(&congestion_control, "field of `FlowConfig`"), config);
    let sample = members("crates/rnic-transport/src/congestion/mod.rs", "struct AckSample");
    assert_eq!(first_column(&congestion_control, "field of `AckSample`"), sample);
    let operations = members("crates/rnic-verbs/src/types/work.rs", "enum SendOp");
    assert_eq!(first_column(&guide("rdma-without-hardware"), "`SendOp`"), operations);
    assert_eq!((sample.len(), operations.len()), (5, 10));
}
