//! Inserts that are collected for the ranks that hold their places, and done there.

use std::fmt;

use pgas_core::collective::op::Min;
use pgas_core::{Rank, World};

use super::HashMap;
use super::ahead::{self, Ahead};
use super::hash::RapidHasher;
use super::phase::{Atomic, Local, Phase};
use crate::object::{KeyHasher, Object, SlotOf};
use crate::{Distributor, Error, Result, distributor};

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

    /// Ships what is collected for `home` before this entry, and takes what has come meanwhile.
    #[cold]
    #[track_caller]
    fn ship_before(
        &mut self,
        distributor: &mut Distributor<(K, V)>,
        home: Rank,
        slot: SlotOf<(K, V)>,
    ) -> Result<()> {
        distributor.ship(home, &mut |from| self.take(from))?;
        assert!(distributor.collect(home, slot), "there is room now");
        self.take(distributor)?;
        self.outcome()
    }

    /// What has failed since it was asked.
    fn outcome(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// By the operations that any rank may use at any time.
    fn insert_strays(&mut self) -> Result<()> {
        while let Some((key, value)) = self.strays.last() {
            ahead::upsert(&self.map.table, key, value, &mut self.combine)?;
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
            Way::Sent(Box::new(Distributor::with_capacity(map.world(), capacity)?))
        };
        let map = map.into_local_phase()?;
        let target = Target {
            map,
            combine,
            slots: Vec::new(),
            entries: Vec::new(),
            strays: Vec::new(),
            failure: None,
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
    /// As [`Distributor::send`] and [`HashMap::local_insert`].
    #[inline]
    #[track_caller]
    pub fn insert(&mut self, key: K, value: V) -> Result<()> {
        let Self { way, target } = self;
        match way {
            Way::Near(ahead) => {
                let Target {
                    map,
                    combine,
                    strays,
                    ..
                } = target;
                ahead.insert(&map.table, (key, value), combine, strays)
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
        let Self { way, target } = self;
        let applied = match way {
            Way::Near(ahead) => {
                let Target {
                    map,
                    combine,
                    strays,
                    ..
                } = &mut *target;
                ahead.end_all(&map.table, combine, strays)
            }
            Way::Sent(distributor) => {
                distributor.next_round(&mut |from| target.take(from))?;
                target.outcome()
            }
        };
        let world = target.map.world().clone();
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
