//! The command `rnic verbs`: runs RDMA programs without an RDMA NIC, with rnic's own `libibverbs.so.1` and
//! `librdmacm.so.1`.

use clap::{Args, Subcommand};
use rnic_endpoint::port::shared_address::Standby;
use rnic_ibverbs::environment::{Environment, TraceTo};
use rnic_ibverbs::{files, hosts, library, loaded, required};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::print;
use rnic_simulator::program;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Arguments of `rnic verbs`.
///
/// The libraries take the place of the distribution's libibverbs and librdmacm in programs that are started with them.
/// They then see a device for each address of this host. No root, kernel module or RDMA NIC is needed. The environment
/// variables RNIC_DEVICES, RNIC_FAULTS, RNIC_LOCAL, RNIC_MIN_TIMEOUT, RNIC_PCAP, RNIC_REQUIRED, RNIC_STATS, RNIC_TRACE
/// and RNIC_TRANSPORT set it up.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    LD_LIBRARY_PATH=$(rnic verbs --path) ib_write_bw          # a server\n  \
    LD_LIBRARY_PATH=$(rnic verbs --path) ib_write_bw 10.0.0.2 # a client\n  \
    rnic verbs run ibv_devinfo -v\n  \
    UCX_TLS=rc_verbs,ud_verbs,self rnic verbs run ucx_info -d\n  \
    RNIC_REQUIRED=1 rnic verbs run ./my_tests                 # fails if no program opens a device\n  \
    RNIC_DEVICES=mlx5_0=127.0.0.1 rnic verbs run ./my_program # a name that the program expects\n  \
    RNIC_FAULTS=loss=1%,seed=7 rnic verbs run ./my_program\n  \
    rnic verbs keep &                                         # disconnects the peers of programs that are killed\n  \
    rnic verbs doctor"
)]
pub(crate) struct VerbsArgs {
    /// Print the folder of the libraries, for LD_LIBRARY_PATH
    ///
    /// If the libraries are not there yet, a C compiler (cc) links them first.
    #[arg(long)]
    path: bool,

    #[command(subcommand)]
    command: Option<VerbsCommand>,
}

#[derive(Subcommand, Debug)]
enum VerbsCommand {
    /// Run a program with the libraries
    ///
    /// The libraries are loaded first (LD_PRELOAD), so that they also serve programs that contain their own libibverbs,
    /// such as Python wheels. The program sees files of the devices in /dev/infiniband and /sys/class/infiniband, if
    /// the host allows it.
    Run {
        /// Fail if the files of the devices cannot be shown
        ///
        /// UCX, MPI and others look in /dev/infiniband and /sys/class/infiniband, and use TCP if they find no files.
        /// The program runs in a mount namespace, where these folders are in memory; no other program sees them.
        /// Without root, the host must allow user namespaces. By default a program runs without the files if the host
        /// does not.
        #[arg(long)]
        files: bool,
        /// Do not show the files of the devices
        ///
        /// The program then runs in the namespaces of this command. In a user namespace, programs such as sudo do not
        /// work.
        #[arg(long, conflicts_with = "files")]
        no_files: bool,
        /// Do not load the libraries first
        ///
        /// Programs with the dynamic runtime of AddressSanitizer want that no other library precedes it.
        #[arg(long)]
        no_preload: bool,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
        program: Vec<OsString>,
    },
    /// Copy the libraries into a folder, for an image of a container for example
    Install {
        /// The folder
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Disconnect the peers of programs that are killed, until this command is ended
    ///
    /// If a program is killed, another program at the same address disconnects the peers of its connections. This
    /// command does so too. A host on which one program runs needs it, if the peers do not use rnic's library: peers
    /// with rnic's library detect the end themselves, after 10 s at most. It serves the addresses of RNIC_DEVICES.
    Keep,
    /// Say what programs will see, and why something is missing
    Doctor,
}

/// Runs the command.
pub(crate) fn verbs(arguments: &VerbsArgs) -> Result<(), CliError> {
    match &arguments.command {
        None => print_line(&folder()?.display().to_string()),
        Some(VerbsCommand::Run { files, no_files, no_preload, program }) => {
            let files = match (files, no_files) {
                (true, _) => Files::Required,
                (_, true) => Files::Hidden,
                _ => Files::IfPossible,
            };
            run(files, !no_preload, program)
        }
        Some(VerbsCommand::Install { dir }) => install(dir),
        Some(VerbsCommand::Keep) => keep(),
        Some(VerbsCommand::Doctor) => doctor(),
    }
}

fn print_line(line: &str) -> Result<(), CliError> {
    print(|out| writeln!(out, "{line}"))
}

fn failed(doing: String) -> impl Fn(io::Error) -> CliError {
    move |error| CliError::Io { doing: doing.clone(), error }
}

/// The folder with the libraries. Links each library that is missing or older than its static library.
fn folder() -> Result<PathBuf, CliError> {
    if let Some(folder) = program::libraries() {
        if folder.join(library::NAME).exists() {
            return Ok(folder.to_path_buf());
        }
        return Err(CliError::Input(format!(
            "{} has no {}: this Python package was built without the libraries; install the wheel of a release, or build \
             them with `cargo build --release`",
            folder.display(),
            library::NAME
        )));
    }
    let executable = std::env::current_exe().map_err(failed("finding this program".into()))?;
    let here = executable.parent().unwrap_or(Path::new("/")).to_path_buf();
    let installed = here.join("../lib/rnic");
    let folder = here.join("rnic-verbs");
    let time = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    let folders = [here.clone(), here.join("deps")];
    let archives: Vec<_> = library::ALL.iter().map(|library| (library, library.find(&folders))).collect();
    if archives.iter().all(|(_, archive)| archive.is_none()) && installed.join(library::NAME).exists() {
        return installed.canonicalize().map_err(failed(format!("finding {}", installed.display())));
    }
    for (library, archive) in archives {
        let Some(archive) = archive else {
            return Err(CliError::Input(format!(
                "{} has no {}.a, of which the library is made: build it with `cargo build --release`, or install a \
                 package of a release",
                here.display(),
                library.archive
            )));
        };
        if time(&folder.join(library.name)) < time(&archive) {
            library.link(&archive, &folder).map_err(|error| CliError::Failed(vec![error]))?;
        }
    }
    Ok(folder)
}

/// Whether a program sees the files of the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    Required,
    IfPossible,
    Hidden,
}

