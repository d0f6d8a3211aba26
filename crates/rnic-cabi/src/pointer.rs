//! Typed pointers of C programs, so that the functions that a library exports need little `unsafe` code.
//!
//! C programs pass pointers, and the libraries must trust these pointers, as every implementation of libibverbs does.
//! The type of a typed pointer states the promise that the program makes for it: an exported function takes a
//! [`Handle`], an [`In`], an [`Out`] or an [`InOut`] instead of a raw pointer. A typed pointer has the same
//! representation in memory as a raw pointer. Only C programs, and code that is marked `unsafe`, can make a typed
//! pointer.
//!
//! | type | the program promises |
//! |---|---|
//! | [`Handle`] | the library has returned the pointer as an object of this kind, and the object is not destroyed before the call returns |
//! | [`In`] | the memory can be read, and nothing writes it during the call |
//! | [`Out`] | the memory can be written, and no other thread accesses it during the call |
//! | [`InOut`] | both |
//!
//! An object of a library begins with the structure that the C program gets, and continues with the library's state
//! ([`Object`]). C programs may write the structure at any time, so that no reference to it exists: the macros
//! [`get!`](crate::get) and [`set!`](crate::set) read and write its fields through the raw pointer. References exist to
//! the state only, which C programs do not access, and which threads share by locks and atomics.

/// A kind of object that a library makes: the structure that the C program gets, and the state of the library.
///
/// # Safety
/// The type has a field of the type `C` at `C_OFFSET`, and a field of the type `State` at `STATE_OFFSET`.
pub unsafe trait Object: Sized {
    /// The structure that C sees.
    type C;
    /// The state of the library.
    type State;
    /// Offset of the structure in bytes.
    const C_OFFSET: usize;
    /// Offset of the state in bytes.
    const STATE_OFFSET: usize;
}

/// Implements [`Object`] for a structure: `object!(Queue { c: ibv_cq, state: QueueState })`. A C structure that is
/// nested in the field `c` is named by its path: `object!(Context { c.context: ibv_context, state: ContextState })`.
#[macro_export]
macro_rules! object {
    ($object:ty { $($c:ident).+ : $type:ty, $($state:ident).+ : $state_type:ty }) => {
        // SAFETY: the compiler computes the offsets, and checks the types.
        unsafe impl $crate::pointer::Object for $object {
            type C = $type;
            type State = $state_type;
            const C_OFFSET: usize = ::std::mem::offset_of!($object, $($c).+);
            const STATE_OFFSET: usize = ::std::mem::offset_of!($object, $($state).+);
        }
        const _: fn(&$object) -> (&$type, &$state_type) = |object| (&object.$($c).+, &object.$($state).+);
    };
}

/// A pointer to an object that exists: the pointer that C programs have.
#[repr(transparent)]
pub struct Handle<T: Object>(*mut T::C);

impl<T: Object> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T: Object> Copy for Handle<T> {}

impl<T: Object> Handle<T> {
    /// Makes an object. It exists until [`Handle::destroy`].
    pub fn create(object: T) -> Handle<T> {
        Handle(Box::into_raw(Box::new(object)).wrapping_byte_add(T::C_OFFSET).cast())
    }

    /// # Safety
    /// The pointer is the pointer of an object of this kind, and the object is not destroyed as long as the handle, or
    /// a copy of it, is used.
    pub unsafe fn new(pointer: *mut T::C) -> Handle<T> {
        Handle(pointer)
    }

    /// As [`Handle::new`]; `None` if the pointer is null.
    ///
    /// # Safety
    /// As [`Handle::new`], unless the pointer is null.
    pub unsafe fn new_unless_null(pointer: *mut T::C) -> Option<Handle<T>> {
        (!pointer.is_null()).then_some(Handle(pointer))
    }

    /// The pointer for C.
    pub fn as_ptr(self) -> *mut T::C {
        self.0
    }

    /// The state of the library.
    pub fn state(&self) -> &T::State {
        // SAFETY: a handle points at an object that exists; the reference does not cover the structure that C may
        // write.
        unsafe { &*self.0.wrapping_byte_sub(T::C_OFFSET).wrapping_byte_add(T::STATE_OFFSET).cast() }
    }

