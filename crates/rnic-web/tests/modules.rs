//! Runs the tests of the modules: those in the folder `modules` with Node.js and in Chromium, those in `in_page`, which
//! need a page, in Chromium only. Without these programs the tests are skipped, with a message.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const CHECK: &str = include_str!("check.js");
const AXES: &str = include_str!("axes.json");

/// The scripts of the tests in a folder, each in its own block.
fn tests(folder: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file| fs::read_to_string(file).unwrap();
    let scripts = files.iter().map(|file| rnic_web::script(&format!("{CHECK}const AXES = {AXES};\n{}", read(file))));
    scripts.map(|script| format!("{{\n{script}}}\n")).collect()
}

fn there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn assert_passed(output: &str, min_tests: u64) {
    let text = output.split("OUTCOME:").nth(1).unwrap_or_else(|| panic!("no outcome: {output}"));
    let text = text.split(":END").next().unwrap().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let outcome: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcome["failures"], serde_json::json!([]));
    assert!(outcome["tests"].as_u64().unwrap() >= min_tests, "{outcome}");
}

#[test]
fn modules_work_in_node() {
    if !there("node") {
        eprintln!("SKIPPED: node is not installed (Debian: nodejs)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.cjs");
    let report = "console.log(`OUTCOME:${JSON.stringify(outcome)}:END`);\n";
    fs::write(&file, tests("modules") + report).unwrap();
    let output = Command::new("node").arg(&file).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_passed(&String::from_utf8_lossy(&output.stdout), 45);
}

/// The page has the content security policy of the reports.
#[test]
fn modules_work_in_chromium() {
    let Some(chromium) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| there(name)) else {
        eprintln!("SKIPPED: chromium is not installed (Debian: chromium)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.html");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src \
         'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"><style>{}</style><body><script>\n{}{}\
         document.body.textContent = `OUTCOME:${{JSON.stringify(outcome)}}:END`;\n</script>",
        rnic_web::style(""),
        tests("modules").replace("</script", "<\\/script"),
        tests("in_page").replace("</script", "<\\/script"),
    );
    fs::write(&file, page).unwrap();
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg("--dump-dom").arg(format!("file://{}", file.display()));
    let output = command.envs(["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"].map(|name| (name, folder.path())));
    let output = output.stdin(Stdio::null()).output().unwrap();
    assert_passed(&String::from_utf8_lossy(&output.stdout), 75);
}
