//! Many transfers at once, and calls, between two ranks.

use pgas_am::RemoteCalls as _;
use pgas_core::GlobalPtr;
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

/// As many transfers of a word, all begun before the first one is waited for. A rank only reads or
/// only writes what the other one has.
fn floods(ranks: &Ranks, peer: GlobalPtr<u64>, raw: &RawWindow) {
    let world = &ranks.world;
    for n in [1 << 12, 1 << 16] {
        let n = ranks.times(n);
        let mut words = vec![0_u64; n];
        ranks.compare(
            "get_nb, then waits",
            n,
            |_| {
                for (i, word) in words.iter_mut().enumerate() {
                    raw.get(i * 8, word.as_mut_bytes());
                }
                raw.flush_local();
            },
            |_| {
                let gets: Vec<_> = (0..n)
                    .map(|i| peer.offset(i).get_nb(world).expect("a get"))
                    .collect();
                for get in gets {
                    std::hint::black_box(get.wait().expect("a word"));
                }
            },
        );
        let word = 1_u64;
        ranks.compare(
            "put_nb, then waits",
            n,
            |_| {
                (0..n).for_each(|i| raw.put(i * 8, word.as_bytes()));
                raw.flush();
            },
            |_| {
                let puts: Vec<_> = (0..n)
                    .map(|i| peer.offset(i).put_nb(world, 1).expect("a put"))
                    .collect();
                for put in puts {
                    put.wait().expect("the other rank lives");
                }
            },
        );
    }
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
