//! What can be computed without simulating packets: fluid models of DCQCN and TIMELY, and the buffer thresholds of a switch.
//!
//! - [`buffers`]: headroom, pause and marking thresholds of a switch whose ports share a buffer;
//! - [`dcqcn`]: DCQCN's fluid model, its fixed point, and sweeps over its parameters;
//! - [`timely`]: TIMELY's fluid model and the patched one with its fixed point.
//!
//! Interfaces take bits per second, bytes and [`Time`](rnic_transport::Time); the equations count packets and seconds inside, as the papers
//! do. Exponentials come from the `libm` crate, so results are the same bits on every platform.

mod delay;
mod error;
mod numeric;

pub mod buffers;
pub mod dcqcn;
pub mod series;
pub mod timely;

pub use error::ModelError;
pub use numeric::{at_least_one, per_packet, per_second};