    /// Destroys the object, and returns it.
    ///
    /// # Safety
    /// Neither a copy of the handle nor a reference to the state is used any more.
    pub unsafe fn destroy(self) -> Box<T> {
        // SAFETY: `create` made the object, and the caller promises that it is destroyed once.
        unsafe { Box::from_raw(self.0.wrapping_byte_sub(T::C_OFFSET).cast()) }
    }
}

/// Reads a field of the structure that C sees: `get!(handle.field)`.
#[macro_export]
macro_rules! get {
    ($handle:ident . $($field:tt).+) => {{
        let pointer = $handle.as_ptr();
        // SAFETY: the object, or the memory, exists and is readable: see `Handle`, `In` and `InOut`.
        unsafe { (&raw const (*pointer).$($field).+).read() }
    }};
}

/// Writes a field of the structure that C sees: `set!(handle.field = value)`.
#[macro_export]
macro_rules! set {
    ($handle:ident . $($field:tt).+ = $value:expr) => {{
        let (pointer, value) = ($handle.as_ptr(), $value);
        // SAFETY: the object, or the memory, exists and is writable: see `Handle`, `Out` and `InOut`.
        unsafe { (&raw mut (*pointer).$($field).+).write(value) }
    }};
}

macro_rules! memory_pointers {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name<T>(*mut T);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> $name<T> {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> $name<T> {
            /// # Safety
            /// The memory is valid as the [module](self) says, as long as the value, or a copy of it, is used.
            pub unsafe fn new(pointer: *mut T) -> $name<T> {
                $name(pointer)
            }

            /// The pointer.
            pub fn as_ptr(self) -> *mut T {
                self.0
            }

            /// `None` if the program has passed null.
            pub fn unless_null(self) -> Option<$name<T>> {
                (!self.0.is_null()).then_some(self)
            }
        }
    )*};
}

memory_pointers! {
    /// A pointer to memory of the program that an exported function reads.
    In,
    /// A pointer to memory of the program into which an exported function writes its result.
    Out,
    /// A pointer to memory of the program that an exported function reads and writes.
    InOut
}

impl<T: Copy> In<T> {
    /// Copies the value.
    pub fn read(self) -> T {
        // SAFETY: the memory is readable.
        unsafe { self.0.read() }
    }
}

impl<T> Out<T> {
    /// Writes the result.
    pub fn write(self, value: T) {
        // SAFETY: the memory is writable.
        unsafe { self.0.write(value) };
    }
}

impl<T: Copy> InOut<T> {
    /// Copies the value.
    pub fn read(self) -> T {
        // SAFETY: the memory is readable.
        unsafe { self.0.read() }
    }

    /// Writes a value.
    pub fn write(self, value: T) {
        // SAFETY: the memory is writable.
        unsafe { self.0.write(value) };
    }
}

impl<T> Out<T> {
    /// Writes the first `len` bytes of a structure, for programs whose version of the structure is shorter.
    ///
    /// # Safety
    /// The memory has `len` bytes; it may be shorter than `T`.
    pub unsafe fn write_prefix(self, value: &T, len: usize) {
        let len = len.min(size_of::<T>());
        // SAFETY: the caller promises the conditions of this function.
        unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), self.0.cast(), len) };
    }
}

/// An argument type of an exported function; C passes `C`.
///
/// # Safety
/// Functions with an argument of the type `Self` and of the type `C` have the same ABI.
pub unsafe trait Argument {
    /// The type that C passes.
    type C;
}

// SAFETY: a handle is a transparent wrapper of this pointer.
unsafe impl<T: Object> Argument for Handle<T> {
    type C = *mut T::C;
}
// SAFETY: as above.
unsafe impl<T> Argument for In<T> {
    type C = *mut T;
}
// SAFETY: as above.
unsafe impl<T> Argument for Out<T> {
    type C = *mut T;
}
// SAFETY: as above.
unsafe impl<T> Argument for InOut<T> {
    type C = *mut T;
}
// SAFETY: the same type.
unsafe impl<T> Argument for *mut T {
    type C = *mut T;
}
// SAFETY: the same type.
unsafe impl<T> Argument for *const T {
    type C = *const T;
}

