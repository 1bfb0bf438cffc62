//! Comments that are not comments: code that was commented out, and reminders without a reason.

use syn::parse::Parser as _;
use syn::{Arm, Block};

use super::Finding;
use super::source::{Comment, Source};

/// Words that put something off. Each needs its reason in parentheses.
const REMINDERS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for comment in &source.comments {
        if let Some(word) = bare_reminder(&comment.text) {
            let message =
                format!("{word} without a reason: do it now, or write `{word}(why not now): what`");
            findings.push(Finding::at(&source.path, comment.line, message));
        }
        if is_code(comment) {
            let message = "commented-out code: delete it, the history keeps it";
            findings.push(Finding::at(&source.path, comment.line, message));
        }
    }
    findings
}

/// The first reminder that is not followed by a reason in parentheses.
fn bare_reminder(text: &str) -> Option<&'static str> {
    REMINDERS.iter().copied().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = &text[at + word.len()..];
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let whole = !before.is_some_and(is_word) && !after.starts_with(is_word);
            let reason = after
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(')'));
            whole && reason.is_none_or(|(reason, _)| reason.trim().is_empty())
        })
    })
}

/// Whether a comment that has its line to itself reads as a line of Rust. Prose does not parse as
/// Rust; a single word, or an expression without the semicolon or comma that ends a line of code,
/// is taken for prose.
fn is_code(comment: &Comment) -> bool {
    if comment.trails_code || comment.is_doc() {
        return false;
    }
    let Some(text) = comment.text.strip_prefix("//").map(str::trim) else {
        return false;
    };
    let is_statement = |text: &str| Block::parse_within.parse_str(text).is_ok();
    let has_operator = text.contains(['(', '=', ':', '!', '.', '[']);
    if text.starts_with("#[") || ["}", "},", "};", "});", ")?;", ");"].contains(&text) {
        true
    } else if text.ends_with(';') {
        let is_item = ["use ", "return ", "let ", "pub "]
            .iter()
            .any(|word| text.starts_with(word));
        (has_operator || is_item) && is_statement(text)
    } else if text.ends_with('{') {
        has_operator && is_statement(&format!("{text} }}"))
    } else {
        text.ends_with(',') && text.contains("=>") && syn::parse_str::<Arm>(text).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::source::Source;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse("a.rs", text).unwrap();
        check(&source)
            .iter()
            .filter_map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn commented_out_code_is_found() {
        for code in [
            "let x = f(1);",
            "self.put(dst, &bytes)?;",
            "if rank == 0 {",
            "fn old(x: u64) -> u64 {",
            "}",
            "use std::sync::Arc;",
            "#[derive(Debug)]",
            "Some(x) => go(x),",
            "println!(\"{x}\");",
        ] {
            assert_eq!(
                lines(&format!("fn f() {{\n    // {code}\n}}")),
                [2],
                "{code}"
            );
        }
    }

    #[test]
    fn prose_is_left_alone() {
        for prose in [
            "SAFETY: the caller promises `len` bytes; the read is unaligned.",
            "Waits for the owner; then copies;",
            "The state is `Free`, so nobody else looks:",
            "Example: put(ptr, 1)",
            "done;",
            "(see the paper, section 3)",
            "https://example.org/page;",
        ] {
            assert!(
                lines(&format!("fn f() {{\n    // {prose}\n}}")).is_empty(),
                "{prose}"
            );
        }
    }

    #[test]
    fn code_in_doc_comments_and_strings_is_not_commented_out() {
        let text = "/// ```\n/// let x = 1;\n/// ```\nconst S: &str = \"\n// let x = 1;\n\";";
        assert!(lines(text).is_empty());
    }

    #[test]
    fn a_reminder_needs_a_reason() {
        let text = "// TODO: later\n// TODO(): empty\n// FIXME(upstream bug 7 is open): drop the copy\n// TODOs are forbidden\nfn f() {} // XXX";
        assert_eq!(lines(text), [1, 2, 5]);
    }
}
