//! The types of the language and of std that are objects.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ffi::CString;
use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{NonZero, Saturating, Wrapping};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pgas_am::Wire;
use pgas_core::{GlobalPtr, Pod, Rank};

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

impl<T: 'static> Object for GlobalPtr<T> {
    type Repr = Plain;

    fn saved_as() -> Cow<'static, str> {
        "global pointer".into()
    }
}

impl Object for Rank {
    type Repr = Plain;

    fn saved_as() -> Cow<'static, str> {
        "rank".into()
    }
}

impl<T: Object<Repr = Plain> + Pod> Object for Wrapping<T> {
    type Repr = Plain;

    fn saved_as() -> Cow<'static, str> {
        format!("wrapping {}", T::saved_as()).into()
    }
}

macro_rules! encoded {
    ($inline:literal: $([$($generic:tt)*] $ty:ty),* $(,)?) => {
        $(
            impl<$($generic)*> Object for $ty {
                type Repr = Encoded<$inline>;
            }
        )*
    };
}

encoded! {
    8:
    [] bool,
    [] char,
    [] NonZero<u8>,
    [] NonZero<u16>,
    [] NonZero<u32>,
    [] NonZero<i8>,
    [] NonZero<i16>,
    [] NonZero<i32>,
    [] Ipv4Addr,
}

encoded! { 12: [] NonZero<u64>, [] NonZero<i64>, [] NonZero<usize>, [] NonZero<isize>, [] SocketAddrV4 }

encoded! { 20: [] NonZero<u128>, [] NonZero<i128>, [] Ipv6Addr, [] IpAddr }

encoded! { 28: [] SocketAddrV6, [] SocketAddr }

encoded! {
    60:
    [] String,
    [] Box<str>,
    [] Cow<'static, str>,
    [] Duration,
    [] SystemTime,
    [] PathBuf,
    [] CString,
    [T: Part] Range<T>,
    [T: Part] Reverse<T>,
    [T: Part] Saturating<T>,
    [T: Part] Vec<T>,
    [T: Part] Box<[T]>,
    [T: Part + Clone] Cow<'static, [T]>,
    [T: Part] Option<T>,
    [T: Part] Box<T>,
    [T: Part] VecDeque<T>,
    [T: Part] LinkedList<T>,
    [T: Part, E: Part] Result<T, E>,
    [T: Part + Ord] BinaryHeap<T>,
    [T: Part + Ord] BTreeSet<T>,
    [K: Part + Ord, V: Part] BTreeMap<K, V>,
    [T: Part + Eq + Hash, S: BuildHasher + Default + Send + Sync + 'static] HashSet<T, S>,
    [K: Part + Eq + Hash, V: Part, S: BuildHasher + Default + Send + Sync + 'static] HashMap<K, V, S>,
}

/// A part of a value in global memory.
trait Part: Wire + Send + Sync {}

impl<T: Wire + Send + Sync> Part for T {}
