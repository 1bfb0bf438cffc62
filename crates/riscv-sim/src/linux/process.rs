//! One process: what it has, from its start on.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::LinuxConfig;
use super::files::{Files, Identity, path_of};
use super::folders::Folders;
use super::load;
use super::space::{PAGE, Space};
use crate::elf::Image;
use crate::error::{Error, Result};
use crate::hart::Hart;
use crate::memory::Ram;

/// The number of the stack pointer.
const SP: u8 = 2;

#[derive(Debug)]
pub(crate) struct Process {
    pub(super) node: u64,
    pub(super) space: Space,
    pub(super) files: Files,
    pub(super) random: Random,
    pub(super) stack: Range<u64>,
    /// The program's full name, as far as its first argument tells it.
    pub(super) name: Vec<u8>,
    /// When the call that it waits in is over, in ns.
    pub(super) deadline: Option<u64>,
    pub(super) waits: Waits,
    /// The file whose lock it waits for.
    pub(super) wanted: Option<Identity>,
    /// Time that passed while it waited and its core counted nothing, in ns.
    skipped_ns: u64,
    /// It has been told that there are no threads.
    pub(super) knows_of_threads: bool,
}

/// How long a process waits, in ns.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Since when, in a call that is not over.
    pub(super) since_ns: Option<u64>,
    /// In the calls before.
    pub(super) before_ns: u64,
}

impl Process {
    /// A process that is about to start, on a node that has loaded the program.
    pub(crate) fn new(
        node: usize,
        image: &Image,
        config: &LinuxConfig,
        hart: &mut Hart,
        ram: &mut Ram,
    ) -> Result<Self> {
        let end = |segment: &crate::elf::Segment| segment.address + segment.n_bytes;
        let program_end = image.segments.iter().map(end).max().unwrap_or(ram.start());
        let memory = ram.start()..ram.end();
        let stack = config.stack(&memory);
        let segment = config.segment(&memory);
        let ceiling = segment.as_ref().map_or(stack.start, |it| it.start);
        if program_end > ceiling {
            let what = if segment.is_some() {
                "segment"
            } else {
                "stack"
            };
            return Err(Error::Config(format!(
                "a program that ends at {program_end:#x} leaves no room for its {what}, which starts at {ceiling:#x}"
            )));
        }
        let node = node as u64;
        let mut random = Random::new(config.seed, node);
        let top = load::write_stack(ram, stack.start, image, config, &mut random)?;
        hart.set_x(SP, top);
        hart.enter_user_mode();
        let mut maps = String::new();
        for mapping in &image.mappings {
            let Range { start, end } = mapping.addresses;
            let (start, end) = (start / PAGE * PAGE, end.next_multiple_of(PAGE));
            let offset = mapping.offset / PAGE * PAGE;
            let rights = if mapping.is_code { "r-xp" } else { "rw-p" };
            maps +=
                &format!("{start:08x}-{end:08x} {rights} {offset:08x} 00:00 2 /proc/self/exe\n");
        }
        let Range { start, end } = stack;
        maps += &format!("{start:08x}-{end:08x} rw-p 00000000 00:00 0 [stack]\n");
        let folders = Folders::new(&config.folders)?;
        let name = config.arguments.first().map_or(&b""[..], Vec::as_slice);
        let name = match path_of(name) {
            Ok(path) => folders
                .current
                .join(path)
                .into_os_string()
                .into_encoded_bytes(),
            Err(_) => name.to_vec(),
        };
        Ok(Self {
            node,
            space: Space::new(program_end, ceiling),
            files: Files::new(folders, &maps, Arc::clone(&config.program)),
            random,
            stack,
            name,
            deadline: None,
            waits: Waits::default(),
            wanted: None,
            skipped_ns: 0,
            knows_of_threads: false,
        })
    }

    /// The process has ended: others may have the locks of its files.
    pub(crate) fn end(&mut self) {
        self.files.close_all();
    }

    /// The files of the host that it has locked.
    pub(crate) fn locked(&self) -> impl Iterator<Item = Identity> {
        self.files.locked()
    }

    /// The file whose lock it waits for, if it waits for one.
    pub(crate) const fn wanted(&self) -> Option<Identity> {
        self.wanted
    }

    /// The last path that lies in no folder which it may use so.
    pub(crate) fn refused(&self) -> Option<PathBuf> {
        self.files.refused()
    }

    /// The number by which it knows itself.
    pub(super) const fn number(&self) -> u64 {
        self.node + 1
    }

    /// How much of the time until now, in ns, it did not wait.
    pub(super) const fn core_time(&self, now_ns: u64) -> u64 {
        now_ns - self.waits.before_ns
    }

    /// What is added to the core's time to give the process's, in ns.
    pub(crate) const fn skipped_ns(&self) -> u64 {
        self.skipped_ns
    }

    /// Time passes while the process waits.
    pub(crate) const fn skip(&mut self, ns: u64) {
        self.skipped_ns += ns;
    }
}

/// Random bytes that are the same in every run: Steele, Lea and Flood's generator.
#[derive(Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(super) fn new(seed: u64, node: u64) -> Self {
        let mut random = Self { state: seed };
        random.state = random.next() ^ node;
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::STEP);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
