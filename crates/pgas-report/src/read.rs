//! Reading the files of a trace.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use pgas_core::trace::{EVENT_BYTES, HEADER_BYTES, Kind, MAGIC};

/// Why a directory cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is no trace.
    #[error("{}: there is no rank-0.trace or the like; PGAS_TRACE={} writes them", .0.display(), .0.display())]
    Nothing(PathBuf),
    /// A file is something else.
    #[error("{}: this is no trace of this version", .0.display())]
    Foreign(PathBuf),
}

/// An event, at a time in nanoseconds: since its rank's trace began, or since the job's once clocks
/// are brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: i64,
    /// What.
    pub kind: Kind,
    /// On which thread.
    pub thread: u8,
    /// The number of its name, or 0.
    pub name: u16,
    /// The rank that it is about, if it is about one.
    pub rank: Option<u32>,
    /// Its numbers.
    pub numbers: [u64; 2],
}

/// The trace of one rank.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Whose.
    pub rank: u32,
    /// Of how many.
    pub n_ranks: u32,
    /// When it began, in nanoseconds since 1970 by its host's clock.
    pub began: u64,
    /// Where it ran.
    pub host: String,
    /// Events that are lost, for want of room.
    pub n_lost: u64,
    /// Names by their numbers.
    pub names: HashMap<u16, String>,
    /// What is left, in the order of time.
    pub events: Vec<Event>,
}

impl Trace {
    /// The name of an event, or what stands for one.
    #[must_use]
    pub fn name(&self, event: &Event) -> &str {
        self.names
            .get(&event.name)
            .map_or("(unnamed)", String::as_str)
    }
}

/// Times beyond this, of fifty days, are a damaged file.
pub(crate) const LONGEST: i64 = 1 << 52;

/// The traces in a directory, in the order of ranks.
///
/// # Errors
///
/// If there are none, or one cannot be read.
pub fn read(directory: &Path) -> Result<Vec<Trace>, ReadError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |error| ReadError::File { path, error }
    };
    let mut traces = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        let is_trace = path.extension().is_some_and(|end| end == "trace");
        if !is_trace {
            continue;
        }
        let bytes = fs::read(&path).map_err(failed(&path))?;
        let mut trace = decode(&bytes).ok_or_else(|| ReadError::Foreign(path.clone()))?;
        // A rank that was killed at once has none.
        let names = fs::read(path.with_extension("names")).unwrap_or_default();
        for line in String::from_utf8_lossy(&names).lines() {
            if let Some((number, name)) = line.split_once('\t')
                && let Ok(number) = number.parse()
            {
                trace.names.insert(number, name.to_owned());
            }
        }
        traces.push(trace);
    }
    traces.sort_by_key(|trace| trace.rank);
    traces.dedup_by_key(|trace| trace.rank);
    if traces.is_empty() {
        return Err(ReadError::Nothing(directory.to_owned()));
    }
    Ok(traces)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at * 8..at * 8 + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// A trace file; `None` if it is something else.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Trace> {
    if bytes.get(..8)? != MAGIC || bytes.len() < HEADER_BYTES {
        return None;
    }
    let header = |at| word(bytes, at);
    let (room, n_written) = (header(4)?, header(5)?);
    let host_bytes = usize::try_from(header(6)?).ok()?.min(HEADER_BYTES - 56);
    let ring = &bytes[HEADER_BYTES..];
    // What was being written when the rank was killed may go beyond what is said of it.
    let events = ring.chunks_exact(EVENT_BYTES);
    let mut events: Vec<Event> = events.filter_map(event).collect();
    // The ring begins anywhere.
    events.sort_by_key(|event| event.at);
    Some(Trace {
        rank: u32::try_from(header(1)?).ok()?,
        n_ranks: u32::try_from(header(2)?).ok()?,
        began: header(3)?,
        host: String::from_utf8_lossy(&bytes[56..56 + host_bytes]).into_owned(),
        n_lost: n_written.saturating_sub(room),
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
