//! Sends calls: the header, the arguments and the views of a call become a message.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{Pod, Rank, Result, World};
use pgas_lockfree::pending::Cookie;
use zerocopy::IntoBytes;

use crate::answer::unanswered;
use crate::codec::{Encoder, Wire};
use crate::error::says_left;
use crate::function::{Call, FunctionId, Returns, bytes_of_view};
use crate::future::PgasFuture;
use crate::ids::CALL;
use crate::send::fits;
use crate::state::{Am, am};

/// Sends calls to one rank.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    world: &'a World,
    pub(crate) am: &'a Arc<Am>,
    to: Rank,
}

/// The slot of a call that is not sent yet. A drop gives it back, also one by a codec that panics.
pub(crate) struct Unsent<'a> {
    am: &'a Am,
    cookie: Cookie,
}

impl Drop for Unsent<'_> {
    #[cold]
    fn drop(&mut self) {
        self.am.pending.cancel(self.cookie);
        if let Some(times) = &self.am.call_times {
            times.end(self.cookie);
        }
    }
}

impl<'a> Way<'a> {
    /// Panics if the job has no rank `to`.
    #[inline]
    #[track_caller]
    pub(crate) fn to(world: &'a World, to: Rank) -> Result<Self> {
        let am = am(world)?;
        // Before a slot names it: other threads ask whether the ranks of slots have left.
        world.assert_rank(to);
        Ok(Self { world, am, to })
    }

