//! The types of the language and of std that are objects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use pgas_core::{GlobalPtr, Pod};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Encoded, Object, Plain};

macro_rules! plain {
    ($($ty:ty),*) => {
        $(impl Object for $ty {
            type Repr = Plain;

            fn saved_as() -> Cow<'static, str> {
                stringify!($ty).into()
            }
        })*
    };
}

plain! { u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, () }

impl<T: Object<Repr = Plain> + Pod, const N: usize> Object for [T; N] {
    type Repr = Plain;

    fn saved_as() -> Cow<'static, str> {
        format!("[{}; {N}]", T::saved_as()).into()
    }
}

impl<T: 'static> Object for GlobalPtr<T> {
    type Repr = Plain;

    fn saved_as() -> Cow<'static, str> {
        "global pointer".into()
    }
}

/// What serde can write and read back, whatever it borrowed from.
trait Coded: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Coded for T {}

macro_rules! encoded {
    ($inline:literal: $([$($generic:tt)*] $ty:ty),* $(,)?) => {
        $(
            impl<$($generic)*> Object for $ty {
                type Repr = Encoded<$inline>;
            }
        )*
    };
}

impl Object for bool {
    type Repr = Encoded<8>;
}

impl Object for char {
    type Repr = Encoded<8>;
}

impl Object for String {
    type Repr = Encoded<60>;
}

encoded! {
    60:
    [T: Coded] Vec<T>,
    [T: Coded] Option<T>,
    [T: Coded] Box<T>,
    [T: Coded] VecDeque<T>,
    [T: Coded, E: Coded] Result<T, E>,
    [T: Coded + Ord] BTreeSet<T>,
    [K: Coded + Ord, V: Coded] BTreeMap<K, V>,
    [T: Coded + Eq + Hash, S: BuildHasher + Default + Send + Sync + 'static] HashSet<T, S>,
    [K: Coded + Eq + Hash, V: Coded, S: BuildHasher + Default + Send + Sync + 'static] HashMap<K, V, S>,
}
