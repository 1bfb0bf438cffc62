//! The driver of a program of tokio tasks.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgas_am::{
    ActiveMessages, Driver, Error, Payload, Promise, RemoteCalls, RequestHandler, Token, when_all,
};
use pgas_core::backend::AtomicOp;
use pgas_core::collective::op::Sum;
use pgas_core::{Config, Rank, World};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

/// The maximum time of a future; far more than any needs.
const LIMIT: Duration = Duration::from_secs(30);

fn config() -> Config {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().unwrap()
}

/// Runs `body` on `n` ranks, each with a runtime of its own.
fn ranks<F: Future<Output = pgas_am::Result<()>>>(n: u32, body: impl Fn(World) -> F + Sync) {
    let ended = pgas_smp::threads_with(n, &config(), |world| {
        pgas_am::attach(&world).unwrap();
        runtime().block_on(async {
            let ended = tokio::time::timeout(LIMIT, body(world.clone())).await;
            ended.expect("nothing hangs").unwrap();
        });
        world.barrier().unwrap();
    });
    assert_eq!(ended.unwrap().len(), n as usize);
}

fn neighbour(world: &World) -> Rank {
    Rank::new((world.rank().number() + 1) % world.n_ranks())
}

#[test]
fn calls_transfers_atomics_and_collectives_are_awaited_by_tasks() {
    ranks(3, |world| async move {
        let driver = Driver::start(&world)?;
        let word = world.alloc_symmetric::<u64>(1)?;
        let to = neighbour(&world);
        let mut tasks = Vec::new();
        for i in 0..200 {
            let (world, word) = (world.clone(), word.on(to));
            tasks.push(tokio::spawn(async move {
                let double = world.rpc(to, |x: u64| 2 * x, i)?.await?;
                let more = world
                    .rpc(to, |x: u64| x + 1, double)?
                    .then(|x| x + 1)
                    .await?;
                let both = when_all((
                    world.rpc(to, |x: u64| x, more)?,
                    word.fetch_op_nb(&world, AtomicOp::Add, 1)?,
                ));
                Ok::<_, Error>(both.await?.0)
            }));
        }
        for (i, task) in (0..200).zip(tasks) {
            assert_eq!(task.await.unwrap()?, 2 * i + 2);
        }
        world.barrier_nb().await?;
        assert_eq!(word.here().get_nb(&world)?.await?, 200);
        let sums = (0..20_u64).map(|i| world.team().allreduce_nb(i, Sum));
        for (i, sum) in sums.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(sum.await?, 3 * i as u64);
        }
        world.barrier_nb().await?;
        driver.stop().await
    });
}

#[test]
fn a_future_that_is_awaited_when_the_driver_ends_goes_on_without_it() {
    ranks(2, |world| async move {
        let driver = Driver::start(&world)?;
        let to = neighbour(&world);
        let promise = Promise::of_value(&world)?;
        let barrier = world.barrier_nb();
        let of_promise = tokio::spawn(promise.future());
        // Its target serves nothing before it has stopped its own driver.
        let answers: Vec<_> = (0..100)
            .map(|x| Ok(tokio::spawn(world.rpc(to, |x: u64| x, x)?)))
            .collect::<pgas_am::Result<_>>()?;
        driver.stop().await?;
        for (x, answer) in (0..100).zip(answers) {
            assert_eq!(answer.await.unwrap()?, x);
        }
        promise.fulfil_with(7);
        assert_eq!(of_promise.await.unwrap()?, 7);
        barrier.await
    });
}

