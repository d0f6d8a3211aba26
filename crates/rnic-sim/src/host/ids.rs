//! Identifiers of flows and of the slots of their ends.

/// The number of an item in a [`Slab`](super::slab::Slab).
pub(crate) trait Id: Copy + PartialEq {
    /// The id with this number.
    fn new(number: usize) -> Self;
    /// Its number.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
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
    /// A flow of the flow table. After a flow has retired, another flow takes its id;
    /// [`FlowRecord::id`](rnic_run::FlowRecord::id) is unique in a run.
    FlowId
}

id! {
    /// A slot of a host that holds the sending end or the receiving end of a flow. Later flows use the slot again.
    EndSlot
}

impl FlowId {
    /// No flow.
    pub(crate) const NONE: FlowId = FlowId(u32::MAX);
}

impl EndSlot {
    /// No slot.
    pub(crate) const NONE: EndSlot = EndSlot(u32::MAX);
}
