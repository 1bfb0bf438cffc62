//! Benches that texts name by their command are there, in the package that the command names.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

/// The names of each package's benches, from the manifests.
pub(super) fn benches(manifests: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut benches = BTreeMap::new();
    for (_, text) in manifests {
        let mut section = "";
        let mut package = String::new();
        let mut names = BTreeSet::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
            } else if let Some(name) = line.strip_prefix("name = ") {
                let name = name.trim_matches('"').to_owned();
                match section {
                    "[package]" => package = name,
                    "[[bench]]" => drop(names.insert(name)),
                    _ => {}
                }
            }
        }
        benches.insert(package, names);
    }
    benches
}

/// The commands of a text that name a bench that is not there.
pub(super) fn check(
    path: &str,
    text: &str,
    benches: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Code has commands of its own, as in tests.
    let is_source = path.ends_with(".rs");
    let is_text = |line: &str| !is_source || line.trim_start().starts_with("//");
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| is_text(line)) {
        for command in line.split("cargo bench").skip(1) {
            let command = command.split(['`', '"']).next().unwrap_or_default();
            let words: Vec<&str> = command
                .split_whitespace()
                .take_while(|word| *word != "--")
                .collect();
            let named = |option: &str| {
                let pairs = words.windows(2).filter(move |pair| pair[0] == option);
                pairs
                    .map(|pair| pair[1])
                    .filter(|name| name.chars().all(|c| !c.is_uppercase() && c != '*'))
                    .collect::<Vec<_>>()
            };
            let packages = named("-p");
            for bench in named("--bench") {
                let of =
                    |package: &str| benches.get(package).is_some_and(|all| all.contains(bench));
                let is_there = match &packages[..] {
                    [] => benches.keys().any(|package| of(package)),
                    packages => packages.iter().any(|package| of(package)),
                };
                if !is_there {
                    let message = format!("`cargo bench{}`: no such bench", command.trim_end());
                    findings.push(Finding::at(path, number, message));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let manifest =
            "[package]\nname = \"a\"\n[[test]]\nname = \"t\"\n[[bench]]\nname = \"map\"\n";
        let benches = benches(&[("Cargo.toml".to_owned(), manifest.to_owned())]);
        check("README.md", text, &benches).len()
    }

    #[test]
    fn a_bench_is_named_where_it_is() {
        assert_eq!(found("`cargo bench` and `cargo bench --bench map`: all"), 0);
        assert_eq!(found("cargo bench -p a --bench map -- --bench x"), 0);
        assert_eq!(found("cargo bench --bench NAME"), 0);
    }

    #[test]
    fn a_bench_that_is_not_there_or_elsewhere_is_found() {
        assert_eq!(found("`cargo bench --bench maps`"), 1);
        assert_eq!(found("`cargo bench -p b --bench map`"), 1);
        assert_eq!(found("cargo bench --bench t --bench map"), 1);
    }
}
