//! How arguments and results become bytes: byte-copyable types as they are, others by serde.
//!
//! All bytes that the crate sends pass through here, so that another serializer is a change of this folder. They may
//! come from anywhere: a value takes no more memory than its bytes stand for, values lie within each
//! other no deeper than [`format::DEPTH`], and a list has no more than [`format::EMPTY`] elements without bytes.

pub mod format;
#[cfg(test)]
mod tests;

use pgas_core::{GlobalPtr, Pod, Rank, World};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zerocopy::IntoBytes;

use self::format::{Limits, Refused, Sink};
use pgas_core::{Error, Result};

/// A type that travels as argument or result.
///
/// It is implemented for numbers, `bool`, `char`, strings, [`GlobalPtr`], [`Rank`], and for tuples, arrays,
/// `Vec`, `Option`, `Result` and `Box` of such types. A type of one's own needs one line: which codec it
/// travels by.
///
/// # Examples
///
/// ```
/// use pgas_am::codec::{AsBytes, AsSerde, Wire};
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Edge { to: u32, weight: f32 }
/// impl Wire for Edge { type By = AsBytes; } // copied as it is
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// enum Query { Name(String), Range { from: u64, to: u64 } }
/// impl Wire for Query { type By = AsSerde; } // by serde
/// ```
///
/// What cannot travel does not compile:
///
/// ```compile_fail,E0277
/// fn travels<T: pgas_am::codec::Wire>() {}
/// travels::<std::sync::MutexGuard<'static, u64>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not travel to other ranks",
    note = "say `impl Wire for {Self} {{ type By = AsBytes; }}` if it is byte-copyable, or `AsSerde` if serde can write it"
)]
pub trait Wire: Sized + 'static {
    /// How it travels.
    type By: Codec<Self>;
}

/// A way in which values of `T` become bytes and come back.
pub trait Codec<T> {
    /// Appends the bytes of `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] for a value that has no bytes.
    fn encode(value: &T, out: &mut Encoder) -> Result<()>;

    /// Takes a value from the front of `input`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] for bytes that are no `T`.
    fn decode(input: &mut Decoder<'_>) -> Result<T>;

    /// As [`encode`](Self::encode), for each of `values`.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    fn encode_all(values: &[T], out: &mut Encoder) -> Result<()> {
        out.within::<T, _>(|out| {
            for value in values {
                let n_before = out.bytes().len();
                Self::encode(value, out)?;
                if out.bytes().len() == n_before {
                    out.add_empty::<T>(1)?;
                }
            }
            Ok(())
        })
    }

    /// As [`decode`](Self::decode), `n` times.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    fn decode_all(n: usize, input: &mut Decoder<'_>) -> Result<Vec<T>> {
        input.within::<T, _>(|input| {
            // The number may be nonsense.
            let most = input.remaining().len();
            input
                .limits
                .empty
                .check(n, most)
                .map_err(|e| unreadable::<T>(e.to_string()))?;
            let at_first = FIRST_BYTES / size_of::<T>().max(1);
            let mut values = Vec::with_capacity(n.min(most).min(at_first));
            for _ in 0..n {
                let n_before = input.remaining().len();
                values.push(Self::decode(input)?);
                if input.remaining().len() == n_before {
                    input.add_empty::<T>(1)?;
                }
            }
            Ok(values)
        })
    }
}

/// The most memory for elements of a list of which none has been read yet.
const FIRST_BYTES: usize = 1 << 16;

/// Bytes that a message fits without allocation: what one slot of a mailbox carries, twice.
const INLINE: usize = 96;

/// Bytes that are being put together; the first few need no allocation.
#[derive(Debug)]
pub struct Encoder {
    inline: [u8; INLINE],
    len: usize,
    /// Everything, once the inline bytes did not suffice.
    spilled: Vec<u8>,
    limits: Limits,
}

