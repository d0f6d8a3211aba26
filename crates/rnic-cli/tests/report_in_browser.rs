//! Tests of the reports in a real browser: the figures are drawn, show the values of `summary.json`, fit on a phone,
//! and load nothing from the network.

use crate::browser::Browser;
use rnic_results::report::figure::{
    Axis, Bar, BarGroup, Bars, Board, Figure, Line, Lines, Point, Reference, Scale, Unit, View,
};
use rnic_results::report::{Experiment, Study, Verdict, Within, render_study};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const POISSON: &str = r#"title = "Three runs"
[fabric]
topology = "single-switch"
hosts = 8
rate = "40 Gbps"
delay = "1 us"
[traffic]
pattern = "poisson"
load = 0.7
sizes = "irn-heavy-tailed"
flows = 1200
warmup = 100
[[run]]
name = "RoCE + PFC"
transport = "roce"
pfc = true
[[run]]
name = "IRN"
transport = "irn"
[[run]]
name = "IRN + PFC"
transport = "irn"
pfc = true
"#;

const INCAST: &str = r#"title = "Fan-ins"
[fabric]
topology = "single-switch"
hosts = 8
rate = "40 Gbps"
delay = "1 us"
[traffic]
pattern = "incast"
senders = 2
total = "400 KB"
repeats = 2
[[run]]
name = "RoCE + PFC, 2 senders"
transport = "roce"
pfc = true
[[run]]
name = "IRN, 2 senders"
transport = "irn"
[[run]]
name = "RoCE + PFC, 6 senders"
transport = "roce"
pfc = true
set = { traffic.senders = 6 }
[[run]]
name = "IRN, 6 senders"
transport = "irn"
set = { traffic.senders = 6 }
"#;

const STORM: &str = r#"title = "A storm"
[fabric]
topology = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 2
rate = "40 Gbps"
delay = "1 us"
[[fabric.storm]]
host = "h0"
start = "100 us"
duration = "200 us"
[traffic]
pattern = "all-to-all"
sizes = "fixed 500 KB"
[watch]
interval = "5 us"
pauses = true
[[run]]
name = "RoCE + PFC"
transport = "roce"
pfc = true
[[run]]
name = "IRN"
transport = "irn"
"#;

/// Runs the scenario; returns the path of its report and the contents of its `summary.json`.
fn run(folder: &Path, name: &str, scenario: &str) -> (PathBuf, Value) {
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(["run", "--quiet", "--out", "out"]).arg(&file).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = folder.join("out").join(name);
    let summary = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    (out.join("report.html"), summary)
}

/// Asserts that the page had no errors and requested nothing except its own file.
#[track_caller]
fn assert_clean(browser: &Browser, file: &Path) {
    assert_eq!(browser.problems(), Vec::<String>::new());
    let own = format!("file://{}", file.display());
    let others: Vec<String> =
        browser.requests().into_iter().filter(|url| *url != own && !url.starts_with("data:")).collect();
    assert_eq!(others, Vec::<String>::new());
}

#[track_caller]
fn assert_fits(browser: &Browser) {
    let widths = browser.js("return [document.scrollingElement.scrollWidth, innerWidth];");
    assert_eq!(widths[1], 360);
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{widths}");
}

/// Number of elements that match the CSS selector.
fn count(browser: &Browser, selector: &str) -> u64 {
    browser.js(&format!("return document.querySelectorAll({}).length;", json!(selector))).as_u64().unwrap()
}

fn runs(summary: &Value) -> &[Value] {
    summary["runs"].as_array().unwrap()
}

/// Parses a number with a unit: `1,234.5 ms` becomes microseconds, and `2.5` stays 2.5.
fn parsed(text: &str) -> f64 {
    let text = text.replace(',', "");
    let (number, unit) = text.split_once(['\u{a0}', ' ']).unwrap_or((&text, ""));
    let scale = match unit {
        "" | "\u{b5}s" => 1.0,
        "ns" => 1e-3,
        "ms" => 1e3,
        "s" => 1e6,
        other => panic!("unit {other} in {text}"),
    };
    number.parse::<f64>().unwrap() * scale
}