macro_rules! same_types {
    ($($type:ty),*) => {$(
        // SAFETY: the same type.
        unsafe impl Argument for $type {
            type C = $type;
        }
    )*};
}

same_types!(u8, i32, u32, u64, usize);

/// A function for a table that C calls.
pub trait Exported {
    /// The type of the function in the table.
    type C;
    /// The function with raw pointers.
    fn exported(self) -> Self::C;
}

macro_rules! exported_functions {
    ($($($argument:ident)*;)*) => {$(
        impl<$($argument: Argument,)* Return> Exported for extern "C" fn($($argument),*) -> Return {
            type C = unsafe extern "C" fn($($argument::C),*) -> Return;

            fn exported(self) -> Self::C {
                // SAFETY: `Argument` promises that both types of functions have the same ABI. The function with raw
                // pointers is `unsafe`, so that its caller makes the promises of the typed pointers.
                unsafe { std::mem::transmute::<Self, Self::C>(self) }
            }
        }

        impl<$($argument: Argument,)* Return> Exported for unsafe extern "C" fn($($argument),*) -> Return {
            type C = unsafe extern "C" fn($($argument::C),*) -> Return;

            fn exported(self) -> Self::C {
                // SAFETY: as above.
                unsafe { std::mem::transmute::<Self, Self::C>(self) }
            }
        }
    )*};
}

exported_functions! {
    A;
    A B;
    A B D;
    A B D E;
    A B D E F;
    A B D E F G;
}

/// An entry of a table of functions for C: `exported!(resize, _, _)`, with a `_` for each argument;
/// `exported!(unsafe resize, _, _)` for a function whose caller has to promise more than the typed pointers do.
#[macro_export]
macro_rules! exported {
    (unsafe $function:path, $($argument:ty),*) => {
        Some($crate::pointer::Exported::exported($function as unsafe extern "C" fn($($argument),*) -> _))
    };
    ($function:path, $($argument:ty),*) => {
        Some($crate::pointer::Exported::exported($function as extern "C" fn($($argument),*) -> _))
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[repr(C)]
    struct Shown {
        number: u64,
        kind: u8,
    }

    #[repr(C)]
    struct Outer {
        before: u16,
        shown: Shown,
    }

    #[repr(C)]
    struct Whole {
        c: Outer,
        state: AtomicU32,
    }

    object!(Whole { c.shown: Shown, state: AtomicU32 });

    extern "C" fn double(whole: Handle<Whole>, out: Out<u64>) -> i32 {
        out.write(get!(whole.number) * 2);
        whole.state().fetch_add(1, Ordering::Relaxed) as i32
    }

    #[test]
    fn an_object_is_a_structure_for_c_and_a_state() {
        let c = Outer { before: 1, shown: Shown { number: 2, kind: 3 } };
        let whole = Handle::create(Whole { c, state: AtomicU32::new(4) });
        set!(whole.kind = 9);
        let table: Option<unsafe extern "C" fn(*mut Shown, *mut u64) -> i32> = exported!(double, _, _);
        let mut result = 0;
        // SAFETY: the object exists, and the result can be written.
        assert_eq!(unsafe { table.unwrap()(whole.as_ptr(), &raw mut result) }, 4);
        assert_eq!((result, get!(whole.kind)), (4, 9));
        // SAFETY: the handle is not used afterwards.
        let whole = unsafe { whole.destroy() };
        assert_eq!((whole.c.before, whole.c.shown.kind, whole.state.into_inner()), (1, 9, 5));
    }

    #[test]
    fn a_prefix_of_a_structure_is_written() {
        let mut bytes = [7_u8; 6];
        // SAFETY: the memory has six bytes.
        unsafe {
            Out::<u16>::new(bytes.as_mut_ptr().cast()).write_prefix(&0x0201, 1);
            assert_eq!(bytes, [1, 7, 7, 7, 7, 7]);
            Out::<[u8; 2]>::new(bytes.as_mut_ptr().cast()).write_prefix(&[1, 2], 6);
        }
        assert_eq!(bytes, [1, 2, 7, 7, 7, 7]);
    }
}
