//! The page: self-contained HTML without scripts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::analysis::{Job, RankSummary};
use crate::phases::Phase;
use crate::read::what_and_where;
use crate::timeline;
use crate::words::{escaped, hints, percent, ranks, size, time};

/// The maximum number of lines in a table.
const MOST_LINES: usize = 40;
const MOST_RANKS: usize = 256;
const MOST_PAIRS: usize = 10;
/// The widths of a bar of a histogram, and from one to the next.
const BAR: usize = 46;
const STEP: usize = 52;

/// The page of a job.
#[must_use]
pub fn page(job: &Job) -> String {
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
    page += "<nav aria-label=\"Parts of this page\"><a href=\"#hints\">What stands out</a>\
             <a href=\"#timeline\">Timeline</a><a href=\"#waits\">Waits</a><a href=\"#ranks\">Ranks</a>\
             <a href=\"#operations\">Containers</a><a href=\"#matrix\">Traffic between ranks</a><a href=\"#latency\">Latency</a></nav></header>\n<main>\n";
    page += "<section aria-labelledby=\"hints\"><h2 id=\"hints\">What stands out</h2>\n<ul class=\"hints\">\n";
    for hint in hints(job) {
        let _ = writeln!(page, "<li>{}</li>", escaped(&hint));
    }
    page += "</ul></section>\n";
    write_timeline(&mut page, job);
    write_waits(&mut page, job);
    write_ranks(&mut page, job);
    write_operations(&mut page, job);
    write_matrix(&mut page, job);
    write_latencies(&mut page, job);
    page + "</main></body></html>\n"
}

fn write_timeline(page: &mut String, job: &Job) {
    *page += "<section aria-labelledby=\"timeline\"><h2 id=\"timeline\">Timeline</h2>\n<figure tabindex=\"0\">";
    *page += &timeline::timeline(job);
    *page += "<figcaption><span class=\"key waits\"></span>waits <span class=\"key serves\"></span>serves messages \
              <span class=\"key span\"></span>a span of the program's <span class=\"key phase\"></span>a phase of a container \
              <span class=\"key row\"></span>anything else. \
              <code>trace.json</code> has every event, for Perfetto.</figcaption></figure>\n";
    write_phases(page, job);
    *page += "</section>\n";
}

/// The phases of containers by the line that began them.
fn write_phases(page: &mut String, job: &Job) {
    let mut by_name: BTreeMap<&str, Vec<&Phase>> = BTreeMap::new();
    for phase in job.objects.iter().flatten() {
        by_name.entry(&phase.name).or_default().push(phase);
    }
    let mut rows: Vec<&Vec<&Phase>> = by_name.values().collect();
    rows.sort_by_key(|phases| phases.iter().map(|phase| phase.from).min());
    if rows.is_empty() {
        return;
    }
    begin_table(
        page,
        "Phases of containers, from the first rank's start to the last rank's end.",
    );
    *page += "<thead><tr><th class=\"text\" scope=\"col\">Container</th>\
              <th class=\"text\" scope=\"col\">Phase</th><th class=\"text\" scope=\"col\">Begun by</th>\
              <th scope=\"col\">Times</th><th scope=\"col\">Time</th><th scope=\"col\">Longest</th></tr></thead><tbody>\n";
    for phases in rows.iter().take(MOST_LINES) {
        let [object, name, at] = phases[0].parts().map(escaped);
        let nanos = phases.iter().map(|phase| phase.nanos());
        let _ = writeln!(
            page,
            "<tr><td class=\"text\">{object}</td><td class=\"text\">{name}</td><td class=\"text\"><code>{at}</code></td>\
             <td>{}</td><td>{}</td><td>{}</td></tr>",
            phases.len(),
            time(nanos.clone().sum()),
            time(nanos.max().unwrap_or(0)),
        );
    }
    *page += "</tbody></table></div>";
}

