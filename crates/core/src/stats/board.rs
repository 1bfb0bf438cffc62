//! The board: words in which a rank publishes its counts.
//!
//! The words lie in memory that the ranks of a host share, if the transport has such memory, so
//! that the figures of a rank outlive it: a supervisor or another rank reads them when it is dead.
//! All words are valid when zero. A reader checks everything: numbers are bounded and texts made
//! printable.
#![expect(unsafe_code, reason = "keeps words together with what owns them")]

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a board as used.
pub(super) const MAGIC: u64 = 0x7067_6173_7374_0007;

/// Single words.
pub(super) mod word {
    pub(in crate::stats) const MAGIC: usize = 0;
    /// The times of the rank's beginning and of its latest figures, in nanoseconds since 1970.
    pub(in crate::stats) const BEGAN: usize = 1;
    pub(in crate::stats) const UNTIL: usize = 2;
    /// The reports that are wanted: bit 0 for the table, bit 1 for the matrix.
    pub(in crate::stats) const WANTED: usize = 3;
    pub(in crate::stats) const N_RANKS: usize = 4;
    pub(in crate::stats) const RANK: usize = 5;
    pub(in crate::stats) const SEGMENT: usize = 6;
    pub(in crate::stats) const LOCAL_HEAP: usize = 7;
    pub(in crate::stats) const SYMMETRIC_HEAP: usize = 8;
    pub(in crate::stats) const RESIDENT: usize = 9;
    /// Whether the rank has left in good order.
    pub(in crate::stats) const IS_OVER: usize = 10;
    /// On the board of the first rank of a host: the number of ranks that have left, and the rank
    /// that reports the figures.
    pub(in crate::stats) const N_OVER: usize = 11;
    pub(in crate::stats) const CLAIM: usize = 12;
    /// Whether objects had more names than there is room for.
    pub(in crate::stats) const MORE_NAMES: usize = 13;
    /// The present wait of the rank: its line's number in the table plus one, and its start.
    pub(in crate::stats) const WAITS_AT: usize = 14;
    pub(in crate::stats) const WAITS_SINCE: usize = 15;
}

/// Two sets of counters: one of a single thread, one of all other threads.
pub(super) const OPS: usize = 16;
pub(super) const OPS_WORDS: usize = 56;
/// Among these: near gets, puts and atomics on one value of 1, 2, 4 and up to 128 bytes, a counter
/// each.
/// Their bytes follow from their number, so such an operation changes one counter.
pub(super) const SINGLES: usize = 28;
pub(super) const N_SIZES: usize = 8;
const _: () = assert!(SINGLES + 3 * N_SIZES <= OPS_WORDS, "they have room");
/// Near reads, writes and atomics by blocks, a number and bytes each, of the same single thread:
/// what operations have paid that are counted [as a whole](super::Counting::performed_near).
pub(super) const NEAR: usize = OPS + 2 * OPS_WORDS;
pub(super) const NEAR_WORDS: usize = 6;
/// What the rank does at this moment.
pub(super) const LIVE: usize = NEAR + NEAR_WORDS;
pub(super) const LIVE_WORDS: usize = 64;
/// The file in which the figures are wanted: its length, then its bytes.
pub(super) const FILE: usize = LIVE + LIVE_WORDS;
pub(super) const FILE_WORDS: usize = 64;
/// The longest path of that file in bytes.
pub(crate) const LONGEST_PATH: usize = (FILE_WORDS - 1) * 8;
/// Waits by line.
pub(super) const WAITS: usize = FILE + FILE_WORDS;
pub(super) const N_WAITS: usize = 64;
pub(super) const WAIT_WORDS: usize = 40;
/// The counters of named objects.
pub(super) const NAMES: usize = WAITS + N_WAITS * WAIT_WORDS;
pub(super) const N_NAMES: usize = 64;
pub(super) const NAME_WORDS: usize = 16;
/// Operations of containers, a row each.
pub(super) const ROWS: usize = NAMES + N_NAMES * NAME_WORDS;
pub(super) const N_ROWS: usize = 64;
pub(super) const ROW_WORDS: usize = 48;
/// Histograms of what is [timed](super::Timed), each of so many words.
pub(super) const LATENCIES: usize = ROWS + N_ROWS * ROW_WORDS;
pub(super) const N_TIMED: usize = 8;
pub(super) const LATENCY_WORDS: usize = 160;
/// One set of counters for each peer.
pub(super) const PEERS: usize = LATENCIES + N_TIMED * LATENCY_WORDS;
pub(super) const PEER_WORDS: usize = 5;

/// The words of one rank's board, and what keeps them. See [`words`](Self::words).
#[derive(Clone)]
pub struct Board {
    words: NonNull<[AtomicU64]>,
    /// Dropped last.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the words are atomics that are only reached by shared references, as `&[AtomicU64]`,
// which is `Send`; the owner is `Send` and `Sync`.
unsafe impl Send for Board {}
// SAFETY: as for `Send`.
unsafe impl Sync for Board {}

impl Board {
    /// The bytes of a board with counters for `n_peers` peers.
    #[must_use]
    pub const fn bytes(n_peers: usize) -> usize {
        (PEERS + n_peers * PEER_WORDS) * 8
    }