#[test]
fn a_task_that_awaits_a_rank_that_fails_gets_an_error_and_so_does_who_stops_the_driver() {
    let errors = Mutex::new(Vec::new());
    let job = || {
        pgas_smp::threads_with(2, &config(), |world| {
            pgas_am::attach(&world).unwrap();
            world.barrier().unwrap();
            assert_eq!(world.rank(), Rank::ZERO, "this rank fails on purpose");
            runtime().block_on(async {
                let driver = Driver::start(&world).unwrap();
                let answer = world.rpc(Rank::new(1), |x: u64| x, 1).unwrap();
                let event = world.barrier_nb();
                let chained = world.rpc(Rank::new(1), |x: u64| x, 1).unwrap().then(drop);
                let [answer, event, chained] = [
                    tokio::spawn(async { answer.await.map(drop).map_err(|e| e.to_string()) }),
                    tokio::spawn(async { event.await.map_err(|e| e.to_string()) }),
                    tokio::spawn(async { chained.await.map_err(|e| e.to_string()) }),
                ];
                for task in [answer, event, chained] {
                    let ended = tokio::time::timeout(LIMIT, task).await;
                    errors
                        .lock()
                        .unwrap()
                        .push(ended.expect("nothing hangs").unwrap());
                }
                let stopped = driver.stop().await.map_err(|error| error.to_string());
                errors.lock().unwrap().push(stopped);
            });
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err());
    let errors = errors.into_inner().unwrap();
    assert_eq!(errors.len(), 4);
    for error in errors {
        assert!(
            error.clone().is_err_and(|text| text.contains("rank 1")),
            "{error:?}"
        );
    }
}

#[test]
fn tasks_hear_of_a_rank_that_has_left_without_answering() {
    let ended = pgas_smp::threads_with(2, &config(), |world| {
        pgas_am::attach(&world).unwrap();
        let to = Rank::new(1);
        if world.rank() == to {
            return;
        }
        while !world.has_left(to) {
            world.progress().unwrap();
        }
        runtime().block_on(async {
            let driver = Driver::start(&world).unwrap();
            let call = || world.rpc(to, |x: u64| x, 1).unwrap();
            let tasks = [
                tokio::spawn(call()),
                tokio::spawn(call().then(|x| x + 1)),
                tokio::spawn(when_all(vec![call(), call()]).then(|all| all[0])),
            ];
            for task in tasks {
                let ended = tokio::time::timeout(LIMIT, task).await;
                let error = ended.expect("nothing hangs").unwrap().unwrap_err();
                assert!(error.to_string().contains("rank 1"), "{error}");
            }
            driver.stop().await.unwrap();
        });
    });
    assert_eq!(ended.unwrap().len(), 2);
}

#[test]
fn an_idle_driver_takes_next_to_no_time_of_a_processor() {
    let time = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
    ranks(1, |world| async move {
        let driver = Driver::start(&world)?;
        let (before, began) = (time(), Instant::now());
        // The other tests of this file run meanwhile, in the same process; they end soon.
        let mut quietest = Duration::MAX;
        while quietest > Duration::from_millis(20) && began.elapsed() < LIMIT {
            let before = time();
            tokio::time::sleep(Duration::from_millis(200)).await;
            quietest = quietest.min(time() - before);
        }
        assert!(
            quietest <= Duration::from_millis(20),
            "{quietest:?} of 200 ms"
        );
        assert!(time() >= before);
        driver.stop().await
    });
}

#[test]
fn a_second_driver_starts_after_the_first_has_stopped_and_not_before() {
    ranks(1, |world| async move {
        for _ in 0..3 {
            let driver = Driver::start(&world)?;
            let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                Driver::start(&world).map(drop)
            }));
            assert!(second.is_err());
            assert_eq!(world.rpc(Rank::ZERO, |x: u64| x, 1)?.await?, 1);
            driver.stop().await?;
        }
        Ok(())
    });
}

struct Fails;

impl RequestHandler for Fails {
    type Args = ();

    fn handle(&self, _: Token<'_>, (): (), _: Payload<'_>) -> pgas_am::Result<()> {
        Err(Error::setting("A", "b".to_owned(), "a handler's error"))
    }
}

#[test]
fn a_driver_goes_on_after_the_error_of_a_handler_and_returns_it_at_its_end() {
    let (drives, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
    let (drives, is_answered) = (&drives, &is_answered);
    ranks(2, |world| async move {
        world.register::<Fails>(Fails)?;
        world.barrier()?;
        let to = neighbour(&world);
        if world.rank() != Rank::ZERO {
            // Elsewhere the barrier would return the error.
            while !drives.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
            world.request::<Fails>(to, &())?;
            let answer = world.rpc(to, |x: u64| x + 1, 1)?.await;
            is_answered.store(true, Ordering::Release);
            assert_eq!(answer?, 2);
            return Ok(());
        }
        let driver = Driver::start(&world)?;
        drives.store(true, Ordering::Release);
        while !is_answered.load(Ordering::Acquire) {
            tokio::task::yield_now().await;
        }
        let error = driver.stop().await.unwrap_err().to_string();
        assert!(error.contains("a handler's error"), "{error}");
        Ok(())
    });
}

/// The runtime waits for the driver, which is on one of its threads.
#[test]
fn a_driver_ends_with_its_runtime() {
    let (done, is_done) = std::sync::mpsc::channel();
    let body = move || {
        let ended = pgas_smp::threads_with(2, &config(), |world| {
            pgas_am::attach(&world).unwrap();
            let current = tokio::runtime::Builder::new_current_thread().build();
            for runtime in [current.unwrap(), runtime()] {
                let driver = runtime.block_on(async { Driver::start(&world) }).unwrap();
                drop(runtime);
                let call = world.rpc(neighbour(&world), |x: u64| x + 1, 1).unwrap();
                assert_eq!(call.wait().unwrap(), 2); // without the driver
                drop(driver);
                world.barrier().unwrap();
            }
        });
        done.send(ended.unwrap().len())
    };
    let ranks = std::thread::spawn(body);
    assert_eq!(is_done.recv_timeout(LIMIT), Ok(2));
    ranks.join().unwrap().unwrap();
}
