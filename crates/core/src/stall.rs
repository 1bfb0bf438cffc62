//! Reports long waits: which rank waits for what, since when and from which line of the program.
//!
//! A wait that gets long is recorded. After [`Config::stall`] it asks every rank what it waits for,
//! collects the answers for a second, and prints them. A rank that does not answer computes, or is
//! stuck outside of the library. This works by messages, which every waiting rank serves, over
//! threads, processes and hosts alike.
//!
//! Where collectives compare their calls (`PGAS_CHECK=1`), a wait in one asks early, and reports if
//! ranks wait for each other in collectives of different teams.

use std::fmt::{self, Write as _};
use std::panic::Location;
use std::time::{Duration, Instant};

use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::backend::{HandlerId, Message, MessageClass, Sent};
use crate::circle::{self, Edge};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::notice::{self, printable};
use crate::rank::Rank;
use crate::stats::{Now, Waiting};
use crate::waits::{Answer, Awaited, Inquiry, State, Watch};
use crate::world::World;

/// The time for answers before a report is printed.
const PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which a recorded wait updates the ranks that it waits for.
const RENEWAL: Duration = Duration::from_millis(100);
/// Ranks ask one after another, so that one report is enough for all.
const STAGGER: Duration = Duration::from_millis(50);
/// The time after which a wait in a collective that compares calls looks for a circle.
const EARLY: Duration = Duration::from_secs(5);
/// The maximum number of ranks with a line of their own in a report.
const MAX_LINES: usize = 64;

/// The first byte of a message.
const QUESTION: u8 = b'?';
/// The question of a rank that looks for a circle.
const EARLY_QUESTION: u8 = b'~';
const ANSWER: u8 = b'!';
/// A piece of a rank's statistics, at its end.
pub(crate) const FIGURES: u8 = b'#';
/// The question of a rank that would leave, to those that may wait for it, with the number of
/// collectives of the world that it has begun.
pub(crate) const LEAVING: u8 = b'-';
/// The answer of one that does.
const AWAITED: u8 = b'+';

/// A noted wait, until it is over.
pub(crate) struct Noted<'a> {
    watch: &'a Watch,
    /// This rank's activity, where a watcher of the job reads it.
    now: &'a Now,
    id: u64,
    from: &'static Location<'static>,
    since: Instant,
    next_report: Instant,
    /// Whether the next report is about a circle or is not made.
    is_early: bool,
    /// Rounds of progress of the threads that run handlers, if some were chosen.
    n_rounds: Option<u64>,
    next_renewal: Instant,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let mut state = self.watch.state();
        state.waits.retain(|wait| wait.id != self.id);
        tell(self.now, &state);
        if state
            .inquiry
            .as_ref()
            .is_some_and(|inquiry| inquiry.wait == self.id)
        {
            state.inquiry = None;
        }
    }
}

/// Publishes this rank's wait; the latest one, if there are several.
fn tell(now: &Now, state: &State) {
    match state.waits.last() {
        None => now.waits_no_more(),
        Some(wait) => now.waits(&Waiting {
            what: wait.what,
            whole: wait.part_of,
            file: wait.from.file(),
            line: wait.from.line(),
            waited: wait.since.elapsed(),
            missing: &wait.missing,
        }),
    }
}

impl<'a> Noted<'a> {
    fn new(
        world: &'a World,
        awaited: &Awaited<'_>,
        since: Instant,
        from: &'static Location<'static>,
        stall: Option<Duration>,
    ) -> Self {
        let (watch, now) = (world.watch(), world.now());
        let (id, from) = watch.note(awaited, since, from);
        tell(now, &watch.state());
        let compares = world.wire().check && awaited.call.is_some();
        let is_early = compares && stall.is_some_and(|stall| EARLY < stall);
        let after = if is_early { Some(EARLY) } else { stall };
        Self {
            watch,
            now,
            id,
            from,
            since,
            next_report: turn(world, since, after.unwrap_or(Duration::MAX)),
            is_early,
            n_rounds: world.servers().n_rounds(),
            next_renewal: since + RENEWAL,
        }
    }
}

/// The turn of a rank to ask, `after` a time since its wait began.
fn turn(world: &World, since: Instant, after: Duration) -> Instant {
    let turn = STAGGER.saturating_mul(world.rank().number()).min(after / 4);
    later(since, after.saturating_add(turn))
}

/// The time `by` later, or a time in many years: a limit may be any number.
fn later(at: Instant, by: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(1 << 31);
    at.checked_add(by).unwrap_or(at + NEVER)
}

