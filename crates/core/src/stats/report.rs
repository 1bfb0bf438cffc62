//! The figures of all ranks together, as a table and as JSON.

use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::{fs, io};

use super::board::{Board, N_NAMES};
use super::counters::KINDS;
use super::counting;
use super::figures::{Figures, Line, Named, wanted};
use super::operations::Performed;
use crate::cost::CostKind;
use crate::notice::{self, printable};

/// Lines of the table about waits.
const N_LINES: usize = 10;
/// The maximum number of ranks whose matrix is printed.
const N_COLUMNS: usize = 16;

/// The figures of a job, for the report at its end.
#[derive(Debug)]
pub struct Report {
    pub(super) n_ranks: u32,
    pub(super) outcome: String,
    /// The time of this report, in nanoseconds since 1970 by this host's clock.
    pub(super) made: u64,
    pub(super) ranks: Vec<Figures>,
    table: bool,
    file: Option<String>,
}

impl Report {
    /// The figures on `boards`, if a report of them is wanted. `outcome` is the text of how the job
    /// has ended.
    #[must_use]
    pub fn of(boards: &[Board], n_ranks: u32, outcome: &str) -> Option<Self> {
        let mut ranks: Vec<Figures> = boards.iter().filter_map(Figures::read).collect();
        ranks.sort_by_key(|figures| figures.rank);
        let mut wishes = boards.iter().map(wanted);
        let (table, file) = wishes.find(|(table, file)| *table || file.is_some())?;
        (!ranks.is_empty()).then(|| Self {
            n_ranks,
            outcome: outcome.to_owned(),
            made: counting::now(),
            ranks,
            table,
            file,
        })
    }

    /// Prints and writes the wanted reports. An error is reported in one line: the job has ended.
    pub fn tell(&self) {
        self.tell_by(&mut notice::write);
    }

    /// As [`tell`](Self::tell), for a caller that prints otherwise. `print` gets whole lines.
    pub fn tell_by(&self, print: &mut dyn FnMut(&str)) {
        // The file first: printing may wait for a reader.
        let written = match &self.file {
            Some(file) => write(Path::new(file), &self.json()).map_err(|error| {
                notice::line(&format!("the statistics are not in {file}: {error}"))
            }),
            None => Ok(()),
        };
        if self.table {
            // In one piece, so that other output does not mix with it.
            print(&self.to_string());
        }
        if let Err(line) = written {
            print(&line);
        }
    }

    fn sum(&self, of: impl Fn(&Figures) -> u64) -> u64 {
        self.ranks
            .iter()
            .fold(0, |sum, rank| sum.saturating_add(of(rank)))
    }

    /// The time that the job has run, in nanoseconds.
    pub(super) fn nanos(&self) -> u64 {
        let began = self.ranks.iter().map(|rank| rank.began).min();
        let until = self.ranks.iter().map(|rank| rank.until).max();
        until.unwrap_or(0).saturating_sub(began.unwrap_or(0))
    }

    /// Waits by line, the longest first.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for line in self.ranks.iter().flat_map(|rank| &rank.waits) {
            match lines.iter_mut().find(|known| known.is_same(line)) {
                Some(known) => known.add(line),
                None => lines.push(line.clone()),
            }
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.nanos));
        lines
    }

    /// The figures of named objects.
    pub(super) fn names(&self) -> Vec<Named> {
        let mut names: Vec<Named> = Vec::new();
        for named in self.ranks.iter().flat_map(|rank| &rank.names) {
            match names.iter_mut().find(|known| known.name == named.name) {
                Some(known) => {
                    let counts = known.counts.iter_mut().zip(named.counts);
                    counts.for_each(|(sum, count)| *sum = sum.saturating_add(count));
                }
                None => names.push(named.clone()),
            }
        }
        names
    }

    /// The figures of operations of containers, by name.
    pub(super) fn operations(&self) -> Vec<Performed> {
        let mut all: Vec<Performed> = Vec::new();
        for one in self.ranks.iter().flat_map(|rank| &rank.operations) {
            match all.iter_mut().find(|known| known.name == one.name) {
                Some(known) => known.add(one),
                None => all.push(one.clone()),
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(super) fn spread(&self, of: impl Fn(&Figures) -> u64) -> Spread {
        let mut all: Vec<(u64, u32)> = self.ranks.iter().map(|r| (of(r), r.rank)).collect();
        all.sort_unstable();
        let at = |i: usize| all.get(i).copied().unwrap_or_default();
        Spread {
            least: at(0),
            median: at(all.len() / 2).0,
            most: at(all.len().saturating_sub(1)),
        }
    }
}

/// The smallest, the median and the largest value of a figure among the ranks, with the ranks that
/// have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) least: (u64, u32),
    pub(super) median: u64,
    pub(super) most: (u64, u32),
}

impl Spread {
    fn text(self, unit: fn(u64) -> String) -> String {
        let Self {
            least,
            median,
            most,
        } = self;
        format!(
            "{:>10} {:<11} {:>10} {:>10} (rank {})",
            unit(least.0),
            format!("(rank {})", least.1),
            unit(median),
            unit(most.0),
            most.1
        )
    }
}

/// A number with three significant digits.
#[expect(clippy::cast_precision_loss, reason = "it is shown with few digits")]
fn scaled(number: u64, step: f64, units: &[&str]) -> String {
    let mut scaled = number as f64;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if scaled < step.max(1000.0) {
            break;
        }
        scaled /= step;
        unit = next;
    }
    if unit.is_empty() || unit == "B" || unit == "ns" {
        format!("{number}{unit}")
    } else if scaled < 10.0 {
        format!("{scaled:.2}{unit}")
    } else if scaled < 100.0 {
        format!("{scaled:.1}{unit}")
    } else {
        format!("{scaled:.0}{unit}")
    }
}

