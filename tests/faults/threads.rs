//! The same with ranks as threads of one process. There a panic is an error of the others' waits,
//! and is propagated to the caller who started the ranks.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

use libtest_mimic::Trial;
use pgas::Config;
use pgas_testkit::fault::Fault;
use pgas_testkit::job::END_OF_JOB;
use pgas_testkit::panic_text;
use pgas_testkit::soon::{Moment, assert_soon};

use crate::trial;
use crate::waits::{FAILING, Part, WAITS, Wait, assert_told_again};

const N_RANKS: u32 = 4;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for wait in WAITS {
        for (fault, text) in [
            (Fault::Panic, "this rank panics"),
            (Fault::AbortJob, "no way on"),
        ] {
            let name = format!("threads::{}::{}", wait.name, fault.name());
            trials.push(trial(name, move || {
                the_others_fail_and_the_panic_goes_on(wait, fault, text);
            }));
        }
        if wait.misses_who_left {
            let name = format!("threads::{}::leave", wait.name);
            trials.push(trial(name, || the_others_miss_a_thread_that_left(wait)));
        }
    }
    trials
}

/// The errors of the waiting ranks, and the text of the panic if the job panicked.
fn run(wait: &Wait, fault: Fault) -> (Vec<String>, Result<(), String>) {
    let told = Mutex::new(Vec::new());
    let failed = Mutex::new(None);
    let mut config = Config::default();
    config.segment_bytes = Some(4 << 20);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let ranks =
            pgas::threads_with(N_RANKS, &config, |world| match wait.play(&world).unwrap() {
                Part::Fail => {
                    *failed.lock().unwrap() = Some(Moment::now());
                    if fault != Fault::Leave {
                        fault.strike(world);
                    }
                }
                Part::Failed(error) => {
                    assert_told_again(&world);
                    told.lock().unwrap().push(error.to_string());
                }
            });
        ranks.unwrap();
    }));
    let took = failed.into_inner().unwrap().unwrap().elapsed();
    assert_soon(took, END_OF_JOB, &fault);
    let outcome = outcome.map_err(|payload| panic_text(&*payload).to_owned());
    (told.into_inner().unwrap(), outcome)
}

fn the_others_fail_and_the_panic_goes_on(wait: &Wait, fault: Fault, text: &str) {
    let (told, outcome) = run(wait, fault);
    let outcome = outcome.unwrap_err();
    assert!(outcome.contains(text), "{outcome}");
    assert_eq!(told.len(), 3, "{told:?}");
    for error in told {
        let blames = error.starts_with(&format!("rank {FAILING} "));
        assert!(blames && error.contains(text), "{error}");
    }
}

fn the_others_miss_a_thread_that_left(wait: &Wait) {
    let (told, outcome) = run(wait, Fault::Leave);
    assert_eq!(outcome, Ok(()));
    assert_eq!(told.len(), 3, "{told:?}");
    for error in told {
        let expected = format!("rank {FAILING} has left the job while others wait for it in ");
        assert!(error.starts_with(&expected), "{error}");
    }
}
