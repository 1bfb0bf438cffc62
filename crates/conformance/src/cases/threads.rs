//! Several threads of a rank that call other ranks and each other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pgas_am::{DistObject, LocalCalls, RemoteCalls, ThreadHandle, attach, quiet};
use pgas_core::backend::AtomicOp;
use pgas_core::collective::op::Sum;
use pgas_core::rma::Strides;
use pgas_core::{HandlerMutex, Result, World};

use super::case;
use super::remote_calls::{add, counter};
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[
    case!(1, threads_of_a_rank_call_together),
    case!(1, handlers_and_threads_share_what_a_mutex_guards),
    case!(2, transfers_of_several_threads_are_whole),
    case!(2, threads_leave_what_they_have_begun_to_others),
    case!(2, threads_of_a_rank_split_teams_of_their_own),
];

fn threads_of_a_rank_call_together(world: &World) -> Result<()> {
    const EACH: u64 = 200;
    let counter = counter(world)?;
    let next = neighbour(world, 1);
    let run = |thread: usize| -> Result<()> {
        for i in 0..EACH {
            let x = thread as u64 * EACH + i;
            assert_eq!(world.rpc(next, |x: u64| x ^ 5, x)?.wait()?, x ^ 5);
            world.rpc(next, add, (counter.clone(), 1))?.wait()?;
        }
        Ok(())
    };
    in_threads(3, run)?;
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), 3 * EACH);
    one_thread_runs_the_handlers_for_all(world)
}

/// Set when it is dropped, also by a panic.
struct IsOver<'a>(&'a World, &'a AtomicBool);

impl Drop for IsOver<'_> {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// Runs handlers, and what other threads hand over, until it is over.
fn serve(world: &World, is_over: &AtomicBool, give: &Sender<ThreadHandle>) -> Result<ThreadId> {
    let _handlers = world.serve_here();
    give.send(world.this_thread()?).expect("the other waits");
    while !is_over.load(Ordering::Acquire) {
        if !world.progress()? {
            world.park(Duration::from_millis(1));
        }
    }
    Ok(thread::current().id())
}

fn one_thread_runs_the_handlers_for_all(world: &World) -> Result<()> {
    type Places = DistObject<Mutex<Vec<ThreadId>>>;
    let places = Places::new(&world.team(), Mutex::default())?;
    let note = |(places, x): (Places, u64)| {
        let here = thread::current().id();
        places.lock().expect("nobody panics with it").push(here);
        x + 1
    };
    let (is_over, next) = (AtomicBool::new(false), neighbour(world, 1));
    let (give, take) = mpsc::channel();
    let server = thread::scope(|scope| {
        let server = scope.spawn(|| serve(world, &is_over, &give));
        let end = IsOver(world, &is_over);
        let thread = take.recv().expect("the other thread serves");
        for i in 0..20 {
            let called = world.rpc(next, note, (places.clone(), i))?;
            let local = world.local_call(&thread, || thread::current().id())?;
            assert_eq!(called.wait()?, i + 1);
            assert_ne!(local.wait()?, thread::current().id());
        }
        assert_eq!(world.allreduce(1_u32, Sum)?, world.n_ranks());
        world.barrier()?;
        drop(end);
        server.join().expect("no panic")
    })?;
    let places = places.lock().expect("nobody panics with it");
    assert_eq!(*places, [server; 20]);
    world.barrier()
}

fn handlers_and_threads_share_what_a_mutex_guards(world: &World) -> Result<()> {
    const EACH: u64 = 100;
    type Sums = DistObject<HandlerMutex<[u64; 2]>>;
    attach(world)?;
    let sums = Sums::new(&world.team(), HandlerMutex::new("two sums", [0; 2]))?;
    let add_both = |(sums, n): (Sums, u64)| {
        let mut sums = sums.lock();
        sums[0] += n;
        sums[1] += n;
    };
    let next = neighbour(world, 1);
    thread::scope(|scope| {
        let local = scope.spawn(|| {
            for _ in 0..EACH {
                let mut sums = sums.lock();
                sums[0] += 1;
                thread::yield_now();
                sums[1] += 1;
            }
        });
        for _ in 0..EACH {
            world.rpc_ff(next, add_both, (sums.clone(), 1000))?;
        }
        local.join().expect("no panic");
        Ok::<(), pgas_core::Error>(())
    })?;
    quiet(world)?;
    assert_eq!(*sums.lock(), [EACH + 1000 * EACH; 2]);
    assert_eq!(HandlerMutex::new("a word", 7_u64).into_inner(), 7);
    world.barrier()
}

