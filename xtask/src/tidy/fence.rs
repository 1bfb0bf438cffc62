//! The fence around unsafe code: the files that `docs/UNSAFE.md` lists, and no others.

use std::collections::BTreeSet;

use super::Finding;
use super::source::Source;

const PAGE: &str = "docs/UNSAFE.md";

pub(super) fn check(page: &str, sources: &[Source]) -> Vec<Finding> {
    let listed = listed(page);
    let mut findings = Vec::new();
    for source in sources {
        let is_listed = listed.contains(source.path.as_str());
        match source.unsafe_lines.first() {
            Some(&line) if !is_listed => findings.push(Finding::at(
                &source.path,
                line,
                format!("unsafe code outside the fence: {PAGE} does not list this file"),
            )),
            None if is_listed => findings.push(Finding::in_file(
                PAGE,
                format!("lists {}, which holds no unsafe code", source.path),
            )),
            _ => {}
        }
    }
    for path in listed {
        if !sources.iter().any(|source| source.path == path) {
            findings.push(Finding::in_file(
                PAGE,
                format!("lists {path}, which does not exist"),
            ));
        }
    }
    findings
}

/// The files of the fence: list items that begin with a path in backticks.
fn listed(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("- `")?.split_once('`'))
        .map(|(path, _)| path)
        .filter(|path| super::has_extension(path, "rs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::source::Source;

    fn findings(page: &str, files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::parse(path, text).unwrap())
            .collect();
        check(page, &sources)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_listed_file_may_be_unsafe() {
        let page = "# Fence\n- `core/raw.rs`: copies\n- not a file\n";
        assert!(
            findings(
                page,
                &[
                    ("core/raw.rs", "unsafe fn f() {}"),
                    ("core/a.rs", "fn f() {}")
                ]
            )
            .is_empty()
        );
    }

    #[test]
    fn unsafe_elsewhere_is_found_with_its_line() {
        let found = findings("", &[("core/a.rs", "fn f() {\n    unsafe { g() }\n}")]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("core/a.rs:2: unsafe code outside"),
            "{found:?}"
        );
    }

    #[test]
    fn a_list_that_has_gone_stale_is_found() {
        let found = findings(
            "- `core/a.rs`\n- `core/gone.rs`\n",
            &[("core/a.rs", "fn f() {}")],
        );
        assert_eq!(found.len(), 2);
        assert!(
            found[0].contains("core/a.rs, which holds no unsafe"),
            "{found:?}"
        );
        assert!(
            found[1].contains("core/gone.rs, which does not exist"),
            "{found:?}"
        );
    }
}
