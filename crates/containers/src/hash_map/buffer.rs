//! Buffered inserts: entries are collected by home rank, sent together, and inserted there.

use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use pgas_core::collective::op::Min;
use pgas_core::{Team, World};

use super::HashMap;
use super::batch::local::{AHEAD, pipelined};
use super::hash::{Hash, RapidHasher};
use super::phase::{Atomic, Local, Phase};
use super::slot::Access;
use super::table::{dispatch_locality, dispatch_own_slots};
use super::unplaced::Unplaced;
use super::view::{LocalView, View};
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{ChangeError, Distributor, Error, Result, distributor};

/// Buffered inserts into a [`HashMap`]. An entry travels to its home rank, with many others, and
/// that rank inserts it without atomics, while the slots of the next entries are prefetched into
/// its cache. If all memory of the map is local, as on one host, small entries are not sent: the
/// calling rank inserts them itself, with prefetched slots.
///
/// While a map is in a buffer nobody else uses it: the buffer takes it, and
/// [`into_map`](Self::into_map) gives it back. If the key of an entry is present, its value is
/// combined with that of the entry, by a function that all ranks give.
///
/// Nothing is lost and nothing comes twice, whatever the sizes of buffer, inboxes and map: a rank
/// that meets a full inbox empties its own one first, and a map that is too small grows at
/// [`flush`](Self::flush). A rank that neither inserts nor flushes for long holds up the ranks that
/// send to it, so a rank without further inserts flushes before it waits for anything else.
///
/// # Examples
///
/// ```
/// use pgas_containers::{HashMap, HashMapBuffer};
///
/// # let world = pgas_core::backend::loopback::world();
/// let counts = HashMap::<String, u64>::with_capacity(&world, 10)?;
/// let mut buffer = HashMapBuffer::new(counts, 1 << 10, |there, more| there + more)?; // collective
/// for word in "to be or not to be".split(' ') {
///     buffer.insert(word.to_owned(), 1)?;
/// }
/// let counts = buffer.into_map()?; // collective
/// assert_eq!(counts.find(&"be".to_owned())?, Some(2));
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// After a flush the entries are in the map, and the buffer goes on:
///
/// ```
/// use pgas_containers::{HashMap, HashMapBuffer};
///
/// # let world = pgas_core::backend::loopback::world();
/// let sums = HashMap::<u64, u64>::with_capacity(&world, 100)?;
/// let mut buffer = HashMapBuffer::new(sums, 10, |there, more| there + more)?; // collective
/// for i in 0..50 {
///     buffer.insert(i % 5, i)?;
/// }
/// buffer.flush()?; // collective
/// assert_eq!(buffer.world().n_ranks(), buffer.team().n_ranks());
/// buffer.insert(0, 1000)?;
/// assert_eq!(buffer.into_map()?.find(&0)?, Some(225 + 1000));
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct HashMapBuffer<K: Object, V: Object, F, S = RapidHasher> {
    distributor: Shipping<K, V>,
    target: Target<K, V, F, S>,
}

/// Sends entries to their home ranks. `None` on all ranks if all slots are local.
type Shipping<K, V> = Option<Box<Distributor<(K, V)>>>;

/// Entries that are inserted together if they are not sent.
const INSERTED_TOGETHER: usize = 1024;

/// The map, and the entries that this rank inserts.
struct Target<K: Object, V: Object, F, S> {
    map: HashMap<K, V, Local, S>,
    combine: F,
    /// Encoded entries that wait, in order of arrival.
    slots: Vec<SlotOf<(K, V)>>,
    unplaced: Unplaced<K, V>,
}

