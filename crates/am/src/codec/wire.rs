//! The trait by which a type names its codec, and the trait of codecs.

use std::marker::PhantomData;

use pgas_core::{Error, Result};

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layout::Layout;
use super::refusal::unreadable;

/// A type of arguments and results of remote calls.
///
/// It is implemented for numbers, `NonZero` integers, `bool`, `char`, strings, paths, `Duration`,
/// internet addresses, [`GlobalPtr`](pgas_core::GlobalPtr), [`Rank`](pgas_core::Rank), and
/// [`Team`](pgas_core::Team), which arrives as the target's own handle.
///
/// Of such types it is also implemented for tuples up to 12, arrays, `Vec`, `Box`, `Option`,
/// `Result`, `Cow`, `Range`, `Reverse`, `Wrapping`, `PhantomData`, and the maps, sets and queues of
/// std.
///
/// A type of your own derives it (`pgas::Wire`), or names its codec:
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
/// impl Wire for Edge { type By = AsBytes; } // its bytes are copied
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// enum Query { Name(String), Range { from: u64, to: u64 } }
/// impl Wire for Query { type By = AsSerde; } // by serde
/// ```
///
/// Types that cannot be sent do not compile:
///
/// ```compile_fail,E0277
/// fn travels<T: pgas_am::codec::Wire>() {}
/// travels::<std::sync::MutexGuard<'static, u64>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not travel to other ranks",
    note = "if `{Self}` is yours, put `#[derive(pgas::Wire)]` on it; of one that serde can write, \
            `impl Wire for {Self} {{ type By = AsSerde; }}` in the crate that defines it"
)]
pub trait Wire: Sized + 'static {
    /// The codec of the type.
    type By: Codec<Self>;

    /// Appends the description of the type in files: that of its codec, and of a byte-copyable type
    /// its members. `pgas::pod` and `derive(pgas::Wire)` see to that.
    fn layout(out: &mut Layout) {
        Self::By::layout(out);
    }
}

/// An encoding of values of `T` as bytes. Write one for a type whose values can be encoded in fewer
/// bytes than their members, or have to be checked.
///
/// # Examples
///
/// ```
/// use pgas_am::codec::{Codec, Decoder, Each, Encoder, Wire};
/// use pgas_am::Result;
///
/// #[derive(Debug, PartialEq)]
/// struct Celsius(f64);
///
/// /// In hundredths of a degree, in two bytes.
/// enum Hundredths {}
///
/// impl Wire for Celsius {
///     type By = Hundredths;
/// }
///
/// impl Codec<Celsius> for Hundredths {
///     type Array<const N: usize> = Each<Self>;
///
///     fn encode(value: &Celsius, out: &mut Encoder) -> Result<()> {
///         out.put(&((value.0 * 100.0).round() as i16))
///     }
///
///     fn decode(input: &mut Decoder<'_>) -> Result<Celsius> {
///         Ok(Celsius(f64::from(input.get::<i16>()?) / 100.0))
///     }
/// }
///
/// let mut out = Encoder::new();
/// out.put(&[Celsius(21.5), Celsius(-3.25)])?;
/// assert_eq!(out.bytes().len(), 4);
/// assert_eq!(Decoder::new(out.bytes()).get::<Celsius>()?, Celsius(21.5));
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub trait Codec<T> {
    /// The codec of arrays of such values: [`Each<Self>`](Each), except for codecs that copy bytes.
    type Array<const N: usize>: Codec<[T; N]>;

    /// Appends the bytes of `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](pgas_core::Error::Codec) for a value that cannot be encoded.
    fn encode(value: &T, out: &mut Encoder) -> Result<()>;

    /// Takes a value from the front of `input`.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](pgas_core::Error::Codec) for bytes that are not the encoding of a `T`.
    fn decode(input: &mut Decoder<'_>) -> Result<T>;

    /// Appends the description of `T` in files: its name, and its members or variants as far as
    /// known.
    fn layout(out: &mut Layout) {
        out.say("bytes of a codec of its own");
    }

    /// As [`encode`](Self::encode), for each of `values`.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    fn encode_all(values: &[T], out: &mut Encoder) -> Result<()> {
        out.within::<T, _>(|out| {
            values
                .iter()
                .try_for_each(|value| out.element::<T>(|out| Self::encode(value, out)))
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
            input.check_count::<T>(n)?;
            let at_first = FIRST_BYTES / size_of::<T>().max(1);
            let mut values = Vec::with_capacity(n.min(input.remaining().len()).min(at_first));
            for _ in 0..n {
                values.push(input.element::<T>(Self::decode)?);
            }
            Ok(values)
        })
    }
}

