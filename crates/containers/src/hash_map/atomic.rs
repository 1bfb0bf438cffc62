//! The phase in which any rank does anything.

use pgas_core::atomics::AtomicInteger;
use pgas_core::backend::AtomicOp;

use super::phase::{Changes, Phase};
use super::quick::{Claimed, Found};
use super::slot::SlotMemory as _;
use super::table::{Table, over_slots};
use super::{HashMap, Inserted};
use crate::Result;
use crate::object::{self, KeyHasher, Object, Plain, SlotOf};

/// While any rank does anything.
impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
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
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub fn update(&self, key: &K, mut f: impl FnMut(V) -> V) -> Result<Option<V>>
    where
        P: Changes,
    {
        let key = object::key(key)?;
        if let Some(view) = self.table.view_quick() {
            match view.look_quickly(&key)? {
                Found::Held(slot) => return view.update_ready(slot, f),
                Found::Absent => return Ok(None),
                Found::Unsure => {}
            }
        }
        over_slots!(self.table, |view| for SlotOf<V>: {
            view.update(&key, |there| Ok(f(there)))
        })
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
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub fn get_or_insert(&self, key: &K, value: V) -> Result<V>
    where
        P: Changes,
    {
        let there = self.table.get_or_insert(key, &value)?;
        Ok(there.unwrap_or(value))
    }

    /// The value of `key`; if it is absent, inserts what `f` returns, and returns that.
    ///
    /// `f` runs on this rank while nothing is locked; if it panics, the map is as before. If another rank inserts the
    /// key meanwhile, its value stays and what `f` returned is dropped.
    ///
    /// # Cost
    ///
    /// That of a [`find`](Self::find), and for an absent key of a [`get_or_insert`](Self::get_or_insert): 3A + W. One-sided.
    /// Complete at the target on return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn get_or_insert_with(&self, key: &K, f: impl FnOnce() -> V) -> Result<V>
    where
        P: Changes,
    {
        match self.find(key)? {
            Some(value) => Ok(value),
            None => self.get_or_insert(key, f()),
        }
    }

    /// Replaces the value of `key` by `combine` of it, atomically, and returns the former one; if the key is absent,
    /// inserts `value`.
    ///
    /// `combine` runs on this rank while nothing is locked, and again each time that another rank changed the value
    /// meanwhile; if it panics, the map is as before.
    ///
    /// # Cost
    ///
    /// That of an [`update`](Self::update) for a present key: A + R, then 2A for a value that is a word, 3A + W for another
    /// one. For an absent one 3A + W. One-sided. Complete at the target on return.
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
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is given away, as to a map of std"
    )]
    pub fn upsert(&self, key: &K, value: V, mut combine: impl FnMut(V) -> V) -> Result<Option<V>>
    where
        P: Changes,
    {
        self.table.upsert(key, &value, &mut combine)
    }

    /// Removes `key`, and says whether it was there.
    ///
    /// What its value takes outside of the slot is free again at once. The slot itself stays the key's, for when it is inserted again;
    /// for other keys it is free after a [`resize`](Self::resize), and after a change of phase that finds three quarters of the slots
    /// taken or less than 64 slots.
    ///
    /// # Cost
    ///
    /// 2A + R for a present key, and R more for a value that may be longer than its slot if another rank came in between.
    /// Absent: A. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// What the transport reports; the failure of the job while waiting for a writer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let map = HashMap::<String, Vec<u64>>::with_capacity(&world, 100)?;
    /// let key = "primes".to_owned();
    /// map.insert(&key, vec![2, 3, 5])?;
    /// assert!(map.remove(&key)?);
    /// assert!(!map.remove(&key)?);
    /// assert_eq!(map.find(&key)?, None);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn remove(&self, key: &K) -> Result<bool>
    where
        P: Changes,
    {
        let key = object::key(key)?;
        let removed = over_slots!(self.table, |view| view.remove(&key))?;
        self.table.count_removed(u64::from(removed));
        Ok(removed)
    }
}

