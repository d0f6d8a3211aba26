//! The objects that C programs make. Each has the structure that C sees, which begins it, and the state of this crate
//! ([`rnic_cabi::pointer`]). No object knows the functions that C calls: the tables of functions are arguments of the
//! functions that make objects. The modules use each other one way.

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

/// Objects whose C structure has the pointer of their context.
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

/// The address of an object as a number, which threads can share. It is compared, and returned to the program.
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
