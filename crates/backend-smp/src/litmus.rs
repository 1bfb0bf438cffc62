//! Litmus tests of fences: two threads each write a word and then read the other one's. At least
//! one sees what the other has written.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use pgas_core::{Config, Rank};

use crate::membarrier::{heavy, light, register};

/// The number of attempts, from `PGAS_TEST_TURNS`.
fn n_turns() -> u64 {
    pgas_testkit::setting("PGAS_TEST_TURNS", 10_000)
}

/// Words apart from each other's.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A spinning barrier of two threads, which leave it as simultaneously as possible.
#[derive(Default)]
struct Meeting {
    n_here: Line,
}

impl Meeting {
    fn meet(&self, turn: u64) {
        self.n_here.0.fetch_add(1, Relaxed);
        let mut n_looks = 0_u32;
        while self.n_here.0.load(Relaxed) < 2 * turn {
            n_looks += 1;
            if n_looks.is_multiple_of(1000) {
                // The other one may wait for this processor.
                thread::yield_now();
            } else {
                hint::spin_loop();
            }
        }
    }
}

/// Private memory, too much for a first-level cache. Some of it is written before a store that
/// should stay in the store buffer: stores leave a processor in their order, and those before it
/// have to wait for their lines.
struct Ballast {
    words: Vec<AtomicU64>,
    at: usize,
}

impl Ballast {
    const N_WORDS: usize = 4 << 20;
    /// Somewhat more than a processor keeps.
    const N_STORES: usize = 80;

    fn new() -> Self {
        // Not zero, so that each page is its own.
        let words = (0..Self::N_WORDS).map(|_| AtomicU64::new(1)).collect();
        Self { words, at: 0 }
    }

    fn store(&mut self, turn: u64) {
        for _ in 0..Self::N_STORES {
            // Through all words, in an order that no processor foresees.
            self.at = (self.at * 1_664_525 + 1_013_904_223) % Self::N_WORDS;
            self.words[self.at].store(turn, Relaxed);
        }
    }
}

/// The number of turns in which neither has seen the other. Each turn writes its number.
fn n_missed(seen: &[Vec<bool>]) -> usize {
    let both = seen[0].iter().zip(&seen[1]);
    both.filter(|(first, second)| !**first && !**second).count()
}

#[test]
fn of_a_light_fence_and_a_heavy_one_at_least_one_side_sees_the_other() {
    register();
    let (meeting, words) = (Meeting::default(), [Line::default(), Line::default()]);
    let fences: [fn(); 2] = [light, heavy];
    let seen: Vec<Vec<bool>> = thread::scope(|scope| {
        let sides = [0, 1].map(|me| {
            let (meeting, words, fence) = (&meeting, &words, fences[me]);
            scope.spawn(move || {
                let look = |turn| {
                    meeting.meet(turn);
                    words[me].0.store(turn, Relaxed);
                    fence();
                    words[1 - me].0.load(Relaxed) >= turn
                };
                (1..=n_turns()).map(look).collect()
            })
        });
        sides.map(|side| side.join().unwrap()).into()
    });
    assert_eq!(n_missed(&seen), 0, "of {}", n_turns());
}

/// Over the direct path, where a put is a store that may still be on its way when the next get
/// looks. In optimized code, that is: else more is stored between the two than a processor keeps,
/// so that who changes the fences for the worse has to look at such code
/// (`cargo xtask mutants rma.rs`).
#[test]
fn of_two_ranks_that_put_flush_and_get_at_least_one_sees_the_others_put() {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    for flushes_all in [false, true] {
        let meeting = Meeting::default();
        let seen = crate::threads_with(2, &config, |world| {
            // In lines of their own.
            let words = world.alloc_symmetric::<[u64; 32]>(1).unwrap();
            let other = Rank::new(1 - world.rank().number());
            let (mine, theirs) = (words.on(other).cast::<u64>(), words.here().cast::<u64>());
            let mut ballast = Ballast::new();
            let look = |turn| {
                meeting.meet(turn);
                ballast.store(turn);
                mine.put(&world, turn).unwrap();
                if flushes_all {
                    world.flush_all().unwrap();
                } else {
                    world.flush(other).unwrap();
                }
                theirs.get(&world).unwrap() >= turn
            };
            (1..=n_turns()).map(look).collect()
        });
        assert_eq!(n_missed(&seen.unwrap()), 0, "of {}", n_turns());
    }
}
