//! Faults of whole jobs. After any failure of a rank, during any wait of the others, the job ends
//! at once, the cause is reported, and nothing is left behind. Other problems do not end the job:
//! exhausted memory is an error on every rank, and a job with many more ranks than processors
//! succeeds.
//!
//! The ranks are processes of this program, each in a role that [`parts`] lists.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod figures;
mod jobs;
mod limits;
mod manners;
mod many;
mod memory;
mod messages;
mod parts;
mod progress;
mod stalls;
mod suspended;
mod threads;
mod traces;
mod waits;
mod works;
mod worlds;

use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use pgas_testkit::Deadline;
use pgas_testkit::soon::tried;

/// The time limit of a test with all its jobs; far more than any needs.
const LIMIT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = parts::play(&args) {
        return code;
    }
    let trials = [
        ends::trials(),
        figures::trials(),
        traces::trials(),
        threads::trials(),
        limits::trials(),
        memory::trials(),
        progress::trials(),
        works::trials(),
        stalls::trials(),
        suspended::trials(),
        messages::trials(),
        many::trials(),
        worlds::trials(),
        manners::trials(),
    ];
    libtest_mimic::run(
        &Arguments::from_args(),
        trials.into_iter().flatten().collect(),
    )
    .exit_code()
}

/// Jobs with few ranks run in parallel. A job with many ranks runs alone, since the ends of the
/// others are timed.
static MACHINE: RwLock<()> = RwLock::new(());

/// A test that may run in parallel with others.
fn trial(name: impl Into<String>, body: impl Fn() + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        let _deadline = Deadline::new(name, LIMIT);
        tried(body);
        Ok(())
    })
}

/// A test that runs alone.
fn trial_alone(name: impl Into<String>, body: impl Fn() + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let _own = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        let _deadline = Deadline::new(name, LIMIT);
        tried(body);
        Ok(())
    })
}
