//! Counting while a rank runs.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::board::{
    Board, FILE, FILE_WORDS, MAGIC, N_NAMES, N_WAITS, NAME_WORDS, NAMES, OPS, OPS_WORDS,
    PEER_WORDS, PEERS, WAIT_WORDS, WAITS, word,
};
use super::counters::{add_to, bytes_of, counters, n_of};
use super::first_set::{FirstSet, Purpose};
use crate::cost::{CostKind, Costs, Statistics};
use crate::locks::lock;
use crate::rank::Rank;
use crate::thread_number;

/// The interval at which a rank that waits looks at the memory of its process, in nanoseconds: the
/// system takes some ten microseconds to tell.
const STOCK_INTERVAL: u64 = 10_000_000;

/// A line of the program that waits, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) what: &'static str,
    /// The call that the wait is a part of, if that call has declared its name.
    pub(crate) whole: Option<&'static str>,
    pub(crate) at: &'static Location<'static>,
}

impl Origin {
    fn key(&self) -> (&'static str, u32, &'static str) {
        (self.at.file(), self.at.line(), self.what)
    }
}

/// The counting of one world.
#[derive(Debug)]
pub(crate) struct Counting {
    board: Board,
    /// The first thread that has counted here. Its counters are its own, so that it changes them
    /// without atomic instructions.
    owner: AtomicU64,
    /// What is counted here without a name.
    purpose: Purpose,
    /// Whether others can read the board.
    is_shared: bool,
    n_peers: usize,
    /// Whether operations and waits have histograms.
    is_timing: bool,
    /// The prices of operations of containers that ran within others. They do not count for the
    /// outer ones.
    pub(super) within: [AtomicU64; 4],
    /// The operations of containers that the first thread performs now, one within another.
    pub(super) n_performing: AtomicU64,
    lines: Mutex<HashMap<(&'static str, u32, &'static str), usize>>,
    names: Mutex<Vec<String>>,
    /// The figures that ranks of other hosts have sent: the number of pieces, and the board.
    told: Mutex<HashMap<Rank, (u64, Board)>>,
}

/// The contents of a board from the start.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) statistics: Statistics,
    pub(crate) rank: Rank,
    pub(crate) n_ranks: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) table: bool,
    pub(crate) latencies: bool,
    pub(crate) file: Option<&'a str>,
}

