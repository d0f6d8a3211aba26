//! Rewrites the generated parts of the documentation.

use rnic_pages::{Data, check, generate, read, root};
use std::process::ExitCode;

const USAGE: &str = "cargo run -p rnic-pages [-- --rejudge]: rewrites the generated parts of the pages; --rejudge first \
                     compares the recorded rows with their claims again";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rejudge = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--rejudge"] => true,
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(rejudge) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            ExitCode::FAILURE
        }
    }
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
