//! Tests of `rnic run --serve` in a real browser: the page changes during the runs, shows their results afterwards, and
//! shows names with markup as text.

use crate::browser::Browser;
use crate::replay_in_browser::{HOSTILE, INCAST, RING};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A command that serves its runs. It is killed when this value is dropped.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Starts a command. `url` finds the address of its page in the first line that it prints.
    fn start(command: &mut Command, url: impl FnOnce(&str) -> Option<String>) -> Served {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = url(line.trim()).unwrap_or_else(|| panic!("{line}"));
        Served { child, url }
    }
}

fn serve(folder: &Path, scenario: &str, arguments: &[&str]) -> Served {
    let file = folder.join("served.toml");
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(["run", "--serve", "--quiet"]).arg(&file).args(arguments);
    let served = Served::start(&mut command, |line| line.strip_prefix("the runs at ").map(ToString::to_string));
    assert!(served.url.starts_with("http://127.0.0.1:"), "{}", served.url);
    served
}

#[track_caller]
fn assert_clean(browser: &Browser, url: &str) {
    assert_eq!(browser.problems(), Vec::<String>::new());
    let others: Vec<String> = browser.requests().into_iter().filter(|found| !found.starts_with(url)).collect();
    assert_eq!(others, Vec::<String>::new());
}

#[test]
fn the_page_moves_during_a_run() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    // The run would take minutes: it continues until the test ends it.
    let served = serve(folder.path(), &INCAST.replace("4 MB", "100 GB"), &["--threads", "1"]);
    browser.visit(&served.url, 1200);
    browser.wait_for("document.documentElement.dataset.frames > 1");
    let picture = "document.querySelector('.panel .fabric').toDataURL()";
    browser.js(&format!("window.before = {picture};"));
    browser.js("window.frames0 = Number(document.documentElement.dataset.frames);");
    browser
        .wait_for(&format!("document.documentElement.dataset.frames > window.frames0 && {picture} !== window.before"));
    assert_eq!(browser.js("return document.querySelector('h1').textContent;"), "An incast");
    assert_clean(&browser, &served.url);
}

#[test]
fn the_page_has_the_results_afterwards() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), INCAST, &[]);
    browser.visit(&served.url, 1200);
    browser.wait_for("document.documentElement.dataset.ready === 'true'");
    browser.wait_for("[...document.querySelectorAll('#runs progress')].every((bar) => bar.value === 1)");
    let table = browser.js("return document.getElementById('table').textContent;");
    assert!(table.as_str().unwrap().contains("RoCE without PFC"), "{table}");
    let link = browser.js("return document.querySelector('#files a[href$=\"report.html\"]').href;");
    assert_clean(&browser, &served.url);
    browser.visit(link.as_str().unwrap(), 1200);
    assert_eq!(browser.js("return document.querySelector('h1').textContent;"), "An incast");
    assert_eq!(browser.js("return document.querySelectorAll('svg').length > 0;"), true);
}

/// The page shows the frames of the recordings of which the replay is made, and links to the replay.
#[test]
fn a_replay_is_recorded_on_the_way() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), INCAST, &["--replay"]);
    browser.visit(&served.url, 1200);
    browser.wait_for("document.documentElement.dataset.ready === 'true' && document.documentElement.dataset.frames");
    browser.wait_for("live.recordings.every(({ times }) => times.length > 1)");
    let ends = "return live.recordings.map(({ times }) => times.at(-1));";
    let shown = browser.js(ends);
    let link = browser.js("return document.querySelector('#files a[href$=\"replay.html\"]').href;");
    assert_clean(&browser, &served.url);
    browser.visit(link.as_str().unwrap(), 1200);
    browser.wait_for("document.documentElement.dataset.ready === 'true'");
    assert_eq!(browser.js("return replay.shown().map(({ times }) => times.at(-1));"), shown);
    let mut alone = Command::new(env!("CARGO_BIN_EXE_rnic"));
    alone.current_dir(folder.path()).args(["run", "served.toml", "--replay", "--quiet", "--out", "alone"]);
    assert!(alone.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
    let page = |out: &str| fs::read(folder.path().join(out).join("served/replay.html")).unwrap();
    assert!(page("out") == page("alone"), "a page changes nothing in the replay");
}

