//! The first set of counters of a board, and whose it is.
//!
//! A thread changes its set without atomic instructions, and a near operation on one value has
//! little time to find out whether it may: it compares two words.
#![expect(unsafe_code, reason = "keeps counters together with what owns them")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::board::{Board, OPS, OPS_WORDS};
use super::counters::{add_to, single_of};
use crate::cost::CostKind;

/// The lower bits of a [`Purpose`], for the number of a name.
const LABEL_BITS: u32 = 16;

/// What operations are counted for: for a rank, and perhaps for a name beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purpose(u64);

impl Purpose {
    /// Nothing is counted.
    pub(crate) const NOTHING: Self = Self(0);

    /// The purpose of no thread.
    const NEVER: Self = Self(u64::MAX);

    /// A rank, without a name. No other value is equal.
    pub(super) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // A count: it orders nothing.
        Self((LAST.fetch_add(1, Ordering::Relaxed) + 1) << LABEL_BITS)
    }

    /// The same rank, and the name with this number, or none if that is 0.
    pub(crate) fn with_label(self, label: u16) -> Self {
        Self(self.0 >> LABEL_BITS << LABEL_BITS | u64::from(label))
    }

    /// The number of the name, or 0.
    #[inline]
    pub(crate) fn label(self) -> u16 {
        (self.0 & ((1 << LABEL_BITS) - 1)) as u16
    }

    /// Whether the first set of counters of this rank is this thread's, as far as it remembers, and
    /// there is no name.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a compare")]
    pub(crate) fn is_of_this_thread(self) -> bool {
        // Unlike `with`, `try_with` is compiled into its callers, wherever they are.
        MINE.try_with(Cell::get) == Ok(self)
    }

    /// Lets this thread remember that the first set of counters of this rank is its own.
    pub(super) fn remember(self) {
        MINE.set(self);
    }
}

thread_local! {
    /// The rank whose first set of counters this thread has used last.
    static MINE: Cell<Purpose> = const { Cell::new(Purpose::NEVER) };
}

/// The first set of counters of a board, for the thread whose it is.
#[derive(Debug)]
pub(crate) struct FirstSet {
    counters: NonNull<[AtomicU64; OPS_WORDS]>,
    /// Dropped last.
    _board: Option<Board>,
}

// SAFETY: as for `Board`: the counters are only reached by shared references to atomics.
unsafe impl Send for FirstSet {}
// SAFETY: as for `Send`.
unsafe impl Sync for FirstSet {}

impl FirstSet {
    /// Counters that nobody reads.
    pub(crate) fn unread() -> Self {
        static UNREAD: [AtomicU64; OPS_WORDS] = [const { AtomicU64::new(0) }; OPS_WORDS];
        Self {
            counters: NonNull::from(&UNREAD),
            _board: None,
        }
    }

    pub(super) fn of(board: &Board) -> Self {
        let counters = board.words().get(OPS..).and_then(<[_]>::first_chunk);
        counters.map_or_else(Self::unread, |counters| Self {
            counters: NonNull::from(counters),
            _board: Some(board.clone()),
        })
    }

    /// Counts a near operation of `kind` on one value of `bytes`, if it has a counter, and if the
    /// counters for this `purpose`, which are these, are this thread's.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "an addition behind a compare")]
    pub(crate) fn count_single(&self, kind: CostKind, bytes: usize, purpose: Purpose) -> bool {
        let Some(at) = single_of(kind, bytes).filter(|_| purpose.is_of_this_thread()) else {
            return false;
        };
        // SAFETY: `of` got them by a shared reference to the words of a board, which is kept here,
        // and `unread` by one to a static.
        let counters = unsafe { self.counters.as_ref() };
        add_to(&counters[at..=at], &[1]);
        true
    }
}
