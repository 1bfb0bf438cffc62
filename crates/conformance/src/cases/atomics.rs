//! Every atomic of every type, compared with its sequential model.

use pgas_core::atomics::Flag;
use pgas_core::backend::AtomicOp;
use pgas_core::collective::op::Sum;
use pgas_core::{Event, GlobalPtr, Rank, Result, World};

use super::case;
use crate::Case;
use crate::model::{ModelAtomic, ModelInteger};
use crate::support::{assert_panics, neighbour, random_value};
use pgas_testkit::rng_of;

pub(super) const CASES: &[Case] = &[
    case!(1, atomics_on_u32_follow_the_model),
    case!(1, atomics_on_i32_follow_the_model),
    case!(1, atomics_on_u64_follow_the_model),
    case!(1, atomics_on_i64_follow_the_model),
    case!(1, atomics_on_addresses_follow_the_model),
    case!(1, atomics_on_bytes_follow_the_model),
    case!(1, atomics_on_halves_follow_the_model),
    case!(1, bytes_of_one_word_and_the_word_are_changed_by_all_ranks),
    case!(1, truth_values_are_changed_atomically),
    case!(1, atomics_on_f32_follow_the_model),
    case!(1, atomics_on_f64_follow_the_model),
    case!(1, compare_exchange_follows_the_model_for_every_type),
    case!(1, compare_exchange_of_floats_compares_bits),
    case!(1, integers_wrap_around),
    case!(1, named_methods_do_what_their_operations_do),
    case!(1, named_methods_that_begin_do_what_their_operations_do),
    case!(1, atomics_do_not_touch_neighbouring_words),
    case!(1, atomics_and_flushed_puts_see_each_other),
];

fn atomics_on_u32_follow_the_model(world: &World) -> Result<()> {
    follow::<u32>(world)
}

fn atomics_on_i32_follow_the_model(world: &World) -> Result<()> {
    follow::<i32>(world)
}

fn atomics_on_u64_follow_the_model(world: &World) -> Result<()> {
    follow::<u64>(world)
}

fn atomics_on_i64_follow_the_model(world: &World) -> Result<()> {
    follow::<i64>(world)
}

fn atomics_on_addresses_follow_the_model(world: &World) -> Result<()> {
    follow::<usize>(world)?;
    exchange::<usize>(world)?;
    methods::<usize>(world)?;
    follow::<isize>(world)?;
    exchange::<isize>(world)?;
    methods::<isize>(world)
}

fn atomics_on_bytes_follow_the_model(world: &World) -> Result<()> {
    follow::<i8>(world)?;
    exchange::<u8>(world)?;
    methods::<u8>(world)
}

fn atomics_on_halves_follow_the_model(world: &World) -> Result<()> {
    follow::<u16>(world)?;
    exchange::<i16>(world)?;
    methods::<i16>(world)
}

/// Three bytes by their own atomics, of which one also by compare-and-swap, the fourth by atomics
/// on the word; nothing is lost, and nothing carried over.
fn bytes_of_one_word_and_the_word_are_changed_by_all_ranks(world: &World) -> Result<()> {
    const ROUNDS: u32 = 101;
    let words = world.alloc_symmetric::<u32>(1)?;
    let word = words.on(Rank::ZERO);
    let byte = word.cast::<u8>();
    let flip = u32::from_ne_bytes([0, 0, 0, 1]);
    world.barrier()?;
    for _ in 0..ROUNDS {
        byte.fetch_add(world, 3)?;
        byte.add(1).atomic_sub(world, 1)?;
        let mut seen = byte.add(2).atomic_load(world)?;
        let next = |seen: u8| seen.wrapping_add(7);
        while let Err(other) = byte.add(2).compare_exchange(world, seen, next(seen))? {
            seen = other;
        }
        word.fetch_xor(world, flip)?;
    }
    world.barrier()?;
    let n = (ROUNDS * world.n_ranks()) as usize;
    let right = [3 * n, 255 * n, 7 * n, n % 2].map(|sum| u8::try_from(sum % 256).expect("a byte"));
    assert_eq!(byte.get_vec(world, 4)?, right);
    world.barrier()
}

