//! A slot that holds the key of an operation.

use pgas_lockfree::slots::{Held, value};

use super::slot::{Access, GlobalSlot};
use super::view::View;
use crate::Result;
use crate::object::{KeyHasher, Object, Repr, SlotOf};

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

    /// Replaces the value by `f` of it and returns the former value. Returns `None` if the key was
    /// removed or, on the fast path, if another rank changed the value meanwhile.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn update(&self, mut f: impl FnMut(V) -> Result<SlotOf<V>>) -> Result<Option<V>> {
        let f = |loaded| f(<V::Repr as Repr<V>>::decode(loaded)?);
        let (slot, heap) = (&self.slot, self.view.heap());
        let former = if self.is_fallback {
            value::update(slot, heap, self.held, f)?
        } else {
            value::update_once(slot, heap, self.held, f)?
        };
        former.map(<V::Repr as Repr<V>>::decode).transpose()
    }
}
