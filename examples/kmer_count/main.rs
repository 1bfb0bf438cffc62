//! Counts the k-mers of sequence files on many ranks.
//!
//! ```text
//! cargo run --release --example kmer_count                                   # the genome that comes with the project
//! cargo run --release --example kmer_count -- -k 31 -C --ranks 4 --dump counts.txt reads_1.fq.gz reads_2.fq.gz
//! ```
//!
//! Every rank reads its share of the files' bytes, and packs it into two bits a base. Together the
//! ranks estimate the number of distinct k-mers, make a distributed hash map of that size, and add
//! to its counts. If all memory is local, as on one host, additions are one-sided. Otherwise k-mers
//! are sent in batches to the ranks of their counts, and added there, by a `HashMapBuffer`. With
//! `--aggregate` there is a buffer on one host, too; it sends nothing there. [`dump`] describes the
//! output file.
//!
//! With `--bloom` k-mers that occur only once stay out of the table. A Bloom filter tells for each
//! k-mer whether it occurred before; only repeated ones get a slot. Their first occurrences, which
//! only the filter has seen, are then added to the slots. So all counts above one are exact.
//!
//! A failure of any rank ends the job on all ranks, with one line from rank 0: see [`agree`].

#[path = "../support/arguments.rs"]
mod arguments;
mod counting;
mod dump;
mod options;
#[path = "../support/progress.rs"]
mod progress;
#[path = "../support/way.rs"]
mod way;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use counting::{count, estimate, slots_for};
use options::Options;
use pgas::collective::op::Sum;
use pgas::prelude::*;
use pgas_genomics::output::{Draft, check_names};
use pgas_genomics::report::{Report, Seconds, Stopwatch, peak_rss};
use pgas_genomics::{Input, Kmer, PackedReads, Segment, Share, Spectrum, Summary};
use progress::progress_bar;

const NAME: &str = "kmer_count";

/// The genome that is counted if no files are named.
const BUNDLED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/ecoli_536_NC_008253.fna.gz"
);

/// The bytes of so many slots of the table: three slots of a k-mer and its count share a cache line.
const fn slot_bytes(n_slots: u64) -> u64 {
    n_slots.div_ceil(3) * 64
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
    let world = match arguments::join(NAME, options.ranks) {
        Ok(world) => world,
        Err(code) => return code,
    };
    let Err(failure) = run(&world, &options) else {
        return ExitCode::SUCCESS;
    };
    arguments::complain_together(NAME, &world, &failure.0)
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
        kmers_kept: n_kept(&spectrum, options),
        table_slots: table.capacity(),
        table_bytes: slot_bytes(table.capacity()),
        bloom_bytes,
        saved_bytes: if options.bloom {
            let all = slot_bytes(slots_for(*n_distinct.end()) as u64);
            all.saturating_sub(slot_bytes(table.capacity()) + bloom_bytes)
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
        told = tell(options, &report, &spectrum)
            .map_err(|error| Failure(format!("standard output: {error}")));
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
        let bar = progress_bar(world, "reading", input.share_bytes(share), !options.json);
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

/// The number of distinct k-mers that occur often enough for the dump.
fn n_kept(spectrum: &Spectrum, options: &Options) -> u64 {
    let kept = spectrum.iter().filter(|(n, _)| *n >= options.min_count);
    kept.map(|(_, n_kmers)| n_kmers).sum()
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
