//! Atomics from all sides, and what operations cost in calls of MPI.

use std::collections::BTreeMap;

use pgas_containers::HashMap;
use pgas_core::{GlobalPtr, Rank, World};

use crate::codes::{Sent, sent};
use crate::support::is_open_mpi;
use crate::{assert_well, ranks, run, world};

pub(crate) fn hammered(direct: &str) {
    assert_well(&run(ranks(4, "hammer", "1000", direct)));
}

/// MPICH can take the ranks with odd numbers for those of another host. Then half of the atomics
/// are the CPU's own, and the other half come by message.
pub(crate) fn hammered_from_two_hosts() {
    let mut command = ranks(4, "hammer", "100", "1");
    command.env("MPIR_CVAR_ODD_EVEN_CLIQUES", "1");
    assert_well(&run(command));
}

/// All ranks change the same two words of rank 0 at once, by operations of different kinds and
/// forms. No form may lose what another one adds.
pub(crate) fn hammer(n_added: &str) {
    hammer_in(&world(), n_added.parse().expect("a number"));
}

pub(crate) fn hammer_in(world: &World, n_added: u64) {
    let words = world.alloc_symmetric::<u64>(2).expect("two words");
    let (sum, bits) = (words.on(Rank::ZERO), words.on(Rank::ZERO).add(1));
    let own = 1_u64 << world.rank().number();
    world.barrier().expect("all are here");
    hammer_words(world, sum, bits, own, n_added).expect("atomics that work");
    world.barrier().expect("all are here");
    let total = sum.atomic_load(world).expect("a load");
    assert_eq!(total, 5 * n_added * u64::from(world.n_ranks()));
    let left = bits.atomic_load(world).expect("a load");
    assert_eq!(left, (1 << world.n_ranks()) - 1);
}

fn hammer_words(
    world: &World,
    sum: GlobalPtr<u64>,
    bits: GlobalPtr<u64>,
    own: u64,
    n_added: u64,
) -> pgas_core::Result<()> {
    use pgas_core::backend::AtomicOp;
    for _ in 0..n_added {
        sum.fetch_add(world, 1)?;
        sum.atomic_op(world, AtomicOp::Add, 1)?;
        sum.fetch_op_nb(world, AtomicOp::Add, 1)?.wait()?;
        sum.cast::<i64>().fetch_add(world, 1)?;
        let mut seen = sum.atomic_load(world)?;
        while let Err(now) = sum.compare_exchange(world, seen, seen + 1)? {
            seen = now;
        }
        bits.fetch_xor(world, own)?;
        bits.fetch_and(world, !own)?;
        let former = bits.fetch_or(world, own)?;
        assert_eq!(former & own, 0, "nobody else sets this bit");
    }
    Ok(())
}

pub(crate) fn prices() {
    let mut command = ranks(3, "pay", "", "0");
    command.env("PGAS_STATS", "1");
    assert_well(&run(command));
}

