//! Mistakes of the caller panic with a message that names them, and leave all memory unchanged.

use pgas_core::atomics::{AtomicDomain, AtomicOps};
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::rma::{Fragment, Strides};
use pgas_core::{GlobalPtr, Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::{assert_panics, neighbour};

pub(super) const CASES: &[Case] = &[
    case!(1, accesses_through_null_panic),
    case!(1, accesses_outside_of_a_segment_panic_and_write_nothing),
    case!(1, accesses_to_ranks_that_the_job_does_not_have_panic),
    case!(1, misaligned_accesses_panic_and_write_nothing),
    case!(1, lengths_that_overflow_panic),
    case!(
        1,
        fragments_and_strides_that_do_not_fit_panic_and_write_nothing
    ),
    case!(1, bitwise_atomics_on_floats_panic),
    case!(1, operations_outside_of_an_atomic_domain_panic),
    case!(2, a_signal_on_another_rank_than_its_data_panics),
    case!(2, waiting_for_a_word_of_another_rank_panics),
    case!(1, what_is_not_a_live_allocation_cannot_be_freed),
];

const OUTSIDE: &str = "do not lie within a segment";

fn accesses_through_null_panic(world: &World) -> Result<()> {
    let null = GlobalPtr::<u64>::NULL;
    let part = "null global pointer";
    assert_panics(part, || null.get(world));
    assert_panics(part, || null.put(world, 1));
    assert_panics(part, || null.get_slice(world, &mut [0; 4]));
    assert_panics(part, || null.put_slice(world, &[1; 4]));
    assert_panics(part, || null.get_nb(world));
    assert_panics(part, || null.put_nb(world, 1));
    assert_panics(part, || null.get_vec_nb(world, 2));
    assert_panics(part, || null.put_vec_nb(world, vec![1]));
    assert_panics(part, || null.fetch_add(world, 1));
    assert_panics(part, || null.atomic_store(world, 1));
    assert_panics(part, || null.fetch_op_nb(world, AtomicOp::Add, 1));
    assert_panics(part, || null.compare_exchange(world, 0, 1));
    // The first bytes of a segment are out of bounds, too: null and small offsets.
    assert_panics(OUTSIDE, || GlobalPtr::<u64>::new(Rank::ZERO, 8).get(world));
    assert_panics(OUTSIDE, || {
        GlobalPtr::<u8>::new(Rank::ZERO, 63).put(world, 1)
    });
    world.barrier()
}

fn accesses_outside_of_a_segment_panic_and_write_nothing(world: &World) -> Result<()> {
    let bytes = world.segment_bytes();
    let rank = neighbour(world, 1);
    let end = GlobalPtr::<u64>::new(rank, bytes);
    let last = GlobalPtr::<u64>::new(rank, bytes - 8);
    let before = last.get(world)?;
    assert_panics(OUTSIDE, || end.get(world));
    assert_panics(OUTSIDE, || end.put(world, 1));
    assert_panics(OUTSIDE, || end.fetch_add(world, 1));
    assert_panics(OUTSIDE, || last.add(1).put_nb(world, 1));
    assert_panics(OUTSIDE, || last.get_vec(world, 2));
    assert_panics(OUTSIDE, || last.put_slice(world, &[1, 2]));
    assert_panics(OUTSIDE, || last.cast::<[u64; 2]>().put(world, [1, 2]));
    assert_panics(OUTSIDE, || world.scope(|scope| scope.put(last, &[1, 2])));
    let far = GlobalPtr::<u64>::new(rank, (1 << 40) - 8);
    assert_panics(OUTSIDE, || far.put(world, 1));
    assert_panics(OUTSIDE, || far.compare_exchange(world, 0, 1));
    world.barrier()?;
    assert_eq!(last.get(world)?, before);
    world.barrier()
}

fn accesses_to_ranks_that_the_job_does_not_have_panic(world: &World) -> Result<()> {
    for number in [world.n_ranks(), world.n_ranks() + 100, Rank::LIMIT - 1] {
        let cell = GlobalPtr::<u64>::new(Rank::new(number), 4096);
        assert_panics("but the job has ranks 0 to", || cell.get(world));
        assert_panics("but the job has ranks 0 to", || cell.put(world, 1));
        assert_panics("but the job has ranks 0 to", || cell.put_nb(world, 1));
        assert_panics("but the job has ranks 0 to", || cell.fetch_add(world, 1));
        assert_panics("but the job has ranks 0 to", || {
            world.get_fragments(&[Fragment { ptr: cell, len: 1 }], &mut [0])
        });
    }
    world.barrier()
}

fn misaligned_accesses_panic_and_write_nothing(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(2)?;
    let there = array.on(neighbour(world, 1));
    for shift in 1..8 {
        let crooked = there.byte_add(shift);
        assert_panics("not aligned", || crooked.get(world));
        assert_panics("not aligned", || crooked.put(world, u64::MAX));
        assert_panics("not aligned", || crooked.put_slice(world, &[u64::MAX]));
        assert_panics("not aligned", || crooked.fetch_add(world, u64::MAX));
        assert_panics("not aligned", || crooked.atomic_store(world, u64::MAX));
        assert_panics("not aligned", || {
            crooked.compare_exchange(world, 0, u64::MAX)
        });
        if shift % 4 != 0 {
            assert_panics("not aligned", || crooked.cast::<f32>().swap(world, 1.0));
        }
    }
    world.barrier()?;
    assert_eq!(array.here().get_vec(world, 2)?, [0, 0]);
    world.barrier()
}

fn lengths_that_overflow_panic(world: &World) -> Result<()> {
    let cell = world.alloc::<u64>(1)?;
    for n in [usize::MAX, usize::MAX / 8, usize::MAX / 8 + 2, 1 << 40] {
        assert_panics(OUTSIDE, || cell.get_vec(world, n));
        assert_panics(OUTSIDE, || cell.get_vec_nb(world, n));
    }
    assert_panics("overflows 2^40", || cell.add(usize::MAX));
    assert_panics("overflows 2^40", || cell.add(1 << 38));
    assert_panics("overflows 2^40", || cell.byte_add(u64::MAX));
    world.free(cell);
    world.barrier()
}

fn fragments_and_strides_that_do_not_fit_panic_and_write_nothing(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u32>(16)?;
    let there = array.on(neighbour(world, 1));
    let good = Fragment { ptr: there, len: 4 };
    let ones = [1; 8];
    assert_panics("the fragments have 4 elements, the local slice 8", || {
        world.put_fragments(&[good], &ones)
    });
    let bad = Fragment {
        ptr: GlobalPtr::new(there.rank(), world.segment_bytes() - 8),
        len: 4,
    };
    assert_panics(OUTSIDE, || world.put_fragments(&[good, bad], &ones));
    assert_panics(OUTSIDE, || world.get_fragments(&[good, bad], &mut [0; 8]));
    let huge = Fragment {
        ptr: there,
        len: usize::MAX,
    };
    assert_panics(OUTSIDE, || world.put_fragments(&[good, huge], &ones));
    assert_panics("null", || {
        world.put_indexed(GlobalPtr::NULL, &[0], 4, &ones[..4])
    });
    assert_panics("overflows", || {
        world.get_indexed_nb(there, &[0, usize::MAX], 2)
    });

    let beyond = |extents, global, local| Strides {
        extents,
        global,
        local,
    };
    let too_long_here = beyond([4, 2], [4, 1], [3, 1]);
    assert_panics("local slice", || {
        there.put_strided(world, &too_long_here, &ones)
    });
    let too_long_there = beyond([2, 2], [1 << 40, 1], [2, 1]);
    assert_panics(OUTSIDE, || there.put_strided(world, &too_long_there, &ones));
    let overflowing = beyond([2, 2], [usize::MAX, 1], [2, 1]);
    assert_panics("", || there.put_strided(world, &overflowing, &ones));
    let overflowing = beyond([usize::MAX, 2], [1, 1], [usize::MAX, 1]);
    assert_panics("local slice", || {
        there.get_strided(world, &overflowing, &mut [0; 8])
    });
    let uncounted = beyond([1 << 32, 1 << 32], [0, 0], [0, 0]);
    let part = "more elements than can be counted";
    assert_panics(part, || there.put_strided(world, &uncounted, &ones));
    assert_panics(part, || there.get_strided_nb(world, &uncounted, vec![0; 8]));
    let without_bytes = beyond([usize::MAX, 1], [0, 0], [0, 0]);
    let nothing = there.cast::<[u64; 0]>();
    nothing.get_strided(world, &without_bytes, &mut [[]; 1])?;
    nothing
        .put_strided_nb(world, &without_bytes, vec![[]])?
        .wait()?;
    world.barrier()?;
    assert_eq!(array.here().get_vec(world, 16)?, [0; 16]);
    world.barrier()
}

fn bitwise_atomics_on_floats_panic(world: &World) -> Result<()> {
    let cell = world.alloc::<f64>(1)?;
    for op in [AtomicOp::And, AtomicOp::Or, AtomicOp::Xor] {
        let part = "is not an operation on floats";
        assert_panics(part, || cell.fetch_op(world, op, 1.0));
        assert_panics(part, || cell.atomic_op(world, op, 1.0));
        assert_panics(part, || cell.fetch_op_nb(world, op, 1.0));
        assert_panics(part, || cell.cast::<f32>().fetch_op(world, op, 1.0));
    }
    assert_eq!(cell.get(world)?.to_bits(), 0);
    world.barrier()
}

fn operations_outside_of_an_atomic_domain_panic(world: &World) -> Result<()> {
    let cell = world.alloc::<u64>(1)?;
    let domain = AtomicDomain::<u64>::new(world, AtomicOps::from(AtomicOp::Add));
    assert!(domain.ops().contains(AtomicOp::Add.into()));
    domain.atomic_op(cell, AtomicOp::Add, 2)?;
    world.flush(cell.rank())?;
    assert_eq!(domain.fetch_op(cell, AtomicOp::Add, 2)?, 2);
    let part = "outside of the atomic domain";
    assert_panics(part, || domain.fetch_op(cell, AtomicOp::Xor, 1));
    assert_panics(part, || domain.atomic_op(cell, AtomicOp::Swap, 1));
    assert_panics(part, || domain.fetch_op_nb(cell, AtomicOp::Load, 0));
    assert_panics(part, || domain.compare_exchange(cell, 4, 9));
    assert_panics(part, || domain.compare_exchange_nb(cell, 4, 9));
    let all = AtomicDomain::<u64>::new(world, AtomicOps::ALL);
    assert_eq!(all.compare_exchange(cell, 4, 9)?, Ok(4));
    assert_eq!(all.compare_exchange_nb(cell, 9, 6)?.wait()?, Ok(9));
    assert_eq!(cell.atomic_load(world)?, 6);
    world.barrier()
}

fn a_signal_on_another_rank_than_its_data_panics(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(2)?;
    let data = array.on(neighbour(world, 1));
    let signal = array.here().add(1);
    assert_panics("the rank of the data", || {
        data.put_signal(world, &[1], signal, SignalUpdate::Set(1))
    });
    world.barrier()?;
    assert_eq!(array.here().get_vec(world, 2)?, [0, 0]);
    world.barrier()
}

fn waiting_for_a_word_of_another_rank_panics(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(1)?;
    let there = array.on(neighbour(world, 1));
    assert_panics("its own segment", || there.wait_until(world, |_| true));
    world.barrier()
}

fn what_is_not_a_live_allocation_cannot_be_freed(world: &World) -> Result<()> {
    let cells = world.alloc::<u64>(16)?;
    assert_panics("not a live allocation", || world.free(cells.add(8)));
    world.free(cells);
    assert_panics("not a live allocation", || world.free(cells));
    let elsewhere = GlobalPtr::<u8>::new(Rank::new(world.n_ranks()), 4096);
    assert_panics("does not own it", || world.free(elsewhere));
    let symmetric = world.alloc_symmetric::<u64>(1)?;
    assert_panics("not a live allocation", || world.free(symmetric.here()));
    // Nor can it be given away.
    assert_panics("does not own it", || symmetric.bequeath([elsewhere]));
    let block = world.alloc::<u8>(16)?;
    symmetric.bequeath([block]);
    assert_panics("not a live allocation", || symmetric.bequeath([block]));
    assert_panics("not a live allocation", || world.free(block));
    world.barrier()
}
