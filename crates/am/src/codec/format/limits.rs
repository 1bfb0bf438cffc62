//! Limits of nesting, and of elements that take no byte.

use super::refused::Refused;

/// The maximum nesting depth of values.
pub const DEPTH: u32 = 128;

/// The maximum number of elements of sequences and maps that take no byte, in one value.
pub const EMPTY: usize = 1 << 16;

/// The use of each limit within a value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) depth: Depth,
    pub(crate) empty: Empty,
}

/// The nesting depth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Depth(u32);

impl Depth {
    /// The depth one level deeper, if that is allowed.
    #[inline]
    pub(crate) fn within(self) -> Result<Self, Refused> {
        if self.0 == DEPTH {
            return Err(Refused::new(format_args!(
                "more than {DEPTH} values lie within each other"
            )));
        }
        Ok(Self(self.0 + 1))
    }
}

/// The number of elements that took no byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Empty(usize);

impl Empty {
    /// Counts `n` more.
    #[inline]
    pub(crate) fn add(&mut self, n: usize) -> Result<(), Refused> {
        self.check(n, 0)?;
        self.0 += n;
        Ok(())
    }

    /// An error unless `n` more elements may be encoded in `n_bytes` bytes.
    #[inline]
    pub(crate) fn check(self, n: usize, n_bytes: usize) -> Result<(), Refused> {
        if n <= n_bytes.saturating_add(EMPTY - self.0) {
            return Ok(());
        }
        Err(Refused::new(format_args!(
            "{n} elements were to lie in {n_bytes} bytes, and no more than {EMPTY} in all may be empty"
        )))
    }
}
