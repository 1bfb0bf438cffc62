//! The teams of a rank by their names, which arrive in messages.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};

use super::Shared;
use crate::locks::lock;
use crate::team_id::TeamId;

/// The teams that this rank is a member of, but for that of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Teams(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    made: HashMap<TeamId, Weak<Shared>>,
    /// The number of splits that this rank has begun.
    n_splits: u64,
    /// The splits in which this rank takes part now, by their numbers, from 1.
    running: BTreeSet<u64>,
}

/// The splits of a rank, which have numbers from 1 in the order in which it has begun them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splits {
    pub n_begun: u64,
    pub n_ended: u64,
    /// The first one that has not ended.
    pub oldest: Option<u64>,
}

/// A guard of a split in which this rank takes part.
#[derive(Debug)]
pub(crate) struct Splitting<'a>(&'a Teams, u64);

impl Drop for Splitting<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).running.remove(&self.1);
    }
}

impl Teams {
    /// Begins a split. While the guard lives, members that were faster may name a team that is not
    /// known here yet.
    pub(crate) fn begin_split(&self) -> Splitting<'_> {
        let mut table = lock(&self.0);
        table.n_splits += 1;
        let number = table.n_splits;
        table.running.insert(number);
        drop(table);
        Splitting(self, number)
    }

    pub(crate) fn splits(&self) -> Splits {
        let table = lock(&self.0);
        Splits {
            n_begun: table.n_splits,
            n_ended: table.n_splits - table.running.len() as u64,
            oldest: table.running.first().copied(),
        }
    }

    /// Adds a new team, and forgets those without handles before the table would grow.
    pub(crate) fn add(&self, team: &Arc<Shared>) {
        let Table { made, .. } = &mut *lock(&self.0);
        if made.len() == made.capacity() {
            made.retain(|_, team| team.strong_count() > 0);
        }
        made.insert(team.id(), Arc::downgrade(team));
    }

    /// The team with this name, if this rank has a handle on it.
    pub(crate) fn find(&self, id: TeamId) -> Option<Arc<Shared>> {
        lock(&self.0).made.get(&id)?.upgrade()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Members;
    use crate::rank::Rank;

    #[test]
    fn teams_are_found_while_they_have_handles_and_take_no_room_after_that() {
        let teams = Teams::default();
        let make = |counter| {
            let id = TeamId::new(Rank::ZERO, counter);
            let team = Arc::new(Shared::new(id, Members::all(1), 0, None, Arc::default()));
            teams.add(&team);
            (id, team)
        };
        let (kept, team) = make(1);
        for counter in 2..1000 {
            let (dropped, team) = make(counter);
            assert!(teams.find(dropped).is_some());
            drop(team);
            assert!(teams.find(dropped).is_none());
        }
        assert!(Arc::ptr_eq(&teams.find(kept).unwrap(), &team));
        assert!(lock(&teams.0).made.capacity() < 20);
    }

    #[test]
    fn splits_have_numbers_and_the_oldest_one_that_runs_is_known() {
        let teams = Teams::default();
        let splits = |n_ended, oldest| Splits {
            n_begun: 2,
            n_ended,
            oldest,
        };
        let [first, second] = [teams.begin_split(), teams.begin_split()];
        assert_eq!(teams.splits(), splits(0, Some(1)));
        drop(first);
        assert_eq!(teams.splits(), splits(1, Some(2)));
        drop(second);
        assert_eq!(teams.splits(), splits(2, None));
    }
}
