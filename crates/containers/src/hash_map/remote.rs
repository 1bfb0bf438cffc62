//! Operations on a key of a map whose slots are not all local, or are counted or reused.
//!
//! The operation runs on the key's home shard: here, if this process reaches that shard, or at the
//! home rank, if ranks serve requests. Otherwise it is one-sided.

use std::panic::Location;

use pgas_core::{Pod, Rank, in_handler, part_of_at};
use zerocopy::IntoBytes as _;

use super::hash::Hash;
use super::op::OnKey;
use super::operations::{Find, Replace, Update};
use super::outcome::{Effect, Outcome as _};
use super::phase::Atomic;
use super::served::{OnShards, Request};
use super::shard::Served;
use super::slot::copied::BlockCopy;
use super::slot::layout::Pair;
use super::slot::remote::{Remote, Steps};
use super::slot::replayed::Journal;
use super::table::Table;
use super::view::{LocalView, Shape, View};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::requests::{self, LONGEST_PART};
use crate::{Error, Result};

/// The longest entry, in bytes, that is sent in messages.
const LONGEST: usize = 4096;

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Whether messages carry entries of this type. Their slots must be short: the transfer
    /// dominates for a long entry, and each step on its way would copy it on the stack.
    pub(super) const FITS_MESSAGE: bool =
        size_of::<SlotOf<K>>() > 0 && size_of::<SlotOf<K>>() + size_of::<SlotOf<V>>() <= LONGEST;

    /// The object that requests to other ranks name, if ranks serve requests.
    pub(super) fn served(&self) -> Option<&Served<K, V, S>> {
        self.common.served.as_ref().filter(|_| !in_handler())
    }

    /// Whether `O` on a key of rank `home` is sent there as a message. A read-only lookup is sent
    /// only if a get needs the target's CPU, too.
    pub(super) fn is_message<O: OnKey<K, V>>(served: &Served<K, V, S>, home: Rank) -> bool {
        let needs_target = served.world().capabilities().needs_target;
        (!O::IS_READ_ONLY || needs_target.get) && !served.is_here(home)
    }

    /// Performs `O` on the key's home shard, if this process reaches it. `None` if it does not, or
    /// if the search goes on in the next shard; what `given` made is released then.
    pub(super) fn perform_near<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        given: impl FnOnce(&Heap) -> Result<O::Given>,
    ) -> Result<Option<O::Outcome>> {
        if !Self::FITS_MESSAGE {
            return Ok(None);
        }
        let near = self.shards.with_near(self.shape.home_rank(hash), |view| {
            given(self.heap()).and_then(|given| O::perform(&view, hash, key, given))
        });
        match near {
            Some(Err(Error::Full { .. })) => Ok(None),
            done => done.transpose(),
        }
    }

    /// Performs `O` on the key's home shard: here, if this process reaches it, or at the home rank
    /// by a message (M). `None` if `O` has to be one-sided.
    #[inline(never)]
    fn perform_at_home<O>(
        &self,
        key: &KeyOf<K>,
        given: &mut dyn FnMut(&Heap) -> Result<O::Given>,
    ) -> Result<Option<O::Outcome>>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        let hash = self.shape.hash(key);
        if let Some(done) = self.perform_near::<O>(hash, key, &mut *given)? {
            return Ok(Some(done));
        }
        let home = self.shape.home_rank(hash);
        let is_message = |served: &&_| Self::is_message::<O>(served, home);
        let Some(served) = self.served().filter(is_message) else {
            return Ok(None);
        };
        let parcel = Heap::parcel(Vec::new());
        let request = request::<K, V, O>(key, given(&parcel)?, &parcel)?;
        if parcel.n_packed() > LONGEST_PART {
            return Ok(None);
        }
        let answer = requests::ask::<OnShards<O, K, V, S>>(served, home, (request, parcel))?;
        let done = answer.map(|(answer, parcel)| O::Outcome::of_answer(answer, &parcel));
        done.transpose()
    }

    /// As [`perform`](Self::perform), if slots are not local, or are counted or reused. `at` is the
    /// line of the program.
    pub(super) fn perform_out_of_line<O: OnKey<K, V>>(
        &self,
        key: &KeyOf<K>,
        mut given: impl FnMut(&Heap) -> Result<O::Given>,
        elsewhere: impl FnOnce(
            &Self,
            &KeyOf<K>,
            &mut dyn FnMut(&Heap) -> Result<O::Given>,
        ) -> Result<O::Outcome>,
        at: &'static Location<'static>,
    ) -> Result<O::Outcome> {
        let _waits = part_of_at(O::EFFECT.whole(), at);
        if let Some(reused) = &self.reused {
            let perform = |view: LocalView<'_, K, V, S>| {
                let (hash, given) = (view.hash(key), given(self.heap())?);
                O::perform(&view, hash, key, given)
            };
            return match O::EFFECT {
                Effect::Read => self.read_optimistically(reused, perform),
                Effect::Claim => self.shape.claim_or_make_room(reused, perform),
                Effect::Change | Effect::Remove => self.shape.in_section(reused, perform),
            };
        }
        let (world, row) = (self.world(), O::rows().map(|[row, _]| row));
        if let Some(all) = &self.counted {
            let perform = || {
                let (hash, given) = (self.shape.hash(key), given(self.heap())?);
                O::perform(&self.view_counted(all, O::IS_READ_ONLY), hash, key, given)
            };
            let missed = |done: &Result<O::Outcome>| {
                usize::from(done.as_ref().is_ok_and(|done| !done.was_there()))
            };
            return match row {
                Some(row) => world.perform_near(row, 1, perform, missed),
                None => world.count_steps(perform),
            };
        }
        // Before the operation: the error of a handler would take the place of what it has done.
        if O::EFFECT != Effect::Claim {
            world.look_around()?;
        }
        let performing = row.map(|row| world.performs(row, 1));
        let done = elsewhere(self, key, &mut given)?;
        if let Some(mut performing) = performing.filter(|_| !done.was_there()) {
            performing.miss(1);
        }
        Ok(done)
    }

    /// As [`perform`](Self::perform), if slots are not local.
    pub(super) fn perform_elsewhere<O>(
        &self,
        key: &KeyOf<K>,
        given: &mut dyn FnMut(&Heap) -> Result<O::Given>,
    ) -> Result<O::Outcome>
    where
        O: OnKey<K, V, Given: Pod> + 'static,
    {
        if let Some(done) = self.perform_at_home::<O>(key, given)? {
            return Ok(done);
        }
        let (hash, given) = (self.shape.hash(key), given(self.heap())?);
        self.shape.perform_one_sided::<O>(hash, key, given)
    }

    /// As [`update`](Self::update), if slots are not local. It is one-sided if the value may be
    /// longer than its slot, or the key's home rank cannot perform it.
    pub(super) fn update_elsewhere<F: FnMut(V) -> Result<SlotOf<V>>>(
        &self,
        key: &KeyOf<K>,
        f: &mut dyn FnMut(&Heap) -> Result<F>,
    ) -> Result<Option<V>> {
        let mut f = f(self.heap())?;
        let is_comparable = !object::has_heap::<V>();
        if is_comparable && let Some(done) = self.update_at_home(key, &mut f)? {
            return Ok(done);
        }
        let view = self.view_remote();
        view.perform::<Update<_>>(view.hash(key), key, f)
    }

    /// Reads the value at the key's home rank, computes the new value here, and replaces the former
    /// one if it is still there. Returns `None` if that rank cannot do so. A function of its own:
    /// its values are not on the stack of a one-sided update.
    fn update_at_home(
        &self,
        key: &KeyOf<K>,
        f: &mut impl FnMut(V) -> Result<SlotOf<V>>,
    ) -> Result<Option<Option<V>>> {
        let slot = |value: &V| object::to_slot(value, self.heap());
        let mut there = self.perform_at_home::<Find<Atomic>>(key, &mut |_| Ok(()))?;
        while let Some(found) = there {
            let Some(value) = found else {
                return Ok(Some(None));
            };
            let expected = slot(&value)?;
            let values = Pair::new(expected, f(value)?);
            there = self.perform_at_home::<Replace>(key, &mut |_| Ok(values))?;
            if let Some(Some(former)) = &there
                && slot(former)?.as_bytes() == expected.as_bytes()
            {
                return Ok(there);
            }
        }
        Ok(None)
    }
}

