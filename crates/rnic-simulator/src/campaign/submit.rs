use super::{Engine, SubmitArgs, store_of};
use crate::error::CliError;
use crate::output;
use crate::shell::quoted;
use rnic_campaign::campaign::Manifest;
use rnic_results::files::write_atomically;
use rnic_sim::Catalogue;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Writes the script of a cluster's job, or submits it.
pub(super) fn submit(arguments: &SubmitArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let manifest = Manifest::read(&arguments.manifest, &catalogue.vocabulary())?;
    let script = script(arguments, &manifest.name)?;
    if arguments.go {
        return go(arguments, &script);
    }
    match &arguments.out {
        None => output::print(|out| out.write_all(script.as_bytes())),
        Some(path) => {
            let writing = |error| CliError::Io { doing: "cannot write the script".to_string(), error };
            write_atomically(path, |out| out.write_all(script.as_bytes())).map_err(writing)?;
            let how = match arguments.engine {
                Engine::Slurm if !has_several_arrays(arguments) => "sbatch",
                _ => "bash",
            };
            output::print(|out| writeln!(out, "{}: submit it with `{how} {0}`", path.display()))
        }
    }
}

fn script(arguments: &SubmitArgs, name: &str) -> Result<String, CliError> {
    for text in arguments.options.iter().chain(&arguments.time).chain(&arguments.mem) {
        if text.contains(['\n', '\r']) {
            return Err(CliError::Input("an option of the engine has more than one line".to_string()));
        }
    }
    if arguments.engine == Engine::Hq {
        let options = [("--max-parallel", arguments.max_parallel), ("--array-size", arguments.array_size)];
        if let Some((option, _)) = options.iter().find(|(_, value)| value.is_some()) {
            return Err(CliError::Input(format!(
                "{option} has no effect with the engine hq; accepted: --engine slurm"
            )));
        }
        if arguments.mem.is_some() {
            let why = "--mem has no effect with the engine hq; accepted: --option=--resource=mem=..., if its workers \
                       have this resource";
            return Err(CliError::Input(why.to_string()));
        }
    }
    let absolute = |path: &Path| {
        let doing = || format!("cannot find `{}`", path.display());
        std::path::absolute(path).map_err(|error| CliError::Io { doing: doing(), error })
    };
    let word = |path: PathBuf| quoted(&path.to_string_lossy());
    let manifest = word(absolute(&arguments.manifest)?);
    let folder = absolute(&store_of(&arguments.manifest, arguments.store.as_ref()))?;
    let logs = folder.join("logs");
    let store = word(folder);
    let rnic = match &arguments.command {
        Some(command) => command.clone(),
        None => {
            let doing = "cannot find this program's own file".to_string();
            let words = crate::program::command().map_err(|error| CliError::Io { doing, error })?;
            words.iter().map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
        }
    };
    let SubmitArgs { shards, cpus, .. } = arguments;
    let run = |task: &str| {
        format!("{rnic} campaign run {manifest} --store {store} --shard \"{task}/{shards}\" --threads {cpus} --quiet")
    };
    Ok(match arguments.engine {
        Engine::Slurm => slurm(arguments, name, &run),
        Engine::Hq => {
            let time = arguments.time.iter().map(|time| format!("--time-limit={}", quoted(time)));
            let options: Vec<String> = time.chain(arguments.options.iter().map(|option| quoted(option))).collect();
            let options = if options.is_empty() { String::new() } else { format!(" {}", options.join(" ")) };
            // Without these options, each task leaves two files, mostly empty, in the folder from which the job is
            // submitted.
            let gives = |option: &str| arguments.options.iter().any(|given| given.starts_with(option));
            let mut output = String::new();
            if !gives("--stdout") {
                output += " --stdout none";
            }
            if !gives("--stderr") {
                let stderr = logs.join("hq-%{SERVER_UID}-%{JOB_ID}-%{TASK_ID}.stderr");
                output += &format!(" --stderr {}", word(stderr));
            }
            let task = quoted(&run("$HQ_TASK_ID"));
            format!(
                "#!/bin/bash\nmkdir -p {} || exit\nexec hq submit --name rnic-{name} --array 1-{shards} --cpus {cpus}{output}{options} \
                 -- bash -c {task}\n",
                word(logs)
            )
        }
    })
}

