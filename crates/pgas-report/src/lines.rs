//! Activities of all ranks by their names: by lines of the program, by spans, by collectives.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use pgas_core::trace::Kind;

use crate::statistics::histogram;
use crate::stretches::{Doing, Moment, Stretch};
use crate::units::add;

/// The activities of one kind and name.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name: the operation and the line of a wait, as in `a barrier@src/main.rs:57`; the line
    /// that has sent a message, as in `@src/main.rs:12`; or the name of a span.
    pub name: String,
    /// The duration of each, in nanoseconds.
    pub times: Histogram<u64>,
    /// The total duration.
    pub nanos: u64,
    /// The duration by the rank whose activity it is.
    pub by_rank: BTreeMap<u32, u64>,
    /// The duration by the rank that is waited for, or that has sent the message.
    pub for_rank: BTreeMap<u32, u64>,
}

impl Line {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            times: histogram(),
            nanos: 0,
            by_rank: BTreeMap::new(),
            for_rank: BTreeMap::new(),
        }
    }

    fn add(&mut self, rank: u32, stretch: &Stretch) {
        let nanos = stretch.nanos();
        record(&mut self.times, nanos);
        add(&mut self.nanos, nanos);
        add(self.by_rank.entry(rank).or_insert(0), nanos);
        let other = match stretch.doing {
            Doing::Waits => stretch.cause,
            Doing::Serves => stretch.rank,
            Doing::Span => None,
        };
        if let Some(of) = other {
            add(self.for_rank.entry(of).or_insert(0), nanos);
        }
    }
}

/// Adds a duration to a histogram.
pub(crate) fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    // It grows as needed, up to the largest number.
    histogram.record(nanos.max(1)).ok();
}

/// The activities of the kind `doing` by name, the longest first.
pub(crate) fn lines(ranks: &[(u32, &[Stretch])], doing: Doing) -> Vec<Line> {
    let mut lines: HashMap<&str, Line> = HashMap::new();
    for (rank, stretches) in ranks {
        for stretch in stretches.iter().filter(|s| s.doing == doing) {
            let line = lines.entry(&stretch.name);
            let line = line.or_insert_with_key(|name| Line::new(name));
            line.add(*rank, stretch);
        }
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    lines.sort_by(|a, b| b.nanos.cmp(&a.nanos).then_with(|| a.name.cmp(&b.name)));
    lines
}

/// The calls of a collective in a line of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The collective and the line: `an allreduce@src/main.rs:57`, as of its waits.
    pub name: String,
    /// The number of calls by rank.
    pub calls: BTreeMap<u32, u64>,
    /// The bytes of all arguments.
    pub bytes: u64,
}

/// The collectives that ranks have called, the most frequent first.
pub(crate) fn collectives(ranks: &[(u32, &[Moment])]) -> Vec<Collective> {
    let mut all: HashMap<&str, Collective> = HashMap::new();
    for (rank, moments) in ranks {
        for Moment { event, name } in *moments {
            if event.kind != Kind::Collective {
                continue;
            }
            let one = all.entry(name).or_insert_with_key(|name| Collective {
                name: (*name).to_owned(),
                calls: BTreeMap::new(),
                bytes: 0,
            });
            *one.calls.entry(*rank).or_insert(0) += 1;
            add(&mut one.bytes, event.numbers[0]);
        }
    }
    let mut all: Vec<Collective> = all.into_values().collect();
    let n = |one: &Collective| one.calls.values().sum::<u64>();
    all.sort_by(|a, b| n(b).cmp(&n(a)).then_with(|| a.name.cmp(&b.name)));
    all
}
