//! The teams of a rank by their names, which arrive in messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::Shared;
use crate::locks::lock;
use crate::team_id::{Split, TeamId};

/// The teams that this rank is a member of, but for that of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Teams(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    made: HashMap<TeamId, Weak<Shared>>,
    /// The splits in which this rank takes part now. A few.
    running: Vec<Split>,
    /// The number of splits in which this rank has taken part.
    n_ended: u64,
}

/// A guard of a split in which this rank takes part.
#[derive(Debug)]
pub(crate) struct Splitting<'a>(&'a Teams, Split);

impl Drop for Splitting<'_> {
    fn drop(&mut self) {
        let mut table = lock(&self.0.0);
        let at = table.running.iter().position(|split| *split == self.1);
        table
            .running
            .swap_remove(at.expect("the guard is dropped once"));
        table.n_ended += 1;
    }
}

impl Teams {
    /// Begins a split. While the guard lives, members that were faster may name a team that is not
    /// known here yet.
    pub(crate) fn begin_split(&self, split: Split) -> Splitting<'_> {
        lock(&self.0).running.push(split);
        Splitting(self, split)
    }

    /// Whether this rank takes part in `split` now.
    pub(crate) fn is_in(&self, split: Split) -> bool {
        lock(&self.0).running.contains(&split)
    }

    /// The number of splits that have ended here.
    pub(crate) fn n_splits_ended(&self) -> u64 {
        lock(&self.0).n_ended
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
            let team = Arc::new(Shared::new(
                id,
                Split::NONE,
                Members::all(1),
                0,
                None,
                Arc::default(),
            ));
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
    fn a_split_runs_until_the_last_of_its_guards_is_dropped() {
        let teams = Teams::default();
        let [one, other] = [1, 2].map(|call| Split::new(TeamId::WORLD, call));
        // A handler that begins a split gets no number of its own.
        let guards = [one, other, one].map(|split| teams.begin_split(split));
        for (n_ended, guard) in (1..).zip(guards) {
            assert_eq!(teams.is_in(one), n_ended < 4);
            assert_eq!(teams.is_in(other), n_ended < 3);
            drop(guard);
            assert_eq!(teams.n_splits_ended(), n_ended);
        }
        assert!(![one, other].into_iter().any(|split| teams.is_in(split)));
    }
}
