//! Operations on one key.
//!
//! Every operation finds the slot that holds the key, or the free slot for it, by the fast path or
//! by the fallback. Each operation says what it does with that slot.

use std::panic::Location;

use pgas_core::Pod;
use pgas_core::atomics::AtomicNumber;
use pgas_core::backend::AtomicOp;
use pgas_core::stats::Operation;
use pgas_lockfree::slots::probe::{self, LineProbeResult};
use pgas_lockfree::slots::{Intent, ReadValue, value};
use zerocopy::FromZeros as _;

use super::found::FoundSlot;
use super::hash::Hash;
use super::outcome::{Effect, Outcome};
use super::slot::layout::ValueKind;
use super::slot::{Access, LayoutOf};
use super::table::Table;
use super::view::{LineOf, View, out_of_line};
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{Result, prices};

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

    /// Whether it calls functions of the program in the key's slot. If one panics, what other
    /// operations of a batch hold must be given up.
    const CALLS_PROGRAM: bool = true;

    /// Whether it may run again and again on its way: it stores long values by the view's heap.
    const MAY_RUN_AGAIN: bool = true;

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

    /// Moves the long values of the arguments out of the parcel of a message into `heap`.
    #[inline]
    fn unpack(given: Self::Given, _parcel: &Heap, _heap: &Heap) -> Result<Self::Given> {
        Ok(given)
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

/// As [`HashMap::fetch_add`](super::HashMap::fetch_add): the former value, if there was one. An
/// atomic adds to a value that is a word of a slot; shorter ones are updated as any other value.
pub(super) enum Add {}

/// Whether values of this type are read and written whole, behind a version.
const fn is_wide<K: Object, V: Object>() -> bool {
    matches!(LayoutOf::<K, V>::KIND, ValueKind::Wide)
}

impl Add {
    /// Whether the value has to be read together with the key.
    pub(super) const fn read_value<K: Object, V: Object>() -> ReadValue {
        if is_wide::<K, V>() {
            ReadValue::Yes
        } else {
            ReadValue::No
        }
    }
}

impl<K: Object, V: AtomicNumber + Object<Repr = Plain>> OnKey<K, V> for Add {
    type Given = V;
    type Outcome = Option<V>;
    const EFFECT: Effect = Effect::Claim;
    const READ_VALUE: ReadValue = Self::read_value::<K, V>();
    /// What each addition of a batch has found is as if they were made one after another.
    const IS_ORDERED: bool = true;

    fn rows() -> Option<[&'static Operation; 2]> {
        Some([&prices::HASH_MAP_FETCH_ADD, &prices::HASH_MAP_ADD_MANY])
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn held<'a, S: KeyHasher, R: Access<'a>>(
        at: FoundSlot<'_, 'a, K, V, S, R>,
        n: &mut V,
    ) -> Result<Option<Option<V>>> {
        // Behind a version: an atomic would not raise that.
        if const { is_wide::<K, V>() } {
            return Ok(at.update(|there| Ok(there.plus(*n)))?.map(Some));
        }
        if value::has_word(&at.slot, at.held)? {
            return Ok(Some(Some(at.slot.fetch_op(AtomicOp::Add, *n)?)));
        }
        Ok(None)
    }

    fn value(n: &V) -> SlotOf<V> {
        *n
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
        if (!claims || R::is_still(self.all))
            && let Some(line) = &line
        {
            R::note_line(self.all, &line.block);
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
                let view = self.view_local(all);
                // In this order: if the hasher panics, there is no long value yet.
                let (hash, given) = (view.hash(&key), given(self.heap())?);
                view.perform::<O>(hash, &key, given)
            }
            None => {
                let (at, elsewhere) = (Location::caller(), Self::perform_elsewhere::<O>);
                out_of_line(move || self.perform_out_of_line::<O>(&key, given, elsewhere, at))
            }
        }?;
        self.count(O::EFFECT, O::is_change(&done).into());
        Ok(done)
    }
}