#[track_caller]
fn assert_close(shown: &str, expected: f64, tolerance: f64) {
    let value = parsed(shown);
    assert!((value - expected).abs() <= tolerance * expected.abs(), "{shown} is not {expected}");
}

#[test]
fn a_report_shows_the_summary() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, summary) = run(folder.path(), "three", POISSON);
    browser.open(&file, 1200);
    assert_clean(&browser, &file);
    let metrics = [("slowdown", "mean"), ("fct_us", "mean"), ("fct_us", "p99")];
    for (column, (quantity, statistic)) in metrics.into_iter().enumerate() {
        let figure = format!("[data-board='0'] [data-figure='{column}']");
        assert_eq!(count(&browser, &format!("{figure} rect.mark")), runs(&summary).len() as u64);
        browser.js(&format!("document.querySelector(\"{figure} svg\").focus();"));
        for (index, run) in runs(&summary).iter().enumerate() {
            let (name, expected) = (run["name"].as_str().unwrap(), run[quantity][statistic].as_f64().unwrap());
            // Compares four values: that of the bar, its label, its tooltip reached by the keyboard, and the table with
            // its tooltip.
            let bar = browser.js(&format!(
                "return document.querySelector(\"{figure} rect.mark[data-name='{name}']\").dataset.value;"
            ));
            assert_eq!(bar.as_str().unwrap().parse::<f64>().unwrap(), expected);
            let label = format!("{figure} text.value[data-series='{index}']");
            let label = browser.js(&format!("return document.querySelector(\"{label}\").textContent;"));
            assert_close(label.as_str().unwrap(), expected, 0.005);
            let tip = browser.js(
                "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
                 const tip = document.getElementById('tip');
                 return getComputedStyle(tip).visibility === 'visible' ? tip.textContent.split('\\n') : [];",
            );
            assert_eq!(tip[0], name);
            assert_close(tip[1].as_str().unwrap(), expected, 1e-5);
            let cell = browser.js(&format!(
                "const row = document.querySelectorAll('table.results tbody tr')[{index}];
                 const cell = row.children[{}].querySelector('[data-tip]');
                 return [row.children[0].textContent.trim(), cell.textContent, cell.dataset.tip];",
                column + 1
            ));
            assert_eq!(cell[0], name);
            assert_close(cell[1].as_str().unwrap(), expected, 0.005);
            assert_close(cell[2].as_str().unwrap().strip_prefix(&format!("{name}: ")).unwrap(), expected, 0.0);
        }
    }
    // There is one curve per run in the figure of the distribution, which passes through the summary's percentiles.
    assert_eq!(count(&browser, "[data-board='1'] [data-figure='2'] path.series"), 3);
    for (index, run) in runs(&summary).iter().enumerate() {
        for (name, percentile) in [("p50", 50.0), ("p99", 99.0), ("p999", 99.9)] {
            let found = browser.js(&format!(
                "const data = JSON.parse(document.getElementById('data').textContent);
                 const points = data.boards[1].figures[2].views[0].lines[{index}].points;
                 return points.find((p) => p[1] === {percentile})[0];"
            ));
            assert_eq!(found, run["fct_us"][name], "{name}");
        }
    }
    // There is one curve per run in the figure of the tail, which passes through the summary's 99th percentile, and one
    // curve per run in the figure of slowdown by size.
    assert_eq!(count(&browser, "[data-board='1'] [data-figure='0'] path.series"), 3);
    assert_eq!(count(&browser, "[data-board='1'] [data-figure='1'] path.series"), 3);
    for (index, run) in runs(&summary).iter().enumerate() {
        assert_eq!(run["sizes"][0]["name"], "<= 1 packet");
        let found = browser.js(&format!(
            "const data = JSON.parse(document.getElementById('data').textContent);
             const points = data.boards[1].figures[0].views[0].lines[{index}].points;
             return points.find((p) => p[1] === 99)[0];"
        ));
        assert_eq!(found, run["sizes"][0]["fct_us"]["p99"]);
    }
    let embedded = browser.js("return document.getElementById('data').textContent;");
    let embedded: Value = serde_json::from_str(embedded.as_str().unwrap()).unwrap();
    assert_eq!(embedded["summary"], summary);
}

