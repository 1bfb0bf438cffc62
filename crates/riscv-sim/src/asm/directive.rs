//! What begins with a dot: sections, data, room and constants.

use super::expression::{Resolver, evaluate};
use super::source::Statement;

/// A directive.
#[derive(Debug)]
pub(super) enum Directive<'a> {
    /// Nothing that matters here.
    Nothing,
    Section(String),
    Set(&'a str, &'a str),
    /// Numbers of so many bytes.
    Data(usize, &'a [String]),
    Text(Vec<u8>),
    /// So many bytes with this value.
    Space(&'a str, &'a str),
    /// To a multiple of two to this power.
    Align(&'a str),
    /// To a multiple of this.
    BAlign(&'a str),
}

/// A number that is known where it stands.
type Now<'a> = &'a dyn Fn(&str) -> Result<i64, String>;

pub(super) fn parse(statement: &Statement) -> Result<Directive<'_>, String> {
    let operands = &statement.operands;
    let operand = |k: usize| {
        operands
            .get(k)
            .map(String::as_str)
            .ok_or_else(|| format!("{} takes more operands", statement.name))
    };
    let most = most_operands(&statement.name);
    if operands.len() > most {
        return Err(format!("{} takes at most {most} operands", statement.name));
    }
    Ok(match statement.name.as_str() {
        ".text" | ".data" | ".bss" | ".rodata" => Directive::Section(statement.name.clone()),
        ".section" => Directive::Section(operand(0)?.to_owned()),
        ".globl" | ".global" | ".local" | ".type" | ".size" | ".option" | ".file" | ".ident"
        | ".attribute" | ".weak" => Directive::Nothing,
        ".equ" | ".set" => Directive::Set(operand(0)?, operand(1)?),
        ".byte" => Directive::Data(1, operands),
        ".half" | ".2byte" | ".short" => Directive::Data(2, operands),
        ".word" | ".4byte" | ".long" => Directive::Data(4, operands),
        ".dword" | ".8byte" | ".quad" => Directive::Data(8, operands),
        ".ascii" => Directive::Text(operand(0).and_then(|_| texts(operands, b""))?),
        ".asciz" | ".string" => Directive::Text(operand(0).and_then(|_| texts(operands, b"\0"))?),
        ".zero" | ".space" | ".skip" => Directive::Space(operand(0)?, operand(1).unwrap_or("0")),
        ".align" | ".p2align" => Directive::Align(operand(0)?),
        ".balign" => Directive::BAlign(operand(0)?),
        name => return Err(format!("there is no directive {name}")),
    })
}

/// The operands that have a meaning. An alignment has one, and a filling that is always zeros or
/// `nop`, and a limit.
fn most_operands(name: &str) -> usize {
    match name {
        ".equ" | ".set" | ".zero" | ".space" | ".skip" => 2,
        ".align" | ".p2align" | ".balign" => 3,
        _ => usize::MAX,
    }
}

impl Directive<'_> {
    /// The room that it takes at this distance from the start of its section.
    pub(super) fn n_bytes(&self, offset: u64, now: Now<'_>) -> Result<u64, String> {
        match self {
            Self::Nothing | Self::Section(_) | Self::Set(..) => Ok(0),
            Self::Data(width, values) => Ok((width * values.len()) as u64),
            Self::Text(bytes) => Ok(bytes.len() as u64),
            Self::Space(count, _) => u64::try_from(now(count)?)
                .ok()
                .filter(|count| *count <= 1 << 32)
                .ok_or_else(|| "room is between 0 and 2^32 bytes".to_owned()),
            Self::Align(_) | Self::BAlign(_) => {
                Ok(offset.next_multiple_of(self.alignment(now)?) - offset)
            }
        }
    }

    /// What the address of its section must be a multiple of; 1 if it does not matter.
    pub(super) fn alignment(&self, now: Now<'_>) -> Result<u64, String> {
        let of = match self {
            Self::Align(power) => u32::try_from(now(power)?)
                .ok()
                .and_then(|power| 1_u64.checked_shl(power)),
            Self::BAlign(of) => u64::try_from(now(of)?).ok(),
            _ => Some(1),
        };
        of.filter(|of| of.is_power_of_two() && *of <= 1 << 20)
            .ok_or_else(|| "an alignment is a power of two, at most 2^20".to_owned())
    }

    /// Whether it is room that is zero. Nobody runs what is in a section of zeros.
    pub(super) fn is_zero(&self, among_zeros: bool, resolve: Resolver<'_>) -> Result<bool, String> {
        match self {
            Self::Space(_, fill) => Ok(evaluate(fill, resolve)? as u8 == 0),
            Self::Align(_) | Self::BAlign(_) => Ok(among_zeros),
            _ => Ok(false),
        }
    }

    /// Its bytes.
    pub(super) fn bytes(&self, n_bytes: u64, resolve: Resolver<'_>) -> Result<Vec<u8>, String> {
        let room = n_bytes as usize;
        Ok(match self {
            Self::Nothing | Self::Section(_) | Self::Set(..) => Vec::new(),
            Self::Data(width, values) => {
                let mut bytes = Vec::with_capacity(room);
                for value in *values {
                    let number = evaluate(value, resolve)?;
                    // As a signed number or as one without a sign.
                    let beyond = number >> (8 * width - 1);
                    if *width < 8 && !matches!(beyond, -1..=1) {
                        return Err(format!("{number} does not fit into {} bits", 8 * width));
                    }
                    bytes.extend(&number.to_le_bytes()[..*width]);
                }
                bytes
            }
            Self::Text(bytes) => bytes.clone(),
            Self::Space(_, fill) => vec![evaluate(fill, resolve)? as u8; room],
            // What is between instructions may be run: `nop` where it fits.
            Self::Align(_) | Self::BAlign(_) => {
                let mut bytes = vec![0; room % 4];
                bytes.extend([0x13, 0, 0, 0].repeat(room / 4));
                bytes
            }
        })
    }
}

/// The bytes of all texts, with `end` behind each.
fn texts(quoted: &[String], end: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for quoted in quoted {
        bytes.extend(text(quoted)?);
        bytes.extend(end);
    }
    Ok(bytes)
}

fn text(quoted: &str) -> Result<Vec<u8>, String> {
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or_else(|| format!("{quoted} is no text in quotes"))?;
    let mut bytes = Vec::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('0') => '\0',
                Some(other @ ('\\' | '"')) => other,
                _ => return Err("after a backslash comes n, t, r, 0, \" or \\".to_owned()),
            },
            letter => letter,
        };
        let mut buffer = [0; 4];
        bytes.extend(letter.encode_utf8(&mut buffer).as_bytes());
    }
    Ok(bytes)
}
