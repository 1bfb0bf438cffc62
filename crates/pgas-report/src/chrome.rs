//! A trace in the format of Chrome's and Perfetto's viewers.

use std::io::{self, Write};

use pgas_core::trace::Kind;
use serde_json::{Value, json};

use crate::align::Message;
use crate::analysis::{Job, RankSummary};
use crate::phases::Phase;
use crate::read::what_and_where;
use crate::stretches::{Doing, Moment, Stretch};

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds with a fraction are the format's"
)]
fn micros(nanos: i64) -> f64 {
    nanos as f64 / 1000.0
}

/// Writes `job` as a list of trace events, with a process for each rank, a row for the phases of
/// each container and an arrow for each message. Every event of the traces is in it.
///
/// # Errors
///
/// The errors of `out`.
pub fn write(job: &Job, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut is_first = true;
    let mut put = |event: Value| {
        if !std::mem::take(&mut is_first) {
            out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *out, &event).map_err(io::Error::from)
    };
    for rank in &job.ranks {
        names_of_rank(rank).into_iter().try_for_each(&mut put)?;
        let mut stretches = rank.stretches.iter();
        stretches.try_for_each(|one| put(stretch(rank.rank, one)))?;
        let mut moments = rank.moments.iter();
        moments.try_for_each(|one| put(moment(rank.rank, one)))?;
        for one in &rank.phases {
            phase(rank.rank, one).into_iter().try_for_each(&mut put)?;
        }
    }
    // Behind the slices of handlers: an arrow ends at a slice that has begun.
    for (id, message) in job.messages.iter().enumerate() {
        arrow(id, message).into_iter().try_for_each(&mut put)?;
    }
    out.write_all(b"\n]}\n")
}

fn names_of_rank(rank: &RankSummary) -> [Value; 2] {
    let rank = rank.rank;
    let name = format!("rank {rank}");
    [
        json!({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": name}}),
        json!({"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}),
    ]
}

/// The slice of a wait, of a handler or of a span.
fn stretch(rank: u32, stretch: &Stretch) -> Value {
    let (what, at) = what_and_where(&stretch.name);
    let (category, name) = match stretch.doing {
        Doing::Waits => ("wait", format!("wait for {what}")),
        // The name of a message is the line that has sent it.
        Doing::Serves if what.is_empty() => ("serve", format!("serve {at}")),
        Doing::Serves => ("serve", format!("serve {what} of {at}")),
        Doing::Span => ("span", stretch.name.clone()),
    };
    json!({
        "ph": "X", "cat": category, "name": name, "pid": rank, "tid": stretch.thread,
        "ts": micros(stretch.from), "dur": micros(stretch.until - stretch.from),
        "args": {"at": at, "rank": stretch.rank, "over": stretch.is_over},
    })
}

/// The mark of an event without a duration.
fn moment(rank: u32, Moment { event, name }: &Moment) -> Value {
    let [first, second] = event.numbers;
    let (what, at) = what_and_where(name);
    let other = event.rank;
    let (name, args) = match event.kind {
        Kind::Get => (
            "get",
            json!({"rank": other, "bytes": first, "operations": second}),
        ),
        Kind::Put => (
            "put",
            json!({"rank": other, "bytes": first, "operations": second}),
        ),
        Kind::Atomic => (
            "atomic",
            json!({"rank": other, "bytes": first, "operations": second}),
        ),
        Kind::Send => ("send", json!({"rank": other, "bytes": first, "at": at})),
        Kind::Arrival => ("arrive", json!({"rank": other, "bytes": first})),
        Kind::Collective => (what, json!({"at": at, "bytes": first})),
        Kind::Refusal => ("no room", json!({"rank": other})),
        Kind::Missing => ("waits for a rank", json!({"rank": other})),
        _ => ("leaves the job", json!({})),
    };
    json!({"ph": "i", "s": "t", "cat": "event", "name": name, "pid": rank, "tid": event.thread,
           "ts": micros(event.at), "args": args})
}

/// Both ends of a phase, in a row of its own for each object, beside the threads of the rank.
fn phase(rank: u32, phase: &Phase) -> [Value; 2] {
    let (what, at) = what_and_where(&phase.name);
    let id = format!("{:x}", phase.object);
    [("b", phase.from), ("e", phase.until)].map(|(kind, time)| {
        json!({"ph": kind, "cat": "phase", "name": what, "id2": {"local": id}, "pid": rank,
               "tid": 0, "ts": micros(time), "args": {"at": at}})
    })
}

/// The arrow of a message, from a slice of its sender to the slice of its handler.
fn arrow(id: usize, message: &Message) -> Vec<Value> {
    let [sends, serves] = message.threads;
    let mut events = Vec::new();
    for (kind, rank, thread, at) in [
        ("s", message.from, sends, message.sent),
        ("f", message.to, serves, message.came),
    ] {
        // What has no slice gets a short one.
        if kind == "s" || !message.has_handler {
            let name = if kind == "s" { "send" } else { "arrive" };
            events.push(
                json!({"ph": "X", "cat": "message", "name": name, "pid": rank, "tid": thread,
                       "ts": micros(at), "dur": 0.001, "args": {"bytes": message.bytes}}),
            );
        }
        events.push(
            json!({"ph": kind, "bp": "e", "cat": "message", "name": "message", "id": id,
                   "pid": rank, "tid": thread, "ts": micros(at)}),
        );
    }
    events
}
