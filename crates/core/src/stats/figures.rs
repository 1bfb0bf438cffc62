//! Reading a board: the figures of one rank.

use super::board::{
    Board, FILE, FILE_WORDS, LATENCIES, LATENCY_WORDS, N_NAMES, N_TIMED, N_WAITS, NAME_WORDS,
    NAMES, OPS_WORDS, PEER_WORDS, PEERS, WAIT_WORDS, WAITS, word,
};
use super::counters::{bytes_of, counters, n_of};
use super::operations::Performed;
use crate::cost::CostKind;
use crate::notice::printable;

/// The figures of one rank.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) rank: u32,
    pub(super) is_over: bool,
    pub(super) began: u64,
    pub(super) until: u64,
    pub(super) segment: u64,
    pub(super) local_heap: u64,
    pub(super) symmetric_heap: u64,
    pub(super) resident: u64,
    ops: [u64; OPS_WORDS],
    pub(super) waits: Vec<Line>,
    pub(super) names: Vec<Named>,
    /// Whether there were more names, which have no figures.
    pub(super) has_more_names: bool,
    pub(super) operations: Vec<Performed>,
    pub(super) peers: Vec<[u64; PEER_WORDS]>,
    /// For each kind that is timed, the number in each bucket.
    pub(super) latencies: [Vec<u64>; N_TIMED],
}

/// The waits of a line of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) what: String,
    pub(super) whole: String,
    pub(super) n: u64,
    pub(super) nanos: u64,
    pub(super) longest: u64,
    /// The rank that it has waited for most, if one stands out.
    pub(super) rank: Option<u32>,
    pub(super) weight: u64,
}

impl Line {
    /// The line of the program. There is none for what many lines have in common.
    pub(super) fn place(&self) -> String {
        let file = printable(&self.file).to_string();
        match self.line {
            0 => file,
            line => format!("{file}:{line}"),
        }
    }
}

/// Operations on a named object: gets, puts, atomics, messages, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) counts: [u64; PEER_WORDS],
}

impl Figures {
    /// The figures on `board`, if a rank has used it.
    pub(super) fn read(board: &Board) -> Option<Self> {
        if !board.is_used() {
            return None;
        }
        let n_ranks = small(board.get(word::N_RANKS)).min(1 << 24);
        let has_peers = board.get(word::WANTED) & 2 != 0;
        let n_peers = if has_peers { n_ranks as usize } else { 0 };
        let room = board.words().len().saturating_sub(PEERS) / PEER_WORDS;
        let mut this = Self {
            rank: small(board.get(word::RANK)),
            is_over: board.get(word::IS_OVER) != 0,
            began: board.get(word::BEGAN),
            until: board.get(word::UNTIL),
            segment: board.get(word::SEGMENT),
            local_heap: board.get(word::LOCAL_HEAP),
            symmetric_heap: board.get(word::SYMMETRIC_HEAP),
            resident: board.get(word::RESIDENT),
            ops: counters(&|at| board.get(at)),
            waits: (0..N_WAITS).filter_map(|i| Line::read(board, i)).collect(),
            names: (0..N_NAMES).filter_map(|i| Named::read(board, i)).collect(),
            has_more_names: board.get(word::MORE_NAMES) != 0,
            operations: Performed::read_all(board),
            latencies: std::array::from_fn(|i| {
                let first = LATENCIES + i * LATENCY_WORDS;
                let buckets = first..first + LATENCY_WORDS;
                buckets.map(|at| board.get(at)).collect()
            }),
            peers: (0..n_peers.min(room))
                .map(|i| five(board, PEERS + i * PEER_WORDS))
                .collect(),
        };
        this.add_wait_in_progress(board);
        Some(this)
    }

    /// The wait of a rank that died in it ends with its latest figures.
    fn add_wait_in_progress(&mut self, board: &Board) {
        let index = usize::try_from(board.get(word::WAITS_AT)).unwrap_or(0);
        if self.is_over || index == 0 || index > N_WAITS {
            return;
        }
        let since = board.get(word::WAITS_SINCE);
        let Some(mut line) = Line::describe(board, index - 1) else {
            return;
        };
        let waited = self.until.saturating_sub(since);
        let known = self.waits.iter_mut().find(|known| known.is_same(&line));
        let line = match known {
            Some(known) => known,
            None => {
                line.n = 0;
                self.waits.push(line);
                self.waits.last_mut().expect("it was pushed")
            }
        };
        line.n += 1;
        line.nanos = line.nanos.saturating_add(waited);
        line.longest = line.longest.max(waited);
    }

    pub(super) fn n(&self, kind: CostKind, is_near: bool) -> u64 {
        self.ops[n_of(kind, is_near)]
    }

    pub(super) fn bytes(&self, kind: CostKind, is_near: bool) -> u64 {
        bytes_of(kind, is_near).map_or(0, |at| self.ops[at])
    }

    /// The time that the rank has run, in nanoseconds.
    pub(super) fn nanos(&self) -> u64 {
        self.until.saturating_sub(self.began)
    }

    /// The time that it has waited, in nanoseconds.
    pub(super) fn waited(&self) -> u64 {
        self.waits
            .iter()
            .fold(0, |sum, line| sum.saturating_add(line.nanos))
    }
}

impl Line {
    fn read(board: &Board, index: usize) -> Option<Self> {
        Self::describe(board, index).filter(|line| line.n > 0)
    }

    fn describe(board: &Board, index: usize) -> Option<Self> {
        let at = WAITS + index * WAIT_WORDS;
        let file = board.text(at + 7, 17);
        let rank = board.get(at + 3).checked_sub(1).map(small);
        (!file.is_empty()).then(|| Self {
            file,
            line: board.get(at + 6),
            what: board.text(at + 24, 9),
            whole: board.text(at + 33, 7),
            n: board.get(at),
            nanos: board.get(at + 1),
            longest: board.get(at + 2),
            rank,
            weight: board.get(at + 4),
        })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.file, self.line, &self.what) == (&other.file, other.line, &other.what)
    }

    /// Adds the waits of another rank at the same line.
    pub(super) fn add(&mut self, other: &Self) {
        self.n += other.n;
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.longest = self.longest.max(other.longest);
        if self.rank == other.rank {
            self.weight = self.weight.saturating_add(other.weight);
        } else if other.weight > self.weight {
            self.rank = other.rank;
            self.weight = other.weight - self.weight;
        } else {
            self.weight -= other.weight;
        }
    }
}

impl Named {
    fn read(board: &Board, index: usize) -> Option<Self> {
        let at = NAMES + index * NAME_WORDS;
        let name = board.text(at + PEER_WORDS, NAME_WORDS - PEER_WORDS);
        (!name.is_empty()).then(|| Self {
            name,
            counts: five(board, at),
        })
    }
}

fn five(board: &Board, at: usize) -> [u64; PEER_WORDS] {
    std::array::from_fn(|i| board.get(at + i))
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether a table is wanted, and the file in which the figures are wanted.
pub(super) fn wanted(board: &Board) -> (bool, Option<String>) {
    let file = board.text(FILE, FILE_WORDS);
    let has_table = board.get(word::WANTED) & 1 != 0;
    (has_table, (!file.is_empty()).then_some(file))
}
