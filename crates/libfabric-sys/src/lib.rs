//! Bindings to libfabric that need no libfabric to build.
//!
//! [`load`] loads `libfabric.so.1` and gives its six exported functions. All others are inline
//! functions of the headers, which look into the tables of an object: [`calls`] has them, by their
//! names in C. Types and constants are in [`bindings`], as `bindgen` made them of the headers of
//! libfabric 1.17.
//!
//! ```
//! match pgas_libfabric_sys::load() {
//!     Ok(library) => println!("libfabric {}", library.version()),
//!     Err(error) => println!("{error}"),
//! }
//! ```
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | the inline functions; the exported ones | `calls`, `library` |
//! | loading; what that must not change | `dynamic`, `handlers` |
//! | types and constants | `bindings` |

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!(
    "pgas-libfabric-sys needs Linux with the GNU C library, which tells versions of a function apart"
);

#[expect(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::type_complexity,
    clippy::use_self,
    reason = "made by bindgen: C's own names and types"
)]
pub mod bindings;
pub mod calls;
pub mod dynamic;
mod handlers;
mod library;

pub use library::{Library, LoadError, Version, load};
