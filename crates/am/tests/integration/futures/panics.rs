//! Actions that panic.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use pgas_am::{Completes, Error, LocalCalls, PgasFuture, Promise, RemoteCalls, when_all};
use pgas_core::Rank;
use pgas_core::collective::op::Sum;

use super::ranks;

#[test]
fn an_action_that_panics_keeps_no_other_from_running() {
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        let n_runs = Arc::new(AtomicU64::new(0));
        let count = || {
            let n_runs = Arc::clone(&n_runs);
            move |()| _ = n_runs.fetch_add(1, Ordering::Relaxed)
        };
        let before = promise.future().then(count());
        let panics = promise.future().then(|()| {
            if true {
                panic!("on purpose")
            }
        });
        let follows = panics.then(|()| ());
        let after = promise.future().then(count());
        let end = || promise.fulfil(1);
        let payload = panic::catch_unwind(AssertUnwindSafe(end)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
        assert!(matches!(follows.wait(), Err(Error::BrokenPromise)));
        before.wait()?;
        after.wait()?;
        assert_eq!(n_runs.load(Ordering::Relaxed), 2);
        // None of these is nested in the one that panicked, or in each other.
        for n in 3..1000 {
            let promise = Promise::new(world)?;
            let counts = promise.future().then(count());
            promise.fulfil(1);
            assert_eq!(n_runs.load(Ordering::Relaxed), n);
            counts.wait()?;
        }
        Ok(())
    });
}

#[test]
fn an_action_that_panics_in_progress_keeps_no_other_from_running() {
    let is_chained = AtomicBool::new(false);
    ranks(2, |world| {
        let sum = || world.team().allreduce_nb(1_u64, Sum);
        if world.rank() == Rank::new(1) {
            while !is_chained.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let sums = [sum(), sum(), sum(), sum()];
            return when_all(Vec::from(sums)).wait().map(drop);
        }
        let before = sum().then(|x| x);
        let panics = sum().then(|_| {
            if true {
                panic!("on purpose")
            }
        });
        let follows = panics.then(|()| ());
        let after: [PgasFuture<u64>; 2] = [sum().then(|x| x), sum().then(|x| x)];
        is_chained.store(true, Ordering::Release);
        let progress = || {
            let mut n_panics = 0;
            let mut follows = follows;
            while !follows.is_ready() {
                let progress = || world.progress().unwrap();
                n_panics += u32::from(panic::catch_unwind(AssertUnwindSafe(progress)).is_err());
            }
            n_panics
        };
        assert_eq!(progress(), 1);
        assert_eq!(before.wait()?, 2);
        assert_eq!(when_all(Vec::from(after)).wait()?, [2, 2]);
        Ok(())
    });
}

/// What a panic carries that panics again each time it is dropped.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        panic::panic_any(Self);
    }
}

#[test]
fn a_panic_that_panics_again_when_it_is_dropped_ends_what_it_was_in_alone() {
    fn refuse(_: u64) -> u64 {
        panic::panic_any(Stubborn)
    }
    fn is_panic<T>(result: &Result<T, Error>) -> bool {
        matches!(result, Err(Error::RemotePanic(_)))
    }
    ranks(2, |world| {
        let other = Rank::new(1 - world.rank().number());
        assert!(is_panic(&world.rpc(other, refuse, 1)?.wait()));
        let task = async { Ok::<u64, Error>(refuse(1)) };
        assert!(is_panic(&world.spawn(task).wait()));
        let here = world.this_thread()?;
        assert!(is_panic(&world.local_call(&here, || refuse(1))?.wait()));
        // The first one of several actions is the program's to drop, the others are not.
        let promise = Promise::new(world)?;
        let _first = promise.future().then(|()| {
            if true {
                panic!("on purpose")
            }
        });
        let others = [(); 2].map(|()| promise.future().then(|()| refuse(1)));
        let end = || promise.fulfil(1);
        let payload = panic::catch_unwind(AssertUnwindSafe(end)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
        for other in others {
            assert!(matches!(other.wait(), Err(Error::BrokenPromise)));
        }
        world.barrier()
    });
}
