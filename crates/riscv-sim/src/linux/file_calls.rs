//! System calls about files.

use super::calls::Host;
use super::errno::Errno;
use super::guest::{buffers, bytes, bytes_mut, movable, only, put, text};
use super::process::Process;
use crate::memory::Ram;

const F_DUPFD: u64 = 0;
const F_GETFD: u64 = 1;
const F_SETFD: u64 = 2;
const F_GETFL: u64 = 3;
const F_SETFL: u64 = 4;
const F_DUPFD_CLOEXEC: u64 = 1030;

/// Of `faccessat`: whether it may be written, and all that may be asked.
const MAY_WRITE: u64 = 2;
const ACCESS_MODES: u64 = 7;
/// By the rights of who the process really is; of a link itself; of what is open.
const ACCESS_FLAGS: u64 = 0x200 | 0x100 | 0x1000;

/// Of `fstatat`: of a link itself, without mounting anything, of what is open; of `statx` also how
/// recent it has to be, in one of two ways.
const STAT_FLAGS: u64 = 0x100 | 0x800 | 0x1000;
const STATX_FORCE: u64 = 0x2000;
const STATX_CACHED: u64 = 0x4000;
/// What no call asks for yet.
const STATX_RESERVED: u64 = 1 << 31;

/// The one flag of `dup3`.
const CLOSE_AT_EXEC: u64 = 0o2_000_000;

/// More than a process gets or writes at once, as in Linux.
const MOST_AT_ONCE: u64 = 0x7fff_f000;

