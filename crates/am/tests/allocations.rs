//! What takes no memory: short messages, calls once the table of answers has grown, futures that are ready.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::{
    ActiveMessages, Origin, Payload, PgasFuture, RemoteCalls, ReplyHandler, RequestHandler, Token,
};
use pgas_core::World;

struct Counting;

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: it is the system's allocator, which keeps the contract; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
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

/// Runs `body` on a rank of its own; its messages to itself travel as those to others do.
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
