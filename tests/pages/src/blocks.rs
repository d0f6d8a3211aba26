//! The names in markers, and the text for each.
//!
//! | block | contents |
//! |---|---|
//! | `FILE/TABLE` | the table of the record `FILE.json` |
//! | `FILE/provenance` | command, date, version, commit, machine and seeds, and whether the code has changed since |
//! | `STUDY/summary` | numbers of rows by outcome, for each experiment |
//! | `STUDY/outside`, `STUDY/inconclusive` | the rows with this outcome |
//! | `STUDY/rows/EXPERIMENT` | the rows of one experiment |
//! | `STUDY/variants/EXPERIMENT` | the means of one experiment: a line for each variant, a column for each figure |
//! | `STUDY/all-rows` | a link to the page of all rows |
//! | `performance/heavy-tailed` | the rates of the benchmark with heavy-tailed traffic, a column for each number of hosts |
//! | `endpoint/selected` | medians of selected rows of the endpoint's tables |
//! | `evidence` | numbers of rows with a statement of the paper by outcome, for each paper |
//! | `items/summary` | numbers of items by state, for each paper |
//! | `items/PAPER` | the items of a paper |
//! | `speed` | speed of the simulator and of other simulators |
//! | `settings/TABLE` | the settings of a table of scenarios; those that all variants of the table have |
//! | `settings/TABLE/variants`, `settings/TABLE/own` | the variants of this table; the settings that only some have |
//! | `settings/TABLE/VARIANT` | the settings that only this variant has |
//!
//! | inline value | contents |
//! |---|---|
//! | `FILE.NAME` | the value of the record; or its date, version, commit, machine, command |
//! | `STUDY.inside` | number of rows with the outcome: `rows`, `checked`, `inside`, `outside`, `same-direction`, `opposite`, `inconclusive`, `not-stated`, `no-result` |
//! | `evidence.inside` | the same of all papers |
//! | `items.works` | number of items of all papers with the state: `all`, `works`, `partly`, `missing`; `none-inside`: with rows, none of them inside |
//! | `items.PAPER.works` | the same of a paper |
//! | `settings.NAME` | names of settings, or a maximum |
//! | `FILE.TABLE::ROW::COLUMN` | a cell of a table; ROW is the text of its first cells, joined by `, `; the rows of a study also have the column `measured` |

use crate::Data;
use crate::items;
use crate::settings;
use crate::study::{self, Counts, PAPERS};
use crate::table::{cell, lines, markdown, thousands};
use rnic_record::{Column, Table};
use serde_json::Value;

/// The text of a block on the page with the path `from`, and the names of the data that it uses.
///
/// # Errors
/// One sentence if there are no data for the name.
pub fn block(data: &Data, from: &str, name: &str) -> Result<(String, Vec<String>), String> {
    match name {
        "evidence" => return study::evidence(data, from),
        "speed" => return speed(data),
        "performance/heavy-tailed" => return heavy_tailed(data),
        "endpoint/selected" => return selected(data),
        _ => {}
    }
    if let Some(name) = name.strip_prefix("settings/") {
        return Ok((settings::block(name)?, Vec::new()));
    }
    if let Some(name) = name.strip_prefix("items/") {
        let text = if name == "summary" { items::summary(data)? } else { items::table(data, from, name)? };
        return Ok((text, Vec::new()));
    }
    let (file, part) = name.split_once('/').ok_or_else(|| {
        format!("`{name}` is no name of a block; accepted are FILE/TABLE, evidence, speed, and others of blocks.rs")
    })?;
    let rows = |text: Result<String, String>| text.map(|text| (text, vec![format!("{file}/rows")]));
    match part {
        "provenance" => Ok((study::provenance(data, file)?, vec![format!("{file}/experiments")])),
        "summary" => rows(study::summary(data, file)),
        "outside" => rows(study::outside(data, file)),
        "inconclusive" => rows(study::inconclusive(data, file)),
        "all-rows" => rows(study::all_rows_link(data, file, from)),
        part => match part.split_once('/') {
            Some(("rows", experiment)) => rows(study::experiment(data, file, experiment)),
            Some(("variants", experiment)) => rows(study::variants(data, file, experiment)),
            _ => Ok((markdown(data.table(file, part)?), vec![name.to_string()])),
        },
    }
}

