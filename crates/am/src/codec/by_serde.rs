//! Types that serde encodes.

use pgas_core::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layout::Layout;
use super::refusal::unwritable;
use super::wire::{Codec, Each, Wire};

/// The codec of types that serde encodes and decodes, in the [`format`](super::format) of the
/// containers.
#[derive(Clone, Copy, Debug)]
pub enum AsSerde {}

impl<T: Serialize + DeserializeOwned> Codec<T> for AsSerde {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &T, out: &mut Encoder) -> Result<()> {
        out.put_by_serde(value).map_err(unwritable::<T>)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<T> {
        input.get_by_serde()
    }

    fn layout(out: &mut Layout) {
        out.by_serde::<T>();
    }
}

/// Implements [`Wire`] by serde for types of the standard library.
macro_rules! as_serde {
    ($($t:ty),*) => { $(impl Wire for $t { type By = AsSerde; })* };
}
as_serde!(
    bool,
    char,
    std::time::Duration,
    std::time::SystemTime,
    std::net::IpAddr,
    std::net::Ipv4Addr,
    std::net::Ipv6Addr,
    std::net::SocketAddrV4,
    std::ffi::CString,
    std::num::NonZeroU8,
    std::num::NonZeroU16,
    std::num::NonZeroU32,
    std::num::NonZeroU64,
    std::num::NonZeroU128,
    std::num::NonZeroUsize,
    std::num::NonZeroI8,
    std::num::NonZeroI16,
    std::num::NonZeroI32,
    std::num::NonZeroI64,
    std::num::NonZeroI128,
    std::num::NonZeroIsize
);
