//! Derive macros for types that are sent between ranks and stored in distributed containers. `pgas`
//! re-exports them.
//!
//! | macro | the type may be |
//! |---|---|
//! | [`#[pgas::pod]`](macro@pod) | an element of global memory, copied as bytes; and all that follows |
//! | [`#[derive(pgas::Wire)]`](macro@Wire) | an argument or a result of remote calls |
//! | [`#[derive(pgas::Wire, pgas::Object)]`](macro@Object) | a key, a value or an element of containers, too |
//!
//! ```
//! #[pgas::pod]
//! struct Point {
//!     x: f64,
//!     y: f64,
//! }
//!
//! #[derive(pgas::Wire, pgas::Object)]
//! enum Place {
//!     City { name: String, at: Point },
//!     Sea(Vec<Point>),
//! }
//!
//! let places = pgas::threads(2, |world| {
//!     let places = pgas::HashMap::<u64, Place>::with_capacity(&world, 10)?;
//!     places.insert(&1, Place::Sea(vec![Point { x: 0.0, y: 1.0 }]))?;
//!     world.barrier()?;
//!     Ok(matches!(places.find(&1)?, Some(Place::Sea(shore)) if shore.len() == 1))
//! })?;
//! assert!(places.into_iter().collect::<pgas::Result<Vec<_>>>()?.iter().all(|is_there| *is_there));
//! # Ok::<(), pgas::Error>(())
//! ```
//!
//! # Floors
//!
//! | files | modules |
//! |---|---|
//! | the macros | `lib` |
//! | generated code | `wire`, `object`, `pod` |
//! | attributes and parameters | `input` |

mod input;
mod object;
mod pod;
mod wire;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct or an enum an argument and a result of remote calls, and a part of messages.
///
/// A struct is encoded as its members, one after the other. An enum is encoded as the number of its
/// variant and that variant's members. The members' types must be `Wire`, too.
///
/// A byte-copyable type without parameters ([`pod`](macro@pod), or zerocopy's three traits and
/// `Copy`) is copied as it is, many values at once.
///
/// # Attributes
///
/// `#[pgas(serde)]` on the type: serde encodes and decodes it, for members that only implement
/// serde's traits.
///
/// `#[pgas(crate = path)]` on the type: the path of the library, if it is not `::pgas`.
///
/// # Examples
///
/// ```
/// #[derive(Debug, PartialEq, pgas::Wire)]
/// enum Query {
///     All,
///     Name(String),
///     Range { from: u64, to: u64 },
/// }
///
/// let mut out = pgas::codec::Encoder::new();
/// out.put(&Query::Range { from: 1, to: 2 })?;
/// let mut input = pgas::codec::Decoder::new(out.bytes());
/// assert_eq!(input.get::<Query>()?, Query::Range { from: 1, to: 2 });
/// # Ok::<(), pgas::Error>(())
/// ```
///
/// A type with a member that is not `Wire` does not compile:
///
/// ```compile_fail,E0277
/// #[derive(pgas::Wire)]
/// struct Job {
///     thread: std::thread::JoinHandle<()>,
/// }
/// ```
#[proc_macro_derive(Wire, attributes(pgas))]
pub fn wire(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    wire::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a type a key, a value or an element of containers. The type must be `Wire`, too: derive
/// [`Wire`](macro@Wire) with it, unless it is byte-copyable.
///
/// A slot holds a byte-copyable type without parameters as it is. For any other type a slot holds
/// the encoding: up to 60 bytes, or the size of the type if it owns no heap memory. Longer
/// encodings are stored outside of the slot, and cost one more access.
///
/// # Attributes
///
/// `#[pgas(inline = 28)]` on the type: the bytes of the encoding that a slot holds; at least 8.
///
/// `#[pgas(crate = path)]` on the type: the path of the library, if it is not `::pgas`.
///
/// # Examples
///
/// ```
/// #[derive(pgas::Wire, pgas::Object)]
/// #[pgas(inline = 28)]
/// struct City {
///     name: String,
///     twins: Vec<String>,
/// }
///
/// fn program(world: &pgas::World) -> pgas::Result<()> {
///     let cities = pgas::HashMap::<u64, City>::with_capacity(world, 100)?;
///     let twins = vec!["Lund".to_owned()];
///     cities.insert(&u64::from(world.rank().number()), City { name: "Viborg".to_owned(), twins })?;
///     world.barrier()?;
///     assert_eq!(cities.find(&1)?.expect("rank 1 has inserted it").name, "Viborg");
///     Ok(())
/// }
///
/// for result in pgas::threads(2, |world| program(&world))? {
///     result?;
/// }
/// # Ok::<(), pgas::Error>(())
/// ```
#[proc_macro_derive(Object, attributes(pgas))]
pub fn object(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    object::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a struct byte-copyable: an element of global memory, copied as it is in messages and
/// containers.
///
/// It gives the struct `repr(C)`, `Clone` and `Copy` unless the struct has them, zerocopy's
/// `FromBytes`, `IntoBytes` and `Immutable`, and the traits `Wire` and `Object`. All members must
/// be byte-copyable: numbers, arrays of them, other such structs. Padding is a compile error; make
/// it an explicit member (`_pad: [u8; 4]`).
///
/// # Examples
///
/// ```
/// #[pgas::pod]
/// #[derive(Debug, PartialEq)]
/// struct Edge {
///     to: u32,
///     weight: f32,
/// }
///
/// fn program(world: &pgas::World) -> pgas::Result<()> {
///     let edges = world.alloc_symmetric::<Edge>(10)?;
///     let next = world.rank_after(world.rank());
///     edges.on(next).put(world, Edge { to: next.number(), weight: 0.5 })?;
///     world.flush_all()?;
///     world.barrier()?;
///     assert_eq!(edges.here().get(world)?, Edge { to: world.rank().number(), weight: 0.5 });
///     Ok(())
/// }
///
/// for result in pgas::threads(2, |world| program(&world))? {
///     result?;
/// }
/// # Ok::<(), pgas::Error>(())
/// ```
///
/// Padding between members does not compile, and neither does a member with a pointer:
///
/// ```compile_fail,E0277
/// #[pgas::pod]
/// struct Gap {
///     a: u8,
///     b: u64,
/// }
/// ```
///
/// ```compile_fail,E0277
/// #[pgas::pod]
/// struct Text(String);
/// ```
#[proc_macro_attribute]
pub fn pod(args: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    pod::expand(args.into(), &item)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
