//! The types by which keys are found: their own type, and types that they borrow as.

use std::borrow::Cow;

use pgas_am::Wire;
use pgas_am::codec::Encoder;
use pgas_core::Result;

use super::codec;
use super::encoded::EncodedKey;
use super::repr::{KeyOf, Object, Repr};

/// A type of keys that can be looked up by a `Q`, as `K: Borrow<Q>` in the maps of std: each type
/// by itself, a `String` by a `&str`, a `Vec<T>` by a `&[T]` or an array, and a pair with one of
/// them by a pair with a `&str` or a `&[T]` in its place.
///
/// Owned and borrowed forms are one key: they have the same bytes, and so the same hash. A lookup
/// by a text or a list whose encoding has up to 60 bytes allocates nothing.
///
/// # Examples
///
/// ```
/// use pgas_containers::HashMap;
///
/// # let world = pgas_core::backend::loopback::world();
/// let counts = HashMap::<String, u64>::with_capacity(&world, 100)?;
/// for word in "the cat and the dog".split(' ') {
///     counts.fetch_add(word, 1)?;
/// }
/// assert_eq!(counts.find("the")?, Some(2));
/// assert_eq!(counts.find_many(&["cat", "cow"])?, [Some(1), None]);
///
/// let tiles = HashMap::<Vec<u16>, u64>::with_capacity(&world, 100)?;
/// tiles.insert(&[3, 4], 34)?;
/// assert_eq!(tiles.find(&vec![3, 4])?, Some(34));
/// assert_eq!(tiles.find([1, 2, 3, 4].split_at(2).1)?, Some(34));
///
/// let lines = HashMap::<(String, u32), u64>::with_capacity(&world, 100)?;
/// lines.insert(&("cat", 12), 1)?;
/// assert_eq!(lines.find(&("cat", 12))?, Some(1));
/// # Ok::<(), pgas_containers::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "keys of type `{Self}` are not found by a `{Q}`",
    label = "give a `&{Self}`",
    note = "a `String` is also found by a `&str`, and a `Vec<T>` by a `&[T]`, alone or in a pair"
)]
pub trait FoundBy<Q: ?Sized>: Object {
    /// The form of the key `by` that a search compares: the same as [`Repr::key`] of the owned key.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Errors
    ///
    /// [`Error::Codec`](crate::Error::Codec) if it cannot be encoded.
    ///
    /// # Examples
    ///
    /// None: containers call it.
    fn key_by(by: &Q) -> Result<KeyOf<Self>>;
}

impl<K: Object> FoundBy<K> for K {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a name for a call")]
    fn key_by(by: &K) -> Result<KeyOf<K>> {
        K::Repr::key(by)
    }
}

/// The form of a text that a search compares.
fn text<const INLINE: usize>(by: &str) -> Result<EncodedKey<INLINE>> {
    let mut out = Encoder::new();
    out.put_str(by);
    EncodedKey::of(&out)
}

/// The form of a list that a search compares.
fn list<T: Wire, const INLINE: usize>(by: &[T]) -> Result<EncodedKey<INLINE>> {
    EncodedKey::of(&codec::encode_with::<[T]>(|out| out.put_slice(by))?)
}

/// Implements [`FoundBy`] for keys that have the bytes of a `String` or `Vec`.
macro_rules! found_by {
    ($([$($generic:tt)*] $key:ty, by $by:ty: $key_of:ident;)*) => { $(
        impl<$($generic)*> FoundBy<$by> for $key {
            fn key_by(by: &$by) -> Result<KeyOf<$key>> {
                $key_of(by)
            }
        }
    )* };
}

found_by! {
    [] String, by str: text;
    [] String, by &str: text;
    [] Box<str>, by str: text;
    [] Box<str>, by &str: text;
    [] Cow<'static, str>, by str: text;
    [] Cow<'static, str>, by &str: text;
    [T: Wire + Send + Sync] Vec<T>, by [T]: list;
    [T: Wire + Send + Sync] Vec<T>, by &[T]: list;
    [T: Wire + Send + Sync, const N: usize] Vec<T>, by [T; N]: list;
    [T: Wire + Send + Sync] Box<[T]>, by [T]: list;
    [T: Wire + Send + Sync] Box<[T]>, by &[T]: list;
    [T: Wire + Send + Sync, const N: usize] Box<[T]>, by [T; N]: list;
}

/// Implements [`FoundBy`] for pairs with a text or a list.
macro_rules! pairs_found_by {
    ($([$($generic:tt)*] ($A:ty, $B:ty), by ($a:ty, $b:ty);)*) => { $(
        impl<$($generic)*> FoundBy<($a, $b)> for ($A, $B) {
            fn key_by((a, b): &($a, $b)) -> Result<KeyOf<Self>> {
                Ok((<$A as FoundBy<$a>>::key_by(a)?, <$B as FoundBy<$b>>::key_by(b)?))
            }
        }
    )* };
}

pairs_found_by! {
    [B: Object] (String, B), by (&str, B);
    [A: Object] (A, String), by (A, &str);
    [] (String, String), by (&str, &str);
    [T: Wire + Send + Sync, B: Object] (Vec<T>, B), by (&[T], B);
    [A: Object, T: Wire + Send + Sync] (A, Vec<T>), by (A, &[T]);
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;
    use crate::hash_map::RapidHasher;

    /// The bytes of a key in a slot or longer than one, its hash, and whether it is the same key.
    fn assert_same<K: FoundBy<Q>, Q: ?Sized>(owned: &K, by: &Q)
    where
        KeyOf<K>: Debug,
    {
        let (key, found) = (K::Repr::key(owned).unwrap(), K::key_by(by).unwrap());
        assert_eq!(format!("{key:?}"), format!("{found:?}"));
        assert!(K::Repr::is_same_key(&key, &found));
        let hash = |key| K::Repr::hash_key(key, &RapidHasher);
        assert_eq!(hash(&key), hash(&found));
    }

    proptest! {
        #[test]
        fn owned_and_borrowed_keys_have_the_same_bytes_and_hash(
            text in "(?s).{0,90}",
            words in prop::collection::vec(any::<u32>(), 0..30),
            texts in prop::collection::vec(".{0,9}", 0..9),
            three: [u16; 3],
        ) {
            assert_same(&text, text.as_str());
            assert_same(&text, &text.as_str());
            assert_same(&text, &text);
            assert_same::<Box<str>, str>(&text.clone().into(), &text);
            assert_same::<Cow<'static, str>, str>(&text.clone().into(), &text);
            assert_same(&words, words.as_slice());
            assert_same(&words, &words.as_slice());
            assert_same::<Box<[u32]>, [u32]>(&words.clone().into(), &words);
            assert_same(&texts, texts.as_slice());
            assert_same(&three.to_vec(), &three);
            assert_same(&three.to_vec(), &three[..]);
            let (lent, other) = (text.as_str(), texts.concat());
            assert_same(&(text.clone(), three), &(lent, three));
            assert_same(&(three, text.clone()), &(three, lent));
            assert_same(&(text.clone(), other.clone()), &(lent, other.as_str()));
            assert_same(&(words.clone(), 7_u8), &(words.as_slice(), 7_u8));
            assert_same(&(other.clone(), words.clone()), &(other.clone(), words.as_slice()));
        }
    }

    #[test]
    fn keys_of_any_length_are_found_by_what_they_lend() {
        for n in [0, 1, 58, 59, 60, 61, 95, 96, 97, 250, 251, 70_000] {
            let text = "x".repeat(n);
            assert_same(&text, text.as_str());
            assert_same(&text.clone().into_bytes(), text.as_bytes());
        }
    }
}
