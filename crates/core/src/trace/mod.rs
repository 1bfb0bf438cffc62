//! Traces: the events of each rank with their times, in a file of its own (`PGAS_TRACE`).
//!
//! A rank writes two files into the directory. `rank-3.trace` is a [header](HEADER_BYTES) and a
//! ring of events of [32 bytes](EVENT_BYTES), the oldest of which are overwritten. `rank-3.names`
//! has the texts to which events refer by number. Events stay in memory until there are 1,024 of
//! them, or for a tenth of a second, or until the rank waits for long; a rank that is killed loses
//! no more than these. The tenth of a second passes also for a rank that notes nothing more: the
//! [lookout](crate::lookout) writes its events. A write error ends the trace, with a line on the
//! standard error output, but not the job. `pgas-report` reads such a directory.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::locks::lock;
use crate::lookout::Watched;
use crate::notice;
use crate::rank::Rank;
use crate::stats::Origin;

mod thread;

/// The first bytes of a trace file.
pub const MAGIC: [u8; 8] = *b"pgastrc1";
/// The size of the header in bytes. It has numbers of 8 bytes, little-endian. After the magic bytes
/// they are: the rank, the number of ranks, the beginning of the trace in nanoseconds since 1970,
/// the capacity of the ring in events, the number of events written so far, and the length of the
/// host's name, whose bytes follow. The identity of the clock is at [`CLOCK_AT`].
pub const HEADER_BYTES: usize = 4096;
/// The place in the header of the length of a text, whose bytes follow: it is the same on all ranks
/// by the same clock, whatever their hosts are called. It is empty if it is not known.
pub const CLOCK_AT: usize = 2048;
/// The size of an event in bytes: four numbers of 8 bytes. The first is its time, in nanoseconds
/// since the trace began, plus one. The second has its [kind](Kind) in the lowest byte, its
/// thread's number in the next byte (that of a thread that has ended is used again; 0 is for
/// threads beside 255 others), its name's number in the next two, and a rank in the upper
/// four. The other two depend on the kind.
pub const EVENT_BYTES: usize = 32;

/// The maximum number of events in memory.
const BUFFERED: usize = 1024;
/// The longest time that events stay in memory.
const LONGEST_BUFFERING: Duration = Duration::from_millis(100);
/// The maximum number of names; number 0 stands for all others.
const MOST_NAMES: usize = (1 << 16) - 1;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A get by the transport from a rank; the first number is its bytes.
    Get = 1,
    /// A put, by the transport.
    Put = 2,
    /// An atomic, by the transport.
    Atomic = 3,
    /// A message to a rank. The first number is its bytes; the second is twice its index among the
    /// messages of its class to that rank, plus one if it is a reply. Its name is the line that
    /// sends it, `@file:line`. The time is that before the message is there. If several threads of
    /// a rank send to one rank, or serve, their messages may have each other's indices.
    Send = 4,
    /// The handler of a message from a rank begins; the numbers are as in `Send`.
    Begin = 5,
    /// The handler has ended.
    End = 6,
    /// A message of a collective has arrived from a rank; the numbers are as in `Send`.
    Arrival = 7,
    /// A wait begins; the name is `what@file:line`.
    Wait = 8,
    /// The wait ends; its rank is the one that was missing last, if that is known.
    Waited = 9,
    /// A span of the program begins.
    Span = 10,
    /// The span ends.
    SpanEnd = 11,
    /// The rank calls a collective. The name is `what@file:line`, as of its waits; the first number
    /// is the bytes of its argument, or 0 for encoded values.
    Collective = 12,
    /// A message to a rank found no room. It is noted once, however often it is offered.
    Refusal = 13,
    /// The current wait is for this rank, as far as the waiting one knows.
    Missing = 14,
    /// An object enters a phase. The name is `object: phase@file:line`; the first number identifies
    /// the object, on all ranks alike.
    Phase = 15,
    /// The phase of this name and object ends.
    PhaseEnd = 16,
    /// The rank leaves the job in good order. No event follows.
    Left = 17,
}

impl Kind {
    /// All kinds, by their numbers from 1.
    const ALL: [Self; 17] = [
        Self::Get,
        Self::Put,
        Self::Atomic,
        Self::Send,
        Self::Begin,
        Self::End,
        Self::Arrival,
        Self::Wait,
        Self::Waited,
        Self::Span,
        Self::SpanEnd,
        Self::Collective,
        Self::Refusal,
        Self::Missing,
        Self::Phase,
        Self::PhaseEnd,
        Self::Left,
    ];

