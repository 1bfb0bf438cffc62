//! What cases have in common: neighbours, bounded waits, expected panics.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use pgas_core::{Pod, Rank, World, process};
use zerocopy::IntoBytes;

/// The rank `distance` further, around the ring.
pub(crate) fn neighbour(world: &World, distance: u32) -> Rank {
    Rank::new((world.rank().number() + distance) % world.n_ranks())
}

/// A value of any byte-copyable type from random bytes.
pub(crate) fn random_value<T: Pod>(rng: &mut fastrand::Rng) -> T {
    let mut value = T::new_zeroed();
    rng.fill(value.as_mut_bytes());
    value
}

/// As [`random_value`], `n` times.
pub(crate) fn random_values<T: Pod>(rng: &mut fastrand::Rng, n: usize) -> Vec<T> {
    let mut values = T::new_vec_zeroed(n).expect("memory for the values");
    rng.fill(values.as_mut_bytes());
    values
}

/// Random bytes.
pub(crate) fn random_bytes(rng: &mut fastrand::Rng, n: usize) -> Vec<u8> {
    random_values(rng, n)
}

/// What a panic's payload says.
#[must_use]
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without text")
}

/// Runs `body` as each rank of a job, a thread each, and gives the results in the order of `worlds`.
///
/// # Panics
///
/// With the panic of a rank that did not panic because of another one's.
pub(crate) fn run_ranks<R: Send>(worlds: Vec<World>, body: impl Fn(World) -> R + Sync) -> Vec<R> {
    let ends: Vec<thread::Result<R>> = thread::scope(|scope| {
        let start = |world: World| {
            let body = &body;
            let name = format!("rank {}", world.rank());
            let run = move || {
                let as_rank = world.downgrade();
                process::play(&as_rank, || body(world))
            };
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, run)
                .expect("a thread for each rank")
        };
        let running: Vec<_> = worlds.into_iter().map(start).collect();
        running.into_iter().map(|rank| rank.join()).collect()
    });
    let (results, panics): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    let mut panics: Vec<_> = panics.into_iter().filter_map(Result::err).collect();
    // One that only reports another rank's comes last.
    panics.sort_by_key(|payload| panic_text(&**payload).contains("RankFailed"));
    match panics.into_iter().next() {
        None => results.into_iter().filter_map(Result::ok).collect(),
        Some(payload) => panic::resume_unwind(payload),
    }
}

thread_local! {
    /// Whether a panic of this thread is expected, and not to be printed.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Asserts that `body` panics with a text that contains `part`, and keeps the panic off the screen.
#[track_caller]
pub(crate) fn assert_panics<R>(part: &str, body: impl FnOnce() -> R) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !EXPECTED.get() {
                usual(info);
            }
        }));
    });
    EXPECTED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        body();
    }));
    EXPECTED.set(false);
    let Err(payload) = outcome else {
        panic!("there was no panic with {part:?}");
    };
    let text = panic_text(&*payload);
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}
