//! Macros for a transport that wraps another one: they forward the one-sided part of the contract,
//! and other methods by name.

/// The one-sided operations of a [`Backend`](crate::backend::Backend) that wraps another one, of
/// the same ranks and segments. They call the field `$inner`, after `self.$first(name)?` if that is
/// given.
///
/// For use in an `unsafe impl Backend`, whose author promises that the field is such a transport,
/// and that the wrapper reports an operation no sooner than the field does.
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

/// Methods of a [`Backend`](crate::backend::Backend) that wraps another one, as
/// [`pass_on_one_sided`]: the named ones call the field `$inner`.
#[macro_export]
#[doc(hidden)]
macro_rules! pass_on {
    ($inner:ident: $($name:ident),* $(,)?) => {
        $($crate::pass_on! { @method $name $inner })*
    };
    (@method rank $inner:ident) => {
        $crate::pass_on! { @one $inner, rank, [], $crate::Rank }
    };
    (@method n_ranks $inner:ident) => {
        $crate::pass_on! { @one $inner, n_ranks, [], u32 }
    };
    (@method capabilities $inner:ident) => {
        $crate::pass_on! { @one $inner, capabilities, [], &$crate::backend::Capabilities }
    };
    (@method segment_bytes $inner:ident) => {
        $crate::pass_on! { @one $inner, segment_bytes, [], u64 }
    };
    (@method mapped_ranks $inner:ident) => {
        $crate::pass_on! { @one $inner, mapped_ranks, [], ::std::ops::Range<u32> }
    };
    (@method mapped $inner:ident) => {
        $crate::pass_on! {
            @one $inner, mapped, [rank: $crate::Rank], ::std::option::Option<::std::ptr::NonNull<u8>>
        }
    };
    (@method board $inner:ident) => {
        $crate::pass_on! {
            @one $inner, board, [rank: $crate::Rank], ::std::option::Option<$crate::stats::Board>
        }
    };
    (@method mapped_stride $inner:ident) => {
        $crate::pass_on! { @one $inner, mapped_stride, [], ::std::option::Option<usize> }
    };
    (@method test $inner:ident) => {
        $crate::pass_on! {
            @one $inner, test,
            [op: $crate::backend::OpId, stage: $crate::backend::Stage], $crate::Result<bool>
        }
    };
    (@method flush $inner:ident) => {
        $crate::pass_on! { @one $inner, flush, [rank: $crate::Rank], $crate::Result<()> }
    };
    (@method flush_all $inner:ident) => {
        $crate::pass_on! { @one $inner, flush_all, [], $crate::Result<()> }
    };
    (@method barrier_begin $inner:ident) => {
        $crate::pass_on! {
            @one $inner, barrier_begin, [],
            $crate::Result<::std::option::Option<$crate::backend::BarrierTicket>>
        }
    };
    (@method barrier_test $inner:ident) => {
        $crate::pass_on! {
            @one $inner, barrier_test, [ticket: $crate::backend::BarrierTicket], $crate::Result<bool>
        }
    };
    (@method barrier_missing $inner:ident) => {
        $crate::pass_on! {
            @one $inner, barrier_missing,
            [ticket: $crate::backend::BarrierTicket], ::std::vec::Vec<$crate::Rank>
        }
    };
    (@method try_send $inner:ident) => {
        $crate::pass_on! {
            @one $inner, try_send,
            [
                to: $crate::Rank, class: $crate::backend::MessageClass,
                handler: $crate::backend::HandlerId, parts: &[&[u8]]
            ],
            $crate::Result<$crate::backend::Sent>
        }
    };
    (@method prepare $inner:ident) => {
        $crate::pass_on! {
            @one $inner, prepare, [to: $crate::Rank, len: usize],
            $crate::Result<$crate::backend::Offer<$crate::backend::Place>>
        }
    };
    (@method n_credits $inner:ident) => {
        $crate::pass_on! {
            @one $inner, n_credits,
            [to: $crate::Rank, class: $crate::backend::MessageClass], u64
        }
    };
    (@method poll $inner:ident) => {
        $crate::pass_on! {
            @one $inner, poll,
            [
                class: $crate::backend::MessageClass, limit: usize,
                sink: &mut dyn ::std::ops::FnMut($crate::backend::Message<'_>)
            ],
            $crate::Result<usize>
        }
    };
    (@method poll_all $inner:ident) => {
        $crate::pass_on! {
            @one $inner, poll_all,
            [
                with_requests: bool, limit: usize,
                sink: &mut dyn ::std::ops::FnMut($crate::backend::Message<'_>)
            ],
            $crate::Result<usize>
        }
    };
    (@method progress $inner:ident) => {
        $crate::pass_on! { @one $inner, progress, [], $crate::Result<bool> }
    };
    (@method progress_once $inner:ident) => {
        $crate::pass_on! { @one $inner, progress_once, [], $crate::Result<bool> }
    };
    (@method park $inner:ident) => {
        $crate::pass_on! { @one $inner, park, [at_most: ::std::time::Duration], () }
    };
    (@method notify $inner:ident) => {
        $crate::pass_on! { @one $inner, notify, [rank: $crate::Rank], () }
    };
    (@method ranks_per_processor $inner:ident) => {
        $crate::pass_on! { @one $inner, ranks_per_processor, [], u32 }
    };
    (@method health $inner:ident) => {
        $crate::pass_on! { @one $inner, health, [], $crate::Result<()> }
    };
    (@method has_left $inner:ident) => {
        $crate::pass_on! { @one $inner, has_left, [rank: $crate::Rank], bool }
    };
    (@method has_joined $inner:ident) => {
        $crate::pass_on! { @one $inner, has_joined, [rank: $crate::Rank], bool }
    };
    (@method blame $inner:ident) => {
        $crate::pass_on! { @one $inner, blame, [rank: $crate::Rank, cause: &str], $crate::Error }
    };
    (@method try_commit $inner:ident) => {
        unsafe fn try_commit(
            &self,
            to: $crate::Rank,
            class: $crate::backend::MessageClass,
            handler: $crate::backend::HandlerId,
            place: $crate::backend::Place,
            opening: &[u8],
        ) -> $crate::Result<$crate::backend::Sent> {
            // SAFETY: the caller promises that the place came from `prepare` for this rank and
            // belongs to the caller; the author of the list promises that `prepare` returns the
            // field's offers.
            unsafe { self.$inner.try_commit(to, class, handler, place, opening) }
        }
    };
    (@method give_back $inner:ident) => {
        unsafe fn give_back(&self, to: $crate::Rank, place: $crate::backend::Place) {
            // SAFETY: as for `try_commit`.
            unsafe { self.$inner.give_back(to, place) }
        }
    };
    (@method name $inner:ident) => {
        $crate::pass_on! { @one $inner, name, [], &'static str }
    };
    (@method abort $inner:ident) => {
        $crate::pass_on! { @one $inner, abort, [code: i32, message: &str], ! }
    };
    (@method leave $inner:ident) => {
        $crate::pass_on! {
            @one $inner, leave,
            [late: &mut dyn ::std::ops::FnMut($crate::backend::Message<'_>)],
            ()
        }
    };
    (@method discard $inner:ident) => {
        $crate::pass_on! { @one $inner, discard, [offset: u64, bytes: u64], bool }
    };
    (@one $inner:ident, $name:ident, [$($arg:ident: $ty:ty),*], $result:ty) => {
        #[inline]
        fn $name(&self, $($arg: $ty),*) -> $result {
            self.$inner.$name($($arg),*)
        }
    };
}
