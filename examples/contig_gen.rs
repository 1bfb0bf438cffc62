//! Assembles reads into contigs, like Meraculous (Chapman et al., "Meraculous: de novo genome
//! assembly with short paired-end reads", 2011). A contig is a piece of the genome that the reads
//! determine without ambiguity.
//!
//! ```text
//! cargo run --release --example contig_gen                                    # the small genome that comes with the project
//! cargo run --release --example contig_gen -- -k 31 --min-depth 3 --ranks 4 --out contigs.fa reads_1.fq.gz reads_2.fq.gz
//! ```
//!
//! First, every k-mer of the reads is sent to its home rank in a hash map, with the bases before
//! and after it, and counted there (`HashMapBuffer`). The map then is a graph: two k-mers are
//! linked if each is the other's only neighbour on that side.
//!
//! The map no longer changes after that. Each rank finds the ends of paths among its own k-mers. It
//! follows many paths at once over the memory of all ranks, with batched finds of the next k-mers.
//! Each contig is reported once: of the two ends of a path the smaller k-mer reports it, and the
//! smallest k-mer of a circle.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/progress.rs"]
mod progress;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use pgas::collective::op::{Max, Sum};
use pgas::hash_map::FindOnly;
use pgas::{HashMap, HashMapBuffer, Rank, World};
use pgas_genomics::output::{Draft, check_names};
use pgas_genomics::{DistinctSketch, Input, Kmer, KmerLength, Kmers, Segment, Share};
use progress::progress_bar;

/// The genome that is assembled if no files are named.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/lambda_NC_001416.fa.gz");
/// Before the letters of a fragment that continues another; no sequence has such a letter.
const CONTINUES: u8 = 1;
/// Capacity of an inbox, in k-mers.
const INBOX: usize = 1 << 16;
/// Maximum number of paths that a rank follows at once, and of k-mers that it tests for a path end
/// at once.
const TOGETHER: usize = 1 << 14;

/// Assembles the reads of FASTA and FASTQ files, plain or gzip, into contigs.
#[derive(Debug, Parser)]
#[command(name = "contig_gen")]
struct Options {
    /// The files to read [default: a small genome that comes with the project]
    files: Vec<PathBuf>,
    /// Bases in a k-mer, an odd number up to 31
    #[arg(short, default_value = "31", value_parser = odd_length)]
    k: u64,
    /// Ignore k-mers and neighbours that occur less often, as errors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    min_depth: u16,
    /// Ignore bases of lower quality
    #[arg(long, value_name = "Q", default_value_t = 0)]
    min_quality: u8,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Write the contigs as FASTA
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
}

/// If the number of bases is odd, no k-mer is its own reverse complement.
fn odd_length(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(k) if k % 2 == 1 && k <= 31 => Ok(k),
        _ => Err("an odd number up to 31 is needed".into()),
    }
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
    let options: Options = match arguments::parse("contig_gen") {
        Ok(options) => options,
        Err(code) => return code,
    };
    let world = match arguments::join("contig_gen", options.ranks) {
        Ok(world) => world,
        Err(code) => return code,
    };
    let Err(failure) = run(&world, &options) else {
        return ExitCode::SUCCESS;
    };
    arguments::complain_together("contig_gen", &world, &failure.0)
}

/// Returns `mine` if every rank has succeeded, otherwise the message of the first rank that failed.
/// Collective.
fn agree<T, E: Into<Failure>>(world: &World, mine: Result<T, E>) -> Result<T> {
    let mine = mine.map_err(Into::into);
    let text = mine.as_ref().err().map_or("", |failure| &failure.0);
    let texts = world.allgather_varying(text.as_bytes())?;
    match texts.iter().find(|text| !text.is_empty()) {
        Some(text) => Err(Failure(String::from_utf8_lossy(text).into_owned())),
        None => mine,
    }
}

/// Counts of a k-mer: by the base before it, by the base after it, and in total.
type Seen = [u16; 9];

