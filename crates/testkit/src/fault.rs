//! The ways in which a rank fails.

use std::process;
use std::time::Duration;

use pgas_core::World;
use rustix::process::{Resource, Rlimit, Signal};

use crate::job::{self, END_OF_JOB, Ended};
use crate::soon::{Moment, assert_soon, assert_timely};

/// The setting under which [`Fault::Stop`] is noticed.
pub const STALL: (&str, &str) = ("PGAS_STALL", "1");

/// What a rank prints just before it fails, and what a rank prints whose wait has failed.
const STRUCK: &str = "struck at ";
const WAITED: &str = " waited: ";

/// What happens to a rank while others wait for it.
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
    /// A memory fault's signal ends it.
    Segfault,
    /// SIGSTOP stops it, and nothing continues it.
    Stop,
    /// It leaves the job in good order and exits with code 0.
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

    /// What the launcher says of the rank.
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

    /// How long after it the job may go on.
    #[must_use]
    pub const fn limit(self) -> Duration {
        match self {
            Self::Stop => Duration::from_secs(1).saturating_add(END_OF_JOB),
            _ => END_OF_JOB,
        }
    }

    /// Lets it happen to this rank, as a process.
    ///
    /// # Panics
    ///
    /// If that is what happens.
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

/// What another rank does when its wait has failed: says so, and fails too.
pub fn give_up(rank: pgas_core::Rank, error: &dyn std::error::Error) -> ! {
    job::say(&format!("rank {rank}{WAITED}{error}"));
    job::exit(1)
}

/// Asserts that a job with a launcher of this library ended by `fault` of `rank`: in time, with the right
/// code, with one line that says what happened to whom, and with nothing left behind.
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

/// Asserts that a job ended soon enough after `fault`, and that none of its processes is left.
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

/// Asserts that `n_others` ranks were told by their waits that `rank` has failed.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn assert_known(ended: &Ended, rank: u32, n_others: usize) {
    let expected = format!("{WAITED}rank {rank} ");
    let n_told = ended.stdout.matches(&expected).count();
    assert!(n_told <= n_others, "{ended:?}");
    // A launcher gives them a moment before it ends them.
    assert_timely(n_told == n_others, ended);
}

/// Sends a signal to this process until that has ended it: the standard library takes the first fault
/// of memory for one that will happen again.
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