impl Default for Encoder {
    #[inline]
    fn default() -> Self {
        Self {
            inline: [0; INLINE],
            len: 0,
            spilled: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Encoder {
    /// Without bytes.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written so far.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if self.spilled.is_empty() {
            &self.inline[..self.len]
        } else {
            &self.spilled
        }
    }

    /// Appends `bytes`.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty()
            && let Some(free) = self.inline.get_mut(self.len..self.len + bytes.len())
        {
            free.copy_from_slice(bytes);
            self.len += bytes.len();
        } else {
            self.spill(bytes);
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.reserve(self.len + bytes.len());
            self.spilled.extend_from_slice(&self.inline[..self.len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// Appends zero bytes up to a multiple of eight.
    #[inline]
    pub(crate) fn align(&mut self) {
        let past = self.bytes().len() % 8;
        if past > 0 {
            self.write(&[0; 8][past..]);
        }
    }

    /// Runs `put` for what lies within a `T`.
    fn within<T, R>(&mut self, put: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let depth = self.limits.depth;
        self.limits.depth = depth.within().map_err(unwritable::<T>)?;
        let result = put(self);
        self.limits.depth = depth;
        result
    }

    fn add_empty<T>(&mut self, n: usize) -> Result<()> {
        self.limits.empty.add(n).map_err(unwritable::<T>)
    }

    /// Appends a value.
    #[inline]
    pub(crate) fn put<T: Wire>(&mut self, value: &T) -> Result<()> {
        T::By::encode(value, self)
    }
}

/// Bytes that are being taken apart.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    world: Option<&'a World>,
    limits: Limits,
}

impl<'a> Decoder<'a> {
    /// Of bytes that arrived at `world`.
    #[inline]
    pub(crate) fn at(world: &'a World, bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            world: Some(world),
            limits: Limits::default(),
        }
    }

    /// Of bytes that belong to no world.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            world: None,
            limits: Limits::default(),
        }
    }

    /// The world where the bytes arrived.
    #[must_use]
    #[inline]
    pub fn world(&self) -> Option<&'a World> {
        self.world
    }

    /// What has not been taken yet.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Takes the next `n` bytes, for a `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`] if there are fewer.
    #[inline]
    pub fn take<T>(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some(bytes) = self.remaining().get(..n) else {
            return Err(self.too_short::<T>(n));
        };
        self.at += n;
        Ok(bytes)
    }

    #[cold]
    fn too_short<T>(&self, n: usize) -> Error {
        let left = self.remaining().len();
        unreadable::<T>(format!("it takes {n} bytes, and {left} are left"))
    }

    /// Goes on at the next multiple of eight bytes, and takes all that is left.
    #[inline]
    pub(crate) fn rest_aligned(&mut self) -> &'a [u8] {
        let start = self.at.next_multiple_of(8).min(self.bytes.len());
        self.at = self.bytes.len();
        &self.bytes[start..]
    }

    /// Runs `get` for what lies within a `T`.
    fn within<T, R>(&mut self, get: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let depth = self.limits.depth;
        self.limits.depth = depth.within().map_err(|e| unreadable::<T>(e.to_string()))?;
        let result = get(self);
        self.limits.depth = depth;
        result
    }

    fn add_empty<T>(&mut self, n: usize) -> Result<()> {
        self.limits
            .empty
            .add(n)
            .map_err(|e| unreadable::<T>(e.to_string()))
    }

    /// Takes a value.
    #[inline]
    pub(crate) fn get<T: Wire>(&mut self) -> Result<T> {
        T::By::decode(self)
    }
}

/// The error for bytes that are no `T`.
#[cold]
pub(crate) fn unreadable<T>(reason: impl Into<String>) -> Error {
    Error::codec::<T>("reading bytes as a value", reason)
}

#[cold]
#[expect(clippy::needless_pass_by_value, reason = "maps errors")]
fn unwritable<T>(reason: Refused) -> Error {
    Error::codec::<T>("writing a value", reason.to_string())
}

/// The codec of byte-copyable types: the value's own bytes.
#[derive(Clone, Copy, Debug)]
pub enum AsBytes {}