/// A number in few letters, as in `12.3 k`.
///
/// # Cost
///
/// ℓ.
#[must_use]
pub fn count(n: u64) -> String {
    scaled(n, 1000.0, &["", " k", " M", " G", " T"])
}

/// A number of bytes in few letters, as in `1.20 GiB`.
///
/// # Cost
///
/// ℓ.
#[must_use]
pub fn size(bytes: u64) -> String {
    scaled(
        bytes,
        1024.0,
        &["B", " KiB", " MiB", " GiB", " TiB", " PiB"],
    )
}

/// A number of nanoseconds in few letters, as in `340 ms`.
///
/// # Cost
///
/// ℓ.
#[must_use]
pub fn time(nanos: u64) -> String {
    scaled(nanos, 1000.0, &["ns", " us", " ms", " s", " ks"])
}

/// A percentage.
fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100)
        .checked_div(whole)
        .unwrap_or(0)
        .min(100)
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write_heading(&mut text)?;
        self.write_operations(&mut text)?;
        self.write_latencies(&mut text)?;
        self.write_waits(&mut text)?;
        self.write_memory(&mut text)?;
        self.write_operations_of_containers(&mut text)?;
        self.write_names(&mut text)?;
        self.write_matrix(&mut text)?;
        for line in text.lines() {
            writeln!(f, "pgas: {}", printable(line.trim_end()))?;
        }
        Ok(())
    }
}

/// Writes a file. A reader of a pipe would be waited for, and the job with it.
fn write(file: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(file).is_ok_and(|there| there.file_type().is_fifo()) {
        return Err(io::Error::other("it is a pipe"));
    }
    fs::write(file, text)
}

/// Parts of the table, a line each.
impl Report {
    fn write_heading(&self, text: &mut String) -> std::fmt::Result {
        let Self {
            n_ranks, outcome, ..
        } = self;
        let ranks = if *n_ranks == 1 { "rank" } else { "ranks" };
        let nanos = time(self.nanos());
        writeln!(
            text,
            "statistics of {n_ranks} {ranks}, {nanos}; {}",
            printable(outcome)
        )?;
        let n_missing = u64::from(*n_ranks).saturating_sub(self.ranks.len() as u64);
        if n_missing > 0 {
            writeln!(text, "  {n_missing} of the ranks have told nothing")?;
        }
        Ok(())
    }