impl<K, V, F, S> Target<K, V, F, S>
where
    K: Object,
    V: Object,
    F: FnMut(V, V) -> V,
    S: KeyHasher,
{
    /// Buffers an entry for local memory, and inserts all when there are enough.
    #[inline]
    fn keep(&mut self, key: K, value: V) -> Result<()> {
        let slot = object::to_slot(&(key, value), self.map.table.heap())?;
        self.slots.push(slot);
        if self.slots.len() >= INSERTED_TOGETHER {
            self.insert_all(false);
        }
        Ok(())
    }

    /// Inserts the waiting entries: into the slots of this rank, which no other one accesses, if
    /// they `are_own`, else into those of all ranks, as others do meanwhile.
    #[inline(never)]
    fn insert_all(&mut self, are_own: bool) {
        let Self {
            map,
            combine,
            slots,
            unplaced,
        } = self;
        let (table, waiting) = (&map.table, &slots[..]);
        let n_new = if are_own {
            dispatch_own_slots!(table, |view| view.insert_each(waiting, combine, unplaced))
        } else {
            dispatch_locality!(table, |view| view.insert_each(waiting, combine, unplaced))
        };
        slots.clear();
        table.counts.count_new(n_new);
    }

    /// Inserts the entries that have arrived for this rank. Returns their number.
    fn insert_received(&mut self, from: &mut Distributor<(K, V)>) -> Result<u64> {
        let received = from.receive_into(&mut self.slots);
        self.insert_all(true);
        received
    }

    /// Collects the entry for `home` that found no room: first sends those collected before, and
    /// inserts those that have arrived meanwhile.
    #[inline(never)]
    #[track_caller]
    fn ship_before(&mut self, distributor: &mut Distributor<(K, V)>, home: u32) -> Result<()> {
        let _waits = pgas_core::part_of("an insert into a buffer");
        let is_sent = distributor.ship_before(home, &mut |from| self.insert_received(from))?;
        // This entry is accepted. Failures of arrived entries are reported by the next flush.
        if is_sent && let Err(error) = self.insert_received(distributor) {
            self.unplaced.note(error);
        }
        Ok(())
    }

    /// Inserts the unplaced entries of all ranks, and grows the map for their keys as far as there
    /// is memory. Returns whether there were any, and the number of ranks that have failed. If the
    /// ranks' keys `are_shared`, different ranks may hold the same keys. Collective.
    #[track_caller]
    fn insert_unplaced(&mut self, are_shared: bool) -> Result<(bool, u64)> {
        let mut former = None;
        loop {
            let (n, n_keys) = (self.unplaced.entries.len() as u64, self.unplaced.n_keys());
            let mine = [n, n_keys, n_keys, self.unplaced.has_failed().into()];
            let sums_and_most = |a: [u64; 4], b: [u64; 4]| {
                let [n, sum, most, failed] = a;
                [n + b[0], sum + b[1], most.max(b[2]), failed + b[3]]
            };
            let [n, all, most, n_failed] = self.map.team().allreduce(mine, sums_and_most)?;
            if n == 0 || former.is_some_and(|former| n >= former) {
                return Ok((former.is_some(), n_failed));
            }
            if former.is_none() {
                // Wait until each rank has completed writes to its own shard.
                self.map.team().barrier_within()?;
            }
            former = Some(n);
            let n_keys = self.map.table.n_keys()?;
            let n_taken = self.map.table.n_taken(n_keys)?;
            let more = if are_shared { most } else { all };
            let wanted = n_keys[0].saturating_add(more);
            // Removed keys hold slots, too, until the slots are replaced.
            if n_taken.saturating_add(more) > self.map.capacity() / 4 * 3 {
                self.map.make_room(wanted)?;
            }
            self.slots = self.unplaced.take();
            self.insert_all(false);
        }
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Inserts the entries in `slots`, in their order, and returns the number of new keys. Entries
    /// that find no slot here go to `unplaced`, and those at which a function of the program
    /// panics, too.
    fn insert_each(
        &self,
        slots: &[SlotOf<(K, V)>],
        combine: &mut impl FnMut(V, V) -> V,
        unplaced: &mut Unplaced<K, V>,
    ) -> u64 {
        let mut n_new = 0;
        let mut first = 0;
        while first < slots.len() {
            // The next entry, and whether its insert has begun.
            let (mut next, mut has_begun) = (first, false);
            let insert = || {
                let begin = |i| Some(self.seek(&slots[first + i]));
                pipelined(
                    slots.len() - first,
                    begin,
                    |i, sought| -> Result<_, Infallible> {
                        let sought = sought.expect("each entry is begun");
                        (next, has_begun) = (first + i, true);
                        let slot = &slots[next];
                        n_new += u64::from(self.insert_or_keep(slot, sought, combine, unplaced));
                        (next, has_begun) = (next + 1, false);
                        Ok(())
                    },
                )
            };
            let Err(panic) = catch_unwind(AssertUnwindSafe(insert)) else {
                break;
            };
            unplaced.note_panic(panic);
            // Another attempt would fail, too.
            if has_begun {
                unplaced.release(&slots[next], self.heap());
                first = next + 1;
                continue;
            }
            // It was the hasher, at an entry that was begun ahead.
            first = slots.len().min(next + AHEAD + 1);
            for slot in &slots[next..first] {
                n_new += u64::from(self.insert_alone(slot, combine, unplaced));
            }
        }
        n_new
    }

    /// As [`insert_each`](Self::insert_each), for one entry. Returns whether its key was new.
    #[cold]
    fn insert_alone(
        &self,
        slot: &SlotOf<(K, V)>,
        combine: &mut impl FnMut(V, V) -> V,
        unplaced: &mut Unplaced<K, V>,
    ) -> bool {
        let insert = || self.insert_or_keep(slot, self.seek(slot), combine, unplaced);
        catch_unwind(AssertUnwindSafe(insert)).unwrap_or_else(|panic| {
            unplaced.note_panic(panic);
            unplaced.release(slot, self.heap());
            false
        })
    }

    /// The decoded key of the entry in `slot`, and its hash, whose slots are prefetched.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the first half of an insert")]
    fn seek(&self, slot: &SlotOf<(K, V)>) -> Result<(Hash, KeyOf<K>)> {
        let key = <K::Repr as Repr<K>>::load(slot.members().0, self.heap())?;
        let hash = self.hash(&key);
        self.prefetch(hash);
        Ok((hash, key))
    }

    /// Inserts the entry in `slot`. `sought` is its decoded key and hash. Returns whether the key
    /// was new.
    #[inline(always)]
    fn insert_or_keep(
        &self,
        slot: &SlotOf<(K, V)>,
        sought: Result<(Hash, KeyOf<K>)>,
        combine: &mut impl FnMut(V, V) -> V,
        unplaced: &mut Unplaced<K, V>,
    ) -> bool {
        let heap = self.heap();
        let (hash, key) = match sought {
            Ok(sought) => sought,
            Err(why) => {
                unplaced.give_up(slot, why, heap);
                return false;
            }
        };
        if unplaced.keep_behind(hash, slot) {
            return false;
        }
        // Of local slots the steps are counted, if anything is.
        if !R::IS_LOCAL {
            self.shape.world().count_local();
        }
        let folded = self.fold(hash, &key, |there| {
            let value = object::from_slot::<V>(slot.members().1, heap)?;
            let value = match there {
                Some(there) => combine(there, value),
                None => value,
            };
            object::to_slot(&value, heap)
        });
        match folded {
            Ok(was_there) => {
                if const { object::has_heap::<(K, V)>() } {
                    unplaced.release(slot, heap);
                }
                return !was_there;
            }
            Err(why @ Error::Codec(_)) => unplaced.give_up(slot, why, heap),
            Err(why) => unplaced.keep(hash, slot, why),
        }
        false
    }
}

impl<K, V, F, S> HashMapBuffer<K, V, F, S>
where
    K: Object,
    V: Object,
    F: FnMut(V, V) -> V,
    S: KeyHasher,
{
    /// A buffer for inserts into `map`, with room for `capacity` entries in the inbox of each rank.
    ///
    /// `combine(present, inserted)` returns the new value of a key. It is called again if another
    /// rank changed the value meanwhile.
    ///
    /// # Cost
    ///
    /// 4B + 5 allreduces. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`Distributor::with_capacity`] and [`HashMap::into_local_phase`], with the map as it was.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::{HashMap, HashMapBuffer};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let counts = HashMap::<u64, u64>::with_capacity(&world, 10)?;
    /// counts.insert(&1, 7)?;
    /// // An inbox without room.
    /// let refused = HashMapBuffer::new(counts, 0, |there, more| there + more).unwrap_err();
    /// assert_eq!(refused.container.find(&1)?, Some(7));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn new<P: Phase>(
        mut map: HashMap<K, V, P, S>,
        capacity: usize,
        combine: F,
    ) -> Result<Self, ChangeError<HashMap<K, V, P, S>>> {
        let distributor = match Self::begin(&mut map, capacity) {
            Ok(distributor) => distributor,
            Err(error) => return Err(ChangeError::new(map, error)),
        };
        let target = Target {
            map: map.in_phase(),
            combine,
            slots: Vec::new(),
            unplaced: Unplaced::new(),
        };
        Ok(Self {
            distributor,
            target,
        })
    }

    /// Makes the distributor, if entries are sent, and begins the map's local phase.
    #[track_caller]
    fn begin<P: Phase>(map: &mut HashMap<K, V, P, S>, capacity: usize) -> Result<Shipping<K, V>> {
        let is_small = LocalView::<'_, K, V, S>::HAS_LINES && !object::has_heap::<(K, V)>();
        let is_local = is_small && map.table.is_local();
        let all_are_local = map.team().allreduce(u64::from(is_local), Min)? == 1;
        let plan = distributor::agree_on_plan(map.team(), capacity)?;
        let distributor = if all_are_local {
            None
        } else {
            // Entries share the map's heap: the inserting rank releases their heap memory.
            let heap = Arc::clone(&map.table.shape.heap);
            Some(Box::new(Distributor::with_heap(map.team(), plan, heap)?))
        };
        map.begin_phase::<Local>()?;
        Ok(distributor)
    }

    /// The world whose ranks share the map.
    #[must_use]
    pub fn world(&self) -> &World {
        self.target.map.world()
    }

    /// The team whose members share the map: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.target.map.team()
    }

    /// Inserts `value` under `key`, at the latest when all ranks [flush](Self::flush).
    ///
    /// # Cost
    ///
    /// ℓ, and once for every 32 KiB for one rank 2A + W, as [`Distributor::send`]. One-sided; or M
    /// without an answer. Waits for room in the other rank's inbox, and inserts the entries of its
    /// own one meanwhile. Small entries into local memory: that of an [`upsert`](HashMap::upsert).
    /// Complete after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`Distributor::send`]; then this entry, and no other one, is refused. Errors of accepted
    /// entries are returned by [`flush`](Self::flush).
    #[inline]
    #[track_caller]
    pub fn insert(&mut self, key: K, value: V) -> Result<()> {
        let Self {
            distributor,
            target,
        } = self;
        let Some(distributor) = distributor else {
            return target.keep(key, value);
        };
        let home = target.map.home_member(&key)?;
        if distributor.collect(home, &(key, value))? {
            return Ok(());
        }
        target.ship_before(distributor, home)
    }

    /// Completes all inserts of all ranks.
    ///
    /// # Cost
    ///
    /// An allreduce, and that of [`Distributor::finish`]. If something fails, an allreduce more. If
    /// keys have found no place on their home ranks: 2B + 3 allreduces more, and 3A + W for each
    /// entry of these keys; and that of a [`resize`](HashMap::resize) if three quarters of the
    /// slots are taken then. Where ranks insert small entries into local memory, the map may grow
    /// several times. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank, with [`Elsewhere`](pgas_core::Error::Elsewhere) on ranks that have not failed
    /// themselves:
    ///
    /// - [`Error::Full`](crate::Error::Full) if the map is full and there is no memory to make it
    ///   larger, and [`Exhausted`](pgas_core::Error::Exhausted) if there is none for an entry.
    ///   Entries without a slot stay in the buffer until the next flush.
    /// - [`Error::Codec`](crate::Error::Codec) if an entry cannot be read by the rank that inserts
    ///   it, or cannot be encoded after it was combined. Such an entry is given up, and all others
    ///   are inserted.
    /// - Errors of the transport; the failure of the job while waiting. In a handler
    ///   [`InHandler`](pgas_core::Error::InHandler), without effect.
    ///
    /// # Panics
    ///
    /// If the combining function or the hasher has panicked for an entry since the last flush: the
    /// rank on which it did so resumes that panic, and the others get an error. Such an entry is
    /// given up, and all others are inserted.
    #[track_caller]
    pub fn flush(&mut self) -> Result<()> {
        const WHAT: &str = "a flush of a buffer of inserts";
        let _waits = pgas_core::part_of_object(WHAT, self.target.map.identity());
        pgas_core::refuse_in_handler(WHAT)?;
        let world = self.world().clone();
        // Handlers and chained actions run meanwhile, and may panic.
        let step = world.in_step(WHAT);
        let Self {
            distributor,
            target,
        } = self;
        if let Some(distributor) = distributor {
            // Take part even after a failure: the other ranks wait for this rank's part of the
            // round.
            if let Err(error) = distributor.finish_round(&mut |from| target.insert_received(from)) {
                target.unplaced.note(error);
            }
        } else {
            target.insert_all(false);
        }
        let (had_unplaced, n_failed) = target.insert_unplaced(distributor.is_none())?;
        if !had_unplaced && n_failed == 0 {
            return Ok(());
        }
        let (outcome, panic) = target.unplaced.outcome();
        let team = target.map.team();
        let agreed = team.all_succeeded(WHAT, outcome);
        let all_are_done = if had_unplaced {
            team.barrier_within()
        } else {
            Ok(())
        };
        drop(step);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        agreed?;
        all_are_done
    }

    /// Completes all inserts of all ranks, and gives the map back.
    ///
    /// # Cost
    ///
    /// That of a [`flush`](Self::flush), and 2B + an allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush). On every rank the error has the buffer, with the map and the
    /// entries without a slot: when there is memory for them, call `into_map` again.
    ///
    /// # Panics
    ///
    /// As [`flush`](Self::flush); then the map is lost on the rank that panics. To keep it, flush
    /// first, and catch the panic there.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::{ChangeError, HashMap, HashMapBuffer, Result};
    ///
    /// /// The map, for which `others` make room if they have to.
    /// fn map_of<F: FnMut(u64, u64) -> u64>(
    ///     buffer: HashMapBuffer<u64, u64, F>,
    ///     others: HashMap<u64, u64>,
    /// ) -> Result<HashMap<u64, u64>> {
    ///     match buffer.into_map() {
    ///         Ok(map) => Ok(map),
    ///         Err(ChangeError { container: buffer, .. }) => {
    ///             drop(others);
    ///             Ok(buffer.into_map()?)
    ///         }
    ///     }
    /// }
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let [others, counts] =
    /// #     [(); 2].map(|()| HashMap::<u64, u64>::with_capacity(&world, 10).unwrap());
    /// # let mut buffer = HashMapBuffer::new(counts, 8, |there, more| there + more)?;
    /// # buffer.insert(1, 2)?;
    /// # assert_eq!(map_of(buffer, others)?.find(&1)?, Some(2));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn into_map(mut self) -> Result<HashMap<K, V, Atomic, S>, ChangeError<Self>> {
        match self.finish() {
            Ok(()) => Ok(self.target.map.in_phase()),
            Err(error) => Err(ChangeError::new(self, error)),
        }
    }

    #[track_caller]
    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        if let Some(distributor) = &mut self.distributor {
            distributor.end();
        }
        self.target.map.begin_phase::<Atomic>()
    }
}

impl<K: Object, V: Object, F, S> fmt::Debug for HashMapBuffer<K, V, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashMapBuffer before {:?}", self.target.map)
    }
}
