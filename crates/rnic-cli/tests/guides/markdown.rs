//! Code blocks of a Markdown file, with the marks that tell a test how to treat them.

/// What a test does with a code block. A mark is an HTML comment in the lines directly above the block, which readers
/// of the guide do not see: `<!-- file: graph.toml -->`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// Write the block to this file.
    File(String),
    /// Append the block to this file.
    Append(String),
    /// Append the block to a copy of this scenario, and check the copy with `rnic check`.
    CheckWith(String),
    /// Do not run the block, for this reason.
    NotRun(String),
    /// Run the block only in the slow tests, for this reason.
    Slow(String),
    /// Skip the block unless this shell command succeeds.
    Needs(String),
    /// Append these arguments to each `rnic` command of the block, so that it takes less time.
    Shorter(String),
    /// The commands of the block fail, for this reason.
    Fails(String),
    /// Leave the only command of the block running. Continue when it has printed this text.
    Background(String),
    /// First end the latest background command whose text contains this string, as Ctrl-C does.
    Interrupt(String),
}

/// A fenced code block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Number of the line with the opening fence, from 1.
    pub(crate) line: usize,
    /// The text after the opening fence, such as `toml`.
    pub(crate) language: String,
    pub(crate) text: String,
    pub(crate) marks: Vec<Mark>,
    /// The prose between the previous block and this one.
    pub(crate) before: String,
}

fn mark(comment: &str) -> Result<Mark, String> {
    let (key, value) = comment.split_once(':').ok_or("a mark has the form `<!-- key: value -->`")?;
    let value = value.trim().to_string();
    if value.is_empty() && key != "background" {
        return Err(format!("the mark `{key}` has no value"));
    }
    Ok(match key {
        "file" => Mark::File(value),
        "append" => Mark::Append(value),
        "check with" => Mark::CheckWith(value),
        "not run" => Mark::NotRun(value),
        "slow" => Mark::Slow(value),
        "needs" => Mark::Needs(value),
        "shorter" => Mark::Shorter(value),
        "fails" => Mark::Fails(value),
        "background" => Mark::Background(value),
        "interrupt" => Mark::Interrupt(value),
        _ => return Err(format!("unknown mark `{key}`")),
    })
}

/// The code blocks of a Markdown text, in order.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    let (mut before, mut marks) = (String::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(language)) => {
                let (before, marks) = (std::mem::take(&mut before), std::mem::take(&mut marks));
                let language = language.trim().to_string();
                open = Some(Block { line: index + 1, language, text: String::new(), marks, before });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => match line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix("-->")) {
                Some(comment) => {
                    marks.push(mark(comment.trim_end()).map_err(|error| format!("line {}: {error}", index + 1))?)
                }
                None if !line.is_empty() && !marks.is_empty() => {
                    return Err(format!("line {}: a mark is directly above a code block", index + 1));
                }
                None => {
                    before.push_str(line);
                    before.push('\n');
                }
            },
        }
    }
    if open.is_some() || !marks.is_empty() {
        return Err("the file ends in a code block or after a mark".to_string());
    }
    Ok(blocks)
}

/// A command of a block, and the output that the guide shows for it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) output: Option<String>,
}

/// The commands of a block: each line of `sh`, each line after `$ ` in `text`. A backslash at the end of a line
/// continues the command.
pub(crate) fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for line in block.text.lines() {
        let command = match block.language.as_str() {
            "sh" => Some(line).filter(|line| !line.trim().is_empty() && !line.starts_with('#')),
            _ => line.strip_prefix("$ "),
        };
        match (steps.last_mut(), command) {
            (Some(step), _) if continued => {
                step.command.push('\n');
                step.command.push_str(line);
            }
            (_, Some(command)) => {
                let output = (block.language != "sh").then(String::new);
                steps.push(Step { command: command.to_string(), output });
            }
            (Some(Step { output: Some(output), .. }), None) => {
                output.push_str(line);
                output.push('\n');
            }
            _ => {}
        }
        continued = line.ends_with('\\') && (command.is_some() || continued);
    }
    steps
}

