//! Batches where all slots are local: the home slots of the operations ahead are on their way into
//! the cache while one operation is carried out.
//!
//! Where slots lie in lines, nearly every search for a key ends in its home line. Where nearly all
//! keys are there, a branch on that is guessed right, and spares all that a search for an absent
//! key asks for. Where some are absent it would be guessed wrong now and then, and then nothing is
//! asked of the memory until the processor has started again: no branch depends on what a line
//! holds there. Which of the two it is the last few hundred searches tell. Those that go on are
//! kept aside, and brought to their end together.

use std::hint::select_unpredictable;
use std::mem;
use std::ops::Range;

use pgas_core::rma::Near;
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::probe::States;
use pgas_lockfree::slots::state::Fingerprint;

use super::super::hash::{Hash, Position};
use super::super::op::{Find, OnKey};
use super::super::phase::{Atomic, Phase};
use super::super::slot::layout::{Blocks as _, LINE};
use super::super::slot::local::Local;
use super::super::slot::{Access as _, GlobalSlot, LayoutOf};
use super::super::table::LocalView;
use crate::object::{self, FoundBy, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{BatchError, Result};

/// How many operations ahead a home slot is prefetched: enough to cover the latency of memory, and
/// as many as processors have in flight.
pub(in super::super) const AHEAD: usize = 32;

/// Operations that were begun, in the order of their indices.
pub(in super::super) struct Ring<T>([T; AHEAD]);

impl<T> Ring<T> {
    /// As `begin` makes them of their indices.
    pub(in super::super) fn new(begin: impl FnMut(usize) -> T) -> Self {
        Self(std::array::from_fn(begin))
    }

    /// The operation with index `i`, in whose place the one [`AHEAD`] behind it comes.
    #[inline]
    pub(in super::super) fn swap_in(&mut self, i: usize, next: T) -> T {
        mem::replace(&mut self.0[i % AHEAD], next)
    }
}

/// The largest operations, in bytes, that are begun ahead. A ring of them takes 16 KiB of the
/// stack.
const LARGEST_AHEAD: usize = 512;

/// Begins each of `n` operations [`AHEAD`] of those that it ends, in their order; one by one if
/// they are large, as those with large keys.
#[inline]
pub(in super::super) fn pipelined<T: Default, E>(
    n: usize,
    mut begin: impl FnMut(usize) -> T,
    mut end: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    if size_of::<T>() > LARGEST_AHEAD {
        return (0..n).try_for_each(|i| end(i, begin(i)));
    }
    pipelined_in_ring(n, begin, end)
}

/// A function of its own, whose ring is on the stack only where it is used.
#[inline]
fn pipelined_in_ring<T: Default, E>(
    n: usize,
    mut begin: impl FnMut(usize) -> T,
    mut end: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let mut begin = |i| if i < n { begin(i) } else { T::default() };
    let mut ring = Ring::new(&mut begin);
    for i in 0..n {
        end(i, ring.swap_in(i, begin(i + AHEAD)))?;
    }
    Ok(())
}

impl<K: Object, V: Object, S: KeyHasher> LocalView<'_, K, V, S> {
    /// Carries out `O` on the keys of a part of a batch, whose home slots are prefetched some
    /// operations before; `take` gets what each tells, and `n_changed` how many keys there are
    /// more, or less.
    pub(super) fn perform_prefetched<'k, O: OnKey<K, V>, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E) -> Result<O::Given> + Copy,
        take: &mut impl FnMut(usize, O::Outcome) -> Result<()>,
        n_changed: &mut usize,
    ) -> Result<(), BatchError> {
        let mut n = 0;
        // A key that cannot be written is refused in its turn, when those before it are done.
        let begin = |i| -> Option<Hash> {
            let hash = self.hash(&key(&elements[i]).ok()?);
            self.prefetch(hash);
            Some(hash)
        };
        let ended = pipelined(elements.len(), begin, |i, hash| {
            let element = &elements[i];
            let taken = key(element).and_then(|key| {
                let hash = hash.unwrap_or_else(|| self.hash(&key));
                let done = O::perform(self, hash, &key, given(element)?)?;
                n += usize::from(O::is_change(&done));
                take(i, done)
            });
            taken.map_err(|error| BatchError { done: i, error })
        });
        *n_changed += n;
        ended
    }
}