    /// The kind with this number, if there is one.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Self::ALL.get(index).copied()
    }
}

/// The settings of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) directory: &'a str,
    pub(crate) bytes: u64,
    pub(crate) rank: Rank,
    pub(crate) n_ranks: u32,
}

/// The trace of one rank.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    is_over: AtomicBool,
    ring: Mutex<Ring>,
    names: Mutex<Names>,
}

#[derive(Debug)]
struct Ring {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Events that the file has room for.
    room: u64,
    n_written: u64,
    flushed: Instant,
    /// Numbers of messages to and from each rank so far, of both classes, for ranks with any.
    numbers: Vec<[u64; 4]>,
}

#[derive(Debug)]
struct Names {
    file: File,
    known: HashMap<String, u16>,
    lines: HashMap<(&'static str, u32), u16>,
    /// The line that was asked for last.
    last_line: Option<(&'static Location<'static>, u16)>,
}

impl Trace {
    /// Begins a trace. An obstacle is reported in one line, and then there is no trace.
    pub(crate) fn begin(wanted: Wanted<'_>) -> Option<Self> {
        match Self::create(wanted) {
            Ok(trace) => Some(trace),
            Err(error) => {
                let Wanted {
                    directory, rank, ..
                } = wanted;
                notice::tell(&format!(
                    "rank {rank} is not traced in {directory}: {error}"
                ));
                None
            }
        }
    }

    fn create(wanted: Wanted<'_>) -> io::Result<Self> {
        let directory = Path::new(wanted.directory);
        fs::create_dir_all(directory)?;
        let path = directory.join(format!("rank-{}.trace", wanted.rank));
        let file = File::create(&path)?;
        let names = File::create(directory.join(format!("rank-{}.names", wanted.rank)))?;
        let room = wanted.bytes.saturating_sub(HEADER_BYTES as u64) / EVENT_BYTES as u64;
        let room = room.max(BUFFERED as u64);
        let (began, now) = (Instant::now(), SystemTime::now());
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let mut header = MAGIC.to_vec();
        for number in [
            wanted.rank.number().into(),
            wanted.n_ranks.into(),
            nanos(since_1970),
            room,
            0,
            host.len().min(1024) as u64,
        ] {
            header.extend(number.to_le_bytes());
        }
        header.extend(host.bytes().take(1024));
        header.resize(CLOCK_AT, 0);
        // A start of a system has one clock, which its containers share.
        let clock = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let clock = &clock.trim().as_bytes()[..clock.trim().len().min(1024)];
        header.extend((clock.len() as u64).to_le_bytes());
        header.extend(clock);
        header.resize(HEADER_BYTES, 0);
        file.write_all_at(&header, 0)?;
        Ok(Self {
            began,
            is_over: AtomicBool::new(false),
            ring: Mutex::new(Ring {
                file,
                path,
                buffer: Vec::with_capacity(BUFFERED * EVENT_BYTES),
                room,
                n_written: 0,
                flushed: began,
                numbers: Vec::new(),
            }),
            names: Mutex::new(Names {
                file: names,
                known: HashMap::new(),
                lines: HashMap::new(),
                last_line: None,
            }),
        })
    }

    #[cfg(test)]
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Notes an event.
    pub(crate) fn note(&self, kind: Kind, name: u16, rank: Option<Rank>, numbers: [u64; 2]) {
        self.note_at(Instant::now(), kind, name, rank, numbers);
    }

    /// As [`note`](Self::note), of what was at another time.
    pub(crate) fn note_at(
        &self,
        now: Instant,
        kind: Kind,
        name: u16,
        rank: Option<Rank>,
        numbers: [u64; 2],
    ) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let ring = lock(&self.ring);
        self.push(ring, now, (kind, name, rank), numbers);
    }

