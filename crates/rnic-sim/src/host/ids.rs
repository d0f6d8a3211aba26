//! Identifiers of flows, and of the slots that hold a flow's sending and receiving end on the hosts.

use serde::{Deserialize, Serialize};

/// The id of an item in a [`Slab`](super::slab::Slab): its index, which another item gets after this one is released.
pub(crate) trait Id: Copy + PartialEq {
    /// The id whose number (index) is `number`.
    fn new(number: usize) -> Self;
    /// The number of this id, an index.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) u32);

        impl Id for $name {
            #[inline(always)]
            fn new(number: usize) -> $name {
                $name(number as u32)
            }
            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// Id of a flow in the flow table. After a flow has retired, another flow takes its id. In contrast,
    /// [`FlowRecord::id`](rnic_spec::FlowRecord::id) is unique in a run.
    FlowId
}

id! {
    /// A slot (index) of a host for the sending end or the receiving end of a flow. After the flow, later flows use the
    /// same slot.
    EndSlot
}

impl FlowId {
    /// The value that stands for no flow.
    pub(crate) const NONE: FlowId = FlowId(u32::MAX);
}

impl EndSlot {
    /// The value that stands for no slot.
    pub(crate) const NONE: EndSlot = EndSlot(u32::MAX);
}