/// The text of an inline value, and the names of the data that it uses.
///
/// # Errors
/// One sentence if there are no data for the name.
pub fn value(data: &Data, name: &str) -> Result<(String, Vec<String>), String> {
    let wrong = || format!("`{name}` is no name of a value; accepted are FILE.VALUE and FILE.TABLE::ROW::COLUMN");
    let (file, value) = name.split_once('.').ok_or_else(wrong)?;
    if file == "settings" {
        return Ok((settings::value(value)?, Vec::new()));
    }
    if file == "items" {
        return Ok((items::value(data, value)?, Vec::new()));
    }
    if file == "evidence" {
        let mut total = 0;
        for (paper, ..) in PAPERS {
            total += study::counts(data, paper, None)?.named(value).ok_or_else(wrong)?;
        }
        return Ok((thousands(total), PAPERS.iter().map(|(paper, ..)| format!("{paper}/rows")).collect()));
    }
    let record = data.record(file)?;
    if let [table, row, column] = value.split("::").collect::<Vec<_>>()[..] {
        let own = data.table(file, table)?;
        let text = if column == "measured" && own.column("half_width").is_some() {
            find(own, row).map(|cells| study::measured(own, cells))
        } else {
            at(own, row, column)
        };
        let text = text.map_err(|why| format!("the table `{file}/{table}` {why}"))?;
        return Ok((text, vec![format!("{file}/{table}")]));
    }
    if let Some(value) = record.values.get(value) {
        let text = cell(&Column::new(""), value);
        return Ok((text, vec![name.to_string()]));
    }
    let text = match value {
        "date" => record.date.clone(),
        "version" => record.version.clone(),
        "commit" => record.commit.clone().unwrap_or_else(|| "unknown".to_string()),
        "machine" => record.machine.clone(),
        "command" => record.command.clone(),
        _ if Counts::default().named(value).is_some() => {
            let count = study::counts(data, file, None)?.named(value).unwrap_or(0);
            return Ok((thousands(count), vec![format!("{file}/rows")]));
        }
        _ => return Err(format!("`docs/results/data/{file}.json` has no value `{value}`")),
    };
    Ok((text, Vec::new()))
}

/// The row whose first cells have this text.
fn find<'t>(table: &'t Table, row: &str) -> Result<&'t [Value], String> {
    let is = |cells: &&Vec<Value>| {
        let texts: Vec<String> = cells.iter().zip(&table.columns).map(|(value, column)| cell(column, value)).collect();
        (1..=texts.len()).any(|count| texts[..count].join(", ") == row)
    };
    table.rows.iter().find(is).map(Vec::as_slice).ok_or_else(|| format!("has no row `{row}`"))
}

fn at(table: &Table, row: &str, column: &str) -> Result<String, String> {
    let cells = find(table, row)?;
    let index = table.column(column).ok_or_else(|| format!("has no column `{column}`"))?;
    Ok(cell(&table.columns[index], &cells[index]))
}

/// Rates of rnic beside those of other simulators with the same transport: transport, fabric, row of rnic, row and
/// column of the other simulator.
const SPEEDS: [(&str, &str, &str, &str, &str); 6] = [
    ("RoCE", "54 hosts", "54, WebSearch, 40 Gbps, RoCE + PFC", "htsim with RoCE", "54 hosts"),
    ("RoCE", "1,024 hosts", "1024, permutation, 100 Gbps, RoCE + PFC", "htsim with RoCE", "1,024 hosts"),
    ("IRN", "54 hosts", "54, WebSearch, 40 Gbps, IRN", "ns-3's ConWeave fork with IRN", "54 hosts"),
    ("IRN", "1,024 hosts", "1024, permutation, 100 Gbps, IRN", "ns-3's ConWeave fork with IRN", "1,024 hosts"),
    ("HPCC", "54 hosts", "54, heavy-tailed, 40 Gbps, HPCC", "ns-3 with HPCC", "54 hosts"),
    ("HPCC", "1,024 hosts", "1024, heavy-tailed, 100 Gbps, HPCC", "ns-3 with HPCC", "1,024 hosts"),
];

fn speed(data: &Data) -> Result<(String, Vec<String>), String> {
    let (own, others) = (data.table("performance", "scale")?, data.table("simulators", "others")?);
    let mut body = Vec::new();
    for (transport, hosts, row, other, column) in SPEEDS {
        let rnic = at(own, row, "M hops per CPU s, 1 thread").map_err(|why| format!("performance/scale {why}"))?;
        let column = format!("M hops per CPU s, {column}");
        let theirs = at(others, other, &column).map_err(|why| format!("simulators/others {why}"))?;
        let name = other.split(" with ").next().unwrap_or(other);
        body.push(vec![format!("{transport}, {hosts}"), rnic, format!("{theirs} ({name})")]);
    }
    let heads = ["million packet-hops per CPU-second", "rnic, one thread", "another simulator"];
    let text = lines(&heads.map(ToString::to_string), &[false, true, true], body.into_iter());
    Ok((text, vec!["performance/scale".to_string(), "simulators/others".to_string()]))
}

