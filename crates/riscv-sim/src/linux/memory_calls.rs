//! System calls about memory.

use super::errno::Errno;
use super::guest::bytes_mut;
use super::process::Process;
use super::space::PAGE;
use crate::memory::Ram;

const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MAP_SHARED: u64 = 1;
const MAP_SHARED_VALIDATE: u64 = 3;
const MAP_KIND: u64 = 15;
const PROT_WRITE: u64 = 2;
const MREMAP_MAYMOVE: u64 = 1;
const MADV_DONTNEED: u64 = 4;

impl Process {
    pub(super) fn memory_call(
        &mut self,
        number: u64,
        [a, b, c, d, e, f]: [u64; 6],
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        match number {
            214 => Ok(self.space.set_heap_end(a, ram)),
            215 => self.space.unmap(a, b).map(|()| 0),
            216 if d & !MREMAP_MAYMOVE != 0 => Err(Errno::INVAL),
            216 => self.space.resize(a, b, c, d & MREMAP_MAYMOVE != 0, ram),
            222 => self.map(a, b, (c, d), (e, f), ram),
            // mprotect, msync, mlock, munlock, mlockall, munlockall, mlock2: nothing is protected,
            // comes into a file, or leaves memory.
            226 | 227 if !a.is_multiple_of(PAGE) => Err(Errno::INVAL),
            226..=231 | 284 => Ok(0),
            // madvise
            _ if !a.is_multiple_of(PAGE) => Err(Errno::INVAL),
            _ => {
                let end = a
                    .checked_add(b)
                    .and_then(|it| it.checked_next_multiple_of(PAGE));
                let end = end.ok_or(Errno::INVAL)?.min(self.stack.end);
                if c == MADV_DONTNEED && a < end {
                    // The program stays what its file has.
                    self.space.clear(a..end, ram);
                }
                Ok(0)
            }
        }
    }

    fn map(
        &mut self,
        address: u64,
        n_bytes: u64,
        (protection, flags): (u64, u64),
        (file, offset): (u64, u64),
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        let has_kind = (MAP_SHARED..=MAP_SHARED_VALIDATE).contains(&(flags & MAP_KIND));
        if !has_kind || !offset.is_multiple_of(PAGE) {
            return Err(Errno::INVAL);
        }
        let is_file = flags & MAP_ANONYMOUS == 0;
        if is_file && flags & MAP_SHARED != 0 && protection & PROT_WRITE != 0 {
            // What is written would have to come into the file.
            return Err(Errno::NODEV);
        }
        if is_file {
            // Before anything is taken away that lies there.
            self.files.check_mappable(file)?;
        }
        let fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
        // Also beside the other one.
        if fixed & MAP_FIXED_NOREPLACE != 0 && !self.space.is_free(address, n_bytes)? {
            return Err(Errno::EXIST);
        }
        let start = match fixed {
            0 => self.space.map(n_bytes, ram)?,
            _ => self.space.map_at(address, n_bytes, ram)?,
        };
        if is_file {
            let place = bytes_mut(ram, start, n_bytes)?;
            if let Err(why) = self.files.read(file, place, Some(offset)) {
                self.space.unmap(start, n_bytes)?;
                return Err(why);
            }
        }
        Ok(start)
    }
}