fn truth_values_are_changed_atomically(world: &World) -> Result<()> {
    let flags = world.alloc_symmetric::<Flag>(3)?;
    let there = flags.on(neighbour(world, 1)).add(1);
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        let [a_flag, b_flag, not_b] = [a, b, !b].map(Flag::from);
        there.atomic_store(world, a_flag)?;
        world.flush(there.rank())?;
        assert_eq!(there.fetch_and(world, b_flag)?.get(), a);
        assert_eq!(there.swap(world, a_flag)?.get(), a & b);
        assert_eq!(there.fetch_or(world, b_flag)?.get(), a);
        assert_eq!(there.swap(world, a_flag)?.get(), a | b);
        assert_eq!(there.fetch_xor(world, b_flag)?.get(), a);
        assert_eq!(there.swap(world, a_flag)?.get(), a ^ b);
        let right = if a == b { Ok(a_flag) } else { Err(a_flag) };
        assert_eq!(there.compare_exchange(world, b_flag, not_b)?, right);
        let left = there.fetch_op_nb(world, AtomicOp::Load, Flag::FALSE)?;
        assert_eq!(left.wait()?, if a == b { not_b } else { a_flag });
    }
    assert_panics("truth values", || {
        there.fetch_op(world, AtomicOp::Add, Flag::TRUE)
    });
    world.barrier()?;
    // One of all ranks is the first.
    let winner = flags.on(Rank::ZERO);
    let is_first = !winner.fetch_or(world, Flag::TRUE)?.get();
    assert_eq!(world.allreduce(u32::from(is_first), Sum)?, 1);
    assert!(!flags.here().add(2).get(world)?.get(), "bytes beside them");
    world.barrier()
}

fn atomics_on_f32_follow_the_model(world: &World) -> Result<()> {
    follow::<f32>(world)
}

fn atomics_on_f64_follow_the_model(world: &World) -> Result<()> {
    follow::<f64>(world)
}

/// The form of an operation.
#[derive(Clone, Copy, Debug)]
enum Form {
    Fetching,
    Plain,
    NonBlocking,
    PlainNonBlocking,
}

const FORMS: [Form; 4] = [
    Form::Fetching,
    Form::Plain,
    Form::NonBlocking,
    Form::PlainNonBlocking,
];

/// An operation on a word that holds `start`.
#[derive(Clone, Copy, Debug)]
struct Step<T> {
    op: AtomicOp,
    form: Form,
    start: T,
    operand: T,
}

impl<T: ModelAtomic> Step<T> {
    /// Performs the operation, and checks the former value.
    fn run(self, world: &World, word: GlobalPtr<T>) -> Result<()> {
        let Self {
            op, start, operand, ..
        } = self;
        let former = match self.form {
            Form::Fetching => word.fetch_op(world, op, operand)?,
            Form::NonBlocking => word.fetch_op_nb(world, op, operand)?.wait()?,
            Form::Plain => {
                word.atomic_op(world, op, operand)?;
                return world.flush(word.rank());
            }
            Form::PlainNonBlocking => return word.atomic_op_nb(world, op, operand)?.wait(),
        };
        // The value is returned without computation, so no bit may change.
        assert_eq!(former.to_bits(), start.to_bits(), "{self:?}: former value");
        Ok(())
    }

    /// Checks the value that the operation has left.
    fn check(self, seen: T) {
        let right = self.start.after(self.op, self.operand);
        assert!(
            seen.is_like(right),
            "{self:?}: {seen:?} instead of {right:?}"
        );
        if matches!(self.op, AtomicOp::Load | AtomicOp::Swap) {
            assert_eq!(seen.to_bits(), right.to_bits(), "{self:?}");
        }
    }
}

/// Each operation in each form on each pair of edge values, then long random sequences.
fn follow<T: ModelAtomic>(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<T>(4)?;
    let word = array.on(neighbour(world, 1)).add(1);
    let mut last: Option<Step<T>> = None;
    for &op in T::ops() {
        for start in T::edges() {
            for operand in T::edges() {
                for form in FORMS {
                    let step = Step {
                        op,
                        form,
                        start,
                        operand,
                    };
                    // One round trip sees what the last step left, and prepares the next one.
                    let left = word.swap(world, start)?;
                    if let Some(last) = last.replace(step) {
                        last.check(left);
                    }
                    step.run(world, word)?;
                }
            }
        }
    }
    let mut rng = rng_of(world, 50);
    let mut value = T::from_bits(0);
    let left = word.swap(world, value)?;
    last.expect("there are operations").check(left);
    for _ in 0..500 {
        let op = T::ops()[rng.usize(..T::ops().len())];
        let form = FORMS[rng.usize(..FORMS.len())];
        let operand = if rng.bool() {
            random_value(&mut rng)
        } else {
            T::edges()[rng.usize(..T::edges().len())]
        };
        let step = Step {
            op,
            form,
            start: value,
            operand,
        };
        step.run(world, word)?;
        value = word.atomic_load(world)?;
        step.check(value);
    }
    world.barrier()
}

fn compare_exchange_follows_the_model_for_every_type(world: &World) -> Result<()> {
    exchange::<u32>(world)?;
    exchange::<i32>(world)?;
    exchange::<u64>(world)?;
    exchange::<i64>(world)?;
    exchange::<f32>(world)?;
    exchange::<f64>(world)
}