/// The request for `O`. A long key goes into the parcel.
pub(super) fn request<K: Object, V: Object, O: OnKey<K, V, Given: Pod>>(
    key: &KeyOf<K>,
    given: O::Given,
    parcel: &Heap,
) -> Result<Request<O, K, V>> {
    let key = <K::Repr as Repr<K>>::key_slot(key, parcel)?;
    Ok(Pair::new(key, given))
}

impl<K: Object, V: Object, S: KeyHasher> Shape<K, V, S> {
    /// Performs `O` by operations on global pointers.
    pub(super) fn perform_one_sided<O: OnKey<K, V>>(
        &self,
        hash: Hash,
        key: &KeyOf<K>,
        given: O::Given,
    ) -> Result<O::Outcome> {
        let copy = BlockCopy::default();
        let steps = if O::IS_READ_ONLY {
            Steps::Copied(&copy)
        } else {
            Steps::Blocking
        };
        O::perform(&self.view_remote(None, steps), hash, key, given)
    }

    /// Takes steps of an operation by non-blocking operations on global pointers, until it is
    /// complete, or one of them is in flight. Then it is called again later, with the same
    /// `journal`. `run` performs the operation.
    pub(super) fn replay<'a, T>(
        &'a self,
        journal: &'a Journal,
        mut run: impl FnMut(View<'a, K, V, S, Remote<'a>>) -> Result<T>,
    ) -> Option<Result<T>> {
        while journal.rewind() {
            let done = run(self.view_remote(None, Steps::Replayed(journal)));
            if !journal.record().is_suspended() {
                return Some(done);
            }
            if journal.record().waits() {
                break;
            }
        }
        None
    }
}
