//! Actions that panic.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use pgas_am::codec::{Codec, Decoder, Each, Encoder};
use pgas_am::{
    Completes, Error, Here, LocalCalls, PgasFuture, Promise, RemoteCalls, Wire, when_all,
};
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

/// A value that can be sent, and panics where it is received.
#[derive(Clone, Debug)]
struct Unreadable;

enum ByPanic {}

impl Wire for Unreadable {
    type By = ByPanic;
}

impl Codec<Unreadable> for ByPanic {
    type Array<const N: usize> = Each<Self>;

    fn encode(_: &Unreadable, out: &mut Encoder) -> pgas_am::Result<()> {
        out.put(&1_u8)
    }

    fn decode(_: &mut Decoder<'_>) -> pgas_am::Result<Unreadable> {
        panic!("on purpose")
    }
}

/// Rank 1 answers rank 0 with what rank 2 answers, alone or joined.
#[test]
fn a_call_is_answered_if_the_codec_of_an_answer_in_it_panics() {
    fn ask(here: &Here) -> PgasFuture<Unreadable> {
        let asked = here.world().rpc(Rank::new(2), |()| Unreadable, ());
        asked.unwrap()
    }
    #[track_caller]
    fn assert_told<T: std::fmt::Debug>(answer: pgas_am::Result<T>) {
        let told = answer.unwrap_err().to_string();
        assert!(told.contains("has panicked"), "{told}");
    }
    let has_ended = AtomicBool::new(false);
    ranks(3, |world| {
        let ended = || Ok(has_ended.load(Ordering::Acquire));
        let here = Here::new(world);
        if world.rank() != Rank::ZERO {
            let mut waits = || world.wait_for("the end", ended);
            // Rank 1 panics where it reads the answers.
            while panic::catch_unwind(AssertUnwindSafe(&mut waits)).is_err() {}
            return Ok(());
        }
        let alone = |here: Here| ask(&here);
        let joined = |here: Here| when_all(vec![ask(&here), ask(&here)]);
        let nested =
            |here: Here| when_all((ask(&here).then(drop), when_all((ask(&here), ask(&here)))));
        let shared = |here: Here| ask(&here).shared().future();
        let to = Rank::new(1);
        assert_told(world.rpc(to, alone, here.clone())?.wait());
        assert_told(world.rpc(to, joined, here.clone())?.wait());
        assert_told(world.rpc(to, nested, here.clone())?.wait());
        assert_told(world.rpc(to, shared, here)?.wait());
        has_ended.store(true, Ordering::Release);
        Ok(())
    });
}

#[test]
fn users_of_a_value_get_an_error_if_its_codec_panics() {
    ranks(1, |world| {
        let call = || world.rpc(Rank::ZERO, |()| Unreadable, ());
        let shared = call()?.shared();
        let joined = when_all((call()?, call()?)).shared();
        let promise = Promise::new(world)?;
        call()?.fulfils(&promise);
        let mut told = promise.clone().finalize();
        let mut are_there = || Ok(shared.is_ready() && joined.is_ready() && told.is_ready());
        let mut wait = || world.wait_for("all of them", &mut are_there);
        // Each of them panics where it is read.
        let ended = loop {
            if let Ok(ended) = panic::catch_unwind(AssertUnwindSafe(&mut wait)) {
                break ended;
            }
        };
        ended?;
        assert!(matches!(shared.wait(), Err(Error::BrokenPromise)));
        assert!(matches!(joined.wait(), Err(Error::BrokenPromise)));
        assert!(matches!(told.wait(), Err(Error::BrokenPromise)));
        // The value is there already, and the call that takes it panics.
        let late = Promise::new(world)?;
        let mut ready = call()?;
        world.wait_for("the value", || Ok(ready.is_ready()))?;
        let fulfils = || ready.fulfils(&late);
        panic::catch_unwind(AssertUnwindSafe(fulfils)).unwrap_err();
        assert!(matches!(
            late.clone().finalize().wait(),
            Err(Error::BrokenPromise)
        ));
        drop((promise, late));
        Ok(())
    });
}
