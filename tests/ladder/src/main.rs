//! Runs the ladder, and records its tables.

use clap::Parser;
use rnic_ladder::figures::remark;
use rnic_ladder::host::{Host, Place, WITH_FILES, has, version};
use rnic_ladder::page::{self, Done, Row};
use rnic_ladder::programs::{ALL, Program};
use rnic_ladder::{kernel, measure};
use rnic_netns::kill_children;
use rnic_record::Record;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs unmodified RDMA programs over rnic's libibverbs and librdmacm, and writes a table of what they did.
///
/// Needs root or a user namespace (`unshare --user --map-root-user`), and the release build of rnic. Programs that are
/// not installed are skipped.
#[derive(Parser)]
#[command(name = "rnic-ladder")]
struct Arguments {
    /// Only programs whose names contain this text; without comparisons
    only: Option<String>,
    /// File into which the tables are recorded, for `cargo run -p rnic-pages`; without it the tables are printed
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Also run the programs between two virtual machines with the kernel's RoCE, as `tests/interop` does
    #[arg(long)]
    kernel: bool,
    /// Run the programs between the virtual machines only
    #[arg(long, requires = "kernel", conflicts_with = "record")]
    guests_only: bool,
    /// Repetitions of each comparison; 0 leaves the comparisons out
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    repeat: u32,
    /// Folder of the static libraries of which the libraries are made; default: beside this program
    #[arg(long, value_name = "DIR")]
    archives: Option<PathBuf>,
    /// A library that the programs load first, such as the runtime of a sanitizer
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,
    /// MTU of the link between the two namespaces
    #[arg(long, default_value_t = 9_000, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1_280..=9_216))]
    mtu: u32,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let [first, program, rest @ ..] = &words[..]
        && first == WITH_FILES
    {
        let shown = rnic_ibverbs::files::show();
        let why = shown.err().unwrap_or_else(|| Command::new(program).args(rest).exec().to_string());
        eprintln!("rnic-ladder: {}: {why}", program.to_string_lossy());
        return ExitCode::FAILURE;
    }
    let arguments = Arguments::parse();
    match end_at_signals().and_then(|()| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(sentence) => {
            eprintln!("rnic-ladder: {sentence}");
            ExitCode::from(2)
        }
    }
}

/// Installs a handler for Ctrl-C and SIGTERM. It ends the programs, which Ctrl-C on a terminal would not reach, and
/// then this process. The namespaces and mounts of the programs end with them.
fn end_at_signals() -> Result<(), String> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| format!("cannot listen to signals: {error}"))?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            kill_children();
            eprintln!("rnic-ladder: interrupted");
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Runs the ladder. Returns true if no program failed.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let host = Host::new(arguments.mtu, arguments.archives.as_deref(), arguments.preload.as_deref())?;
    let mut rows = Vec::new();
    let wanted = |program: &&Program| arguments.only.as_ref().is_none_or(|part| program.name.contains(part.as_str()));
    for program in ALL.iter().filter(wanted) {
        let row = match arguments.guests_only {
            true => unclimbed(&host, program),
            false => climb(&host, program),
        };
        eprintln!("{}: {:?}", row.name, row.result);
        rows.push(row);
    }
    if rows.is_empty() {
        return Err("no program has such a name".into());
    }
    let kernel = match arguments.kernel {
        true => kernel::run(&host.libraries.join("guests"), &host.libraries, arguments.only.as_deref()),
        false => Err("the guests were not asked for (`--kernel`)".to_string()),
    };
    if let Err(why) = &kernel {
        eprintln!("the column of the kernel is empty: {why}");
    }
    let command = "cargo run --release -p rnic-ladder";
    let command = format!("{command}{}", if arguments.kernel { " -- --kernel" } else { "" });
    let mut record = Record::now("Unmodified RDMA programs over rnic's libibverbs and librdmacm", command);
    record.put("programs", page::programs(&rows, &kernel));
    if arguments.only.is_none() && arguments.repeat > 0 && !arguments.guests_only {
        for contest in measure::ALL {
            let measured = measure::measure(&host, contest, arguments.repeat);
            eprintln!("{}: {measured:?}", contest.title);
            record.put(contest.name, page::contest(contest, &measured));
        }
    }
    match &arguments.record {
        None => record.tables.iter().for_each(|(_, table)| println!("{}\n", rnic_pages::table::markdown(table))),
        Some(path) => {
            record.write(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(!rows.iter().any(|row| matches!(row.result, Done::Failed(_))))
}

/// The row of a program that runs only between the guests. This machine may have to compile the program.
fn unclimbed(host: &Host, program: &Program) -> Row {
    let why = prepare(host, program).err().unwrap_or_else(|| "only the guests were asked for".into());
    Row { name: program.name, version: version(program.package), result: Done::Skipped(why) }
}

fn climb(host: &Host, program: &Program) -> Row {
    let version = version(program.package);
    let skipped = |why: String| Row { name: program.name, version: version.clone(), result: Done::Skipped(why) };
    if !has(program.needs) {
        return skipped(format!("{} is not installed", program.needs));
    }
    if let Err(why) = prepare(host, program) {
        return skipped(why);
    }
    let files = host.libraries.display().to_string();
    let folder = host.logs.join("folder").display().to_string();
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/rnic-rdmacm/tests/programs");
    let with = |line: &str| line.replace("{files}", &files).replace("{folder}", &folder).replace("{scripts}", scripts);
    let (server, client) = (with(program.server), with(program.client));
    let outcome = host.run(program.place, program.ready, &server, &client, program.settings, program.ends);
    let result = match outcome {
        Ok(output) if output.contains(program.expect) => Done::Passed(program.reader.read(&output), remark(&output)),
        Ok(_) | Err(_) if !program.known.is_empty() => Done::Skipped(program.known.to_string()),
        Ok(output) | Err(output) => Done::Failed(rnic_ladder::host::last(&output)),
    };
    Row { name: program.name, version, result }
}

/// Prepares files that a program needs: it unpacks the tests of pyverbs, and compiles programs that use MPI.
fn prepare(host: &Host, program: &Program) -> Result<(), String> {
    let shell = |script: &str| {
        let done = Command::new("sh").arg("-c").arg(script).current_dir(&host.logs).output();
        match done {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
            Err(error) => Err(error.to_string()),
        }
    };
    if program.client.contains("run_tests.py") {
        return shell("rm -rf tests && cp -r /usr/share/doc/rdma-core/tests . && gunzip -f tests/*.gz");
    }
    if let Some((_, package)) = program.client.split_once("wheel_") {
        return shell(&format!("python3 -c 'import {}'", package.trim_end_matches(".py")));
    }
    if program.client.starts_with("{files}/rpma") {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/rpma.c");
        return shell(&format!("cc -O1 -o ../rpma {source} -lrpma"));
    }
    if program.client.contains("{folder}") {
        return shell("rm -rf folder && mkdir folder");
    }
    if program.client.contains("dat.conf") {
        let line = r#"rnic u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "127.0.0.1 0" """#;
        return shell(&format!("echo '{line}' > ../dat.conf"));
    }
    if program.place == Place::Mpi {
        let compiler = if program.needs.contains("openmpi") { "mpicc.openmpi" } else { "mpicc.mpich" };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/rnic-rdmacm/tests/programs/mpi.c");
        return shell(&format!("{compiler} -O1 -o ../{compiler} {}", source.display()));
    }
    Ok(())
}