impl<K, V, P, S> HashMap<K, V, P, S>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    P: Phase,
    S: KeyHasher,
{
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
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub fn fetch_add(&self, key: &K, n: V) -> Result<V>
    where
        P: Changes,
    {
        let key = object::key(key)?;
        if let Some(view) = self.table.view_quick() {
            match view.claim_quickly(&key)? {
                Claimed::Held(slot) => return Ok(slot.fetch_op(AtomicOp::Add, n)?),
                Claimed::New(slot, print) => {
                    view.publish(slot, &key, n, print)?;
                    self.table.count_new(1);
                    return Ok(V::new_zeroed());
                }
                Claimed::Unsure => {}
            }
        }
        let former =
            over_slots!(self.table, |view| for SlotOf<V>: view.add(view.home_of(&key), &key, n))?;
        self.table.count_new(u64::from(former.is_none()));
        Ok(former.unwrap_or(V::new_zeroed()))
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// As [`HashMap::find`], while others may change what is there.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub(super) fn find(&self, key: &K) -> Result<Option<V>> {
        let key = object::key(key)?;
        if let Some(view) = self.view_quick() {
            match view.look_quickly(&key)? {
                Found::Held(slot) => return view.word_in(slot).map(Some),
                Found::Absent => return Ok(None),
                Found::Unsure => {}
            }
        }
        over_slots!(self, |view| for SlotOf<V>: view.find(view.home_of(&key), &key))
    }

    /// As [`HashMap::contains`], while others may change what is there.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub(super) fn contains(&self, key: &K) -> Result<bool> {
        let key = object::key(key)?;
        if let Some(view) = self.view_quick() {
            match view.look_quickly(&key)? {
                Found::Held(_) => return Ok(true),
                Found::Absent => return Ok(false),
                Found::Unsure => {}
            }
        }
        over_slots!(self, |view| for SlotOf<V>: view.contains(&key))
    }

    /// As [`HashMap::insert`].
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    pub(super) fn insert(&self, key: &K, value: &V) -> Result<Inserted> {
        let key = object::key(key)?;
        let value = object::to_slot(value, &self.heap)?;
        if let Some(view) = self.view_quick() {
            match view.claim_quickly(&key)? {
                Claimed::New(slot, print) => {
                    view.publish(slot, &key, value, print)?;
                    self.count_new(1);
                    return Ok(Inserted::New);
                }
                Claimed::Held(slot) => {
                    slot.swap_word(value)?;
                    return Ok(Inserted::Replaced);
                }
                Claimed::Unsure => {}
            }
        }
        let inserted = over_slots!(self, |view| for SlotOf<V>: {
            view.insert(view.home_of(&key), &key, value)
        })?;
        self.count_new(u64::from(inserted == Inserted::New));
        Ok(inserted)
    }

    /// As [`HashMap::upsert`].
    pub(super) fn upsert(
        &self,
        key: &K,
        value: &V,
        combine: &mut dyn FnMut(V) -> V,
    ) -> Result<Option<V>> {
        let insert = &mut || self.is_inserted(key, value);
        self.upsert_by(key, insert, &mut |there| Ok(combine(there)))
    }

    /// As [`HashMap::upsert`], by functions that may fail, whose failure changes nothing: `insert` says whether it has
    /// inserted the key.
    pub(super) fn upsert_by(
        &self,
        key: &K,
        insert: &mut dyn FnMut() -> Result<bool>,
        combine: &mut dyn FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let sought = object::key(key)?;
        loop {
            let (sought, combine) = (&sought, &mut *combine);
            let former = over_slots!(self, |view| for SlotOf<V>: view.update(sought, combine))?;
            if former.is_some() || insert()? {
                return Ok(former);
            }
        }
    }

    /// Whether `key` was absent, and now has `value`.
    pub(super) fn is_inserted(&self, key: &K, value: &V) -> Result<bool> {
        Ok(self.get_or_insert(key, value)?.is_none())
    }

    /// The value that is there, if it was there before; else `value` is.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the way to near slots is short, the other one is a call"
    )]
    fn get_or_insert(&self, key: &K, value: &V) -> Result<Option<V>> {
        let key = object::key(key)?;
        let value = object::to_slot(value, &self.heap)?;
        if let Some(view) = self.view_quick() {
            match view.claim_quickly(&key)? {
                Claimed::New(slot, print) => {
                    view.publish(slot, &key, value, print)?;
                    self.count_new(1);
                    return Ok(None);
                }
                Claimed::Held(slot) => return view.word_in(slot).map(Some),
                Claimed::Unsure => {}
            }
        }
        let there = over_slots!(self, |view| for SlotOf<V>: view.get_or_insert(&key, value))?;
        self.count_new(u64::from(there.is_none()));
        Ok(there)
    }
}
