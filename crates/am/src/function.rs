//! Names of functions across ranks: their addresses in the program's code, and a tag that proves
//! them.
//!
//! All ranks run one file, loaded at different addresses; they compare their files by [`Program`],
//! unless the transport starts one on all of them. A function has the same distance from the start
//! of the code on each rank. A message that calls a function
//! carries two distances, that of the function and that of the *trampoline* that knows the
//! function's type. It also carries a 64-bit tag made of both distances, of the build and of a
//! secret of the job. A rank that receives a call rejects it unless the tag fits.
//!
//! Two things keep a call from jumping anywhere else. First, a program cannot send a call by other
//! means: the handlers of calls belong to the layer, and only the holder of the [`LayerKey`] of
//! this file sends to them. Second, the tag of a message that was damaged, or forged by a program
//! that writes into the transport, fits with a probability of one in 2^64: the ranks draw the
//! secret when they attach, and no call reveals it or a tag.
//!
//! A function is passed as a `fn` pointer. A closure becomes one only if it captures nothing: a
//! captured value, even of size zero, would have no meaning on another rank.

#![expect(
    unsafe_code,
    reason = "turns the places of functions into functions, which only a checked tag allows"
)]

use std::panic::{self, AssertUnwindSafe};
use std::{mem, ptr};

use crate::error::unknown;
use pgas_core::backend::LayerKey;
use pgas_core::{Pod, Rank, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::codec::{Decoder, Encoder, Wire, unreadable};
use crate::identity::{Names, Program};
use crate::panics::panicked;
use pgas_core::{Error, Result};

/// The right to send calls.
// SAFETY: calls begin with a [`FunctionId`] that `rpc.rs` or `way.rs` has made for the type of the
// function. A call in pieces, or one that is kept until there is room, has the same bytes. Its
// other messages name no functions, and are checked where they arrive: handlers by the registry,
// answers by the table of awaited ones, and arguments by their codecs, which take any bytes.
pub(crate) const LAYER_KEY: LayerKey = unsafe { LayerKey::new() };

/// The header of a remote call with an answer. A call without an answer begins with the
/// [`FunctionId`] alone.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Call {
    pub(crate) function: FunctionId,
    pub(crate) cookie: u64,
}

/// The arguments of a call, as received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) world: &'a World,
    pub(crate) from: Rank,
    /// Arguments, and what else was sent.
    pub(crate) bytes: &'a [u8],
}

/// The result of a call.
pub(crate) enum Ran {
    /// The function has returned, and its result is written if one is wanted.
    Returned,
    /// The arguments cannot be read, and the function was not called.
    NotCalled(Error),
    /// The function has returned an error, or its result cannot be written.
    NotWritten(Error),
    /// The function has returned a future.
    Later(Later),
}

/// Sends the answer when the future that a function returned is ready.
pub(crate) type Later = OnValue<Encoder>;

/// The return types of remote functions: a [`Wire`] type, an [`Event`](pgas_core::Event) or a
/// [`PgasFuture`](crate::PgasFuture) of one, or a [`Result`] of any of these, so that the function
/// may use `?`. A call whose function returns an event or a future is answered when that is ready,
/// with its value.
///
/// So a remote function may read and write memory, call other ranks, and answer with the results,
/// as in UPC++ (v1.0 specification, section 9.5: `rpc` unwraps a future that the function returns).
///
/// # Errors
///
/// An error that the function returns comes back as [`Error::Remote`], which names the rank of the
/// function and has the error's text. The error of a `std::result::Result<T, E>` whose `E` is
/// [`Wire`] is a value, as any other.
///
/// # Examples
///
/// ```
/// use pgas_am::{Error, Here, RemoteCalls};
/// use pgas_core::{GlobalPtr, Rank, Result};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let here = Here::new(&world);
/// // Asks rank `via`, which asks rank `to`.
/// let ask = |(here, to, x): (Here, Rank, u64)| {
///     let answer = here.world().rpc(to, |x: u64| x * x, x)?;
///     Ok::<_, Error>(answer.then(|xx| xx + 1))
/// };
/// let (via, to) = (world.rank(), world.rank());
/// assert_eq!(world.rpc(via, ask, (here.clone(), to, 6))?.wait()?, 37);
///
/// // Reads two words there, and divides one by the other; then reads one without a wait.
/// let ratio = |(here, words): (Here, GlobalPtr<u64>)| -> Result<u64> {
///     let (a, b) = (words.get(here.world())?, words.add(1).get(here.world())?);
///     a.checked_div(b).ok_or_else(|| Error::Argument("no division by zero".into()))
/// };
/// let first = |(here, words): (Here, GlobalPtr<u64>)| words.get_nb(here.world());
/// let words = world.alloc::<u64>(2)?;
/// words.put_slice(&world, &[6, 3])?;
/// assert_eq!(world.rpc(to, ratio, (here.clone(), words))?.wait()?, 2);
/// assert_eq!(world.rpc(to, first, (here.clone(), words))?.wait()?, 6);
/// words.put_slice(&world, &[6, 0])?;
/// let failed = world.rpc(to, ratio, (here, words))?.wait();
/// assert!(matches!(failed, Err(Error::Remote(error)) if error.rank == to));
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the body of a remote call returns `{Self}`, which does not travel to other ranks",
    note = "return a type that is `Wire` (if `{Self}` is yours, put `#[derive(pgas::Wire)]` on \
            it), an `Event` or a `PgasFuture` of one, which `world.spawn` gives for an `async` \
            block, or a `pgas::Result` of any of these"
)]
pub trait Returns: sealed::Sealed + Sized {
    /// The type of the answer.
    type Value: Wire + Send;

