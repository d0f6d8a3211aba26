//! IRN's packet logic in hardware: its four blocks, and the comparison of each with the transport core.
//!
//! The folder `hw/irn` has the blocks in Verilog. Each block has a fixed latency and accepts a step in every cycle, if
//! consecutive steps belong to different queue pairs. The blocks do not store the state of the queue pairs: the state
//! is an input of each step, and the new state is an output.
//!
//! Two logics exist for the sender ([`Logic`]). They differ in the recovery sequence, in the conclusions from a partial
//! acknowledgement, and in the time at which the timer's length is chosen; `docs/concepts/transports.md` has the
//! reasons.

mod check;
mod compare;
mod cost;
mod mutants;
mod published;
mod record;
mod sender;
mod trace;

pub use check::{Checked, Coverage, Trace, check};
pub use compare::{Comparison, compare_logics};
pub use cost::{Cost, LOG_QUEUE_PAIRS as COST_LOG_QUEUE_PAIRS, cost};
pub use mutants::{Mutant, mutants, survives};
pub use published::Published;

use crate::model::Design;
use crate::tools::HwError;
use rnic_transport::config::Timeouts;
use rnic_transport::transports::IRN_PIPELINE_CYCLES;
use rnic_transport::{FlowConfig, Time};

/// The source files in `hw/irn`, as (name, text).
pub const FILES: [(&str, &str); 9] = [
    ("irn_receive_data.v", include_str!("../../../../hw/irn/irn_receive_data.v")),
    ("irn_tx_free.v", include_str!("../../../../hw/irn/irn_tx_free.v")),
    ("irn_receive_ack.v", include_str!("../../../../hw/irn/irn_receive_ack.v")),
    ("irn_timeout.v", include_str!("../../../../hw/irn/irn_timeout.v")),
    ("irn_sender.v", include_str!("../../../../hw/irn/irn_sender.v")),
    ("irn_receiver.v", include_str!("../../../../hw/irn/irn_receiver.v")),
    ("irn_bits.v", include_str!("../../../../hw/irn/irn_bits.v")),
    ("irn_bench.v", include_str!("../../../../hw/irn/irn_bench.v")),
    ("irn_place.v", include_str!("../../../../hw/irn/irn_place.v")),
];

/// log2 of the number of queue pairs of a co-simulation.
const LOG_QUEUE_PAIRS: u32 = 6;

/// One of the four blocks, or the blocks of a sender or a receiver, with the contexts of many queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Block {
    /// The receiver's reaction to a data packet.
    ReceiveData,
    /// The sender's choice of the next packet.
    TxFree,
    /// The sender's reaction to an ACK or NACK.
    ReceiveAck,
    /// The sender's retransmission timer.
    Timeout,
    /// The senders of many queue pairs: a memory with their contexts, and the three blocks of a sender.
    Senders,
    /// The receivers of many queue pairs: a memory with their contexts, and receiveData.
    Receivers,
}

impl Block {
    /// All blocks, in the order of their numbers in the bench.
    pub const ALL: [Block; 6] =
        [Block::ReceiveData, Block::TxFree, Block::ReceiveAck, Block::Timeout, Block::Senders, Block::Receivers];
    /// The four blocks of the IRN paper.
    pub const PAPER: [Block; 4] = [Block::ReceiveData, Block::TxFree, Block::ReceiveAck, Block::Timeout];

    /// The name of the block in the IRN paper.
    pub const fn name(self) -> &'static str {
        match self {
            Block::ReceiveData => "receiveData",
            Block::TxFree => "txFree",
            Block::ReceiveAck => "receiveAck",
            Block::Timeout => "timeout",
            Block::Senders => "senders",
            Block::Receivers => "receivers",
        }
    }

    /// The name of the block's Verilog module.
    pub const fn module(self) -> &'static str {
        match self {
            Block::ReceiveData => "irn_receive_data",
            Block::TxFree => "irn_tx_free",
            Block::ReceiveAck => "irn_receive_ack",
            Block::Timeout => "irn_timeout",
            Block::Senders => "irn_sender",
            Block::Receivers => "irn_receiver",
        }
    }

    /// Cycles from a step to its result.
    pub const fn latency(self) -> u32 {
        match self {
            Block::ReceiveAck | Block::Timeout => 3,
            Block::ReceiveData | Block::TxFree => 5,
            Block::Senders | Block::Receivers => IRN_PIPELINE_CYCLES,
        }
    }

    /// Whether the block has the contexts of its queue pairs in a memory.
    pub const fn has_contexts(self) -> bool {
        matches!(self, Block::Senders | Block::Receivers)
    }
}

