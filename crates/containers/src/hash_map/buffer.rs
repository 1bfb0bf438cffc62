//! Inserts that are collected for the ranks that hold their places, and done there.

use std::fmt;
use std::sync::Arc;

use pgas_core::collective::op::{Min, Sum};
use pgas_core::{Rank, World};

use super::HashMap;
use super::ahead::Ahead;
use super::hash::RapidHasher;
use super::left::Left;
use super::phase::{Atomic, Local, Phase};
use crate::object::{self, KeyHasher, Object, SlotOf};
use crate::{Distributor, Result, distributor};

/// Inserts into a [`HashMap`] that travel together: each entry goes to the rank that its place is on, with many others
/// for the same rank, and is inserted there by that rank itself, without atomics, while the places of the next ones are on their
/// way into its cache. Small entries of a map whose memory is all near, that of one host, have no way to go: the inserting rank does it,
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
    /// By this rank, since all places are near.
    Near(Box<Ahead<K, V>>),
    /// By the rank that holds the place.
    Sent(Box<Distributor<(K, V)>>),
}

/// What has come for this rank, and where it goes.
struct Target<K: Object, V: Object, F, S> {
    map: HashMap<K, V, Local, S>,
    combine: F,
    /// As they came, and what they are.
    slots: Vec<SlotOf<(K, V)>>,
    entries: Vec<(K, V)>,
    left: Left<K, V>,
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
        let (heap, left, entries) = (from.heap(), &mut self.left, &mut self.entries);
        // In place: nearly always all of them are entries.
        self.slots
            .retain(|slot| match object::from_slot(*slot, heap) {
                Ok(entry) => {
                    entries.push(entry);
                    true
                }
                Err(why) => {
                    left.give_up(slot, why, heap);
                    false
                }
            });
        let combine = &mut self.combine;
        self.map.apply(entries, &self.slots, combine, left);
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
        let is_near = map.table.view_quick().is_some();
        let way = if map.world().allreduce(u64::from(is_near), Min)? == 1 {
            distributor::agree_on_capacity(map.world(), capacity)?;
            Way::Near(Box::new(Ahead::new()))
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
            entries: Vec::new(),
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
    /// ℓ, and once for every 32 KiB for one rank 2A + W, as [`Distributor::send`]. One-sided. Waits for room in the
    /// other rank's inbox, and does what is in this rank's own one meanwhile. Small entries into near memory: that of an
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
            Way::Near(ahead) => {
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
            Way::Near(ahead) => {
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
