//! Reports the figures of all ranks when the job ends (`PGAS_STATS`).
//!
//! On one host the figures lie in memory that all its ranks share. The supervisor of the ranks
//! reports them, since it sees every end of a job. Without a supervisor the last rank to leave
//! reports them, or, if the job has failed, the first one to notice. Over a network each rank sends
//! its figures to rank 0 before it leaves, which waits for them.

use std::thread;
use std::time::{Duration, Instant};

use crate::backend::{MessageClass, Sent};
use crate::config::launch::Launcher;
use crate::handler::in_handler;
use crate::rank::Rank;
use crate::stall::FIGURES;
use crate::stats::{Board, Counting, Report};
use crate::world::World;

/// The time that the other ranks have to end after a failure, before their figures are reported as
/// they are.
const GRACE: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_millis(1);

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
        let boards = self.ranks().map(|rank| self.backend().board(rank));
        match boards.collect::<Option<Vec<_>>>() {
            Some(boards) => tell_of_host(counting, &boards, failure.as_deref()),
            None => self.tell_over_network(counting, failure),
        }
    }

    /// As [`tell_of_host`], where other ranks are on other hosts.
    fn tell_over_network(&self, counting: &Counting, failure: Option<String>) {
        if self.rank() != Rank::ZERO {
            if failure.is_none() && !in_handler() && self.backend().board(Rank::ZERO).is_none() {
                self.send_figures(counting);
            }
            return;
        }
        let (mut failure, mut failed) = (failure, None);
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
                thread::sleep(NAP);
            } else if let Err(error) = self.serve() {
                failure = Some(error.to_string());
            } else {
                self.park(NAP);
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
        tell(&boards, self.n_ranks(), failure.as_deref());
    }

    /// Sends this rank's figures to rank 0, in pieces; the last piece has their number.
    fn send_figures(&self, counting: &Counting) {
        let most_words = (self.capabilities().max_medium - 16) / 8;
        for piece in counting.pieces(most_words.min(500)) {
            let parts: [&[u8]; 2] = [&[FIGURES], &piece];
            while self.send_note(Rank::ZERO, MessageClass::Request, &parts)
                == Some(Sent::BackPressure)
            {
                if self.serve().is_err() {
                    return;
                }
                self.park(NAP);
            }
        }
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
