//! What the ranks of a job share besides their segments: who is here, whether the job has failed,
//! and where the barrier, the doorbells and the mailboxes lie.
//!
//! ```text
//! | header (4096) | failure text | rank 0's state, bell | rank 1's ... | barrier | rank 0's mailboxes | ... | rank 0's buffers | ... |
//! ```
//!
//! Everything is plain atomic words, valid when zero: a fresh mapping is a job that nobody has joined.

use std::sync::atomic::{AtomicU64, Ordering};

use pgas_lockfree::barrier::Barrier;
use pgas_lockfree::mailbox::Mailbox;
use pgas_lockfree::payload::Buffers;

use crate::doorbell::Doorbell;
use crate::membarrier;

/// Slots of each mailbox: 128 KiB, of which only what is used costs memory.
pub(crate) const MAILBOX_SLOTS: usize = 2048;
/// The longest message of [`MAILBOX_SLOTS`].
pub(crate) const MAX_MEDIUM: usize = MAILBOX_SLOTS * 8 - 16;
/// Payload that fits in one slot.
pub(crate) const MAX_SHORT: usize = 48;

/// Buffers of each rank for payloads that are filled in place, of the longest message each: 260 KiB, of which only what is used
/// costs memory.
pub(crate) const N_BUFFERS: usize = 16;
const BUFFERS_BYTES: usize = Buffers::bytes_of_rank(N_BUFFERS, MAX_MEDIUM);

const MAILBOX_BYTES: usize = Mailbox::bytes(MAILBOX_SLOTS);
const MAILBOX_STRIDE: usize = MAILBOX_BYTES.next_multiple_of(PAGE);

/// What begins a multiple of this apart shares no page where pages are small. Nothing but speed relies on it: the system's
/// pages may be larger.
const PAGE: usize = 4096;
const HEADER_BYTES: usize = PAGE;
const FAILURE_AT: usize = 64;
const FAILURE_TEXT_WORDS: usize = 64;
/// A rank's state words and its doorbell, a cache line each.
const RANK_BYTES: usize = 128;

/// Where things are in a job's memory, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) n_ranks: u32,
    pub(crate) segment_bytes: u64,
}

impl Layout {
    fn ranks_at() -> usize {
        HEADER_BYTES
    }

    fn barrier_at(self) -> usize {
        (Self::ranks_at() + self.n_ranks as usize * RANK_BYTES).next_multiple_of(PAGE)
    }

    fn mailboxes_at(self) -> usize {
        (self.barrier_at() + Barrier::bytes(self.n_ranks)).next_multiple_of(PAGE)
    }

    fn buffers_at(self) -> usize {
        self.mailboxes_at() + 2 * self.n_ranks as usize * MAILBOX_STRIDE
    }

    /// The size of everything before the first segment.
    pub(crate) fn control_bytes(self) -> usize {
        (self.buffers_at() + self.n_ranks as usize * BUFFERS_BYTES)
            .next_multiple_of(super::segment::HUGE_PAGE)
    }

    /// Where the segment of `rank` begins.
    pub(crate) fn segment_at(self, rank: u32) -> usize {
        let bytes = usize::try_from(self.segment_bytes).expect("a segment fits the address space");
        self.control_bytes() + rank as usize * bytes
    }

    /// The size of the whole; `None` if it does not fit the address space.
    pub(crate) fn total_bytes(self) -> Option<usize> {
        let segments = self.segment_bytes.checked_mul(u64::from(self.n_ranks))?;
        usize::try_from(segments)
            .ok()?
            .checked_add(self.control_bytes())
    }
}

/// What of a layout every message asks for, worked out once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Words before the first segment.
    pub(crate) control_words: usize,
    /// Cache lines of the ranks' states and bells.
    pub(crate) n_bell_lines: usize,
    mailboxes_at: usize,
    buffers_at: usize,
    buffers_bytes: usize,
}

impl Places {
    pub(crate) fn of(layout: Layout) -> Self {
        Self {
            control_words: layout.control_bytes() / 8,
            n_bell_lines: layout.n_ranks as usize * RANK_BYTES / size_of::<Doorbell>(),
            mailboxes_at: layout.mailboxes_at(),
            buffers_at: layout.buffers_at(),
            buffers_bytes: layout.n_ranks as usize * BUFFERS_BYTES,
        }
    }
}

/// A view of a job's control words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control<'a> {
    words: &'a [AtomicU64],
    bells: &'a [Doorbell],
    layout: Layout,
    places: Places,
}

