//! The reading path, on which a newcomer follows one operation, an addition to a value of a hash
//! map in shared memory. It is a list of functions, each of which is called by one before it, and
//! their files. The calls are checked against the code, the files against `docs/ARCHITECTURE.md`.
//! Together the files must stay short enough to be read.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprCall, ExprMethodCall, Ident, ImplItemFn, ItemFn, ItemMacro, ItemMod, Macro,
    TraitItemFn,
};

use super::source::Source;
use super::{Finding, sizes};

/// The files, and the functions that are called there.
const PATH: &[(&str, &str)] = &[
    ("crates/containers/src/hash_map/mod.rs", "fetch_add"),
    ("crates/containers/src/hash_map/op.rs", "perform"),
    ("crates/lockfree/src/slots/probe.rs", "probe"),
    ("crates/containers/src/hash_map/slot/mod.rs", "fetch_op"),
    ("crates/containers/src/hash_map/slot/local.rs", "fetch_op"),
    ("crates/core/src/rma/near.rs", "fetch_op"),
    ("crates/core/src/raw/word.rs", "fetch"),
];

/// The page that describes the path, and the heading of its section.
const PAGE: &str = "docs/ARCHITECTURE.md";
const HEADING: &str = "## The path of one operation";

/// Lines of code of all files together, tests left out. More is reported.
const BUDGET: usize = 1600;

pub(super) fn check(page: &str, sources: &[Source]) -> Vec<Finding> {
    check_path(PATH, page, sources)
}

fn check_path(path: &[(&str, &str)], page: &str, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The calls of the functions so far.
    let mut called = BTreeSet::new();
    for (i, &(file, function)) in path.iter().enumerate() {
        let calls = find(sources, file).and_then(|source| calls_of(source, function));
        let Some(calls) = calls else {
            let message = format!("is on the reading path, and has no function `{function}`");
            findings.push(Finding::in_file(file, message));
            continue;
        };
        if i > 0 && !called.contains(function) {
            let message = format!(
                "is on the reading path, and no function before it there calls `{function}`"
            );
            findings.push(Finding::in_file(file, message));
        }
        called.extend(calls);
    }
    let files: Vec<&str> = path.iter().map(|(file, _)| *file).collect();
    let named = files_of(page);
    if named != files {
        let message = format!("`{HEADING}` leads through {named:?} instead of {files:?}");
        findings.push(Finding::in_file(PAGE, message));
    }
    findings
}

/// The files that the numbered entries of the page's section link to.
fn files_of(page: &str) -> Vec<&str> {
    let lines = page.lines().skip_while(|line| *line != HEADING).skip(1);
    let section = lines.take_while(|line| !line.starts_with("## "));
    let entries = section.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    entries
        .filter_map(|line| Some(line.split_once("](../")?.1.split_once(')')?.0))
        .collect()
}

/// The calls of the functions with this name in a file, including calls by the file's own macros
/// and functions. `None` if there is no such function.
fn calls_of(source: &Source, function: &str) -> Option<BTreeSet<String>> {
    let mut file = Calls::default();
    file.visit_file(&source.syntax);
    let mut calls = file.functions.remove(function)?;
    let mut todo: Vec<String> = calls.iter().cloned().collect();
    while let Some(name) = todo.pop() {
        let within = [&file.macros, &file.functions].map(|by_name| by_name.get(&name));
        let new: Vec<String> = within
            .into_iter()
            .flatten()
            .flatten()
            .filter(|&name| !calls.contains(name))
            .cloned()
            .collect();
        calls.extend(new.iter().cloned());
        todo.extend(new);
    }
    Some(calls)
}

/// The calls of a file, by the names of its functions and macros. Those of macros have their names,
/// too.
#[derive(Default)]
struct Calls {
    functions: BTreeMap<String, BTreeSet<String>>,
    macros: BTreeMap<String, BTreeSet<String>>,
    /// The function that is looked at.
    current: Option<String>,
}

impl Calls {
    fn function(&mut self, name: &Ident, visit: impl FnOnce(&mut Self)) {
        let name = name.to_string();
        self.functions.entry(name.clone()).or_default();
        let outer = self.current.replace(name);
        visit(self);
        self.current = outer;
    }

    fn add(&mut self, names: impl IntoIterator<Item = String>) {
        if let Some(current) = &self.current {
            self.functions
                .entry(current.clone())
                .or_default()
                .extend(names);
        }
    }
}

