//! Operations on a key of a map whose slots are not all local, or are counted or reused.
//!
//! The operation runs on the key's home shard: here, if this process reaches that shard, or at the
//! home rank, if ranks serve requests. Otherwise it is one-sided.

use std::panic::Location;

use pgas_core::{Pod, Rank, World, in_handler, part_of_at};
use zerocopy::IntoBytes as _;

use super::hash::Hash;
use super::op::{Effect, Find, OnKey, Replace};
use super::outcome::Outcome as _;
use super::phase::Atomic;
use super::served::OnShards;
use super::shard::{LocalShardView, Served};
use super::slot::copied::BlockCopy;
use super::slot::layout::Pair;
use super::table::{LocalView, Table};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{Error, Result, prices, requests};

/// The longest entry, in bytes, that is sent in messages.
const LONGEST: usize = 4096;

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Whether messages carry entries of this type. They must own no heap memory. They must be
    /// short: the transfer dominates for a long entry, and each step on its way would copy it on
    /// the stack.
    pub(super) const FITS_MESSAGE: bool = !object::has_heap::<K>()
        && !object::has_heap::<V>()
        && size_of::<SlotOf<K>>() > 0
        && size_of::<SlotOf<K>>() + size_of::<SlotOf<V>>() <= LONGEST;

    /// The object that requests to other ranks name, if ranks serve requests.
    pub(super) fn served(&self) -> Option<&Served<K, V, S>> {
        self.flights.0.served.as_ref().filter(|_| !in_handler())
    }

    /// Whether `O` is sent as a message if ranks serve requests. A read-only lookup is sent only if
    /// a get needs the target's CPU, too.
    pub(super) fn is_message<O: OnKey<K, V>>(world: &World) -> bool {
        !O::IS_READ_ONLY || world.capabilities().needs_target.get
    }

    /// Performs `O` on the key's home shard, if this process reaches that. `None` if it does not,
    /// or if the search goes on in the next shard.
    pub(super) fn perform_near<O>(
        &self,
        key: &KeyOf<K>,
        hash: Hash,
        given: O::Given,
    ) -> Result<Option<O::Outcome>>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let Some(view) = self.near_shard(hash) else {
            return Ok(None);
        };
        unless_full(O::perform(&view, hash, key, given))
    }

    /// The shard of the home slot of a key with this hash, if this process reaches it by loads and
    /// stores and works on it as messages would.
    pub(super) fn near_shard(&self, hash: Hash) -> Option<LocalShardView<'_, K, V, S>> {
        let home = Self::FITS_MESSAGE.then(|| self.shape.home_rank(hash))?;
        self.shards.local(home)
    }

    /// Performs `O` on the key's home shard: here, if this process reaches it, or at the home rank
    /// by a message (M). `None` if `O` has to be one-sided.
    #[inline(never)]
    fn perform_at_home<O>(&self, key: &KeyOf<K>, given: O::Given) -> Result<Option<O::Outcome>>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        if !Self::FITS_MESSAGE {
            return Ok(None);
        }
        let hash = Hash::of::<K>(key, &*self.shape.hasher);
        if self.near_shard(hash).is_some() {
            return self.perform_near::<O>(key, hash, given);
        }
        let home = self.shape.home_rank(hash);
        let may_ask = Self::is_message::<O>(self.world()) && home != self.world().rank();
        let Some(served) = self.served().filter(|_| may_ask) else {
            return Ok(None);
        };
        let key = <K::Repr as Repr<K>>::key_slot(key, self.heap())?;
        let request = Pair::new(key, given);
        let answer = requests::ask::<OnShards<O, K, V, S>>(served, home, request)?;
        let done = answer.map(|answer| O::Outcome::of_answer(answer, self.heap()));
        done.transpose()
    }

    /// As [`perform`](Self::perform), if slots are not local, or are reused. `at` is the line of the
    /// program.
    pub(super) fn perform_out_of_line<O>(
        &self,
        key: &KeyOf<K>,
        given: impl Fn(&Heap) -> Result<O::Given>,
        at: &'static Location<'static>,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let _waits = part_of_at(O::EFFECT.whole(), at);
        let given = || given(self.heap());
        if let Some(reused) = &self.reused {
            let perform =
                |view: LocalView<'_, K, V, S>| O::perform(&view, view.hash(key), key, given()?);
            return match O::EFFECT {
                Effect::Read => self.read_optimistically(reused, perform),
                Effect::Claim => self.claim_or_make_room(reused, perform),
                Effect::Change | Effect::Remove => self.in_section(reused, perform),
            };
        }
        if let Some(all) = &self.counted {
            let view = self.view_local(all);
            let perform = || O::perform(&view, view.hash(key), key, given()?);
            let missed = |done: &Result<O::Outcome>| {
                usize::from(done.as_ref().is_ok_and(|done| !done.was_there()))
            };
            return self.perform_counted(O::rows().map(|[row, _]| row), 1, perform, missed);
        }
        let Some([row, _]) = O::rows() else {
            return self.perform_elsewhere::<O>(key, given()?);
        };
        let mut performing = self.world().performs(row, 1);
        let done = self.perform_elsewhere::<O>(key, given()?)?;
        if !done.was_there() {
            performing.miss(1);
        }
        Ok(done)
    }

    /// As [`perform`](Self::perform), if slots are not local.
    fn perform_elsewhere<O>(&self, key: &KeyOf<K>, given: O::Given) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        if let Some(done) = self.perform_at_home::<O>(key, given)? {
            return Ok(done);
        }
        let hash = Hash::of::<K>(key, &*self.shape.hasher);
        if O::IS_READ_ONLY {
            let copy = BlockCopy::default();
            let view = self.shape.view_copied::<false>(Rank::ZERO, &copy);
            return O::perform(&view, hash, key, given);
        }
        O::perform(&self.view_remote(), hash, key, given)
    }

    /// Replaces the value of a key by the encoded value that `f` makes of it. Returns the former
    /// value.
    pub(super) fn update_out_of_line(
        &self,
        key: &KeyOf<K>,
        mut f: impl FnMut(V) -> Result<SlotOf<V>>,
        at: &'static Location<'static>,
    ) -> Result<Option<V>> {
        let _waits = part_of_at(Effect::Change.whole(), at);
        if let Some(reused) = &self.reused {
            return self.in_section(reused, |view| view.update(view.hash(key), key, f));
        }
        if let Some(all) = &self.counted {
            let view = self.view_local(all);
            let update = || view.update(view.hash(key), key, f);
            let missed = |former: &Result<Option<V>>| usize::from(matches!(former, Ok(None)));
            return self.perform_counted(Some(&prices::HASH_MAP_UPDATE), 1, update, missed);
        }
        let mut performing = self.world().performs(&prices::HASH_MAP_UPDATE, 1);
        let former = match self.update_at_home(key, &mut f)? {
            Some(former) => former,
            None => {
                let view = self.view_remote();
                view.update(view.hash(key), key, f)?
            }
        };
        if former.is_none() {
            performing.miss(1);
        }
        Ok(former)
    }

    /// Updates the value at its home rank: reads it, computes the new value here, and replaces the
    /// old one by compare-and-swap. `None` if the update has to be one-sided.
    fn update_at_home(
        &self,
        key: &KeyOf<K>,
        f: &mut impl FnMut(V) -> Result<SlotOf<V>>,
    ) -> Result<Option<Option<V>>> {
        let slot = |value: &V| object::to_slot(value, self.heap());
        let mut there = self.perform_at_home::<Find<Atomic>>(key, ())?;
        loop {
            let Some(Some(value)) = there else {
                return Ok(there);
            };
            let expected = slot(&value)?;
            let values = Pair::new(expected, f(value)?);
            there = self.perform_at_home::<Replace>(key, values)?;
            if let Some(Some(former)) = &there
                && slot(former)?.as_bytes() == expected.as_bytes()
            {
                return Ok(there);
            }
        }
    }
}

/// The result of an operation on a shard; `None` if its search goes on in the next one.
pub(super) fn unless_full<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Error::Full { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