/// Maximum number of tasks of a job array, unless the user gives another. Slurm's default of MaxArraySize is 1001, and
/// the largest index is one less.
const ARRAY_SIZE: u32 = 1_000;

/// Whether the tasks do not fit into one job array of Slurm.
fn has_several_arrays(arguments: &SubmitArgs) -> bool {
    arguments.engine == Engine::Slurm && arguments.shards > arguments.array_size.unwrap_or(ARRAY_SIZE)
}

/// The script of a job array of Slurm, or a script that submits several of them. `run` returns the command of a task.
fn slurm(arguments: &SubmitArgs, name: &str, run: &dyn Fn(&str) -> String) -> String {
    let SubmitArgs { shards, cpus, .. } = arguments;
    let throttle = arguments.max_parallel.map_or(String::new(), |tasks| format!("%{tasks}"));
    let mut lines = vec!["#!/bin/bash".to_string(), format!("#SBATCH --job-name=rnic-{name}")];
    let several = has_several_arrays(arguments);
    if !several {
        lines.push(format!("#SBATCH --array=1-{shards}{throttle}"));
    }
    lines.push(format!("#SBATCH --cpus-per-task={cpus}"));
    lines.extend(arguments.time.iter().map(|time| format!("#SBATCH --time={time}")));
    lines.extend(arguments.mem.iter().map(|size| format!("#SBATCH --mem={size}")));
    lines.extend(arguments.options.iter().map(|option| format!("#SBATCH {option}")));
    if !several {
        lines.push(format!("exec {}", run("${SLURM_ARRAY_TASK_ID:?is set in a task of a job array}")));
        return lines.join("\n") + "\n";
    }
    lines.push("task=$((RNIC_FIRST + ${SLURM_ARRAY_TASK_ID:?is set in a task of a job array}))".to_string());
    lines.push(format!("exec {}", run("$task")));
    let size = arguments.array_size.unwrap_or(ARRAY_SIZE);
    let arrays = shards.div_ceil(size);
    let note = if throttle.is_empty() { String::new() } else { format!(", each with the limit {throttle}") };
    format!(
        "#!/bin/bash\n# Submits {arrays} job arrays of at most {size} tasks{note}: bash SCRIPT\n\
         for ((first = 0; first < {shards}; first += {size})); do\n  \
         count=$(({shards} - first < {size} ? {shards} - first : {size}))\n  \
         sbatch --array=\"1-$count{throttle}\" --export=ALL,RNIC_FIRST=$first <<'RNIC_TASK' || exit\n\
         {}\nRNIC_TASK\ndone\n",
        lines.join("\n")
    )
}

/// Runs the engine's submit command with the script as its input.
fn go(arguments: &SubmitArgs, script: &str) -> Result<(), CliError> {
    let (program, needed) = match arguments.engine {
        Engine::Slurm if has_several_arrays(arguments) => ("bash", "sbatch"),
        Engine::Slurm => ("sbatch", "sbatch"),
        Engine::Hq => ("bash", "hq"),
    };
    let is_there = |folder: PathBuf| folder.join(needed).is_file();
    #[expect(clippy::disallowed_methods, reason = "the path of programs is no setting of a simulation")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(is_there) {
        return Err(CliError::Input(format!(
            "there is no command `{needed}` here; without --go the script is printed, so that it can be submitted on a \
             machine of the cluster"
        )));
    }
    let failed = |error| CliError::Io { doing: format!("cannot run `{program}`"), error };
    let mut child = Command::new(program).stdin(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes()).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let mut lines = vec![format!("`{needed}` ended with {status}")];
    if arguments.engine == Engine::Slurm {
        lines.push(
            "if Slurm says \"Invalid job array specification\", give its MaxArraySize less one (`scontrol show config`) \
             as --array-size"
                .to_string(),
        );
    }
    Err(CliError::Failed(lines))
}
