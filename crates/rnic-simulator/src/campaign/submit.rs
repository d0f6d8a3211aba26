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
        return go(arguments.engine, &script);
    }
    match &arguments.out {
        None => output::print(|out| out.write_all(script.as_bytes())),
        Some(path) => {
            let writing = |error| CliError::Io { doing: "cannot write the script".to_string(), error };
            write_atomically(path, |out| out.write_all(script.as_bytes())).map_err(writing)?;
            let how = match arguments.engine {
                Engine::Slurm => "sbatch",
                Engine::Hq => "bash",
            };
            output::print(|out| writeln!(out, "{}: submit it with `{how} {0}`", path.display()))
        }
    }
}

fn script(arguments: &SubmitArgs, name: &str) -> Result<String, CliError> {
    for text in arguments.options.iter().chain(&arguments.time) {
        if text.contains(['\n', '\r']) {
            return Err(CliError::Input("an option of the engine has more than one line".to_string()));
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
        Engine::Slurm => {
            let mut lines = vec![
                "#!/bin/bash".to_string(),
                format!("#SBATCH --job-name=rnic-{name}"),
                format!("#SBATCH --array=1-{shards}"),
                format!("#SBATCH --cpus-per-task={cpus}"),
            ];
            lines.extend(arguments.time.iter().map(|time| format!("#SBATCH --time={time}")));
            lines.extend(arguments.options.iter().map(|option| format!("#SBATCH {option}")));
            lines.push(format!("exec {}", run("${SLURM_ARRAY_TASK_ID:?is set in a task of a job array}")));
            lines.join("\n") + "\n"
        }
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

/// Runs the engine's submit command with the script as its input.
fn go(engine: Engine, script: &str) -> Result<(), CliError> {
    let (program, needed) = match engine {
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
    if status.success() { Ok(()) } else { Err(CliError::Failed(vec![format!("`{needed}` ended with {status}")])) }
}
