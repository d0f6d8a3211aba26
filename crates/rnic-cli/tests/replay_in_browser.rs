//! Tests of replays in a real browser: the picture at an instant, and that names in a scenario are shown as text, not
//! as markup.

use crate::browser::Browser;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const INCAST: &str = r#"title = "An incast"
[fabric]
topology = "single-switch"
hosts = 5
rate = "40 Gbps"
delay = "1 us"
[traffic]
pattern = "incast"
senders = 4
total = "4 MB"
repeats = 1
[watch]
interval = "1 us"
pauses = true
[[run]]
name = "RoCE + PFC"
transport = "roce"
pfc = true
[[run]]
name = "RoCE without PFC"
transport = "roce"
"#;

pub(crate) const RING: &str = r#"title = "A ring"
[fabric]
topology = "leaf-spine"
leaves = 4
spines = 2
hosts_per_leaf = 4
rate = "40 Gbps"
delay = "1 us"
[traffic]
pattern = "collective"
operation = "all-reduce"
algorithm = "ring"
size = "1600 KB"
repeats = 1
placement = "linear"
[[run]]
name = "IRN"
transport = "irn"
"#;

/// The name in the scenario is a script that an attacker would want to run.
pub(crate) const HOSTILE: &str = r#"title = "</script><script>window.attacked = 1</script><img src=x onerror='window.attacked = 1'>"
[fabric]
topology = "graph"
hosts = ["<script>window.attacked = 1</script>", "<img src=x onerror='window.attacked = 1'>", "c"]
switches = ["</script><b>s</b>"]
rate = "40 Gbps"
delay = "1 us"
link = [
    { from = "<script>window.attacked = 1</script>", to = "</script><b>s</b>" },
    { from = "<img src=x onerror='window.attacked = 1'>", to = "</script><b>s</b>" },
    { from = "c", to = "</script><b>s</b>" },
]
[traffic]
pattern = "incast"
senders = 2
total = "2 MB"
repeats = 1
[[run]]
name = "<svg onload='window.attacked = 1'>"
transport = "roce"
pfc = true
"#;

/// The command `rnic run FILE --replay` in a folder, with other arguments.
fn command(folder: &Path, name: &str, scenario: &str, arguments: &[&str]) -> Command {
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(["run", "--quiet", "--replay"]).arg(&file).args(arguments).stdin(Stdio::null());
    command
}

