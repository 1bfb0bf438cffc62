//! Helpers of `derive(Wire)`.

use std::marker::PhantomData;

use pgas_core::Pod;

use super::layout::Layout;
use super::plain::AsBytes;
use super::refusal::unreadable;
use super::wire::Wire;
use pgas_core::{Error, Result};

/// The codec of types with `derive(pgas::Wire)`: the members of a struct, or the number of an
/// enum's variant and its members, each by its own codec.
#[derive(Clone, Copy, Debug)]
pub enum Derived {}

/// The result of the functions of a codec.
pub type Done<T = ()> = Result<T>;

/// Whether a `T` is byte-copyable: its constant `ANSWER`, where [`NotPod`] is in scope and `T` is
/// no parameter.
#[derive(Debug)]
pub struct IsPod<T>(PhantomData<T>);

impl<T: Pod> IsPod<T> {
    /// True. An inherent item takes precedence over one of a trait.
    pub const ANSWER: bool = true;
}

/// The answer for types that are not.
pub trait NotPod {
    /// False.
    const ANSWER: bool = false;
}

impl<T> NotPod for IsPod<T> {}

/// Chooses the codec of a type by whether it is byte-copyable.
#[derive(Debug)]
pub enum Choose<const IS_POD: bool> {}

/// The chosen codec.
pub trait Chosen {
    /// The codec.
    type By;
}

impl Chosen for Choose<true> {
    type By = AsBytes;
}

impl Chosen for Choose<false> {
    type By = Derived;
}

/// The error for an enum `T` whose bytes begin with a number that no variant has.
#[cold]
#[must_use]
pub fn no_variant<T>(number: usize) -> Error {
    unreadable::<T>(format!("it has no variant {number}"))
}

/// The description of a member of type `T`: [`part`](Self::part), where [`PlainMember`] is in scope
/// and `T` is no parameter.
#[derive(Debug)]
pub struct MemberOf<T>(PhantomData<T>);

impl<T: Wire> MemberOf<T> {
    /// Appends the description. An inherent item takes precedence over one of a trait.
    pub fn part(out: &mut Layout) {
        out.part::<T>();
    }
}

/// The description of members that are byte-copyable and nothing else.
pub trait PlainMember {
    /// Appends the number of the member's bytes.
    fn part(out: &mut Layout);
}

impl<T> PlainMember for MemberOf<T> {
    fn part(out: &mut Layout) {
        out.plain::<T>();
    }
}

/// A member's name, which is empty if it has none, and the function that appends its layout.
pub type Member = (&'static str, fn(&mut Layout));

/// Appends the layout of a struct or a variant.
pub fn layout_of(name: &str, members: &[Member], out: &mut Layout) {
    out.say(name);
    let mut next = " {";
    for (name, layout) in members {
        out.say(next);
        if !name.is_empty() {
            out.say(name);
            out.say(": ");
        }
        layout(out);
        next = ", ";
    }
    if !members.is_empty() {
        out.say("}");
    }
}
