//! The program of this process: the address of its code, a hash of it, and the basis of function
//! names.
//!
//! Functions are named by their offsets in the program's code, which are equal in all processes
//! that run the same file. The ranks compare their files when active messages are set up, unless
//! the transport has started one file on all of them.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use pgas_core::{Error, Result};
use zerocopy::IntoBytes as _;

/// The code of the program that this process runs.
#[derive(Debug)]
pub(crate) struct Program {
    /// The addresses of the mapped code.
    pub(crate) code: Range<usize>,
    /// The file that has the code, and its offset there.
    file: &'static str,
    offset: u64,
    build: OnceLock<u64>,
}

/// The name of the file that identifies the program, for errors.
pub(crate) const READ: &str = "read of /proc/self";

/// The file of the program. It has the code as it was built, also while a debugger has changed some
/// of it in memory.
const EXECUTABLE: &str = "/proc/self/exe";
/// The memory of the process, for code of a shared object: the file of that name may be another one
/// by now.
const MEMORY: &str = "/proc/self/mem";

/// Words that are read and hashed at once.
const CHUNK: usize = 1 << 13;

impl Program {
    /// The program of this process; looked for once.
    pub(crate) fn own() -> Result<&'static Self> {
        static OWN: OnceLock<Program> = OnceLock::new();
        if let Some(program) = OWN.get() {
            return Ok(program);
        }
        let program = Self::find().map_err(|error| Error::os(READ, error))?;
        Ok(OWN.get_or_init(|| program))
    }

    fn find() -> io::Result<Self> {
        if cfg!(miri) {
            // Under Miri code has no bytes, and each function has an address of its own, below
            // this.
            return Ok(Self {
                code: 0..u32::MAX as usize,
                file: EXECUTABLE,
                offset: 0,
                build: OnceLock::from(1),
            });
        }
        let here = Self::own as fn() -> Result<&'static Self> as usize;
        // The path of a mapped file may be no text.
        let maps = fs::read("/proc/self/maps")?;
        let maps = String::from_utf8_lossy(&maps);
        let mapping = maps
            .lines()
            .filter_map(Mapping::parse)
            .find(|mapping| mapping.is_code && mapping.addresses.contains(&here));
        let no_mapping = || io::Error::other("no mapping of the program's code");
        Ok(Self::of(&mapping.ok_or_else(no_mapping)?))
    }

    /// The program, or the shared object, whose code is mapped there.
    fn of(mapping: &Mapping<'_>) -> Self {
        let executable = fs::read_link(EXECUTABLE).unwrap_or_default();
        let (file, offset) = if *mapping.path == *executable.to_string_lossy() {
            (EXECUTABLE, mapping.offset)
        } else {
            (MEMORY, mapping.addresses.start as u64)
        };
        Self {
            code: mapping.addresses.clone(),
            file,
            offset,
            build: OnceLock::new(),
        }
    }

    /// A hash of the code, and of the other things that must be equal for messages to be
    /// understood. Computed once: the first call reads all of the code, several instructions for
    /// each word.
    pub(crate) fn build(&self) -> Result<u64> {
        if let Some(build) = self.build.get() {
            return Ok(*build);
        }
        let build = self.hash().map_err(|error| Error::os(READ, error))?;
        Ok(*self.build.get_or_init(|| build))
    }

    fn hash(&self) -> io::Result<u64> {
        let mut hash = Hash::new();
        for byte in env!("CARGO_PKG_VERSION").bytes() {
            hash.add(&[byte.into()]);
        }
        hash.add(&[usize::BITS.into()]);
        let file = File::open(self.file)?;
        let mut words = vec![0; CHUNK];
        let (mut at, mut left) = (self.offset, self.code.len());
        while left > 0 {
            let wanted = left.min(CHUNK * size_of::<u64>());
            let n = fill(&file, &mut words.as_mut_bytes()[..wanted], at)?;
            words.as_mut_bytes()[n..].fill(0);
            hash.add(&words[..n.div_ceil(size_of::<u64>())]);
            if n < wanted {
                break; // The last page of the mapping goes past the file's end.
            }
            at += n as u64;
            left -= n;
        }
        Ok(hash.finish())
    }
}

