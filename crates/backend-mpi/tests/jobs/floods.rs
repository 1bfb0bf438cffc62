//! Very many operations in flight at once. They are waited for in any order, or not at all.

use pgas_core::backend::AtomicOp;
use pgas_core::{Event, GlobalPtr, Rank, Result, World};

use crate::support::is_open_mpi;
use crate::{assert_well, ranks, run, wanted, world};

const MILLION: usize = 1 << 20;
/// The number of operations for each order of waits: more than a rank has slots for operations in
/// flight. Open MPI takes some ten microseconds for a get.
const MANY: usize = 1 << 14;
const N_WORDS: usize = 1 << 14;

/// The maximum memory of one operation in flight: an event with its buffer, and what MPI keeps.
const BYTES_EACH: usize = 2048;
/// The maximum memory that the second flood takes in addition to that of the first one.
const SLACK_BYTES: usize = 32 << 20;

/// A million operations if all is to be tested. Through the window, and, with MPICH, between ranks
/// that are told that they are on different hosts, and where MPI has to leave the processor to
/// other ranks.
pub(crate) fn flooded() {
    let most = match (wanted::is_all(), is_open_mpi()) {
        (true, _) => MILLION,
        (false, true) => MANY,
        (false, false) => 8 * MANY,
    };
    let run_with = |direct, variables: &[(&str, &str)]| {
        let mut command = ranks(2, "flood", &most.to_string(), direct);
        command.envs(variables.iter().copied());
        assert_well(&run(command));
    };
    run_with("0", &[]);
    if !is_open_mpi() {
        run_with("1", &[("MPIR_CVAR_NOLOCAL", "1")]);
        run_with("0", &[("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")]);
    }
}

pub(crate) fn flood(most: &str) {
    let world = world();
    let most = most.parse().expect("a number");
    let array = world.alloc_symmetric::<u64>(N_WORDS).expect("200 KiB");
    for (i, word) in (0..).zip(array.here().get_vec(&world, N_WORDS).expect("own words")) {
        assert_eq!(word, 0);
        array
            .here()
            .add(i)
            .put(&world, i as u64)
            .expect("own words");
    }
    world.barrier().expect("all are here");
    if world.rank() == Rank::ZERO {
        let there = array.on(Rank::new(1));
        beyond_the_slots(&world, there).expect("operations that work");
        all_orders(&world, there).expect("operations that work");
        let before = resident_bytes();
        outstanding(&world, there, most).expect("operations that work");
        let first = resident_bytes() - before;
        outstanding(&world, there, most).expect("operations that work");
        let second = resident_bytes() - before;
        assert!(second <= first + SLACK_BYTES, "{first} {second}");
    }
    world.barrier().expect("all are here");
}

/// Gets that nobody waits for take all slots that gets may have. Operations that wait still do so
/// until they are complete, and atomics have slots.
fn beyond_the_slots(world: &World, there: GlobalPtr<u64>) -> Result<()> {
    const LONG: usize = 2048;
    const N_GETS: usize = 5000;
    let words = (0..N_GETS).map(|i| there.add(i).get_nb(world));
    let words = words.collect::<Result<Vec<_>>>()?;
    let blocks = (0..N_GETS).map(|i| there.add(i).get_vec_nb(world, LONG));
    let blocks = blocks.collect::<Result<Vec<_>>>()?;
    let word = there.add(N_WORDS - 1);
    for i in 1..200 {
        word.put(world, i)?;
        world.flush(there.rank())?;
        assert_eq!(word.get(world)?, i);
        assert_eq!(word.fetch_add(world, 7)?, i);
        assert_eq!(word.get_vec(world, 1)?, [i + 7]);
    }
    word.put(world, N_WORDS as u64 - 1)?;
    world.flush(there.rank())?;
    for (i, event) in (0..).zip(words) {
        assert_eq!(event.wait()?, i);
    }
    for (i, event) in (0..).zip(blocks) {
        let block = event.wait()?;
        assert!(block.into_iter().eq(i..i + LONG as u64), "block {i}");
    }
    Ok(())
}

/// `n` gets at once, and then `n` puts at once.
fn outstanding(world: &World, there: GlobalPtr<u64>, n: usize) -> Result<()> {
    let before = resident_bytes();
    let at = |i: usize| there.add(i % N_WORDS);
    let gets: Result<Vec<_>> = (0..n).map(|i| at(i).get_nb(world)).collect();
    let gets = gets?;
    let more = resident_bytes().saturating_sub(before);
    assert!(more <= n * BYTES_EACH + SLACK_BYTES, "{more} for {n} gets");
    for (i, get) in gets.into_iter().enumerate() {
        assert_eq!(get.wait()?, (i % N_WORDS) as u64);
    }
    let puts: Result<Vec<_>> = (0..n)
        .map(|i| at(i).put_nb(world, (i % N_WORDS) as u64))
        .collect();
    let puts = puts?;
    let more = resident_bytes().saturating_sub(before);
    assert!(more <= n * BYTES_EACH + SLACK_BYTES, "{more} for {n} puts");
    puts.into_iter().try_for_each(Event::wait)
}

