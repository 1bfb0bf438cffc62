//! Helpers of `derive(Object)`.

use std::borrow::Cow;

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

/// The name in files of a type with this name and these members.
#[must_use]
pub fn saved_as<T: Object>(name: &str) -> Cow<'static, str> {
    let layout = <T::Repr as Repr<T>>::layout();
    if <T::Repr as Repr<T>>::HAS_HEAP {
        // The layout of an encoded type has the name.
        return layout;
    }
    format!("{name}: {layout}").into()
}
