//! Counts the k-mers of sequence files on many ranks.
//!
//! ```text
//! cargo run --release --example kmer_count                                   # the genome that comes with the project
//! cargo run --release --example kmer_count -- -k 31 -C --ranks 4 --dump counts.txt reads_1.fq.gz reads_2.fq.gz
//! ```
//!
//! Every rank reads its share of the files' bytes, and packs it into two bits a base. Together the
//! ranks estimate the number of distinct k-mers, make a distributed hash map of that size, and add
//! to its counts. If all memory is local, as on one host, additions are one-sided. Otherwise, and
//! with `--aggregate`, k-mers are sent in batches to the ranks of their counts, and added there.
//! [`dump`] describes the output file.
//!
//! With `--bloom` k-mers that occur only once stay out of the table. A Bloom filter tells for each
//! k-mer whether it occurred before; only repeated ones get a slot. Their first occurrences, which
//! only the filter has seen, are then added to the slots. So all counts above one are exact.
//!
//! A failure of any rank ends the job on all ranks, with one line from rank 0: see [`agree`].

#[path = "../support/arguments.rs"]
mod arguments;
mod dump;
#[path = "../support/way.rs"]
mod way;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use pgas::collective::op::{Max, Min, Sum};
use pgas::prelude::*;
use pgas_genomics::output::{Draft, check_names};
use pgas_genomics::packed::PackedKmers;
use pgas_genomics::report::{Report, Seconds, Stopwatch, peak_rss};
use pgas_genomics::{
    DistinctSketch, Input, Kmer, KmerLength, PackedReads, Segment, Share, Spectrum, Summary,
};
use way::Way;

const NAME: &str = "kmer_count";

/// The genome that is counted if no files are named.
const BUNDLED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/ecoli_536_NC_008253.fna.gz"
);

/// K-mers that are added to the table in one call, so that their memory latencies overlap.
const BATCH: usize = 1024;

/// Capacity of an inbox, in k-mers.
const INBOX: usize = 1 << 16;

/// Bytes in a slot of the table: a state, a k-mer and its count.
const SLOT_BYTES: u64 = 24;

/// The false positive rate of the filter.
const BLOOM_RATE: f64 = 0.02;

/// Up to this many k-mers the table is made without an estimate of the distinct ones.
const FEW: u64 = 1 << 16;

/// Counts the k-mers of FASTA and FASTQ files, plain or gzip.
#[derive(Debug, Parser)]
#[command(name = "kmer_count")]
struct Options {
    /// The files to read [default: a genome that comes with the project]
    files: Vec<PathBuf>,
    /// Bases in a k-mer, 1 to 32
    #[arg(short, default_value = "21", value_parser = kmer_length)]
    k: KmerLength,
    /// Count a k-mer and its reverse complement as one
    #[arg(short = 'C', long)]
    canonical: bool,
    /// Dump only k-mers that occur N times or more
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_count: u64,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Write each k-mer with its count, in the order of the k-mers
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Write the spectrum: how many k-mers occur how often
    #[arg(long, value_name = "FILE")]
    histo: Option<PathBuf>,
    /// Print one line of JSON instead of the chart
    #[arg(long)]
    json: bool,
    /// Keep k-mers that occur once out of the table, with a Bloom filter
    #[arg(long, conflicts_with = "aggregate")]
    bloom: bool,
    /// Send k-mers in batches to the ranks of their counts, even if all memory is local
    #[arg(long)]
    aggregate: bool,
    /// Slots of the table over all ranks [default: by an estimate of the distinct k-mers]
    #[arg(long, value_name = "N")]
    slots: Option<NonZeroUsize>,
}

impl Options {
    /// Whether a count is exact. A count of one is a false positive of the filter.
    fn is_exact(&self, count: u64) -> bool {
        !self.bloom || count >= 2
    }

    /// Whether the dump has k-mers with this count.
    fn writes(&self, count: u64) -> bool {
        self.is_exact(count) && count >= self.min_count
    }
}

fn kmer_length(text: &str) -> Result<KmerLength, String> {
    let k = text.parse().map_err(|_| "a number is needed")?;
    KmerLength::new(k).map_err(|error| error.to_string())
}

/// The reason for the end of the job, in one line.
struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let options: Options = match arguments::parse(NAME) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let world = match arguments::join(options.ranks) {
        Ok(world) => world,
        Err(line) => return arguments::complain(NAME, 1, &line),
    };
    let Err(failure) = run(&world, &options) else {
        return ExitCode::SUCCESS;
    };
    let code = arguments::complain(NAME, 1, &failure.0);
    // Wait until the line is printed, unless a rank is gone.
    world.barrier().ok();
    code
}

