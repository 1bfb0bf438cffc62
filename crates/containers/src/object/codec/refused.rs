//! What the codec refuses, so that bytes from anywhere take bounded memory and stack.

use std::fmt;

/// The most values that may lie within each other.
pub(super) const DEPTH: u32 = 128;

/// The most elements of a sequence that take less than a byte each.
pub(super) const EMPTY: usize = 1 << 16;

/// Why a value cannot be encoded, or bytes cannot be decoded.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Box<str>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl serde::ser::Error for Refused {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self(why.to_string().into())
    }
}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self(why.to_string().into())
    }
}

/// One level deeper than `depth`, if that is allowed.
pub(super) fn deeper(depth: u32) -> Result<u32, Refused> {
    if depth == DEPTH {
        return Err(Refused(
            format!("more than {DEPTH} values lie within each other").into(),
        ));
    }
    Ok(depth + 1)
}

/// Whether `n` elements may take `bytes` bytes.
pub(super) fn check_len(n: usize, bytes: usize) -> Result<(), Refused> {
    if n <= bytes.max(EMPTY) {
        return Ok(());
    }
    Err(Refused(
        format!("{n} elements were to take {bytes} bytes").into(),
    ))
}