/// Simulates a scenario; returns the paths of the replay and of the folder with the results.
fn replay(folder: &Path, name: &str, scenario: &str, arguments: &[&str]) -> (PathBuf, PathBuf) {
    let output = command(folder, name, scenario, arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = folder.join("out").join(name);
    (out.join("replay.html"), out)
}

/// Opens a replay and waits until it is drawn.
fn open(browser: &Browser, file: &Path, width: u32) {
    browser.open(file, width);
    browser.wait_for("document.documentElement.dataset.ready === 'true'");
}

#[track_caller]
fn assert_clean(browser: &Browser, file: &Path) {
    assert_eq!(browser.problems(), Vec::<String>::new());
    let own = format!("file://{}", file.display());
    let others: Vec<String> = browser.requests().into_iter().filter(|url| !url.starts_with(&own)).collect();
    assert_eq!(others, Vec::<String>::new());
}

/// The text of an element.
fn text(browser: &Browser, selector: &str) -> String {
    let text = browser.js(&format!("return document.querySelector({}).textContent;", json!(selector)));
    text.as_str().unwrap().to_string()
}

/// Whether a pixel near the middle of the line that stands for a port's link has the colour of pauses.
fn looks_paused(browser: &Browser, port: u64) -> bool {
    let found = browser.js(&format!(
        "const canvas = document.querySelector('.panel .fabric');
         const link = canvas.places.links[{port}];
         const ratio = devicePixelRatio || 1;
         const [x, y] = [(link.x1 + link.x2) / 2, (link.y1 + link.y2) / 2].map((p) => Math.round(p * ratio) - 8);
         const pixels = canvas.getContext('2d').getImageData(x, y, 16, 16).data;
         const name = getComputedStyle(document.documentElement).getPropertyValue('--c4').trim();
         const wanted = [1, 3, 5].map((at) => parseInt(name.slice(at, at + 2), 16));
         for (let i = 0; i < pixels.length; i += 4)
           if (wanted.every((value, c) => Math.abs(value - pixels[i + c]) < 12)) return true;
         return false;"
    ));
    found == true
}

#[test]
fn the_first_pause_is_shown_at_its_instant() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = replay(folder.path(), "incast", INCAST, &[]);
    // The first pause of pauses.csv: run, node, port, peer, ..., from, to.
    let pauses = fs::read_to_string(out.join("pauses.csv")).unwrap();
    let header: Vec<&str> = pauses.lines().next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|found| *found == name).unwrap_or_else(|| panic!("{header:?}"));
    let rows = pauses.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let number = |row: &[&str], name: &str| row[column(name)].parse::<f64>().unwrap();
    let first = rows.min_by(|a, b| number(a, "from_us").total_cmp(&number(b, "from_us"))).unwrap();
    let (from, node, peer) = (number(&first, "from_us"), first[column("node")], first[column("peer")]);

    open(&browser, &file, 1400);
    let port = browser.js(&format!(
        "const recording = replay.shown()[0];
         const names = recording.ports.node.map((_, p) => recording.nodes.name[recording.ports.node[p]]);
         return names.findIndex((name, p) => name === '{node}' && names[recording.ports.peer[p]] === '{peer}');"
    ));
    let port = port.as_u64().unwrap();
    browser.js(&format!("replay.choose({{ kind: 'port', id: {port} }});"));
    let state_at = |time: f64| {
        browser.js(&format!("replay.player.seek({time}); replay.choose({{ kind: 'port', id: {port} }});"));
        text(&browser, ".details .state")
    };
    let paused = format!("{node} \u{2192} {peer} is paused");
    assert!(state_at(from).contains(&paused), "{}", state_at(from));
    assert!(looks_paused(&browser, port));
    assert!(!state_at(from - 0.001).contains("is paused") && !looks_paused(&browser, port));
    // The cause is the port to the receiver.
    assert!(state_at(from + 0.5).contains("cause: congestion at s0 \u{2192} h"), "{}", state_at(from + 0.5));
    // The list of events leads to the same instant.
    browser.js(
        "[...document.querySelectorAll('.events button')].find((b) => b.textContent.includes('first pause')).click();",
    );
    assert_eq!(browser.js("return replay.player.time();").as_f64().unwrap(), from);
    // Two runs are side by side; the other run drops packets instead, which its text states.
    assert_eq!(browser.js("return document.querySelectorAll('.panel:not([hidden])').length;"), 2);
    let drops = browser
        .js("return replay.shown()[1].counters.map((changes) => changes.at(-1)?.[1] ?? 0).reduce((a, b) => a + b);");
    let summary: Value = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert!(drops.as_u64() > Some(0));
    assert_eq!(summary["runs"][1]["packets"]["dropped"], drops);
    assert_clean(&browser, &file);
}

#[test]
fn the_matrix_of_a_ring_is_a_ring() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = replay(folder.path(), "ring", RING, &[]);
    open(&browser, &file, 1200);
    browser.js("replay.player.seek(1e9); replay.choose(null);");
    let cells = browser.js("return [...document.querySelector('.panel .matrix').matrix.cells];");
    let cells: Vec<f64> = cells.as_array().unwrap().iter().map(|bytes| bytes.as_f64().unwrap()).collect();
    assert_eq!(cells.len(), 16 * 16);
    let most = cells.iter().copied().fold(0.0, f64::max);
    // Each rank sends 2 * 15 / 16 of the size to its neighbour.
    assert!((most - 3_000_000.0).abs() < 30_000.0, "{most}");
    for (cell, bytes) in cells.iter().enumerate() {
        let is_neighbour = cell % 16 == (cell / 16 + 1) % 16;
        assert!(if is_neighbour { *bytes > 0.95 * most } else { *bytes == 0.0 }, "{} to {}", cell / 16, cell % 16);
    }
    // The same in the pixels: the neighbour is dark, the diagonal is empty.
    let shades = browser.js("const canvas = document.querySelector('.panel .matrix');
         const { side } = canvas.matrix;
         const ratio = devicePixelRatio || 1;
         const shade = (row, column) => canvas.getContext('2d')
           .getImageData((26 + (column + 0.5) * side) * ratio, (26 + (row + 0.5) * side) * ratio, 1, 1).data[0];
         return [shade(3, 4), shade(15, 0), shade(3, 3), shade(3, 5)];");
    let shades: Vec<u64> = shades.as_array().unwrap().iter().map(|shade| shade.as_u64().unwrap()).collect();
    assert!(shades[0] < 60 && shades[1] < 60 && shades[2] > 240 && shades[3] > 240, "{shades:?}");
    assert_clean(&browser, &file);
}

