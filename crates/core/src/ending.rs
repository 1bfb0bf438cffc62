//! Reports the figures of all ranks when the job ends (`PGAS_STATS`).
//!
//! On one host the figures lie in memory that all its ranks share. The supervisor of the ranks
//! reports them, since it sees every end of a job. Without a supervisor the last rank to leave
//! reports them, or, if the job has failed, the first one to notice. Over a network each rank sends
//! its figures to rank 0 before it leaves. Rank 0 waits for them, unless the others wait for it in
//! turn; after a failure it does not wait for long. `pgas-run` on several hosts reads the memory of
//! each host when its ranks have ended, and reports the figures of a job that has failed.

use std::thread;
use std::time::{Duration, Instant};

use crate::backend::{HandlerId, Message, MessageClass, Sent};
use crate::config::launch::Launcher;
use crate::handler::in_handler;
use crate::messages::BATCH;
use crate::rank::Rank;
use crate::stall::{FIGURES, LEAVING};
use crate::stats::{Board, Counting, Report};
use crate::world::World;

/// The time that the other ranks have to end after a failure, before their figures are reported as
/// they are.
const GRACE: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_millis(1);
/// A rank that waits for figures asks the others so often whether they wait for it. A wait finds out
/// for whom it is more often than that.
const QUESTIONS: Duration = Duration::from_millis(250);
/// Rounds of progress behind the figures of a rank that leaves a job that has failed.
const LAST_ROUNDS: u32 = 100;

impl World {
    /// Reports the figures of the job, if that is this rank's task. Called when the rank leaves,
    /// and when it ends the job, for which it has a `cause`.
    pub(crate) fn tell_statistics(&self, cause: Option<&str>) {
        let Some(counting) = self.counting() else {
            return;
        };
        if !counting.end() {
            return;
        }
        let config = self.config();
        let is_wanted = config.statistics_table || config.statistics_file.is_some();
        let is_supervised = matches!(config.launcher, Launcher::Own { .. });
        if !is_wanted || is_supervised {
            return;
        }
        let failure = cause.map(str::to_owned).or_else(|| {
            let panicked = || format!("rank {} has panicked", self.rank());
            let panicked = thread::panicking().then(panicked);
            panicked.or_else(|| Some(self.backend().health().err()?.to_string()))
        });
        if failure.is_some() && self.leaves_failures_to_launcher(counting) {
            return;
        }
        let boards = self.ranks().map(|rank| self.backend().board(rank));
        match boards.collect::<Option<Vec<_>>>() {
            Some(boards) => tell_of_host(counting, &boards, failure.as_deref()),
            None => self.tell_over_network(counting, failure),
        }
    }

    fn leaves_failures_to_launcher(&self, counting: &Counting) -> bool {
        self.config().launcher_reports_failures && counting.is_shared()
    }

    /// As [`tell_of_host`], where other ranks are on other hosts.
    fn tell_over_network(&self, counting: &Counting, failure: Option<String>) {
        if self.rank() != Rank::ZERO {
            if !in_handler() && self.backend().board(Rank::ZERO).is_none() {
                self.send_figures(counting, failure.is_some());
            }
            return;
        }
        let (mut failure, mut failed) = (failure, None);
        let mut asked = Instant::now();
        let is_told = |rank: Rank| {
            let board = self.backend().board(rank);
            board.is_some_and(|board| board.is_over()) || counting.is_told(rank)
        };
        loop {
            if self.ranks().skip(1).all(is_told) {
                break;
            }
            if failure.is_some() || in_handler() {
                if failed.get_or_insert_with(Instant::now).elapsed() > GRACE {
                    break;
                }
                self.take_notes();
                thread::sleep(NAP);
            } else if let Err(error) = self.serve() {
                if self.leaves_failures_to_launcher(counting) {
                    return;
                }
                failure = Some(error.to_string());
            } else if self.watch().state().is_awaited {
                if self.leaves_failures_to_launcher(counting) {
                    return;
                }
                failure = Some("rank 0 leaves while others wait for it".to_owned());
                break;
            } else {
                self.park(NAP);
                self.ask_who_waits(&mut asked, &is_told);
            }
            if failure.is_none() && self.ranks().skip(1).all(|r| is_told(r) || self.has_left(r)) {
                break;
            }
        }
        let of = |rank: Rank| {
            if rank == self.rank() {
                return Some(counting.board().clone());
            }
            self.backend().board(rank).or_else(|| counting.told(rank))
        };
        let boards: Vec<Board> = self.ranks().filter_map(of).collect();
        counting.board().claim();
        tell(&boards, self.n_ranks(), failure.as_deref());
    }