impl<T: Pod> Codec<T> for AsBytes {
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

/// No call and no result is longer.
pub(crate) const LONGEST: usize = 1 << 26;

impl Sink for Encoder {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    #[inline]
    fn n_bytes(&self) -> usize {
        self.bytes().len()
    }
}

/// The codec of types that serde can write and read, in the [`format`](mod@format) of the containers.
#[derive(Clone, Copy, Debug)]
pub enum AsSerde {}

impl<T: Serialize + DeserializeOwned> Codec<T> for AsSerde {
    fn encode(value: &T, out: &mut Encoder) -> Result<()> {
        let mut limits = out.limits;
        format::encode_within(value, out, &mut limits).map_err(unwritable::<T>)?;
        out.limits = limits;
        Ok(())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<T> {
        let mut rest = input.remaining();
        let value = format::decode_within(&mut rest, &mut input.limits);
        let value = value.map_err(|e| unreadable::<T>(e.to_string()))?;
        input.at = input.bytes.len() - rest.len();
        Ok(value)
    }
}

/// The codec of compounds: their parts, one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Parts {}

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

/// Implements [`Wire`] by serde for types of the standard library.
macro_rules! as_serde {
    ($($t:ty),*) => { $(impl Wire for $t { type By = AsSerde; })* };
}
as_serde!(bool, char, String, std::time::Duration);

impl<T: 'static> Wire for GlobalPtr<T> {
    type By = AsBytes;
}

impl<T: Pod, const N: usize> Wire for [T; N] {
    type By = AsBytes;
}

impl<T: Wire> Wire for Vec<T> {
    type By = Parts;
}

impl<T: Wire> Codec<Vec<T>> for Parts {
    #[inline]
    fn encode(values: &Vec<T>, out: &mut Encoder) -> Result<()> {
        out.put(&values.len())?;
        T::By::encode_all(values, out)
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Vec<T>> {
        let n = input.get()?;
        T::By::decode_all(n, input)
    }
}

impl<T: Wire> Wire for Box<T> {
    type By = Parts;
}

impl<T: Wire> Codec<Box<T>> for Parts {
    fn encode(value: &Box<T>, out: &mut Encoder) -> Result<()> {
        out.within::<Box<T>, _>(|out| out.put::<T>(value))
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Box<T>> {
        input.within::<Box<T>, _>(|input| input.get().map(Box::new))
    }
}

impl<T: Wire> Wire for Option<T> {
    type By = Parts;
}

impl<T: Wire> Codec<Option<T>> for Parts {
    #[inline]
    fn encode(value: &Option<T>, out: &mut Encoder) -> Result<()> {
        out.write(&[u8::from(value.is_some())]);
        value.as_ref().map_or(Ok(()), |value| out.put(value))
    }

    #[inline]
    fn decode(input: &mut Decoder<'_>) -> Result<Option<T>> {
        match input.get::<u8>()? {
            0 => Ok(None),
            1 => input.get().map(Some),
            tag => Err(unreadable::<Option<T>>(format!("its first byte is {tag}"))),
        }
    }
}

impl<T: Wire, E: Wire> Wire for std::result::Result<T, E> {
    type By = Parts;
}

impl<T: Wire, E: Wire> Codec<std::result::Result<T, E>> for Parts {
    fn encode(value: &std::result::Result<T, E>, out: &mut Encoder) -> Result<()> {
        out.write(&[u8::from(value.is_ok())]);
        match value {
            Ok(value) => out.put(value),
            Err(error) => out.put(error),
        }
    }

    fn decode(input: &mut Decoder<'_>) -> Result<std::result::Result<T, E>> {
        match input.get::<u8>()? {
            0 => input.get().map(Err),
            1 => input.get().map(Ok),
            tag => Err(unreadable::<std::result::Result<T, E>>(format!(
                "its first byte is {tag}"
            ))),
        }
    }
}

/// Implements [`Wire`] for tuples of such types.
macro_rules! tuples {
    ($(($($t:ident $i:tt),+))*) => { $(
        impl<$($t: Wire),+> Wire for ($($t,)+) {
            type By = Parts;
        }

        impl<$($t: Wire),+> Codec<($($t,)+)> for Parts {
            #[inline]
            fn encode(value: &($($t,)+), out: &mut Encoder) -> Result<()> {
                $(out.put(&value.$i)?;)+
                Ok(())
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<($($t,)+)> {
                Ok(($(input.get::<$t>()?,)+))
            }
        }
    )* };
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
