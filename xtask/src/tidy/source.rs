//! A parsed source file. Its comments, which a parser drops, are what stands between the tokens.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// One `//` or `/* */` comment. Doc comments are among them.
#[derive(Debug)]
pub(super) struct Comment {
    /// The first line, counted from one.
    pub(super) line: usize,
    /// The comment with its slashes.
    pub(super) text: String,
    /// Whether code stands before it on its line.
    pub(super) trails_code: bool,
}

impl Comment {
    pub(super) fn is_doc(&self) -> bool {
        is_doc(&self.text)
    }
}

/// One file.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) syntax: syn::File,
    pub(super) comments: Vec<Comment>,
    /// The lines, counted from one, that hold any code.
    pub(super) code_lines: BTreeSet<usize>,
    /// The lines of each identifier `unsafe`.
    pub(super) unsafe_lines: Vec<usize>,
}

impl Source {
    pub(super) fn parse(path: &str, text: &str) -> syn::Result<Self> {
        let tokens: TokenStream = text.parse()?;
        let lines = Lines::of(text);
        let mut scan = Scan {
            text,
            lines: &lines,
            ranges: Vec::new(),
            code_lines: BTreeSet::new(),
            unsafe_lines: Vec::new(),
        };
        scan.stream(tokens.clone());
        let Scan {
            ranges,
            code_lines,
            unsafe_lines,
            ..
        } = scan;
        Ok(Self {
            path: path.to_owned(),
            syntax: syn::parse2(tokens)?,
            comments: comments(text, &lines, &ranges),
            code_lines,
            unsafe_lines,
        })
    }
}

/// The ends of the lines of a text. The tokens' library takes much longer to give the line of a
/// token.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line, counted from one, of the byte at `at`.
    fn at(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}

/// A walk over the tokens that leaves doc comments out, which the parser turns into attributes.
struct Scan<'a> {
    text: &'a str,
    lines: &'a Lines,
    /// The position of each token, in the order of the file.
    ranges: Vec<Range<usize>>,
    code_lines: BTreeSet<usize>,
    unsafe_lines: Vec<usize>,
}

impl Scan<'_> {
    fn stream(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                    self.stream(group.stream());
                }
                TokenTree::Group(group) => {
                    let is_attribute = group.delimiter() == Delimiter::Bracket;
                    if is_attribute && self.is_comment(&group.span().byte_range()) {
                        continue;
                    }
                    self.token(group.span_open());
                    self.stream(group.stream());
                    self.token(group.span_close());
                }
                TokenTree::Ident(ident) => {
                    let line = self.token(ident.span());
                    if ident == "unsafe" {
                        self.unsafe_lines.extend(line);
                    }
                }
                other => drop(self.token(other.span())),
            }
        }
    }

    /// Records a token that is no comment, and returns its first line.
    fn token(&mut self, span: Span) -> Option<usize> {
        let range = span.byte_range();
        if self.is_comment(&range) {
            return None;
        }
        let first = self.lines.at(range.start);
        let last = self.lines.at(range.end.saturating_sub(1));
        self.code_lines.extend(first..=last);
        self.ranges.push(range);
        Some(first)
    }

    fn is_comment(&self, range: &Range<usize>) -> bool {
        let token = &self.text[range.clone()];
        token.starts_with("//") || token.starts_with("/*")
    }
}

/// The comments of `text`, found between the tokens at `ranges`.
fn comments(text: &str, lines: &Lines, ranges: &[Range<usize>]) -> Vec<Comment> {
    let ends = ranges.iter().map(|range| range.end);
    let starts = ranges.iter().map(|range| range.start);
    let gaps = std::iter::once(0)
        .chain(ends)
        .zip(starts.chain([text.len()]));
    gaps.flat_map(|(start, end)| comments_between(text, lines, start..end))
        .collect()
}

fn comments_between(text: &str, lines: &Lines, gap: Range<usize>) -> Vec<Comment> {
    let mut found = Vec::new();
    let Range { start: mut at, end } = gap;
    while let Some(skip) = text[at..end].find('/') {
        let begin = at + skip;
        let rest = &text[begin..end];
        let len = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |close| close + 2)
        } else {
            rest.find('\n').unwrap_or(rest.len())
        };
        let line_begin = text[..begin].rfind('\n').map_or(0, |newline| newline + 1);
        found.push(Comment {
            line: lines.at(begin),
            text: rest[..len].trim_end().to_owned(),
            trails_code: !text[line_begin..begin].trim().is_empty(),
        });
        at = begin + len;
    }
    found
}

fn is_doc(comment: &str) -> bool {
    ["///", "//!", "/**", "/*!"]
        .iter()
        .any(|mark| comment.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::Source;

    const TEXT: &str = r#"//! Says "what" — and why.

// A note.
fn f() { // trails
    let url = "https://host/path"; /* block */
    let lines = "
        // not a comment
    ";
}

/// Has docs.
unsafe fn g() {}
"#;

    #[test]
    fn comments_are_what_stands_between_the_tokens() {
        let source = Source::parse("a.rs", TEXT).unwrap();
        let seen: Vec<(usize, &str, bool)> = source
            .comments
            .iter()
            .map(|comment| (comment.line, comment.text.as_str(), comment.trails_code))
            .collect();
        assert_eq!(
            seen,
            [
                (1, "//! Says \"what\" — and why.", false),
                (3, "// A note.", false),
                (4, "// trails", true),
                (5, "/* block */", true),
                (11, "/// Has docs.", false),
            ]
        );
        let docs: Vec<usize> = source
            .comments
            .iter()
            .filter(|comment| comment.is_doc())
            .map(|comment| comment.line)
            .collect();
        assert_eq!(docs, [1, 11]);
    }

    #[test]
    fn code_lines_leave_out_blank_lines_and_comments() {
        let source = Source::parse("a.rs", TEXT).unwrap();
        assert_eq!(
            source.code_lines.into_iter().collect::<Vec<_>>(),
            [4, 5, 6, 7, 8, 9, 12]
        );
    }

    #[test]
    fn unsafe_is_found_as_a_word_of_code_also_inside_macros() {
        let text =
            "//! unsafe\nmacro_rules! m { () => { unsafe { f() } } }\nconst S: &str = \"unsafe\";";
        let source = Source::parse("a.rs", text).unwrap();
        assert_eq!(source.unsafe_lines, [2]);
    }
}
