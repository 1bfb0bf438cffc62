//! Short messages, calls (once the table of answers has grown) and ready futures allocate nothing.
//! Decoding of random bytes allocates little.
#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::codec::{AsSerde, Codec, Decoder, Encoder, Wire};
use pgas_am::{
    ActiveMessages, Completes, Error, LocalCalls, Origin, Payload, PgasFuture, Promise,
    RemoteCalls, ReplyHandler, RequestHandler, Token,
};
use pgas_core::World;
use pgas_testkit::{rng, setting};
use serde::{Deserialize, Serialize};

struct Counting;

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static N_BYTES: Cell<usize> = const { Cell::new(0) };
    /// Allocations less frees.
    static N_LIVE: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: it is the system's allocator, which keeps the contract; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
        N_BYTES.set(N_BYTES.get().saturating_add(layout.size()));
        N_LIVE.set(N_LIVE.get() + 1);
        // SAFETY: `System` asks for a layout of some bytes, and so does this method of its callers.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        N_LIVE.set(N_LIVE.get() - 1);
        // SAFETY: `ptr` comes from `alloc` above with this layout, and so from `System`; it is
        // given back once.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of this thread while `body` runs for the second time.
fn n_allocations(mut body: impl FnMut()) -> u64 {
    body();
    let before = N_ALLOCATIONS.get();
    body();
    N_ALLOCATIONS.get() - before
}

struct Ping;
struct Pong(Arc<AtomicU64>);

impl RequestHandler for Ping {
    type Args = [u64; 3];

    fn handle(&self, token: Token<'_>, args: [u64; 3], _: Payload<'_>) -> pgas_am::Result<()> {
        token.reply::<Pong>(&args)
    }
}

impl ReplyHandler for Pong {
    type Args = [u64; 3];

    fn handle(&self, _: Origin<'_>, args: [u64; 3], _: Payload<'_>) -> pgas_am::Result<()> {
        self.0.fetch_add(args[2], Ordering::Relaxed);
        Ok(())
    }
}

/// Runs `body` on a job of one rank. Messages to itself take the same path as those to others.
fn on_one_rank(body: impl Fn(&World) + Sync) {
    let ran = pgas_smp::threads(1, |world| {
        pgas_am::attach(&world).expect("one program");
        body(&world);
    });
    assert_eq!(ran.expect("memory for a segment").len(), 1);
}

#[test]
fn the_counter_counts() {
    assert_eq!(n_allocations(|| drop(Box::new(1))), 1);
}

#[test]
fn a_short_message_and_its_reply_allocate_nothing() {
    on_one_rank(|world| {
        let n = Arc::new(AtomicU64::new(0));
        world.register(Ping).unwrap();
        world.register_reply(Pong(Arc::clone(&n))).unwrap();
        let round_trips = || {
            let before = n.load(Ordering::Relaxed);
            for i in 1..=100 {
                world.request::<Ping>(world.rank(), &[0, 0, 1]).unwrap();
                let is_back = || Ok(n.load(Ordering::Relaxed) == before + i);
                world.wait_for("a reply", is_back).unwrap();
            }
        };
        assert_eq!(n_allocations(round_trips), 0);
    });
}

#[test]
fn calls_allocate_nothing_once_the_table_of_answers_has_grown() {
    on_one_rank(|world| {
        let calls = || {
            for x in 0..100_u64 {
                let call = world.rpc(world.rank(), |x: u64| x + 1, x).unwrap();
                assert_eq!(call.wait().unwrap(), x + 1);
                world
                    .rpc_ff(world.rank(), |x: u64| assert!(x < 100), x)
                    .unwrap();
            }
            while world.progress().unwrap() {}
        };
        assert_eq!(n_allocations(calls), 0);
    });
}

#[test]
fn a_ready_future_allocates_nothing() {
    let ready = || {
        let future = PgasFuture::ready(40_u64).then(|x| x + 2);
        assert_eq!(future.wait().unwrap(), 42);
        let both = pgas_am::when_all((PgasFuture::ready(1), PgasFuture::ready("two")));
        assert_eq!(both.wait().unwrap(), (1, "two"));
    };
    assert_eq!(n_allocations(ready), 0);
}