fn run(show: Files, preload: bool, program: &[OsString]) -> Result<(), CliError> {
    let folder = folder()?;
    match show {
        Files::Required => files::show().map_err(|error| CliError::Failed(vec![error]))?,
        // The attempt runs in another process, because a process cannot undo a part of it.
        Files::IfPossible => match try_to_show_files() {
            Ok(()) => files::show().map_err(|error| CliError::Failed(vec![error]))?,
            // A container may have got the file by `--device`.
            Err(_) if Path::new("/dev/infiniband/uverbs0").exists() => {}
            Err(why) => note(&format!(
                "rnic: the program does not see the files of devices in /dev/infiniband and /sys: {why} (--no-files: no note)"
            )),
        },
        Files::Hidden => {}
    }
    let before = |first: OsString, variable| {
        #[expect(clippy::disallowed_methods, reason = "the program gets the libraries in front of the other libraries")]
        let others = std::env::var_os(variable).filter(|others| !others.is_empty());
        let mut all = first;
        if let Some(others) = others {
            all.push(":");
            all.push(others);
        }
        all
    };
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env("LD_LIBRARY_PATH", before(folder.clone().into(), "LD_LIBRARY_PATH"));
    if preload {
        let mut all = OsString::new();
        for library in library::ALL {
            if !all.is_empty() {
                all.push(":");
            }
            all.push(folder.join(library.name));
        }
        command.env("LD_PRELOAD", before(all, "LD_PRELOAD"));
    }
    let cannot = |error| CliError::Input(format!("{} cannot be run: {error}", program[0].to_string_lossy()));
    // If the environment has mistakes, the library prints them.
    if !Environment::get().as_ref().is_ok_and(|environment| environment.required) {
        return Err(cannot(command.exec()));
    }
    let interruption = Interruption::listen()?;
    let terminate = || interruption.exit_code() == Some(128 + 15);
    let (status, has_device) = required::run(&mut command, terminate).map_err(cannot)?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    if code == 0 && !has_device {
        return Err(CliError::Failed(vec![format!(
            "RNIC_REQUIRED=1, but neither {} nor a program that it started has opened an RDMA device; `rnic verbs doctor` \
             lists the devices, RNIC_TRACE=1 shows the calls",
            program[0].to_string_lossy()
        )]));
    }
    std::process::exit(code)
}

