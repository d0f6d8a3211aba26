//! Writes the NIC of a P4 program with all files that build it: Verilog, FuseSoC core file, Makefile, tests, a board.

use super::program::{header_words, program};
use super::{FILES, PairParameters};
use crate::tools::HwError;
use rnic_nano::rtl::Rtl;
use std::fs;
use std::path::Path;

/// Files that are only for co-simulation with the core.
const BENCHES: [&str; 4] = ["nt_link.v", "nt_pair.v", "nt_block_bench.v", "nt_place.v"];

/// The files besides the Verilog of the NIC, as (path, text).
const OTHERS: [(&str, &str); 8] = [
    ("rtl/nt_nic_axis.v", include_str!("../../../../hw/nanotransport/nt_nic_axis.v")),
    ("boards/ulx3s/ulx3s_top.v", include_str!("../../../../hw/boards/ulx3s/ulx3s_top.v")),
    ("boards/ulx3s/ulx3s.lpf", include_str!("../../../../hw/boards/ulx3s/ulx3s.lpf")),
    ("sim/test_nic.py", include_str!("../../../../hw/export/test_nic.py")),
    ("Makefile", include_str!("../../../../hw/export/Makefile")),
    ("README.md", include_str!("../../../../hw/export/README.md")),
    ("LICENSE-MIT", include_str!("../../../../LICENSE-MIT")),
    ("LICENSE-APACHE", include_str!("../../../../LICENSE-APACHE")),
];

/// The files of the NIC with the program `rtl`, as (path in the folder, text), in the order of their paths.
///
/// # Errors
/// The program does not fit a NIC.
///
/// # Examples
/// ```
/// use rnic_hw::nanotransport::{PairParameters, exported};
/// use std::path::Path;
///
/// let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/window.p4");
/// let program = rnic_nano::compile_file(&path, &[])?;
/// let rtl = rnic_nano::rtl::generate(&program, 64)?;
/// let files = exported(&rtl, PairParameters::default())?;
/// assert!(files.iter().any(|(path, _)| path == "rtl/nt_nic_axis.v"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn exported(rtl: &Rtl, parameters: PairParameters) -> Result<Vec<(String, String)>, HwError> {
    let mut files: Vec<(String, String)> = FILES
        .iter()
        .filter(|(name, _)| !BENCHES.contains(name))
        .map(|(name, text)| (format!("rtl/{name}"), (*text).to_string()))
        .collect();
    files.push(("rtl/nt_program.v".into(), program(rtl)?));
    files.push(("rtl/p4_nic.v".into(), rtl.nic.clone()));
    files.extend(OTHERS.map(|(path, text)| (path.to_string(), text.to_string())));
    // The choices of the user become the defaults of the module.
    for (path, text) in &mut files {
        if matches!(path.as_str(), "rtl/nt_nic_axis.v" | "rtl/nt_nic.v") {
            *text = text
                .replace("parameter LOG_SLOTS = 4", &format!("parameter LOG_SLOTS = {}", parameters.log_slots))
                .replace("parameter HEADS = 1", &format!("parameter HEADS = {}", header_words(rtl)))
                .replace(
                    "parameter RTX_NEEDS_CREDIT = 0",
                    &format!("parameter RTX_NEEDS_CREDIT = {}", u8::from(parameters.rtx_needs_credit)),
                );
        }
    }
    files.sort();
    files.push(("rnic_nic.core".into(), core(&files)));
    Ok(files)
}

/// The FuseSoC core file (CAPI 2).
fn core(files: &[(String, String)]) -> String {
    let rtl = files.iter().filter(|(path, _)| path.starts_with("rtl/"));
    let list: String = rtl.map(|(path, _)| format!("      - {path}\n")).collect();
    format!(
        "CAPI=2:
# SPDX-License-Identifier: MIT OR Apache-2.0
name: rnic:nanotransport:nic:{version}
description: A NanoTransport NIC whose transport is a P4 program
filesets:
  rtl:
    files:
{list}    file_type: verilogSource
  ulx3s:
    files:
      - boards/ulx3s/ulx3s_top.v: {{file_type: verilogSource}}
      - boards/ulx3s/ulx3s.lpf: {{file_type: LPF}}
targets:
  default: &default
    filesets: [rtl]
    toplevel: nt_nic_axis
  lint:
    <<: *default
    default_tool: verilator
    tools:
      verilator:
        mode: lint-only
  sim:
    <<: *default
    default_tool: icarus
    tools:
      icarus:
        iverilog_options: [-g2005]
  ulx3s:
    filesets: [rtl, ulx3s]
    toplevel: ulx3s_top
    default_tool: trellis
    tools:
      trellis:
        nextpnr_options: [--85k, --package, CABGA381]
",
        version = env!("CARGO_PKG_VERSION")
    )
}

/// Writes the files of [`exported`] into a folder, which is made if it does not exist. Returns their number.
///
/// # Errors
/// The program does not fit a NIC; a file cannot be written.
pub fn export(rtl: &Rtl, parameters: PairParameters, folder: &Path) -> Result<usize, HwError> {
    let files = exported(rtl, parameters)?;
    for (name, text) in &files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(HwError::io(format!("cannot write `{}`", path.display())))?;
    }
    Ok(files.len())
}