/// The bases before and after a k-mer, as seen from the other strand.
fn from_other_strand(seen: Seen) -> Seen {
    let [a, c, g, t, before @ .., all] = seen;
    let [na, nc, ng, nt] = before;
    [nt, ng, nc, na, t, g, c, a, all]
}

/// The k-mers of a job, with their counts.
struct Graph<'a> {
    k: KmerLength,
    min_depth: u16,
    kmers: &'a HashMap<Kmer, Seen, FindOnly>,
}

/// A k-mer in its reading direction, with the counts of its neighbours.
#[derive(Clone, Copy)]
struct Node {
    kmer: Kmer,
    seen: Seen,
}

impl Graph<'_> {
    /// The only base that was seen often enough. `None` if there are several, `Some(None)` if there
    /// is none.
    fn only(&self, counts: &[u16]) -> Option<Option<u8>> {
        let mut often = (0_u8..).zip(counts).filter(|(_, n)| **n >= self.min_depth);
        match (often.next(), often.next()) {
            (None, _) => Some(None),
            (Some((base, _)), None) => Some(Some(base)),
            (Some(_), Some(_)) => None,
        }
    }

    /// Whether the k-mer is part of a contig: it is unambiguous on both sides.
    fn is_certain(&self, seen: &Seen) -> bool {
        let [before, behind] = [&seen[..4], &seen[4..8]].map(|side| self.only(side));
        seen[8] >= self.min_depth && before.is_some() && behind.is_some()
    }

    /// The k-mer in this direction with its counts, if it is part of a contig.
    fn node(&self, kmer: Kmer, seen: Seen) -> Option<Node> {
        let seen = if kmer == kmer.canonical(self.k) {
            seen
        } else {
            from_other_strand(seen)
        };
        self.is_certain(&seen).then_some(Node { kmer, seen })
    }

    fn turned(&self, node: Node) -> Node {
        Node {
            kmer: node.kmer.reverse_complement(self.k),
            seen: from_other_strand(node.seen),
        }
    }

    /// The k-mer that follows `node`, if it is unique.
    fn ahead(&self, node: &Node) -> Option<Kmer> {
        let base = self.only(&node.seen[4..8])??;
        let bits = 2 * self.k.get();
        let word = (node.kmer.word() << 2 | u64::from(base)) & (u64::MAX >> (64 - bits));
        Some(Kmer::from_word(word))
    }

    /// Whether `node` is the only neighbour of its successor `next` on that side.
    fn is_mutual(&self, node: Node, next: Node) -> bool {
        let bits = 2 * self.k.get();
        let first = u8::try_from(node.kmer.word() >> (bits - 2)).expect("two bits");
        // A strand that turns back into its complement ends here.
        let turns = next.kmer == node.kmer.reverse_complement(self.k);
        self.only(&next.seen[..4]) == Some(Some(first)) && !turns
    }

    /// The successor of each of `nodes`, if each is the other's only neighbour on that side.
    fn next(&self, nodes: &[Node]) -> pgas::Result<Vec<Option<Node>>> {
        let ahead: Vec<_> = nodes.iter().map(|node| self.ahead(node)).collect();
        let sought = ahead.iter().flatten();
        let sought: Vec<_> = sought.map(|kmer| kmer.canonical(self.k)).collect();
        let mut found = self.kmers.find_many(&sought)?.into_iter();
        let next = |(node, kmer): (&Node, Option<Kmer>)| {
            let kmer = kmer?;
            let seen = found.next().expect("an answer for each")?;
            let next = self.node(kmer, seen)?;
            self.is_mutual(*node, next).then_some(next)
        };
        Ok(nodes.iter().zip(ahead).map(next).collect())
    }

    /// Follows the paths from `starts`, many at once, and passes each finished path to `take`, in
    /// any order. A path is dropped at a k-mer for which `stop` returns true. `stop` also gets the
    /// first k-mer.
    fn follow(
        &self,
        starts: impl IntoIterator<Item = Node>,
        stop: impl Fn(Kmer, Kmer) -> bool,
        mut take: impl FnMut(Trail),
    ) -> pgas::Result<()> {
        let mut starts = starts.into_iter();
        let mut paths: Vec<Trail> = Vec::new();
        loop {
            let more = starts.by_ref().take(TOGETHER - paths.len());
            paths.extend(more.map(|start| Trail::new(start, self.k)));
            if paths.is_empty() {
                return Ok(());
            }
            let ends: Vec<_> = paths.iter().map(|path| path.at).collect();
            let mut next = self.next(&ends)?.into_iter();
            let mut going = Vec::with_capacity(paths.len());
            for mut path in paths {
                let first = path.start.kmer;
                match next.next().expect("one for each") {
                    Some(next) if next.kmer == first => {
                        path.is_circle = true;
                        take(path);
                    }
                    Some(next) if stop(first, next.kmer) => {}
                    Some(next) => {
                        path.go_to(next);
                        going.push(path);
                    }
                    None => take(path),
                }
            }
            paths = going;
        }
    }
}

