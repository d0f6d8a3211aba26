//! The state of IRN as a NIC in hardware keeps it: the registers of one queue pair. Co-simulation compares them with
//! the registers of the hardware after every step.

use super::{IrnReceiver, IrnSender};
use crate::bitmap::BitWindow;
use crate::pdu::Stamp;
use crate::{Psn, Time};

/// The registers of an IRN sender.
///
/// ```
/// use rnic_transport::recovery::{IrnSender, SendRecovery, StreamSender};
/// use rnic_transport::{FlowConfig, Psn, Time};
///
/// let cfg = FlowConfig::default();
/// let mut sender = IrnSender::new(&cfg, 0);
/// sender.extend(3);
/// sender.poll(&cfg, Time::from_us(1), u32::MAX);
/// let registers = sender.registers();
/// assert_eq!((registers.first_missing, registers.next), (Psn::new(0), Psn::new(1)));
/// assert_eq!((registers.timer_start, registers.sacked.count()), (Time::from_us(1), 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IrnSenderRegisters<'s> {
    /// First packet not acknowledged cumulatively.
    pub first_missing: Psn,
    /// First packet never sent.
    pub next: Psn,
    /// During recovery: every lost packet before this PSN has been retransmitted.
    pub retransmit_next: Psn,
    /// During recovery: the recovery sequence, whose cumulative acknowledgement ends the recovery.
    pub recover: Psn,
    /// During recovery: departure time of the retransmission that last set `recover`; before the first retransmission,
    /// the time at which the recovery began.
    pub recover_since: Stamp,
    /// Highest selectively acknowledged packet; valid only while a packet is selectively acknowledged.
    pub highest_sacked: Psn,
    /// Whether the sender is in recovery.
    pub in_recovery: bool,
    /// Whether to retransmit packet `first_missing` next, even if no selective acknowledgement proves its loss.
    pub retransmit_first: bool,
    /// Time at which the retransmission timer was last started.
    pub timer_start: Time,
    /// Selectively acknowledged packets.
    pub sacked: &'s BitWindow,
}

/// The registers of an IRN receiver.
#[derive(Clone, Copy, Debug)]
pub struct IrnReceiverRegisters<'s> {
    /// First packet that has not arrived.
    pub expected: Psn,
    /// Packets after packet `expected` that have arrived out of order.
    pub arrived: &'s BitWindow,
}

impl IrnSender {
    /// The state of the sender, without what only a flow of the simulator has (its length, measured round-trip times).
    pub fn registers(&self) -> IrnSenderRegisters<'_> {
        IrnSenderRegisters {
            first_missing: self.first_missing,
            next: self.next,
            retransmit_next: self.retransmit_next,
            recover: self.recover,
            recover_since: self.recover_since,
            highest_sacked: self.highest_sacked,
            in_recovery: self.in_recovery,
            retransmit_first: self.retransmit_first,
            timer_start: self.timer_start,
            sacked: &self.sacked,
        }
    }
}

impl IrnReceiver {
    /// The state of the receiver, without the length of the flow.
    pub fn registers(&self) -> IrnReceiverRegisters<'_> {
        IrnReceiverRegisters { expected: self.expected, arrived: &self.arrived }
    }
}
