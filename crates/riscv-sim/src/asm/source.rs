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

impl Statement {
    /// Refuses an operand that is missing beside a comma. An alignment may lack its second one, as
    /// in the `.p2align 4,,15` of compilers.
    pub(super) fn check_operands(&self) -> Result<(), String> {
        let is_alignment = matches!(self.name.as_str(), ".align" | ".p2align" | ".balign");
        let missing = self.operands.iter().position(String::is_empty);
        match missing.filter(|_| !is_alignment) {
            Some(missing) => Err(format!(
                "operand {} of {} is missing",
                missing + 1,
                self.name
            )),
            None => Ok(()),
        }
    }
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
        let operands = split(rest, ',').into_iter().map(str::trim);
        Statement {
            name: name.to_ascii_lowercase(),
            operands: match rest.trim() {
                "" => Vec::new(),
                _ => operands.map(str::to_owned).collect(),
            },
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
    let mut quotes = Quotes::default();
    for (at, letter) in text.char_indices() {
        let is_quoted = quotes.take(letter);
        if !is_quoted && (letter == '#' || text[at..].starts_with("//")) {
            return &text[..at];
        }
    }
    text
}

/// Where a text that is read letter by letter is in quotes: `"text"`, or `'x'`.
#[derive(Default)]
struct Quotes {
    are_open: bool,
    /// Whether a backslash came before, which is no letter of its own.
    is_escaped: bool,
    /// The letters that still belong to a `'x'`.
    of_letter: u8,
}

impl Quotes {
    /// Takes the next letter, and returns whether it is in quotes, or one.
    fn take(&mut self, letter: char) -> bool {
        if self.of_letter > 0 {
            self.of_letter -= 1;
            return true;
        }
        let were_open = self.are_open;
        match letter {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = were_open,
            '"' => self.are_open = !were_open,
            '\'' if !were_open => {
                self.of_letter = 2;
                return true;
            }
            _ => {}
        }
        were_open || self.are_open
    }
}

/// The parts between separators that are neither quoted nor in parentheses.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut quotes, mut depth, mut start) = (Quotes::default(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if quotes.take(letter) => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if letter == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