/// A path through the graph, as far as it was followed.
struct Trail {
    start: Node,
    at: Node,
    bases: Vec<u8>,
    /// It leads back to its start.
    is_circle: bool,
}

impl Trail {
    fn new(start: Node, k: KmerLength) -> Self {
        Self {
            start,
            at: start,
            bases: start.kmer.to_text(k).into_bytes(),
            is_circle: false,
        }
    }

    fn go_to(&mut self, next: Node) {
        let last = next.kmer.word().to_le_bytes()[0] & 3;
        self.bases.push(b"ACGT"[usize::from(last)]);
        self.at = next;
    }
}

fn run(world: &World, options: &Options) -> Result<()> {
    let start = Instant::now();
    let k = KmerLength::new(options.k)?;
    agree(
        world,
        check_names(&[options.out.as_deref()], &files(options)),
    )?;
    // Create the output file first, so that a bad path is reported at once.
    let draft = options.out.as_deref().map(|path| draft(world, path));
    let draft = draft.transpose()?;
    let (reads, n_reads) = read(world, options)?;
    let seconds_read = start.elapsed().as_secs_f64();
    let kmers = count(world, options, k, &reads)?;
    drop(reads);
    let seconds_count = start.elapsed().as_secs_f64() - seconds_read;

    let graph = Graph {
        k,
        min_depth: options.min_depth,
        kmers: &kmers,
    };
    let contigs = agree(world, traverse(world, options, &graph))?;
    if let Some(draft) = draft {
        write(world, draft, &contigs)?;
    }
    let lengths: Vec<u64> = contigs.iter().map(|contig| contig.len() as u64).collect();
    let mut lengths = world.allgather_varying(&lengths)?.concat();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let seconds_total = world.allreduce(start.elapsed().as_secs_f64(), Max)?;
    let n_kmers = kmers.len()?;
    if world.rank() != Rank::ZERO {
        return Ok(());
    }
    let total: u64 = lengths.iter().sum();
    let mut sum = 0;
    let is_half = |length: &&u64| {
        sum += **length;
        2 * sum >= total
    };
    let n50 = lengths.iter().find(is_half).copied().unwrap_or(0);
    let line = if options.json {
        serde_json::json!({
            "ranks": world.n_ranks(), "way": "aggregated", "k": options.k, "min_depth": options.min_depth, "reads": n_reads,
            "kmers": n_kmers, "contigs": lengths.len(), "total_bp": total, "n50": n50,
            "longest": lengths.first().copied().unwrap_or(0), "seconds_read": seconds_read,
            "seconds_count": seconds_count, "seconds_total": seconds_total,
        })
        .to_string()
    } else {
        let n = lengths.len();
        let plural = if n == 1 { "" } else { "s" };
        format!(
            "{n_reads} reads, {n_kmers} distinct {}-mers: {n} contig{plural} with {total} bases, N50 {n50}, aggregated, in {seconds_total:.2} s",
            options.k
        )
    };
    writeln!(io::stdout(), "{line}").map_err(|error| Failure(format!("standard output: {error}")))
}