/// Whether a rank is in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Not yet.
    Absent,
    /// It is.
    Joined,
    /// It has left in good order.
    Left,
}

impl<'a> Control<'a> {
    /// Views the control part of a job's memory: `words` is all of it, and `bells` the same memory
    /// from [`BELLS_AT`](Self::BELLS_AT) on, of which every second element is a rank's doorbell.
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

    /// Where the memory seen as doorbells begins, in bytes.
    pub(crate) const BELLS_AT: usize = HEADER_BYTES;

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

    fn rank_words(&self, rank: u32) -> &'a [AtomicU64] {
        self.part(Layout::ranks_at() + rank as usize * RANK_BYTES, 16)
    }

    /// Records that `rank` is in the job, as process `pid` (0 for a thread).
    pub(crate) fn join(&self, rank: u32, pid: u32) {
        if !membarrier::register() {
            self.bell(rank).refuse_light_fences();
        }
        let words = self.rank_words(rank);
        words[1].store(u64::from(pid), Ordering::Relaxed);
        // Release: pairs with the acquire in `membership`, which makes the pid visible.
        words[0].store(1, Ordering::Release);
    }

    /// Records that `rank` has left in good order.
    pub(crate) fn leave(&self, rank: u32) {
        // Release: what the rank did before is visible to who sees it gone.
        self.rank_words(rank)[0].store(2, Ordering::Release);
    }

    pub(crate) fn membership(&self, rank: u32) -> Membership {
        // Acquire: pairs with `join` and `leave`.
        match self.rank_words(rank)[0].load(Ordering::Acquire) {
            0 => Membership::Absent,
            2 => Membership::Left,
            _ => Membership::Joined,
        }
    }

    pub(crate) fn pid(&self, rank: u32) -> u32 {
        u32::try_from(self.rank_words(rank)[1].load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Records that `rank` has failed, unless another failure is recorded already, and wakes everybody.
    pub(crate) fn fail(&self, rank: u32, text: &str) {
        let words = self.part(FAILURE_AT, 16 + FAILURE_TEXT_WORDS * 8);
        // The first failure is the one that is told; a later one finds the claim taken.
        let claim = words[1].compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_ok() {
            let bytes = &text.as_bytes()[..text.len().min(FAILURE_TEXT_WORDS * 8)];
            for (word, chunk) in words[2..].iter().zip(bytes.chunks(8)) {
                let mut padded = [0; 8];
                padded[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
            }
            // Release: pairs with the acquire in `failure`, which then sees the text.
            words[0].store(u64::from(rank) + 1, Ordering::Release);
        }
        for rank in 0..self.layout.n_ranks {
            self.bell(rank).ring();
        }
    }

    /// Whether the job has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.words[FAILURE_AT / 8].load(Ordering::Relaxed) != 0
    }

    /// The first rank to fail, and how.
    pub(crate) fn failure(&self) -> Option<(u32, String)> {
        let words = self.part(FAILURE_AT, 16 + FAILURE_TEXT_WORDS * 8);
        // Acquire: pairs with the release in `fail`.
        let rank = words[0].load(Ordering::Acquire).checked_sub(1)?;
        let bytes: Vec<u8> = words[2..]
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        Some((
            u32::try_from(rank).ok()?,
            String::from_utf8_lossy(&bytes).into_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Job;

    #[test]
    fn the_parts_do_not_overlap() {
        for n_ranks in [1, 2, 3, 7, 64, 1000] {
            let layout = Layout {
                n_ranks,
                segment_bytes: 1 << 20,
            };
            assert!(Layout::ranks_at() >= FAILURE_AT + 16 + FAILURE_TEXT_WORDS * 8);
            assert!(layout.barrier_at() >= Layout::ranks_at() + n_ranks as usize * RANK_BYTES);
            assert!(layout.mailboxes_at() >= layout.barrier_at() + Barrier::bytes(n_ranks));
            assert!(
                layout.buffers_at()
                    >= layout.mailboxes_at() + 2 * n_ranks as usize * MAILBOX_STRIDE
            );
            let buffers_end = layout.buffers_at() + n_ranks as usize * BUFFERS_BYTES;
            assert!(layout.control_bytes() >= buffers_end);
            assert!(layout.segment_at(0) >= layout.control_bytes());
            assert_eq!(
                layout.segment_at(n_ranks - 1) + (1 << 20),
                layout.total_bytes().unwrap()
            );
        }
    }

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
        control.join(1, 4711);
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
