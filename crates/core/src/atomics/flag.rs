//! Truth values in global memory.

use std::hash::{Hash, Hasher};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A truth value in global memory, with remote atomics. It is one byte, and any byte is a valid
/// value. (A `bool` must be 0 or 1, so it cannot be read from memory where others write.)
///
/// A byte that is neither 0 nor 1, which only a write of another type leaves, is `true`, and equals
/// [`TRUE`](Self::TRUE). Atomics work on its bits: a
/// [`compare_exchange`](crate::GlobalPtr::compare_exchange) finds it only if it is given the value
/// that was read, as in the usual loop, and its `and` and `xor` with `TRUE` are those of the bits.
///
/// # Examples
///
/// ```
/// use pgas_core::atomics::Flag;
/// # let world = pgas_core::backend::loopback::world();
/// let flag = world.alloc::<Flag>(1)?;
/// flag.put(&world, Flag::FALSE)?;
/// world.flush_all()?;
/// let was_set = flag.fetch_or(&world, Flag::TRUE)?; // false for the rank that sets it first
/// assert!(!was_set.get() && flag.atomic_load(&world)?.get());
/// assert_eq!(flag.compare_exchange(&world, Flag::FALSE, Flag::TRUE)?, Err(Flag::TRUE));
/// assert_eq!(Flag::from(3 > 2), Flag::TRUE);
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Flag(u8);

impl Flag {
    /// Not set.
    pub const FALSE: Self = Self(0);
    /// Set.
    pub const TRUE: Self = Self(1);

    /// The value.
    #[must_use]
    #[inline]
    pub const fn get(self) -> bool {
        self.0 != 0
    }

    /// With this byte.
    pub(super) const fn of_byte(byte: u8) -> Self {
        Self(byte)
    }

    /// The byte.
    pub(super) const fn byte(self) -> u8 {
        self.0
    }
}

impl PartialEq for Flag {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Flag {}

impl Hash for Flag {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.get().hash(state);
    }
}

impl From<bool> for Flag {
    #[inline]
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<Flag> for bool {
    #[inline]
    fn from(flag: Flag) -> Self {
        flag.get()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::backend::loopback;

    #[test]
    fn a_byte_that_is_neither_zero_nor_one_is_true() {
        let other = Flag::read_from_bytes(&[2]).unwrap();
        assert_eq!((other, other.get()), (Flag::TRUE, true));
        assert_ne!(other, Flag::FALSE);
        assert_eq!(HashSet::from([other, Flag::TRUE]).len(), 1);
    }

    /// The usual loop ends on any byte.
    #[test]
    fn a_swap_that_was_refused_returns_what_the_next_one_compares() {
        let world = loopback::world();
        let flag = world.alloc::<Flag>(1).unwrap();
        flag.cast::<u8>().put(&world, 2).unwrap();
        world.flush_all().unwrap();
        let refused = flag.compare_exchange(&world, Flag::TRUE, Flag::FALSE);
        let now = refused.unwrap().unwrap_err();
        assert_eq!(now, Flag::TRUE);
        let swapped = flag.compare_exchange(&world, now, Flag::FALSE).unwrap();
        assert_eq!(swapped, Ok(Flag::TRUE));
        assert_eq!(flag.atomic_load(&world).unwrap(), Flag::FALSE);
    }
}