fn write_waits(page: &mut String, job: &Job) {
    let whole: u64 = job.ranks.iter().map(RankSummary::nanos).sum();
    *page +=
        "<section aria-labelledby=\"waits\"><h2 id=\"waits\">Waits by line of the program</h2>\n";
    begin_table(
        page,
        "Waits of more than a microsecond; shares are of the time of all ranks.",
    );
    *page += "<thead><tr><th class=\"text\" scope=\"col\">Line</th><th class=\"text\" scope=\"col\">For</th><th scope=\"col\">Share</th>\
              <th scope=\"col\">Time</th><th scope=\"col\">Waits</th><th scope=\"col\">Median</th><th scope=\"col\">99 %</th>\
              <th scope=\"col\">Longest</th><th class=\"text\" scope=\"col\">Mostly for</th><th class=\"text\" scope=\"col\">Waits longest</th></tr></thead><tbody>\n";
    for line in job.lines.iter().take(MOST_LINES) {
        let (what, at) = what_and_where(&line.name);
        let most_for = line.for_rank.iter().max_by_key(|(_, nanos)| **nanos);
        let most_for = most_for.map_or(String::new(), |(rank, _)| ranks(&[*rank]));
        let waits_most = line.by_rank.iter().max_by_key(|(_, nanos)| **nanos);
        let waits_most = waits_most.map_or(String::new(), |(rank, nanos)| {
            format!("{} ({})", ranks(&[*rank]), time(*nanos))
        });
        let _ = writeln!(
            page,
            "<tr><td class=\"text\"><code>{}</code></td><td class=\"text\">{}</td><td>{} %</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{most_for}</td><td class=\"text\">{waits_most}</td></tr>",
            escaped(at),
            escaped(what),
            percent(line.nanos, whole),
            time(line.nanos),
            line.times.len(),
            time(line.times.value_at_quantile(0.5)),
            time(line.times.value_at_quantile(0.99)),
            time(line.times.max()),
        );
    }
    *page += "</tbody></table></div></section>\n";
}

fn write_ranks(page: &mut String, job: &Job) {
    *page += "<section aria-labelledby=\"ranks\"><h2 id=\"ranks\">Ranks</h2>\n";
    begin_table(page, "Shares are of the time that a rank is known for.");
    *page += "<thead><tr><th scope=\"col\">Rank</th><th scope=\"col\">Known for</th><th scope=\"col\">Waits</th><th scope=\"col\">Serves</th>\
              <th scope=\"col\">Sent</th><th scope=\"col\">Bytes</th><th scope=\"col\">Received</th><th scope=\"col\">Remote operations</th>\
              <th scope=\"col\">No room</th></tr></thead><tbody>\n";
    for rank in job.ranks.iter().take(MOST_RANKS) {
        let waits = percent(rank.waits, rank.nanos());
        let serves = percent(rank.serves, rank.nanos());
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td><meter min=\"0\" max=\"100\" value=\"{waits}\">{waits} %</meter> {waits} %</td>\
             <td>{serves} %</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            rank.rank,
            time(rank.nanos()),
            rank.n_sent,
            size(rank.sent_bytes),
            rank.n_came,
            rank.n_remote,
            rank.n_refused,
        );
    }
    *page += "</tbody></table></div>";
    if job.ranks.len() > MOST_RANKS {
        let _ = write!(
            page,
            "<p>And {} ranks more.</p>",
            job.ranks.len() - MOST_RANKS
        );
    }
    *page += "</section>\n";
}

fn write_operations(page: &mut String, job: &Job) {
    *page += "<section aria-labelledby=\"operations\"><h2 id=\"operations\">Operations of containers</h2>\n";
    let operations = &job.statistics.operations;
    if operations.is_empty() {
        *page += "<p>None were counted; <code>PGAS_STATS=1</code> beside <code>PGAS_TRACE</code> counts them.</p></section>\n";
        return;
    }
    begin_table(
        page,
        "The average price of an element beside the documented one: A is an atomic, R a read, W a write, M a message and \
         \u{2113} local work.",
    );
    *page += "<thead><tr><th class=\"text\" scope=\"col\">Operation</th><th scope=\"col\">Calls</th><th scope=\"col\">Elements</th>\
              <th scope=\"col\">Paid</th><th class=\"text\" scope=\"col\">Documented</th><th class=\"text\" scope=\"col\">Without success</th>\
              <th class=\"text\" scope=\"col\">Full</th></tr></thead><tbody>\n";
    for one in operations {
        let missed = match one.missed {
            0 => String::new(),
            _ => format!("{} % {}", one.missed_percent(), one.missed_as),
        };
        let full = one.fill.map_or(String::new(), |fill| {
            let [mean, most] = [fill.mean_permille, fill.most_permille].map(|part| part / 10);
            format!("{mean} %, at most {most} %")
        });
        let _ = writeln!(
            page,
            "<tr><th class=\"text\" scope=\"row\"><code>{}</code></th><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{full}</td></tr>",
            escaped(&one.name),
            one.calls,
            one.elements,
            one.paid(),
            escaped(&one.documented),
            escaped(&missed),
        );
    }
    *page += "</tbody></table></div></section>\n";
}

