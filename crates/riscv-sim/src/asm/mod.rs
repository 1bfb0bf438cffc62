//! The assembler: text in, a guest out. It knows the names in the instruction table, binutils'
//! pseudo-instructions, and the usual directives.
//!
//! ```
//! use pgas_riscv_sim::{Machine, MachineConfig, Outcome, asm, isa::Profile};
//!
//! let guest = asm::assemble(
//!     "        li    t0, 42
//!              la    t1, answer
//!              sd    t0, 0(t1)
//!              li    a0, 0          # the code with which the guest ends
//!              li    a7, 93
//!              ecall
//!              .data
//!      answer: .dword 0",
//!     Profile::Rae2020,
//! )?;
//! let mut machine = Machine::new(&MachineConfig { n_nodes: 1, ..Default::default() }, &guest)?;
//! assert_eq!(machine.run(1000)?, Outcome::Success);
//! let answer = guest.address_of("answer").expect("the guest has that label");
//! assert_eq!(machine.nodes()[0].ram().read(answer, 8), Some(42));
//! # Ok::<(), pgas_riscv_sim::Error>(())
//! ```
//!
//! Sections follow one another in the order in which they are first named, from [`RAM_BASE`] on,
//! each at a multiple of 64 bytes or of the largest alignment in it. The first instruction of the
//! guest is at `_start`, or the first one there is.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers are checked before they are cut to their fields"
)]

mod directive;
mod encode;
mod expression;
mod pseudo;
mod source;
mod writer;

pub use writer::to_elf;

use std::borrow::Cow;
use std::collections::HashMap;

use directive::Directive;
use expression::Resolver;
use source::{Line, Statement};

use crate::elf::{Image, Segment, Symbol};
use crate::error::{Error, Result};
use crate::isa::Profile;
use crate::memory::RAM_BASE;

/// The most bytes of a guest: those of the largest memory of a node.
const MOST_BYTES: u64 = 1 << 32;

/// The bytes from the start of a guest within which everything lies that is not zero. A guest holds
/// these bytes, and no zeros behind them.
const MOST_STORED: u64 = 1 << 28;

/// Letters of a mistake that are told at most: a source may have lines of any length.
const MOST_LETTERS: usize = 200;

const LOW_PART: &str = "%pcrel_lo(";

/// Assembles a guest.
///
/// # Errors
/// [`Error::Assembly`] names the line and what is wrong with it.
pub fn assemble(source: &str, profile: Profile) -> Result<Image> {
    let mut program = Program::new(profile);
    for line in source::lines(source) {
        program
            .place(&line)
            .map_err(|message| mistake(line.number, &message))?;
    }
    program.finish()
}

/// What is wrong with a line.
fn mistake(line: usize, message: &str) -> Error {
    let mut letters = message.chars();
    let mut message: String = letters.by_ref().take(MOST_LETTERS).collect();
    if letters.next().is_some() {
        message += "...";
    }
    Error::Assembly { line, message }
}

/// One section and what was put into it.
#[derive(Debug, Default)]
struct Section {
    name: String,
    address: u64,
    n_bytes: u64,
    /// What its address is a multiple of.
    alignment: u64,
    items: Vec<Item>,
}

/// What takes room in a section.
#[derive(Debug)]
struct Item {
    line: usize,
    offset: u64,
    n_bytes: u64,
    statement: Statement,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Place { section: usize, offset: u64 },
    Number(i64),
}

/// The first pass: every statement gets its place.
#[derive(Debug)]
struct Program {
    profile: Profile,
    sections: Vec<Section>,
    current: usize,
    names: HashMap<String, Meaning>,
    /// Numeric labels: number, section, offset.
    numbered: Vec<(u64, usize, u64)>,
    /// The room of all statements.
    n_bytes: u64,
}

impl Program {
    fn new(profile: Profile) -> Self {
        let mut program = Self {
            profile,
            sections: Vec::new(),
            current: 0,
            names: HashMap::new(),
            numbered: Vec::new(),
            n_bytes: 0,
        };
        program.enter(".text");
        program
    }

    fn enter(&mut self, name: &str) {
        let known = self
            .sections
            .iter()
            .position(|section| section.name == name);
        self.current = known.unwrap_or_else(|| {
            self.sections.push(Section {
                name: name.to_owned(),
                alignment: 64,
                ..Section::default()
            });
            self.sections.len() - 1
        });
    }

