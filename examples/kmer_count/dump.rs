//! The dump: a text file with every k-mer and its count, in the order of k-mers.
//!
//! The first bits of the k-mers divide the entries into some thousand parts. A count over all
//! tables gives the bytes of each part's lines, and divides the parts among the ranks by bytes.
//! The dump is written in a few rounds, each with some parts of every rank. In a round each rank
//! copies its entries of these parts, part by part, to where all ranks can fetch them. It then
//! fetches, sorts and writes a few of its own parts at a time. So the entries are never sorted as a
//! whole, and a rank has a copy of a fraction of them only.

use std::ops::Range;

use pgas::collective::op::Sum;
use pgas::{GlobalPtr, HashMap, World};
use pgas_genomics::output::Draft;
use pgas_genomics::{Kmer, KmerLength};

use crate::{Result, agree};

/// The number of leading bits of a k-mer that select its part.
const PART_BITS: usize = 12;
/// Entries that are fetched, sorted and written together. A single part may have more.
const GROUP: u64 = 1 << 15;

/// Entries of a rank for which one more round is worth its time: each round reads the whole table.
const ROUND: u64 = 1 << 20;
/// With more entries the rounds grow instead.
const MOST_ROUNDS: u64 = 8;

/// A k-mer with its count.
#[pgas::pod]
#[derive(Debug)]
struct Entry {
    kmer: Kmer,
    count: u64,
}

/// The number of entries of each part, and the bytes of their lines.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    k: KmerLength,
    shift: usize,
    n_entries: Vec<u64>,
    n_bytes: Vec<u64>,
}

impl Parts {
    /// Counts of no entries.
    pub(crate) fn new(k: KmerLength) -> Self {
        let bits = 2 * k.get();
        let shift = bits.saturating_sub(PART_BITS);
        let n = 1 << (bits - shift);
        Self {
            k,
            shift,
            n_entries: vec![0; n],
            n_bytes: vec![0; n],
        }
    }

    /// Counts an entry to be written.
    pub(crate) fn add(&mut self, kmer: Kmer, count: u64) {
        let part = self.of(kmer);
        self.n_entries[part] += 1;
        self.n_bytes[part] += Draft::lines_bytes(self.k, [(kmer, count)]);
    }

    fn of(&self, kmer: Kmer) -> usize {
        index(kmer.word() >> self.shift)
    }

    /// The start of each part's entries if those of one round are contiguous, and the end of the
    /// last one.
    fn starts(&self, plan: &Plan, round: u64) -> Vec<u64> {
        let parts = self.n_entries.iter().zip(&plan.rounds);
        let mut ends = vec![0];
        ends.extend(parts.scan(0, |end, (n, of)| {
            *end += if *of == round { *n } else { 0 };
            Some(*end)
        }));
        ends
    }
}

/// Who writes which part, when and where.
#[derive(Debug)]
struct Plan {
    /// All ranks' entries.
    all: Parts,
    /// Where the lines of each part begin in the file.
    begins: Vec<u64>,
    /// The first part of each rank, and the number of parts.
    firsts: Vec<usize>,
    n_rounds: u64,
    /// The round of each part.
    rounds: Vec<u64>,
}

impl Plan {
    fn new(all: Parts, n_ranks: u64) -> Self {
        let mut offset = 0;
        let begins = all.n_bytes.iter().map(|n| {
            offset += n;
            offset - n
        });
        let begins: Vec<u64> = begins.collect();
        // A part belongs to the rank in whose share of the file it begins. The computation avoids
        // products that could overflow.
        let share = |rank| offset / n_ranks * rank + offset % n_ranks * rank / n_ranks;
        let first = |rank| begins.partition_point(|begin| *begin < share(rank));
        let mut firsts: Vec<usize> = (0..n_ranks).map(first).collect();
        firsts.push(begins.len());

        let n_entries: u64 = all.n_entries.iter().sum();
        let n_rounds = (n_entries / n_ranks).div_ceil(ROUND).clamp(1, MOST_ROUNDS);
        let mut rounds = Vec::with_capacity(begins.len());
        for share in firsts.windows(2) {
            let n_entries = &all.n_entries[share[0]..share[1]];
            let in_a_round = n_entries.iter().sum::<u64>().div_ceil(n_rounds).max(1);
            rounds.extend(n_entries.iter().scan(0, |before, n| {
                let round = *before / in_a_round;
                *before += n;
                Some(round.min(n_rounds - 1))
            }));
        }
        Self {
            all,
            begins,
            firsts,
            n_rounds,
            rounds,
        }
    }

