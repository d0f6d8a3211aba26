//! The cost of IRN's blocks on an FPGA, as a table.

use super::{Block, Parameters};
use crate::synthesis::{Placed, Xilinx, ecp5, xilinx};
use crate::tools::HwError;

/// log2 of the number of queue pairs (1,024) whose contexts the cost includes.
pub const LOG_QUEUE_PAIRS: u32 = 10;

/// The cost of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// The block.
    pub block: Block,
    /// Resources on an UltraScale device.
    pub xilinx: Xilinx,
    /// Resources and frequency on an ECP5; `None` if this was not asked for.
    pub ecp5: Option<Placed>,
}

/// Synthesises a block, and with `place` also places and routes it, which takes a minute or more.
///
/// # Errors
/// Yosys or nextpnr is not installed or fails.
pub fn cost(parameters: Parameters, block: Block, place: bool) -> Result<Cost, HwError> {
    let module = parameters.module(block, LOG_QUEUE_PAIRS);
    let ecp5 = if place { Some(ecp5(&module, &parameters.place(block, LOG_QUEUE_PAIRS))?) } else { None };
    Ok(Cost { block, xilinx: xilinx(&module)?, ecp5 })
}
