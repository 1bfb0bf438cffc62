//! Arrays: on one rank, over all ranks, and in two dimensions.
//!
//! | | where | elements |
//! |---|---|---|
//! | [`Array`] | one rank | any [`Object`](crate::Object) |
//! | [`DArray`] | all ranks, in blocks | any [`Object`](crate::Object) |
//! | [`DMatrix`] | all ranks, in tiles | byte-copyable |
//!
//! Other ranks access the elements at any time, so there are no references to them. A rank has its
//! own elements as slices in the local phase ([`LocalArray`], [`LocalMatrix`]), and with those
//! around them in a [`Halo`]. These slices are copies in private memory, which costs ℓ for each
//! element when the phase begins and when it ends. The reason: a segment is open to the network at
//! all times, also to operations that were begun before the phase, and a `&mut [T]` must be the
//! only way to its memory. A program that can rule such operations out has the elements without a
//! copy, as raw memory, by [`DArray::ptr`] and [`GlobalPtr::local`](pgas_core::GlobalPtr::local).
//!
//! An index that is out of bounds panics on the calling rank, before anything is accessed.

mod cells;
mod distributed;
mod elements;
mod halo;
mod hosted;
mod layout;
mod local;
mod many;
mod matrix;
#[cfg(feature = "rayon")]
mod parallel;
mod parts;
#[cfg(test)]
mod tests;
mod whole;
mod whole_matrix;

pub use distributed::DArray;
pub use halo::{Exchange, Halo, HaloTile};
pub use hosted::Array;
pub use layout::Distribution;
pub use local::{LocalArray, LocalMatrix, Tile, TileMut};
pub use matrix::DMatrix;

use std::ops::Range;
use std::ptr;

use pgas_core::{GlobalPtr, Pod, Team, World};

use crate::Result;
use crate::object::Repr;

#[inline]
#[track_caller]
fn index_check(i: usize, len: usize) {
    assert!(i < len, "element {i} of an array of {len}");
}

/// Checks indices before anything is done to the elements; a loop, since within a closure the
/// caller's line would be lost.
#[track_caller]
fn index_check_all(indices: impl IntoIterator<Item = usize>, len: usize) {
    for i in indices {
        index_check(i, len);
    }
}

/// The elements that an operation is given, each at its pointer.
fn pointers<T: Pod>(
    elements: &[(usize, T)],
    ptr: impl Fn(usize) -> GlobalPtr<T>,
) -> Vec<(GlobalPtr<T>, T)> {
    elements
        .iter()
        .map(|(i, value)| (ptr(*i), *value))
        .collect()
}

#[track_caller]
fn range_check(elements: &Range<usize>, len: usize) {
    let fits = elements.start <= elements.end && elements.end <= len;
    assert!(fits, "elements {elements:?} of an array of {len}");
}

/// The `n` elements from `start` on, which lie in an array of `len`.
#[track_caller]
fn checked_run(start: usize, n: usize, len: usize) -> Range<usize> {
    let end = start as u128 + n as u128;
    assert!(
        end <= len as u128,
        "elements {start}..{end} of an array of {len}"
    );
    start..start + n
}

/// Whether both teams are of one world, and have the same members in the same order.
fn are_same_members(team: &Team, other: &Team) -> bool {
    ptr::eq(team.world().config(), other.world().config())
        && (team.id() == other.id() || team.ranks().eq(other.ranks()))
}

/// With `PGAS_CHECK=1` an error if the ranks give different values to fill an array with.
#[track_caller]
fn agree_on_value<T, R: Repr<T>>(team: &Team, value: &T) -> Result<()> {
    if team.world().config().check != Some(true) {
        return Ok(());
    }
    let what = "the value that fills an array, as a hash of its bytes";
    // A value that cannot be encoded is another error.
    let hash = R::hash(value, 0).unwrap_or_default();
    team.agree(what, hash)
}

/// Writes `value` to `n` elements of this rank's own memory, which is zero before.
fn copies<T: Pod>(world: &World, start: GlobalPtr<T>, value: T, n: usize) -> Result<()> {
    const CHUNK: usize = 4096;
    if value.as_bytes().iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    let chunk = vec![value; CHUNK.min(n)];
    let mut at = 0;
    while at < n {
        let some = chunk.len().min(n - at);
        start.add(at).put_slice(world, &chunk[..some])?;
        at += some;
    }
    Ok(())
}
