//! The state of a job that is shown: made of two looks at it, one after the other.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pgas_core::notice::printable;
use pgas_core::stats::{Counted, Live, LiveWait, LiveWork};
use pgas_smp::{Observer, Seen};

use super::process::{self, Process};

/// A wait that is longer than this is shown as long.
pub(crate) const LONG: Duration = Duration::from_secs(2);

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has not joined yet.
    Starts,
    /// It computes.
    Runs,
    /// It waits for others, by a call of the library.
    Waits,
    /// It sleeps elsewhere, such as for input.
    Sleeps,
    /// It is stopped, by a signal or a debugger.
    Stopped,
    /// It has left in good order.
    Left,
    /// Its process has ended without leaving the job.
    Dead,
}

impl State {
    pub(crate) const ALL: [Self; 7] = [
        Self::Starts,
        Self::Runs,
        Self::Waits,
        Self::Sleeps,
        Self::Stopped,
        Self::Left,
        Self::Dead,
    ];

    /// The word for one rank.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Starts => "starts",
            Self::Runs => "runs",
            Self::Waits => "waits",
            Self::Sleeps => "sleeps",
            Self::Stopped => "stopped",
            Self::Left => "left",
            Self::Dead => "dead",
        }
    }

    /// The word for several ranks.
    fn words(self) -> &'static str {
        match self {
            Self::Starts => "start",
            Self::Runs => "run",
            Self::Waits => "wait",
            Self::Sleeps => "sleep",
            other => other.word(),
        }
    }
}

/// How notable a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// All is well.
    Usual,
    /// It has waited for long.
    Long,
    /// It is stopped or dead, or others have waited for it for long.
    Culprit,
}

/// One rank.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) rank: u32,
    pub(crate) state: State,
    pub(crate) weight: Weight,
    /// What it waits for, and for how long it has.
    pub(crate) wait: Option<(LiveWait, Duration)>,
    /// The number of ranks that have waited for it for long, and the longest of these waits.
    pub(crate) awaited: Option<(u32, Duration)>,
    /// The use of a processor, in percent.
    pub(crate) processor: Option<u64>,
    pub(crate) resident: Option<u64>,
    /// Its operations and bytes a second.
    pub(crate) rates: Option<Counted>,
    pub(crate) work: Option<LiveWork>,
}

/// A job at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) program: String,
    /// The time since the first rank began.
    pub(crate) age: Duration,
    /// The number of ranks of the whole job, of which some may be on other hosts.
    pub(crate) n_ranks: u32,
    /// The hosts whose ranks are shown.
    pub(crate) n_hosts: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) failure: Option<(u32, String)>,
}

/// Looks at a job now and then.
#[derive(Debug)]
pub(crate) struct Looks {
    observer: Observer,
    /// The number of the host's first rank, for ranks that have not published theirs yet.
    first_rank: u32,
    former: HashMap<u32, Former>,
    program: Option<String>,
}

/// The state of a rank at the former look.
#[derive(Clone, Copy, Debug)]
struct Former {
    at: Instant,
    /// Its process, and when that began, in ticks.
    began: Option<(u32, u64)>,
    ticks: Option<u64>,
    counted: Option<Counted>,
}

impl Looks {
    pub(crate) fn new(observer: Observer, first_rank: u32) -> Self {
        Self {
            observer,
            first_rank,
            former: HashMap::new(),
            program: None,
        }
    }

    /// What tells the job from all others of this host.
    pub(crate) fn identity(&self) -> std::io::Result<(u64, u64)> {
        self.observer.identity()
    }

