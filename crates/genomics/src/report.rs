//! The final report of a program that counts k-mers, and its times.

use std::fmt;
use std::fs;
use std::time::Instant;

use serde::Serialize;

/// The figures of a count. Its `Display` is a few lines for people, its serialization is for
/// scripts.
///
/// # Examples
/// ```
/// use pgas_genomics::report::Report;
///
/// let report = Report { ranks: 2, k: 21, files: 1, reads: 1000, kmers_total: 80_000, ..Report::default() };
/// assert!(report.to_string().starts_with("1000 sequences in 1 file"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Number of ranks.
    pub ranks: u32,
    /// Bases of a k-mer.
    pub k: usize,
    /// Whether a k-mer and its reverse complement were counted as one.
    pub canonical: bool,
    /// The way of k-mers to the ranks of their counts; empty if it is not reported.
    pub way: &'static str,
    /// Number of files.
    pub files: usize,
    /// Number of records in them.
    pub reads: u64,
    /// Letters of all sequences.
    pub bases: u64,
    /// Number of k-mers with their repetitions.
    pub kmers_total: u64,
    /// Number of distinct k-mers.
    pub kmers_distinct: u64,
    /// The minimum count of a k-mer that is kept.
    pub min_count: u64,
    /// Number of distinct k-mers with at least this count.
    pub kmers_kept: u64,
    /// Slots of the table of counts, over all ranks.
    pub table_slots: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Bytes of the Bloom filter that keeps k-mers with count 1 out of the table; 0 without a
    /// filter.
    pub bloom_bytes: u64,
    /// Bytes saved by the filter: the estimated size of a table for all k-mers, less the sizes of
    /// the table and the filter; 0 without a filter.
    pub saved_bytes: u64,
    /// The time of each stage.
    pub seconds: Seconds,
    /// All k-mers divided by the total time.
    pub kmers_per_second: f64,
    /// Peak memory of the rank with the most, in bytes. Shared pages count for each rank that has
    /// touched them.
    pub peak_rss_max: u64,
    /// The sum of all ranks' peaks.
    pub peak_rss_sum: u64,
}

/// The times of the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// Reading the files.
    pub read: f64,
    /// Estimating the number of distinct k-mers.
    pub estimate: f64,
    /// Counting.
    pub count: f64,
    /// Writing the output.
    pub output: f64,
    /// Total.
    pub total: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = Counted(self.reads, "sequence");
        let files = Counted(self.files as u64, "file");
        writeln!(f, "{reads} in {files}, {} bases", self.bases)?;
        let kind = if self.canonical { "canonical " } else { "" };
        let (total, distinct) = (self.kmers_total, self.kmers_distinct);
        writeln!(f, "{total} {kind}{}-mers, {distinct} distinct", self.k)?;
        if self.min_count > 1 {
            let (kept, least) = (self.kmers_kept, self.min_count);
            writeln!(f, "{kept} of them occur {least} times or more")?;
        }
        if self.bloom_bytes > 0 {
            let [table, bloom, saved] =
                [self.table_bytes, self.bloom_bytes, self.saved_bytes].map(|n| n >> 10);
            write!(f, "table {table} KiB, Bloom filter {bloom} KiB: ")?;
            writeln!(f, "{saved} KiB less than a table of all")?;
        }
        let ranks = Counted(self.ranks.into(), "rank");
        let Seconds {
            read,
            estimate,
            count,
            output,
            total,
        } = self.seconds;
        let way = if self.way.is_empty() { "" } else { ", " };
        write!(f, "{ranks}{way}{}, ", self.way)?;
        write!(f, "{total:.2} s: reading {read:.2}, ")?;
        writeln!(
            f,
            "estimating {estimate:.2}, counting {count:.2}, output {output:.2}"
        )
    }
}

/// A number with its unit.
struct Counted(u64, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(n, thing) = self;
        let ending = if *n == 1 { "" } else { "s" };
        write!(f, "{n} {thing}{ending}")
    }
}

/// Times stages that follow one another.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    lap: Instant,
}

impl Stopwatch {
    /// Starts.
    #[must_use]
    pub fn start() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            lap: now,
        }
    }

    /// Seconds since the last lap or, for the first one, the start.
    pub fn lap(&mut self) -> f64 {
        let now = Instant::now();
        let lap = now - std::mem::replace(&mut self.lap, now);
        lap.as_secs_f64()
    }

    /// Seconds since the start.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// The peak memory of this process in bytes; 0 if the system does not report it.
#[must_use]
pub fn peak_rss() -> u64 {
    let status = fs::read("/proc/self/status").unwrap_or_default();
    // The name of the process may be cut off within a letter.
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_leaves_out_what_was_not_asked_for() {
        let mut report = Report {
            ranks: 1,
            k: 5,
            files: 2,
            reads: 1,
            bases: 30,
            kmers_total: 26,
            kmers_distinct: 20,
            min_count: 1,
            kmers_kept: 20,
            ..Report::default()
        };
        let times = "s: reading 0.00, estimating 0.00, counting 0.00, output 0.00\n";
        let expected = "1 sequence in 2 files, 30 bases\n26 5-mers, 20 distinct\n";
        assert_eq!(
            report.to_string(),
            format!("{expected}1 rank, 0.00 {times}")
        );
        (report.ranks, report.canonical, report.way) = (2, true, "direct");
        (report.min_count, report.kmers_kept) = (3, 4);
        let expected = "1 sequence in 2 files, 30 bases\n26 canonical 5-mers, 20 distinct\n\
            4 of them occur 3 times or more\n";
        assert_eq!(
            report.to_string(),
            format!("{expected}2 ranks, direct, 0.00 {times}")
        );
    }

    #[test]
    fn laps_add_up_to_the_total() {
        let mut watch = Stopwatch::start();
        let laps = watch.lap() + watch.lap();
        assert!(0.0 < laps && laps <= watch.total());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        let before = peak_rss();
        assert!(before > 100_000);
        let block = vec![1_u8; 64 << 20];
        assert!(peak_rss() >= before.max(block.len() as u64));
    }
}
