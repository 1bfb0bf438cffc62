//! Operations on one key.
//!
//! Every operation finds the slot that holds the key, or the free slot for it, by the fast path or
//! by the fallback. Each operation says what it does with that slot.

use std::marker::PhantomData;
use std::panic::Location;

use pgas_core::Pod;
use pgas_core::atomics::AtomicInteger;
use pgas_core::backend::AtomicOp;
use pgas_core::stats::Operation;
use pgas_lockfree::slots::probe::{self, LineProbeResult};
use pgas_lockfree::slots::{Held, Intent, ReadValue, value};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::Combine;
use super::hash::Hash;
use super::outcome::Outcome;
use super::phase::Phase;
use super::slot::layout::Pair;
use super::slot::{Access, GlobalSlot};
use super::table::Table;
use super::view::{LineOf, View, note_line, out_of_line};
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{Result, prices};

/// The effect of an operation on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Reads only.
    Read,
    /// Changes the value of a present key.
    Change,
    /// Leaves the key present.
    Claim,
    /// Leaves the key absent.
    Remove,
}

impl Effect {
    /// The name of such an operation, for reports of its waits.
    pub(super) const fn whole(self) -> &'static str {
        match self {
            Self::Read => "a search in a hash map",
            Self::Change => "a change in a hash map",
            Self::Claim => "an insert into a hash map",
            Self::Remove => "a removal from a hash map",
        }
    }
}

/// An operation on a key, as a type.
pub(super) trait OnKey<K: Object, V: Object>: Sized {
    /// The arguments beside the key.
    type Given;

    /// The result: whether the key was present, and maybe its value.
    type Outcome: Outcome<V>;

    const EFFECT: Effect;

    /// Whether the value has to be read together with the key.
    const READ_VALUE: ReadValue = ReadValue::Yes;

    /// Whether no rank writes to the map in this phase.
    const IS_READ_ONLY: bool = false;

    /// Whether the order of two such operations on one key matters.
    const IS_ORDERED: bool = false;

    /// The atomic that performs the operation on a present value that is one word. Its operand is
    /// [`value`](Self::value).
    const WORD: Option<AtomicOp> = None;

    /// The operation on one key and on many in the statistics, if it is there.
    fn rows() -> Option<[&'static Operation; 2]> {
        None
    }

    /// Performs the operation in the slot that holds the key. Returns `None` if the key was removed
    /// meanwhile. On the fast path it also returns `None` to leave the work to the fallback.
    fn held<'a, S: KeyHasher, R: Access<'a>>(
        at: FoundSlot<'_, 'a, K, V, S, R>,
        given: &mut Self::Given,
    ) -> Result<Option<Self::Outcome>>;

    /// The value to insert for an absent key.
    #[inline]
    fn value(_: &Self::Given) -> SlotOf<V> {
        SlotOf::<V>::new_zeroed()
    }

    /// Performs the operation in `view`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn perform<'a, S: KeyHasher, R: Access<'a>>(
        view: &View<'a, K, V, S, R>,
        hash: Hash,
        key: &KeyOf<K>,
        given: Self::Given,
    ) -> Result<Self::Outcome> {
        view.perform::<Self>(hash, key, given)
    }

    /// Whether the operation has inserted or removed a key.
    #[inline]
    fn is_change(done: &Self::Outcome) -> bool {
        match Self::EFFECT {
            Effect::Read | Effect::Change => false,
            Effect::Claim => !done.was_there(),
            Effect::Remove => done.was_there(),
        }
    }
}

/// Defines an operation whose functions are inlined into their callers. `$held` is what it does in
/// a slot that holds the key, `$new` the value to insert for an absent key.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $op:ident $(<$of:ident: $bound:path>)? of [$($value:tt)+], $effect:ident
        $(, $constant:ident: $type:ty = $is:expr)*
        $(; rows $rows:expr)?;
        |$at:ident, $given:ident: $Given:ty| -> $Outcome:ty $held:block $(, new $new:expr)?
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
        }
    };
}

operation! {
    /// As [`HashMap::find`](super::HashMap::find), in a phase.
    Find<P: Phase> of [Object], Read, IS_READ_ONLY: bool = P::IS_READ_ONLY,
    WORD: Option<AtomicOp> = Some(AtomicOp::Load);
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
    Insert of [Object], Claim, IS_ORDERED: bool = true,
    READ_VALUE: ReadValue = if object::has_heap::<V>() { ReadValue::Yes } else { ReadValue::No },
    WORD: Option<AtomicOp> = Some(AtomicOp::Swap);
    rows [&prices::HASH_MAP_INSERT, &prices::HASH_MAP_INSERT_MANY];
    |at, value: SlotOf<V>| -> bool {
        value::store(&at.slot, at.view.heap(), at.held, *value).map(Some)
    }, new *value
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
    }, new *value
}