/// The calls in unparsed tokens: names before a parenthesis.
fn calls_in(tokens: TokenStream) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut last = None;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => last = Some(ident.to_string()),
            TokenTree::Group(group) => {
                if group.delimiter() == Delimiter::Parenthesis {
                    names.extend(last.take());
                }
                names.extend(calls_in(group.stream()));
                last = None;
            }
            // The name of a macro stands before its parenthesis, too.
            TokenTree::Punct(punct) if punct.as_char() == '!' => {}
            TokenTree::Punct(_) | TokenTree::Literal(_) => last = None,
        }
    }
    names
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig.ident, |calls| {
            visit::visit_item_fn(calls, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig.ident, |calls| {
            visit::visit_impl_item_fn(calls, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.function(&item.sig.ident, |calls| {
            visit::visit_trait_item_fn(calls, item);
        });
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !sizes::is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if let Some(name) = &item.ident {
            let calls = calls_in(item.mac.tokens.clone());
            self.macros.insert(name.to_string(), calls);
        }
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = mac.path.segments.last().map(|last| last.ident.to_string());
        self.add(name);
        self.add(calls_in(mac.tokens.clone()));
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let name = path.path.segments.last().map(|last| last.ident.to_string());
            self.add(name);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.add([call.method.to_string()]);
        visit::visit_expr_method_call(self, call);
    }
}

/// The length of the path, and whether it is too long.
pub(super) fn length(sources: &[Source]) -> String {
    let lines: usize = PATH
        .iter()
        .filter_map(|(file, _)| find(sources, file))
        .map(sizes::code_lines)
        .sum();
    let verdict = if lines > BUDGET {
        "more than"
    } else {
        "of at most"
    };
    format!("the reading path has {lines} lines of code, {verdict} {BUDGET}")
}

fn find<'a>(sources: &'a [Source], path: &str) -> Option<&'a Source> {
    sources.iter().find(|source| source.path == path)
}

#[cfg(test)]
mod tests {
    use super::{PATH, check_path};
    use crate::tidy::source::Source;

    const PAGE: &str = "## Before\n1. [`c`](../c.rs)\n\n## The path of one operation\nIn three:\n\n\
                        1. [`a`](../a.rs): begins.\n2. [`b`](../b.rs)\n3. [`c`](../c.rs)\n\n## Behind";

    /// The findings if `f` of `a.rs` should call `g` of `b.rs`, and one of them `h` of `c.rs`.
    fn found(a: &str, b: &str, page: &str) -> Vec<String> {
        let files = [("a.rs", a), ("b.rs", b), ("c.rs", "fn h() {}")];
        let sources = files.map(|(path, text)| Source::parse(path, text).unwrap());
        let path = [("a.rs", "f"), ("b.rs", "g"), ("c.rs", "h")];
        let findings = check_path(&path, page, &sources);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_along_calls_is_in_order_however_they_are_written() {
        for (a, b) in [
            ("fn f() { g() }", "fn g() { h() }"),
            ("fn f() { x.g(); c::h(); }", "impl A { fn g() {} }"),
            (
                "fn f() { m!(x, |y| y.g(1)) }",
                "fn g() { let k = || x.h(); }",
            ),
            (
                "macro_rules! n { () => { b::g($x) } } fn f() { n!() }",
                "fn g() { h() }",
            ),
            (
                "macro_rules! n { () => { g() } } macro_rules! o { () => { n!() } } fn f() { o!() }",
                "fn g() { h() }",
            ),
            (
                "fn f() { k() } fn k() { f(); l::<A>() } fn l() { g() }",
                "impl A { fn g() { m!(|| self.k()) } fn k() { h() } }",
            ),
        ] {
            assert_eq!(found(a, b, PAGE), [""; 0], "{a} {b}");
        }
    }

    #[test]
    fn a_file_that_no_file_before_it_calls_is_found() {
        for (a, b) in [
            ("fn f() {} fn other() { g() }", "fn g() { h() }"),
            (
                "macro_rules! n { () => { g() } } fn f() {}",
                "fn g() { h() }",
            ),
            ("fn f() { let g = 1; }", "fn g() { h() }"),
        ] {
            let found = found(a, b, PAGE);
            assert_eq!(found.len(), 1, "{a}: {found:?}");
            assert!(found[0].contains("calls `g`"), "{found:?}");
        }
        let found = found("fn f() { g() }", "fn g() {} fn k() { h() }", PAGE);
        assert!(
            found.len() == 1 && found[0].contains("calls `h`"),
            "{found:?}"
        );
    }

    #[test]
    fn a_function_that_has_moved_is_found() {
        let found = found("fn f() { g(); h() }", "mod c { }", PAGE);
        assert!(
            found.len() == 1 && found[0].contains("no function `g`"),
            "{found:?}"
        );
    }

    #[test]
    fn a_page_that_leads_elsewhere_is_found() {
        let (a, b) = ("fn f() { g() }", "fn g() { h() }");
        for page in [
            PAGE.replace("2. [`b`](../b.rs)\n", ""),
            PAGE.replace("(../b.rs)", "(../d.rs)"),
            PAGE.replace("## The", "## A"),
        ] {
            let found = found(a, b, &page);
            assert!(
                found.len() == 1 && found[0].contains("leads through"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_path_is_one_that_a_newcomer_can_read() {
        assert!(PATH.len() <= 7);
    }
}