/// How many searches that go on are brought to their end together.
const MAX_DEFERRED: usize = 32;

/// How many searches tell how the next ones are done.
const WINDOW: usize = 256;

/// How many of them may have found nothing in their home lines where the next ones are expected to
/// find something: at half load every fifteenth key that is there lies elsewhere.
const FEW_MISSES: usize = WINDOW / 8;

/// A search whose home line was prefetched.
struct Search<'a, K: Object, V: Object> {
    line: Near<'a, LayoutOf<K, V>>,
    /// The key's hash without its highest bit, and behind it whether the line has all its slots.
    tag: u64,
}

impl<K: Object, V: Object> Search<'_, K, V> {
    const fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.tag >> 1)
    }
}

impl<K: Object, V: Object> Clone for Search<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Object, V: Object> Copy for Search<'_, K, V> {}

/// A batch of finds.
struct Batch<'b, Q, V> {
    keys: &'b [Q],
    values: &'b mut [Option<V>],
    /// The indices of searches that go on.
    deferred: [usize; MAX_DEFERRED],
    n_deferred: usize,
}

/// What the home line tells of a key.
struct HomeLineFind<V> {
    value: Option<V>,
    /// Whether that is all there is to know.
    is_conclusive: bool,
}

impl<'a, K: Object, V: Object, S: KeyHasher> LocalView<'a, K, V, S> {
    pub(super) fn find_many_prefetched<P: Phase, Q>(
        &self,
        keys: &[Q],
        values: &mut [Option<V>],
    ) -> Result<()>
    where
        K: FoundBy<Q>,
    {
        let is_short = keys.len() < 2 * AHEAD || size_of::<SlotOf<K>>() > 16;
        if is_short || !Self::HAS_LINES || object::has_heap::<K>() {
            let take = &mut |i: usize, value| {
                values[i] = value;
                Ok(())
            };
            let key = |key| K::key_by(key);
            return Ok(self.perform_prefetched::<Find<P>, _>(
                keys,
                key,
                |_| Ok(()),
                take,
                &mut 0,
            )?);
        }
        let mut batch = Batch {
            keys,
            values: &mut values[..keys.len()],
            deferred: [0; MAX_DEFERRED],
            n_deferred: 0,
        };
        // A key without memory of its own is looked for as it is, which does not fail.
        let first = self.begin(&keys[0])?;
        let mut ring = Ring::new(|i| self.begin(&keys[i]).unwrap_or(first));
        let mut n_missed = 0;
        for start in (0..keys.len()).step_by(WINDOW) {
            let window = start..keys.len().min(start + WINDOW);
            n_missed = if n_missed <= FEW_MISSES {
                self.find_window::<true, Q>(window, &mut ring, &mut batch)?
            } else {
                self.find_window::<false, Q>(window, &mut ring, &mut batch)?
            };
        }
        self.find_deferred(&mut batch)
    }

    /// Finds some of the keys, of which nearly all are there, if that is `EXPECTED`; how many were
    /// not found in their home lines. A function of its own, which leaves the loop all registers.
    #[inline(never)]
    fn find_window<const MOST_PRESENT: bool, Q>(
        &self,
        window: Range<usize>,
        ring: &mut Ring<Search<'a, K, V>>,
        batch: &mut Batch<'_, Q, V>,
    ) -> Result<usize>
    where
        K: FoundBy<Q>,
    {
        let (mut n_missed, last) = (0, batch.keys.len() - 1);
        for i in window {
            let next = self.begin(&batch.keys[(i + AHEAD).min(last)])?;
            let search = ring.swap_in(i, next);
            let key = K::key_by(&batch.keys[i])?;
            if MOST_PRESENT {
                if let Some(value) = self.find_ready(&search, &key)? {
                    batch.values[i] = Some(value);
                    continue;
                }
                n_missed += 1;
                batch.deferred[batch.n_deferred] = i;
                batch.n_deferred += 1;
                // By the time that these are brought to their end, the line behind has come.
                search.line.prefetch(LINE);
            } else {
                let found = self.find_branchless(&search, &key)?;
                n_missed += usize::from(found.value.is_none());
                batch.values[i] = found.value;
                // Kept aside without a branch.
                batch.deferred[batch.n_deferred] = i;
                batch.n_deferred += usize::from(!found.is_conclusive);
                search
                    .line
                    .prefetch(if found.is_conclusive { 0 } else { LINE });
            }
            if batch.n_deferred == MAX_DEFERRED {
                self.find_deferred(batch)?;
            }
        }
        Ok(n_missed)
    }

