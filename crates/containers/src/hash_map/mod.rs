//! A hash map over the memory of all ranks.
//!
//! On the path of an operation this file comes after [`GlobalPtr`](pgas_core::GlobalPtr), which it is
//! built on: an insert takes a slot (A), writes key and value (W) and publishes them (A). What the
//! backend makes of these three is in its `rma.rs`.
//!
//! ```text
//! hash of the key  -->  home slot, in one ring of slots over all ranks  -->  the next slot, ...
//! ```
//!
//! The ring is one symmetric allocation, cut into equal blocks: a slot each, or a cache line with several small ones, as `layout.rs`
//! says. A search walks from the key's home slot
//! over the ring, in a block once around, until it meets the key or a free slot, so an absent key costs no more than a
//! present one, and every slot can be reached from every home. On the direct path it looks at all slots of a cache line together.
//! [`pgas_lockfree::slots`] has the protocol
//! between ranks that meet at a slot, and says why it is linearizable.
//!
//! A *phase* is a promise of all ranks, and a type: what the promise forbids does not compile. Phases are
//! changed by the collective `into_...` methods, which consume the handle. With `PGAS_CHECK=1` ranks that
//! go into different phases get an error that names both.

mod ahead;
mod atomic;
mod batch;
mod buffer;
mod find;
mod find_only;
mod global;
mod hash;
mod insert;
mod iter;
mod layout;
mod left;
mod local;
mod multi;
#[cfg(feature = "rayon")]
mod parallel;
mod phase;
mod quick;
mod reach;
mod rehash;
mod scan;
mod set;
mod table;
#[cfg(test)]
mod tests;
mod view;

pub use buffer::HashMapBuffer;
pub use hash::{RapidHasher, SeededHasher};
pub use iter::Entries;
pub use multi::MultiMap;
pub(crate) use multi::check_numbers;
pub use phase::{Atomic, Changes, FindOnly, Finds, InsertOnly, Inserts, Local, Looks, Phase};
pub use set::HashSet;

use std::fmt;
use std::marker::PhantomData;

use pgas_core::World;
/// The protocol of a slot, and searches over slots.
use pgas_lockfree::slots::{self as slot, state, walk};

use crate::Result;
use crate::object::{KeyHasher, Object};
use table::Table;

/// A hash map from `K` to `V` whose entries live in the segments of all ranks.
///
/// Operations on one key take effect one after the other
/// (the map is linearizable), and when a method returns, its effect is complete at the target. A full map
/// refuses new keys with [`Error::Full`](crate::Error::Full) and goes on serving those that it has; at a change of phase it
/// grows without being asked if three quarters of its slots are taken, and [`resize`](Self::resize) gives it any capacity.
///
/// The phase `P` says what all ranks do until the next collective change of phase:
///
/// | | any rank | insert | find |
/// |---|---|---|---|
/// | [`Atomic`] | everything | 2A + W | 2A + R |
/// | [`InsertOnly`] | inserts | 2A + W | |
/// | [`FindOnly`] | looks | | R |
/// | [`Local`] | works on what it holds itself | ℓ | ℓ |
///
/// Keys and values are [objects](crate::object). Keys are hashed and compared by their bytes if they are plain,
/// so for float keys 0.0 and -0.0 are two, else by their encoding. Plain values of
/// four or eight bytes are words: every operation on one is a single atomic, and on the direct path a find has no atomic instruction at
/// all. Values of other sizes
/// are read and written whole, under a version in their slot; a reader may have to wait for a writer of
/// the same key, but never for a reader, and no reader holds up a writer.
///
/// All threads of a rank may share one handle. It is not `Clone`, since a collective on it is called
/// once by each rank; lend it to threads.
///
/// # Cost
///
/// One slot is a state word, key and value. If the value is a word or nothing and the key is small, several share a cache line: three
/// for `u64` to `u64`, five for `u32` to `u32` or a set of `u64`; others stand alone, without padding. The prices of
/// the methods are those of an operation that ends at the key's home slot; each further slot costs A
/// (and R where a fingerprint of 14 bits happens to agree). Expect half a further slot at half
/// load, 1.5 for a present and 7.5 for an absent key at three quarters. A key or value whose encoding is longer than its slot costs
/// W more to write, R to compare, and R + A to read.
///
/// # Examples
///
/// ```
/// use pgas_containers::HashMap;
/// use pgas_containers::hash_map::Inserted;
///
/// # let world = pgas_core::backend::loopback::world();
/// let map = HashMap::<String, [f32; 3]>::with_capacity(&world, 100)?;
/// let key = "seven".to_owned();
/// assert_eq!(map.insert(&key, [1.0, 2.0, 3.0])?, Inserted::New);
/// assert_eq!(map.insert(&key, [0.0, 2.0, 3.0])?, Inserted::Replaced);
/// let former = map.update(&key, |[x, y, z]| [x + 1.0, y, z])?;
/// assert_eq!(former, Some([0.0, 2.0, 3.0]));
///
/// let map = map.into_find_phase()?; // collective; from here a find is one read
/// assert_eq!(map.find(&key)?, Some([1.0, 2.0, 3.0]));
/// assert_eq!(map.find(&"eight".to_owned())?, None);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// What a phase forbids does not compile:
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
pub struct HashMap<K: Object, V: Object, P = Atomic, S = RapidHasher> {
    table: Table<K, V, S>,
    phase: PhantomData<fn() -> P>,
}

