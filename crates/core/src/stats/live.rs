//! The present activity of a rank, in the first words of its board, for watchers of the job.
//!
//! A rank writes these words when a wait has become long, and at steps of long work; short
//! operations pay nothing. A reader copies the words and trusts none of them: a text that changes
//! meanwhile may be half an old one.

use std::fmt;
use std::time::Duration;

use super::board::{Board, LIVE, LIVE_WORDS, MAGIC, text_of, word};
use super::counters::{KINDS, bytes_of, counters, n_of};
use super::counting::{nanos, now};
use super::report::{count, size, time};
use crate::notice::printable;
use crate::rank::Rank;

/// Says that these words are in use.
const LIVE_MAGIC: u64 = 0x7067_6173_6c69_7601;

/// Where things are among the words.
const RANK: usize = LIVE + 1;
const N_RANKS: usize = LIVE + 2;
const BEGAN: usize = LIVE + 3;
/// Since when the rank waits; 0 if it does not.
const SINCE: usize = LIVE + 4;
const LINE: usize = LIVE + 5;
const N_MISSING: usize = LIVE + 6;
/// The number of the first one of them.
const MISSING: usize = LIVE + 7;
const FILE: usize = LIVE + 8;
const FILE_WORDS: usize = 17;
const WHAT: usize = FILE + FILE_WORDS;
const WHAT_WORDS: usize = 9;
const WHOLE: usize = WHAT + WHAT_WORDS;
const WHOLE_WORDS: usize = 7;
/// Since when there is long work, or there was; 0 if there was none.
const WORK_SINCE: usize = WHOLE + WHOLE_WORDS;
const DONE: usize = WORK_SINCE + 1;
const TOTAL: usize = WORK_SINCE + 2;
const UNIT: usize = WORK_SINCE + 3;
const NUMBER: usize = WORK_SINCE + 4;
const IS_OVER: usize = WORK_SINCE + 5;
const WORK: usize = WORK_SINCE + 6;
const WORK_WORDS: usize = 15;
const _: () = assert!(WORK + WORK_WORDS <= LIVE + LIVE_WORDS, "they have room");

/// The bytes at the beginning of a board that [`Live::read`] reads.
pub const HEAD_BYTES: usize = (LIVE + LIVE_WORDS) * 8;

/// The present activity of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// The rank's number.
    pub rank: u32,
    /// The number of ranks of the job.
    pub n_ranks: u32,
    /// The time of the rank's beginning, in nanoseconds since 1970.
    pub began: u64,
    /// Its wait, if that has taken more than about a tenth of a millisecond.
    pub wait: Option<LiveWait>,
    /// Its present or latest long work.
    pub work: Option<LiveWork>,
    /// Its counts, if it counts operations (`PGAS_STATS`).
    pub counted: Option<Counted>,
}

/// A wait in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveWait {
    /// The name of the wait.
    pub what: String,
    /// The call that it is a part of, or an empty text.
    pub whole: String,
    /// The program's file and line.
    pub file: String,
    /// The line.
    pub line: u64,
    /// Since when, in nanoseconds since 1970.
    pub since: u64,
    /// The number of missing ranks, as far as known.
    pub n_missing: u64,
    /// The first one of them.
    pub missing: Option<u32>,
}

/// The unit of long work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Bytes.
    #[default]
    Bytes,
    /// Elements of a container, or places for them.
    Elements,
}

/// Long work, of one rank or summed over several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveWork {
    /// Its name, as in `saving counts`.
    pub what: String,
    /// The amount that is done.
    pub done: u64,
    /// The total amount; 0 if that is not known.
    pub total: u64,
    /// The unit of both.
    pub unit: Unit,
    /// Since when, in nanoseconds since 1970.
    pub since: u64,
    /// The number of earlier works of the rank.
    pub number: u64,
    /// Whether it is over.
    pub is_over: bool,
}