/// Counts the calls of MPI by puts, atomics and operations of a hash map where no rank reaches
/// another one's memory: the message that is an operation's price, and nothing for a key of this
/// rank.
pub(crate) fn pay(_: &str) {
    let world = world();
    assert!(world.capabilities().ranks_serve_atomics());
    pgas_am::attach(&world).expect("once for a world");
    let map = HashMap::<u64, u64>::with_capacity(&world, 1 << 10).expect("a map");
    let words = world.alloc_symmetric::<u64>(1).expect("a word");
    if world.rank() == Rank::ZERO {
        let price = |what: &str, operation: &dyn Fn(u64)| {
            let (costs, calls, before) = (world.costs(), calls(), sent());
            (0..200).for_each(operation);
            let paid = |name: &str| calls_of(name) - calls.get(name).copied().unwrap_or(0);
            let paid_for = |names: &[&str]| names.iter().map(|name| paid(name)).sum::<u64>();
            let now = world.costs() - costs;
            let m = now.messages;
            assert!((80..190).contains(&m), "{what}: most keys are far: {m}");
            let after = sent();
            assert_eq!(after.requests - before.requests, m, "{what}");
            // The credits of an answer travel with the next request.
            assert_eq!(after.credits, before.credits, "{what}");
            assert_eq!(after.orders, before.orders, "{what}");
            let others = [
                "MPI_Get",
                "MPI_Rget",
                "MPI_Put",
                "MPI_Rput",
                "MPI_Win_flush",
                "MPI_Win_flush_local",
                "MPI_Win_flush_all",
                "MPI_Win_flush_local_all",
                "MPI_Ibarrier",
            ];
            assert_eq!(paid_for(&others), 0, "{what}");
        };
        pay_for_short_puts(&world, [1, 2].map(|rank| words.on(Rank::new(rank))));
        pay_for_atomics(&world, words.on(Rank::new(1)));
        price("insert", &|key| {
            map.insert(&key, key).expect("room");
        });
        price("find", &|key| {
            assert_eq!(map.find(&key).expect("no error"), Some(key));
        });
        price("fetch_add", &|key| {
            map.fetch_add(&key, 1).expect("room");
        });
        price("find of nothing", &|key| {
            assert_eq!(map.find(&(key + 1000)).expect("no error"), None);
        });
        pay_for_a_batch(&world, &map);
    }
    world.barrier().expect("all are here");
}

/// An atomic on a word of another rank is one message.
fn pay_for_atomics(world: &World, word: GlobalPtr<u64>) {
    const N: u64 = 100;
    let before = sent();
    for _ in 0..N {
        word.fetch_add(world, 1).expect("an atomic");
    }
    let orders = before.orders + N;
    assert_eq!(sent(), Sent { orders, ..before });
}

/// A batch is a message to each other rank.
fn pay_for_a_batch(world: &World, map: &HashMap<u64, u64>) {
    let keys: Vec<u64> = (0..200).collect();
    let (costs, before) = (world.costs(), sent());
    let found = map.find_many(&keys).expect("no error");
    let after = sent();
    assert!(
        found
            .iter()
            .zip(&keys)
            .all(|(found, key)| *found == Some(key + 1))
    );
    assert_eq!((world.costs() - costs).messages, 2);
    assert_eq!(after.requests - before.requests, 2);
    assert_eq!(after.credits, before.credits);
    assert_eq!(after.orders, before.orders);
}

/// A short put is one call of MPI, and at most one more until its source is free. With Open MPI
/// that one is only made when puts turn to another rank or have filled their room, and never if a
/// flush comes before.
fn pay_for_short_puts(world: &World, words: [GlobalPtr<u64>; 2]) {
    const N_PUTS: u64 = 100;
    let paid = |puts: &dyn Fn(u64)| {
        let before = calls();
        (0..N_PUTS).for_each(puts);
        let paid = |name: &str| calls_of(name) - before.get(name).copied().unwrap_or(0);
        assert_eq!(paid("MPI_Put") + paid("MPI_Rput"), N_PUTS);
        assert_eq!(paid("MPI_Win_flush_local_all"), 0);
        (paid("MPI_Win_flush_local"), paid("MPI_Win_flush"))
    };
    let put = |to: GlobalPtr<u64>, value| to.put(world, value).expect("a put");
    let flush = |rank| world.flush(rank).expect("a flush");
    let [other, there] = words;
    let in_turn = paid(&|i| put(if i % 2 == 0 { other } else { there }, i));
    assert!(in_turn.0 <= N_PUTS && in_turn.1 == 0, "{in_turn:?}");
    flush(other.rank());
    flush(there.rank());
    let (to_one, flushed) = (
        paid(&|i| put(there, i)),
        paid(&|i| {
            put(there, i);
            flush(there.rank());
        }),
    );
    assert_eq!(flushed.1, N_PUTS);
    if is_open_mpi() {
        assert_eq!((to_one.0, flushed.0), (0, 0));
    } else {
        assert!(to_one.0 <= N_PUTS && flushed.0 <= N_PUTS);
    }
}

fn calls() -> BTreeMap<&'static str, u64> {
    pgas_mpi::calls().collect()
}

fn calls_of(name: &str) -> u64 {
    calls().get(name).copied().expect("the name of a call")
}