/// Prints a line on standard error.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn install(dir: &Path) -> Result<(), CliError> {
    let folder = folder()?;
    fs::create_dir_all(dir).map_err(failed(format!("making {}", dir.display())))?;
    for library in library::ALL {
        let (from, to) = (folder.join(library.name), dir.join(library.name));
        fs::copy(&from, &to).map_err(failed(format!("copying {} to {}", from.display(), to.display())))?;
        print_line(&to.display().to_string())?;
    }
    print_line(&format!("start programs with LD_LIBRARY_PATH={}", dir.display()))
}

/// Runs a standby for the programs of each address, each in its own thread, until this process ends.
fn keep() -> Result<(), CliError> {
    let environment = Environment::get().as_ref().map_err(|error| CliError::Input(error.clone()))?;
    let mut standbys = Vec::new();
    for address in hosts::addresses(environment).map_err(CliError::Input)? {
        let standby =
            Standby::open(address.ip).map_err(|why| CliError::Failed(vec![format!("{}: {why}", address.ip)]))?;
        print_line(&format!("keeps the connections of programs at {}", address.ip))?;
        standbys.push(standby);
    }
    let watch = |mut standby: Standby| -> io::Result<()> {
        loop {
            standby.watch(Duration::from_secs(60))?;
        }
    };
    let threads: Vec<_> = standbys.into_iter().map(|standby| std::thread::spawn(move || watch(standby))).collect();
    for thread in threads {
        if let Ok(Err(error)) = thread.join() {
            return Err(failed("waiting for programs".into())(error));
        }
    }
    Ok(())
}

/// Prints the devices that programs will see. Fails if none of these devices can be opened.
fn doctor() -> Result<(), CliError> {
    let mut problems = Vec::new();
    let say = |line: String| print_line(&line);
    match folder() {
        Ok(folder) => {
            for library in library::ALL {
                say(format!("library     {}", folder.join(library.name).display()))?;
            }
        }
        Err(error) => {
            say("library     missing".to_string())?;
            problems.push(error.to_string());
        }
    }
    match Environment::get() {
        Ok(environment) => {
            let Environment { devices, faults, pcap, trace, offer_irn, min_timeout, within_host, required, stats } =
                environment;
            let list = devices.as_ref().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
            say(format!("RNIC_DEVICES {}", list.unwrap_or_else(|| "not set: all addresses of this host".into())))?;
            say(format!("RNIC_FAULTS  {}", if faults.is_some() { "set" } else { "not set: no faults" }))?;
            for (name, path, without) in files_to_write(pcap.as_deref(), trace) {
                if let Err(error) = can_write(path) {
                    problems.push(format!("{name}: {} cannot be written: {error}; {without}", path.display()));
                }
            }
            let file = pcap.as_ref().map(|path| path.display().to_string());
            say(format!("RNIC_PCAP    {}", file.unwrap_or_else(|| "not set: no capture".into())))?;
            let trace = match trace {
                TraceTo::Nowhere => "not set: no trace".to_string(),
                TraceTo::Stderr => "to standard error".to_string(),
                TraceTo::File(path) => path.display().to_string(),
            };
            say(format!("RNIC_TRACE   {trace}"))?;
            let transport = if *offer_irn { "irn with peers that have it too, rc with others" } else { "rc" };
            say(format!("RNIC_TRANSPORT {transport}"))?;
            let ms = min_timeout.as_ps() / 1_000_000_000;
            say(format!(
                "RNIC_MIN_TIMEOUT {ms}ms: a reliable connection fails after this time without a response at the earliest"
            ))?;
            let local = match (within_host, faults.is_some() || pcap.is_some()) {
                (false, _) => "wire: all packets are datagrams",
                (true, true) => "auto, but all packets are datagrams because of RNIC_FAULTS or RNIC_PCAP",
                (true, false) => "auto: packets between programs of one address go through memory",
            };
            say(format!("RNIC_LOCAL   {local}"))?;
            let required = if *required { "1: a program that opens no device fails" } else { "not set" };
            say(format!("RNIC_REQUIRED {required}"))?;
            let stats = if *stats { "on: `rnic top` shows the queue pairs of programs" } else { "off" };
            say(format!("RNIC_STATS   {stats}"))?;
            match hosts::addresses(environment) {
                Ok(addresses) => {
                    let mut usable = 0;
                    for (index, address) in addresses.iter().enumerate() {
                        let state = probe(address);
                        usable += usize::from(state.is_ok());
                        let state = state.unwrap_or_else(|why| why);
                        say(format!(
                            "{:<11} {} on {}, MTU {} (path MTU {}): {state}",
                            address.device_name(index),
                            address.ip,
                            address.interface,
                            address.mtu,
                            address.path_mtu()
                        ))?;
                    }
                    if usable == 0 {
                        problems.push("there is no device that a program can open".to_string());
                    }
                }
                Err(error) => problems.push(error),
            }
        }
        Err(error) => problems.push(error.clone()),
    }
    if problems.is_empty() {
        say(format!("/dev/infiniband and /sys/class/infiniband: {}", files_can_be_shown()))?;
    }
    say("note         programs with a libibverbs of their own, such as Python wheels, need `rnic verbs run`".into())?;
    for (process, library) in processes_with_another_library() {
        say(format!(
            "note         process {process} has {}, so that it does not use rnic's devices; start it with `rnic verbs run`",
            library.display()
        ))?;
    }
    if Path::new("/sys/class/infiniband").read_dir().is_ok_and(|mut devices| devices.next().is_some()) {
        say(
            "note         this host also has RDMA devices of its own; programs with the library do not see them".into()
        )?;
    }
    if problems.is_empty() { Ok(()) } else { Err(CliError::Failed(problems)) }
}

