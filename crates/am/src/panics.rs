//! The location of the last panic in a handler, and the error that tells a panic.

use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

use pgas_core::process::{discard_panic, panic_text};
use pgas_core::{Error, Rank, RemotePanic};

thread_local! {
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook that records the location of panics in handlers. Only the hook knows it.
pub(crate) fn note_where_they_are() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if pgas_core::in_handler() {
                let location = info.location().map(ToString::to_string);
                // A thread that is ending remembers nothing; a panic in a hook would abort.
                let _is_kept = PANICKED_AT.try_with(|at| at.replace(location));
            }
            usual(info);
        }));
    });
}

/// The location of this thread's last panic, which has just been caught.
pub(crate) fn place_of_last() -> String {
    let place = PANICKED_AT.try_with(RefCell::take);
    place
        .ok()
        .flatten()
        .unwrap_or_else(|| "an unknown place".to_owned())
}

/// The error that a wait gets for a panic of the program's code on this rank.
#[cold]
pub(crate) fn panicked(rank: Rank, payload: Box<dyn Any + Send>) -> Error {
    let panic = RemotePanic {
        rank,
        message: panic_text(&*payload).to_owned(),
        location: place_of_last(),
    };
    discard_panic(payload);
    Error::from(Box::new(panic))
}
