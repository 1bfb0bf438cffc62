//! Operations on one key: the way of all of them to the slot that holds it or is free for it, by
//! the fast path or by the fallback, and what each does there.

use std::marker::PhantomData;

use pgas_core::Pod;
use pgas_core::atomics::AtomicInteger;
use pgas_core::backend::AtomicOp;
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
use super::view::{LineOf, View, out_of_line};
use crate::Result;
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};

/// What an operation does to the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Read,
    /// It changes the value of a key that is there.
    Change,
    /// The key is there afterwards.
    Claim,
    /// It is not.
    Remove,
}

/// An operation on a key, as a type.
pub(super) trait OnKey<K: Object, V: Object>: Sized {
    /// What it is given beside the key.
    type Given;

    /// Whether the key was there, and maybe its value.
    type Outcome: Outcome<V>;

    const EFFECT: Effect;

    /// What it asks of a slot that holds the key.
    const READ_VALUE: ReadValue = ReadValue::Yes;

    /// Whether nobody changes anything meanwhile.
    const IS_READ_ONLY: bool = false;

    /// Whether it matters which one of two on a key comes first.
    const IS_ORDERED: bool = false;

    /// What it does to a value that is a word and there: one atomic, with [`value`](Self::value) as
    /// the operand.
    const WORD: Option<AtomicOp> = None;

    /// What it does in a slot that holds the key; nothing if the key was removed meanwhile, or on
    /// the fast path if it leaves it to the fallback.
    fn held<'a, S: KeyHasher, R: Access<'a>>(
        at: FoundSlot<'_, 'a, K, V, S, R>,
        given: &mut Self::Given,
    ) -> Result<Option<Self::Outcome>>;

    /// The value of a key that is new.
    #[inline]
    fn value(_: &Self::Given) -> SlotOf<V> {
        SlotOf::<V>::new_zeroed()
    }

    /// Carries the operation out.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn perform<'a, S: KeyHasher, R: Access<'a>>(
        view: &View<'a, K, V, S, R>,
        hash: Hash,
        key: &KeyOf<K>,
        given: Self::Given,
    ) -> Result<Self::Outcome> {
        view.perform::<Self>(hash, key, given)
    }

    /// Whether there is a key more or one less.
    #[inline]
    fn is_change(done: &Self::Outcome) -> bool {
        match Self::EFFECT {
            Effect::Read | Effect::Change => false,
            Effect::Claim => !done.was_there(),
            Effect::Remove => done.was_there(),
        }
    }
}

