//! Batches on local slots: the home slots of later operations are prefetched while one operation is
//! performed.
//!
//! If slots are packed in cache lines, nearly every search for a key ends in its home line. There
//! are two ways to search it. If nearly all keys are present, a branch on the result is predicted
//! well, and skips the work for absent keys. If some keys are absent, such a branch would be
//! mispredicted now and then, and no memory would be requested until the pipeline has restarted; so
//! no branch depends on the contents of the line. The results of the last few hundred searches
//! choose the way. Searches that do not end in the home line are deferred and completed together.

use std::hint::select_unpredictable;
use std::mem;
use std::ops::Range;

use pgas_core::rma::{Block, Near};
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::probe::States;
use pgas_lockfree::slots::state::Fingerprint;

use super::super::hash::{Hash, Position};
use super::super::op::OnKey;
use super::super::operations::Find;
use super::super::phase::{Atomic, Phase};
use super::super::slot::layout::{Blocks as _, LINE};
use super::super::slot::local::{Kind, Local};
use super::super::slot::{Access as _, GlobalSlot, LayoutOf};
use super::super::view::ViewOf;
use crate::object::{self, FoundBy, Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{BatchError, Result};

/// The prefetch distance in operations. It covers the latency of memory, and is as many accesses as
/// processors have in flight.
pub(in super::super) const AHEAD: usize = 32;

/// A ring buffer of begun operations, in the order of their indices.
pub(in super::super) struct Ring<T>([T; AHEAD]);

impl<T> Ring<T> {
    /// Takes out operation `i` and puts in `next`, the one [`AHEAD`] further on.
    #[inline]
    pub(in super::super) fn swap_in(&mut self, i: usize, next: T) -> T {
        mem::replace(&mut self.0[i % AHEAD], next)
    }
}

/// Operations of more bytes than this are not begun ahead. A ring of the largest takes 16 KiB of
/// the stack.
const LARGEST_AHEAD: usize = 512;

/// Runs `n` operations in order, and begins each [`AHEAD`] operations before it ends it. Large
/// operations, such as those with large keys, run one by one.
///
/// Plain loops: the compiler makes a copy of this function for every kind of batch, and would make
/// one of each adapter of an iterator, too.
#[inline]
pub(in super::super) fn pipelined<T, E>(
    n: usize,
    mut begin: impl FnMut(usize) -> Option<T>,
    mut end: impl FnMut(usize, Option<T>) -> Result<(), E>,
) -> Result<(), E> {
    if size_of::<Option<T>>() > LARGEST_AHEAD {
        for i in 0..n {
            end(i, begin(i))?;
        }
        return Ok(());
    }
    pipelined_in_ring(n, begin, end)
}

/// A separate function, so that the ring is on the stack only if it is used.
#[inline]
fn pipelined_in_ring<T, E>(
    n: usize,
    mut begin: impl FnMut(usize) -> Option<T>,
    mut end: impl FnMut(usize, Option<T>) -> Result<(), E>,
) -> Result<(), E> {
    let mut ring = Ring([const { None }; AHEAD]);
    for i in 0..n.min(AHEAD) {
        ring.0[i] = begin(i);
    }
    for i in 0..n {
        let ahead = i + AHEAD;
        let next = if ahead < n { begin(ahead) } else { None };
        end(i, ring.swap_in(i, next))?;
    }
    Ok(())
}

impl<'a, K: Object, V: Object, S: KeyHasher, L: Block + 'a, M: Kind> ViewOf<'a, K, V, S, L, M> {
    /// Performs `O` on the keys of `elements`, with prefetched home slots. `take` receives each
    /// result. `n_changed` is raised by the number of inserted or removed keys.
    pub(super) fn perform_batch<'k, O: OnKey<K, V>, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E, &Heap) -> Result<O::Given> + Copy,
        take: &mut impl FnMut(usize, O::Outcome),
        n_changed: &mut usize,
    ) -> Result<(), BatchError> {
        // A key that cannot be encoded is refused in its turn, after the operations before it.
        let begin = |i| -> Option<Hash> {
            let hash = self.hash(&key(&elements[i]).ok()?);
            self.prefetch(hash);
            Some(hash)
        };
        pipelined(elements.len(), begin, |i, hash| {
            let element = &elements[i];
            let taken = key(element).and_then(|key| {
                let hash = hash.unwrap_or_else(|| self.hash(&key));
                let done = O::perform(self, hash, &key, given(element, self.heap())?)?;
                *n_changed += usize::from(O::is_change(&done));
                take(i, done);
                Ok(())
            });
            taken.map_err(|error| BatchError { done: i, error })
        })
    }
}

/// Deferred searches that are completed together.
const MAX_DEFERRED: usize = 32;

/// Searches after which the way of the next ones is chosen.
const WINDOW: usize = 256;

/// Up to this many misses in a window, most keys of the next one are expected in their home lines.
/// At half load every fifteenth present key lies elsewhere.
const FEW_MISSES: usize = WINDOW / 8;

/// A search whose home line was prefetched.
struct Search<'a, L> {
    line: Near<'a, L>,
    /// The key's hash without its highest bit; the lowest bit says whether the line has all its
    /// slots.
    tag: u64,
}

impl<L> Search<'_, L> {
    const fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.tag >> 1)
    }
}

impl<L> Clone for Search<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Search<'_, L> {}

/// A batch of finds.
struct Batch<'b, Q, V> {
    keys: &'b [Q],
    values: &'b mut [Option<V>],
    /// Indices of searches that do not end in the home line.
    deferred: [usize; MAX_DEFERRED],
    n_deferred: usize,
}

