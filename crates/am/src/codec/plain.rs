//! Byte-copyable types, encoded as their own bytes.

use pgas_core::{GlobalPtr, Pod, Rank, Result};
use zerocopy::IntoBytes as _;

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layout::Layout;
use super::refusal::unreadable;
use super::wire::{Codec, Wire};

/// The codec of byte-copyable types: the value's own bytes.
#[derive(Clone, Copy, Debug)]
pub enum AsBytes {}

impl<T: Pod> Codec<T> for AsBytes {
    type Array<const N: usize> = Self;

    #[inline]
    fn encode(value: &T, out: &mut Encoder) -> Result<()> {
        out.write(value.as_bytes());
        Ok(())
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<T> {
        let bytes = input.take::<T>(size_of::<T>())?;
        T::read_from_bytes(bytes).map_err(|_| unreadable::<T>("the lengths differ"))
    }

    fn layout(out: &mut Layout) {
        let name = std::any::type_name::<T>();
        // Names of primitive types are complete; paths of other types depend on where they are
        // defined.
        if name.contains("::") {
            out.plain::<T>();
        } else {
            out.say(name);
        }
    }

    #[inline]
    fn encode_all(values: &[T], out: &mut Encoder) -> Result<()> {
        if size_of::<T>() == 0 {
            out.add_empty::<T>(values.len())?;
        }
        out.write(values.as_bytes());
        Ok(())
    }

    #[inline]
    fn decode_all(n: usize, input: &mut Decoder<'_>) -> Result<Vec<T>> {
        if size_of::<T>() == 0 {
            input.add_empty::<T>(n)?;
        }
        let n_bytes = n.saturating_mul(size_of::<T>());
        let bytes = input.take::<T>(n_bytes)?;
        let mut values = T::new_vec_zeroed(n).map_err(|_| unreadable::<T>("no memory"))?;
        values.as_mut_bytes().copy_from_slice(bytes);
        Ok(values)
    }
}

/// Implements [`Wire`] as plain bytes for types that are byte-copyable.
macro_rules! as_bytes {
    ($($t:ty),*) => { $(impl Wire for $t { type By = AsBytes; })* };
}
as_bytes!(
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    (),
    Rank
);

impl<T: 'static> Wire for GlobalPtr<T> {
    type By = AsBytes;
}