    fn push(
        &self,
        mut ring: std::sync::MutexGuard<'_, Ring>,
        now: Instant,
        (kind, name, rank): (Kind, u16, Option<Rank>),
        [first, second]: [u64; 2],
    ) {
        let rank = rank.map_or(u32::MAX, Rank::number);
        let thread = thread::number();
        let what = kind as u64 | thread << 8 | u64::from(name) << 16 | u64::from(rank) << 32;
        let at = nanos(now.duration_since(self.began)) + 1;
        let mut event = [0; EVENT_BYTES];
        for (bytes, word) in event.chunks_exact_mut(8).zip([at, what, first, second]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        ring.buffer.extend_from_slice(&event);
        let is_full = ring.buffer.len() >= BUFFERED * EVENT_BYTES;
        if is_full || now.duration_since(ring.flushed) > LONGEST_BUFFERING {
            self.flush_ring(&mut ring, now);
        }
    }

    /// Notes a message that was sent, with the time before that. The clocks of hosts are compared
    /// by it, since no message comes before it was sent.
    pub(crate) fn sent(
        &self,
        to: Rank,
        is_reply: bool,
        bytes: u64,
        (began, from): (Instant, Option<&'static Location<'static>>),
    ) {
        let name = from.map_or(0, |at| self.name_of_line(at));
        self.message((Kind::Send, name, began), (to, true), is_reply, bytes);
    }

    /// Notes a message that has come.
    pub(crate) fn came(&self, kind: Kind, from: Rank, is_reply: bool, bytes: u64) {
        self.message((kind, 0, Instant::now()), (from, false), is_reply, bytes);
    }

    fn message(
        &self,
        (kind, name, now): (Kind, u16, Instant),
        (rank, is_sent): (Rank, bool),
        is_reply: bool,
        bytes: u64,
    ) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut ring = lock(&self.ring);
        if ring.numbers.len() <= rank.index() {
            ring.numbers.resize(rank.index() + 1, [0; 4]);
        }
        let counter = 2 * usize::from(is_sent) + usize::from(is_reply);
        let next = &mut ring.numbers[rank.index()][counter];
        let number = std::mem::replace(next, *next + 1);
        let numbers = [bytes, 2 * number + u64::from(is_reply)];
        self.push(ring, now, (kind, name, Some(rank)), numbers);
    }

    /// The number of a name, from 1; 0 if there is no room for another name.
    pub(crate) fn name(&self, text: &str) -> u16 {
        let mut names = lock(&self.names);
        if let Some(number) = names.known.get(text) {
            return *number;
        }
        let number = match u16::try_from(names.known.len() + 1) {
            Ok(number) if usize::from(number) <= MOST_NAMES => number,
            _ => return 0,
        };
        names.known.insert(text.to_owned(), number);
        let line = format!("{number}\t{}\n", notice::printable(text));
        let written = names.file.write_all(line.as_bytes());
        drop(names);
        if let Err(error) = written {
            self.end(&lock(&self.ring).path, &error);
        }
        number
    }

    /// The number of the name of a line.
    fn name_of_line(&self, at: &'static Location<'static>) -> u16 {
        let mut names = lock(&self.names);
        if let Some((last, number)) = names.last_line
            && ptr::eq(last, at)
        {
            return number;
        }
        let key = (at.file(), at.line());
        let known = names.lines.get(&key).copied();
        if let Some(number) = known {
            names.last_line = Some((at, number));
            return number;
        }
        drop(names);
        let number = self.name(&format!("@{}:{}", key.0, key.1));
        lock(&self.names).lines.insert(key, number);
        number
    }

    /// The number of the name of a wait.
    pub(crate) fn name_of_wait(&self, origin: &Origin) -> u16 {
        let Origin { what, whole, at } = origin;
        let (file, line) = (at.file(), at.line());
        match whole {
            Some(whole) => self.name(&format!("{what} as a part of {whole}@{file}:{line}")),
            None => self.name(&format!("{what}@{file}:{line}")),
        }
    }

    /// Writes what waits in memory.
    pub(crate) fn flush(&self) {
        self.flush_ring(&mut lock(&self.ring), Instant::now());
    }

    /// As [`flush`](Self::flush), unless that was a moment ago.
    pub(crate) fn flush_now_and_then(&self) {
        let mut ring = lock(&self.ring);
        let now = Instant::now();
        if now.duration_since(ring.flushed) > LONGEST_BUFFERING / 10 {
            self.flush_ring(&mut ring, now);
        }
    }

    fn flush_ring(&self, ring: &mut Ring, now: Instant) {
        ring.flushed = now;
        if ring.buffer.is_empty() || self.is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = ring.write() {
            self.end(&ring.path, &error);
        }
        ring.buffer.clear();
    }

    #[cold]
    fn end(&self, path: &Path, error: &io::Error) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            notice::tell(&format!("the trace {} ends here: {error}", path.display()));
        }
    }
}

impl Ring {
    fn write(&mut self) -> io::Result<()> {
        let first = self.n_written % self.room;
        let before_the_end = usize::try_from(self.room - first).unwrap_or(usize::MAX);
        let n_bytes = before_the_end.saturating_mul(EVENT_BYTES);
        let (head, tail) = self.buffer.split_at(self.buffer.len().min(n_bytes));
        let start = HEADER_BYTES as u64;
        self.file
            .write_all_at(head, start + first * EVENT_BYTES as u64)?;
        self.file.write_all_at(tail, start)?;
        self.n_written += (self.buffer.len() / EVENT_BYTES) as u64;
        self.file.write_all_at(&self.n_written.to_le_bytes(), 40)
    }
}