impl Process {
    pub(super) fn file_call(
        &mut self,
        number: u64,
        [a, b, c, d, e, _]: [u64; 6],
        ram: &mut Ram,
        host: &mut Host<'_>,
    ) -> Result<u64, Errno> {
        match number {
            17 => self.current_folder(a, b, ram),
            23 => self.files.duplicate(a, 0),
            24 => {
                only(c, CLOSE_AT_EXEC)?;
                self.files.duplicate_to(a, b)
            }
            25 => self.control(a, b, c),
            29 if self.files.is_open(a) => Err(Errno::NOTTY),
            29 => Err(Errno::BADF),
            48 => self.access(a, text(ram, b)?, (c, 0)),
            439 => self.access(a, text(ram, b)?, (c, d)),
            49 => self.files.enter_folder(text(ram, a)?),
            50 => self.files.enter_open_folder(a),
            56 => self.files.open(a, text(ram, b)?, (c, d)),
            57 => self.files.close(a),
            61 => {
                let (entries, n) = self.files.entries(a, c)?;
                put(ram, b, &entries)?;
                self.files.pass_entries(a, n)?;
                Ok(entries.len() as u64)
            }
            62 => self.files.seek(a, b.cast_signed(), c),
            63 => self.read(a, b, c, None, ram),
            64 => self.write(a, (b, c), None, ram, host),
            65 => self.read_several(a, &buffers(ram, b, c)?, None, ram),
            66 => self.write_several(a, &buffers(ram, b, c)?, None, ram, host),
            67 => self.read(a, b, c, Some(place(d)?), ram),
            68 => self.write(a, (b, c), Some(place(d)?), ram, host),
            69 => self.read_several(a, &buffers(ram, b, c)?, Some(place(d)?), ram),
            70 => self.write_several(a, &buffers(ram, b, c)?, Some(place(d)?), ram, host),
            78 => {
                let path = text(ram, b)?.to_vec();
                self.read_link(a, &path, c, d, ram)
            }
            79 => {
                only(d, STAT_FLAGS | STATX_FORCE | STATX_CACHED)?;
                let facts = self.files.facts_at(a, text(ram, b)?, d)?;
                put(ram, c, &facts.stat()).map(|()| 0)
            }
            80 => put(ram, b, &self.files.facts(a)?.stat()).map(|()| 0),
            // sync; fsync, fdatasync, fadvise64: nothing is held back.
            81 => Ok(0),
            82 | 83 | 223 if self.files.is_open(a) => Ok(0),
            82 | 83 | 223 => Err(Errno::BADF),
            291 => {
                only(c, STAT_FLAGS | STATX_FORCE | STATX_CACHED)?;
                if c & STATX_FORCE != 0 && c & STATX_CACHED != 0 || d & STATX_RESERVED != 0 {
                    return Err(Errno::INVAL);
                }
                let facts = self.files.facts_at(a, text(ram, b)?, c)?;
                put(ram, e, &facts.statx()).map(|()| 0)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn current_folder(&self, to: u64, most: u64, ram: &mut Ram) -> Result<u64, Errno> {
        let path = self.files.current().as_os_str().as_encoded_bytes();
        let path = [path, &[0]].concat();
        if path.len() as u64 > most {
            return Err(Errno::RANGE);
        }
        put(ram, to, &path)?;
        Ok(path.len() as u64)
    }

    fn control(&mut self, file: u64, command: u64, argument: u64) -> Result<u64, Errno> {
        if !self.files.is_open(file) {
            return Err(Errno::BADF);
        }
        match command {
            F_DUPFD | F_DUPFD_CLOEXEC => self.files.duplicate(file, argument),
            F_GETFD | F_SETFD => Ok(0),
            F_GETFL => self.files.flags(file),
            F_SETFL => self.files.set_flags(file, argument),
            _ => Err(Errno::INVAL),
        }
    }

    /// Whether a file is there, and may be written if that is asked.
    fn access(&self, at: u64, path: &[u8], (mode, flags): (u64, u64)) -> Result<u64, Errno> {
        only(mode, ACCESS_MODES)?;
        only(flags, ACCESS_FLAGS)?;
        self.files.facts_at(at, path, flags)?;
        if mode & MAY_WRITE != 0 {
            self.files.may_change(at, path, flags)?;
        }
        Ok(0)
    }

    fn read(
        &self,
        file: u64,
        to: u64,
        n_bytes: u64,
        at: Option<u64>,
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        let n_bytes = movable(ram, to, n_bytes)?.min(MOST_AT_ONCE);
        let place = bytes_mut(ram, to, n_bytes)?;
        let n_bytes = self.files.read(file, place, at)?;
        Ok(n_bytes as u64)
    }

    fn read_several(
        &self,
        file: u64,
        buffers: &[(u64, u64)],
        at: Option<u64>,
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        let mut n_bytes = 0;
        for (to, most) in buffers {
            let at = at.map(|at| at.saturating_add(n_bytes));
            let n = match self.read(file, *to, (*most).min(MOST_AT_ONCE), at, ram) {
                // What was moved before is told, and the failure when it is tried again.
                Err(_) if n_bytes > 0 => break,
                n => n?,
            };
            n_bytes += n;
            if n < *most {
                break;
            }
        }
        Ok(n_bytes)
    }

    fn write(
        &self,
        file: u64,
        (from, n_bytes): (u64, u64),
        at: Option<u64>,
        ram: &Ram,
        host: &mut Host<'_>,
    ) -> Result<u64, Errno> {
        let stream = self.files.stream(file)?;
        let n_bytes = movable(ram, from, n_bytes)?.min(MOST_AT_ONCE);
        let bytes = bytes(ram, from, n_bytes)?;
        match stream {
            Some(_) if at.is_some() => Err(Errno::SPIPE),
            Some(stream) => {
                (host.console)(stream, bytes);
                Ok(bytes.len() as u64)
            }
            None => Ok(self.files.write(file, bytes, at)? as u64),
        }
    }

    fn write_several(
        &self,
        file: u64,
        buffers: &[(u64, u64)],
        at: Option<u64>,
        ram: &Ram,
        host: &mut Host<'_>,
    ) -> Result<u64, Errno> {
        let mut n_bytes = 0;
        for (from, most) in buffers {
            let at = at.map(|at| at.saturating_add(n_bytes));
            let bytes = (*from, (*most).min(MOST_AT_ONCE));
            let n = match self.write(file, bytes, at, ram, host) {
                Err(_) if n_bytes > 0 => break,
                n => n?,
            };
            n_bytes += n;
            if n < *most {
                break;
            }
        }
        Ok(n_bytes)
    }

    /// The text of a link.
    fn read_link(
        &self,
        at: u64,
        path: &[u8],
        to: u64,
        most: u64,
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        if most as u32 == 0 {
            return Err(Errno::INVAL);
        }
        let link = match path {
            b"/proc/self/exe" => self.name.clone(),
            _ => self.files.link(at, path)?,
        };
        let n_bytes = (link.len() as u64).min(most);
        put(ram, to, &link[..n_bytes as usize])?;
        Ok(n_bytes)
    }
}

/// A place in a file, from its start.
fn place(offset: u64) -> Result<u64, Errno> {
    match offset.cast_signed() {
        0.. => Ok(offset),
        _ => Err(Errno::INVAL),
    }
}
