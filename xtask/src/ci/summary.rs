//! Summarizes the steps: their failures once more, a line for each step, and last the names of what
//! failed, so that the end of a log shows them, however much of it is kept.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Step;
use super::hung::NOT_ENDED;
use crate::process::{self, Outcome};

/// The word in the line of a failed step.
pub(super) const FAILED: &str = "FAILED";

/// The lines of a failure that are repeated at the end: as many of its first as of its last.
const N_REPEATED: usize = 60;

/// The names of what failed in one step that are repeated at the end.
const N_NAMES: usize = 20;

/// The results of the steps.
#[derive(Debug, Default)]
pub(super) struct Summary {
    lines: Vec<String>,
    failed: Vec<&'static str>,
    /// The output of failed steps.
    failures_text: String,
    /// The names of what failed in these steps.
    names: Vec<String>,
}

impl Summary {
    /// Runs a step here.
    pub(super) fn run(&mut self, step: &Step) {
        let (start, computed) = (Instant::now(), process::computed());
        let what = match (step.run)() {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::NotRun(why)) => format!("NOT RUN: {why}"),
            Err(error) => {
                self.failed.push(step.name);
                format!("{FAILED}: {error:#}")
            }
        };
        let computed = process::computed().saturating_sub(computed);
        let (wall, computed) = (seconds(start.elapsed()), seconds(computed));
        let line = format!("{:<12} {wall:>9} {computed:>9}  {what}", step.name);
        println!("=== {line}");
        self.lines.push(line);
    }

    /// Prints the output of a step that ran as a process of its own, and records its result.
    pub(super) fn show(&mut self, step: &Step, text: Result<String>) {
        print!("{}", text.as_deref().unwrap_or_default());
        self.add(step, text);
    }

    /// Records the result of a step that ran as a process of its own, from its output.
    pub(super) fn add(&mut self, step: &Step, text: Result<String>) {
        let text = text.unwrap_or_else(|error| format!("{error:#}\n"));
        let begin = format!("=== {} ", step.name);
        let lines = text.lines().rev();
        let line = lines
            .filter(|line| line.starts_with(&begin))
            .find_map(|line| line.strip_prefix("=== "));
        let line = line.map_or_else(
            || format!("{:<12} {FAILED}: it did not end", step.name),
            str::to_owned,
        );
        if line.contains(FAILED) {
            self.failed.push(step.name);
            let failures = failures(&text);
            self.failures_text += &format!("\n=== what failed in {}:\n{failures}\n", step.name);
            let names = names(&text);
            let names = names.map(|name| format!("failed in {}: {name}", step.name));
            self.names.extend(names.take(N_NAMES));
        }
        self.lines.push(line);
    }

    /// Prints the failures, a line for each step with its time and that of the processors, and the
    /// names of what failed. Fails if a step did.
    pub(super) fn tell(self, start: Instant) -> Result<Outcome> {
        println!("{}\n{}", self.failures_text, self.lines.join("\n"));
        let (wall, computed) = (seconds(start.elapsed()), seconds(process::computed()));
        println!("{:<12} {wall:>9} {computed:>9}", "all");
        if !self.failed.is_empty() {
            let failed = self.failed.join(" ");
            println!("{}", self.names.join("\n"));
            bail!("failed: {failed}; repeat it with `cargo xtask test {failed}`");
        }
        Ok(Outcome::Passed)
    }
}

/// The first and last lines of output of each failed test, the last lines of each program that did
/// not end by itself, or the last lines of a text that has neither.
fn failures(text: &str) -> String {
    let mut failures = Vec::new();
    for program in programs(text) {
        let of_tests = failures_of_tests(program);
        if of_tests.is_empty() && program.lines().any(|line| crash(line).is_some()) {
            failures.extend(last_lines(program));
        }
        failures.extend(of_tests);
    }
    if failures.is_empty() {
        failures = last_lines(text);
    }
    failures.join("\n")
}

/// The output of each program that cargo runs, and what is before the first.
fn programs(text: &str) -> impl Iterator<Item = &str> {
    let starts = ["\n     Running ", "\n   Doc-tests "];
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let ends = starts.iter().filter_map(|start| text.find(start));
        let (program, behind) = match ends.min() {
            Some(end) => (&text[..end], Some(&text[end + 1..])),
            None => (text, None),
        };
        rest = behind;
        Some(program)
    })
}

fn failures_of_tests(text: &str) -> Vec<&str> {
    let mut failures = Vec::new();
    let mut lines = text.lines();
    // Each program lists its failures: their output, and then their names.
    while lines.any(|line| line == "failures:") {
        let of_tests = lines.by_ref().take_while(|line| *line != "failures:");
        let of_tests: Vec<_> = of_tests.filter(|line| !line.is_empty()).collect();
        for of_test in of_tests.chunk_by(|_, line| !line.starts_with("---- ")) {
            failures.extend(first_and_last(of_test));
        }
        let names = lines.by_ref();
        failures.extend(
            names
                .take_while(|line| !line.starts_with("test result"))
                .filter(|line| !line.is_empty()),
        );
    }
    failures
}

