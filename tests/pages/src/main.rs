//! Rewrites the generated parts of the documentation.

use rnic_pages::{Data, check, generate, read, root};
use rnic_record::{Column, Record, Table};
use serde_json::json;
use std::io;
use std::process::ExitCode;

const USAGE: &str = "cargo run -p rnic-pages [-- --rejudge | --measured NAME COMMAND]: rewrites the generated parts of \
                     the pages; --rejudge first compares the recorded rows with their claims again; --measured first \
                     records what a script measured: lines of standard input with a name and a value, or with a step, \
                     its result and its seconds, separated by tabs";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run(false),
        ["--rejudge"] => run(true),
        ["--measured", name, command] => measured(name, command).map_err(|why| vec![why]).and_then(|()| run(false)),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// Records what the script `command` measured, which standard input lists, in the data file `name`.
fn measured(name: &str, command: &str) -> Result<(), String> {
    let text = io::read_to_string(io::stdin()).map_err(|error| format!("standard input: {error}"))?;
    let mut record = Record::now(format!("Measured by {command}"), command);
    let mut steps = Table::new(vec![Column::new("step"), Column::new("result"), Column::new("seconds").right()]);
    let mut seconds = 0;
    for line in text.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [key, value] => {
                let value = value.parse::<f64>().map_or_else(|_| json!(value), |number| json!(number));
                record.values.insert(key.to_string(), value);
            }
            [step, result, spent] => {
                let spent: u64 =
                    spent.parse().map_err(|_| format!("`{spent}` in `{line}` is not a number of seconds"))?;
                seconds += spent;
                steps.rows.push(vec![json!(step), json!(result), json!(spent)]);
            }
            _ => return Err(format!("`{line}` is neither a name and a value nor a step, its result and its seconds")),
        }
    }
    if !steps.rows.is_empty() {
        record.values.insert("minutes".to_string(), json!(seconds.div_ceil(60)));
        record.put("steps", steps);
    }
    let path = rnic_pages::data::path(&root(), name);
    record.write(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn run(rejudge: bool) -> Result<(), Vec<String>> {
    let (root, one) = (root(), |why: String| vec![why]);
    if rejudge {
        let mut data = Data::read(&root).map_err(one)?;
        for (name, changed) in check::rejudge(&mut data).map_err(one)? {
            let path = rnic_pages::data::path(&root, &name);
            data.records[&name].write(&path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
            println!("{name}: {changed} outcomes changed");
        }
    }
    let data = Data::read(&root).map_err(one)?;
    let mut errors = Vec::new();
    for page in read(&root, &data).map_err(one)? {
        match generate(&data, &page) {
            Ok((text, _)) if text != page.text => {
                let path = root.join(&page.path);
                let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
                match folder.and_then(|()| std::fs::write(&path, text)) {
                    Ok(()) => println!("{}", page.path),
                    Err(error) => errors.push(format!("{}: {error}", page.path)),
                }
            }
            Ok(_) => {}
            Err(more) => errors.extend(more),
        }
    }
    data.stale().iter().for_each(|(study, why)| println!("{study} is stale: {why}"));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
