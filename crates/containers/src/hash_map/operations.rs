//! The operations on one key, apart from [`Add`].

use std::marker::PhantomData;
use std::slice;

use pgas_core::atomics::AtomicNumber;
use pgas_core::stats::Operation;
use pgas_lockfree::slots::{ReadValue, value};
use zerocopy::IntoBytes as _;

use super::Combine;
use super::found::FoundSlot;
use super::hash::Hash;
use super::op::{Add, OnKey};
use super::outcome::{Effect, Taken};
use super::phase::Phase;
use super::slot::Access;
use super::slot::layout::Pair;
use super::view::View;
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Plain, SlotOf};
use crate::{Result, prices};

/// Defines an operation whose functions are inlined into their callers. `$held` is what it does in
/// a slot that holds the key, `$new` the value to insert for an absent key.
/// `$unpack` takes the long values of the arguments out of a message.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $op:ident $(<$of:ident: $bound:path>)? of [$($value:tt)+], $effect:ident
        $(, $constant:ident: $type:ty = $is:expr)*
        $(; rows $rows:expr)?;
        |$at:ident, $given:ident: $Given:ty| -> $Outcome:ty $held:block $(, new $new:expr)?
        $(, unpacked by $unpack:path)?
    ) => {
        $(#[$doc])*
        pub(super) struct $op$(<$of>)?(PhantomData<((), $($of)?)>);

        impl<K: Object, V: $($value)+, $($of: $bound)?> OnKey<K, V> for $op$(<$of>)? {
            type Given = $Given;
            type Outcome = $Outcome;
            const EFFECT: Effect = Effect::$effect;
            $(const $constant: $type = $is;)*

            $(
                fn rows() -> Option<[&'static Operation; 2]> {
                    Some($rows)
                }
            )?

            #[cfg_attr(not(debug_assertions), inline(always))]
            fn held<'a, S: KeyHasher, R: Access<'a>>(
                $at: FoundSlot<'_, 'a, K, V, S, R>,
                $given: &mut $Given,
            ) -> Result<Option<$Outcome>> $held

            $(
                #[inline]
                fn value($given: &$Given) -> SlotOf<V> {
                    $new
                }
            )?

            $(
                #[inline]
                fn unpack(given: $Given, parcel: &Heap, heap: &Heap) -> Result<$Given> {
                    $unpack(given, parcel, heap)
                }
            )?
        }
    };
}

operation! {
    /// As [`HashMap::find`](super::HashMap::find), in a phase.
    Find<P: Phase> of [Object], Read, IS_READ_ONLY: bool = P::IS_READ_ONLY;
    rows if P::IS_READ_ONLY {
        [&prices::HASH_MAP_FIND_ONLY, &prices::HASH_MAP_FIND_ONLY_MANY]
    } else {
        [&prices::HASH_MAP_FIND, &prices::HASH_MAP_FIND_MANY]
    };
    |at, _none: ()| -> Option<V> { at.value().map(|value| value.map(Some)) }
}

operation! {
    /// As [`HashMap::contains`](super::HashMap::contains), in a phase.
    Contains<P: Phase> of [Object], Read, IS_READ_ONLY: bool = P::IS_READ_ONLY,
    READ_VALUE: ReadValue = ReadValue::No;
    rows if P::IS_READ_ONLY {
        [&prices::HASH_MAP_CONTAINS_ONLY, &prices::HASH_MAP_FIND_ONLY_MANY]
    } else {
        [&prices::HASH_MAP_CONTAINS, &prices::HASH_MAP_FIND_MANY]
    };
    |_at, _none: ()| -> bool { Ok(Some(true)) }
}

operation! {
    /// As [`HashMap::insert`](super::HashMap::insert). The former value is read only if it may own
    /// memory on the heap, which has to be released.
    Insert of [Object], Claim, IS_ORDERED: bool = true, CALLS_PROGRAM: bool = false,
    READ_VALUE: ReadValue = if object::has_heap::<V>() { ReadValue::Yes } else { ReadValue::No };
    rows [&prices::HASH_MAP_INSERT, &prices::HASH_MAP_INSERT_MANY];
    |at, value: SlotOf<V>| -> bool {
        value::store(&at.slot, at.view.heap(), at.held, *value).map(Some)
    }, new *value, unpacked by object::unpack::<V>
}

operation! {
    /// Returns the present value, or inserts the given one.
    GetOrInsert of [Object], Claim;
    rows [&prices::HASH_MAP_GET_OR_INSERT, &prices::HASH_MAP_INSERT_MANY];
    |at, value: SlotOf<V>| -> Option<V> {
        let there = at.value()?;
        if there.is_some() {
            object::release::<V>(value, at.view.heap())?;
        }
        Ok(there.map(Some))
    }, new *value, unpacked by object::unpack::<V>
}

