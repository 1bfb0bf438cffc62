//! Helpers of `derive(Object)`.

use std::borrow::Cow;

use pgas_am::codec::{Layout, Member, layout_of};

use super::{Encoded, Object, Plain, Repr};

/// Chooses the representation of a type by whether it is byte-copyable.
#[derive(Debug)]
pub enum Choose<const INLINE: usize, const IS_POD: bool> {}

/// The chosen representation.
pub trait Chosen {
    /// The representation.
    type Repr;
}

impl<const INLINE: usize> Chosen for Choose<INLINE, true> {
    type Repr = Plain;
}

impl<const INLINE: usize> Chosen for Choose<INLINE, false> {
    type Repr = Encoded<INLINE>;
}

/// The number of bytes of an encoding that a slot holds itself, for a derived type: enough for any
/// value of a type that owns no heap memory, and at most 60.
#[must_use]
pub const fn inline_bytes<T>() -> usize {
    let most = (size_of::<T>() + 4).next_multiple_of(4);
    match std::mem::needs_drop::<T>() || most > MOST {
        true => MOST,
        false if most < LEAST => LEAST,
        false => most,
    }
}

/// A slot has room for a pointer.
const LEAST: usize = 8;

/// With its length of four bytes, such a slot fills a cache line.
const MOST: usize = 60;

/// The description in files of a type with this name and, if it is byte-copyable, these members.
#[must_use]
pub fn saved_as<T: Object>(name: &str, members: &[Member]) -> Cow<'static, str> {
    if <T::Repr as Repr<T>>::HAS_HEAP {
        // Its codec describes it.
        return <T::Repr as Repr<T>>::layout();
    }
    Layout::told(|out| layout_of(name, members, out)).into()
}
