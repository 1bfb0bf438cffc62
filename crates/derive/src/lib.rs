//! Derive macros for types that are sent between ranks and stored in distributed containers. `pgas`
//! re-exports them.
//!
//! | macro | the type may be |
//! |---|---|
//! | [`#[pgas::pod]`](macro@pod) | an element of global memory, copied as bytes; and all of the following |
//! | [`#[derive(pgas::Wire)]`](macro@Wire) | an argument or a result of remote calls |
//! | [`#[derive(pgas::Wire, pgas::Object)]`](macro@Object) | also a key, a value or an element of a container |
//!
//! The examples on their pages run as tests of `pgas`. A dependency on `pgas` here would build it a
//! second time, for the machine that runs the compiler.
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

#[doc = include_str!("../docs/wire.md")]
#[proc_macro_derive(Wire, attributes(pgas))]
pub fn wire(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    wire::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[doc = include_str!("../docs/object.md")]
#[proc_macro_derive(Object, attributes(pgas))]
pub fn object(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    object::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[doc = include_str!("../docs/pod.md")]
#[proc_macro_attribute]
pub fn pod(args: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    pod::expand(args.into(), &item)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
