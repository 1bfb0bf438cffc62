//! The waits of a rank's threads, for reports to other ranks.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::circle::Edge;
use crate::locks::lock;
use crate::rank::Rank;
use crate::team_id::TeamId;

/// A description of a wait, for the message of a failed wait.
pub(crate) struct Awaited<'a> {
    pub(crate) what: &'static str,
    /// The collective call, if it is one.
    pub(crate) call: Option<TeamCall>,
    pub(crate) missing: &'a dyn Fn() -> Vec<Rank>,
    /// Whether the check runs code of the program, for any time, which is no waiting.
    pub(crate) runs_program: bool,
}

impl Awaited<'_> {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            call: None,
            missing: &Vec::new,
            runs_program: false,
        }
    }
}

/// A collective call of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TeamCall {
    pub(crate) team: TeamId,
    pub(crate) n_ranks: u32,
    /// Its number among the calls of the team.
    pub(crate) number: u64,
}

/// An answer is cut to this, so that it fits a message of every transport.
const MAX_ANSWER: usize = 400;
/// A wait that takes long.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) id: u64,
    pub(crate) what: &'static str,
    pub(crate) call: Option<TeamCall>,
    /// The call that it is a part of, if that call has declared its name.
    pub(crate) part_of: Option<&'static str>,
    pub(crate) since: Instant,
    pub(crate) from: &'static Location<'static>,
    pub(crate) missing: Vec<Rank>,
    /// How often the waiting thread has looked for `missing`.
    pub(crate) n_looks: u32,
}

/// A call of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramCall {
    /// Its name, if it has declared one.
    pub(crate) whole: Option<&'static str>,
    /// The object that it is a method of; see [`part_of_object`].
    pub(crate) object: u64,
    /// The line of the program.
    pub(crate) at: &'static Location<'static>,
}

thread_local! {
    /// The operation that this thread's waits are parts of.
    static PART_OF: Cell<Option<ProgramCall>> = const { Cell::new(None) };
}

/// Whether this thread runs a part of a larger call.
pub(crate) fn is_part() -> bool {
    PART_OF.get().is_some()
}

