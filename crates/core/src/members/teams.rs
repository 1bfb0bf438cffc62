//! The teams of a rank by their names, which arrive in messages.

use std::collections::HashMap;
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
    /// Splits in which this rank takes part now.
    n_splits: u32,
}

/// A guard of a split in which this rank takes part.
#[derive(Debug)]
pub(crate) struct Splitting<'a>(&'a Teams);

impl Drop for Splitting<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).n_splits -= 1;
    }
}

impl Teams {
    /// Begins a split. While the guard lives, members that were faster may name a team that is not
    /// known here yet.
    pub(crate) fn begin_split(&self) -> Splitting<'_> {
        lock(&self.0).n_splits += 1;
        Splitting(self)
    }

    pub(crate) fn is_splitting(&self) -> bool {
        lock(&self.0).n_splits > 0
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
            let team = Arc::new(Shared::new(id, Members::all(1), 0, None));
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
        let split = teams.begin_split();
        assert!(teams.is_splitting());
        drop(split);
        assert!(!teams.is_splitting());
    }
}
