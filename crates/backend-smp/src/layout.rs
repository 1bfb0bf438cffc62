//! The layout of a job's memory.
//!
//! ```text
//! | header (4096) | failure text | rank 0's state, bell | rank 1's ... | barrier |
//! | rank 0's mailboxes | ... | rank 0's buffers | ... | rank 0's board | ... | segments |
//! ```

use pgas_core::stats::Board;
use pgas_lockfree::barrier::Barrier;
use pgas_lockfree::mailbox::Mailbox;
use pgas_lockfree::payload::Buffers;
use pgas_lockfree::roster::Failure;

use crate::doorbell::Doorbell;

/// The size of a large page; segments are multiples of it unless they are smaller.
pub(crate) const HUGE_PAGE: usize = if cfg!(miri) { PAGE } else { 2 << 20 };

/// Slots of each mailbox: 128 KiB, which cost memory only as far as they are used. Miri checks
/// every word of the control part at each borrow, so there it is small.
pub(crate) const MAILBOX_SLOTS: usize = if cfg!(miri) { 128 } else { 2048 };
/// The longest message of [`MAILBOX_SLOTS`].
pub(crate) const MAX_MEDIUM: usize = MAILBOX_SLOTS * 8 - 16;
/// Payload that fits in one slot.
pub(crate) const MAX_SHORT: usize = 48;

/// Buffers of each rank for payloads that are filled in place. Each has room for the longest
/// message. They take 260 KiB, which cost memory only as far as they are used.
pub(crate) const N_BUFFERS: usize = if cfg!(miri) { 2 } else { 16 };
const BUFFERS_BYTES: usize = Buffers::bytes_of_rank(N_BUFFERS, MAX_MEDIUM);

/// The least number of peers for which a rank's board has counts. Ranks of other hosts are peers,
/// too.
const MIN_PEERS: usize = 256;

pub(crate) const MAILBOX_BYTES: usize = Mailbox::bytes(MAILBOX_SLOTS);
pub(crate) const MAILBOX_STRIDE: usize = MAILBOX_BYTES.next_multiple_of(PAGE);

/// Parts that begin at multiples of this share no page if pages are small. Only speed relies on it:
/// the system's pages may be larger.
const PAGE: usize = 4096;
const HEADER_BYTES: usize = PAGE;
pub(crate) const FAILURE_AT: usize = 64;
pub(crate) const FAILURE_BYTES: usize = Failure::bytes(512);
/// A rank's state words and its doorbell, a cache line each.
pub(crate) const RANK_BYTES: usize = 128;

/// The offset of the memory that is viewed as doorbells, in bytes.
pub(crate) const BELLS_AT: usize = HEADER_BYTES;

/// The offsets of the parts of a job's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) n_ranks: u32,
    pub(crate) segment_bytes: u64,
}

impl Layout {
    pub(crate) fn ranks_at() -> usize {
        HEADER_BYTES
    }

    pub(crate) fn barrier_at(self) -> usize {
        (Self::ranks_at() + self.n_ranks as usize * RANK_BYTES).next_multiple_of(PAGE)
    }

    fn mailboxes_at(self) -> usize {
        (self.barrier_at() + Barrier::bytes(self.n_ranks)).next_multiple_of(PAGE)
    }

    fn buffers_at(self) -> usize {
        self.mailboxes_at() + 2 * self.n_ranks as usize * MAILBOX_STRIDE
    }

    fn boards_at(self) -> usize {
        (self.buffers_at() + self.n_ranks as usize * BUFFERS_BYTES).next_multiple_of(PAGE)
    }

    /// The size of a rank's board, which costs memory where operations are counted. Under Miri
    /// there is none.
    fn board_bytes(self) -> usize {
        if cfg!(miri) {
            return 0;
        }
        Board::bytes(MIN_PEERS.max(self.n_ranks as usize)).next_multiple_of(PAGE)
    }

    /// The size of everything before the first segment.
    pub(crate) fn control_bytes(self) -> usize {
        let boards_end = self.boards_at() + self.n_ranks as usize * self.board_bytes();
        boards_end.next_multiple_of(HUGE_PAGE)
    }

    /// The offset of the segment of `rank`.
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

/// The offsets that every message needs, computed once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Words before the first segment.
    pub(crate) control_words: usize,
    /// Cache lines of the ranks' states and bells.
    pub(crate) n_bell_lines: usize,
    pub(crate) mailboxes_at: usize,
    pub(crate) buffers_at: usize,
    pub(crate) buffers_bytes: usize,
    pub(crate) boards_at: usize,
    pub(crate) board_bytes: usize,
}

impl Places {
    pub(crate) fn of(layout: Layout) -> Self {
        Self {
            control_words: layout.control_bytes() / 8,
            n_bell_lines: layout.n_ranks as usize * RANK_BYTES / size_of::<Doorbell>(),
            mailboxes_at: layout.mailboxes_at(),
            buffers_at: layout.buffers_at(),
            buffers_bytes: layout.n_ranks as usize * BUFFERS_BYTES,
            boards_at: layout.boards_at(),
            board_bytes: layout.board_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_overlap() {
        for n_ranks in [1, 2, 3, 7, 64, 1000] {
            let layout = Layout {
                n_ranks,
                segment_bytes: 1 << 20,
            };
            assert!(Layout::ranks_at() >= FAILURE_AT + FAILURE_BYTES);
            assert!(layout.barrier_at() >= Layout::ranks_at() + n_ranks as usize * RANK_BYTES);
            assert!(layout.mailboxes_at() >= layout.barrier_at() + Barrier::bytes(n_ranks));
            assert!(
                layout.buffers_at()
                    >= layout.mailboxes_at() + 2 * n_ranks as usize * MAILBOX_STRIDE
            );
            let buffers_end = layout.buffers_at() + n_ranks as usize * BUFFERS_BYTES;
            assert!(layout.boards_at() >= buffers_end);
            let boards_end = layout.boards_at() + n_ranks as usize * layout.board_bytes();
            assert!(layout.control_bytes() >= boards_end);
            assert!(layout.segment_at(0) >= layout.control_bytes());
            assert_eq!(
                layout.segment_at(n_ranks - 1) + (1 << 20),
                layout.total_bytes().unwrap()
            );
        }
    }
}