#[test]
fn a_report_answers() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = run(folder.path(), "three", POISSON);
    browser.open(&file, 1200);
    // A click on the legend hides a run in every figure, and a second click shows it again.
    let marks = |series: u32| count(&browser, &format!("svg .mark[data-series='{series}']"));
    let switch = "document.querySelector(\".legend button[data-series='1']\")";
    let before = (marks(0), marks(1), marks(2));
    // Three figures of metrics and five of distributions, which have a legend of their own.
    assert_eq!(before, (8, 8, 8));
    browser.js(&format!("{switch}.click();"));
    assert_eq!((marks(0), marks(1), marks(2)), (8, 5, 8));
    assert_eq!(count(&browser, "[data-board='0'] svg [data-series='1']"), 0);
    assert_eq!(browser.js(&format!("return {switch}.getAttribute('aria-pressed');")), "false");
    browser.js(&format!("{switch}.click();"));
    assert_eq!((marks(0), marks(1), marks(2)), before);
    // A button selects another percentile in the figure.
    let title = "[data-board='1'] [data-figure='1'] .axis-title";
    let title = || browser.js(&format!("return document.querySelector(\"{title}\").textContent;"));
    for (number, name) in [(0, "median"), (1, "95th percentile"), (2, "99th percentile")] {
        browser.js(&format!("document.querySelectorAll('[data-board=\"1\"] .choice button')[{number}].click();"));
        assert_eq!(title(), format!("Slowdown, {name}"));
    }
    assert_eq!(count(&browser, "[data-board='1'] .choice button[aria-pressed='true']"), 1);
    // A pointer over a bar shows a tooltip with the value of the bar, which disappears when the pointer leaves.
    let pointed = browser.js(
        "const bar = document.querySelector('rect.mark');
         const at = bar.getBoundingClientRect();
         const where = {clientX: at.x + at.width / 2, clientY: at.y + at.height / 2, bubbles: true, pointerType: 'mouse'};
         bar.dispatchEvent(new PointerEvent('pointermove', where));
         const tip = document.getElementById('tip');
         const on = [getComputedStyle(tip).visibility, tip.textContent.split('\\n')[0]];
         bar.closest('svg').dispatchEvent(new PointerEvent('pointerleave', {pointerType: 'mouse'}));
         return [...on, getComputedStyle(tip).visibility];",
    );
    assert_eq!(pointed, json!(["visible", "RoCE + PFC", "hidden"]));
    // Before printing, all folded parts of the page are opened; afterwards they are folded again.
    let closed = count(&browser, "details:not([open])");
    assert!(closed > 0);
    let paper = browser.devtools("Page.printToPDF", &json!({"preferCSSPageSize": true}));
    assert!(paper["data"].as_str().unwrap().len() > 20_000);
    assert_eq!(count(&browser, "details:not([open])"), closed);
    assert_clean(&browser, &file);
}

#[test]
fn a_report_fits_on_a_phone_and_in_the_dark() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = run(folder.path(), "three", POISSON);
    let ground = || browser.js("return getComputedStyle(document.body).backgroundColor;");
    browser.open(&file, 360);
    assert_fits(&browser);
    browser.js("document.querySelectorAll('details').forEach((d) => { d.open = true; });");
    assert_fits(&browser);
    // A table that is wider than the screen scrolls in its own frame, and has a hint about this.
    let hints = browser.js("return [...document.querySelectorAll('.wide')].map((wide) => {
           const inside = wide.querySelector('.scroll');
           return [inside.scrollWidth > inside.clientWidth + 2,
             getComputedStyle(wide, '::before').content.includes('scroll')];
         });");
    let hints = hints.as_array().unwrap();
    assert!(hints.iter().any(|hint| hint[0] == true) && hints.iter().all(|hint| hint[0] == hint[1]), "{hints:?}");
    // The labels of an axis do not overlap.
    let collisions = browser.js("let found = [];
         for (const svg of document.querySelectorAll('.plot svg')) {
           const boxes = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
           boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
             const over = Math.min(p.right, q.right) - Math.max(p.left, q.left);
             const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
             if (over > 0.5 && high > 2) found.push(a + ' / ' + b);
           }));
         }
         return found;");
    assert_eq!(collisions, json!([]));
    let light = ground();
    browser.devtools(
        "Emulation.setEmulatedMedia",
        &json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    );
    assert_ne!(ground(), light);
    assert_clean(&browser, &file);
}