/// The counts of a rank so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// Gets, puts, atomics and messages.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Live {
    /// Reads the first [`HEAD_BYTES`] of a board, as words; `None` if no rank uses it.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{HEAD_BYTES, Live};
    ///
    /// assert_eq!(Live::read(&[0; HEAD_BYTES / 8]), None, "no rank is there");
    /// ```
    #[must_use]
    pub fn read(words: &[u64]) -> Option<Self> {
        let get = |at: usize| words.get(at).copied().unwrap_or(0);
        (get(LIVE) == LIVE_MAGIC).then(|| Self {
            rank: small(get(RANK)),
            n_ranks: small(get(N_RANKS)),
            began: get(BEGAN),
            wait: LiveWait::read(&get),
            work: LiveWork::read(&get),
            counted: (get(word::MAGIC) == MAGIC).then(|| Counted::read(&get)),
        })
    }
}

impl LiveWait {
    fn read(get: &dyn Fn(usize) -> u64) -> Option<Self> {
        (get(SINCE) != 0).then(|| Self {
            what: text_of(get, WHAT, WHAT_WORDS),
            whole: text_of(get, WHOLE, WHOLE_WORDS),
            file: text_of(get, FILE, FILE_WORDS),
            line: get(LINE),
            since: get(SINCE),
            n_missing: get(N_MISSING),
            missing: (get(N_MISSING) > 0).then(|| small(get(MISSING))),
        })
    }
}

impl LiveWork {
    fn read(get: &dyn Fn(usize) -> u64) -> Option<Self> {
        let unit = match get(UNIT) {
            0 => Unit::Bytes,
            _ => Unit::Elements,
        };
        (get(WORK_SINCE) != 0).then(|| Self {
            what: text_of(get, WORK, WORK_WORDS),
            done: get(DONE),
            total: get(TOTAL),
            unit,
            since: get(WORK_SINCE),
            number: get(NUMBER),
            is_over: get(IS_OVER) != 0,
        })
    }
}

impl LiveWork {
    /// The work of the ranks that do the same, in sum.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::LiveWork;
    ///
    /// let mut one = LiveWork::default();
    /// (one.what, one.done, one.total) = ("saving counts".into(), 3 << 20, 8 << 20);
    /// let both = LiveWork::sum(&[&one, &one]).unwrap();
    /// assert!(both.to_string().starts_with("saving counts: 37 %, 6.00 MiB of 16.0 MiB"));
    /// ```
    #[must_use]
    pub fn sum(all: &[&Self]) -> Option<Self> {
        let goes_on = all.iter().find(|work| !work.is_over)?;
        Some(goes_on.with_same(all))
    }

    /// This work, with all of those that are the same one of another rank, or this one.
    pub(super) fn with_same(&self, all: &[&Self]) -> Self {
        // A board has room for the first bytes of a name, and a letter has up to four.
        let is_cut = |what: &str| what.len() + 4 > (WORK_WORDS - 1) * 8;
        let has_name =
            |what: &str| what == self.what || is_cut(what) && self.what.starts_with(what);
        let is_same = |one: &&&Self| one.number == self.number && has_name(&one.what);
        let mut same = all.iter().filter(is_same).peekable();
        if same.peek().is_none() {
            return self.clone();
        }
        let mut sum = Self {
            done: 0,
            total: 0,
            ..self.clone()
        };
        for one in same {
            sum.done = sum.done.saturating_add(one.done);
            sum.total = sum.total.saturating_add(one.total);
            sum.since = sum.since.min(one.since);
        }
        sum
    }

    /// The percentage that is done, if that is known.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        let parts = u128::from(self.done) * 100;
        let parts = parts.checked_div(self.total.into())?;
        Some(u64::try_from(parts).unwrap_or(100).min(100))
    }

    /// The time that is left, at the average rate so far.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let elapsed = u128::from(now().saturating_sub(self.since));
        let left = u128::from(self.total.checked_sub(self.done)?);
        let nanos = (elapsed * left).checked_div(self.done.into())?;
        Some(Duration::from_nanos(u64::try_from(nanos).ok()?))
    }
}

