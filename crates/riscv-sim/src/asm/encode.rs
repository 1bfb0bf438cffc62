//! One instruction: its row or its alias, and the operands put into the word.

use super::expression::{Resolver, evaluate};
use super::source::Statement;
use crate::isa::alias::ALIASES;
use crate::isa::{Extension, Operand, Profile, ROWS, bits, names};

/// Comparisons that are others with their sources swapped.
const SWAPPED: &[(&str, &str)] = &[
    ("bgt", "blt"),
    ("ble", "bge"),
    ("bgtu", "bltu"),
    ("bleu", "bgeu"),
    ("sgt", "slt"),
    ("sgtu", "sltu"),
    ("fgt.s", "flt.s"),
    ("fge.s", "fle.s"),
    ("fgt.d", "flt.d"),
    ("fge.d", "fle.d"),
];

const DYNAMIC: u32 = 7 << 12;

/// The word of an instruction.
pub(super) fn instruction(
    statement: &Statement,
    here: u64,
    profile: Profile,
    resolve: Resolver<'_>,
) -> Result<u32, String> {
    let mut operands: Vec<&str> = statement.operands.iter().map(String::as_str).collect();
    let mut name = statement.name.as_str();
    if let Some((_, other)) = SWAPPED.iter().find(|(swapped, _)| *swapped == name) {
        name = other;
        // A branch has its sources first, a comparison has its destination first.
        let first = operands
            .len()
            .saturating_sub(3)
            .max(usize::from(!name.starts_with('b')));
        if operands.len() > first + 1 {
            operands.swap(first, first + 1);
        }
    }
    let (name, order) = without_order(name);
    let encoder = Encoder { here, resolve };
    if let ("jalr", [rd, rs1, imm]) = (name, operands.as_slice()) {
        let address = format!("{imm}({rs1})");
        return encoder.fill(0x67, &[Operand::Rd, Operand::AddressI], &[*rd, &address]);
    }
    let mut known = false;
    let mut failure = String::new();
    for candidate in candidates(name, profile) {
        let Candidate { word, format, .. } = candidate;
        let atomic = matches!(candidate.extension, Some(Extension::A | Extension::Xamo));
        if order != 0 && !atomic {
            continue;
        }
        known = true;
        let optional = usize::from(matches!(
            format.last(),
            Some(Operand::Rm | Operand::ExactRm)
        ));
        if operands.len() != format.len() && operands.len() + optional != format.len() {
            continue;
        }
        let dynamic = format.last() == Some(&Operand::Rm) && operands.len() < format.len();
        let word = if dynamic { word | DYNAMIC } else { word };
        match encoder.fill(word | (order << 25), format, &operands) {
            Ok(word) if candidate.same_sources => return Ok(at(word, 20, bits::rs1(word))),
            Ok(word) => return Ok(word),
            Err(message) => failure = message,
        }
    }
    Err(match (known, failure.is_empty()) {
        (false, _) => format!("there is no instruction {name}"),
        (true, true) => format!("{name} takes another number of operands"),
        (true, false) => failure,
    })
}

/// What may be meant by a name.
struct Candidate {
    /// The extension, if it is no pseudo-instruction.
    extension: Option<Extension>,
    /// The bits that are fixed.
    word: u32,
    format: &'static [Operand],
    /// Whether the first source is the second one as well.
    same_sources: bool,
}

fn candidates(name: &str, profile: Profile) -> impl Iterator<Item = Candidate> {
    let rows = ROWS
        .iter()
        .filter(move |row| row.name == name && row.extension.assembles_in(profile))
        .map(|row| Candidate {
            extension: Some(row.extension),
            word: row.value,
            format: row.format.operands(),
            same_sources: false,
        });
    let aliases = ALIASES
        .iter()
        .filter(move |alias| alias.name == name)
        .map(|alias| Candidate {
            extension: None,
            word: alias.value,
            format: alias.operands,
            same_sources: alias.same_sources,
        });
    rows.chain(aliases)
}

/// The name without its acquire and release bits, and the bits.
fn without_order(name: &str) -> (&str, u32) {
    for (suffix, order) in [(".aqrl", 3), (".aq", 2), (".rl", 1)] {
        if let Some(name) = name.strip_suffix(suffix) {
            return (name, order);
        }
    }
    (name, 0)
}

/// The upper and the signed lower part of a distance.
pub(super) fn high_low(distance: i64) -> Option<(i32, i32)> {
    let low = (distance << 52) >> 52;
    let high = i32::try_from(distance.checked_sub(low)?).ok()?;
    Some((high, low as i32))
}

struct Encoder<'a> {
    here: u64,
    resolve: Resolver<'a>,
}

