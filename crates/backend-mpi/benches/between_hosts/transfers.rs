//! Many transfers at once, and calls, between two ranks.

use pgas_am::RemoteCalls as _;
use pgas_core::GlobalPtr;
use pgas_core::backend::AtomicOp;
use zerocopy::IntoBytes as _;

use crate::floor::requests;
use crate::measure::{Ranks, other};
use crate::raw::RawWindow;

/// Words of each window.
const N_WORDS: usize = 1 << 16;

pub(crate) fn measure(ranks: &Ranks) {
    let world = &ranks.world;
    let array = world.alloc_symmetric::<u64>(N_WORDS).expect("512 KiB");
    let raw = RawWindow::new(&ranks.comm, N_WORDS);
    floods(ranks, array.on(other(world)), &raw);
    raw.free();
    calls(ranks);
}

/// As many transfers or atomics of a word, all begun before the first one is waited for. A rank
/// only reads, only writes or only adds to what the other one has.
fn floods(ranks: &Ranks, peer: GlobalPtr<u64>, raw: &RawWindow) {
    for n in [1 << 12, 1 << 16] {
        flood(ranks, "", n, (peer, raw));
    }
    // With some libraries this takes minutes, so only where it is asked for.
    if ranks.are_asked_for_by_name(MILLION) {
        flood(ranks, MILLION, 1 << 20, (peer, raw));
    }
}

/// What names of rows end with if they are about as many operations.
const MILLION: &str = ", a million";

fn flood(ranks: &Ranks, suffix: &str, n: usize, (peer, raw): (GlobalPtr<u64>, &RawWindow)) {
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

/// Remote calls, one after the other and many at once.
fn calls(ranks: &Ranks) {
    let world = &ranks.world;
    let to = other(world);
    let n = ranks.times(2000);
    ranks.compare(
        "call of 8 B and answer",
        n,
        |_| requests::<3, 2>(&ranks.comm, n),
        |_| {
            for i in 0..n as u64 {
                let call = world.rpc(to, |x: u64| x + 1, i).expect("a call");
                assert_eq!(call.wait().expect("an answer"), i + 1);
            }
        },
    );
}