/// An operation whose functions are parts of their callers: `$held` is what it does in a slot that
/// holds the key, and `$new` the value of a key that is new.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $op:ident $(<$of:ident: $bound:path>)? of [$($value:tt)+], $effect:ident
        $(, $constant:ident: $type:ty = $is:expr)*;
        |$at:ident, $given:ident: $Given:ty| -> $Outcome:ty $held:block $(, new $new:expr)?
    ) => {
        $(#[$doc])*
        pub(super) struct $op$(<$of>)?(PhantomData<((), $($of)?)>);

        impl<K: Object, V: $($value)+, $($of: $bound)?> OnKey<K, V> for $op$(<$of>)? {
            type Given = $Given;
            type Outcome = $Outcome;
            const EFFECT: Effect = Effect::$effect;
            $(const $constant: $type = $is;)*

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
    |at, _none: ()| -> Option<V> { at.value().map(|value| value.map(Some)) }
}

operation! {
    /// As [`HashMap::contains`](super::HashMap::contains), in a phase.
    Contains<P: Phase> of [Object], Read, IS_READ_ONLY: bool = P::IS_READ_ONLY,
    READ_VALUE: ReadValue = ReadValue::No;
    |_at, _none: ()| -> bool { Ok(Some(true)) }
}

operation! {
    /// As [`HashMap::insert`](super::HashMap::insert). What was there is given back, so it is read
    /// if it may point to memory of its own.
    Insert of [Object], Claim, IS_ORDERED: bool = true,
    READ_VALUE: ReadValue = if object::has_heap::<V>() { ReadValue::Yes } else { ReadValue::No },
    WORD: Option<AtomicOp> = Some(AtomicOp::Swap);
    |at, value: SlotOf<V>| -> bool {
        value::store(&at.slot, at.view.heap(), at.held, *value).map(Some)
    }, new *value
}

operation! {
    /// The value that is there, if it was there before; else the one that is given is.
    GetOrInsert of [Object], Claim;
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
    /// As [`Add`], told only whether the key was there.
    Count of [AtomicInteger + Object<Repr = Plain>], Claim, READ_VALUE: ReadValue = ReadValue::No,
    WORD: Option<AtomicOp> = Some(AtomicOp::Add);
    |at, n: V| -> bool {
        let former = <Add as OnKey<K, V>>::held(at, n)?;
        Ok(former.map(|_| true))
    }, new *n
}

operation! {
    /// Puts the second value in the place of the first one, if that is there, and tells what was
    /// there.
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
    /// As [`HashMap::update`](super::HashMap::update), by what a slot is to hold.
    Update<F: FnMut(V) -> Result<SlotOf<V>>> of [Object], Change;
    |at, f: F| -> Option<V> { Ok(at.update(f)?.map(Some)) }
}

operation! {
    /// As [`Update`], or inserts the value, which has no memory of its own.
    Join<F: FnMut(Option<V>) -> Result<SlotOf<V>>> of [Object], Claim;
    |at, given: (SlotOf<V>, F)| -> bool {
        Ok(at.update(|there| given.1(Some(there)))?.map(|_| true))
    }, new given.0
}

operation! {
    /// As [`HashMap::take`](super::HashMap::take).
    Take of [Object], Remove, IS_ORDERED: bool = true;
    |at, _none: ()| -> Option<V> {
        let decode = <V::Repr as Repr<V>>::decode;
        let taken = value::take(&at.slot, at.view.heap(), at.held, decode)?;
        Ok(taken.map(Some))
    }
}

operation! {
    /// As [`HashMap::upsert_many`](super::HashMap::upsert_many) with one entry.
    Upsert<C: Combine<V>> of [Object], Claim, IS_ORDERED: bool = true;
    |at, value: SlotOf<V>| -> bool {
        let heap = at.view.heap();
        let given = object::from_slot::<V>(*value, heap)?;
        let former = at.update(|there| object::to_slot(&C::combine(there, &given), heap))?;
        Ok(former.map(|_| true))
    }, new *value
}

/// As [`Join`], of what a slot is to hold by a function of the value that is there, if there is
/// one.
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

/// A slot that holds a key, as a search has found it.
pub(super) struct FoundSlot<'v, 'a, K: Object, V: Object, S, R: Access<'a>> {
    view: &'v View<'a, K, V, S, R>,
    slot: GlobalSlot<K, V, R>,
    held: Held<SlotOf<V>>,
    /// Whether the fallback has come there.
    is_fallback: bool,
}

impl<'v, 'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> FoundSlot<'v, 'a, K, V, S, R> {
    /// As the fallback comes there.
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

    /// The value, unless the key was removed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn value(&self) -> Result<Option<V>> {
        let loaded = value::load(&self.slot, self.view.heap(), self.held)?;
        loaded.map(<V::Repr as Repr<V>>::decode).transpose()
    }

    /// Replaces the value by what a slot is to hold of `f` of it; what was there, unless the key
    /// was removed, or on the fast path another rank was faster.
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

// As the public operations, these are no parts of their callers without optimization, where each
// value that is passed on has a place of its own in the frame: with values of 64 KiB one operation
// took more than 5 MiB of the stack, or not, as the compiler happened to cut the crate into units.

/// Operations leave it to their caller to count new keys and those that were removed.
impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Carries `O` out by the fast path, or else by the fallback. Where there is a fast path, the
    /// fallback is a call with code of its own, and with copies of the view and the key, so that
    /// the fast path has all that it needs in registers.
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

    /// Where the fast path to `key` begins, if there is one, and what a slot is to hold of a key
    /// that is to be there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn fast_path(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        intent: Intent,
    ) -> Result<(Option<LineOf<'a, R>>, SlotOf<K>)> {
        let claims = intent == Intent::Claim;
        // Memory of its own for a key is a matter of the fallback.
        if !Self::HAS_LINES || claims && object::has_heap::<K>() {
            return Ok((None, SlotOf::<K>::new_zeroed()));
        }
        let of_key = if claims {
            <K::Repr as Repr<K>>::key_slot(key, self.heap())?
        } else {
            SlotOf::<K>::new_zeroed()
        };
        Ok((self.home_line(hash), of_key))
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Carries `O` out on one key, whatever the phase is, and counts what it has changed. `given`
    /// is called again if it has found no room, and there may be some now.
    #[inline(always)]
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
            None => out_of_line(move || self.perform_out_of_line::<O>(&key, given)),
        }?;
        self.count::<O>(O::is_change(&done).into());
        Ok(done)
    }

    /// As [`HashMap::update`](super::HashMap::update).
    #[inline(always)]
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
            None => out_of_line(move || self.update_out_of_line(&key, f)),
        }
    }
}
