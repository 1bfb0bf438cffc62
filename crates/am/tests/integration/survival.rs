//! What handlers and codecs do wrong costs no other call its answer.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgas_am::codec::{Codec, Decoder, Each, Encoder, Wire};
use pgas_am::{
    ActiveMessages, Error, Here, Payload, PgasFuture, RemoteCalls, RequestHandler, Result, Token,
    attach, quiet,
};
use pgas_core::backend::loopback;
use pgas_core::{Config, Rank, World};

const ONE: Rank = Rank::new(1);

/// Runs `body` on two ranks, which serve each other.
fn pairs(body: impl Fn(&World) + Sync) {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(20));
    loopback::run_with(2, &config, |world| {
        attach(&world).unwrap();
        body(&world);
        world.barrier().unwrap();
    });
}

/// A value that calls when it is read, and panics then.
struct Calls;

enum ByCalls {}

impl Wire for Calls {
    type By = ByCalls;
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    static CALLED: RefCell<Option<PgasFuture<u64>>> = const { RefCell::new(None) };
}

impl Codec<Calls> for ByCalls {
    type Array<const N: usize> = Each<Self>;

    fn encode(_: &Calls, out: &mut Encoder) -> Result<()> {
        out.put(&1_u64)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Calls> {
        let _one: u64 = input.get()?;
        let world = WORLD.take().expect("the test has set it");
        CALLED.set(Some(world.rpc(ONE, |x: u64| x + 1, 69).unwrap()));
        panic!("on purpose");
    }
}

/// A value that cannot be written.
struct Unwritable;

enum ByPanic {}

impl Wire for Unwritable {
    type By = ByPanic;
}

impl Codec<Unwritable> for ByPanic {
    type Array<const N: usize> = Each<Self>;

    fn encode(_: &Unwritable, _: &mut Encoder) -> Result<()> {
        panic!("on purpose");
    }

    fn decode(_: &mut Decoder<'_>) -> Result<Unwritable> {
        Ok(Unwritable)
    }
}

struct Fails;

impl RequestHandler for Fails {
    type Args = u64;

    fn handle(&self, _: Token<'_>, n: u64, _: Payload<'_>) -> Result<()> {
        Err(Error::setting("N", n.to_string(), "a handler's error"))
    }
}

/// The slot of a call whose answer is read belongs to the next call.
#[test]
fn a_panic_while_an_answer_is_read_costs_no_other_call_its_answer() {
    pairs(|world| {
        if world.rank() == ONE {
            return;
        }
        for _ in 0..3 {
            let call = world.rpc(ONE, |()| Calls, ()).unwrap();
            WORLD.set(Some(world.clone()));
            let read = AssertUnwindSafe(|| call.wait().map(drop));
            assert!(catch_unwind(read).is_err());
            let others: Vec<_> = (0..3)
                .map(|i| world.rpc(ONE, |x: u64| x + 1, i).unwrap())
                .collect();
            let called = CALLED.take().unwrap();
            assert_eq!(called.wait().unwrap(), 70);
            for (i, other) in others.into_iter().enumerate() {
                assert_eq!(other.wait().unwrap(), i as u64 + 1);
            }
        }
    });
}

/// On two ranks, a handler of rank 0 fails while that waits for an answer. The answer comes all the
/// same, and so does the error, by `told` on rank 0.
fn error_of_a_handler_in_a_wait(told: impl Fn(&World) -> Result<()> + Sync) {
    let asks = AtomicBool::new(false);
    pairs(|world| {
        world.register::<Fails>(Fails).unwrap();
        world.barrier().unwrap();
        if world.rank() == ONE {
            // Rank 0 is past the barrier, which an error would fail. It gets no answer before.
            while !asks.load(Ordering::Acquire) {
                thread::yield_now();
            }
            world.request::<Fails>(Rank::ZERO, &7).unwrap();
            return;
        }
        asks.store(true, Ordering::Release);
        let answer = world.rpc(ONE, |x: u64| x + 1, 1).unwrap().wait();
        assert_eq!(answer.unwrap(), 2);
        let told = told(world).unwrap_err().to_string();
        assert!(told.contains("a handler's error"), "{told}");
        world.check_handlers().unwrap();
        world.progress().unwrap();
    });
}

#[test]
fn the_error_of_a_handler_that_runs_meanwhile_costs_no_answer_and_progress_tells_it() {
    error_of_a_handler_in_a_wait(|world| {
        loop {
            world.progress()?;
        }
    });
}

/// A program that only calls and waits for answers makes no other progress.
#[test]
fn a_later_call_tells_the_error_of_a_handler() {
    error_of_a_handler_in_a_wait(|world| {
        loop {
            world.rpc(ONE, |x: u64| x + 1, 1)?.wait()?;
        }
    });
    error_of_a_handler_in_a_wait(|world| {
        loop {
            let views = (&[1_u64][..], &[2_u64][..]);
            let sum = |(), a: &[u64], b: &[u64]| a[0] + b[0];
            world.rpc_views(ONE, sum, (), views)?.wait()?;
        }
    });
}

#[test]
fn a_later_value_that_cannot_be_written_is_an_error_of_its_call() {
    pairs(|world| {
        if world.rank() == Rank::ZERO {
            let later = |world: Here| {
                let world = world.world();
                let own = world.rpc(world.rank(), |()| (), ()).unwrap();
                own.then(|()| Unwritable)
            };
            let call = world.rpc(ONE, later, Here::new(world)).unwrap();
            let error = call.wait().map(drop).unwrap_err();
            assert!(matches!(error, Error::RemotePanic(_)), "{error}");
        }
        quiet(world).unwrap();
    });
}

/// Sends itself again.
#[expect(clippy::needless_pass_by_value, reason = "arguments are values")]
fn again(here: Here) {
    let world = here.world();
    // The job may have failed.
    drop(world.rpc_ff(world.rank(), again, Here::new(world)));
}

#[test]
fn a_wait_with_messages_without_end_ends_with_the_job() {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    for way in [quiet, |world: &World| -> Result<()> {
        loop {
            world.progress()?;
        }
    }] {
        let told = Mutex::new(String::new());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pgas_smp::threads_with(2, &config, |world| {
                attach(&world).unwrap();
                world.barrier().unwrap();
                if world.rank() == ONE {
                    panic!("on purpose");
                }
                world
                    .rpc_ff(world.rank(), again, Here::new(&world))
                    .unwrap();
                *told.lock().unwrap() = way(&world).unwrap_err().to_string();
            })
        }));
        assert!(!matches!(ended, Ok(Ok(_))), "the job has failed");
        let told = told.into_inner().unwrap();
        assert!(told.contains("rank 1"), "{told}");
    }
}
