//! The changes of a batch over a network are in flight together.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use pgas_am::RemoteCalls as _;

use super::in_flight::Value;
use super::*;

/// The number of rounds of progress in which `f` waits.
fn rounds_of<T>(world: &World, f: impl FnOnce() -> T) -> u64 {
    let (n, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (count, stop) = (Arc::clone(&n), Arc::clone(&is_over));
    let counting = poll_fn(move |context| {
        if stop.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        count.fetch_add(1, Ordering::Relaxed);
        context.waker().wake_by_ref();
        Poll::Pending
    });
    let counting = world.spawn(async move {
        counting.await;
        Ok(())
    });
    let _done = f();
    is_over.store(true, Ordering::Relaxed);
    counting.wait().unwrap();
    n.load(Ordering::Relaxed)
}

/// A batch of 64 takes about as many rounds as one operation, also where it changes slots.
#[test]
fn the_changes_of_a_batch_overlap() {
    fn check<V: Value>(world: &World, long: usize) {
        let key = |n: u64| format!("{n:0long$}");
        let entries = |keys: std::ops::Range<u64>| -> Vec<(String, V)> {
            keys.map(|n| (key(n), V::of(n))).collect()
        };
        let map = map::<String, V>(world, 1 << 12);
        let insert = |keys| {
            let entries = entries(keys);
            rounds_of(world, || map.insert_many(&entries).unwrap())
        };
        let remove = |keys: std::ops::Range<u64>| {
            let keys: Vec<_> = keys.map(key).collect();
            rounds_of(world, || map.remove_many(&keys).unwrap())
        };
        for (what, one, many) in [
            ("insert", insert(900..901), insert(0..64)),
            ("insert again", insert(900..901), insert(0..64)),
            ("remove", remove(900..901), remove(0..64)),
        ] {
            assert!(
                many <= 5 * one,
                "{what}: {many} rounds for 64, {one} for one"
            );
        }
        assert!(map.is_empty().unwrap());
    }
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        check::<u64>(&world, 4);
        check::<[u64; 5]>(&world, 4);
        check::<String>(&world, 80);
        let counts = map::<u64, u64>(&world, 1 << 12);
        let add = |keys: &[u64]| rounds_of(&world, || counts.add_many(keys, 1).unwrap());
        let (one, many) = (add(&[900]), add(&(0..64).collect::<Vec<_>>()));
        assert!(many <= 5 * one, "{many} rounds for 64, {one} for one");
    });
}
