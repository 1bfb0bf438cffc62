//! Reading the files of a trace.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use pgas_core::trace::{CLOCK_AT, EVENT_BYTES, HEADER_BYTES, Kind, MAGIC};

/// The reason why a directory cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// There is no trace.
    #[error("{}: there is no rank-0.trace or the like, or only the start of one; PGAS_TRACE={} writes them", .0.display(), .0.display())]
    Nothing(PathBuf),
    /// A file is not a trace.
    #[error("{}: this is no trace of this version", .0.display())]
    Foreign(PathBuf),
}

/// An event. Its time is in nanoseconds: since the start of its rank's trace, or since the start of
/// the job after the clocks are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time.
    pub at: i64,
    /// The kind.
    pub kind: Kind,
    /// The thread.
    pub thread: u8,
    /// The number of its name, or 0.
    pub name: u16,
    /// The other rank that it refers to, if there is one.
    pub rank: Option<u32>,
    /// Its arguments.
    pub numbers: [u64; 2],
}

/// The trace of one rank.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The rank.
    pub rank: u32,
    /// The number of ranks.
    pub n_ranks: u32,
    /// The start, in nanoseconds since 1970 by its host's clock.
    pub began: u64,
    /// The host on which the rank ran.
    pub host: String,
    /// What all processes by the same clock have in common, if it is known.
    pub clock: String,
    /// The number of events that were lost because the ring was full.
    pub n_lost: u64,
    /// The names by number.
    pub names: HashMap<u16, String>,
    /// The events, in the order of time.
    pub events: Vec<Event>,
    /// The number of traces of other jobs in the directory, which are left out.
    pub n_others: usize,
}

impl Trace {
    /// What tells the rank's clock from others: hosts may have the same name, and containers of one
    /// host have different ones.
    #[must_use]
    pub fn clock(&self) -> &str {
        let is_known = !self.clock.is_empty();
        if is_known { &self.clock } else { &self.host }
    }

    /// The name of an event, or a placeholder.
    #[must_use]
    pub fn name(&self, event: &Event) -> &str {
        self.names
            .get(&event.name)
            .map_or("(unnamed)", String::as_str)
    }

    /// Whether an event has a name that is not known.
    #[must_use]
    pub fn lacks_name(&self, event: &Event) -> bool {
        event.name != 0 && !self.names.contains_key(&event.name)
    }
}

/// Splits `a barrier@src/main.rs:57` into the operation and the line of the program.
#[must_use]
pub fn what_and_where(name: &str) -> (&str, &str) {
    // Folders may have the sign in their names.
    name.split_once('@').unwrap_or((name, "an unknown line"))
}

/// Times beyond this, of fifty days, mean a damaged file.
pub(crate) const LONGEST: i64 = 1 << 52;

/// How much two hosts' clocks may differ, and a rank may begin its trace later than another one
/// ends, in nanoseconds.
const SLACK: u64 = 60_000_000_000;

impl Trace {
    /// Whether it ended before a job began that has a trace with this beginning and clock.
    fn is_before(&self, began: u64, clock: &str) -> bool {
        let last = self.events.last();
        let nanos = last.map_or(0, |event| u64::try_from(event.at).unwrap_or(0));
        // No rank leaves in good order before all have come.
        let has_left = last.is_some_and(|event| event.kind == Kind::Left);
        let is_exact = has_left && self.clock() == clock;
        let slack = if is_exact { 0 } else { SLACK };
        self.began.saturating_add(nanos).saturating_add(slack) < began
    }
}