/// The first and last lines of an output. What a test caught comes first, why it failed last.
fn first_and_last<'a>(lines: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let n_left_out = lines.len().saturating_sub(N_REPEATED);
    let n_first = if n_left_out == 0 {
        lines.len()
    } else {
        N_REPEATED / 2
    };
    let (first, rest) = lines.split_at(n_first);
    let gap = (n_left_out > 0).then_some("...");
    let last = rest.iter().skip(n_left_out);
    first.iter().copied().chain(gap).chain(last.copied())
}

fn last_lines(text: &str) -> Vec<&str> {
    let n_lines = text.lines().count();
    text.lines()
        .skip(n_lines.saturating_sub(N_REPEATED))
        .collect()
}

/// The tests that failed, the programs that did not end by themselves, and what had to be ended, by
/// their lines.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let test = line.strip_prefix("test ");
        test.and_then(|test| test.strip_suffix("... FAILED"))
            .or_else(|| crash(line))
            .or_else(|| line.starts_with(NOT_ENDED).then_some(line))
            .map(str::trim)
    })
}

/// What cargo says of a program that did not end by itself, or not as one whose tests failed.
fn crash(line: &str) -> Option<&str> {
    line.contains("process didn't exit successfully")
        .then_some(line)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{N_REPEATED, Summary, failures, names};
    use crate::ci::STEPS;

    #[test]
    fn a_step_that_ran_by_itself_failed_if_its_line_says_so_or_is_missing() {
        let mut summary = Summary::default();
        let line = |text: &str| Ok(format!("=== [1/1] {text}\n=== {text}\n\n{text}\n"));
        summary.add(&STEPS[0], line("setup  1.0 s  passed"));
        summary.add(&STEPS[1], line("fmt  1.0 s  FAILED: ugly"));
        summary.add(&STEPS[2], Ok("killed".to_owned()));
        summary.add(&STEPS[3], Err(anyhow::anyhow!("cannot be started")));
        assert_eq!(summary.lines[0], "setup  1.0 s  passed");
        assert_eq!(summary.failed, ["fmt", STEPS[2].name, STEPS[3].name]);
        assert!(
            summary.failures_text.contains("ugly")
                && summary.failures_text.contains("cannot be started")
        );
        assert!(
            !summary.failures_text.contains("setup"),
            "{}",
            summary.failures_text
        );
    }

    #[test]
    fn the_end_tells_what_each_test_that_failed_has_printed() {
        let long = "of one\n".repeat(2 * N_REPEATED) + "why one failed\n";
        let one =
            format!("test a::one ... FAILED\n\nfailures:\n\n---- a::one stdout ----\n{long}\n");
        let two = "---- b stdout ----\nof two\n\n\nfailures:\n    a::one\n    b\n\n";
        let end = "test result: FAILED. 3 passed; 2 failed\n";
        let text = failures(&format!("test good ... ok\n{one}{two}{end}test c ... ok\n"));
        assert!(text.matches("of one").count() < N_REPEATED, "{text}");
        assert!(text.contains("why one failed"), "{text}");
        assert!(
            text.contains("of two") && text.contains("    a::one\n    b"),
            "{text}"
        );
        assert!(!text.contains("good") && !text.contains("result"), "{text}");
    }

    #[test]
    fn the_end_tells_of_a_program_that_crashed_among_others() {
        let crash = "process didn't exit successfully: `deps/b-1` (signal: 6, SIGABRT)";
        let text = format!(
            "x\n     Running tests/a.rs (deps/a-1)\ntest good ... ok\n     Running tests/b.rs \
             (deps/b-1)\nfree(): invalid pointer\nerror: test failed\n\nCaused by:\n  {crash}\n   \
             Doc-tests c\ntest src/c.rs - d (line 1) ... FAILED\n\nfailures:\n\n---- d ----\nof \
             d\n\nfailures:\n    d\n\ntest result: FAILED.\n"
        );
        let end = failures(&text);
        assert!(
            end.contains("invalid pointer") && end.contains("of d"),
            "{end}"
        );
        assert!(!end.contains("good"), "{end}");
        assert!(names(&text).eq([crash, "src/c.rs - d (line 1)"]));
    }

    #[test]
    fn the_end_tells_the_last_lines_of_what_names_no_test() {
        let text = failures("first\nerror[E0308]: mismatched types\n");
        assert_eq!(text, "first\nerror[E0308]: mismatched types");
    }
}
