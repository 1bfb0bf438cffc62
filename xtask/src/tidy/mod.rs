//! The rules of the house that no compiler checks. Each subject is a file with a function from text
//! to findings, so that it is tested on text; here the files are collected and the findings
//! printed.

mod commands;
mod comments;
mod docs;
mod examples;
mod fence;
mod floors;
mod manifests;
mod products;
mod reading_path;
mod sizes;
mod source;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::process::{Outcome, command, output, root};
use source::Source;

/// The largest file of the tree is the genome of the README's first command, with 1.5 MB.
const MAX_BYTES: u64 = 2 << 20;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from one; nothing where the whole file is meant.
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: Some(line),
            message: message.into(),
        }
    }

    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            message,
        } = self;
        match line {
            Some(line) => write!(f, "{path}:{line}: {message}"),
            None => write!(f, "{path}: {message}"),
        }
    }
}

/// Runs every check over the tree, prints the findings, and fails if there are any.
pub(crate) fn run() -> Result<Outcome> {
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for (path, text) in files(&|name| has_extension(name, "rs"))? {
        match Source::parse(&path, &text) {
            Ok(source) => sources.push(source),
            Err(error) => {
                findings.push(Finding::in_file(&path, format!("does not parse: {error}")));
            }
        }
    }
    for source in &sources {
        findings.extend(docs::check(source));
        findings.extend(comments::check(source));
    }
    findings.extend(docs::check_table(&sources));
    let guide = files(&|name| has_extension(name, "md"))?;
    findings.extend(examples::check(&sources, &guide));
    findings.extend(reading_path::check(
        &read("docs/ARCHITECTURE.md")?,
        &sources,
    ));
    findings.extend(floors::check(&sources));
    findings.extend(fence::check(&read("docs/UNSAFE.md")?, &sources));
    let manifests = files(&|name| name == "Cargo.toml")?;
    for (path, text) in &manifests {
        findings.extend(manifests::check(path, text));
    }
    let benches = commands::benches(&manifests);
    let texts = |name: &str| has_extension(name, "md") || has_extension(name, "rs");
    for (path, text) in files(&texts)? {
        findings.extend(commands::check(&path, &text, &benches));
    }
    findings.extend(heavy()?);
    // Outside a repository, as in an unpacked archive, nothing is tracked.
    let mut tracked = command("git", ["ls-files", "-z"]);
    findings.extend(products::check(&output(&mut tracked).unwrap_or_default()));
    for note in sources.iter().flat_map(sizes::notes) {
        println!("note: {note}");
    }
    println!("note: {}", reading_path::length(&sources));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} source files are in order", sources.len());
        return Ok(Outcome::Passed);
    }
    bail!("tidy found {} places to mend", findings.len());
}

/// A text file of the tree, by its path from the root.
fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// Path and text of every file of the tree whose name is wanted, sorted by path.
fn files(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for path in paths()? {
        if wanted(path.rsplit('/').next().unwrap_or(&path)) {
            let text = read(&path)?;
            found.push((path, text));
        }
    }
    Ok(found)
}

/// Files that are too large for the tree: something downloaded or made, which everyone would fetch
/// for ever.
fn heavy() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in paths()? {
        let n_bytes = fs::metadata(root().join(&path))?.len();
        if n_bytes > MAX_BYTES {
            let message = format!("has {n_bytes} bytes (at most {MAX_BYTES})");
            findings.push(Finding::in_file(&path, message));
        }
    }
    Ok(findings)
}

/// Every file of the tree, build products and hidden folders left out, sorted by path.
fn paths() -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root().join(&folder))
            .with_context(|| format!("cannot list {}", root().join(&folder).display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match folder.as_str() {
                "" => name.clone(),
                folder => format!("{folder}/{name}"),
            };
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests {
    use super::{Finding, files};

    #[test]
    fn the_walk_finds_sources_and_leaves_build_products_out() {
        let paths: Vec<String> = files(&|name| name == "main.rs")
            .unwrap()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert!(paths.contains(&"xtask/src/main.rs".to_owned()), "{paths:?}");
        assert!(
            paths.iter().all(|path| !path.starts_with("target/")),
            "{paths:?}"
        );
    }

    #[test]
    fn a_finding_prints_as_editors_expect() {
        assert_eq!(Finding::at("a.rs", 3, "wrong").to_string(), "a.rs:3: wrong");
        assert_eq!(Finding::in_file("a.rs", "wrong").to_string(), "a.rs: wrong");
    }
}
