//! The same programs between two virtual machines with the kernel's RoCE in software (rdma_rxe).

use crate::figures::Figure;
use crate::host::{Ready, last};
use crate::programs::{ALL, Program};
use rnic_interop::bench::{Bench, run_cases};
use rnic_interop::guest::{COMMAND_PATIENCE, Guest, OUT_OF_BAND_PORT};
use rnic_interop::{Case, Error, GuestImage};
use std::path::Path;
use std::sync::Mutex;

/// What a program did between the guests.
#[derive(Clone, Debug)]
pub struct Row {
    /// The program.
    pub name: &'static str,
    /// Its figure, if it has one; or why it failed.
    pub result: Result<Option<Figure>, String>,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Runs all programs of the ladder that the guests have.
///
/// # Errors
/// A sentence, if there is no guest.
pub fn run(directory: &Path) -> Result<Vec<Row>, String> {
    let image = GuestImage::build().map_err(|error| error.to_string())?;
    let case = Case { name: "ladder", about: "the programs of the ladder between two guests", run: all };
    let mut result = Ok(());
    run_cases(&[case], &image, directory, 1, |report| {
        if let Err(error) = &report.result {
            result = Err(error.to_string());
        }
    })
    .map_err(|error| error.to_string())?;
    let rows = std::mem::take(&mut *lock());
    if rows.is_empty() { result.map(|()| rows) } else { Ok(rows) }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Row>> {
    ROWS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn all(bench: &Bench) -> Result<(), Error> {
    let mut guests = bench.two_guests(9_000)?;
    for program in ALL {
        let Some(line) = program.kernel else { continue };
        let outcome = meet(&mut guests, program, line).map_err(|error| error.to_string());
        let result = match outcome {
            Ok(output) if output.contains(program.expect) => Ok(program.reader.read(&output)),
            Ok(output) | Err(output) => Err(last(&output)),
        };
        eprintln!("rxe: {} {result:?}", program.name);
        lock().push(Row { name: program.name, result });
    }
    Ok(())
}

fn meet([client, server]: &mut [Guest; 2], program: &Program, line: &str) -> Result<String, Error> {
    let address = server.host().ipv4().to_string();
    if program.ready == Ready::Port(OUT_OF_BAND_PORT) {
        let serving = server.spawn(line)?;
        server.await_listener(&serving, OUT_OF_BAND_PORT)?;
        let output = client.run(&format!("{line} {address}"))?;
        server.finish(serving, COMMAND_PATIENCE)?;
        return Ok(output);
    }
    let with = |line: &str| line.replace("{peer}", &address);
    let serving = server.spawn(&with(program.server))?;
    // It is not visible from outside when the server listens, so the client tries again until it connects.
    let asking = client.spawn(&format!("for i in $(seq 20); do {} && exit; sleep 1; done; exit 1", with(line)))?;
    let output = client.finish(asking, COMMAND_PATIENCE)?;
    server.finish(serving, COMMAND_PATIENCE)?;
    Ok(output)
}
