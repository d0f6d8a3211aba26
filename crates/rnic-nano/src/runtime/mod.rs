//! What programs find in their NIC: registers, schedulers, the fixed blocks, tables.

mod control;
mod functions;
mod table;

pub use control::{Entry, Key, TableError, TableHandle};
pub(crate) use functions::{bind, bind_instances};
use rnic_transport::message::primitives::{DualPort, IfElseRaw, PriorityScheduler};
pub(crate) use table::Table;

/// What a call of an extern does. The numbers say on which object of its kind.
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

/// What an instance of the program is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Binding {
    /// Registers with an operation.
    IfElse {
        /// Its number among those.
        index: u16,
        /// Entries.
        size: u64,
        /// Bits of an entry, 1 to 64.
        width: u32,
    },
    /// Registers with two ports.
    Dual {
        /// Its number among those.
        index: u16,
        /// Entries.
        size: u64,
        /// Bits of the scalars of an entry.
        widths: Vec<u32>,
    },
    /// A scheduler.
    Scheduler {
        /// Its number among those.
        index: u16,
    },
}

/// Registers with an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct IfElseRegisters {
    pub(crate) cells: IfElseRaw,
    pub(crate) size: u64,
    /// Ones in the bits of an entry.
    pub(crate) mask: u64,
}

/// Registers with two ports. An entry is some words one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct DualRegisters {
    pub(crate) cells: DualPort,
    pub(crate) size: u64,
    pub(crate) words: usize,
}

/// What a NIC keeps between packets, but for tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) if_else: Vec<IfElseRegisters>,
    pub(crate) dual: Vec<DualRegisters>,
    pub(crate) schedulers: Vec<PriorityScheduler>,
    /// Accesses of registers beyond their sizes.
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