/// A guard that names the operation that this thread's waits are parts of. See [`part_of`].
#[derive(Debug)]
#[must_use = "it is over when this is dropped"]
pub struct PartOf {
    /// What was named before, if this has named something else.
    former: Option<Option<ProgramCall>>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl PartOf {
    fn unless_inner(
        whole: Option<&'static str>,
        object: u64,
        at: &'static Location<'static>,
    ) -> Self {
        let mut former = None;
        if PART_OF.get().is_none() {
            PART_OF.set(Some(ProgramCall { whole, object, at }));
            former = Some(None);
        }
        Self {
            former,
            _thread: PhantomData,
        }
    }
}

impl Drop for PartOf {
    fn drop(&mut self) {
        if let Some(former) = self.former {
            PART_OF.set(former);
        }
    }
}

/// For a call that consists of several waits. Until the value is dropped, reports of long waits
/// (`PGAS_STALL`) name `whole`, and the line of the program that called it. If such calls are
/// nested, the outermost one is named.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use pgas_core::{Result, World};
///
/// #[track_caller]
/// fn meet_twice(world: &World) -> Result<()> {
///     let _waits = pgas_core::part_of("a double barrier");
///     world.barrier()?;
///     world.barrier()
/// }
///
/// meet_twice(&pgas_core::backend::loopback::world())?;
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[track_caller]
pub fn part_of(whole: &'static str) -> PartOf {
    part_of_object(whole, 0)
}

/// As [`part_of`], for a method of an object. `object` is a number of this object alone among those
/// of its kind, the same on all ranks. With `PGAS_CHECK=1` it is an error if the ranks call the
/// method of different objects.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use pgas_core::{Result, Symmetric};
///
/// struct Table(Symmetric<u64>);
///
/// impl Table {
///     #[track_caller]
///     fn settle(&self) -> Result<()> {
///         let _waits = pgas_core::part_of_object("settling a table", self.0.member(0).to_bits());
///         self.0.world().barrier()
///     }
/// }
///
/// let world = pgas_core::backend::loopback::world();
/// Table(world.alloc_symmetric(1)?).settle()?;
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[track_caller]
pub fn part_of_object(whole: &'static str, object: u64) -> PartOf {
    PartOf::unless_inner(Some(whole), object, Location::caller())
}

/// As [`part_of`], without a name: for a call that waits or sends messages in a closure of its own,
/// whose line would stand for that of the program.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use pgas_core::{Rank, Result, World};
///
/// #[track_caller]
/// fn flush_each(world: &World, ranks: &[Rank]) -> Result<()> {
///     let _line = pgas_core::keep_line();
///     ranks.iter().try_for_each(|rank| world.flush(*rank))
/// }
///
/// let world = pgas_core::backend::loopback::world();
/// flush_each(&world, &[world.rank()])?;
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[track_caller]
pub fn keep_line() -> PartOf {
    PartOf::unless_inner(None, 0, Location::caller())
}

/// As [`part_of`], for a call at the line `at`: functions that run as closures have no caller.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use std::panic::Location;
///
/// use pgas_core::{Result, World};
///
/// #[track_caller]
/// fn meet_if(world: &World, is_time: bool) -> Result<()> {
///     let at = Location::caller();
///     let meet = || {
///         let _waits = pgas_core::part_of_at("a meeting", at);
///         world.barrier()
///     };
///     is_time.then(meet).unwrap_or(Ok(()))
/// }
///
/// meet_if(&pgas_core::backend::loopback::world(), true)?;
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub fn part_of_at(whole: &'static str, at: &'static Location<'static>) -> PartOf {
    PartOf::unless_inner(Some(whole), 0, at)
}

/// As [`part_of`], for what a call of the program `at` a line has left for later: a thread that
/// makes progress does it, in whatever call that waits. So the innermost of several counts.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use std::panic::Location;
///
/// use pgas_core::{Result, World};
///
/// /// Returns the second half of a call, for later.
/// #[track_caller]
/// fn meet_later(world: &World) -> impl FnOnce() -> Result<()> + use<> {
///     let (world, at) = (world.clone(), Location::caller());
///     move || {
///         let _waits = pgas_core::part_of_earlier("a late barrier", at);
///         world.barrier()
///     }
/// }
///
/// meet_later(&pgas_core::backend::loopback::world())()?;
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub fn part_of_earlier(whole: &'static str, at: &'static Location<'static>) -> PartOf {
    let call = ProgramCall {
        whole: Some(whole),
        object: 0,
        at,
    };
    PartOf {
        former: Some(PART_OF.replace(Some(call))),
        _thread: PhantomData,
    }
}

/// Until the value is dropped, this thread does no part of the call that it is in: it runs code of
/// the program, a handler or a task, in a call that waits.
pub(crate) fn apart() -> PartOf {
    PartOf {
        former: Some(PART_OF.replace(None)),
        _thread: PhantomData,
    }
}

/// The program's call that contains the wait or collective at line `from`, if it has declared its
/// name; else that line.
pub(crate) fn program_call(from: &'static Location<'static>) -> ProgramCall {
    PART_OF.get().unwrap_or(ProgramCall {
        whole: None,
        object: 0,
        at: from,
    })
}

/// The answers to a rank's question.
#[derive(Debug)]
pub(crate) struct Inquiry {
    /// The wait that asks.
    pub(crate) wait: u64,
    pub(crate) asked: Instant,
    pub(crate) answers: Vec<Option<Answer>>,
}

/// A rank's answer to the question what it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) edge: Edge,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) waits: Vec<Wait>,
    pub(crate) next_id: u64,
    pub(crate) inquiry: Option<Inquiry>,
    /// When another rank last asked, whose report is this rank's too.
    pub(crate) was_asked: Option<Instant>,
    /// When another rank last asked that looks for a circle.
    pub(crate) was_asked_early: Option<Instant>,
    /// How this rank waited for one that would leave when that last asked.
    leaver_awaited_by: Option<Awaiting>,
    /// Whether another rank waits for this one, which would leave.
    pub(crate) is_awaited: bool,
}

