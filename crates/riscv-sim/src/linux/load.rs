//! How a process begins: its stack with arguments, environment and auxiliary vector.

use super::LinuxConfig;
use super::process::Random;
use crate::elf::Image;
use crate::error::{Error, Result};
use crate::memory::Ram;

const PHDR: u64 = 3;
const PHENT: u64 = 4;
const PHNUM: u64 = 5;
const PAGESZ: u64 = 6;
const BASE: u64 = 7;
const FLAGS: u64 = 8;
const ENTRY: u64 = 9;
const UID: u64 = 11;
const EUID: u64 = 12;
const GID: u64 = 13;
const EGID: u64 = 14;
const HWCAP: u64 = 16;
const CLKTCK: u64 = 17;
const SECURE: u64 = 23;
const RANDOM: u64 = 25;
const EXECFN: u64 = 31;

/// Extensions A, C, D, F, I and M, a bit each.
const EXTENSIONS: u64 = 0x112d;

/// Writes the top of the stack; gives where the stack pointer starts.
pub(super) fn write_stack(
    ram: &mut Ram,
    floor: u64,
    image: &Image,
    config: &LinuxConfig,
    random: &mut Random,
) -> Result<u64> {
    let mut stack = Stack {
        ram,
        floor,
        top: 0,
        fits: true,
    };
    stack.top = stack.ram.end() & !15;
    let mut seed = [0; 16];
    random.fill(&mut seed);
    let random_at = stack.push(&seed);
    let mut texts = |texts: &[Vec<u8>]| {
        let push = |text: &Vec<u8>| stack.push(&[text, &[0][..]].concat());
        texts.iter().map(push).collect::<Vec<u64>>()
    };
    let arguments = texts(&config.arguments);
    let environment = texts(&config.environment);
    let name = arguments.first().copied().unwrap_or(random_at);
    let (headers, n_headers) = image.program_headers.unwrap_or((0, 0));
    let vector = [
        [PHDR, headers],
        [PHENT, 56],
        [PHNUM, n_headers],
        [PAGESZ, 4096],
        [BASE, 0],
        [FLAGS, 0],
        [ENTRY, image.entry],
        [UID, 0],
        [EUID, 0],
        [GID, 0],
        [EGID, 0],
        [HWCAP, EXTENSIONS],
        [CLKTCK, 100],
        [SECURE, 0],
        [RANDOM, random_at],
        [EXECFN, name],
        [0, 0],
    ];
    let words: Vec<u64> = [arguments.len() as u64]
        .into_iter()
        .chain(arguments)
        .chain([0])
        .chain(environment)
        .chain([0])
        .chain(vector.into_iter().flatten())
        .collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    stack.top &= !15;
    if !bytes.len().is_multiple_of(16) {
        stack.top -= 8;
    }
    let start = stack.push(&bytes);
    match stack.fits {
        true => Ok(start),
        false => {
            let what = "arguments and environment do not fit onto the stack of a process";
            Err(Error::Config(what.to_owned()))
        }
    }
}

/// The part of the stack that has been written.
struct Stack<'a> {
    ram: &'a mut Ram,
    floor: u64,
    top: u64,
    fits: bool,
}

impl Stack<'_> {
    /// Puts bytes below what is there; gives where.
    fn push(&mut self, bytes: &[u8]) -> u64 {
        let top = self.top.saturating_sub(bytes.len() as u64);
        let place = self.ram.slice_mut(top, bytes.len() as u64);
        match place {
            Some(place) if top > self.floor => {
                place.copy_from_slice(bytes);
                self.top = top;
            }
            _ => self.fits = false,
        }
        self.top
    }
}
