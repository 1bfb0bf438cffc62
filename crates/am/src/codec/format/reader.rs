//! Decodes bytes to values.

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer as _, Visitor};

use super::limits::{Depth, Empty, Limits};
use super::refused::Refused;

/// Takes a value from the front of `bytes`.
pub(super) fn read<T: DeserializeOwned>(
    bytes: &mut &[u8],
    limits: &mut Limits,
) -> Result<T, Refused> {
    let mut input = Input {
        bytes,
        empty: limits.empty,
    };
    let value = T::deserialize(Reader {
        input: &mut input,
        depth: limits.depth,
    })?;
    *bytes = input.bytes;
    limits.empty = input.empty;
    Ok(value)
}

/// Takes the next `n` bytes.
#[inline]
fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Result<&'b [u8], Refused> {
    let Some((front, rest)) = bytes.split_at_checked(n) else {
        let n_left = bytes.len();
        return Err(Refused::new(format_args!(
            "{n} more bytes were to come; there are {n_left}"
        )));
    };
    *bytes = rest;
    Ok(front)
}

/// Takes an integer of up to `most` bytes.
#[inline]
fn integer(bytes: &mut &[u8], most: usize) -> Result<u128, Refused> {
    let first = take(bytes, 1)?[0];
    let n_bytes = match first {
        0..=250 => return Ok(first.into()),
        251 => 2,
        252 => 4,
        253 => 8,
        254 => 16,
        255 => return Err(Refused::new("no integer begins with 255")),
    };
    if n_bytes > most {
        return Err(Refused::new(format_args!(
            "an integer of {most} bytes was to come, and has {n_bytes}"
        )));
    }
    let mut all = [0; 16];
    all[..n_bytes].copy_from_slice(take(bytes, n_bytes)?);
    Ok(u128::from_le_bytes(all))
}

/// Takes a number of elements.
#[inline]
pub(super) fn length(bytes: &mut &[u8]) -> Result<usize, Refused> {
    let n = integer(bytes, 8)?;
    usize::try_from(n).map_err(|_| Refused::new(format_args!("{n} is no length here")))
}

/// The input that has not been read yet.
struct Input<'b> {
    bytes: &'b [u8],
    empty: Empty,
}

/// Reads from the front of the input.
struct Reader<'r, 'b> {
    input: &'r mut Input<'b>,
    depth: Depth,
}

impl<'r, 'b> Reader<'r, 'b> {
    fn within(self) -> Result<Self, Refused> {
        let depth = self.depth.within()?;
        Ok(Self { depth, ..self })
    }

    #[inline]
    fn take(&mut self, n: usize) -> Result<&'b [u8], Refused> {
        take(&mut self.input.bytes, n)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        Ok(self.take(N)?.try_into().expect("as many bytes"))
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Refused> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    fn integer(&mut self, most: usize) -> Result<u128, Refused> {
        integer(&mut self.input.bytes, most)
    }

    fn signed(&mut self, most: usize) -> Result<i128, Refused> {
        let n = self.integer(most)?;
        Ok((n >> 1).cast_signed() ^ -(n & 1).cast_signed())
    }

    fn text(&mut self) -> Result<&'b str, Refused> {
        let bytes = self.run()?;
        std::str::from_utf8(bytes).map_err(Refused::new)
    }

    fn run(&mut self) -> Result<&'b [u8], Refused> {
        let n = self.len()?;
        self.take(n)
    }

    fn len(&mut self) -> Result<usize, Refused> {
        length(&mut self.input.bytes)
    }

    /// `n` members, as the type says.
    fn members<V: Visitor<'b>>(self, n: usize, visitor: V) -> Result<V::Value, Refused> {
        let Self { input, depth } = self.within()?;
        visitor.visit_seq(Members {
            input,
            depth,
            left: n,
            is_counted: false,
        })
    }

    /// Elements, as many as the input says.
    fn elements(mut self) -> Result<Members<'r, 'b>, Refused> {
        let left = self.len()?;
        self.input.empty.check(left, self.input.bytes.len())?;
        let Self { input, depth } = self.within()?;
        Ok(Members {
            input,
            depth,
            left,
            is_counted: true,
        })
    }
}

struct Members<'r, 'b> {
    input: &'r mut Input<'b>,
    depth: Depth,
    left: usize,
    /// Whether elements that take no byte count against the limit: the input has given their
    /// number.
    is_counted: bool,
}

impl<'b> Members<'_, 'b> {
    fn get<S: DeserializeSeed<'b>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(Reader {
            input: &mut *self.input,
            depth: self.depth,
        })
    }

    /// A number of elements for which memory may be allocated at once.
    fn hint(&self) -> usize {
        self.left.min(self.input.bytes.len())
    }
}

