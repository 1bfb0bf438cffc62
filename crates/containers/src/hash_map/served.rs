//! What a rank does for others to the slots that it has, where they reach these by messages only, and
//! to those of the other ranks of its host, which it reaches by its own instructions.
//!
//! A search stays in the part of the ring that one rank has, and never waits in a handler. What
//! comes to the end of the part, or meets a slot that another rank writes, is left to the rank that
//! asked: it goes the one-sided way, from the beginning.

use std::marker::PhantomData;
use std::sync::Arc;

use pgas_am::codec::{AsBytes, Wire};
use pgas_core::atomics::AtomicInteger;
use pgas_core::{Pod, Rank};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Combine;
use super::batch::local::each_ahead;
use super::hash::Hash;
use super::part::Parts;
use super::slot::Access;
use super::slot::layout::Pair;
use super::view::{Inserted, View};
use crate::Result;
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::requests::Operation;

/// Evaluates `$body` with the part of the ring that rank `$rank` has in `$view`, which this process
/// reaches by its own instructions, or else by operations on global pointers.
macro_rules! over_part {
    ($parts:expr, $rank:expr, |$view:ident| $body:expr) => {
        if let Some($view) = $parts.near($rank) {
            $body
        } else {
            let $view = $parts.part($rank);
            $body
        }
    };
}

/// An operation on a key.
pub(super) trait OnKey<K: Object, V: Object, S: KeyHasher>: 'static {
    /// What travels beside the key.
    type Given: Pod;
    type Answer: Pod + Wire;
    const IS_ORDERED: bool = false;

    fn perform<'a, R: Access<'a>>(
        view: &View<'a, K, V, S, R>,
        hash: Hash,
        key: &KeyOf<K>,
        given: Self::Given,
    ) -> Result<Self::Answer>;
}

/// Whether a key was there, and with which value.
#[derive(Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
pub(super) struct There<V> {
    is_there: u8,
    value: V,
}

impl<V: Copy> Clone for There<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Copy> Copy for There<V> {}

impl<V: Pod> Wire for There<V> {
    type By = AsBytes;
}

impl<V: Pod> There<V> {
    #[inline]
    fn new(value: Option<V>) -> Self {
        Self {
            is_there: value.is_some().into(),
            value: value.unwrap_or_else(V::new_zeroed),
        }
    }

    #[inline]
    pub(super) fn value(self) -> Option<V> {
        (self.is_there != 0).then_some(self.value)
    }
}

/// As [`There::new`], with what a slot holds of the value.
fn there<V: Object>(value: Option<V>, heap: &Heap) -> Result<There<SlotOf<V>>> {
    let slot = value.map(|value| object::to_slot(&value, heap));
    Ok(There::new(slot.transpose()?))
}

