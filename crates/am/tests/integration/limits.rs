//! A time limit ends the wait for an operation that may be carried out later.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pgas_am::{
    Completes as _, PgasFuture, Promise, RemoteCalls as _, WideAtomics as _, when_all, when_any,
};
use pgas_core::backend::loopback;
use pgas_core::{Config, Error, GlobalPtr, Rank, Result, World, process};
use pgas_testkit::weak::Weak;

/// The limit. All other waits take far less.
const LIMIT: Duration = Duration::from_secs(3);

type Wait = fn(&World, GlobalPtr<u64>) -> Result<()>;

/// Calls `check` with the number of each wait and how its job [ends](after), at the same time.
fn in_each(waits: &[Wait], check: impl Fn(usize, Vec<Result<()>>) + Sync) {
    thread::scope(|scope| {
        for (n, wait) in waits.iter().enumerate() {
            let check = &check;
            scope.spawn(move || check(n, after(*wait)));
        }
    });
}

/// Runs `body` on rank 0 of a job, over a network that does nothing before a flush, with a word of
/// rank 1. It fails by a time limit. Returns how a barrier ends then on both ranks.
fn after(body: Wait) -> Vec<Result<()>> {
    let mut config = Config::default();
    config.timeout = Some(LIMIT);
    let ranks = loopback::job(2, 1 << 20, &loopback::Options::default());
    let worlds = ranks.into_iter().map(|inner| {
        let held = Weak::new(Arc::new(inner), 1).held_for(u64::MAX);
        World::new(Arc::new(held), config.clone()).unwrap()
    });
    let has_ended = AtomicBool::new(false);
    let play = |world: World| {
        pgas_am::attach(&world).unwrap();
        let word = world.alloc_symmetric::<u128>(1).unwrap();
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            let ended = body(&world, word.on(Rank::new(1)).cast());
            has_ended.store(true, Ordering::Release);
            assert!(matches!(ended, Err(Error::Timeout(_))), "{ended:?}");
        } else {
            while !has_ended.load(Ordering::Acquire) {
                // Jobs beside this one wait for their barriers.
                thread::sleep(Duration::from_millis(1));
            }
        }
        world.barrier()
    };
    process::play_all(worlds.collect(), &play, &|_, _| {}, &|_, _| true)
}

/// Nobody would have what it has taken, such as a lock.
#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_limit_of_the_wait_for_an_atomic_that_changes_its_word_fails_the_job() {
    let waits: [Wait; 10] = [
        |world, word| word.fetch_add_nb(world, 1)?.wait().map(drop),
        |world, word| word.compare_exchange_nb(world, 0, 1)?.wait().map(drop),
        |world, word| word.atomic_store_nb(world, 1)?.wait(),
        |world, word| word.swap_nb(world, 1)?.at_source().wait().map(drop),
        |world, word| word.swap_nb(world, 1)?.future().wait().map(drop),
        |world, word| word.swap_nb(world, 1)?.then(drop).wait(),
        |world, word| {
            let both = (word.swap_nb(world, 1)?, word.get_nb(world)?);
            when_all(both).wait().map(drop)
        },
        |world, word| {
            let add = || word.fetch_add_nb(world, 1);
            when_any([add()?, add()?]).wait().map(drop)
        },
        |world, word| {
            word.cast()
                .compare_exchange_wide(world, 0_u128, 1)
                .map(drop)
        },
        |world, word| {
            let swapped = word.cast().compare_exchange_wide_nb(world, 0_u128, 1)?;
            swapped.wait().map(drop)
        },
    ];
    in_each(&waits, |n, ends| {
        for ended in ends {
            let failed = ended.unwrap_err().to_string();
            assert!(failed.contains("rank 0 failed in an "), "{n}: {failed}");
        }
    });
}

/// What a chain begins says so when it begins, behind the program's back.
#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_limit_of_the_wait_for_a_chain_that_has_begun_such_an_atomic_fails_the_job() {
    /// Begins the atomic in a later round.
    fn chain(world: &World, word: GlobalPtr<u64>) -> PgasFuture<u64> {
        let same = world.clone();
        soon(world).and_then(move |()| word.fetch_add_nb(&same, 1))
    }
    let waits: [Wait; 8] = [
        |world, word| chain(world, word).wait().map(drop),
        |world, word| chain(world, word).then(drop).then(|()| ()).wait(),
        |world, word| {
            let same = world.clone();
            let chain = soon(world).and_then(move |()| chain(&same, word).then(drop));
            chain.and_then(|()| PgasFuture::ready(())).wait()
        },
        |world, word| when_all((soon(world), chain(world, word))).wait().map(drop),
        |world, word| {
            let joined = when_all((soon(world), when_all(vec![chain(world, word)])));
            joined.then(drop).then(|()| ()).wait()
        },
        |world, word| {
            let joined = when_all(vec![chain(world, word)]);
            soon(world).and_then(|()| joined).then(drop).wait()
        },
        |world, word| when_any([chain(world, word)]).wait().map(drop),
        |world, word| {
            let same = world.clone();
            let late = soon(world).and_then(move |()| chain(&same, word));
            let first = when_any([soon(world).then(|()| 0), late]).wait()?;
            when_any(first.rest).wait()?.result.map(drop)
        },
    ];
    in_each(&waits, |n, ends| {
        for ended in ends {
            let failed = ended.unwrap_err().to_string();
            assert!(failed.contains("rank 0 failed in an "), "{n}: {failed}");
        }
    });
}

/// Ready in a later round of progress.
fn soon(world: &World) -> PgasFuture<()> {
    let mut rounds = 0..3;
    world.spawn(poll_fn(move |_| match rounds.next() {
        None => Poll::Ready(Ok(())),
        Some(_) => Poll::Pending,
    }))
}

/// Those that wait for a call, and do not say so.
#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_limit_of_the_wait_for_a_task_or_a_promise_names_the_rank_that_does_not_answer() {
    fn call(world: &World) -> Result<PgasFuture<u64>> {
        world.rpc(Rank::new(1), |x: u64| x, 1)
    }
    // A panic would leave rank 1 waiting.
    fn named(ended: Result<()>) -> Result<()> {
        ended.map_err(|error| match error.to_string() {
            text if text.ends_with("; missing: rank 1") => error,
            text => Error::backend("name", 0, text),
        })
    }
    let waits: [Wait; 3] = [
        |world, _| {
            let called = call(world)?;
            named(world.spawn(async { called.await.map(drop) }).wait())
        },
        |world, _| {
            let promise = Promise::new(world)?;
            call(world)?.fulfils(&promise);
            named(promise.future().wait())
        },
        |world, _| {
            let called = call(world)?;
            let both = when_all((world.spawn(called), call(world)?));
            named(both.wait().map(drop))
        },
    ];
    in_each(&waits, |_, ends| ends.into_iter().for_each(Result::unwrap));
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_limit_of_another_wait_does_not() {
    let waits: [Wait; 6] = [
        |world, word| {
            let same = world.clone();
            let read = soon(world).and_then(move |()| word.get_nb(&same));
            read.then(drop).wait()
        },
        |world, word| word.cast::<u128>().load_wide(world).map(drop),
        |world, word| word.atomic_load_nb(world)?.wait().map(drop),
        |world, word| word.get_nb(world)?.wait().map(drop),
        |world, word| word.put_nb(world, 1)?.then(drop).wait(),
        |world, _| world.wait_for("a test", || Ok(false)),
    ];
    in_each(&waits, |_, ends| ends.into_iter().for_each(Result::unwrap));
}
