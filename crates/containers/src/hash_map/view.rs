//! The operations of a map, over slots that are all reached in the same way.

use std::marker::PhantomData;
use std::sync::Arc;

use pgas_core::atomics::AtomicInteger;
use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block as _, FourWords};
use pgas_core::{Rank, World};
use pgas_lockfree::slots::probe::{self, Lines, Place, Probed, Slots, States};
use pgas_lockfree::slots::state::StateWord;
use pgas_lockfree::slots::{self, Held, Intent, SlotMemory as _, Wanted};
use zerocopy::FromZeros as _;

use super::hash::{self, Hash, Ring};
use super::slot::layout::Blocks as _;
use super::slot::remote::{Remote, RemoteArray};
use super::slot::{Access, GlobalSlot, LayoutOf};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{Error, Result};

/// What an insert did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent.
    New,
    /// The key was present, and its value was overwritten.
    Replaced,
}

impl Inserted {
    pub(super) const fn over(was_there: bool) -> Self {
        if was_there { Self::Replaced } else { Self::New }
    }
}

/// Calls `body`, whose code is not part of the caller's.
#[inline(never)]
pub(super) fn out_of_line<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Evaluates `$found` with the slot that holds `$key`, or `$free` with the first free one on the
/// way to it, or `$absent` if there is neither; by the fast path, or else by the fallback `$walk`.
/// The fast path evaluates `$once` instead of `$found`, which may leave it to the fallback, too.
/// `$of_key` is what a slot is to hold of the key. Where there is a fast path, the fallback is a
/// call with code of its own, and with copies of the view and the key, so that the fast path has
/// all that it needs in registers. A macro, since closures that are called in two places would not
/// be inlined everywhere.
macro_rules! at_place {
    (
        look: $view:ident, $hash:ident, $key:ident, $wanted:expr,
        |$slot:ident, $held:ident| $found:expr, else $absent:expr
    ) => {
        at_place!(
            look: $view, $hash, $key, $wanted,
            |$slot, $held| $found, once $found.map(Some), else $absent
        )
    };
    (
        look: $view:ident, $hash:ident, $key:ident, $wanted:expr,
        |$slot:ident, $held:ident| $found:expr, once $once:expr, else $absent:expr
    ) => {
        at_place!(
            $view, $hash, $key, Intent::Look, _none, $view.walk($hash, $key, $wanted),
            |$slot, $held| $found, once $once, |_| $absent, else $absent
        )
    };
    (
        claim: $view:ident, $hash:ident, $key:ident, $value:ident, $wanted:expr,
        |$slot:ident, $held:ident| $found:expr, new $new:expr
    ) => {
        at_place!(
            $view, $hash, $key, Intent::Claim, of_key,
            $view.walk_to_claim($hash, $key, $value, $wanted),
            |$slot, $held| $found, once $found.map(Some),
            |slot| Self::publish(slot, $hash, of_key, $value).map(|()| $new),
            else Err($view.full())
        )
    };
    (
        $view:ident, $hash:ident, $key:ident, $intent:expr, $of_key:ident, $walk:expr,
        |$slot:ident, $held:ident| $found:expr, once $once:expr,
        |$open:pat_param| $free:expr, else $absent:expr
    ) => {{
        let (line, $of_key) = $view.fast_path($hash, $key, $intent)?;
        let sought = ($hash.fingerprint(), $key, $intent);
        let probed = probe::probe($view, line, sought, |$slot, $held| -> Result<_> { $once })?;
        if let Some(Probed::Found(done)) = probed {
            Ok(done)
        } else if let Some(Probed::Free($open)) = probed {
            $free
        } else if Self::HAS_LINES {
            let (view, key) = (*$view, $key.clone());
            out_of_line(move || {
                let ($view, $key) = (&view, &key);
                let (place, $of_key) = $walk?;
                match place {
                    Place::Found($slot, $held) => $found,
                    Place::Free($open) => $free,
                    Place::Absent => $absent,
                }
            })
        } else {
            let (place, $of_key) = $walk?;
            match place {
                Place::Found($slot, $held) => $found,
                Place::Free($open) => $free,
                Place::Absent => $absent,
            }
        }
    }};
}

