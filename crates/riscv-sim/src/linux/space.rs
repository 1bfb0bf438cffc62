//! A process's memory: the program, what `brk` and `mmap` gave it, and the stack. Nothing is
//! protected from its own process.
//!
//! From the bottom: the program, the heap of `brk`, which grows up; mapped ranges, the newest
//! lowest; the stack at the top.

use std::collections::BTreeMap;
use std::ops::Range;

use super::errno::Errno;
use crate::memory::Ram;

pub(super) const PAGE: u64 = 4096;

/// Where the addresses end that a process can have: those of three levels of page tables.
pub(super) const END_OF_ADDRESSES: u64 = 1 << 38;

#[derive(Debug)]
pub(super) struct Space {
    heap_start: u64,
    heap_end: u64,
    /// Mapped ranges, by their starts.
    mapped: BTreeMap<u64, u64>,
    /// Where the stack begins, above everything mapped.
    ceiling: u64,
    /// All below, down to the heap, has never been mapped and is zero.
    untouched: u64,
}

impl Space {
    /// The memory of a process that has a program up to `program_end` and a stack from `ceiling`
    /// on.
    pub(super) fn new(program_end: u64, ceiling: u64) -> Self {
        let heap_start = program_end.next_multiple_of(PAGE);
        Self {
            heap_start,
            heap_end: heap_start,
            mapped: BTreeMap::new(),
            ceiling,
            untouched: ceiling,
        }
    }

    /// Moves the heap's end there if it can be; gives where it is.
    pub(super) fn set_heap_end(&mut self, end: u64, ram: &mut Ram) -> u64 {
        let most = self
            .mapped
            .keys()
            .next()
            .map_or(self.ceiling, |start| *start);
        if (self.heap_start..=most).contains(&end) {
            if end < self.heap_end {
                clear(ram, end..self.heap_end);
            }
            clear(ram, self.heap_end.max(self.untouched)..end);
            self.heap_end = end;
            self.untouched = self.untouched.max(end);
        }
        self.heap_end
    }

    /// Maps zeros anywhere.
    pub(super) fn map(&mut self, n_bytes: u64, ram: &mut Ram) -> Result<u64, Errno> {
        let n_bytes = pages(n_bytes)?;
        let mut end = self.ceiling;
        let mut above = self.mapped.iter().rev();
        let start = loop {
            let (next_end, lower) = match above.next() {
                Some((start, end)) => (*start, *end),
                None => (0, self.heap_end.next_multiple_of(PAGE)),
            };
            if end.saturating_sub(lower) >= n_bytes {
                break end - n_bytes;
            }
            if next_end == 0 {
                return Err(Errno::NOMEM);
            }
            end = next_end;
        };
        self.enter(start..start + n_bytes, ram);
        Ok(start)
    }

    /// Maps zeros at this address, whatever was there.
    pub(super) fn map_at(&mut self, start: u64, n_bytes: u64, ram: &mut Ram) -> Result<u64, Errno> {
        let range = self.range(start, n_bytes)?;
        self.cut(&range);
        self.enter(range, ram);
        Ok(start)
    }

    /// How much of it the heap and mapped ranges may still get.
    pub(super) fn free_bytes(&self) -> u64 {
        let mapped: u64 = self.mapped.iter().map(|(start, end)| end - start).sum();
        self.ceiling - self.heap_end - mapped
    }

    /// Whether nothing lies there yet, where something may.
    pub(super) fn is_free(&self, start: u64, n_bytes: u64) -> Result<bool, Errno> {
        let range = self.range(start, n_bytes)?;
        let before = self.mapped.range(..range.end).next_back();
        Ok(before.is_none_or(|(_, end)| *end <= range.start))
    }

    /// Gives back what is mapped there, be it nothing. The program, the heap of `brk` and the stack
    /// stay.
    pub(super) fn unmap(&mut self, start: u64, n_bytes: u64) -> Result<(), Errno> {
        let end = start.checked_add(pages(n_bytes).map_err(|_| Errno::INVAL)?);
        let end = end.filter(|end| *end <= END_OF_ADDRESSES && start.is_multiple_of(PAGE));
        self.cut(&(start..end.ok_or(Errno::INVAL)?));
        Ok(())
    }

