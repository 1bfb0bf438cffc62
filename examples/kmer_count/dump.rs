//! The dump: a text file with every k-mer and its count, in the order of k-mers.
//!
//! The first bits of the k-mers divide the entries into some thousand parts. A count over all
//! tables gives the bytes of each part's lines, and divides the parts among the ranks by bytes.
//! Each rank puts its entries, part by part, where all ranks can fetch them. It then fetches, sorts
//! and writes a few of its own parts at a time. So the entries are never sorted as a whole, and a
//! rank has a second copy of only some thousands of them.

use pgas::collective::op::Sum;
use pgas::{GlobalPtr, HashMap, World};
use pgas_genomics::output::Draft;
use pgas_genomics::{Kmer, KmerLength};

use crate::{Result, agree};

/// The number of leading bits of a k-mer that select its part.
const PART_BITS: usize = 12;
/// Entries that are fetched, sorted and written together. A single part may have more.
const GROUP: u64 = 1 << 15;

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

    /// The start of each part's entries if parts are contiguous, and the end of the last one.
    fn starts(&self) -> Vec<u64> {
        let mut ends = vec![0];
        ends.extend(self.n_entries.iter().scan(0, |end, n| {
            *end += n;
            Some(*end)
        }));
        ends
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
    let starts = mine.starts();
    // The other ranks fetch from here.
    let here = world.alloc::<Entry>(index(starts[starts.len() - 1]));
    let here = agree(world, here)?;
    let starts_here = agree(world, world.alloc::<u64>(starts.len()))?;
    let laid = lay_down(world, here, table, (mine, &starts), keeps);
    let laid = laid.and_then(|()| starts_here.put_slice(world, &starts));
    agree(world, laid)?;

    let places = Place {
        entries: here,
        starts: starts_here,
    };
    let places = world.allgather(&[places])?;
    let written = write_share(world, draft, &all, &places);
    let written = agree(world, written);
    world.free(here);
    world.free(starts_here);
    written
}

/// A rank's entries, and the start of each part.
#[pgas::pod]
#[derive(Debug)]
struct Place {
    entries: GlobalPtr<Entry>,
    starts: GlobalPtr<u64>,
}

/// Copies this rank's entries out of the table, part by part.
fn lay_down(
    world: &World,
    here: GlobalPtr<Entry>,
    table: &HashMap<Kmer, u64>,
    (parts, starts): (&Parts, &[u64]),
    keeps: impl Fn(u64) -> bool,
) -> pgas::Result<()> {
    let mut ends = starts.to_vec();
    let mut laid = Ok(());
    table.for_each_local(|kmer, count| {
        if laid.is_err() || !keeps(count) {
            return;
        }
        let end = &mut ends[parts.of(kmer)];
        let place = here.add(index(*end));
        *end += 1;
        laid = place.put(world, Entry { kmer, count });
    })?;
    laid
}

/// Fetches, sorts and writes the parts in this rank's share of the file.
fn write_share(world: &World, draft: &Draft, all: &Parts, places: &[Place]) -> Result<()> {
    let n_bytes: u64 = all.n_bytes.iter().sum();
    let (me, n_ranks) = (u64::from(world.rank().number()), u64::from(world.n_ranks()));
    // A part belongs to the rank in whose share of the file it begins. The computation avoids
    // products that could overflow.
    let share = |rank| n_bytes / n_ranks * rank + n_bytes % n_ranks * rank / n_ranks;
    let mut offset = 0;
    let begins = all.n_bytes.iter().map(|n| {
        offset += n;
        offset - n
    });
    let begins: Vec<u64> = begins.collect();
    let first = begins.partition_point(|begin| *begin < share(me));
    let last = begins.partition_point(|begin| *begin < share(me + 1));
    if first == last {
        return Ok(());
    }
    let starts = places.iter().map(|place| {
        let starts = place.starts.add(first);
        starts.get_vec(world, last - first + 1)
    });
    let starts = starts.collect::<Result<Vec<_>, _>>()?;

    let mut entries = Vec::new();
    let mut part = first;
    while part < last {
        let begin = part;
        let mut n_entries = 0;
        while part < last && (part == begin || n_entries + all.n_entries[part] <= GROUP) {
            n_entries += all.n_entries[part];
            part += 1;
        }
        entries.clear();
        for (place, starts) in places.iter().zip(&starts) {
            let [from, to] = [begin, part].map(|part| index(starts[part - first]));
            let piece = place.entries.add(from);
            entries.append(&mut piece.get_vec(world, to - from)?);
        }
        entries.sort_unstable_by_key(|entry: &Entry| entry.kmer);
        let pairs = entries.iter().map(|entry| (entry.kmer, entry.count));
        draft.write_lines(begins[begin], all.k, pairs)?;
    }
    Ok(())
}

/// A number of entries of one rank, or of a part.
fn index(n: u64) -> usize {
    usize::try_from(n).expect("less than memory has places")
}
