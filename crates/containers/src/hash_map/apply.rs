//! Small entries that are inserted where they lie, by the rank that holds their places, while those of the next ones are on their
//! way into the cache.

use super::HashMap;
use super::global::{GlobalSlot, LayoutOf};
use super::hash::{Hash, Place};
use super::layout::Blocks as _;
use super::local::{AHEAD, Combined};
use super::phase::Local;
use super::reach::{Near, Reach as _};
use super::scan;
use super::slot::SlotMemory as _;
use super::state::StateWord;
use super::view::View;
use crate::Result;
use crate::object::{self, KeyHasher, KeyOf, Object, Repr, SlotOf};

/// What a [buffer](super::HashMapBuffer) does with small entries.
impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Local, S> {
    /// Combines what is there with each of `entries`, and leaves those whose place is not on this rank in `strays`; nothing,
    /// unless all are small and in near memory.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "who writes without atomics has the handle for itself"
    )]
    pub(super) fn apply_quickly(
        &mut self,
        entries: &[SlotOf<(K, V)>],
        combine: &mut impl FnMut(V, V) -> V,
        strays: &mut Vec<(K, V)>,
    ) -> Result<Option<()>> {
        let Some(view) = self.table.view_quick() else {
            return Ok(None);
        };
        let mut n_new = 0;
        let applied = view.apply_quickly(entries, combine, strays, &mut n_new);
        self.table.count_new(n_new);
        applied.map(Some)
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Near<'a, LayoutOf<K, V>>> {
    /// As [`HashMap::apply_quickly`], and counts new keys.
    fn apply_quickly(
        &self,
        entries: &[SlotOf<(K, V)>],
        combine: &mut impl FnMut(V, V) -> V,
        strays: &mut Vec<(K, V)>,
        n_new: &mut u64,
    ) -> Result<()> {
        let Some(last) = entries.len().checked_sub(1) else {
            return Ok(());
        };
        let mut ahead = [Hash::default(); AHEAD];
        for (i, hash) in ahead.iter_mut().enumerate() {
            *hash = self.begin_entry(entries[i.min(last)])?;
        }
        for (i, &entry) in entries.iter().enumerate() {
            // Behind the last entry its place is prefetched again, which spares the loop a branch.
            let next = self.begin_entry(entries[(i + AHEAD).min(last)])?;
            let hash = std::mem::replace(&mut ahead[i % AHEAD], next);
            let (key, value) = object::from_slot::<(K, V)>(entry, self.heap)?;
            let combined = match self.combine_at_home(hash, &key, value, combine)? {
                Ok(combined) => combined,
                Err(value) => self.combine(hash, &key, value, combine)?,
            };
            match combined {
                Combined::New => *n_new += 1,
                Combined::Over => {}
                Combined::Elsewhere(value) => strays.push((key, value)),
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn begin_entry(&self, entry: SlotOf<(K, V)>) -> Result<Hash> {
        let (key, _) = object::from_slot::<(K, V)>(entry, self.heap)?;
        let hash = self.hash(&object::key(&key)?);
        self.all.share(hash.bits()).block.prefetch(0);
        Ok(hash)
    }

    /// What becomes of an entry, if its home block alone tells; else gives its value back.
    #[inline(always)]
    fn combine_at_home(
        &self,
        hash: Hash,
        key: &K,
        value: V,
        combine: &mut impl FnMut(V, V) -> V,
    ) -> Result<Result<Combined<V>, V>> {
        let (share, fingerprint) = (self.all.share(hash.bits()), hash.fingerprint());
        if share.rank != self.here() || share.index >= self.ring.n_whole_blocks() {
            return Ok(Err(value));
        }
        let key: KeyOf<K> = object::key(key)?;
        let slot = |index| {
            let place = Place::begin(share.rank, share.index).with_index(index);
            GlobalSlot::<K, V, _>::new(Near::of_block(self.all, share.block, place))
        };
        let states = slot(0).reach.states(LayoutOf::<K, V>::SLOTS)?;
        let free = states.free();
        let ready = StateWord::ready(fingerprint);
        let key_slot = <K::Repr as Repr<K>>::key_slot(&key, self.heap)?;
        if states.written_or_free(fingerprint) == 0 && free != 0 {
            let slot = slot(scan::first_of::<LayoutOf<K, V>>(free, share.rest));
            let value = object::to_slot(&value, self.heap)?;
            slot.write_quietly(key_slot, value, ready, &())?;
            return Ok(Ok(Combined::New));
        }
        let with_fingerprint = states.ready(fingerprint);
        if with_fingerprint != 0 {
            let slot = slot(with_fingerprint.trailing_zeros() as usize);
            if slot.has_key(&key, self.heap)? {
                let former = object::from_slot::<V>(slot.load_word()?, self.heap)?;
                let value = object::to_slot(&combine(former, value), self.heap)?;
                slot.write_quietly(key_slot, value, ready, &())?;
                return Ok(Ok(Combined::Over));
            }
        }
        Ok(Err(value))
    }
}
