//! The runtime environment of programs on a NIC: registers, schedulers, calls of the fixed-function blocks, and
//! tables.

mod control;
mod functions;
mod table;

pub use control::{Entry, Key, TableError, TableHandle};
pub(crate) use functions::{bind, bind_instances};
use rnic_transport::message::primitives::{DualPort, IfElseRaw, PriorityScheduler};
pub(crate) use table::Table;

/// A function or method of the NIC that a program calls. The index identifies the object among those of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// `get_rx_msg_info`
    GetRxMsgInfo,
    /// `delivered_event`
    Delivered,
    /// `credit_to_btx_event`
    CreditToBtx,
    /// `ctrl_pkt_event`
    CtrlPkt,
    /// `IfElseRaw.execute`
    IfElse(u16),
    /// `DualPort.read`
    Read(u16),
    /// `DualPort.write`
    Write(u16),
    /// `PriorityScheduler.schedule`
    Schedule(u16),
}

/// The runtime object of an extern instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// An array of registers with read-modify-write operations: `IfElseRaw`.
    IfElse {
        /// The object's index among the `IfElseRaw` objects.
        index: u16,
        /// Number of entries.
        size: u64,
        /// Width of an entry in bits, 1 to 64.
        width: u32,
    },
    /// An array of registers with a read port and a write port: `DualPort`.
    Dual {
        /// The object's index among the `DualPort` objects.
        index: u16,
        /// Number of entries.
        size: u64,
        /// Widths of the scalars of an entry in bits.
        widths: Vec<u32>,
    },
    /// A priority scheduler: `PriorityScheduler`.
    Scheduler {
        /// The object's index among the schedulers.
        index: u16,
    },
}

/// The registers of an `IfElseRaw`.
#[derive(Clone, Debug, Default)]
pub(crate) struct IfElseRegisters {
    pub(crate) cells: IfElseRaw,
    pub(crate) size: u64,
    /// A mask of an entry's bits.
    pub(crate) mask: u64,
}

/// The registers of a `DualPort`. An entry consists of consecutive words.
#[derive(Clone, Debug, Default)]
pub(crate) struct DualRegisters {
    pub(crate) cells: DualPort,
    pub(crate) size: u64,
    pub(crate) words: usize,
}

/// The state that a NIC keeps between packets, except its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) if_else: Vec<IfElseRegisters>,
    pub(crate) dual: Vec<DualRegisters>,
    pub(crate) schedulers: Vec<PriorityScheduler>,
    /// Number of accesses with an index beyond an array.
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