/// One thread gets and puts pieces that lie apart, and another one puts blocks to all ranks.
fn transfers_of_several_threads_are_whole(world: &World) -> Result<()> {
    const N: usize = 64;
    const ROUNDS: u64 = 50;
    let pieces = Strides {
        extents: [N],
        global: [2],
        local: [1],
    };
    let apart = world.alloc_symmetric::<u64>(2 * N)?;
    let blocks = world.alloc_symmetric::<u64>(N * world.n_ranks() as usize)?;
    let there = apart.on(neighbour(world, 1));
    let in_pieces = || -> Result<()> {
        for round in 1..=ROUNDS {
            let values: Vec<u64> = (0..N as u64).map(|i| round * 1000 + i).collect();
            there.put_strided(world, &pieces, &values)?;
            world.flush(there.rank())?;
            let mut out = [0; N];
            there.get_strided(world, &pieces, &mut out)?;
            assert_eq!(out, *values);
        }
        Ok(())
    };
    let in_blocks = || -> Result<()> {
        let mine = world.rank().index() * N;
        for round in 1..=ROUNDS {
            for rank in world.ranks() {
                let block = [round; N];
                blocks.on(rank).add(mine).put_slice(world, &block)?;
            }
            world.flush_all()?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let blocks = scope.spawn(in_blocks);
        in_pieces().and(blocks.join().expect("no panic"))
    })?;
    world.barrier()?;
    let n = N * world.n_ranks() as usize;
    assert_eq!(blocks.here().get_vec(world, n)?, vec![ROUNDS; n]);
    world.barrier()
}

/// Threads put and end, and another one flushes. What threads begin, another one waits for.
fn threads_leave_what_they_have_begun_to_others(world: &World) -> Result<()> {
    const N_THREADS: usize = 5;
    const N: usize = 200;
    let words = world.alloc_symmetric::<u64>(N_THREADS * N)?;
    let sum = world.alloc_symmetric::<u64>(1)?;
    let (there, next) = (words.on(neighbour(world, 1)), sum.on(neighbour(world, 1)));
    let put = |thread: usize| -> Result<()> {
        let values: Vec<u64> = (0..N as u64).map(|i| 1000 * thread as u64 + i).collect();
        let (long, short) = values.split_at(N / 2);
        let part = there.add(thread * N);
        part.put_slice(world, long)?;
        for (i, value) in (N / 2..).zip(short) {
            part.add(i).put(world, *value)?;
        }
        Ok(())
    };
    in_threads(N_THREADS, put)?;
    world.flush(there.rank())?;
    world.barrier()?;
    let own = words.here().get_vec(world, N_THREADS * N)?;
    for (thread, part) in own.chunks(N).enumerate() {
        let expected = (0..N as u64).map(|i| 1000 * thread as u64 + i);
        assert!(part.iter().copied().eq(expected), "{thread}: {part:?}");
    }
    let begin = |thread: usize| -> Result<_> {
        let added = next.fetch_op_nb(world, AtomicOp::Add, 1)?;
        Ok((there.add(thread * N).get_nb(world)?, added))
    };
    let mut formers = Vec::new();
    for (thread, (first, added)) in in_threads(N_THREADS, begin)?.into_iter().enumerate() {
        assert_eq!(first.wait()?, 1000 * thread as u64);
        formers.push(added.wait()?);
    }
    formers.sort_unstable();
    assert!(formers.into_iter().eq(0..N_THREADS as u64), "one by one");
    world.barrier()
}

/// What `n` threads return, in their order.
fn in_threads<T: Send>(n: usize, body: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let body = &body;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n).map(|i| scope.spawn(move || body(i))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        threads.into_iter().map(join).collect()
    })
}

/// Each thread calls collectives of one team, in an order that has nothing to do with that of the
/// other thread.
fn threads_of_a_rank_split_teams_of_their_own(world: &World) -> Result<()> {
    const LONG: usize = 20_000;
    let me = world.rank().number();
    let teams = [0, 1].map(|_| world.split(Some(0), me));
    let mut whole = Vec::new();
    for team in teams {
        whole.push(team?.expect("a member"));
    }
    let n_ranks = world.n_ranks();
    in_threads(2, |thread| {
        let team = &whole[thread];
        for i in 0..10 {
            // Backwards, so that the new root is the last rank of the world.
            let new = team.split(Some(0), n_ranks - me)?.expect("a member");
            assert_eq!(
                new.allreduce(me + i, Sum)?,
                (0..n_ranks).map(|r| r + i).sum()
            );
            let mut text = vec![if new.rank() == 0 { me + i } else { 0 }; LONG];
            new.broadcast_slice(0, &mut text)?;
            assert_eq!(text, [n_ranks - 1 + i; LONG]);
            new.barrier()?;
        }
        Ok(())
    })?;
    world.barrier()
}
