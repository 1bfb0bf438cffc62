//! Mutants of the lock-free code: a line of it, changed for the worse, that a model or a unit test has to notice.
//!
//! They are made in a copy of the package, which is all that the models need. A row names the tests that are run, so that each mutant
//! takes seconds; a row without any says why nobody can tell the mutant from the code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::memory;
use crate::process::{self, Outcome};

mod table;

/// Who notices.
#[derive(Clone, Copy, Debug)]
enum By {
    /// Models with this in their names.
    Models(&'static str),
    /// Unit tests with this in their names.
    Tests(&'static str),
    /// Nobody, for this reason.
    Nobody(&'static str),
}

/// A mutant.
#[derive(Clone, Copy, Debug)]
struct Mutant {
    /// Below the package's `src`.
    file: &'static str,
    /// The text that is replaced, and which of its places in the file, from 0.
    from: (&'static str, usize),
    to: &'static str,
    by: By,
}

impl Mutant {
    /// The file with the change, and the number of the line that it is in.
    fn apply(&self, text: &str) -> Result<(String, usize)> {
        let (from, nth) = self.from;
        let places: Vec<_> = text.match_indices(from).collect();
        let Some((at, _)) = places.get(nth) else {
            let n = places.len();
            bail!(
                "{}: `{from}` is there {n} times, not {}",
                self.file,
                nth + 1
            );
        };
        let (before, rest) = text.split_at(*at);
        let changed = [before, self.to, &rest[from.len()..]].concat();
        Ok((changed, before.lines().count().max(1)))
    }
}

/// How long a mutant may take: one that hangs is noticed.
const LIMIT: Duration = Duration::from_secs(300);

/// Makes every mutant whose file or text has `filter` in it, and lists those that nobody has noticed.
pub(crate) fn run(filter: &str) -> Result<Outcome> {
    let copy = Copy::make()?;
    copy.build()?;
    let chosen = |mutant: &&Mutant| mutant.file.contains(filter) || mutant.from.0.contains(filter);
    let (mut n, mut n_equivalent, mut survivors) = (0, 0, Vec::new());
    for mutant in table::MUTANTS.iter().filter(chosen) {
        let start = Instant::now();
        let (line, is_noticed) = copy.is_noticed(mutant)?;
        let Mutant { file, from, to, .. } = mutant;
        let name = format!("{file}:{line}: `{}` -> `{to}`", from.0.trim());
        let seconds = start.elapsed().as_secs();
        match (mutant.by, is_noticed) {
            (By::Nobody(why), _) => {
                n_equivalent += 1;
                println!("equivalent  {name}: {why}");
            }
            (by, Some(true)) => println!("noticed     {name}: {by:?}, {seconds} s"),
            (by, _) => {
                println!("SURVIVES    {name}: {by:?}, {seconds} s");
                survivors.push(name);
            }
        }
        n += 1;
    }
    let n_noticed = n - n_equivalent - survivors.len();
    println!("{n} mutants: {n_noticed} noticed, {n_equivalent} equivalent");
    ensure!(n > 0, "no mutant has `{filter}` in it");
    if !survivors.is_empty() {
        bail!("nobody notices:\n{}", survivors.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// A workspace with nothing but a copy of the package.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn make() -> Result<Self> {
        let root = process::root().join("target/mutants");
        let package = root.join("lockfree");
        if package.exists() {
            fs::remove_dir_all(&package)?;
        }
        copy_folder(&source(), &package.join("src"))?;
        let original = process::root().join("crates/lockfree");
        fs::copy(original.join("Cargo.toml"), package.join("Cargo.toml"))?;
        let lock = process::root().join("Cargo.lock");
        fs::copy(lock, root.join("Cargo.lock"))?;
        // What the package inherits of the workspace's manifest.
        let manifest = fs::read_to_string(process::root().join("Cargo.toml"))?;
        let inherited = manifest
            .find("[workspace.package]")
            .map(|at| &manifest[at..])
            .context("the workspace's manifest has no `[workspace.package]`")?;
        let head = "[workspace]\nmembers = [\"lockfree\"]\nresolver = \"3\"\n\n";
        fs::write(root.join("Cargo.toml"), [head, inherited].concat())?;
        Ok(Self { root })
    }

    /// Builds the tests of the code as it is, which all mutants share what they depend on with.
    fn build(&self) -> Result<()> {
        for by in [By::Models(memory::ALL_MODELS), By::Tests("")] {
            let mut command = self.cargo(by).context("some tests")?;
            process::run(command.arg("--no-run"))?;
        }
        Ok(())
    }

    /// In which line the mutant is, and whether it is noticed, if somebody should.
    fn is_noticed(&self, mutant: &Mutant) -> Result<(usize, Option<bool>)> {
        let text = fs::read_to_string(source().join(mutant.file))?;
        let (changed, line) = mutant.apply(&text)?;
        let Some(mut tests) = self.cargo(mutant.by) else {
            return Ok((line, None));
        };
        let file = self.root.join("lockfree/src").join(mutant.file);
        fs::write(&file, changed)?;
        let ended = self.judge(mutant, &mut tests);
        fs::write(&file, text)?;
        Ok((line, Some(ended?)))
    }

    /// Whether the mutant, which is there now, fails the tests.
    fn judge(&self, mutant: &Mutant, tests: &mut Command) -> Result<bool> {
        let mut build = self.cargo(mutant.by).context("some tests")?;
        let is_built = process::succeeds(build.arg("--no-run").env("CARGO_TERM_QUIET", "true"));
        ensure!(is_built, "does not compile: {mutant:?}");
        let mut child = tests
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start cargo")?;
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = child.try_wait()? {
                return Ok(!status.success());
            }
            thread::sleep(Duration::from_millis(20));
        }
        child.kill()?;
        child.wait()?;
        Ok(true)
    }

    /// Cargo on the tests that should notice.
    fn cargo(&self, by: By) -> Option<Command> {
        let mut cargo = match by {
            By::Models(filter) => {
                let mut cargo = memory::loom_cargo(filter);
                // Mutants are built more than they are run.
                let package = "profile.release.package.pgas-lockfree.opt-level=1";
                cargo.args(["--config", package]);
                cargo.env("CARGO_INCREMENTAL", "1");
                cargo
            }
            By::Tests(filter) => {
                let test = ["test", "--lib", "-p", memory::WITH_MODELS, filter];
                process::command("cargo", test)
            }
            By::Nobody(_) => return None,
        };
        cargo.current_dir(&self.root);
        let target = match by {
            By::Models(_) => "target/loom",
            _ => "target/tests",
        };
        cargo.env("CARGO_TARGET_DIR", self.root.join(target));
        Some(cargo)
    }
}

fn source() -> PathBuf {
    process::root().join("crates/lockfree/src")
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_changes_a_place_that_is_there() {
        for mutant in table::MUTANTS {
            let text = fs::read_to_string(source().join(mutant.file)).unwrap();
            let (changed, _) = mutant.apply(&text).unwrap();
            assert_ne!(changed, text, "{mutant:?}");
        }
    }
}
