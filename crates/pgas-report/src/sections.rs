//! The tables of activities, ranks and containers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::analysis::{Job, RankSummary};
use crate::lines::{Collective, Line};
use crate::phases::Phase;
use crate::read::what_and_where;
use crate::statistics::{Operation, Spread};
use crate::table::Column::{self, Number, Text};
use crate::table::{self, code};
use crate::units::{escaped, percent, ranks, size, sum, time};

/// The maximum number of lines in a table.
const MOST_LINES: usize = 40;
/// The maximum number of ranks in the table of ranks.
const MOST_RANKS: usize = 256;

/// Begins a section with a heading.
pub(crate) fn begin(page: &mut String, id: &str, heading: &str) {
    let _ = writeln!(
        page,
        "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{heading}</h2>"
    );
}

/// Says that `n` things of which there are too many are left out.
fn write_more(page: &mut String, n: usize, what: &str) {
    if n > 0 {
        let _ = writeln!(page, "<p>And {n} {what}.</p>");
    }
}

/// The columns of [`durations`].
const DURATIONS: [Column; 6] = [
    Number("Share"),
    Number("Time"),
    Number("Number"),
    Number("Median"),
    Number("99 %"),
    Number("Longest"),
];

/// The share of a line in the time `whole`, and its durations.
fn durations(line: &Line, whole: u64) -> [String; 6] {
    [
        format!("{} %", percent(line.nanos, whole)),
        time(line.nanos),
        line.times.len().to_string(),
        time(line.times.value_at_quantile(0.5)),
        time(line.times.value_at_quantile(0.99)),
        time(line.times.max()),
    ]
}

/// The time of all ranks.
fn time_of_all(job: &Job) -> u64 {
    sum(job.ranks.iter().map(RankSummary::nanos))
}

/// A rank and its figure, in one line.
fn with_rank(rank: u32, figure: &str) -> String {
    format!("{} ({figure})", ranks(&[rank])).replace(' ', "\u{a0}")
}

/// The rank with the largest share.
fn mostly(shares: &BTreeMap<u32, u64>) -> String {
    let most = shares.iter().max_by_key(|(_, nanos)| **nanos);
    most.map_or(String::new(), |(rank, _)| ranks(&[*rank]))
}

/// The rank with the largest share, and the share.
fn most_of(shares: &BTreeMap<u32, u64>) -> String {
    let most = shares.iter().max_by_key(|(_, nanos)| **nanos);
    most.map_or(String::new(), |(rank, nanos)| {
        with_rank(*rank, &time(*nanos))
    })
}

/// A table of lines: their names, durations and further cells.
fn write_lines(
    page: &mut String,
    caption: &str,
    (first, last): (&[Column], &[Column]),
    (lines, whole): (&[Line], u64),
    cells: impl Fn(&Line) -> (Vec<String>, Vec<String>),
) {
    let columns = [first, &DURATIONS, last].concat();
    let rows = lines.iter().take(MOST_LINES).map(|line| {
        let (first, last) = cells(line);
        [first, durations(line, whole).to_vec(), last].concat()
    });
    table::write(page, caption, &columns, &rows.collect::<Vec<_>>());
    write_more(page, lines.len().saturating_sub(MOST_LINES), "lines more");
}

/// The phases of containers by the line that began them.
pub(crate) fn write_phases(page: &mut String, job: &Job) {
    let mut by_name: BTreeMap<&str, Vec<&Phase>> = BTreeMap::new();
    for phase in job.objects.iter().flatten() {
        by_name.entry(&phase.name).or_default().push(phase);
    }
    let mut all: Vec<&Vec<&Phase>> = by_name.values().collect();
    all.sort_by_key(|phases| phases.iter().map(|phase| phase.from).min());
    if all.is_empty() {
        return;
    }
    let row = |phases: &&Vec<&Phase>| {
        let [object, name, at] = phases[0].parts();
        let nanos = phases.iter().map(|phase| phase.nanos());
        vec![
            escaped(object),
            escaped(name),
            code(at),
            phases.len().to_string(),
            time(sum(nanos.clone())),
            time(nanos.max().unwrap_or(0)),
        ]
    };
    table::write(
        page,
        "Phases of containers, from the first rank's start to the last rank's end.",
        &[
            Text("Container"),
            Text("Phase"),
            Text("Begun by"),
            Number("Times"),
            Number("Time"),
            Number("Longest"),
        ],
        &all.iter().take(MOST_LINES).map(row).collect::<Vec<_>>(),
    );
    write_more(page, all.len().saturating_sub(MOST_LINES), "phases more");
}