    #[inline]
    #[track_caller]
    pub(crate) fn call<A: Wire, R: Returns>(
        self,
        function: fn(A) -> R,
        args: &A,
    ) -> Result<PgasFuture<R::Value>> {
        let function = FunctionId::of(self.am.names()?, function)?;
        self.send_call(function, args, None)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn send_call<A: Wire, T: Wire + Send>(
        self,
        function: FunctionId,
        args: &A,
        view: Option<&[u8]>,
    ) -> Result<PgasFuture<T>> {
        let (unsent, header) = self.open_call(function);
        self.close_call(unsent, self.send(CALL, header.as_bytes(), args, view))
    }

    /// The slot of a call's answer, and the header to send. The caller sends it, and not a
    /// closure: traces name a call by the line of the program, which a closure would hide.
    #[inline]
    pub(crate) fn open_call(self, function: FunctionId) -> (Unsent<'a>, Call) {
        let am = self.am;
        let cookie = am.pending.take_slot(self.to.number());
        if let Some(times) = &am.call_times {
            times.begin(cookie);
        }
        let header = Call {
            function,
            cookie: cookie.0,
        };
        (Unsent { am, cookie }, header)
    }

    /// The future of a call that was `sent`, or not.
    #[inline]
    pub(crate) fn close_call<T: Wire + Send>(
        self,
        unsent: Unsent<'_>,
        sent: Result<()>,
    ) -> Result<PgasFuture<T>> {
        match sent {
            Ok(()) => {
                let unsent = ManuallyDrop::new(unsent);
                Ok(PgasFuture::answer(self.am, unsent.cookie, self.to))
            }
            // As if it had left after the call.
            Err(error) if says_left(&error, self.to) => Ok(PgasFuture::failed(unanswered(self.to))),
            Err(error) => Err(error),
        }
    }

    /// Sends, waiting for room.
    #[inline]
    #[track_caller]
    pub(crate) fn send<A: Wire>(
        self,
        id: HandlerId,
        header: &[u8],
        args: &A,
        view: Option<&[u8]>,
    ) -> Result<()> {
        let mut out = Encoder::new();
        open(&mut out, header, args, view)?;
        let both = [out.bytes(), view.unwrap_or_default()];
        // A single part if there is no view: sending it costs less.
        let parts = &both[..1 + usize::from(view.is_some())];
        self.send_parts(id, parts)
    }

    /// As [`send`](Self::send), with two slices.
    #[track_caller]
    pub(crate) fn send_two<A: Wire, T: Pod, U: Pod>(
        self,
        id: HandlerId,
        header: &[u8],
        args: &A,
        (first, second): (&[T], &[U]),
    ) -> Result<()> {
        let (mut n, mut m) = (0, 0);
        let views = (bytes_of_view(first, &mut n), bytes_of_view(second, &mut m));
        let mut out = Encoder::new();
        self.send_parts(id, &parts_of_two(&mut out, header, args, views)?)
    }

    /// As [`try_send`](Self::try_send), with two slices.
    #[track_caller]
    pub(crate) fn try_send_two<A: Wire, T: Pod, U: Pod>(
        self,
        id: HandlerId,
        header: &[u8],
        args: &A,
        (first, second): (&[T], &[U]),
    ) -> Result<Sent> {
        let (mut n, mut m) = (0, 0);
        let views = (bytes_of_view(first, &mut n), bytes_of_view(second, &mut m));
        let mut out = Encoder::new();
        self.try_send_parts(id, &parts_of_two(&mut out, header, args, views)?)
    }

    #[inline]
    #[track_caller]
    fn send_parts(self, id: HandlerId, parts: &[&[u8]]) -> Result<()> {
        let Self { world, am, to } = self;
        if n_bytes(parts) > world.capabilities().max_medium {
            return am.send_in_pieces(world, to, MessageClass::Request, id, parts);
        }
        am.request(world, to, id, parts)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn try_send<A: Wire>(
        self,
        id: HandlerId,
        header: &[u8],
        args: &A,
        view: Option<&[u8]>,
    ) -> Result<Sent> {
        let mut out = Encoder::new();
        open(&mut out, header, args, view)?;
        self.try_send_parts(id, &[out.bytes(), view.unwrap_or_default()])
    }

    #[inline]
    #[track_caller]
    fn try_send_parts(self, id: HandlerId, parts: &[&[u8]]) -> Result<Sent> {
        fits(self.world, self.to, n_bytes(parts))?;
        self.am.try_request(self.world, self.to, id, parts)
    }
}

/// The parts of a call that views two slices: what is written to `out`, and both slices, each of
/// which is aligned.
fn parts_of_two<'a, A: Wire>(
    out: &'a mut Encoder,
    header: &[u8],
    args: &A,
    (first, second): (&'a [u8], &'a [u8]),
) -> Result<[&'a [u8]; 4]> {
    out.write(header);
    out.put(args)?;
    out.put(&first.len())?;
    out.align();
    let gap = first.len().next_multiple_of(8) - first.len();
    Ok([out.bytes(), first, &[0; 8][..gap], second])
}

/// Writes the beginning of a call: everything except the viewed slice.
#[inline]
fn open<A: Wire>(out: &mut Encoder, header: &[u8], args: &A, view: Option<&[u8]>) -> Result<()> {
    out.write(header);
    out.put(args)?;
    if view.is_some() {
        // The header has a multiple of eight bytes, so the view is aligned at the target too.
        out.align();
    }
    Ok(())
}

#[inline]
fn n_bytes(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::thread;

    use pgas_core::backend::loopback;

    use super::*;
    use crate::RemoteCalls as _;
    use crate::codec::{Codec, Decoder, Each};

    const ROUNDS: usize = 1000;

    /// A value whose codec fails, or panics.
    struct Unwritable {
        panics: bool,
    }

    enum ByPanic {}

    impl Wire for Unwritable {
        type By = ByPanic;
    }

    impl Codec<Unwritable> for ByPanic {
        type Array<const N: usize> = Each<Self>;

        fn encode(value: &Unwritable, _: &mut Encoder) -> Result<()> {
            assert!(!value.panics, "on purpose");
            Err(pgas_core::Error::HasLeft)
        }

        fn decode(_: &mut Decoder<'_>) -> Result<Unwritable> {
            Err(pgas_core::Error::HasLeft)
        }
    }

    #[test]
    fn arguments_that_cannot_be_written_keep_no_slot() {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        for panics in [false, true] {
            let call = || {
                let call = world.rpc(world.rank(), |_: Unwritable| (), Unwritable { panics });
                call.map(drop).unwrap_err()
            };
            let called = catch_unwind(std::panic::AssertUnwindSafe(call));
            assert_eq!(called.is_err(), panics);
            let (row, words) = ([1_u64], [2_u64]);
            let viewing = || {
                let body = |_: Unwritable, _: &[u64], _: &[u64]| ();
                let args = Unwritable { panics };
                let call = world.rpc_views(world.rank(), body, args, (&row, &words));
                call.map(drop).unwrap_err()
            };
            let called = catch_unwind(std::panic::AssertUnwindSafe(viewing));
            assert_eq!(called.is_err(), panics);
            assert_eq!(am(&world).unwrap().pending.n_taken(), 0);
        }
    }
    /// While it is encoded, another thread makes progress.
    struct Attended(World);

    enum BesideProgress {}

    impl Wire for Attended {
        type By = BesideProgress;
    }

    impl Codec<Attended> for BesideProgress {
        type Array<const N: usize> = Each<Self>;

        fn encode(Attended(world): &Attended, _: &mut Encoder) -> Result<()> {
            let progress = || (0..ROUNDS).for_each(|_| _ = world.progress().unwrap());
            let other = thread::scope(|scope| scope.spawn(progress).join());
            assert!(other.is_ok(), "the other thread panics");
            Ok(())
        }

        fn decode(_: &mut Decoder<'_>) -> Result<Attended> {
            Err(pgas_core::Error::HasLeft)
        }
    }

    #[test]
    #[should_panic(expected = "rank 99")]
    fn a_call_to_a_rank_that_is_not_there_panics_no_other_thread() {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        let args = Attended(world.clone());
        drop(world.rpc(Rank::new(99), |_: Attended| (), args));
    }
}