impl<'b> de::SeqAccess<'b> for Members<'_, 'b> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'b>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let n_before = self.input.bytes.len();
        let element = self.get(seed)?;
        if self.is_counted && self.input.bytes.len() == n_before {
            self.input.empty.add(1)?;
        }
        Ok(Some(element))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'b> de::MapAccess<'b> for Members<'_, 'b> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'b>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<S: DeserializeSeed<'b>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        self.get(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'b> de::EnumAccess<'b> for Reader<'_, 'b> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'b>>(
        mut self,
        seed: S,
    ) -> Result<(S::Value, Self), Refused> {
        let variant = narrowed::<u32>(self.integer(4)?)?;
        let variant: de::value::U32Deserializer<Refused> = variant.into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'b> de::VariantAccess<'b> for Reader<'_, 'b> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'b>>(self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'b>>(self, n: usize, visitor: V) -> Result<V::Value, Refused> {
        self.members(n, visitor)
    }

    fn struct_variant<V: Visitor<'b>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.members(fields.len(), visitor)
    }
}

fn narrowed<N: TryFrom<u128>>(n: u128) -> Result<N, Refused> {
    N::try_from(n).map_err(|_| Refused::new(format_args!("{n} is too large for its type")))
}

fn narrowed_signed<N: TryFrom<i128>>(n: i128) -> Result<N, Refused> {
    N::try_from(n).map_err(|_| Refused::new(format_args!("{n} is too large for its type")))
}

macro_rules! numbers {
    ($($method:ident: $visit:ident($read:expr);)*) => {
        $(
            fn $method<V: Visitor<'b>>(mut self, visitor: V) -> Result<V::Value, Refused> {
                let read: fn(&mut Self) -> Result<_, Refused> = $read;
                visitor.$visit(read(&mut self)?)
            }
        )*
    };
}

macro_rules! untold {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'b>>(self, _: V) -> Result<V::Value, Refused> {
                Err(Refused::new("the format does not say of what type a value is"))
            }
        )*
    };
}

impl<'b> de::Deserializer<'b> for Reader<'_, 'b> {
    type Error = Refused;

    numbers! {
        deserialize_u8: visit_u8(|r| r.byte());
        deserialize_u16: visit_u16(|r| narrowed(r.integer(2)?));
        deserialize_u32: visit_u32(|r| narrowed(r.integer(4)?));
        deserialize_u64: visit_u64(|r| narrowed(r.integer(8)?));
        deserialize_u128: visit_u128(|r| r.integer(16));
        deserialize_i8: visit_i8(|r| Ok(r.byte()?.cast_signed()));
        deserialize_i16: visit_i16(|r| narrowed_signed(r.signed(2)?));
        deserialize_i32: visit_i32(|r| narrowed_signed(r.signed(4)?));
        deserialize_i64: visit_i64(|r| narrowed_signed(r.signed(8)?));
        deserialize_i128: visit_i128(|r| r.signed(16));
        deserialize_f32: visit_f32(|r| Ok(f32::from_le_bytes(r.array()?)));
        deserialize_f64: visit_f64(|r| Ok(f64::from_le_bytes(r.array()?)));
        deserialize_str: visit_borrowed_str(|r| r.text());
        deserialize_string: visit_borrowed_str(|r| r.text());
        deserialize_bytes: visit_borrowed_bytes(|r| r.run());
        deserialize_byte_buf: visit_borrowed_bytes(|r| r.run());
    }

    untold! { deserialize_any deserialize_identifier deserialize_ignored_any }

    fn deserialize_bool<V: Visitor<'b>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            other => Err(Refused::new(format_args!("{other} is no bool"))),
        }
    }

    fn deserialize_char<V: Visitor<'b>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let first = self.input.bytes.first().copied().unwrap_or(0);
        let n = match first {
            0xf0.. => 4,
            0xe0.. => 3,
            0xc0.. => 2,
            _ => 1,
        };
        let bytes = self.take(n)?;
        let mut chars = std::str::from_utf8(bytes).unwrap_or("").chars();
        let Some(c) = chars.next() else {
            return Err(Refused::new(format_args!("{bytes:?} are no char")));
        };
        visitor.visit_char(c)
    }

    fn deserialize_option<V: Visitor<'b>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => visitor.visit_some(self.within()?),
            other => Err(Refused::new(format_args!("{other} is no option"))),
        }
    }

    fn deserialize_unit<V: Visitor<'b>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'b>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'b>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self.within()?)
    }

    fn deserialize_seq<V: Visitor<'b>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_seq(self.elements()?)
    }

    fn deserialize_tuple<V: Visitor<'b>>(self, n: usize, visitor: V) -> Result<V::Value, Refused> {
        self.members(n, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'b>>(
        self,
        _: &'static str,
        n: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.members(n, visitor)
    }

    fn deserialize_map<V: Visitor<'b>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_map(self.elements()?)
    }

    fn deserialize_struct<V: Visitor<'b>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.members(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'b>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_enum(self.within()?)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
