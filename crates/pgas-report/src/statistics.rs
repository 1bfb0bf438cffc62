//! Reading the statistics beside the traces: operations of containers, and their prices.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use hdrhistogram::Histogram;
use serde::Deserialize;

use crate::read::{ReadError, Trace};

/// The name of the file with the statistics, in the directory of the traces.
pub const FILE: &str = "statistics.json";

/// What a job has counted (`PGAS_STATS`), as far as this program shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// The time of the report, in nanoseconds since 1970 by its host's clock.
    made: u64,
    /// Whether there are statistics of a former job, which are left out.
    #[serde(skip)]
    pub is_of_former_job: bool,
    /// Operations of containers, by name.
    pub operations: Vec<Operation>,
    /// The durations of operations of the transport, by kind.
    pub latencies: Vec<Latency>,
    /// Operations on objects to which the program has given names.
    pub names: Vec<Named>,
    /// The differences among ranks, by kind of operation, as in `gets`.
    pub imbalance: BTreeMap<String, Spread>,
    /// The operations of each rank on each other one (`PGAS_STATS=peers`).
    pub ranks: Vec<Peers>,
}

/// Operations on objects of one name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The number of gets.
    pub gets: u64,
    /// The number of puts.
    pub puts: u64,
    /// The number of atomics.
    pub atomics: u64,
    /// The number of messages.
    pub messages: u64,
    /// The bytes of all of them.
    pub bytes: u64,
}

/// The least value of a figure among the ranks, the median and the largest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// The least value.
    pub least: u64,
    /// A rank that has it.
    pub least_rank: u32,
    /// The median.
    pub median: u64,
    /// The largest value.
    pub most: u64,
    /// A rank that has it.
    pub most_rank: u32,
}

impl Spread {
    /// Of a value for each rank; `None` if there are no ranks.
    #[must_use]
    pub fn of(mut values: Vec<(u64, u32)>) -> Option<Self> {
        values.sort_unstable();
        let (least, most) = (values.first()?, values.last()?);
        Some(Self {
            least: least.0,
            least_rank: least.1,
            median: values[values.len() / 2].0,
            most: most.0,
            most_rank: most.1,
        })
    }
}

/// The operations of one rank on each other one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Peers {
    /// The rank.
    pub rank: u32,
    /// Gets, puts, atomics, messages and bytes for each rank; empty if they were not counted.
    pub peers: Vec<[u64; 5]>,
}

impl Statistics {
    /// Whether the operations between two ranks are known.
    #[must_use]
    pub fn has_peers(&self) -> bool {
        self.ranks.iter().any(|rank| !rank.peers.is_empty())
    }

    /// The ranks of each pair with its gets, puts, atomics, messages and bytes.
    pub fn pairs(&self) -> impl Iterator<Item = ((u32, u32), [u64; 5])> {
        let of_rank = |of: &Peers| {
            let from = of.rank;
            let peers = (0..).zip(of.peers.clone());
            peers.map(move |(to, figures)| ((from, to), figures))
        };
        self.ranks.iter().flat_map(of_rank)
    }
}

/// The durations of all ranks' operations of one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// The kind, as in `gets`.
    pub operations: String,
    /// Durations in nanoseconds, rounded down by up to a fifth, and the number of operations of
    /// each.
    pub ns_and_number: Vec<(u64, u64)>,
}

/// The maximum number of operations of one kind: of more the quantiles would be inexact. They mean
/// a damaged file.
const MOST_TIMED: u64 = 1 << f64::MANTISSA_DIGITS;

/// An empty histogram of durations.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(2).expect("two digits can be had")
}

impl Latency {
    /// The histogram of the durations, each of which is the longest that it may be: so the job's own
    /// report has them, too.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = histogram();
        for (nanos, n) in &self.ns_and_number {
            // Four steps between powers of two.
            let step: u64 = nanos.checked_ilog2().map_or(0, |power| (1 << power) / 4);
            let longest = nanos.saturating_add(step.saturating_sub(1));
            let n = (*n).min(MOST_TIMED - histogram.len());
            // It grows as needed, up to the largest number.
            histogram.record_n(longest.max(1), n).ok();
        }
        histogram
    }
}