#[test]
fn without_scripts_the_tables_remain() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, summary) = run(folder.path(), "three", POISSON);
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    browser.open(&file, 1200);
    assert_eq!(count(&browser, "svg"), 0);
    let text = browser.js("return document.body.innerText;");
    let text = text.as_str().unwrap();
    assert!(text.contains("The figures need JavaScript"), "{text}");
    for run in runs(&summary) {
        assert!(text.contains(run["name"].as_str().unwrap()));
    }
    assert_eq!(count(&browser, "table.results tbody tr"), 3);
    assert_eq!(browser.js("return getComputedStyle(document.querySelector('.legend')).display;"), "none");
}

#[test]
fn incasts_are_drawn_against_their_fan_in() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, summary) = run(folder.path(), "fan-ins", INCAST);
    browser.open(&file, 1200);
    assert_clean(&browser, &file);
    let time = |run: usize| summary["runs"][run]["rct_us"].as_f64().unwrap();
    let dots = |figure: u32, series: u32| {
        let selector = format!("[data-board='0'] [data-figure='{figure}'] circle.dot[data-series='{series}']");
        browser.js(&format!(
            "return [...document.querySelectorAll(\"{selector}\")].map((d) => [Number(d.dataset.x), Number(d.dataset.y)]);"
        ))
    };
    // Compares the points as pairs of floats, because the browser writes whole numbers without a decimal point.
    let floats = |dots: Value| {
        let pair = |dot: &Value| (dot[0].as_f64().unwrap(), dot[1].as_f64().unwrap());
        dots.as_array().unwrap().iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(floats(dots(0, 0)), [(2.0, time(0)), (6.0, time(2))]);
    assert_eq!(floats(dots(0, 1)), [(2.0, time(1)), (6.0, time(3))]);
    let ratios = dots(1, 1);
    for (place, (irn, roce)) in [(1, 0), (3, 2)].into_iter().enumerate() {
        let ratio = ratios[place][1].as_f64().unwrap();
        assert!((ratio - time(irn) / time(roce)).abs() < 1e-5 * ratio, "{ratios}");
    }
}

#[test]
fn pauses_are_drawn_over_time() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, summary) = run(folder.path(), "storm", STORM);
    browser.open(&file, 1200);
    assert_clean(&browser, &file);
    // The NIC is the root that kept ports paused for the longest time, so it has the first colour and the first row.
    let root = &summary["runs"][0]["pauses"]["roots"][0];
    assert_eq!((root["kind"].as_str(), root["port"].as_str()), (Some("nic"), Some("h0:0->leaf0")));
    let marks = "[data-board='2'] rect.mark";
    let first = browser
        .js(&format!("const d = document.querySelector(\"{marks}\").dataset; return [d.name, d.series, d.from];"));
    assert_eq!(first[0], "h0:0->leaf0");
    assert_eq!(first[1], "0");
    assert_eq!(first[2].as_str().unwrap().parse::<f64>().unwrap(), root["first_us"].as_f64().unwrap());
    let of_nic = browser.js(&format!(
        "return [...document.querySelectorAll(\"{marks}[data-series='0']\")].map((m) => m.dataset.name);"
    ));
    for port in ["leaf0:0->h0", "spine0:0->leaf0", "leaf1:2->spine0", "h2:0->leaf1"] {
        assert!(of_nic.as_array().unwrap().iter().any(|name| name == port), "{port} in {of_nic}");
    }
    assert!(
        browser
            .js("return document.querySelector(\"[data-board='2'] svg\").textContent;")
            .as_str()
            .unwrap()
            .contains("the NIC of h0 pauses its switch")
    );
    // Hiding a root in the legend removes its row and its bars.
    let before = count(&browser, marks);
    browser.js("document.querySelector(\"[data-board='2'] .legend button[data-series='0']\").click();");
    assert!(count(&browser, marks) < before);
    assert_eq!(count(&browser, &format!("{marks}[data-series='0']")), 0);
    // The run without PFC has no figure of pauses, and its section states this.
    assert!(
        browser
            .js("return document.querySelector('#pauses').textContent;")
            .as_str()
            .unwrap()
            .contains("No transmitter was paused")
    );
    browser.open(&file, 360);
    assert_fits(&browser);
}

