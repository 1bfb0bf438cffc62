//! Damaged traces and statistics with extreme numbers give a page, whatever they say.

use std::fs;
use std::path::Path;

use pgas_core::trace::{CLOCK_AT, HEADER_BYTES, Kind, MAGIC};
use pgas_report::analysis::Job;
use pgas_report::read::{Event, Trace};
use pgas_report::{align, chrome, html, read, statistics, words};
use serde_json::{Value, json};

/// The latest time that a trace is believed to have: that of fifty days.
const LATEST: u64 = (1 << 52) - 1;

/// Numbers of which damage is made.
struct Numbers(u64);

impl Numbers {
    fn any(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.any() % limit
    }

    fn of(&mut self, choice: &[u64]) -> u64 {
        choice[usize::try_from(self.below(choice.len() as u64)).unwrap()]
    }

    fn extreme(&mut self) -> u64 {
        let any = self.any();
        self.of(&[0, 1, 7, 1 << 53, u64::MAX / 2, u64::MAX - 1, u64::MAX, any])
    }
}

/// The header of a trace: rank, number of ranks, beginning, room, number of events written.
fn header(words: [u64; 5], clock: u8) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let put = |bytes: &mut Vec<u8>, word: u64| bytes.extend(word.to_le_bytes());
    words.into_iter().for_each(|word| put(&mut bytes, word));
    put(&mut bytes, 1);
    bytes.push(b'h');
    bytes.resize(CLOCK_AT, 0);
    put(&mut bytes, 1);
    bytes.push(clock);
    bytes.resize(HEADER_BYTES, 0);
    bytes
}

/// An event: its time, kind, thread, name and rank, and its numbers.
fn put_event(bytes: &mut Vec<u8>, [at, kind, thread, name, rank]: [u64; 5], numbers: [u64; 2]) {
    let what = kind | thread << 8 | name << 16 | rank << 32;
    for word in [at + 1, what, numbers[0], numbers[1]] {
        bytes.extend(word.to_le_bytes());
    }
}

fn damaged_trace(numbers: &mut Numbers, rank: u64) -> Vec<u8> {
    let any = numbers.any();
    let n_ranks = numbers.of(&[0, 3, 3, 3, u64::from(u32::MAX)]);
    let began = numbers.of(&[0, 1_000, 1_000, u64::MAX, any]);
    let words = [rank, n_ranks, began, numbers.below(5), numbers.extreme()];
    let mut bytes = header(words, b'a' + u8::try_from(numbers.below(3)).unwrap());
    for _ in 0..numbers.below(60) {
        let (soon, later) = (numbers.below(100), numbers.below(LATEST));
        let at = numbers.of(&[soon, soon, soon, later, 0, LATEST - 1]);
        let other = numbers.below(4);
        let other = numbers.of(&[other, other, u64::from(u32::MAX), u64::from(u32::MAX - 1)]);
        let what = [numbers.below(20), numbers.below(3), numbers.below(3)];
        let numbers = [(); 2].map(|()| {
            let (small, extreme) = (numbers.below(5), numbers.extreme());
            numbers.of(&[small, small, extreme])
        });
        put_event(&mut bytes, [at, what[0], what[1], what[2], other], numbers);
    }
    if numbers.below(4) == 0 {
        bytes.truncate(usize::try_from(numbers.below(bytes.len() as u64)).unwrap());
    }
    bytes
}

fn extreme_statistics(numbers: &mut Numbers) -> Value {
    let mut n = || numbers.extreme();
    let operation = json!({
        "name": "map.insert", "documented": format!("{}A + W", u64::MAX), "calls": n(),
        "elements": n(), "missed": n(), "missed_as": "met a full map", "priced": n(),
        "atomics": n(), "gets": n(), "puts": n(), "messages": n(),
        "fill": {"mean_permille": n(), "most_permille": n()},
    });
    let timed: Vec<[u64; 2]> = (0..6).map(|_| [n(), n()]).collect();
    let peers: Vec<[u64; 5]> = (0..3).map(|_| [(); 5].map(|()| n())).collect();
    let rank = n() % (1 << 32);
    json!({
        "made": u64::MAX, "operations": [operation.clone(), operation],
        "latencies": [{"operations": "gets", "ns_and_number": timed}],
        "names": [{"name": "a", "gets": n(), "puts": n(), "atomics": n(), "messages": n(),
                   "bytes": n()}],
        "imbalance": {"gets": {"least": n(), "median": n(), "most": n(), "most_rank": rank}},
        "ranks": [{"rank": 0, "peers": peers}, {"rank": rank, "peers": peers}],
    })
}

