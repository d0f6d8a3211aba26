//! Fuzzes the P4 compiler with programs that are correct, nearly correct, or random text. The compiler must accept a
//! program or report errors, and accepted programs must run.

use crate::network::Dice;
use rnic_nano::cost::{Hardware, analyse};
use rnic_nano::hir;
use rnic_nano::parser::parse_program;
use rnic_nano::source::{SourceFile, SourceMap, Span};
use rnic_nano::{NicParameters, P4Header, P4Pipeline, Program, Rejected, compile};
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
};
use rnic_transport::telemetry::{HopRecord, Telemetry};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The programs that the fuzzer mutates.
const PROGRAMS: &[&str] = &[
    include_str!("../../../../crates/rnic-nano/tests/accepted/receiver_driven.p4"),
    include_str!("../../../../crates/rnic-nano/tests/accepted/every_construct.p4"),
    include_str!("../../../../crates/rnic-nano/tests/programs/scheduled.p4"),
];

/// Additional words that the fuzzer inserts.
const WORDS: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "for",
    "header",
    "header_union",
    "if",
    "inout",
    "int",
    "match_kind",
    "package",
    "parser",
    "return",
    "select",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
    "_",
    "key",
    "actions",
    "entries",
    "apply",
    "state",
    "0",
    "1",
    "255",
    "0xffff",
    "8w7",
    "4s7",
    "16w0",
    "340282366920938463463374607431768211455",
    "\"text\"",
    "bit<8>",
    "int<8>",
    "bit<128>",
    "(bit<8>)",
    "(bit<1>)",
    "(bool)",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "~",
    "!",
    "==",
    "<",
    ">",
    "&&",
    "||",
    "? 1 :",
    "++",
    "|+|",
    "|-|",
    "&&&",
    "..",
    "...",
    "[7:0]",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ":",
    ",",
    ".",
    "=",
    "@",
    "#",
    "$",
    "ä",
    "/*",
    "*/",
    "//",
    "\n",
    "\n#define x 1\n",
    "\n#define x x y\n",
    "\n#undef x\n",
    "\n#ifdef x\n",
    "\n#ifndef x\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#include <core.p4>\n",
    "\n#include \"program.p4\"\n",
    ".isValid()",
    ".setValid()",
    ".setInvalid()",
    ".apply()",
    ".apply().hit",
    ".apply().action_run",
    "switch (1) {",
    "if (true) {",
    "return;",
    "exit;",
];

/// Constants whose values the fuzzer replaces.
const CONSTANTS: &[&str] = &["REGISTERS", "DATA_PRIORITY", "LIMIT", "WIDE", "FLAG", "SIGNED", "DATA", "NONE"];

/// Counts of a fuzzing run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of programs given to the compiler.
    pub programs: u64,
    /// Number of programs without syntax errors.
    pub parsed: u64,
    /// Number of programs that compiled.
    pub compiled: u64,
    /// Number of packets that the compiled programs processed.
    pub packets: u64,
    /// Number of events that the compiled programs sent to the fixed-function blocks.
    pub events: u64,
}

impl Summary {
    /// Returns the sum of two summaries.
    pub fn plus(self, other: Summary) -> Summary {
        Summary {
            programs: self.programs + other.programs,
            parsed: self.parsed + other.parsed,
            compiled: self.compiled + other.compiled,
            packets: self.packets + other.packets,
            events: self.events + other.events,
        }
    }
}

/// Compiles at most `steps` random programs, until the choices of `dice` are used up.
///
/// # Errors
/// A description of the violation, with the program.
pub fn run(mut dice: Dice, steps: u64) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for _ in 0..steps {
        if dice.is_spent() {
            break;
        }
        let program = nearly_a_program(&mut dice);
        let number = dice.word();
        summary = summary.plus(check(&program, number)?);
    }
    Ok(summary)
}

/// Compiles a program and lets it process random packets, whose seed is `packets`.
///
/// # Errors
/// A description of the violation, with the program.
pub fn check(program: &str, packets: u64) -> Result<Summary, String> {
    let checked = catch_unwind(AssertUnwindSafe(|| compile_and_run(program, &mut Dice::new(packets))));
    let checked = checked.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", said.unwrap_or("without words")))
    });
    checked.map_err(|what| format!("{what}; the program:\n{program}"))
}

