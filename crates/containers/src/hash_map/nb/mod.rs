//! Operations on one key that do not wait: many of them are in flight at once.

pub(super) mod flight;
mod set;

use pgas_am::PgasFuture;
use pgas_core::atomics::AtomicNumber;

use super::change::check_takes;
use super::op::Add;
use super::operations::{Contains, Find, GetOrInsert, Insert, Remove, Take};
use super::outcome::Taken;
use super::phase::{Changes, Finds, Inserts, Phase};
use super::{HashMap, Inserted};
use crate::Result;
use crate::object::{self, FoundBy, KeyHasher, Object, Plain};

/// Single operations that do not wait, as futures of their results. UPC++ and Lamellar have their
/// operations on maps in this form.
///
/// Many are in flight at once, on any keys, and the map is used meanwhile as always. An operation
/// takes effect, atomically, between its call and the moment when its future is ready. Two that are
/// in flight at once take effect in any order, so a program waits for one before it begins another
/// that has to follow it. If a future is dropped, its operation goes on. A collective that changes
/// the phase or the slots of the map waits for operations of this rank, and so does the map's drop,
/// except in a handler: there the operations keep this rank in the job until it has made the
/// progress that they need. If a time limit ends the wait for a future or for all operations, the
/// job fails, since they go on.
///
/// An operation on slots that this process reaches by loads and stores is done before the call
/// returns, and its future is ready. So is each one on a rank that is not
/// [attached](pgas_am::attach()). The others go on, a step at a time, when this rank makes progress.
/// Where [ranks serve](HashMap#cost) operations, there is one step. Elsewhere an operation may have
/// reserved a slot between two of its steps, and other ranks with the same key wait for this rank's
/// progress.
///
/// A batch ([`insert_many`](Self::insert_many) and others) is cheaper if all keys are known
/// beforehand. Some hundred operations at a time are enough to hide the latency of a network; each
/// one in flight costs ℓ in every round of progress.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Begins an [`insert`](Self::insert).
    ///
    /// # Cost
    ///
    /// That of an [`insert`](Self::insert): 2A + W for a new key, 2A + R over a word, and so on; or
    /// M. Two to five allocations if it is not done at once.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), at once or by the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_am::when_all;
    /// use pgas_containers::HashMap;
    /// use pgas_containers::hash_map::Inserted;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let squares = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    /// let inserts = (0..10).map(|n| squares.insert_nb(&n, n * n));
    /// let inserts = inserts.collect::<Result<Vec<_>, _>>()?; // all are in flight
    /// assert_eq!(when_all(inserts).wait()?, [Inserted::New; 10]);
    ///
    /// assert!(squares.remove_nb(&2)?.wait()?);
    /// assert_eq!(squares.insert_if_absent_nb(&3, 8)?.wait()?, Some(9));
    /// assert_eq!(squares.fetch_add_nb(&4, 1)?.wait()?, 16);
    /// assert_eq!(squares.update_nb(&5, |n| n * 100)?.wait()?, Some(25));
    /// assert!(squares.contains_nb(&6)?.wait()?);
    /// let (two, five) = (squares.find_nb(&2)?, squares.find_nb(&5)?);
    /// assert_eq!(when_all((two, five)).wait()?, (None, Some(2500)));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn insert_nb<Q: ?Sized>(&self, key: &Q, value: V) -> Result<PgasFuture<Inserted>>
    where
        P: Inserts,
        K: FoundBy<Q>,
    {
        let done = self
            .table
            .perform_nb::<Insert, _>(key, move |heap| object::to_slot(&value, heap))?;
        Ok(done.then(Inserted::over))
    }

    /// Begins an [`insert_if_absent`](Self::insert_if_absent).
    ///
    /// # Cost
    ///
    /// That of an [`insert_if_absent`](Self::insert_if_absent); allocations as
    /// [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`insert_nb`](Self::insert_nb).
    #[track_caller]
    pub fn insert_if_absent_nb<Q: ?Sized>(&self, key: &Q, value: V) -> Result<PgasFuture<Option<V>>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table
            .perform_nb::<GetOrInsert, _>(key, move |heap| object::to_slot(&value, heap))
    }

    /// Begins a [`find`](Self::find).
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// Those of [`find`](Self::find), at once or by the future.
    #[track_caller]
    pub fn find_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<Option<V>>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.table.perform_nb::<Find<P>, _>(key, |_| Ok(()))
    }

    /// Begins a [`contains`](Self::contains).
    ///
    /// # Cost
    ///
    /// That of a [`contains`](Self::contains); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`find_nb`](Self::find_nb).
    #[track_caller]
    pub fn contains_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<bool>>
    where
        P: Finds,
        K: FoundBy<Q>,
    {
        self.table.perform_nb::<Contains<P>, _>(key, |_| Ok(()))
    }

    /// Begins an [`update`](Self::update). `f` runs on this rank, within this call or within its
    /// progress, and must not wait.
    ///
    /// # Cost
    ///
    /// That of an [`update`](Self::update); allocations as [`insert_nb`](Self::insert_nb), and one
    /// for each call of `f`.
    ///
    /// # Errors
    ///
    /// Those of [`update`](Self::update), at once or by the future; a panic of `f` is one, too, if
    /// it does not run within this call.
    #[track_caller]
    pub fn update_nb<Q: ?Sized>(
        &self,
        key: &Q,
        f: impl FnMut(V) -> V + Send + 'static,
    ) -> Result<PgasFuture<Option<V>>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table.update_nb(key, f)
    }

    /// Begins a [`remove`](Self::remove).
    ///
    /// # Cost
    ///
    /// That of a [`remove`](Self::remove); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Self::remove), at once or by the future.
    #[track_caller]
    pub fn remove_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<bool>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table.perform_nb::<Remove, _>(key, |_| Ok(()))
    }

    /// Begins a [`take`](Self::take).
    ///
    /// # Cost
    ///
    /// That of a [`take`](Self::take); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// Those of [`take`](Self::take), at once or by the future.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let places = HashMap::<u64, [f64; 3]>::with_capacity(&world, 100)?;
    /// places.insert(&7, [1.0, 2.0, 3.0])?;
    /// let (seven, eight) = (places.take_nb(&7)?, places.take_nb(&8)?); // both are in flight
    /// assert_eq!((seven.wait()?, eight.wait()?), (Some([1.0, 2.0, 3.0]), None));
    /// assert!(!places.contains(&7)?);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn take_nb<Q: ?Sized>(&self, key: &Q) -> Result<PgasFuture<Option<V>>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        const { check_takes::<K, V>() }
        let value = Taken::value_of;
        self.table
            .perform_nb_to::<Take, _, _>(key, |_| Ok(()), value)
    }
}

impl<K, V, P, S> HashMap<K, V, P, S>
where
    K: Object,
    V: AtomicNumber + Object<Repr = Plain>,
    P: Phase,
    S: KeyHasher,
{
    /// Begins a [`fetch_add`](Self::fetch_add).
    ///
    /// # Cost
    ///
    /// That of a [`fetch_add`](Self::fetch_add); allocations as [`insert_nb`](Self::insert_nb).
    ///
    /// # Errors
    ///
    /// As [`insert_nb`](Self::insert_nb).
    #[track_caller]
    pub fn fetch_add_nb<Q: ?Sized>(&self, key: &Q, n: V) -> Result<PgasFuture<V>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        let done = self.table.perform_nb::<Add, _>(key, move |_| Ok(n))?;
        Ok(done.then(|former| former.unwrap_or(V::new_zeroed())))
    }
}
