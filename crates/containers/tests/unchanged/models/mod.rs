//! Random operations on each container and on a model of it, of which some are refused: for what
//! cannot be encoded, or has no room, or for an argument. After each refusal, and at the end, the
//! container is what its model is.
//!
//! One rank does what is one-sided, and keeps the model; the others take part in what is
//! collective, and hold slots and elements.

mod maps;
mod others;
mod queues;

use pgas_containers::Error;
use pgas_core::{Rank, World};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::common::{Picky, everywhere};

/// Sequences of operations that are tried for each container, each of them over three transports.
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
        // What fails is a panic on a rank's thread, and the same for each shorter sequence that it
        // is tried with.
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

/// Whether this rank does what is one-sided.
fn is_first(world: &World) -> bool {
    world.rank() == Rank::ZERO
}

/// Texts in their slots and outside of them, and such as cannot be written, or read, or have no
/// room.
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

/// A refusal of `text` that has a reason. `was_read` are texts that had to be read before.
fn assert_reason(error: &Error, text: &Picky, was_read: Option<&Picky>, may_be_full: bool) {
    let has_reason = match error {
        Error::Codec(_) => !is_written(text) || was_read.is_some_and(|text| !is_read(text)),
        Error::Full { .. } => may_be_full,
        Error::Exhausted(_) => text.0.len() >= HUGE,
        _ => false,
    };
    assert!(has_reason, "{error} for {:.20}", text.0);
}

/// What is got is what the model has, which may be a text that nobody reads.
fn assert_got(got: Result<Option<Picky>, Error>, expected: Option<&Picky>) {
    match (got, expected) {
        (Err(Error::Codec(_)), Some(text)) if !is_read(text) => {}
        (Ok(got), expected) => assert_eq!(got.as_ref(), expected),
        (Err(error), expected) => panic!("{error} instead of {expected:.20?}"),
    }
}