impl Noted<'_> {
    fn renew(&mut self, awaited: &Awaited<'_>) {
        let missing = (awaited.missing)();
        let mut state = self.watch.state();
        if let Some(wait) = state.waits.iter_mut().find(|wait| wait.id == self.id) {
            wait.missing = missing;
            wait.n_looks = wait.n_looks.wrapping_add(1);
        }
        tell(self.now, &state);
        self.next_renewal = Instant::now() + RENEWAL;
    }

    /// Sends the question when it is due. Returns the report when all have answered, or have had
    /// the time to.
    fn advance(&mut self, world: &World, awaited: &Awaited<'_>, stall: Duration) -> Option<String> {
        let now = Instant::now();
        let mut state = self.watch.state();
        if let Some(inquiry) = &state.inquiry {
            let is_whole = inquiry.answers.iter().all(Option::is_some);
            if inquiry.wait != self.id || !is_whole && inquiry.asked.elapsed() < PATIENCE {
                return None;
            }
            let Inquiry { asked, answers, .. } = state.inquiry.take()?;
            let edge = |answer: &Option<Answer>| answer.as_ref().map_or(Edge::NONE, |it| it.edge);
            let edges: Vec<_> = answers.iter().map(edge).collect();
            let circle = circle::find(world.rank(), &edges).unwrap_or_default();
            if self.is_early {
                self.is_early = false;
                self.next_report = turn(world, self.since, stall);
                if circle.is_empty() {
                    return None;
                }
            } else {
                self.next_report = now + now.duration_since(self.since);
            }
            // When the answers were asked for: they say for how long each rank had waited then.
            let waited = asked.saturating_duration_since(self.since);
            let mut text = report(world, waited, &answers, &circle);
            if let Some(n_rounds) = self.n_rounds
                && let Some(servers) = world.servers().report(n_rounds)
            {
                let _: fmt::Result = writeln!(text, "pgas:   {}", printable(&servers));
            }
            return Some(text);
        }
        if self.is_early
            && state
                .was_asked_early
                .is_some_and(|asked| asked > self.since)
        {
            // This rank was waiting then, and so was a part of any circle that was found.
            self.is_early = false;
            self.next_report = turn(world, self.since, stall);
            return None;
        }
        if !self.is_early && state.was_asked.is_some_and(|asked| asked.elapsed() < stall) {
            self.next_report = later(now, stall);
            return None;
        }
        drop(state);
        self.ask(world, awaited);
        None
    }

    /// Asks all ranks what they wait for.
    fn ask(&mut self, world: &World, awaited: &Awaited<'_>) {
        self.renew(awaited);
        let mut state = self.watch.state();
        let mut answers = vec![None; world.n_ranks() as usize];
        answers[world.rank().index()] = Some(state.answer());
        state.inquiry = Some(Inquiry {
            wait: self.id,
            asked: Instant::now(),
            answers,
        });
        drop(state);
        let question = if self.is_early {
            EARLY_QUESTION
        } else {
            QUESTION
        };
        for rank in world.ranks().filter(|rank| *rank != world.rank()) {
            let _: Option<Sent> = world.send_note(rank, MessageClass::Request, &[&[question]]);
        }
    }
}

fn report(world: &World, waited: Duration, answers: &[Option<Answer>], circle: &[Rank]) -> String {
    let mut text = format!(
        "pgas: rank {} has waited {:.1}s. Who waits for what (PGAS_STALL):\n",
        world.rank(),
        waited.as_secs_f64()
    );
    let mut n_more = 0_u32;
    let in_circle = &circle[..circle.len().min(circle::MAX_NAMED)];
    for (rank, answer) in world.ranks().zip(answers) {
        if rank.index() >= MAX_LINES && !in_circle.contains(&rank) {
            n_more += 1;
            continue;
        }
        let answer = match answer {
            Some(answer) => &answer.text,
            None if world.backend().has_left(rank) => "has left the job",
            None if !world.backend().has_joined(rank) => {
                "has not joined the job: it has ended, or does other work before `init`"
            }
            None => {
                "does not answer: it computes, looks at its own memory without making progress, or \
                 is stuck outside of the library"
            }
        };
        let _: fmt::Result = writeln!(text, "pgas:   rank {rank} {}", printable(answer));
    }
    if n_more > 0 {
        let _: fmt::Result = writeln!(text, "pgas:   and {n_more} ranks more");
    }
    if !circle.is_empty() {
        let _: fmt::Result = writeln!(text, "pgas:   {}", circle::text(circle));
    }
    text
}

