//! Questions to other ranks whether they have left the job.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The least time between two questions, on average over all ranks that are asked.
const PAUSE: Duration = Duration::from_millis(2);

/// The questions of a rank.
///
/// Each rank that is waited for gets its turn: a rank that answers at once, and is then asked
/// again, holds up no question to another one.
#[derive(Debug, Default)]
pub struct Questions {
    /// Ranks that have not answered yet. A busy rank is not asked again, or the questions would
    /// pile up.
    open: HashSet<u32>,
    /// When ranks were asked last, as far as they may be asked again.
    asked: HashMap<u32, Instant>,
}

impl Questions {
    /// Whether `rank` is to be asked at `now`, as it has been asked neither just before nor without
    /// an answer yet. If so, its next turn comes later.
    pub fn is_due(&mut self, rank: u32, now: Instant) -> bool {
        let pause = PAUSE * u32::try_from(self.asked.len().max(1)).unwrap_or(u32::MAX);
        let is_recent = |at: &Instant| now.duration_since(*at) <= pause;
        if self.is_open(rank) || self.asked.get(&rank).is_some_and(is_recent) {
            return false;
        }
        // Nobody asks the others any more.
        self.asked
            .retain(|_, at| now.duration_since(*at) <= 2 * pause);
        self.asked.insert(rank, now);
        true
    }

    /// Whether `rank` has a question to answer.
    #[must_use]
    pub fn is_open(&self, rank: u32) -> bool {
        self.open.contains(&rank)
    }

    /// Records a question to `rank`.
    pub fn begin(&mut self, rank: u32) {
        self.open.insert(rank);
    }

    /// Records the answer of `rank`.
    pub fn answered(&mut self, rank: u32) {
        self.open.remove(&rank);
    }

    /// Whether all questions are answered.
    #[must_use]
    pub fn are_answered(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks `ranks` in this order every 100 µs, for `time`, and returns the number of questions to
    /// each. Those in `busy` do not answer.
    fn questions(ranks: &[u32], busy: &[u32], time: Duration) -> HashMap<u32, u32> {
        let (mut questions, mut n_asked) = (Questions::default(), HashMap::new());
        let begin = Instant::now();
        let mut after = Duration::ZERO;
        while after < time {
            for rank in ranks {
                if questions.is_due(*rank, begin + after) {
                    questions.begin(*rank);
                    *n_asked.entry(*rank).or_default() += 1;
                }
            }
            ranks
                .iter()
                .filter(|rank| !busy.contains(rank))
                .for_each(|rank| questions.answered(*rank));
            after += Duration::from_micros(100);
        }
        n_asked
    }

    #[test]
    fn each_rank_gets_its_turn_whoever_answers_first() {
        let asked = questions(&[1, 5], &[], Duration::from_millis(50));
        assert!(asked[&1].abs_diff(asked[&5]) <= 1, "{asked:?}");
        let asked = questions(&[1, 5], &[1], Duration::from_millis(50));
        assert_eq!(asked[&1], 1, "it has not answered");
        assert!(asked[&5] > 5, "{asked:?}");
    }

    #[test]
    fn the_number_of_questions_does_not_grow_with_that_of_the_ranks() {
        let ranks: Vec<u32> = (0..100).collect();
        let asked = questions(&ranks, &[], Duration::from_secs(1));
        let n: u32 = asked.values().sum();
        assert!(asked.len() == 100 && (400..=600).contains(&n), "{n}");
    }

    #[test]
    fn ranks_that_nobody_asks_about_any_more_slow_down_no_question() {
        let mut questions = Questions::default();
        let now = Instant::now();
        assert!((0..100).all(|rank| questions.is_due(rank, now)));
        let n = (1..=1000_u32)
            .filter(|i| questions.is_due(7, now + Duration::from_millis(1) * *i))
            .count();
        assert!(n > 100, "{n}");
    }
}
