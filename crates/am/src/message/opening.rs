//! The opening of a message.

use pgas_core::GlobalPtr;

use crate::codec::{Encoder, Wire};
use crate::registry::type_hash;
use pgas_core::Result;

/// Encodes the opening of a message: its handler and its arguments.
#[inline]
pub(super) fn opening<H: 'static, A: Wire>(args: &A) -> Result<Encoder> {
    let mut out = Encoder::new();
    out.write(&type_hash::<H>().to_ne_bytes());
    out.put(args)?;
    Ok(out)
}

/// Encodes the opening of a long message: the location of its payload, its handler and its
/// arguments.
pub(super) fn long_opening<H: 'static, A: Wire>(
    args: &A,
    dst: GlobalPtr<u8>,
    len: usize,
) -> Result<Encoder> {
    let mut out = Encoder::new();
    out.write(&type_hash::<H>().to_ne_bytes());
    out.put(&(dst, len))?;
    out.put(args)?;
    Ok(out)
}
