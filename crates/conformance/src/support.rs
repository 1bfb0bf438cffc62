//! Common parts of the cases: neighbours, random values, expected panics.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use pgas_core::backend::Sent;
use pgas_core::{Pod, Rank, Result, World};
use pgas_testkit::panic_text;
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

/// Like [`random_value`], `n` times.
pub(crate) fn random_values<T: Pod>(rng: &mut fastrand::Rng, n: usize) -> Vec<T> {
    let mut values = T::new_vec_zeroed(n).expect("memory for the values");
    rng.fill(values.as_mut_bytes());
    values
}

/// Random bytes.
pub(crate) fn random_bytes(rng: &mut fastrand::Rng, n: usize) -> Vec<u8> {
    random_values(rng, n)
}

thread_local! {
    /// Whether a panic of this thread is expected, and must not be printed.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
    /// The place of this thread's last panic that was expected.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs `body`, and returns its panic, which is not printed, if it panics.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> thread::Result<R> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if EXPECTED.get() {
                PLACE.set(info.location().map(ToString::to_string));
            } else {
                usual(info);
            }
        }));
    });
    EXPECTED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    EXPECTED.set(false);
    outcome
}

/// Asserts that `body` panics with a text that contains `part`, without printing the panic, and
/// that the place of the panic is in a case, as the caller of the library, and not in the library.
#[track_caller]
pub(crate) fn assert_panics<R>(part: &str, body: impl FnOnce() -> R) {
    let outcome = caught(|| {
        body();
    });
    let Err(payload) = outcome else {
        panic!("there was no panic with {part:?}");
    };
    let text = panic_text(&*payload);
    assert!(text.contains(part), "{part:?} is not in {text:?}");
    let place = PLACE.take().unwrap_or_default();
    assert!(
        place.replace('\\', "/").contains("conformance/src/cases"),
        "the place of {text:?} is {place}"
    );
}

/// Repeats `offer`, with progress between, until it is taken.
pub(crate) fn until_accepted(world: &World, mut offer: impl FnMut() -> Result<Sent>) -> Result<()> {
    world.wait_for("room for a message", || Ok(offer()? == Sent::Accepted))
}