/// The spans of the program by name.
pub(crate) fn write_spans(page: &mut String, job: &Job) {
    begin(page, "spans", "Spans of the program");
    if job.spans.is_empty() {
        *page += "<p>There are none; <code>World::span</code> names sections of the program.</p></section>\n";
        return;
    }
    let least_of = |line: &Line| {
        let least = line.by_rank.iter().min_by_key(|(_, nanos)| **nanos);
        least.map_or(String::new(), |(rank, nanos)| {
            with_rank(*rank, &time(*nanos))
        })
    };
    write_lines(
        page,
        "With waits and inner spans; shares are of the time of all ranks.",
        (
            &[Text("Span")],
            &[Number("Ranks"), Text("Least on"), Text("Most on")],
        ),
        (&job.spans, time_of_all(job)),
        |line| {
            let n_ranks = line.by_rank.len().to_string();
            let last = vec![n_ranks, least_of(line), most_of(&line.by_rank)];
            (vec![escaped(&line.name)], last)
        },
    );
    *page += "</section>\n";
}

/// Waits by line of the program.
pub(crate) fn write_waits(page: &mut String, job: &Job) {
    begin(page, "waits", "Waits by line of the program");
    write_lines(
        page,
        "Waits of more than a microsecond; shares are of the time of all ranks.",
        (
            &[Text("Line"), Text("For")],
            &[Text("Mostly for"), Text("Waits longest")],
        ),
        (&job.lines, time_of_all(job)),
        |line| {
            let (what, at) = what_and_where(&line.name);
            let last = [mostly(&line.for_rank), most_of(&line.by_rank)];
            (vec![code(at), escaped(what)], last.to_vec())
        },
    );
    *page += "</section>\n";
}

/// Served messages by the line that has sent them, or the request that they answer.
pub(crate) fn write_served(page: &mut String, job: &Job) {
    begin(page, "served", "Served messages by line of the program");
    if job.served.is_empty() {
        *page += "<p>No handler has run.</p></section>\n";
        return;
    }
    write_lines(
        page,
        "The time in handlers, by the line that sends the request; shares are of the time of all ranks.",
        (
            &[Text("Line"), Text("Kind")],
            &[Text("Mostly from"), Text("Served longest by")],
        ),
        (&job.served, time_of_all(job)),
        |line| {
            let (what, at) = what_and_where(&line.name);
            let kind = match what {
                "" => "request",
                "a reply" => "reply",
                _ => "",
            };
            let last = [mostly(&line.for_rank), most_of(&line.by_rank)];
            (vec![code(at), kind.to_owned()], last.to_vec())
        },
    );
    *page += "</section>\n";
}

/// Calls of collectives by line.
pub(crate) fn write_collectives(page: &mut String, job: &Job) {
    begin(page, "collectives", "Collectives");
    if job.collectives.is_empty() {
        *page += "<p>None was called.</p></section>\n";
        return;
    }
    let waits: BTreeMap<&str, u64> = job
        .lines
        .iter()
        .map(|line| (&*line.name, line.nanos))
        .collect();
    let row = |one: &Collective| {
        let (what, at) = what_and_where(&one.name);
        vec![
            code(at),
            escaped(what),
            one.calls.values().sum::<u64>().to_string(),
            one.calls.len().to_string(),
            size(one.bytes),
            time(waits.get(&*one.name).copied().unwrap_or(0)),
        ]
    };
    table::write(
        page,
        "Calls of all ranks, the bytes of their arguments, and the time in waits of more than a microsecond.",
        &[
            Text("Line"),
            Text("Collective"),
            Number("Calls"),
            Number("Ranks"),
            Number("Bytes"),
            Number("Waits"),
        ],
        &job.collectives
            .iter()
            .take(MOST_LINES)
            .map(row)
            .collect::<Vec<_>>(),
    );
    let n_more = job.collectives.len().saturating_sub(MOST_LINES);
    write_more(page, n_more, "lines more");
    *page += "</section>\n";
}

type Figure = (&'static str, fn(&RankSummary) -> u64, fn(u64) -> String);

/// What is compared among ranks, and how it is shown.
const FIGURES: [Figure; 7] = [
    ("Time in waits", |rank| rank.waits, time),
    ("Time in handlers", |rank| rank.serves, time),
    ("Messages sent", |rank| rank.n_sent, |n| n.to_string()),
    ("Bytes sent", |rank| rank.sent_bytes, size),
    ("Messages received", |rank| rank.n_came, |n| n.to_string()),
    ("Remote operations", |rank| rank.n_remote, |n| n.to_string()),
    (
        "Messages without room",
        |rank| rank.n_refused,
        |n| n.to_string(),
    ),
];

/// The ranks with the largest figures and the shortest waits, up to [`MOST_RANKS`], in their order.
fn notable(all: &[RankSummary]) -> Vec<&RankSummary> {
    let sorted = |of: &dyn Fn(&RankSummary) -> u64| {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|index| Reverse(of(&all[*index])));
        order
    };
    let mut orders: Vec<Vec<usize>> = FIGURES.iter().map(|(_, of, _)| sorted(of)).collect();
    // A rank for which the others wait.
    orders.push(sorted(&|rank| u64::MAX - rank.waits));
    let mut chosen = BTreeSet::new();
    for place in 0..all.len() {
        for order in &orders {
            if chosen.len() < MOST_RANKS {
                chosen.insert(order[place]);
            }
        }
    }
    chosen.into_iter().map(|index| &all[index]).collect()
}