/// The files that the library writes, as (environment variable, path, consequence if the file cannot be written).
fn files_to_write<'a>(
    pcap: Option<&'a Path>, trace: &'a TraceTo,
) -> impl Iterator<Item = (&'static str, &'a Path, &'static str)> {
    let trace = if let TraceTo::File(path) = trace { Some(path.as_path()) } else { None };
    let pcap = pcap.map(|path| ("RNIC_PCAP", path, "programs cannot open a device"));
    pcap.into_iter().chain(trace.map(|path| ("RNIC_TRACE", path, "programs run without a trace")))
}

/// Checks that a file can be written. The check leaves no new file behind.
fn can_write(path: &Path) -> io::Result<()> {
    let was_there = path.exists();
    fs::File::options().create(true).append(true).open(path)?;
    if was_there { Ok(()) } else { fs::remove_file(path) }
}

/// Whether `rnic verbs run` can show programs the files of the devices, as text.
fn files_can_be_shown() -> &'static str {
    if try_to_show_files().is_ok() {
        "`rnic verbs run` shows them to programs that look for them, such as UCX"
    } else {
        "this host does not let `rnic verbs run` show them; a container needs `--device /dev/null:/dev/infiniband/uverbs0`"
    }
}

/// Starts another process that makes the files of the devices visible to itself. An error is the reason for which it
/// failed.
fn try_to_show_files() -> Result<(), String> {
    let words = program::command().map_err(|error| error.to_string())?;
    let mut attempt = Command::new(&words[0]);
    attempt.args(&words[1..]).args(["verbs", "run", "--files", "--no-preload", "true"]).stdin(Stdio::null());
    // The program `true` opens no device.
    attempt.env_remove("RNIC_REQUIRED");
    let output = attempt.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    if output.status.success() { Ok(()) } else { Err(said.lines().last().unwrap_or("the attempt failed").to_string()) }
}

/// The first ten processes of this user that have loaded another libibverbs than rnic's, and the path of that library.
fn processes_with_another_library() -> Vec<(u32, PathBuf)> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = ids.filter_map(|id| {
        // The system shows a user the memory maps of the user's own processes only.
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).ok()?;
        let libraries = loaded::libraries_in(&maps);
        let has_rnic = libraries.iter().any(|path| is_rnic(path));
        libraries.first().filter(|_| !has_rnic).map(|path| (id, path.to_path_buf()))
    });
    others.take(10).collect()
}

/// Whether a library named libibverbs is rnic's, by a symbol that only rnic's library exports.
fn is_rnic(library: &Path) -> bool {
    const SYMBOL: &[u8] = b"\0rnic_mads_open\0";
    fs::read(library).is_ok_and(|bytes| bytes.windows(SYMBOL.len()).any(|window| window == SYMBOL))
}

/// Predicts whether a program can open the device of an address: `Ok` with its state, or the reason for which it
/// cannot.
fn probe(address: &hosts::HostAddress) -> Result<String, String> {
    if hosts::is_shared(address.ip).map_err(|why| why.to_string())? {
        return Ok("ready; other programs of yours use it".to_string());
    }
    match UdpSocket::bind(SocketAddr::new(address.ip, rnic_endpoint::port::ROCE_PORT)) {
        Ok(_) => Ok("ready".to_string()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err("UDP port 4791 is taken, by a program of another user, another RoCE endpoint or rdma_rxe".to_string())
        }
        Err(error) => Err(format!("UDP port 4791 cannot be used: {error}")),
    }
}