fn study() -> Study {
    let bar = |series, value: f64| Bar {
        series,
        value: Some(value),
        interval: Some([value * 0.9, value * 1.1]),
        ..Bar::default()
    };
    let bars = Bars {
        title: "Ratios".into(),
        unit: Unit::Factor,
        groups: vec![
            BarGroup {
                name: "average slowdown".into(),
                bars: vec![bar(0, 2.0), bar(1, 2.9)],
                stated: Some([2.8, 3.7]),
            },
            BarGroup {
                name: "average FCT".into(),
                bars: vec![bar(0, 1.7), Bar { series: 1, ..Bar::default() }],
                stated: None,
            },
        ],
        reference: Some(Reference { value: 1.0, name: "no difference".into() }),
        ..Bars::default()
    };
    let point = |x: f64| Point { interval: Some([0.9, 1.1]), ..Point::at(x, 1.0 + x / 500.0) };
    let lines = Lines {
        title: "Incast".into(),
        x: Axis { name: "Senders".into(), unit: Unit::Number, scale: Scale::Linear },
        y: Axis { name: "Ratio".into(), unit: Unit::Factor, scale: Scale::Linear },
        dots: true,
        views: vec![View {
            lines: vec![Line { series: 0, points: [10.0, 20.0, 50.0].map(point).into() }],
            ..View::default()
        }],
        ..Lines::default()
    };
    let verdict = |metric: &str, within| Verdict {
        experiment: "Figure 1".into(),
        metric: metric.into(),
        stated: "2.8 to 3.7".into(),
        measured: "2.0".into(),
        within,
        note: "see `nic_burst`".into(),
    };
    Study {
        title: "A study".into(),
        command: "rnic reproduce irn --seeds 5 --out a-folder-with-a-rather-long-name-that-must-break".into(),
        verdicts: vec![
            verdict("average slowdown", Within::Outside),
            verdict("average FCT", Within::Inside),
            verdict("drops", Within::NotStated),
        ],
        experiments: vec![Experiment {
            name: "Figure 1".into(),
            boards: vec![Board {
                series: vec!["IRN".into(), "IRN + PFC".into()],
                shown: 0,
                rows: vec![vec![Figure::Bars(bars)], vec![Figure::Lines(lines)]],
            }],
            ..Experiment::default()
        }],
        ..Study::default()
    }
}

#[test]
fn a_study_draws_intervals_bands_and_verdicts() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.html");
    fs::write(&file, render_study(&study())).unwrap();
    for width in [1200, 360] {
        browser.open(&file, width);
        assert_clean(&browser, &file);
        let expected = [
            ("rect.mark", 3),
            ("text.mark.none", 1),
            (".whisker", 3),
            ("rect.stated", 2), // The band and its key.
            ("line.reference", 2),
            ("path.band", 1),
            ("circle.dot", 3),
            ("table.verdicts .mark.inside", 1),
            ("table.verdicts .mark.outside", 1),
            ("table.verdicts .mark.unstated", 1),
        ];
        for (selector, number) in expected {
            assert_eq!(count(&browser, selector), number, "{selector}");
        }
    }
    assert_fits(&browser);
    let numbers = browser.js("const details = document.querySelector('details.numbers');
         details.open = true;
         return details.innerText;");
    assert!(numbers.as_str().unwrap().contains("2.00\u{d7}"), "{numbers}");
    assert_fits(&browser);
}

/// Clicks a button that saves a figure; returns the name and the contents of the file.
fn saved(browser: &Browser, button: &str) -> (String, String) {
    // A script cannot wait for the contents of a blob, so the blob's text is caught before the blob is made.
    let file = browser.js(&format!(
        "const [make, click] = [window.Blob, HTMLAnchorElement.prototype.click];
         let [name, text] = ['', ''];
         window.Blob = function (parts, options) {{ text = parts.join(''); return new make(parts, options); }};
         HTMLAnchorElement.prototype.click = function () {{ name = this.download; }};
         document.querySelector({}).click();
         [window.Blob, HTMLAnchorElement.prototype.click] = [make, click];
         return [name, text];",
        json!(button)
    ));
    (file[0].as_str().unwrap().to_string(), file[1].as_str().unwrap().to_string())
}

