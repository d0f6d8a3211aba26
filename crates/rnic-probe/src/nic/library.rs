//! The functions of `libibverbs.so.1`, by name.

use libc::{c_char, c_int, c_uint, c_void, size_t};
use rnic_cabi::verbs::*;

/// Name of the library.
const NAME: &str = "libibverbs.so.1";

/// Declares the struct `Functions`, and loads each function by name.
macro_rules! functions {
    ($($field:ident = $symbol:literal: $kind:ty;)*) => {
        /// Functions of the library. The library is not unloaded until the process ends.
        #[derive(Clone, Copy)]
        pub(super) struct Functions {
            $(pub(super) $field: $kind,)*
            /// Absent in libraries before rdma-core 32.
            pub(super) query_gid_ex: Option<QueryGidEx>,
        }

        impl Functions {
            fn of(library: &libloading::Library) -> Result<Functions, String> {
                // SAFETY: the functions have the types of the header `infiniband/verbs.h`.
                unsafe {
                    Ok(Functions {
                        $($field: *library.get::<$kind>($symbol).map_err(|error| format!("{NAME}: {error}"))?,)*
                        query_gid_ex: library.get::<QueryGidEx>("_ibv_query_gid_ex").ok().map(|function| *function),
                    })
                }
            }
        }
    };
}

type QueryGidEx = unsafe extern "C" fn(*mut ibv_context, u32, u32, *mut ibv_gid_entry, u32, size_t) -> c_int;

functions! {
    get_device_list = "ibv_get_device_list": unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device;
    free_device_list = "ibv_free_device_list": unsafe extern "C" fn(*mut *mut ibv_device);
    get_device_name = "ibv_get_device_name": unsafe extern "C" fn(*mut ibv_device) -> *const c_char;
    open_device = "ibv_open_device": unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
    close_device = "ibv_close_device": unsafe extern "C" fn(*mut ibv_context) -> c_int;
    query_port = "ibv_query_port": unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    query_gid = "ibv_query_gid": unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    alloc_pd = "ibv_alloc_pd": unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd;
    dealloc_pd = "ibv_dealloc_pd": unsafe extern "C" fn(*mut ibv_pd) -> c_int;
    reg_mr = "ibv_reg_mr": unsafe extern "C" fn(*mut ibv_pd, *mut c_void, size_t, c_int) -> *mut ibv_mr;
    dereg_mr = "ibv_dereg_mr": unsafe extern "C" fn(*mut ibv_mr) -> c_int;
    create_comp_channel = "ibv_create_comp_channel": unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel;
    destroy_comp_channel = "ibv_destroy_comp_channel": unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int;
    create_cq = "ibv_create_cq":
        unsafe extern "C" fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    destroy_cq = "ibv_destroy_cq": unsafe extern "C" fn(*mut ibv_cq) -> c_int;
    get_cq_event = "ibv_get_cq_event":
        unsafe extern "C" fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events = "ibv_ack_cq_events": unsafe extern "C" fn(*mut ibv_cq, c_uint);
    create_qp = "ibv_create_qp": unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp = "ibv_modify_qp": unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    destroy_qp = "ibv_destroy_qp": unsafe extern "C" fn(*mut ibv_qp) -> c_int;
    create_srq = "ibv_create_srq": unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    destroy_srq = "ibv_destroy_srq": unsafe extern "C" fn(*mut ibv_srq) -> c_int;
    create_ah = "ibv_create_ah": unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    destroy_ah = "ibv_destroy_ah": unsafe extern "C" fn(*mut ibv_ah) -> c_int;
}

impl Functions {
    /// Loads the library.
    ///
    /// # Errors
    /// Returns a sentence if the library is not installed, or lacks a function.
    pub(super) fn load() -> Result<Functions, String> {
        // SAFETY: the initialisation of libibverbs changes only its own state; it loads its providers later.
        let library = unsafe { libloading::Library::new(NAME) };
        let library = library.map_err(|error| format!("{NAME} is not there: {error}"))?;
        let functions = Functions::of(&library)?;
        // Providers start threads and register handlers, so libibverbs must not be unloaded.
        std::mem::forget(library);
        Ok(functions)
    }
}