/// The result of a search of the home line.
struct HomeLineFind<V> {
    value: Option<V>,
    /// Whether the result is final: the key is there, or certainly absent.
    is_conclusive: bool,
}

impl<'a, K: Object, V: Object, S: KeyHasher, L: Block + 'a, M: Kind> ViewOf<'a, K, V, S, L, M> {
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
            let take = &mut |i: usize, value| values[i] = value;
            let key = |key| K::key_by(key);
            return Ok(self.perform_batch::<Find<P>, _>(keys, key, |_, _| Ok(()), take, &mut 0)?);
        }
        let mut batch = Batch {
            keys,
            values: &mut values[..keys.len()],
            deferred: [0; MAX_DEFERRED],
            n_deferred: 0,
        };
        // Keys without heap memory need no encoding, so their search does not fail.
        let first = self.begin(&keys[0])?;
        let mut ring = Ring([first; AHEAD]);
        for (place, key) in ring.0.iter_mut().zip(keys).skip(1) {
            *place = self.begin(key).unwrap_or(first);
        }
        let mut n_missed = 0;
        for start in (0..keys.len()).step_by(WINDOW) {
            let window = start..keys.len().min(start + WINDOW);
            // A search without a branch takes steps that are not counted, since it needs none of
            // their results.
            n_missed = if n_missed <= FEW_MISSES || L::IS_COUNTED {
                self.find_window::<true, Q>(window, &mut ring, &mut batch)?
            } else {
                self.find_window::<false, Q>(window, &mut ring, &mut batch)?
            };
        }
        self.find_deferred(&mut batch)
    }

    /// Finds the keys of one window. `MOST_PRESENT` expects that nearly all are in their home
    /// lines. Returns the number of those that were not. It is a separate function, which leaves
    /// all registers to the loop.
    #[inline(never)]
    fn find_window<const MOST_PRESENT: bool, Q>(
        &self,
        window: Range<usize>,
        ring: &mut Ring<Search<'a, L>>,
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
                // The next line arrives before the deferred searches are completed.
                search.line.prefetch(LINE);
            } else {
                let found = self.find_branchless(&search, &key)?;
                n_missed += usize::from(found.value.is_none());
                batch.values[i] = found.value;
                // Defer without a branch.
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

    /// Hashes a key and prefetches its home line.
    #[inline(always)]
    fn begin<Q>(&self, key: &Q) -> Result<Search<'a, L>>
    where
        K: FoundBy<Q>,
    {
        let hash = self.hash(&K::key_by(key)?);
        let share = self.all.array.share(self.of_view(hash).bits());
        share.block.prefetch(0);
        let is_whole = share.index < self.shape.ring.n_whole_blocks();
        Ok(Search {
            line: share.block,
            tag: hash.bits() << 1 | u64::from(is_whole),
        })
    }

    /// A slot of the home line. Its position in the ring is not needed, and wrong.
    fn slot_of(&self, search: &Search<'a, L>, index: u32) -> LocalSlot<'a, K, V, L, M> {
        let position = Position::begin(0, 0).with_index(index as usize);
        GlobalSlot::new(Local::in_block(self.all, position, search.line))
    }

    /// The value of the key, if a slot of the home line is ready and holds the key. Otherwise the
    /// search begins again, and the look at the line is noted then.
    #[inline(always)]
    fn find_ready(&self, search: &Search<'a, L>, key: &KeyOf<K>) -> Result<Option<V>> {
        let states = States::load(&search.line, LayoutOf::<K, V>::SLOTS);
        let ready = states.ready(search.fingerprint());
        if ready == 0 {
            return Ok(None);
        }
        let slot = self.slot_of(search, ready.trailing_zeros());
        if !slot.has_key(key, self.heap())? {
            return Ok(None);
        }
        Local::note_line(self.all, &search.line);
        object::from_slot::<V>(slot.load_word()?, self.heap()).map(Some)
    }

    /// Searches all slots of the home line without a branch.
    #[inline(always)]
    fn find_branchless(&self, search: &Search<'a, L>, key: &KeyOf<K>) -> Result<HomeLineFind<V>> {
        let fingerprint = search.fingerprint();
        let states = States::load(&search.line, LayoutOf::<K, V>::SLOTS);
        let written = states.written_or_free(fingerprint);
        // If no slot may hold the key, any slot is compared, and the result is ignored.
        let slot = self.slot_of(
            search,
            (written | 1 << (LayoutOf::<K, V>::SLOTS - 1)).trailing_zeros(),
        );
        let is_ready = slot.load_state()?.is_ready_with(fingerprint);
        let is_held = is_ready & slot.has_key(key, self.heap())?;
        // The state was read before the word. It has no version to check again.
        let word = <V::Repr as Repr<V>>::from_slot(slot.load_word()?, self.heap())?;
        // A slot with the key's fingerprint that does not hold the key, or not now, says nothing
        // about other slots. A line without all its slots has positions that only look free.
        let is_absent = (written == 0) & (states.free() != 0) & (search.tag & 1 != 0);
        Ok(HomeLineFind {
            value: select_unpredictable(is_held, Some(word), None),
            is_conclusive: is_held | is_absent,
        })
    }

    /// Completes the deferred searches, one by one, each from its beginning.
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

type LocalSlot<'a, K, V, L, M> = GlobalSlot<K, V, Local<'a, L, M>>;