/// An operation of a container, summed over all ranks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// Its documented price.
    pub documented: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of elements in all calls.
    pub elements: u64,
    /// The number of elements on which it did not succeed.
    pub missed: u64,
    /// What these elements were, as in `met a full queue`.
    pub missed_as: String,
    /// The number of elements whose price is known.
    pub priced: u64,
    /// Atomics for these.
    pub atomics: u64,
    /// Gets.
    pub gets: u64,
    /// Puts.
    pub puts: u64,
    /// Messages.
    pub messages: u64,
    /// How full the container was, if that is known.
    pub fill: Option<Fill>,
}

/// How full containers were, in thousandths.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Fill {
    /// On average.
    pub mean_permille: u64,
    /// At most.
    pub most_permille: u64,
}

impl Operation {
    /// The average price of an element, in letters: `2A + 0.31W`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "it is shown with few digits")]
    pub fn paid(&self) -> String {
        if self.priced == 0 {
            return "unknown".to_owned();
        }
        let counts = [self.atomics, self.gets, self.puts, self.messages];
        let parts = counts.into_iter().zip(["A", "R", "W", "M"]);
        let text = |(n, letter): (u64, &str)| {
            let each = n as f64 / self.priced as f64;
            let number = match n {
                n if n == self.priced => String::new(),
                n if n % self.priced == 0 => each.to_string(),
                _ => format!("{each:.2}"),
            };
            (n > 0).then(|| number + letter)
        };
        let parts: Vec<String> = parts.filter_map(text).collect();
        if parts.is_empty() {
            return "ℓ".to_owned();
        }
        parts.join(" + ")
    }

    /// The number of operations for an element in the dearest documented case, without those that
    /// further slots take: 2 for `A + W new, A present; A for each further slot`. `None` if the
    /// documented price is no such text.
    #[must_use]
    pub fn documented_most(&self) -> Option<u64> {
        let cases = self.documented.split(';').next()?.split(", ");
        let number = |word: &str| match word.strip_suffix(['A', 'R', 'W', 'M']) {
            Some("") => Some(1),
            Some(digits) => digits.parse::<u64>().ok(),
            None => (word == "\u{2113}").then_some(0),
        };
        let of_case = |case: &str| {
            let mut words = case.split(' ').filter(|word| *word != "+");
            let first = words.next().and_then(number)?;
            let others = words.map_while(number);
            Some(others.fold(first, u64::saturating_add))
        };
        cases.filter_map(of_case).max()
    }

    /// The elements on which it did not succeed, in percent.
    #[must_use]
    pub fn missed_percent(&self) -> u64 {
        crate::units::percent(self.missed, self.elements)
    }
}

/// The statistics in a directory of the job of these traces. They are empty if there is no
/// [`FILE`], or if a former job has written it: a job without `PGAS_STATS` replaces the traces
/// alone.
///
/// # Errors
///
/// If the file cannot be read, or does not contain statistics.
pub fn read(directory: &Path, traces: &[Trace]) -> Result<Statistics, ReadError> {
    let path = directory.join(FILE);
    if path.exists() && !path.is_file() {
        // A pipe would be waited for.
        let error = io::Error::other("this is no file");
        return Err(ReadError::File { path, error });
    }
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Statistics::default()),
        Err(error) => return Err(ReadError::File { path, error }),
        Ok(bytes) => bytes,
    };
    let statistics: Statistics =
        serde_json::from_slice(&bytes).map_err(|error| ReadError::File {
            path,
            error: error.into(),
        })?;
    // A job writes them at its end, and on the host of its first rank, whose clock both times are
    // by.
    if traces
        .first()
        .is_some_and(|first| statistics.made < first.began)
    {
        return Ok(Statistics {
            is_of_former_job: true,
            ..Statistics::default()
        });
    }
    Ok(statistics)
}