/// What all ways to a map's slots, or to a part of them, have in common.
pub(super) struct Shape<K: Object, V: Object, S> {
    pub(super) world: World,
    pub(super) ring: Ring<LayoutOf<K, V>>,
    /// The offset of the first block of every rank.
    pub(super) start: u64,
    pub(super) heap: Arc<Heap>,
    pub(super) hasher: Arc<S>,
}

impl<K: Object, V: Object, S> Shape<K, V, S> {
    /// That of the part of any one rank.
    pub(super) fn part(&self) -> Self {
        Self {
            world: self.world.clone(),
            ring: self.ring.part(),
            start: self.start,
            heap: Arc::clone(&self.heap),
            hasher: Arc::clone(&self.hasher),
        }
    }

    /// The slots, as `R` reaches them.
    pub(super) fn view<'a, R: Access<'a>>(&'a self, all: R::All) -> View<'a, K, V, S, R> {
        let slot = PhantomData;
        View {
            all,
            shape: self,
            slot,
        }
    }

    /// The slots from those of rank `first` on, by operations on global pointers.
    pub(super) fn view_remote<const IS_PART: bool>(
        &self,
        first: Rank,
    ) -> View<'_, K, V, S, Remote<'_, IS_PART>> {
        self.view(RemoteArray {
            world: &self.world,
            first,
            start: self.start,
            stride: LayoutOf::<K, V>::BYTES,
        })
    }
}

/// A map's slots, reached as `R` says.
pub(super) struct View<'a, K: Object, V: Object, S, R: Access<'a>> {
    pub(super) all: R::All,
    pub(super) shape: &'a Shape<K, V, S>,
    slot: PhantomData<GlobalSlot<K, V, R>>,
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> Clone for View<'a, K, V, S, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> Copy for View<'a, K, V, S, R> {}

/// Where the search for a key begins.
pub(super) type Home<K, V, R> = probe::Home<GlobalSlot<K, V, R>>;

/// The place of a key.
type PlaceOf<K, V, R> = Place<GlobalSlot<K, V, R>>;

impl<'a, K: Object, V: Object, S, R: Access<'a>> Slots for View<'a, K, V, S, R> {
    type Slot = GlobalSlot<K, V, R>;

    #[inline]
    fn next(&self, slot: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        self.slot(self.shape.ring.next(slot.place()))
    }

    #[inline]
    fn is_around(&self, slot: &GlobalSlot<K, V, R>, home: &GlobalSlot<K, V, R>) -> bool {
        let is_wrapped = || slot.place().block < home.place().block;
        // Behind the last block of a part comes its first one.
        slot.is_same(home) || R::IS_PART && is_wrapped()
    }

    #[inline]
    fn heap(&self) -> &Heap {
        &self.shape.heap
    }
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> Lines for View<'a, K, V, S, R> {
    type Line = R::Line;
    type Four = FourWords;

    #[inline]
    fn states(&self, line: &R::Line) -> States<FourWords> {
        R::states(line, LayoutOf::<K, V>::SLOTS)
    }

    #[inline]
    fn of_line(&self, line: &R::Line, index: usize) -> GlobalSlot<K, V, R> {
        GlobalSlot::new(R::of_line(self.all, line, index))
    }

    #[inline]
    fn first_of(&self, line: &R::Line, free: u32) -> usize {
        hash::first_of::<LayoutOf<K, V>>(free, R::rest(line))
    }

    #[inline]
    fn next_line(&self, line: R::Line) -> Option<R::Line> {
        R::next_line(self.all, line, self.shape.ring.n_whole_blocks())
    }
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> View<'a, K, V, S, R> {
    /// Where keys and values point to.
    #[inline]
    pub(super) fn heap(&self) -> &'a Heap {
        &self.shape.heap
    }

