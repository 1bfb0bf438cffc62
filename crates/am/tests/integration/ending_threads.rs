//! Destructors of thread-local data may call the library when its own data of the thread is gone.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pgas_am::{Error, LocalCalls, RemoteCalls, attach};
use pgas_core::{Config, World, process};

/// A call at the end of the thread.
struct AtEnd(Box<dyn FnMut()>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Runs `call` on a thread of each of two ranks, and once more when the thread has dropped the data
/// that it has made the library keep.
fn twice(call: fn(&World)) {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(20));
    config.segment_bytes = Some(4 << 20);
    let rank = |world: World| {
        attach(&world).unwrap();
        let (give, take) = mpsc::channel();
        thread::spawn({
            let world = world.clone();
            move || {
                let same = world.clone();
                let at_end = move || {
                    // A panic here would abort the process.
                    let ended = catch_unwind(AssertUnwindSafe(|| call(&same)));
                    give.send(ended.is_ok()).unwrap();
                };
                // The first data of a thread is dropped last.
                AT_END.set(Some(AtEnd(Box::new(at_end))));
                call(&world);
            }
        });
        assert!(take.recv().unwrap());
        world.barrier().unwrap();
    };
    pgas_smp::threads_with(2, &config, rank).unwrap();
}

#[test]
fn messages_of_every_length_arrive_at_a_thread_that_ends() {
    twice(|world| {
        let next = world.rank_after(world.rank());
        for n in [0, 10, 100, 1000, 3000, 100_000] {
            let back = world.rpc(next, |list: Vec<u64>| list, vec![7; n]).unwrap();
            let chained = back.then(|list| list.len()).then(|n| n + 1);
            assert_eq!(chained.wait().unwrap(), n + 1);
        }
    });
}

#[test]
fn a_thread_that_ends_tells_panics_of_what_it_runs() {
    twice(|world| {
        let broken = world.rpc(world.rank(), |n: u64| assert_eq!(n, 1), 2);
        let Err(Error::RemotePanic(panic)) = broken.unwrap().wait() else {
            panic!("it panicked");
        };
        assert!(panic.message.contains("left == right"), "{panic}");
    });
}

#[test]
fn a_thread_that_ends_may_ask_to_serve_and_for_its_world_and_takes_no_calls() {
    twice(|world| {
        {
            let _serving = world.serve_here();
            world.progress().unwrap();
        }
        let here = world.this_thread().unwrap();
        let called = world.local_call(&here, || 7).and_then(|call| call.wait());
        assert!(matches!(called, Ok(7) | Err(Error::ThreadEnded { .. })));
        // This thread is no rank, and the process has none either.
        let joined = process::join_once(|| Err(Error::NotAttached));
        assert!(matches!(joined, Err(Error::NotAttached)));
    });
}
