//! Checks the dependencies: licences, requested versions, and sources. Advisories need a network,
//! so they are not checked.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::process::{self, Outcome, command};

/// The licences that dependencies may have, by their SPDX names.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The only place that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the dependencies of all packages, with all features.
pub(crate) fn run() -> Result<Outcome> {
    let mut metadata = command(
        "cargo",
        ["metadata", "--format-version", "1", "--all-features"],
    );
    let metadata = process::output(&mut metadata).context("`cargo metadata` fails")?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let findings: Vec<String> = packages.iter().flat_map(check).collect();
    for (name, versions) in duplicates(packages) {
        println!("several versions of {name}: {}", versions.join(", "));
    }
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    println!(
        "the dependencies of {} packages are in order",
        packages.len()
    );
    Ok(Outcome::Passed)
}

/// The findings about a package.
fn check(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut findings = Vec::new();
    let licence = package["license"].as_str().unwrap_or_default();
    if !is_allowed(licence) {
        findings.push(format!(
            "{name} has the licence {licence:?}, which is not allowed"
        ));
    }
    // Packages of the workspace have no source.
    match package["source"].as_str() {
        Some(REGISTRY) => {}
        Some(source) => findings.push(format!("{name} comes from {source}")),
        None => findings.extend(wildcards(name, package)),
    }
    findings
}

/// Whether one of the choices that the expression leaves is made of allowed licences alone.
fn is_allowed(licence: &str) -> bool {
    // Some packages still write a slash for `OR`.
    Expression::parse_mode(licence, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|wanted| {
            wanted
                .license
                .id()
                .is_some_and(|id| ALLOWED.contains(&id.name))
        })
    })
}

/// Dependencies of a package of ours on any version of another project's.
fn wildcards(name: &str, package: &Value) -> Vec<String> {
    let dependencies = package["dependencies"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let any = dependencies
        .iter()
        .filter(|dependency| dependency["req"] == "*" && dependency["path"].is_null());
    any.map(|dependency| format!("{name} takes any version of {}", dependency["name"]))
        .collect()
}

/// Packages of which there are several versions, which costs build time.
fn duplicates(packages: &[Value]) -> BTreeMap<&str, Vec<&str>> {
    let mut versions = BTreeMap::<&str, Vec<&str>>::new();
    for package in packages {
        if let (Some(name), Some(version)) = (package["name"].as_str(), package["version"].as_str())
        {
            versions.entry(name).or_default().push(version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{REGISTRY, check, duplicates, is_allowed};

    #[test]
    fn a_licence_is_allowed_if_one_of_the_choices_is() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-2.0) AND Zlib",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "no licence"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn packages_from_elsewhere_are_found() {
        let package = |source: &str| json!({"name": "a", "license": "MIT", "source": source});
        assert_eq!(check(&package(REGISTRY)), [""; 0]);
        let found = check(&package("git+https://somewhere.else/a"));
        assert_eq!(found, ["a comes from git+https://somewhere.else/a"]);
    }

    #[test]
    fn a_dependency_of_ours_on_any_version_is_found() {
        let dependencies = json!([
            {"name": "loose", "req": "*", "path": null},
            {"name": "strict", "req": "^1", "path": null},
            {"name": "ours", "req": "*", "path": "/ours"},
        ]);
        let package = json!({"name": "a", "license": "MIT", "dependencies": dependencies});
        assert_eq!(check(&package), ["a takes any version of \"loose\""]);
    }

    #[test]
    fn several_versions_are_told() {
        let package = |name: &str, version: &str| json!({"name": name, "version": version});
        let packages = [
            package("a", "1.0.0"),
            package("b", "1.0.0"),
            package("a", "2.0.0"),
        ];
        let found: Vec<_> = duplicates(&packages).into_iter().collect();
        assert_eq!(found, [("a", vec!["1.0.0", "2.0.0"])]);
    }
}
