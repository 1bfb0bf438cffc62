//! Every call of libfabric and of PMIx, each in a few lines that check its result.

mod endpoint;
mod info;
mod memory;
pub(crate) mod pmix;
mod words;

use std::ffi::c_int;

use pgas_core::{Error, Result};
use pgas_libfabric_sys::{Library, load};

pub(crate) use endpoint::{Begun, Completion, Endpoint, Target};
pub(crate) use info::{Info, find, unsuitable};
pub(crate) use memory::{Buffer, Context, Received, Region};
pub(crate) use words::{Cell, Words, bits_of, bytes_of};

/// The library. An error says why it cannot be loaded, and names alternatives.
pub(crate) fn library() -> Result<&'static Library> {
    load().map_err(|error| {
        let text =
            format!("{error}, or choose another backend (PGAS_BACKEND=smp on one host, mpi)");
        Error::backend("dlopen", 0, text)
    })
}

/// An error with the name of the call and libfabric's text, unless the call has succeeded.
fn check(call: &'static str, code: c_int) -> Result<()> {
    if code >= 0 {
        Ok(())
    } else {
        Err(failed(call, code))
    }
}

/// The error of a call that returned this negative code.
#[cold]
fn failed(call: &'static str, code: c_int) -> Error {
    let text = match load() {
        Ok(library) => library.error_text(code),
        Err(error) => error.to_string(),
    };
    Error::backend(call, code.into(), text)
}