/// What `op` returns, and the number of this thread's allocations while it runs.
fn counted<R>(op: impl FnOnce() -> R) -> (u64, R) {
    let before = N_ALLOCATIONS.get();
    let result = op();
    (N_ALLOCATIONS.get() - before, result)
}

/// The operations that allocate otherwise than documented.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn expect(&mut self, what: &str, documented: &[u64], n: u64) {
        if !documented.contains(&n) {
            self.0.push(format!("{what}: {n}, and not {documented:?}"));
        }
    }
}

/// The allocations of what is done with futures of a value that is not there yet.
fn with_pending_futures(world: &World) -> Wrong {
    let (me, mut wrong) = (world.rank(), Wrong::default());
    let promise = Promise::<u64>::of_value(world).unwrap();
    let pending = || promise.future();
    let (n, future) = counted(pending);
    wrong.expect("a promise's future", &[1, 2], n);
    let (n, then) = counted(|| future.then(|x| x + 1));
    wrong.expect("then", &[2], n);
    let future = pending();
    let (n, chain) = counted(|| future.and_then(|x| PgasFuture::ready(x + 1)));
    wrong.expect("and_then", &[3], n);
    let future = pending().and_then(PgasFuture::ready);
    let (n, longer) = counted(|| future.and_then(PgasFuture::ready));
    wrong.expect("and_then again", &[2], n);
    drop(longer);
    let future = pending();
    let (n, shared) = counted(|| future.shared());
    wrong.expect("shared", &[3], n);
    let (n, copy) = counted(|| shared.clone().future());
    wrong.expect("a shared future's copy", &[1, 2], n);
    let both = (pending(), pending());
    let (n, all) = counted(|| pgas_am::when_all(both));
    wrong.expect("when_all", &[1], n);
    let both = [pending(), pending()];
    let (n, any) = counted(|| pgas_am::when_any(both));
    wrong.expect("when_any", &[4], n);
    let both = [PgasFuture::ready(3), pending()];
    let (n, first) = counted(|| pgas_am::when_any(both));
    wrong.expect("when_any of one that is ready", &[1], n);
    assert_eq!(first.wait().unwrap().result.unwrap(), 3);
    let task = pending();
    let (n, task) = counted(|| world.spawn(task));
    wrong.expect("spawn", &[3], n);
    let operation = pending();
    let (n, called) = counted(|| world.rpc_after(operation, me, |x: u64| x + 1, 1));
    wrong.expect("rpc_after", &[2, 4], n);
    let operation = pending();
    let (n, sent) = counted(|| world.rpc_ff_after(operation, me, |_: u64| (), 1));
    wrong.expect("rpc_ff_after", &[2], n);
    promise.fulfil_with(7);
    assert_eq!((then.wait().unwrap(), chain.wait().unwrap()), (8, 8));
    assert_eq!((shared.wait().unwrap(), copy.wait().unwrap()), (7, 7));
    assert_eq!(all.wait().unwrap(), (7, 7));
    assert_eq!(any.wait().unwrap().result.unwrap(), 7);
    assert_eq!((task.wait().unwrap(), called.wait().unwrap()), (7, 2));
    sent.wait().unwrap();
    let (n, copy) = counted(|| promise.future());
    wrong.expect("the future of a promise that has its value", &[0], n);
    assert_eq!(copy.wait().unwrap(), 7);
    wrong
}

