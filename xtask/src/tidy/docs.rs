//! Module docs in every file, a `# Cost` section on every public function that communicates, and
//! `#[track_caller]` on every collective one and on every non-blocking form.

use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ImplItemFn, ItemFn, ItemMod, ItemTrait, Lit, Meta, ReturnType, Signature,
    TraitItem, Type, Visibility,
};

use super::Finding;
use super::source::Source;

/// Files in which a public function that returns a `Result` or an `Event` is one-sided or
/// collective: all communication can fail. An entry is a file, or a folder with all files in it.
const COMMUNICATES: &[&str] = &[
    "crates/containers/src/hash_map",
    "crates/core/src/alloc/mod.rs",
    "crates/core/src/atomics",
    "crates/core/src/collective",
    "crates/core/src/completion.rs",
    "crates/core/src/messages.rs",
    "crates/core/src/rma",
    "crates/core/src/segment",
    "crates/core/src/symmetric.rs",
    "crates/core/src/team.rs",
];

/// Folders with collective functions. Reports about their calls name the calling line of the
/// program.
const COLLECTIVE: &[&str] = &["crates/am/src", "crates/containers/src", "crates/core/src"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if module_docs(source).is_empty() {
        findings.push(Finding::in_file(
            &source.path,
            "opens without module docs (`//!`)",
        ));
    }
    if COMMUNICATES.iter().any(|entry| covers(entry, &source.path)) {
        findings.extend(without_cost(source));
    }
    if COLLECTIVE.iter().any(|entry| covers(entry, &source.path)) {
        findings.extend(without_the_line_of_its_caller(source));
    }
    findings
}

/// The text of a file's `//!` comments; empty if there are none.
pub(super) fn module_docs(source: &Source) -> String {
    docs(&source.syntax.attrs)
}

/// An entry of the table that names nothing has gone stale.
pub(super) fn check_table(sources: &[Source]) -> Vec<Finding> {
    let entries = COMMUNICATES.iter().chain(COLLECTIVE);
    entries
        .filter(|entry| !sources.iter().any(|source| covers(entry, &source.path)))
        .map(|entry| {
            let message = format!("a table names {entry}, which does not exist");
            Finding::in_file("xtask/src/tidy/docs.rs", message)
        })
        .collect()
}

fn covers(entry: &str, path: &str) -> bool {
    path.strip_prefix(entry)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn without_cost(source: &Source) -> Vec<Finding> {
    let mut functions = PublicFunctions::default();
    functions.visit_file(&source.syntax);
    functions
        .found
        .iter()
        .filter(|function| !function.is_of_trait)
        .filter(|function| !function.docs.lines().any(|line| line.trim() == "# Cost"))
        .map(|function| {
            let message = format!(
                "`{}` communicates and has no `# Cost` section",
                function.name
            );
            Finding::at(&source.path, function.line, message)
        })
        .collect()
}

/// Functions documented as collective, or named as non-blocking forms, that do not track their
/// caller. Exempt are functions that do not communicate, and the non-blocking ones of transports.
fn without_the_line_of_its_caller(source: &Source) -> Vec<Finding> {
    let mut functions = PublicFunctions::default();
    functions.visit_file(&source.syntax);
    let waits = |function: &&Function| {
        let begins = function.name.ends_with("_nb") && !function.is_of_trait;
        (function.docs.contains("Collective over") || begins)
            && !function.docs.contains("without communication")
    };
    let untracked = functions.found.iter().filter(waits);
    untracked
        .filter(|function| !function.is_tracked)
        .map(|function| {
            let message = format!(
                "`{}` is collective or non-blocking and is not `#[track_caller]`: reports of long waits and of calls that differ name the program's line",
                function.name
            );
            Finding::at(&source.path, function.line, message)
        })
        .collect()
}

#[derive(Debug)]
struct Function {
    name: String,
    line: usize,
    docs: String,
    is_tracked: bool,
    /// Programs implement it, too.
    is_of_trait: bool,
}

/// The functions that are `pub` without restriction and return a `Result` or a future, tests left
/// out.
#[derive(Debug, Default)]
struct PublicFunctions {
    found: Vec<Function>,
}

impl PublicFunctions {
    fn add(
        &mut self,
        visibility: &Visibility,
        attrs: &[Attribute],
        signature: &Signature,
        is_of_trait: bool,
    ) {
        if matches!(visibility, Visibility::Public(_)) && may_communicate(&signature.output) {
            self.found.push(Function {
                name: signature.ident.to_string(),
                line: signature.ident.span().start().line,
                docs: docs(attrs),
                is_tracked: attrs
                    .iter()
                    .any(|attr| attr.path().is_ident("track_caller")),
                is_of_trait,
            });
        }
    }
}

impl<'ast> Visit<'ast> for PublicFunctions {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.vis, &item.attrs, &item.sig, false);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.vis, &item.attrs, &item.sig, false);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        for inner in &item.items {
            if let TraitItem::Fn(function) = inner {
                self.add(&item.vis, &function.attrs, &function.sig, true);
            }
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !super::sizes::is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

fn may_communicate(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) if let Type::Path(path) = &**ty => {
            path.path.segments.last().is_some_and(|last| {
                ["Result", "Event", "PgasFuture"]
                    .iter()
                    .any(|it| last.ident == it)
            })
        }
        _ => false,
    }
}