    /// Asks now and then those that have not left whether they wait for this rank, as in a barrier.
    fn ask_who_waits(&self, asked: &mut Instant, is_told: &dyn Fn(Rank) -> bool) {
        if asked.elapsed() < QUESTIONS {
            return;
        }
        *asked = Instant::now();
        let n_begun = self.members().n_begun().to_le_bytes();
        for rank in self.ranks().skip(1).filter(|rank| !is_told(*rank)) {
            let parts: [&[u8]; 2] = [&[LEAVING], &n_begun];
            let _: Option<Sent> = self.send_note(rank, MessageClass::Request, &parts);
        }
    }

    /// Sends this rank's figures to rank 0, in pieces; the last piece has their number. Once the
    /// job `has_failed`, they may be lost.
    fn send_figures(&self, counting: &Counting, has_failed: bool) {
        let began = Instant::now();
        let most_words = (self.capabilities().max_medium - 16) / 8;
        for piece in counting.pieces(most_words.min(500)) {
            let parts: [&[u8]; 2] = [&[FIGURES], &piece];
            while self.send_note(Rank::ZERO, MessageClass::Request, &parts)
                == Some(Sent::BackPressure)
            {
                if self.has_left(Rank::ZERO) {
                    return;
                }
                if has_failed {
                    if began.elapsed() > GRACE {
                        return;
                    }
                    self.take_notes();
                    thread::sleep(NAP);
                } else if self.serve().is_err() {
                    return;
                } else {
                    self.park(NAP);
                }
            }
        }
        // The transport may have to pass them on.
        for _ in 0..LAST_ROUNDS * u32::from(has_failed) {
            self.take_notes();
        }
    }

    /// Takes notes, and nothing else: other messages are of a job that has failed.
    pub(crate) fn take_notes(&self) {
        if in_handler() || !self.servers().has_this_thread() {
            return;
        }
        let mut sink = |message: Message<'_>| {
            if message.handler == HandlerId::WATCH {
                self.deliver_note(&message);
            }
        };
        // The failure is known.
        drop(self.backend().progress());
        drop(self.backend().poll_all(true, BATCH, &mut sink));
    }

    /// Takes a piece of what `from` has counted.
    pub(crate) fn take_figures(&self, from: Rank, piece: &[u8]) {
        if let Some(counting) = self.counting() {
            counting.take_piece(from, piece);
        }
    }
}

/// Reports the figures of ranks that are all on this host, if this rank is the last one to leave,
/// or the first one that sees the job fail.
fn tell_of_host(counting: &Counting, boards: &[Board], failure: Option<&str>) {
    let Some(first) = boards.first() else {
        return;
    };
    let n_over = first.count_end();
    if failure.is_none() && n_over < boards.len() {
        return;
    }
    if !first.claim() {
        return;
    }
    let began = Instant::now();
    let is_missing = || boards.iter().any(|board| !board.is_over());
    while failure.is_some() && is_missing() && began.elapsed() < GRACE {
        thread::sleep(NAP);
    }
    // If the board was too small, report this rank's figures alone.
    let own = [counting.board().clone()];
    let boards = if boards.len() == 1 { &own } else { boards };
    let n_ranks = u32::try_from(boards.len()).unwrap_or(u32::MAX);
    tell(boards, n_ranks, failure);
}

fn tell(boards: &[Board], n_ranks: u32, failure: Option<&str>) {
    let outcome = failure.unwrap_or("all ranks have left");
    if let Some(report) = Report::of(boards, n_ranks, outcome) {
        report.tell();
    }
}
