//! Inserts that are collected for the ranks that hold their places, and done there.

use std::convert::Infallible;
use std::fmt;
use std::mem;
use std::sync::Arc;

use pgas_core::collective::op::{Min, Sum};
use pgas_core::{Rank, World};

use zerocopy::FromZeros as _;

use super::HashMap;
use super::batch::local::{AHEAD, Ring, each_ahead};
use super::hash::{Hash, RapidHasher};
use super::left::Left;
use super::phase::{Atomic, Local, Phase};
use super::slot::Access;
use super::table::{LocalView, Table, over_slots};
use super::view::View;
use crate::object::{self, KeyHasher, KeyOf, Object, SlotOf};
use crate::{Distributor, Result, distributor};

/// Inserts into a [`HashMap`] that travel together: each entry goes to the rank that its place is
/// on, with many others for the same rank, and is inserted there by that rank itself, without
/// atomics, while the places of the next ones are on their way into its cache. Small entries of a
/// map whose memory is all local, that of one host, have no way to go: the inserting rank does it,
/// while the places of the next ones are on their way into its cache.
///
/// While a map is in a buffer nobody else uses it: the buffer takes it, and gives it back
/// by [`into_map`](Self::into_map). An entry whose key is there is combined with the value that is, by a function that all
/// ranks give.
///
/// Nothing is lost and nothing comes twice, whatever the sizes of buffer, inboxes and map: a rank that meets a full
/// inbox does what is in its own one first, and a map that is too small grows at [`flush`](Self::flush). A rank that neither
/// inserts nor flushes for long holds up those that send to it, so a rank that has inserted all flushes, before it waits for anything else.
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
pub struct HashMapBuffer<K: Object, V: Object, F, S = RapidHasher> {
    way: Way<K, V>,
    target: Target<K, V, F, S>,
}

/// How entries come to their places; the same on all ranks.
enum Way<K: Object, V: Object> {
    /// By this rank, since all places are local.
    Local(Box<Ahead<K, V>>),
    /// By the rank that holds the place.
    Sent(Box<Distributor<(K, V)>>),
}

/// What has come for this rank, and where it goes.
struct Target<K: Object, V: Object, F, S> {
    map: HashMap<K, V, Local, S>,
    combine: F,
    /// As they came.
    slots: Vec<SlotOf<(K, V)>>,
    left: Left<K, V>,
}

/// An entry that waits while its place is on its way into the cache.
#[derive(Clone, Copy)]
struct Entry<S> {
    hash: Hash,
    /// The key and the value.
    slot: S,
}

/// Entries that wait, in the order in which they came.
struct Ahead<K: Object, V: Object> {
    ring: Ring<Entry<SlotOf<(K, V)>>>,
    /// How many have come.
    n_begun: usize,
    /// How many of them wait no more.
    n_done: usize,
    /// Keys that were new, and are not counted yet.
    n_new: u64,
}

impl<K: Object, V: Object> Ahead<K, V> {
    fn new() -> Self {
        let nothing = Entry {
            hash: Hash::default(),
            slot: SlotOf::<(K, V)>::new_zeroed(),
        };
        Self {
            ring: Ring::new(|_| nothing),
            n_begun: 0,
            n_done: 0,
            n_new: 0,
        }
    }

    /// Begins the insert of an entry, or else fails and has nothing to do with it; and ends one
    /// that has waited long enough. That one goes to `left` if it fails.
    #[inline(always)]
    fn insert<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        (key, value): (K, V),
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) -> Result<()> {
        let hash = Hash::of::<K>(&object::key(&key)?, &*table.hasher);
        if let Some(all) = &table.local {
            all.share(hash.bits()).block.prefetch(0);
        }
        let slot = object::to_slot(&(key, value), &table.heap)?;
        let former = self.ring.turn(self.n_begun, Entry { hash, slot });
        self.n_begun += 1;
        if self.n_begun - self.n_done > AHEAD {
            self.n_done += 1;
            self.end(table, former, combine, left);
        }
        Ok(())
    }

    /// Ends all inserts that were begun. Those that fail go to `left`, the others are done all the
    /// same.
    fn end_all<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) {
        while self.n_done < self.n_begun {
            let entry = self.ring.get(self.n_done);
            self.n_done += 1;
            self.end(table, entry, combine, left);
        }
        table.count_new(mem::take(&mut self.n_new));
    }

    #[inline(always)]
    fn end<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        Entry { hash, slot }: Entry<SlotOf<(K, V)>>,
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) {
        let heap = &*table.heap;
        let mut insert = || {
            let (key, value) = object::from_slot::<(K, V)>(slot, heap)?;
            let (key, value) = (object::key(&key)?, object::to_slot(&value, heap)?);
            let combine = |there| {
                let (_, value) = object::from_slot::<(K, V)>(slot, heap)?;
                Ok(combine(there, value))
            };
            over_slots!(table, |view| view.upsert(hash, &key, value, combine))
        };
        match insert() {
            Ok(there) => self.n_new += u64::from(there.is_none()),
            // It is tried again, and kept if it fails again.
            Err(_) => left.insert_or_keep(table, hash, slot, combine),
        }
    }
}

