//! Random expressions in the machine, in Verilog under Verilator and under Icarus Verilog, and in an independent
//! evaluator ([`bits`]). A case is one expression with one set of operands.

mod bits;
mod generate;

use bits::Bits;
use generate::{Generator, Operands, Random};
use rnic_hw::HwError;
use rnic_hw::lint::lint;
use rnic_hw::model::Model;
use rnic_hw::p4::{bench, egress_header, egress_step};
use rnic_hw::{icarus, tools::Tool};
use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Pipeline, Program, compile, rtl};
use rnic_transport::Time;
use rnic_transport::message::{Departure, Pipeline};

/// Expressions of a program: their results fill its header.
const EXPRESSIONS: usize = 24;
/// Size of the machine's header buffer in bytes.
const ROOM: usize = 24 * 16;

/// Whether the programs are installed; prints a message if not.
fn installed(tools: &[Tool]) -> bool {
    let missing = tools.iter().find_map(|tool| tool.find().err());
    if let Some(error) = &missing {
        eprintln!("skipped: {error}");
    }
    missing.is_none()
}

fn compiled(text: &str) -> Program {
    let main = SourceFile { name: "expressions.p4".into(), text: text.to_string() };
    compile(main, &|_| None, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Numbers with often equal, extreme and small values.
fn departure(random: &mut Random) -> Departure {
    let mut number = |bits: u32| {
        let ones = u32::MAX >> (32 - bits);
        match random.below(6) {
            0 => 0,
            1 => ones,
            2 => 1 << (bits - 1),
            3 => random.below(20) & ones,
            _ => random.next() & ones,
        }
    };
    Departure {
        now: Time::ZERO,
        dst_ip: number(32),
        dst_context: number(16) as u16,
        src_context: number(16) as u16,
        tx_msg_id: number(32),
        msg_len: number(32),
        pkt_offset: number(32),
        credit: number(32),
        rank: number(8) as u8,
        flags: number(8) as u8,
        is_new_msg: number(1) == 1,
        is_rtx: number(1) == 1,
        payload: number(16),
    }
}

/// The header that the evaluator expects: each result, padded with leading zeros to whole bytes.
fn expected(generator: &Generator, departure: &Departure) -> Vec<u8> {
    let operands = Operands::of(departure);
    let results = generator.results.iter().map(|expression| expression.value(&operands));
    results.flat_map(|value: Bits| value.to_bytes()).collect()
}

struct Lane {
    programs: u64,
    packets: usize,
    /// Packets of a program in Icarus Verilog, which is slower.
    icarus: usize,
}

/// Returns the number of cases.
fn run(lane: &Lane, seed: u64) -> Result<u64, String> {
    let nic = NicParameters::default();
    let mut cases = 0;
    for number in 0..lane.programs {
        let mut random = Random::new(seed.wrapping_mul(1_000_003) + number);
        let generator = Generator::program(&mut random, EXPRESSIONS);
        let text = generator.text();
        let program = compiled(&text);
        let rtl = rtl::generate(&program, program.header_room() as u32).map_err(|e| format!("{e}\n{text}"))?;
        let design = bench(&rtl, None);
        let at = |error: HwError| format!("program {number} of seed {seed}: {error}\n{text}");
        lint(&design).map_err(at)?;
        let departures: Vec<Departure> = (0..lane.packets).map(|_| departure(&mut random)).collect();
        let steps: Vec<u32> = departures.iter().flat_map(|d| egress_step(&rtl, &nic, d)).collect();
        let verilated = Model::build(&design, false).and_then(|model| model.start(None)?.run(&steps)).map_err(at)?.1;
        let few = &steps[..lane.icarus.min(lane.packets) * rtl.words.0];
        let four_states = icarus::results(&design, few).map_err(at)?;
        let mut machine = P4Pipeline::<ROOM>::new(&program, &nic).map_err(|e| e.to_string())?;
        for (index, departure) in departures.iter().enumerate() {
            let header = machine.egress(departure).header;
            let expected = expected(&generator, departure);
            let words = |all: &[u32]| {
                all.get(index * rtl.words.1..(index + 1) * rtl.words.1).map(|words| egress_header(&rtl, words))
            };
            let found = [
                ("the machine", Some(header.bytes[..usize::from(header.len)].to_vec())),
                ("Verilator", words(&verilated)),
                ("Icarus Verilog", words(&four_states)),
            ];
            for (who, found) in found {
                let Some(found) = found else { continue };
                if found != expected {
                    let result = generator.first_difference(&found, &expected);
                    return Err(format!(
                        "program {number} of seed {seed}, {who}, packet {index} {departure:?}: {result}\n{text}"
                    ));
                }
            }
        }
        cases += (lane.packets * EXPRESSIONS) as u64;
    }
    Ok(cases)
}

const TOOLS: [Tool; 4] = [Tool::Verilator, Tool::Compiler, Tool::Icarus, Tool::Vvp];

/// The machine, Verilog in two simulators and an evaluator agree about random expressions.
#[test]
fn random_expressions_have_one_value() {
    if installed(&TOOLS) {
        let cases = run(&Lane { programs: 2, packets: 300, icarus: 60 }, 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cases, 14_400);
    }
}

/// The same with a million cases.
#[test]
#[ignore = "a million cases: several minutes"]
fn a_million_random_expressions_have_one_value() {
    assert!(installed(&TOOLS), "this test needs Verilator and Icarus Verilog");
    let cases = run(&Lane { programs: 60, packets: 700, icarus: 100 }, 2).unwrap_or_else(|error| panic!("{error}"));
    assert!(cases >= 1_000_000, "{cases}");
    eprintln!("{cases} cases without a difference");
}

/// Faults that the generated Verilog once had, each with an expression that shows it: (expression of type `bit<8>`,
/// operands, value).
#[test]
fn expressions_that_were_wrong_once_are_right() {
    let programs = [
        // Signed saturation of two negative operands that do not overflow.
        ("(bit<8>)((int<8>)departure.rank |+| (int<8>)departure.flags)", 250, 250, 0, 244),
        ("(bit<8>)((int<8>)departure.rank |-| (int<8>)departure.flags)", 250, 3, 0, 247),
        ("(bit<8>)((int<8>)departure.rank |-| (int<8>)departure.flags)", 0x7f, 0x80, 0, 0x7f),
        // An arithmetic shift by a variable of more than eight bits.
        ("(bit<8>)((int<8>)departure.flags >> (departure.payload & 7))", 0, 0x90, 2, 0xe4),
        ("(bit<8>)((int<8>)departure.flags >> departure.payload)", 0, 0x90, 300, 0xff),
        // Constants as operands.
        ("(bit<8>)((int<8>)departure.rank |+| 8s1)", 0x7f, 0, 0, 0x7f),
        ("(bit<8>)((int<8>)8w0xf8 >> departure.payload)", 0, 0, 1, 0xfc),
        ("(bit<8>)(8s100 |-| (int<8>)departure.rank)", 0x9c, 0, 0, 0x7f),
        // One bit has a sign, too.
        ("7w0 ++ (bit<1>)((int<1>)departure.rank[0:0] |+| (int<1>)departure.flags[0:0])", 1, 1, 0, 1),
    ];
    let text = generate::program_text(&[], &programs.map(|(expression, ..)| (8, expression.to_string())));
    let program = compiled(&text);
    let rtl = rtl::generate(&program, program.header_room() as u32).unwrap_or_else(|e| panic!("{e}"));
    // The lint of a test needs no packets.
    if !installed(&TOOLS) {
        return;
    }
    let design = bench(&rtl, None);
    lint(&design).unwrap_or_else(|e| panic!("{e}"));
    let nic = NicParameters::default();
    let steps: Vec<u32> = programs
        .iter()
        .flat_map(|(_, rank, flags, payload, _)| {
            let quiet = departure(&mut Random::new(1));
            let departure = Departure { rank: *rank, flags: *flags, payload: *payload, ..quiet };
            egress_step(&rtl, &nic, &departure)
        })
        .collect();
    let results = icarus::results(&design, &steps).unwrap_or_else(|e| panic!("{e}"));
    let verilated = Model::build(&design, false).and_then(|model| model.start(None)?.run(&steps)).unwrap().1;
    assert_eq!(results, verilated);
    // The faults put back: without the function call the shift has no sign; the sign of a result, which is one bit, is
    // compared with a number of ones.
    for (right, wrong) in [("$unsigned(", "("), ("{7'd0, ", "{7'h7f, ")] {
        let faulty = bench(&rtl, Some(&rtl.nic.replace(right, wrong)));
        assert_ne!(icarus::results(&faulty, &steps).unwrap_or_else(|e| panic!("{e}")), results, "{right}");
    }
    for (index, (expression, .., value)) in programs.iter().enumerate() {
        let header = egress_header(&rtl, &results[index * rtl.words.1..(index + 1) * rtl.words.1]);
        assert_eq!(header[index], *value, "{expression}");
    }
}
