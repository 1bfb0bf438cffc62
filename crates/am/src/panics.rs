//! Where the last panic of a handler was.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Lets panics of handlers leave where they were, which only the panic hook is told.
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

/// The place of this thread's last one, which has just been caught.
pub(crate) fn place_of_last() -> String {
    let place = PANICKED_AT.take();
    place.unwrap_or_else(|| "an unknown place".to_owned())
}
