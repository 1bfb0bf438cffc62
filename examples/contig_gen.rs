//! Puts reads together to contigs, as Meraculous does (Chapman et al., "Meraculous: de novo genome assembly with short
//! paired-end reads", 2011): pieces of the genome that the reads leave no choice about.
//!
//! ```text
//! cargo run --release --example contig_gen                                    # the small genome that comes with the project
//! cargo run --release --example contig_gen -- -k 31 --min-depth 3 --ranks 4 --out contigs.fa reads_1.fq.gz reads_2.fq.gz
//! ```
//!
//! Every k-mer of the reads goes to the rank that holds its place in a hash map, with the bases before and behind it, and is counted
//! there (`HashMapBuffer`). The map then is a graph: two k-mers are linked if each has the other one as its only
//! neighbour on that side. From then on nobody changes it: each rank looks for ends of
//! paths among the k-mers that it holds itself, and follows many of them over all ranks' memory at
//! once, by finds of the next k-mers
//! of all, which travel together. Of the two ends of a path the one with the lesser k-mer
//! tells it, and of a circle its least k-mer, so a contig is told once.

#[path = "support/arguments.rs"]
mod arguments;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use pgas::collective::op::{Max, Sum};
use pgas::hash_map::FindOnly;
use pgas::{HashMap, HashMapBuffer, Rank, World};
use pgas_genomics::output::Draft;
use pgas_genomics::{DistinctSketch, Input, Kmer, KmerLength, Kmers, Share};

/// What is put together if no files are named.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/lambda_NC_001416.fa.gz");
/// The room of an inbox, in k-mers.
const INBOX: usize = 1 << 16;
/// Paths that a rank follows at once, at most, and k-mers of which it looks whether one begins there.
const TOGETHER: usize = 1 << 14;

/// Puts the reads of FASTA and FASTQ files, plain or gzip, together to contigs.
#[derive(Debug, Parser)]
#[command(name = "contig_gen")]
struct Options {
    /// The files to read [default: a small genome that comes with the project]
    files: Vec<PathBuf>,
    /// Bases of a k-mer, an odd number up to 31
    #[arg(short, default_value = "31", value_parser = odd_length)]
    k: u64,
    /// K-mers and neighbours that are seen less often are taken for errors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    min_depth: u16,
    /// Bases of a lower quality are not used
    #[arg(long, value_name = "Q", default_value_t = 0)]
    min_quality: u8,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Write the contigs as FASTA
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one line of JSON instead of a text
    #[arg(long)]
    json: bool,
}

/// With an odd number of bases no k-mer is its own reverse complement.
fn odd_length(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(k) if k % 2 == 1 && k <= 31 => Ok(k),
        _ => Err("an odd number up to 31 is needed".into()),
    }
}

/// Why the job ends, in one line.
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
    let ended = arguments::join(options.ranks).and_then(|world| {
        let ended = run(&world, &options);
        // Nobody leaves before all know how it ended.
        world.barrier().ok();
        ended.map_err(|Failure(line)| line)
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => arguments::complain("contig_gen", 1, &line),
    }
}

/// `mine` if every rank has succeeded, else what the first one that has not says. Collective.
fn agree<T, E: Into<Failure>>(world: &World, mine: Result<T, E>) -> Result<T> {
    let mine = mine.map_err(Into::into);
    let text = mine.as_ref().err().map_or("", |failure| &failure.0);
    let texts = world.team().allgather_varying(text.as_bytes())?;
    match texts.iter().find(|text| !text.is_empty()) {
        Some(text) => Err(Failure(String::from_utf8_lossy(text).into_owned())),
        None => mine,
    }
}

/// How often a k-mer was seen: before each base, behind each base, and at all.
type Seen = [u16; 9];

/// The bases before and behind a k-mer as one who reads it from the other strand sees them.
fn from_other_strand(seen: Seen) -> Seen {
    let [a, c, g, t, before @ .., all] = seen;
    let [na, nc, ng, nt] = before;
    [nt, ng, nc, na, t, g, c, a, all]
}

