//! Encodes values to bytes.

use serde::ser::{self, Serialize};

use super::limits::{Depth, Empty, Limits};
use super::refused::Refused;
use super::sink::Sink;

/// Appends the bytes of `value`.
pub(super) fn write<T: Serialize + ?Sized, S: Sink>(
    value: &T,
    sink: &mut S,
    limits: &mut Limits,
) -> Result<(), Refused> {
    let depth = limits.depth;
    let empty = &mut limits.empty;
    value.serialize(Writer {
        out: &mut Out { sink, empty },
        depth,
    })
}

/// Appends an integer, in as few bytes as it takes.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "as large as it was found to be"
)]
pub(super) fn put_integer(n: u128, sink: &mut impl Sink) {
    if n <= 250 {
        sink.put(&[n as u8]);
    } else if n <= u16::MAX.into() {
        sink.put(&[251]);
        sink.put(&(n as u16).to_le_bytes());
    } else if n <= u32::MAX.into() {
        sink.put(&[252]);
        sink.put(&(n as u32).to_le_bytes());
    } else if n <= u64::MAX.into() {
        sink.put(&[253]);
        sink.put(&(n as u64).to_le_bytes());
    } else {
        sink.put(&[254]);
        sink.put(&n.to_le_bytes());
    }
}

/// The output.
struct Out<'s, S> {
    sink: &'s mut S,
    empty: &'s mut Empty,
}

impl<S: Sink> Out<'_, S> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.sink.put(bytes);
    }

    #[inline]
    fn put_integer(&mut self, n: u128) {
        put_integer(n, self.sink);
    }

    fn put_signed(&mut self, n: i128) {
        self.put_integer(((n << 1) ^ (n >> 127)).cast_unsigned());
    }
}

struct Writer<'o, 's, S> {
    out: &'o mut Out<'s, S>,
    depth: Depth,
}

impl<'o, 's, S: Sink> Writer<'o, 's, S> {
    fn within(self) -> Result<Self, Refused> {
        let depth = self.depth.within()?;
        Ok(Self { depth, ..self })
    }

    /// Members, as many as the type says.
    fn members(self) -> Result<Members<'o, 's, S>, Refused> {
        let Self { out, depth } = self.within()?;
        Ok(Members {
            out,
            depth,
            n_left: None,
        })
    }

    /// `n` elements.
    fn elements(self, n: Option<usize>) -> Result<Members<'o, 's, S>, Refused> {
        let n = n.ok_or_else(|| Refused::new("a sequence does not know its length"))?;
        self.out.put_integer(n as u128);
        Ok(Members {
            n_left: Some(n),
            ..self.members()?
        })
    }

    fn variant(self, variant: u32) -> Result<Self, Refused> {
        self.out.put_integer(variant.into());
        self.within()
    }
}

/// A compound that is written member by member.
struct Members<'o, 's, S> {
    out: &'o mut Out<'s, S>,
    depth: Depth,
    /// The number of elements still to come, if it was written.
    n_left: Option<usize>,
}

impl<S: Sink> Members<'_, '_, S> {
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        value.serialize(Writer {
            out: &mut *self.out,
            depth: self.depth,
        })
    }

    fn put_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        let n_before = self.out.sink.n_bytes();
        self.put(value)?;
        let Some(n_left) = &mut self.n_left else {
            return Ok(());
        };
        let fewer = n_left.checked_sub(1);
        *n_left = fewer.ok_or_else(|| Refused::new("a sequence has more elements than it said"))?;
        if self.out.sink.n_bytes() == n_before {
            self.out.empty.add(1)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Refused> {
        match self.n_left {
            None | Some(0) => Ok(()),
            Some(n) => Err(Refused::new(format_args!(
                "a sequence has {n} elements less than it said"
            ))),
        }
    }
}

macro_rules! integers {
    ($($method:ident($ty:ty) = $put:ident;)*) => {
        $(
            fn $method(self, n: $ty) -> Result<(), Refused> {
                self.out.$put(n.into());
                Ok(())
            }
        )*
    };
}

impl<'o, 's, S: Sink> ser::Serializer for Writer<'o, 's, S> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Members<'o, 's, S>;
    type SerializeTuple = Members<'o, 's, S>;
    type SerializeTupleStruct = Members<'o, 's, S>;
    type SerializeTupleVariant = Members<'o, 's, S>;
    type SerializeMap = Members<'o, 's, S>;
    type SerializeStruct = Members<'o, 's, S>;
    type SerializeStructVariant = Members<'o, 's, S>;

    integers! {
        serialize_u16(u16) = put_integer;
        serialize_u32(u32) = put_integer;
        serialize_u64(u64) = put_integer;
        serialize_u128(u128) = put_integer;
        serialize_i16(i16) = put_signed;
        serialize_i32(i32) = put_signed;
        serialize_i64(i64) = put_signed;
        serialize_i128(i128) = put_signed;
    }

    fn serialize_bool(self, value: bool) -> Result<(), Refused> {
        self.serialize_u8(value.into())
    }

    fn serialize_u8(self, n: u8) -> Result<(), Refused> {
        self.out.put(&[n]);
        Ok(())
    }

    fn serialize_i8(self, n: i8) -> Result<(), Refused> {
        self.serialize_u8(n.cast_unsigned())
    }

    fn serialize_f32(self, x: f32) -> Result<(), Refused> {
        self.out.put(&x.to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, x: f64) -> Result<(), Refused> {
        self.out.put(&x.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, c: char) -> Result<(), Refused> {
        self.out.put(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Refused> {
        self.serialize_bytes(text.as_bytes())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Refused> {
        self.out.put_integer(bytes.len() as u128);
        self.out.put(bytes);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Refused> {
        self.serialize_u8(0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        self.out.put(&[1]);
        value.serialize(self.within()?)
    }

    fn serialize_unit(self) -> Result<(), Refused> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
    ) -> Result<(), Refused> {
        self.variant(variant).map(drop)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        value.serialize(self.within()?)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        value.serialize(self.variant(variant)?)
    }

    fn serialize_seq(self, n: Option<usize>) -> Result<Members<'o, 's, S>, Refused> {
        self.elements(n)
    }

    fn serialize_tuple(self, _: usize) -> Result<Members<'o, 's, S>, Refused> {
        self.members()
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Members<'o, 's, S>, Refused> {
        self.members()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Members<'o, 's, S>, Refused> {
        self.variant(variant)?.members()
    }

    fn serialize_map(self, n: Option<usize>) -> Result<Members<'o, 's, S>, Refused> {
        self.elements(n)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'o, 's, S>, Refused> {
        self.members()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Members<'o, 's, S>, Refused> {
        self.variant(variant)?.members()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! members {
    ($($kind:ident: $method:ident($($name:ty)?);)*) => {
        $(
            impl<S: Sink> ser::$kind for Members<'_, '_, S> {
                type Ok = ();
                type Error = Refused;

                fn $method<T: Serialize + ?Sized>(
                    &mut self,
                    $(_: $name,)?
                    value: &T,
                ) -> Result<(), Refused> {
                    self.put_element(value)
                }

                fn end(self) -> Result<(), Refused> {
                    self.finish()
                }
            }
        )*
    };
}

members! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}

impl<S: Sink> ser::SerializeMap for Members<'_, '_, S> {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        self.put_element(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.put(value)
    }

    fn end(self) -> Result<(), Refused> {
        self.finish()
    }
}
