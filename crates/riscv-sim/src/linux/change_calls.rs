//! System calls that change what lies in folders, and locks of files.

use super::calls::{Answer, Event, Host, Wake};
use super::errno::Errno;
use super::guest::{only, text};
use super::process::Process;
use crate::memory::Ram;

/// Remove a folder, not a file.
const AT_REMOVEDIR: u64 = 0x200;

/// What a link leads to, or not; with no path, what is open.
const AT_SYMLINK_FOLLOW: u64 = 0x400;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const AT_EMPTY_PATH: u64 = 0x1000;

/// Of `flock`: without waiting.
const LOCK_AT_ONCE: u64 = 4;

/// How long, in ns, a process that waits for a file's lock sleeps before it looks again.
const LOCK_PAUSE: u64 = 10_000;

impl Process {
    pub(super) fn change_call(
        &self,
        number: u64,
        [a, b, c, d, e, _]: [u64; 6],
        ram: &Ram,
    ) -> Result<u64, Errno> {
        match number {
            34 => self.files.make_folder(a, text(ram, b)?, c),
            35 => {
                only(c, AT_REMOVEDIR)?;
                self.remove(a, text(ram, b)?, c)
            }
            // symlinkat: a link could lead anywhere.
            36 => Err(Errno::PERM),
            37 => {
                only(e, AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)?;
                self.link((a, text(ram, b)?), (c, text(ram, d)?))
            }
            276 => self.rename((a, text(ram, b)?), (c, text(ram, d)?), e),
            45 => self.files.truncate(text(ram, a)?, b),
            46 => self.files.set_length(a, b),
            47 => {
                let [start, len] = [c, d].map(u64::cast_signed);
                if start < 0 || len <= 0 {
                    return Err(Errno::INVAL);
                }
                if b != 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                let end = c.checked_add(d).ok_or(Errno::INVAL)?;
                self.files.lengthen(a, end)
            }
            52 => self.files.set_mode(a, b),
            53 => self.files.set_mode_at(a, text(ram, b)?, c),
            // utimensat: times are not told.
            88 if b == 0 && self.files.is_open(a) => Ok(0),
            88 => {
                only(d, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
                let path = text(ram, b)?;
                self.files.facts_at(a, path, d)?;
                self.files.may_change(a, path, d)?;
                Ok(0)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// `flock`: nodes that opened the same file lock it for one another.
    pub(super) fn lock(&mut self, file: u64, operation: u64, host: &Host<'_>) -> Answer {
        self.wanted = None;
        match self.files.lock(file, operation & !LOCK_AT_ONCE) {
            Err(Errno::AGAIN) if operation & LOCK_AT_ONCE == 0 => {
                self.wanted = self.files.identity(file).ok();
                Answer::Waits(Wake {
                    at_ns: host.now_ns.saturating_add(LOCK_PAUSE),
                    event: Event::Unlock,
                })
            }
            result => result.map(|()| 0).into(),
        }
    }

    /// Another name for a file, which has to be one that may be written: what the name leads to is.
    fn link(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<u64, Errno> {
        let from = self.files.resolve(from.0, from.1, true)?;
        std::fs::hard_link(from, self.files.resolve_entry(to.0, to.1, true)?)?;
        Ok(0)
    }

    fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u64) -> Result<u64, Errno> {
        if flags != 0 {
            return Err(Errno::INVAL);
        }
        let from = self.files.resolve_entry(from.0, from.1, true)?;
        std::fs::rename(from, self.files.resolve_entry(to.0, to.1, true)?)?;
        Ok(0)
    }

    fn remove(&self, at: u64, path: &[u8], flags: u64) -> Result<u64, Errno> {
        let path = self.files.resolve_entry(at, path, true)?;
        match flags & AT_REMOVEDIR {
            0 => std::fs::remove_file(path)?,
            _ => std::fs::remove_dir(path)?,
        }
        Ok(0)
    }
}
