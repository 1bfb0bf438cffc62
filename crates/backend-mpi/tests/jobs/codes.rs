//! MPI's return codes become errors.
#![expect(unsafe_code, reason = "wraps calls of MPI")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use mpi::ffi;
use pgas_core::{Error, Rank};
use pgas_testkit::job;

use crate::{assert_well, ranks, run, world};

/// If this is not 0, the calls of MPI below do nothing and return it.
static CODE: AtomicI32 = AtomicI32::new(0);

pub(crate) fn reported() {
    assert_well(&run(ranks(2, "err", "", "0")));
}

/// The error of an operation whose call of MPI fails has the call's name and MPI's text for the
/// code.
pub(crate) fn err(_: &str) {
    let world = world();
    let words = world.alloc_symmetric::<u64>(1).expect("a word");
    let word = words.on(Rank::new(1));
    world.barrier().expect("all are here");
    if world.rank() == Rank::ZERO {
        let swap = || word.compare_exchange(&world, 0, 0).map(drop);
        let flush = || {
            word.put(&world, 1)?;
            world.flush(word.rank())
        };
        type Operation<'a> = &'a dyn Fn() -> pgas_core::Result<()>;
        // Operations that make these calls in whatever way this rank waits.
        let operations: [(&str, Operation<'_>); 2] =
            [("MPI_Isend", &swap), ("MPI_Win_flush", &flush)];
        for code in [ffi::MPI_ERR_RANK, ffi::MPI_ERR_OTHER] {
            let code = c_int::try_from(code).expect("a small number");
            for (call, operation) in operations {
                CODE.store(code, Ordering::Relaxed);
                let error = operation().expect_err(call);
                CODE.store(0, Ordering::Relaxed);
                assert!(matches!(error, Error::Backend(_)), "{error:?}");
                let told = error.to_string();
                let text = text_of(code);
                assert!(
                    told.contains(call) && told.contains(&text),
                    "{told}: {text}"
                );
                assert_eq!(told.lines().count(), 1, "{told}");
                operation().expect("MPI itself has not failed");
            }
        }
    }
    world.barrier().expect("all are here");
}

/// Whether the next test of sends fails, once.
static LOSES: AtomicBool = AtomicBool::new(false);

pub(crate) fn told_once() {
    let ended = run(ranks(2, "lose", "", "0"));
    let told = "rank 0 cannot exchange messages any more: MPI_Testsome failed";
    // A rank that has said so may end the others.
    assert!(ended.stdout.contains(told), "{ended:?}");
}

/// MPI tells once that a send has failed, to a caller that asked for something else. Nothing is
/// known of that message, so the job fails on all ranks.
pub(crate) fn lose(_: &str) {
    let world = world();
    let words = world.alloc_symmetric::<u64>(1).expect("a word");
    let word = words.on(Rank::new(1));
    world.barrier().expect("all are here");
    if world.rank() == Rank::ZERO {
        LOSES.store(true, Ordering::Relaxed);
        // Its own error, which the program may ignore.
        let mut swaps = std::iter::repeat_with(|| word.compare_exchange(&world, 0, 0));
        drop(swaps.find(Result::is_err));
    }
    let mut barriers = std::iter::repeat_with(|| world.barrier());
    let error = barriers.find_map(Result::err).expect("there is no end");
    job::say(&format!("at rank {}: {error}", world.rank().number()));
}

/// MPI's own text, on one line.
fn text_of(code: c_int) -> String {
    let mut bytes = [0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len: c_int = 0;
    // SAFETY: the buffer has room for the longest text and its final zero.
    let failed = unsafe { ffi::MPI_Error_string(code, bytes.as_mut_ptr().cast(), &raw mut len) };
    assert_eq!(failed, 0);
    let text = &bytes[..usize::try_from(len).expect("a length")];
    let text = String::from_utf8_lossy(text).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// The code to return at once, if there is one.
fn failure() -> Option<c_int> {
    let code = CODE.load(Ordering::Relaxed);
    (code != 0).then_some(code)
}

/// The numbers of messages of this process: requests and orders, which are prices of operations,
/// and notes with credits. Not counted are answers, and questions of ranks that wait for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    pub(crate) orders: u64,
    pub(crate) credits: u64,
}

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static ORDERS: AtomicU64 = AtomicU64::new(0);
static CREDITS: AtomicU64 = AtomicU64::new(0);

/// The tags of requests and of the library's own notes. The first words of notes with credits and
/// of notes that order an atomic.
const REQUEST: c_int = 0;
const NOTE: c_int = 2;
const CREDIT: u64 = 0;
const EXECUTE: u64 = 6;

/// The numbers of messages sent until now.
pub(crate) fn sent() -> Sent {
    Sent {
        requests: REQUESTS.load(Ordering::Relaxed),
        orders: ORDERS.load(Ordering::Relaxed),
        credits: CREDITS.load(Ordering::Relaxed),
    }
}

fn note_sent(bytes: &[u8], tag: c_int) {
    let word = bytes.first_chunk().map(|word| u64::from_ne_bytes(*word));
    let counter = match (tag, word) {
        (REQUEST, _) => &REQUESTS,
        (NOTE, Some(EXECUTE)) => &ORDERS,
        (NOTE, Some(CREDIT)) => &CREDITS,
        _ => return,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Wraps MPI's own function, as programs may do (MPI-3.1, section 14.2).
///
/// # Safety
///
/// As MPI's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn MPI_Isend(
    from: *const c_void,
    count: c_int,
    ty: ffi::MPI_Datatype,
    to: c_int,
    tag: c_int,
    comm: ffi::MPI_Comm,
    request: *mut ffi::MPI_Request,
) -> c_int {
    failure().unwrap_or_else(|| {
        let len = usize::try_from(count).expect("a length");
        // SAFETY: the caller lends so many bytes to MPI, which nobody writes meanwhile.
        note_sent(unsafe { std::slice::from_raw_parts(from.cast(), len) }, tag);
        // SAFETY: the function behind MPI's profiling name is the one that the caller has called,
        // and it gets his arguments (MPI-3.1, section 14.2).
        unsafe { ffi::PMPI_Isend(from, count, ty, to, tag, comm, request) }
    })
}

/// As [`MPI_Isend`].
///
/// # Safety
///
/// As MPI's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn MPI_Win_flush(rank: c_int, window: ffi::MPI_Win) -> c_int {
    failure().unwrap_or_else(|| {
        // SAFETY: the function behind MPI's profiling name is the one that the caller has called,
        // and it gets his arguments (MPI-3.1, section 14.2).
        unsafe { ffi::PMPI_Win_flush(rank, window) }
    })
}

/// As [`MPI_Isend`].
///
/// # Safety
///
/// As MPI's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn MPI_Testsome(
    n: c_int,
    requests: *mut ffi::MPI_Request,
    n_complete: *mut c_int,
    indices: *mut c_int,
    statuses: *mut ffi::MPI_Status,
) -> c_int {
    if LOSES.swap(false, Ordering::Relaxed) {
        return c_int::try_from(ffi::MPI_ERR_OTHER).expect("a small number");
    }
    // SAFETY: the function behind MPI's profiling name is the one that the caller has called, and
    // it gets his arguments (MPI-3.1, section 14.2).
    unsafe { ffi::PMPI_Testsome(n, requests, n_complete, indices, statuses) }
}
