//! The summary in words.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::{Job, RankSummary};
use crate::intervals::Intervals;
use crate::lines::Line;
use crate::read::what_and_where;
use crate::statistics::Operation;
use crate::stretches::{Doing, Stretch, outer};
use crate::units::{add, percent, ranks, sum, time};

/// Smaller shares of a rank's time are no hint, in percent.
const LEAST_SHARE: u64 = 5;
/// The maximum number of hints of one kind.
const MOST: usize = 6;

/// The notable facts of a job, the most important first.
#[must_use]
pub fn hints(job: &Job) -> Vec<String> {
    let mut hints = unfinished(job);
    for line in job.lines.iter().take(MOST) {
        hints.extend(hint_of_line(job, line));
    }
    hints.extend(busy_servers(job));
    hints.extend(uneven(job, "messages come to", |rank| rank.n_came));
    hints.extend(uneven(job, "messages are sent by", |rank| rank.n_sent));
    hints.extend(operations(job));
    let (n_refused, n_sent) = job.ranks.iter().fold((0, 0), |(refused, sent), rank| {
        (refused + rank.n_refused, sent + rank.n_sent)
    });
    if n_refused * 100 > n_sent && n_refused > 0 {
        hints.push(format!(
            "{n_refused} messages found no room at first, beside {n_sent} that were sent: their targets serve too \
             seldom; let them call `progress` now and then, or send less at a time"
        ));
    }
    if job.n_lost > 0 {
        hints.push(format!(
            "{} events are lost, for want of room: what is shown is the end of the job; PGAS_TRACE_BYTES makes room",
            job.n_lost
        ));
    }
    if job.n_others > 0 {
        hints.push(format!(
            "{} traces in this directory are of another job and left out; give each job a directory of its own",
            job.n_others
        ));
    }
    if job.statistics.is_of_former_job {
        hints.push(
            "the statistics in this directory are of a former job and left out; PGAS_STATS=1 beside PGAS_TRACE \
             writes those of this one"
                .to_owned(),
        );
    }
    hints.extend(cut_short(job));
    hints.extend(unnamed(job));
    let n_missing = (job.n_ranks as usize).saturating_sub(job.ranks.len());
    if n_missing > 0 {
        hints.push(format!(
            "{n_missing} of {} ranks have no trace here",
            job.n_ranks
        ));
    }
    if hints.is_empty() {
        hints.push("nothing stands out: no rank waits for long".to_owned());
    }
    hints
}

fn summary(job: &Job, rank: u32) -> Option<&RankSummary> {
    job.ranks.iter().find(|summary| summary.rank == rank)
}

/// Waits that had not ended when the traces ended.
fn unfinished(job: &Job) -> Vec<String> {
    let mut hints = Vec::new();
    for rank in &job.ranks {
        let waits = rank
            .stretches
            .iter()
            .filter(|s| s.doing == Doing::Waits && !s.is_over);
        // It says so every tenth of a second. A trace that ends earlier says nothing of the time after.
        for wait in waits {
            let nanos = wait.nanos();
            if nanos < 100_000_000 {
                continue;
            }
            let (what, at) = what_and_where(&wait.name);
            let of = wait
                .rank
                .map_or(String::new(), |of| format!(" of rank {of}"));
            hints.push(format!(
                "rank {} had waited {} at {at} for {what}{of} when the traces ended",
                rank.rank,
                time(nanos)
            ));
        }
    }
    let n_more = hints.len().saturating_sub(2 * MOST);
    hints.truncate(2 * MOST);
    if n_more > 0 {
        hints.push(format!(
            "and {n_more} more ranks had waited for long when the traces ended"
        ));
    }
    hints
}

/// The ranks whose traces end before they left the job.
fn cut_short(job: &Job) -> Option<String> {
    let cut = job.ranks.iter().filter(|rank| !rank.is_whole);
    let cut: Vec<u32> = cut.map(|rank| rank.rank).collect();
    (!cut.is_empty()).then(|| {
        format!(
            "{}: no trace of the end, since the rank did not leave the job in good order, or the disk was full",
            ranks(&cut)
        )
    })
}

