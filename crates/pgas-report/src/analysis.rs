//! What a trace says of a job.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use pgas_core::trace::Kind;

use crate::align::{self, Message};
use crate::read::{Event, Trace};

/// What a rank does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It waits.
    Waits,
    /// It serves a message.
    Serves,
    /// A span of the program's.
    Span,
}

/// A stretch of time of one thread of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it begins and ends, in nanoseconds since the job began.
    pub from: i64,
    /// The end.
    pub until: i64,
    /// What is done.
    pub doing: Doing,
    /// The thread.
    pub thread: u8,
    /// What for: the name of a wait, a span, or the line that sent a message.
    pub name: String,
    /// The rank that a wait was for last, or that has sent the message.
    pub rank: Option<u32>,
    /// Whether its end was seen.
    pub is_over: bool,
}

impl Stretch {
    fn nanos(&self) -> u64 {
        u64::try_from(self.until - self.from).unwrap_or(0)
    }
}

/// What one rank did.
#[derive(Clone, Debug, Default)]
pub struct RankSummary {
    /// Its number.
    pub rank: u32,
    /// Its first and last event.
    pub from: i64,
    /// The last one.
    pub until: i64,
    /// Waits, served messages and spans, in the order of their beginnings.
    pub stretches: Vec<Stretch>,
    /// Time in waits.
    pub waits: u64,
    /// Time in which messages were served.
    pub serves: u64,
    /// Messages that it has sent, and their bytes.
    pub n_sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that have come.
    pub n_came: u64,
    /// Operations by the transport.
    pub n_remote: u64,
    /// Messages that found no room at first.
    pub n_refused: u64,
}

impl RankSummary {
    /// How long it is known.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.until - self.from).unwrap_or(0)
    }
}

/// A line of the program that waits.
#[derive(Clone, Debug)]
pub struct Line {
    /// What for and where: `a barrier@src/main.rs:57`.
    pub name: String,
    /// How long each wait took, in nanoseconds.
    pub times: Histogram<u64>,
    /// Together.
    pub nanos: u64,
    /// By rank: who waits how long.
    pub by_rank: BTreeMap<u32, u64>,
    /// For whom, and how long.
    pub for_rank: BTreeMap<u32, u64>,
}

/// A job.
#[derive(Debug)]
pub struct Job {
    /// How many ranks it had.
    pub n_ranks: u32,
    /// Those that were traced.
    pub ranks: Vec<RankSummary>,
    /// Lines that wait, the longest first.
    pub lines: Vec<Line>,
    /// Messages of which both ends are known.
    pub messages: Vec<Message>,
    /// How long messages took until they were served, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Bytes from a rank to another one.
    pub matrix: HashMap<(u32, u32), u64>,
    /// How long the job is known, in nanoseconds.
    pub nanos: u64,
    /// The hosts.
    pub hosts: Vec<String>,
    /// Events that are lost.
    pub n_lost: u64,
}

/// Operations that one event may stand for: more are a damaged file.
const MOST_TOGETHER: u64 = 1 << 32;

fn histogram() -> Histogram<u64> {
    Histogram::new(2).expect("two digits can be had")
}

fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    // It grows as far as is needed, up to the largest number.
    histogram.record(nanos.max(1)).ok();
}

impl Job {
    /// What traces say, whose clocks were [brought together](align::align).
    #[must_use]
    pub fn of(traces: &[Trace]) -> Self {
        let mut messages = align::messages(traces);
        // A sender notes a message when it is on its way, which may be after it has come.
        for message in &mut messages {
            message.sent = message.sent.min(message.came);
        }
        let mut latencies = histogram();
        for message in &messages {
            let took = u64::try_from(message.came - message.sent).unwrap_or(0);
            record(&mut latencies, took);
        }
        let senders = senders(traces, &messages);
        let ranks: Vec<RankSummary> = traces.iter().map(|t| summary(t, &senders)).collect();
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
        let until = ranks.iter().map(|rank| rank.until).max().unwrap_or(0);
        Self {
            n_ranks: traces.iter().map(|trace| trace.n_ranks).max().unwrap_or(0),
            lines: lines(&ranks),
            ranks,
            messages,
            latencies,
            matrix,
            nanos: u64::try_from(until).unwrap_or(0),
            hosts,
            n_lost: traces.iter().map(|trace| trace.n_lost).sum(),
        }
    }
}

/// The lines that have sent the messages that are served: by who serves and when.
fn senders(traces: &[Trace], messages: &[Message]) -> HashMap<(u32, i64), String> {
    let by_rank: HashMap<u32, &Trace> = traces.iter().map(|trace| (trace.rank, trace)).collect();
    let name = |message: &Message| {
        let sender = by_rank.get(&message.from)?;
        let name = sender.names.get(&message.name)?;
        Some(((message.to, message.came), name.clone()))
    };
    messages.iter().filter_map(name).collect()
}

fn summary(trace: &Trace, senders: &HashMap<(u32, i64), String>) -> RankSummary {
    let mut this = RankSummary {
        rank: trace.rank,
        from: trace.events.first().map_or(0, |event| event.at),
        until: trace.events.last().map_or(0, |event| event.at),
        ..RankSummary::default()
    };
    for event in &trace.events {
        this.count(event);
    }
    this.stretches = stretches(trace, senders, this.until);
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
            _ => {}
        }
    }
}

/// What a rank does, in the order of beginnings. What is not over ends `until` then.
fn stretches(trace: &Trace, senders: &HashMap<(u32, i64), String>, until: i64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    // What has begun on each thread and is not over.
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
            if let Some(of) = wait.rank {
                *line.for_rank.entry(of).or_insert(0) += nanos;
            }
        }
    }
    let mut lines: Vec<Line> = lines.into_values().collect();
    lines.sort_by(|a, b| b.nanos.cmp(&a.nanos).then_with(|| a.name.cmp(&b.name)));
    lines
}
