//! Tests of the commands that print schemas, shell completions and manual pages.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn rnic(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rnic")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = rnic(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn schemas_are_json() {
    let scenario: Value = serde_json::from_str(&stdout(&["schema"])).unwrap();
    assert_eq!(scenario["title"], "rnic scenario");
    assert!(scenario["definitions"]["run"]["properties"]["dcqcn"]["properties"]["g"].is_object());
    for of in ["spec", "event"] {
        assert_eq!(stdout(&["schema", of]), stdout(&["exec", "--schema", of]));
    }
}

/// The file in the documentation is the output of `rnic schema`.
#[test]
fn the_documentation_has_the_schema_of_scenarios() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/scenario.schema.json");
    let text = fs::read_to_string(file).unwrap();
    assert!(text == stdout(&["schema"]), "write it again: rnic schema > docs/reference/scenario.schema.json");
}

#[test]
fn completions_know_commands_and_options() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef rnic"), ("fish", "complete -c rnic")] {
        let script = stdout(&["completions", shell]);
        for text in [part, "print-spec", "topologies"] {
            assert!(script.contains(text), "{shell}: no {text}");
        }
    }
    let bash = stdout(&["completions", "bash"]);
    let test = "_init_completion() { return 1; }; COMP_WORDS=(rnic che); COMP_CWORD=1; _rnic rnic che rnic; echo ${COMPREPLY[@]}";
    match Command::new("bash").args(["-c", &format!("{bash}\n{test}")]).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "check\n"),
        Err(_) => eprintln!("bash is not installed: the script is not run"),
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("man1");
    stdout(&["man", folder.to_str().unwrap()]);
    for page in ["rnic", "rnic-run", "rnic-model-buffers", "rnic-p4-check", "rnic-schema"] {
        let text = fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    let unwritable = rnic(&["man", "/dev/null/man1"]);
    let message = String::from_utf8(unwritable.stderr).unwrap();
    assert!(message.starts_with("error: cannot write to `/dev/null/man1`: "), "{message}");
    assert_eq!(unwritable.status.code(), Some(1));
}

/// A heading of the reference of the command, and the text below it up to the next heading of the same or a higher
/// level.
struct Section<'t> {
    title: &'t str,
    text: String,
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut lines: Vec<(usize, &str)> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        lines.push((if in_code { 0 } else { level }, line));
    }
    let heading = |index: usize| {
        let (level, title) = lines[index];
        let below = lines[index + 1..].iter().take_while(|(other, _)| *other == 0 || *other > level);
        let text = below.map(|(_, line)| format!("{line}\n")).collect();
        (level > 0).then_some(Section { title, text })
    };
    (0..lines.len()).filter_map(heading).collect()
}

/// The texts below the headings that contain `title`.
fn texts<'s>(sections: &'s [Section<'_>], title: &str) -> Vec<&'s str> {
    sections.iter().filter(|section| section.title.contains(title)).map(|section| section.text.as_str()).collect()
}

/// Names of the commands, or of the long options, in the output of `--help`.
fn names<'h>(help: &'h str, of: &str) -> Vec<&'h str> {
    let mut lines = help.lines().skip_while(|line| *line != format!("{of}:")).skip(1);
    let block: Vec<&str> = lines.by_ref().take_while(|line| line.is_empty() || line.starts_with(' ')).collect();
    let first = |line: &'h str| line.trim_start().split([' ', ',', '=', '[']).next();
    match of {
        "Commands" => block
            .into_iter()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(first)
            .collect(),
        _ => {
            let entries = block.into_iter().filter(|line| {
                let indent = line.len() - line.trim_start().len();
                indent <= 6 && line.trim_start().starts_with('-')
            });
            let long = |line: &'h str| line.find("--").map(|at| &line[at..]).and_then(first);
            entries.filter_map(long).collect()
        }
    }
}

/// Options whose meaning the section on all commands, or their name alone, says.
const EVERYWHERE: [&str; 2] = ["--help", "--version"];

/// Every command has a heading in the reference, and every long option is named below the heading of its command, of
/// its parent command, or of the section on arguments that several commands share.
#[test]
fn the_reference_has_every_command_and_option() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let text = fs::read_to_string(file).unwrap();
    let sections = sections(&text);
    let of = |title: &str| texts(&sections, title);
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    let (mut missing, mut commands) = (Vec::new(), 0);
    while let Some(command) = open.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = stdout(&arguments);
        let subcommands = names(&help, "Commands");
        open.extend(subcommands.iter().filter(|name| **name != "help").map(|name| {
            let mut longer = command.clone();
            longer.push(name.to_string());
            longer
        }));
        if command.is_empty() {
            continue;
        }
        commands += 1;
        let title = |command: &[String]| format!("`rnic {}`", command.join(" "));
        let own = title(&command);
        let options: Vec<&str> =
            names(&help, "Options").into_iter().filter(|option| !EVERYWHERE.contains(option)).collect();
        // A command that only groups its subcommands needs no heading.
        let is_group = !subcommands.is_empty() && options.is_empty();
        if !is_group && of(&own).is_empty() {
            missing.push(format!("a heading {own}"));
        }
        let mut texts = of("Arguments of several commands");
        (1..=command.len()).for_each(|length| texts.extend(of(&title(&command[..length]))));
        for option in options {
            let named = |text: &&str| {
                text.match_indices(option)
                    .any(|(at, _)| !text[at + option.len()..].starts_with(|c: char| c == '-' || c.is_alphanumeric()))
            };
            if !texts.iter().any(named) {
                missing.push(format!("{option} of {own}"));
            }
        }
    }
    assert!(commands > 40, "{commands}");
    assert!(missing.is_empty(), "docs/reference/cli.md lacks: {}", missing.join(", "));
}