impl Watched for Trace {
    fn look(&self) -> Duration {
        self.flush();
        LONGEST_BUFFERING
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.flush();
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pgas-trace-{}-{name}", std::process::id()))
    }

    fn words(path: &Path) -> Vec<u64> {
        let bytes = fs::read(path).unwrap();
        let chunks = bytes.chunks_exact(8);
        chunks
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn the_ring_keeps_the_last_events_and_their_number() {
        let directory = directory("ring");
        let wanted = Wanted {
            directory: directory.to_str().unwrap(),
            bytes: 0,
            rank: Rank::new(3),
            n_ranks: 4,
        };
        let trace = Trace::begin(wanted).unwrap();
        let n = 2 * BUFFERED as u64 + 300;
        let span = trace.name("sort\tit");
        for i in 0..n {
            trace.note(Kind::Span, span, None, [i, 0]);
            if i == 10 {
                // The ring's end lies in the middle of a flush.
                trace.flush();
            }
        }
        drop(trace);
        let words = words(&directory.join("rank-3.trace"));
        assert_eq!(words[0].to_le_bytes(), MAGIC);
        assert_eq!(
            (words[1], words[2], words[4], words[5]),
            (3, 4, BUFFERED as u64, n)
        );
        let clock = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        assert_eq!(words[CLOCK_AT / 8], clock.trim().len() as u64);
        let events: Vec<&[u64]> = words[HEADER_BYTES / 8..].chunks(4).collect();
        assert_eq!(events.len(), BUFFERED);
        let mut kept: Vec<u64> = events.iter().map(|event| event[2]).collect();
        kept.sort_unstable();
        assert_eq!(kept, (n - BUFFERED as u64..n).collect::<Vec<_>>());
        assert!(
            events
                .iter()
                .all(|event| event[1] & 0xff == Kind::Span as u64)
        );
        let names = fs::read_to_string(directory.join("rank-3.names")).unwrap();
        assert_eq!(names, "1\tsort\\tit\n");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn threads_of_the_same_time_have_different_numbers_however_many_there_have_been() {
        let directory = directory("threads");
        let wanted = Wanted {
            directory: directory.to_str().unwrap(),
            bytes: 0,
            rank: Rank::ZERO,
            n_ranks: 1,
        };
        let trace = Trace::begin(wanted).unwrap();
        trace.note(Kind::Span, 0, None, [0, 0]);
        let trace = std::sync::Arc::new(trace);
        for _ in 0..600 {
            let trace = std::sync::Arc::clone(&trace);
            let noting = std::thread::spawn(move || trace.note(Kind::Span, 0, None, [0, 0]));
            noting.join().unwrap();
        }
        trace.flush();
        let words = words(&directory.join("rank-0.trace"));
        let events = words[HEADER_BYTES / 8..].chunks(4);
        let threads: Vec<u64> = events.map(|event| event[1] >> 8 & 0xff).collect();
        assert_eq!(threads.len(), 601);
        assert!(!threads.contains(&0), "{threads:?}");
        assert!(!threads[1..].contains(&threads[0]), "{threads:?}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn kinds_are_found_by_their_numbers() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
        assert_eq!((Kind::of(0), Kind::of(18)), (None, None));
    }

    #[test]
    fn a_disk_that_is_full_ends_the_trace_and_nothing_else() {
        let directory = directory("full");
        let wanted = Wanted {
            directory: directory.to_str().unwrap(),
            bytes: 1 << 20,
            rank: Rank::ZERO,
            n_ranks: 1,
        };
        let trace = Trace::begin(wanted).unwrap();
        if let Ok(full) = File::options().write(true).open("/dev/full") {
            lock(&trace.ring).file = full;
            for _ in 0..3 * BUFFERED {
                trace.note(Kind::Collective, 0, None, [0, 0]);
            }
            assert!(trace.is_over.load(Ordering::Relaxed));
            assert!(lock(&trace.ring).buffer.is_empty(), "and takes no memory");
        }
        let room = lock(&trace.ring).room * EVENT_BYTES as u64;
        assert!(room + HEADER_BYTES as u64 <= wanted.bytes);
        let nowhere = Wanted {
            directory: "/dev/null/traces",
            ..wanted
        };
        assert!(Trace::begin(nowhere).is_none());
        fs::remove_dir_all(directory).unwrap();
    }
}