    fn write_operations(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "  {:<10} {:>10} {:>10} {:>10} {:>10}   {:>10} {:<11} {:>10} {:>10}",
            "", "near", "", "remote", "", "least", "(a rank)", "median", "most"
        )?;
        for (kind, name) in KINDS {
            let n = |is_near| self.sum(|rank| rank.n(kind, is_near));
            let bytes = |is_near| self.sum(|rank| rank.bytes(kind, is_near));
            let spread = self.spread(|rank| rank.n(kind, true) + rank.n(kind, false));
            writeln!(
                text,
                "  {name:<10} {:>10} {:>10} {:>10} {:>10}   {}",
                count(n(true)),
                size(bytes(true)),
                count(n(false)),
                size(bytes(false)),
                spread.text(count)
            )?;
        }
        for (kind, name) in [
            (CostKind::Barrier, "barriers"),
            (CostKind::Local, "local"),
            (CostKind::Refusal, "refusals"),
        ] {
            let n = self.sum(|rank| rank.n(kind, true));
            let note = match kind {
                CostKind::Refusal => "messages that found no room",
                CostKind::Local => "calls without communication",
                _ => "",
            };
            let spread = self.spread(|rank| rank.n(kind, true));
            writeln!(
                text,
                "  {name:<10} {:>10} {note:<32}   {}",
                count(n),
                spread.text(count)
            )?;
        }
        Ok(())
    }

    fn write_waits(&self, text: &mut String) -> std::fmt::Result {
        let (waited, ran) = (self.sum(Figures::waited), self.sum(Figures::nanos));
        writeln!(
            text,
            "  {:<10} {:>10} {:<32}   {}",
            "waits",
            time(waited),
            format!("{} % of the ranks' time", percent(waited, ran)),
            self.spread(Figures::waited).text(time)
        )?;
        let lines = self.lines();
        for line in lines.iter().take(N_LINES) {
            let whole = if line.whole.is_empty() {
                String::new()
            } else {
                format!(", as a part of {}", line.whole)
            };
            let rank = match line.rank {
                Some(rank) if line.weight > line.nanos / 4 => format!(", mostly for rank {rank}"),
                _ => String::new(),
            };
            writeln!(
                text,
                "    {:>3} % {:>10} in {} {}, the longest {}: {} for {}{}{}",
                percent(line.nanos, ran),
                time(line.nanos),
                count(line.n),
                if line.n == 1 { "wait" } else { "waits" },
                time(line.longest),
                line.place(),
                printable(&line.what),
                printable(&whole),
                rank
            )?;
        }
        if lines.len() > N_LINES {
            writeln!(text, "    and {} more lines", lines.len() - N_LINES)?;
        }
        Ok(())
    }

    fn write_memory(&self, text: &mut String) -> std::fmt::Result {
        type Figure = fn(&Figures) -> u64;
        let figures: [(&str, &str, Figure); 4] = [
            ("segment", "reserved", |rank| rank.segment),
            ("local heap", "at most", |rank| rank.local_heap),
            ("symmetric", "at most, of its heap", |rank| {
                rank.symmetric_heap
            }),
            ("resident", "at most, of the process", |rank| rank.resident),
        ];
        for (name, note, of) in figures {
            writeln!(
                text,
                "  {name:<10} {:>10} {note:<32}   {}",
                size(self.sum(of)),
                self.spread(of).text(size)
            )?;
        }
        Ok(())
    }

    fn write_operations_of_containers(&self, text: &mut String) -> std::fmt::Result {
        for one in self.operations() {
            write!(
                text,
                "  {}: {} in {}, {} each (documented: {})",
                printable(&one.name),
                count(one.elements),
                count(one.calls),
                one.paid(),
                printable(&one.price)
            )?;
            if one.missed > 0 {
                let missed = percent(one.missed, one.elements);
                write!(text, ", {missed} % {}", printable(&one.missed_as))?;
            }
            if let Some([mean, most]) = one.fill() {
                write!(text, ", {} % full, at most {} %", mean / 10, most / 10)?;
            }
            writeln!(text)?;
        }
        Ok(())
    }

    fn write_names(&self, text: &mut String) -> std::fmt::Result {
        for named in self.names() {
            let [gets, puts, atomics, messages, bytes] = named.counts;
            writeln!(
                text,
                "  \"{}\": {} gets, {} puts, {} atomics, {} messages, {}",
                printable(&named.name),
                count(gets),
                count(puts),
                count(atomics),
                count(messages),
                size(bytes)
            )?;
        }
        if self.ranks.iter().any(|rank| rank.has_more_names) {
            let note = "further names have no lines: a rank has room for";
            writeln!(text, "  {note} {N_NAMES}")?;
        }
        Ok(())
    }

    fn write_matrix(&self, text: &mut String) -> std::fmt::Result {
        let n_columns = self.ranks.iter().map(|rank| rank.peers.len()).max();
        let n_columns = n_columns.unwrap_or(0);
        if n_columns == 0 {
            return Ok(());
        }
        if n_columns > N_COLUMNS {
            let hint = "PGAS_STATS=peers,FILE.json writes it";
            return writeln!(
                text,
                "  the matrix has more than {N_COLUMNS} columns: {hint}"
            );
        }
        writeln!(text, "  bytes from (rows) to (columns)")?;
        write!(text, "  {:>10}", "")?;
        for column in 0..n_columns {
            write!(text, " {column:>9}")?;
        }
        writeln!(text)?;
        for rank in &self.ranks {
            write!(text, "  {:>10}", rank.rank)?;
            for peer in &rank.peers {
                write!(text, " {:>9}", size(peer[4]))?;
            }
            writeln!(text)?;
        }
        Ok(())
    }
}