fn exchange<T: ModelAtomic>(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<T>(2)?;
    let word = array.on(neighbour(world, 1)).add(1);
    let mut left = T::from_bits(0);
    word.swap(world, left)?;
    for start in T::edges() {
        for expected in T::edges() {
            for new in T::edges() {
                // One round trip sees what the last exchange left, and prepares the next one.
                let seen = word.swap(world, start)?;
                let what = || format!("{expected:?} -> {new:?} on {start:?}");
                assert_eq!(seen.to_bits(), left.to_bits(), "before {}", what());
                let outcome = word.compare_exchange(world, expected, new)?;
                let fits = expected.to_bits() == start.to_bits();
                assert_eq!(outcome.is_ok(), fits, "{}", what());
                let former = outcome.unwrap_or_else(|seen| seen);
                assert_eq!(former.to_bits(), start.to_bits(), "{}", what());
                left = if fits { new } else { start };
            }
        }
    }
    assert_eq!(word.atomic_load(world)?.to_bits(), left.to_bits());
    world.barrier()
}

fn compare_exchange_of_floats_compares_bits(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<f64>(1)?;
    let word = array.on(neighbour(world, 1));
    word.swap(world, -0.0)?;
    assert!(word.compare_exchange(world, 0.0, 1.0)?.is_err());
    assert!(word.compare_exchange(world, -0.0, 1.0)?.is_ok());
    let nan = f64::from_bits(0x7ff8_0000_0000_1234);
    word.swap(world, nan)?;
    assert!(word.compare_exchange(world, f64::NAN, 2.0)?.is_err());
    assert!(word.compare_exchange(world, nan, 2.0)?.is_ok());
    assert_eq!(word.atomic_load(world)?.to_bits(), 2.0_f64.to_bits());
    world.barrier()
}

fn integers_wrap_around(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(1)?;
    let word = array.on(neighbour(world, 1));
    assert_eq!(word.fetch_dec(world)?, 0);
    assert_eq!(word.fetch_inc(world)?, u64::MAX);
    assert_eq!(word.fetch_sub(world, 5)?, 0);
    assert_eq!(word.fetch_add(world, 5)?, u64::MAX - 4);
    let small = word.cast::<i32>();
    assert_eq!(small.fetch_sub(world, i32::MIN)?, 0);
    assert_eq!(small.fetch_dec(world)?, i32::MIN);
    assert_eq!(small.atomic_load(world)?, i32::MAX);
    assert_eq!(
        small.add(1).atomic_load(world)?,
        0,
        "no carry into the next word"
    );
    world.barrier()
}

fn named_methods_do_what_their_operations_do(world: &World) -> Result<()> {
    methods::<u32>(world)?;
    methods::<i32>(world)?;
    methods::<u64>(world)?;
    methods::<i64>(world)
}

fn methods<T: ModelInteger>(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<T>(1)?;
    let word = array.on(neighbour(world, 1));
    let mut value = T::from_bits(0);
    for a in T::edges() {
        let mut check = |former: T, op, operand| {
            assert_eq!(former, value, "{op:?}");
            value = value.after(op, operand);
        };
        check(word.swap(world, a)?, AtomicOp::Swap, a);
        for b in T::edges() {
            check(word.fetch_add(world, b)?, AtomicOp::Add, b);
            check(word.fetch_xor(world, b)?, AtomicOp::Xor, b);
            check(word.fetch_sub(world, b)?, AtomicOp::Add, b.negated());
            check(word.fetch_or(world, b)?, AtomicOp::Or, b);
            check(word.fetch_inc(world)?, AtomicOp::Add, T::ONE);
            check(word.fetch_max(world, b)?, AtomicOp::Max, b);
            check(word.fetch_dec(world)?, AtomicOp::Add, T::ONE.negated());
            check(word.fetch_min(world, b)?, AtomicOp::Min, b);
            check(word.fetch_and(world, b)?, AtomicOp::And, b);
            let former = word.atomic_load(world)?;
            word.atomic_store(world, b)?;
            world.flush(word.rank())?;
            check(former, AtomicOp::Swap, b);
        }
        assert_eq!(word.atomic_load(world)?, value);
        // Those without a result.
        let mut unseen = |done: Result<()>, op, operand| -> Result<()> {
            done?;
            world.flush(word.rank())?;
            value = value.after(op, operand);
            assert_eq!(word.atomic_load(world)?, value, "{op:?}");
            Ok(())
        };
        for b in T::edges() {
            unseen(word.atomic_add(world, b), AtomicOp::Add, b)?;
            unseen(word.atomic_xor(world, b), AtomicOp::Xor, b)?;
            unseen(word.atomic_sub(world, b), AtomicOp::Add, b.negated())?;
            unseen(word.atomic_or(world, b), AtomicOp::Or, b)?;
            unseen(word.atomic_inc(world), AtomicOp::Add, T::ONE)?;
            unseen(word.atomic_max(world, b), AtomicOp::Max, b)?;
            unseen(word.atomic_dec(world), AtomicOp::Add, T::ONE.negated())?;
            unseen(word.atomic_min(world, b), AtomicOp::Min, b)?;
            unseen(word.atomic_and(world, b), AtomicOp::And, b)?;
        }
    }
    world.barrier()
}