#[test]
fn figures_are_saved_as_csv_and_svg() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.html");
    fs::write(&file, render_study(&study())).unwrap();
    browser.open(&file, 1200);
    let button = |figure: u32, kind: &str| format!("[data-figure='{figure}'] .save button[aria-label$='{kind} file']");
    assert_eq!(
        saved(&browser, &button(0, "CSV")),
        (
            "ratios.csv".to_string(),
            "group,name,\"value, ratio\",low,high,note\naverage slowdown,IRN,2,1.8,2.2,\n\
             average slowdown,IRN + PFC,2.9,2.61,3.19,\naverage FCT,IRN,1.7,1.53,1.87,\naverage FCT,IRN + PFC,,,,\n"
                .to_string()
        )
    );
    let (name, csv) = saved(&browser, &button(1, "CSV"));
    assert_eq!(name, "incast.csv");
    assert!(csv.starts_with("view,series,Senders,\"Ratio, ratio\",low,high,note\n,IRN,10,1.02,0.9,1.1,"), "{csv}");

    let (name, svg) = saved(&browser, &button(0, "SVG"));
    assert_eq!(name, "ratios.svg");
    // The picture must look the same without the page's style sheet, so it has no classes and no variables.
    assert!(!svg.contains("class=") && !svg.contains("var("), "{svg}");
    let parsed = browser.js(&format!(
        "const svg = new DOMParser().parseFromString({}, 'image/svg+xml').documentElement;
         const fills = [...svg.querySelectorAll('svg svg rect')].map((r) => r.getAttribute('fill'));
         return [svg.nodeName, svg.textContent, fills.filter((f) => f === 'rgb(29, 95, 168)').length];",
        json!(svg)
    ));
    assert_eq!((&parsed[0], &parsed[2]), (&json!("svg"), &json!(2)), "{parsed}");
    for text in ["Ratios", "IRN + PFC", "average FCT", "2.00\u{d7}"] {
        assert!(parsed[1].as_str().unwrap().contains(text), "{text}: {parsed}");
    }
    // A real click saves a file without a problem with the page's security policy.
    browser.js(&format!("document.querySelector({}).click();", json!(button(0, "SVG"))));
    // The PNG is drawn from the same SVG, three pixels for each of its units.
    let size = browser.js(&format!(
        "window.pixels = null;
         const toBlob = HTMLCanvasElement.prototype.toBlob;
         HTMLCanvasElement.prototype.toBlob = function (...all) {{
           window.pixels = [this.width, this.height, this.getContext('2d').getImageData(1, 1, 1, 1).data[3]];
           return toBlob.apply(this, all);
         }};
         document.querySelector({}).click();
         const svg = new DOMParser().parseFromString({}, 'image/svg+xml').documentElement;
         return [svg.getAttribute('width'), svg.getAttribute('height')].map(Number);",
        json!(button(0, "PNG")),
        json!(svg)
    ));
    browser.wait_for("window.pixels");
    let pixels = browser.js("return window.pixels;");
    let tripled = |index: usize| (size[index].as_f64().unwrap() * 3.0) as u64;
    // The pixel in the corner has the opaque colour of the page.
    assert_eq!(pixels, json!([tripled(0), tripled(1), 255]));
    assert_eq!(browser.problems(), Vec::<String>::new());
}