    /// The job as it is now, with rates since the look before.
    pub(crate) fn picture(&mut self) -> std::io::Result<Picture> {
        let seen = self.observer.look()?;
        let failure = self.observer.failure()?;
        let processes = seen.iter().map(|seen| seen.process).filter(|p| *p != 0);
        if self.program.is_none() {
            self.program = processes.clone().find_map(process::name_of);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let began = seen
            .iter()
            .filter_map(|seen| Some(seen.live.as_ref()?.began));
        let age = began
            .min()
            .map_or(Duration::ZERO, |began| since(began, now));
        let all = seen
            .iter()
            .filter_map(|seen| Some(seen.live.as_ref()?.n_ranks));
        let n_ranks = all.max().unwrap_or(self.observer.n_ranks());
        let rows: Vec<Row> = seen.iter().map(|seen| self.row(seen, now)).collect();
        let failure = failure.map(|(number, cause)| (failed_rank(number, &rows), cause));
        let mut picture = Picture {
            program: printable(self.program.as_deref().unwrap_or_default()).to_string(),
            age,
            n_ranks,
            n_hosts: 1,
            rows,
            failure,
        };
        picture.blame();
        Ok(picture)
    }

    fn row(&mut self, seen: &Seen, now: Duration) -> Row {
        let former = self.former.get(&seen.index).copied();
        let began = former.and_then(|former| former.began);
        let process = (seen.process != 0).then(|| {
            let process = Process::look(seen.process);
            process.filter(|process| is_same(began, (seen.process, process.began)))
        });
        let live = seen.live.as_ref();
        let this = Former {
            at: Instant::now(),
            began: began.or(process.flatten().map(|it| (seen.process, it.began))),
            ticks: process.flatten().map(|process| process.ticks),
            counted: live.and_then(|live| live.counted),
        };
        self.former.insert(seen.index, this);
        let processor = former.and_then(|former| former.processor(&this));
        let wait = live.and_then(|live| live.wait.clone());
        let wait = wait.map(|wait| (wait.clone(), since(wait.since, now)));
        let state = state(seen, process, (wait.is_some(), processor));
        let is_there = !matches!(state, State::Left | State::Dead);
        Row {
            rank: live.map_or(self.first_rank + seen.index, |live: &Live| live.rank),
            state,
            weight: Weight::Usual,
            wait: wait.filter(|_| is_there),
            awaited: None,
            processor: processor.filter(|_| is_there),
            resident: process.flatten().map(Process::resident),
            rates: former.and_then(|former| former.rates(&this)),
            work: live.and_then(|live| live.work.clone()).filter(|_| is_there),
        }
    }
}

impl Former {
    /// The use of a processor since this look, in percent.
    fn processor(&self, later: &Self) -> Option<u64> {
        let ticks = later.ticks?.saturating_sub(self.ticks?);
        let millis = later.at.duration_since(self.at).as_millis().max(1);
        let of_clock = rustix::param::clock_ticks_per_second();
        let parts = u128::from(ticks) * 100_000 / u128::from(of_clock.max(1)) / millis;
        u64::try_from(parts).ok()
    }

    /// Operations and bytes a second since this look.
    fn rates(&self, later: &Self) -> Option<Counted> {
        let (before, after) = (self.counted?, later.counted?);
        let millis = later.at.duration_since(self.at).as_millis().max(1);
        let rate = |before: u64, after: u64| {
            let rate = u128::from(after.saturating_sub(before)) * 1000 / millis;
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let mut rates = Counted::default();
        rates.operations = rate(before.operations, after.operations);
        rates.bytes = rate(before.bytes, after.bytes);
        Some(rates)
    }
}

/// Whether this process is the one that was seen at first. A number is given to another process
/// once one has ended.
fn is_same(first: Option<(u32, u64)>, now: (u32, u64)) -> bool {
    first.is_none_or(|first| first.0 != now.0 || first.1 == now.1)
}

/// The duration since `then`, a time in nanoseconds since 1970.
fn since(then: u64, now: Duration) -> Duration {
    now.saturating_sub(Duration::from_nanos(then))
}

/// The state of a rank. `process` has the system's figures, if the rank is a process.
fn state(
    seen: &Seen,
    process: Option<Option<Process>>,
    (waits, processor): (bool, Option<u64>),
) -> State {
    let letter = process.map(|process| process.map_or('Z', |process| process.state));
    match letter {
        _ if seen.has_left => State::Left,
        _ if !seen.has_joined => State::Starts,
        Some('Z' | 'X') => State::Dead,
        Some('T' | 't') => State::Stopped,
        _ if waits => State::Waits,
        Some('S' | 'D') if processor.is_some_and(|parts| parts < 5) => State::Sleeps,
        _ => State::Runs,
    }
}

/// The rank that a host's memory records as failed by this number: that of a row, or a rank of
/// another host, beyond these.
fn failed_rank(number: u32, rows: &[Row]) -> u32 {
    let number_here = usize::try_from(number).unwrap_or(usize::MAX);
    rows.get(number_here).map_or_else(
        || number.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX)),
        |row| row.rank,
    )
}

