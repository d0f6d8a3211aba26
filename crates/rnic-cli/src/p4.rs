//! The command `rnic p4`, which checks transports programmed in P4.

use crate::args::{P4Args, P4BuildArgs, P4CheckArgs, P4Command, P4TraceArgs};
use rnic_nano::corpus::Corpus;
use rnic_nano::cost::{Cost, Hardware, PipelineCost, analyse};
use rnic_nano::diagnostic::Diagnostic;
use rnic_nano::hir::{self, MatchKind, Pipeline};
use rnic_nano::source::{SourceMap, Span};
use rnic_nano::{CompileError, Program, Rejected, compile_file, rtl, trace};
use rnic_simulator::error::{CliError, no_hardware};
use rnic_simulator::format::Format;
use rnic_simulator::output;
use rnic_spec::{P4Error, P4Program, P4Source};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Runs the selected subcommand of `rnic p4`.
pub(crate) fn p4(arguments: &P4Args) -> Result<(), CliError> {
    match &arguments.command {
        P4Command::Check(arguments) => check(arguments),
        P4Command::Build(arguments) => build(arguments),
        P4Command::Trace(arguments) => trace(arguments),
    }
}

/// Generates Verilog from a P4 program, writes it, and compares it with the virtual machine.
fn build(arguments: &P4BuildArgs) -> Result<(), CliError> {
    let file = arguments.file.display().to_string();
    let program = match compile_file(&arguments.file, &arguments.constants) {
        Ok(program) => program,
        Err(CompileError::Rejected(rejected)) => return Err(CliError::Program(Box::new(rejected))),
        Err(unreadable) => return Err(CliError::Input(unreadable.to_string())),
    };
    warn(&program);
    let rtl =
        rtl::generate(&program, program.header_room() as u32).map_err(|error| no_hardware(&file, &program, &error))?;
    if let Some(folder) = &arguments.verilog {
        let files = [("p4_nic.v", &rtl.nic), ("p4_bench.v", &rtl.bench)];
        let write = |(name, text): (&str, &String)| std::fs::write(folder.join(name), text);
        std::fs::create_dir_all(folder)
            .and_then(|()| files.into_iter().try_for_each(write))
            .map_err(|error| CliError::Io { doing: format!("cannot write into `{}`", folder.display()), error })?;
    }
    let verified = arguments.verify.then(|| verify(&program, &rtl, arguments)).transpose()?;
    output::print(|out| {
        for pipeline in [&rtl.ingress, &rtl.egress] {
            let (name, stages, distance) = (pipeline.name, pipeline.stages, pipeline.distance);
            let calls = pipeline.calls.len();
            writeln!(
                out,
                "{name}: {stages} stages, a packet every {distance} cycles, {calls} calls of the NIC's blocks"
            )?;
        }
        verified.iter().try_for_each(|sentence| writeln!(out, "{sentence}"))
    })
}

/// Runs a program on two NICs and prints what it does with each packet.
fn trace(arguments: &P4TraceArgs) -> Result<(), CliError> {
    let program = match compile_file(&arguments.file, &arguments.constants) {
        Ok(program) => program,
        Err(CompileError::Rejected(rejected)) => return Err(CliError::Program(Box::new(rejected))),
        Err(unreadable) => return Err(CliError::Input(unreadable.to_string())),
    };
    warn(&program);
    let P4TraceArgs { messages, bytes, lose, packets, .. } = *arguments;
    let settings = trace::Settings { messages, bytes, lose_every: lose, described: packets };
    let mut printed = Ok(());
    let traced = trace::trace(&program, &settings, &mut |line| {
        if printed.is_ok() {
            printed = output::print(|out| writeln!(out, "{line}"));
        }
    });
    printed?;
    let trace::Traced { delivered, acknowledged, packets, lost, rejected, end } = traced;
    output::print(|out| {
        writeln!(
            out,
            "{delivered} of {messages} messages delivered, {acknowledged} acknowledged, in {:.4} us; {packets} packets, {lost} \
             lost, {rejected} rejected by the parser",
            end.as_us()
        )
    })?;
    if delivered == messages && acknowledged == messages {
        return Ok(());
    }
    Err(CliError::Failed(vec![format!(
        "{} of {messages} messages were not delivered and acknowledged",
        messages - delivered.min(acknowledged)
    )]))
}

