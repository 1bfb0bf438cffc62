//! A slot that holds the key of an operation.

use pgas_lockfree::slots::{Held, value};

use super::outcome::Taken;
use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::Result;
use crate::object::{KeyHasher, Object, Repr, SlotOf};
use crate::replay::Record;

/// A slot that holds the key, as found by a search.
pub(super) struct FoundSlot<'v, 'a, K: Object, V: Object, S, R: Access<'a>> {
    pub(super) view: &'v View<'a, K, V, S, R>,
    pub(super) slot: GlobalSlot<K, V, R>,
    pub(super) held: Held<SlotOf<V>>,
    /// Whether the fallback found it.
    pub(super) is_fallback: bool,
}

impl<'v, 'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> FoundSlot<'v, 'a, K, V, S, R> {
    /// A slot that the fallback found.
    #[inline]
    pub(super) fn new(
        view: &'v View<'a, K, V, S, R>,
        slot: GlobalSlot<K, V, R>,
        held: Held<SlotOf<V>>,
    ) -> Self {
        let is_fallback = true;
        Self {
            view,
            slot,
            held,
            is_fallback,
        }
    }

    /// Reads the value. `None` if the key was removed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn value(&self) -> Result<Option<V>> {
        let loaded = value::load(&self.slot, self.view.heap(), self.held)?;
        loaded.map(<V::Repr as Repr<V>>::decode).transpose()
    }

    /// The record of an operation that runs again and again.
    #[inline]
    fn record(&self) -> Option<&Record> {
        if R::IS_LOCAL {
            return None;
        }
        self.view.heap().record()
    }

    /// Replaces the value by `f` of it and returns the former value. Returns `None` if the key was
    /// removed or, on the fast path, if another rank changed the value meanwhile. `f` takes no steps.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn update(&self, mut f: impl FnMut(V) -> Result<SlotOf<V>>) -> Result<Option<V>> {
        let mut f = |loaded| f(<V::Repr as Repr<V>>::decode(loaded)?);
        let f = |loaded| match self.record() {
            None => f(loaded),
            // Also the codec runs once, and so does the drop of what it has made.
            Some(record) => record.made(|| f(loaded)),
        };
        let (slot, heap) = (&self.slot, self.view.heap());
        let former = if self.is_fallback {
            value::update(slot, heap, self.held, f)?
        } else {
            value::update_once(slot, heap, self.held, f)?
        };
        former.map(<V::Repr as Repr<V>>::decode).transpose()
    }

    /// Removes the key and returns its value. Returns `None` if the key was removed before.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn take(&self) -> Result<Option<Taken<V>>> {
        let (slot, heap) = (&self.slot, self.view.heap());
        let Some(record) = self.record() else {
            return value::take(slot, heap, self.held, Taken::read);
        };
        let keep = |loaded| record.keep(|| Taken::<V>::read(loaded));
        let taken = value::take(slot, heap, self.held, keep)?;
        Ok(taken.map(|()| record.take_kept()))
    }
}
