//! The manifest of a checkpoint.
//!
//! ```text
//! pgas container, format 2
//! codec pgas 1: parts, plain bytes and bincode 2, little endian
//! kind hash map
//! checkpoint 7
//! element (text, u64)          once for each container that it is made of
//! sizes 200
//! parts 2
//! 26 700 9120413380419253177   elements, bytes and hash of a part
//! 24 652 1773129064019246190
//! hash 6a2f0c81d1b3e527        of all lines before it
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::str::Lines;

use super::directory::{open, refused, sync, sync_parent};
use super::parts::{Info, hash_of};
use crate::object::{CODEC, Object};
use pgas_core::Result;

pub(super) const NAME: &str = "manifest";
const DRAFT: &str = "manifest.new";
const NUMBER: &str = "checkpoint ";
const FORMAT: &str = "pgas container, format 2";

/// More bytes than any manifest has, even of a million ranks.
const MOST_BYTES: u64 = 256 << 20;

/// The description of one map, array, queue or filter without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) element: Cow<'static, str>,
    /// The numbers that it is made with.
    pub(super) sizes: Vec<u64>,
}

impl About {
    pub(super) fn of<T: Object>(sizes: &[u64]) -> Self {
        Self {
            element: T::saved_as(),
            sizes: sizes.to_vec(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) kind: String,
    /// The number of the checkpoint in its directory.
    pub(super) number: u64,
    pub(super) abouts: Vec<About>,
    /// For each of `abouts`.
    pub(super) parts: Vec<Vec<Info>>,
}

/// Any text in a form that has no line break.
fn on_a_line(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        return text.escape_debug().to_string().into();
    }
    text.into()
}

fn joined(numbers: &[u64]) -> String {
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    texts.join(" ")
}

impl Manifest {
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{FORMAT}\ncodec {CODEC}\nkind {}\ncheckpoint {}\n",
            self.kind, self.number
        );
        let mut line = |what: &str, value: &str| {
            writeln!(text, "{what}{value}").expect("a string takes it");
        };
        for (about, parts) in self.abouts.iter().zip(&self.parts) {
            line("element ", &on_a_line(&about.element));
            line("sizes ", &joined(&about.sizes));
            line("parts ", &parts.len().to_string());
            for info in parts {
                line("", &joined(&info.to_words()));
            }
        }
        let hash = hash_of(text.as_bytes());
        text + &format!("hash {hash:016x}\n")
    }

    /// Makes this the manifest of `dir`, after it and all files of `dir` are on the disk.
    pub(super) fn publish(&self, dir: &Path) -> Result<()> {
        let (draft, name) = (dir.join(DRAFT), dir.join(NAME));
        let publish = || {
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::create_new(&draft)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            sync(dir)?;
            fs::rename(&draft, &name)?;
            sync(dir)?;
            // The directory may be new itself.
            sync_parent(dir)
        };
        publish().map_err(|error| {
            // It takes room. It is not there if the rename has succeeded.
            drop(fs::remove_file(&draft));
            refused(&name, error)
        })
    }

    /// Parses a manifest, which must be of a container of the expected kind and elements.
    pub(super) fn parse(bytes: &[u8], kind: &str, abouts: &[About]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        let mut lines = Reader {
            lines: text.lines(),
        };
        lines.expect("the format", "", FORMAT)?;
        let said = hash_line(text).ok_or("it is not what was written: its hash differs")?;
        lines.expect("the codec", "codec ", CODEC)?;
        lines.expect("the kind", "kind ", kind)?;
        let [number] = lines.numbers(NUMBER)?;
        let (mut found, mut parts) = (Vec::new(), Vec::new());
        for about in abouts {
            let element = on_a_line(&about.element);
            lines.expect("the element", "element ", &element)?;
            found.push(About {
                element: about.element.clone(),
                sizes: lines.some_numbers("sizes ", about.sizes.len())?,
            });
            let [n_parts] = lines.numbers("parts ")?;
            let mut infos = Vec::new();
            for _ in 0..n_parts {
                infos.push(lines.info()?);
            }
            parts.push(infos);
        }
        lines.expect("the last line", "", said)?;
        Ok(Self {
            kind: kind.to_owned(),
            number,
            abouts: found,
            parts,
        })
    }
}

/// The last line of a manifest, if it is the hash of those before it.
fn hash_line(text: &str) -> Option<&str> {
    let text = text.trim_end_matches('\n');
    let (body, line) = text.split_at(text.rfind('\n')? + 1);
    (line == format!("hash {:016x}", hash_of(body.as_bytes()))).then_some(line)
}

/// The number of the checkpoint that a manifest describes, of whatever kind; `None` if it is
/// damaged.
pub(super) fn number_in(bytes: &[u8]) -> Option<u64> {
    let text = str::from_utf8(bytes).ok()?;
    hash_line(text)?;
    let mut numbers = text.lines().filter_map(|line| line.strip_prefix(NUMBER));
    numbers.next()?.parse().ok()
}

/// The manifest of `dir`, which is not empty.
pub(super) fn read(dir: &Path) -> Result<Vec<u8>> {
    let path = dir.join(NAME);
    let read = || {
        let file = open(&path)?;
        let about = file.metadata()?;
        if !about.is_file() || !(1..=MOST_BYTES).contains(&about.len()) {
            return Err(io::Error::other("it is no manifest"));
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|e| refused(&path, e))
}

struct Reader<'t> {
    lines: Lines<'t>,
}

impl<'t> Reader<'t> {
    /// The rest of the next line, which begins with `what`.
    fn next(&mut self, what: &str) -> Result<&'t str, String> {
        let line = self.lines.next().unwrap_or("");
        line.strip_prefix(what)
            .ok_or_else(|| format!("a line is {line:?}; {what:?} was expected"))
    }

    fn expect(&mut self, name: &str, what: &str, expected: &str) -> Result<(), String> {
        let found = self.next(what)?;
        if found == expected {
            return Ok(());
        }
        Err(format!("{name} is {found:?}; {expected:?} was expected"))
    }

    fn some_numbers(&mut self, what: &str, n: usize) -> Result<Vec<u64>, String> {
        let line = self.next(what)?;
        let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        numbers
            .filter(|numbers| numbers.len() == n)
            .ok_or_else(|| format!("a line of {n} numbers is {line:?}"))
    }

    fn numbers<const N: usize>(&mut self, what: &str) -> Result<[u64; N], String> {
        let numbers = self.some_numbers(what, N)?;
        Ok(numbers.try_into().expect("as many"))
    }

    fn info(&mut self) -> Result<Info, String> {
        let info = Info::of_words(&self.numbers("")?);
        if info.is_possible() {
            return Ok(info);
        }
        let Info {
            elements, bytes, ..
        } = info;
        Err(format!("{elements} elements were to take {bytes} bytes"))
    }
}
