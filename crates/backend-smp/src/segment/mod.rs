//! The memory of a job: one file without a name, or one anonymous mapping, with the control words
//! and the segments of all ranks. Every rank maps all of it.
//!
//! It is reserved, not allocated: pages cost memory once they are touched. The file, which only
//! jobs of processes have, is in `file.rs`, for Linux only; the mapping itself is in `pages.rs`.

#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod file;
mod pages;
#[cfg_attr(
    any(pgas_portable, not(target_os = "linux")),
    path = "system_portable.rs"
)]
mod system;

use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use pgas_core::segment::MIN_SEGMENT_BYTES;
use pgas_core::stats::Board;
use pgas_core::{Config, Error, GlobalPtr, Result};

use crate::control::Control;
use crate::layout::{HUGE_PAGE, Layout, Places};
use pages::Pages;

#[cfg(all(target_os = "linux", not(pgas_portable)))]
pub(crate) use file::read_header;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
pub use file::{JobMemory, create_job};

/// The maximum size of all segments of a host: the rest of the address space is ample for
/// everything else.
const MAX_RESERVED: u64 = 1 << 46;

/// A job's memory as this process has mapped it.
#[derive(Debug)]
pub(crate) struct Job {
    pages: Pages,
    layout: Layout,
    places: Places,
    /// The file, for a job of processes.
    file: Option<File>,
}

/// The size in bytes of each segment in a job of `n_ranks` processes on this host, by `config`.
///
/// # Errors
///
/// [`Error::Setting`] for segments that do not fit.
pub fn segment_bytes(n_ranks: u32, config: &Config) -> Result<u64> {
    layout(n_ranks, config).map(|layout| layout.segment_bytes)
}

/// The layout that `config` asks for.
pub(crate) fn layout(n_ranks: u32, config: &Config) -> Result<Layout> {
    let memory = system::memory_of_host();
    layout_within(n_ranks, config.segment_bytes, memory, page_bytes())
}

/// The size of the system's pages: 4, 16 or 64 KiB.
fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The layout for segments of `wanted` bytes, in pages of `page`. Without `wanted`, a segment may
/// take all of the host's `memory`: the system gives a page when it is first written.
fn layout_within(n_ranks: u32, wanted: Option<u64>, memory: u64, page: u64) -> Result<Layout> {
    let Some(share) = MAX_RESERVED.checked_div(n_ranks.into()) else {
        return Err(Error::setting(
            "PGAS_RANKS",
            "0",
            "a job has at least one rank",
        ));
    };
    let limit = share.min(GlobalPtr::<u8>::OFFSET_LIMIT);
    let granule = |bytes: u64| {
        if bytes >= HUGE_PAGE as u64 {
            HUGE_PAGE as u64
        } else {
            page
        }
    };
    // The largest size that needs no rounding up.
    let limit = limit & !(granule(limit) - 1);
    if limit < MIN_SEGMENT_BYTES {
        let most = MAX_RESERVED / MIN_SEGMENT_BYTES;
        let reason = format!("a host has room for the segments of at most {most} ranks");
        return Err(Error::setting("PGAS_RANKS", n_ranks.to_string(), reason));
    }
    let wanted = wanted.unwrap_or_else(|| memory.min(limit));
    let rounded = wanted.checked_next_multiple_of(granule(wanted));
    let segment_bytes = rounded.unwrap_or(u64::MAX);
    if !(MIN_SEGMENT_BYTES..=limit).contains(&segment_bytes) {
        let reason = format!(
            "a segment has {MIN_SEGMENT_BYTES} to {limit} bytes with {n_ranks} ranks on this host"
        );
        return Err(Error::setting("PGAS_SEGMENT", wanted.to_string(), reason));
    }
    Ok(Layout {
        n_ranks,
        segment_bytes,
    })
}

/// Warns once, on standard error, if the segments that `config` asks for may exceed the host's
/// memory. There is no warning without an explicit size: then each segment may grow to its share of
/// the memory.
pub fn warn_of_size(n_ranks: u32, config: &Config) {
    let Some(bytes) = config.segment_bytes else {
        return;
    };
    let memory = system::memory_of_host();
    if let Some(text) = excess(n_ranks, bytes, memory) {
        pgas_core::notice::tell(&text);
    }
}

