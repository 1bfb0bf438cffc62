//! A hash map over the memory of all ranks.
//!
//! This file is first on the path of an operation; `docs/ARCHITECTURE.md` follows an addition from
//! here to its instruction. An insert reserves a slot (A), writes key and value (W) and publishes
//! them (A).
//!
//! ```text
//! hash of the key  -->  home slot, in one ring of slots over all ranks  -->  the next slot, ...
//! ```
//!
//! The ring is one symmetric allocation, cut into equal blocks. A block is one slot, or a cache
//! line with several small slots (`slot/layout.rs`). A probe begins at the key's home slot. It goes
//! once around in each block, and on to the next block, until it meets the key or a free slot. So
//! an absent key costs no more than a present one, and every slot can be reached from every home.
//! On the direct path it examines all slots of a cache line together. [`pgas_lockfree::slots`] has
//! the protocol between ranks that meet at a slot, and says why it is linearizable.
//!
//! A *phase* is a promise of all ranks, and a type: what the promise forbids does not compile.
//! Phases are changed by the collective `into_...` methods, which consume the handle. With
//! `PGAS_CHECK=1` ranks that go into different phases get an error that names both.

mod batch;
mod buffer;
mod change;
mod combine;
mod counts;
mod drain;
mod fallback;
mod found;
mod hash;
mod in_sections;
mod insert_if_absent;
mod iter;
mod local;
mod multi;
mod nb;
mod op;
mod operations;
mod outcome;
#[cfg(feature = "rayon")]
mod parallel;
mod phase;
mod rehash;
mod remote;
mod reuse;
mod served;
mod set;
mod sets;
mod shard;
mod slot;
mod table;
#[cfg(test)]
mod tests;
mod unplaced;
mod view;

pub use buffer::HashMapBuffer;
pub use combine::Combine;
pub use drain::Drain;
pub use hash::{RapidHasher, SeededHasher};
pub use iter::Entries;
pub use multi::MultiMap;
pub(crate) use multi::{loaded_numbers, sparse_numbers};
pub use outcome::Inserted;
pub use phase::{Atomic, Changes, FindOnly, Finds, InsertOnly, Inserts, Local, Looks, Phase};
pub use set::HashSet;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use pgas_core::atomics::AtomicNumber;
use pgas_core::{AsTeam, Team, World};

use crate::object::{self, FoundBy, Heap, KeyHasher, Object, Plain};
use crate::{BatchError, ChangeError, Result};
use op::Add;
use operations::{Contains, Find, Insert};
use table::Table;