#[test]
fn futures_of_values_that_are_not_there_allocate_as_documented() {
    on_one_rank(|world| {
        let this = world.this_thread().unwrap();
        let calls = || {
            let mut wrong = with_pending_futures(world);
            let (n, local) = counted(|| world.local_call(&this, || 5).unwrap());
            wrong.expect("local_call", &[2], n);
            assert_eq!(local.wait().unwrap(), 5);
            wrong
        };
        // Tables grow the first time.
        drop(calls());
        let Wrong(wrong) = calls();
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// A recursive type of the user.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Tree {
    Leaf(String),
    Node(Box<Self>, Vec<Self>),
    Pairs(BTreeMap<u16, Option<[u8; 3]>>),
    Empty(Vec<()>),
}

impl Wire for Tree {
    type By = AsSerde;
}

fn tree(depth: u64) -> Tree {
    match depth {
        0 => Tree::Empty(vec![(); 9]),
        1 => Tree::Leaf("leaf".repeat(9)),
        2 => Tree::Pairs((0..5).map(|i| (i * 200, Some([1; 3]))).collect()),
        _ => Tree::Node(Box::new(tree(depth - 1)), vec![tree(depth - 2)]),
    }
}

/// A value of every codec.
type Zoo = (
    Vec<Tree>,
    Vec<String>,
    (Option<Vec<Option<Box<u16>>>>, Vec<Vec<()>>),
    Vec<Result<Vec<u64>, (char, bool)>>,
    Vec<[u32; 4]>,
);

fn zoo() -> Zoo {
    (
        (0..5).map(tree).collect(),
        vec!["text".to_owned(); 3],
        (Some(vec![Some(Box::new(7)), None]), vec![vec![(); 5]; 2]),
        vec![Ok(vec![1, 2, 3]), Err(('x', true))],
        vec![[1, 2, 3, 4]; 4],
    )
}

/// Makes a random change to `bytes`.
fn damage(bytes: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    let numbers = [0, 1, 1 << 16, 1 << 26, 1 << 32, 1 << 60, u64::MAX];
    let n = numbers[rng.usize(..numbers.len())].wrapping_add(rng.u64(..3));
    let at = rng.usize(..=bytes.len());
    let end = (at + rng.usize(..40)).min(bytes.len());
    match rng.u8(..7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let twice = bytes[at..end].to_vec();
            bytes.splice(at..at, twice);
        }
        // The length of a list: of this crate's codecs, or of serde's.
        3 => drop(bytes.splice(at..end.min(at + 8), n.to_le_bytes())),
        4 => {
            let number = [&[253][..], &n.to_le_bytes()].concat();
            drop(bytes.splice(at..end.min(at + 1), number));
        }
        5 if rng.u8(..100) == 0 => {
            // A value nested too deep.
            drop(bytes.splice(at..end, vec![rng.u8(..3); 100_000]));
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.u8(..);
            }
        }
    }
}

#[test]
fn bytes_from_anywhere_are_a_value_or_an_error_and_take_no_more_memory_than_they_stand_for() {
    type By = <Zoo as Wire>::By;
    let mut out = Encoder::new();
    By::encode(&zoo(), &mut out).unwrap();
    let (n, mut n_read) = (setting("PGAS_TEST_MUTATIONS", 20_000), 0);
    let mut rng = rng(3);
    for i in 0..n {
        let mut bytes = out.bytes().to_vec();
        for _ in 0..=rng.u8(..3) {
            damage(&mut bytes, &mut rng);
        }
        let before = N_BYTES.get();
        let decoded: Result<Zoo, Error> = By::decode(&mut Decoder::new(&bytes));
        let asked_for = N_BYTES.get() - before;
        match decoded {
            Ok(_) => n_read += 1,
            Err(Error::Codec(_)) => {}
            Err(other) => panic!("change {i}: {other:?}"),
        }
        // An element of one encoded byte takes up to 56 bytes in memory, twice that in a list that
        // grows. A list of which nothing was read yet takes up to a mebibyte.
        let most = 200 * bytes.len() + (4 << 20);
        assert!(
            asked_for <= most,
            "change {i}: {asked_for} bytes for {}",
            bytes.len()
        );
    }
    assert!(n_read > 0 && n_read < n, "{n_read} of {n} were read");
}

/// What a server keeps for its whole life, and looks at in each round.
#[test]
fn a_promise_forgets_the_futures_that_nobody_has_any_more() {
    on_one_rank(|world| {
        let stop = Promise::<u64>::of_value(world).unwrap();
        let kept = stop.future().shared();
        let following = kept.clone().shared().future().then(|x| x + 1);
        let round = || {
            drop(stop.future());
            drop(stop.future().shared());
            let shared = stop.future().shared();
            let (future, copy) = (shared.clone().future(), shared.clone());
            drop((shared, copy));
            drop(future.shared().future().shared());
            drop(kept.clone().future().shared().future());
        };
        (0..100).for_each(|_| round());
        let before = N_LIVE.get();
        (0..10_000).for_each(|_| round());
        let n_more = N_LIVE.get() - before;
        assert!(n_more < 200, "{n_more} allocations are left");
        stop.fulfil_with(1);
        assert_eq!((kept.wait().unwrap(), following.wait().unwrap()), (1, 2));
    });
}
