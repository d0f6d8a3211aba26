//! Runs the same programs between two virtual machines with the kernel's RoCE in software (rdma_rxe).

use crate::figures::{Figure, remark};
use crate::host::{Place, Ready, last};
use crate::programs::{ALL, Kernel, Program};
use parking_lot::Mutex;
use rnic_interop::bench::{Bench, run_cases};
use rnic_interop::guest::Guest;
use rnic_interop::payload::GuestFile;
use rnic_interop::{Case, Error, GuestImage};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory of a guest in MB. The guest's files are in memory, twice during the boot.
const MEMORY: u32 = 1_536;
/// Time limit in which a program must end. A program that still runs is killed, and counts as failed.
const PATIENCE: Duration = Duration::from_secs(90);
/// Time limit of a program that runs alone in one guest: the tests of pyverbs, and MPI.
const LONG_PATIENCE: Duration = Duration::from_secs(400);
/// Programs that this machine compiles, if it can, in the order of the ladder.
const COMPILED: [&str; 3] = ["rpma", "mpicc.openmpi", "mpicc.mpich"];

/// The result of one program between the guests.
#[derive(Clone, Debug)]
pub struct Row {
    /// The program.
    pub name: &'static str,
    /// The result of the program.
    pub result: Outcome,
}

/// The result of a program.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The program ran: the figure, if it measures one, and a remark.
    Passed(Option<Figure>, String),
    /// The program failed, for this reason.
    Failed(String),
    /// The program was not run, for this reason.
    NotRun(String),
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());
static FILES: Mutex<Vec<GuestFile>> = Mutex::new(Vec::new());
static ONLY: Mutex<Option<String>> = Mutex::new(None);

/// Runs the programs that the guests contain; with `only`, those whose names contain this text. `compiled` is the
/// folder of programs that this machine has compiled.
///
/// # Errors
/// A sentence with the reason why no guest could be started.
pub fn run(directory: &Path, compiled: &Path, only: Option<&str>) -> Result<Vec<Row>, String> {
    let image = GuestImage::build_for_ladder().map_err(|error| error.to_string())?;
    *FILES.lock() = files(compiled);
    *ONLY.lock() = only.map(str::to_owned);
    let case = Case { name: "ladder", about: "the programs of the ladder between two guests", run: all };
    let mut result = Ok(());
    run_cases(&[case], &image, directory, 1, |report| {
        if let Err(error) = &report.result {
            result = Err(error.to_string());
        }
    })
    .map_err(|error| error.to_string())?;
    let rows = std::mem::take(&mut *ROWS.lock());
    if rows.is_empty() { result.map(|()| rows) } else { Ok(rows) }
}

/// The compiled programs that exist.
fn files(folder: &Path) -> Vec<GuestFile> {
    let found = |name: &&str| -> Option<GuestFile> {
        let source: PathBuf = folder.join(name);
        source.is_file().then(|| GuestFile { path: format!("/usr/bin/{name}"), source })
    };
    COMPILED.iter().filter_map(found).collect()
}

fn all(bench: &Bench) -> Result<(), Error> {
    let mut guests = None;
    let only = ONLY.lock().clone().unwrap_or_default();
    let wanted: Vec<&Program> =
        ALL.iter().filter(|program| !matches!(program.kernel, Kernel::No(_)) && program.name.contains(&only)).collect();
    for (at, program) in wanted.iter().enumerate() {
        eprintln!("rxe: {} of {}, {}", at + 1, wanted.len(), program.name);
        let result = match missing(program) {
            Some(why) => Outcome::NotRun(why),
            None => climb(bench, &mut guests, program)?,
        };
        eprintln!("rxe: {} {result:?}", program.name);
        ROWS.lock().push(Row { name: program.name, result });
    }
    Ok(())
}

/// The reason why a program is not in the guests.
fn missing(program: &Program) -> Option<String> {
    let (Kernel::Alone(line) | Kernel::Both(line) | Kernel::Pair(line, _)) = program.kernel else { return None };
    let name = COMPILED.iter().find(|name| line.split([' ', '/']).any(|word| word == **name))?;
    let has_it = FILES.lock().iter().any(|file| file.path.ends_with(name));
    (!has_it).then(|| "its test program could not be compiled on this machine".to_string())
}

