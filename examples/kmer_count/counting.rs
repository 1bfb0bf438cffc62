//! The table of counts: its size, and the three ways to fill it.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use pgas::collective::op::{Max, Min};
use pgas::prelude::*;
use pgas_genomics::packed::PackedKmers;
use pgas_genomics::{DistinctSketch, Kmer, PackedReads};

use crate::options::Options;
use crate::progress::progress_bar;
use crate::way::Way;
use crate::{Failure, Result, agree};

/// K-mers that are added to the table in one call, so that their memory latencies overlap.
const BATCH: usize = 1024;

/// Capacity of an inbox, in k-mers.
const INBOX: usize = 1 << 16;

/// The false positive rate of the filter.
const BLOOM_RATE: f64 = 0.02;

/// Up to this many k-mers the table is made without an estimate of the distinct ones.
const FEW: u64 = 1 << 16;

fn kmers<'a>(reads: &'a PackedReads, options: &Options) -> PackedKmers<'a> {
    let kmers = reads.kmers(options.k);
    if options.canonical {
        kmers.canonical()
    } else {
        kmers
    }
}

/// Bounds of the number of distinct k-mers over all ranks, of `n_kmers` in all.
pub(super) fn estimate(
    world: &World,
    options: &Options,
    reads: &PackedReads,
    n_kmers: u64,
) -> Result<RangeInclusive<u64>> {
    let at_most = n_kmers.min(options.k.n_possible());
    if at_most <= FEW {
        return Ok(0..=at_most);
    }
    let mut sketch = DistinctSketch::new();
    kmers(reads, options).for_each(|kmer| sketch.add(kmer));
    world.allreduce_slice(sketch.registers_mut(), Max)?;
    let (least, most) = sketch.bounds().into_inner();
    Ok(least..=most.min(at_most))
}

/// The number of slots for this many k-mers: two thirds will be full. A higher load saves memory,
/// but makes searches longer.
pub(super) fn slots_for(n_distinct: u64) -> usize {
    usize::try_from(n_distinct + n_distinct / 2 + 64).unwrap_or(usize::MAX)
}

/// Counts the k-mers of all ranks in one table. Returns the way of the operations, the table, and
/// the bytes of the Bloom filter, if there is one.
pub(super) fn count(
    world: &World,
    options: &Options,
    reads: &PackedReads,
    n_distinct: &RangeInclusive<u64>,
) -> Result<(Way, HashMap<Kmer, u64>, u64)> {
    let mut bounds = n_distinct.clone().into_inner();
    let way = Way::of(world)?;
    if options.bloom {
        let (table, bloom_bytes) = count_repeated(world, options, reads, bounds.1)?;
        return Ok((way, table, bloom_bytes));
    }
    let is_buffered = options.aggregate || way == Way::Aggregated;
    if is_buffered {
        // The table grows under a buffer.
        bounds.0 = 0;
    }
    let add = |table: HashMap<Kmer, u64>| {
        if is_buffered {
            return add_together(world, table, reads, options);
        }
        let mine = add_all(world, &table, reads, options);
        Ok((table, mine))
    };
    let table = in_large_enough_table(world, options, bounds, add)?;
    Ok((way, table, 0))
}

/// Makes a table. If the number of slots is not given, makes larger ones until `add` finds room.
fn in_large_enough_table(
    world: &World,
    options: &Options,
    (least, most): (u64, u64),
    mut add: impl FnMut(HashMap<Kmer, u64>) -> Result<(HashMap<Kmer, u64>, pgas::Result<()>)>,
) -> Result<HashMap<Kmer, u64>> {
    let mut n_slots = options.slots.map_or(slots_for(most), NonZeroUsize::get);
    loop {
        let mut fits = least <= n_slots as u64;
        if fits {
            let table = HashMap::with_capacity(world, n_slots).map_err(|error| {
                let option = options.slots.map(|n| format!("--slots {n}: "));
                Failure(format!("{}{error}", option.unwrap_or_default()))
            })?;
            let (table, mine) = add(table)?;
            let mine = match mine {
                Err(pgas::Error::Full { .. }) => Ok(false),
                mine => mine.map(|()| true),
            };
            fits = world.allreduce(u8::from(agree(world, mine)?), Min)? == 1;
            if fits {
                return Ok(table);
            }
        }
        if options.slots.is_some() {
            let text = "the table is too small: the input has more distinct k-mers";
            return Err(Failure(format!("--slots {n_slots}: {text}")));
        }
        n_slots *= 2;
    }
}