/// In one line.
impl fmt::Display for LiveWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = match self.unit {
            Unit::Bytes => size,
            Unit::Elements => count,
        };
        let done = amount(self.done);
        write!(f, "{}: ", printable(&self.what))?;
        if self.is_over {
            let took = now().saturating_sub(self.since);
            return write!(f, "{done} in {}", time(took));
        }
        let Some(percent) = self.percent() else {
            return f.write_str(&done);
        };
        write!(f, "{percent} %, {done} of {}", amount(self.total))?;
        match self.time_left() {
            Some(left) if self.done < self.total => {
                write!(f, ", {} s left", left.as_secs().saturating_add(1))
            }
            _ => Ok(()),
        }
    }
}

impl Counted {
    fn read(get: &dyn Fn(usize) -> u64) -> Self {
        let counters = counters(get);
        let mut this = Self::default();
        for (kind, is_near) in KINDS.iter().flat_map(|(k, _)| [(*k, true), (*k, false)]) {
            this.operations = this.operations.wrapping_add(counters[n_of(kind, is_near)]);
            let bytes = bytes_of(kind, is_near).map_or(0, |at| counters[at]);
            this.bytes = this.bytes.wrapping_add(bytes);
        }
        this
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A wait, for the board.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) what: &'a str,
    pub(crate) whole: Option<&'a str>,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) waited: Duration,
    pub(crate) missing: &'a [Rank],
}

/// This rank's published activity, if its transport has boards.
#[derive(Clone, Debug)]
pub(crate) struct Now(Option<Board>);

impl Now {
    pub(crate) fn begin(board: Option<Board>, rank: Rank, n_ranks: u32) -> Self {
        let board = board.filter(|board| board.words().len() * 8 >= HEAD_BYTES);
        if let Some(board) = &board {
            board.set(RANK, rank.number().into());
            board.set(N_RANKS, n_ranks.into());
            board.set(BEGAN, now());
            board.set(LIVE, LIVE_MAGIC);
        }
        Self(board)
    }

    /// Tells that the rank waits.
    pub(crate) fn waits(&self, wait: &Waiting<'_>) {
        let Some(board) = &self.0 else {
            return;
        };
        board.set(LINE, wait.line.into());
        board.set_path(FILE, FILE_WORDS, wait.file);
        board.set_text(WHAT, WHAT_WORDS, wait.what);
        board.set_text(WHOLE, WHOLE_WORDS, wait.whole.unwrap_or_default());
        let first = wait.missing.first().map_or(0, |rank| rank.number().into());
        board.set(MISSING, first);
        board.set(N_MISSING, wait.missing.len() as u64);
        board.set(SINCE, now().saturating_sub(nanos(wait.waited)).max(1));
    }

    /// Tells that long work begins.
    pub(super) fn begin_work(&self, work: &LiveWork) {
        let Some(board) = &self.0 else {
            return;
        };
        board.set_text(WORK, WORK_WORDS, &work.what);
        board.set(DONE, work.done);
        board.set(TOTAL, work.total);
        board.set(UNIT, work.unit as u64);
        board.set(NUMBER, work.number);
        board.set(IS_OVER, 0);
        board.set(WORK_SINCE, work.since);
    }

    /// Tells that so much of it is done.
    pub(super) fn advance_work(&self, done: u64) {
        if let Some(board) = &self.0 {
            board.set(DONE, done);
        }
    }

    /// Tells that it is over.
    pub(super) fn end_work(&self) {
        if let Some(board) = &self.0 {
            board.set(IS_OVER, 1);
        }
    }

