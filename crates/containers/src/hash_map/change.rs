//! Operations that change the value of a present key or remove it, in the phases in which every
//! rank may.

use std::panic::Location;

use super::HashMap;
use super::operations::{GetOrInsert, Remove, Take, Update};
use super::outcome::Taken;
use super::phase::{Changes, Phase};
use super::slot::LayoutOf;
use super::slot::layout::ValueKind;
use super::table::Table;
use super::view::out_of_line;
use crate::Result;
use crate::object::{self, FoundBy, Heap, KeyHasher, Object};

/// Changes, in the phase in which any rank does anything.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Replaces the value of `key` by `f` of it, atomically, and returns the former one, or `None`
    /// if the key is absent.
    ///
    /// `f` runs on this rank while nothing is locked, and again each time that another rank changed
    /// the value meanwhile; if it panics, the map is as before. It may use the map, but if it
    /// changes this entry itself, it is called for ever, which is reported like a long wait.
    ///
    /// # Cost
    ///
    /// 3A + R for a value that is a word, 4A + R + W for another one; 2A + R more for each time
    /// that another rank was faster. Absent: A. One-sided; or 2M, and M more for each time that
    /// another rank was faster; M for an absent key. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; the failure of the job while waiting for a writer.
    #[inline]
    #[track_caller]
    pub fn update<Q: ?Sized>(&self, key: &Q, f: impl FnMut(V) -> V) -> Result<Option<V>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table.update(key, f)
    }

    /// Replaces the value of `key` by `combine` of it, atomically, and returns the former one; if
    /// the key is absent, inserts `value`.
    ///
    /// `combine` runs on this rank while nothing is locked, and again each time that another rank
    /// changed the value meanwhile; if it panics, the map is as before.
    ///
    /// # Cost
    ///
    /// That of an [`update`](Self::update) for a present key: 3A + R for a value that is a word,
    /// 4A + R + W for another one. For an absent one 3A + W. One-sided; or 2M. Complete at the
    /// target on return.
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
    /// let words = HashMap::<char, String>::with_capacity(&world, 100)?;
    /// for word in ["red", "green", "rose"] {
    ///     let first = word.chars().next().unwrap();
    ///     words.upsert(&first, word.to_owned(), |list| list + " " + word)?;
    /// }
    /// assert_eq!(words.find(&'r')?.as_deref(), Some("red rose"));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn upsert<Q: ?Sized>(
        &self,
        key: &Q,
        value: V,
        combine: impl FnMut(V) -> V,
    ) -> Result<Option<V>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.modify_or_insert_with(key, combine, || value)
    }

    /// Replaces the value of `key` by `modify` of it, atomically, and returns the former one; if
    /// the key is absent, inserts the result of `make`. In std this is
    /// `entry(key).and_modify(modify).or_insert_with(make)`; an entry cannot be held here, since
    /// other ranks change it at any time.
    ///
    /// Both run on this rank while nothing is locked: `modify` again each time that another rank
    /// changed the value meanwhile, `make` at most once, if the key was absent. If one of them
    /// panics, the map is as before. Closures do not travel; where the home rank is to do the work,
    /// name it by a type, as in [`upsert_many`](Self::upsert_many).
    ///
    /// # Cost
    ///
    /// As [`upsert`](Self::upsert).
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
    /// let lines = HashMap::<String, Vec<u32>>::with_capacity(&world, 100)?;
    /// for (line, word) in (1..).zip(["to", "be", "to"]) {
    ///     let append = |mut there: Vec<u32>| {
    ///         there.push(line);
    ///         there
    ///     };
    ///     lines.modify_or_insert_with(word, append, || vec![line])?;
    /// }
    /// assert_eq!(lines.find("to")?, Some(vec![1, 3]));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[doc(alias = "entry")]
    #[doc(alias = "and_modify")]
    #[track_caller]
    pub fn modify_or_insert_with<Q: ?Sized>(
        &self,
        key: &Q,
        mut modify: impl FnMut(V) -> V,
        make: impl FnOnce() -> V,
    ) -> Result<Option<V>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        let modify: &mut dyn FnMut(V) -> V = &mut modify;
        let Some(former) = self.table.update(key, &mut *modify)? else {
            let value = make();
            return self.insert_or_modify(key, &value, modify);
        };
        Ok(Some(former))
    }

    /// Inserts `value` if `key` is still absent, else modifies what is there.
    #[track_caller]
    fn insert_or_modify<Q: ?Sized>(
        &self,
        key: &Q,
        value: &V,
        modify: &mut dyn FnMut(V) -> V,
    ) -> Result<Option<V>>
    where
        K: FoundBy<Q>,
    {
        loop {
            let value = |heap: &Heap| object::to_slot(value, heap);
            if self.table.perform::<GetOrInsert, _>(key, value)?.is_none() {
                return Ok(None);
            }
            let former = self.table.update(key, &mut *modify)?;
            if former.is_some() {
                return Ok(former);
            }
        }
    }

    /// Removes `key`. Returns whether it was there; [`take`](Self::take) also returns the value.
    ///
    /// Heap memory of the value is free again at once. The slot stays reserved for the key, for
    /// when it is inserted again. Other keys can use it after a [`resize`](Self::resize), and after
    /// a change of phase in which three quarters of the slots are taken, or the map has fewer than
    /// 64 slots. In a map with [`reuse_slots`](Self::reuse_slots) they can soon, without a
    /// collective.
    ///
    /// # Cost
    ///
    /// 2A + R for a present key, and R more for a value that may be longer than its slot if another
    /// rank came in between. Absent: A. One-sided; or M. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; the failure of the job while waiting for a writer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<String, Vec<u64>>::with_capacity(&world, 100)?;
    /// map.insert("primes", vec![2, 3, 5])?;
    /// assert!(map.remove("primes")?);
    /// assert!(!map.remove("primes")?);
    /// assert_eq!(map.find("primes")?, None);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn remove<Q: ?Sized>(&self, key: &Q) -> Result<bool>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        self.table.perform::<Remove, _>(key, |_| Ok(()))
    }

    /// Removes `key`, and returns its value, `None` if it was absent. Of several ranks that take
    /// the same key at once, one gets the value.
    ///
    /// Otherwise as [`remove`](Self::remove).
    ///
    /// Values of four or eight bytes, which are changed by one atomic, cannot be taken: another
    /// rank could change the value between its read and its removal, and nobody would notice. A
    /// call is an error when the program is built (not yet by `cargo check`). In the local phase
    /// [`local_remove`](Self::local_remove) returns values of every size, and
    /// [`remove`](Self::remove) needs no value.
    ///
    /// # Cost
    ///
    /// 3A + R for a present key, 2A + R if the value has no bytes; again 2A + R for each time that
    /// another rank changed the value meanwhile. Absent: A. One-sided; or M. Complete at the
    /// target on return.
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove); [`Error::Codec`](crate::Error::Codec) if the value is no `V`,
    /// and then it stays. By a message the key's home rank reads the value first: if it can, and
    /// this rank cannot, the key is removed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let jobs = HashMap::<u32, String>::with_capacity(&world, 100)?;
    /// jobs.insert(&7, "seven".to_owned())?;
    /// assert_eq!(jobs.take(&7)?.as_deref(), Some("seven"));
    /// assert_eq!(jobs.take(&7)?, None);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    ///
    /// A number is one atomic:
    ///
    /// ```compile_fail
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let counts = HashMap::<u32, u64>::with_capacity(&world, 100)?;
    /// counts.take(&7)?;
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn take<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>>
    where
        P: Changes,
        K: FoundBy<Q>,
    {
        const { check_takes::<K, V>() }
        Taken::value_of(self.table.perform::<Take, _>(key, |_| Ok(()))?)
    }
}