/// Compares the Verilog of a program with the virtual machine, and returns a sentence about the packets compared.
#[cfg(feature = "hardware")]
fn verify(program: &Program, rtl: &rtl::Rtl, arguments: &P4BuildArgs) -> Result<String, CliError> {
    let (packets, seed) = (arguments.packets.unwrap_or(100_000), arguments.seed.unwrap_or(1));
    let design = rnic_hw::p4::bench(rtl, None);
    let verified = rnic_hw::p4::verify(program, rtl, &design, packets, seed, arguments.vcd.as_deref())?;
    let (ingress, egress) = verified.packets;
    let (accepted, calls, cycles) = (verified.accepted, verified.calls, verified.cycles);
    Ok(format!(
        "no difference in {ingress} arriving packets ({accepted} accepted by the parser, {calls} calls) and {egress} \
         departing packets, in {cycles} cycles"
    ))
}

/// The error of a build without the feature `hardware`, which cannot compare Verilog with the virtual machine.
#[cfg(not(feature = "hardware"))]
fn verify(_: &Program, _: &rtl::Rtl, _: &P4BuildArgs) -> Result<String, CliError> {
    Err(rnic_simulator::absent::without_feature("p4 build --verify", "hardware"))
}

/// Compiles a P4 program and prints a summary of the program, or its errors.
fn check(arguments: &P4CheckArgs) -> Result<(), CliError> {
    let file = arguments.file.display().to_string();
    if arguments.file.is_dir() {
        return check_folder(arguments, &file);
    }
    let program = match compile_file(&arguments.file, &arguments.constants) {
        Ok(program) => program,
        Err(CompileError::Rejected(rejected)) if arguments.format == Format::Json => {
            let document = json!({ "file": file, "ok": false, "errors": errors(&rejected) });
            output::print(|out| print_document(out, &document))?;
            return Err(CliError::Told);
        }
        Err(CompileError::Rejected(rejected)) => return Err(CliError::Program(Box::new(rejected))),
        Err(unreadable) => return Err(CliError::Input(unreadable.to_string())),
    };
    let program_of_run = P4Program::of(P4Source::default(), &program.hir().annotations);
    if let Err(P4Error::Annotation { annotation, accepted, .. }) = program_of_run {
        return Err(CliError::Input(format!("{file}: the annotation {annotation} of `main`; accepted: {accepted}")));
    }
    if arguments.format == Format::Table {
        warn(&program);
    }
    let cost = arguments.cost.then(|| analyse(&program, &Hardware::default()));
    output::print(|out| match arguments.format {
        Format::Table => {
            out.write_all(summary(&file, &program).as_bytes())?;
            cost.iter().try_for_each(|cost| write!(out, "\n{cost}"))
        }
        Format::Json => {
            let mut document = document(&file, &program);
            if let Some(cost) = &cost {
                document["cost"] = cost_document(cost);
            }
            print_document(out, &document)
        }
    })
}

/// Prints the compiler's warnings about a program on standard error.
fn warn(program: &Program) {
    for warning in &program.hir().warnings {
        warning.render(program.sources()).lines().for_each(output::note);
    }
}