    /// Tells that it does not any more.
    pub(crate) fn waits_no_more(&self) {
        if let Some(board) = &self.0 {
            board.set(SINCE, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    fn words(board: &Board) -> Vec<u64> {
        let words = board.words()[..HEAD_BYTES / 8].iter();
        words.map(|word| word.load(Relaxed)).collect()
    }

    #[test]
    fn who_watches_reads_what_the_rank_waits_for_until_it_waits_no_more() {
        let board = Board::private(0);
        assert_eq!(Live::read(&words(&board)), None);
        let live = Now::begin(Some(board.clone()), Rank::new(3), 8);
        let read = Live::read(&words(&board)).unwrap();
        assert_eq!((read.rank, read.n_ranks, &read.wait), (3, 8, &None));
        assert_eq!(read.counted, None, "nobody counts");
        live.waits(&Waiting {
            what: "a barrier",
            whole: Some("a save"),
            file: "src/main.rs",
            line: 57,
            waited: Duration::from_secs(2),
            missing: &[Rank::new(5), Rank::new(6)],
        });
        let wait = Live::read(&words(&board)).unwrap().wait.unwrap();
        assert_eq!((&*wait.what, &*wait.whole), ("a barrier", "a save"));
        assert_eq!((&*wait.file, wait.line), ("src/main.rs", 57));
        assert_eq!((wait.n_missing, wait.missing), (2, Some(5)));
        let waited = now() - wait.since;
        assert!(waited >= 2_000_000_000, "{waited} ns");
        live.waits_no_more();
        assert_eq!(Live::read(&words(&board)).unwrap().wait, None);
    }

    #[test]
    fn work_with_a_name_that_a_board_cuts_is_the_same_one() {
        let work = |what: String| LiveWork {
            what,
            done: 1,
            since: now(),
            ..LiveWork::default()
        };
        for name in ["é".repeat(70), "x".to_owned() + &"é".repeat(70)] {
            let board = Board::private(0);
            let live = Now::begin(Some(board.clone()), Rank::ZERO, 1);
            let whole = work(name);
            live.begin_work(&whole);
            let read = Live::read(&words(&board)).unwrap().work.unwrap();
            assert!(read.what.len() < whole.what.len());
            assert_eq!(whole.with_same(&[&read, &read]).done, 2);
            let other = work("another one".to_owned());
            assert_eq!(whole.with_same(&[&read, &other]).done, 1);
        }
    }

    #[test]
    fn work_of_several_ranks_is_the_sum_of_what_is_the_same_one() {
        let board = Board::private(0);
        let live = Now::begin(Some(board.clone()), Rank::ZERO, 1);
        let mut work = LiveWork {
            what: "saving counts".to_owned(),
            done: 1,
            total: 4,
            unit: Unit::Elements,
            since: now(),
            number: 3,
            is_over: false,
        };
        live.begin_work(&work);
        live.advance_work(2);
        let read = Live::read(&words(&board)).unwrap().work.unwrap();
        work.done = 2;
        assert_eq!(read, work);
        live.end_work();
        let over = Live::read(&words(&board)).unwrap().work.unwrap();
        assert!(over.is_over && LiveWork::sum(&[&over]).is_none());
        let former = LiveWork {
            number: 2,
            ..over.clone()
        };
        let sum = LiveWork::sum(&[&former, &over, &work]).unwrap();
        assert_eq!((sum.done, sum.total, sum.percent()), (4, 8, Some(50)));
        assert!(
            sum.to_string()
                .starts_with("saving counts: 50 %, 4 of 8, 1 s left"),
            "{sum}"
        );
    }

    #[test]
    fn damaged_words_are_read_as_something() {
        let mut words = vec![u64::MAX; HEAD_BYTES / 8];
        assert_eq!(Live::read(&words), None);
        words[LIVE] = LIVE_MAGIC;
        let live = Live::read(&words).unwrap();
        assert_eq!(live.wait.unwrap().missing, Some(u32::MAX));
        assert!(Live::read(&words[..LIVE + 1]).unwrap().wait.is_none());
    }
}