    /// Begins the search for a key.
    #[inline(always)]
    fn begin<Q>(&self, key: &Q) -> Result<Search<'a, K, V>>
    where
        K: FoundBy<Q>,
    {
        let hash = self.hash(&K::key_by(key)?);
        let share = self.all.share(hash.bits());
        share.block.prefetch(0);
        let is_whole = share.index < self.shape.ring.n_whole_blocks();
        Ok(Search {
            line: share.block,
            tag: hash.bits() << 1 | u64::from(is_whole),
        })
    }

    /// A slot of a search's home line, wherever that is.
    fn slot_of(&self, search: &Search<'a, K, V>, index: u32) -> LocalSlot<'a, K, V> {
        let position = Position::begin(0, 0).with_index(index as usize);
        GlobalSlot::new(Local::in_block(self.all, position, search.line))
    }

    /// The value of the key, if a slot of the home line is ready with it.
    #[inline(always)]
    fn find_ready(&self, search: &Search<'a, K, V>, key: &KeyOf<K>) -> Result<Option<V>> {
        let states = States::load(&search.line, LayoutOf::<K, V>::SLOTS);
        let ready = states.ready(search.fingerprint());
        if ready == 0 {
            return Ok(None);
        }
        let slot = self.slot_of(search, ready.trailing_zeros());
        if !slot.has_key(key, self.heap())? {
            return Ok(None);
        }
        object::from_slot::<V>(slot.load_word()?, self.heap()).map(Some)
    }

    /// Looks at all slots of the home line without a branch.
    #[inline(always)]
    fn find_branchless(
        &self,
        search: &Search<'a, K, V>,
        key: &KeyOf<K>,
    ) -> Result<HomeLineFind<V>> {
        let fingerprint = search.fingerprint();
        let states = States::load(&search.line, LayoutOf::<K, V>::SLOTS);
        let written = states.written_or_free(fingerprint);
        // Any slot if none may hold the key: it is compared all the same, and does not count.
        let slot = self.slot_of(
            search,
            (written | 1 << (LayoutOf::<K, V>::SLOTS - 1)).trailing_zeros(),
        );
        let is_ready = slot.load_state()?.is_ready_with(fingerprint);
        let is_held = is_ready & slot.has_key(key, self.heap())?;
        // The state, which has no version, was read first.
        let word = <V::Repr as Repr<V>>::from_slot(slot.load_word()?, self.heap())?;
        // A slot of the key's fingerprint that does not hold it, or not now, says nothing of other
        // ones, and a line without all its slots has places that only look free.
        let is_absent = (written == 0) & (states.free() != 0) & (search.tag & 1 != 0);
        Ok(HomeLineFind {
            value: select_unpredictable(is_held, Some(word), None),
            is_conclusive: is_held | is_absent,
        })
    }

    /// Finds the keys that are kept aside one by one, from the beginning.
    #[inline(never)]
    fn find_deferred<Q>(&self, batch: &mut Batch<'_, Q, V>) -> Result<()>
    where
        K: FoundBy<Q>,
    {
        for &i in &batch.deferred[..mem::take(&mut batch.n_deferred)] {
            let key = K::key_by(&batch.keys[i])?;
            batch.values[i] = self.perform::<Find<Atomic>>(self.hash(&key), &key, ())?;
        }
        Ok(())
    }
}

type LocalSlot<'a, K, V> = GlobalSlot<K, V, Local<'a, LayoutOf<K, V>>>;