operation! {
    /// As [`HashMap::remove`](super::HashMap::remove).
    Remove of [Object], Remove;
    rows [&prices::HASH_MAP_REMOVE, &prices::HASH_MAP_REMOVE_MANY];
    |at, _none: ()| -> bool {
        let was_there = value::remove(&at.slot, at.view.heap(), at.held)?;
        Ok(was_there.then_some(true))
    }
}

/// As [`HashMap::fetch_add`](super::HashMap::fetch_add): the former value, if there was one.
pub(super) enum Add {}

impl<K: Object, V: AtomicInteger + Object<Repr = Plain>> OnKey<K, V> for Add {
    type Given = V;
    type Outcome = Option<V>;
    const EFFECT: Effect = Effect::Claim;
    const READ_VALUE: ReadValue = ReadValue::No;
    /// What each addition of a batch has found is as if they were made one after another.
    const IS_ORDERED: bool = true;
    const WORD: Option<AtomicOp> = Some(AtomicOp::Add);

    fn rows() -> Option<[&'static Operation; 2]> {
        Some([&prices::HASH_MAP_FETCH_ADD, &prices::HASH_MAP_ADD_MANY])
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn held<'a, S: KeyHasher, R: Access<'a>>(
        at: FoundSlot<'_, 'a, K, V, S, R>,
        n: &mut V,
    ) -> Result<Option<Option<V>>> {
        if value::has_word(&at.slot, at.held)? {
            return Ok(Some(Some(at.slot.fetch_op(AtomicOp::Add, *n)?)));
        }
        Ok(None)
    }

    fn value(n: &V) -> SlotOf<V> {
        *n
    }
}

operation! {
    /// As [`Add`], but returns only whether the key was present.
    Count of [AtomicInteger + Object<Repr = Plain>], Claim, READ_VALUE: ReadValue = ReadValue::No,
    WORD: Option<AtomicOp> = Some(AtomicOp::Add);
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
    |at, _none: ()| -> Option<V> {
        let decode = <V::Repr as Repr<V>>::decode;
        let taken = value::take(&at.slot, at.view.heap(), at.held, decode)?;
        Ok(taken.map(Some))
    }
}

operation! {
    /// As [`HashMap::upsert_many`](super::HashMap::upsert_many) with one entry.
    Upsert<C: Combine<V>> of [Object], Claim, IS_ORDERED: bool = true;
    rows [&prices::HASH_MAP_UPDATE, &prices::HASH_MAP_UPSERT_MANY];
    |at, value: SlotOf<V>| -> bool {
        let heap = at.view.heap();
        let given = object::from_slot::<V>(*value, heap)?;
        let former = at.update(|there| object::to_slot(&C::combine(there, &given), heap))?;
        Ok(former.map(|_| true))
    }, new *value
}

/// As [`Join`]. One function makes the encoded value from the present one, if there is one.
pub(super) struct Fold<F>(PhantomData<F>);

impl<K: Object, V: Object, F: FnMut(Option<V>) -> Result<SlotOf<V>>> OnKey<K, V> for Fold<F> {
    type Given = F;
    type Outcome = bool;
    const EFFECT: Effect = Effect::Claim;

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

/// A slot that holds the key, as found by a search.
pub(super) struct FoundSlot<'v, 'a, K: Object, V: Object, S, R: Access<'a>> {
    view: &'v View<'a, K, V, S, R>,
    slot: GlobalSlot<K, V, R>,
    held: Held<SlotOf<V>>,
    /// Whether the fallback found it.
    is_fallback: bool,
}

impl<'v, 'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> FoundSlot<'v, 'a, K, V, S, R> {
    /// A slot that the fallback found.
    #[inline]
    pub(super) fn new(
        view: &'v View<'a, K, V, S, R>,
        slot: GlobalSlot<K, V, R>,
        held: Held<SlotOf<V>>,
    ) -> Self {
        let is_fallback = true;
        Self {
            view,
            slot,
            held,
            is_fallback,
        }
    }

    /// Reads the value. `None` if the key was removed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn value(&self) -> Result<Option<V>> {
        let loaded = value::load(&self.slot, self.view.heap(), self.held)?;
        loaded.map(<V::Repr as Repr<V>>::decode).transpose()
    }