/// The traces in a directory, in the order of ranks. Those of a former job are left out: of several
/// of one rank, whatever their files are called, the newest stays. A job
/// replaces the traces of as many ranks as it has, so what is left of a larger one before it says
/// another number of ranks; and what is left of others, in place of ranks without a trace, ended
/// before this one began. `leave_out` receives the reason for each file that is no trace or cannot
/// be read, if there are others.
///
/// # Errors
///
/// If there are none that can be read.
pub fn read(directory: &Path, leave_out: impl FnMut(ReadError)) -> Result<Vec<Trace>, ReadError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |error| ReadError::File { path, error }
    };
    let (mut traces, mut refused) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        let is_trace = path.extension().is_some_and(|end| end == "trace");
        // A pipe would be waited for.
        if !is_trace || !path.is_file() {
            continue;
        }
        match read_one(&path) {
            Ok(trace) => traces.extend(trace),
            Err(error) => refused.push(error),
        }
    }
    if traces.is_empty()
        && let Some(first) = refused.pop()
    {
        return Err(first);
    }
    refused.into_iter().for_each(leave_out);
    // Of several copies of one trace the one with the most events stays, of several traces of one
    // rank the newest.
    traces.sort_by_key(|trace| (trace.rank, Reverse((trace.began, trace.events.len()))));
    traces.dedup_by_key(|trace| (trace.rank, trace.began));
    let n_all = traces.len();
    traces.dedup_by_key(|trace| trace.rank);
    let Some(newest) = traces.iter().max_by_key(|trace| trace.began) else {
        return Err(ReadError::Nothing(directory.to_owned()));
    };
    let (n_ranks, began, clock) = (newest.n_ranks, newest.began, newest.clock().to_owned());
    traces.retain(|trace| trace.n_ranks == n_ranks && !trace.is_before(began, &clock));
    let n_others = n_all - traces.len();
    for trace in &mut traces {
        trace.n_others = n_others;
    }
    Ok(traces)
}

/// The trace in a file with its names, if it has more than the start of one.
fn read_one(path: &Path) -> Result<Option<Trace>, ReadError> {
    let bytes = fs::read(path).map_err(|error| ReadError::File {
        path: path.to_owned(),
        error,
    })?;
    if is_barely_begun(&bytes) {
        return Ok(None);
    }
    let mut trace = decode(&bytes).ok_or_else(|| ReadError::Foreign(path.to_owned()))?;
    // The file of a rank that was killed at once is empty. A pipe would be waited for.
    let names = Some(path.with_extension("names")).filter(|path| path.is_file());
    let names = names
        .and_then(|path| fs::read(path).ok())
        .unwrap_or_default();
    for line in String::from_utf8_lossy(&names).lines() {
        if let Some((number, name)) = line.split_once('\t')
            && let Ok(number) = number.parse()
        {
            trace.names.insert(number, name.to_owned());
        }
    }
    Ok(Some(trace))
}

/// Whether this is the start of a trace without its whole header, as a rank leaves that found the
/// disk full: it has no trace.
fn is_barely_begun(bytes: &[u8]) -> bool {
    let begin = &bytes[..bytes.len().min(MAGIC.len())];
    bytes.len() < HEADER_BYTES && MAGIC.starts_with(begin)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at * 8..at * 8 + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// The text of the header behind its length, which is at `at`.
fn text(bytes: &[u8], at: usize) -> Option<String> {
    let header = &bytes[..HEADER_BYTES];
    let n_bytes = usize::try_from(word(header, at / 8)?).ok()?;
    let text = header.get(at + 8..)?;
    Some(String::from_utf8_lossy(&text[..n_bytes.min(text.len())]).into_owned())
}

/// The content of a trace file; `None` for any other file.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Trace> {
    if bytes.get(..8)? != MAGIC || bytes.len() < HEADER_BYTES {
        return None;
    }
    let header = |at| word(bytes, at);
    let (room, n_written) = (header(4)?, header(5)?);
    let host = text(bytes, 48)?;
    let ring = &bytes[HEADER_BYTES..];
    // A killed rank may have written events that the header does not count yet.
    let events = ring.chunks_exact(EVENT_BYTES);
    let mut events: Vec<Event> = events.filter_map(event).collect();
    // The ring may begin anywhere.
    events.sort_by_key(|event| event.at);
    Some(Trace {
        rank: u32::try_from(header(1)?).ok()?,
        n_ranks: u32::try_from(header(2)?).ok()?,
        began: header(3)?,
        host,
        clock: text(bytes, CLOCK_AT)?,
        n_lost: n_written.saturating_sub(room),
        n_others: 0,
        names: HashMap::new(),
        events,
    })
}

fn event(bytes: &[u8]) -> Option<Event> {
    let at = word(bytes, 0)?.checked_sub(1)?;
    let what = word(bytes, 1)?.to_le_bytes();
    let rank = u32::from_le_bytes([what[4], what[5], what[6], what[7]]);
    Some(Event {
        at: i64::try_from(at).ok().filter(|at| *at < LONGEST)?,
        kind: Kind::of(what[0])?,
        thread: what[1],
        name: u16::from_le_bytes([what[2], what[3]]),
        rank: (rank != u32::MAX).then_some(rank),
        numbers: [word(bytes, 2)?, word(bytes, 3)?],
    })
}
