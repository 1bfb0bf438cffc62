//! Running a function that another rank called: decode, run, answer; a panic becomes an answer too.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use pgas_core::Pod;
use pgas_core::backend::MessageClass;
use pgas_core::process::panic_text;
use zerocopy::{FromBytes, IntoBytes};

use crate::codec::{Decoder, Encoder, LONGEST, Wire, unreadable};
use crate::error::{RemoteError, RemotePanic};
use crate::function::Incoming;
use crate::layer::{FAILURE, RESULT, am};
use crate::pending::Outcome;
use crate::{Error, Result};

thread_local! {
    /// Where the last panic of a handler was.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Lets panics of handlers leave where they were, which only the panic hook is told.
pub(crate) fn note_where_panics_are() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if pgas_core::in_handler() {
                let location = info.location().map(ToString::to_string);
                PANICKED_AT.set(location);
            }
            usual(info);
        }));
    });
}

/// Calls a function as `run` does, and answers if an answer is wanted.
#[inline]
pub(crate) fn call<R: Wire>(
    incoming: Incoming<'_>,
    run: impl FnOnce(&mut Decoder<'_>) -> Result<R>,
) -> Result<()> {
    let mut input = Decoder::at(incoming.world, incoming.bytes);
    let ran = panic::catch_unwind(AssertUnwindSafe(|| run(&mut input)));
    match (ran, incoming.cookie) {
        (Ok(Ok(result)), Some(cookie)) => answer(incoming, cookie, &result),
        (Ok(Ok(_)), None) => Ok(()),
        (Ok(Err(error)), None) => Err(error),
        // Whoever delivers the call sets it aside.
        (Ok(Err(error @ Error::NotBuilt(..))), _) => Err(error),
        (Ok(Err(error)), Some(cookie)) => fail(incoming, cookie, &error.to_string()),
        (Err(payload), Some(cookie)) => fail_by_panic(incoming, cookie, &*payload),
        // Nobody waits who could be told: it is this rank's panic.
        (Err(payload), None) => {
            am(incoming.world)?.tally.count_served();
            panic::resume_unwind(payload)
        }
    }
}

/// Views `bytes` as a slice: where they are if they are aligned for it, else as a copy.
#[inline]
pub(crate) fn with_view<T: Pod, R>(bytes: &[u8], run: impl FnOnce(&[T]) -> R) -> Result<R> {
    if size_of::<T>() == 0 || !bytes.len().is_multiple_of(size_of::<T>()) {
        let n_bytes = bytes.len();
        return Err(unreadable::<T>(format!(
            "{n_bytes} bytes are no slice of it"
        )));
    }
    if bytes.as_ptr().addr().is_multiple_of(align_of::<T>())
        && let Ok(view) = <[T]>::ref_from_bytes(bytes)
    {
        return Ok(run(view));
    }
    let n = bytes.len() / size_of::<T>();
    let mut copy = T::new_vec_zeroed(n).map_err(|_| unreadable::<T>("no memory"))?;
    copy.as_mut_bytes().copy_from_slice(bytes);
    Ok(run(&copy))
}

#[inline]
fn answer<R: Wire>(incoming: Incoming<'_>, cookie: u64, result: &R) -> Result<()> {
    let mut out = Encoder::new();
    out.write(&cookie.to_ne_bytes());
    if let Err(error) = out.put(result) {
        return fail(incoming, cookie, &error.to_string());
    }
    let Incoming { world, from, .. } = incoming;
    let n_bytes = out.bytes().len();
    if n_bytes > world.capabilities().max_medium {
        if n_bytes > LONGEST {
            let text = format!("its result has {n_bytes} bytes, and at most {LONGEST} are sent");
            return fail(incoming, cookie, &text);
        }
        let parts = [out.bytes()];
        return am(world)?.send_in_pieces(world, from, MessageClass::Reply, RESULT, &parts);
    }
    am(world)?.reply(world, from, RESULT, &[out.bytes()])
}

/// Answers a call that is refused.
#[cold]
pub(crate) fn refuse(incoming: Incoming<'_>, error: &Error) -> Result<()> {
    match incoming.cookie {
        Some(cookie) => fail(incoming, cookie, &error.to_string()),
        None => Ok(()),
    }
}

#[cold]
fn fail(incoming: Incoming<'_>, cookie: u64, text: &str) -> Result<()> {
    send_failure(incoming, cookie, text, None)
}

#[cold]
fn fail_by_panic(incoming: Incoming<'_>, cookie: u64, payload: &(dyn Any + Send)) -> Result<()> {
    let location = PANICKED_AT.take();
    let location = location.as_deref().unwrap_or("an unknown place");
    send_failure(incoming, cookie, panic_text(payload), Some(location))
}

/// A failure's texts are cut to this, so that they fit a message of every transport.
const MAX_TEXT: usize = 200;

fn send_failure(
    incoming: Incoming<'_>,
    cookie: u64,
    text: &str,
    panicked_at: Option<&str>,
) -> Result<()> {
    let cut = |text: &str| {
        let mut ends = (0..=MAX_TEXT).rev();
        let end = ends.find(|end| text.is_char_boundary(*end));
        text[..end.unwrap_or(0)].to_owned()
    };
    let mut out = Encoder::new();
    out.write(&cookie.to_ne_bytes());
    out.put(&(cut(text), panicked_at.map(cut)))?;
    let Incoming { world, from, .. } = incoming;
    am(world)?.reply(world, from, FAILURE, &[out.bytes()])
}

/// What the answer of `rank` says.
#[inline]
pub(crate) fn read_answer<T: Wire>(
    rank: pgas_core::Rank,
    outcome: Outcome,
    bytes: &[u8],
) -> Result<T> {
    let mut input = Decoder::new(bytes);
    match outcome {
        Outcome::Returned => input.get(),
        Outcome::Failed => Err(read_failure(rank, &mut input)),
        Outcome::Left => Err(unanswered(rank).into()),
    }
}

/// The error of a call whose rank has left.
#[cold]
pub(crate) fn unanswered(rank: pgas_core::Rank) -> pgas_core::Error {
    pgas_core::Error::rank_failed(rank, "has left the job with a remote call unanswered")
}

#[cold]
fn read_failure(rank: pgas_core::Rank, input: &mut Decoder<'_>) -> Error {
    match input.get::<(String, Option<String>)>() {
        Ok((message, Some(location))) => Error::from(Box::new(RemotePanic {
            rank,
            message,
            location,
        })),
        Ok((message, None)) => Error::from(Box::new(RemoteError { rank, message })),
        Err(error) => error,
    }
}
