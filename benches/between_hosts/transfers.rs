//! Many transfers at once, and remote calls, between two ranks.

use pgas_am::RemoteCalls as _;
use pgas_core::GlobalPtr;
use pgas_core::backend::AtomicOp;
use zerocopy::IntoBytes as _;

use crate::floor::Window;
use crate::measure::{Ranks, other};

/// Words of each window.
pub(crate) const N_WORDS: usize = 1 << 16;

pub(crate) fn measure(ranks: &Ranks) {
    let world = &ranks.world;
    let array = world.alloc_symmetric::<u64>(N_WORDS).expect("512 KiB");
    let raw = ranks.comm.window(N_WORDS);
    let peer = array.on(other(world));
    singles(ranks, peer, &raw);
    floods(ranks, peer, &raw);
    raw.free();
    calls(ranks);
}

/// One word at a time, complete before the next one.
fn singles(ranks: &Ranks, peer: GlobalPtr<u64>, raw: &Window) {
    let world = &ranks.world;
    let n = ranks.times(2000);
    let (to, mut word) = (other(world), 1_u64);
    ranks.compare(
        "put of 8 B and flush",
        n,
        |_| {
            for _ in 0..n {
                raw.put(0, 1_u64.as_bytes());
                raw.flush();
            }
        },
        |_| {
            for _ in 0..n {
                peer.put(world, 1).expect("a put");
                world.flush(to).expect("the other rank lives");
            }
        },
    );
    ranks.compare(
        "get of 8 B",
        n,
        |_| {
            for _ in 0..n {
                raw.get(0, word.as_mut_bytes());
                raw.flush_local();
            }
        },
        |_| {
            for _ in 0..n {
                std::hint::black_box(peer.get(world).expect("a word"));
            }
        },
    );
    ranks.compare(
        "fetch_add of 8 B",
        n,
        |_| {
            for _ in 0..n {
                raw.begin_fetch_add(0, &1, &mut word);
                raw.flush_local();
            }
        },
        |_| {
            for _ in 0..n {
                std::hint::black_box(peer.fetch_add(world, 1).expect("a word"));
            }
        },
    );
}

/// Many transfers or atomics of a word, all begun before the first wait. Each rank only reads, only
/// writes or only adds to the other rank's memory.
fn floods(ranks: &Ranks, peer: GlobalPtr<u64>, raw: &Window) {
    for n in [1 << 12, 1 << 16] {
        flood(ranks, "", n, (peer, raw));
    }
    // Some libraries need minutes for this, so it runs only on request.
    if ranks.are_asked_for_by_name(MILLION) {
        flood(ranks, MILLION, 1 << 20, (peer, raw));
    }
}

/// The suffix of the names of rows with this many operations at once.
const MILLION: &str = ", a million";

fn flood(ranks: &Ranks, suffix: &str, n: usize, (peer, raw): (GlobalPtr<u64>, &Window)) {
    let world = &ranks.world;
    let n = ranks.times(n);
    let (name, at) = (|row: &str| format!("{row}{suffix}"), |i| i % N_WORDS);
    let mut words = vec![0_u64; n];
    ranks.compare(
        &name("get_nb, then waits"),
        n,
        |_| {
            for (i, word) in words.iter_mut().enumerate() {
                raw.get(at(i) * 8, word.as_mut_bytes());
            }
            raw.flush_local();
        },
        |_| {
            let gets: Vec<_> = (0..n)
                .map(|i| peer.add(at(i)).get_nb(world).expect("a get"))
                .collect();
            for get in gets {
                std::hint::black_box(get.wait().expect("a word"));
            }
        },
    );
    let word = 1_u64;
    ranks.compare(
        &name("put_nb, then waits"),
        n,
        |_| {
            (0..n).for_each(|i| raw.put(at(i) * 8, word.as_bytes()));
            raw.flush();
        },
        |_| {
            let puts: Vec<_> = (0..n)
                .map(|i| peer.add(at(i)).put_nb(world, 1).expect("a put"))
                .collect();
            for put in puts {
                put.wait().expect("the other rank lives");
            }
        },
    );
    ranks.compare(
        &name("fetch_op_nb, then waits"),
        n,
        |_| {
            for (i, former) in words.iter_mut().enumerate() {
                raw.begin_fetch_add(at(i) * 8, &word, former);
            }
            raw.flush();
        },
        |_| {
            let begin = |i| peer.add(at(i)).fetch_op_nb(world, AtomicOp::Add, 1);
            let adds: Vec<_> = (0..n).map(|i| begin(i).expect("an atomic")).collect();
            for add in adds {
                std::hint::black_box(add.wait().expect("a word"));
            }
        },
    );
}

/// Remote calls, one after the other and many at once. The floor sends messages of the same sizes.
fn calls(ranks: &Ranks) {
    let world = &ranks.world;
    let to = other(world);
    let n = ranks.times(2000);
    let call = |x: u64| world.rpc(to, |x: u64| x + 1, x).expect("a call");
    let call_one_way = || world.rpc_ff(to, drop::<u64>, 1).expect("a call");
    ranks.compare(
        "call of 8 B and answer",
        n,
        |_| ranks.comm.requests::<3, 2>(n),
        |_| {
            for i in 0..n as u64 {
                assert_eq!(call(i).wait().expect("an answer"), i + 1);
            }
        },
    );
    // What waits for company delays the last one of a burst most.
    const BURST: usize = 16;
    let n = ranks.times(500);
    ranks.compare(
        "call of 8 B behind 15 one-way calls, answer",
        n,
        |_| {
            for _ in 0..n {
                ranks.comm.messages::<3>(BURST - 1);
                ranks.comm.requests::<3, 2>(1);
            }
        },
        |_| {
            for i in 0..n as u64 {
                (1..BURST).for_each(|_| call_one_way());
                assert_eq!(call(i).wait().expect("an answer"), i + 1);
            }
        },
    );
    let n = ranks.times(1 << 14);
    ranks.compare(
        "calls of 8 B, then answers",
        n,
        |_| {
            ranks.comm.messages::<3>(n);
            ranks.comm.messages::<2>(n);
        },
        |_| {
            let calls: Vec<_> = (0..n as u64).map(call).collect();
            for (call, i) in calls.into_iter().zip(1..) {
                assert_eq!(call.wait().expect("an answer"), i);
            }
        },
    );
    ranks.compare(
        "one-way calls of 8 B, all served",
        n,
        |_| ranks.comm.messages::<3>(n),
        |_| {
            (0..n).for_each(|_| call_one_way());
            pgas_am::quiet(world).expect("the other rank lives");
        },
    );
}
