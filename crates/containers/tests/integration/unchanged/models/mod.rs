//! Random operations on each container and on a model of it. Some are refused: a value cannot be
//! encoded or has no room, or an argument is wrong. After each refusal, and at the end, the
//! container equals its model.
//!
//! One rank performs the one-sided operations and keeps the model. The others take part in the
//! collective ones, and hold slots and elements.

mod maps;
mod others;
mod queues;

use pgas_containers::Error;
use pgas_core::{Rank, World};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::common::{Picky, everywhere};

/// The number of sequences of operations for each container. Each runs over three transports.
const N_SEQUENCES: u32 = if cfg!(debug_assertions) { 8 } else { 100 };

const SEGMENT: u64 = 1 << 19;

/// Longer than a segment.
const HUGE: usize = 5 << 17;

/// Runs `check` on two ranks for many sequences of operations.
fn with_many<Op: Clone + std::fmt::Debug + Sync + Send>(
    op: impl Strategy<Value = Op>,
    check: impl Fn(&World, &[Op]) + Sync,
) {
    let config = Config {
        cases: N_SEQUENCES,
        // A failure is a panic on a rank's thread, also for each shorter sequence that is tried
        // afterwards.
        max_shrink_iters: 50,
        failure_persistence: None,
        ..Config::default()
    };
    let ops = prop::collection::vec(op, 1..30);
    let run = |ops: Vec<Op>| {
        everywhere(2, SEGMENT, |world| {
            check(&world, &ops);
            world.barrier().unwrap();
        });
        Ok(())
    };
    TestRunner::new(config).run(&ops, run).unwrap();
}

/// Whether this rank performs the one-sided operations.
fn is_first(world: &World) -> bool {
    world.rank() == Rank::ZERO
}

/// Texts in their slots and outside of them, texts that cannot be written or read, and texts that
/// have no room.
fn text() -> impl Strategy<Value = Picky> {
    prop_oneof![
        4 => (0..4_usize).prop_map(|n| Picky::of(&"abc"[..n])),
        3 => (1..4_usize).prop_map(|n| Picky::long(&"abc"[..n])),
        1 => Just(Picky::of("!w")),
        1 => Just(Picky::long("!w")),
        1 => Just(Picky::of("!r")),
        1 => Just(Picky::long("!r")),
        1 => Just(Picky("h".repeat(HUGE))),
    ]
}

fn is_written(text: &Picky) -> bool {
    !text.0.starts_with("!w")
}

fn is_read(text: &Picky) -> bool {
    !text.0.starts_with("!r")
}

/// Asserts that the refusal of `text` has a reason. `was_read` is a text that had to be read
/// before.
fn assert_reason(error: &Error, text: &Picky, was_read: Option<&Picky>, may_be_full: bool) {
    let has_reason = match error {
        Error::Codec(_) => !is_written(text) || was_read.is_some_and(|text| !is_read(text)),
        Error::Full { .. } => may_be_full,
        Error::Exhausted(_) => text.0.len() >= HUGE,
        _ => false,
    };
    assert!(has_reason, "{error} for {:.20}", text.0);
}

/// Asserts that the result equals the model's, which may be a text that cannot be read.
fn assert_got(got: Result<Option<Picky>, Error>, expected: Option<&Picky>) {
    match (got, expected) {
        (Err(Error::Codec(_)), Some(text)) if !is_read(text) => {}
        (Ok(got), expected) => assert_eq!(got.as_ref(), expected),
        (Err(error), expected) => panic!("{error} instead of {expected:.20?}"),
    }
}
