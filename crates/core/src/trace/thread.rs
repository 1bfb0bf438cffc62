//! Numbers of the threads that note events.

use std::sync::Mutex;

use crate::locks::lock;

/// The numbers that threads have, a bit for each.
static TAKEN: Mutex<[u64; 4]> = Mutex::new([0; 4]);

thread_local! {
    static NUMBER: Number = Number::take();
}

/// The number of a thread, which gives it back when it ends.
struct Number(u8);

impl Number {
    /// The number 0 is for threads that get none of their own.
    fn take() -> Self {
        let mut taken = lock(&TAKEN);
        let is_free = |number: &u8| taken[usize::from(number / 64)] >> (number % 64) & 1 == 0;
        let number = (1..=u8::MAX).find(is_free).unwrap_or(0);
        taken[usize::from(number / 64)] |= 1 << (number % 64);
        Self(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        lock(&TAKEN)[usize::from(self.0 / 64)] &= !(1 << (self.0 % 64));
    }
}

/// The number of this thread in traces, from 1 to 255. No other thread has it at the same time. A
/// thread beside 255 others has the number 0, and so has one that is ending.
pub(super) fn number() -> u64 {
    NUMBER.try_with(|number| number.0).unwrap_or(0).into()
}