/// The rates on one thread with heavy-tailed traffic: a row for each transport, a column for each fabric.
fn heavy_tailed(data: &Data) -> Result<(String, Vec<String>), String> {
    const RATE: &str = "M hops per CPU s, 1 thread";
    const PEAK: &str = "peak MB, 1 thread";
    let table = data.table("performance", "scale")?;
    let column = |name: &str| table.column(name).ok_or_else(|| format!("performance/scale has no column `{name}`"));
    let (hosts, traffic, transport, rate, peak) =
        (column("hosts")?, column("traffic")?, column("transport")?, column(RATE)?, column(PEAK)?);
    let text = |row: &[Value], index: usize| cell(&table.columns[index], &row[index]);
    // Fabrics and transports in the order of the table.
    let (mut fabrics, mut transports): (Vec<(String, String)>, Vec<String>) = (Vec::new(), Vec::new());
    let own: Vec<&Vec<Value>> =
        table.rows.iter().filter(|row| text(row, traffic).starts_with("heavy-tailed")).collect();
    for row in &own {
        let fabric = (text(row, hosts), text(row, traffic));
        if !fabrics.contains(&fabric) {
            fabrics.push(fabric);
        }
        if !transports.contains(&text(row, transport)) {
            transports.push(text(row, transport));
        }
    }
    let count = |hosts: &str| hosts.parse().map_or(hosts.to_string(), thousands);
    let mut heads = vec!["transport".to_string()];
    for (hosts, traffic) in &fabrics {
        heads.push(format!("{} hosts, {}", count(hosts), traffic.trim_start_matches("heavy-tailed, ")));
    }
    heads.extend(fabrics.last().map(|(hosts, _)| format!("peak MB at {}", count(hosts))));
    let body = transports.iter().map(|name| {
        let of = |fabric: &(String, String)| {
            let is =
                |row: &&&Vec<Value>| text(row, transport) == *name && (text(row, hosts), text(row, traffic)) == *fabric;
            own.iter().find(is).copied()
        };
        let mut line = vec![name.clone()];
        line.extend(fabrics.iter().map(|fabric| of(fabric).map_or(String::new(), |row| text(row, rate))));
        line.push(fabrics.last().and_then(of).map_or(String::new(), |row| text(row, peak)));
        line
    });
    let right: Vec<bool> = (0..heads.len()).map(|index| index > 0).collect();
    Ok((lines(&heads, &right, body), vec!["performance/scale".to_string()]))
}

/// Selected rows of the endpoint's tables: label on the page, table, row.
const SELECTED: [(&str, &str, &str); 23] = [
    ("1 MiB, GB/s: ceiling", "bandwidth", "ceiling"),
    ("IRN Write, none", "bandwidth", "IRN Write, none"),
    ("IRN Write, authenticated", "bandwidth", "IRN Write, authenticated"),
    ("IRN Write, encrypted", "bandwidth", "IRN Write, encrypted"),
    ("RC Write, none", "bandwidth", "RC Write, none"),
    ("ofi_rxd", "bandwidth", "ofi_rxd"),
    ("UCX over TCP, put", "bandwidth", "UCX over TCP, put"),
    ("iperf3 over TCP", "bandwidth", "iperf3 over TCP"),
    ("IRN Write, 1 % loss, none", "bandwidth", "IRN Write, 1 % loss, none"),
    ("RC Write, 1 % loss, none", "bandwidth", "RC Write, 1 % loss, none"),
    ("64 B, million messages/s: ceiling", "rate", "ceiling"),
    ("IRN Write, none", "rate", "IRN Write, none"),
    ("IRN Write, authenticated", "rate", "IRN Write, authenticated"),
    ("IRN Write, 16 queue pairs, authenticated", "rate", "IRN Write, 16 queue pairs, authenticated"),
    ("RC Write, authenticated", "rate", "RC Write, authenticated"),
    ("UCX over TCP, tag", "rate", "UCX over TCP, tag"),
    ("64 B, latency in us: ceiling", "latency", "ceiling"),
    ("IRN Write, none", "latency", "IRN Write, none"),
    ("IRN Write, authenticated", "latency", "IRN Write, authenticated"),
    ("UCX over TCP", "latency", "UCX over TCP"),
    ("CPU time of both ends, s/GB: IRN Write 1 MiB, authenticated", "cpu", "IRN Write 1 MiB, authenticated"),
    ("UCX over TCP, put 1 MiB", "cpu", "UCX over TCP, put 1 MiB"),
    ("iperf3, TCP", "cpu", "iperf3, TCP"),
];

fn selected(data: &Data) -> Result<(String, Vec<String>), String> {
    let (mut body, mut used) = (Vec::new(), Vec::new());
    for (label, name, row) in SELECTED {
        let table = data.table("endpoint", name)?;
        let cells = find(table, row).map_err(|why| format!("endpoint/{name} {why}"))?;
        let mut line = vec![label.to_string()];
        for mtu in ["MTU 9000", "MTU 1500"] {
            let is = |column: &Column| column.name == mtu || column.name == format!("{mtu}, median");
            let index = table.columns.iter().position(is);
            let index = index.ok_or_else(|| format!("endpoint/{name} has no column `{mtu}`"))?;
            // The median alone, without minimum and maximum.
            let median = cells[index].get(0).unwrap_or(&cells[index]);
            line.push(cell(&table.columns[index], median));
        }
        body.push(line);
        used.push(format!("endpoint/{name}"));
    }
    let heads = ["", "MTU 9000", "MTU 1500"].map(ToString::to_string);
    Ok((lines(&heads, &[false, true, true], body.into_iter()), used))
}
