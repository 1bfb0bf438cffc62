//! Calls that are put off: they name a team that a split of this rank is making, or they came
//! before this rank has learned how functions are named.
//!
//! They are looked at again when a split has ended or the names are known, and are no work for a
//! rank that waits until then.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas_core::backend::{HandlerId, Message};
use pgas_core::{Split, TeamId};

use crate::set_aside::{MAX_SET_ASIDE, SetAside};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// The names of functions.
    Names,
    /// A team, from a split.
    Team { team: TeamId, split: Split },
}

impl fmt::Display for Awaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names => f.write_str("the names of functions"),
            Self::Team { team, .. } => write!(f, "team {team}, which a split is making"),
        }
    }
}

/// The calls of a rank that are put off.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    list: Mutex<List>,
    /// The calls, also those that were taken out and do not go on yet.
    n: AtomicUsize,
}

#[derive(Debug, Default)]
struct List {
    calls: Vec<(SetAside, Awaits)>,
    /// What had happened at the last look.
    seen: Seen,
    /// Whether a call was added since.
    has_new: bool,
}

/// What may let calls go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    n_ended: u64,
    has_names: bool,
}

/// What this rank has of a team that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// A handle.
    Here,
    /// The split that makes it, in which it takes part.
    NotYet,
    /// Nothing: it is no member, or has dropped its handles.
    Elsewhere,
}

/// The calls that are no longer put off.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// What they name may be there now.
    pub(crate) ready: Vec<SetAside>,
    /// They name a team that this rank will never have a handle on.
    pub(crate) in_vain: Vec<(SetAside, TeamId)>,
}