pub(super) fn docs(attrs: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attr in attrs {
        if let Meta::NameValue(meta) = &attr.meta
            && meta.path.is_ident("doc")
        {
            lines.push(match &meta.value {
                Expr::Lit(value) if let Lit::Str(text) = &value.lit => text.value(),
                _ => "(in a file that is included)".to_owned(),
            });
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{check, covers, without_cost, without_the_line_of_its_caller};
    use crate::tidy::source::Source;

    fn source(text: &str) -> Source {
        Source::parse("a.rs", text).unwrap()
    }

    #[test]
    fn a_file_without_module_docs_is_found() {
        assert_eq!(check(&source("/// Of the function.\nfn f() {}")).len(), 1);
        assert!(check(&source("//! Of the module.\nfn f() {}")).is_empty());
        assert!(check(&source("#![doc = include_str!(\"README.md\")]\nfn f() {}")).is_empty());
    }

    #[test]
    fn what_communicates_and_states_no_cost_is_found() {
        let text = "
            /// Moves bytes.
            pub fn put() -> Result<()> {}
            impl A {
                /// Fetches.
                ///
                /// # Cost
                /// `R`. One-sided.
                pub fn get(&self) -> Result<u8> {}
                /// The cost is unknown.
                pub fn flush(&self) -> crate::Result<()> {}
                /// Later.
                pub fn flush_nb(&self) -> Event<()> {}
                /// The rank.
                pub fn rank(&self) -> Rank {}
                pub(crate) fn inner(&self) -> Result<()> {}
                fn private(&self) -> Result<()> {}
            }
            #[cfg(test)]
            mod tests { pub fn helper() -> Result<()> {} }
        ";
        let found: Vec<String> = without_cost(&source(text))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.rs:3: `put`"), "{found:?}");
        assert!(found[1].contains("`flush`"), "{found:?}");
        assert!(found[2].contains("`flush_nb`"), "{found:?}");
    }

    #[test]
    fn a_collective_that_does_not_know_its_caller_is_found() {
        let text = "
            //! Docs.
            /// Collective over the world.
            pub fn resize() -> Result<()> {}
            /// Collective over the team.
            #[track_caller]
            pub fn barrier() -> Result<()> {}
            /// Collective over the team.
            pub fn barrier_nb() -> Event<()> {}
            /// Collective over the team, without communication.
            pub fn new() -> Result<()> {}
            /// Not collective.
            pub fn put() -> Result<()> {}
            /// Not collective.
            pub fn put_nb() -> PgasFuture<()> {}
            pub trait Values {
                /// Collective over the team.
                fn broadcast() -> Result<()>;
            }
        ";
        let found = without_the_line_of_its_caller(&source(text));
        assert_eq!(found.len(), 4);
        for (found, name) in found
            .iter()
            .zip(["resize", "barrier_nb", "put_nb", "broadcast"])
        {
            assert!(found.to_string().contains(&format!("`{name}`")), "{found}");
        }
    }

    #[test]
    fn an_entry_covers_a_file_or_a_folder() {
        assert!(covers("core/src/rma.rs", "core/src/rma.rs"));
        assert!(covers("core/src/rma", "core/src/rma/strided.rs"));
        assert!(!covers("core/src/rma", "core/src/rma_other.rs"));
    }
}