/// Panics, within a constant, if values cannot be taken.
pub(super) const fn check_takes<K: Object, V: Object>() {
    let kind = LayoutOf::<K, V>::KIND;
    assert!(
        matches!(kind, ValueKind::Nothing | ValueKind::Wide),
        "a value of 4 or 8 bytes is changed by one atomic, and cannot be taken while other ranks \
         change it: `remove` it, or take it by `local_remove` in the local phase"
    );
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// As [`HashMap::update`](super::HashMap::update).
    #[inline(always)]
    #[track_caller]
    pub(super) fn update<Q: ?Sized>(&self, key: &Q, mut f: impl FnMut(V) -> V) -> Result<Option<V>>
    where
        K: FoundBy<Q>,
    {
        let key = K::key_by(key)?;
        let heap = self.heap();
        let f = move |there| object::to_slot(&f(there), heap);
        match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.perform::<Update<_>>(view.hash(&key), &key, f)
            }
            None => {
                let (at, mut f) = (Location::caller(), Some(f));
                // An update takes no free slot, and is not repeated.
                let given = move |_: &Heap| Ok(f.take().expect("it is asked for once"));
                let elsewhere = Self::update_elsewhere;
                out_of_line(move || {
                    self.perform_out_of_line::<Update<_>>(&key, given, elsewhere, at)
                })
            }
        }
    }
}
