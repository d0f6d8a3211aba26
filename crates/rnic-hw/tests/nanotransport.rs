//! Compares NanoTransport's fixed-function blocks with the transport core. Without Verilator the tests are skipped,
//! with a message.

use rnic_hw::HwError;
use rnic_hw::mutation::Change;
use rnic_hw::nanotransport::{
    Block, FILES, Pair, PairMessage, PairParameters, check, export, exported, header_words, measure, mutants, pair,
    survives,
};
use rnic_hw::tools::Tool;
use rnic_nano::rtl::{Rtl, generate};
use rnic_nano::source::SourceFile;
use std::path::Path;
use std::process::Command;

fn rtl(name: &str) -> Rtl {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
    let program = rnic_nano::compile_file(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    generate(&program, program.header_room() as u32).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether Verilator and its compiler are installed; prints a message if not.
fn verilator() -> bool {
    let missing = [Tool::Verilator, Tool::Compiler].into_iter().find_map(|tool| tool.find().err());
    if let Some(error) = &missing {
        eprintln!("skipped: {error}");
    }
    missing.is_none()
}

/// Every block has the same results as the core, and the trace contains every kind of step.
#[test]
fn the_blocks_follow_the_core() {
    if !verilator() {
        return;
    }
    for (block, kinds) in Block::ALL.into_iter().zip([11, 11, 10, 2]) {
        for seed in [1, 2] {
            let checked = check(block, 100_000, seed, None).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(checked.latency, block.latency(), "{checked:?}");
            assert!(checked.seen.iter().all(|(_, count)| *count > 5), "{checked:?}");
            assert_eq!(checked.seen.len(), kinds, "{:?}", checked.seen);
            eprintln!("{block:?}: {} steps in {} cycles", checked.steps, checked.cycles);
            if matches!(block, Block::Generator | Block::Arbiter) {
                assert_eq!(checked.cycles, checked.steps, "a step in every cycle");
            }
            if block != Block::Packetization {
                break;
            }
        }
    }
}

/// A flipped condition in each block is noticed.
#[test]
fn a_flipped_condition_in_each_block_is_noticed() {
    if !verilator() {
        return;
    }
    for block in [Block::Packetization, Block::Reassembly, Block::Generator] {
        let flipped: Vec<_> = mutants(block).into_iter().filter(|change| change.from == " && ").collect();
        let mutant = &flipped[flipped.len() / 2];
        assert!(!survives(block, mutant, 20_000, 3).unwrap_or_else(|e| panic!("{e}")), "{block:?}: {mutant:?}");
    }
}

/// Changes that no comparison can detect, as (block, part of the line, changed text, reason).
const EQUIVALENT: [(Block, &str, &str, &str); 7] = [
    (Block::Packetization, "assign refuses =", " || ", "it only spares attempts that find no buffer"),
    (Block::Packetization, "assign refuses =", " >= ", "the queue has room for more ids than this bound"),
    (Block::Packetization, "acked_end =", " < ", "both choices are the same number"),
    (Block::Packetization, "bitmap =", " < ", "bits from `sent` on are masked"),
    (Block::Packetization, "offered =", " < ", "both choices are the same number"),
    (Block::Packetization, "overdue =", " < ", "both choices are the same number"),
    (Block::Packetization, "n_credit = rtt_pkts <", " < ", "both choices are the same number"),
];

fn is_equivalent(block: Block, mutant: &Change) -> bool {
    let line = FILES[block as usize].1.lines().nth(mutant.line - 1).unwrap_or_default();
    EQUIVALENT.iter().any(|(of, part, from, _)| *of == block && line.contains(part) && *from == mutant.from)
}

/// Whether two NICs with a mutant deliver all messages over a link that loses frames. If so, the two NICs do not detect
/// the mutant.
fn nics_work(block: Block, mutant: &Change) -> bool {
    let lossy = PairParameters { loss: 20, trim: 40, ..PairParameters::default() };
    let mut design = pair(&rtl("ndp.p4"), lossy).unwrap();
    let source = design.files.iter_mut().find(|(name, _)| name == FILES[block as usize].0).unwrap();
    mutant.apply(&mut source.1);
    let messages: Vec<PairMessage> =
        (0..60).map(|n: u32| PairMessage { sender: n % 2, bytes: (n * 7_919) % 38_913 }).collect();
    match Pair::of(&design, None).and_then(|mut pair| pair.run(&messages)) {
        Ok(_) => true,
        Err(HwError::Differs(_) | HwError::Io { .. }) => false,
        Err(error) => panic!("{mutant:?}: {error}"),
    }
}

/// Every change of every condition, operator and constant of a block is detected by the comparison with the core, or by
/// two NICs that exchange messages, except changes without an effect.
fn every_mutant_is_noticed(block: Block) {
    assert!(verilator(), "this test needs Verilator");
    let all = mutants(block);
    let mut wrong = Vec::new();
    for mutant in &all {
        let noticed = !survives(block, mutant, 60_000, 3).unwrap_or_else(|e| panic!("{mutant:?}: {e}"))
            || !nics_work(block, mutant);
        if noticed == is_equivalent(block, mutant) {
            eprintln!("noticed {noticed}: {block:?} {mutant:?}");
            wrong.push(*mutant);
        }
    }
    eprintln!("{block:?}: {} mutants", all.len());
    assert!(wrong.is_empty(), "{} of {} mutants: {wrong:?}", wrong.len(), all.len());
}

#[test]
#[ignore = "compiles about 130 models: several minutes"]
fn every_mutant_of_packetization_is_noticed() {
    every_mutant_is_noticed(Block::Packetization);
}

#[test]
#[ignore = "compiles about 120 models: several minutes"]
fn every_mutant_of_reassembly_is_noticed() {
    every_mutant_is_noticed(Block::Reassembly);
}

#[test]
#[ignore = "compiles about 30 models: a minute"]
fn every_mutant_of_the_generator_is_noticed() {
    every_mutant_is_noticed(Block::Generator);
}

/// Two NICs exchange messages of all lengths in both directions over a link that loses and trims frames, and their
/// payload arrives unchanged.
#[test]
fn two_nics_pass_messages() {
    if !verilator() {
        return;
    }
    let lossy = PairParameters { loss: 20, trim: 40, ..PairParameters::default() };
    let message = |n: u32| PairMessage { sender: n % 2, bytes: (n * 7_919) % 38_913 };
    let messages: Vec<PairMessage> = (0..150).map(message).collect();
    let mut pair = Pair::start(&rtl("ndp.p4"), lossy, None).unwrap_or_else(|e| panic!("{e}"));
    let delivered = pair.run(&messages).unwrap_or_else(|e| panic!("{e}"));
    let mut arrived: Vec<(u32, u32)> = delivered.iter().map(|message| (message.index, message.bytes)).collect();
    arrived.sort_unstable();
    let expected: Vec<(u32, u32)> = messages.iter().zip(0..).map(|(message, index)| (index, message.bytes)).collect();
    assert_eq!(arrived, expected);
    assert!(delivered.iter().any(|message| message.timeouts > 0), "frames were lost");
}

/// NICs with the other programs deliver messages, too. The programs `window` and Homa do not use trimming, so they need
/// the timeouts of packetization.
#[test]
fn every_program_passes_messages() {
    if !verilator() {
        return;
    }
    let programs = [("window.p4", 0, false), ("homa.p4", 0, true), ("homa-tr.p4", 40, true), ("hpcc.p4", 0, false)];
    for (name, trim, rtx_needs_credit) in programs {
        let parameters = PairParameters { loss: 10, trim, rtx_needs_credit, ..PairParameters::default() };
        let message = |n: u32| PairMessage { sender: n % 2, bytes: (n * 7_919) % 38_913 };
        let messages: Vec<PairMessage> = (0..60).map(message).collect();
        let mut pair = Pair::start(&rtl(name), parameters, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let delivered = pair.run(&messages).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut arrived: Vec<(u32, u32)> = delivered.iter().map(|message| (message.index, message.bytes)).collect();
        arrived.sort_unstable();
        let expected: Vec<(u32, u32)> = messages.iter().zip(0..).map(|(m, index)| (index, m.bytes)).collect();
        assert_eq!(arrived, expected, "{name}");
    }
}

/// Frames of 64 bytes and full frames pass at the rate of the link, and the latency is at most the paper's.
#[test]
fn a_nic_sends_at_line_rate() {
    if !verilator() {
        return;
    }
    let (latency, throughput) =
        measure(&rtl("ndp.p4"), PairParameters::default(), &[(0, 800), (1_024, 160), (5_120, 40)])
            .unwrap_or_else(|e| panic!("{e}"));
    // The paper's 7.2, 3.8 and 11 ns at 3.2 GHz.
    assert!(latency.rx <= 23 && latency.tx <= 12 && latency.round_trip <= 35, "{latency:?}");
    for row in &throughput {
        // Messages of several frames count from the first header on, when the link is not full.
        let least = if row.bytes > 1_024 { 195.0 } else { 198.0 };
        assert!((least..200.5).contains(&row.gbps), "{row:?}");
    }
}

/// Two programs of every kind fit a NIC.
#[test]
fn every_program_fits_a_nic() {
    for (name, words) in [("window.p4", 1), ("ndp.p4", 1), ("homa.p4", 1), ("homa-tr.p4", 1), ("hpcc.p4", 3)] {
        let rtl = rtl(name);
        assert!(rnic_hw::nanotransport::pair(&rtl, PairParameters::default()).is_ok(), "{name}");
        assert_eq!(header_words(&rtl), words, "{name}");
        let period = rnic_hw::nanotransport::period(&rtl);
        assert!(period <= 8 || words > 1, "{name}: a link of 200 Gbps has a frame of 64 bytes in 8.2 cycles");
    }
}

/// A Python interpreter that has cocotb, if there is one.
fn cocotb() -> Option<&'static str> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin/python");
    [own, "python3"].into_iter().find(|python| {
        let imported = Command::new(python).args(["-c", "import cocotb_tools.runner"]).output();
        imported.is_ok_and(|output| output.status.success())
    })
}

/// The files of an exported NIC pass the linter, with all nets declared, and the self-test of the board runs without a
/// fault. With cocotb, the exported tests pass, too.
#[test]
fn an_exported_nic_passes_its_tests() {
    let parameters = PairParameters { log_slots: 5, rtx_needs_credit: true, ..PairParameters::default() };
    let files = exported(&rtl("window.p4"), parameters).unwrap_or_else(|e| panic!("{e}"));
    let text = |path: &str| files.iter().find(|(name, _)| name == path).map_or("", |(_, text)| text.as_str());
    assert!(text("rtl/nt_nic_axis.v").contains("parameter LOG_SLOTS = 5,"));
    assert!(text("rtl/nt_nic.v").contains("parameter RTX_NEEDS_CREDIT = 1,"));
    assert!(text("rtl/p4_nic.v").contains("// hdr.window.flags, "), "wires lead back to the program");
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".v")) {
        assert!(text.contains("SPDX-License-Identifier") && text.contains("`default_nettype none"), "{path}");
        assert!(path.starts_with("boards/") || text_of_core(&files).contains(path.as_str()), "{path}");
    }
    let folder = tempfile::tempdir().unwrap();
    let count = export(&rtl("window.p4"), PairParameters::default(), folder.path()).unwrap();
    assert_eq!(count, files.len());
    if let Some(error) = [Tool::Verilator, Tool::Icarus, Tool::Vvp].into_iter().find_map(|tool| tool.find().err()) {
        eprintln!("skipped: {error}");
        return;
    }
    let run = |command: &mut Command| {
        let output = command.current_dir(folder.path()).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}");
        text
    };
    let linted = run(Command::new("make").arg("lint"));
    assert!(!linted.contains("warning"), "{linted}");
    self_test(folder.path());
    match cocotb() {
        Some(python) => _ = run(Command::new(python).arg("sim/test_nic.py")),
        None => eprintln!("skipped: cocotb is not installed (pip install cocotb)"),
    }
}