/// Puts whose sources are copied: some tens of them fill the room for copies.
const PUT_WORDS: usize = 16;
const N_PUTS: usize = 800;
const N_JOBS: usize = 6;

/// Puts wait inside of MPI until it has connected the ranks, and while the target takes none. Until
/// then their copied sources are kept.
pub(crate) fn first_puts() {
    for _ in 0..N_JOBS {
        assert_well(&run(ranks(2, "put_first", "", "0")));
    }
}

pub(crate) fn put_first(_: &str) {
    let world = world();
    let from_each = N_PUTS * PUT_WORDS;
    let n_words = world.n_ranks() as usize * from_each;
    let array = world.alloc_symmetric::<u64>(n_words).expect("200 KiB");
    let value = |rank: usize, i: usize| (rank * N_PUTS + i) as u64 + 1;
    let me = world.rank().index();
    for i in 0..N_PUTS {
        for rank in world.ranks() {
            let place = array.on(rank).add(me * from_each + i * PUT_WORDS);
            let words = [value(me, i); PUT_WORDS];
            place.put_slice(&world, &words).expect("a put");
        }
    }
    world.barrier().expect("all have put");
    let seen = array.here().get_vec(&world, n_words).expect("own words");
    for (i, word) in seen.into_iter().enumerate() {
        let (rank, put) = (i / from_each, i % from_each / PUT_WORDS);
        assert_eq!(word, value(rank, put), "put {put} of rank {rank}");
    }
    world.barrier().expect("all have looked");
}

/// Orders in which operations are waited for.
const ORDERS: [fn(usize, usize) -> usize; 3] = [
    |i, _| i,
    |i, n| n - 1 - i,
    // In no particular order, each once: the factor is odd, and `n` is a power of two.
    |i, n| i.wrapping_mul(0x9e37_79b1) % n,
];

fn all_orders(world: &World, there: GlobalPtr<u64>) -> Result<()> {
    let at = |i: usize| there.add(i % N_WORDS);
    for order in ORDERS {
        let gets = (0..MANY).map(|i| at(i).get_nb(world));
        wait_for(gets, order, |i, word| {
            assert_eq!(word, (i % N_WORDS) as u64);
        })?;
        let puts = (0..MANY).map(|i| at(i).put_nb(world, (i % N_WORDS) as u64));
        wait_for(puts, order, |_, ()| {})?;
        // All on one word: each gets a different number.
        let mut found = vec![false; MANY];
        let adds = (0..MANY).map(|_| there.fetch_op_nb(world, AtomicOp::Add, 1));
        wait_for(adds, order, |_, word| {
            let number = usize::try_from(word).expect("small");
            assert!(
                !std::mem::replace(&mut found[number], true),
                "{number} again"
            );
        })?;
        there.put(world, 0)?;
        world.flush(there.rank())?;
    }
    // Operations that are not waited for are complete after a flush.
    for i in 0..MANY {
        drop(at(i).get_nb(world)?);
        drop(there.fetch_op_nb(world, AtomicOp::Add, 1)?);
        if i > 0 {
            drop(at(i).put_nb(world, i as u64)?);
        }
    }
    world.flush(there.rank())?;
    assert_eq!(there.get(world)?, MANY as u64);
    there.put(world, 0)?;
    world.flush(there.rank())
}

fn wait_for<T: Send + 'static>(
    begun: impl Iterator<Item = Result<Event<T>>>,
    order: fn(usize, usize) -> usize,
    mut check: impl FnMut(usize, T),
) -> Result<()> {
    let begun: Result<Vec<_>> = begun.map(|event| event.map(Some)).collect();
    let mut begun = begun?;
    let n = begun.len();
    for i in 0..n {
        let which = order(i, n);
        let event = begun[which].take().expect("each once");
        check(which, event.wait()?);
    }
    Ok(())
}

/// Memory that this process has touched.
fn resident_bytes() -> usize {
    const PAGE_BYTES: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text.split_whitespace().nth(1).expect("the second figure");
    pages.parse::<usize>().expect("a number") * PAGE_BYTES
}