impl Encoder<'_> {
    fn fill(&self, mut word: u32, format: &[Operand], operands: &[&str]) -> Result<u32, String> {
        for (operand, text) in format.iter().zip(operands) {
            word = self.put(word, *operand, text)?;
        }
        Ok(word)
    }

    fn put(&self, word: u32, operand: Operand, text: &str) -> Result<u32, String> {
        let x = || names::x_number(text).ok_or_else(|| format!("{text} is no integer register"));
        let f =
            || names::f_number(text).ok_or_else(|| format!("{text} is no floating-point register"));
        let e = || names::e_number(text).ok_or_else(|| format!("{text} is no extended register"));
        let number = |low: i64, high: i64| self.number(text, low, high);
        Ok(match operand {
            Operand::Rd => at(word, 7, x()?),
            Operand::Rs1 => at(word, 15, x()?),
            Operand::Rs2 => at(word, 20, x()?),
            Operand::Rs3 => at(word, 27, x()?),
            Operand::Fd => at(word, 7, f()?),
            Operand::Fs1 => at(word, 15, f()?),
            Operand::Fs2 => at(word, 20, f()?),
            Operand::Fs3 => at(word, 27, f()?),
            Operand::Ed => at(word, 7, e()?),
            Operand::Es1 => at(word, 15, e()?),
            Operand::Es2 => at(word, 20, e()?),
            Operand::ImmI => bits::with_imm_i(word, number(-2048, 2047)? as i32),
            Operand::AddressI => {
                let (imm, base) = self.address(text)?;
                bits::with_imm_i(at(word, 15, base), imm)
            }
            Operand::AddressS => {
                let (imm, base) = self.address(text)?;
                bits::with_imm_s(at(word, 15, base), imm)
            }
            Operand::Address => match self.address(text)? {
                (0, base) => at(word, 15, base),
                _ => return Err(format!("{text}: there is no room for a distance here")),
            },
            Operand::Shamt6 => word | ((number(0, 63)? as u32) << 20),
            Operand::Shamt5 => word | ((number(0, 31)? as u32) << 20),
            Operand::ImmU => word | ((number(0, 0xf_ffff)? as u32) << 12),
            Operand::TargetB => bits::with_imm_b(word, self.distance(text, 1 << 12)?),
            Operand::TargetJ => bits::with_imm_j(word, self.distance(text, 1 << 20)?),
            Operand::Csr => {
                let named = names::csr_address(text).map(u32::from);
                let address = match named {
                    Some(address) => address,
                    None => number(0, 0xfff)? as u32,
                };
                word | (address << 20)
            }
            Operand::Uimm5 => word | ((number(0, 31)? as u32) << 15),
            Operand::Pred => word | (fence_set(text)? << 24),
            Operand::Succ => word | (fence_set(text)? << 20),
            Operand::Rm | Operand::ExactRm => word | (rounding(text)? << 12),
        })
    }

    fn number(&self, text: &str, low: i64, high: i64) -> Result<i64, String> {
        let value = self.value(text)?;
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(format!(
                "{text} is {value}, which is not between {low} and {high}"
            ))
        }
    }

    /// A number, or a part of one: `%hi`, `%lo`, `%pcrel_hi`; a `%pcrel_lo` has become a number
    /// before.
    fn value(&self, text: &str) -> Result<i64, String> {
        let Some(part) = text.strip_prefix('%') else {
            return evaluate(text, self.resolve);
        };
        let (function, argument) = part.split_once('(').ok_or("after % comes a function")?;
        let argument = argument
            .strip_suffix(')')
            .ok_or("a closing parenthesis is missing")?;
        let value = evaluate(argument, self.resolve)?;
        let distance = value.wrapping_sub(self.here.cast_signed());
        let parts =
            |value: i64| high_low(value).ok_or_else(|| format!("{argument} is too far away"));
        Ok(match function {
            // What `lui` loads is sign-extended, which is right for the addresses below 2^31 and
            // the topmost ones only.
            "hi" => i64::from((value.wrapping_add(0x800) >> 12) as u32 & 0xf_ffff),
            "lo" => (value << 52) >> 52,
            "pcrel_hi" => i64::from((parts(distance)?.0 >> 12) as u32 & 0xf_ffff),
            _ => return Err(format!("there is no function %{function}")),
        })
    }

    /// `imm(register)`, where the number may be left out.
    fn address(&self, text: &str) -> Result<(i32, u8), String> {
        let open = text
            .rfind('(')
            .ok_or_else(|| format!("{text} is no address"))?;
        let (imm, register) = text.split_at(open);
        let register = register.trim_matches(['(', ')', ' ']);
        let register = names::x_number(register)
            .ok_or_else(|| format!("{register} is no integer register"))?;
        let imm = match imm.trim() {
            "" => 0,
            imm => self.number(imm, -2048, 2047)?,
        };
        Ok((imm as i32, register))
    }

    fn distance(&self, text: &str, limit: i64) -> Result<i32, String> {
        let distance = evaluate(text, self.resolve)?.wrapping_sub(self.here.cast_signed());
        if distance % 2 == 0 && (-limit..limit).contains(&distance) {
            Ok(distance as i32)
        } else {
            Err(format!(
                "{text} is {distance} bytes away, which a jump cannot reach"
            ))
        }
    }
}

const fn at(word: u32, low: u32, register: u8) -> u32 {
    word | ((register as u32) << low)
}

fn fence_set(text: &str) -> Result<u32, String> {
    text.chars().try_fold(0, |set, letter| {
        let bit = match letter {
            'i' => 8,
            'o' => 4,
            'r' => 2,
            'w' => 1,
            _ => return Err(format!("{text} is no set of i, o, r and w")),
        };
        Ok(set | bit)
    })
}

fn rounding(text: &str) -> Result<u32, String> {
    match text {
        "rne" => Ok(0),
        "rtz" => Ok(1),
        "rdn" => Ok(2),
        "rup" => Ok(3),
        "rmm" => Ok(4),
        "dyn" => Ok(7),
        _ => Err(format!("{text} is no rounding mode")),
    }
}