    /// Whether all of it is mapped.
    fn is_mapped(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            match self.mapped.range(..=at).next_back() {
                Some((_, end)) if *end > at => at = *end,
                _ => return false,
            }
        }
        true
    }

    /// Makes a mapped range longer or shorter, elsewhere if need be and allowed; gives where it is.
    pub(super) fn resize(
        &mut self,
        start: u64,
        old: u64,
        new: u64,
        may_move: bool,
        ram: &mut Ram,
    ) -> Result<u64, Errno> {
        let (old, new) = (pages(old)?, pages(new)?);
        let old_range = self.range(start, old)?;
        if !self.is_mapped(&old_range) {
            return Err(Errno::FAULT);
        }
        if new <= old {
            if new < old {
                self.unmap(start + new, old - new)?;
            }
            return Ok(start);
        }
        if self.is_free(old_range.end, new - old) == Ok(true) {
            return self.map_at(old_range.end, new - old, ram).map(|_| start);
        }
        if !may_move {
            return Err(Errno::NOMEM);
        }
        let there = self.map(new, ram)?;
        let bytes = ram.slice(start, old).ok_or(Errno::FAULT)?.to_vec();
        let place = ram.slice_mut(there, old).ok_or(Errno::FAULT)?;
        place.copy_from_slice(&bytes);
        self.unmap(start, old)?;
        Ok(there)
    }

    /// Whole pages between the heap and the stack.
    fn range(&self, start: u64, n_bytes: u64) -> Result<Range<u64>, Errno> {
        let n_bytes = pages(n_bytes)?;
        let end = start.checked_add(n_bytes).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(PAGE) {
            return Err(Errno::INVAL);
        }
        if start < self.heap_end || end > self.ceiling {
            return Err(Errno::NOMEM);
        }
        Ok(start..end)
    }

    /// Makes zeros of what lies there above the program. What is zero already is not written, so
    /// that the host need not find it.
    pub(super) fn clear(&self, range: Range<u64>, ram: &mut Ram) {
        clear(
            ram,
            range.start.max(self.heap_start)..range.end.min(self.heap_end),
        );
        clear(
            ram,
            range.start.max(self.heap_end).max(self.untouched)..range.end,
        );
    }

    /// Enters a free range, as one with those that it touches.
    fn enter(&mut self, range: Range<u64>, ram: &mut Ram) {
        clear(ram, range.start.max(self.untouched)..range.end);
        self.untouched = self.untouched.min(range.start);
        let below = self.mapped.range(..range.start).next_back();
        let below = below.filter(|(_, end)| **end == range.start);
        let start = below.map_or(range.start, |(start, _)| *start);
        let end = self.mapped.remove(&range.end).unwrap_or(range.end);
        self.mapped.insert(start, end);
    }

    fn cut(&mut self, range: &Range<u64>) {
        let overlapping: Vec<_> = self
            .mapped
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in overlapping {
            self.mapped.remove(&start);
            if start < range.start {
                self.mapped.insert(start, range.start);
            }
            if end > range.end {
                self.mapped.insert(range.end, end);
            }
        }
    }
}

/// Whole pages.
fn pages(n_bytes: u64) -> Result<u64, Errno> {
    match n_bytes.checked_next_multiple_of(PAGE) {
        None => Err(Errno::NOMEM),
        Some(0) => Err(Errno::INVAL),
        Some(n_bytes) => Ok(n_bytes),
    }
}