#[test]
fn bars_that_would_be_flat_become_points_on_a_logarithmic_axis() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("study.html");
    let mut study = study();
    if let Figure::Bars(bars) = &mut study.experiments[0].boards[0].rows[0][0] {
        bars.groups[1].bars[1] =
            Bar { series: 1, value: Some(900.0), interval: Some([-50.0, 1_800.0]), ..Bar::default() };
    }
    fs::write(&file, render_study(&study)).unwrap();
    for width in [1200, 360] {
        browser.open(&file, width);
        assert_clean(&browser, &file);
        let of = |shape: &str| count(&browser, &format!("[data-figure='0'] {shape}.mark"));
        let axis = |number: u32| format!("document.querySelectorAll('[data-figure=\"0\"] .choice button')[{number}]");
        let pressed =
            || browser.js(&format!("return [0, 1].map((i) => {}.ariaPressed);", axis(0).replace("[0]", "[i]")));
        let text = || browser.js("return document.querySelector('[data-figure=\"0\"] svg').textContent;").to_string();
        // The length of a bar would mean nothing on a logarithmic axis.
        assert_eq!((of("rect"), of("circle")), (0, 4));
        assert!(text().contains("logarithmic axis"));
        assert_eq!(pressed(), json!(["false", "true"]));
        browser.js(&format!("{}.click();", axis(0)));
        assert!((of("rect"), of("circle")) == (4, 0) && !text().contains("logarithmic axis"));
        assert_eq!(pressed(), json!(["true", "false"]));
        browser.js(&format!("{}.click();", axis(1)));
        assert_eq!((of("rect"), of("circle")), (0, 4));
        // Without the large bar, the others choose their axis themselves.
        browser.open(&file, width);
        browser.js("document.querySelector(\".legend button[data-series='1']\").click();");
        assert!(!text().contains("logarithmic axis") && pressed() == json!(["true", "false"]));
    }
    assert_fits(&browser);
}

const WATCHED: &str = r#"title = "Watched"
[fabric]
topology = "single-switch"
hosts = 4
rate = "40 Gbps"
delay = "1 us"
[traffic]
pattern = "incast"
senders = 3
total = "1 MB"
[watch]
interval = "5 us"
queues = ["s0:h0"]
flows = true
[[run]]
name = "RoCE + PFC"
transport = "roce"
pfc = true
[[run]]
name = "IRN"
transport = "irn"
"#;

#[test]
fn runs_over_time_have_common_axes_and_one_figure_together() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = run(folder.path(), "watched", WATCHED);
    browser.open(&file, 1200);
    assert_clean(&browser, &file);
    let headings = browser.js("return [...document.querySelectorAll('.figures h2')].map((h) => h.textContent);");
    let own = ["Over time: RoCE + PFC", "Over time: IRN"].map(|heading| [heading, heading]).concat();
    let first = ["Metrics", "Distributions of single runs", "Over time: all runs"];
    assert_eq!(headings, json!([&first[..], &own[..]].concat()));
    // Both runs in one figure: their queues, and the goodput of all flows together or of one flow.
    for figure in [0, 1] {
        let curves = format!("[data-board='2'] [data-figure='{figure}'] path.series");
        assert_eq!(count(&browser, &curves), 2);
    }
    let views = browser
        .js("return [...document.querySelectorAll('[data-board=\"2\"] .choice button')].map((b) => b.textContent);");
    assert_eq!(views, json!(["All flows", "flow 0, h1 to h0", "flow 1, h2 to h0", "flow 2, h3 to h0"]));
    // The labels of the axes are the same in the figures of both runs.
    let labels = |board: u32| {
        browser.js(&format!(
            "return [...document.querySelectorAll('[data-board=\"{board}\"] svg text')].map((t) => t.textContent);"
        ))
    };
    assert_eq!((labels(3), labels(4)), (labels(5), labels(6)));
    assert_ne!(labels(3), labels(4));
    // All flows have the same size, so there are bars of percentiles instead of a curve over the size.
    let titles = browser.js(
        "return [...document.querySelectorAll('[data-board=\"1\"] figcaption strong')].slice(-3).map((t) => t.textContent);",
    );
    let expected = ["Slowdown percentiles", "Distribution of the flow completion time", "Queues by tier"];
    assert_eq!(titles, json!(expected));
    browser.open(&file, 360);
    assert_fits(&browser);
}

/// Checks that the browser's lists of problems and of requests are not empty for a broken page. If they were, the other
/// tests could not fail.
#[test]
fn a_broken_page_is_noticed() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.html");
    let policy =
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'\">";
    fs::write(&file, format!("{policy}<script>missing();</script><img src=\"other.png\">")).unwrap();
    browser.open(&file, 1200);
    let problems = browser.problems().join("\n");
    assert!(problems.contains("missing is not defined") && problems.contains("policy: img-src"), "{problems}");
    fs::write(&file, "<img src=\"other.png\">").unwrap();
    browser.requests();
    browser.open(&file, 1200);
    assert!(browser.requests().iter().any(|url| url.ends_with("other.png")));
}
