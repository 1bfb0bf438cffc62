//! The page: self-contained HTML without scripts.

use std::cmp::Reverse;
use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::analysis::Job;
use crate::table::Column::{Number, Text};
use crate::units::{escaped, percent, size, time};
use crate::{sections, table, timeline};

/// The parts of the page, for the links at its top.
const PARTS: [(&str, &str); 10] = [
    ("hints", "What stands out"),
    ("timeline", "Timeline"),
    ("spans", "Spans"),
    ("waits", "Waits"),
    ("served", "Served messages"),
    ("collectives", "Collectives"),
    ("ranks", "Ranks"),
    ("operations", "Containers"),
    ("matrix", "Traffic between ranks"),
    ("latency", "Latency"),
];
/// The maximum number of pairs of ranks in a table.
const MOST_PAIRS: usize = 10;
/// The widths of a bar of a histogram, and from one to the next.
const BAR: usize = 56;
const STEP: usize = 62;

/// The page of a job with its [hints](crate::words::hints).
#[must_use]
pub fn page(job: &Job, hints: &[String]) -> String {
    let mut page =
        String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    let title = format!("{} ranks, {}", job.n_ranks, time(job.nanos));
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width\"><title>pgas: {title}</title>\n<style>\n{}</style></head>\n\
         <body><header><h1>{title}</h1>\n<p class=\"facts\">On {}; {} messages of which both ends are known</p>\n",
        include_str!("style.css"),
        escaped(&job.hosts.join(", ")),
        job.messages.len()
    );
    page += "<nav aria-label=\"Parts of this page\">";
    for (id, name) in PARTS {
        let _ = write!(page, "<a href=\"#{id}\">{name}</a>");
    }
    page += "</nav></header>\n<main>\n";
    sections::begin(&mut page, "hints", "What stands out");
    page += "<ul class=\"hints\">\n";
    for hint in hints {
        let _ = writeln!(page, "<li>{}</li>", escaped(hint));
    }
    page += "</ul></section>\n";
    write_timeline(&mut page, job);
    sections::write_spans(&mut page, job);
    sections::write_waits(&mut page, job);
    sections::write_served(&mut page, job);
    sections::write_collectives(&mut page, job);
    sections::write_ranks(&mut page, job);
    sections::write_containers(&mut page, job);
    write_matrix(&mut page, job);
    write_latencies(&mut page, job);
    page + "</main></body></html>\n"
}

fn write_timeline(page: &mut String, job: &Job) {
    sections::begin(page, "timeline", "Timeline");
    *page += "<figure tabindex=\"0\" aria-label=\"Timeline\">";
    *page += &timeline::timeline(job);
    *page += "<figcaption><span class=\"key waits\"></span>waits <span class=\"key serves\"></span>serves messages \
              <span class=\"key span\"></span>a span of the program's <span class=\"key phase\"></span>a phase of a container \
              <span class=\"key row\"></span>anything else. \
              <code>trace.json</code> has every event, for Perfetto.</figcaption></figure>\n";
    sections::write_phases(page, job);
    *page += "</section>\n";
}

fn write_matrix(page: &mut String, job: &Job) {
    sections::begin(page, "matrix", "Traffic between ranks");
    let is_counted = job.statistics.has_peers();
    let about = if is_counted {
        "messages, puts, gets and atomics, those of mapped memory, too."
    } else {
        "messages, and puts, gets and atomics of the transport. Memory that is mapped is accessed without a trace; \
         <code>PGAS_STATS=peers</code> beside <code>PGAS_TRACE</code> counts that, too."
    };
    *page += "<figure tabindex=\"0\" aria-label=\"Traffic between ranks\">";
    *page += &timeline::matrix(job);
    let _ = writeln!(
        page,
        "<figcaption>Bytes of what ranks (rows) began with ranks (columns): {about}</figcaption></figure>"
    );
    let mut pairs = job.traffic();
    pairs.retain(|(_, figures)| figures[4] > 0);
    pairs.sort_by_key(|(pair, figures)| (Reverse(figures[4]), *pair));
    if !pairs.is_empty() {
        write_pairs(page, &pairs, is_counted);
    }
    *page += "</section>\n";
}