/// What has come from other ranks.
impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Combines what is there with each of the entries in `slots`, and returns how many keys were
    /// new. What is not done stays in `left`: entries whose place is not on this rank, and those
    /// that fail.
    fn apply(
        &self,
        slots: &[SlotOf<(K, V)>],
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) -> u64 {
        let mut n_new = 0;
        let begin = |i: usize| Some(self.arrive(slots[i]));
        let Ok(()) = each_ahead(slots.len(), begin, |i, begun| -> Result<_, Infallible> {
            let slot = slots[i];
            match begun.expect("each entry is begun") {
                Err(why) => left.give_up(&slot, why, self.heap),
                Ok((hash, key, _)) if left.follows(hash, &key, slot) => {}
                Ok((hash, key, value)) => match self.combine(hash, &key, value, combine) {
                    Ok(Some(is_new)) => {
                        n_new += u64::from(is_new);
                        if const { object::has_heap::<(K, V)>() } {
                            left.release(&slot, self.heap);
                        }
                    }
                    // Why it fails is told when it is tried again, at the end of the round, and
                    // fails again.
                    Ok(None) | Err(_) => left.keep(hash, key, slot),
                },
            }
            Ok(())
        });
        n_new
    }

    /// Reads an entry, and asks for its place.
    fn arrive(&self, slot: SlotOf<(K, V)>) -> Result<(Hash, KeyOf<K>, V)> {
        let (key, value) = object::from_slot::<(K, V)>(slot, self.heap)?;
        let key = object::key(&key)?;
        let hash = self.hash(&key);
        R::prefetch(self.all, hash.bits());
        Ok((hash, key, value))
    }

    /// Combines what is there with `value`, and returns whether the key is new, if its place is on
    /// this rank.
    fn combine(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        value: V,
        combine: &mut impl FnMut(V, V) -> V,
    ) -> Result<Option<bool>> {
        // Where operations are counted no slot is local.
        if !R::IS_LOCAL {
            self.world.count_local();
        }
        let changed = self.change(hash, key, |former, heap| {
            let value = match former {
                Some(former) => combine(object::from_slot::<V>(former, heap)?, value),
                None => value,
            };
            object::to_slot(&value, heap).map(Some)
        })?;
        Ok(changed.map(|(was_there, _)| !was_there))
    }
}

