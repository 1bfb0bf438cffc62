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
//! The ring is one symmetric allocation, cut into equal blocks. A search walks from the key's home slot
//! over the ring until it meets the key or a free slot, so an absent key costs no more than a
//! present one, and every slot can be reached from every home. `slot.rs` has the protocol
//! between ranks that meet at a slot, and says why it is linearizable.

mod batch;
mod global;
mod hash;
mod layout;
mod local;
#[cfg(all(test, loom))]
mod models;
mod reach;
mod slot;
mod state;
#[cfg(all(test, not(loom)))]
mod tests;
mod view;
mod walk;

pub use local::LocalIter;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_core::atomics::AtomicInteger;
use pgas_core::rma::NearArray;
use pgas_core::{Pod, Rank, Symmetric, World};

use crate::{CapacitiesDiffer, Error, Result};
use hash::{Hash, Ring};
use layout::Layout;
use reach::{Far, FarArray, Near};
use view::View;

/// Evaluates `$body` with the map's slots in `$view`: by their own type where they are all near, which makes
/// every step an instruction or two, and by the general one elsewhere.
macro_rules! over_slots {
    ($map:expr, |$view:ident| $body:expr) => {
        if let Some(all) = &$map.near {
            let $view = $map.view_near(all);
            $body
        } else {
            let $view = $map.view_far();
            $body
        }
    };
}
use over_slots;

/// A hash map from `K` to `V` whose entries live in the segments of all ranks.
///
/// Every rank may do everything at any time; operations on one key take effect one after the other
/// (the map is linearizable), and when a method returns, its effect is complete at the target. Entries
/// stay: there is no removal. The capacity is fixed, and the map does not grow by itself; a full one
/// refuses new keys with [`Error::Full`] and goes on serving those that it has.
///
/// Keys are hashed and compared by their bytes, so for float keys 0.0 and -0.0 are two. Values of
/// four or eight bytes are words: every operation on one is a single atomic. Values of other sizes
/// are read and written whole, under a version in their slot; a reader may have to wait for a writer of
/// the same key.
///
/// All threads of a rank may share one handle. It is not `Clone`, since a collective on it is called
/// once by each rank; lend it to threads.
///
/// # Cost
///
/// One slot is a state word, key and value without padding: 24 bytes for `u64` to `u64`. The prices of
/// the methods are those of an operation that ends at the key's home slot; each further slot costs A
/// (and R where a fingerprint of 14 bits happens to agree). Expect half a further slot at half
/// load, 1.5 for a present and 7.5 for an absent key at three quarters.
///
/// # Examples
///
/// ```
/// use pgas_containers::HashMap;
/// use pgas_containers::hash_map::Inserted;
///
/// # let world = pgas_core::backend::loopback::world();
/// let map = HashMap::<u32, [f32; 3]>::with_capacity(&world, 100)?;
/// assert_eq!(map.insert(&7, [1.0, 2.0, 3.0])?, Inserted::New);
/// assert_eq!(map.insert(&7, [0.0, 2.0, 3.0])?, Inserted::Replaced);
/// let former = map.update(&7, |[x, y, z]| [x + 1.0, y, z])?;
/// assert_eq!(former, Some([0.0, 2.0, 3.0]));
/// assert_eq!(map.find(&7)?, Some([1.0, 2.0, 3.0]));
/// assert_eq!(map.find(&8)?, None);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct HashMap<K, V> {
    slots: Symmetric<u8>,
    /// The offset of the first slot of every rank.
    start: u64,
    ring: Ring,
    /// All slots, if this process reaches them by its own instructions.
    near: Option<NearArray<Layout<K, V>>>,
    n_new: Counter,
}

/// On a cache line of its own, since the threads of a rank count in it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// What an insert did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent.
    New,
    /// The key was present, and its value was overwritten.
    Replaced,
}

impl<K: Pod, V: Pod> HashMap<K, V> {
    /// A map with room for `capacity` keys over all ranks, rounded up to a multiple of their number.
    ///
    /// # Cost
    ///
    /// 2B + 2 allreduces. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::NoCapacity`] for a capacity of 0, [`Error::CapacitiesDiffer`] if the
    /// ranks ask for different ones, and [`Exhausted`](pgas_core::Error::Exhausted) in [`Error::Core`] if
    /// the symmetric heap has no room.
    pub fn with_capacity(world: &World, capacity: usize) -> Result<Self> {
        agree(world, capacity as u64)?;
        if capacity == 0 {
            return Err(Error::NoCapacity);
        }
        let n_ranks = world.ranks().len();
        let ring = Ring::new(n_ranks, capacity.div_ceil(n_ranks));
        let (align, stride) = (Layout::<K, V>::SLOT_ALIGN, Layout::<K, V>::STRIDE);
        let bytes = ring.local_capacity().saturating_mul(stride);
        let slots = world.alloc_symmetric::<u8>(bytes.saturating_add(align - 1))?;
        let start = slots.here().offset_bytes().next_multiple_of(align as u64);
        Ok(Self {
            near: world.near_array(start, ring.local_capacity()),
            slots,
            start,
            ring,
            n_new: Counter::default(),
        })
    }

    /// The world whose segments hold the map.
    #[must_use]
    #[inline]
    pub fn world(&self) -> &World {
        self.slots.world()
    }

