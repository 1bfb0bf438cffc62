//! The operations of a map, over slots that are all reached in the same way.

use std::marker::PhantomData;

use pgas_core::atomics::AtomicInteger;
use pgas_core::backend::AtomicOp;

use super::Inserted;
use super::global::{GlobalSlot, LayoutOf};
use super::hash::{self, Hash, Ring};
use super::layout::Blocks as _;
use super::reach::Reach;
use super::slot::scan::Scan;
use super::slot::{self, Held, SlotMemory, Wanted};
use super::state::{Fingerprint, StateWord};
use super::table::apart_if_large;
use super::walk::{self, Place, Slots, SlotsInBlocks};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{Error, Result};

/// A map's slots, reached as `R` says.
pub(super) struct View<'a, K: Object, V: Object, S, R: Reach<'a>> {
    pub(super) all: R::All,
    pub(super) ring: &'a Ring<LayoutOf<K, V>>,
    pub(super) heap: &'a Heap,
    hasher: &'a S,
    slot: PhantomData<GlobalSlot<K, V, R>>,
}

/// Where the search for a key begins.
pub(super) type Home<K, V, R> = walk::Home<GlobalSlot<K, V, R>>;

/// A slot that holds the key, and what is known of it.
type Holding<K, V, R> = (GlobalSlot<K, V, R>, Held<SlotOf<V>>);

impl<'a, K: Object, V: Object, S, R: Reach<'a>> Slots for View<'a, K, V, S, R> {
    type Slot = GlobalSlot<K, V, R>;

    #[inline(always)]
    fn next(&self, slot: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        self.slot(self.ring.next(slot.reach.place()))
    }

    #[inline(always)]
    fn heap(&self) -> &Heap {
        self.heap
    }
}

impl<'a, K: Object, V: Object, S, R: Reach<'a>> SlotsInBlocks for View<'a, K, V, S, R> {
    #[inline(always)]
    fn scan(
        &self,
        slot: &GlobalSlot<K, V, R>,
        fingerprint: Fingerprint,
    ) -> pgas_core::Result<Scan> {
        let states = slot.reach.states(LayoutOf::<K, V>::SLOTS)?;
        Ok(Scan::new(states, fingerprint))
    }

    #[inline(always)]
    fn n_slots(&self, slot: &GlobalSlot<K, V, R>) -> usize {
        // What is no slot of a rank's last block has the state of a free one.
        self.ring.slots_of(slot.reach.place().block)
    }

    #[inline(always)]
    fn index(&self, slot: &GlobalSlot<K, V, R>) -> usize {
        slot.reach.place().index()
    }

    #[inline(always)]
    fn of_block(&self, slot: &GlobalSlot<K, V, R>, index: usize) -> GlobalSlot<K, V, R> {
        slot.with_index(index)
    }

    #[inline(always)]
    fn next_block(&self, slot: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        self.slot(self.ring.next_block(slot.reach.place()))
    }

    #[inline(always)]
    fn is_same_block(&self, a: &GlobalSlot<K, V, R>, b: &GlobalSlot<K, V, R>) -> bool {
        a.reach.is_same_block(&b.reach)
    }
}