/// Adds every k-mer by a buffer, which sends it to the rank of its count unless all memory is local.
fn add_together(
    world: &World,
    table: HashMap<Kmer, u64>,
    reads: &PackedReads,
    options: &Options,
) -> Result<(HashMap<Kmer, u64>, pgas::Result<()>)> {
    let mut buffer = HashMapBuffer::new(table, INBOX, |there, more| there + more)?;
    let bar = progress_bar(world, "counting", reads.n_kmers(options.k), !options.json);
    let mut mine = || {
        for_each_batch(reads, options, |batch| {
            for kmer in batch {
                buffer.insert(*kmer, 1)?;
            }
            bar.inc(batch.len() as u64);
            Ok(())
        })
    };
    // After sending, a rank receives from the others and then returns the map. Nothing may come in
    // between.
    let mine = mine();
    let table = buffer.into_map();
    agree(world, mine)?;
    Ok((agree(world, table)?, Ok(())))
}

/// Counts the k-mers that occur more than once, and the filter's few false positives. Also returns
/// the bytes of the filter.
fn count_repeated(
    world: &World,
    options: &Options,
    reads: &PackedReads,
    most: u64,
) -> Result<(HashMap<Kmer, u64>, u64)> {
    let n = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
    // Inserts are atomic: for each k-mer at most one insert reports it as new.
    let seen = BloomFilter::<Kmer>::with_rate(world, n, BLOOM_RATE)?;
    // For each k-mer of the reads, in order, whether it occurred before; and the number of distinct
    // repeated ones.
    let mut came_before = Vec::new();
    let mut sketch = DistinctSketch::new();
    let bar = progress_bar(world, "filtering", reads.n_kmers(options.k), !options.json);
    let mine = for_each_batch(reads, options, |batch| {
        for (kmer, before) in batch.iter().zip(seen.insert_many(batch)?) {
            came_before.push(before);
            if before {
                sketch.add(*kmer);
            }
        }
        bar.inc(batch.len() as u64);
        Ok(())
    });
    agree(world, mine)?;
    world.allreduce_slice(sketch.registers_mut(), Max)?;
    let bloom_bytes = seen.bytes();
    drop(seen);

    let bounds = (0, sketch.bounds().into_inner().1.min(most));
    let table = in_large_enough_table(world, options, bounds, |table| {
        let mut marks = came_before.iter();
        let mine = for_each_batch(reads, options, |batch| {
            let repeated = batch.iter().zip(&mut marks);
            let repeated: Vec<Kmer> = repeated.filter(|(_, b)| **b).map(|(k, _)| *k).collect();
            table.add_many(&repeated, 1)?;
            Ok(())
        });
        Ok((table, mine))
    })?;
    world.barrier()?;
    // First occurrences count too, if the k-mer has a slot.
    let mut marks = came_before.iter();
    let mine = for_each_batch(reads, options, |batch| {
        let first = batch.iter().zip(&mut marks);
        let first: Vec<Kmer> = first.filter(|(_, b)| !**b).map(|(k, _)| *k).collect();
        let counts = table.find_many(&first)?;
        let kept = first.iter().zip(counts).filter(|(_, n)| n.is_some());
        let kept: Vec<Kmer> = kept.map(|(kmer, _)| *kmer).collect();
        table.add_many(&kept, 1)?;
        Ok(())
    });
    agree(world, mine)?;
    world.barrier()?;
    Ok((table, bloom_bytes))
}

/// Calls `f` with batches of this rank's k-mers.
fn for_each_batch(
    reads: &PackedReads,
    options: &Options,
    mut f: impl FnMut(&[Kmer]) -> pgas::Result<()>,
) -> pgas::Result<()> {
    let mut kmers = kmers(reads, options);
    let mut batch = vec![Kmer::default(); BATCH];
    loop {
        match kmers.fill(&mut batch) {
            0 => return Ok(()),
            n => f(&batch[..n])?,
        }
    }
}

/// The inner loop: adds this rank's k-mers in batches to their counts on any ranks.
fn add_all(
    world: &World,
    table: &HashMap<Kmer, u64>,
    reads: &PackedReads,
    options: &Options,
) -> pgas::Result<()> {
    let bar = progress_bar(world, "counting", reads.n_kmers(options.k), !options.json);
    for_each_batch(reads, options, |batch| {
        table.add_many(batch, 1)?;
        bar.inc(batch.len() as u64);
        Ok(())
    })
}