impl World {
    /// Watches a long wait: records it, and asks all ranks what they wait for when it has taken too
    /// long, unless such reports are turned off.
    pub(crate) fn watch_over<'a>(
        &'a self,
        noted: &mut Option<Noted<'a>>,
        awaited: &Awaited<'_>,
        since: Instant,
        from: &'static Location<'static>,
    ) -> Result<()> {
        let &Config {
            stall, stall_ends, ..
        } = self.config();
        let noted = noted.get_or_insert_with(|| Noted::new(self, awaited, since, from, stall));
        let now = Instant::now();
        if now >= noted.next_renewal {
            noted.renew(awaited);
        }
        let Some(stall) = stall.filter(|_| now >= noted.next_report) else {
            return Ok(());
        };
        let is_early = noted.is_early;
        let Some(report) = noted.advance(self, awaited, stall) else {
            return Ok(());
        };
        notice::write(&report);
        if !stall_ends || is_early {
            return Ok(());
        }
        let (what, waited) = (awaited.what, since.elapsed().as_secs_f64());
        let (file, line) = (noted.from.file(), noted.from.line());
        let cause = format!("has waited {waited:.1}s for {what} at {file}:{line} (PGAS_STALL_END)");
        Err(self.blame_self(&cause))
    }

    /// The waits of this rank's threads, in the words of the report of a long wait (`PGAS_STALL`):
    /// the operation, the ranks that are missing, the time, and the line of the program. Waits that
    /// are over within a tenth of a millisecond or so are not noted.
    ///
    /// For another thread than the one that waits. It says the same as what other ranks would be
    /// told.
    ///
    /// # Cost
    ///
    /// ℓ, with a lock and an allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// let world = pgas_core::backend::loopback::world();
    /// assert!(world.long_waits().contains("waits for nothing"));
    /// ```
    #[must_use]
    pub fn long_waits(&self) -> String {
        self.watch().state().text()
    }

    #[cold]
    fn blame_self(&self, cause: &str) -> Error {
        self.backend().blame(self.rank(), cause)
    }

    /// Takes a question or an answer.
    pub(crate) fn deliver_note(&self, message: &Message<'_>) {
        let Message { from, payload, .. } = *message;
        let mut state = self.watch().state();
        match payload.split_first() {
            Some((&question @ (QUESTION | EARLY_QUESTION), _)) => {
                let was_asked = if question == QUESTION {
                    &mut state.was_asked
                } else {
                    &mut state.was_asked_early
                };
                *was_asked = Some(Instant::now());
                let answer = state.answer();
                drop(state);
                let parts: [&[u8]; 3] = [&[ANSWER], answer.edge.as_bytes(), answer.text.as_bytes()];
                // The asking rank accepts silence as an answer.
                let _: Option<Sent> = self.send_note(from, MessageClass::Reply, &parts);
            }
            Some((&LEAVING, n_begun)) => {
                let theirs = n_begun.try_into().map_or(u64::MAX, u64::from_le_bytes);
                let ahead = Some(self.members().n_begun()).filter(|own| *own > theirs);
                let is_awaited = state.still_awaits(from, ahead, self.tasks().has_some());
                drop(state);
                if is_awaited {
                    let _: Option<Sent> = self.send_note(from, MessageClass::Reply, &[&[AWAITED]]);
                }
            }
            Some((&AWAITED, _)) => state.is_awaited = true,
            Some((&FIGURES, words)) => {
                drop(state);
                self.take_figures(from, words);
            }
            Some((&ANSWER, answer)) => {
                let Ok((edge, text)) = Edge::read_from_prefix(answer) else {
                    return;
                };
                let text = String::from_utf8_lossy(text).into_owned();
                let answers = state.inquiry.as_mut().map(|inquiry| &mut inquiry.answers);
                if let Some(answer) = answers.and_then(|list| list.get_mut(from.index())) {
                    *answer = Some(Answer { edge, text });
                }
            }
            _ => {}
        }
    }

    /// Offers a note to `to`; it does not matter whether it arrives.
    pub(crate) fn send_note(&self, to: Rank, class: MessageClass, parts: &[&[u8]]) -> Option<Sent> {
        self.backend()
            .try_send(to, class, HandlerId::WATCH, parts)
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::backend::loopback;

    #[test]
    fn a_wait_is_seen_also_where_reports_are_turned_off() {
        let config = Config {
            stall: None,
            timeout: Some(Duration::from_secs(10)),
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        let is_seen = || Ok(world.long_waits().contains("what is seen"));
        world.wait_for("what is seen", is_seen).unwrap();
    }

    #[test]
    fn a_report_tells_a_rank_that_has_left_from_one_that_does_not_answer() {
        let mut worlds = loopback::worlds(3, &Config::default()).unwrap();
        drop(worlds.pop());
        let text = report(&worlds[0], Duration::from_secs(9), &[None, None, None], &[]);
        assert!(text.contains("rank 1 does not answer"), "{text}");
        assert!(text.contains("rank 2 has left the job"), "{text}");
    }
}