/// How a rank waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaiting {
    /// In a wait with this number, in which it has looked so often.
    In(u64, u32),
    /// It has begun so many collectives of the world.
    Ahead(u64),
}

/// The long waits of a rank.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<State>);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, from, .. } = self;
        write!(
            f,
            "waits {:.1}s for {what}",
            self.since.elapsed().as_secs_f64()
        )?;
        if let Some(call) = self.call {
            write!(f, ", number {}", call.number)?;
            if call.team != TeamId::WORLD {
                write!(f, " of team {} of {} ranks", call.team, call.n_ranks)?;
            }
        }
        if !self.missing.is_empty() {
            f.write_str(", of")?;
            for (i, rank) in self.missing.iter().take(8).enumerate() {
                let comma = if i > 0 { "," } else { "" };
                write!(f, "{comma} rank {rank}")?;
            }
            if self.missing.len() > 8 {
                write!(f, " and {} more", self.missing.len() - 8)?;
            }
        }
        if let Some(whole) = self.part_of {
            write!(f, ", as a part of {whole}")?;
        }
        write!(f, ", at {}:{}", from.file(), from.line())
    }
}

impl State {
    /// This rank's answer.
    pub(crate) fn answer(&self) -> Answer {
        let edge = match self.waits.as_slice() {
            [
                Wait {
                    call: Some(call),
                    missing,
                    ..
                },
            ] => missing.first().map(|rank| Edge::new(*rank, call.team)),
            _ => None,
        };
        Answer {
            edge: edge.unwrap_or(Edge::NONE),
            text: self.text(),
        }
    }

    /// Whether this rank waits in a collective for `rank`, which would leave and asks now and then,
    /// and did so when that asked before. It waits for `rank`, and has looked since: what was on its
    /// way has come. Or it has begun `ahead` collectives of the world, of which `rank` has not begun
    /// all, and waits in one or `has_tasks` to perform: nobody may know who is missing in them, and no
    /// wait may be for them.
    pub(crate) fn still_awaits(&mut self, rank: Rank, ahead: Option<u64>, has_tasks: bool) -> bool {
        let of_rank = |wait: &&Wait| wait.call.is_some() && wait.missing.contains(&rank);
        let of_world = |wait: &Wait| wait.call.is_some_and(|call| call.team == TeamId::WORLD);
        let now = match self.waits.iter().find(of_rank) {
            Some(wait) => Some(Awaiting::In(wait.id, wait.n_looks)),
            None => ahead
                .filter(|_| has_tasks || self.waits.iter().any(of_world))
                .map(Awaiting::Ahead),
        };
        let before = mem::replace(&mut self.leaver_awaited_by, now);
        match (now, before) {
            (Some(Awaiting::In(id, n_looks)), Some(Awaiting::In(id_before, n_before))) => {
                id == id_before && n_looks != n_before
            }
            (Some(Awaiting::Ahead(_)), before) => now == before,
            _ => false,
        }
    }

    /// A description of this rank's wait.
    pub(crate) fn text(&self) -> String {
        let waits: Vec<_> = self.waits.iter().map(ToString::to_string).collect();
        let mut text = if waits.is_empty() {
            "makes progress, and waits for nothing".to_owned()
        } else {
            waits.join("; another thread ")
        };
        let mut ends = (0..=MAX_ANSWER).rev();
        let end = ends.find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text
    }
}

