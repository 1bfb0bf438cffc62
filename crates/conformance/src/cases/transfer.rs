//! Blocking puts and gets: sizes, alignments, types.

use std::fmt::Debug;

use pgas_core::{Pod, Result, World};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use super::case;
use crate::Case;
use crate::support::{neighbour, random_bytes, random_value, random_values};
use pgas_testkit::rng_of;

pub(super) const CASES: &[Case] = &[
    case!(
        1,
        transfers_of_every_short_length_move_those_bytes_and_no_others
    ),
    case!(
        1,
        transfers_between_all_alignments_move_those_bytes_and_no_others
    ),
    case!(1, long_transfers_arrive_whole),
    case!(1, values_of_every_size_round_trip),
    case!(1, over_aligned_values_round_trip),
    case!(1, values_without_size_move_nothing),
    case!(1, slices_of_no_elements_move_nothing),
    case!(1, slices_of_structs_round_trip),
    case!(1, a_source_may_be_reused_when_put_returns),
    case!(
        1,
        short_puts_arrive_whatever_comes_between_them_and_the_barrier
    ),
    case!(
        1,
        neighbouring_bytes_of_different_writers_do_not_disturb_each_other
    ),
    case!(1, every_rank_reads_what_every_rank_wrote),
    case!(1, prefetch_changes_nothing_and_never_fails),
];

fn transfers_of_every_short_length_move_those_bytes_and_no_others(world: &World) -> Result<()> {
    const ROOM: usize = 400;
    let array = world.alloc_symmetric::<u8>(ROOM)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 1);
    let mut expected = random_bytes(&mut rng, ROOM);
    there.put_slice(world, &expected)?;
    for len in 0..=300 {
        let start = len * 7 % (ROOM - len);
        let bytes = random_bytes(&mut rng, len);
        there.add(start).put_slice(world, &bytes)?;
        world.flush(there.rank())?;
        expected[start..start + len].copy_from_slice(&bytes);
        assert_eq!(there.get_vec(world, ROOM)?, expected, "put of {len} bytes");
        let seen = there.add(start).get_vec(world, len)?;
        assert_eq!(seen, bytes, "get of {len} bytes");
    }
    world.barrier()
}

fn transfers_between_all_alignments_move_those_bytes_and_no_others(world: &World) -> Result<()> {
    const ROOM: usize = 128;
    let array = world.alloc_symmetric::<u8>(ROOM)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 2);
    let mut expected = vec![0; ROOM];
    let mut local = [0; ROOM];
    for remote_start in 0..=17 {
        for local_start in [0, 1, 3, 4, 7, 8, 9] {
            for len in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65] {
                let bytes = random_bytes(&mut rng, local_start + len);
                let at = there.add(remote_start);
                at.put_slice(world, &bytes[local_start..])?;
                world.flush(there.rank())?;
                expected[remote_start..remote_start + len].copy_from_slice(&bytes[local_start..]);
                local.fill(0xa5);
                let end = local_start + len;
                at.get_slice(world, &mut local[local_start..end])?;
                assert_eq!(local[local_start..end], bytes[local_start..]);
                assert!(local[..local_start].iter().all(|byte| *byte == 0xa5));
                assert!(local[end..].iter().all(|byte| *byte == 0xa5));
            }
        }
        assert_eq!(there.get_vec(world, ROOM)?, expected);
    }
    world.barrier()
}

fn long_transfers_arrive_whole(world: &World) -> Result<()> {
    const ROOM: usize = (3 << 20) + 16;
    let array = world.alloc_symmetric::<u8>(ROOM)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 3);
    for (len, start) in [
        ((64 << 10) + 1, 3),
        ((1 << 20) - 1, 1),
        (1 << 20, 0),
        ((1 << 20) + 1, 5),
        ((3 << 20) + 5, 11),
    ] {
        let bytes = random_bytes(&mut rng, len);
        let at = there.add(start);
        at.put_slice(world, &bytes)?;
        world.flush(at.rank())?;
        assert!(
            at.get_vec(world, len)? == bytes,
            "put and get of {len} bytes"
        );
        let bytes = at.put_vec_nb(world, bytes)?.wait()?;
        assert!(
            at.get_vec_nb(world, len)?.wait()? == bytes,
            "_nb of {len} bytes"
        );
    }
    world.barrier()
}