fn named_methods_that_begin_do_what_their_operations_do(world: &World) -> Result<()> {
    begun::<u16>(world)?;
    begun::<i32>(world)?;
    begun::<u64>(world)
}

fn begun<T: ModelInteger>(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<T>(1)?;
    let word = array.on(neighbour(world, 1));
    let mut value = T::from_bits(0);
    for b in T::edges() {
        let mut check = |former: Event<T>, op, operand| -> Result<()> {
            assert_eq!(former.wait()?, value, "{op:?}");
            value = value.after(op, operand);
            Ok(())
        };
        check(word.swap_nb(world, b)?, AtomicOp::Swap, b)?;
        check(word.fetch_add_nb(world, b)?, AtomicOp::Add, b)?;
        check(word.fetch_xor_nb(world, b)?, AtomicOp::Xor, b)?;
        check(word.fetch_sub_nb(world, b)?, AtomicOp::Add, b.negated())?;
        check(word.fetch_or_nb(world, b)?, AtomicOp::Or, b)?;
        check(word.fetch_inc_nb(world)?, AtomicOp::Add, T::ONE)?;
        check(word.fetch_max_nb(world, b)?, AtomicOp::Max, b)?;
        check(word.fetch_dec_nb(world)?, AtomicOp::Add, T::ONE.negated())?;
        check(word.fetch_min_nb(world, b)?, AtomicOp::Min, b)?;
        check(word.fetch_and_nb(world, b)?, AtomicOp::And, b)?;
        check(word.atomic_load_nb(world)?, AtomicOp::Load, b)?;
        // Those without a result: done with the event, without a flush.
        let mut unseen = |begun: Event<()>, op, operand| -> Result<()> {
            begun.wait()?;
            value = value.after(op, operand);
            assert_eq!(word.get(world)?, value, "{op:?}");
            Ok(())
        };
        unseen(word.atomic_add_nb(world, b)?, AtomicOp::Add, b)?;
        unseen(word.atomic_xor_nb(world, b)?, AtomicOp::Xor, b)?;
        unseen(word.atomic_sub_nb(world, b)?, AtomicOp::Add, b.negated())?;
        unseen(word.atomic_or_nb(world, b)?, AtomicOp::Or, b)?;
        unseen(word.atomic_inc_nb(world)?, AtomicOp::Add, T::ONE)?;
        unseen(word.atomic_max_nb(world, b)?, AtomicOp::Max, b)?;
        unseen(word.atomic_dec_nb(world)?, AtomicOp::Add, T::ONE.negated())?;
        unseen(word.atomic_min_nb(world, b)?, AtomicOp::Min, b)?;
        unseen(word.atomic_and_nb(world, b)?, AtomicOp::And, b)?;
        unseen(word.atomic_store_nb(world, b)?, AtomicOp::Swap, b)?;
    }
    world.barrier()
}

fn atomics_do_not_touch_neighbouring_words(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u32>(7)?;
    let there = array.on(neighbour(world, 1));
    for i in [1, 2, 5] {
        there.put_slice(world, &[0xffff_ffff; 7])?;
        world.flush(there.rank())?;
        let word = there.add(i);
        word.fetch_inc(world)?;
        word.fetch_dec(world)?;
        word.swap(world, 0)?;
        word.fetch_sub(world, 1)?;
        word.fetch_and(world, 0)?;
        let float = word.cast::<f32>();
        float.fetch_add(world, 1.5)?;
        let seen = there.get_vec(world, 7)?;
        for (j, value) in seen.into_iter().enumerate() {
            let right = if i == j { 1.5_f32.to_bits() } else { u32::MAX };
            assert_eq!(value, right, "word {j}, atomics on word {i}");
        }
    }
    world.barrier()
}

fn atomics_and_flushed_puts_see_each_other(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(1)?;
    let word = array.on(neighbour(world, 1));
    for round in 0..50 {
        word.put(world, round * 10)?;
        world.flush(word.rank())?;
        assert_eq!(word.fetch_add(world, 1)?, round * 10);
        assert_eq!(word.get(world)?, round * 10 + 1);
        word.atomic_op(world, AtomicOp::Add, 2)?;
        world.flush(word.rank())?;
        assert_eq!(word.get(world)?, round * 10 + 3);
        assert_eq!(word.get_vec(world, 1)?, [round * 10 + 3]);
    }
    world.barrier()
}