/// The whole job, stage by stage.
fn run(world: &World, options: &Options) -> Result<()> {
    let (mut watch, mut seconds) = (Stopwatch::start(), Seconds::default());
    let outputs = [options.dump.as_deref(), options.histo.as_deref()];
    let files = agree(world, files(options))?;
    agree(world, check_names(&outputs, &files))?;
    // Create the output files first, so that a bad path is reported at once.
    let dump = draft(world, options.dump.as_deref())?;
    let histo = draft(world, options.histo.as_deref())?;
    let (reads, summary) = read(world, options)?;
    seconds.read = watch.lap();

    let n_kmers = world.allreduce(reads.n_kmers(options.k), Sum)?;
    let n_distinct = estimate(world, options, &reads, n_kmers)?;
    seconds.estimate = watch.lap();

    let (way, table, bloom_bytes) = count(world, options, &reads, &n_distinct)?;
    drop(reads);
    seconds.count = watch.lap();

    let (spectrum, parts) = agree(world, collect(&table, options))?;
    let spectrum = merged(world, &spectrum)?;
    if let Some(draft) = &dump {
        let keeps = |count| options.writes(count);
        dump::write(world, draft, &table, &parts, keeps)?;
    }
    finish(world, [dump, histo], &spectrum)?;
    seconds.output = watch.lap();
    seconds.total = watch.total();

    let peaks = world.allgather(&[peak_rss()])?;
    let report = Report {
        ranks: world.n_ranks(),
        k: options.k.get(),
        canonical: options.canonical,
        way: way.name(),
        files: options.files.len().max(1),
        reads: summary.reads,
        bases: summary.bases,
        kmers_total: n_kmers,
        kmers_distinct: spectrum.n_distinct(),
        min_count: options.min_count,
        kmers_kept: spectrum
            .iter()
            .filter(|(count, _)| *count >= options.min_count)
            .map(|(_, n_kmers)| n_kmers)
            .sum(),
        table_slots: table.capacity(),
        table_bytes: table.capacity() * SLOT_BYTES,
        bloom_bytes,
        saved_bytes: if options.bloom {
            let all = slots_for(*n_distinct.end()) as u64 * SLOT_BYTES;
            all.saturating_sub(table.capacity() * SLOT_BYTES + bloom_bytes)
        } else {
            0
        },
        kmers_per_second: n_kmers as f64 / seconds.total,
        seconds,
        peak_rss_max: peaks.iter().copied().max().unwrap_or(0),
        peak_rss_sum: peaks.iter().sum(),
    };
    let mut told = Ok(());
    if world.rank() == Rank::ZERO {
        told = tell(options, &report, &spectrum);
    }
    agree(world, told)
}

/// Returns `mine` if every rank has succeeded, otherwise the message of the first rank that failed.
/// Collective.
///
/// Without it, the other ranks would wait for a failed rank in their next collective.
fn agree<T, E: Into<Failure>>(world: &World, mine: Result<T, E>) -> Result<T> {
    let mine = mine.map_err(Into::into);
    let text = mine.as_ref().err().map_or("", |failure| &failure.0);
    let texts = world.allgather_varying(text.as_bytes())?;
    match texts.iter().find(|text| !text.is_empty()) {
        Some(text) => Err(Failure(String::from_utf8_lossy(text).into_owned())),
        None => mine,
    }
}

/// Reads this rank's share of the files. Returns it with the sums over all ranks.
fn read(world: &World, options: &Options) -> Result<(PackedReads, Summary)> {
    let mut reads = PackedReads::new();
    let share = Share::new(world.rank().index(), world.n_ranks() as usize);
    let open = |files| Ok(Input::open(files)?);
    let mine = files(options).and_then(open).and_then(|input| {
        let bar = progress_bar(world, "reading", input.share_bytes(share));
        let keep = |segment: Segment<'_>| {
            reads.push(segment.letters);
            Ok(())
        };
        input.try_for_each_segment(share, options.k, keep, |done| bar.set_position(done))
    });
    let mine = agree(world, mine)?;
    let mut sums = [mine.reads, mine.bases, mine.bytes];
    world.allreduce_slice(&mut sums, Sum)?;
    let [n_reads, n_bases, n_bytes] = sums;
    Ok((
        reads,
        Summary {
            reads: n_reads,
            bases: n_bases,
            bytes: n_bytes,
        },
    ))
}

fn files(options: &Options) -> Result<Vec<PathBuf>> {
    if !options.files.is_empty() {
        return Ok(options.files.clone());
    }
    if !Path::new(BUNDLED).is_file() {
        let text = format!("no files are named, and the project's own genome is not at {BUNDLED}");
        return Err(Failure(text));
    }
    Ok(vec![BUNDLED.into()])
}

fn kmers<'a>(reads: &'a PackedReads, options: &Options) -> PackedKmers<'a> {
    let kmers = reads.kmers(options.k);
    if options.canonical {
        kmers.canonical()
    } else {
        kmers
    }
}

