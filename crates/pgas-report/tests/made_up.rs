//! What is shown of made-up events, whose times and threads are known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use pgas_core::trace::Kind;
use pgas_report::analysis::Job;
use pgas_report::chrome;
use pgas_report::read::{Event, Trace};
use serde_json::Value;

/// An event: its kind, thread, time in milliseconds, name, other rank and numbers.
type Made = (Kind, u8, i64, &'static str, Option<u32>, [u64; 2]);

/// The trace of a rank of four with these events.
fn trace(rank: u32, events: &[Made]) -> Trace {
    let mut trace = Trace {
        rank,
        n_ranks: 4,
        host: "one".to_owned(),
        ..Trace::default()
    };
    for (number, &(kind, thread, millis, name, other, numbers)) in (1..).zip(events) {
        if !name.is_empty() {
            trace.names.insert(number, name.to_owned());
        }
        trace.events.push(Event {
            at: millis * 1_000_000,
            kind,
            thread,
            name: number,
            rank: other,
            numbers,
        });
    }
    trace
}

/// The events of `trace.json`.
fn for_perfetto(traces: &[Trace]) -> Vec<Value> {
    let mut json = Vec::new();
    chrome::write(&Job::of(traces), &mut json).unwrap();
    let mut json: Value = serde_json::from_slice(&json).unwrap();
    serde_json::from_value(json["traceEvents"].take()).unwrap()
}

#[test]
fn arrows_meet_the_named_handler_and_every_event_is_in_the_other_file() {
    use Kind::{Arrival, Atomic, Begin, Collective, End, Get, Left, Put, Refusal, Send};
    const LINE: &str = "@src/main.rs:5";
    // The message of a handler, a collective's, and one whose other end is lost.
    let sender = trace(
        0,
        &[
            (Send, 1, 2, LINE, Some(1), [8, 0]),
            (Send, 1, 3, "", Some(1), [9, 2]),
            (Send, 1, 4, LINE, Some(2), [7, 0]),
            (Get, 2, 5, "", Some(1), [16, 2]),
            (Put, 2, 6, "", Some(1), [32, 4]),
            (Atomic, 2, 7, "", Some(1), [8, 1]),
            (Refusal, 2, 8, "", Some(1), [0, 0]),
            (Left, 1, 9, "", None, [0, 0]),
        ],
    );
    let server = trace(
        1,
        &[
            (Begin, 3, 4, "", Some(0), [8, 0]),
            (End, 3, 6, "", Some(0), [0, 0]),
            (
                Collective,
                3,
                6,
                "an allreduce@src/main.rs:9",
                None,
                [24, 0],
            ),
            (Arrival, 3, 7, "", Some(0), [9, 2]),
        ],
    );
    let all = for_perfetto(&[sender, server]);
    let of = |ph: &str, pid: u32| -> Vec<String> {
        let events = all.iter().filter(|e| e["ph"] == ph && e["pid"] == pid);
        let text = |e: &Value| format!("{} {} {}", e["tid"], e["ts"], e["name"].as_str().unwrap());
        events.map(text).collect()
    };
    // An arrow ends in the slice of the handler, on its thread, or else in a short one.
    assert_eq!(of("s", 0), ["1 2000.0 message", "1 3000.0 message"]);
    assert_eq!(of("X", 0), ["1 2000.0 send", "1 3000.0 send"]);
    assert_eq!(of("f", 1), ["3 4000.0 message", "3 7000.0 message"]);
    assert_eq!(
        of("X", 1),
        ["3 4000.0 serve src/main.rs:5", "3 7000.0 arrive"]
    );
    let operations = [
        "1 4000.0 send",
        "2 5000.0 get",
        "2 6000.0 put",
        "2 7000.0 atomic",
    ];
    assert_eq!(of("i", 0)[..4], operations);
    assert_eq!(
        of("i", 0)[4..],
        ["2 8000.0 no room", "1 9000.0 leaves the job"]
    );
    assert_eq!(of("i", 1), ["3 6000.0 an allreduce"]);
}
