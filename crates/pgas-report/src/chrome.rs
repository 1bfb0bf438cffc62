//! A trace in the format of Chrome's and Perfetto's viewers.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::analysis::{Doing, Job};
use crate::phases::Phase;
use crate::read::what_and_where;

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds with a fraction are the format's"
)]
fn micros(nanos: i64) -> f64 {
    nanos as f64 / 1000.0
}

/// Ranks and their phases.
fn phases(job: &Job) -> impl Iterator<Item = (u32, &Phase)> {
    let ranks = job.ranks.iter();
    ranks.flat_map(|rank| rank.phases.iter().map(move |phase| (rank.rank, phase)))
}

/// Writes `job` as a list of trace events, with a process for each rank, a row for the phases of
/// each container and an arrow for each message.
///
/// # Errors
///
/// The errors of `out`.
pub fn write(job: &Job, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut is_first = true;
    let mut put = |event: &Value| {
        if !std::mem::take(&mut is_first) {
            out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *out, event).map_err(io::Error::from)
    };
    for rank in &job.ranks {
        let name = format!("rank {}", rank.rank);
        put(&json!({"ph": "M", "name": "process_name", "pid": rank.rank, "args": {"name": name}}))?;
        put(
            &json!({"ph": "M", "name": "process_sort_index", "pid": rank.rank,
                    "args": {"sort_index": rank.rank}}),
        )?;
        for stretch in &rank.stretches {
            let (what, at) = what_and_where(&stretch.name);
            let (category, name) = match stretch.doing {
                Doing::Waits => ("wait", format!("wait for {what}")),
                Doing::Serves => ("serve", format!("serve {what}")),
                Doing::Span => ("span", stretch.name.clone()),
            };
            put(&json!({
                "ph": "X", "cat": category, "name": name, "pid": rank.rank, "tid": stretch.thread,
                "ts": micros(stretch.from), "dur": micros(stretch.until - stretch.from),
                "args": {"at": at, "rank": stretch.rank, "over": stretch.is_over},
            }))?;
        }
    }
    for (rank, phase) in phases(job) {
        let (what, at) = what_and_where(&phase.name);
        // A row of its own for each object, beside the threads of the rank.
        let id = format!("{:x}", phase.object);
        for (kind, time) in [("b", phase.from), ("e", phase.until)] {
            put(
                &json!({"ph": kind, "cat": "phase", "name": what, "id2": {"local": id}, "pid": rank,
                        "tid": 0, "ts": micros(time), "args": {"at": at}}),
            )?;
        }
    }
    for (id, message) in job.messages.iter().enumerate() {
        let args = json!({"bytes": message.bytes});
        for (kind, rank, at) in [
            ("s", message.from, message.sent),
            ("f", message.to, message.came),
        ] {
            // The slice at which the arrow ends.
            put(
                &json!({"ph": "X", "cat": "message", "name": if kind == "s" { "send" } else { "arrive" },
                        "pid": rank, "tid": 0, "ts": micros(at), "dur": 0.001, "args": args}),
            )?;
            put(
                &json!({"ph": kind, "bp": "e", "cat": "message", "name": "message", "id": id,
                        "pid": rank, "tid": 0, "ts": micros(at)}),
            )?;
        }
    }
    out.write_all(b"\n]}\n")
}
