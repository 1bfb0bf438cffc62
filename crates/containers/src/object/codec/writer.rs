//! From values to bytes.

use serde::ser::{self, Serialize};

use super::refused::{Refused, check_len, deeper};

/// Writes `value` to `buffer`, or if it is longer to memory of its own; and its length.
pub(super) fn write<T: Serialize>(
    value: &T,
    buffer: &mut [u8],
) -> Result<(usize, Option<Vec<u8>>), Refused> {
    let mut out = Out {
        buffer,
        len: 0,
        long: None,
    };
    value.serialize(Writer {
        out: &mut out,
        depth: 0,
    })?;
    Ok((out.len, out.long))
}

struct Out<'b> {
    buffer: &'b mut [u8],
    len: usize,
    /// All that was written, if the buffer is too short for it.
    long: Option<Vec<u8>>,
}

impl Out<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match (&mut self.long, self.buffer.get_mut(self.len..end)) {
            (None, Some(place)) => place.copy_from_slice(bytes),
            (None, None) => {
                let mut long = Vec::with_capacity(2 * end);
                long.extend_from_slice(&self.buffer[..self.len]);
                long.extend_from_slice(bytes);
                self.long = Some(long);
            }
            (Some(long), _) => long.extend_from_slice(bytes),
        }
        self.len = end;
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "as large as it was found to be"
    )]
    fn put_integer(&mut self, n: u128) {
        if n <= 250 {
            self.put(&[n as u8]);
        } else if n <= u16::MAX.into() {
            self.put(&[251]);
            self.put(&(n as u16).to_le_bytes());
        } else if n <= u32::MAX.into() {
            self.put(&[252]);
            self.put(&(n as u32).to_le_bytes());
        } else if n <= u64::MAX.into() {
            self.put(&[253]);
            self.put(&(n as u64).to_le_bytes());
        } else {
            self.put(&[254]);
            self.put(&n.to_le_bytes());
        }
    }

    fn put_signed(&mut self, n: i128) {
        self.put_integer(((n << 1) ^ (n >> 127)).cast_unsigned());
    }
}

struct Writer<'o, 'b> {
    out: &'o mut Out<'b>,
    depth: u32,
}

impl<'o, 'b> Writer<'o, 'b> {
    fn within(self) -> Result<Self, Refused> {
        let depth = deeper(self.depth)?;
        Ok(Self { depth, ..self })
    }

    fn members(self) -> Result<Members<'o, 'b>, Refused> {
        let Self { out, depth } = self.within()?;
        Ok(Members {
            start: out.len,
            out,
            depth,
            n: 0,
        })
    }

    fn elements(self, n: Option<usize>) -> Result<Members<'o, 'b>, Refused> {
        let n = n.ok_or_else(|| Refused("a sequence does not know its length".into()))?;
        self.out.put_integer(n as u128);
        Ok(Members {
            n,
            ..self.members()?
        })
    }

    fn variant(self, variant: u32) -> Result<Self, Refused> {
        self.out.put_integer(variant.into());
        self.within()
    }
}

/// What is being written, member by member.
struct Members<'o, 'b> {
    out: &'o mut Out<'b>,
    depth: u32,
    start: usize,
    /// How many elements there are, if a reader cannot know.
    n: usize,
}

impl Members<'_, '_> {
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        value.serialize(Writer {
            out: &mut *self.out,
            depth: self.depth,
        })
    }

    fn finish(self) -> Result<(), Refused> {
        check_len(self.n, self.out.len - self.start)
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

impl<'o, 'b> ser::Serializer for Writer<'o, 'b> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Members<'o, 'b>;
    type SerializeTuple = Members<'o, 'b>;
    type SerializeTupleStruct = Members<'o, 'b>;
    type SerializeTupleVariant = Members<'o, 'b>;
    type SerializeMap = Members<'o, 'b>;
    type SerializeStruct = Members<'o, 'b>;
    type SerializeStructVariant = Members<'o, 'b>;

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

    fn serialize_seq(self, n: Option<usize>) -> Result<Members<'o, 'b>, Refused> {
        self.elements(n)
    }

    fn serialize_tuple(self, _: usize) -> Result<Members<'o, 'b>, Refused> {
        self.members()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Members<'o, 'b>, Refused> {
        self.members()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Members<'o, 'b>, Refused> {
        self.variant(variant)?.members()
    }

    fn serialize_map(self, n: Option<usize>) -> Result<Members<'o, 'b>, Refused> {
        self.elements(n)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'o, 'b>, Refused> {
        self.members()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Members<'o, 'b>, Refused> {
        self.variant(variant)?.members()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! members {
    ($($kind:ident: $method:ident($($name:ty)?);)*) => {
        $(
            impl ser::$kind for Members<'_, '_> {
                type Ok = ();
                type Error = Refused;

                fn $method<T: Serialize + ?Sized>(
                    &mut self,
                    $(_: $name,)?
                    value: &T,
                ) -> Result<(), Refused> {
                    self.put(value)
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

impl ser::SerializeMap for Members<'_, '_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        self.put(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.put(value)
    }

    fn end(self) -> Result<(), Refused> {
        self.finish()
    }
}