fn excess(n_ranks: u32, bytes: u64, memory: u64) -> Option<String> {
    let all = u128::from(bytes) * u128::from(n_ranks);
    let all_mib = all >> 20;
    let [bytes, memory_mib] = [bytes, memory].map(|bytes| bytes >> 20);
    (all > memory.into()).then(|| {
        format!(
            "warning: {n_ranks} segments of {bytes} MiB (PGAS_SEGMENT) may grow to {all_mib} MiB, and this \
             host has {memory_mib} MiB of memory; who fills them is killed"
        )
    })
}

impl Job {
    /// Memory of a job whose ranks are threads of this process.
    pub(crate) fn anonymous(layout: Layout) -> Result<Self> {
        let Some(total) = layout.total_bytes() else {
            return Err(Error::backend(
                "mmap",
                0,
                "the segments do not fit the address space",
            ));
        };
        let places = Places::of(layout);
        let job = Self {
            pages: Pages::fresh(total, &places)?,
            layout,
            places,
            file: None,
        };
        system::advise_huge(&job.pages, layout.segment_bytes);
        Ok(job)
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    #[inline]
    pub(crate) fn control(&self) -> Control<'_> {
        let (words, bells) = (self.pages.words(), self.pages.bells());
        Control::new(words, bells, self.layout, self.places)
    }

    /// The words in which `rank` publishes its activity, if there are any.
    pub(crate) fn board(self: &Arc<Self>, rank: u32) -> Option<Board> {
        let is_there = rank < self.layout.n_ranks && self.places.board_bytes > 0;
        is_there.then(|| Board::of(Arc::clone(self), |job| job.control().board(rank)))
    }

    /// The address of the segment of `rank`.
    pub(crate) fn segment(&self, rank: u32) -> NonNull<u8> {
        assert!(rank < self.layout.n_ranks, "rank {rank} is not in the job");
        self.pages.at(self.layout.segment_at(rank))
    }

    /// Gives the whole pages in a range of the segment of `rank` back to the system; they read as
    /// zero afterwards. Returns whether all of the range reads as zero.
    pub(crate) fn discard(&self, rank: u32, offset: u64, bytes: u64) -> bool {
        let from = self.layout.segment_at(rank) as u64;
        if offset > self.layout.segment_bytes {
            return false;
        }
        let end = offset.saturating_add(bytes).min(self.layout.segment_bytes);
        let Range { start, end } = whole_pages(from + offset..from + end, page_bytes());
        if start >= end {
            return false;
        }
        let (Ok(at), Ok(len)) = (usize::try_from(start), usize::try_from(end - start)) else {
            return false;
        };
        let is_whole = (start, len as u64) == (from + offset, bytes);
        system::give_back(&self.pages, self.file.as_ref(), at, len).is_ok() && is_whole
    }
}

