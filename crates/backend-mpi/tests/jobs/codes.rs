//! What becomes of MPI's return codes.
#![expect(unsafe_code, reason = "wraps calls of MPI")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use mpi::ffi;
use pgas_core::{Error, Rank};

use crate::{assert_well, ranks, run, world};

/// The code that the calls below return instead of doing anything, unless it is 0.
static CODE: AtomicI32 = AtomicI32::new(0);

pub(crate) fn reported() {
    assert_well(&run(ranks(2, "err", "", "0")));
}

/// The error of an operation whose call of MPI fails has the call's name and MPI's text for the code.
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
        // Those that are the same calls however this rank waits.
        let operations: [(&str, Operation<'_>); 2] =
            [("MPI_Compare_and_swap", &swap), ("MPI_Win_flush", &flush)];
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

/// MPI's own, which programs may wrap in this way (MPI-3.1, section 14.2).
///
/// # Safety
///
/// As MPI's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn MPI_Compare_and_swap(
    new: *const c_void,
    expected: *const c_void,
    former: *mut c_void,
    ty: ffi::MPI_Datatype,
    rank: c_int,
    at: ffi::MPI_Aint,
    window: ffi::MPI_Win,
) -> c_int {
    failure().unwrap_or_else(|| {
        // SAFETY: the function behind MPI's profiling name is the one that the caller has called,
        // and it gets his arguments (MPI-3.1, section 14.2).
        unsafe { ffi::PMPI_Compare_and_swap(new, expected, former, ty, rank, at, window) }
    })
}

/// As [`MPI_Compare_and_swap`].
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