/// The tests of the blocks in Python pass.
#[test]
fn blocks_pass_their_tests_in_four_states() {
    let tools = [Tool::Icarus, Tool::Vvp].into_iter().find_map(|tool| tool.find().err());
    let (None, Some(python)) = (tools, cocotb()) else {
        eprintln!("skipped: Icarus Verilog or cocotb is not installed (apt-get install iverilog, pip install cocotb)");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hw/test_blocks.py");
    let output = Command::new(python).env("PYTHONDONTWRITEBYTECODE", "1").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn text_of_core(files: &[(String, String)]) -> &str {
    files.iter().find(|(name, _)| name == "rnic_nic.core").map_or("", |(_, text)| text)
}

/// Runs the self-test of the board with a simulator of four-state logic: messages arrive, and no LED shows a fault.
fn self_test(folder: &Path) {
    let bench = "module board;
        reg clk = 0;
        wire [7:0] led;
        integer arrived = 0, at;
        ulx3s_top #(.LOG_RATE(8)) top (.clk_25mhz(clk), .btn(7'd0), .led(led));
        reg before;
        initial begin
            for (at = 0; at < 6000; at = at + 1) begin
                before = led[0];
                #1 clk = 1;
                #1 clk = 0;
                if (at > 600 && (^led === 1'bx || led[3:1] !== 3'd0)) begin $display(\"led %b\", led); $finish(0); end
                if (before === ~led[0]) arrived = arrived + 1;
            end
            $display(\"arrived %0d\", arrived);
            $finish(0);
        end
    endmodule\n";
    std::fs::write(folder.join("board.v"), bench).unwrap();
    let mut command = Command::new("iverilog");
    command.args(["-g2005", "-s", "board", "-o", "board.vvp", "board.v", "boards/ulx3s/ulx3s_top.v"]);
    let mut rtl: Vec<_> = std::fs::read_dir(folder.join("rtl")).unwrap().map(|entry| entry.unwrap().path()).collect();
    rtl.sort();
    let output = command.args(rtl).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new("vvp").args(["-n", "board.vvp"]).current_dir(folder).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let arrived = printed.trim().strip_prefix("arrived ").and_then(|count| count.parse::<u32>().ok());
    assert!(arrived.is_some_and(|count| count > 10), "{printed}");
}

/// What does not fit a NIC in hardware is refused with numbers and positions.
#[test]
fn what_does_not_fit_a_nic_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/window.p4");
    let text = std::fs::read_to_string(path).unwrap();
    let call = "        rx_msg_info_t info = get_rx_msg_info({";
    let (before, after) = text.split_once(call).unwrap();
    let request = &after[..after.find("});").unwrap()];
    let twice = format!("{before}        get_rx_msg_info({{{request}}});\n{call}{after}");
    let main = SourceFile { name: "twice.p4".into(), text: twice };
    let program = rnic_nano::compile(main, &|_| None, &[]).unwrap_or_else(|e| panic!("{e}"));
    let rtl = generate(&program, 64).unwrap_or_else(|e| panic!("{e}"));
    let error = exported(&rtl, PairParameters::default()).unwrap_err().to_string();
    assert!(error.starts_with("the program calls get_rx_msg_info at 2 places that a packet may reach one"), "{error}");
    assert!(error.contains("(twice.p4:"), "{error}");
    // In branches that exclude each other, two places are possible.
    let branches = text.replace(
        "rx_msg_info_t info = get_rx_msg_info({",
        &format!("rx_msg_info_t info;\nif (arrival.marked) {{ info = get_rx_msg_info({{{request}}}); }} else {{ info = get_rx_msg_info({{"),
    );
    let (before, after) = branches.rsplit_once("get_rx_msg_info({").unwrap();
    let branches = format!("{before}get_rx_msg_info({{{}", after.replacen("});", "}); }", 1));
    let main = SourceFile { name: "branches.p4".into(), text: branches };
    let program = rnic_nano::compile(main, &|_| None, &[]).unwrap_or_else(|e| panic!("{e}"));
    let rtl = generate(&program, 64).unwrap_or_else(|e| panic!("{e}"));
    exported(&rtl, PairParameters::default()).unwrap_or_else(|e| panic!("{e}"));
}
