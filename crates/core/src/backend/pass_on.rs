//! A transport in front of another one: forwards the one-sided part of the contract.

/// The one-sided operations of a [`Backend`](crate::backend::Backend) that is in front of another
/// one, of the same ranks and segments: they go to the field `$inner`, after `self.$first(name)?`
/// if that is given.
///
/// For the inside of an `unsafe impl Backend`, whose author promises that the field is such a
/// transport, and that what the field reports is reported no sooner.
#[macro_export]
#[doc(hidden)]
macro_rules! pass_on_one_sided {
    ($inner:ident $(, $first:ident)?) => {
        $crate::pass_on_one_sided! { @each $inner, [$($first)?],
            fn put(put: $crate::backend::Put) -> ();
            fn get(get: $crate::backend::Get) -> ();
            fn put_nb(put: $crate::backend::Put) -> $crate::backend::OpId;
            fn get_nb(get: $crate::backend::Get) -> $crate::backend::OpId;
            fn put_fragments(fragments: &[$crate::backend::Put]) -> ();
            fn get_fragments(fragments: &[$crate::backend::Get]) -> ();
            fn put_strided(grid: $crate::backend::PutGrid<'_>) -> ();
            fn get_strided(grid: $crate::backend::GetGrid<'_>) -> ();
            fn put_signal(put: $crate::backend::Put, signal: $crate::backend::Atomic) -> ();
            fn atomic(atomic: $crate::backend::Atomic) -> ();
            fn fetch_atomic(atomic: $crate::backend::Atomic) -> u64;
            fn compare_swap(
                swap: $crate::backend::Atomic<$crate::backend::SwapCall>
            ) -> u64;
            fn fetch_atomic_nb(
                atomic: $crate::backend::Atomic,
                former: $crate::backend::Former
            ) -> $crate::backend::OpId;
            fn compare_swap_nb(
                swap: $crate::backend::Atomic<$crate::backend::SwapCall>,
                former: $crate::backend::Former
            ) -> $crate::backend::OpId;
        }
    };
    (@each $inner:ident, $first:tt, $(fn $name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)*) => {
        $($crate::pass_on_one_sided! { @one $inner, $first, $name, [$($arg: $ty),*], $result })*
    };
    (@one $inner:ident, [$($first:ident)?], $name:ident, [$($arg:ident: $ty:ty),*], $result:ty) => {
        fn $name(&self, $($arg: $ty),*) -> $crate::Result<$result> {
            $(self.$first(stringify!($name))?;)?
            self.$inner.$name($($arg),*)
        }
    };
}
