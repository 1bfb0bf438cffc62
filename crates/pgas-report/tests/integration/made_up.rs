//! What is shown of made-up events, whose times and threads are known.

use pgas_core::trace::Kind;
use pgas_report::analysis::Job;
use pgas_report::read::{self, Event, Trace};
use pgas_report::{chrome, words};
use serde_json::Value;

/// An event: its kind, thread, time in milliseconds, name, other rank and numbers.
type Made = (Kind, u8, i64, &'static str, Option<u32>, [u64; 2]);

/// The trace of a rank of four with these events. An end without a name is that of the wait or span
/// that has begun last.
fn trace(rank: u32, events: &[Made]) -> Trace {
    let mut trace = Trace {
        rank,
        n_ranks: 4,
        host: "one".to_owned(),
        ..Trace::default()
    };
    let (mut texts, mut begun) = (vec![""], Vec::new());
    for &(kind, thread, millis, name, other, numbers) in events {
        let known = texts.iter().position(|text| *text == name);
        let mut number = known.unwrap_or(texts.len());
        texts.extend(known.is_none().then_some(name));
        match kind {
            Kind::Wait | Kind::Span => begun.push(number),
            Kind::Waited | Kind::SpanEnd if name.is_empty() => {
                number = begun.pop().unwrap_or(0);
            }
            _ => {}
        }
        let number = number.try_into().unwrap();
        trace.events.push(Event {
            at: millis * 1_000_000,
            kind,
            thread,
            name: number,
            rank: other,
            numbers,
        });
    }
    let named = (0..).zip(texts).skip(1);
    trace.names = named.map(|(i, text)| (i, text.to_owned())).collect();
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

/// The page of a job, without the places where lines may break.
fn page_of(job: &Job) -> String {
    pgas_report::html::page(job, &[]).replace("<wbr>", "")
}

/// The cells of the first row of a page that has this text in its heading.
fn row(page: &str, heading: &str) -> String {
    let is_it = |line: &&str| line.contains("scope=\"row\"") && line.contains(heading);
    let line = page.lines().find(is_it);
    let line = line.unwrap_or_else(|| panic!("{heading}: {page}"));
    let (_, cells) = line.split_once("</th>").unwrap();
    cells
        .split("</td>")
        .map(|cell| cell.split_once('>').map_or("", |(_, text)| text))
        .collect::<Vec<_>>()
        .join("|")
        .replace('\u{a0}', " ")
}

/// A job whose rank 1 serves messages of rank 0, which is in two spans.
fn served() -> Job {
    use Kind::{Begin, Collective, End, Send, Span, SpanEnd, Wait, Waited};
    const LINE: &str = "@src/main.rs:5";
    const ALL: &str = "an allreduce@src/main.rs:9";
    let sender = trace(
        0,
        &[
            (Span, 1, 0, "read & sort", None, [0, 0]),
            (Send, 1, 1, LINE, Some(1), [8, 0]),
            (Send, 1, 1, LINE, Some(1), [8, 2]),
            (Send, 1, 29, "@src/lib.rs:4", Some(1), [4, 1]),
            (SpanEnd, 1, 40, "", None, [0, 0]),
            (Span, 1, 40, "write", None, [0, 0]),
            (SpanEnd, 1, 60, "", None, [0, 0]),
            (Collective, 1, 60, ALL, None, [1024, 0]),
            (Wait, 1, 60, ALL, None, [0, 0]),
            (Begin, 1, 70, "", Some(1), [4, 1]),
            (End, 1, 70, "", None, [0, 0]),
            (Begin, 1, 80, "", Some(1), [4, 3]),
            (End, 1, 80, "", None, [0, 0]),
            (Waited, 1, 100, "", Some(1), [0, 0]),
        ],
    );
    let server = trace(
        1,
        &[
            (Span, 1, 0, "read & sort", None, [0, 0]),
            (SpanEnd, 1, 10, "", None, [0, 0]),
            (Begin, 1, 10, "", Some(0), [8, 0]),
            // Its handler waits, in which another rank's request is served, and a reply.
            (Begin, 1, 30, "", Some(2), [8, 0]),
            (Begin, 1, 30, "", Some(0), [4, 1]),
            (Send, 1, 30, "@am/src/serve.rs:7", Some(0), [4, 3]),
            (End, 1, 30, "", None, [0, 0]),
            (End, 1, 30, "", None, [0, 0]),
            (End, 1, 40, "", None, [0, 0]),
            (Begin, 1, 40, "", Some(0), [8, 2]),
            (End, 1, 50, "", None, [0, 0]),
            (Send, 1, 50, "@src/lib.rs:2", Some(0), [4, 1]),
            (Collective, 1, 100, ALL, None, [1024, 0]),
        ],
    );
    Job::of(&[sender, server])
}

#[test]
fn spans_served_messages_and_collectives_have_tables_and_the_timeline_names() {
    let job = served();
    let page = page_of(&job);
    // Share, time, number, median, 99 %, longest; ranks, least, most.
    let span = row(&page, "read &amp; sort");
    assert!(span.starts_with("25 %|50.0 ms|2|"), "{span}");
    assert!(
        span.ends_with("|2|rank 1 (10.0 ms)|rank 0 (40.0 ms)|"),
        "{span}"
    );
    assert!(row(&page, ">write<").ends_with("|1|rank 0 (20.0 ms)|rank 0 (20.0 ms)|"));
    let served = row(&page, "<code>src/main.rs:5</code>");
    assert!(served.starts_with("request|20 %|40.0 ms|2|"), "{served}");
    assert!(served.ends_with("|rank 0|rank 1 (40.0 ms)|"), "{served}");
    // The reply of a handler has the line of the request, a later one the line that sends it.
    const LINE: &str = "<code>src/main.rs:5</code>";
    let reply = row(page.split_once(LINE).unwrap().1, LINE);
    assert!(reply.starts_with("reply|0 %|0 ns|1|"), "{reply}");
    let reply = row(&page, "<code>src/lib.rs:2</code>");
    assert!(reply.starts_with("reply|0 %|0 ns|1|"), "{reply}");
    // The waits have the name of the collective, too, and their table comes first.
    let collectives = page.split_once("id=\"collectives\"").unwrap().1;
    let calls = row(collectives, "<code>src/main.rs:9</code>");
    assert_eq!(calls, "an allreduce|2|2|2.0 KiB|40.0 ms|");
    for bar in [
        "class=\"span\"><title>span read &amp; sort, 40.0 ms</title>",
        "class=\"span\"><title>span write, 20.0 ms</title>",
        "class=\"span-name\">read &amp; sort</text>",
        "class=\"waits\"><title>waits for an allreduce at src/main.rs:9, 40.0 ms</title>",
        "class=\"serves\"><title>serves messages of src/main.rs:5, 40.0 ms</title>",
    ] {
        assert!(page.contains(bar), "{bar}: {page}");
    }
    let hints = words::hints(&job);
    let busy = "rank 1 serves messages for 40 % of its time, mostly those sent at src/main.rs:5 and by rank 0";
    assert!(hints.iter().any(|hint| hint == busy), "{hints:#?}");
}

#[test]
fn messages_that_are_served_within_a_wait_are_no_part_of_it() {
    use Kind::{Begin, End, Wait, Waited};
    const BARRIER: &str = "a barrier@src/main.rs:9";
    let busy = trace(
        0,
        &[
            (Wait, 1, 0, BARRIER, None, [0, 0]),
            (Begin, 1, 5, "", Some(1), [8, 0]),
            (End, 1, 95, "", None, [0, 0]),
            (Waited, 1, 100, "", Some(1), [0, 0]),
        ],
    );
    // It waits for the first one, in two waits of which one lies within the other.
    let waiting = trace(
        1,
        &[
            (Wait, 1, 0, "a future@src/main.rs:7", None, [0, 0]),
            (Wait, 1, 10, "a reply@src/main.rs:8", None, [0, 0]),
            (Waited, 1, 90, "", Some(0), [0, 0]),
            (Waited, 1, 100, "", None, [0, 0]),
        ],
    );
    let job = Job::of(&[busy, waiting]);
    assert_eq!(job.ranks[1].waits, 100_000_000);
    let page = page_of(&job);
    let bar = "class=\"serves\"><title>serves messages of an unknown line, 90.0 ms</title>";
    assert!(page.contains(bar), "{page}");
    let hints = words::hints(&job);
    let told = hints.iter().find(|hint| hint.contains("a reply"));
    assert!(
        told.is_some_and(|hint| hint.ends_with("for rank 0, which serves messages meanwhile")),
        "{hints:#?}"
    );
}

/// The stretches of a rank in the order of their starts: the name, the start, the end, and whether
/// the end is known.
fn stretches(events: &[Made]) -> Vec<(String, i64, i64, bool)> {
    let job = Job::of(&[trace(0, events)]);
    let stretches = job.ranks[0].stretches.iter();
    let ms = |nanos: i64| nanos / 1_000_000;
    let of = stretches.map(|s| (s.name.clone(), ms(s.from), ms(s.until), s.is_over));
    of.collect()
}

#[test]
fn spans_end_by_their_names_in_whatever_order() {
    use Kind::{Span, SpanEnd};
    let event = |kind, millis, name| (kind, 1, millis, name, None, [0, 0]);
    let spans = stretches(&[
        event(Span, 0, "a"),
        event(Span, 1, "b"),
        event(SpanEnd, 4, "a"),
        event(SpanEnd, 9, "b"),
    ]);
    let [a, b] = ["a", "b"].map(str::to_owned);
    assert_eq!(spans, [(a, 0, 4, true), (b, 1, 9, true)]);
}

#[test]
fn what_has_begun_before_the_first_event_begins_with_it() {
    use Kind::{Begin, End, Left, Missing, Span, SpanEnd, Wait, Waited};
    const BARRIER: &str = "a barrier@src/main.rs:9";
    let event = |kind, millis, name| (kind, 1, millis, name, Some(1), [0, 0]);
    let barrier = || BARRIER.to_owned();
    let still = stretches(&[event(Missing, 10, BARRIER), event(Missing, 110, BARRIER)]);
    assert_eq!(still, [(barrier(), 10, 110, false)]);
    let over = stretches(&[
        event(Begin, 10, ""),
        event(End, 20, ""),
        event(End, 30, ""),
        event(Waited, 40, BARRIER),
        event(Wait, 50, BARRIER),
        event(Waited, 60, BARRIER),
        event(Span, 60, "inner"),
        event(SpanEnd, 70, "outer"),
        event(SpanEnd, 80, "inner"),
        event(Left, 90, ""),
    ]);
    let text = str::to_owned;
    assert_eq!(
        over,
        [
            (text("outer"), 10, 70, true),
            (barrier(), 10, 40, true),
            (text("a message"), 10, 30, true),
            (text("a message"), 10, 20, true),
            (barrier(), 50, 60, true),
            (text("inner"), 60, 80, true),
        ]
    );
}

/// What stays open would be looked through for each of what ends or is sent.
#[test]
fn hundreds_of_thousands_of_open_stretches_are_read_as_a_few() {
    use Kind::{Begin, Send, Wait, Waited};
    let n: usize = 100_000;
    let mut many = trace(0, &[]);
    many.names = [
        (1, "a lock@a.rs:1".to_owned()),
        (2, "a lock@a.rs:2".to_owned()),
    ]
    .into();
    let mut at = 0;
    let mut event = |kind, thread, name, numbers| {
        at += 1;
        let rank = (kind != Begin).then_some(1);
        let events = &mut many.events;
        events.push(Event {
            at,
            kind,
            thread,
            name,
            rank,
            numbers,
        });
    };
    for _ in 0..n {
        event(Wait, 1, 1, [0, 0]);
        event(Begin, 3, 0, [0, 0]);
    }
    for _ in 0..n {
        event(Waited, 2, 2, [0, 0]);
        // No request of its target is served.
        event(Send, 3, 0, [0, 1]);
    }
    let job = Job::of(&[many]);
    let stretches = &job.ranks[0].stretches;
    let n_over = stretches.iter().filter(|s| s.is_over).count();
    assert_eq!((stretches.len(), n_over), (3 * n, n));
}

/// The chain of those that wait for each other would be searched for each of the waits.
#[test]
fn many_ranks_in_a_row_have_the_first_of_them_as_the_cause_of_all_waits() {
    use Kind::{Wait, Waited};
    const N_RANKS: u32 = 400;
    let waits = |rank: u32| {
        let mut trace = trace(rank, &[]);
        for (i, kind) in (0..300).flat_map(|i| [(10 * i, Wait), (10 * i + 9, Waited)]) {
            let of = rank.checked_sub(1);
            trace.events.push(Event {
                at: i,
                kind,
                thread: 1,
                name: 0,
                rank: of,
                numbers: [0, 0],
            });
        }
        trace
    };
    let job = Job::of(&(0..N_RANKS).map(waits).collect::<Vec<_>>());
    let stretches = job.ranks[1..].iter().flat_map(|rank| &rank.stretches);
    let causes = stretches.map(|s| s.cause);
    assert_eq!(causes.filter(|cause| *cause == Some(0)).count(), 119_700);
}

#[test]
fn a_trace_that_ends_early_says_nothing_of_a_long_wait() {
    use Kind::{Left, Missing, Wait};
    const BARRIER: &str = "a barrier@src/main.rs:9";
    let others = trace(1, &[(Left, 1, 9_000, "", None, [0, 0])]);
    let waits = |last| {
        let waits = trace(
            0,
            &[
                (Wait, 1, 1_000, BARRIER, None, [0, 0]),
                (Missing, 1, last, BARRIER, Some(1), [0, 0]),
            ],
        );
        let hints = words::hints(&Job::of(&[waits, others.clone()]));
        hints.into_iter().find(|hint| hint.contains("had waited"))
    };
    let until = |nanos| {
        format!(
            "rank 0 had waited {nanos} at src/main.rs:9 for a barrier of rank 1 when the traces ended"
        )
    };
    assert_eq!(waits(1_000), None);
    assert_eq!(waits(8_900), Some(until("7.90 s")));
}

#[test]
fn a_line_in_a_folder_with_an_at_sign_is_told_from_what_is_waited_for() {
    let (what, at) = read::what_and_where("a barrier@/home/me@here/x.rs:7");
    assert_eq!((what, at), ("a barrier", "/home/me@here/x.rs:7"));
    let (what, at) = read::what_and_where("@/home/me@here/x.rs:7");
    assert_eq!((what, at), ("", "/home/me@here/x.rs:7"));
}

#[test]
fn counted_figures_of_pairs_names_and_ranks_are_shown() {
    let mut job = served();
    let page = page_of(&job);
    assert!(page.contains("<code>PGAS_STATS=peers</code>") && !page.contains("<td>4.0 KiB</td>"));
    let counted = serde_json::json!({
        "names": [{"name": "the <map>", "gets": 3, "puts": 5, "atomics": 7, "messages": 0, "bytes": 2048}],
        "imbalance": {
            "gets": {"least": 1, "least_rank": 1, "median": 2, "most": 9, "most_rank": 0},
            "wait_ns": {"least": 1, "least_rank": 1, "median": 2, "most": 9, "most_rank": 0},
        },
        "operations": [
            {"name": "Map::find", "documented": "2A + W new, A present; A for each further slot", "elements": 100,
             "priced": 100, "atomics": 450, "puts": 10},
            {"name": "Map::insert", "documented": "2A + W", "elements": 100, "priced": 100, "atomics": 300, "puts": 100},
        ],
        "ranks": [
            {"rank": 0, "peers": [[0, 0, 0, 0, 0], [30, 20, 10, 2, 4096]]},
            {"rank": 1, "peers": [[0, 0, 0, 0, 0], [1, 0, 0, 0, 8]]},
        ],
    });
    job.statistics = serde_json::from_value(counted).unwrap();
    let page = page_of(&job);
    assert_eq!(row(&page, "the &lt;map&gt;"), "3|5|7|0|2.0 KiB|");
    assert!(!page.contains("None were counted"));
    assert_eq!(row(&page, "Counted gets"), "1 (rank 1)|2|9 (rank 0)|");
    assert!(!page.contains("wait_ns"));
    assert_eq!(
        row(&page, "Time in handlers"),
        "0 ns (rank 0)|40.0 ms|40.0 ms (rank 1)|"
    );
    // The transport's messages alone are 20 B.
    assert!(
        page.contains("<title>from 0 to 1: 4.0 KiB</title>"),
        "{page}"
    );
    assert!(page.contains("<th scope=\"row\">0</th><td>1</td><td>4.0 KiB</td><td>30</td><td>20</td><td>10</td><td>2</td>"));
    let hints = words::hints(&job);
    let dear: Vec<&String> = hints
        .iter()
        .filter(|hint| hint.contains(" pays "))
        .collect();
    assert_eq!(dear.len(), 1, "{hints:#?}");
    assert!(
        dear[0].starts_with("Map::find pays 4.50A + 0.10W an element"),
        "{dear:?}"
    );
}

#[test]
fn durations_have_bars_however_long_and_quantiles_that_they_do_not_exceed() {
    let mut job = served();
    let hour = 3_600_000_000_000_u64;
    let counted = serde_json::json!({"latencies": [
        {"operations": "waits", "ns_and_number": [[hour, 3]]},
        {"operations": "gets", "ns_and_number": [[1024, 1]]},
    ]});
    job.statistics = serde_json::from_value(counted).unwrap();
    let page = page_of(&job);
    assert!(page.contains("<title>3 from 2199.02 s</title>"), "{page}");
    let gets = row(page.split_once("id=\"latency\"").unwrap().1, ">gets<");
    // Behind 1,024 ns the next step is at 1,280 ns.
    assert!(
        gets.ends_with("|1.3 µs|1.3 µs|1.3 µs|1.3 µs|1.3 µs|1.3 µs|"),
        "{gets}"
    );
}

#[test]
fn a_pair_of_ranks_with_three_times_the_bytes_is_darker() {
    use Kind::Send;
    let to = |rank, bytes| (Send, 1, 1, "", Some(rank), [bytes, 0]);
    let mib = 1 << 20;
    let page = page_of(&Job::of(&[trace(
        0,
        &[to(0, 48 * mib), to(1, 16 * mib), to(2, 1)],
    )]));
    let opacity = |to: u32| -> f64 {
        let (before, _) = page.split_once(&format!("<title>from 0 to {to}:")).unwrap();
        let (_, after) = before.rsplit_once("fill-opacity=\"").unwrap();
        after.split('"').next().unwrap().parse().unwrap()
    };
    let [most, third, least, none] = [0, 1, 2, 3].map(opacity);
    assert!(
        most > third + 0.1 && third > least + 0.1 && least > none,
        "{most} {third} {least} {none}"
    );
}

#[test]
fn of_many_ranks_those_that_stand_out_have_a_line() {
    let span = |rank| {
        trace(
            rank,
            &[
                (Kind::Span, 1, 0, "work", None, [0, 0]),
                (Kind::Left, 1, 9, "", None, [0, 0]),
            ],
        )
    };
    let mut ranks: Vec<Trace> = (0..400).map(span).collect();
    ranks[333] = trace(
        333,
        &[
            (Kind::Wait, 1, 0, "a barrier@a.rs:1", None, [0, 0]),
            (Kind::Waited, 1, 9, "", None, [0, 0]),
        ],
    );
    ranks[366] = trace(366, &[(Kind::Refusal, 1, 0, "", Some(1), [0, 0])]);
    let page = page_of(&Job::of(&ranks));
    for rank in ["333", "366"] {
        assert!(
            page.contains(&format!("<tr><th scope=\"row\">{rank}</th>")),
            "{rank}"
        );
    }
    assert!(page.contains("And 144 ranks more"));
}

#[test]
fn without_operations_of_containers_the_page_says_whether_they_were_counted() {
    let mut job = served();
    assert!(page_of(&job).contains("None were counted"));
    let spread =
        serde_json::json!({"least": 1, "least_rank": 1, "median": 2, "most": 9, "most_rank": 0});
    let counted = serde_json::json!({"imbalance": {"gets": spread}});
    job.statistics = serde_json::from_value(counted).unwrap();
    let page = page_of(&job);
    assert!(
        !page.contains("None were counted")
            && page.contains("No map, queue, filter or array was used")
    );
}
