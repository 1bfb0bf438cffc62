//! Numbers of the threads of this process.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The number of this thread, from 1, if it has asked for it; else 0.
#[inline]
pub(crate) fn known() -> u64 {
    NUMBER.get()
}

/// The number of this thread, from 1.
#[inline]
pub(crate) fn get() -> u64 {
    let number = NUMBER.get();
    if number == 0 { draw() } else { number }
}

#[cold]
fn draw() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // A count: it orders nothing.
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    NUMBER.set(number);
    number
}
