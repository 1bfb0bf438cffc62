//! Values in global memory and their representations.
//!
//! A container has slots of one size, so that the place of each follows by arithmetic. The
//! [`Object::Repr`] of a type says what a slot holds of a value:
//!
//! | representation | for | a slot holds |
//! |---|---|---|
//! | [`Plain`] | byte-copyable types | the value itself, copied once |
//! | [`Parts`] | tuples, and arrays of them | the slots of the members, side by side |
//! | [`Encoded`] | every [`Wire`](pgas_am::Wire) type | a length and the encoding, or a pointer to a longer one |
//!
//! The choice is made at compile time: a container of plain values has no code for the others. A
//! user's type derives `pgas::Object`, or names its representation in one line:
//!
//! ```
//! use pgas_am::codec::{AsSerde, Wire};
//! use pgas_containers::object::{Encoded, Object, Plain};
//! use zerocopy::{FromBytes, Immutable, IntoBytes};
//!
//! #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
//! #[repr(C)]
//! struct Edge {
//!     to: u32,
//!     weight: f32,
//! }
//! impl Object for Edge {
//!     type Repr = Plain; // as it is
//! }
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct City {
//!     name: String,
//!     twins: Vec<String>,
//! }
//! impl Wire for City {
//!     type By = AsSerde; // its bytes are serde's
//! }
//! impl Object for City {
//!     type Repr = Encoded<28>; // up to 28 of them in the slot
//! }
//! ```
//!
//! A type that is not byte-copyable cannot be `Plain`:
//!
//! ```compile_fail,E0277
//! use pgas_containers::object::{Object, Plain};
//!
//! struct City(String);
//! impl Object for City {
//!     type Repr = Plain;
//! }
//! ```

mod arrays;
mod codec;
mod derived;
mod encoded;
mod found;
mod hash;
mod heap;
mod parts;
mod plain;
mod repr;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use hash::{SECRETS, mix};
pub(crate) use pgas_am::codec::NAME as CODEC;

#[doc(hidden)]
pub use derived::{Choose, Chosen, inline_bytes, saved_as};
pub use encoded::{Encoded, EncodedKey, EncodedSlot};
pub use found::FoundBy;
pub use hash::KeyHasher;
pub use heap::Heap;
pub(crate) use heap::{is_serving, serving};
pub use parts::{PairSlot, Parts};
pub use plain::Plain;
pub(crate) use repr::{
    KeyOf, Unused, from_slot, has_heap, hash_of, release, release_refused, release_taken, take_all,
    take_out, to_slot, unpack,
};
pub use repr::{Object, Repr, SlotOf};