/// The pages of `page` bytes that lie within a range as a whole; an empty range if none does.
fn whole_pages(range: Range<u64>, page: u64) -> Range<u64> {
    range.start.next_multiple_of(page)..range.end & !(page - 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// The word at `at` in the segment of `rank`, in memory that is looked at as control words.
    fn word(job: &Job, rank: u32, at: usize) -> &AtomicU64 {
        &job.pages.words()[(job.layout.segment_at(rank) + at) / 8]
    }

    #[test]
    fn whole_pages_that_are_given_back_read_as_zero_and_their_neighbours_stay() {
        let page = rustix::param::page_size();
        let layout = Layout {
            n_ranks: 2,
            segment_bytes: 64 * page as u64,
        };
        let mut job = Job::anonymous(layout).unwrap();
        let mut all = job.places;
        all.control_words = layout.total_bytes().unwrap() / 8;
        job.pages = Pages::fresh(layout.total_bytes().unwrap(), &all).unwrap();
        let words = [0, 1, 2, 3, 4].map(|i| word(&job, 1, i * page));
        let other = word(&job, 0, 2 * page);
        let held = || words.map(|word| word.load(Relaxed));
        words.iter().for_each(|word| word.store(7, Relaxed));
        other.store(7, Relaxed);
        let page = page as u64;
        assert!(job.discard(1, page, 2 * page));
        assert_eq!(held(), [7, 0, 0, 7, 7]);
        assert!(
            !job.discard(1, 3 * page - 8, page + 16),
            "parts of pages stay"
        );
        assert_eq!(held(), [7, 0, 0, 0, 7]);
        assert!(
            !job.discard(1, 4 * page + 8, 8),
            "there is no whole page in it"
        );
        assert_eq!((held()[4], other.load(Relaxed)), (7, 7));
        assert!(!job.discard(1, 65 * page, page), "the segment ends before");
        // Distances that wrap around, to the start of the job's memory.
        let first = &job.pages.words()[0];
        first.store(7, Relaxed);
        let segment = job.layout.segment_at(1) as u64;
        for offset in [0_u64.wrapping_sub(segment), u64::MAX, u64::MAX - page] {
            assert!(!job.discard(1, offset, page));
        }
        assert_eq!((first.load(Relaxed), held()[0]), (7, 7));
        words[1].store(8, Relaxed);
        assert_eq!(words[1].load(Relaxed), 8, "the pages can be used again");
    }

    #[test]
    fn segments_are_whole_pages_so_that_each_can_be_given_back() {
        let mut config = Config::default();
        config.segment_bytes = Some(MIN_SEGMENT_BYTES + 1);
        let bytes = segment_bytes(3, &config).unwrap();
        assert!(bytes.is_multiple_of(rustix::param::page_size() as u64));
    }

    #[test]
    fn every_number_of_ranks_has_a_default_on_every_host() {
        let memories = (30..45).flat_map(|shift| [1 << shift, 683 << (shift - 9)]);
        for memory in memories.map(|bytes: u64| bytes & !(HUGE_PAGE as u64 - 1)) {
            let many = (1..200_u32).chain((200..200_000).step_by(97));
            for n_ranks in many.chain([96, 2900, 1 << 20, 1 << 24]) {
                for page in PAGES {
                    let layout = layout_within(n_ranks, None, memory, page);
                    let layout =
                        layout.unwrap_or_else(|error| panic!("{n_ranks} of {memory}: {error}"));
                    let all = layout.segment_bytes * u64::from(n_ranks);
                    assert!(all <= MAX_RESERVED, "{n_ranks} of {memory}");
                    assert!(layout.segment_bytes.is_multiple_of(page));
                    assert!(layout.segment_bytes <= memory);
                }
            }
        }
    }

    #[test]
    fn a_job_without_ranks_is_refused() {
        let error = layout(0, &Config::default()).unwrap_err().to_string();
        assert!(error.contains("PGAS_RANKS"), "{error}");
    }

    /// The sizes of pages that processors have.
    const PAGES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

    #[test]
    fn segments_begin_at_whole_pages_of_every_size() {
        for page in PAGES {
            for wanted in [
                MIN_SEGMENT_BYTES,
                MIN_SEGMENT_BYTES + 1,
                3 << 20,
                (3 << 20) + 5,
            ] {
                let layout = layout_within(5, Some(wanted), 1 << 30, page).unwrap();
                assert!(layout.segment_bytes >= wanted);
                for rank in 0..5 {
                    let at = layout.segment_at(rank) as u64;
                    assert!(at.is_multiple_of(page), "{wanted} of {page}");
                }
            }
        }
    }

    #[test]
    fn only_whole_pages_of_every_size_are_given_back() {
        for page in PAGES {
            assert_eq!(whole_pages(page..3 * page, page), page..3 * page);
            assert_eq!(whole_pages(page - 8..3 * page + 8, page), page..3 * page);
            assert_eq!(
                whole_pages(page + 8..3 * page - 8, page),
                2 * page..2 * page
            );
            assert!(whole_pages(page + 8..2 * page, page).is_empty());
            assert!(whole_pages(page + 8..page + 16, page).is_empty());
        }
    }

    #[test]
    fn the_largest_size_that_an_error_names_can_be_had() {
        for n_ranks in [1, 3, 96, 97, 2900, 100_003] {
            let error = layout_within(n_ranks, Some(u64::MAX), 1 << 30, page_bytes()).unwrap_err();
            let text = error.to_string();
            let (_, rest) = text.split_once(" to ").unwrap();
            let largest = rest.split(' ').next().unwrap().parse().unwrap();
            let layout = layout_within(n_ranks, Some(largest), 1 << 30, page_bytes()).unwrap();
            assert_eq!(layout.segment_bytes, largest, "{n_ranks}");
            assert!(layout_within(n_ranks, Some(largest + 1), 1 << 30, page_bytes()).is_err());
        }
    }

    #[test]
    fn sizes_beyond_the_hosts_memory_are_told_together() {
        assert_eq!(excess(4, 1 << 30, 1 << 32), None);
        let text = excess(5, 1 << 30, 1 << 32).unwrap();
        for part in ["5 segments of 1024 MiB", "5120 MiB", "4096 MiB of memory"] {
            assert!(text.contains(part), "{text}");
        }
        let text = excess(2, u64::MAX, 1 << 32).unwrap();
        assert!(text.contains("may grow to 35184372088831 MiB"), "{text}");
    }
}
