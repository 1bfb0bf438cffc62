//! The first failure that a rank knows of, and whether the ranks of other hosts were told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pgas_core::backend::Backend;
use pgas_core::{Error, Rank, Result};

use crate::neighbours::Neighbours;

/// A failed rank and the cause. Shared with a thread that watches over the process.
pub type Noted = Arc<OnceLock<(Rank, String)>>;

/// The first failure that a rank knows of.
#[derive(Debug, Default)]
pub struct FirstFailure {
    noted: Noted,
    /// Whether other ranks have to be told of it.
    is_untold: AtomicBool,
}

impl FirstFailure {
    /// The failure, where another thread may record it, too.
    pub fn noted(&self) -> &Noted {
        &self.noted
    }

    /// The failed rank and the cause.
    pub fn get(&self) -> Option<(Rank, &str)> {
        self.noted
            .get()
            .map(|(rank, cause)| (*rank, cause.as_str()))
    }

    /// The failure as an error.
    pub fn error(&self) -> Option<Error> {
        self.get()
            .map(|(rank, cause)| Error::rank_failed(rank, cause.to_owned()))
    }

    /// Records a failure that another rank has told, if it is the first one, and tells the ranks of
    /// this host and their launcher, which would blame one of them if it ended before the others
    /// hear of it.
    pub fn hear(&self, rank: Rank, cause: &str, neighbours: &Neighbours<impl Backend>) {
        self.record(rank, cause, neighbours);
    }

    /// Records a failure that this rank has found, if it is the first one, and tells the ranks of
    /// this host. Those of others are left to [`take_untold`](Self::take_untold).
    pub fn note(&self, rank: Rank, cause: &str, neighbours: &Neighbours<impl Backend>) {
        if self.record(rank, cause, neighbours) {
            // Release: pairs with the acquire of the thread that tells, which then sees the
            // failure.
            self.is_untold.store(true, Ordering::Release);
        }
    }

    /// Records a failure, if it is the first one, and says whether it is. The ranks of this host are
    /// told before: another thread that sees the failure may end this rank at once, which would
    /// then be the first to fail as far as they know.
    fn record(&self, rank: Rank, cause: &str, neighbours: &Neighbours<impl Backend>) -> bool {
        if self.noted.get().is_some() {
            return false;
        }
        neighbours.blame(rank, cause);
        self.noted.set((rank, cause.to_owned())).is_ok()
    }

    /// Whether other ranks have to be told.
    #[inline]
    pub fn is_untold(&self) -> bool {
        // Relaxed: a hint; `take_untold` synchronizes.
        self.is_untold.load(Ordering::Relaxed)
    }

    /// The failure that the caller is to tell the other ranks; each one is returned once.
    pub fn take_untold(&self) -> Option<(Rank, &str)> {
        // Acquire: pairs with the release in `note`.
        if !self.is_untold() || !self.is_untold.swap(false, Ordering::Acquire) {
            return None;
        }
        self.get()
    }

    /// Returns the failure as an error, even if so far only other ranks of this host know of it;
    /// then `blame` records it.
    ///
    /// # Errors
    ///
    /// The failure.
    pub fn check(
        &self,
        neighbours: &Neighbours<impl Backend>,
        blame: impl FnOnce(Rank, &str) -> Error,
    ) -> Result<()> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        neighbours.health().map_err(|error| match error {
            Error::RankFailed(failure) => blame(failure.rank, &failure.cause),
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{hint, thread};

    use pgas_core::backend::loopback::{self, Options};

    use super::*;
    use crate::host::Host;
    use crate::neighbours::Reach;

    fn neighbours() -> Neighbours<impl Backend> {
        let member = loopback::job(1, 4096, &Options::default()).remove(0);
        Neighbours::new(Host::new([4].into(), 0), Arc::new(member), true, Reach::Own)
    }

    fn never(rank: Rank, cause: &str) -> Error {
        panic!("rank {rank} {cause}")
    }

    #[test]
    fn the_first_failure_stays_and_is_taken_once() {
        let (failure, neighbours) = (FirstFailure::default(), neighbours());
        assert!(failure.check(&neighbours, never).is_ok());
        failure.note(Rank::new(7), "was the first one", &neighbours);
        failure.note(Rank::new(8), "came later", &neighbours);
        failure.hear(Rank::new(9), "was heard of later", &neighbours);
        let expected = (Rank::new(7), "was the first one");
        assert_eq!(failure.get(), Some(expected));
        assert!(failure.is_untold());
        assert_eq!(failure.take_untold(), Some(expected));
        assert_eq!(failure.take_untold(), None);
        let error = failure.check(&neighbours, never).unwrap_err().to_string();
        assert!(error.contains("rank 7 was the first one"), "{error}");
    }

    /// A thread that sees the failure may end this rank at once, and with it what it has not said.
    #[test]
    fn who_sees_a_failure_sees_that_the_host_knows_it() {
        for n in 0..if cfg!(miri) { 10 } else { 150 } {
            let (failure, neighbours) = (FirstFailure::default(), neighbours());
            thread::scope(|scope| {
                scope.spawn(|| match n % 2 {
                    0 => failure.hear(Rank::new(9), "was heard of", &neighbours),
                    _ => failure.note(Rank::new(9), "was found", &neighbours),
                });
                while failure.get().is_none() {
                    hint::spin_loop();
                }
                assert!(neighbours.health().is_err(), "{n}");
            });
        }
    }

    #[test]
    fn what_was_heard_is_told_by_who_has_found_it() {
        let (failure, neighbours) = (FirstFailure::default(), neighbours());
        failure.hear(Rank::new(9), "was heard of", &neighbours);
        assert!(neighbours.health().is_err());
        failure.note(Rank::new(7), "came later", &neighbours);
        assert_eq!(failure.take_untold(), None);
        assert_eq!(failure.get(), Some((Rank::new(9), "was heard of")));
    }

    #[test]
    fn a_failure_that_only_the_host_knows_is_blamed_by_the_jobs_number() {
        let (failure, neighbours) = (FirstFailure::default(), neighbours());
        neighbours.blame(Rank::new(3), "is of another host");
        let mut blamed = None;
        let error = failure.check(&neighbours, |rank, cause| {
            blamed = Some((rank, cause.to_owned()));
            Error::rank_failed(rank, cause.to_owned())
        });
        assert!(error.is_err());
        assert_eq!(
            blamed,
            Some((Rank::new(3), "is of another host".to_owned()))
        );
    }
}
