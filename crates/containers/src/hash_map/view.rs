//! A map's slots, or a part of them, that are all reached in the same way.

use std::marker::PhantomData;
use std::sync::Arc;

use pgas_core::rma::{Block as _, FourWords};
use pgas_core::{Rank, World};
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::probe::{self, Lines, Slots, States};
use pgas_lockfree::slots::state::StateWord;

use super::hash::{self, Hash, Ring};
use super::slot::layout::Blocks as _;
use super::slot::remote::{Remote, RemoteArray};
use super::slot::{Access, GlobalSlot, LayoutOf};
use crate::object::{Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result};

/// Calls `body`, whose code is not part of the caller's.
#[inline(never)]
pub(super) fn out_of_line<R>(body: impl FnOnce() -> R) -> R {
    body()
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

    #[cold]
    pub(super) fn full(&self) -> Error {
        Error::Full {
            capacity: self.shape.ring.capacity(),
        }
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
