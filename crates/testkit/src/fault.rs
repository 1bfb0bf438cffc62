//! The faults of a rank.

use std::process;
use std::time::Duration;

use pgas_core::World;
use rustix::process::{Resource, Rlimit, Signal};

use crate::job::{self, END_OF_JOB, Ended};
use crate::soon::{Moment, assert_soon, assert_timely};

/// The setting by which [`Fault::Stop`] is noticed.
pub const STALL: (&str, &str) = ("PGAS_STALL", "1");

/// The line that a rank prints just before it fails, and the line of a rank whose wait has failed.
const STRUCK: &str = "struck at ";
const WAITED: &str = " waited: ";

/// The fault of a rank while others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It panics.
    Panic,
    /// It exits with a code.
    Exit(u8),
    /// It calls [`World::abort`] with code 5.
    AbortJob,
    /// It calls [`process::abort`].
    Abort,
    /// SIGKILL ends it.
    Kill,
    /// A signal for a memory fault ends it.
    Segfault,
    /// SIGSTOP stops it, and nothing continues it.
    Stop,
    /// It leaves the job normally and exits with code 0.
    Leave,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Panic,
        Self::Exit(0),
        Self::Exit(3),
        Self::AbortJob,
        Self::Abort,
        Self::Kill,
        Self::Segfault,
        Self::Stop,
        Self::Leave,
    ];

    /// Its name, without spaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Exit(0) => "exit_well",
            Self::Exit(_) => "exit",
            Self::AbortJob => "abort_the_job",
            Self::Abort => "abort",
            Self::Kill => "kill",
            Self::Segfault => "segfault",
            Self::Stop => "stop",
            Self::Leave => "leave",
        }
    }

    /// The fault with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// The exit code of a job that ends by it, under a launcher of this library.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Panic => 101,
            Self::Exit(0) | Self::Stop | Self::Leave => 1,
            Self::Exit(code) => code as i32,
            Self::AbortJob => 5,
            Self::Abort => 128 + 6,
            Self::Kill => 128 + 9,
            Self::Segfault => 128 + 11,
        }
    }

    /// The launcher's message about the rank.
    #[must_use]
    pub const fn verdict(self) -> &'static str {
        match self {
            Self::Panic => "exited with code 101",
            Self::Exit(0) => "exited with code 0 without leaving the job",
            Self::Exit(_) => "exited with code 3",
            Self::AbortJob => "exited with code 5",
            Self::Abort => "was killed by signal 6 (SIGABRT",
            Self::Kill => "was killed by signal 9 (SIGKILL)",
            Self::Segfault => "was killed by signal 11 (SIGSEGV",
            Self::Stop => "has been stopped for 1s (PGAS_STALL)",
            Self::Leave => "has left the job while others wait for it",
        }
    }

    /// The time limit for the end of the job after the fault.
    #[must_use]
    pub const fn limit(self) -> Duration {
        match self {
            Self::Stop => Duration::from_secs(1).saturating_add(END_OF_JOB),
            _ => END_OF_JOB,
        }
    }

    /// Makes this rank, a process, fail in this way.
    ///
    /// # Panics
    ///
    /// If the fault is a panic.
    pub fn strike(self, world: World) -> ! {
        job::say(&format!("{STRUCK}{}", Moment::now().nanoseconds()));
        match self {
            Self::Panic => panic!("this rank panics"),
            Self::Exit(code) => job::exit(code),
            Self::AbortJob => world.abort(5, "no way on"),
            Self::Abort => {
                leave_no_core_file();
                process::abort()
            }
            Self::Kill => die_by(Signal::KILL),
            Self::Segfault => die_by(Signal::SEGV),
            Self::Stop => die_by(Signal::STOP),
            Self::Leave => {
                drop(world);
                job::exit(0)
            }
        }
    }
}

/// The reaction of another rank when its wait has failed: it says so, and fails, too.
pub fn give_up(rank: pgas_core::Rank, error: &dyn std::error::Error) -> ! {
    job::say(&format!("rank {rank}{WAITED}{error}"));
    job::exit(1)
}

/// Asserts that a job with a launcher of this library ended by `fault` of `rank`: in time, with the
/// right code, with one line that names the rank and the fault, and with nothing left behind.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn assert_blamed(ended: &Ended, fault: Fault, rank: u32) {
    let verdicts: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("pgas: rank ") && line.contains("(pid "))
        .collect();
    let [verdict] = verdicts[..] else {
        panic!("one line names the rank: {ended:?}");
    };
    assert!(
        verdict.starts_with(&format!("pgas: rank {rank} (pid ")),
        "{ended:?}"
    );
    assert!(verdict.contains(fault.verdict()), "{ended:?}");
    assert_eq!(ended.code(), fault.code(), "{ended:?}");
    assert_over(ended, fault);
}

/// Asserts that a job ended in time after `fault`, and that none of its processes is left.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn assert_over(ended: &Ended, fault: Fault) {
    let struck = ended.stdout.lines().find_map(|line| {
        let (_, at) = line.split_once(STRUCK)?;
        Moment::of_nanoseconds(at.parse().ok()?)
    });
    let struck = struck.unwrap_or_else(|| panic!("no rank was struck: {ended:?}"));
    assert_soon(ended.at.since(struck), fault.limit(), ended);
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// Asserts that the waits of `n_others` ranks returned the error that `rank` has failed.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn assert_known(ended: &Ended, rank: u32, n_others: usize) {
    let expected = format!("{WAITED}rank {rank} ");
    let n_told = ended.stdout.matches(&expected).count();
    assert!(n_told <= n_others, "{ended:?}");
    // A launcher gives them a moment before it kills them.
    assert_timely(n_told == n_others, ended);
}

/// Sends a signal to this process until it ends: the standard library's handler ignores the first
/// memory fault, and expects it to occur again.
fn die_by(signal: Signal) -> ! {
    leave_no_core_file();
    loop {
        rustix::process::kill_process(rustix::process::getpid(), signal)
            .expect("a process may send signals to itself");
    }
}

fn leave_no_core_file() {
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, nothing).expect("a limit may be lowered");
}
