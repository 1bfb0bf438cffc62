//! Truth values in global memory.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A truth value in global memory, with remote atomics. It is one byte, and any byte is a valid
/// value. (A `bool` must be 0 or 1, so it cannot be read from memory where others write.)
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Flag(u8);

impl Flag {
    /// Not set.
    pub const FALSE: Self = Self(0);
    /// Set.
    pub const TRUE: Self = Self(1);

    /// The value. A byte that is neither 0 nor 1 counts as `true`.
    #[must_use]
    #[inline]
    pub const fn get(self) -> bool {
        self.0 != 0
    }

    /// The byte.
    pub(super) const fn byte(self) -> u8 {
        self.0
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