impl Watch {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Records a wait, and returns its number and the line of the program for reports.
    pub(crate) fn note(
        &self,
        awaited: &Awaited<'_>,
        since: Instant,
        from: &'static Location<'static>,
    ) -> (u64, &'static Location<'static>) {
        let ProgramCall {
            whole: part_of,
            at: from,
            ..
        } = program_call(from);
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        state.waits.push(Wait {
            id,
            what: awaited.what,
            call: awaited.call,
            part_of,
            since,
            from,
            missing: Vec::new(),
            n_looks: 0,
        });
        (id, from)
    }

    /// A description of this rank's waits, if any was recorded.
    pub(crate) fn waits(&self) -> Option<String> {
        let state = lock(&self.0);
        (!state.waits.is_empty()).then(|| state.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_rank_that_would_leave_counts_when_it_goes_on() {
        let call = TeamCall {
            team: TeamId::WORLD,
            n_ranks: 2,
            number: 7,
        };
        let wait = |id, n_looks, call| Wait {
            id,
            what: "a barrier",
            call,
            part_of: None,
            since: Instant::now(),
            from: Location::caller(),
            missing: vec![Rank::ZERO],
            n_looks,
        };
        let mut state = State::default();
        let mut awaits = |waits| {
            state.waits = waits;
            state.still_awaits(Rank::ZERO, None, false)
        };
        assert!(!awaits(vec![wait(1, 1, Some(call))]));
        assert!(!awaits(vec![wait(2, 2, Some(call))]), "another wait");
        assert!(!awaits(vec![wait(2, 3, None)]), "no collective");
        assert!(!awaits(vec![wait(2, 4, Some(call))]));
        assert!(!awaits(vec![wait(2, 4, Some(call))]), "not looked since");
        assert!(awaits(vec![wait(2, 5, Some(call))]));
        state.waits[0].missing = vec![Rank::new(1)];
        assert!(!state.still_awaits(Rank::ZERO, None, false), "for another");
    }

    #[test]
    fn a_rank_that_would_leave_is_awaited_by_those_that_have_begun_more_collectives() {
        let mut state = State::default();
        let mut awaits = |ahead, has_tasks| state.still_awaits(Rank::ZERO, ahead, has_tasks);
        assert!(!awaits(Some(7), true));
        assert!(!awaits(Some(8), true), "other ones");
        assert!(awaits(Some(8), true));
        assert!(!awaits(Some(8), false), "they are over");
        assert!(!awaits(Some(8), true));
        assert!(!awaits(None, true), "no more than it");
    }

    #[test]
    fn a_wait_says_for_what_of_whom_and_from_where() {
        let mut state = State::default();
        assert!(state.text().contains("waits for nothing"));
        state.waits.push(Wait {
            id: 1,
            what: "a barrier",
            call: Some(TeamCall {
                team: TeamId::WORLD,
                n_ranks: 10,
                number: 7,
            }),
            part_of: None,
            since: Instant::now(),
            from: Location::caller(),
            missing: (0..10).map(Rank::new).collect(),
            n_looks: 0,
        });
        let text = state.text();
        assert!(text.starts_with("waits 0.0s for a barrier, number 7, of rank 0, rank 1,"));
        assert!(text.contains(" and 2 more, at "), "{text}");
        assert!(text.contains(file!()), "{text}");
        state.waits[0].call = Some(TeamCall {
            team: TeamId::new(Rank::new(3), 2),
            n_ranks: 4,
            number: 7,
        });
        let text = state.text();
        assert!(
            text.contains("a barrier, number 7 of team 3.2 of 4 ranks, of rank 0"),
            "{text}"
        );
        for _ in 0..10 {
            let wait = state.waits.pop().unwrap();
            state.waits.extend([
                Wait {
                    missing: Vec::new(),
                    ..wait
                },
                Wait {
                    id: 2,
                    what: "übergroße Dinge",
                    call: None,
                    part_of: None,
                    since: Instant::now(),
                    from: Location::caller(),
                    missing: Vec::new(),
                    n_looks: 0,
                },
            ]);
        }
        assert!(state.text().len() <= MAX_ANSWER);
    }
}
