//! The runtime environment of P4 programs on a NIC: registers, schedulers, match-action tables, and the functions of
//! the NIC's fixed-function blocks.

mod control;
mod functions;
mod table;

pub use control::{Entry, Key, TableError, TableHandle};
pub(crate) use functions::{bind, bind_instances};
use rnic_transport::message::primitives::{DualPort, IfElseRaw, Pairs, PriorityScheduler};
pub(crate) use table::Table;

/// A function or method of the NIC that a program calls. For a method, the number is the index of the object among the
/// objects of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// `get_rx_msg_info`: finds the message of an arriving packet.
    GetRxMsgInfo,
    /// `delivered_event`: marks packets of a sent message as delivered.
    Delivered,
    /// `credit_to_btx_event`: allows the NIC to send packets of a message.
    CreditToBtx,
    /// `credit_to_btx_bitmap_event`: allows the NIC to send packets of a message, several of them retransmissions.
    CreditToBtxBitmap,
    /// `ctrl_pkt_event`: sends a control packet.
    CtrlPkt,
    /// `IfElseRaw.execute`: executes one of two operations on a register.
    IfElse(u16),
    /// `IfElseRaw.compare`: executes one of two operations on a register, which a comparison of the register selects.
    Compare(u16),
    /// `Pairs.execute`: executes one of two operations on each of two registers.
    Pair(u16),
    /// `DualPort.read`: reads an entry of an array.
    Read(u16),
    /// `DualPort.write`: writes an entry of an array.
    Write(u16),
    /// `PriorityScheduler.schedule`: updates a message in the scheduler and selects a message to be granted.
    Schedule(u16),
}

/// The runtime object that belongs to an extern object of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// An array of registers with predicated read-modify-write operations: `IfElseRaw`.
    IfElse {
        /// The index of the object among all `IfElseRaw` objects of the program.
        index: u16,
        /// Number of entries of the array.
        size: u64,
        /// Width of each entry in bits, 1 to 64.
        width: u32,
    },
    /// An array of pairs of registers with read-modify-write operations: `Pairs`.
    Pairs {
        /// The index of the object among all `Pairs` objects of the program.
        index: u16,
        /// Number of pairs.
        size: u64,
        /// Width of each register in bits, 1 to 64.
        width: u32,
    },
    /// An array with a read port and a write port: `DualPort`.
    Dual {
        /// The index of the object among all `DualPort` objects of the program.
        index: u16,
        /// Number of entries of the array.
        size: u64,
        /// Widths in bits of the scalars that form an entry, in order.
        widths: Vec<u32>,
    },
    /// A priority scheduler: `PriorityScheduler`.
    Scheduler {
        /// The index of the object among all schedulers of the program.
        index: u16,
    },
}

/// The array of registers of an `IfElseRaw` object.
#[derive(Clone, Debug, Default)]
pub(crate) struct IfElseRegisters {
    pub(crate) cells: IfElseRaw,
    pub(crate) size: u64,
    /// The mask of the bits of an entry: its lowest bits are 1, one for each bit of the entry's width.
    pub(crate) mask: u64,
}

/// The registers of a `Pairs` object.
#[derive(Clone, Debug, Default)]
pub(crate) struct PairRegisters {
    pub(crate) cells: Pairs,
    pub(crate) size: u64,
    /// The mask of the bits of a register.
    pub(crate) mask: u64,
}

/// The registers of a `DualPort` object. An entry occupies consecutive 64-bit words.
#[derive(Clone, Debug, Default)]
pub(crate) struct DualRegisters {
    pub(crate) cells: DualPort,
    pub(crate) size: u64,
    pub(crate) words: usize,
}

/// The state that a program on one NIC keeps between packets, except the entries of its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) if_else: Vec<IfElseRegisters>,
    pub(crate) dual: Vec<DualRegisters>,
    pub(crate) pairs: Vec<PairRegisters>,
    pub(crate) schedulers: Vec<PriorityScheduler>,
    /// Number of register accesses with an index beyond the end of the array.
    pub(crate) beyond: u64,
}

impl State {
    pub(crate) fn new(bindings: &[Binding]) -> State {
        let mut state = State::default();
        for binding in bindings {
            match binding {
                Binding::IfElse { size, width, .. } => {
                    let mask = u64::MAX >> (64 - width);
                    state.if_else.push(IfElseRegisters { cells: IfElseRaw::default(), size: *size, mask });
                }
                Binding::Pairs { size, width, .. } => {
                    let mask = u64::MAX >> (64 - width);
                    state.pairs.push(PairRegisters { cells: Pairs::default(), size: *size, mask });
                }
                Binding::Dual { size, widths, .. } => {
                    let words = widths.iter().map(|width| width.div_ceil(64) as usize).sum();
                    state.dual.push(DualRegisters { cells: DualPort::default(), size: *size, words });
                }
                Binding::Scheduler { .. } => state.schedulers.push(PriorityScheduler::default()),
            }
        }
        state
    }
}