/// A hash map from `K` to `V` whose entries live in the segments of all ranks.
///
/// Operations on one key take effect one after the other (the map is linearizable), and when a
/// method returns, its effect is complete at the target. A full map refuses new keys with
/// [`Error::Full`](crate::Error::Full) and goes on serving those that it has. A map of 64 or more
/// slots grows by itself at a change of phase, if three quarters of its slots are taken;
/// [`resize`](Self::resize) gives a map any capacity. A removed key keeps its slot until then. If
/// new keys keep coming and old ones are removed, without a change of phase, make the map with
/// [`reuse_slots`](Self::reuse_slots).
///
/// The phase `P` says what all ranks do until the next collective change of phase:
///
/// | | any rank | insert | find |
/// |---|---|---|---|
/// | [`Atomic`] | does anything | 2A + W | 2A + R |
/// | [`InsertOnly`] | inserts | 2A + W | |
/// | [`FindOnly`] | reads | | R |
/// | [`Local`] | works on its own entries | ℓ | ℓ |
///
/// Keys and values are [objects](crate::object). A key may be given in a borrowed form, as in the
/// maps of std: a `String` is found, and inserted, by a `&str`, a `Vec<T>` by a `&[T]`
/// ([`FoundBy`]). Plain keys are hashed and compared by their bytes, so for float keys 0.0 and -0.0
/// are two; other keys by their encoding, which is the same for equal sets and maps of std, except
/// within a type that serde encodes. Plain values of four or eight bytes are words: every operation
/// on one is a single atomic, and on the direct path a find has no atomic instruction at all.
/// Values of other sizes are read and written whole, under a version in their slot; a reader may
/// have to wait for a writer of the same key, but never for a reader, and no reader holds up a
/// writer.
///
/// All threads of a rank may share one handle. It is not `Clone`, since a collective on it is
/// called once by each rank; lend it to threads.
///
/// # Cost
///
/// A slot is a state word, a key and a value. If the value is a word or nothing and the key is
/// small, several slots share a cache line: three for `u64` to `u64`, five for `u32` to `u32` or a
/// set of `u64`. Other slots stand alone, without padding. The prices of the methods are for an
/// operation that ends at the key's home slot; each further slot costs A (and R if a fingerprint of
/// 14 bits happens to agree). Expect half a further slot at half load; at three quarters 1.5 for a
/// present key and 7.5 for an absent one. A key or value whose encoding is longer than its slot
/// costs W more to write, R to compare, and R + A to read.
///
/// Behind a network, a batch has many searches and many changes in flight; one that combines values
/// only those of present words.
///
/// Where [ranks serve atomics](pgas_core::backend::Capabilities::ranks_serve_atomics), as over MPI
/// between hosts, an operation on a key whose home slot is on another host is a message to the rank
/// that holds the slot, and its answer (M), instead of the price in R, W and A. A batch sends
/// messages to all ranks at once, each with as many keys as it carries. A rank serves messages when
/// it makes progress, as [remote calls](pgas_am::RemoteCalls), and so does a rank that waits for an
/// answer. An operation that the home rank cannot finish, because the search goes on in the next
/// rank's slots, costs M and then the other price; that is rare in a map with room. Long keys and
/// values travel in the message. Keys and values of more than 16 MiB, slots of more than 4 KiB,
/// operations inside of handlers, and functions that change values of a type that may be long have
/// the prices in R, W and A everywhere.
///
/// # Examples
///
/// ```
/// use pgas_containers::HashMap;
/// use pgas_containers::hash_map::Inserted;
///
/// # let world = pgas_core::backend::loopback::world();
/// let map = HashMap::<String, [f32; 3]>::with_capacity(&world, 100)?;
/// assert_eq!(map.insert("seven", [1.0, 2.0, 3.0])?, Inserted::New);
/// assert_eq!(map.insert("seven", [0.0, 2.0, 3.0])?, Inserted::Replaced);
/// let former = map.update("seven", |[x, y, z]| [x + 1.0, y, z])?;
/// assert_eq!(former, Some([0.0, 2.0, 3.0]));
///
/// let map = map.into_find_phase()?; // collective; from here a find is one read
/// assert_eq!(map.find("seven")?, Some([1.0, 2.0, 3.0]));
/// assert_eq!(map.find("eight")?, None);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// Operations that the phase forbids do not compile:
///
/// ```compile_fail,E0277
/// # use pgas_containers::{HashMap, hash_map::FindOnly};
/// fn insert_while_others_look(map: &HashMap<u64, u64, FindOnly>) {
///     map.insert(&1, 2);
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use pgas_containers::{HashMap, hash_map::InsertOnly};
/// fn look_while_others_insert(map: &HashMap<u64, u64, InsertOnly>) {
///     map.find(&1);
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use pgas_containers::{HashMap, hash_map::Local};
/// fn reach_out_while_all_work_at_home(map: &HashMap<u64, u64, Local>) {
///     map.find(&1);
/// }
/// ```
///
/// A handle is gone once the phase has changed:
///
/// ```compile_fail,E0382
/// # use pgas_containers::HashMap;
/// fn use_of_an_old_phase(map: HashMap<u64, u64>) {
///     let finds = map.into_find_phase();
///     map.insert(&1, 2);
/// }
/// ```
///
/// In the local phase a rank works without atomics, so one thread needs the handle for itself:
///
/// ```compile_fail,E0596
/// # use pgas_containers::{HashMap, hash_map::Local};
/// fn two_threads_at_once(map: &HashMap<u64, u64, Local>) {
///     map.local_insert(&1, &2);
/// }
/// ```
///
/// Values that are words, keys that may be absent, the entries of one rank, and phases:
///
/// ```
/// use pgas_containers::HashMap;
///
/// # let world = pgas_core::backend::loopback::world();
/// let map = HashMap::<String, u64>::with_capacity(&world, 100)?; // collective
/// assert_eq!(map.get_or_insert("one", 1)?, 1);
/// assert_eq!(map.get_or_insert_with("two", || 2)?, 2);
/// assert_eq!(map.add_each(&[("one", 10), ("three", 30)])?, 1); // "three" is new
/// assert!(map.contains("three")? && !map.contains("four")?);
/// let mut found = [None; 2];
/// map.find_many_into(&["one", "four"], &mut found)?;
/// assert_eq!(found, [Some(11), None]);
/// let mut sum = 0;
/// map.for_each_local(|_, n| sum += n)?;
/// assert_eq!((map.local_len()?, sum), (3, 43)); // of the one rank of this example
/// assert_eq!(map.entries_on(map.team().world_rank(0)).count(), 3);
/// assert!(map.capacity() >= 100);
///
/// let mut map = map.into_insert_phase()?.into_local_phase()?; // collective, each of both
/// assert_eq!(map.home("one")?, map.world().rank());
/// map.local_insert("four", &4)?;
/// map.local_upsert("four", &0, |n| n + 40)?;
/// assert_eq!(map.local_remove("four")?, Some(44));
/// let map = map.into_atomic_phase()?;
/// assert_eq!(map.len()?, 3);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct HashMap<K: Object, V: Object, P = Atomic, S = RapidHasher> {
    table: Table<K, V, S>,
    phase: PhantomData<fn() -> P>,
}

