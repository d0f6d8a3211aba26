//! The objects that C programs make. Each object begins with the structure that the C program gets, followed by the
//! state of this crate ([`rnic_cabi::pointer`]). The objects do not depend on the functions that C calls: a function
//! that makes an object gets the table of these functions as an argument. The dependencies between the modules have no
//! cycles.

pub(crate) mod ah;
pub(crate) mod channel;
pub(crate) mod context;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod manager;
pub(crate) mod qp;
pub(crate) mod srq;
pub(crate) mod states;
pub(crate) mod window;
pub(crate) mod work;

use crate::abi::ibv_context;
use context::{Context, ContextState};
use rnic_cabi::pointer::{Handle, Object};

/// An object whose C structure contains the pointer to the object's context.
pub(crate) trait InContext {
    /// The pointer of the context.
    fn context_ptr(&self) -> *mut ibv_context;

    /// The state of the context.
    fn context(&self) -> &ContextState {
        // SAFETY: a context exists as long as its objects.
        let context: Handle<Context> = unsafe { Handle::new(self.context_ptr()) };
        // SAFETY: as above, so the state has the lifetime of the object.
        unsafe { &*std::ptr::from_ref(context.state()) }
    }
}

macro_rules! in_context {
    ($($object:ty),*) => {$(
        impl InContext for Handle<$object> {
            fn context_ptr(&self) -> *mut ibv_context {
                rnic_cabi::get!(self.context)
            }
        }
    )*};
}

in_context!(ah::AddressHandle, cq::Cq, domain::Domain, domain::Region, qp::Qp, srq::Srq, window::Window);

/// The address of an object as a number, which threads can share. The library only compares the address, and returns it
/// to the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(usize);

impl Address {
    pub(crate) fn of<T: Object>(object: Handle<T>) -> Address {
        Address(object.as_ptr().expose_provenance())
    }

    /// The pointer of the object, for C.
    pub(crate) fn as_ptr<T>(self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

impl std::fmt::LowerHex for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::LowerHex::fmt(&self.0, f)
    }
}
