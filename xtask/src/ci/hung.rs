//! Ends a step that does not end: names the processes that still run in it, so that a log tells
//! which test waits for what, and kills them.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::process::Command;

/// A process, as `/proc` has it.
#[derive(Debug)]
struct Process {
    id: u32,
    /// What it was called with.
    line: String,
}

/// Begins the lines of what has not ended.
pub(super) const NOT_ENDED: &str = "had not ended: ";

/// Kills the process and all that it has started, as far as those did not lose their parents. The
/// text has a line for each of them, and for each test that had begun, by what they have `printed`.
pub(super) fn end(id: u32, printed: &str) -> String {
    let mut text = String::new();
    for test in long_tests(printed) {
        text += &format!("{NOT_ENDED}{test}\n");
    }
    // Until there is none that could start one more: what a killed process has started is not
    // found.
    let mut processes = Vec::new();
    loop {
        let n_stopped = processes.len();
        processes = tree(id, &parents());
        if processes.len() <= n_stopped {
            break;
        }
        signal("STOP", &processes);
    }
    signal("KILL", &processes);
    let lines = processes.iter();
    text.extend(lines.map(|process| format!("{NOT_ENDED}{process}\n")));
    text
}

fn signal(name: &str, processes: &[Process]) {
    let ids: Vec<_> = processes.iter().map(|it| it.id.to_string()).collect();
    let kill = format!("kill -{name} {}", ids.join(" "));
    // Those that have ended meanwhile need no signal.
    Command::new("sh").args(["-c", &kill]).output().ok();
}

impl Display for Process {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.line)
    }
}

/// The tests that run for a minute or more, as Rust's own test harness says, without a result.
fn long_tests(printed: &str) -> impl Iterator<Item = &str> {
    let long = printed.lines().filter_map(|line| {
        let test = line.strip_prefix("test ")?;
        test.strip_suffix(" has been running for over 60 seconds")
    });
    long.filter(|test| !printed.contains(&format!("\ntest {test} ... ")))
}

/// The process and its descendants, parents first.
fn tree(id: u32, parents: &HashMap<u32, u32>) -> Vec<Process> {
    let mut ids = vec![id];
    let mut next = 0;
    while let Some(&parent) = ids.get(next) {
        let mut children: Vec<_> = parents
            .iter()
            .filter_map(|(&child, &of)| (of == parent).then_some(child))
            .collect();
        children.sort_unstable();
        ids.extend(children);
        next += 1;
    }
    let with_line = |id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Process { id, line }
    };
    ids.into_iter().map(with_line).collect()
}

/// The parent of each process. Empty where there is no `/proc`.
fn parents() -> HashMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name of the program, in brackets, may have blanks in it; the state follows.
        let (_, fields) = stat.rsplit_once(") ")?;
        let parent = fields.split(' ').nth(1)?.parse().ok()?;
        Some((id, parent))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::long_tests;

    #[test]
    fn a_long_test_without_a_result_has_not_ended() {
        let printed = "test a ... ok\n\
                       test b has been running for over 60 seconds\n\
                       test c::d has been running for over 60 seconds\n\
                       test b ... FAILED\n";
        assert!(long_tests(printed).eq(["c::d"]));
    }
}
