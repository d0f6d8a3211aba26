//! Runs a bench in Icarus Verilog, which simulates four-state logic: a bit that was set neither by reset nor by an
//! input has the value X.

use crate::model::Design;
use crate::tools::{HwError, Tool, run};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// Cycles without a result after which a run is aborted.
const MAX_IDLE: u32 = 20_000;

/// Gives the bench one step per cycle, from the first cycle on, and returns the words of all results. `steps` contains
/// the words of all steps.
///
/// # Errors
/// Icarus Verilog is not installed or refuses the Verilog; `in_ready` or `out_valid` is X in some cycle, or a word of a
/// result contains X; a step has no result.
pub fn results(design: &Design, steps: &[u32]) -> Result<Vec<u32>, HwError> {
    let compiler = Tool::Icarus.find()?;
    let program = Tool::Vvp.find()?;
    let folder = tempfile::tempdir().map_err(HwError::io("cannot make a temporary folder"))?;
    let files = design.write(folder.path())?;
    let count = steps.len() / design.words.0;
    let written = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(HwError::io("cannot write into a temporary folder")).map(|()| path)
    };
    let driver = written("icarus_driver.v", driver(design, count))?;
    let line =
        |words: &[u32]| words.iter().rev().fold(String::new(), |line, word| line + &format!("{word:08x}")) + "\n";
    written("steps.hex", steps.chunks_exact(design.words.0).map(line).collect())?;
    let compiled = folder.path().join("bench.vvp");
    let mut command = Command::new(compiler);
    command.args(["-g2005", "-s", "icarus_driver", "-o"]).arg(&compiled).arg(driver).args(files);
    run("iverilog", command.current_dir(folder.path()))?;
    let printed = run("vvp", Command::new(program).arg("-n").arg(&compiled).current_dir(folder.path()))?;
    let differs = |what: String| HwError::Differs(format!("{} in Icarus Verilog: {what}", design.top));
    let mut words = Vec::with_capacity(count * design.words.1);
    for (index, line) in printed.lines().enumerate() {
        let Some(digits) = line.strip_prefix("result ") else { return Err(differs(line.to_string())) };
        let digits = digits.trim();
        let word = |at: usize| {
            let end = digits.len().checked_sub(8 * at)?;
            u32::from_str_radix(digits.get(end.checked_sub(8)?..end)?, 16).ok()
        };
        let result: Option<Vec<u32>> = (0..design.words.1).map(word).collect();
        words.extend(result.ok_or_else(|| differs(format!("result {index} contains X: {digits}")))?);
    }
    Ok(words)
}

/// The module that drives a bench of `count` steps.
fn driver(design: &Design, count: usize) -> String {
    let (words_in, words_out) = design.words;
    let mut text = String::new();
    let parameters: Vec<String> = design.parameters.iter().map(|(name, value)| format!(".{name}({value})")).collect();
    let _ = write!(
        text,
        "`default_nettype none
module icarus_driver;
    reg clk;
    reg [{high_in}:0] steps [0:{last}];
    reg [{high_in}:0] in;
    reg in_valid;
    wire in_ready, out_valid;
    wire [{high_out}:0] out;
    integer given, received, idle;
    {top} #({parameters}) bench (.clk(clk), .in_valid(in_valid), .in_ready(in_ready), .in(in), .out_valid(out_valid), .out(out));
    initial begin
        $readmemh(\"steps.hex\", steps);
        clk = 0;
        given = 0;
        received = 0;
        idle = 0;
        in_valid = 0;
        in = 0;
        // The reset of a bench lasts for one cycle.
        #2 clk = 1;
        #2 clk = 0;
        while (received < {count}) begin
            in_valid = given < {count};
            if (given < {count})
                in = steps[given];
            #1;
            if (in_ready === 1'bx || out_valid === 1'bx) begin
                $display(\"in_ready is %b and out_valid is %b after %0d steps\", in_ready, out_valid, given);
                $finish(0);
                received = {count};
            end
            if (in_valid && in_ready)
                given = given + 1;
            #1 clk = 1;
            #1;
            idle = idle + 1;
            if (out_valid === 1'b1 && received < {count}) begin
                $display(\"result %h\", out);
                received = received + 1;
                idle = 0;
            end
            if (idle > {MAX_IDLE}) begin
                $display(\"no result for {MAX_IDLE} cycles after %0d results\", received);
                received = {count};
            end
            #1 clk = 0;
        end
        $finish(0);
    end
endmodule
",
        high_in = 32 * words_in - 1,
        high_out = 32 * words_out - 1,
        last = count.max(1) - 1,
        top = design.top,
        parameters = parameters.join(", "),
    );
    text
}
