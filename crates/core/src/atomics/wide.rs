//! Compare-and-swap of elements of 16 bytes, in mapped memory.

use crate::cost::CostKind;
use crate::raw::wide;
use crate::{Error, GlobalPtr, Result, World};

/// Whether this processor has a compare-and-swap of 16 bytes: x86-64 has (`cmpxchg16b`; not its
/// very first processors), and aarch64; riscv64 with the extension Zacas alone.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use pgas_core::atomics::has_wide_atomics;
///
/// if !has_wide_atomics() {
///     println!("this processor's atomics have at most 8 bytes");
/// }
/// ```
#[must_use]
pub fn has_wide_atomics() -> bool {
    wide::is_supported()
}

impl World {
    /// Replaces the 16 bytes at `ptr` by `new` if they equal `current`, and returns the former
    /// ones; `None` if their memory is not mapped here, so that only their owner can do it.
    ///
    /// All ranks that have it mapped use the same instruction.
    ///
    /// # Cost
    ///
    /// A, or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NoWideAtomics`].
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](GlobalPtr::fetch_op).
    #[doc(hidden)]
    #[track_caller]
    pub fn compare_swap_wide(
        &self,
        ptr: GlobalPtr<u128>,
        current: u128,
        new: u128,
    ) -> Result<Option<u128>> {
        let Some(element) = self.checked(ptr, 1).mapped(self) else {
            return Ok(None);
        };
        if !wide::is_supported() {
            return Err(Error::NoWideAtomics);
        }
        self.count_near(CostKind::Atomic, ptr, 1);
        Ok(Some(element.compare_swap_wide(current, new)))
    }
}