/// The files that are read.
fn files(options: &Options) -> Vec<PathBuf> {
    match &options.files[..] {
        [] => vec![BUNDLED.into()],
        files => files.into(),
    }
}

/// This rank's share of the reads, each followed by a letter that is no base, and the number of all
/// reads.
fn read(world: &World, options: &Options) -> Result<(Vec<u8>, u64)> {
    // Fragments of a long sequence overlap by a k-mer, so that no link between two is missing.
    let overlap = KmerLength::new(options.k + 1)?;
    let share = Share::new(world.rank().index(), world.n_ranks() as usize);
    let mut reads = Vec::new();
    let mine = Input::open(files(options)).and_then(|input| {
        let bar = progress_bar(world, "reading", input.share_bytes(share), !options.json);
        let keep = |segment: Segment<'_>| {
            reads.extend(segment.continues.then_some(CONTINUES));
            reads.extend_from_slice(segment.letters);
            reads.push(b'\n');
            Ok(())
        };
        let input = input.with_min_quality(options.min_quality);
        input.try_for_each_segment(share, overlap, keep, |done| bar.set_position(done))
    });
    let n_reads = agree(world, mine)?.reads;
    Ok((reads, world.allreduce(n_reads, Sum)?))
}

/// The k-mers of all reads, with the counts of their neighbours.
fn count(
    world: &World,
    options: &Options,
    k: KmerLength,
    reads: &[u8],
) -> Result<HashMap<Kmer, Seen, FindOnly>> {
    let mut sketch = DistinctSketch::new();
    Kmers::new(reads, k)
        .canonical()
        .for_each(|kmer| sketch.add(kmer));
    world.allreduce_slice(sketch.registers_mut(), Max)?;
    let (_, most) = sketch.bounds().into_inner();
    let capacity = usize::try_from(most + most / 2 + 64).unwrap_or(usize::MAX);
    let kmers = HashMap::<Kmer, Seen>::with_capacity(world, capacity)?;
    let more = |there: Seen, more: Seen| std::array::from_fn(|i| there[i].saturating_add(more[i]));
    let mut buffer = HashMapBuffer::new(kmers, INBOX, more)?;
    let bar = progress_bar(world, "counting", reads.len() as u64, !options.json);
    let mut add = || {
        for read in reads.split(|&letter| letter == b'\n') {
            add_read(&mut buffer, k, read)?;
            bar.inc(read.len() as u64 + 1);
        }
        Ok::<(), pgas::Error>(())
    };
    // After sending, a rank receives from the others and then returns the map. Nothing may come in
    // between.
    let mine = add();
    let kmers = buffer.into_map();
    agree(world, mine)?;
    Ok(agree(world, kmers)?.into_find_phase()?)
}

/// Sends each k-mer of a read to its home rank, with its neighbouring bases.
fn add_read<F: FnMut(Seen, Seen) -> Seen>(
    buffer: &mut HashMapBuffer<Kmer, Seen, F>,
    k: KmerLength,
    read: &[u8],
) -> pgas::Result<()> {
    // The first k-mer of a fragment that continues another is that one's last, which counts it.
    let n_counted_before = usize::from(read.first() == Some(&CONTINUES));
    let read = &read[n_counted_before..];
    let code = |i: usize| {
        let letter = read.get(i)?.to_ascii_uppercase();
        b"ACGT".iter().position(|&base| base == letter)
    };
    for start in 0..(read.len() + 1).saturating_sub(k.get()) {
        let end = start + k.get();
        let Some(kmer) = Kmers::new(&read[start..end], k).next() else {
            continue;
        };
        let n = u16::from(start >= n_counted_before);
        let mut seen = [0, 0, 0, 0, 0, 0, 0, 0, n];
        if let Some(before) = start.checked_sub(1).and_then(code) {
            seen[before] = 1;
        }
        if let Some(behind) = code(end) {
            seen[4 + behind] = 1;
        }
        let canonical = kmer.canonical(k);
        if kmer != canonical {
            seen = from_other_strand(seen);
        }
        buffer.insert(canonical, seen)?;
    }
    Ok(())
}