operation! {
    /// As [`HashMap::remove`](super::HashMap::remove).
    Remove of [Object], Remove, CALLS_PROGRAM: bool = false;
    rows [&prices::HASH_MAP_REMOVE, &prices::HASH_MAP_REMOVE_MANY];
    |at, _none: ()| -> bool {
        let was_there = value::remove(&at.slot, at.view.heap(), at.held)?;
        Ok(was_there.then_some(true))
    }
}

operation! {
    /// As [`Add`], but returns only whether the key was present.
    Count of [AtomicNumber + Object<Repr = Plain>], Claim, CALLS_PROGRAM: bool = false,
    READ_VALUE: ReadValue = Add::read_value::<K, V>();
    rows [&prices::HASH_MAP_FETCH_ADD, &prices::HASH_MAP_ADD_MANY];
    |at, n: V| -> bool {
        let former = <Add as OnKey<K, V>>::held(at, n)?;
        Ok(former.map(|_| true))
    }, new *n
}

operation! {
    /// Compare-and-swap: replaces the first value by the second one. Returns the value that was
    /// present.
    Replace of [Object], Change;
    |at, values: Pair<SlotOf<V>, SlotOf<V>>| -> Option<V> {
        let (expected, new) = values.parts();
        let replace = |there| {
            let slot = object::to_slot::<V>(&there, at.view.heap())?;
            Ok(if slot.as_bytes() == expected.as_bytes() { new } else { slot })
        };
        Ok(at.update(replace)?.map(Some))
    }
}

operation! {
    /// As [`HashMap::update`](super::HashMap::update); the function returns the encoded value.
    Update<F: FnMut(V) -> Result<SlotOf<V>>> of [Object], Change;
    rows [&prices::HASH_MAP_UPDATE, &prices::HASH_MAP_UPSERT_MANY];
    |at, f: F| -> Option<V> { Ok(at.update(f)?.map(Some)) }
}

operation! {
    /// As [`Update`], or inserts the value, which owns no memory on the heap.
    Join<F: FnMut(Option<V>) -> Result<SlotOf<V>>> of [Object], Claim;
    |at, given: (SlotOf<V>, F)| -> bool {
        Ok(at.update(|there| given.1(Some(there)))?.map(|_| true))
    }, new given.0
}

operation! {
    /// As [`HashMap::take`](super::HashMap::take).
    Take of [Object], Remove, IS_ORDERED: bool = true;
    rows [&prices::HASH_MAP_TAKE, &prices::HASH_MAP_REMOVE_MANY];
    |at, _none: ()| -> Option<Taken<V>> {
        Ok(at.take()?.map(Some))
    }
}

operation! {
    /// As [`HashMap::upsert_many`](super::HashMap::upsert_many) with one entry. If it runs again and
    /// again, the value has no code of its own, and owns no memory on the heap.
    Upsert<C: Combine<V>> of [Object], Claim, IS_ORDERED: bool = true;
    rows [&prices::HASH_MAP_UPDATE, &prices::HASH_MAP_UPSERT_MANY];
    |at, value: SlotOf<V>| -> bool {
        let heap = at.view.heap();
        let mut unused = object::Unused::<V>::new(slice::from_ref(value), heap);
        let given = object::from_slot::<V>(*value, heap);
        let combine = |given: V| {
            at.update(|there| object::to_slot(&C::combine(there, &given), heap))
        };
        let former = given.and_then(combine);
        if !matches!(former, Ok(Some(_))) {
            unused.keep();
        }
        Ok(former?.map(|_| true))
    }, new *value, unpacked by object::unpack::<V>
}

/// As [`Join`]. One function makes the encoded value from the present one, if there is one.
pub(super) struct Fold<F>(PhantomData<F>);

impl<K: Object, V: Object, F: FnMut(Option<V>) -> Result<SlotOf<V>>> OnKey<K, V> for Fold<F> {
    type Given = F;
    type Outcome = bool;
    const EFFECT: Effect = Effect::Claim;
    const MAY_RUN_AGAIN: bool = false;

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn held<'a, S: KeyHasher, R: Access<'a>>(
        at: FoundSlot<'_, 'a, K, V, S, R>,
        f: &mut F,
    ) -> Result<Option<bool>> {
        Ok(at.update(|there| f(Some(there)))?.map(|_| true))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn perform<'a, S: KeyHasher, R: Access<'a>>(
        view: &View<'a, K, V, S, R>,
        hash: Hash,
        key: &KeyOf<K>,
        f: F,
    ) -> Result<bool> {
        view.fold(hash, key, f)
    }
}
