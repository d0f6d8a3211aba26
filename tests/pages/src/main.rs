//! Rewrites the generated parts of the documentation.

use rnic_pages::{Data, check, generate, read, root};
use rnic_record::{Column, Record, Table};
use serde_json::json;
use std::io;
use std::process::ExitCode;

const USAGE: &str = "cargo run -p rnic-pages [-- --rejudge | --steps NAME COMMAND]: rewrites the generated parts of the \
                     pages; --rejudge first compares the recorded rows with their claims again; --steps first records the \
                     steps of a script: lines of standard input with a step, its result and its seconds, by tabs";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run(false),
        ["--rejudge"] => run(true),
        ["--steps", name, command] => record_steps(name, command).map_err(|why| vec![why]).and_then(|()| run(false)),
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

/// Records the steps of a script, which standard input lists, in the data file `name`.
fn record_steps(name: &str, command: &str) -> Result<(), String> {
    let text = io::read_to_string(io::stdin()).map_err(|error| format!("standard input: {error}"))?;
    let mut steps = Table::new(vec![Column::new("step"), Column::new("result"), Column::new("seconds").right()]);
    let mut seconds = 0;
    for line in text.lines() {
        let [step, result, spent] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("`{line}` is not a step, its result and its seconds, separated by tabs"));
        };
        let spent: u64 = spent.parse().map_err(|_| format!("`{spent}` in `{line}` is not a number of seconds"))?;
        seconds += spent;
        steps.rows.push(vec![json!(step), json!(result), json!(spent)]);
    }
    let mut record = Record::now(format!("Steps of {command}"), command);
    record.values.insert("minutes".to_string(), json!(seconds.div_ceil(60)));
    record.put("steps", steps);
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