impl<K, V, F, S> Target<K, V, F, S>
where
    K: Object,
    V: Object,
    F: FnMut(V, V) -> V,
    S: KeyHasher,
{
    /// Inserts what has come; how many entries that is.
    fn take(&mut self, from: &mut Distributor<(K, V)>) -> Result<u64> {
        self.slots.clear();
        let received = from.receive_into(&mut self.slots);
        let (table, slots) = (&self.map.table, &self.slots);
        let (combine, left) = (&mut self.combine, &mut self.left);
        let n_new = over_slots!(table, |view| view.apply(slots, combine, left));
        table.count_new(n_new);
        received
    }

    /// Ships what is collected for `home` before this entry, and takes what has come meanwhile.
    #[cold]
    #[track_caller]
    fn ship_before(
        &mut self,
        distributor: &mut Distributor<(K, V)>,
        home: Rank,
        slot: SlotOf<(K, V)>,
    ) -> Result<()> {
        if let Err(error) = distributor.ship(home, &mut |from| self.take(from)) {
            self.left.release(&slot, distributor.heap());
            return Err(error);
        }
        assert!(distributor.collect(home, slot), "there is room now");
        // This entry will be inserted, whatever becomes of those that have come.
        if let Err(error) = self.take(distributor) {
            self.left.note(error);
        }
        Ok(())
    }

    /// Makes room for what is left on all ranks, of `n_left` keys, and inserts it. Collective.
    fn insert_left(&mut self, n_left: u64) -> Result<()> {
        let [n_keys, n_removed] = self.map.table.counts()?;
        let wanted = n_keys.saturating_add(n_left);
        // Keys that were removed hold slots too, until there are others.
        if wanted.saturating_add(n_removed) > self.map.capacity() / 4 * 3 {
            self.map.make_room(wanted)?;
        }
        self.left.insert_all(&self.map.table, &mut self.combine);
        Ok(())
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
    /// `combine` makes one value of that which is there and that which is inserted. It is called again where another rank changed
    /// the value meanwhile.
    ///
    /// # Cost
    ///
    /// 4B + 6 allreduces. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`Distributor::with_capacity`] and [`HashMap::into_local_phase`].
    pub fn new<P: Phase>(map: HashMap<K, V, P, S>, capacity: usize, combine: F) -> Result<Self> {
        let is_small = LocalView::<'_, K, V, S>::HAS_LINES && !object::has_heap::<(K, V)>();
        let is_local = is_small && map.table.local.is_some();
        let way = if map.world().allreduce(u64::from(is_local), Min)? == 1 {
            distributor::agree_on_capacity(map.world(), capacity)?;
            Way::Local(Box::new(Ahead::new()))
        } else {
            let size = distributor::agree_on_capacity(map.world(), capacity)?;
            // What lies outside of the slots that are sent is given back by who has the map.
            let heap = Arc::clone(&map.table.heap);
            Way::Sent(Box::new(Distributor::with_heap(map.world(), size, heap)?))
        };
        let map = map.into_local_phase()?;
        let target = Target {
            map,
            combine,
            slots: Vec::new(),
            left: Left::new(),
        };
        Ok(Self { way, target })
    }

    /// The world whose ranks share the map.
    #[must_use]
    pub fn world(&self) -> &World {
        self.target.map.world()
    }

    /// Inserts `value` under `key`, at the latest when all ranks [flush](Self::flush).
    ///
    /// # Cost
    ///
    /// ℓ, and once for every 32 KiB for one rank 2A + W, as [`Distributor::send`]. One-sided. Waits
    /// for room in the other rank's inbox, and does what is in this rank's own one meanwhile. Small
    /// entries into local memory: that of an
    /// [`upsert`](HashMap::upsert). Complete after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`Distributor::send`]; then this entry, and no other one, is refused. What becomes of those that were
    /// accepted is told by [`flush`](Self::flush).
    #[inline]
    #[track_caller]
    pub fn insert(&mut self, key: K, value: V) -> Result<()> {
        let Self { way, target } = self;
        match way {
            Way::Local(ahead) => {
                let Target {
                    map, combine, left, ..
                } = target;
                ahead.insert(&map.table, (key, value), combine, left)
            }
            Way::Sent(distributor) => {
                let home = target.map.home(&key)?;
                let slot = distributor.slot_of(&(key, value))?;
                if distributor.collect(home, slot) {
                    return Ok(());
                }
                target.ship_before(distributor, home, slot)
            }
        }
    }

    /// Completes all inserts of all ranks.
    ///
    /// # Cost
    ///
    /// 4B + 3 allreduces, and for each rank A, and 2A + W if something is left for it; 3A + W for each key that has found no place on its
    /// home rank; that of a [`resize`](HashMap::resize) if three quarters of the slots are taken. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank, [`Elsewhere`](pgas_core::Error::Elsewhere) in [`Error::Core`](crate::Error::Core) on those that have not failed
    /// themselves:
    ///
    /// - [`Error::Full`](crate::Error::Full) if the map is full and there is no memory to make it larger, and
    ///   [`Exhausted`](pgas_core::Error::Exhausted) in [`Error::Core`](crate::Error::Core) if there is none for an entry. What has no
    ///   place stays in the buffer, until the next flush.
    /// - [`Error::Codec`](crate::Error::Codec) if an entry cannot be read where it has come, or cannot be encoded after it was
    ///   combined. Such an entry is given up, and all others are inserted.
    /// - What the transport reports; the failure of the job while waiting.
    #[track_caller]
    pub fn flush(&mut self) -> Result<()> {
        let _waits = pgas_core::part_of("a flush of a buffer of inserts");
        // Whatever fails on this rank, the others wait for its part of the round.
        let Self { way, target } = self;
        let ended = match way {
            Way::Local(ahead) => {
                let Target {
                    map, combine, left, ..
                } = &mut *target;
                ahead.end_all(&map.table, combine, left);
                Ok(())
            }
            Way::Sent(distributor) => distributor.next_round(&mut |from| target.take(from)),
        };
        if let Err(error) = ended {
            target.left.note(error);
        }
        let world = target.map.world().clone();
        let n_left = world.allreduce(target.left.n_keys(), Sum)?;
        if n_left > 0 {
            target.insert_left(n_left)?;
        }
        let what = "a flush of a buffer of inserts";
        world.team().all_succeeded(what, target.left.outcome())?;
        if n_left > 0 {
            world.barrier()?;
        }
        Ok(())
    }

    /// Completes all inserts of all ranks, and gives the map back.
    ///
    /// # Cost
    ///
    /// That of a [`flush`](Self::flush), and 2B + an allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush); what is left then is lost.
    #[track_caller]
    pub fn into_map(mut self) -> Result<HashMap<K, V, Atomic, S>> {
        self.flush()?;
        self.target.map.into_atomic_phase()
    }
}

impl<K: Object, V: Object, F, S> fmt::Debug for HashMapBuffer<K, V, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashMapBuffer before {:?}", self.target.map)
    }
}