fn values_of_every_size_round_trip(world: &World) -> Result<()> {
    round_trip::<u8>(world)?;
    round_trip::<u16>(world)?;
    round_trip::<[u8; 3]>(world)?;
    round_trip::<u32>(world)?;
    round_trip::<i32>(world)?;
    round_trip::<[u8; 5]>(world)?;
    round_trip::<[u16; 3]>(world)?;
    round_trip::<u64>(world)?;
    round_trip::<i64>(world)?;
    round_trip::<[u32; 3]>(world)?;
    round_trip::<u128>(world)?;
    round_trip::<[u64; 2]>(world)?;
    round_trip::<[u64; 3]>(world)?;
    round_trip::<[u64; 5]>(world)?;
    round_trip::<[u8; 33]>(world)?;
    round_trip::<[u64; 64]>(world)
}

/// Every form of put and get, on neighbouring elements.
fn round_trip<T: Pod + PartialEq + Debug>(world: &World) -> Result<()> {
    const N: usize = 9;
    let array = world.alloc_symmetric::<T>(N)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 4);
    let mut expected = vec![T::new_zeroed(); N];
    for round in 0..27 {
        let i = round * 4 % N;
        let value: T = random_value(&mut rng);
        if round % 2 == 0 {
            there.add(i).put(world, value)?;
            world.flush(there.rank())?;
        } else {
            there.add(i).put_nb(world, value)?.wait()?;
        }
        expected[i] = value;
        assert_eq!(there.add(i).get(world)?, value);
        assert_eq!(there.add(i).get_nb(world)?.wait()?, value);
        assert_eq!(there.get_vec(world, N)?, expected);
    }
    world.barrier()
}

/// As large as a cache line.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// More strictly aligned than any allocation.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(256))]
struct Wide([u64; 32]);

fn over_aligned_values_round_trip(world: &World) -> Result<()> {
    round_trip::<Line>(world)?;
    round_trip::<Wide>(world)?;
    for _ in 0..3 {
        let small = world.alloc::<u8>(1)?;
        let wide = world.alloc::<Wide>(2)?;
        assert_eq!(wide.offset_bytes() % 256, 0);
        assert_ne!(wide.cast(), small);
    }
    Ok(())
}

fn values_without_size_move_nothing(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<[u64; 0]>(3)?;
    let there = array.on(neighbour(world, 1));
    there.put(world, [])?;
    there.add(2).put_nb(world, [])?.wait()?;
    assert_eq!(there.get(world)?, [0_u64; 0]);
    assert_eq!(there.get_vec(world, 3)?, [[0_u64; 0]; 3]);
    there.put_slice(world, &[[]; 100])?;
    world.barrier()
}

fn slices_of_no_elements_move_nothing(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(1)?;
    let there = array.on(neighbour(world, 1));
    there.put_slice(world, &[])?;
    assert_eq!(there.get_vec(world, 0)?, []);
    assert_eq!(there.put_vec_nb(world, Vec::new())?.wait()?, []);
    assert_eq!(there.get_vec_nb(world, 0)?.wait()?, []);
    world.scope(|scope| scope.get(there, &mut []))??;
    world.barrier()
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Edge {
    from: u32,
    to: u32,
    weight: u64,
    label: [u8; 8],
}

fn slices_of_structs_round_trip(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<Edge>(50)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 5);
    let edges: Vec<Edge> = random_values(&mut rng, 50);
    there.put_slice(world, &edges)?;
    world.flush_all()?;
    let mut seen = vec![Edge::new_zeroed(); 20];
    there.add(15).get_slice(world, &mut seen)?;
    assert_eq!(seen, edges[15..35]);
    let (to, weight) = (there.add(7).get(world)?.to, edges[7].weight);
    assert_eq!((to, weight), (edges[7].to, there.add(7).get(world)?.weight));
    world.barrier()
}

fn a_source_may_be_reused_when_put_returns(world: &World) -> Result<()> {
    const ROUNDS: usize = 200;
    let array = world.alloc_symmetric::<u64>(ROUNDS * 16)?;
    let there = array.on(neighbour(world, 1));
    let mut buffer = vec![0_u64; 16];
    for round in 0..ROUNDS {
        buffer.fill(round as u64 + 1);
        there.add(round * 16).put_slice(world, &buffer)?;
        buffer.fill(u64::MAX);
    }
    world.barrier()?;
    let seen = array.here().get_vec(world, ROUNDS * 16)?;
    for (i, value) in seen.into_iter().enumerate() {
        assert_eq!(value, i as u64 / 16 + 1, "element {i}");
    }
    world.barrier()
}