    fn place(&mut self, line: &Line) -> Result<(), String> {
        for label in &line.labels {
            self.define_label(label)?;
        }
        let Some(statement) = line.statement.clone() else {
            return Ok(());
        };
        statement.check_operands()?;
        if statement.name.starts_with('.') {
            match directive::parse(&statement)? {
                Directive::Nothing => return Ok(()),
                Directive::Section(name) => {
                    self.enter(&name);
                    return Ok(());
                }
                Directive::Set(name, value) => {
                    let value = self.number_now(value)?;
                    return self.define(name, Meaning::Number(value));
                }
                _ => {}
            }
        }
        let n_bytes = self.size_of(&statement)?;
        self.n_bytes += n_bytes;
        if self.n_bytes > MOST_BYTES {
            let whole = self.n_bytes;
            return Err(format!("a guest has at most 2^32 bytes, not {whole}"));
        }
        let section = &mut self.sections[self.current];
        section.items.push(Item {
            line: line.number,
            offset: section.n_bytes,
            n_bytes,
            statement,
        });
        section.n_bytes += n_bytes;
        Ok(())
    }

    fn define_label(&mut self, label: &str) -> Result<(), String> {
        let (section, offset) = (self.current, self.sections[self.current].n_bytes);
        if let Ok(number) = label.parse() {
            self.numbered.push((number, section, offset));
            return Ok(());
        }
        self.define(label, Meaning::Place { section, offset })
    }

    fn define(&mut self, name: &str, meaning: Meaning) -> Result<(), String> {
        if self.names.insert(name.to_owned(), meaning).is_some() {
            return Err(format!("`{name}` is defined already"));
        }
        Ok(())
    }

    /// A number that must be known where it stands, for the room that something takes depends on
    /// it.
    fn number_now(&self, text: &str) -> Result<i64, String> {
        expression::evaluate(text, &|name| match self.names.get(name) {
            Some(Meaning::Number(value)) => Some(*value),
            _ => None,
        })
    }

    fn size_of(&mut self, statement: &Statement) -> Result<u64, String> {
        if statement.name.starts_with('.') {
            let offset = self.sections[self.current].n_bytes;
            let directive = directive::parse(statement)?;
            let now = |text: &str| self.number_now(text);
            let alignment = directive.alignment(&now)?;
            let section = &mut self.sections[self.current];
            section.alignment = section.alignment.max(alignment);
            let now = |text: &str| self.number_now(text);
            return directive.n_bytes(offset, &now);
        }
        if statement.name == "li" {
            let [_, value] = statement.operands.as_slice() else {
                return Err("li takes a register and a number".to_owned());
            };
            return Ok(4 * pseudo::load_immediate(0, self.number_now(value)?).len() as u64);
        }
        Ok(if pseudo::is_pair(&statement.name) {
            8
        } else {
            4
        })
    }

    /// The second pass: every statement becomes bytes.
    fn finish(mut self) -> Result<Image> {
        let mut address = RAM_BASE;
        for section in &mut self.sections {
            section.address = address.next_multiple_of(section.alignment);
            address = section.address + section.n_bytes;
        }
        let segments = (0..self.sections.len())
            .filter(|section| self.sections[*section].n_bytes > 0)
            .map(|section| self.segment(section))
            .collect::<Result<Vec<_>>>()?;
        let mut symbols: Vec<Symbol> = self
            .names
            .iter()
            .filter_map(|(name, meaning)| match meaning {
                Meaning::Place { section, offset } => Some(Symbol {
                    address: self.sections[*section].address + offset,
                    name: name.clone(),
                }),
                Meaning::Number(_) => None,
            })
            .collect();
        symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        let mut image = Image {
            program_headers: None,
            mappings: Vec::new(),
            entry: RAM_BASE,
            segments,
            symbols,
        };
        image.entry = image.address_of("_start").unwrap_or(RAM_BASE);
        Ok(image)
    }

    fn segment(&self, section: usize) -> Result<Segment> {
        let Section {
            address,
            n_bytes,
            ref items,
            ..
        } = self.sections[section];
        let mut bytes = Vec::new();
        for item in items {
            let made = self
                .made(section, item)
                .map_err(|message| mistake(item.line, &message))?;
            if !made.is_empty() {
                bytes.resize(item.offset as usize, 0);
                bytes.extend(made);
            }
        }
        Ok(Segment {
            address,
            bytes,
            n_bytes,
        })
    }