fn clear(ram: &mut Ram, range: Range<u64>) {
    let n_bytes = range.end.saturating_sub(range.start);
    if let Some(bytes) = ram.slice_mut(range.start, n_bytes) {
        bytes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1_0000;

    #[test]
    fn what_is_mapped_is_zero_overlaps_nothing_and_comes_back() {
        let mut ram = Ram::starting_at(START, 1 << 20);
        let mut space = Space::new(START + 5000, START + (1 << 19));
        let mut random = fastrand::Rng::with_seed(1);
        let mut held: Vec<(u64, u64)> = Vec::new();
        for _ in 0..5000 {
            if random.bool() {
                let n_bytes = random.u64(1..60_000);
                let Ok(start) = space.map(n_bytes, &mut ram) else {
                    continue;
                };
                let n_bytes = n_bytes.next_multiple_of(PAGE);
                let bytes = ram.slice_mut(start, n_bytes).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 0));
                bytes.fill(0xff);
                let apart = |(at, n): &(u64, u64)| at + n <= start || start + n_bytes <= *at;
                assert!(held.iter().all(apart));
                assert!(start >= START + 8192 && start + n_bytes <= START + (1 << 19));
                held.push((start, n_bytes));
            } else if !held.is_empty() {
                let (start, n_bytes) = held.swap_remove(random.usize(0..held.len()));
                space.unmap(start, n_bytes).unwrap();
            }
        }
        for (start, n_bytes) in held {
            space.unmap(start, n_bytes).unwrap();
        }
        // Everything is free again.
        let all = (1 << 19) - 8192;
        assert_eq!(space.map(all, &mut ram), Ok(START + 8192));
        assert_eq!(space.map(1, &mut ram), Err(Errno::NOMEM));
    }

    #[test]
    fn memory_that_was_never_mapped_is_zero_and_not_written() {
        let mut ram = Ram::starting_at(START, 1 << 20);
        let mut space = Space::new(START, START + (1 << 20));
        let untouched = START + 8 * PAGE;
        // The test would see it written.
        assert!(ram.write(untouched, 8, 77));
        space.map_at(untouched, PAGE, &mut ram).unwrap();
        assert_eq!(ram.read(untouched, 8), Some(77));
        // Now it has been mapped.
        space.map_at(untouched, PAGE, &mut ram).unwrap();
        assert_eq!(ram.read(untouched, 8), Some(0));
        let untouched = START + 4 * PAGE;
        space.set_heap_end(START + PAGE, &mut ram);
        for at in [START, untouched, START + 9 * PAGE] {
            assert!(ram.write(at, 8, 77));
        }
        space.clear(START..START + (1 << 20), &mut ram);
        assert_eq!(ram.read(untouched, 8), Some(77));
        assert_eq!(ram.read(START, 8), Some(0));
        assert_eq!(ram.read(START + 9 * PAGE, 8), Some(0));
    }

    #[test]
    fn ranges_side_by_side_are_one() {
        let mut ram = Ram::starting_at(START, 1 << 20);
        let mut space = Space::new(START, START + (1 << 20));
        let starts: Vec<_> = (0..100)
            .map(|_| space.map(PAGE, &mut ram).unwrap())
            .collect();
        assert_eq!(space.mapped.len(), 1);
        for start in starts.iter().step_by(2) {
            space.unmap(*start, PAGE).unwrap();
        }
        assert_eq!(space.mapped.len(), 50);
        for start in starts.iter().step_by(2) {
            space.map_at(*start, PAGE, &mut ram).unwrap();
        }
        assert_eq!(space.mapped.len(), 1);
        assert_eq!(space.free_bytes(), (1 << 20) - 100 * PAGE);
    }

    #[test]
    fn what_is_not_mapped_gets_no_other_length() {
        let mut ram = Ram::starting_at(START, 1 << 20);
        let mut space = Space::new(START, START + (1 << 20));
        let start = space.map(4 * PAGE, &mut ram).unwrap();
        space.unmap(start + PAGE, PAGE).unwrap();
        for (from, old) in [(1, 1), (0, 2), (1, 2), (0, 4)] {
            for new in [1, old, 8] {
                let from = start + from * PAGE;
                let resized = space.resize(from, old * PAGE, new * PAGE, true, &mut ram);
                assert_eq!(resized, Err(Errno::FAULT), "{old} {new}");
            }
        }
        // Two ranges side by side are one.
        space.map_at(start + PAGE, PAGE, &mut ram).unwrap();
        let resized = space.resize(start, 4 * PAGE, PAGE, false, &mut ram);
        assert_eq!(resized, Ok(start));
    }

    #[test]
    fn a_hole_splits_a_range_and_a_longer_one_keeps_its_bytes() {
        let mut ram = Ram::starting_at(START, 1 << 20);
        let mut space = Space::new(START, START + (1 << 20));
        let start = space.map(4 * PAGE, &mut ram).unwrap();
        assert!(ram.write(start, 8, 77));
        space.unmap(start + PAGE, PAGE).unwrap();
        assert_eq!(space.is_free(start + PAGE, PAGE), Ok(true));
        assert_eq!(space.is_free(start + PAGE, 2 * PAGE), Ok(false));
        let moved = space.resize(start, PAGE, 3 * PAGE, true, &mut ram).unwrap();
        assert_eq!(ram.read(moved, 8), Some(77));
        assert_ne!(moved, start);
        assert_eq!(
            space.resize(moved, 3 * PAGE, PAGE, false, &mut ram),
            Ok(moved)
        );
        let end = space.set_heap_end(START + 10_000, &mut ram);
        assert_eq!(end, START + 10_000);
        // The heap ends where something is mapped.
        assert_eq!(space.set_heap_end(moved + 1, &mut ram), end);
    }
}