/// The logic of the sender's blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Logic {
    /// The logic of [`rnic_transport::recovery::Irn`].
    #[default]
    Core,
    /// The logic that the authors of IRN published.
    Published,
}

/// The parameters of the hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// BDP-FC's cap on packets in flight.
    pub cap: u32,
    /// The logic of the sender's blocks.
    pub logic: Logic,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { cap: 111, logic: Logic::Core }
    }
}

impl Parameters {
    /// The largest BDP cap of the hardware: its bitmaps are registers.
    pub const MAX_CAP: u32 = 4_096;

    /// Checks the range of the parameters.
    ///
    /// # Errors
    /// The BDP cap is 0 or above [`MAX_CAP`](Parameters::MAX_CAP).
    pub fn validate(self) -> Result<Parameters, HwError> {
        match self.cap {
            1..=Parameters::MAX_CAP => Ok(self),
            cap => {
                let max = Parameters::MAX_CAP;
                Err(HwError::Parameter(format!("the BDP cap {cap} is out of range; accepted: 1 to {max} packets")))
            }
        }
    }

    /// Bits of a bitmap: a power of two, at least 128, as in [`rnic_transport::bitmap::BitWindow`].
    pub const fn window(self) -> u32 {
        let bits = self.cap.next_power_of_two();
        if bits < 128 { 128 } else { bits }
    }

    /// Size of a queue pair's state in bits, as (sender, receiver).
    ///
    /// The sender has five PSNs of 24 bits, two flags, the start of the timer and a bitmap. The end of the send queue
    /// is not counted, because every NIC stores it. The core's logic also needs the departure time of a retransmission
    /// (32 bits), the published logic a flag for the length of the timer. The receiver has the expected PSN, the MSN
    /// and a bitmap with two bits per packet.
    pub const fn state_bits(self) -> (u32, u32) {
        let logic = match self.logic {
            Logic::Core => 32,
            Logic::Published => 1,
        };
        (5 * 24 + 2 + 32 + logic + self.window(), 2 * 24 + 2 * self.window())
    }

    /// The settings of the core with which it behaves exactly as the hardware: timeouts are not computed from measured
    /// RTTs, acknowledgements are selective, and every response restarts the timer.
    pub fn flow_config(self) -> FlowConfig {
        let timeouts = Timeouts { high: Time::from_us(320), low: Time::from_us(100), low_packets: 3, dynamic: None };
        FlowConfig { bdp_cap: self.cap, bdp: self.cap, timeouts: Some(timeouts), ..FlowConfig::default() }
    }

    /// The bench of a block.
    pub fn bench(self, block: Block) -> Design {
        self.in_bench("irn_bench", block, LOG_QUEUE_PAIRS)
    }

    /// The bench that places a block between registers, for place and route, with 2^`log_queue_pairs` queue pairs.
    pub fn place(self, block: Block, log_queue_pairs: u32) -> Design {
        self.in_bench("irn_place", block, log_queue_pairs)
    }

    fn in_bench(self, top: &'static str, block: Block, log_queue_pairs: u32) -> Design {
        let words = record::words(self);
        let parameters = vec![
            ("CAP", u64::from(self.cap)),
            ("PUBLISHED", u64::from(self.logic == Logic::Published)),
            ("BLOCK", block as u64),
            ("LOG_QPS", u64::from(log_queue_pairs)),
        ];
        Design { top, files: sources(), parameters, words: (words, words) }
    }

    /// The block without a bench. A block with contexts has 2^`log_queue_pairs` queue pairs.
    pub fn module(self, block: Block, log_queue_pairs: u32) -> Design {
        let published = ("PUBLISHED", u64::from(self.logic == Logic::Published));
        let queue_pairs = ("LOG_QPS", u64::from(log_queue_pairs));
        let cap = ("CAP", u64::from(self.cap));
        let parameters = match block {
            Block::ReceiveData => vec![cap],
            Block::TxFree | Block::ReceiveAck => vec![cap, published],
            Block::Timeout => vec![published],
            Block::Senders => vec![cap, published, queue_pairs],
            Block::Receivers => vec![cap, queue_pairs],
        };
        Design { top: block.module(), files: sources(), parameters, words: (0, 0) }
    }
}

/// The source files of all blocks.
fn sources() -> Vec<(String, String)> {
    FILES.map(|(name, text)| (name.to_string(), text.to_string())).to_vec()
}
