//! Operations in flight that the program gives up: it drops their map, or a time limit ends its
//! wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgas_am::{PgasFuture, when_all};
use pgas_core::{Rank, as_handler};
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::state::StateWord;

use super::*;
use crate::{Error, MultiMap};

/// A job of two ranks over a network, which are no threads of a job: that would take care of
/// handles that are left. Both make a container, rank 0 prepares it, and rank 1 uses it and leaves.
fn leaves<C>(make: fn(&World) -> C, prepare: fn(&C), uses: fn(&World, C)) {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(20));
    thread::scope(|scope| {
        for world in loopback::worlds(2, &config).unwrap() {
            scope.spawn(move || {
                pgas_am::attach(&world).unwrap();
                let made = make(&world);
                if world.rank() == Rank::ZERO {
                    prepare(&made);
                }
                world.barrier().unwrap();
                if world.rank() == Rank::new(1) {
                    uses(&world, made);
                } else {
                    drop(made);
                }
                let weak = world.downgrade();
                drop(world);
                assert!(weak.upgrade().is_none(), "something keeps the rank");
            });
        }
    });
}

#[test]
fn what_is_in_flight_when_a_map_is_dropped_keeps_no_rank() {
    leaves(
        |world| map::<u64, String>(world, 300),
        |_| {},
        |_, map| {
            for key in 0..40 {
                drop(map.insert_nb(&key, "v".repeat(200)).unwrap());
                drop(map.take_nb(&key).unwrap());
            }
        },
    );
    leaves(
        |world| MultiMap::<u64, u64>::with_capacity(world, 300).unwrap(),
        |_| {},
        |_, map| {
            for key in 0..40 {
                drop(map.insert_nb(&(key % 7), key).unwrap());
                drop(map.remove_nb(&(key % 5)).unwrap());
            }
        },
    );
}

/// The task that gives the memory of a value back to its rank is in flight.
#[test]
fn what_handlers_took_out_keeps_no_rank() {
    leaves(
        |world| map::<u64, String>(world, 300),
        |map| _ = map.insert(&1, "v".repeat(200)).unwrap(),
        |world, map| {
            assert!(as_handler(|| map.remove(&1)).unwrap());
            let _worked = world.progress().unwrap();
        },
    );
}

/// How a program goes on after it has begun an operation.
type End = fn(PgasFuture<Option<u64>>) -> Option<Error>;

/// Begins a search for a key whose slot is reserved, and never written, and drops the map. Returns
/// how a barrier fails on both ranks.
fn after_a_limit(end: End) -> Vec<String> {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(3));
    let has_ended = AtomicBool::new(false);
    loopback::run_with(2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<u64, u64>(&world, 60);
        if world.rank() == Rank::ZERO {
            let view = map.table.view_remote();
            let hash = view.hash(&7);
            let reserved = StateWord::reserved(hash.fingerprint());
            assert!(view.home(hash).slot.reserve(reserved).unwrap().is_ok());
            let error = end(map.find_nb(&7).unwrap());
            assert!(matches!(error, None | Some(Error::Timeout(_))), "{error:?}");
            drop(map);
            has_ended.store(true, Ordering::Release);
        } else {
            while !has_ended.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        world.barrier().unwrap_err().to_string()
    })
}

/// They go on, and nobody would have what they take out.
#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn operations_that_outlast_a_time_limit_fail_the_job() {
    let lost = "rank 0 failed in an operation in flight, whose result is lost";
    let dropped = "rank 0 failed in operations in flight of a hash map";
    let ways: [(End, &str); 4] = [
        (|found| found.wait().err(), lost),
        (|found| found.then(drop).wait().err(), lost),
        (
            |found| {
                let two = (PgasFuture::ready(1), found);
                when_all(two).wait().err()
            },
            lost,
        ),
        (
            |found| {
                drop(found);
                None
            },
            dropped,
        ),
    ];
    thread::scope(|scope| {
        for (end, expected) in ways {
            scope.spawn(move || {
                for told in after_a_limit(end) {
                    assert!(told.contains(expected), "{told}");
                }
            });
        }
    });
}
