//! Numbers: literals, names, and arithmetic on them with the precedence of C.

use super::source::is_name;

/// Gives the value of a name.
pub(super) type Resolver<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// The value of an expression.
pub(super) fn evaluate(text: &str, resolve: Resolver<'_>) -> Result<i64, String> {
    let mut parser = Parser {
        rest: text.trim(),
        resolve,
    };
    let value = parser.binary(0)?;
    if parser.rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("`{}` is left over in `{text}`", parser.rest))
    }
}

struct Parser<'a> {
    rest: &'a str,
    resolve: Resolver<'a>,
}

/// Operators, those that bind least first.
const LEVELS: &[&[&str]] = &[
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// How deep parentheses and signs may nest.
const MAX_DEPTH: usize = 64;

impl Parser<'_> {
    fn binary(&mut self, level: usize) -> Result<i64, String> {
        self.nested_binary(level, 0)
    }

    fn nested_binary(&mut self, level: usize, depth: usize) -> Result<i64, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary(depth);
        };
        let mut left = self.nested_binary(level + 1, depth)?;
        loop {
            self.rest = self.rest.trim_start();
            let found = operators
                .iter()
                .find(|operator| self.rest.starts_with(**operator));
            let Some(operator) = found else {
                return Ok(left);
            };
            self.rest = &self.rest[operator.len()..];
            let right = self.nested_binary(level + 1, depth)?;
            left = apply(operator, left, right)?;
        }
    }

    fn unary(&mut self, depth: usize) -> Result<i64, String> {
        if depth > MAX_DEPTH {
            return Err("the expression nests too deep".to_owned());
        }
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next().ok_or("a number is missing")?;
        match first {
            '-' | '~' | '+' => {
                self.rest = &self.rest[1..];
                let value = self.unary(depth + 1)?;
                Ok(match first {
                    '-' => value.wrapping_neg(),
                    '~' => !value,
                    _ => value,
                })
            }
            '(' => {
                self.rest = &self.rest[1..];
                let value = self.nested_binary(0, depth + 1)?;
                self.rest = self.rest.trim_start();
                self.rest = self
                    .rest
                    .strip_prefix(')')
                    .ok_or("a closing parenthesis is missing")?;
                Ok(value)
            }
            '\'' => self.character(),
            _ => self.word(),
        }
    }

    fn character(&mut self) -> Result<i64, String> {
        let mut letters = self.rest.chars();
        match (letters.next(), letters.next(), letters.next()) {
            (Some('\''), Some(letter), Some('\'')) if letter != '\\' => {
                self.rest = letters.as_str();
                Ok(i64::from(u32::from(letter)))
            }
            _ => Err(format!("`{}` is no character", self.rest)),
        }
    }

    fn word(&mut self) -> Result<i64, String> {
        let end = self
            .rest
            .find(|letter| !is_name(letter))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(format!("`{}` is no number", self.rest));
        }
        self.rest = rest;
        if let Some(value) = (self.resolve)(word) {
            return Ok(value);
        }
        number(word).ok_or_else(|| format!("`{word}` is neither a number nor a name known here"))
    }
}

fn number(word: &str) -> Option<i64> {
    let (digits, radix) = match word.get(..2) {
        Some("0x" | "0X") => (&word[2..], 16),
        Some("0b" | "0B") => (&word[2..], 2),
        _ => (word, 10),
    };
    // Numbers up to 2^64 - 1 are bits.
    u64::from_str_radix(digits, radix)
        .ok()
        .map(u64::cast_signed)
}

fn apply(operator: &str, left: i64, right: i64) -> Result<i64, String> {
    let shift = || u32::try_from(right).ok().filter(|by| *by < 64);
    Ok(match operator {
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "<<" => left << shift().ok_or("a shift is by 0 to 63")?,
        ">>" => left >> shift().ok_or("a shift is by 0 to 63")?,
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right).ok_or("a division has no result")?,
        _ => left.checked_rem(right).ok_or("a division has no result")?,
    })
}
