//! Operations in sections, where the slots of removed keys are used again.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use super::counts::Counts;
use super::outcome::Effect;
use super::reuse::{PATIENCE, REMOVALS_PER_RECLAIM, Room};
use super::slot::LayoutOf;
use super::slot::local::{Known, LocalArray};
use super::table::{Common, Reused, Table};
use super::view::{LocalView, Shape, out_of_line};
use crate::object::{self, KeyHasher, Object};
use crate::{Error, Result};

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Runs the lookup `read` without a section. If slots were reclaimed meanwhile, runs it again
    /// in a section.
    pub(super) fn read_optimistically<T>(
        &self,
        reused: &Reused<LayoutOf<K, V>>,
        mut read: impl FnMut(LocalView<'_, K, V, S>) -> T,
    ) -> T {
        // The slot of a long key or value points to it. Both may change while it is read.
        if const { !object::has_heap::<K>() && !object::has_heap::<V>() }
            && let Some(found) = reused
                .sections
                .read_optimistically(|| read(self.view_local(&reused.all)))
        {
            return found;
        }
        out_of_line(|| self.shape.in_section(reused, read))
    }
}

impl<K: Object, V: Object, S: KeyHasher> Shape<K, V, S> {
    /// Runs `change` in a section. It must need no free slot.
    #[inline]
    pub(super) fn in_section<T>(
        &self,
        reused: &Reused<LayoutOf<K, V>>,
        change: impl FnOnce(LocalView<'_, K, V, S>) -> T,
    ) -> T {
        let _section = reused.sections.open();
        change(self.view(LocalArray::new(&reused.all, Known)))
    }

    /// Runs `claim` in a section. If it finds no free slot, makes room and runs it again.
    #[inline]
    pub(super) fn claim_or_make_room<T>(
        &self,
        reused: &Reused<LayoutOf<K, V>>,
        mut claim: impl FnMut(LocalView<'_, K, V, S>) -> Result<T>,
    ) -> Result<T> {
        let mut room = None;
        loop {
            match self.in_section(reused, &mut claim) {
                Err(Error::Full { .. }) if self.try_make_room(reused, &mut room)? => {}
                claimed => return claimed,
            }
        }
    }

    /// Reclaims slots for an operation that found no room. Returns whether there may be room now.
    #[cold]
    #[inline(never)]
    pub(super) fn try_make_room<'a>(
        &'a self,
        reused: &Reused<LayoutOf<K, V>>,
        room: &mut Option<Room<'a>>,
    ) -> Result<bool> {
        let room = room.get_or_insert_with(|| Room::new(self.world()));
        let view: LocalView<'_, K, V, S> = self.view(LocalArray::new(&reused.all, Known));
        view.make_room(&reused.sections, room)
    }

    /// Now and then reclaims some slots. This thread has removed `n` keys since it last noted some
    /// in `counts`. Called outside of sections.
    #[inline(never)]
    pub(super) fn note_removals(&self, reused: &Reused<LayoutOf<K, V>>, counts: &Counts, n: u64) {
        let before = counts.note_removed(n);
        let times = (before + n) / REMOVALS_PER_RECLAIM;
        if times > before / REMOVALS_PER_RECLAIM && self.reclaim_some(reused, times - 1) {
            counts.forget_noted();
        }
    }

    /// Reclaims some slots. Returns whether it could. `n_failed` is the number of failures in a row
    /// before.
    pub(super) fn reclaim_some(&self, reused: &Reused<LayoutOf<K, V>>, n_failed: u64) -> bool {
        let view: LocalView<'_, K, V, S> = self.view(LocalArray::new(&reused.all, Known));
        view.reclaim_some(&reused.sections, n_failed)
    }
}

/// Operations in flight.
impl<K: Object, V: Object, S: KeyHasher> Common<K, V, S> {
    /// Performs an operation where slots are reused. A run that would have to wait for another rank
    /// has changed nothing. The next round of progress runs it again. It waits for room as long as
    /// an operation that blocks.
    pub(super) async fn run_in_sections<T>(
        &self,
        reused: &Reused<LayoutOf<K, V>>,
        mut run: impl FnMut(LocalView<'_, K, V, S>) -> Result<T>,
    ) -> Result<T> {
        let mut without_room = None;
        poll_fn(move |_| {
            let (mut waits, mut is_full) = (false, false);
            let done = self.shape.claim_or_make_room(reused, |view| {
                let done = run(view);
                waits = matches!(done, Err(Error::InHandler { .. }));
                is_full = matches!(done, Err(Error::Full { .. }));
                done
            });
            if !is_full {
                without_room = None;
                return if waits {
                    Poll::Pending
                } else {
                    Poll::Ready(done)
                };
            }
            // Sections of other threads are in the way, or one of this thread, which waits.
            let may_have_room = match &done {
                Err(Error::InHandler { .. }) => true,
                Err(Error::Full { .. }) => reused.sections.are_open_here(),
                _ => false,
            };
            let since: &mut Instant = without_room.get_or_insert_with(Instant::now);
            if !may_have_room {
                Poll::Ready(done)
            } else if since.elapsed() < PATIENCE {
                Poll::Pending
            } else {
                let capacity = self.shape.ring.capacity();
                Poll::Ready(Err(Error::Full { capacity }))
            }
        })
        .await
    }

    /// Counts `n` keys that an operation in flight with this effect has inserted or removed. Called
    /// outside of sections.
    pub(super) fn count(&self, effect: Effect, n: u64) {
        self.counts.count(effect, n);
        if effect == Effect::Remove
            && n > 0
            && let Some(reused) = self.reused.get()
        {
            self.shape.note_removals(reused, &self.counts, n);
        }
    }
}