/// The contigs that this rank reports.
fn traverse(world: &World, options: &Options, graph: &Graph<'_>) -> pgas::Result<Vec<Vec<u8>>> {
    let mut contigs = Vec::new();
    let (mut n_certain, mut n_told) = (0, 0);
    let mut starts = Vec::new();
    let bar = progress_bar(world, "traversing", graph.kmers.local_len()?, !options.json);
    each_certain(graph, |nodes| {
        n_certain += nodes.len() as u64;
        let both = nodes.iter().flat_map(|node| [graph.turned(*node), *node]);
        let both: Vec<_> = both.collect();
        let before = graph.next(&both)?;
        let is_start = |(_, before): &(&Node, Option<Node>)| before.is_none();
        let ends = both.iter().zip(before).filter(is_start);
        starts.extend(ends.map(|(node, _)| graph.turned(*node)));
        bar.inc(nodes.len() as u64);
        Ok(())
    })?;
    let never = |_, _| false;
    graph.follow(starts, never, |path| {
        let [first, last] = [path.start, path.at].map(|node| node.kmer.canonical(graph.k));
        // A contig of one k-mer begins and ends with it in both directions.
        if !path.is_circle && (first < last || (first == last && path.start.kmer == first)) {
            n_told += (path.bases.len() - graph.k.get() + 1) as u64;
            contigs.push(path.bases);
        }
    })?;
    let n_certain = world.allreduce(n_certain, Sum)?;
    if n_certain != world.allreduce(n_told, Sum)? {
        // Only circles remain.
        let is_less = |first: Kmer, other: Kmer| other.canonical(graph.k) < first;
        each_certain(graph, |nodes| {
            graph.follow(nodes.iter().copied(), is_less, |path| {
                if path.is_circle {
                    contigs.push(path.bases);
                }
            })
        })?;
    }
    // Paths end in the order of their lengths.
    contigs.sort_unstable();
    Ok(contigs)
}

/// Calls `f` with batches of this rank's k-mers that are parts of contigs.
fn each_certain(
    graph: &Graph<'_>,
    mut f: impl FnMut(&[Node]) -> pgas::Result<()>,
) -> pgas::Result<()> {
    let mut nodes = Vec::with_capacity(TOGETHER);
    for entry in graph.kmers.local_iter() {
        let (kmer, seen) = entry?;
        if graph.is_certain(&seen) {
            nodes.push(Node { kmer, seen });
        }
        if nodes.len() == TOGETHER {
            f(&nodes)?;
            nodes.clear();
        }
    }
    f(&nodes)
}

/// Writes the contigs of all ranks to one file.
fn write(world: &World, draft: Draft, contigs: &[Vec<u8>]) -> Result<()> {
    let first = world.scan_exclusive(contigs.len() as u64, 0, Sum)?;
    let mut text = Vec::new();
    for (number, contig) in (first..).zip(contigs) {
        writeln!(text, ">contig_{number} length={}", contig.len())?;
        for line in contig.chunks(80) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
    }
    let start = world.scan_exclusive(text.len() as u64, 0, Sum)?;
    agree(world, draft.write_at(start, &text))?;
    let published = if world.rank() == Rank::ZERO {
        draft.publish()
    } else {
        Ok(())
    };
    agree(world, published)
}

/// Creates a file that all ranks write.
fn draft(world: &World, path: &Path) -> Result<Draft> {
    let tag = world.broadcast(Rank::ZERO, u64::from(std::process::id()))?;
    let is_first = world.rank() == Rank::ZERO;
    let created = is_first.then(|| Draft::create(path, tag)).transpose();
    let created = agree(world, created)?;
    let joined = (!is_first).then(|| Draft::join(path, tag)).transpose();
    let draft = agree(world, joined)?.or(created);
    Ok(draft.expect("created or joined"))
}
