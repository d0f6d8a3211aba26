//! The error texts of wrong scenarios and of wrong documents of runs.
//!
//! `inputs.txt` has scenarios without mistakes, and then a line for each case: the name of such a scenario and a
//! change. `[fabric] mtu = 3` writes this key into the first table `[fabric]` or `[[fabric]]` of the scenario, as its
//! only assignment of the key. `$.run.fabric.mtu = 3` changes a value of the document of the scenario's first run.
//! `expected.txt` has the error text of each case.

use expect_test::expect_file;
use rnic_scenario::from_str;
use rnic_spec::{RunSpec, Vocabulary};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const INPUTS: &str = include_str!("inputs.txt");

/// The scenario `text` in which the first table called `table` has the line `assignment` for `key`.
fn with(text: &str, table: &str, key: &str, assignment: &str) -> String {
    let is_header = |line: &str| line.trim_matches(['[', ']']) == table && line.starts_with('[');
    let mut lines: Vec<&str> = text.lines().collect();
    let header = if table.is_empty() { None } else { lines.iter().position(|line| is_header(line)) };
    let start = match header {
        Some(header) => header + 1,
        None if table.is_empty() => 0,
        None => return format!("{text}[{table}]\n{assignment}\n"),
    };
    let length = lines[start..].iter().position(|line| line.starts_with('[')).unwrap_or(lines.len() - start);
    let own = |line: &&str| line.split_once(" = ").is_some_and(|(own, _)| own == key);
    if let Some(at) = lines[start..start + length].iter().position(own) {
        lines.remove(start + at);
    }
    lines.insert(start, assignment);
    lines.join("\n") + "\n"
}

/// Changes the value at a path such as `$.run.traffic.0.start`.
fn change(document: &mut Value, path: &str, value: Value) {
    let mut at = document;
    for step in path.split('.').skip(1) {
        at = match at {
            Value::Array(elements) => &mut elements[step.parse::<usize>().unwrap()],
            Value::Object(fields) => fields.entry(step).or_insert(Value::Null),
            other => {
                *other = Value::Object(serde_json::Map::new());
                &mut other[step]
            }
        };
    }
    *at = value;
}

/// The error text of a case; `accepted` if there is no error.
fn error_of(base: &str, case: &str, vocabulary: &Vocabulary) -> String {
    let read = |text: &str| from_str(text, "a.toml", Path::new("no/such/folder"), &[], None);
    if case.starts_with("$.") {
        let run = read(base).unwrap().runs.remove(0);
        let mut document: Value = serde_json::from_str(&run.to_json(false).unwrap()).unwrap();
        let (path, value) = case.split_once(" = ").unwrap();
        change(&mut document, path, serde_json::from_str(value).unwrap());
        return match RunSpec::from_json(&document.to_string(), vocabulary) {
            Ok(_) => "accepted".to_string(),
            Err(error) => error.to_string(),
        };
    }
    let (table, assignment) = case.trim_start_matches('[').split_once("] ").unwrap();
    let key = assignment.split(" = ").next().unwrap();
    match read(&with(base, table, key, assignment)) {
        Ok(_) => "accepted".to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn error_texts_of_wrong_inputs() {
    let vocabulary = Vocabulary::standard();
    let mut bases: BTreeMap<&str, String> = BTreeMap::new();
    let (mut text, mut current) = (String::new(), None);
    for line in INPUTS.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("== ") {
            current = (name != "end").then_some(name);
            if let Some(name) = current {
                bases.insert(name, String::new());
            }
        } else if let Some(name) = current {
            *bases.get_mut(name).unwrap() += &format!("{line}\n");
        } else {
            let (name, case) = line.split_once(' ').unwrap();
            let error = error_of(&bases[name], case, &vocabulary);
            text += &format!("{line}\n    {}\n", error.replace('\n', "\n    "));
        }
    }
    for (name, base) in bases {
        let read = from_str(&base, "a.toml", Path::new("no/such/folder"), &[], None);
        assert!(read.is_ok(), "{name}: {}", read.unwrap_err());
    }
    expect_file!["expected.txt"].assert_eq(&text);
}