#[test]
fn hostile_names_stay_text() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = replay(folder.path(), "hostile", HOSTILE, &[]);
    open(&browser, &file, 1200);
    assert_eq!(
        browser.js("return document.querySelector('h1').textContent;"),
        HOSTILE.lines().next().unwrap()[9..].trim_matches('"')
    );
    browser.js("const input = document.querySelector('input[type=search]');
         input.value = 'script';
         input.dispatchEvent(new Event('input'));
         document.querySelectorAll('.results button').forEach((found) => found.click());
         document.querySelectorAll('.events button').forEach((found) => found.click());");
    let shown = text(&browser, ".details h2");
    assert!(!shown.is_empty());
    assert_eq!(browser.js("return window.attacked ?? null;"), Value::Null);
    assert_eq!(browser.js("return document.querySelectorAll('img, main script, b, svg[onload]').length;"), 0);
    assert_clean(&browser, &file);
}

#[test]
fn a_replay_follows_keys_and_fits_on_a_phone() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = replay(folder.path(), "keys", INCAST, &["--run", "RoCE + PFC", "--replay-flow", "2"]);
    open(&browser, &file, 360);
    let widths = browser.js("return [document.scrollingElement.scrollWidth, innerWidth];");
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{widths}");
    let press = |key: &str| {
        browser.js(&format!(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: {}, bubbles: true }}));",
            json!(key)
        ))
    };
    let time = || browser.js("return replay.player.time();").as_f64().unwrap();
    press("Home");
    assert_eq!(time(), 0.0);
    press("ArrowRight");
    assert_eq!(time(), 1.0, "the first interval is 1 us");
    press("End");
    assert_eq!(browser.js("return replay.player.time() === replay.shown()[0].end;"), true);
    press("+");
    let window = browser.js("return replay.player.window().map((t) => t / replay.shown()[0].end);");
    assert_eq!(window, json!([0.5, 1]));
    // The slider has a text for screen readers, and the picture too.
    assert!(browser.js("return document.querySelector('input.time').getAttribute('aria-valuetext');") != "");
    // The named flow has a button, and a path from its sender to its receiver.
    browser.js("document.querySelector('.events button[data-flow=\"2\"]').click();");
    assert!(text(&browser, ".details h2").starts_with("flow 2, host "));
    assert_eq!(browser.js("return replay.shown()[0].flows.get(2).path.length;"), 2);
    let before = browser.js("return document.querySelector('.panel .fabric').toDataURL();");
    browser.devtools(
        "Emulation.setEmulatedMedia",
        &json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    );
    browser.js("replay.choose(null);");
    assert_ne!(browser.js("return document.querySelector('.panel .fabric').toDataURL();"), before);
    assert_clean(&browser, &file);
    // The keys step through the frames of both runs of a comparison, also behind the end of the first run.
    let (file, _) = replay(folder.path(), "two", INCAST, &[]);
    open(&browser, &file, 1_200);
    press("End");
    let end = time();
    press("ArrowLeft");
    assert!(time() < end);
    press("ArrowRight");
    assert_eq!(time(), end);
}

#[test]
fn a_replay_is_refused_with_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = command(folder.path(), "refused", INCAST, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!folder.path().join("out").exists());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        refused(&["--fidelity", "flow"])
            .contains("--replay needs the packets of all runs, but run \"RoCE + PFC\" simulates flows as fluids")
    );
    let small = refused(&["--replay-size", "30 KB"]);
    assert!(small.contains("is too small for a replay of 2 runs: at least "), "{small}");
    assert!(refused(&["--resume"]).contains("cannot be used with"));
    assert!(refused(&["--replay-size", "much"]).contains("write for example"));
    assert!(refused(&["--replay-flow", "first"]).contains("accepted: a whole number from 0"));
    assert!(refused(&["--replay-flow", "1"].repeat(65)).contains("--replay-flow: 65 flows; accepted: at most 64"));
}

#[test]
fn a_flow_that_a_run_lacks_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), INCAST).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    let arguments = ["run", "a.toml", "--run", "RoCE + PFC", "--replay", "--replay-flow", "1", "--replay-flow", "99"];
    let output = command.current_dir(folder.path()).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let expected = "warning: --replay-flow 99: run \"RoCE + PFC\" has no such flow; the ids of its flows: 0 to 3";
    assert!(output.status.success() && text.contains(expected), "{text}");
}

#[test]
fn a_replay_has_the_same_bytes_again_and_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = replay(folder.path(), "again", INCAST, &["--threads", "1"]);
    let first = fs::read(&file).unwrap();
    replay(folder.path(), "again", INCAST, &["--threads", "2"]);
    assert!(fs::read(&file).unwrap() == first, "the same scenario gives the same bytes");
    let small = replay(folder.path(), "small", INCAST, &["--replay-size", "125 KB"]).0;
    let size = fs::metadata(small).unwrap().len();
    assert!(size <= 125_000 && size < first.len() as u64, "{size}, {}", first.len());
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("<a href=\"replay.html\">"));
}