fn write_matrix(page: &mut String, job: &Job) {
    *page += "<section aria-labelledby=\"matrix\"><h2 id=\"matrix\">Traffic between ranks</h2>\n<figure>";
    *page += &timeline::matrix(job);
    *page += "<figcaption>Bytes of what ranks (rows) began with ranks (columns): messages, and puts, gets and atomics of the \
              transport. Memory that is mapped is accessed without a trace.</figcaption></figure>\n";
    let mut pairs: Vec<_> = job.matrix.iter().filter(|(_, bytes)| **bytes > 0).collect();
    pairs.sort_by_key(|(pair, bytes)| (Reverse(**bytes), **pair));
    if !pairs.is_empty() {
        let caption = format!("The pairs with the most bytes, of {}.", pairs.len());
        begin_narrow_table(page, &caption);
        *page += "<thead><tr><th scope=\"col\">By</th><th scope=\"col\">With</th><th scope=\"col\">Bytes</th></tr></thead><tbody>\n";
        for ((from, to), bytes) in pairs.into_iter().take(MOST_PAIRS) {
            let bytes = size(*bytes);
            let _ = writeln!(
                page,
                "<tr><td>{from}</td><td>{to}</td><td>{bytes}</td></tr>"
            );
        }
        *page += "</tbody></table></div>\n";
    }
    *page += "</section>\n";
}

/// The beginning of a table that keys scroll where it is too wide.
fn begin_table(page: &mut String, caption: &str) {
    let _ = write!(
        page,
        "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table><caption>{caption}</caption>"
    );
}

/// The beginning of a table of few columns, which is as wide as they are.
fn begin_narrow_table(page: &mut String, caption: &str) {
    let _ = write!(
        page,
        "<div><table class=\"few\"><caption>{caption}</caption>"
    );
}

fn write_latencies(page: &mut String, job: &Job) {
    *page += "<section aria-labelledby=\"latency\"><h2 id=\"latency\">Latency of messages, operations and waits</h2>\n";
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
    begin_table(
        page,
        "Messages: from sending to serving, with what they wait for at a rank \
              that is busy elsewhere. Gets, puts and atomics of the transport: from the call to its return; \
              those that do not wait, until the rank learns that they are complete. Remote calls: until the answer is there.",
    );
    *page += "<thead><tr><th class=\"text\" scope=\"col\">Of</th><th scope=\"col\">Number</th>";
    let quantiles = [
        ("Least", 0.0),
        ("Half", 0.5),
        ("90 %", 0.9),
        ("99 %", 0.99),
        ("99.9 %", 0.999),
        ("All", 1.0),
    ];
    for (name, _) in quantiles {
        let _ = write!(page, "<th scope=\"col\">{name}</th>");
    }
    *page += "</tr></thead><tbody>\n";
    for (name, histogram) in rows {
        let (name, n) = (escaped(name), histogram.len());
        let _ = write!(
            page,
            "<tr><th class=\"text\" scope=\"row\">{name}</th><td>{n}</td>"
        );
        for (_, quantile) in quantiles {
            let value = time(histogram.value_at_quantile(quantile));
            let _ = write!(page, "<td>{value}</td>");
        }
        *page += "</tr>\n";
    }
    *page += "</tbody></table></div>\n";
}

fn write_histogram(page: &mut String, name: &str, latencies: &Histogram<u64>) {
    let _ = write!(page, "<figure><figcaption>{}</figcaption>", escaped(name));
    // Each step is twice the previous one.
    let steps: Vec<(u64, u64)> = (0..40)
        .map(|power| {
            let (from, until) = (1_u64 << power, (2_u64 << power) - 1);
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
        escaped(name)
    );
    for (i, (from, count)) in steps[first..=last].iter().enumerate() {
        let height = count * 100 / most;
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
