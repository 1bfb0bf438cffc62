//! A job in plain lines, where there is no terminal.

use pgas_core::stats::{count, size};

use super::picture::{Picture, Row, Weight, seconds};

/// The most notable ranks that have a line each.
const MOST: usize = 16;

/// The regular report of a job: a line for all of it, and a line for each notable rank.
pub(crate) fn summary(picture: &Picture) -> String {
    let mut text = heading(picture);
    if let Some(work) = picture.work() {
        text += &format!("  {work}\n");
    }
    let notable: Vec<&Row> = picture
        .rows
        .iter()
        .filter(|r| r.weight > Weight::Usual)
        .collect();
    let mut chosen = picture.choose(notable.len().min(MOST));
    chosen.retain(|row| row.weight > Weight::Usual);
    for row in &chosen {
        text += &rank(row);
    }
    if notable.len() > chosen.len() {
        text += &format!("  and {} ranks more\n", notable.len() - chosen.len());
    }
    text
}

/// All ranks of a job.
pub(crate) fn all(picture: &Picture) -> String {
    let mut text = heading(picture);
    if let Some(work) = picture.work() {
        text += &format!("  {work}\n");
    }
    for row in &picture.rows {
        text += &rank(row);
    }
    text
}

/// A job in one line.
pub(crate) fn heading(picture: &Picture) -> String {
    let mut text = format!("{}: {}", seconds(picture.age), ranks(picture));
    text += &format!(
        ": {}; memory {}",
        picture.states(),
        size(picture.resident())
    );
    if let Some(rates) = picture.rates() {
        let (operations, bytes) = (count(rates.operations), size(rates.bytes));
        text += &format!("; {operations} operations/s, {bytes}/s");
    }
    if let Some((rank, cause)) = &picture.failure {
        let cause = pgas_core::notice::printable(cause);
        text += &format!("; rank {rank} {cause}");
    }
    text + "\n"
}

/// As in `4 ranks of solver`.
pub(crate) fn ranks(picture: &Picture) -> String {
    let n_here = picture.rows.len();
    let unit = if n_here == 1 { "rank" } else { "ranks" };
    let mut text = format!("{n_here} {unit}");
    // It is not known before a rank has joined.
    if !picture.program.is_empty() {
        text += &format!(" of {}", picture.program);
    }
    let n_elsewhere = (picture.n_ranks as usize).saturating_sub(n_here);
    if n_elsewhere > 0 {
        text += &format!(" here, {n_elsewhere} elsewhere");
    }
    if picture.n_hosts > 1 {
        text += &format!(" on {} hosts", picture.n_hosts);
    }
    text
}

fn rank(row: &Row) -> String {
    let mut text = format!("  rank {} {}", row.rank, row.state.word());
    if let Some((_, waited)) = &row.wait {
        text += &format!(" {}", seconds(*waited));
    }
    let note = row.note();
    if row.wait.is_some() {
        text += &format!(" {note}");
    } else if !note.is_empty() {
        text += &format!("; {note}");
    }
    if let Some(parts) = row.processor {
        text += &format!("; {parts} % of a processor");
    }
    if let Some(bytes) = row.resident {
        text += &format!(", {}", size(bytes));
    }
    if let Some(rates) = row.rates {
        let (operations, bytes) = (count(rates.operations), size(rates.bytes));
        text += &format!(", {operations} operations/s, {bytes}/s");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::picture::tests::stalled;
    use super::*;

    #[test]
    fn a_summary_names_who_waits_and_for_whom() {
        let text = summary(&stalled(Duration::from_secs(11)));
        let lines: Vec<&str> = text.lines().collect();
        let heading = "1 min 15 s: 4 ranks of solver: 1 runs, 3 wait; memory 1.17 GiB";
        assert_eq!(lines[0], heading);
        let first = "  rank 0 waits 11.0 s for a barrier, of rank 3, at src/main.rs:57";
        assert!(lines[1].starts_with(first), "{text}");
        let last = "  rank 3 runs; 3 ranks have waited for it, for up to 11.0 s; 98 %";
        assert!(lines[4].starts_with(last), "{text}");
        assert_eq!(lines.len(), 5);
        let mut picture = stalled(Duration::from_millis(5));
        picture.n_hosts = 2;
        let text = summary(&picture);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(": 4 ranks of solver on 2 hosts: "), "{text}");
        picture.program = String::new();
        let text = summary(&picture);
        assert!(text.contains(": 4 ranks on 2 hosts: "), "{text}");
        assert_eq!(all(&stalled(Duration::ZERO)).lines().count(), 5);
    }

    #[test]
    fn of_many_ranks_that_wait_some_are_told() {
        let mut picture = stalled(Duration::from_secs(3));
        let many: Vec<Row> = (0..40).flat_map(|_| picture.rows.clone()).collect();
        picture.rows = many;
        let text = summary(&picture);
        assert!(text.ends_with("  and 144 ranks more\n"), "{text}");
        assert_eq!(text.lines().count(), 1 + MOST + 1);
    }
}