/// The pairs with the most bytes, and their operations if these are known.
fn write_pairs(page: &mut String, pairs: &[((u32, u32), [u64; 5])], is_counted: bool) {
    let caption = format!("The pairs with the most bytes, of {}.", pairs.len());
    let mut columns = vec![Number("By"), Number("With"), Number("Bytes")];
    if is_counted {
        columns.extend(["Gets", "Puts", "Atomics", "Messages"].map(Number));
    }
    let row = |((from, to), figures): &((u32, u32), [u64; 5])| {
        let mut cells = vec![from.to_string(), to.to_string(), size(figures[4])];
        cells.extend(figures[..4].iter().map(u64::to_string));
        cells
    };
    let rows: Vec<Vec<String>> = pairs.iter().take(MOST_PAIRS).map(row).collect();
    table::write(page, &caption, &columns, &rows);
}

fn write_latencies(page: &mut String, job: &Job) {
    sections::begin(page, "latency", "Latency of messages, operations and waits");
    let mut rows = Vec::new();
    if !job.latencies.is_empty() {
        rows.push(("messages".to_owned(), job.latencies.clone()));
    }
    let timed = job.statistics.latencies.iter();
    rows.extend(timed.map(|latency| (latency.operations.clone(), latency.histogram())));
    if rows.is_empty() {
        *page += "<p>No message is known from end to end; <code>PGAS_STATS=latency</code> beside <code>PGAS_TRACE</code> \
                  times operations of the transport, remote calls and waits.</p></section>\n";
        return;
    }
    write_quantiles(page, &rows);
    for (name, histogram) in &rows {
        write_histogram(page, name, histogram);
    }
    *page += "</section>\n";
}

fn write_quantiles(page: &mut String, rows: &[(String, Histogram<u64>)]) {
    let quantiles = [
        ("Least", 0.0),
        ("Half", 0.5),
        ("90 %", 0.9),
        ("99 %", 0.99),
        ("99.9 %", 0.999),
        ("All", 1.0),
    ];
    let mut columns = vec![Text("Of"), Number("Number")];
    columns.extend(quantiles.map(|(name, _)| Number(name)));
    let row = |(name, histogram): &(String, Histogram<u64>)| {
        let value = |(_, quantile)| time(histogram.value_at_quantile(quantile));
        let mut cells = vec![escaped(name), histogram.len().to_string()];
        cells.extend(quantiles.map(value));
        cells
    };
    table::write(
        page,
        "Messages: from sending to serving, with what they wait for at a rank \
         that is busy elsewhere. Gets, puts and atomics of the transport: from the call to its return; \
         those that do not wait, until the rank learns that they are complete. Remote calls: until the answer is there.",
        &columns,
        &rows.iter().map(row).collect::<Vec<_>>(),
    );
}

fn write_histogram(page: &mut String, name: &str, latencies: &Histogram<u64>) {
    let name = escaped(name);
    let _ = write!(
        page,
        "<figure tabindex=\"0\" aria-label=\"Latency of {name}\"><figcaption>{name}</figcaption>"
    );
    // Each step is twice the previous one.
    let steps: Vec<(u64, u64)> = (0..u64::BITS)
        .map(|power| {
            let (from, until) = (1_u64 << power, u64::MAX >> (u64::BITS - 1 - power));
            (from, latencies.count_between(from, until))
        })
        .collect();
    let first = steps.iter().position(|(_, n)| *n > 0).unwrap_or(0);
    let last = steps.iter().rposition(|(_, n)| *n > 0).unwrap_or(0);
    let most = steps.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    let n = last - first + 1;
    let _ = write!(
        page,
        "<svg class=\"plain\" width=\"{0}\" viewBox=\"0 0 {0} 150\" role=\"img\" aria-label=\"Histogram of the latency of {1} {2}, in steps that double\">",
        n * STEP + 10,
        latencies.len(),
        name
    );
    for (i, (from, count)) in steps[first..=last].iter().enumerate() {
        let height = percent(*count, most);
        let _ = write!(
            page,
            "<rect x=\"{}\" y=\"{}\" width=\"{BAR}\" height=\"{height}\" class=\"serves\"><title>{count} from {}</title></rect>\
             <text x=\"{}\" y=\"140\">{}</text><text x=\"{}\" y=\"{}\">{count}</text>",
            i * STEP + 5,
            120 - height,
            time(*from),
            i * STEP + 5,
            time(*from),
            i * STEP + 5,
            116 - height,
        );
    }
    *page += "</svg></figure>\n";
}