/// Bounds of the number of distinct k-mers over all ranks, of `n_kmers` in all.
fn estimate(
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
fn slots_for(n_distinct: u64) -> usize {
    usize::try_from(n_distinct + n_distinct / 2 + 64).unwrap_or(usize::MAX)
}

/// Counts the k-mers of all ranks in one table. Returns the way of the operations, the table, and
/// the bytes of the Bloom filter, if there is one.
fn count(
    world: &World,
    options: &Options,
    reads: &PackedReads,
    n_distinct: &RangeInclusive<u64>,
) -> Result<(Way, HashMap<Kmer, u64>, u64)> {
    let bounds = n_distinct.clone().into_inner();
    let way = if options.aggregate {
        Way::Aggregated
    } else {
        Way::of(world)?
    };
    if options.bloom {
        let (table, bloom_bytes) = count_repeated(world, options, reads, bounds.1)?;
        return Ok((way, table, bloom_bytes));
    }
    let add = |table: HashMap<Kmer, u64>| {
        if way == Way::Aggregated {
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

/// Sends every k-mer to the rank of its count.
fn add_together(
    world: &World,
    table: HashMap<Kmer, u64>,
    reads: &PackedReads,
    options: &Options,
) -> Result<(HashMap<Kmer, u64>, pgas::Result<()>)> {
    let mut buffer = HashMapBuffer::new(table, INBOX, |there, more| there + more)?;
    let bar = progress_bar(world, "counting", reads.n_kmers(options.k));
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
    let bar = progress_bar(world, "filtering", reads.n_kmers(options.k));
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
    let bar = progress_bar(world, "counting", reads.n_kmers(options.k));
    for_each_batch(reads, options, |batch| {
        table.add_many(batch, 1)?;
        bar.inc(batch.len() as u64);
        Ok(())
    })
}

/// The spectrum of this rank's entries and, for the dump, the sizes of the parts.
fn collect(table: &HashMap<Kmer, u64>, options: &Options) -> pgas::Result<(Spectrum, dump::Parts)> {
    let mut spectrum = Spectrum::new();
    let mut parts = dump::Parts::new(options.k);
    table.for_each_local(|kmer, count| {
        if !options.is_exact(count) {
            return;
        }
        spectrum.add(count);
        if options.dump.is_some() && options.writes(count) {
            parts.add(kmer, count);
        }
    })?;
    Ok((spectrum, parts))
}

/// The sum of all ranks' spectra, on each of them.
fn merged(world: &World, mine: &Spectrum) -> Result<Spectrum> {
    let pairs: Vec<[u64; 2]> = mine.iter().map(|(count, n)| [count, n]).collect();
    let all = world.allgather_varying(&pairs)?;
    Ok(all
        .iter()
        .flatten()
        .map(|[count, n]| (*count, *n))
        .collect())
}

/// Creates a file that all ranks write.
fn draft(world: &World, path: Option<&Path>) -> Result<Option<Draft>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let tag = world.broadcast(Rank::ZERO, u64::from(std::process::id()))?;
    let is_first = world.rank() == Rank::ZERO;
    let created = is_first.then(|| Draft::create(path, tag)).transpose();
    let created = agree(world, created)?;
    let joined = (!is_first).then(|| Draft::join(path, tag)).transpose();
    Ok(agree(world, joined)?.or(created))
}

/// Writes the spectrum, and renames both files to their final names: every rank has written its
/// part.
fn finish(world: &World, [dump, histo]: [Option<Draft>; 2], spectrum: &Spectrum) -> Result<()> {
    if world.rank() != Rank::ZERO {
        return agree(world, Ok::<_, Failure>(()));
    }
    let mut lines = Vec::new();
    spectrum.write_histo(&mut lines)?;
    let written = histo
        .as_ref()
        .map_or(Ok(()), |histo| histo.write_at(0, &lines));
    let published = written.and_then(|()| {
        [dump, histo]
            .into_iter()
            .flatten()
            .try_for_each(Draft::publish)
    });
    agree(world, published)
}

/// Prints the figures, and shows the spectrum to people.
fn tell(options: &Options, report: &Report, spectrum: &Spectrum) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, report)?;
        writeln!(out)
    } else {
        write!(out, "{report}\n{}", spectrum.chart())
    }
}

/// A progress bar, drawn by rank 0 alone and only on a terminal.
fn progress_bar(world: &World, what: &'static str, n: u64) -> ProgressBar {
    if world.rank() != Rank::ZERO {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:>9} {wide_bar} {percent}% {eta}");
    ProgressBar::new(n)
        .with_style(style.expect("the template is right"))
        .with_finish(ProgressFinish::AndClear)
        .with_message(what)
}