    /// The parts that a rank writes in a round, which are contiguous.
    fn parts(&self, rank: usize, round: u64) -> Range<usize> {
        let (first, last) = (self.firsts[rank], self.firsts[rank + 1]);
        let rounds = &self.rounds[first..last];
        let [from, to] = [round, round + 1].map(|end| rounds.partition_point(|at| *at < end));
        first + from..first + to
    }
}

/// Writes the entries of all ranks that `keeps` selects by their counts. `mine` has counted them.
/// Collective.
pub(crate) fn write(
    world: &World,
    draft: &Draft,
    table: &HashMap<Kmer, u64>,
    mine: &Parts,
    keeps: impl Fn(u64) -> bool,
) -> Result<()> {
    let mut all = mine.clone();
    world.allreduce_slice(&mut all.n_entries, Sum)?;
    world.allreduce_slice(&mut all.n_bytes, Sum)?;
    let plan = Plan::new(all, u64::from(world.n_ranks()));
    let starts = |round| mine.starts(&plan, round);
    let n_starts = mine.n_entries.len() + 1;
    let most = (0..plan.n_rounds).map(|round| starts(round)[n_starts - 1]);
    // The other ranks fetch from here.
    let here = world.alloc::<Entry>(index(most.max().unwrap_or(0)));
    let here = agree(world, here)?;
    let starts_here = agree(world, world.alloc::<u64>(n_starts))?;
    let place = Place {
        entries: here,
        starts: starts_here,
    };
    let places = world.allgather(&[place])?;
    for round in 0..plan.n_rounds {
        let starts = starts(round);
        let is_due = |part: usize| plan.rounds[part] == round;
        let laid = lay_down(world, here, table, (mine, &starts, &is_due), &keeps);
        let laid = laid.and_then(|()| starts_here.put_slice(world, &starts));
        let laid = laid.and_then(|()| world.flush(world.rank()));
        agree(world, laid)?;
        let parts = plan.parts(world.rank().index(), round);
        agree(world, write_parts(world, draft, &plan, parts, &places))?;
    }
    world.free(here);
    world.free(starts_here);
    Ok(())
}

/// A rank's entries, and the start of each part.
#[pgas::pod]
#[derive(Debug)]
struct Place {
    entries: GlobalPtr<Entry>,
    starts: GlobalPtr<u64>,
}

/// Copies this rank's entries that are due out of the table, part by part.
fn lay_down(
    world: &World,
    here: GlobalPtr<Entry>,
    table: &HashMap<Kmer, u64>,
    (parts, starts, is_due): (&Parts, &[u64], &impl Fn(usize) -> bool),
    keeps: impl Fn(u64) -> bool,
) -> pgas::Result<()> {
    let mut ends = starts.to_vec();
    let mut laid = Ok(());
    table.for_each_local(|kmer, count| {
        let part = parts.of(kmer);
        if !is_due(part) || !keeps(count) || laid.is_err() {
            return;
        }
        let end = &mut ends[part];
        let place = here.add(index(*end));
        *end += 1;
        laid = place.put(world, Entry { kmer, count });
    })?;
    laid
}

/// Fetches, sorts and writes these parts of the file.
fn write_parts(
    world: &World,
    draft: &Draft,
    plan: &Plan,
    parts: Range<usize>,
    places: &[Place],
) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let starts = places.iter().map(|place| {
        let starts = place.starts.add(parts.start);
        starts.get_vec(world, parts.len() + 1)
    });
    let starts = starts.collect::<Result<Vec<_>, _>>()?;

    let n_entries_of = &plan.all.n_entries;
    let mut entries = Vec::new();
    let mut part = parts.start;
    while part < parts.end {
        let begin = part;
        let mut n_entries = 0;
        while part < parts.end && (part == begin || n_entries + n_entries_of[part] <= GROUP) {
            n_entries += n_entries_of[part];
            part += 1;
        }
        entries.clear();
        for (place, starts) in places.iter().zip(&starts) {
            let [from, to] = [begin, part].map(|part| index(starts[part - parts.start]));
            let piece = place.entries.add(from);
            entries.append(&mut piece.get_vec(world, to - from)?);
        }
        entries.sort_unstable_by_key(|entry: &Entry| entry.kmer);
        let pairs = entries.iter().map(|entry| (entry.kmer, entry.count));
        draft.write_lines(plan.begins[begin], plan.all.k, pairs)?;
    }
    Ok(())
}

/// A number of entries of one rank, or of a part.
fn index(n: u64) -> usize {
    usize::try_from(n).expect("less than memory has places")
}
