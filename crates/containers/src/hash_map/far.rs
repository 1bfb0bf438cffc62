//! Operations of a map whose slots are not all local, on keys whose home rank is near, or serves
//! requests; else one-sidedly.

use pgas_core::atomics::AtomicInteger;
use pgas_core::in_handler;
use zerocopy::IntoBytes as _;

use super::hash::Hash;
use super::part::Served;
use super::served::{
    Add, Contains, Find, GetOrInsert, Insert, OnKey, OnParts, Remove, Replace, There,
};
use super::slot::layout::Pair;
use super::table::Table;
use super::view::Inserted;
use crate::object::{self, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{Error, Result, requests};

/// Bytes of a key and its value that travel in messages, at most.
const LONGEST: usize = 4096;

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Whether keys and values are all that travels of them, and are worth it: of a long entry the
    /// transfer is what takes time, and each step on its way would have a copy on the stack.
    pub(super) const TRAVELS: bool = !object::has_heap::<K>()
        && !object::has_heap::<V>()
        && size_of::<SlotOf<K>>() > 0
        && size_of::<SlotOf<K>>() + size_of::<SlotOf<V>>() <= LONGEST;

    /// What other ranks are asked to work on, where they serve requests.
    pub(super) fn served(&self) -> Option<&Served<K, V, S>> {
        self.served.as_ref().filter(|_| !in_handler())
    }

    /// Whether a search in slots that nobody writes is a message, too, since a read is no less.
    pub(super) fn reads_by_messages(&self) -> bool {
        self.world().capabilities().needs_target.get
    }

    /// Carries out `O` on a key where it is: here, if this process reaches the slots of its home rank,
    /// or there, by a message (M) if it `may_ask`. Nothing if it is to be done one-sidedly.
    #[inline(never)]
    pub(super) fn at_home<O: OnKey<K, V, S>>(
        &self,
        key: &KeyOf<K>,
        given: O::Given,
        may_ask: bool,
    ) -> Result<Option<O::Answer>> {
        if !Self::TRAVELS {
            return Ok(None);
        }
        let hash = Hash::of::<K>(key, &*self.shape.hasher);
        let home = self.shape.ring.home(hash).rank();
        if let Some(view) = self.parts.as_ref().and_then(|parts| parts.near(home)) {
            return match O::perform(&view, hash, key, given) {
                Ok(done) => Ok(Some(done)),
                Err(Error::Full { .. }) => Ok(None),
                Err(error) => Err(error),
            };
        }
        match self.served() {
            Some(served) if may_ask && home != self.world().rank() => {
                let key = <K::Repr as Repr<K>>::key_slot(key, self.heap())?;
                let request = Pair::new(key, given);
                requests::ask::<OnParts<O, K, V, S>>(served, home, request)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn find_far(&self, key: &KeyOf<K>, is_read_only: bool) -> Result<Option<V>> {
        if let Some(reused) = &self.reused {
            return self.look(reused, |view| view.find(view.hash(key), key, is_read_only));
        }
        let from_slot = |slot| object::from_slot::<V>(slot, self.heap());
        let may_ask = !is_read_only || self.reads_by_messages();
        if let Some(there) = self.at_home::<Find>(key, (), may_ask)? {
            return there.value().map(from_slot).transpose();
        }
        let view = self.view_remote();
        view.find(view.hash(key), key, is_read_only)
    }

    pub(super) fn contains_far(&self, key: &KeyOf<K>, is_read_only: bool) -> Result<bool> {
        if let Some(reused) = &self.reused {
            return self.look(reused, |view| {
                view.contains(view.hash(key), key, is_read_only)
            });
        }
        let may_ask = !is_read_only || self.reads_by_messages();
        if let Some(is_there) = self.at_home::<Contains>(key, (), may_ask)? {
            return Ok(is_there != 0);
        }
        let view = self.view_remote();
        view.contains(view.hash(key), key, is_read_only)
    }

    pub(super) fn insert_far(&self, key: &KeyOf<K>, value: &V) -> Result<Inserted> {
        let slot = || object::to_slot(value, self.heap());
        if let Some(reused) = &self.reused {
            return self
                .where_room_is_made(reused, |view| view.insert(view.hash(key), key, slot()?));
        }
        let value = slot()?;
        if let Some(was_there) = self.at_home::<Insert>(key, value, true)? {
            return Ok(Inserted::over(was_there != 0));
        }
        let view = self.view_remote();
        view.insert(view.hash(key), key, value)
    }

    pub(super) fn get_or_insert_far(&self, key: &KeyOf<K>, value: &V) -> Result<Option<V>> {
        let slot = || object::to_slot(value, self.heap());
        if let Some(reused) = &self.reused {
            return self.where_room_is_made(reused, |view| {
                view.get_or_insert(view.hash(key), key, slot()?)
            });
        }
        let value = slot()?;
        if let Some(there) = self.at_home::<GetOrInsert>(key, value, true)? {
            let from_slot = |slot| object::from_slot::<V>(slot, self.heap());
            return there.value().map(from_slot).transpose();
        }
        let view = self.view_remote();
        view.get_or_insert(view.hash(key), key, value)
    }

    pub(super) fn remove_far(&self, key: &KeyOf<K>) -> Result<bool> {
        if let Some(reused) = &self.reused {
            let _section = reused.sections.open();
            let view = self.view_local(&reused.all);
            return view.remove(view.hash(key), key);
        }
        if let Some(was_there) = self.at_home::<Remove>(key, (), true)? {
            return Ok(was_there != 0);
        }
        let view = self.view_remote();
        view.remove(view.hash(key), key)
    }

    pub(super) fn update_far(
        &self,
        key: &KeyOf<K>,
        mut f: impl FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        if let Some(reused) = &self.reused {
            let _section = reused.sections.open();
            let view = self.view_local(&reused.all);
            return view.update(view.hash(key), key, f);
        }
        if let Some(former) = self.update_at_home(key, &mut f)? {
            return Ok(former);
        }
        let view = self.view_remote();
        view.update(view.hash(key), key, f)
    }

    /// What is computed here replaces what it was computed from, if that is still there. Nothing if it is
    /// to be done one-sidedly.
    fn update_at_home(
        &self,
        key: &KeyOf<K>,
        f: &mut impl FnMut(V) -> Result<V>,
    ) -> Result<Option<Option<V>>> {
        let mut there = self.at_home::<Find>(key, (), true)?;
        while let Some(found) = there {
            let Some(expected) = found.value() else {
                return Ok(Some(None));
            };
            let new = f(object::from_slot::<V>(expected, self.heap())?)?;
            let values = Pair::new(expected, object::to_slot(&new, self.heap())?);
            there = self.at_home::<Replace>(key, values, true)?;
            let former = there.and_then(There::value);
            if former.is_some_and(|former| former.as_bytes() == expected.as_bytes()) {
                let former = object::from_slot::<V>(expected, self.heap())?;
                return Ok(Some(Some(former)));
            }
        }
        Ok(None)
    }
}

impl<K, V, S> Table<K, V, S>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
{
    pub(super) fn add_far(&self, key: &KeyOf<K>, n: V) -> Result<Option<V>> {
        if let Some(reused) = &self.reused {
            return self.where_room_is_made(reused, |view| view.add(view.hash(key), key, n));
        }
        if let Some(there) = self.at_home::<Add>(key, n, true)? {
            return Ok(there.value());
        }
        let view = self.view_remote();
        view.add(view.hash(key), key, n)
    }
}
