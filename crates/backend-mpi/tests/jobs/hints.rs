//! The hints that MPI gives back for a window.
#![expect(unsafe_code, reason = "wraps a call of MPI")]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};

use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use pgas_core::Config;
use pgas_testkit::job;

use crate::support::is_open_mpi;
use crate::{assert_well, ranks, run, world};

/// The variable that makes this program print the hints of its windows.
const ASKED: &str = "PGAS_TEST_HINTS";

/// The hints that both libraries get and MPICH understands.
const TOLD: &[(&str, &str)] = &[("same_disp_unit", "true"), ("same_size", "true")];

/// MPICH gives back the hints that it has understood, and Open MPI all that it got.
pub(crate) fn taken() {
    let mut command = ranks(2, "create", "", "0");
    command.env(ASKED, "1");
    let ended = run(command);
    assert_well(&ended);
    for (key, value) in TOLD {
        let line = format!("hint {key}={value}");
        let n_told = ended.stdout.lines().filter(|told| *told == line).count();
        assert_eq!(n_told, 2, "{line}: {ended:?}");
    }
}

/// Makes a window, and uses it.
pub(crate) fn create(_: &str) {
    world().barrier().expect("all are here");
}

/// MPI is asked only once for what does not change while it runs, however many worlds a process
/// makes: Open MPI loads all of its components for an answer.
pub(crate) fn asked_once() {
    let mut command = ranks(2, "create_often", "", "0");
    command.env("PGAS_STATS", "1");
    assert_well(&run(command));
}

pub(crate) fn create_often(_: &str) {
    let first = world();
    let comm = SimpleCommunicator::world();
    let config = Config::from_env().expect("settings that mean something");
    let others = [(); 2].map(|()| pgas_mpi::init_on(&comm, &config));
    let others = others.map(|world| world.expect("a world beside the first"));
    let n_asked = || {
        let mut calls = pgas_mpi::calls();
        let found = calls.find(|(name, _)| *name == "MPI_T_init_thread");
        found.expect("a call that is counted").1
    };
    assert_eq!(n_asked(), u64::from(is_open_mpi()));
    for world in others {
        world.barrier().expect("all are here");
    }
    // MPI ends with the first one.
    drop(first);
}

/// Wraps MPI's own function, as programs may do (MPI-3.1, section 14.2).
///
/// # Safety
///
/// As MPI's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn MPI_Win_create(
    base: *mut c_void,
    bytes: ffi::MPI_Aint,
    unit: c_int,
    info: ffi::MPI_Info,
    comm: ffi::MPI_Comm,
    window: *mut ffi::MPI_Win,
) -> c_int {
    // SAFETY: the function behind MPI's profiling name is the one that the caller has called, and
    // it gets his arguments (MPI-3.1, section 14.2).
    let code = unsafe { ffi::PMPI_Win_create(base, bytes, unit, info, comm, window) };
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of this test, not of the library"
    )]
    let is_asked = std::env::var_os(ASKED).is_some();
    if is_asked && code == 0 {
        // SAFETY: MPI has just written the window there.
        let window = unsafe { window.read() };
        tell_hints(window);
    }
    code
}

/// Prints the window's hints. The words of each list are sorted, since each library has an order of
/// its own.
fn tell_hints(window: ffi::MPI_Win) {
    // SAFETY: a constant of the library.
    let mut info = unsafe { ffi::RSMPI_INFO_NULL };
    // SAFETY: the window is valid, and the handle writable.
    let code = unsafe { ffi::MPI_Win_get_info(window, &raw mut info) };
    assert_eq!(code, 0);
    let mut n_hints = 0;
    // SAFETY: the hints are valid, and the number writable.
    let code = unsafe { ffi::MPI_Info_get_nkeys(info, &raw mut n_hints) };
    assert_eq!(code, 0);
    for i in 0..n_hints {
        let mut key = [0; 256];
        let mut value = [0; 1025];
        // SAFETY: there is an `i`th hint, and no key is longer than 255 bytes.
        let code = unsafe { ffi::MPI_Info_get_nthkey(info, i, key.as_mut_ptr()) };
        assert_eq!(code, 0);
        let (mut is_found, to) = (0, value.as_mut_ptr());
        // SAFETY: the key ends with a zero, and there is room for a value of 1024 bytes and its
        // own.
        let code = unsafe { ffi::MPI_Info_get(info, key.as_ptr(), 1024, to, &raw mut is_found) };
        assert_eq!((code, is_found), (0, 1));
        let (key, value) = (text(&key), text(&value));
        let words: BTreeSet<&str> = value.split(',').collect();
        let words: Vec<&str> = words.into_iter().collect();
        job::say(&format!("hint {key}={}", words.join(",")));
    }
    // SAFETY: the handle is valid, and nobody has another one.
    let code = unsafe { ffi::MPI_Info_free(&raw mut info) };
    assert_eq!(code, 0);
}

fn text(bytes: &[c_char]) -> String {
    assert!(bytes.contains(&0));
    // SAFETY: there is a zero among the bytes.
    let text = unsafe { CStr::from_ptr(bytes.as_ptr()) };
    text.to_string_lossy().into_owned()
}