impl Counting {
    /// Counts on `board`, if there is one that is large enough, or in memory of its own.
    pub(crate) fn new(
        opening: &Opening<'_>,
        board: impl FnOnce() -> Option<Board>,
    ) -> Option<Arc<Self>> {
        let n_peers = match opening.statistics {
            Statistics::Off => return None,
            Statistics::Total => 0,
            Statistics::PerPeer => opening.n_ranks as usize,
        };
        let is_enough = |board: &Board| board.words().len() * 8 >= Board::bytes(n_peers);
        let board = board().filter(is_enough);
        let is_shared = board.is_some();
        let board = board.unwrap_or_else(|| Board::private(n_peers));
        let this = Self {
            board,
            owner: AtomicU64::new(0),
            purpose: Purpose::new(),
            is_shared,
            n_peers,
            is_timing: opening.latencies,
            within: Default::default(),
            n_performing: AtomicU64::new(0),
            lines: Mutex::default(),
            names: Mutex::default(),
            told: Mutex::default(),
        };
        let board = &this.board;
        board.set(word::BEGAN, now());
        let wanted = u64::from(opening.table) + 2 * u64::from(n_peers > 0);
        board.set(word::WANTED, wanted);
        board.set(word::N_RANKS, opening.n_ranks.into());
        board.set(word::RANK, opening.rank.number().into());
        board.set(word::SEGMENT, opening.segment_bytes);
        board.set_path(FILE, FILE_WORDS, opening.file.unwrap_or_default());
        this.take_stock();
        board.set(word::MAGIC, MAGIC);
        Some(Arc::new(this))
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Whether others can read the board.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether operations and waits have histograms.
    pub(crate) fn is_timing(&self) -> bool {
        self.is_timing
    }

    /// Whether steps on near memory are counted together: if peers are not counted.
    pub(crate) fn counts_steps(&self) -> bool {
        self.n_peers == 0
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The first set of counters.
    pub(crate) fn first_set(&self) -> FirstSet {
        FirstSet::of(&self.board)
    }

    /// Whether the first set of counters is this thread's, as far as it remembers, and has no
    /// others beside it.
    #[inline]
    pub(super) fn is_first_thread(&self) -> bool {
        self.purpose.is_of_this_thread()
    }

    /// Whether the first set of counters is this thread's.
    pub(super) fn is_owner(&self) -> bool {
        let is_owner = self.owner.load(Ordering::Relaxed) == thread_number::get() || self.own();
        if is_owner && self.n_peers == 0 {
            self.purpose.remember();
        }
        is_owner
    }

    /// Adds `by` to a counter. A thread of a rank that has several pays for an atomic instruction.
    #[inline]
    fn add_at(&self, at: usize, by: u64) {
        let place = if self.is_owner() {
            add_to(&self.board.words()[OPS + at..=OPS + at], &[by]);
            return;
        } else {
            OPS + OPS_WORDS + at
        };
        self.board.add(place, by);
    }

    /// Whether the first set of counters has become this thread's.
    #[cold]
    fn own(&self) -> bool {
        let claimed = self.owner.compare_exchange(
            0,
            thread_number::get(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        claimed.is_ok()
    }

    /// Counts `n` operations of `bytes` bytes together. `label` is the number of a name, or 0.
    #[inline]
    pub(crate) fn add(
        &self,
        kind: CostKind,
        (is_near, label): (bool, u16),
        peer: Option<Rank>,
        n: u64,
        bytes: u64,
    ) {
        let at = OPS + n_of(kind, is_near);
        if self.is_first_thread()
            && label == 0
            && let Some(counters) = self.board.words().get(at..at + 2)
        {
            // What has no bytes adds none, to a counter that nobody reads.
            add_to(counters, &[n, bytes]);
            return;
        }
        self.add_to_all(kind, (is_near, label), peer, n, bytes);
    }

    /// As [`add`](Self::add), on whatever thread and for whatever.
    #[inline(never)]
    fn add_to_all(
        &self,
        kind: CostKind,
        (is_near, label): (bool, u16),
        peer: Option<Rank>,
        n: u64,
        bytes: u64,
    ) {
        let at = n_of(kind, is_near);
        self.add_at(at, n);
        self.add_at(at + 1, bytes);
        if self.n_peers > 0
            && let Some(peer) = peer
        {
            self.add_to_peer(kind, peer, n, bytes);
        }
        if label > 0 {
            self.add_to_name(kind, label, n, bytes);
        }
    }

    #[cold]
    fn add_to_peer(&self, kind: CostKind, peer: Rank, n: u64, bytes: u64) {
        if peer.index() >= self.n_peers {
            return;
        }
        let at = PEERS + peer.index() * PEER_WORDS;
        if let Some(column) = column(kind) {
            self.board.add(at + column, n);
            self.board.add(at + 4, bytes);
        }
    }

    #[cold]
    fn add_to_name(&self, kind: CostKind, label: u16, n: u64, bytes: u64) {
        let at = NAMES + (usize::from(label) - 1) * NAME_WORDS;
        if let Some(column) = column(kind) {
            self.board.add(at + column, n);
            self.board.add(at + 4, bytes);
        }
    }

    /// The number of a name, from 1; 0 once there are too many.
    pub(crate) fn label(&self, name: &str) -> u16 {
        let mut names = lock(&self.names);
        let known = names.iter().position(|known| known == name);
        let index = match known {
            Some(index) => index,
            None if names.len() < N_NAMES => {
                let at = NAMES + names.len() * NAME_WORDS + PEER_WORDS;
                self.board.set_text(at, NAME_WORDS - PEER_WORDS, name);
                names.push(name.to_owned());
                names.len() - 1
            }
            None => {
                self.board.set(word::MORE_NAMES, 1);
                return 0;
            }
        };
        u16::try_from(index + 1).unwrap_or(0)
    }

    /// The index of a line's figures. If there are too many lines, the last index has those of all
    /// others.
    fn line(&self, origin: &Origin) -> usize {
        let mut lines = lock(&self.lines);
        let n = lines.len();
        let index = *lines.entry(origin.key()).or_insert(n.min(N_WAITS - 1));
        let at = WAITS + index * WAIT_WORDS;
        let is_new = lines.len() > n;
        drop(lines);
        if is_new {
            let is_last = index == N_WAITS - 1;
            let (file, line) = if is_last {
                ("other lines", 0)
            } else {
                (origin.at.file(), origin.at.line())
            };
            self.board.set(at + 6, line.into());
            self.board.set_path(at + 7, 17, file);
            let what = if is_last { "various" } else { origin.what };
            self.board.set_text(at + 24, 9, what);
            let whole = origin.whole.filter(|_| !is_last).unwrap_or_default();
            self.board.set_text(at + 33, 7, whole);
        }
        at
    }

    /// Records that the rank is waiting.
    pub(crate) fn waits(&self, origin: &Origin, since: Duration) {
        let at = self.line(origin);
        let index = (at - WAITS) / WAIT_WORDS;
        self.board.set(word::WAITS_AT, index as u64 + 1);
        let now = now();
        self.board
            .set(word::WAITS_SINCE, now.saturating_sub(nanos(since)));
        // A rank that serves messages while it waits comes here after every few of them.
        if now.saturating_sub(self.board.get(word::UNTIL)) > STOCK_INTERVAL {
            self.take_stock();
        }
    }

    /// Counts a finished wait, and the rank that came last, if it is known.
    pub(crate) fn waited(&self, origin: &Origin, waited: Duration, last: Option<Rank>) {
        let at = self.line(origin);
        let board = &self.board;
        let waited = nanos(waited);
        board.add(at, 1);
        board.add(at + 1, waited);
        if waited > board.get(at + 2) {
            board.set(at + 2, waited);
        }
        if let Some(last) = last {
            // The majority by weight, if there is one (Boyer and Moore).
            let weight = board.get(at + 4);
            if board.get(at + 3) == u64::from(last.number()) + 1 {
                board.set(at + 4, weight.saturating_add(waited));
            } else if weight >= waited {
                board.set(at + 4, weight - waited);
            } else {
                board.set(at + 3, u64::from(last.number()) + 1);
                board.set(at + 4, waited - weight);
            }
        }
        board.set(word::WAITS_AT, 0);
    }

    /// Records the use of the heaps.
    pub(crate) fn set_heaps(&self, local: Option<u64>, symmetric: Option<u64>) {
        for (at, used) in [(word::LOCAL_HEAP, local), (word::SYMMETRIC_HEAP, symmetric)] {
            if let Some(used) = used {
                self.board.set(at, used.max(self.board.get(at)));
            }
        }
    }

    /// Records the time, and the memory of the process.
    pub(crate) fn take_stock(&self) {
        self.board.set(word::UNTIL, now());
        let resident = resident().max(self.board.get(word::RESIDENT));
        self.board.set(word::RESIDENT, resident);
    }

    /// Records that the rank leaves: its figures are final. Returns whether this is the first call.
    pub(crate) fn end(&self) -> bool {
        self.take_stock();
        self.board.words()[word::IS_OVER].swap(1, Ordering::Relaxed) == 0
    }

    /// The board as messages: pieces of at most `n_words` words, without pieces of zeros. The piece
    /// with the first words comes last, and has the number of pieces.
    pub(crate) fn pieces(&self, n_words: usize) -> Vec<Vec<u8>> {
        let words: Vec<u64> = self
            .board
            .words()
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        let n_used = PEERS + self.n_peers * PEER_WORDS;
        let chunks = words[..n_used].chunks(n_words).enumerate().rev();
        let mut pieces = Vec::new();
        for (i, chunk) in chunks.filter(|(i, chunk)| *i == 0 || chunk.iter().any(|w| *w != 0)) {
            let mut piece = ((i * n_words) as u64).to_le_bytes().to_vec();
            piece.extend(chunk.iter().flat_map(|word| word.to_le_bytes()));
            pieces.push(piece);
        }
        let n_pieces = pieces.len() as u64;
        if let Some(first) = pieces.last_mut() {
            let at = (1 + word::IS_OVER) * 8;
            first[at..at + 8].copy_from_slice(&n_pieces.to_le_bytes());
        }
        pieces
    }

    /// Takes one of the [`pieces`](Self::pieces) of another rank's board.
    pub(crate) fn take_piece(&self, from: Rank, piece: &[u8]) {
        let mut words = piece.chunks_exact(8).map(|bytes| {
            bytes
                .iter()
                .rev()
                .fold(0, |word, b| word << 8 | u64::from(*b))
        });
        let Some(first) = words.next().and_then(|at| usize::try_from(at).ok()) else {
            return;
        };
        let mut told = lock(&self.told);
        let board = || (0, Board::private(self.n_peers));
        let (n_pieces, board) = told.entry(from).or_insert_with(board);
        *n_pieces += 1;
        for (i, word) in words.enumerate() {
            board.set(first.saturating_add(i), word);
        }
    }

    /// Whether all figures of `rank` have arrived.
    pub(crate) fn is_told(&self, rank: Rank) -> bool {
        let told = lock(&self.told);
        told.get(&rank).is_some_and(|(n_pieces, board)| {
            board.is_over() && board.get(word::IS_OVER) == *n_pieces
        })
    }

    /// The figures of `rank`.
    pub(crate) fn told(&self, rank: Rank) -> Option<Board> {
        lock(&self.told).get(&rank).map(|(_, board)| board.clone())
    }

    pub(crate) fn total(&self) -> Costs {
        let counters = counters(&|at| self.board.get(at));
        let sum = |kind| counters[n_of(kind, true)] + counters[n_of(kind, false)];
        let bytes = |kind| {
            let of = |is_near| bytes_of(kind, is_near).map_or(0, |at| counters[at]);
            of(true) + of(false)
        };
        Costs {
            reads: sum(CostKind::Read),
            writes: sum(CostKind::Write),
            atomics: sum(CostKind::Atomic),
            messages: sum(CostKind::Message),
            barriers: counters[n_of(CostKind::Barrier, true)],
            local: counters[n_of(CostKind::Local, true)],
            bytes: bytes(CostKind::Read)
                + bytes(CostKind::Write)
                + bytes(CostKind::Atomic)
                + bytes(CostKind::Message),
        }
    }

    /// The time of all waits, in nanoseconds.
    #[cfg(test)]
    pub(crate) fn all_waited(&self) -> u64 {
        let waits = (0..N_WAITS).map(|i| self.board.get(WAITS + i * WAIT_WORDS + 1));
        waits.sum()
    }

    /// The number of operations of a kind.
    #[cfg(test)]
    pub(crate) fn n(&self, kind: CostKind, is_near: bool) -> u64 {
        let counters = counters(&|at| self.board.get(at));
        counters[n_of(kind, is_near)]
    }

    pub(crate) fn peer(&self, rank: Rank) -> Option<Costs> {
        let at = PEERS + rank.index() * PEER_WORDS;
        (rank.index() < self.n_peers).then(|| Costs {
            reads: self.board.get(at),
            writes: self.board.get(at + 1),
            atomics: self.board.get(at + 2),
            messages: self.board.get(at + 3),
            bytes: self.board.get(at + 4),
            ..Costs::default()
        })
    }
}

/// The column of this kind of operation in the counters of one peer or one name.
fn column(kind: CostKind) -> Option<usize> {
    match kind {
        CostKind::Read => Some(0),
        CostKind::Write => Some(1),
        CostKind::Atomic => Some(2),
        CostKind::Message => Some(3),
        CostKind::Barrier | CostKind::Local | CostKind::Refusal => None,
    }
}

/// The time in nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    nanos(now.unwrap_or_default())
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The largest resident memory of this process so far, in bytes; 0 if the system does not tell.
fn resident() -> u64 {
    // Miri has no such file.
    let text = if cfg!(miri) {
        return 0;
    } else {
        std::fs::read_to_string("/proc/self/status").unwrap_or_default()
    };
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