/// The ranks whose names are lost.
fn unnamed(job: &Job) -> Option<String> {
    let unnamed = job.ranks.iter().filter(|rank| rank.lacks_names);
    let unnamed: Vec<u32> = unnamed.map(|rank| rank.rank).collect();
    let first = unnamed.first()?;
    Some(format!(
        "{}: some names are missing, so that what happened there has no line: rank-{first}.names or the like is \
         absent, damaged or of another job",
        ranks(&unnamed)
    ))
}

/// The ranks that wait at a line, the rank that they wait for, and what that rank does meanwhile.
fn hint_of_line(job: &Job, line: &Line) -> Option<String> {
    let share = |rank: &u32, nanos: &u64| {
        let whole = summary(job, *rank).map_or(0, RankSummary::nanos);
        percent(*nanos, whole)
    };
    let waiting = line
        .by_rank
        .iter()
        .filter(|(rank, nanos)| share(rank, nanos) >= LEAST_SHARE);
    let waiting: Vec<(u32, u64)> = waiting.map(|(rank, nanos)| (*rank, *nanos)).collect();
    if waiting.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = waiting.iter().map(|(rank, _)| *rank).collect();
    let nanos = sum(waiting.iter().map(|(_, nanos)| *nanos));
    let whole = numbers.iter().filter_map(|rank| summary(job, *rank));
    let whole = sum(whole.map(RankSummary::nanos));
    let (what, at) = what_and_where(&line.name);
    let (verb, whose) = if numbers.len() == 1 {
        ("waits", "its")
    } else {
        ("wait", "their")
    };
    let mut hint = format!(
        "{} {verb} {} % of {whose} time at {at} for {what}",
        ranks(&numbers),
        percent(nanos, whole)
    );
    let most = line.for_rank.iter().max_by_key(|(_, nanos)| **nanos);
    if let Some((culprit, nanos)) = most
        && percent(*nanos, line.nanos) >= 50
    {
        hint += &format!(", mostly for rank {culprit}");
        hint += &meanwhile(job, line, *culprit);
    }
    Some(hint)
}

/// The activity of a rank while others wait for it.
fn meanwhile(job: &Job, line: &Line, culprit: u32) -> String {
    let Some(summary) = summary(job, culprit) else {
        return ", which has no trace".to_owned();
    };
    let waits = job
        .ranks
        .iter()
        .filter(|rank| rank.rank != culprit)
        .flat_map(|rank| &rank.stretches)
        .filter(|s| s.doing == Doing::Waits && s.name == line.name && s.cause == Some(culprit))
        .map(|s| (s.from, s.until));
    let waits = Intervals::of(waits);
    let mut sums: BTreeMap<(Doing, &str), i128> = BTreeMap::new();
    for (stretch, outer) in summary.stretches.iter().zip(outer(&summary.stretches)) {
        let together = waits.within(stretch.from, stretch.until);
        let is_served = stretch.doing == Doing::Serves;
        let name = if is_served { "" } else { &stretch.name };
        let outer = outer.map(|outer| &summary.stretches[outer]);
        let is_within = is_served && outer.is_some_and(|outer| outer.doing == Doing::Serves);
        if !is_within {
            *sums.entry((stretch.doing, name)).or_insert(0) += together;
        }
        // What it serves within a wait is no waiting.
        if is_served && let Some(wait) = outer.filter(|outer| outer.doing == Doing::Waits) {
            *sums.entry((Doing::Waits, &wait.name)).or_insert(0) -= together;
        }
    }
    match sums.into_iter().min_by_key(|(_, together)| Reverse(*together)) {
        Some(((doing, name), together)) if together * 2 > waits.total() => match doing {
            Doing::Waits => {
                let (what, at) = what_and_where(name);
                format!(", which waits at {at} for {what} meanwhile")
            }
            Doing::Serves => ", which serves messages meanwhile".to_owned(),
            Doing::Span => format!(", which is in \"{name}\" meanwhile"),
        },
        _ => ", which makes no call that waits meanwhile: its work may take longer than that of others".to_owned(),
    }
}

