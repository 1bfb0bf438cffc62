//! The location of the last panic in a handler.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

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
                PANICKED_AT.set(location);
            }
            usual(info);
        }));
    });
}

/// The location of this thread's last panic, which has just been caught.
pub(crate) fn place_of_last() -> String {
    let place = PANICKED_AT.take();
    place.unwrap_or_else(|| "an unknown place".to_owned())
}