    #[inline]
    pub(super) fn slot(&self, place: hash::Place) -> GlobalSlot<K, V, R> {
        GlobalSlot::new(R::new(self.all, place))
    }
}

// As the public operations, these are no parts of their callers without optimization, where each
// value that is passed on has a place of its own in the frame: with values of 64 KiB one operation
// took more than 5 MiB of the stack, or not, as the compiler happened to cut the crate into units.

/// Operations leave it to their caller to count new keys and those that were removed.
impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Whether the states of a line are looked at together: a load of all of them costs as much as
    /// one of a single state.
    pub(super) const HAS_LINES: bool = R::IS_LOCAL && LayoutOf::<K, V>::IS_PACKED;

    #[inline]
    pub(super) fn hash(&self, key: &KeyOf<K>) -> Hash {
        Hash::of::<K>(key, &*self.shape.hasher)
    }

    #[inline]
    pub(super) fn home(&self, hash: Hash) -> Home<K, V, R> {
        let n_ranks = || self.shape.world.ranks().len();
        let of_place = if R::IS_PART {
            hash.of_rank(n_ranks())
        } else {
            hash
        };
        Home {
            slot: self.slot(self.shape.ring.home(of_place)),
            fingerprint: hash.fingerprint(),
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
    ) -> Result<(Option<R::Line>, SlotOf<K>)> {
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
        let n_whole = self.shape.ring.n_whole_blocks();
        Ok((R::home_line(self.all, hash, n_whole), of_key))
    }

    /// The place of `key` by the fallback. In the part of a rank a search that ends behind its last
    /// slot has told nothing, and it is full.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn walk(&self, hash: Hash, key: &KeyOf<K>, wanted: Wanted) -> Result<(PlaceOf<K, V, R>, ())> {
        let home = self.home(hash);
        match probe::walk(self, home, key, wanted, Intent::Look)? {
            Place::Absent if R::IS_PART => Err(self.full()),
            place => Ok((place, ())),
        }
    }

    /// Likewise, of a key that is to be there, with what a slot is to hold of it. If there is none,
    /// `value` is given up.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn walk_to_claim(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        wanted: Wanted,
    ) -> Result<(PlaceOf<K, V, R>, SlotOf<K>)> {
        match self.claim(hash, key, wanted) {
            Ok(claimed) => Ok(claimed),
            Err(error) => {
                object::release::<V>(&value, self.heap())?;
                Err(error)
            }
        }
    }

    /// A slot for the key, and the part of the key that goes there. As a closure it made inserts of
    /// wide values a third longer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn claim(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        wanted: Wanted,
    ) -> Result<(PlaceOf<K, V, R>, SlotOf<K>)> {
        // Memory for the key is got before a slot is reserved for it, since there may be none.
        let is_outside = <K::Repr as Repr<K>>::is_key_outside(key);
        if is_outside && let (found @ Place::Found(..), ()) = self.walk(hash, key, wanted)? {
            return Ok((found, SlotOf::<K>::new_zeroed()));
        }
        let of_key = <K::Repr as Repr<K>>::key_slot(key, self.heap())?;
        let place = probe::walk(self, self.home(hash), key, wanted, Intent::Claim)?;
        if is_outside && !matches!(place, Place::Free(_)) {
            object::release::<K>(&of_key, self.heap())?;
        }
        match place {
            Place::Absent => Err(self.full()),
            Place::Found(..) | Place::Free(_) => Ok((place, of_key)),
        }
    }

    #[cold]
    pub(super) fn full(&self) -> Error {
        Error::Full {
            capacity: self.shape.ring.capacity(),
        }
    }

    /// Writes key and value to a slot that is reserved for the key.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn publish(
        slot: GlobalSlot<K, V, R>,
        hash: Hash,
        of_key: SlotOf<K>,
        value: SlotOf<V>,
    ) -> Result<()> {
        let state = StateWord::ready(hash.fingerprint());
        Ok(slot.publish_entry(of_key, value, state)?)
    }

    /// What `at` makes of a slot that holds the key. It is called again if it makes nothing, since
    /// the key was removed, unless `value` is inserted again, and another rank has not been faster.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn held_or_again<T>(
        slot: GlobalSlot<K, V, R>,
        mut held: Held<SlotOf<V>>,
        value: SlotOf<V>,
        mut at: impl FnMut(Held<SlotOf<V>>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let made = at(held)?;
            if made.is_some() {
                return Ok(made);
            }
            match slots::insert_again(slot, value)? {
                Ok(()) => return Ok(None),
                Err(now) => held = now,
            }
        }
    }

    /// Puts `value`, which is given up if that fails.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn insert(&self, hash: Hash, key: &KeyOf<K>, value: SlotOf<V>) -> Result<Inserted> {
        // What was there is given back, so it is read if it may point to memory of its own.
        let wanted = const {
            if object::has_heap::<V>() {
                Wanted::Value
            } else {
                Wanted::Key
            }
        };
        let view = self;
        at_place!(
            claim: view, hash, key, value, wanted,
            |slot, held| slots::store(&slot, view.heap(), held, value).map(Inserted::over),
            new Inserted::New
        )
    }

    /// The value that is there, if it was there before; else `value` is.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn get_or_insert(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
    ) -> Result<Option<V>> {
        let view = self;
        at_place!(
            claim: view, hash, key, value, Wanted::Value,
            |slot, held| Self::held_or_again(slot, held, value, |held| {
                let there = view.value_held(&slot, held)?;
                if there.is_some() {
                    object::release::<V>(&value, view.heap())?;
                }
                Ok(there)
            }), new None
        )
    }

    /// The value of a slot that holds the key, unless that was removed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn value_held(
        &self,
        slot: &GlobalSlot<K, V, R>,
        held: Held<SlotOf<V>>,
    ) -> Result<Option<V>> {
        match slots::load(slot, self.heap(), held)? {
            Some(loaded) => <V::Repr as Repr<V>>::decode(loaded).map(Some),
            None => Ok(None),
        }
    }

    /// The value of `key`. If that `is_read_only`, nobody changes anything meanwhile.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn find(&self, hash: Hash, key: &KeyOf<K>, is_read_only: bool) -> Result<Option<V>> {
        if is_read_only && !Self::HAS_LINES {
            let from_slot = |slot| object::from_slot::<V>(slot, self.heap());
            return self.seek(hash, key)?.map(from_slot).transpose();
        }
        let view = self;
        at_place!(
            look: view, hash, key, Wanted::Value,
            |slot, held| view.value_held(&slot, held), else Ok(None)
        )
    }

    /// Whether `key` is there, likewise.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn contains(&self, hash: Hash, key: &KeyOf<K>, is_read_only: bool) -> Result<bool> {
        if is_read_only && !Self::HAS_LINES {
            return Ok(self.seek(hash, key)?.is_some());
        }
        let view = self;
        at_place!(
            look: view, hash, key, Wanted::Key,
            |_slot, _held| Ok(true), else Ok(false)
        )
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn update(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let view = self;
        at_place!(
            look: view, hash, key, Wanted::Value,
            |slot, held| view.update_held(slot, held, &mut f),
            once view.update_once(slot, held, &mut f).map(|former| former.map(Some)),
            else Ok(None)
        )
    }

    pub(super) fn remove(&self, hash: Hash, key: &KeyOf<K>) -> Result<bool> {
        let view = self;
        at_place!(
            look: view, hash, key, Wanted::Value,
            |slot, held| slots::remove(&slot, view.heap(), held), else Ok(false)
        )
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn update_held(
        &self,
        slot: GlobalSlot<K, V, R>,
        held: Held<SlotOf<V>>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let heap = self.heap();
        let replace = move |loaded| {
            let value = f(<V::Repr as Repr<V>>::decode(loaded)?)?;
            object::to_slot(&value, heap)
        };
        match slots::update(&slot, heap, held, replace)? {
            Some(former) => <V::Repr as Repr<V>>::decode(former).map(Some),
            None => Ok(None),
        }
    }

    /// As `update_held` of a value that is a word and there, unless another rank is faster.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn update_once(
        &self,
        slot: GlobalSlot<K, V, R>,
        held: Held<SlotOf<V>>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let replace = |loaded| {
            let value = f(<V::Repr as Repr<V>>::decode(loaded)?)?;
            object::to_slot(&value, self.heap())
        };
        match slots::update_once(&slot, self.heap(), held, replace)? {
            Some(former) => <V::Repr as Repr<V>>::decode(former).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the value by `f` of it, or inserts `value`; what was there. For values without
    /// memory of their own.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn upsert(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: SlotOf<V>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let view = self;
        at_place!(
            claim: view, hash, key, value, Wanted::Value,
            |slot, held| Self::held_or_again(slot, held, value, |held| {
                view.update_held(slot, held, &mut f)
            }), new None
        )
    }
}

