//! The analysis of a job's traces.

use std::collections::{BTreeMap, HashMap, HashSet};

use hdrhistogram::Histogram;
use pgas_core::trace::Kind;

use crate::align::{self, Message};
use crate::phases::{self, Phase};
use crate::read::{Event, Trace};
use crate::statistics::{Statistics, histogram};

/// The activity of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A wait.
    Waits,
    /// Serving a message.
    Serves,
    /// A span of the program.
    Span,
}

/// An interval of one thread of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The start, in nanoseconds since the start of the job.
    pub from: i64,
    /// The end.
    pub until: i64,
    /// The activity.
    pub doing: Doing,
    /// The thread.
    pub thread: u8,
    /// The name of a wait or a span, or the line that sent the message.
    pub name: String,
    /// The last rank that a wait was for, or the sender of the message.
    pub rank: Option<u32>,
    /// The rank that a wait was for in the end: not one that itself waited for another meanwhile.
    pub cause: Option<u32>,
    /// Whether its end was recorded.
    pub is_over: bool,
}

impl Stretch {
    fn nanos(&self) -> u64 {
        u64::try_from(self.until - self.from).unwrap_or(0)
    }
}

/// An event without a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The event.
    pub event: Event,
    /// Its name; empty if it has none.
    pub name: String,
}

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
    /// The time in waits.
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
}

impl RankSummary {
    /// The length of its trace.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.until - self.from).unwrap_or(0)
    }
}

/// A line of the program that waits.
#[derive(Clone, Debug)]
pub struct Line {
    /// The operation and the line: `a barrier@src/main.rs:57`.
    pub name: String,
    /// The duration of each wait, in nanoseconds.
    pub times: Histogram<u64>,
    /// The total duration.
    pub nanos: u64,
    /// The duration by waiting rank.
    pub by_rank: BTreeMap<u32, u64>,
    /// The duration by the rank that is waited for.
    pub for_rank: BTreeMap<u32, u64>,
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
    /// The phases of each container.
    pub objects: Vec<Vec<Phase>>,
    /// The messages with both ends known.
    pub messages: Vec<Message>,
    /// The latencies of messages until they were served, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// The bytes of the messages, puts, gets and atomics that the first rank of a pair began with
    /// the second one. Bytes of a get travel the other way.
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

fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    // It grows as needed, up to the largest number.
    histogram.record(nanos.max(1)).ok();
}

impl Job {
    /// Analyses traces whose clocks are [aligned](align::align).
    #[must_use]
    pub fn of(traces: &[Trace]) -> Self {
        let mut messages = align::messages(traces);
        // A sender records a message after sending it, which may be after its arrival.
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
                    let sum: &mut u64 = matrix.entry((trace.rank, to)).or_insert(0);
                    *sum = sum.saturating_add(event.numbers[0]);
                }
            }
        }
        let mut hosts: Vec<String> = traces.iter().map(|trace| trace.host.clone()).collect();
        hosts.sort();
        hosts.dedup();
        let phases: Vec<&Phase> = ranks.iter().flat_map(|rank| &rank.phases).collect();
        let until = ranks.iter().map(|rank| rank.until).max().unwrap_or(0);
        Self {
            n_ranks: traces.iter().map(|trace| trace.n_ranks).max().unwrap_or(0),
            lines: lines(&ranks),
            objects: phases::of_objects(&phases),
            ranks,
            messages,
            latencies,
            matrix,
            nanos: u64::try_from(until).unwrap_or(0),
            hosts,
            n_lost: traces.iter().map(|trace| trace.n_lost).sum(),
            n_others: traces.iter().map(|trace| trace.n_others).max().unwrap_or(0),
            statistics: Statistics::default(),
        }
    }
}

/// What is known of messages by both of their ends.
struct Known {
    /// The lines that have sent the served messages, by receiver and time.
    senders: HashMap<(u32, i64), String>,
    /// Sender, receiver and number of each.
    messages: HashSet<(u32, u32, u64)>,
}

impl Known {
    fn of(traces: &[Trace], messages: &[Message]) -> Self {
        let by_rank: HashMap<u32, &Trace> =
            traces.iter().map(|trace| (trace.rank, trace)).collect();
        let name = |message: &Message| {
            let sender = by_rank.get(&message.from)?;
            let name = sender.names.get(&message.name)?;
            Some(((message.to, message.came), name.clone()))
        };
        let key = |message: &Message| (message.from, message.to, message.number);
        Self {
            senders: messages.iter().filter_map(name).collect(),
            messages: messages.iter().map(key).collect(),
        }
    }

    /// Whether both ends of the message are known that a rank sends or gets by `event`.
    fn has_both_ends(&self, rank: u32, event: &Event) -> bool {
        event.rank.is_some_and(|other| {
            let (from, to) = match event.kind {
                Kind::Send => (rank, other),
                _ => (other, rank),
            };
            self.messages.contains(&(from, to, event.numbers[1]))
        })
    }
}