/// Compiles all programs in a folder, and prints how many of them the compiler rejects, with the reasons.
fn check_folder(arguments: &P4CheckArgs, folder: &str) -> Result<(), CliError> {
    if arguments.cost || !arguments.constants.is_empty() {
        let message = format!("`{folder}` is a folder: --cost and --constant are for one program");
        return Err(CliError::Input(message));
    }
    let corpus = Corpus::check(&arguments.file)
        .map_err(|error| CliError::Io { doing: format!("cannot read the programs in `{folder}`"), error })?;
    let mut reasons: Vec<_> = corpus.refused.iter().collect();
    reasons.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    let (programs, run, without_main) = (corpus.programs(), corpus.run.len(), corpus.without_main.len());
    let refused = programs - run - without_main;
    output::print(|out| match arguments.format {
        Format::Table => {
            writeln!(
                out,
                "{folder}: {programs} programs; {run} run on a NIC, {without_main} have no error but no `main` for a NIC, \
                 {refused} are refused"
            )?;
            reasons.iter().try_for_each(|(reason, files)| {
                writeln!(out, "{:>6}  {reason}; for example {}", files.len(), files[0].display())
            })
        }
        Format::Json => {
            let row = |(reason, files): &(&String, &Vec<std::path::PathBuf>)| {
                let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                json!({ "reason": reason, "files": files })
            };
            let refused: Vec<Value> = reasons.iter().map(row).collect();
            let document = json!({ "folder": folder, "programs": programs, "run": run, "without_main": without_main, "refused": refused });
            print_document(out, &document)
        }
    })
}