/// What a search in slots that nobody writes has come to.
pub(super) enum Step<V> {
    /// The slot with the key, and the value, unless it was removed.
    Found(Option<V>),
    /// The first free slot on the way.
    Free,
    /// All slots hold other keys.
    Absent,
}

impl<V> Step<V> {
    /// What the slot holds of the value, if the key is there.
    pub(super) fn value(self) -> Option<V> {
        match self {
            Self::Found(value) => value,
            Self::Free | Self::Absent => None,
        }
    }
}

/// While nobody writes, or this rank alone to slots of its own: a block is read at once, and needs
/// no second look.
impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Goes on with a search from `slot` to its end, or else to the block behind the one that was
    /// read.
    #[inline]
    pub(super) fn step(
        &self,
        slot: &mut GlobalSlot<K, V, R>,
        seen: &R::Seen,
        home: &Home<K, V, R>,
        key: &KeyOf<K>,
    ) -> Result<Option<Step<SlotOf<V>>>> {
        loop {
            let (state, (there, value)) = slot.pick(seen);
            let is_ready = state.is_ready_with(home.fingerprint);
            if is_ready && <K::Repr as Repr<K>>::has_key(&there, key, self.heap())? {
                return Ok(Some(Step::Found(Some(value))));
            }
            if state == StateWord::FREE {
                return Ok(Some(Step::Free));
            }
            let is_gone = !is_ready && state.has(home.fingerprint) && state != StateWord::VACANT;
            if is_gone && <K::Repr as Repr<K>>::has_key(&there, key, self.heap())? {
                return Ok(Some(Step::Found(None)));
            }
            let next = self.next(slot);
            if self.is_around(&next, &home.slot) {
                return Ok(Some(Step::Absent));
            }
            let is_onward = !next.place().is_same_block(slot.place());
            *slot = next;
            if is_onward {
                return Ok(None);
            }
        }
    }

    /// What the slot that holds `key` holds of its value, while nobody changes anything (R for each
    /// block).
    #[inline]
    pub(super) fn seek(&self, hash: Hash, key: &KeyOf<K>) -> Result<Option<SlotOf<V>>> {
        let home = self.home(hash);
        let mut slot = home.slot;
        loop {
            let seen = slot.see()?;
            match self.step(&mut slot, &seen, &home, key)? {
                None => {}
                Some(Step::Absent) if R::IS_PART => return Err(self.full()),
                Some(step) => return Ok(step.value()),
            }
        }
    }
}

impl<'a, K, V, S, R> View<'a, K, V, S, R>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
    R: Access<'a>,
{
    /// Adds to the value of `key`, and returns the former one if it was there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn add(&self, hash: Hash, key: &KeyOf<K>, n: V) -> Result<Option<V>> {
        let view = self;
        at_place!(
            claim: view, hash, key, n, Wanted::Key,
            |slot, held| Self::held_or_again(slot, held, n, |held| {
                if slots::has_word(&slot, held)? {
                    return Ok(Some(slot.fetch_op(AtomicOp::Add, n)?));
                }
                Ok(None)
            }), new None
        )
    }
}
