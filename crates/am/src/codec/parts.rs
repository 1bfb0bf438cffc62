//! Compound types of the language and of std, encoded as their parts, one after the other.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::num::{Saturating, Wrapping};
use std::ops::Range;

use pgas_core::Result;

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::layout::Layout;
use super::refusal::unreadable;
use super::wire::{Codec, Each, Wire};

/// The codec of compound types: their parts, one after the other.
#[derive(Clone, Copy, Debug)]
pub enum Parts {}

/// Implements [`Wire`] for lists with contiguous elements: their number, then the elements.
macro_rules! slices {
    ($($ty:ty where $bound:ident)*) => { $(
        impl<T: Wire + $bound> Wire for $ty {
            type By = Parts;
        }

        impl<T: Wire + $bound> Codec<$ty> for Parts {
            type Array<const N: usize> = Each<Self>;

            #[inline]
            fn encode(values: &$ty, out: &mut Encoder) -> Result<()> {
                out.put_slice::<T>(values)
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<$ty> {
                let n = input.get_count::<$ty>()?;
                T::By::decode_all(n, input).map(Into::into)
            }

            fn layout(out: &mut Layout) {
                out.wrap::<T>("list of ", "");
            }
        }
    )* };
}

slices! {
    Vec<T> where Sized
    Box<[T]> where Sized
    Cow<'static, [T]> where Clone
}

/// Implements [`Wire`] for text: the number of its bytes, then the bytes.
macro_rules! texts {
    ($($ty:ty),*) => { $(
        impl Wire for $ty {
            type By = Parts;
        }

        impl Codec<$ty> for Parts {
            type Array<const N: usize> = Each<Self>;

            #[inline]
            fn encode(text: &$ty, out: &mut Encoder) -> Result<()> {
                out.put_str(text);
                Ok(())
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<$ty> {
                let n = input.get_count::<$ty>()?;
                let text = std::str::from_utf8(input.take::<$ty>(n)?);
                let text = text.map_err(|e| unreadable::<$ty>(e.to_string()))?;
                Ok(text.to_owned().into())
            }

            fn layout(out: &mut Layout) {
                out.say("text");
            }
        }
    )* };
}

texts!(String, Box<str>, Cow<'static, str>);

/// Implements [`Wire`] for the collections of std: the number of elements, then the elements.
macro_rules! collections {
    ($($ty:ty: $order:ident $what:literal of $item:ty, where [$($bounds:tt)*];)*) => { $(
        impl<$($bounds)*> Wire for $ty {
            type By = Parts;
        }

        impl<$($bounds)*> Codec<$ty> for Parts {
            type Array<const N: usize> = Each<Self>;

            fn encode(values: &$ty, out: &mut Encoder) -> Result<()> {
                out.put_count(values.len());
                out.within::<$ty, _>(|out| {
                    if matches!(Order::$order, Order::Any) && out.is_canonical() {
                        return put_sorted::<$item, _>(values.iter(), out);
                    }
                    let mut items = values.iter();
                    items.try_for_each(|item| out.element::<$item>(|out| item.put(out)))
                })
            }

            fn decode(input: &mut Decoder<'_>) -> Result<$ty> {
                let n = input.get_count::<$ty>()?;
                input.check_count::<$ty>(n)?;
                input.within::<$ty, _>(|input| {
                    let element = |_| input.element::<$item>(Decoder::get);
                    (0..n).map(element).collect()
                })
            }

            fn layout(out: &mut Layout) {
                out.wrap::<$item>(concat!($what, " of "), "");
            }
        }
    )* };
}

collections! {
    VecDeque<T>: Given "list" of T, where [T: Wire];
    LinkedList<T>: Given "list" of T, where [T: Wire];
    BinaryHeap<T>: Any "heap" of T, where [T: Wire + Ord];
    BTreeSet<T>: Given "set" of T, where [T: Wire + Ord];
    HashSet<T, S>: Any "set" of T, where [T: Wire + Eq + Hash, S: BuildHasher + Default + 'static];
    BTreeMap<K, V>: Given "map" of (K, V), where [K: Wire + Ord, V: Wire];
    HashMap<K, V, S>: Any "map" of (K, V), where [K: Wire + Eq + Hash, V: Wire, S: BuildHasher + Default + 'static];
}

/// The order of the elements of a collection.
enum Order {
    /// The same for equal collections.
    Given,
    Any,
}

/// Appends `items`, sorted by their bytes.
fn put_sorted<T, I>(items: I, out: &mut Encoder) -> Result<()>
where
    I: Iterator<Item: Element>,
{
    let (start, mut ends) = (out.bytes().len(), Vec::new());
    for item in items {
        out.element::<T>(|out| item.put(out))?;
        ends.push(out.bytes().len());
    }
    out.sort_parts(start, &ends);
    Ok(())
}

/// An item of an iterator over a collection of std: a reference to an element, or to a key and its
/// value.
trait Element {
    fn put(self, out: &mut Encoder) -> Result<()>;
}

impl<T: Wire> Element for &T {
    fn put(self, out: &mut Encoder) -> Result<()> {
        out.put(self)
    }
}

impl<K: Wire, V: Wire> Element for (&K, &V) {
    fn put(self, out: &mut Encoder) -> Result<()> {
        out.put(self.0)?;
        out.put(self.1)
    }
}

impl<T: Wire> Wire for Box<T> {
    type By = Parts;
}

impl<T: Wire> Codec<Box<T>> for Parts {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Box<T>, out: &mut Encoder) -> Result<()> {
        out.within::<Box<T>, _>(|out| out.put::<T>(value))
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Box<T>> {
        input.within::<Box<T>, _>(|input| input.get().map(Box::new))
    }

    fn layout(out: &mut Layout) {
        out.part::<T>();
    }
}

impl<T: Wire> Wire for Option<T> {
    type By = Parts;
}

impl<T: Wire> Codec<Option<T>> for Parts {
    type Array<const N: usize> = Each<Self>;

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

    fn layout(out: &mut Layout) {
        out.wrap::<T>("option of ", "");
    }
}

impl<T: Wire, E: Wire> Wire for std::result::Result<T, E> {
    type By = Parts;
}

impl<T: Wire, E: Wire> Codec<std::result::Result<T, E>> for Parts {
    type Array<const N: usize> = Each<Self>;

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

    fn layout(out: &mut Layout) {
        out.wrap::<T>("", " or error ");
        out.part::<E>();
    }
}

/// Implements [`Wire`] for structs of std: their members, one after the other.
macro_rules! structs {
    ($($ty:ident: $begin:literal { $($member:tt)|+ };)*) => { $(
        impl<T: Wire> Wire for $ty<T> {
            type By = Parts;
        }

        impl<T: Wire> Codec<$ty<T>> for Parts {
            type Array<const N: usize> = Each<Self>;

            #[inline]
            fn encode(value: &$ty<T>, out: &mut Encoder) -> Result<()> {
                $(out.put::<T>(&value.$member)?;)+
                Ok(())
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<$ty<T>> {
                Ok($ty { $($member: input.get::<T>()?,)+ })
            }

            fn layout(out: &mut Layout) {
                out.wrap::<T>($begin, "");
            }
        }
    )* };
}

structs! {
    Range: "range of " { start | end };
    Reverse: "reverse " { 0 };
    Saturating: "saturating " { 0 };
    Wrapping: "wrapping " { 0 };
}

impl<T: ?Sized + 'static> Wire for PhantomData<T> {
    type By = Parts;
}

impl<T: ?Sized + 'static> Codec<PhantomData<T>> for Parts {
    type Array<const N: usize> = Each<Self>;

    #[inline]
    fn encode(_: &PhantomData<T>, _: &mut Encoder) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn decode(_: &mut Decoder<'_>) -> Result<PhantomData<T>> {
        Ok(PhantomData)
    }

    fn layout(out: &mut Layout) {
        out.say("nothing");
    }
}

/// Implements [`Wire`] for tuples of such types.
macro_rules! tuples {
    ($(($($t:ident $i:tt),+))*) => { $(
        impl<$($t: Wire),+> Wire for ($($t,)+) {
            type By = Parts;
        }

        impl<$($t: Wire),+> Codec<($($t,)+)> for Parts {
            type Array<const N: usize> = Each<Self>;

            #[inline]
            fn encode(value: &($($t,)+), out: &mut Encoder) -> Result<()> {
                $(out.put(&value.$i)?;)+
                Ok(())
            }

            #[inline]
            fn decode(input: &mut Decoder<'_>) -> Result<($($t,)+)> {
                Ok(($(input.get::<$t>()?,)+))
            }

            fn layout(out: &mut Layout) {
                let mut next = "(";
                $(
                    out.wrap::<$t>(next, "");
                    next = ", ";
                )+
                let _ = next;
                out.say(")");
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
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
}