/// Reads up to `bytes.len()` bytes and returns their number.
fn fill(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut n = 0;
    while n < bytes.len() {
        match file.read_at(&mut bytes[n..], at + n as u64) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

/// The basis of function names, equal on all ranks of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) program: &'static Program,
    /// A hash of the build and of a secret.
    salt: u64,
}

impl Names {
    /// The names of a job that runs `build` of `program`, and whose ranks alone know `secret`.
    pub(crate) fn new(program: &'static Program, build: u64, secret: u64) -> Self {
        let salt = mix(build ^ mix(secret));
        Self { program, salt }
    }

    /// The tag which proves that a rank of the job has made this pair of offsets.
    #[inline]
    pub(crate) fn tag(&self, trampoline: u32, body: u32) -> u64 {
        let places = u64::from(trampoline) << u32::BITS | u64::from(body);
        mix(mix(places ^ self.salt).wrapping_add(self.salt))
    }
}

/// A line of `/proc/self/maps`.
struct Mapping<'a> {
    addresses: Range<usize>,
    is_code: bool,
    /// Its offset in the file.
    offset: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some(Self {
            addresses: address(start)?..address(end)?,
            is_code: fields.next()?.as_bytes().get(2) == Some(&b'x'),
            offset: u64::from_str_radix(fields.next()?, 16).ok()?,
            // Behind the device and the number of the file.
            path: fields.nth(2).unwrap_or_default().trim_start(),
        })
    }
}

/// A hash of words. It distinguishes builds, and need not resist attacks. A step takes few
/// instructions, since a program has millions of bytes, and is injective: different hashes stay
/// different.
struct Hash(u64);

/// Odd, so that a step can be undone.
const FACTOR: u64 = 0xe703_7ed1_a0b4_28db;

impl Hash {
    const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn add(&mut self, words: &[u64]) {
        // By an index: in a debug build an iterator makes a call for each word, and many megabytes
        // are hashed at each start.
        let mut i = 0;
        while i < words.len() {
            let step = (self.0 ^ words[i]).wrapping_mul(FACTOR);
            self.0 = step ^ step >> 32;
            i += 1;
        }
    }

    fn finish(self) -> u64 {
        mix(self.0)
    }
}

/// Spreads every bit of `word` over all bits (the halves of a 128-bit product, folded).
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a product")]
pub(crate) const fn mix(word: u64) -> u64 {
    let product = (word ^ 0xa076_1d64_78bd_642f) as u128 * FACTOR as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_finds_its_own_code() {
        let program = Program::own().unwrap();
        assert!(program.code.contains(&(mix as fn(u64) -> u64 as usize)));
        let build = program.build().unwrap();
        assert_ne!(build, 0);
        assert_eq!(Program::find().unwrap().build().unwrap(), build);
    }

    #[test]
    #[cfg_attr(miri, ignore = "has no mappings")]
    #[cfg(target_os = "linux")]
    fn code_of_a_shared_object_is_told_from_that_of_another_one() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mappings = maps.lines().filter_map(Mapping::parse);
        let code: Vec<_> = mappings.filter(|mapping| mapping.is_code).collect();
        let own = code.iter().find(|mapping| {
            let here = &(mix as fn(u64) -> u64 as usize);
            mapping.addresses.contains(here)
        });
        let own = Program::of(own.unwrap());
        assert_eq!(own.file, EXECUTABLE);
        let objects = code.iter().filter(|mapping| mapping.path.contains(".so"));
        let objects: Vec<_> = objects.map(Program::of).collect();
        assert!(objects.len() > 1, "the C library and its loader: {maps}");
        let mut builds: Vec<u64> = objects
            .iter()
            .map(|object| object.build().unwrap())
            .collect();
        builds.push(own.build().unwrap());
        builds.sort_unstable();
        builds.dedup();
        assert_eq!(builds.len(), objects.len() + 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a process")]
    #[cfg(target_os = "linux")]
    fn a_program_finds_its_code_although_its_path_is_no_text() {
        use std::os::unix::ffi::OsStringExt as _;
        use std::os::unix::process::CommandExt as _;

        let own = std::env::current_exe().unwrap();
        let name = format!("identity.{}.", std::process::id()).into_bytes();
        let name = std::ffi::OsString::from_vec([name, vec![0xff]].concat());
        let other = own.with_file_name(name);
        fs::hard_link(&own, &other).unwrap();
        let mut test = std::process::Command::new(&other);
        // The harness takes arguments that are text only.
        test.arg0("test");
        let test = test.args(["--exact", "identity::tests::a_process_finds_its_own_code"]);
        let ended = test.output();
        fs::remove_file(&other).unwrap();
        let told = String::from_utf8_lossy(&ended.unwrap().stdout).into_owned();
        assert!(told.contains("1 passed"), "{told}");
    }

    #[test]
    fn a_changed_bit_changes_the_hash() {
        let hash = |words: &[u64]| {
            let mut hash = Hash::new();
            hash.add(words);
            hash.finish()
        };
        let code: Vec<u64> = (0..10).map(mix).collect();
        for at in 0..640 {
            let mut changed = code.clone();
            changed[at / 64] ^= 1 << (at % 64);
            assert_ne!(hash(&changed), hash(&code), "{at}");
        }
    }
}