/// The words of a line of output, without numbers, units, comparisons with the first run, and lines of tables.
fn words(line: &str) -> String {
    const VARIABLE: [&str; 18] = [
        "ps", "ns", "us", "ms", "s", "B", "KB", "MB", "GB", "KiB", "MiB", "%", "x", "better", "worse", "same", "usec",
        "sec",
    ];
    let kept = line
        .split(|c: char| c.is_whitespace() || "─│,()".contains(c))
        .filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_ascii_digit()) && !VARIABLE.contains(word));
    kept.collect::<Vec<_>>().join(" ")
}

/// Returns the lines of an output as words. From a line of a table, only the name of the row is kept, because the
/// widths of numbers determine where the other columns wrap.
fn essence(output: &str) -> Vec<String> {
    let mut after_rule = false;
    let mut lines = Vec::new();
    for line in output.lines() {
        after_rule |= line.starts_with('─');
        let line = if after_rule { line.split("  ").next().unwrap_or_default() } else { line };
        lines.push(words(line));
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Compares the output that a guide shows, if it shows any, with the output of the command. Numbers may differ. The
/// output may have lines that the guide does not show only where the guide shows `...`.
///
/// # Errors
/// The first line that only the guide or only the output has.
pub(crate) fn compare(shown: &str, output: &str) -> Result<(), String> {
    if shown.is_empty() {
        return Ok(());
    }
    let output = essence(output);
    let mut rest = output.as_slice();
    let mut skips = false;
    for wanted in essence(shown) {
        if wanted == "..." {
            skips = true;
            continue;
        }
        match rest.iter().position(|line| *line == wanted) {
            None => return Err(format!("the output has no line with the words `{wanted}` after the lines above it")),
            Some(at) if at > 0 && !skips => return Err(format!("the guide does not show `{}`", rest[0])),
            Some(at) => rest = &rest[at + 1..],
        }
        skips = false;
    }
    match rest.first() {
        Some(line) if !skips => Err(format!("the guide does not show `{line}`")),
        _ => Ok(()),
    }
}

#[test]
fn marks_and_blocks_are_found() {
    let text = "Save `a.toml`:\n\n<!-- file: a.toml -->\n```toml\nk = 1\n```\n\nRun:\n\n<!-- needs: true -->\n<!-- shorter: -x 1 -->\n```text\n$ a \\\n  b\nout 1\n$ c\n```\n";
    let blocks = blocks(text).unwrap();
    assert_eq!(blocks[0].marks, [Mark::File("a.toml".to_string())]);
    assert_eq!((blocks[0].text.as_str(), blocks[0].before.trim()), ("k = 1\n", "Save `a.toml`:"));
    assert_eq!(blocks[1].marks, [Mark::Needs("true".to_string()), Mark::Shorter("-x 1".to_string())]);
    let step = |command: &str, output: &str| Step { command: command.to_string(), output: Some(output.to_string()) };
    assert_eq!(steps(&blocks[1]), [step("a \\\n  b", "out 1\n"), step("c", "")]);
}

#[test]
fn wrong_marks_are_errors() {
    for wrong in [
        "<!-- fil: a -->\n```sh\n```\n",
        "<!-- file: a -->\ntext\n```sh\n```\n",
        "<!-- file: -->\n```sh\n```\n",
        "```sh\n",
    ] {
        assert!(blocks(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn outputs_are_compared_by_their_words() {
    assert_eq!(compare("run  average\nIRN  1.5 us\n...\n", "run average\nIRN 17 ms\nwrote x\n"), Ok(()));
    assert!(compare("run  average\n", "run mean\n").is_err());
    let (shown, output) = ("─\nrun  retransmitted\n─\nIRN, x   1 us\n", "─\nrun  retrans-\n  mitted\n─\nIRN, x 2 us\n");
    assert_eq!(compare(shown, output), Ok(()));
    assert!(compare("b\na\n", "a\nb\n").is_err() && compare("a\n...\nb\n", "a\nc\nb\n").is_ok());
    assert!(compare("a\n", "a\nb\n").is_err() && compare("b\n", "a\nb\n").is_err());
}
