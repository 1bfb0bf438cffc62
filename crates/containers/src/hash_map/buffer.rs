//! Inserts that are collected for the ranks that hold their places, and done there.

use std::fmt;

use pgas_core::{Rank, World};

use super::HashMap;
use super::hash::RapidHasher;
use super::phase::{Atomic, Local, Phase};
use crate::object::{KeyHasher, Object, SlotOf};
use crate::{Distributor, Error, Result};

/// Inserts into a [`HashMap`] that travel together: each entry goes to the rank that its place is on, with many others
/// for the same rank, and is inserted there by that rank itself, without atomics, while the places of the next ones are on their
/// way into its cache.
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
    distributor: Distributor<(K, V)>,
    target: Target<K, V, F, S>,
}

/// What has come for this rank, and where it goes.
struct Target<K: Object, V: Object, F, S> {
    map: HashMap<K, V, Local, S>,
    combine: F,
    /// As they came.
    slots: Vec<SlotOf<(K, V)>>,
    entries: Vec<(K, V)>,
    /// Those that have found no place on the rank where their search began, and all after a failure.
    strays: Vec<(K, V)>,
    /// The first one, until somebody is told of it.
    failure: Option<Error>,
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
        let n = from.receive_into(&mut self.slots)?;
        let applied = self
            .map
            .apply_quickly(&self.slots, &mut self.combine, &mut self.strays)?;
        if applied.is_some() {
            return Ok(n);
        }
        for &slot in &self.slots {
            match from.value_of(slot) {
                Ok(entry) => self.entries.push(entry),
                Err(error) => self.failure = self.failure.take().or(Some(error)),
            }
        }
        if self.failure.is_some() {
            self.strays.append(&mut self.entries);
            return Ok(n);
        }
        let applied = self
            .map
            .apply(&mut self.entries, &mut self.combine, &mut self.strays);
        self.failure = applied.err();
        Ok(n)
    }

    /// What has failed since it was asked.
    fn outcome(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// By the operations that any rank may use at any time.
    fn insert_strays(&mut self) -> Result<()> {
        while let Some((key, value)) = self.strays.last() {
            // The value may be needed again if another rank comes in between, so each time it is read back as a copy.
            let slot = crate::object::to_slot::<V>(value, &self.map.table.heap)?;
            let (mut failed, heap) = (None, &*self.map.table.heap);
            let combine = &mut self.combine;
            let upserted =
                self.map.table.upsert(
                    key,
                    value,
                    &mut |there| match crate::object::from_slot::<V>(slot, heap) {
                        Ok(value) => combine(there, value),
                        Err(error) => {
                            failed = Some(error);
                            there
                        }
                    },
                );
            crate::object::release::<V>(&slot, heap)?;
            upserted?;
            if let Some(error) = failed {
                return Err(error);
            }
            self.strays.pop();
        }
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
    /// `combine` makes one value of that which is there and that which is inserted.
    ///
    /// # Cost
    ///
    /// 4B + 5 allreduces. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`Distributor::with_capacity`] and [`HashMap::into_local_phase`].
    pub fn new<P: Phase>(map: HashMap<K, V, P, S>, capacity: usize, combine: F) -> Result<Self> {
        let distributor = Distributor::with_capacity(map.world(), capacity)?;
        let map = map.into_local_phase()?;
        let target = Target {
            map,
            combine,
            slots: Vec::new(),
            entries: Vec::new(),
            strays: Vec::new(),
            failure: None,
        };
        Ok(Self {
            distributor,
            target,
        })
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
    /// other rank's inbox, and does what is in this rank's own one meanwhile. Complete after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`Distributor::send`] and [`HashMap::local_insert`].
    #[inline]
    #[track_caller]
    pub fn insert(&mut self, key: K, value: V) -> Result<()> {
        let home = self.target.map.home(&key)?;
        let slot = self.distributor.slot_of(&(key, value))?;
        if self.distributor.collect(home, slot) {
            return Ok(());
        }
        self.ship_before(home, slot)
    }

    /// Ships what is collected for `home` before this entry, and takes what has come meanwhile.
    #[cold]
    #[track_caller]
    fn ship_before(&mut self, home: Rank, slot: SlotOf<(K, V)>) -> Result<()> {
        let Self {
            distributor,
            target,
        } = self;
        distributor.ship(home, &mut |from| target.take(from))?;
        assert!(distributor.collect(home, slot), "there is room now");
        target.take(distributor)?;
        target.outcome()
    }

    /// Completes all inserts of all ranks.
    ///
    /// # Cost
    ///
    /// 4B + 2 allreduces, and for each rank A, and 2A + W if something is left for it; 3A + W for each entry that has found no place on its
    /// home rank; that of a [`resize`](HashMap::resize) if three quarters of the slots are taken. Collective over the world.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the map is full and there is no memory to make it larger, [`Error::Core`] or [`Error::Codec`] if
    /// an entry cannot be written, and [`Error::Argument`] on the other ranks then; what is left stays in the
    /// buffer. What the transport reports; the failure of the job while waiting.
    #[track_caller]
    pub fn flush(&mut self) -> Result<()> {
        let _waits = pgas_core::part_of("a flush of a buffer of inserts");
        // Whatever fails on this rank, the others wait for its part of the round.
        let Self {
            distributor,
            target,
        } = self;
        distributor.next_round(&mut |from| target.take(from))?;
        let applied = target.outcome();
        let world = distributor.world();
        let mut sums = [target.strays.len() as u64, u64::from(applied.is_err())];
        world
            .team()
            .allreduce_slice(&mut sums, |a: u64, b: u64| a + b)?;
        let [n_strays, n_failed] = sums;
        applied?;
        if n_failed > 0 {
            let text = format!("{n_failed} other ranks could not insert what they were sent");
            return Err(Error::Argument(text.into()));
        }
        if n_strays == 0 {
            return Ok(());
        }
        let n_keys = target.map.len()?.saturating_add(n_strays);
        if n_keys > target.map.capacity() / 4 * 3 {
            target.map.make_room(n_keys)?;
        }
        // In the order in which they came, from the end.
        target.strays.reverse();
        let done = target.insert_strays();
        target.strays.reverse();
        world.barrier()?;
        done
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