fn compile_and_run(program: &str, dice: &mut Dice) -> Result<Summary, String> {
    let main = || SourceFile { name: "program.p4".into(), text: program.into() };
    let parsed = parse_program(main(), &|_| None).is_ok();
    let constants =
        if dice.chance(100) { vec![(dice.pick(CONSTANTS).to_string(), u128::from(dice.word()))] } else { vec![] };
    let mut summary = Summary { programs: 1, parsed: parsed.into(), ..Summary::default() };
    match compile(main(), &|_| None, &constants) {
        Ok(program) => {
            summary.compiled = 1;
            hir::check::check(program.hir())?;
            let cost = analyse(&program, &Hardware::default());
            if cost.to_string().is_empty() {
                return Err("a cost without words".into());
            }
            (summary.packets, summary.events) = if program.header_room() <= 64 {
                handle_packets::<64>(&program, dice)?
            } else {
                handle_packets::<256>(&program, dice)?
            };
        }
        Err(rejected) => check_errors(&rejected)?,
    }
    Ok(summary)
}

/// Processes a few packets in both directions; returns the number of packets, and of events at the fixed-function
/// blocks.
fn handle_packets<const N: usize>(program: &Program, dice: &mut Dice) -> Result<(u64, u64), String> {
    let nic = NicParameters {
        ip: 1,
        rtt_pkts: 10,
        mtu: 1_000,
        line_rate_mbps: 100_000,
        base_rtt_ns: 5_000,
        ..NicParameters::default()
    };
    let mut pipeline = P4Pipeline::<N>::new(program, &nic).map_err(|what| what.to_string())?;
    let mut blocks = AnyBlocks { dice: Dice::new(dice.word()), events: 0 };
    let mut header = P4Header::<N>::default();
    const PACKETS: u64 = 8;
    for _ in 0..PACKETS {
        header = if dice.chance(500) { any_header(dice, program.emitted_bytes()) } else { header };
        let telemetry = any_telemetry(dice);
        let arrival = Arrival {
            now: Time::from_ps(dice.word() >> 8),
            frame_bytes: dice.word() as u16,
            trimmed: dice.chance(300),
            returned: dice.chance(100),
            marked: dice.chance(300),
            telemetry: telemetry.as_ref(),
        };
        pipeline.ingress(&mut blocks, &header, &arrival);
        header = pipeline.egress(&any_departure(dice)).header;
        if header.len as u32 > program.emitted_bytes() {
            return Err(format!("a header of {} bytes; {} are the most", header.len, program.emitted_bytes()));
        }
    }
    Ok((2 * PACKETS, blocks.events))
}

fn any_header<const N: usize>(dice: &mut Dice, usual: u32) -> P4Header<N> {
    let len = if dice.chance(800) { usual as usize } else { dice.below(N as u64 + 1) as usize };
    let mut header = P4Header { bytes: [0; N], len: len as u16 };
    header.bytes[..len].copy_from_slice(&dice.bytes(len));
    header
}

fn any_telemetry(dice: &mut Dice) -> Option<Telemetry> {
    let mut telemetry = Telemetry::default();
    for _ in 0..dice.below(Telemetry::MAX_HOPS as u64 + 2) {
        let [timestamp_ns, tx_bytes, queue_bytes, rate_mbps] = std::array::from_fn(|_| dice.word() as u32);
        telemetry.push(HopRecord { timestamp_ns, tx_bytes, queue_bytes, rate_mbps });
    }
    dice.chance(300).then_some(telemetry)
}

fn any_departure(dice: &mut Dice) -> Departure {
    Departure {
        now: Time::from_ps(dice.word() >> 8),
        dst_ip: dice.word() as u32,
        dst_context: dice.word() as u16,
        src_context: dice.word() as u16,
        tx_msg_id: dice.word() as u32,
        msg_len: dice.word() as u32,
        pkt_offset: dice.word() as u32,
        credit: dice.word() as u32,
        rank: dice.word() as u8,
        flags: dice.word() as u8,
        is_new_msg: dice.chance(500),
        is_rtx: dice.chance(500),
        payload: dice.below(10_000) as u32,
    }
}

/// Fixed-function blocks that return random results.
struct AnyBlocks {
    dice: Dice,
    events: u64,
}

