//! Promises and shared futures.

use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pgas_am::{Completes, Error, Promise, RemoteCalls, when_all};
use pgas_core::backend::loopback;

use super::ranks;

#[test]
fn every_future_of_a_promise_gets_the_value_and_runs_its_action() {
    ranks(1, |world| {
        let promise = Promise::of_value(world)?;
        let n_runs = Arc::new(AtomicU64::new(0));
        let early: Vec<_> = (0..5)
            .map(|i| {
                let n_runs = Arc::clone(&n_runs);
                promise.future().then(move |text: String| {
                    n_runs.fetch_add(1, Ordering::Relaxed);
                    format!("{text} {i}")
                })
            })
            .collect();
        let plain = promise.future();
        promise.fulfil_with("value".to_owned());
        let late = promise.future();
        for (i, future) in early.into_iter().enumerate() {
            assert_eq!(future.wait()?, format!("value {i}"));
        }
        assert_eq!(n_runs.load(Ordering::Relaxed), 5);
        assert_eq!(plain.wait()?, "value");
        assert_eq!(late.wait()?, "value");

        let counted = Promise::new(world)?;
        let futures: Vec<_> = (0..3).map(|_| counted.future()).collect();
        world.rpc(world.rank(), |x: u64| x, 1)?.fulfils(&counted);
        let last = counted.finalize();
        when_all(futures).wait()?;
        last.wait()
    });
}

#[test]
fn every_future_of_a_promise_hears_that_it_was_broken_or_failed() {
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        let futures: Vec<_> = (0..3).map(|_| promise.future().then(|()| 1)).collect();
        let mut plain = promise.future();
        drop(promise);
        assert!(plain.is_ready());
        assert!(matches!(plain.wait(), Err(Error::BrokenPromise)));
        for future in futures {
            assert!(matches!(future.wait(), Err(Error::BrokenPromise)));
        }
        let promise = Promise::new(world)?;
        let futures: Vec<_> = (0..3).map(|_| promise.future()).collect();
        world
            .rpc(world.rank(), |x: u64| 1 / x, 0)?
            .fulfils(&promise);
        let last = promise.finalize();
        for future in futures.into_iter().chain([last]) {
            let text = future.wait().unwrap_err().to_string();
            assert!(text.contains("divide by zero"), "{text}");
        }
        Ok(())
    });
}

#[test]
fn a_promise_that_has_failed_stays_so_whoever_fulfils_it() {
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        promise.require(1);
        promise.fail(Error::HasLeft);
        let other = promise.clone();
        other.fulfil(1);
        assert!(matches!(promise.finalize().wait(), Err(Error::HasLeft)));
        let mut late = other.future();
        assert!(late.is_ready());
        assert!(matches!(late.wait(), Err(Error::HasLeft)));
        let promise = Promise::of_value(world)?;
        promise.fail(Error::HasLeft);
        promise.fulfil_with(7);
        let mut late = promise.future();
        assert!(late.is_ready());
        assert!(matches!(late.wait(), Err(Error::HasLeft)));
        Ok(())
    });
}

/// Gives a value where nobody else has: when its action is dropped.
struct Otherwise(Promise<u64>);

impl Drop for Otherwise {
    fn drop(&mut self) {
        self.0.fulfil_with(0);
    }
}

#[test]
fn a_value_that_comes_while_a_promise_fails_is_too_late() {
    ranks(1, |world| {
        let promise = Promise::<u64>::of_value(world)?;
        let otherwise = Otherwise(promise.clone());
        let sum = promise.future().then(move |x| {
            let _kept = &otherwise;
            x + 1
        });
        promise.fail(Error::HasLeft);
        assert!(matches!(sum.wait(), Err(Error::HasLeft)));
        for _ in 0..300 {
            let promise = Promise::<u64>::of_value(world)?;
            let future = promise.future();
            thread::scope(|scope| {
                scope.spawn(|| promise.fail(Error::HasLeft));
                promise.fulfil_with(1);
            });
            assert!(matches!(future.wait(), Ok(1) | Err(Error::HasLeft)));
        }
        Ok(())
    });
}

