//! Runs the cases of the test bed. `tests/interop/run` calls it after it has looked for qemu.

#![expect(clippy::disallowed_methods, reason = "how long the cases take is for people")]

use clap::Parser;
use rnic_interop::bench::{Report, run_cases};
use rnic_interop::{Case, Error, GuestImage, cases};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Tests rnic against the Linux kernel's software RoCE in virtual machines.
#[derive(Parser)]
#[command(name = "rnic-interop")]
struct Arguments {
    /// Cases to run; a name that ends in * stands for all cases whose names begin so. Without names, all cases run
    names: Vec<String>,
    /// Print the names and descriptions of the cases, and run none
    #[arg(long)]
    list: bool,
    /// Number of cases that run at a time; each case runs one or two virtual machines
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
    /// Runs cases that failed again, one at a time, up to N times: a busy host can starve a virtual machine
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    retries: u8,
    /// Directory to which the cases write consoles and captures
    #[arg(long, value_name = "DIR", default_value_os_t = default_directory())]
    out: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cases = match select(&cases::all(), &arguments.names) {
        Ok(cases) => cases,
        Err(sentence) => {
            eprintln!("rnic-interop: {sentence}");
            return ExitCode::from(2);
        }
    };
    if arguments.list {
        for case in cases {
            println!("{:<28} {}", case.name, case.about);
        }
        return ExitCode::SUCCESS;
    }
    match run(&cases, &arguments) {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rnic-interop: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the cases and prints their results; returns the cases that failed at every attempt.
fn run(cases: &[Case], arguments: &Arguments) -> Result<Vec<Case>, Error> {
    let start = Instant::now();
    let image = GuestImage::build()?;
    println!("{} cases, files in {}", cases.len(), arguments.out.display());
    let (mut left, mut skipped, mut again) = (cases.to_vec(), 0, Vec::new());
    for turn in 0..=arguments.retries {
        let jobs = if turn == 0 { arguments.jobs.into() } else { 1 };
        let (mut done, mut failed) = (0, Vec::new());
        run_cases(&left, &image, &arguments.out, jobs, |report| {
            done += 1;
            match &report.result {
                Ok(()) => {}
                Err(Error::Unavailable(_)) => skipped += 1,
                Err(_) => failed.push(report.case),
            }
            print(report, done, left.len());
        })?;
        left = failed;
        if left.is_empty() {
            break;
        }
        if turn < arguments.retries {
            println!("{} failed, and run once more", left.len());
            again.extend(left.iter().map(|case| case.name));
        }
    }
    let (passed, failed, seconds) = (cases.len() - left.len() - skipped, left.len(), start.elapsed().as_secs());
    let late: Vec<&str> = again.into_iter().filter(|name| left.iter().all(|case| case.name != *name)).collect();
    let note = if late.is_empty() { String::new() } else { format!("; not at the first attempt: {}", late.join(", ")) };
    println!("{passed} passed, {failed} failed, {skipped} skipped ({seconds} s){note}");
    Ok(left)
}

fn print(report: &Report, number: usize, of: usize) {
    let (name, seconds) = (report.case.name, report.took.as_secs_f32());
    match &report.result {
        Ok(()) => println!("[{number}/{of}] {name} ... ok ({seconds:.1} s)"),
        Err(Error::Unavailable(why)) => println!("[{number}/{of}] {name} ... skipped: {why}"),
        Err(error) => {
            let files = report.directory.display();
            println!("[{number}/{of}] {name} ... FAILED ({seconds:.1} s)\n{error}\nfiles: {files}");
        }
    }
}

/// Returns the cases that `names` select, in the order of the table.
fn select(all: &[Case], names: &[String]) -> Result<Vec<Case>, String> {
    let fits = |name: &str, case: &Case| match name.strip_suffix('*') {
        Some(start) => case.name.starts_with(start),
        None => case.name == name,
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|case| fits(name, case))) {
        return Err(format!("there is no case {unknown}; --list prints all"));
    }
    let wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| fits(name, case));
    Ok(all.iter().filter(wanted).copied().collect())
}

fn default_directory() -> PathBuf {
    let interop = Path::new(env!("CARGO_MANIFEST_DIR"));
    interop.ancestors().nth(2).unwrap_or(interop).join("target/interop/cases")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_selected_by_name_or_beginning() {
        let case = |name| Case { name, about: "", run: |_| Ok(()) };
        let all = [case("ping-v4"), case("ping-v6"), case("write")];
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            select(&all, &words).map(|cases| cases.iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["ping-v4", "ping-v6", "write"]);
        assert_eq!(names(&["write", "ping-*"]).unwrap(), ["ping-v4", "ping-v6", "write"]);
        assert_eq!(names(&["ping-v6"]).unwrap(), ["ping-v6"]);
        assert_eq!(names(&["ping"]).unwrap_err(), "there is no case ping; --list prints all");
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let mut names: Vec<_> = cases::all().iter().map(|case| case.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
