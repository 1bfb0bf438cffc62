//! Transfers of more bytes than MPI can count.

use pgas_core::{GlobalPtr, Rank, World};

use crate::support::is_open_mpi;
use crate::{assert_well, ranks, run, wanted, world};

/// More than an `int` can count, and no multiple of a unit.
const LEN: usize = (1 << 31) + (1 << 20) + 5;
/// Where they begin: a place that is not aligned.
const START: usize = 3;
/// The byte that lies before them and behind.
const MARGIN: u8 = 0xA5;

/// Whether this is tested. It takes seconds, and makes the same calls of both MPI libraries. So
/// only the faster one is tested unless all is to be tested.
pub(crate) fn is_wanted() -> bool {
    !is_open_mpi() || wanted::is_all()
}

pub(crate) fn transferred() {
    let mut command = ranks(2, "transfer", "", "0");
    // Half of it is the symmetric heap.
    command.env("PGAS_SEGMENT", "4128M");
    assert_well(&run(command));
}

/// One put of all bytes, and one get.
pub(crate) fn transfer(_: &str) {
    let world = world();
    assert!(world.capabilities().max_transfer < LEN as u64);
    let room = world.alloc_symmetric::<u8>(START + LEN + 1).expect("room");
    let room = room.on(Rank::new(1));
    if world.rank() == Rank::ZERO {
        let (before, there, behind) = (room.add(START - 1), room.add(START), room.add(START + LEN));
        for margin in [before, behind] {
            margin.put(&world, MARGIN).expect("a put");
        }
        let mut pattern = Pattern::new();
        let mut bytes = vec![0; LEN];
        for (number, block) in bytes.chunks_mut(Pattern::BLOCK).enumerate() {
            block.copy_from_slice(&pattern.block(number)[..block.len()]);
        }
        there.put_slice(&world, &bytes).expect("a put");
        world.flush(there.rank()).expect("a flush");
        assert_blocks_begin_at_their_places(&world, there);
        bytes.fill(0);
        there.get_slice(&world, &mut bytes).expect("a get");
        for (number, block) in bytes.chunks(Pattern::BLOCK).enumerate() {
            let is_right = block == &pattern.block(number)[..block.len()];
            assert!(is_right, "block {number}");
        }
        for margin in [before, behind] {
            assert_eq!(margin.get(&world).expect("a get"), MARGIN);
        }
    }
    world.barrier().expect("all are here");
}

/// Reads by gets that are not cut: a get that is cut might repeat the put's error and so hide it.
fn assert_blocks_begin_at_their_places(world: &World, there: GlobalPtr<u8>) {
    for (number, at) in (0..LEN).step_by(Pattern::BLOCK).enumerate() {
        let mut own = Pattern::number(0);
        there.add(at).get_slice(world, &mut own).expect("a get");
        assert_eq!(own, Pattern::number(number));
    }
}

/// Blocks of bytes, no two of which are the same.
struct Pattern {
    bytes: Vec<u8>,
}

impl Pattern {
    /// A prime, so that a part at a wrong place is seen wherever the transfer is cut.
    const BLOCK: usize = 1_000_003;

    fn new() -> Self {
        let mut state = 1_u32;
        let byte = |_| {
            // Numerical Recipes' generator; its high bits are good enough.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        Self {
            bytes: (0..Self::BLOCK).map(byte).collect(),
        }
    }

    /// A block, which begins with its own number.
    fn block(&mut self, number: usize) -> &[u8] {
        let own = Self::number(number);
        self.bytes[..own.len()].copy_from_slice(&own);
        &self.bytes
    }

    fn number(number: usize) -> [u8; 8] {
        number.to_ne_bytes()
    }
}