#[test]
fn the_page_has_a_matrix_and_paths_of_flows() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), RING, &[]);
    browser.visit(&served.url, 1200);
    browser.wait_for("document.documentElement.dataset.ready === 'true' && document.documentElement.dataset.frames");
    browser.js("live.view.player.seek(1e9);");
    browser.wait_for("document.querySelector('.panel .matrix').matrix?.cells.some((bytes) => bytes > 2e6)");
    let cells = browser.js("return [...document.querySelector('.panel .matrix').matrix.cells];");
    let cells: Vec<f64> = cells.as_array().unwrap().iter().map(|bytes| bytes.as_f64().unwrap()).collect();
    // Each of 16 ranks sends 2 * 15 / 16 of 1,600 KB to its neighbour, to the last byte.
    let expected = |cell: usize| if cell % 16 == (cell / 16 + 1) % 16 { 3_000_000.0 } else { 0.0 };
    assert!(cells.len() == 256 && (0..256).all(|cell| cells[cell] == expected(cell)), "{cells:?}");
    // A flow leads from a host to its neighbour: two links under one leaf, four between leaves.
    browser.js("document.querySelector('.events button[data-flow]').click();");
    let flow = browser.js("const { chosen, shown } = live.view;
         const { src, dst, path } = shown()[0].flows.get(chosen().id);
         const { node, peer } = shown()[0].ports;
         return { src, dst, ends: [node[path[0]], node[peer[path.at(-1)]]], length: path.length };");
    assert_eq!(flow["ends"], serde_json::json!([flow["src"], flow["dst"]]), "{flow}");
    let (src, dst) = (flow["src"].as_u64().unwrap(), flow["dst"].as_u64().unwrap());
    assert_eq!(flow["length"], if src / 4 == dst / 4 { 2 } else { 4 }, "{flow}");
    assert_clean(&browser, &served.url);
}

#[test]
fn hostile_names_stay_text() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), HOSTILE, &[]);
    browser.visit(&served.url, 1200);
    browser.wait_for("document.documentElement.dataset.ready === 'true' && document.documentElement.dataset.frames");
    let title = HOSTILE.lines().next().unwrap()[9..].trim_matches('"');
    assert_eq!(browser.js("return document.querySelector('h1').textContent;"), title);
    assert_eq!(
        browser.js("return document.querySelector('#runs td').textContent;"),
        "<svg onload='window.attacked = 1'>"
    );
    assert_eq!(browser.js("return window.attacked ?? null;"), Value::Null);
    assert_eq!(browser.js("return document.querySelectorAll('img, main script, b, svg[onload]').length;"), 0);
    assert_clean(&browser, &served.url);
}

/// A page of another site cannot read the events, although the browser reaches the server.
#[test]
fn another_site_reads_nothing() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), INCAST, &[]);
    let other = folder.path().join("other.html");
    fs::write(&other, "<!doctype html><title>other</title>").unwrap();
    browser.open(&other, 800);
    browser.js(&format!(
        "window.read = 'waiting';
         fetch('{}events').then((response) => response.text()).then((text) => {{ window.read = text; }},
                                                                     () => {{ window.read = 'refused'; }});",
        served.url
    ));
    browser.wait_for("window.read !== 'waiting'");
    assert_eq!(browser.js("return window.read;"), "refused");
}

#[test]
fn the_command_ends_after_the_time_that_the_page_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = serve(folder.path(), INCAST, &["--serve-for", "0 s"]);
    assert!(served.child.wait().unwrap().success());
    assert!(folder.path().join("out/served/report.html").exists());
}

#[test]
fn views_need_what_they_show_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refused.toml");
    fs::write(&file, INCAST).unwrap();
    let refused = |arguments: &[&str], code: i32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
        command.current_dir(folder.path()).arg("run").arg(&file).args(arguments).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--tui"], 2).contains("--tui needs a terminal at standard input and standard error"));
    assert!(refused(&["--tui", "--serve"], 2).contains("cannot be used with"));
    assert!(refused(&["--serve=here"], 2).contains("invalid value 'here'"));
    assert!(refused(&["--serve=192.0.2.1:80"], 1).contains("cannot listen at 192.0.2.1:80"));
    assert!(refused(&["--serve-for", "1 s"], 2).contains("--serve"));
}

/// The live page of `rnic perf --serve` has lines and a table of each queue pair.
#[cfg(all(feature = "endpoint", target_os = "linux"))]
#[test]
fn the_page_of_a_measurement_has_its_queue_pairs() {
    let Some(browser) = Browser::start() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.args(["perf", "--serve", "-q", "2", "--loss", "1%"]);
    let served = Served::start(&mut command, |line| {
        let word = line.split_whitespace().find(|word| word.starts_with("http"))?;
        Some(word.trim_end_matches(';').to_string())
    });
    browser.visit(&served.url, 1200);
    // IRN and RC have two queue pairs each.
    let figure = |name: &str, lines: &str| {
        format!(
            "[...document.querySelectorAll('figure')].some((figure) => figure.textContent.includes('{name}') && \
             figure.querySelectorAll('path.series').length {lines})"
        )
    };
    browser.wait_for(&figure("Round-trip time", ">= 4"));
    browser.wait_for(&figure("Window", ">= 4"));
    browser.wait_for("document.querySelectorAll('#pairs tr').length === 5");
    let table = browser.js("return document.getElementById('pairs').textContent;");
    assert!(table.as_str().unwrap().contains("RC (go-back-N), queue pair 0x"), "{table}");
    assert_clean(&browser, served.url.split('#').next().unwrap());
}