impl PutOff {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call is put off.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.n.load(Ordering::Relaxed) > 0
    }

    /// Keeps a call, unless too many are kept.
    #[cold]
    pub(crate) fn keep(&self, message: &Message<'_>, awaits: Awaits) -> bool {
        let mut list = self.lock();
        if self.n.load(Ordering::Relaxed) >= MAX_SET_ASIDE {
            return false;
        }
        list.calls.push((SetAside::of(message), awaits));
        // What it waits for may have happened since it was read.
        list.has_new = true;
        // Changed under the lock.
        self.n.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes out the calls that need not wait any more, if something has happened since the last
    /// look. They count until they [went on](Self::went_on). The splits that have ended were
    /// counted before; `made` tells what this rank has of a team.
    #[cold]
    pub(crate) fn take_due(
        &self,
        has_names: bool,
        n_ended: u64,
        made: impl Fn(TeamId, Split) -> Made,
    ) -> Due {
        let now = Seen { n_ended, has_names };
        let mut list = self.lock();
        let seen = mem::replace(&mut list.seen, now);
        if !mem::take(&mut list.has_new) && seen == now {
            return Due::default();
        }
        let mut calls = mem::take(&mut list.calls);
        // The list is not locked while teams are looked up.
        drop(list);
        let mut due = Due::default();
        let mut waiting = Vec::new();
        for (call, awaits) in calls.drain(..) {
            match awaits {
                Awaits::Names if has_names => due.ready.push(call),
                Awaits::Names => waiting.push((call, awaits)),
                Awaits::Team { team, split } => match made(team, split) {
                    Made::Here => due.ready.push(call),
                    Made::NotYet => waiting.push((call, awaits)),
                    Made::Elsewhere => due.in_vain.push((call, team)),
                },
            }
        }
        let mut list = self.lock();
        waiting.append(&mut list.calls);
        list.calls = waiting;
        // Another thread has looked meanwhile, and has not seen these calls.
        list.has_new |= list.seen != now;
        due
    }

    /// Of the calls that were taken out, `n` go on.
    pub(crate) fn went_on(&self, n: usize) {
        self.n.fetch_sub(n, Ordering::Relaxed);
    }

    /// The number of calls of the `counted` handlers.
    pub(crate) fn n_of(&self, counted: impl Fn(HandlerId) -> bool) -> usize {
        let list = self.lock();
        let calls = list.calls.iter();
        calls.filter(|(call, _)| counted(call.handler)).count()
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::Rank;
    use pgas_core::backend::{MessageClass, loopback};

    use super::*;
    use crate::ids::CALL_FF;

    const TEAM: TeamId = TeamId::from_bits(7);
    const OTHER: TeamId = TeamId::from_bits(8);

    /// That of a team which needs none.
    fn split() -> Split {
        loopback::world().team().made_by()
    }

    fn keep(put_off: &PutOff, awaits: Awaits) -> bool {
        let message = Message {
            from: Rank::ZERO,
            class: MessageClass::Request,
            handler: CALL_FF,
            payload: b"bytes",
        };
        put_off.keep(&message, awaits)
    }

    /// Whether the calls that are due now are `n_ready`, and those in vain of `in_vain`.
    fn are_due(due: &Due, n_ready: usize, in_vain: &[TeamId]) -> bool {
        let teams = due.in_vain.iter().map(|(_, team)| *team);
        due.ready.len() == n_ready && teams.eq(in_vain.iter().copied())
    }

    #[test]
    fn calls_wait_for_their_splits_and_are_looked_at_when_one_has_ended() {
        let put_off = PutOff::default();
        let split = split();
        let never = |_, _| -> Made { panic!("nothing has happened") };
        for team in [TEAM, OTHER] {
            assert!(keep(&put_off, Awaits::Team { team, split }));
        }
        let due = put_off.take_due(true, 0, |_, _| Made::NotYet);
        assert!(are_due(&due, 0, &[]));
        assert!(are_due(&put_off.take_due(true, 0, never), 0, &[]));
        let made = |team, _| [Made::Elsewhere, Made::Here][usize::from(team == TEAM)];
        let due = put_off.take_due(true, 1, made);
        assert!(are_due(&due, 1, &[OTHER]));
        assert!(put_off.has_some(), "they do not go on yet");
        put_off.went_on(2);
        assert!(!put_off.has_some());
    }

    #[test]
    fn a_call_that_two_threads_look_at_is_looked_at_again() {
        let put_off = PutOff::default();
        let awaits = Awaits::Team {
            team: TEAM,
            split: split(),
        };
        assert!(keep(&put_off, awaits));
        let due = put_off.take_due(true, 0, |_, _| {
            // The split ends, and another thread looks.
            let due = put_off.take_due(true, 1, |_, _| Made::Here);
            assert!(are_due(&due, 0, &[]));
            Made::NotYet
        });
        assert!(are_due(&due, 0, &[]));
        let due = put_off.take_due(true, 1, |_, _| Made::Here);
        assert!(are_due(&due, 1, &[]));
    }

    #[test]
    fn a_call_that_comes_after_the_end_of_its_split_is_looked_at() {
        let put_off = PutOff::default();
        let never = |_, _| -> Made { panic!("there is no call") };
        assert!(are_due(&put_off.take_due(true, 1, never), 0, &[]));
        let awaits = Awaits::Team {
            team: TEAM,
            split: split(),
        };
        assert!(keep(&put_off, awaits));
        let due = put_off.take_due(true, 1, |_, _| Made::Here);
        assert!(are_due(&due, 1, &[]));
    }

    #[test]
    fn calls_before_the_names_wait_for_these_and_are_limited_in_number() {
        let put_off = PutOff::default();
        let never = |_, _| -> Made { panic!("no call names a team") };
        for _ in 0..MAX_SET_ASIDE {
            assert!(keep(&put_off, Awaits::Names));
        }
        assert!(!keep(&put_off, Awaits::Names));
        let due = put_off.take_due(false, 0, never);
        assert!(are_due(&due, 0, &[]));
        assert_eq!(put_off.n_of(|id| id == CALL_FF), MAX_SET_ASIDE);
        let due = put_off.take_due(true, 0, never);
        assert!(are_due(&due, MAX_SET_ASIDE, &[]));
    }
}