    /// Replaces the value by `f` of it and returns the former value. Returns `None` if the key was
    /// removed or, on the fast path, if another rank changed the value meanwhile.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn update(&self, mut f: impl FnMut(V) -> Result<SlotOf<V>>) -> Result<Option<V>> {
        let f = |loaded| f(<V::Repr as Repr<V>>::decode(loaded)?);
        let (slot, heap) = (&self.slot, self.view.heap());
        let former = if self.is_fallback {
            value::update(slot, heap, self.held, f)?
        } else {
            value::update_once(slot, heap, self.held, f)?
        };
        former.map(<V::Repr as Repr<V>>::decode).transpose()
    }
}

// Like the public operations, these are inlined only in optimized builds. Without optimization each
// value that is passed on has its own place in the caller's frame. With values of 64 KiB one
// operation took more than 5 MiB of stack, depending on how the compiler cut the crate into codegen
// units.

/// The caller counts inserted and removed keys.
impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Performs `O` by the fast path, or else by the fallback. If there is a fast path, the
    /// fallback is out of line and gets copies of the view and the key, so that the fast path keeps
    /// its operands in registers.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn perform<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut given: O::Given,
    ) -> Result<O::Outcome> {
        if !Self::HAS_LINES {
            return self.perform_fallback::<O>(hash, key, given);
        }
        let intent = const {
            match O::EFFECT {
                Effect::Claim => Intent::Claim,
                _ => Intent::Find,
            }
        };
        let (line, of_key) = self.fast_path(hash, key, intent)?;
        let sought = (hash.fingerprint(), key, intent);
        let probed = probe::probe(self, line, sought, |slot, held| {
            let is_fallback = false;
            let at = FoundSlot::new(self, slot, held);
            O::held(FoundSlot { is_fallback, ..at }, &mut given)
        })?;
        match probed {
            Some(LineProbeResult::Found(done)) => Ok(done),
            Some(LineProbeResult::Free(slot)) => self.absent::<O>(slot, hash, of_key, &given),
            None => {
                let (view, key) = (*self, key.clone());
                out_of_line(move || view.perform_fallback::<O>(hash, &key, given))
            }
        }
    }

    /// The line where the fast path to `key` begins, if there is one, and the encoded key if the
    /// operation claims a slot.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn fast_path(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        intent: Intent,
    ) -> Result<(Option<LineOf<'a, R>>, SlotOf<K>)> {
        let claims = intent == Intent::Claim;
        // The fallback allocates heap memory for keys.
        if !Self::HAS_LINES || claims && object::has_heap::<K>() {
            return Ok((None, SlotOf::<K>::new_zeroed()));
        }
        let of_key = if claims {
            <K::Repr as Repr<K>>::key_slot(key, self.heap())?
        } else {
            SlotOf::<K>::new_zeroed()
        };
        let line = self.home_line(hash);
        if !claims && let Some(line) = &line {
            note_line(&line.block);
        }
        Ok((line, of_key))
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Performs `O` on one key, in any phase, and counts inserted and removed keys. `given` makes
    /// the arguments. It is called again if the operation found no room and is repeated.
    #[inline(always)]
    #[track_caller]
    pub(super) fn perform<O, Q: ?Sized>(
        &self,
        key: &Q,
        given: impl Fn(&Heap) -> Result<O::Given>,
    ) -> Result<O::Outcome>
    where
        K: FoundBy<Q>,
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let key = K::key_by(key)?;
        let done = match &self.local {
            Some(all) => {
                let given = given(self.heap())?;
                let view = self.view_local(all);
                view.perform::<O>(view.hash(&key), &key, given)
            }
            None => {
                let at = Location::caller();
                out_of_line(move || self.perform_out_of_line::<O>(&key, given, at))
            }
        }?;
        self.count::<O>(O::is_change(&done).into());
        Ok(done)
    }

    /// As [`HashMap::update`](super::HashMap::update).
    #[inline(always)]
    #[track_caller]
    pub(super) fn update<Q: ?Sized>(&self, key: &Q, mut f: impl FnMut(V) -> V) -> Result<Option<V>>
    where
        K: FoundBy<Q>,
    {
        let key = K::key_by(key)?;
        let heap = self.heap();
        let f = move |there| object::to_slot(&f(there), heap);
        match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.update(view.hash(&key), &key, f)
            }
            None => {
                let at = Location::caller();
                out_of_line(move || self.update_out_of_line(&key, f, at))
            }
        }
    }
}