/// The maximum memory allocated for elements of a list before any of them was read.
const FIRST_BYTES: usize = 1 << 16;

/// The codec of arrays: each element by `C`.
#[derive(Clone, Copy, Debug)]
pub struct Each<C>(PhantomData<C>);

impl<T, C: Codec<T>, const N: usize> Codec<[T; N]> for Each<C> {
    type Array<const M: usize> = Each<Self>;

    fn encode(values: &[T; N], out: &mut Encoder) -> Result<()> {
        C::encode_all(values, out)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<[T; N]> {
        let values = C::decode_all(N, input)?;
        values
            .try_into()
            .map_err(|_| unreadable::<[T; N]>("the lengths differ"))
    }
}

impl<T: Wire, const N: usize> Wire for [T; N] {
    type By = <T::By as Codec<T>>::Array<N>;

    fn layout(out: &mut Layout) {
        out.wrap::<T>(&format!("{N} of "), "");
    }
}

impl Encoder {
    /// Appends a value.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](pgas_core::Error::Codec) for a value that cannot be encoded.
    #[inline]
    pub fn put<T: Wire>(&mut self, value: &T) -> Result<()> {
        T::By::encode(value, self)
    }

    /// Appends the text in the encoding of a `String`: the number of its bytes, then the bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::codec::Encoder;
    ///
    /// let (mut owned, mut lent) = (Encoder::new(), Encoder::new());
    /// owned.put(&"text".to_owned())?;
    /// owned.put(&vec![1_u16, 2])?;
    /// lent.put_str("text");
    /// lent.put_slice(&[1_u16, 2])?;
    /// assert_eq!(owned.bytes(), lent.bytes());
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    pub fn put_str(&mut self, text: &str) {
        self.put_count(text.len());
        self.write(text.as_bytes());
    }

    /// Appends the values in the encoding of a `Vec`: their number, then the values.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](pgas_core::Error::Codec) for a value that cannot be encoded.
    #[inline]
    pub fn put_slice<T: Wire>(&mut self, values: &[T]) -> Result<()> {
        self.put_count(values.len());
        T::By::encode_all(values, self)
    }
}

impl Decoder<'_> {
    /// Takes a value.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](pgas_core::Error::Codec) for bytes that are not the encoding of a `T`.
    #[inline]
    pub fn get<T: Wire>(&mut self) -> Result<T> {
        T::By::decode(self)
    }

    /// As [`get`](Self::get), for the last value: its codec must take all bytes that there are.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and if bytes are left over.
    #[inline]
    pub fn get_last<T: Wire>(&mut self) -> Result<T> {
        let value = self.get()?;
        match self.remaining().len() {
            0 => Ok(value),
            n => Err(left_over::<T>(n)),
        }
    }
}

#[cold]
fn left_over<T>(n: usize) -> Error {
    unreadable::<T>(format!("{n} bytes are left over"))
}

impl Layout {
    /// The description of `T` in files: the same on every platform, whatever module the type is in.
    #[must_use]
    pub fn of<T: Wire>() -> String {
        Self::told(Self::part::<T>)
    }

    /// The description that `tell` appends.
    #[must_use]
    pub fn told(tell: impl FnOnce(&mut Self)) -> String {
        let mut layout = Self::new();
        tell(&mut layout);
        layout.into_text()
    }

    /// Appends the description of a part of type `T`; within that of a `T`, where that is.
    pub fn part<T: Wire>(&mut self) {
        self.within::<T>(T::layout);
    }

    /// Appends `begin`, the description of a part of type `T`, and `end`.
    pub(super) fn wrap<T: Wire>(&mut self, begin: &str, end: &str) {
        self.say(begin);
        self.part::<T>();
        self.say(end);
    }
}