/// What an insert did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent.
    New,
    /// The key was present, and its value was overwritten.
    Replaced,
}

impl Inserted {
    #[inline]
    const fn over(was_there: bool) -> Self {
        if was_there { Self::Replaced } else { Self::New }
    }
}

impl<K: Object, V: Object> HashMap<K, V> {
    /// A map with room for `capacity` keys over all ranks, rounded up to a multiple of their number.
    ///
    /// # Cost
    ///
    /// 2B + 3 allreduces; B + 2 allreduces more for keys or values that may be longer than a slot. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::NoCapacity`](crate::Error::NoCapacity) for a capacity of 0, [`Error::CapacitiesDiffer`](crate::Error::CapacitiesDiffer) if the
    /// ranks ask for different ones, and [`Exhausted`](pgas_core::Error::Exhausted) in [`Error::Core`](crate::Error::Core) if
    /// the symmetric heap has no room.
    pub fn with_capacity(world: &World, capacity: usize) -> Result<Self> {
        Self::with_hasher(world, capacity, RapidHasher)
    }
}

impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Atomic, S> {
    /// As [`with_capacity`](HashMap::with_capacity), with a hasher of one's own, or one with a [seed](SeededHasher).
    ///
    /// # Cost
    ///
    /// As [`with_capacity`](HashMap::with_capacity).
    ///
    /// # Errors
    ///
    /// Those of [`with_capacity`](HashMap::with_capacity), and [`Error::Disagreement`](crate::Error::Disagreement) if the ranks have
    /// hashers that do not agree.
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
    pub fn with_hasher(world: &World, capacity: usize, hasher: S) -> Result<Self> {
        Ok(Self {
            table: Table::new(world, capacity, hasher)?,
            phase: PhantomData,
        })
    }
}

/// What every phase has.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// The world whose segments hold the map.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.table.world()
    }

    /// The number of keys that the map has room for, over all ranks.
    ///
    /// # Cost
    ///
    /// Nothing: it is known here.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.table.ring.capacity()
    }

    /// The number of keys in the map, exact if nobody inserts or removes meanwhile.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn len(&self) -> Result<u64> {
        Ok(self.table.counts()?[0])
    }

    /// Whether there are no keys in the map.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|n| n == 0)
    }

    /// Goes on to the phase in which any rank does anything.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce; that of a [`resize`](Self::resize) if three quarters of the slots are taken. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; with `PGAS_CHECK=1` the ranks that go into different phases.
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

    /// Goes on to the phase in which any rank looks.
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

    /// Goes on to the phase in which each rank works on what it holds itself.
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

impl<K: Object, V: Object, P: Phase, S> fmt::Debug for HashMap<K, V, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, phase) = (self.table.ring.capacity(), P::NAME);
        write!(f, "HashMap({n} slots, phase: {phase})")
    }
}