    /// The words that `part` returns of `owner`. The board keeps `owner` alive.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::AtomicU64;
    /// use pgas_core::stats::Board;
    ///
    /// let owner: Arc<Vec<AtomicU64>> = Arc::new((0..4000).map(AtomicU64::new).collect());
    /// let board = Board::of(owner, |all| &all[1000..]);
    /// assert_eq!(board.words().len(), 3000);
    /// ```
    pub fn of<O: Any + Send + Sync>(
        owner: Arc<O>,
        part: impl for<'a> FnOnce(&'a O) -> &'a [AtomicU64],
    ) -> Self {
        let words = NonNull::from(part(&owner));
        Self {
            words,
            _owner: owner,
        }
    }

    /// A board that nobody else reads.
    pub(super) fn private(n_peers: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..Self::bytes(n_peers) / 8)
            .map(|_| AtomicU64::new(0))
            .collect();
        Self::of(Arc::new(words), |words| words)
    }

    /// The words. Their meaning is private to this crate.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `of` got them by a shared reference to the owner, for any lifetime of that; the
        // owner lies behind an `Arc`, which does not move it, and a handle on it is kept here, so
        // that it is neither dropped nor exclusively borrowed while `self` lives.
        unsafe { self.words.as_ref() }
    }

    /// The first word of a board on which a rank counts.
    pub const MAGIC: u64 = MAGIC;

    /// Whether a rank counts on it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.get(word::MAGIC) == MAGIC
    }

    /// Whether its rank has reported the figures of the job.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.get(word::CLAIM) != 0
    }

    /// Whether the rank has left.
    pub(crate) fn is_over(&self) -> bool {
        self.get(word::IS_OVER) != 0
    }

    /// Counts a rank that has left, and returns the number so far.
    pub(crate) fn count_end(&self) -> usize {
        // Acquires and releases: the last rank reads the figures of the others.
        let n = self
            .words()
            .get(word::N_OVER)
            .map_or(0, |n| n.fetch_add(1, Ordering::AcqRel));
        usize::try_from(n).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Claims the report. Returns whether this is the first claim.
    pub(crate) fn claim(&self) -> bool {
        let claim = self.words().get(word::CLAIM);
        claim.is_none_or(|claim| claim.swap(1, Ordering::Relaxed) == 0)
    }

    pub(super) fn get(&self, at: usize) -> u64 {
        self.words()
            .get(at)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.words().get(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(super) fn add(&self, at: usize, value: u64) {
        if let Some(word) = self.words().get(at) {
            // A count: it orders nothing.
            word.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// Writes the start of `text` that fits, behind its length.
    pub(super) fn set_text(&self, at: usize, n_words: usize, text: &str) {
        let mut end = text.len().min((n_words - 1) * 8);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.set_bytes(at, &text.as_bytes()[..end]);
    }

    /// As [`set_text`](Self::set_text), of the path of a file, whose end tells more.
    pub(super) fn set_path(&self, at: usize, n_words: usize, path: &str) {
        let mut start = path.len().saturating_sub((n_words - 1) * 8);
        while !path.is_char_boundary(start) {
            start += 1;
        }
        self.set_bytes(at, &path.as_bytes()[start..]);
    }

    fn set_bytes(&self, at: usize, bytes: &[u8]) {
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set(at + 1 + i, u64::from_le_bytes(word));
        }
        self.set(at, bytes.len() as u64);
    }

    /// The text that was written there.
    pub(super) fn text(&self, at: usize, n_words: usize) -> String {
        text_of(&|at| self.get(at), at, n_words)
    }
}

/// The text at `at`, in a room of `n_words`, of words that `get` gives.
pub(super) fn text_of(get: &dyn Fn(usize) -> u64, at: usize, n_words: usize) -> String {
    let room = (n_words - 1) * 8;
    let len = usize::try_from(get(at)).unwrap_or(0).min(room);
    let words = (0..len.div_ceil(8)).map(|i| get(at + 1 + i).to_le_bytes());
    let bytes: Vec<u8> = words.flatten().take(len).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Board({} words)", self.words.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_starts_and_paths_their_ends_and_never_leave_their_room() {
        let board = Board::private(1);
        for (text, start, end) in [
            ("", "", ""),
            ("counts", "counts", "counts"),
            (
                "src/long/name/main.rs",
                "src/long/name/ma",
                "ong/name/main.rs",
            ),
            ("nébuleuse épaisse", "nébuleuse épai", "buleuse épaisse"),
        ] {
            board.set(NAMES + 3, u64::MAX);
            board.set_text(NAMES, 3, text);
            assert_eq!(board.text(NAMES, 3), start);
            board.set_path(NAMES, 3, text);
            assert_eq!(board.text(NAMES, 3), end);
            assert_eq!(board.get(NAMES + 3), u64::MAX, "what lies behind it stays");
        }
        board.set(NAMES, u64::MAX);
        assert_eq!(board.text(NAMES, 3).len(), 16, "a damaged length");
    }

    #[test]
    fn a_board_that_is_too_small_is_read_as_zeros() {
        let owner: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(AtomicU64::new).collect());
        let board = Board::of(owner, |all| all);
        board.add(1, 5);
        board.set(PEERS, 1);
        assert_eq!((board.get(1), board.get(PEERS)), (6, 0));
    }
}