/// The differences among ranks, and a line for each.
pub(crate) fn write_ranks(page: &mut String, job: &Job) {
    begin(page, "ranks", "Ranks");
    write_differences(page, job);
    let row = |rank: &&RankSummary| {
        let waits = percent(rank.waits, rank.nanos());
        vec![
            rank.rank.to_string(),
            time(rank.nanos()),
            format!("<meter min=\"0\" max=\"100\" value=\"{waits}\">{waits} %</meter> {waits} %"),
            format!("{} %", percent(rank.serves, rank.nanos())),
            rank.n_sent.to_string(),
            size(rank.sent_bytes),
            rank.n_came.to_string(),
            rank.n_remote.to_string(),
            rank.n_refused.to_string(),
        ]
    };
    let shown = notable(&job.ranks);
    table::write(
        page,
        "Shares are of the time that a rank is known for.",
        &[
            Number("Rank"),
            Number("Known for"),
            Number("Waits"),
            Number("Serves"),
            Number("Sent"),
            Number("Bytes"),
            Number("Received"),
            Number("Remote operations"),
            Number("No room"),
        ],
        &shown.iter().map(row).collect::<Vec<_>>(),
    );
    let n_more = job.ranks.len() - shown.len();
    write_more(page, n_more, "ranks more, which stand out less");
    *page += "</section>\n";
}

fn write_differences(page: &mut String, job: &Job) {
    let row = |name: &str, spread: Spread, unit: fn(u64) -> String| {
        let with_rank = |n, rank| format!("{} ({})", unit(n), ranks(&[rank]));
        (spread.most > 0).then(|| {
            vec![
                name.to_owned(),
                with_rank(spread.least, spread.least_rank),
                unit(spread.median),
                with_rank(spread.most, spread.most_rank),
            ]
        })
    };
    let traced = FIGURES.iter().filter_map(|(name, of, unit)| {
        let values = job.ranks.iter().map(|rank| (of(rank), rank.rank));
        row(name, Spread::of(values.collect())?, *unit)
    });
    // Those of mapped memory are in no trace. Waits are in both.
    let counted = job.statistics.imbalance.iter();
    let counted = counted.filter(|(name, _)| *name != "wait_ns");
    let counted = counted.filter_map(|(name, spread)| {
        row(&format!("Counted {}", escaped(name)), *spread, |n| {
            n.to_string()
        })
    });
    let rows: Vec<Vec<String>> = traced.chain(counted).collect();
    if job.ranks.len() > 1 && !rows.is_empty() {
        table::write(
            page,
            "Differences among the ranks.",
            &[
                Text("Of"),
                Number("Least"),
                Number("Median"),
                Number("Most"),
            ],
            &rows,
        );
    }
}

/// Operations of containers with their prices, and what was done to named ones.
pub(crate) fn write_containers(page: &mut String, job: &Job) {
    begin(page, "operations", "Operations of containers");
    let statistics = &job.statistics;
    if statistics.operations.is_empty() {
        *page += if statistics.imbalance.is_empty() {
            "<p>None were counted; <code>PGAS_STATS=1</code> beside <code>PGAS_TRACE</code> counts them.</p>\n"
        } else {
            "<p>No map, queue, filter or array was used.</p>\n"
        };
    } else {
        table::write(
            page,
            "The average price of an element beside the documented one: A is an atomic, R a read, W a write, M a message \
             and \u{2113} local work.",
            &[
                Text("Operation"),
                Number("Calls"),
                Number("Elements"),
                Number("Paid"),
                Text("Documented"),
                Text("Without success"),
                Text("Full"),
            ],
            &statistics
                .operations
                .iter()
                .map(operation)
                .collect::<Vec<_>>(),
        );
    }
    if !statistics.names.is_empty() {
        write_names(page, job);
    }
    *page += "</section>\n";
}

fn operation(one: &Operation) -> Vec<String> {
    let missed = match one.missed {
        0 => String::new(),
        _ => format!("{} % {}", one.missed_percent(), one.missed_as),
    };
    let full = one.fill.map_or(String::new(), |fill| {
        let [mean, most] = [fill.mean_permille, fill.most_permille].map(|part| part / 10);
        format!("{mean} %, at most {most} %")
    });
    vec![
        code(&one.name),
        one.calls.to_string(),
        one.elements.to_string(),
        one.paid(),
        escaped(&one.documented),
        escaped(&missed),
        full,
    ]
}

fn write_names(page: &mut String, job: &Job) {
    let rows = job.statistics.names.iter().map(|named| {
        vec![
            escaped(&named.name),
            named.gets.to_string(),
            named.puts.to_string(),
            named.atomics.to_string(),
            named.messages.to_string(),
            size(named.bytes),
        ]
    });
    table::write(
        page,
        "Operations on what the program has named by World::named.",
        &[
            Text("Name"),
            Number("Gets"),
            Number("Puts"),
            Number("Atomics"),
            Number("Messages"),
            Number("Bytes"),
        ],
        &rows.collect::<Vec<_>>(),
    );
}
