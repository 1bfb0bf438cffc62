//! The description of a type in files, which does not depend on where the type is defined.

use std::any::TypeId;
use std::fmt;

use rapidhash::v3::rapidhash_v3;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Visitor};

/// The depth to which serde's types are described: the type of a list's elements, say.
const DEPTH: u32 = 4;

/// The maximum length of the text. Of a longer one the rest is told by a hash of the whole.
const MOST: usize = 1_000;

/// The maximum length of what is hashed. A type of types, each of which has several of the next,
/// has a description of any length.
const MOST_HASHED: usize = 1 << 20;

/// A description of a type's bytes: names and members, as far as its codec knows them.
#[derive(Debug)]
pub struct Layout {
    text: String,
    /// The types that are being described, of which each is a part of the one before.
    around: Vec<TypeId>,
    /// The number of further levels that are described of a type of serde's.
    left: u32,
}

impl Layout {
    pub(super) fn new() -> Self {
        Self {
            text: String::new(),
            around: Vec::new(),
            left: DEPTH,
        }
    }

    pub(super) fn into_text(mut self) -> String {
        if self.text.len() > MOST {
            let hash = rapidhash_v3(self.text.as_bytes());
            let mut boundaries = (0..=MOST).rev();
            let cut = boundaries.find(|at| self.text.is_char_boundary(*at));
            self.text.truncate(cut.unwrap_or(0));
            self.text += &format!("... ({hash:016x})");
        }
        self.text
    }

    /// Calls `tell` to describe a part of type `T`. Within a description of `T` appends `...` and
    /// how many descriptions further out that is.
    pub(super) fn within<T: 'static>(&mut self, tell: impl FnOnce(&mut Self)) {
        let part = TypeId::of::<T>();
        let mut outwards = self.around.iter().rev();
        if let Some(distance) = outwards.position(|around| *around == part) {
            self.say(&format!("...{distance}"));
            return;
        }
        if self.text.len() > MOST_HASHED {
            return;
        }
        self.around.push(part);
        tell(self);
        self.around.pop();
    }

    /// Appends that a `T` is nothing but bytes.
    pub(super) fn plain<T>(&mut self) {
        self.say(&format!("{} plain bytes", size_of::<T>()));
    }

    /// Appends `text`.
    pub fn say(&mut self, text: &str) {
        if self.text.len() <= MOST_HASHED {
            self.text.push_str(text);
        }
    }

    /// Whether one more level is described of a type of serde's.
    fn go_in(&mut self) -> bool {
        let is_told = self.left > 0;
        if is_told {
            self.left -= 1;
        } else {
            self.say("...");
        }
        is_told
    }

    /// Describes a type that only serde knows, as far as serde reveals it without a value: names
    /// and members of a struct, the variants of an enum, the elements of a list.
    pub(super) fn by_serde<T: DeserializeOwned>(&mut self) {
        let start = self.text.len();
        self.left = DEPTH;
        // This ends with an error, since there is no value.
        drop(T::deserialize(Tracer { out: self }));
        if self.text.len() == start {
            self.say("nothing");
        }
    }
}

/// A deserializer that records what it is asked for, and has no value to give.
struct Tracer<'t> {
    out: &'t mut Layout,
}

/// The error of a tracer: it has no value.
#[derive(Debug)]
struct Nothing;

impl fmt::Display for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value")
    }
}

impl std::error::Error for Nothing {}

impl de::Error for Nothing {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl Tracer<'_> {
    fn tell<V>(self, what: &str) -> Result<V, Nothing> {
        self.out.say(what);
        Err(Nothing)
    }

    /// Describes a nested value.
    fn within(self, what: &str) -> Result<Self, Nothing> {
        self.out.say(what);
        if self.out.go_in() {
            Ok(self)
        } else {
            Err(Nothing)
        }
    }
}

/// The first element.
struct First<'t>(Option<Tracer<'t>>);

impl First<'_> {
    fn next<'v, S: DeserializeSeed<'v>, V>(&mut self, seed: S) -> Result<V, Nothing> {
        if let Some(tracer) = self.0.take() {
            drop(seed.deserialize(tracer));
        }
        Err(Nothing)
    }
}

impl<'v> de::SeqAccess<'v> for First<'_> {
    type Error = Nothing;

    fn next_element_seed<S: DeserializeSeed<'v>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Nothing> {
        self.next(seed)
    }
}

impl<'v> de::MapAccess<'v> for First<'_> {
    type Error = Nothing;

    fn next_key_seed<S: DeserializeSeed<'v>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Nothing> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'v>>(&mut self, _: S) -> Result<S::Value, Nothing> {
        Err(Nothing)
    }
}

macro_rules! leaves {
    ($($method:ident: $name:literal;)*) => {
        $(
            fn $method<V: Visitor<'v>>(self, _: V) -> Result<V::Value, Nothing> {
                self.tell($name)
            }
        )*
    };
}

impl<'v> de::Deserializer<'v> for Tracer<'_> {
    type Error = Nothing;

    leaves! {
        deserialize_any: "anything";
        deserialize_bool: "bool";
        deserialize_i8: "i8";
        deserialize_i16: "i16";
        deserialize_i32: "i32";
        deserialize_i64: "i64";
        deserialize_i128: "i128";
        deserialize_u8: "u8";
        deserialize_u16: "u16";
        deserialize_u32: "u32";
        deserialize_u64: "u64";
        deserialize_u128: "u128";
        deserialize_f32: "f32";
        deserialize_f64: "f64";
        deserialize_char: "char";
        deserialize_str: "text";
        deserialize_string: "text";
        deserialize_bytes: "bytes";
        deserialize_byte_buf: "bytes";
        deserialize_unit: "()";
        deserialize_identifier: "identifier";
        deserialize_ignored_any: "anything";
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Nothing> {
        visitor.visit_some(self.within("option of ")?)
    }

    fn deserialize_unit_struct<V: Visitor<'v>>(
        self,
        name: &'static str,
        _: V,
    ) -> Result<V::Value, Nothing> {
        self.tell(name)
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Nothing> {
        visitor.visit_newtype_struct(self.within(&format!("{name} of "))?)
    }

    fn deserialize_seq<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Nothing> {
        visitor.visit_seq(First(Some(self.within("list of ")?)))
    }

    fn deserialize_tuple<V: Visitor<'v>>(self, n: usize, visitor: V) -> Result<V::Value, Nothing> {
        visitor.visit_seq(First(Some(self.within(&format!("{n} from "))?)))
    }

    fn deserialize_tuple_struct<V: Visitor<'v>>(
        self,
        name: &'static str,
        n: usize,
        visitor: V,
    ) -> Result<V::Value, Nothing> {
        visitor.visit_seq(First(Some(self.within(&format!("{name} of {n} from "))?)))
    }

    fn deserialize_map<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Nothing> {
        visitor.visit_map(First(Some(self.within("map from ")?)))
    }

    fn deserialize_struct<V: Visitor<'v>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Nothing> {
        self.tell(&format!("{name} {{{}}}", fields.join(", ")))
    }

    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Nothing> {
        self.tell(&format!("{name} [{}]", variants.join(", ")))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
