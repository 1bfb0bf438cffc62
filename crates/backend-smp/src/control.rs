//! The control part of a job's memory: membership, failure, barrier, doorbells and mailboxes.
//! `layout.rs` has the offsets.
//!
//! Everything is plain atomic words, valid when zero: a fresh mapping is a job that nobody has
//! joined.

use std::sync::atomic::AtomicU64;
#[cfg(test)]
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use pgas_lockfree::barrier::Barrier;
use pgas_lockfree::mailbox::Mailbox;
use pgas_lockfree::payload::Buffers;
use pgas_lockfree::roster::{Failure, Membership, PLACE_WORDS, Place};

use crate::doorbell::Doorbell;
use crate::layout::{
    FAILURE_AT, FAILURE_BYTES, Layout, MAILBOX_BYTES, MAILBOX_SLOTS, MAILBOX_STRIDE, MAX_MEDIUM,
    N_BUFFERS, Places, RANK_BYTES,
};
use crate::membarrier;

/// Between looks whether the text of a failure is whole.
pub(crate) const TEXT_PAUSE: Duration = Duration::from_millis(1);

/// A view of a job's control words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control<'a> {
    words: &'a [AtomicU64],
    bells: &'a [Doorbell],
    layout: Layout,
    places: Places,
}

impl<'a> Control<'a> {
    /// Views the control part of a job's memory. `words` is all of it. `bells` is the same memory
    /// from [`BELLS_AT`](crate::layout::BELLS_AT) on; every second element is a rank's doorbell.
    #[inline]
    pub(crate) fn new(
        words: &'a [AtomicU64],
        bells: &'a [Doorbell],
        layout: Layout,
        places: Places,
    ) -> Self {
        Self {
            words,
            bells,
            layout,
            places,
        }
    }

    #[inline]
    fn part(&self, at: usize, bytes: usize) -> &'a [AtomicU64] {
        &self.words[at / 8..(at + bytes) / 8]
    }

    pub(crate) fn barrier(&self) -> Barrier<'a> {
        let n_ranks = self.layout.n_ranks;
        Barrier::attach(
            self.part(self.layout.barrier_at(), Barrier::bytes(n_ranks)),
            n_ranks,
        )
    }

    /// The mailbox of `rank` for requests (`class` 0) or replies (1).
    #[inline]
    pub(crate) fn mailbox(&self, rank: u32, class: usize) -> Mailbox<'a> {
        let index = 2 * rank as usize + class;
        let at = self.places.mailboxes_at + index * MAILBOX_STRIDE;
        Mailbox::attach(self.part(at, MAILBOX_BYTES), MAILBOX_SLOTS)
    }

    /// Makes the header of a queued 8-byte message claim more bytes than any message has.
    #[cfg(test)]
    pub(crate) fn damage_mailbox(&self, rank: u32, class: usize) {
        let at = self.places.mailboxes_at + (2 * rank as usize + class) * MAILBOX_STRIDE;
        let words = self.part(at, MAILBOX_BYTES).iter();
        let is_envelope = |word: &&AtomicU64| word.load(Ordering::Relaxed) >> 40 == 8;
        let mut envelopes = words.filter(is_envelope);
        let envelope = envelopes.next().expect("a message of 8 bytes is there");
        envelope.store(u64::MAX, Ordering::Relaxed);
    }

    /// The buffers of all ranks.
    #[inline]
    pub(crate) fn buffers(&self) -> Buffers<'a> {
        let words = self.part(self.places.buffers_at, self.places.buffers_bytes);
        Buffers::attach(words, N_BUFFERS, MAX_MEDIUM)
    }

    /// The bell of `rank`, in the second of its two cache lines.
    #[inline]
    pub(crate) fn bell(&self, rank: u32) -> &'a Doorbell {
        &self.bells[rank as usize * 2 + 1]
    }

    #[inline]
    pub(crate) fn place(&self, rank: u32) -> Place<'a> {
        let at = Layout::ranks_at() + rank as usize * RANK_BYTES;
        let words = self.part(at, PLACE_WORDS * 8);
        Place::attach(words.first_chunk().expect("as many as a place has"))
    }

    /// The board of `rank`, if there are boards.
    pub(crate) fn board(&self, rank: u32) -> &'a [AtomicU64] {
        let bytes = self.places.board_bytes;
        self.part(self.places.boards_at + rank as usize * bytes, bytes)
    }

    /// Records that `rank` is in the job, as process `pid` (0 for a thread), with these settings.
    pub(crate) fn join(&self, rank: u32, pid: u32, settings: u32) {
        if !membarrier::register() {
            self.bell(rank).refuse_light_fences();
        }
        self.place(rank).join(pid, settings);
    }

    /// Records that `rank` has left in good order.
    pub(crate) fn leave(&self, rank: u32) {
        self.place(rank).leave();
    }

    pub(crate) fn membership(&self, rank: u32) -> Membership {
        self.place(rank).membership()
    }

    pub(crate) fn pid(&self, rank: u32) -> u32 {
        self.place(rank).process()
    }

    #[inline]
    fn told(&self) -> Failure<'a> {
        Failure::attach(self.part(FAILURE_AT, FAILURE_BYTES))
    }

    /// Records that `rank` has failed, unless another failure is recorded already, and wakes
    /// everybody.
    pub(crate) fn fail(&self, rank: u32, text: &str) {
        self.told().tell(rank, text);
        for rank in 0..self.layout.n_ranks {
            self.bell(rank).ring();
        }
    }

    /// Whether the job has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.told().is_told()
    }

    /// The first rank to fail, and how. Waits up to a tenth of a second for the rest of the text.
    pub(crate) fn failure(&self) -> Option<(u32, String)> {
        self.told().told(|| thread::sleep(TEXT_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Job;

    #[test]
    fn the_first_failure_is_told_and_its_text_is_cut_to_its_room() {
        let job = Job::anonymous(Layout {
            n_ranks: 3,
            segment_bytes: 1 << 20,
        })
        .unwrap();
        let control = job.control();
        assert_eq!(control.failure(), None);
        control.fail(2, &"long ".repeat(200));
        control.fail(1, "later");
        let (rank, text) = control.failure().unwrap();
        assert_eq!((rank, text.len()), (2, 512));
        assert!(control.has_failed());
    }

    #[test]
    fn ranks_join_and_leave_and_their_bells_are_their_own() {
        let job = Job::anonymous(Layout {
            n_ranks: 3,
            segment_bytes: 1 << 20,
        })
        .unwrap();
        let control = job.control();
        control.join(1, 4711, 0);
        assert_eq!(control.membership(0), Membership::Absent);
        assert_eq!(
            (control.membership(1), control.pid(1)),
            (Membership::Joined, 4711)
        );
        control.leave(1);
        assert_eq!(control.membership(1), Membership::Left);
        assert!(!std::ptr::eq(control.bell(0), control.bell(1)));
        control.bell(1).ring();
        assert_eq!(
            control.membership(1),
            Membership::Left,
            "a bell is not a state word"
        );
    }
}
