//! The analysis of a job's traces.

use std::collections::{BTreeSet, HashMap};

use hdrhistogram::Histogram;
use pgas_core::trace::Kind;

use crate::align::{self, Message};
use crate::lines::{Collective, Line, collectives, lines, record};
use crate::phases::{self, Phase};
use crate::read::{Event, Trace};
use crate::statistics::{Statistics, histogram};
use crate::stretches::{self, Doing, Known, Moment, Stretch, moments};
use crate::units::{add, sum};

/// The activities of one rank.
#[derive(Clone, Debug, Default)]
pub struct RankSummary {
    /// Its number.
    pub rank: u32,
    /// The time of its first event.
    pub from: i64,
    /// The time of its last event.
    pub until: i64,
    /// Waits, served messages and spans, in the order of their starts.
    pub stretches: Vec<Stretch>,
    /// All other events, in the order of time, but messages with both ends known.
    pub moments: Vec<Moment>,
    /// The phases of its containers, in the order of their starts.
    pub phases: Vec<Phase>,
    /// The time in waits, also that in which it served messages meanwhile.
    pub waits: u64,
    /// The time in which messages were served.
    pub serves: u64,
    /// The number of sent messages.
    pub n_sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// The number of received messages.
    pub n_came: u64,
    /// The number of the transport's operations.
    pub n_remote: u64,
    /// The number of messages that found no room at first.
    pub n_refused: u64,
    /// Whether its trace goes on until the rank left the job. It does not if the rank was killed,
    /// or the disk was full.
    pub is_whole: bool,
    /// Whether it has events whose names are not in its file of names, which is absent, damaged or
    /// of another job.
    pub lacks_names: bool,
}

impl RankSummary {
    /// The length of its trace.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.until - self.from).unwrap_or(0)
    }
}

/// A job.
#[derive(Debug)]
pub struct Job {
    /// The number of ranks.
    pub n_ranks: u32,
    /// The traced ranks.
    pub ranks: Vec<RankSummary>,
    /// Lines that wait, the longest wait first.
    pub lines: Vec<Line>,
    /// The spans of the program, the longest first.
    pub spans: Vec<Line>,
    /// The served messages by the line that has sent them, or the request that they answer.
    pub served: Vec<Line>,
    /// The collectives by the line that calls them.
    pub collectives: Vec<Collective>,
    /// The phases of each container.
    pub objects: Vec<Vec<Phase>>,
    /// The messages with both ends known.
    pub messages: Vec<Message>,
    /// The latencies of messages until they were served, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// The bytes of the messages, puts, gets and atomics that the first rank of a pair began with
    /// the second one, without those of mapped memory. Bytes of a get travel the other way.
    pub matrix: HashMap<(u32, u32), u64>,
    /// The duration of the traces, in nanoseconds.
    pub nanos: u64,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The number of lost events.
    pub n_lost: u64,
    /// The number of traces of other jobs, which are left out.
    pub n_others: usize,
    /// The statistics of the ranks. They are empty until they are [read](crate::statistics::read).
    pub statistics: Statistics,
}

/// The maximum number of operations in one event. More mean a damaged file.
const MOST_TOGETHER: u64 = 1 << 32;

impl Job {
    /// Analyses traces whose clocks are [aligned](align::align).
    #[must_use]
    pub fn of(traces: &[Trace]) -> Self {
        let mut messages = align::messages(traces);
        // Threads of a rank may have each other's numbers, and clocks may differ a little.
        for message in &mut messages {
            message.sent = message.sent.min(message.came);
        }
        let mut latencies = histogram();
        for message in &messages {
            let took = u64::try_from(message.came - message.sent).unwrap_or(0);
            record(&mut latencies, took);
        }
        let known = Known::of(traces, &messages);
        let mut ranks: Vec<RankSummary> = traces.iter().map(|t| summary(t, &known)).collect();
        find_causes(&mut ranks);
        let mut matrix = HashMap::new();
        for trace in traces {
            for event in &trace.events {
                let is_sent = matches!(
                    event.kind,
                    Kind::Send | Kind::Put | Kind::Get | Kind::Atomic
                );
                if let (true, Some(to)) = (is_sent, event.rank) {
                    add(
                        matrix.entry((trace.rank, to)).or_insert(0),
                        event.numbers[0],
                    );
                }
            }
        }
        let hosts = traces.iter().map(|trace| (&*trace.host, &*trace.clock));
        let hosts: BTreeSet<_> = hosts.collect();
        let hosts = hosts.into_iter().map(|(host, _)| host.to_owned());
        let stretches = ranks.iter().map(|rank| (rank.rank, &*rank.stretches));
        let stretches: Vec<_> = stretches.collect();
        let by_name = |doing| lines(&stretches, doing);
        let moments = ranks.iter().map(|rank| (rank.rank, &*rank.moments));
        let phases: Vec<&Phase> = ranks.iter().flat_map(|rank| &rank.phases).collect();
        let until = ranks.iter().map(|rank| rank.until).max().unwrap_or(0);
        Self {
            n_ranks: traces.iter().map(|trace| trace.n_ranks).max().unwrap_or(0),
            lines: by_name(Doing::Waits),
            spans: by_name(Doing::Span),
            served: by_name(Doing::Serves),
            collectives: collectives(&moments.collect::<Vec<_>>()),
            objects: phases::of_objects(&phases),
            ranks,
            messages,
            latencies,
            matrix,
            nanos: u64::try_from(until).unwrap_or(0),
            hosts: hosts.collect(),
            n_lost: sum(traces.iter().map(|trace| trace.n_lost)),
            n_others: traces.iter().map(|trace| trace.n_others).max().unwrap_or(0),
            statistics: Statistics::default(),
        }
    }