impl<K: Object, V: Object> HashMap<K, V> {
    /// A map with room for `capacity` keys over all ranks, rounded up to a multiple of their
    /// number.
    ///
    /// # Cost
    ///
    /// B + 3 allreduces; B + an allreduce more for keys or values that may be longer than a slot.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::NoCapacity`](crate::Error::NoCapacity) for a capacity of 0,
    /// [`Error::Mismatch`](crate::Error::Mismatch) if the ranks ask for different ones, and
    /// [`Exhausted`](pgas_core::Error::Exhausted) if the symmetric heap has no room.
    #[track_caller]
    pub fn with_capacity(on: &impl AsTeam, capacity: usize) -> Result<Self> {
        Self::with_hasher(on, capacity, RapidHasher)
    }
}

impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Atomic, S> {
    /// As [`with_capacity`](HashMap::with_capacity), with a hasher of your own, or one with a
    /// [seed](SeededHasher).
    ///
    /// # Cost
    ///
    /// As [`with_capacity`](HashMap::with_capacity).
    ///
    /// # Errors
    ///
    /// Those of [`with_capacity`](HashMap::with_capacity), and
    /// [`Error::Mismatch`](crate::Error::Mismatch) if the ranks have hashers that do not agree.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::HashMap;
    /// use pgas_containers::hash_map::SeededHasher;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u64, _, _>::with_hasher(&world, 100, SeededHasher::new(42))?;
    /// map.insert(&1, 2)?;
    /// assert_eq!(map.find(&1)?, Some(2));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn with_hasher(on: &impl AsTeam, capacity: usize, hasher: S) -> Result<Self> {
        Self::with_shared_hasher(&on.as_team(), capacity, Arc::new(hasher))
    }
}