/// Runs a program in the guests, and starts the guests if they are not running. Returns an error only if the start
/// fails.
fn climb(bench: &Bench, guests: &mut Option<[Guest; 2]>, program: &Program) -> Result<Outcome, Error> {
    let pair = match guests {
        Some(pair) => pair,
        None => guests.insert(boot(bench)?),
    };
    let outcome = meet(pair, program);
    if !matches!(outcome, Ok(_) | Err(Error::Command { .. } | Error::Check(_))) {
        // Stop using a guest that has ended or does not respond, so that it does not make the other programs fail.
        *guests = None;
    }
    let expect = program.expect.replace("rnic0", "rxe0");
    // In the guests, programs compute sums of fewer numbers than on this machine.
    let expect = if program.place == Place::Mpi { ", 0 wrong" } else { &expect };
    Ok(match outcome.map_err(|error| error.to_string()) {
        Ok(output) if output.contains(expect) => {
            let note = match program.place {
                Place::Mpi => "1 MB".to_string(),
                _ => remark(&output),
            };
            Outcome::Passed(program.reader.read(&output), note)
        }
        Ok(output) | Err(output) => Outcome::Failed(cause(&output)),
    })
}

/// The line of the output that states the cause of a failure. UCX and MPI print more text before this line, and the
/// call stack after it. If no line states a cause, the last lines of the output.
fn cause(output: &str) -> String {
    const SIGNS: [&str; 4] = ["Assertion", "Caught signal", " ERROR ", "not found"];
    let line = output.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    line.map_or_else(|| last(output), last)
}

fn boot(bench: &Bench) -> Result<[Guest; 2], Error> {
    let files = FILES.lock().clone();
    let mut guests = bench.two_guests_with_files(9_000, MEMORY, &files)?;
    for from in [0, 1] {
        let to = guests[1 - from].host();
        guests[from].reach(to.ipv4().into())?;
        guests[from].reach(to.ipv6().into())?;
        // MPI and Python look up the names of the user and of the host.
        guests[from].run(
            "echo root:x:0:0:root:/tmp:/bin/sh >/etc/passwd; echo root:x:0: >/etc/group; \
             echo 127.0.0.1 localhost $(hostname) >/etc/hosts",
        )?;
    }
    Ok(guests)
}

/// Runs a program. No process of the program runs afterwards, even after an error.
fn meet([client, server]: &mut [Guest; 2], program: &Program) -> Result<String, Error> {
    let address = server.host().ipv4().to_string();
    let (serving, asking) = match program.kernel {
        Kernel::No(why) => return Err(Error::Check(why.to_string())),
        Kernel::Alone(line) => {
            let job = client.spawn(line)?;
            return client.finish(job, LONG_PATIENCE);
        }
        Kernel::Both(line) => (line.to_string(), format!("{line} {address}")),
        Kernel::Pair(server, client) => (server.replace("{peer}", &address), client.replace("{peer}", &address)),
    };
    let job = server.spawn(&serving)?;
    let again = job.clone();
    let output = match program.ready {
        Ready::Port(port) => server.await_listener(&job, port).and_then(|()| end(client, &asking, PATIENCE)),
        // When a server listens with `rdma_cm`, the kernel's list of identifiers shows it.
        _ => server.await_rdma_listener().and_then(|()| end(client, &asking, PATIENCE)),
    };
    if output.is_err() || !program.ends {
        server.kill(job, "KILL")?;
        return output;
    }
    match server.finish(job, PATIENCE) {
        Ok(_) => output,
        Err(error) => {
            if matches!(error, Error::Timeout { .. }) {
                server.kill(again, "KILL")?;
            }
            Err(Error::Check(format!("the server: {error}")))
        }
    }
}

/// Runs a command, and kills it if it exceeds the time limit. An error contains the output of the command.
fn end(guest: &mut Guest, line: &str, patience: Duration) -> Result<String, Error> {
    let job = guest.spawn(line)?;
    match guest.finish(job.clone(), patience) {
        Err(error @ Error::Timeout { .. }) => {
            guest.kill(job, "KILL")?;
            Err(Error::Check(error.to_string()))
        }
        other => other,
    }
}
