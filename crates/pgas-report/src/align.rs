//! Clock alignment.
//!
//! Ranks of one host share a clock. The clocks of several hosts are aligned by messages: no message
//! arrives before it was sent. So the smallest difference in each direction bounds the offset of
//! two clocks, and the middle between the bounds is taken (Cristian's algorithm with the recorded
//! messages).

use std::collections::{BTreeMap, HashMap};

use pgas_core::trace::Kind;

use crate::read::{LONGEST, Trace};

/// A message with the times of sending and serving, in nanoseconds since the start of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub from: u32,
    /// The time of sending.
    pub sent: i64,
    /// The receiver.
    pub to: u32,
    /// The time of serving.
    pub came: i64,
    /// Its bytes.
    pub bytes: u64,
    /// The line that sent it, as the number of a name of the sender.
    pub name: u16,
    /// Its number among the messages from `from` to `to`.
    pub number: u64,
    /// The threads that sent and served it.
    pub threads: [u8; 2],
    /// Whether a handler has served it. It is a part of a collective otherwise.
    pub has_handler: bool,
}

/// The messages with both ends traced.
#[must_use]
pub fn messages(traces: &[Trace]) -> Vec<Message> {
    let mut sent = HashMap::new();
    for trace in traces {
        for event in trace.events.iter().filter(|event| event.kind == Kind::Send) {
            if let Some(to) = event.rank {
                sent.insert((trace.rank, to, event.numbers[1]), *event);
            }
        }
    }
    let mut messages = Vec::new();
    for trace in traces {
        let is_end = |kind| matches!(kind, Kind::Begin | Kind::Arrival);
        for event in trace.events.iter().filter(|event| is_end(event.kind)) {
            let key = event.rank.map(|from| (from, trace.rank, event.numbers[1]));
            if let Some((from, to, number)) = key
                && let Some(send) = key.and_then(|key| sent.get(&key))
            {
                messages.push(Message {
                    from,
                    sent: send.at,
                    to,
                    came: event.at,
                    bytes: send.numbers[0],
                    name: send.name,
                    number,
                    threads: [send.thread, event.thread],
                    has_handler: event.kind == Kind::Begin,
                });
            }
        }
    }
    messages
}

/// Converts the times of all events to nanoseconds since the start of the first rank.
pub fn align(traces: &mut [Trace]) {
    let first = traces.iter().map(|trace| trace.began).min().unwrap_or(0);
    for trace in traces.iter_mut() {
        let since = i64::try_from(trace.began - first);
        let since = since.ok().filter(|since| *since < LONGEST).unwrap_or(0);
        trace.events.iter_mut().for_each(|event| event.at += since);
    }
    let offsets = offsets(traces);
    for trace in traces.iter_mut() {
        let offset = offsets.get(trace.clock()).copied().unwrap_or(0);
        trace.events.iter_mut().for_each(|event| event.at -= offset);
    }
    let earliest = traces.iter().filter_map(|trace| trace.events.first());
    let earliest = earliest.map(|event| event.at).min().unwrap_or(0);
    for trace in traces {
        trace
            .events
            .iter_mut()
            .for_each(|event| event.at -= earliest);
    }
}

/// The offset of each clock to that of the first rank.
fn offsets(traces: &[Trace]) -> BTreeMap<String, i64> {
    let hosts: HashMap<u32, &str> = traces.iter().map(|t| (t.rank, t.clock())).collect();
    let mut known = BTreeMap::new();
    let Some(reference) = traces.first().map(Trace::clock) else {
        return known;
    };
    known.insert(reference.to_owned(), 0);
    if hosts.values().all(|host| *host == reference) {
        return known;
    }
    // The smallest difference between sending and arrival, from one host to another.
    let mut least = Pairs::new();
    for message in messages(traces) {
        let (from, to) = (hosts[&message.from], hosts[&message.to]);
        if from != to {
            let took = message.came - message.sent;
            let least = least.entry((from, to)).or_insert(took);
            *least = took.min(*least);
        }
    }
    // From known hosts to their neighbours, as long as there are any: the pairs of which the first
    // host is known.
    let mut pairs = pairs_of(&least, reference);
    while let Some(((from, to), there)) = pairs.pop_first() {
        if let (Some(back), false) = (least.get(&(to, from)), known.contains_key(to)) {
            // Over many damaged traces it would grow without a bound.
            let offset = known[from] + (there - back) / 2;
            known.insert(to.to_owned(), offset.clamp(-LONGEST, LONGEST));
            pairs.append(&mut pairs_of(&least, to));
        }
    }
    known
}

type Pairs<'a> = BTreeMap<(&'a str, &'a str), i64>;

/// The pairs of which a host is the first one.
fn pairs_of<'a>(all: &Pairs<'a>, host: &'a str) -> Pairs<'a> {
    let pairs = all.range((host, "")..);
    let pairs = pairs.take_while(|((from, _), _)| *from == host);
    pairs.map(|(pair, took)| (*pair, *took)).collect()
}
