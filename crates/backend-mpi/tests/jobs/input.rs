//! What bad input gets: one line on every rank.
#![expect(unsafe_code, reason = "wraps a call of MPI")]

use std::ffi::{c_int, c_void};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use mpi::ffi;
use pgas_core::Config;
use pgas_testkit::job;

use crate::support::is_open_mpi;
use crate::{PART, assert_refused, mpirun, mpirun_with_each, run};

/// Starts, and says what is wrong.
pub(crate) fn start(_: &str) {
    let made = Config::from_env().and_then(|config| pgas_mpi::init(&config));
    if let Err(error) = made {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "one line: {text}");
        job::say(&text);
        // A launcher ends all as soon as one has: let each be heard.
        std::thread::sleep(Duration::from_secs(1));
        job::exit(3);
    }
}

pub(crate) fn sizes_differ(direct: &str) {
    let mut command = mpirun_with_each("PGAS_SEGMENT", &["1M", "2M"], &[PART, "start"]);
    command.env("PGAS_DIRECT", direct);
    let text = "all ranks must have the same, but rank 0 has 1048576 and rank 1 has 2097152";
    assert_refused(&run(command), 2, text);
}

pub(crate) fn size_refused(direct: &str) {
    let mut command = mpirun(2);
    command
        .args([PART, "start"])
        .env("PGAS_SEGMENT", "2T")
        .env("PGAS_DIRECT", direct);
    assert_refused(
        &run(command),
        2,
        "PGAS_SEGMENT=2199023255552: a segment has",
    );
}

pub(crate) fn ways_differ() {
    let mut command = mpirun_with_each("PGAS_DIRECT", &["1", "0"], &[PART, "start"]);
    command.env("PGAS_SEGMENT", "1M");
    let text = "all ranks must have the same, but rank 0 has 1 and rank 1 has 0";
    assert_refused(&run(command), 2, text);
}

pub(crate) fn other_launcher() {
    let mut command = if is_open_mpi() {
        Command::new("mpiexec.hydra")
    } else {
        let mut command = Command::new("mpirun.openmpi");
        command.args(["--allow-run-as-root", "--oversubscribe"]);
        command
    };
    command.args(["-n", "2"]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args([PART, "start"]).env("PGAS_SEGMENT", "1M");
    let library = pgas_mpi::library().expect("a name");
    let text = format!("this program was built with {library}, and ");
    assert_refused(&run(command), 2, &text);
}

/// The variable that makes this program's MPI one whose windows have the separate memory model.
const SEPARATE: &str = "PGAS_TEST_SEPARATE";

pub(crate) fn separate_model_refused() {
    let mut command = mpirun(2);
    command
        .args([PART, "start"])
        .env("PGAS_SEGMENT", "1M")
        .env("PGAS_DIRECT", "0")
        .env(SEPARATE, "1");
    assert_refused(&run(command), 2, "separate memory model only");
}

/// MPI's own, which programs may wrap in this way (MPI-3.1, section 14.2): the backend asks it for nothing but the
/// memory model of its window.
///
/// # Safety
///
/// As MPI's.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "the linker reaches it")]
pub unsafe extern "C" fn MPI_Win_get_attr(
    window: ffi::MPI_Win,
    key: c_int,
    value: *mut c_void,
    is_found: *mut c_int,
) -> c_int {
    static OTHER: AtomicI32 = AtomicI32::new(0);
    // SAFETY: the caller's promises are the same.
    let code = unsafe { ffi::PMPI_Win_get_attr(window, key, value, is_found) };
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of this test, not of the library"
    )]
    let is_separate = std::env::var_os(SEPARATE).is_some();
    if is_separate {
        let place = value.cast::<*const c_int>();
        // SAFETY: the attribute is a pointer to an integer, which MPI has just written there.
        let model = unsafe { place.read() };
        // SAFETY: MPI keeps the integer as long as the window.
        let unified = unsafe { model.read() };
        OTHER.store(unified + 100, Ordering::Relaxed);
        // SAFETY: the place is writable, as above.
        unsafe { place.write(OTHER.as_ptr()) };
    }
    code
}