/// Methods of every phase.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// The world whose segments hold the map.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.table.world()
    }

    /// The team whose members share the map: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.table.team()
    }

    /// The number of keys that the map has room for, over all ranks.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.table.shape.ring.capacity()
    }

    /// A number that identifies this map, the same on all ranks.
    pub(crate) fn identity(&self) -> u64 {
        self.table.identity()
    }

    /// This rank's share of the number of keys, as it has counted them.
    pub(crate) fn n_counted(&self) -> u64 {
        self.table.n_counted()
    }

    /// The number of keys in the map, exact if nobody inserts or removes meanwhile.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn len(&self) -> Result<u64> {
        let what = "a count of the entries of a hash map";
        let _waits = pgas_core::part_of_object(what, self.table.identity());
        Ok(self.table.n_keys()?[0])
    }

    /// Whether there are no keys in the map.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    #[track_caller]
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|n| n == 0)
    }

    /// Lets other keys use the slots of removed keys again, while all ranks go on, so that removed
    /// keys never fill the map. The setting stays through changes of phase and resizes.
    ///
    /// This is for maps into which new keys keep coming while old ones are removed, without a
    /// change of phase. Give such a map twice as many slots as it has keys at a time. A single
    /// operation on memory of this host takes about twice as long; batches take about as long as
    /// before. Now and then a thread that removes keys frees slots that no operation can still be
    /// using. An insert that finds no room frees some such slots, and waits up to a minute for
    /// operations that have begun. An [`update`](Self::update) whose function waits delays this,
    /// and an insert within such a function does not wait for itself: it fails at once.
    ///
    /// The call has no effect, and slots stay with their keys, if a part of the map's memory is
    /// reached over a network only (also if ranks there serve each other's operations), or if
    /// operations are counted. This is decided for all ranks together: one rank that does not reach
    /// the slots of another is enough.
    ///
    /// # Cost
    ///
    /// B + 2 allreduces, and 4.2 KiB of each rank's memory. An operation of the atomic phase takes
    /// one atomic instruction more, a single find two more loads. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank, with the map as it was: [`Exhausted`](pgas_core::Error::Exhausted) if the
    /// symmetric heap has no room; the failure of the job while waiting. From then on an insert that
    /// waits for room reports that, too, and in a handler or task
    /// [`InHandler`](pgas_core::Error::InHandler). An [`insert_nb`](Self::insert_nb) waits there as
    /// well: its future is ready later.
    ///
    /// # Examples
    ///
    /// A hundred jobs of each rank wait at a time. New ones keep coming, many more than there are
    /// slots:
    ///
    /// ```
    /// # use pgas_containers::{Error, HashMap};
    /// # fn main() -> Result<(), Error> {
    /// # pgas_smp::threads(2, |world| churn(&world)).unwrap().into_iter().collect()
    /// # }
    /// # fn churn(world: &pgas_core::World) -> Result<(), Error> {
    /// # let n = 2_000;
    /// let rank = u64::from(world.rank().number());
    /// let waiting = HashMap::<[u64; 2], u64>::with_capacity(world, 400)?.reuse_slots()?;
    /// for number in 0..n {
    ///     waiting.insert(&[rank, number], number * number)?;
    ///     if let Some(done) = number.checked_sub(100) {
    ///         assert!(waiting.remove(&[rank, done])?);
    ///     }
    /// }
    /// assert_eq!(waiting.len()?, 100 * u64::from(world.n_ranks()));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn reuse_slots(mut self) -> Result<Self, ChangeError<Self>> {
        match self.table.reuse_slots() {
            Ok(()) => Ok(self),
            Err(error) => Err(ChangeError::new(self, error)),
        }
    }

    /// Goes on to the phase in which any rank does anything.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce; and that of a [`resize`](Self::resize) if three quarters of the slots are
    /// taken, or if the map has fewer than 64 slots and keys were removed. Collective over the
    /// team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; with `PGAS_CHECK=1`
    /// [`Error::Mismatch`](crate::Error::Mismatch) if ranks go into different phases; in a handler
    /// [`InHandler`](pgas_core::Error::InHandler). Then the map is lost on the ranks with the error.
    #[track_caller]
    pub fn into_atomic_phase(self) -> Result<HashMap<K, V, Atomic, S>> {
        self.into_phase()
    }

    /// Goes on to the phase in which any rank inserts.
    ///
    /// # Cost
    ///
    /// As [`into_atomic_phase`](Self::into_atomic_phase).
    ///
    /// # Errors
    ///
    /// As [`into_atomic_phase`](Self::into_atomic_phase).
    #[track_caller]
    pub fn into_insert_phase(self) -> Result<HashMap<K, V, InsertOnly, S>> {
        self.into_phase()
    }

    /// Goes on to the phase in which any rank reads.
    ///
    /// # Cost
    ///
    /// As [`into_atomic_phase`](Self::into_atomic_phase).
    ///
    /// # Errors
    ///
    /// As [`into_atomic_phase`](Self::into_atomic_phase).
    #[track_caller]
    pub fn into_find_phase(self) -> Result<HashMap<K, V, FindOnly, S>> {
        self.into_phase()
    }

    /// Goes on to the phase in which each rank works on its own entries.
    ///
    /// # Cost
    ///
    /// As [`into_atomic_phase`](Self::into_atomic_phase).
    ///
    /// # Errors
    ///
    /// As [`into_atomic_phase`](Self::into_atomic_phase).
    #[track_caller]
    pub fn into_local_phase(self) -> Result<HashMap<K, V, Local, S>> {
        self.into_phase()
    }
}

// Operations are inlined in optimized builds only. Without optimization each inlined operation
// would have its own place in the caller's frame, and a dozen of them with values of some thousand
// bytes would overflow the stack.

/// Inserts, in phases in which any rank may insert.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Inserts `value` under `key`, or replaces the present value.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key. Over a present one 2A + R for a value that is a word, 3A + R + W for
    /// another one, A + R for one without bytes. One-sided; or M. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// [`Error::Full`](crate::Error::Full) if the key is new and no slot is free (removed keys keep
    /// their slots unless these are [reused](Self::reuse_slots)); errors of the transport.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, HashMap, hash_map::Inserted};
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u8, u64>::with_capacity(&world, 1)?;
    /// assert_eq!(map.insert(&1, 10)?, Inserted::New);
    /// assert!(matches!(map.insert(&2, 20), Err(Error::Full { capacity: 1 })));
    /// assert_eq!(map.insert(&1, 11)?, Inserted::Replaced);
    /// # Ok::<(), Error>(())
    /// ```
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a map of std"
    )]
    #[track_caller]
    pub fn insert<Q: ?Sized>(&self, key: &Q, value: V) -> Result<Inserted>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        let was_there = self
            .table
            .perform::<Insert, _>(key, |heap| object::to_slot(&value, heap))?;
        Ok(Inserted::over(was_there))
    }

    /// Inserts all `entries`, in their order, and returns how many of their keys were new.
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert) for each entry: 2A + W for a new key, 2A + R over a
    /// word, and so on. Behind a network latency is paid once for many, but not for entries of one
    /// key. One-sided; or M for each rank and as many entries as a message carries. Complete at the
    /// target on return.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), with the number of entries that were inserted before.
    /// Behind a network some of those behind may be inserted, too.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{BatchError, Error, HashMap};
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u64>::with_capacity(&world, 2)?;
    /// map.insert_many(&[(1, 10), (2, 20)])?;
    /// let refused = map.insert_many(&[(1, 11), (3, 30)]).unwrap_err();
    /// assert!(matches!(refused, BatchError { done: 1, error: Error::Full { capacity: 2 } }));
    /// assert_eq!(map.find_many(&[1, 2])?, [Some(11), Some(20)]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn insert_many<Q>(&self, entries: &[(Q, V)]) -> Result<usize, BatchError>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        let value = |entry: &(Q, V), heap: &Heap| object::to_slot(&entry.1, heap);
        self.table
            .perform_many::<Insert, _>(entries, |entry| K::key_by(&entry.0), value)
    }
}

