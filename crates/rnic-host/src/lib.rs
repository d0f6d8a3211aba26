//! Transports in host software above the verbs of an RDMA NIC: congestion control, and the loss recovery that the NIC
//! lacks. The crate uses neither sockets nor clocks nor threads.
//!
//! ```text
//!   application:   post_send, post_recv           poll
//!                        |                          ^
//!   channel:       requests -> chunks -> pacing     completions, in order of posting
//!                        |       ^                  ^
//!                        |       | recovery         | round-trip times
//!   NIC (Verbs):   post_send, set_rate, modify_qp   poll_cq
//! ```
//!
//! There are two kinds of channel. Both have the same functions: the application posts requests, calls `progress` when
//! completions of the NIC may have arrived and at `next_time`, and polls its own completions. The NIC is an argument
//! `&mut dyn` [`Verbs`](rnic_verbs::Verbs), so the same code runs above the state machine in virtual time, above a
//! simulated NIC and above sockets.
//!
//! | channel | queue pairs | loss recovery | operations |
//! |---|---|---|---|
//! | [`rogue::Channel`] | two reliable connections | the NIC's; when it fails, the other one takes over | all |
//! | [`rogue::Channel`] over UC | two unreliable connections | in software, by the other one | Write, with Immediate |
//! | [`multipath::Channel`] | 1 to 256 unreliable ones in each direction | in software | Send, Write, with Immediate |
//!
//! Both have one more unreliable connection for messages between the two layers, because such a queue pair cannot fail
//! by loss.
//!
//! | module | contents |
//! |---|---|
//! | [`rogue`] | RoGUE: chunks, pacing, recovery by a shadow queue pair, the rules of what may be replayed |
//! | [`multipath`] | chunks over many paths; eight hooks ([`multipath::Hooks`]) for a transport of one's own |
//! | `rtt` | round-trip times from completion timestamps: [`Departures`] |
//! | `control` | congestion controls by name: [`Control`]; what a channel may have outstanding: [`Allowance`] |
//! | `chunk` | slices of a request's memory; lengths on the wire: [`Frames`] |
//! | `link` | connects queue pairs: [`Link`] |
//! | `mailbox`, `objects` | the control queue pair; the NIC's objects of a channel |
//! | [`trace`] | records and replays what a channel asks of its NIC |
//! | [`record`] | a channel with all that it was given, which can be replayed |
//! | `error` | [`HostError`], and why a channel ended: [`Failure`] |
//!
//! What the sources of RoGUE do not state is a reconstruction; the page `docs/concepts/host-transports.md` names each
//! choice and its alternatives.
#![forbid(unsafe_code)]

mod chunk;
mod control;
mod error;
mod link;
mod mailbox;
pub mod multipath;
mod objects;
pub mod record;
pub mod rogue;
mod rtt;
pub mod trace;

pub use chunk::Frames;
pub use control::{Allowance, Control};
pub use error::{Failure, HostError};
pub use link::Link;
pub use rtt::{Departure, Departures};