#[test]
fn a_shared_future_that_says_that_it_is_ready_is() {
    ranks(1, |world| {
        let promise = Promise::<u64>::of_value(world)?;
        let shared = promise.future().shared();
        let other = shared.clone();
        let seen = shared.clone().then(move |_| {
            let is_ready = other.is_ready();
            let has_value = other.clone().future().is_ready();
            (is_ready, has_value, other.wait().is_ok())
        });
        promise.fulfil_with(5);
        let (is_ready, has_value, was_there) = seen.wait()?;
        assert_eq!((has_value, was_there), (is_ready, is_ready));
        assert!(shared.is_ready() && shared.wait()? == 5);
        Ok(())
    });
}

/// One thread clones the value while others look at it, in handlers, too.
#[test]
fn a_shared_future_that_is_ready_stays_ready_while_its_value_is_cloned() {
    struct Slow(Arc<[AtomicBool; 3]>);
    impl Clone for Slow {
        fn clone(&self) -> Self {
            let [is_slow, is_cloned, may_end] = &*self.0;
            is_cloned.store(is_slow.load(Ordering::Acquire), Ordering::Release);
            while is_slow.load(Ordering::Acquire) && !may_end.load(Ordering::Acquire) {
                thread::yield_now();
            }
            Self(Arc::clone(&self.0))
        }
    }
    ranks(1, |world| {
        let flags = Arc::new([const { AtomicBool::new(false) }; 3]);
        let promise = Promise::of_value(world)?;
        let shared = promise.future().shared();
        promise.fulfil_with(Slow(Arc::clone(&flags)));
        let [is_slow, is_cloned, may_end] = &*flags;
        is_slow.store(true, Ordering::Release);
        thread::scope(|scope| {
            let other = shared.clone();
            let cloning = scope.spawn(move || other.future().is_ready());
            while !is_cloned.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let is_ready = shared.is_ready();
            let ending = scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                may_end.store(true, Ordering::Release);
            });
            let waited = pgas_core::as_handler(|| shared.wait());
            ending.join().unwrap();
            assert!(cloning.join().unwrap() && is_ready && waited.is_ok());
        });
        Ok(())
    });
}

/// The action holds the last handle on another promise, or on the promise whose future it follows.
#[test]
fn actions_that_are_dropped_unrun_may_end_promises() {
    ranks(1, |world| {
        let promise = Promise::<u64>::of_value(world)?;
        let other = Promise::<u64>::of_value(world)?;
        let followed = other.future();
        drop(promise.future().then(move |x| other.fulfil_with(x)));
        let second = promise.future().then(|x| x + 1);
        drop(promise);
        assert!(matches!(followed.wait(), Err(Error::BrokenPromise)));
        assert!(matches!(second.wait(), Err(Error::BrokenPromise)));
        Ok(())
    });
}

/// A waker whose last handle ends a promise.
#[test]
fn wakers_are_dropped_where_nothing_is_locked() {
    struct Ends(#[expect(dead_code, reason = "it is dropped")] Promise);
    impl std::task::Wake for Ends {
        fn wake(self: Arc<Self>) {}
    }
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        let mut future = promise.future();
        let waker = Arc::new(Ends(promise)).into();
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(Pin::new(&mut future).poll(&mut cx).is_pending());
        drop(waker);
        let followed = future.then(|()| ());
        assert!(matches!(followed.wait(), Err(Error::BrokenPromise)));
        Ok(())
    });
}

#[test]
fn a_promise_whose_value_panics_when_it_is_cloned_is_broken_and_says_so() {
    struct Fragile(bool);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(!self.0, "not to be cloned");
            Self(self.0)
        }
    }
    let world = loopback::world();
    pgas_am::attach(&world).unwrap();
    let promise = Promise::of_value(&world).unwrap();
    promise.fulfil_with(Fragile(true));
    let first = panic::catch_unwind(AssertUnwindSafe(|| promise.future()));
    assert!(first.is_err(), "the clone panics");
    let second = promise.future().wait();
    assert!(matches!(second, Err(Error::BrokenPromise)));
}