fn print_document(out: &mut dyn Write, document: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// Returns a summary of a compiled P4 program as text.
fn summary(file: &str, program: &Program) -> String {
    let hir = program.hir();
    let mut text = format!("{file}: ok\n");
    let mut line = |name: &str, parts: Vec<String>| {
        if !parts.is_empty() {
            let _ = writeln!(text, "{name}: {}", parts.join(", "));
        }
    };
    let headers = headers(hir).into_iter().map(|(name, bytes)| format!("{name} ({bytes} bytes)"));
    line("headers", headers.collect());
    line("longest emitted header", vec![format!("{} bytes", program.emitted_bytes())]);
    line("parser states", hir.ingress.states.iter().map(|state| state.name.clone()).collect());
    for (name, pipeline) in [("ingress tables", &hir.ingress), ("egress tables", &hir.egress)] {
        line(name, pipeline.tables.iter().map(describe_table).collect());
    }
    line("externs", hir.instances.iter().map(describe_instance).collect());
    line("constants", hir.constants.iter().map(|(name, value)| format!("{name} = {value}")).collect());
    text
}

/// Returns the headers of the ingress and the egress pipeline with their lengths in bytes; a header that both pipelines
/// have is listed once.
fn headers(hir: &hir::Program) -> Vec<(String, u32)> {
    let mut headers: Vec<(String, u32)> = Vec::new();
    for pipeline in [&hir.ingress, &hir.egress] {
        for header in &pipeline.headers {
            let bits: u32 = header
                .fields
                .iter()
                .filter_map(|field| pipeline.slots.get(field.0 as usize))
                .map(|slot| slot.width)
                .sum();
            let header = (header.name.clone(), bits.div_ceil(8));
            if !headers.contains(&header) {
                headers.push(header);
            }
        }
    }
    headers
}

fn describe_table(table: &hir::Table) -> String {
    let count = |count: usize, what: &str, whats: &str| format!("{count} {}", if count == 1 { what } else { whats });
    let keys = count(table.keys.len(), "key", "keys");
    let actions = count(table.actions.len(), "action", "actions");
    format!("{} ({keys}, {actions}, {} of {} entries)", table.name, table.entries.len(), table.size)
}

fn describe_instance(instance: &hir::Instance) -> String {
    let arguments: Vec<String> = instance.arguments.iter().map(u128::to_string).collect();
    let bits: u32 = instance.types.iter().sum();
    let of = if bits == 0 { String::new() } else { format!(" of {bits} bits") };
    format!("{} ({}({}){of})", instance.name, instance.kind, arguments.join(", "))
}

/// Returns a summary of a compiled P4 program as JSON.
fn document(file: &str, program: &Program) -> Value {
    let hir = program.hir();
    let headers: Vec<Value> =
        headers(hir).into_iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
    let states: Vec<&str> = hir.ingress.states.iter().map(|state| state.name.as_str()).collect();
    let instances = hir.instances.iter().map(|instance| {
        let arguments: Vec<String> = instance.arguments.iter().map(u128::to_string).collect();
        json!({ "name": instance.name, "kind": instance.kind, "bits": instance.types, "arguments": arguments })
    });
    let constants = hir.constants.iter().map(|(name, value)| json!({ "name": name, "value": value.to_string() }));
    json!({
        "file": file,
        "ok": true,
        "headers": headers,
        "emitted_bytes": program.emitted_bytes(),
        "states": states,
        "ingress_tables": tables(&hir.ingress),
        "egress_tables": tables(&hir.egress),
        "externs": instances.collect::<Vec<_>>(),
        "constants": constants.collect::<Vec<_>>(),
        "warnings": diagnostics(&hir.warnings, program.sources()),
    })
}

fn tables(pipeline: &Pipeline) -> Vec<Value> {
    let table = |table: &hir::Table| {
        let kinds = table.keys.iter().map(|(key, kind)| {
            let kind = match kind {
                MatchKind::Exact => "exact",
                MatchKind::Ternary => "ternary",
                MatchKind::Lpm => "lpm",
            };
            json!({ "bits": key.width, "match": kind })
        });
        let actions: Vec<&str> = table.actions.iter().map(|action| action.name.as_str()).collect();
        json!({
            "name": table.name,
            "keys": kinds.collect::<Vec<_>>(),
            "actions": actions,
            "entries": table.entries.len(),
            "size": table.size,
        })
    };
    pipeline.tables.iter().map(table).collect()
}

fn cost_document(cost: &Cost) -> Value {
    let hardware = &cost.hardware;
    let pipeline =
        |cost: &PipelineCost| json!({ "stages": cost.stages, "cycles": cost.cycles, "latency_ps": cost.picoseconds });
    let memory: serde_json::Map<String, Value> =
        cost.memory.by_component().iter().map(|(name, bytes)| (name.replace(' ', "_"), json!(bytes))).collect();
    json!({
        "hardware": {
            "clock_hz": hardware.clock_hz,
            "rate_bps": hardware.rate_bps,
            "messages": hardware.messages,
            "message_bytes": hardware.message_bytes,
            "segment_bytes": hardware.segment_bytes,
            "header_unit": hardware.header_unit,
        },
        "word_bytes": cost.word_bytes,
        "header_bytes": cost.header_bytes,
        "ingress": pipeline(&cost.ingress),
        "egress": pipeline(&cost.egress),
        "pipeline_interval_ps": cost.pipeline_interval,
        "link_interval_ps": cost.link_interval,
        "memory_bytes": memory,
        "notes": cost.notes,
    })
}

/// Returns the errors of a P4 program as JSON.
fn errors(rejected: &Rejected) -> Vec<Value> {
    diagnostics(&rejected.errors, &rejected.sources)
}

/// Returns errors or warnings as JSON; lines and columns count from 1.
fn diagnostics(diagnostics: &[Diagnostic], sources: &SourceMap) -> Vec<Value> {
    let position = |span: Span, label: &str| {
        let file = sources.files.get(usize::from(span.file)).map(|file| file.name.as_str());
        let (line, column) = sources.position(span);
        json!({ "file": file, "line": line, "column": column, "label": label })
    };
    let error = |error: &Diagnostic| {
        let related: Vec<Value> = error.related.iter().map(|(span, label)| position(*span, label)).collect();
        json!({
            "message": error.message,
            "at": position(error.span, &error.label),
            "related": related,
            "help": error.help,
        })
    };
    diagnostics.iter().map(error).collect()
}