/// The events of a rank that begin or end nothing, but messages that have an arrow.
fn moments(trace: &Trace, known: &Known) -> Vec<Moment> {
    let is_shown = |event: &&Event| match event.kind {
        Kind::Get | Kind::Put | Kind::Atomic | Kind::Collective => true,
        Kind::Refusal | Kind::Missing | Kind::Left => true,
        Kind::Send | Kind::Arrival => !known.has_both_ends(trace.rank, event),
        _ => false,
    };
    let events = trace.events.iter().filter(is_shown);
    let moment = |event: &Event| Moment {
        event: *event,
        name: trace.names.get(&event.name).cloned().unwrap_or_default(),
    };
    events.map(moment).collect()
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
    this.stretches = stretches(trace, &known.senders, this.until);
    this.moments = moments(trace, known);
    this.phases = phases::of_rank(trace, this.from, this.until);
    let sum = |doing| {
        let of = this
            .stretches
            .iter()
            .filter(|stretch| stretch.doing == doing);
        of.map(Stretch::nanos).sum()
    };
    (this.waits, this.serves) = (sum(Doing::Waits), sum(Doing::Serves));
    this
}

impl RankSummary {
    fn count(&mut self, event: &Event) {
        match event.kind {
            Kind::Send => {
                self.n_sent += 1;
                self.sent_bytes = self.sent_bytes.saturating_add(event.numbers[0]);
            }
            Kind::Begin | Kind::Arrival => self.n_came += 1,
            Kind::Get | Kind::Put | Kind::Atomic => {
                self.n_remote += event.numbers[1].clamp(1, MOST_TOGETHER);
            }
            Kind::Refusal => self.n_refused += 1,
            Kind::Left => self.is_whole = true,
            _ => {}
        }
    }
}

/// The intervals of a rank, in the order of their starts. Open intervals end at `until`.
fn stretches(trace: &Trace, senders: &HashMap<(u32, i64), String>, until: i64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    // The open intervals of each thread.
    let mut open: Vec<Stretch> = Vec::new();
    for event in &trace.events {
        let doing = match event.kind {
            Kind::Wait | Kind::Waited | Kind::Missing => Doing::Waits,
            Kind::Begin | Kind::End => Doing::Serves,
            _ => Doing::Span,
        };
        let is_it = |s: &Stretch| s.thread == event.thread && s.doing == doing;
        match event.kind {
            Kind::Wait | Kind::Begin | Kind::Span => {
                let name = match doing {
                    Doing::Serves => senders.get(&(trace.rank, event.at)).cloned(),
                    _ => Some(trace.name(event).to_owned()),
                };
                open.push(Stretch {
                    from: event.at,
                    until: event.at,
                    doing,
                    thread: event.thread,
                    name: name.unwrap_or_else(|| "a message".to_owned()),
                    rank: event.rank,
                    cause: None,
                    is_over: false,
                });
            }
            Kind::Waited | Kind::End | Kind::SpanEnd => {
                if let Some(index) = open.iter().rposition(is_it) {
                    let mut stretch = open.remove(index);
                    stretch.until = event.at;
                    stretch.is_over = true;
                    stretch.rank = event.rank.or(stretch.rank);
                    stretches.push(stretch);
                }
            }
            Kind::Missing => {
                if let Some(wait) = open.iter_mut().rfind(|s| is_it(s)) {
                    wait.rank = event.rank;
                }
            }
            _ => {}
        }
    }
    for stretch in &mut open {
        stretch.until = until;
    }
    stretches.append(&mut open);
    stretches.sort_by_key(|stretch| (stretch.from, -stretch.until));
    stretches
}

/// Finds the cause of each wait. In the rounds of a barrier most ranks wait for some that wait,
/// too.
fn find_causes(ranks: &mut [RankSummary]) {
    let waits: HashMap<u32, Vec<(i64, i64, u32)>> = ranks
        .iter()
        .map(|rank| {
            let waits = rank.stretches.iter().filter(|s| s.doing == Doing::Waits);
            let waits = waits.filter_map(|s| Some((s.from, s.until, s.rank?)));
            (rank.rank, waits.collect())
        })
        .collect();
    // The rank that a rank waits for at a time; its waits are in the order of their starts.
    let waited_for = |rank: u32, at: i64| {
        let waits = waits.get(&rank)?;
        let n_begun = waits.partition_point(|(from, _, _)| *from <= at);
        let (_, until, of) = waits.get(n_begun.checked_sub(1)?)?;
        (at < *until).then_some(*of)
    };
    for rank in ranks {
        let waits = rank.stretches.iter_mut();
        for wait in waits.filter(|s| s.doing == Doing::Waits) {
            let middle = wait.from.midpoint(wait.until);
            let mut passed = vec![rank.rank];
            wait.cause = wait.rank;
            while let Some(next) = wait.cause.and_then(|cause| waited_for(cause, middle)) {
                passed.extend(wait.cause);
                // Ranks that wait for each other have no cause but the first.
                if passed.contains(&next) {
                    wait.cause = wait.rank;
                    break;
                }
                wait.cause = Some(next);
            }
        }
    }
}

fn lines(ranks: &[RankSummary]) -> Vec<Line> {
    let mut lines: HashMap<&str, Line> = HashMap::new();
    for rank in ranks {
        for wait in rank.stretches.iter().filter(|s| s.doing == Doing::Waits) {
            let line = lines.entry(&wait.name).or_insert_with(|| Line {
                name: wait.name.clone(),
                times: histogram(),
                nanos: 0,
                by_rank: BTreeMap::new(),
                for_rank: BTreeMap::new(),
            });
            let nanos = wait.nanos();
            record(&mut line.times, nanos);
            line.nanos += nanos;
            *line.by_rank.entry(rank.rank).or_insert(0) += nanos;
            if let Some(of) = wait.cause {
                *line.for_rank.entry(of).or_insert(0) += nanos;
            }
        }
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    lines.sort_by(|a, b| b.nanos.cmp(&a.nanos).then_with(|| a.name.cmp(&b.name)));
    lines
}
