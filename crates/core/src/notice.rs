//! Lines for the user on the standard error output. Each is written in one piece and begins with
//! `pgas: `.
//!
//! Texts from files, settings, the environment or the program are made [`printable`] first: a line
//! end in them would begin a line that looks like the library's, and a terminal obeys other control
//! characters.

use std::fmt::{self, Write as _};
use std::io::Write as _;

/// The text with its control characters and marks of writing direction escaped, as in Rust
/// literals.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use pgas_core::notice::printable;
///
/// let text = printable("first\npgas: rank 0 has failed\u{1b}[2J").to_string();
/// assert_eq!(text, "first\\npgas: rank 0 has failed\\u{1b}[2J");
/// ```
#[must_use]
pub const fn printable<T: fmt::Display>(text: T) -> Printable<T> {
    Printable(text)
}

/// The result of [`printable`].
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(T);

impl<T: fmt::Display> fmt::Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaper(f), "{}", self.0)
    }
}

struct Escaper<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, letter) in text.char_indices() {
            if is_harmful(letter) {
                self.0.write_str(&text[plain..at])?;
                write!(self.0, "{}", letter.escape_default())?;
                plain = at + letter.len_utf8();
            }
        }
        self.0.write_str(&text[plain..])
    }
}

fn is_harmful(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let ends_lines = matches!(letter, '\u{2028}' | '\u{2029}');
    letter.is_control() || turns || ends_lines
}

/// Writes `pgas: ` and `text`, [`printable`], as one line to the standard error output, in one
/// piece.
///
/// # Cost
///
/// A system call.
pub fn tell(text: &dyn fmt::Display) {
    write(&line(text));
}

/// The line that [`tell`] writes.
pub(crate) fn line(text: &dyn fmt::Display) -> String {
    format!("pgas: {}\n", printable(text))
}

/// Writes `text`, whose parts are [`printable`], as it is. Unlike the macros of std it does not
/// panic if nobody reads the standard error output any more.
pub(crate) fn write(text: &str) {
    // A failure of this cannot be reported.
    drop(std::io::stderr().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_printed_ends_a_line_or_steers_a_terminal() {
        for letter in (0..=0x0010_ffff_u32).filter_map(char::from_u32) {
            let text = printable(format!("a{letter}b")).to_string();
            if letter.is_control() {
                assert!(
                    text.starts_with("a\\") && text.ends_with('b'),
                    "{letter:?}: {text:?}"
                );
            }
            assert!(!text.contains(char::is_control), "{letter:?}: {text:?}");
        }
        assert_eq!(
            printable("µ, ∑ and 'quotes'").to_string(),
            "µ, ∑ and 'quotes'"
        );
    }
}