    /// The bytes of an item; none if it is room that is zero.
    fn made(&self, section: usize, item: &Item) -> Result<Vec<u8>, String> {
        let Section { address, name, .. } = &self.sections[section];
        let here = address + item.offset;
        let resolve = |name: &str| self.resolve(name, section, item, here);
        let statement = self.with_low_parts(&item.statement, section, &resolve)?;
        if statement.name.starts_with('.')
            && directive::parse(&statement)?.is_zero(name == ".bss", &resolve)?
        {
            return Ok(Vec::new());
        }
        let end = here + item.n_bytes - RAM_BASE;
        if item.n_bytes > 0 && end > MOST_STORED {
            return Err(format!(
                "what is not zero lies in the first 2^28 bytes of a guest, and this ends at {end}"
            ));
        }
        let made = self.bytes(&statement, item, here, &resolve)?;
        let is_known = made.len() as u64 == item.n_bytes;
        is_known
            .then_some(made)
            .ok_or_else(|| "this number must be known before it is used".to_owned())
    }

    /// The statement with a number for each `%pcrel_lo(label)`: the lower part of the distance
    /// whose upper part the `auipc` at that label has.
    fn with_low_parts<'a>(
        &self,
        statement: &'a Statement,
        section: usize,
        resolve: Resolver<'_>,
    ) -> Result<Cow<'a, Statement>, String> {
        let mut statement = Cow::Borrowed(statement);
        for at in 0..statement.operands.len() {
            let operand = &statement.operands[at];
            let Some((before, rest)) = operand.split_once(LOW_PART) else {
                continue;
            };
            let (label, behind) = rest
                .split_once(')')
                .ok_or("a closing parenthesis is missing")?;
            let place = expression::evaluate(label, resolve)?;
            let low = self.low_part(section, place.cast_unsigned());
            let low = low.ok_or_else(|| format!("there is no auipc with %pcrel_hi at {label}"))?;
            let operand = format!("{before}{low}{behind}");
            statement.to_mut().operands[at] = operand;
        }
        Ok(statement)
    }

    /// The lower part that belongs to the `auipc` at that address.
    fn low_part(&self, section: usize, address: u64) -> Option<i32> {
        let Section {
            address: start,
            ref items,
            ..
        } = self.sections[section];
        let offset = address.checked_sub(start)?;
        let first = items.partition_point(|item| item.offset < offset);
        let mut here = items[first..].iter().take_while(|it| it.offset == offset);
        let item = here.find(|item| item.statement.name == "auipc")?;
        let high = item.statement.operands.get(1)?;
        let target = high.strip_prefix("%pcrel_hi(")?.strip_suffix(')')?;
        let resolve = |name: &str| self.resolve(name, section, item, address);
        let target = expression::evaluate(target, &resolve).ok()?;
        let distance = target.wrapping_sub(address.cast_signed());
        encode::high_low(distance).map(|(_, low)| low)
    }

    fn bytes(
        &self,
        statement: &Statement,
        item: &Item,
        here: u64,
        resolve: Resolver<'_>,
    ) -> Result<Vec<u8>, String> {
        if statement.name.starts_with('.') {
            return directive::parse(statement)?.bytes(item.n_bytes, resolve);
        }
        let words = match pseudo::expand(statement, here, resolve)? {
            Some(words) => words,
            None => vec![encode::instruction(statement, here, self.profile, resolve)?],
        };
        Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// The value of a name: `.`, a label, `1b` or `2f`, or a constant.
    fn resolve(&self, name: &str, section: usize, item: &Item, here: u64) -> Option<i64> {
        if name == "." {
            return Some(here.cast_signed());
        }
        let place =
            |section: usize, offset: u64| (self.sections[section].address + offset).cast_signed();
        if let Some(meaning) = self.names.get(name) {
            return Some(match *meaning {
                Meaning::Place { section, offset } => place(section, offset),
                Meaning::Number(value) => value,
            });
        }
        let (digits, direction) = name.split_at_checked(name.len().checked_sub(1)?)?;
        let number: u64 = digits.parse().ok()?;
        let mut labels = self
            .numbered
            .iter()
            .filter(|label| label.0 == number && label.1 == section)
            .map(|label| label.2);
        let offset = match direction {
            "b" => labels.rfind(|offset| *offset <= item.offset),
            "f" => labels.find(|offset| *offset > item.offset),
            _ => None,
        };
        offset.map(|offset| place(section, offset))
    }
}
