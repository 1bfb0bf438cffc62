//! Lines of assembly, taken apart.

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: usize,
    pub(super) labels: Vec<String>,
    pub(super) statement: Option<Statement>,
}

/// An instruction or a directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) name: String,
    pub(super) operands: Vec<String>,
}

/// The statements of a source. Several may share a line, with `;` between them; a comment begins
/// with `#` or `//`.
pub(super) fn lines(source: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(source.lines()) {
        for part in split(without_comment(text), ';') {
            lines.push(line(number, part.trim()));
        }
    }
    lines
}

fn line(number: usize, mut text: &str) -> Line {
    let mut labels = Vec::new();
    while let Some((label, rest)) = text.split_once(':') {
        if !label.trim().chars().all(is_name) || label.trim().is_empty() {
            break;
        }
        labels.push(label.trim().to_owned());
        text = rest.trim_start();
    }
    let statement = (!text.is_empty()).then(|| {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let operands = split(rest, ',');
        Statement {
            name: name.to_ascii_lowercase(),
            operands: operands
                .iter()
                .map(|operand| operand.trim().to_owned())
                .filter(|operand| !operand.is_empty())
                .collect(),
        }
    });
    Line {
        number,
        labels,
        statement,
    }
}

/// Whether a name may contain it.
pub(super) fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '$')
}

fn without_comment(text: &str) -> &str {
    let mut quoted = false;
    let mut previous = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if previous != '\\' => quoted = !quoted,
            '#' if !quoted => return &text[..at],
            '/' if !quoted && text[at..].starts_with("//") => return &text[..at],
            _ => {}
        }
        previous = letter;
    }
    text
}

/// The parts between separators that are neither quoted nor in parentheses.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut quoted, mut depth, mut start, mut previous) = (false, 0, 0, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if previous != '\\' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ if letter == separator && !quoted && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
        previous = letter;
    }
    parts.push(&text[start..]);
    parts
}
