//! Every package takes its licence, edition, version and lints from the workspace. What licences
//! the dependencies have is checked in `dependencies`.

use super::Finding;

const INHERITED: &[(&str, &str)] = &[
    ("package", "version.workspace = true"),
    ("package", "edition.workspace = true"),
    ("package", "rust-version.workspace = true"),
    ("package", "license.workspace = true"),
    ("lints", "workspace = true"),
];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    INHERITED
        .iter()
        .filter(|(section, setting)| !section_of(text, section).any(|line| line == *setting))
        .map(|(section, setting)| Finding::in_file(path, format!("[{section}] lacks `{setting}`")))
        .collect()
}

/// The lines of one section of a manifest.
fn section_of<'a>(text: &'a str, section: &str) -> impl Iterator<Item = &'a str> {
    let header = format!("[{section}]");
    text.lines()
        .map(str::trim)
        .skip_while(move |line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::check;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_manifest_that_inherits_is_in_order() {
        assert_eq!(check("Cargo.toml", GOOD), []);
    }

    #[test]
    fn a_setting_of_its_own_is_found() {
        let bad = GOOD.replace("license.workspace = true", "license = \"GPL-3.0\"");
        let found = check("Cargo.toml", &bad);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("license.workspace"), "{found:?}");
    }

    #[test]
    fn lints_are_looked_for_in_their_own_section() {
        let bad = GOOD.replace("[lints]", "[features]");
        assert_eq!(check("Cargo.toml", &bad).len(), 1);
    }
}