/// As [`Picture::blame`].
fn blame(rows: &mut [Row]) {
    let mut awaited = HashMap::<u32, (u32, Duration)>::new();
    for row in rows.iter() {
        let long = row.wait.as_ref().filter(|(_, waited)| *waited >= LONG);
        if let Some((wait, waited)) = long
            && let Some(missing) = wait.missing
        {
            let (n, longest) = awaited.entry(missing).or_default();
            *n += 1;
            *longest = (*longest).max(*waited);
        }
    }
    for row in rows {
        row.awaited = awaited.get(&row.rank).copied();
        let waits_long = row.wait.as_ref().is_some_and(|(_, waited)| *waited >= LONG);
        row.weight = match row.state {
            State::Dead | State::Stopped => Weight::Culprit,
            _ if waits_long => Weight::Long,
            _ if row.awaited.is_some() => Weight::Culprit,
            _ => Weight::Usual,
        };
    }
}

impl Picture {
    /// Finds the ranks that have waited for long, and those that they wait for.
    pub(crate) fn blame(&mut self) {
        blame(&mut self.rows);
    }

    /// The number of ranks in each state, as in `3 wait, 1 runs`.
    pub(crate) fn states(&self) -> String {
        let mut parts = Vec::new();
        for state in State::ALL {
            match self.rows.iter().filter(|row| row.state == state).count() {
                0 => {}
                1 => parts.push(format!("1 {}", state.word())),
                n => parts.push(format!("{n} {}", state.words())),
            }
        }
        parts.join(", ")
    }

    /// The operations and bytes of all ranks a second, if anything is counted.
    pub(crate) fn rates(&self) -> Option<Counted> {
        let rates = self.rows.iter().filter_map(|row| row.rates);
        rates.reduce(|mut sum, rates| {
            sum.operations = sum.operations.saturating_add(rates.operations);
            sum.bytes = sum.bytes.saturating_add(rates.bytes);
            sum
        })
    }

    /// The memory of all ranks in bytes. Shared memory counts for each rank that has touched it.
    pub(crate) fn resident(&self) -> u64 {
        let sizes = self.rows.iter().filter_map(|row| row.resident);
        sizes.fold(0, u64::saturating_add)
    }

    /// The progress of a long work, summed over the ranks that do it.
    pub(crate) fn work(&self) -> Option<LiveWork> {
        let works: Vec<&LiveWork> = self
            .rows
            .iter()
            .filter_map(|row| row.work.as_ref())
            .collect();
        LiveWork::sum(&works)
    }

    /// The `most` most notable ranks, in the order of their numbers.
    pub(crate) fn choose(&self, most: usize) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        if rows.len() > most {
            rows.sort_by_key(|row| (std::cmp::Reverse(row.weight), row.rank));
            rows.truncate(most);
            rows.sort_by_key(|row| row.rank);
        }
        rows
    }
}

impl Row {
    /// Whether it has a process that has not ended.
    pub(crate) fn has_process(&self) -> bool {
        self.resident.is_some() && !matches!(self.state, State::Left | State::Dead)
    }

    /// It turns out that nothing is left of it.
    pub(crate) fn die(&mut self) {
        self.state = State::Dead;
        (self.wait, self.work) = (None, None);
    }

    /// A rank of which nothing is known yet.
    pub(crate) fn unknown(rank: u32) -> Self {
        Self {
            rank,
            state: State::Starts,
            weight: Weight::Usual,
            wait: None,
            awaited: None,
            processor: None,
            resident: None,
            rates: None,
            work: None,
        }
    }

    /// What the rank waits for, or the number of ranks that wait for it.
    pub(crate) fn note(&self) -> String {
        if let Some((wait, at)) = self.wait_and_line() {
            return format!("{wait}, at {at}");
        }
        match self.awaited {
            Some((1, longest)) => format!("1 rank has waited for it for {}", seconds(longest)),
            Some((n, longest)) => {
                format!(
                    "{n} ranks have waited for it, for up to {}",
                    seconds(longest)
                )
            }
            None => String::new(),
        }
    }

