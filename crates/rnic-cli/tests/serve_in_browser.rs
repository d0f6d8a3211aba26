//! Tests of `rnic run --serve` in a real browser: the page changes during the runs, shows their results afterwards, and
//! shows names with markup as text.

use crate::browser::Browser;
use crate::replay_in_browser::{HOSTILE, INCAST};
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

fn serve(folder: &Path, scenario: &str, arguments: &[&str]) -> Served {
    let file = folder.join("served.toml");
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(["run", "--serve", "--quiet"]).arg(&file).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("the runs at ").unwrap_or_else(|| panic!("{line}")).to_string();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    Served { child, url }
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
