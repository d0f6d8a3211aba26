//! Address handles.

use crate::abi::*;
use crate::objects::ah::{AddressHandle, attributes_of_sender};
use crate::objects::domain::Domain;
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::{object, set_errno, status};
use rnic_cabi::get;
use rnic_cabi::pointer::{Handle, In, Out};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_ah(pd: Handle<Domain>, attributes: In<ibv_ah_attr>) -> *mut ibv_ah {
    object(|| AddressHandle::create(pd, &attributes.read()).map(Handle::as_ptr))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_ah(ah: Handle<AddressHandle>) -> c_int {
    status(|| {
        // SAFETY: a domain exists as long as its address handles.
        let pd: Handle<Domain> = unsafe { Handle::new(get!(ah.pd)) };
        pd.state().remove_user();
        trace::line(format_args!("ibv_destroy_ah AH {}", get!(ah.handle)));
        // SAFETY: the program does not use the address handle afterwards.
        drop(unsafe { ah.destroy() });
        Ok(())
    })
}

/// Returns the attributes by which a program reaches the sender of a datagram. They are computed from the datagram's
/// completion and the 40 bytes before its data.
fn sender(port: u8, wc: In<ibv_wc>, grh: In<[u8; 40]>) -> Result<ibv_ah_attr, c_int> {
    let has_grh = wc.read().wc_flags & IBV_WC_GRH != 0;
    attributes_of_sender(&grh.read()).filter(|_| has_grh && port == 1).ok_or(libc::EINVAL)
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_init_ah_from_wc(
    _: *mut ibv_context, port: u8, wc: In<ibv_wc>, grh: In<[u8; 40]>, out: Out<ibv_ah_attr>,
) -> c_int {
    match sender(port, wc, grh) {
        Ok(attributes) => {
            out.write(attributes);
            0
        }
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_ah_from_wc(
    pd: Handle<Domain>, wc: In<ibv_wc>, grh: In<[u8; 40]>, port: u8,
) -> *mut ibv_ah {
    object(|| AddressHandle::create(pd, &sender(port, wc, grh)?).map(Handle::as_ptr))
}