    /// What the rank waits for, and the line of the program.
    pub(crate) fn wait_and_line(&self) -> Option<(String, String)> {
        let (wait, _) = self.wait.as_ref()?;
        let mut text = format!("for {}", wait.what);
        if let Some(missing) = wait.missing {
            text += &format!(", of rank {missing}");
            if wait.n_missing > 1 {
                text += &format!(" and {} more", wait.n_missing - 1);
            }
        }
        if !wait.whole.is_empty() {
            text += &format!(", as a part of {}", wait.whole);
        }
        let at = format!("{}:{}", wait.file, wait.line);
        Some((printable(text).to_string(), printable(at).to_string()))
    }
}

/// A time in few letters.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A rank that runs.
    pub(crate) fn row(rank: u32) -> Row {
        Row {
            rank,
            state: State::Runs,
            weight: Weight::Usual,
            wait: None,
            awaited: None,
            processor: Some(98),
            resident: Some(300 << 20),
            rates: None,
            work: None,
        }
    }

    /// One that has waited for another one.
    pub(crate) fn waiting(rank: u32, missing: u32, waited: Duration) -> Row {
        let mut wait = LiveWait::default();
        wait.what = "a barrier".to_owned();
        wait.file = "src/main.rs".to_owned();
        wait.line = 57;
        wait.missing = Some(missing);
        wait.n_missing = 1;
        Row {
            state: State::Waits,
            wait: Some((wait, waited)),
            processor: Some(2),
            ..row(rank)
        }
    }

    /// Three ranks that have waited for the last one, for this time.
    pub(crate) fn stalled(waited: Duration) -> Picture {
        let mut rows: Vec<Row> = (0..3).map(|rank| waiting(rank, 3, waited)).collect();
        rows.push(row(3));
        blame(&mut rows);
        Picture {
            program: "solver".to_owned(),
            age: Duration::from_secs(75),
            n_ranks: 4,
            n_hosts: 1,
            rows,
            failure: None,
        }
    }

    #[test]
    fn who_is_waited_for_for_long_stands_out() {
        let picture = stalled(Duration::from_secs(11));
        let weights: Vec<Weight> = picture.rows.iter().map(|row| row.weight).collect();
        let long = Weight::Long;
        assert_eq!(weights, [long, long, long, Weight::Culprit]);
        let note = "3 ranks have waited for it, for up to 11.0 s";
        assert_eq!(picture.rows[3].note(), note);
        let note = "for a barrier, of rank 3, at src/main.rs:57";
        assert_eq!(picture.rows[0].note(), note);
        assert_eq!(picture.states(), "1 runs, 3 wait");
        let chosen: Vec<u32> = picture.choose(2).iter().map(|row| row.rank).collect();
        assert_eq!(chosen, [0, 3], "the culprit is among few");
        let picture = stalled(Duration::from_millis(300));
        assert!(picture.rows.iter().all(|row| row.weight == Weight::Usual));
    }

    #[test]
    fn the_rank_that_has_failed_is_named_whatever_host_it_is_on() {
        let rows = [row(2), row(3)];
        let failed: Vec<u32> = (0..6).map(|number| failed_rank(number, &rows)).collect();
        assert_eq!(failed, [2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it() {
        assert!(is_same(None, (7, 100)));
        assert!(is_same(Some((7, 100)), (7, 100)));
        assert!(!is_same(Some((7, 100)), (7, 999)));
        assert!(is_same(Some((7, 100)), (8, 999)));
    }

    #[test]
    fn a_text_of_a_rank_steers_no_terminal() {
        let mut row = waiting(0, 1, LONG);
        if let Some((wait, _)) = &mut row.wait {
            wait.what = "\u{1b}[2J".to_owned();
        }
        assert!(row.note().contains("for \\u{1b}[2J, of rank 1"));
    }

    #[test]
    fn times_are_short() {
        let shown = [900, 61_000, 7_260_000].map(|millis| seconds(Duration::from_millis(millis)));
        assert_eq!(shown, ["0.9 s", "1 min 01 s", "2 h 01 min"]);
    }
}
