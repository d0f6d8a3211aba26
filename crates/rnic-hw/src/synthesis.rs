//! The cost of a block on an FPGA: synthesis with Yosys for Xilinx UltraScale (the family of the IRN paper), and
//! synthesis, placement and routing for Lattice ECP5, which gives a clock frequency.

use crate::model::Design;
use crate::tools::{HwError, Tool, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The resources of a block on an UltraScale device, as Yosys maps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Xilinx {
    /// Lookup tables, including those that are used as shift registers or as memory.
    pub luts: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Carry chains of four bits.
    pub carries: u64,
    /// Block RAM in units of 18 Kb.
    pub block_rams: u64,
    /// Multipliers (DSP blocks).
    pub multipliers: u64,
}

/// The result of placing and routing a block on an ECP5 device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placed {
    /// Lookup tables of four inputs, including the lookup tables of carry chains and of memory.
    pub luts: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Block RAM in units of 18 Kb.
    pub block_rams: u64,
    /// Maximum clock frequency in MHz.
    pub mhz: f64,
}

/// Parameters of a Yosys run as the arguments of `hierarchy`.
fn parameters(design: &Design) -> String {
    design.parameters.iter().map(|(name, value)| format!(" -chparam {name} {value}")).collect()
}

/// Runs Yosys in `folder` with the files of a design, and returns the number of cells by type.
fn yosys(design: &Design, folder: &Path, synthesis: &str) -> Result<BTreeMap<String, u64>, HwError> {
    let program = Tool::Yosys.find()?;
    design.write(folder)?;
    let names: Vec<&str> = design.files.iter().map(|(name, _)| name.as_str()).collect();
    let script = format!(
        "read_verilog {}; hierarchy -top {}{}; {synthesis}; tee -q -o stat.json stat -json",
        names.join(" "),
        design.top,
        parameters(design)
    );
    run("yosys", Command::new(program).current_dir(folder).args(["-q", "-p", &script]))?;
    let path = folder.join("stat.json");
    let text = std::fs::read_to_string(&path).map_err(HwError::io("cannot read the statistics of yosys"))?;
    let unexpected = |what: &str| HwError::Failed { program: "yosys".into(), message: what.into() };
    let document: Value = serde_json::from_str(&text).map_err(|error| unexpected(&error.to_string()))?;
    let cells = document["design"]["num_cells_by_type"].as_object();
    let cells = cells.ok_or_else(|| unexpected("its statistics have no `num_cells_by_type`"))?;
    Ok(cells.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap_or_default())).collect())
}

fn folder() -> Result<tempfile::TempDir, HwError> {
    // nextpnr's WebAssembly build can access the working directory, but not the folder for temporary files.
    tempfile::tempdir().map_err(HwError::io("cannot make a temporary folder"))
}

/// The resources of a module on an UltraScale device (`synth_xilinx -family xcu`).
///
/// # Errors
/// Yosys is not installed, or refuses the Verilog.
pub fn xilinx(module: &Design) -> Result<Xilinx, HwError> {
    let folder = folder()?;
    let synthesis = format!("synth_xilinx -family xcu -flatten -noiopad -noclkbuf -top {}", module.top);
    let cells = yosys(module, folder.path(), &synthesis)?;
    let mut total = Xilinx::default();
    for (name, count) in cells {
        match name.as_str() {
            "FDRE" | "FDSE" | "FDCE" | "FDPE" => total.flip_flops += count,
            "CARRY4" => total.carries += count,
            "RAMB18E1" | "RAMB18E2" => total.block_rams += count,
            "RAMB36E1" | "RAMB36E2" => total.block_rams += 2 * count,
            "DSP48E1" | "DSP48E2" => total.multipliers += count,
            "SRL16E" | "SRLC32E" => total.luts += count,
            _ if name.starts_with("LUT") => total.luts += count,
            // A memory in LUTs: the cell name has its depth and ports, for example RAM32M (4 LUTs) or RAM64M8 (8 LUTs).
            "RAM32X1S" | "RAM64X1S" => total.luts += count,
            "RAM128X1S" | "RAM32X1D" | "RAM64X1D" => total.luts += 2 * count,
            "RAM32M" | "RAM64M" | "RAM128X1D" | "RAM256X1S" => total.luts += 4 * count,
            "RAM32M16" | "RAM64M8" | "RAM256X1D" | "RAM512X1S" => total.luts += 8 * count,
            _ => {}
        }
    }
    Ok(total)
}

/// Synthesises a module for ECP5, and places and routes it in `bench` on an LFE5U-85F of speed grade 6. The bench
/// surrounds the module with registers, so that every path begins and ends in a register; these are not counted.
///
/// # Errors
/// Yosys or nextpnr is not installed, or refuses the design.
pub fn ecp5(module: &Design, bench: &Design) -> Result<Placed, HwError> {
    let program = Tool::Nextpnr.find()?;
    let alone = folder()?;
    let cells = yosys(module, alone.path(), &format!("synth_ecp5 -top {}", module.top))?;
    let folder = folder()?;
    yosys(bench, folder.path(), &format!("synth_ecp5 -top {} -json netlist.json", bench.top))?;
    let mut command = Command::new(program);
    command.current_dir(folder.path());
    command.args(["--85k", "--package", "CABGA756", "--speed", "6", "--freq", "250", "--seed", "1", "-q"]);
    command.args(["--timing-allow-fail", "--json", "netlist.json", "--report", "report.json"]);
    run("nextpnr-ecp5", &mut command)?;
    let text = std::fs::read_to_string(folder.path().join("report.json"));
    let text = text.map_err(HwError::io("cannot read the report of nextpnr-ecp5"))?;
    let unexpected = |message: &str| HwError::Failed { program: "nextpnr-ecp5".into(), message: message.into() };
    let report: Value = serde_json::from_str(&text).map_err(|error| unexpected(&error.to_string()))?;
    let clocks = report["fmax"].as_object().ok_or_else(|| unexpected("its report has no `fmax`"))?;
    let achieved = clocks.values().filter_map(|clock| clock["achieved"].as_f64());
    let mhz = achieved.reduce(f64::min).ok_or_else(|| unexpected("its report has no clock"))?;
    let count = |name: &str| cells.get(name).copied().unwrap_or_default();
    Ok(Placed {
        luts: count("LUT4") + 2 * count("CCU2C") + 4 * count("TRELLIS_DPR16X4"),
        flip_flops: count("TRELLIS_FF"),
        block_rams: count("DP16KD"),
        mhz,
    })
}
