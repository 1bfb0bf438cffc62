//! Linux only: observes a job from outside, by the figures that its ranks publish in its memory.
//!
//! The memory is read by system calls and not mapped. So a look changes nothing, takes no page that
//! the job has not taken, and needs no right to write. Ranks do nothing for it. What is read may
//! change meanwhile, or be invalid; it is only displayed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pgas_core::stats::{Board, HEAD_BYTES, Live};
use pgas_lockfree::roster::{Failure, Membership, PLACE_WORDS, Place};

use crate::control::TEXT_PAUSE;
use crate::layout::{FAILURE_AT, FAILURE_BYTES, Layout, Places, RANK_BYTES};
use crate::segment::{JobMemory, read_header};

/// An observer of the ranks of one host; see [`look`](Self::look).
#[derive(Debug)]
pub struct Observer {
    file: File,
    layout: Layout,
    places: Places,
}

/// The observed state of one rank.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// Its number among the ranks of its host.
    pub index: u32,
    /// Whether it has joined the job.
    pub has_joined: bool,
    /// Whether it has left in good order.
    pub has_left: bool,
    /// Its process, once it has joined; 0 if it is a thread.
    pub process: u32,
    /// The figures that it publishes, once it has begun to.
    pub live: Option<Live>,
}

impl Observer {
    /// An observer of the job with this memory.
    ///
    /// # Errors
    ///
    /// If the memory is not that of a job of this version.
    pub fn new(memory: &JobMemory) -> io::Result<Self> {
        let file = memory.try_clone().map_err(io::Error::other)?;
        Self::of_file(file.into_file())
    }

    /// An observer of the job in which `process` is a rank or a launcher; `None` if it is neither.
    /// The caller has the same user as the process, or is the superuser.
    ///
    /// # Errors
    ///
    /// If there is no such process, or its descriptors cannot be read.
    pub fn of_process(process: u32) -> io::Result<Option<Self>> {
        for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
            let path = entry?.path();
            // A descriptor may be closed meanwhile.
            let Ok(target) = fs::read_link(&path) else {
                continue;
            };
            let target = target.to_string_lossy();
            // A memfd by its name; a file without one on a tmpfs of its own is shown by a number.
            let may_be = target.starts_with("/memfd:pgas") || target.starts_with("/#");
            if may_be
                && let Ok(file) = File::open(&path)
                && let Ok(observer) = Self::of_file(file)
            {
                return Ok(Some(observer));
            }
        }
        Ok(None)
    }

    fn of_file(file: File) -> io::Result<Self> {
        let layout = read_header(&file).map_err(io::Error::other)?;
        Ok(Self {
            file,
            layout,
            places: Places::of(layout),
        })
    }

    /// The device and the number of the job's file, which differ from those of all other jobs of
    /// this host.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let metadata = self.file.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// The number of ranks of the job on this host.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.layout.n_ranks
    }

    /// The size of each segment, in bytes.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.layout.segment_bytes
    }

    /// The first rank to fail, and how, if the job has failed.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn failure(&self) -> io::Result<Option<(u32, String)>> {
        let read = || self.words(FAILURE_AT, FAILURE_BYTES);
        let words: Vec<AtomicU64> = read()?.into_iter().map(AtomicU64::new).collect();
        let read_again = || {
            thread::sleep(TEXT_PAUSE);
            // An error is met by the next look.
            for (word, bits) in words.iter().zip(read().unwrap_or_default()) {
                word.store(bits, Ordering::Relaxed);
            }
        };
        Ok(Failure::attach(&words).told(read_again))
    }

    /// The present state of each rank.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn look(&self) -> io::Result<Vec<Seen>> {
        let n_ranks = self.layout.n_ranks;
        let places = self.words(Layout::ranks_at(), n_ranks as usize * RANK_BYTES)?;
        let mut seen = Vec::new();
        for (index, words) in (0..n_ranks).zip(places.chunks(RANK_BYTES / 8)) {
            let words: [AtomicU64; PLACE_WORDS] = std::array::from_fn(|i| words[i].into());
            let place = Place::attach(&words);
            let at = self.places.boards_at + index as usize * self.places.board_bytes;
            seen.push(Seen {
                index,
                has_joined: place.membership() != Membership::Absent,
                has_left: place.membership() == Membership::Left,
                process: place.process(),
                live: self.live(at)?,
            });
        }
        Ok(seen)
    }

    /// What each rank has counted up to now, in copies.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn boards(&self) -> io::Result<Vec<Board>> {
        let bytes = self.places.board_bytes;
        let board = |index| {
            let words = self.words(self.places.boards_at + index as usize * bytes, bytes)?;
            let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
            Ok(Board::of(Arc::new(words), |words| words))
        };
        (0..self.layout.n_ranks).map(board).collect()
    }

    /// The figures of a rank, in a copy that did not change while it was made; `None` if there is
    /// none, or if no such copy could be made.
    fn live(&self, at: usize) -> io::Result<Option<Live>> {
        const TRIES: usize = 3;
        let mut live = Live::read(&self.words(at, HEAD_BYTES)?);
        for _ in 0..TRIES {
            let Some(wait) = live.as_ref().and_then(|live| live.wait.as_ref()) else {
                break;
            };
            let again = Live::read(&self.words(at, HEAD_BYTES)?);
            let is_same = again.as_ref().and_then(|live| live.wait.as_ref()) == Some(wait);
            live = again;
            if is_same {
                break;
            }
        }
        Ok(live)
    }

    fn words(&self, at: usize, bytes: usize) -> io::Result<Vec<u64>> {
        let mut copy = vec![0; bytes];
        self.file.read_exact_at(&mut copy, at as u64)?;
        let words = copy.chunks_exact(8);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok(words.map(word).collect())
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::Config;

    use super::*;
    use crate::segment::{Job, create_job};

    fn config() -> Config {
        let mut config = Config::default();
        config.segment_bytes = Some(pgas_core::segment::MIN_SEGMENT_BYTES);
        config
    }

    #[test]
    fn who_looks_at_a_job_sees_who_comes_leaves_and_fails() {
        let memory = create_job(3, &config()).unwrap();
        let observer = Observer::of_process(std::process::id()).unwrap();
        assert!(observer.is_some(), "this process has the memory open");
        let observer = Observer::new(&memory).unwrap();
        let job = Job::open(memory).unwrap();
        let all_absent = observer.look().unwrap();
        assert!(all_absent.len() == 3 && all_absent.iter().all(|seen| !seen.has_joined));
        job.control().join(1, 4711, 0);
        let seen = &observer.look().unwrap()[1];
        assert!(seen.has_joined && !seen.has_left && seen.live.is_none());
        assert_eq!(seen.process, 4711);
        job.control().leave(1);
        assert!(observer.look().unwrap()[1].has_left);
        assert_eq!(observer.failure().unwrap(), None);
        job.control().fail(2, "is lost");
        let failure = observer.failure().unwrap();
        assert_eq!(failure, Some((2, "is lost".to_owned())));
    }

    #[test]
    fn a_file_that_is_no_jobs_is_refused() {
        let other = tempfile_of(&[7; 4096]);
        assert!(Observer::of_file(other).is_err());
        assert!(Observer::of_file(tempfile_of(b"short")).is_err());
    }

    fn tempfile_of(bytes: &[u8]) -> File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("other", flags).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        file
    }
}
