//! One transport in front of another: the one-sided part of the contract, passed on.

/// The one-sided operations of a [`Backend`](crate::backend::Backend) that is in front of another
/// one, of the same ranks and segments: they go to the field `$inner`, after `self.$first(name)?`
/// if that is given.
///
/// For the inside of an `unsafe impl Backend`, whose author promises that the field is such a
/// transport.
#[macro_export]
#[doc(hidden)]
macro_rules! pass_on_one_sided {
    ($inner:ident $(, $first:ident)?) => {
        $crate::pass_on_one_sided! { @each $inner, [$($first)?],
            fn put(dst: $crate::backend::RemoteAddr, src: *const u8, len: usize) -> ();
            fn get(src: $crate::backend::RemoteAddr, dst: *mut u8, len: usize) -> ();
            fn put_nb(dst: $crate::backend::RemoteAddr, src: *const u8, len: usize)
                -> $crate::backend::OpId;
            fn get_nb(src: $crate::backend::RemoteAddr, dst: *mut u8, len: usize)
                -> $crate::backend::OpId;
            fn put_fragments(fragments: &[$crate::backend::PutFragment]) -> ();
            fn get_fragments(fragments: &[$crate::backend::GetFragment]) -> ();
            fn put_strided(
                dst: $crate::backend::RemoteAddr,
                src: *const u8,
                shape: &$crate::backend::Shape
            ) -> ();
            fn get_strided(
                src: $crate::backend::RemoteAddr,
                dst: *mut u8,
                shape: &$crate::backend::Shape
            ) -> ();
            fn put_signal(
                dst: $crate::backend::RemoteAddr,
                src: *const u8,
                len: usize,
                signal: $crate::backend::RemoteAddr,
                update: $crate::backend::SignalUpdate
            ) -> ();
            fn atomic(target: $crate::backend::RemoteAddr, call: $crate::backend::AtomicCall) -> ();
            fn fetch_atomic(
                target: $crate::backend::RemoteAddr,
                call: $crate::backend::AtomicCall
            ) -> u64;
            fn compare_swap(
                target: $crate::backend::RemoteAddr,
                call: $crate::backend::SwapCall
            ) -> u64;
            fn fetch_atomic_nb(
                target: $crate::backend::RemoteAddr,
                call: $crate::backend::AtomicCall,
                result: *mut u64
            ) -> $crate::backend::OpId;
            fn compare_swap_nb(
                target: $crate::backend::RemoteAddr,
                call: $crate::backend::SwapCall,
                result: *mut u64
            ) -> $crate::backend::OpId;
        }
    };
    (@each $inner:ident, $first:tt, $(fn $name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*) => {
        $($crate::pass_on_one_sided! { @one $inner, $first, $name, [$($arg: $ty),*], $result })*
    };
    (@one $inner:ident, [$($first:ident)?], $name:ident, [$($arg:ident: $ty:ty),*], $result:ty) => {
        unsafe fn $name(&self, $($arg: $ty),*) -> $crate::Result<$result> {
            $(self.$first(stringify!($name))?;)?
            // SAFETY: this is the same method of the same contract, and gets the arguments of which
            // the caller promises what the contract asks. They mean the same there: the field is a
            // transport of the same ranks, with the same segments. What has to last until an
            // operation is reported does so, since its id is the field's, and whoever implements
            // this contract reports it no sooner than the field.
            unsafe { self.$inner.$name($($arg),*) }
        }
    };
}
