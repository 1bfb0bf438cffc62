//! The handlers of messages, and whether this thread runs one.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;

use crate::backend::HandlerId;
use crate::error::{Error, Result};

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a handler of a message now, where nothing may wait.
#[must_use]
#[inline]
pub fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// Runs `body` as handlers are run: a wait inside of it returns
/// [`Error::InHandler`](crate::Error::InHandler), and progress does nothing.
///
/// # Examples
///
/// ```
/// use pgas_core::{Error, as_handler, in_handler};
///
/// # let world = pgas_core::backend::loopback::world();
/// let refused = as_handler(|| {
///     assert!(in_handler());
///     world.barrier()
/// });
/// assert!(matches!(refused, Err(Error::InHandler { .. })) && !in_handler());
/// ```
#[inline]
pub fn as_handler<R>(body: impl FnOnce() -> R) -> R {
    /// Restores the former state on drop, also after a panic of a handler.
    struct Former(bool);
    impl Drop for Former {
        #[inline]
        fn drop(&mut self) {
            // Not by the key's own `set`, which is not inlined.
            IN_HANDLER.with(|it| it.set(self.0));
        }
    }
    let _former = Former(IN_HANDLER.with(|it| it.replace(true)));
    body()
}

/// An error inside a handler, for a call named `what` that waits, before it has any effect: the
/// error names the call, and not its first step.
///
/// # Cost
///
/// ℓ.
///
/// # Errors
///
/// [`Error::InHandler`] inside a handler.
///
/// # Examples
///
/// ```
/// use pgas_core::{Error, as_handler, refuse_in_handler};
///
/// assert!(refuse_in_handler("a round").is_ok());
/// let refused = as_handler(|| refuse_in_handler("a round"));
/// assert!(matches!(refused, Err(Error::InHandler { what: "a round" })));
/// ```
#[inline]
pub fn refuse_in_handler(what: &'static str) -> Result<()> {
    if in_handler() {
        return Err(Error::InHandler { what });
    }
    Ok(())
}

/// Handlers in a page of the table.
const PAGE: usize = 256;

type Page<H> = [OnceLock<Box<H>>; PAGE];

/// The handlers of a rank by their ids, in pages; read without a lock, since every message is
/// looked up.
pub(crate) struct Handlers<H: ?Sized>([OnceLock<Box<Page<H>>>; PAGE]);

impl<H: ?Sized> Default for Handlers<H> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; PAGE])
    }
}

impl<H: ?Sized> fmt::Debug for Handlers<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl<H: ?Sized> Handlers<H> {
    /// Sets the handler of `id`, and says whether it is the first one.
    pub(crate) fn set(&self, HandlerId(id): HandlerId, handler: Box<H>) -> bool {
        let [page, index] = id.to_be_bytes().map(usize::from);
        let new_page = || Box::new([const { OnceLock::new() }; PAGE]);
        let page = self.0[page].get_or_init(new_page);
        page[index].set(handler).is_ok()
    }

    /// The handler of `id`.
    #[inline]
    pub(crate) fn get(&self, HandlerId(id): HandlerId) -> Option<&H> {
        let [page, index] = id.to_be_bytes().map(usize::from);
        let handler = self.0[page].get()?[index].get()?;
        Some(&**handler)
    }
}

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn a_thread_is_in_a_handler_until_the_outermost_one_ends() {
        assert!(!in_handler());
        as_handler(|| {
            assert!(in_handler());
            as_handler(|| assert!(in_handler()));
            assert!(in_handler());
        });
        assert!(!in_handler());
        let panics = || as_handler(|| panic!("on purpose"));
        assert!(panic::catch_unwind(panics).is_err());
        assert!(!in_handler());
    }
}