    #[doc(hidden)]
    fn now(self) -> Now<Self::Value>;
}

/// The result of a function on its return: a value, or one that comes later.
#[doc(hidden)]
#[expect(
    unnameable_types,
    missing_debug_implementations,
    reason = "of the sealed trait"
)]
pub enum Now<T> {
    Is(T),
    Failed(Error),
    /// Runs the given action when the value is available.
    Later(OnValue<T>),
}

/// Runs an action on a value when the value is available.
pub(crate) type OnValue<T> = Box<dyn FnOnce(Action<T>) + Send>;

/// An action on a value or its error.
pub(crate) type Action<T> = Box<dyn FnOnce(Result<T>) + Send>;

pub(crate) mod sealed {
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {}
}

impl<T: Wire + Send> sealed::Sealed for T {}

impl<T: Wire + Send> Returns for T {
    type Value = T;

    #[inline]
    fn now(self) -> Now<T> {
        Now::Is(self)
    }
}

/// Decodes the arguments, calls the function, and writes its result where one is wanted.
///
/// # Safety
///
/// The second half of the [`FunctionId`] must be a function of the type that this trampoline was
/// made for.
type Trampoline = unsafe fn(Body, Incoming<'_>, Option<&mut Encoder>) -> Ran;

/// A function with its type erased.
#[derive(Clone, Copy, Debug)]
struct Body(*const ());

impl Body {
    /// The function again.
    ///
    /// # Safety
    ///
    /// `F` is the `fn` pointer type that the body was made from.
    #[inline]
    unsafe fn cast<F: Copy>(self) -> F {
        const { assert!(size_of::<F>() == size_of::<*const ()>()) };
        // SAFETY: both have the size of a pointer, by the assertion. The caller promises that the
        // body was made from an `F`, a `fn` pointer, so that its bits are those of one, not null
        // and of that type.
        unsafe { mem::transmute_copy::<*const (), F>(&self.0) }
    }
}

/// The trampoline of functions of one argument.
///
/// # Safety
///
/// The body is a `fn(A) -> R`.
unsafe fn plain<A: Wire, R: Returns>(
    body: Body,
    incoming: Incoming<'_>,
    out: Option<&mut Encoder>,
) -> Ran {
    // SAFETY: the caller promises that the body is a `fn(A) -> R`.
    let function = unsafe { body.cast::<fn(A) -> R>() };
    run(incoming, out, |input| Ok(function(input.get_last()?)))
}

/// The trampoline of functions that also view a slice.
///
/// # Safety
///
/// The body is a `fn(A, &[T]) -> R`.
unsafe fn viewing<A: Wire, T: Pod, R: Returns>(
    body: Body,
    incoming: Incoming<'_>,
    out: Option<&mut Encoder>,
) -> Ran {
    // SAFETY: the caller promises that the body is a `fn(A, &[T]) -> R`.
    let function = unsafe { body.cast::<fn(A, &[T]) -> R>() };
    run(incoming, out, |input| {
        let args = input.get()?;
        with_view(input.rest_aligned(), |view| function(args, view))
    })
}

/// The trampoline of functions that also view two slices.
///
/// # Safety
///
/// The body is a `fn(A, &[T], &[U]) -> R`.
unsafe fn viewing_two<A: Wire, T: Pod, U: Pod, R: Returns>(
    body: Body,
    incoming: Incoming<'_>,
    out: Option<&mut Encoder>,
) -> Ran {
    // SAFETY: the caller promises that the body is a `fn(A, &[T], &[U]) -> R`.
    let function = unsafe { body.cast::<fn(A, &[T], &[U]) -> R>() };
    run(incoming, out, |input| {
        let args = input.get()?;
        let len: usize = input.get()?;
        let both = input.rest_aligned();
        let first = both.get(..len);
        let second = len
            .checked_next_multiple_of(8)
            .and_then(|at| both.get(at..));
        let (Some(first), Some(second)) = (first, second) else {
            let text = format!("{} bytes are no two slices", both.len());
            return Err(unreadable::<T>(text));
        };
        with_view(first, |first| {
            with_view(second, |second| function(args, first, second))
        })?
    })
}

#[inline]
fn run<R: Returns>(
    incoming: Incoming<'_>,
    out: Option<&mut Encoder>,
    call: impl FnOnce(&mut Decoder<'_>) -> Result<R>,
) -> Ran {
    let result = match call(&mut Decoder::at(incoming.world, incoming.bytes)) {
        Ok(result) => result,
        Err(error) => return Ran::NotCalled(error),
    };
    let Some(out) = out else {
        return Ran::Returned;
    };
    match result.now() {
        Now::Is(value) => match out.put(&value) {
            Ok(()) => Ran::Returned,
            Err(error) => Ran::NotWritten(error),
        },
        Now::Failed(error) => Ran::NotWritten(error),
        Now::Later(on_value) => later(incoming.world.rank(), out.bytes(), on_value),
    }
}

/// Encodes the answer, which begins with `head`, when its value is available.
#[cold]
fn later<T: Wire>(rank: Rank, head: &[u8], on_value: OnValue<T>) -> Ran {
    let head = head.to_vec();
    Ran::Later(Box::new(move |send| {
        on_value(Box::new(move |result| {
            let encode = |value: T| {
                let mut out = Encoder::new();
                out.write(&head);
                out.put(&value)?;
                Ok(out)
            };
            // The caller is answered, also if its codec panics.
            let encoded = panic::catch_unwind(AssertUnwindSafe(|| result.and_then(encode)));
            send(encoded.unwrap_or_else(|payload| Err(panicked(rank, payload))));
        }));
    }))
}

/// The bytes sent for a viewed slice: its elements, or their number if they have no bytes.
#[inline]
pub(crate) fn bytes_of_view<'a, T: Pod>(view: &'a [T], n: &'a mut u64) -> &'a [u8] {
    if size_of::<T>() > 0 {
        return view.as_bytes();
    }
    *n = view.len() as u64;
    n.as_bytes()
}

/// Views `bytes` as a slice: where they are if they are aligned for it, else as a copy.
#[inline]
fn with_view<T: Pod, R>(bytes: &[u8], run: impl FnOnce(&[T]) -> R) -> Result<R> {
    let n_bytes = bytes.len();
    let n = if size_of::<T>() > 0 && n_bytes.is_multiple_of(size_of::<T>()) {
        Some(n_bytes / size_of::<T>())
    } else if let Ok(n) = u64::read_from_bytes(bytes)
        && size_of::<T>() == 0
    {
        usize::try_from(n).ok()
    } else {
        None
    };
    let Some(n) = n else {
        return Err(unreadable::<T>(format!(
            "{n_bytes} bytes are no slice of it"
        )));
    };
    if size_of::<T>() > 0
        && bytes.as_ptr().addr().is_multiple_of(align_of::<T>())
        && let Ok(view) = <[T]>::ref_from_bytes_with_elems(bytes, n)
    {
        return Ok(run(view));
    }
    let mut copy = T::new_vec_zeroed(n).map_err(|_| unreadable::<T>("no memory"))?;
    if size_of::<T>() > 0 {
        copy.as_mut_bytes().copy_from_slice(bytes);
    }
    Ok(run(&copy))
}

/// The name of a function and its trampoline in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct FunctionId {
    trampoline: u32,
    body: u32,
    tag: u64,
}

impl FunctionId {
    /// The name of a function of one argument.
    #[inline]
    pub(crate) fn of<A: Wire, R: Returns>(names: &Names, function: fn(A) -> R) -> Result<Self> {
        Self::new(names, plain::<A, R>, function as *const ())
    }

    /// The name of a function that also views a slice.
    #[inline]
    pub(crate) fn of_viewing<A: Wire, T: Pod, R: Returns>(
        names: &Names,
        function: fn(A, &[T]) -> R,
    ) -> Result<Self> {
        Self::new(names, viewing::<A, T, R>, function as *const ())
    }

    /// The name of a function that also views two slices.
    #[inline]
    pub(crate) fn of_viewing_two<A: Wire, T: Pod, U: Pod, R: Returns>(
        names: &Names,
        function: fn(A, &[T], &[U]) -> R,
    ) -> Result<Self> {
        Self::new(names, viewing_two::<A, T, U, R>, function as *const ())
    }

    /// The name of `body` for `trampoline`. Its callers are those above alone: what makes
    /// [`call`](Self::call) sound is that a trampoline never meets a body of another type.
    #[inline]
    fn new(names: &Names, trampoline: Trampoline, body: *const ()) -> Result<Self> {
        let program = names.program;
        let place = |address: usize| -> Option<u32> {
            let offset = address.checked_sub(program.code.start)?;
            let offset = u32::try_from(offset).ok()?;
            (address < program.code.end).then_some(offset)
        };
        // Not `ok_or`, which makes and drops an error at every call.
        let body = place(body.expose_provenance());
        let (Some(trampoline), Some(body)) = (place(trampoline as usize), body) else {
            return Err(Error::ForeignFunction);
        };
        Ok(Self {
            trampoline,
            body,
            tag: names.tag(trampoline, body),
        })
    }

    /// Calls the function, if the name is right, and writes its result to `out` where one is
    /// wanted.
    #[inline]
    pub(crate) fn call(
        self,
        names: &Names,
        incoming: Incoming<'_>,
        out: Option<&mut Encoder>,
    ) -> Result<Ran> {
        let program = names.program;
        let is_inside = |offset: u32| (offset as usize) < program.code.len();
        if self.tag != names.tag(self.trampoline, self.body)
            || !is_inside(self.trampoline)
            || !is_inside(self.body)
        {
            return Err(self.unknown(incoming));
        }
        // All code lies in one mapping: that of the function whose pointer is moved here.
        let anchor = Program::own as fn() -> Result<&'static Program> as *const ();
        let at = |offset: u32| {
            let address = program.code.start + offset as usize;
            if cfg!(miri) {
                // There each function is an allocation of its own, exposed by `new`.
                return ptr::with_exposed_provenance(address);
            }
            anchor.with_addr(address)
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "no safe conversion makes a function of a pointer"
        )]
        // SAFETY: the bits are those of a `Trampoline` of this rank. The tag fits, which takes the
        // job's secret, so a rank of the job has made this name in `new`, the only place that asks
        // `Names` for a tag to send: it took the place from a `Trampoline` there, at this distance
        // from the start of its code. That rank runs the same build: the salt is made of the
        // build's hash, or the transport promises one program (promise 7 of `Backend`). The code of
        // a file is mapped as a whole, so the same function lies at this distance from the start
        // here. It is inside of the code, so the pointer is not null.
        let trampoline = unsafe { mem::transmute::<*const (), Trampoline>(at(self.trampoline)) };
        // SAFETY: the trampoline asks that the body is a function of the type that it was made for.
        // The tag covers both places, so one call of `new` has made both; it is called by `of`,
        // `of_viewing` and `of_viewing_two`, which give a trampoline and a function of the same
        // types.
        Ok(unsafe { trampoline(Body(at(self.body)), incoming, out) })
    }

    #[cold]
    fn unknown(self, incoming: Incoming<'_>) -> Error {
        let what = format!("the function at {:#x} of the program's code", self.body);
        let reason = "and its tag does not fit: the message was damaged";
        unknown(incoming.world, incoming.from, what, reason)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    static SUM: AtomicU64 = AtomicU64::new(0);

    fn add_doubled(x: u64) {
        SUM.fetch_add(2 * x, Ordering::Relaxed);
    }

    #[test]
    fn a_function_is_found_by_its_name_and_by_no_other() {
        let world = pgas_core::backend::loopback::world();
        let names = Names::new(Program::own().unwrap(), 1, 7);
        let id = FunctionId::of(&names, add_doubled).unwrap();
        let incoming = Incoming {
            world: &world,
            from: Rank::ZERO,
            bytes: &21_u64.to_ne_bytes(),
        };
        let ran = id.call(&names, incoming, None).unwrap();
        assert!(matches!(ran, Ran::Returned));
        assert_eq!(SUM.load(Ordering::Relaxed), 42);
        for bit in 0..size_of::<FunctionId>() * 8 {
            let mut damaged = id;
            damaged.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            let refused = damaged.call(&names, incoming, None);
            assert!(matches!(refused, Err(Error::Unknown(_))), "bit {bit}");
        }
        // A name made without the secret is refused.
        let forged = Names::new(names.program, 1, 8);
        let id = FunctionId::of(&forged, add_doubled).unwrap();
        let refused = id.call(&names, incoming, None);
        assert!(matches!(refused, Err(Error::Unknown(_))));
        assert_eq!(SUM.load(Ordering::Relaxed), 42);
    }

    #[test]
    fn a_function_outside_of_the_program_is_refused() {
        let names = Names::new(Program::own().unwrap(), 1, 7);
        let outside = ptr::without_provenance(names.program.code.end);
        let refused = FunctionId::new(&names, plain::<u64, u64>, outside);
        assert!(matches!(refused, Err(Error::ForeignFunction)));
    }
}
