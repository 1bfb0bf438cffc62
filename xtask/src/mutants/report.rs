//! The fates of the mutants, by parts of the code.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail, ensure};

/// In percent, of the mutants that are not explained.
const LEAST_NOTICED: usize = 95;

/// The fate of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Noticed,
    /// No test can notice it.
    Equivalent,
    /// No test notices it, for a stated reason.
    Untested,
    Survives,
    /// It could not be tried.
    Broken,
}

impl Fate {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Noticed => "noticed",
            Self::Equivalent => "equivalent",
            Self::Untested => "no test",
            Self::Survives => "SURVIVES",
            Self::Broken => "BROKEN",
        }
    }
}

/// The number of mutants with each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    n: usize,
    n_noticed: usize,
    /// Mutants with a reason instead of a test.
    n_explained: usize,
    n_survivors: usize,
}

impl Counts {
    fn add(&mut self, fate: Fate) {
        self.n += 1;
        match fate {
            Fate::Noticed => self.n_noticed += 1,
            Fate::Equivalent | Fate::Untested => self.n_explained += 1,
            Fate::Survives | Fate::Broken => self.n_survivors += 1,
        }
    }

    /// The number that has to be noticed.
    fn n_wanted(self) -> usize {
        self.n - self.n_explained
    }
}

#[expect(clippy::cast_precision_loss, reason = "some hundred")]
fn percent(n: usize, of: usize) -> f64 {
    if of == 0 {
        return 100.0;
    }
    n as f64 * 100.0 / of as f64
}

/// All that has been tried.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The counts by parts of the code.
    parts: BTreeMap<String, Counts>,
    all: Counts,
    n_untested: usize,
    failed: Vec<String>,
}

/// The part of the code that a file belongs to: its crate, and its folder or itself there.
fn part_of(path: &str) -> String {
    let path = path.trim_start_matches("crates/").replacen("/src/", "/", 1);
    let mut names = path.splitn(3, '/');
    let (package, part) = (names.next(), names.next());
    let part = part.unwrap_or_default().trim_end_matches(".rs");
    format!("{}/{part}", package.unwrap_or_default())
}

impl Report {
    pub(super) fn add(&mut self, path: &str, fate: Fate, name: String) {
        self.parts.entry(part_of(path)).or_default().add(fate);
        self.all.add(fate);
        self.n_untested += usize::from(fate == Fate::Untested);
        if matches!(fate, Fate::Survives | Fate::Broken) {
            self.failed.push(name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.n == 0
    }

    /// An error if a mutant survives without a sentence, or if too few are noticed.
    pub(super) fn verdict(&self) -> Result<()> {
        if !self.failed.is_empty() {
            bail!("not noticed, or not tried:\n{}", self.failed.join("\n"));
        }
        let Counts { n_noticed, .. } = self.all;
        ensure!(
            n_noticed * 100 >= self.all.n_wanted() * LEAST_NOTICED,
            "less than {LEAST_NOTICED} % are noticed"
        );
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.parts.keys().map(String::len).max().unwrap_or(0);
        writeln!(
            f,
            "{:width$}  rows  noticed  explained  survived     rate",
            ""
        )?;
        let parts = self
            .parts
            .iter()
            .map(|(name, counts)| (name.as_str(), counts));
        for (name, counts) in parts.chain([("all", &self.all)]) {
            let rate = percent(counts.n_noticed, counts.n_wanted());
            writeln!(
                f,
                "{name:width$}  {:>4}  {:>7}  {:>9}  {:>8}  {rate:>5.1} %",
                counts.n, counts.n_noticed, counts.n_explained, counts.n_survivors
            )?;
        }
        let n_equivalent = self.all.n_explained - self.n_untested;
        let rate = percent(self.all.n_noticed, self.all.n - n_equivalent);
        let n_untested = self.n_untested;
        write!(
            f,
            "explained: {n_equivalent} equivalent, {n_untested} that no test can notice; with these \
             the rate is {rate:.1} %"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(fates: &[Fate]) -> Report {
        let mut report = Report::default();
        for fate in fates {
            let path = "crates/lockfree/src/slots/mod.rs";
            report.add(path, *fate, "a line".to_owned());
        }
        report
    }

    #[test]
    fn the_rate_is_of_those_that_are_not_explained() {
        use Fate::{Equivalent, Noticed, Survives, Untested};
        let all = report(&[Noticed, Noticed, Noticed, Survives, Equivalent, Untested]);
        let shown = all.to_string();
        assert!(
            shown.contains("lockfree/slots     6        3          2         1   75.0 %"),
            "{shown}"
        );
        assert!(
            shown.contains("1 equivalent, 1 that no test can notice"),
            "{shown}"
        );
        assert!(shown.contains("with these the rate is 60.0 %"), "{shown}");
        let error = all.verdict().unwrap_err().to_string();
        assert!(error.contains("a line"), "{error}");
    }

    #[test]
    fn what_is_noticed_or_explained_passes_and_what_could_not_be_tried_does_not() {
        assert!(report(&[Fate::Noticed, Fate::Equivalent]).verdict().is_ok());
        assert!(report(&[Fate::Noticed, Fate::Broken]).verdict().is_err());
    }

    #[test]
    fn a_part_is_a_folder_or_a_file_of_a_crate() {
        assert_eq!(part_of("crates/am/src/outbox.rs"), "am/outbox");
        assert_eq!(part_of("crates/am/src/future/cell.rs"), "am/future");
    }
}