/// Those that begin at a home slot leave it to their caller to prefetch it, and to count new keys.
impl<'a, K: Object, V: Object, S: KeyHasher, R: Reach<'a>> View<'a, K, V, S, R> {
    /// Whether the states of a block are looked at together: a load of all of them costs as much as one of a single state.
    pub(super) const LOOKS_AT_BLOCKS: bool = R::IS_NEAR && LayoutOf::<K, V>::IS_PACKED;

    #[inline(always)]
    pub(super) fn new(
        all: R::All,
        ring: &'a Ring<LayoutOf<K, V>>,
        heap: &'a Heap,
        hasher: &'a S,
    ) -> Self {
        Self {
            all,
            ring,
            heap,
            hasher,
            slot: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn hash(&self, key: &KeyOf<K>) -> Hash {
        Hash::of::<K>(key, self.hasher)
    }

    #[inline(always)]
    pub(super) fn home(&self, hash: Hash) -> Home<K, V, R> {
        Home {
            slot: self.slot(self.ring.home(hash)),
            fingerprint: hash.fingerprint(),
        }
    }

    #[inline(always)]
    pub(super) fn home_of(&self, key: &KeyOf<K>) -> Home<K, V, R> {
        self.home(self.hash(key))
    }

    /// The slot that holds `key`, if one does.
    #[inline(always)]
    fn look(
        &self,
        home: Home<K, V, R>,
        key: &KeyOf<K>,
        wanted: Wanted,
    ) -> Result<Option<Holding<K, V, R>>> {
        if Self::LOOKS_AT_BLOCKS {
            return Ok(walk::look_in_blocks(self, home, key, wanted)?);
        }
        let found = apart_if_large!(SlotOf<V>, walk::look(self, home, key, wanted))?;
        Ok(found)
    }

    /// The slot that holds `key`; or nothing, after `value` was inserted under it.
    #[inline(always)]
    fn held_or_inserted(
        &self,
        home: Home<K, V, R>,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        wanted: Wanted,
    ) -> Result<Option<Holding<K, V, R>>> {
        // Memory for the key is got before a slot is reserved for it, since there may be none.
        let is_outside = <K::Repr as Repr<K>>::is_key_outside(key);
        if is_outside && let Some((slot, held)) = self.look(home, key, wanted)? {
            return Ok(Some((slot, held)));
        }
        let key_slot = <K::Repr as Repr<K>>::key_slot(key, self.heap)?;
        let place = if Self::LOOKS_AT_BLOCKS {
            walk::claim_in_blocks(self, home, key, wanted)?
        } else {
            apart_if_large!(SlotOf<V>, walk::claim(self, home, key, wanted))?
        };
        if let Place::New(slot) = place {
            let state = StateWord::ready(home.fingerprint);
            apart_if_large!(SlotOf<V>, slot.publish_entry(key_slot, value, state))?;
            return Ok(None);
        }
        if is_outside {
            object::release::<K>(&key_slot, self.heap)?;
        }
        match place {
            Place::Held(slot, held) => Ok(Some((slot, held))),
            Place::New(_) | Place::Full => Err(self.full()),
        }
    }

    #[cold]
    pub(super) fn full(&self) -> Error {
        Error::Full {
            capacity: self.ring.capacity(),
        }
    }

    /// Puts `value`, which is given up if that fails.
    #[inline(always)]
    pub(super) fn insert(
        &self,
        home: Home<K, V, R>,
        key: &KeyOf<K>,
        value: SlotOf<V>,
    ) -> Result<Inserted> {
        // What was there is given back, so it is read if it may point to memory of its own.
        let wanted = const {
            if object::has_heap::<V>() {
                Wanted::Value
            } else {
                Wanted::Key
            }
        };
        match self.held_or_inserted(home, key, value, wanted) {
            Ok(None) => Ok(Inserted::New),
            Ok(Some((slot, held))) => {
                let was_there = slot::store(&slot, self.heap, held, value)?;
                Ok(Inserted::over(was_there))
            }
            Err(error) => {
                object::release::<V>(&value, self.heap)?;
                Err(error)
            }
        }
    }

    /// The value that is there, if it was there before; else `value` is.
    #[inline(always)]
    pub(super) fn get_or_insert(&self, key: &KeyOf<K>, value: SlotOf<V>) -> Result<Option<V>> {
        match self.held_or_inserted(self.home_of(key), key, value, Wanted::Value) {
            Ok(None) => Ok(None),
            Ok(Some((slot, mut held))) => loop {
                if let Some(loaded) = slot::load(&slot, self.heap, held)? {
                    object::release::<V>(&value, self.heap)?;
                    return <V::Repr as Repr<V>>::decode(loaded).map(Some);
                }
                match slot::insert_again(slot, value)? {
                    Ok(()) => return Ok(None),
                    Err(now) => held = now,
                }
            },
            Err(error) => {
                object::release::<V>(&value, self.heap)?;
                Err(error)
            }
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, home: Home<K, V, R>, key: &KeyOf<K>) -> Result<Option<V>> {
        let Some((slot, held)) = self.look(home, key, Wanted::Value)? else {
            return Ok(None);
        };
        match slot::load(&slot, self.heap, held)? {
            Some(loaded) => <V::Repr as Repr<V>>::decode(loaded).map(Some),
            None => Ok(None),
        }
    }

    #[inline(always)]
    pub(super) fn contains(&self, key: &KeyOf<K>) -> Result<bool> {
        let held = self.look(self.home_of(key), key, Wanted::Key)?;
        Ok(held.is_some())
    }

    #[inline(always)]
    pub(super) fn update(
        &self,
        key: &KeyOf<K>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let Some((slot, held)) = self.look(self.home_of(key), key, Wanted::Value)? else {
            return Ok(None);
        };
        let replace = |loaded| {
            let value = f(<V::Repr as Repr<V>>::decode(loaded)?)?;
            object::to_slot(&value, self.heap)
        };
        match slot::update(&slot, self.heap, held, replace)? {
            Some(former) => <V::Repr as Repr<V>>::decode(former).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn remove(&self, key: &KeyOf<K>) -> Result<bool> {
        match self.look(self.home_of(key), key, Wanted::Value)? {
            Some((slot, held)) => slot::remove(&slot, self.heap, held),
            None => Ok(false),
        }
    }
}

impl<'a, K: Object, V: Object, S, R: Reach<'a>> View<'a, K, V, S, R> {
    /// This rank's number.
    #[inline(always)]
    pub(super) fn here(&self) -> usize {
        R::world_of(self.all).rank().index()
    }

    #[inline(always)]
    pub(super) fn slot(&self, place: hash::Place) -> GlobalSlot<K, V, R> {
        GlobalSlot::new(R::new(self.all, place))
    }
}

impl<'a, K, V, S, R> View<'a, K, V, S, R>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
    R: Reach<'a>,
{
    /// Adds to the value of `key`, and returns the former one if it was there.
    #[inline(always)]
    pub(super) fn add(&self, home: Home<K, V, R>, key: &KeyOf<K>, n: V) -> Result<Option<V>> {
        match self.held_or_inserted(home, key, n, Wanted::Key)? {
            Some((slot, held)) => add_to(&slot, held, n),
            None => Ok(None),
        }
    }
}

/// Adds to the value of a slot that holds the key, or gives it that value if the key was removed.
#[inline(always)]
fn add_to<'a, K, V, R>(slot: &GlobalSlot<K, V, R>, held: Held<V>, n: V) -> Result<Option<V>>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    R: Reach<'a>,
{
    let mut held = held;
    loop {
        if slot::has_word(slot, held)? {
            return Ok(Some(slot.fetch_op(AtomicOp::Add, n)?));
        }
        match slot::insert_again(*slot, n)? {
            Ok(()) => return Ok(None),
            Err(now) => held = now,
        }
    }
}