/// The k-mers of a job and what is known of them.
struct Graph<'a> {
    k: KmerLength,
    min_depth: u16,
    kmers: &'a HashMap<Kmer, Seen, FindOnly>,
}

/// A k-mer in the direction in which it is read, and what was seen beside it.
#[derive(Clone, Copy)]
struct Node {
    kmer: Kmer,
    seen: Seen,
}

impl Graph<'_> {
    /// The only base that was seen often enough: nothing if there are several, `Some(None)` if there is none.
    fn only(&self, counts: &[u16]) -> Option<Option<u8>> {
        let mut often = (0_u8..).zip(counts).filter(|(_, n)| **n >= self.min_depth);
        match (often.next(), often.next()) {
            (None, _) => Some(None),
            (Some((base, _)), None) => Some(Some(base)),
            (Some(_), Some(_)) => None,
        }
    }

    /// Whether the k-mer is part of a contig: it leaves no choice on either side.
    fn is_certain(&self, seen: &Seen) -> bool {
        let [before, behind] = [&seen[..4], &seen[4..8]].map(|side| self.only(side));
        seen[8] >= self.min_depth && before.is_some() && behind.is_some()
    }

    /// The k-mer in this direction with what was seen of it, if it is part of a contig.
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

    /// The k-mer that the only base behind `node` leads to, if there is one.
    fn ahead(&self, node: &Node) -> Option<Kmer> {
        let base = self.only(&node.seen[4..8])??;
        let bits = 2 * self.k.get();
        let word = (node.kmer.word() << 2 | u64::from(base)) & (u64::MAX >> (64 - bits));
        Some(Kmer::from_word(word))
    }

    /// Whether `next`, to which `node` leads, has it as its only neighbour there.
    fn is_mutual(&self, node: Node, next: Node) -> bool {
        let bits = 2 * self.k.get();
        let first = u8::try_from(node.kmer.word() >> (bits - 2)).expect("two bits");
        // A strand that turns back into the other one ends.
        let turns = next.kmer == node.kmer.reverse_complement(self.k);
        self.only(&next.seen[..4]) == Some(Some(first)) && !turns
    }

    /// The k-mer behind each of `nodes`, if both have each other as their only neighbours there.
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

    /// Follows the paths from `starts` on, many at once, and has `take` each that ends, in any order. One is
    /// given up at a k-mer for which `stop`, which also gets the first one.
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

/// A way through the graph, as far as it was followed.
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
    write(world, options, &contigs)?;
    let lengths: Vec<u64> = contigs.iter().map(|contig| contig.len() as u64).collect();
    let mut lengths = world.team().allgather_varying(&lengths)?.concat();
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
        format!(
            "{n_reads} reads, {n_kmers} distinct {}-mers: {n} contigs with {total} bases, N50 {n50}, aggregated, in {seconds_total:.2} s",
            options.k
        )
    };
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// This rank's share of the reads, each with a letter behind it that is no base, and the number of all reads.
fn read(world: &World, options: &Options) -> Result<(Vec<u8>, u64)> {
    let files = if options.files.is_empty() {
        vec![PathBuf::from(BUNDLED)]
    } else {
        options.files.clone()
    };
    // Pieces of a long sequence share a k-mer, so that no link between two is missing.
    let overlap = KmerLength::new(options.k + 1)?;
    let share = Share::new(world.rank().index(), world.n_ranks() as usize);
    let mut reads = Vec::new();
    let mine = Input::open(files).and_then(|input| {
        let bar = progress_bar(world, options, "reading", input.share_bytes(share));
        let keep = |segment: &[u8]| {
            reads.extend_from_slice(segment);
            reads.push(b'\n');
            Ok(())
        };
        let input = input.with_min_quality(options.min_quality);
        input.try_for_each_segment(share, overlap, keep, |done| bar.set_position(done))
    });
    let n_reads = agree(world, mine)?.reads;
    Ok((reads, world.allreduce(n_reads, Sum)?))
}

