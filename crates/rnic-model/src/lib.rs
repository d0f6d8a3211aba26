//! Analytical models, which need no simulation of packets: fluid models of DCQCN and TIMELY, and the buffer thresholds
//! of a switch.
//!
//! - [`buffers`]: headroom, pause thresholds and marking thresholds of a switch with a shared buffer;
//! - [`port_rates`]: the same of a configured switch whose ports have several rates;
//! - [`dcqcn`]: the fluid model of DCQCN and its fixed point;
//! - [`timely`]: the fluid models of TIMELY and of patched TIMELY, and the fixed point of patched TIMELY.
//!
//! The interfaces take bits per second, bytes and [`Time`](rnic_transport::Time). The equations of DCQCN use packets
//! and seconds, and the equations of TIMELY use bytes and seconds. Exponentials come from the `libm` crate, so results
//! are bit-identical on every platform.
//!
//! ```
//! use rnic_model::dcqcn::Dcqcn;
//! use rnic_transport::BitRate;
//!
//! // Eight flows with the paper's parameters share a link of 40 Gbps.
//! let point = Dcqcn::deployed(BitRate::from_gbps(40)).fixed_point(8)?;
//! assert!(point.is_valid());
//! assert_eq!(point.rate, 5e9, "an equal share, in bits per second");
//! assert!((5_000.0..200_000.0).contains(&point.queue), "between Kmin and Kmax, in bytes");
//! # Ok::<(), rnic_model::ModelError>(())
//! ```

mod delay;
mod error;
mod numeric;

pub mod buffers;
pub mod dcqcn;
pub mod port_rates;
pub mod series;
pub mod timely;

pub use error::ModelError;
pub use numeric::{at_least_one, per_packet, per_second};