/// If a transport copies the sources of short puts, later operations and flushes to the same rank
/// and to others determine how long it keeps the copies.
fn short_puts_arrive_whatever_comes_between_them_and_the_barrier(world: &World) -> Result<()> {
    const ROUNDS: usize = 42;
    let n = world.n_ranks() as usize;
    let array = world.alloc_symmetric::<u64>(n * ROUNDS)?;
    let others = world.alloc_symmetric::<u64>(n + 1)?;
    let me = world.rank().index();
    let value = |from: usize, to: usize, round: usize| ((from * n + to) * ROUNDS + round) as u64;
    let ranks = world.ranks().cycle();
    for (round, there) in (0..ROUNDS).zip(ranks) {
        for rank in world.ranks() {
            let place = array.on(rank).add(me * ROUNDS + round);
            place.put(world, value(me, rank.index(), round) + 1)?;
        }
        let (count, cell) = (others.on(there), others.on(there).add(1 + me));
        match round % 7 {
            0 => count.fetch_add(world, 1).map(drop)?,
            1 => cell.put_nb(world, 1)?.wait()?,
            2 => cell.get(world).map(drop)?,
            3 => world.flush(there)?,
            4 => count.compare_exchange(world, u64::MAX, 0).map(drop)?,
            5 => world.flush_all()?,
            _ => {}
        }
    }
    world.barrier()?;
    let seen = array.here().get_vec(world, n * ROUNDS)?;
    for (i, seen) in seen.into_iter().enumerate() {
        let expected = value(i / ROUNDS, me, i % ROUNDS) + 1;
        assert_eq!(
            seen,
            expected,
            "round {} of rank {}",
            i % ROUNDS,
            i / ROUNDS
        );
    }
    world.barrier()
}

/// Byte `i` belongs to rank `i % n`. A writer that read, modified and wrote a whole word would undo
/// its neighbour's write.
fn neighbouring_bytes_of_different_writers_do_not_disturb_each_other(world: &World) -> Result<()> {
    const ROUNDS: usize = 40;
    let (n, me) = (world.n_ranks() as usize, world.rank().index());
    let array = world.alloc_symmetric::<u8>(n * 3 * ROUNDS)?;
    for round in 0..ROUNDS {
        for rank in world.ranks() {
            let lane = array.on(rank).add((round * n + me) * 3);
            let byte = mark(round, me);
            match round % 3 {
                0 => lane.put_slice(world, &[byte; 3])?,
                1 => lane.cast::<[u8; 3]>().put(world, [byte; 3])?,
                _ => {
                    lane.add(2).put(world, byte)?;
                    lane.put_slice(world, &[byte; 2])?;
                }
            }
        }
    }
    world.barrier()?;
    let seen = array.here().get_vec(world, n * 3 * ROUNDS)?;
    for (i, byte) in seen.into_iter().enumerate() {
        assert_eq!(byte, mark(i / 3 / n, i / 3 % n), "byte {i}");
    }
    world.barrier()
}

fn mark(round: usize, writer: usize) -> u8 {
    u8::try_from((round * 31 + writer * 7) % 255).expect("below 255") + 1
}

fn every_rank_reads_what_every_rank_wrote(world: &World) -> Result<()> {
    let n = world.n_ranks() as usize;
    let array = world.alloc_symmetric::<[u64; 2]>(n)?;
    let me = u64::from(world.rank().number());
    for rank in world.ranks() {
        let cell = array.on(rank).add(world.rank().index());
        cell.put(world, [me, u64::from(rank.number())])?;
    }
    world.barrier()?;
    for rank in world.ranks() {
        let seen = array.on(rank).get_vec(world, n)?;
        for (writer, value) in seen.into_iter().enumerate() {
            assert_eq!(value, [writer as u64, u64::from(rank.number())]);
        }
    }
    world.barrier()
}

fn prefetch_changes_nothing_and_never_fails(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(2)?;
    let there = array.on(neighbour(world, 1));
    there.put(world, 7)?;
    world.flush(there.rank())?;
    there.prefetch(world);
    pgas_core::GlobalPtr::<u64>::NULL.prefetch(world);
    pgas_core::GlobalPtr::<u64>::from_bits(u64::MAX).prefetch(world);
    assert_eq!(there.get_vec(world, 2)?, [7, 0]);
    world.barrier()
}
