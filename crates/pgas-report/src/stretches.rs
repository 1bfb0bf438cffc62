//! The activities of a rank: waits, handlers and spans, and events without a duration.

use std::collections::{BTreeMap, HashMap, HashSet};

use pgas_core::trace::Kind;

use crate::align::Message;
use crate::read::{Event, Trace};
use crate::units::add;

/// The activity of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// The name of a wait or a span, or the line that sent the message: `@file:line`. A reply that
    /// was sent while its request was served has the line of that: `a reply@file:line`. If
    /// several requests of its receiver were served then, one within another, that is the innermost
    /// one, though another may be meant.
    pub name: String,
    /// The last rank that a wait was for, or the sender of the message.
    pub rank: Option<u32>,
    /// The rank that a wait was for in the end: not one that itself waited for another meanwhile.
    pub cause: Option<u32>,
    /// Whether its end was recorded.
    pub is_over: bool,
}

impl Stretch {
    /// Its duration, in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> u64 {
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

/// What is known of messages by both of their ends.
pub(crate) struct Known {
    /// The lines that have sent the served messages, by receiver and time; of replies those of
    /// their requests.
    senders: HashMap<(u32, i64), String>,
    /// Sender, receiver and number of each.
    messages: HashSet<(u32, u32, u64)>,
}

impl Known {
    pub(crate) fn of(traces: &[Trace], messages: &[Message]) -> Self {
        let by_rank: HashMap<u32, &Trace> =
            traces.iter().map(|trace| (trace.rank, trace)).collect();
        let lines = messages.iter().filter_map(|message| {
            let line = by_rank.get(&message.from)?.names.get(&message.name)?;
            Some(((message.to, message.came), line.as_str()))
        });
        let lines: HashMap<(u32, i64), &str> = lines.collect();
        let requests = requests(traces);
        let name = |message: &Message| {
            let served = (message.to, message.came);
            let own = lines.get(&served);
            if message.number.is_multiple_of(2) {
                return own.map(|line| (served, (*line).to_owned()));
            }
            // Mostly the library sends it, for the program's function.
            let request = requests.get(&(message.from, message.to, message.number));
            let request = request.and_then(|came| lines.get(&(message.from, *came)));
            request
                .or(own)
                .map(|line| (served, format!("a reply{line}")))
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

/// The times at which the requests came whose handlers have sent replies, by sender, receiver and
/// number of the reply.
fn requests(traces: &[Trace]) -> HashMap<(u32, u32, u64), i64> {
    let mut requests = HashMap::new();
    for trace in traces {
        // The messages that each thread serves, and the requests of each rank among them, the
        // innermost last. A reply that is served answers this rank.
        let mut served: HashMap<u8, Vec<&Event>> = HashMap::new();
        let mut open: HashMap<(u8, Option<u32>), Vec<i64>> = HashMap::new();
        let is_request = |event: &Event| event.numbers[1].is_multiple_of(2);
        for event in &trace.events {
            let of_thread = served.entry(event.thread).or_default();
            match event.kind {
                Kind::Begin => {
                    of_thread.push(event);
                    if is_request(event) {
                        let of_rank = open.entry((event.thread, event.rank));
                        of_rank.or_default().push(event.at);
                    }
                }
                Kind::End => {
                    if let Some(over) = of_thread.pop().filter(|over| is_request(over)) {
                        let of_rank = open.entry((over.thread, over.rank));
                        of_rank.or_default().pop();
                    }
                }
                Kind::Send if !is_request(event) => {
                    let request = open.get(&(event.thread, event.rank));
                    let request = request.and_then(|of_rank| of_rank.last());
                    if let (Some(request), Some(to)) = (request, event.rank) {
                        requests.insert((trace.rank, to, event.numbers[1]), *request);
                    }
                }
                _ => {}
            }
        }
    }
    requests
}

/// The events of a rank that begin or end nothing, but messages that have an arrow.
pub(crate) fn moments(trace: &Trace, known: &Known) -> Vec<Moment> {
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

/// The intervals of a rank, in the order of their starts. Those whose starts are lost begin with the
/// trace, and open ones end at `until`.
pub(crate) fn stretches(trace: &Trace, known: &Known, until: i64) -> Vec<Stretch> {
    let from = trace.events.first().map_or(0, |event| event.at);
    let mut stretches = Vec::new();
    let mut open = Open::default();
    for event in &trace.events {
        let (doing, is_start) = match event.kind {
            Kind::Wait => (Doing::Waits, true),
            Kind::Waited | Kind::Missing => (Doing::Waits, false),
            Kind::Begin => (Doing::Serves, true),
            Kind::End => (Doing::Serves, false),
            Kind::Span => (Doing::Span, true),
            Kind::SpanEnd => (Doing::Span, false),
            _ => continue,
        };
        let begun = |from| Stretch {
            from,
            until,
            doing,
            thread: event.thread,
            name: match doing {
                Doing::Serves => known.senders.get(&(trace.rank, event.at)).cloned(),
                _ => Some(trace.name(event).to_owned()),
            }
            .unwrap_or_else(|| "a message".to_owned()),
            rank: event.rank,
            cause: None,
            is_over: false,
        };
        let key = Open::key(event, doing);
        if is_start {
            open.push(key, begun(event.at));
            continue;
        }
        // The end of a handler does not say which message it had, but from whom it was.
        let stretch = open.innermost(key, || begun(from));
        stretch.rank = event.rank.or(stretch.rank);
        if event.kind != Kind::Missing {
            stretch.until = event.at;
            stretch.is_over = true;
            stretches.extend(open.pop(key));
        }
    }
    stretches.extend(open.stretches.into_values());
    // Of those with the same times, the one that has ended first is within the others.
    stretches.reverse();
    stretches.sort_by_key(|stretch| (stretch.from, -stretch.until));
    stretches
}

/// What intervals have in common of which an event may end one: the thread, the activity, and the
/// number of the name.
type Key = (u8, Doing, u16);

/// The open intervals of a rank. They may end in any order, and a damaged trace has many.
#[derive(Default)]
struct Open {
    /// In the order in which they were begun.
    stretches: BTreeMap<usize, Stretch>,
    /// The places of those of each key, the innermost last.
    places: HashMap<Key, Vec<usize>>,
    /// The number of those that were begun.
    n: usize,
}

impl Open {
    /// The end of a handler does not say a name.
    fn key(event: &Event, doing: Doing) -> Key {
        let name = if doing == Doing::Serves {
            0
        } else {
            event.name
        };
        (event.thread, doing, name)
    }

    fn push(&mut self, key: Key, stretch: Stretch) -> usize {
        let place = self.n;
        self.places.entry(key).or_default().push(place);
        self.stretches.insert(place, stretch);
        self.n += 1;
        place
    }

    /// The innermost one; if there is none, `begun` makes it.
    fn innermost(&mut self, key: Key, begun: impl Fn() -> Stretch) -> &mut Stretch {
        let place = self.places.get(&key).and_then(|of_key| of_key.last());
        let place = place.copied().unwrap_or_else(|| self.push(key, begun()));
        self.stretches.entry(place).or_insert_with(begun)
    }

    fn pop(&mut self, key: Key) -> Option<Stretch> {
        let place = self.places.get_mut(&key)?.pop()?;
        self.stretches.remove(&place)
    }
}

/// For each of a rank's stretches the innermost one of its thread within which it begins.
pub(crate) fn outer(stretches: &[Stretch]) -> Vec<Option<usize>> {
    // The stretches of each thread that have begun, the innermost last.
    let mut open: HashMap<u8, Vec<usize>> = HashMap::new();
    let outer = stretches.iter().enumerate().map(|(index, stretch)| {
        let open = open.entry(stretch.thread).or_default();
        while open
            .pop_if(|last| stretches[*last].until <= stretch.from)
            .is_some()
        {}
        let outer = open.last().copied();
        open.push(index);
        outer
    });
    outer.collect()
}

/// The time in which a rank does something, in nanoseconds: a wait within a wait counts once.
pub(crate) fn sum(stretches: &[Stretch], doing: Doing) -> u64 {
    let mut is_within = vec![false; stretches.len()];
    let mut sum = 0;
    for (index, outer) in outer(stretches).into_iter().enumerate() {
        is_within[index] =
            outer.is_some_and(|outer| is_within[outer] || stretches[outer].doing == doing);
        if stretches[index].doing == doing && !is_within[index] {
            add(&mut sum, stretches[index].nanos());
        }
    }
    sum
}