impl Blocks for AnyBlocks {
    fn get_rx_msg_info(&mut self, _: &RxMsgInfoRequest) -> RxMsgInfo {
        self.events += 1;
        RxMsgInfo {
            fail: self.dice.chance(100),
            rx_msg_id: self.dice.word() as u16,
            is_new_msg: self.dice.chance(500),
            is_new_pkt: self.dice.chance(500),
            is_last_pkt: self.dice.chance(500),
            ack_no: self.dice.word() as u32,
        }
    }
    fn delivered(&mut self, _: &DeliveredEvent) {
        self.events += 1;
    }
    fn credit_to_btx(&mut self, _: &CreditToBtxEvent) {
        self.events += 1;
    }
    fn ctrl_pkt(&mut self, _: &CtrlPktEvent) {
        self.events += 1;
    }
}

/// Checks that all errors have a message, and a span within the source files.
fn check_errors(rejected: &Rejected) -> Result<(), String> {
    let Rejected { errors, sources } = rejected;
    if errors.is_empty() || errors.len() > 20 {
        return Err(format!("refused with {} errors", errors.len()));
    }
    for error in errors {
        let places = error.related.iter().map(|(span, _)| *span).chain([error.span]);
        if let Some(span) = places.into_iter().find(|span| !lies_in(*span, sources)) {
            return Err(format!("an error lies at {span:?}: {}", error.message));
        }
        if error.message.is_empty() || error.render(sources).is_empty() {
            return Err("an error without words".into());
        }
    }
    Ok(())
}

fn lies_in(span: Span, sources: &SourceMap) -> bool {
    let file = sources.files.get(usize::from(span.file));
    file.is_some_and(|file| file.text.get(span.start as usize..span.end as usize).is_some())
}

/// Returns one of the programs with some mutations.
fn nearly_a_program(dice: &mut Dice) -> String {
    let mut pieces = pieces(dice.pick(PROGRAMS));
    let most = if dice.chance(400) { 3 } else { 10 };
    for _ in 0..dice.below(most) {
        change(&mut pieces, dice);
    }
    let mut text = pieces.concat();
    if dice.chance(50) {
        let mut bytes = text.into_bytes();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    text
}

fn change(pieces: &mut Vec<&'static str>, dice: &mut Dice) {
    let at = dice.below(pieces.len() as u64) as usize;
    let most = if dice.chance(200) { 60 } else { 4 };
    let len = 1 + dice.below(most) as usize;
    let end = (at + len).min(pieces.len());
    match dice.below(10) {
        0 => drop(pieces.drain(at..end)),
        1 => {
            let copied = pieces[at..end].to_vec();
            let to = dice.below(pieces.len() as u64 + 1) as usize;
            pieces.splice(to..to, copied);
        }
        2 => {
            let other = self::pieces(dice.pick(PROGRAMS));
            let from = dice.below(other.len() as u64) as usize;
            let copied = other[from..(from + len).min(other.len())].to_vec();
            pieces.splice(at..end, copied);
        }
        3 => pieces.insert(at, dice.pick(WORDS)),
        4 => {
            let other = dice.below(pieces.len() as u64) as usize;
            if other < pieces.len() {
                pieces.swap(at, other);
            }
        }
        5 => {
            if let Some(piece) = pieces.get_mut(at) {
                *piece = dice.pick(WORDS);
            }
        }
        _ => replace_alike(pieces, at, dice),
    }
}

/// Replaces a word by a word, a number by a number, and an operator by an operator, so that the syntax often stays
/// valid.
fn replace_alike(pieces: &mut [&'static str], at: usize, dice: &mut Dice) {
    let Some(old) = pieces.get(at).copied() else { return };
    let start = dice.below(pieces.len() as u64) as usize;
    let alike =
        (start..pieces.len()).chain(0..start).find(|other| pieces[*other] != old && kind(pieces[*other]) == kind(old));
    if let Some(alike) = alike {
        pieces[at] = pieces[alike];
    }
}

fn kind(piece: &str) -> u8 {
    match piece.bytes().next() {
        Some(b'0'..=b'9') => 0,
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => 1,
        Some(b' ' | b'\n') => 2,
        _ => 3,
    }
}

/// Splits a program into words and the text between them.
fn pieces(program: &'static str) -> Vec<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut pieces = Vec::new();
    let mut rest = program;
    while let Some(first) = rest.chars().next() {
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == ' ' {
            rest.find(|c| c != ' ').unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        pieces.push(&rest[..len]);
        rest = &rest[len..];
    }
    pieces
}
