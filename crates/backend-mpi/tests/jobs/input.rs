//! Bad input gets one line on every rank.
#![expect(unsafe_code, reason = "wraps a call of MPI")]

use std::ffi::{c_int, c_void};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use mpi::ffi;
use pgas_core::Config;
use pgas_testkit::job::{self, eventually};

use crate::support::is_open_mpi;
use crate::{PART, assert_nothing_left, assert_well, mpirun, mpirun_with_each, ranks, run, world};

/// Joins the job, and prints what is wrong.
pub(crate) fn start(_: &str) {
    let made = Config::from_env().and_then(|config| pgas_mpi::init(&config));
    if let Err(error) = made {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "one line: {text}");
        job::say(&text);
        wait_for_the_others();
        // What was said is in a pipe, which the launcher reads before it learns of an end.
        std::thread::sleep(Duration::from_millis(300));
        job::exit(3);
    }
}

/// The variable that names the folder in which each rank notes that it has said what is wrong.
const TOLD: &str = "PGAS_TEST_TOLD";

/// A launcher ends all ranks as soon as one has ended. So each waits until all have said what is
/// wrong.
fn wait_for_the_others() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of this test, not of the library"
    )]
    let folder = std::env::var_os(TOLD).expect("whoever expects to be refused sets it");
    let folder = Path::new(&folder);
    let name = std::process::id().to_string();
    fs::write(folder.join(name), "").expect("the folder is there");
    eventually("both ranks have said what is wrong", || {
        folder.read_dir().expect("the folder is there").count() == 2
    });
}

/// Runs two ranks, each of which must say `text` and fail.
#[track_caller]
fn assert_refused(mut command: Command, text: &str) {
    static N_FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = N_FOLDERS.fetch_add(1, Ordering::Relaxed);
    let name = format!("told-{}-{number}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the tests");
    command.env(TOLD, &folder);
    let ended = job::start(command).end();
    fs::remove_dir_all(&folder).expect("it was made above");
    assert_ne!(ended.code(), 0, "{ended:?}");
    let n_told = ended.stdout.matches(text).count();
    assert_eq!(n_told, 2, "every rank says {text:?}: {ended:?}");
    assert_nothing_left(&ended);
}

pub(crate) fn sizes_differ(direct: &str) {
    let mut command = mpirun_with_each("PGAS_SEGMENT", &["1M", "2M"], &[PART, "start"]);
    command.env("PGAS_DIRECT", direct);
    let text = "all ranks must have the same, but rank 0 has 1048576 and rank 1 has 2097152";
    assert_refused(command, text);
}

pub(crate) fn size_refused(direct: &str) {
    let mut command = mpirun(2);
    command
        .args([PART, "start"])
        .env("PGAS_SEGMENT", "2T")
        .env("PGAS_DIRECT", direct);
    assert_refused(command, "PGAS_SEGMENT=2199023255552: a segment has");
}

pub(crate) fn ways_differ() {
    let mut command = mpirun_with_each("PGAS_DIRECT", &["1", "0"], &[PART, "start"]);
    command.env("PGAS_SEGMENT", "1M");
    let text = "all ranks must have the same, but rank 0 has 1 and rank 1 has 0";
    assert_refused(command, text);
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
    assert_refused(command, &text);
}

/// A program that was to start its ranks itself.
pub(crate) fn ranks_wanted() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([PART, "refuse"]).env("PGAS_RANKS", "3");
    let ended = run(command);
    assert_ne!(ended.code(), 0, "{ended:?}");
    let text = "is not the number of ranks of this job, which is 1";
    assert!(ended.stdout.contains(text), "{ended:?}");
    assert!(ended.stdout.contains("mpirun -n 3"), "{ended:?}");
}

/// As [`start`], of one rank.
pub(crate) fn refuse(_: &str) {
    let made = Config::from_env().and_then(|config| pgas_mpi::init(&config));
    if let Err(error) = made {
        job::say(&error.to_string());
        job::exit(3);
    }
}

/// The script by which this crate was built, started as on a machine without MPI.
pub(crate) fn no_library_found() {
    // target/debug/build/pgas-mpi-0123456789abcdef/out
    let own = Path::new(env!("OUT_DIR"))
        .parent()
        .expect("a folder of cargo's");
    let builds = own.parent().expect("a folder of cargo's").read_dir();
    let scripts = builds.expect("it is there").filter_map(|entry| {
        let folder = entry.ok()?.path();
        let is_ours = folder.file_name()?.to_str()?.starts_with("pgas-mpi-");
        let script = folder.join("build-script-build");
        let modified = script.metadata().ok()?.modified().ok()?;
        is_ours.then_some((modified, script))
    });
    let (_, script) = scripts.max().expect("the script that has run");
    let output = Command::new(script)
        .env_clear()
        .env("PATH", "/nonexistent")
        .output()
        .expect("the script runs");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("cargo::error="))
        .collect();
    assert_eq!(errors.len(), 1, "{told}");
    for package in ["libopenmpi-dev", "libmpich-dev"] {
        assert!(errors[0].contains(package), "{told}");
    }
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
    assert_refused(command, "separate memory model only");
}

/// Wraps MPI's own function, as programs may do (MPI-3.1, section 14.2). The backend asks it only
/// for the memory model of its window.
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
    // SAFETY: the function behind MPI's profiling name is the one that the caller has called, and
    // it gets his arguments (MPI-3.1, section 14.2).
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

/// Only a process with one thread writes settings for MPI to the environment.
pub(crate) fn environment_left() {
    for what in ["alone", "beside another"] {
        let mut command = ranks(2, "start_beside", what, "1");
        command.env_remove(ADVISED);
        let ended = run(command);
        assert_well(&ended);
        let warning = "several threads, so its settings are left alone; these are advised: OMPI_MCA_osc=sm,pt2pt";
        let n_warned = ended.stderr.matches(warning).count();
        assert_eq!(n_warned, usize::from(what != "alone"), "{ended:?}");
    }
}

/// A variable that is set where the user has not chosen.
const ADVISED: &str = "OMPI_MCA_osc";

pub(crate) fn start_beside(what: &str) {
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let is_alone = what == "alone";
    let other = (!is_alone).then(|| std::thread::spawn(move || wait.recv().is_ok()));
    let world = world();
    world.barrier().expect("all are here");
    #[expect(
        clippy::disallowed_methods,
        reason = "what is asked is whether it was set"
    )]
    let is_set = std::env::var_os(ADVISED).is_some();
    assert_eq!(is_set, is_alone);
    drop(end);
    other.map(std::thread::JoinHandle::join);
}