/// An operation on a key of a map whose values are as `$value` says: what it is given beside the
/// key, its answer, and what it does to the slots that a view reaches.
macro_rules! on_key {
    (
        $(#[$doc:meta])*
        $op:ident of [$($value:tt)+] $(, $constant:ident = $is:literal)?:
        |$view:ident, $hash:ident, $key:ident, $given:ident: $Given:ty| -> $Answer:ty $perform:block
    ) => {
        $(#[$doc])*
        pub(super) enum $op {}

        impl<K: Object, V: $($value)+, S: KeyHasher> OnKey<K, V, S> for $op {
            type Given = $Given;
            type Answer = $Answer;
            $(const $constant: bool = $is;)?

            fn perform<'a, R: Access<'a>>(
                $view: &View<'a, K, V, S, R>,
                $hash: Hash,
                $key: &KeyOf<K>,
                $given: $Given,
            ) -> Result<$Answer> $perform
        }
    };
}

on_key! {
    /// As [`HashMap::insert`](super::HashMap::insert): whether the key was there.
    Insert of [Object], IS_ORDERED = true: |view, hash, key, value: SlotOf<V>| -> u8 {
        let inserted = view.insert(hash, key, value)?;
        Ok((inserted == Inserted::Replaced).into())
    }
}

on_key! {
    /// As [`HashMap::find`](super::HashMap::find).
    Find of [Object]: |view, hash, key, _none: ()| -> There<SlotOf<V>> {
        there(view.find(hash, key, false)?, view.heap())
    }
}

on_key! {
    /// As [`Find`], while nobody changes anything.
    Seek of [Object]: |view, hash, key, _none: ()| -> There<SlotOf<V>> {
        there(view.find(hash, key, true)?, view.heap())
    }
}

on_key! {
    /// As [`HashMap::contains`](super::HashMap::contains).
    Contains of [Object]: |view, hash, key, _none: ()| -> u8 {
        view.contains(hash, key, false).map(u8::from)
    }
}

on_key! {
    /// As [`HashMap::remove`](super::HashMap::remove).
    Remove of [Object]: |view, hash, key, _none: ()| -> u8 {
        view.remove(hash, key).map(u8::from)
    }
}

on_key! {
    /// The value that is there, if it was there before; else the one that is given is.
    GetOrInsert of [Object]: |view, hash, key, value: SlotOf<V>| -> There<SlotOf<V>> {
        there(view.get_or_insert(hash, key, value)?, view.heap())
    }
}

on_key! {
    /// Puts the second value in the place of the first one, if that is there, and tells what was there.
    Replace of [Object]: |view, hash, key, values: Pair<SlotOf<V>, SlotOf<V>>| -> There<SlotOf<V>> {
        let (expected, new) = values.parts();
        let mut former = None;
        let replaced = view.update(hash, key, |there| {
            let slot = object::to_slot(&there, view.heap())?;
            former = Some(slot);
            if slot.as_bytes() == expected.as_bytes() {
                object::from_slot::<V>(new, view.heap())
            } else {
                Ok(there)
            }
        })?;
        Ok(There::new(replaced.and(former)))
    }
}

on_key! {
    /// As [`HashMap::fetch_add`](super::HashMap::fetch_add).
    Add of [AtomicInteger + Object<Repr = Plain>]: |view, hash, key, n: V| -> There<V> {
        view.add(hash, key, n).map(There::new)
    }
}

on_key! {
    /// As [`Add`], told only whether the key was there.
    Count of [AtomicInteger + Object<Repr = Plain>]: |view, hash, key, n: V| -> u8 {
        Ok(view.add(hash, key, n)?.is_some().into())
    }
}

/// As [`HashMap::upsert_many`](super::HashMap::upsert_many) with one entry: whether the key was there.
pub(super) struct Upsert<C>(PhantomData<C>);

impl<K, V, S, C> OnKey<K, V, S> for Upsert<C>
where
    K: Object,
    V: Object,
    S: KeyHasher,
    C: Combine<V>,
{
    type Given = SlotOf<V>;
    type Answer = u8;
    const IS_ORDERED: bool = true;

    fn perform<'a, R: Access<'a>>(
        view: &View<'a, K, V, S, R>,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
    ) -> Result<u8> {
        let value = object::from_slot::<V>(value, view.heap())?;
        let inserted = view.combine::<C>(hash, key, &value)?;
        Ok((inserted == Inserted::Replaced).into())
    }
}

/// `O` as an operation on the parts of a map.
pub(super) struct OnParts<O, K, V, S>(PhantomData<(O, K, V, S)>);

/// A request for `O`.
pub(super) type Request<O, K, V, S> = Pair<SlotOf<K>, <O as OnKey<K, V, S>>::Given>;

impl<K: Object, V: Object, S: KeyHasher, O: OnKey<K, V, S>> Operation for OnParts<O, K, V, S> {
    type On = Arc<Parts<K, V, S>>;
    type Request = Request<O, K, V, S>;
    type Answer = O::Answer;

    const IS_ORDERED: bool = O::IS_ORDERED;

    #[inline]
    fn is_near(on: &Arc<Parts<K, V, S>>, rank: Rank) -> bool {
        on.is_here(rank)
    }

    fn serve(on: &Arc<Parts<K, V, S>>, rank: Rank, requests: &[Self::Request]) -> Vec<O::Answer> {
        over_part!(on, rank, |view| serve::<O, _, _, _, _>(&view, requests))
    }
}

fn serve<'a, O, K, V, S, R>(
    view: &View<'a, K, V, S, R>,
    requests: &[Request<O, K, V, S>],
) -> Vec<O::Answer>
where
    O: OnKey<K, V, S>,
    K: Object,
    V: Object,
    S: KeyHasher,
    R: Access<'a>,
{
    let key_of = |i: usize| -> Result<_> {
        let (key, given) = requests[i].parts();
        Ok((<K::Repr as Repr<K>>::key_in(key, view.heap())?, given))
    };
    let mut answers = Vec::with_capacity(requests.len());
    let mut end = |i, hash: Option<Hash>| -> Result<()> {
        let (key, given) = key_of(i)?;
        let hash = hash.unwrap_or_else(|| view.hash(&key));
        answers.push(O::perform(view, hash, &key, given)?);
        Ok(())
    };
    // Whatever keeps an operation from being carried out here, the rank that asked finds it, too.
    let _ended_early = if requests.len() == 1 {
        end(0, None)
    } else {
        let begin = |i| {
            let (key, _) = key_of(i).ok()?;
            let hash = view.hash(&key);
            R::prefetch(view.all, hash);
            Some(hash)
        };
        each_ahead(requests.len(), begin, end)
    };
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pgas_core::Rank;

    use super::*;
    use crate::hash_map::{HashMap, RapidHasher};

    type Map = HashMap<u64, u64>;
    type Part = OnParts<Insert, u64, u64, RapidHasher>;

    /// The parts of a map whose slots are all local, as if they were not.
    fn parts(map: &Map) -> Arc<Parts<u64, u64, RapidHasher>> {
        Arc::new(Parts::new(&map.table.shape))
    }

    /// The keys whose home rank is `rank`, in requests to insert them.
    fn requests_for(map: &Map, rank: Rank, n: u64) -> Vec<Pair<u64, u64>> {
        let home = |key: &u64| {
            map.table
                .shape
                .ring
                .home(Hash::of::<u64>(key, &RapidHasher))
                .rank()
        };
        let keys = (0..n).filter(|key| home(key) == rank);
        keys.map(|key| Pair::new(key, !key)).collect()
    }

    #[test]
    fn what_is_done_to_the_part_of_a_near_rank_is_done_to_the_map() {
        let ends = pgas_smp::threads(3, |world| {
            // So much room that no search comes to the end of a part.
            let map = Map::with_capacity(&world, 30_000).unwrap();
            let parts = parts(&map);
            // Each rank to the part of its neighbour.
            let to = Rank::new((world.rank().number() + 1) % 3);
            assert!(Part::is_near(&parts, to));
            let requests = requests_for(&map, to, 1200);
            let answers = Part::serve(&parts, to, &requests);
            assert_eq!(answers, vec![0; requests.len()]);
            assert_eq!(Part::serve(&parts, to, &requests[..1]), [1]);
            world.barrier().unwrap();
            for key in 0..1200 {
                assert_eq!(map.find(&key).unwrap(), Some(!key));
            }
            let of_rank = |rank| {
                let keys = requests_for(&map, rank, 1200).into_iter();
                let keys = keys.map(|request| Pair::new(request.parts().0, ()));
                let keys: Vec<_> = keys.collect();
                let found = OnParts::<Find, _, u64, RapidHasher>::serve(&parts, rank, &keys);
                let values = found.iter().zip(&keys);
                assert!(
                    values
                        .clone()
                        .all(|(found, key)| found.value() == Some(!key.parts().0))
                );
                values.len()
            };
            let n: usize = world.ranks().map(of_rank).sum();
            world.barrier().unwrap();
            n
        });
        assert_eq!(ends.unwrap(), [1200; 3]);
    }

    #[test]
    fn a_part_without_room_leaves_the_rest_to_who_asked() {
        let ends = pgas_smp::threads(2, |world| {
            let map = Map::with_capacity(&world, 24).unwrap();
            let parts = parts(&map);
            let requests = requests_for(&map, world.rank(), 200);
            let n = Part::serve(&parts, world.rank(), &requests).len();
            // From its home slot on up to the last one, each key in an own one.
            assert!((1..=12).contains(&n), "{n} of {}", requests.len());
            world.barrier().unwrap();
            let done = requests[..n].iter().map(|request| request.parts());
            for (key, value) in done {
                assert_eq!(map.find(&key).unwrap(), Some(value));
            }
            let (key, _) = requests[n].parts();
            assert_eq!(map.find(&key).unwrap(), None);
            world.barrier().unwrap();
        });
        ends.unwrap();
    }
}
