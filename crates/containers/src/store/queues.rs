//! Queues.

use std::path::Path;

use pgas_core::{AsTeam, Member as _};

use super::manifest::About;
use super::{load, save};
use crate::object::Object;
use crate::queue::{Kind, Phase, Queue};
use crate::{Error, Result};

const QUEUE: &str = "queue";

impl<T: Object, P: Phase, K: Kind> Queue<T, P, K> {
    /// Writes the elements to a directory, in their order. They stay in the queue.
    ///
    /// # Cost
    ///
    /// 2B + 6 collectives + 2A; on the host 4A more, and ℓ for each element. Collective over the
    /// team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`], which names the file, if one cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::CircularQueue;
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-queue-{}", std::process::id()));
    /// let mut queue = CircularQueue::<u64>::with_capacity(&world, Rank::ZERO, 8)?;
    /// queue.push_slice(&[1, 2, 3])?;
    /// queue.save(&dir)?; // collective
    /// let again = CircularQueue::<u64>::load(&world, Rank::ZERO, &dir)?;
    /// assert_eq!(again.pop_many(9)?, [1, 2, 3]);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&mut self, dir: impl AsRef<Path>) -> Result<()> {
        let _waits = super::saving(self.identity());
        let (team, capacity) = (self.team().clone(), self.capacity());
        let about = About::of::<T>(&[capacity as u64]);
        self.with_settled(|ring| {
            save(&team, dir.as_ref(), QUEUE, (&[about], 0), |parts| {
                ring.for_each(&mut |element| parts[0].push(&element))
            })
        })
    }
}

impl<T: Object, K: Kind> Queue<T, K::First, K> {
    /// The queue that was [saved](Queue::save) in a directory, on `host`.
    ///
    /// # Cost
    ///
    /// That of [`with_capacity`](Self::with_capacity), a [`push`](Self::push) for each element by
    /// the first rank, and 4 collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`] if the directory holds no queue of such elements, if a
    /// file cannot be read or is not as it was written, or if there is no room for the queue;
    /// [`Error::Argument`] if there is no such host, and [`Error::Mismatch`] if the ranks name
    /// different ones.
    #[track_caller]
    pub fn load<G: AsTeam>(on: &G, host: G::Member, dir: impl AsRef<Path>) -> Result<Self> {
        let team = &on.as_team();
        let abouts = [About::of::<T>(&[0])];
        load(team, dir.as_ref(), (QUEUE, &abouts), |saved| {
            saved.expect_room()?;
            let queue = Self::with_capacity(on, host, saved.size(0)?);
            let queue = saved.made_with(host.number() >= team.n_ranks(), queue)?;
            let is_first = team.rank() == 0;
            let n = saved.n_elements(0)?;
            // The first rank reads all parts, so that the elements keep their order.
            let mine = || {
                let n = if is_first { n } else { 0 };
                let work = super::work(team.world(), "loading", &saved.dir, n);
                if !is_first {
                    return Ok(0);
                }
                for part in 0..saved.manifest.parts[0].len() {
                    let put = |_, element| queue.push(element).map_err(Error::from);
                    saved.read_part::<T>(0, part, &work, put)?;
                }
                Ok(0)
            };
            saved.together(team, mine)?;
            Ok(queue)
        })
    }
}
