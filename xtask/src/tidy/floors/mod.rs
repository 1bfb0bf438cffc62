//! The floors of a crate: a table in the docs of its `lib.rs` orders its modules, a module imports
//! from floors below its own alone, and no files of the crate import each other in a circle.

mod circles;
mod imports;
mod tree;

use std::collections::BTreeMap;

use super::source::Source;
use super::{Finding, docs};
use imports::Imports;
use tree::Tree;

/// The crates that are built in floors.
const CRATES: &[&str] = &[
    "am",
    "backend-mpi",
    "backend-smp",
    "containers",
    "core",
    "lockfree",
];

/// The heading of the section in the docs.
const HEADING: &str = "# Floors";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let roots = CRATES
        .iter()
        .map(|name| format!("crates/{name}/src/lib.rs"));
    roots.flat_map(|root| check_crate(&root, sources)).collect()
}

fn check_crate(root: &str, sources: &[Source]) -> Vec<Finding> {
    let Some(source) = sources.iter().find(|source| source.path == root) else {
        return vec![Finding::in_file(
            root,
            "is to be built in floors, and does not exist",
        )];
    };
    let tree = Tree::of(root, sources);
    let imports = imports::of(&tree);
    let mut findings = circles::check(&tree, &imports);
    findings.extend(check_floors(
        root,
        &docs::module_docs(source),
        &tree,
        &imports,
    ));
    findings
}

/// The modules that the table names, each with its floor, counted from above.
fn floors(module_docs: &str) -> Vec<(&str, usize)> {
    let lines = module_docs.lines().map(str::trim);
    let section = lines
        .skip_while(|line| *line != HEADING)
        .skip(1)
        .take_while(|line| !line.starts_with("# "));
    // Skip the head of the table and the line below it.
    let rows = section.filter(|line| line.starts_with('|')).skip(2);
    rows.enumerate()
        .flat_map(|(floor, row)| {
            let names = row.split('`').skip(1).step_by(2);
            names.map(move |name| (name, floor))
        })
        .collect()
}

fn check_floors(root: &str, module_docs: &str, tree: &Tree<'_>, imports: &Imports) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut floor_of = BTreeMap::new();
    for (name, floor) in floors(module_docs) {
        if floor_of.insert(name, floor).is_some() {
            let message = format!("the table of floors names `{name}` twice");
            findings.push(Finding::in_file(root, message));
        }
    }
    let tops: Vec<&str> = tree.tops().collect();
    for name in &tops {
        if !floor_of.contains_key(name) {
            let message = format!("`{HEADING}` does not say on which floor `{name}` is");
            findings.push(Finding::in_file(root, message));
        }
    }
    for name in floor_of.keys().filter(|name| !tops.contains(*name)) {
        let message = format!("the table of floors names `{name}`, which is no module");
        findings.push(Finding::in_file(root, message));
    }
    for (&(from, to), place) in imports {
        let message = match (tree.top_of(from), tree.top_of(to)) {
            (Some(from), Some(to)) if from != to => {
                let (Some(floor), Some(of_other)) = (floor_of.get(from), floor_of.get(to)) else {
                    continue;
                };
                if floor < of_other {
                    continue;
                }
                format!("`{from}` imports from `{to}`, which is not on a floor below")
            }
            (Some(from), None) => format!("`{from}` imports from the root, which is above all"),
            _ => continue,
        };
        findings.push(Finding::at(&place.path, place.line, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check_crate;
    use crate::tidy::source::Source;

    const ROOT: &str = "c/src/lib.rs";

    /// The findings in a crate of modules `a`, `b` and `b::inner`, of which `a` is the upper floor.
    fn found(a: &str, b: &str, inner: &str) -> Vec<String> {
        let root = "//! A crate.\n//!\n//! # Floors\n//!\n//! | floor | modules |\n//! |---|---|\n\
                    //! | above | `a` |\n//! | below | `b` |\nmod a;\nmod b;\npub use b::inner::Item;";
        let files = [
            (ROOT, root),
            ("c/src/a.rs", a),
            ("c/src/b/mod.rs", &format!("pub mod inner;\n{b}")),
            ("c/src/b/inner.rs", inner),
        ];
        let sources = files.map(|(path, text)| Source::parse(path, text).unwrap());
        let findings = check_crate(ROOT, &sources);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn imports_from_below_are_in_order() {
        let a = "use crate::b::f;\nfn g(_: super::Item) { f(); crate::b::inner::h(); }";
        assert_eq!(found(a, "pub fn f() {}", "pub struct Item;"), [""; 0]);
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        for b in [
            "use crate::a::g;",
            "use super::a::{self, *};\nfn f() { a::g(); }",
            "fn f() -> crate::a::G { todo!() }",
            "fn f() { println!(\"{}\", crate::a::g()); }",
            "fn f() { use crate::a as other;\nother::g(); }",
            "mod c { use super::super::a::g; }",
        ] {
            let found = found("fn g() {}", b, "");
            assert_eq!(found.len(), 1, "{b}: {found:?}");
            assert!(found[0].contains("`b` imports from `a`"), "{b}: {found:?}");
        }
    }

    #[test]
    fn a_reexport_does_not_hide_where_an_item_is_from() {
        let through_root = found("pub struct G;", "", "use crate::b::G;\npub struct Item;");
        assert_eq!(
            through_root, [""; 0],
            "`b` has no `G`, and nothing is known of it"
        );
        let hidden = found(
            "pub struct G;",
            "pub(crate) use crate::a::G;",
            "use super::G;",
        );
        assert!(
            hidden
                .iter()
                .any(|text| text.contains("`b` imports from `a`")),
            "{hidden:?}"
        );
    }

    #[test]
    fn a_circle_is_named_with_the_places_of_its_imports() {
        let found = found(
            "",
            "use inner::Item;\nfn f(_: Item) {}",
            "use super::f;\npub struct Item;",
        );
        assert_eq!(found.len(), 1, "{found:?}");
        let circle = "c/src/b/mod.rs:2: a circle of imports: b from b::inner (c/src/b/mod.rs:2), \
                      b::inner from b (c/src/b/inner.rs:1)";
        assert_eq!(found[0], circle);
    }

    #[test]
    fn tests_may_import_anything() {
        let b = "#[cfg(test)]\nuse crate::a::g;\n#[cfg(test)]\nmod tests { use crate::a::g; }\n\
                 #[cfg(test)]\nfn f() { crate::a::g() }";
        assert_eq!(found("pub fn g() {}", b, ""), [""; 0]);
    }

    #[test]
    fn a_module_without_a_floor_and_a_floor_without_a_module_are_found() {
        let docs =
            "//! # Floors\n//! | floor | modules |\n//! |---|---|\n//! | one | `gone` |\nmod a;";
        let sources = [Source::parse(ROOT, docs).unwrap()];
        let found = check_crate(ROOT, &sources);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("on which floor `a` is"), "{found:?}");
        assert!(found[1].contains("`gone`, which is no module"), "{found:?}");
    }
}