    /// The number of keys that the map has room for, over all ranks.
    ///
    /// # Cost
    ///
    /// Nothing: it is known here.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    /// The number of keys in the map, exact if nobody inserts meanwhile.
    ///
    /// # Cost
    ///
    /// An allreduce. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    pub fn len(&self) -> Result<u64> {
        // Only a sum: what was inserted before is ordered before by whatever told this rank of it.
        let mut sum = [self.n_new.0.load(Ordering::Relaxed)];
        self.world()
            .team()
            .allreduce_slice(&mut sum, |a: u64, b: u64| a + b)?;
        Ok(sum[0])
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

    /// Puts `value` under `key`, over the value that stood there.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key; A + R and, over a present one, A for a value that is a word, 2A + W for
    /// another one, nothing for one without bytes. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the key is new and no slot is free; what the transport reports.
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
    #[inline]
    pub fn insert(&self, key: &K, value: V) -> Result<Inserted> {
        let inserted = over_slots!(self, |view| view.insert(
            view.home(Hash::of(key)),
            key,
            value
        ))?;
        self.count_new(u64::from(inserted == Inserted::New));
        Ok(inserted)
    }

    /// The value of `key`, if it is there.
    ///
    /// # Cost
    ///
    /// Present: A + R, and A for a value with bytes; with other values than words A + R more each time
    /// that a writer of the same key comes in between. Absent: A. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports; the failure of the job while waiting for a writer.
    #[inline]
    pub fn find(&self, key: &K) -> Result<Option<V>> {
        over_slots!(self, |view| view.find(view.home(Hash::of(key)), key))
    }

    /// Whether `key` is there.
    ///
    /// # Cost
    ///
    /// Present: A + R. Absent: A. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    #[inline]
    pub fn contains(&self, key: &K) -> Result<bool> {
        over_slots!(self, |view| view.contains(key))
    }

    /// Replaces the value of `key` by `f` of it, atomically, and returns the former one, or `None` if
    /// the key is absent.
    ///
    /// `f` runs on this rank while nothing is locked, and again each time that another rank changed the
    /// value meanwhile; if it panics, the map is as before.
    ///
    /// # Cost
    ///
    /// A + R, then 2A for a value that is a word, 3A + W for another one; again 2A + R for each time
    /// that another rank was faster. Absent: A. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// What the transport reports; the failure of the job while waiting for a writer.
    #[inline]
    pub fn update(&self, key: &K, f: impl FnMut(V) -> V) -> Result<Option<V>> {
        over_slots!(self, |view| view.update(key, f))
    }

    /// The value of `key`; if it is absent, inserts `value` and returns that.
    ///
    /// # Cost
    ///
    /// 2A + W for a new key; A + R and A (nothing for a value without bytes) for a present one. One-sided.
    /// Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    #[inline]
    pub fn get_or_insert(&self, key: &K, value: V) -> Result<V> {
        let there = over_slots!(self, |view| view.get_or_insert(key, value))?;
        self.count_new(u64::from(there.is_none()));
        Ok(there.unwrap_or(value))
    }
}

impl<K: Pod, V: AtomicInteger> HashMap<K, V> {
    /// Adds `n` to the value of `key`, wrapping around, and returns the former one; an absent key is
    /// inserted as if it had been there with 0.
    ///
    /// # Cost
    ///
    /// 2A + R for a present key, 2A + W for a new one. One-sided. Complete at the target on return.
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
    #[inline]
    pub fn fetch_add(&self, key: &K, n: V) -> Result<V> {
        let former = over_slots!(self, |view| view.add(view.home(Hash::of(key)), key, n))?;
        self.count_new(u64::from(former.is_none()));
        Ok(former.unwrap_or(V::new_zeroed()))
    }
}

impl<K: Pod, V: Pod> HashMap<K, V> {
    /// The slots, near all of them.
    #[inline(always)]
    fn view_near<'a>(
        &'a self,
        all: &'a NearArray<Layout<K, V>>,
    ) -> View<'a, K, V, Near<'a, Layout<K, V>>> {
        View::new(all, &self.ring)
    }

    /// The slots, wherever they are.
    fn view_far(&self) -> View<'_, K, V, Far<'_>> {
        let (world, start) = (self.world(), self.start);
        let stride = Layout::<K, V>::STRIDE;
        let all = FarArray {
            world,
            start,
            stride,
        };
        View::new(all, &self.ring)
    }

    #[inline]
    fn count_new(&self, n: u64) {
        if n > 0 {
            // Counts only; nothing is ordered by it.
            self.n_new.0.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// An error on every rank if the ranks differ in the capacity that they ask for.
fn agree(world: &World, capacity: u64) -> Result<()> {
    let mine = [capacity, u64::from(world.rank().number())];
    let mut extremes = [mine, [!capacity, mine[1]]];
    world
        .team()
        .allreduce_slice(&mut extremes, |a: [u64; 2], b: [u64; 2]| a.min(b))?;
    let [[smallest, rank_a], [not_largest, rank_b]] = extremes;
    if smallest == !not_largest {
        return Ok(());
    }
    let rank = |number| Rank::new(u32::try_from(number).expect("a rank's number"));
    let differ = CapacitiesDiffer {
        rank_a: rank(rank_a),
        capacity_a: smallest,
        rank_b: rank(rank_b),
        capacity_b: !not_largest,
    };
    Err(Box::new(differ).into())
}

impl<K, V> fmt::Debug for HashMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashMap({} slots)", self.ring.capacity())
    }
}