/// Ranks that serve messages for much of their time, and whose messages these mostly are.
fn busy_servers(job: &Job) -> Vec<String> {
    let busy = |rank: &&RankSummary| percent(rank.serves, rank.nanos()) >= 30;
    let hint = |rank: &RankSummary| {
        let line = most_served(rank, |s| s.name.split_once('@').map(|(_, at)| at));
        let from = most_served(rank, |s| s.rank);
        let sent: Vec<String> = [
            line.map(|at| format!("at {at}")),
            from.map(|from| format!("by rank {from}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mostly = match &*sent {
            [] => String::new(),
            parts => format!(", mostly those sent {}", parts.join(" and ")),
        };
        format!(
            "rank {} serves messages for {} % of its time{mostly}",
            rank.rank,
            percent(rank.serves, rank.nanos())
        )
    };
    job.ranks.iter().filter(busy).take(MOST).map(hint).collect()
}

/// What at least half of the time in a rank's handlers has in common, by `key`.
fn most_served<'a, K: Ord + Copy>(
    rank: &'a RankSummary,
    key: impl Fn(&'a Stretch) -> Option<K>,
) -> Option<K> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    for stretch in rank.stretches.iter().filter(|s| s.doing == Doing::Serves) {
        if let Some(key) = key(stretch) {
            add(sums.entry(key).or_insert(0), stretch.nanos());
        }
    }
    let (key, nanos) = sums.into_iter().max_by_key(|(_, nanos)| *nanos)?;
    (percent(nanos, rank.serves) >= 50).then_some(key)
}

/// Whether an operation pays much more than the dearest documented case, for enough elements that
/// it is no accident.
fn is_dear(one: &Operation) -> bool {
    let paid = u128::from(one.atomics)
        + u128::from(one.gets)
        + u128::from(one.puts)
        + u128::from(one.messages);
    let limit = one
        .documented_most()
        .map(|most| u128::from(most.max(1)) * u128::from(one.priced));
    one.priced >= 100 && limit.is_some_and(|limit| 2 * paid > limit.saturating_mul(3))
}

/// Operations of containers that met a full container or pay much, and containers that are nearly
/// full.
fn operations(job: &Job) -> Vec<String> {
    let mut hints = Vec::new();
    for one in &job.statistics.operations {
        let missed = one.missed_percent();
        if missed >= LEAST_SHARE && one.missed_as.contains("full") {
            hints.push(format!(
                "{missed} % of {} calls of {} {}",
                one.elements, one.name, one.missed_as
            ));
        }
        if is_dear(one) {
            hints.push(format!(
                "{} pays {} an element (documented: {}): its searches are long, or ranks contend for the same elements",
                one.name,
                one.paid(),
                one.documented
            ));
        }
        let most = one.fill.map_or(0, |fill| fill.most_permille / 10);
        if most >= 90 {
            hints.push(format!(
                "a container was {most} % full when {} worked on it",
                one.name
            ));
        }
    }
    hints
}

/// A rank with more than twice the median.
fn uneven(job: &Job, what: &str, of: impl Fn(&RankSummary) -> u64) -> Option<String> {
    let mut all: Vec<(u64, u32)> = job.ranks.iter().map(|rank| (of(rank), rank.rank)).collect();
    all.sort_unstable();
    let median = all.get(all.len() / 2)?.0;
    let (most, rank) = *all.last()?;
    let stands_out = all.len() > 2 && most > 2 * median.max(50);
    stands_out.then(|| format!("{most} {what} rank {rank}, and {median} is the median"))
}
