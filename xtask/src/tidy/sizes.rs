//! Files and functions that have grown long. They are reported, not forbidden.

use std::ops::RangeInclusive;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemMod, Meta, Signature, TraitItemFn};

use super::source::Source;

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 60;

/// Files and functions that are too long. Lines of code count, without tests.
pub(super) fn notes(source: &Source) -> Vec<String> {
    let file = code_lines(source);
    let mut notes = Vec::new();
    if file > FILE_LINES {
        notes.push(format!(
            "{}: {file} lines of code (about {FILE_LINES} at most)",
            source.path
        ));
    }
    for (name, lines) in lengths(source).functions {
        let start = *lines.start();
        let n_lines = count(source, lines);
        if n_lines > FUNCTION_LINES {
            let path = &source.path;
            notes.push(format!(
                "{path}:{start}: `{name}` has {n_lines} lines (about {FUNCTION_LINES} at most)"
            ));
        }
    }
    notes
}

/// The file's lines of code, tests left out.
pub(super) fn code_lines(source: &Source) -> usize {
    let tests = lengths(source).tests.into_iter();
    source.code_lines.len() - tests.map(|lines| count(source, lines)).sum::<usize>()
}

/// Whether the attributes make an item part of the tests.
pub(super) fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        _ => false,
    })
}

fn lengths(source: &Source) -> Lengths {
    let mut lengths = Lengths::default();
    lengths.visit_file(&source.syntax);
    lengths
}

fn count(source: &Source, lines: RangeInclusive<usize>) -> usize {
    source.code_lines.range(lines).count()
}

fn lines(from: Span, to: Span) -> RangeInclusive<usize> {
    from.start().line..=to.end().line
}

#[derive(Debug, Default)]
struct Lengths {
    functions: Vec<(String, RangeInclusive<usize>)>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Lengths {
    fn add(&mut self, signature: &Signature, body: &Block) {
        let lines = lines(signature.span(), body.span());
        self.functions.push((signature.ident.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Lengths {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_test(&item.attrs) {
            self.tests.push(lines(item.span(), item.span()));
        } else {
            visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::notes;
    use crate::tidy::source::Source;

    fn notes_of(text: &str) -> Vec<String> {
        notes(&Source::parse("a.rs", text).unwrap())
    }

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let padding = "    // why\n\n".repeat(100);
        let body = "    g();\n".repeat(58);
        assert!(notes_of(&format!("fn f() {{\n{padding}{body}}}\n")).is_empty());
    }

    #[test]
    fn a_long_function_is_noted_with_its_place() {
        let body = "        g();\n".repeat(60);
        let found = notes_of(&format!("impl A {{\n    fn f() {{\n{body}    }}\n}}\n"));
        assert_eq!(found, ["a.rs:2: `f` has 62 lines (about 60 at most)"]);
    }

    #[test]
    fn a_long_file_is_noted_and_its_tests_do_not_count() {
        let items = |n: usize| "const C: u8 = 0;\n".repeat(n);
        assert_eq!(
            notes_of(&items(401)),
            ["a.rs: 401 lines of code (about 400 at most)"]
        );
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", items(300));
        assert!(notes_of(&format!("{}{tests}", items(400))).is_empty());
    }
}