    /// The pairs of ranks with their gets, puts, atomics, messages and bytes, as far as these are
    /// known: of the statistics, if they have them, with those of mapped memory; else the bytes of
    /// [`matrix`](Self::matrix).
    #[must_use]
    pub fn traffic(&self) -> Vec<((u32, u32), [u64; 5])> {
        if self.statistics.has_peers() {
            return self.statistics.pairs().collect();
        }
        let pairs = self.matrix.iter();
        pairs
            .map(|(pair, bytes)| (*pair, [0, 0, 0, 0, *bytes]))
            .collect()
    }
}

fn summary(trace: &Trace, known: &Known) -> RankSummary {
    let mut this = RankSummary {
        rank: trace.rank,
        from: trace.events.first().map_or(0, |event| event.at),
        until: trace.events.last().map_or(0, |event| event.at),
        ..RankSummary::default()
    };
    for event in &trace.events {
        this.count(event);
    }
    this.lacks_names = trace.events.iter().any(|event| trace.lacks_name(event));
    this.stretches = stretches::stretches(trace, known, this.until);
    this.moments = moments(trace, known);
    this.phases = phases::of_rank(trace, this.from, this.until);
    let time_in = |doing| stretches::sum(&this.stretches, doing);
    (this.waits, this.serves) = (time_in(Doing::Waits), time_in(Doing::Serves));
    this
}

impl RankSummary {
    fn count(&mut self, event: &Event) {
        match event.kind {
            Kind::Send => {
                self.n_sent += 1;
                add(&mut self.sent_bytes, event.numbers[0]);
            }
            Kind::Begin | Kind::Arrival => self.n_came += 1,
            Kind::Get | Kind::Put | Kind::Atomic => {
                add(&mut self.n_remote, event.numbers[1].clamp(1, MOST_TOGETHER));
            }
            Kind::Refusal => self.n_refused += 1,
            Kind::Left => self.is_whole = true,
            _ => {}
        }
    }
}

/// Finds the cause of each wait. In the rounds of a barrier most ranks wait for some that wait,
/// too.
fn find_causes(ranks: &mut [RankSummary]) {
    let indices = ranks
        .iter()
        .zip(0..)
        .map(|(rank, index)| (rank.rank, index));
    let indices: HashMap<u32, usize> = indices.collect();
    let waits = |rank: &RankSummary| -> Vec<Wait> {
        let waits = rank.stretches.iter().filter(|s| s.doing == Doing::Waits);
        waits.filter_map(|s| Wait::of(s, &indices)).collect()
    };
    let mut chains = Chains {
        waits: ranks.iter().map(waits).collect(),
        n_begun: vec![0; ranks.len()],
        passed: vec![0; ranks.len()],
        n: 0,
    };
    let mut middles: Vec<(i64, usize, usize)> = Vec::new();
    for (rank, summary) in ranks.iter().enumerate() {
        for (index, s) in summary.stretches.iter().enumerate() {
            if s.doing == Doing::Waits {
                middles.push((s.from.midpoint(s.until), rank, index));
            }
        }
    }
    middles.sort_unstable();
    for (middle, rank, index) in middles {
        let own = indices[&ranks[rank].rank];
        let wait = &mut ranks[rank].stretches[index];
        wait.cause = Wait::of(wait, &indices).map(|wait| chains.cause(own, wait, middle));
    }
}

/// A wait for another rank.
#[derive(Clone, Copy)]
struct Wait {
    from: i64,
    until: i64,
    /// The rank that it is for, and that one's index if it has a trace.
    of: (u32, Option<usize>),
}

impl Wait {
    fn of(stretch: &Stretch, indices: &HashMap<u32, usize>) -> Option<Self> {
        let of = stretch.rank?;
        Some(Self {
            from: stretch.from,
            until: stretch.until,
            of: (of, indices.get(&of).copied()),
        })
    }
}

/// The ranks that wait for each other at a time that only goes on, so that nothing is searched for.
struct Chains {
    /// The waits of each rank, in the order of their starts.
    waits: Vec<Vec<Wait>>,
    /// How many of them have begun.
    n_begun: Vec<usize>,
    /// The number of the last chain in which each rank was.
    passed: Vec<usize>,
    /// The number of chains so far.
    n: usize,
}

impl Chains {
    /// The wait of a rank at a time: the one that has begun last, if it is not over.
    fn at(&mut self, rank: usize, at: i64) -> Option<Wait> {
        let (waits, n_begun) = (&self.waits[rank], &mut self.n_begun[rank]);
        while waits.get(*n_begun).is_some_and(|wait| wait.from <= at) {
            *n_begun += 1;
        }
        let last = waits[..*n_begun].last();
        last.copied().filter(|wait| at < wait.until)
    }

    /// The end of the chain that begins with a wait of a rank.
    fn cause(&mut self, rank: usize, wait: Wait, at: i64) -> u32 {
        self.n += 1;
        self.passed[rank] = self.n;
        let mut last = wait;
        while let Some(index) = last.of.1
            && let Some(next) = self.at(index, at)
        {
            self.passed[index] = self.n;
            // Ranks that wait for each other have no cause but the first.
            if next.of.1.is_some_and(|next| self.passed[next] == self.n) {
                return wait.of.0;
            }
            last = next;
        }
        last.of.0
    }
}