/// Lookups, in phases in which any rank may read.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// The value of `key`, if it is there.
    ///
    /// # Cost
    ///
    /// [`Atomic`]: present 2A + R, and A + R for a value without bytes; if the value is not a word,
    /// A + R more each time that a writer of the same key comes in between. Absent: A.
    ///
    /// [`FindOnly`]: R, and R for each further slot, or for each further cache line if several
    /// slots share one.
    ///
    /// One-sided; or M.
    ///
    /// # Errors
    ///
    /// Errors of the transport; the failure of the job while waiting for a writer.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub fn find<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.table.perform::<Find<P>, _>(key, |_| Ok(()))
    }

    /// Whether `key` is there.
    ///
    /// # Cost
    ///
    /// [`Atomic`]: present A + R, absent A. [`FindOnly`]: as [`find`](Self::find). One-sided; or M.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub fn contains<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.table.perform::<Contains<P>, _>(key, |_| Ok(()))
    }

    /// The values of `keys`, in their order.
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find) for each key; the latency is paid once for many. One-sided;
    /// or M for each rank and as many keys as a message carries.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<u64, u32>::with_capacity(&world, 100)?;
    /// map.insert_many(&[(1, 10), (2, 20)])?;
    /// assert_eq!(map.find_many(&[2, 3, 1])?, [Some(20), None, Some(10)]);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn find_many<Q>(&self, keys: &[Q]) -> Result<Vec<Option<V>>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        let mut values: Vec<_> = keys.iter().map(|_| None).collect();
        self.find_many_into(keys, &mut values)?;
        Ok(values)
    }

    /// Writes the values of `keys` to the elements of `values` with the same indices.
    ///
    /// # Cost
    ///
    /// As [`find_many`](Self::find_many).
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find); then some of `values` may have been written.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[track_caller]
    pub fn find_many_into<Q>(&self, keys: &[Q], values: &mut [Option<V>]) -> Result<()>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        let (n, room) = (keys.len(), values.len());
        assert_eq!(n, room, "{n} keys, but room for {room} values");
        self.table.find_many::<P, _>(keys, values)
    }
}

impl<K, V, P, S> HashMap<K, V, P, S>
where
    K: Object,
    V: AtomicNumber + Object<Repr = Plain>,
    P: Phase,
    S: KeyHasher,
{
    /// Adds `n` to the value of `key` (integers wrap around), and returns the former value. An
    /// absent key is inserted with `n`, and the result is 0. A sum of floats depends on the order in
    /// which ranks add.
    ///
    /// # Cost
    ///
    /// 2A + R for a present key, 2A + W for a new one. One-sided; or M. Complete at the target on
    /// return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let counts = HashMap::<[u8; 4], u32>::with_capacity(&world, 1000)?;
    /// assert_eq!(counts.fetch_add(b"ACGT", 2)?, 0);
    /// assert_eq!(counts.fetch_add(b"ACGT", 1)?, 2);
    /// assert_eq!(counts.find(b"ACGT")?, Some(3));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub fn fetch_add<Q: ?Sized>(&self, key: &Q, n: V) -> Result<V>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        let former = self.table.perform::<Add, _>(key, |_| Ok(n))?;
        Ok(former.unwrap_or(V::new_zeroed()))
    }
}

impl<K: Object, V: Object, P: Phase, S> fmt::Debug for HashMap<K, V, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, phase) = (self.table.shape.ring.capacity(), P::NAME);
        write!(f, "HashMap({n} slots, phase: {phase})")
    }
}