/// Makes all that the program makes of a directory; `false` if it has no trace.
fn is_shown(directory: &Path) -> bool {
    let Ok(mut traces) = read::read(directory, |_| ()) else {
        return false;
    };
    align::align(&mut traces);
    let mut job = Job::of(&traces);
    job.statistics = statistics::read(directory, &traces).unwrap();
    let hints = words::hints(&job);
    assert!(html::page(&job, &hints).ends_with("</html>\n"));
    let mut json = Vec::new();
    chrome::write(&job, &mut json).unwrap();
    serde_json::from_slice::<Value>(&json).is_ok()
}

#[test]
fn traces_and_statistics_of_any_numbers_have_a_page() {
    let mut n_shown = 0;
    for seed in 1..200_u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for rank in 0..=numbers.below(4) {
            let last = u64::from(u32::MAX);
            let number = numbers.of(&[rank, rank, rank, last]);
            let trace = damaged_trace(&mut numbers, number);
            fs::write(path(&format!("rank-{rank}.trace")), trace).unwrap();
        }
        let text = extreme_statistics(&mut numbers).to_string();
        fs::write(path(statistics::FILE), text).unwrap();
        n_shown += u32::from(is_shown(directory.path()));
    }
    assert!(n_shown > 150, "{n_shown}");
}

/// Thousands of fifty days, and twice as many lost events as can be counted.
#[test]
fn sums_beyond_all_numbers_are_the_largest_number() {
    let directory = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let mut bytes = header([rank, 2, 0, 0, u64::MAX], b'c');
        let open = [
            (Kind::Wait, 2_500),
            (Kind::Span, 2_500),
            (Kind::Begin, 2_500),
            (Kind::Phase, 5_000),
        ];
        for (thread, (kind, n)) in (0..).zip(open) {
            for object in 0..n {
                let event = [0, kind as u64, thread, 1, 1 - rank];
                put_event(&mut bytes, event, [object, 2 * object]);
            }
        }
        put_event(&mut bytes, [LATEST - 1, Kind::Left as u64, 0, 0, 0], [0; 2]);
        let path = |end: &str| directory.path().join(format!("rank-{rank}.{end}"));
        fs::write(path("trace"), bytes).unwrap();
        fs::write(path("names"), "1\ta map: atomic@a.rs:1\n").unwrap();
    }
    assert!(is_shown(directory.path()));
    let mut traces = read::read(directory.path(), |_| ()).unwrap();
    align::align(&mut traces);
    let job = Job::of(&traces);
    assert_eq!(job.n_lost, u64::MAX);
    for lines in [&job.lines, &job.spans, &job.served] {
        assert_eq!(lines[0].nanos, u64::MAX);
    }
}

/// Each of a row of hosts has messages with the next one alone.
#[test]
fn clocks_of_thousands_of_hosts_differ_by_a_bounded_time() {
    let host = |rank: u32| {
        let event = |other: u32, kind, at: u64, number| Event {
            at: at.try_into().unwrap(),
            kind,
            thread: 1,
            name: 0,
            rank: Some(other),
            numbers: [0, number],
        };
        // A message to the next one takes fifty days, and one back comes as long before.
        let next = rank + 1;
        let before = rank.wrapping_sub(1);
        let events = vec![
            event(next, Kind::Send, 0, 0),
            event(next, Kind::Arrival, 0, 2),
            event(before, Kind::Arrival, LATEST - 1, 0),
            event(before, Kind::Send, LATEST - 1, 2),
        ];
        Trace {
            rank,
            host: format!("host {rank:05}"),
            events,
            ..Trace::default()
        }
    };
    let mut traces: Vec<Trace> = (0..2_100).map(host).collect();
    align::align(&mut traces);
    let events = traces.iter().flat_map(|trace| &trace.events);
    let latest = events.map(|event| event.at).max();
    assert!(latest.is_some_and(|at| at < 1 << 54), "{latest:?}");
    assert_eq!(Job::of(&traces).messages.len(), 2 * 2_099);
}