/// The k-mers of all reads, with what was seen beside them.
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
    let bar = progress_bar(world, options, "counting", reads.len() as u64);
    let mut add = || {
        for read in reads.split(|&letter| letter == b'\n') {
            add_read(&mut buffer, k, read)?;
            bar.inc(read.len() as u64 + 1);
        }
        Ok::<(), pgas::Error>(())
    };
    // A rank that has sent all takes in what the others send by giving the map back, so nothing comes in between.
    let mine = add();
    let kmers = buffer.into_map();
    agree(world, mine)?;
    Ok(agree(world, kmers)?.into_find_phase()?)
}

/// Sends each k-mer of a read to its place, with the bases beside it.
fn add_read<F: FnMut(Seen, Seen) -> Seen>(
    buffer: &mut HashMapBuffer<Kmer, Seen, F>,
    k: KmerLength,
    read: &[u8],
) -> pgas::Result<()> {
    let code = |i: usize| {
        let letter = read.get(i)?.to_ascii_uppercase();
        b"ACGT".iter().position(|&base| base == letter)
    };
    for start in 0..(read.len() + 1).saturating_sub(k.get()) {
        let end = start + k.get();
        let Some(kmer) = Kmers::new(&read[start..end], k).next() else {
            continue;
        };
        let mut seen = [0, 0, 0, 0, 0, 0, 0, 0, 1];
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

/// The contigs that this rank tells.
fn traverse(world: &World, options: &Options, graph: &Graph<'_>) -> pgas::Result<Vec<Vec<u8>>> {
    let mut contigs = Vec::new();
    let (mut n_certain, mut n_told) = (0, 0);
    let mut starts = Vec::new();
    let bar = progress_bar(world, options, "traversing", graph.kmers.local_len()?);
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
        // What is left are circles.
        let is_less = |first: Kmer, other: Kmer| other.canonical(graph.k) < first;
        each_certain(graph, |nodes| {
            graph.follow(nodes.iter().copied(), is_less, |path| {
                if path.is_circle {
                    contigs.push(path.bases);
                }
            })
        })?;
    }
    // The order in which paths end is that of their lengths.
    contigs.sort_unstable();
    Ok(contigs)
}

/// Calls `f` with the k-mers of this rank that are parts of contigs, many at once.
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
fn write(world: &World, options: &Options, contigs: &[Vec<u8>]) -> Result<()> {
    let Some(path) = &options.out else {
        return Ok(());
    };
    let first = world.scan_exclusive(contigs.len() as u64, 0, Sum)?;
    let mut text = Vec::new();
    for (number, contig) in (first..).zip(contigs) {
        writeln!(text, ">contig_{number} length={}", contig.len())?;
        for line in contig.chunks(80) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
    }
    let draft = draft(world, path)?;
    let start = world.scan_exclusive(text.len() as u64, 0, Sum)?;
    agree(world, draft.write_at(start, &text))?;
    let published = if world.rank() == Rank::ZERO {
        draft.publish()
    } else {
        Ok(())
    };
    agree(world, published)
}

/// Begins a file that all ranks write together.
fn draft(world: &World, path: &Path) -> Result<Draft> {
    let tag = world.broadcast(Rank::ZERO, u64::from(std::process::id()))?;
    let is_first = world.rank() == Rank::ZERO;
    let created = is_first.then(|| Draft::create(path, tag)).transpose();
    let created = agree(world, created)?;
    let joined = (!is_first).then(|| Draft::join(path, tag)).transpose();
    let draft = agree(world, joined)?.or(created);
    Ok(draft.expect("created or joined"))
}

/// A progress bar, drawn by rank 0 alone and only on a terminal.
fn progress_bar(world: &World, options: &Options, what: &'static str, n: u64) -> ProgressBar {
    if world.rank() != Rank::ZERO || options.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:>10} {wide_bar} {percent}% {eta}");
    ProgressBar::new(n)
        .with_style(style.expect("the template is right"))
        .with_finish(ProgressFinish::AndClear)
        .with_message(what)
}
