//! Calls that answer with the results of further operations, tasks, and futures of all kinds
//! together.

use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::{
    Completes, DistObject, Error, Here, PgasFuture, Promise, RemoteCalls, attach, quiet, when_all,
    when_any,
};
use pgas_core::collective::op::Sum;
use pgas_core::{GlobalPtr, Rank, RemotePanic, Result, World};

use super::case;
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[
    case!(1, a_call_answers_with_what_further_ranks_say),
    case!(1, a_body_spawns_what_it_awaits),
    case!(1, a_body_returns_results_and_events),
    case!(1, what_a_body_returns_as_an_error_is_told_with_its_rank),
    case!(1, what_fails_on_the_way_is_told_to_the_first_caller),
    case!(1, transfers_calls_and_collectives_are_joined_alike),
    case!(
        1,
        a_promise_has_its_value_when_all_that_was_asked_for_is_there
    ),
    case!(1, quiet_waits_for_what_tasks_send),
    case!(
        1,
        nothing_waits_in_what_is_chained_whether_it_is_ready_or_not
    ),
];

/// Makes `left` further hops around the ring, and answers with the sum of the visited ranks.
fn hop((here, left): (Here, u32)) -> Result<PgasFuture<u64>> {
    let world = here.world();
    let own = u64::from(world.rank().number());
    if left == 0 {
        return Ok(PgasFuture::ready(own));
    }
    let rest = world.rpc(neighbour(world, 1), hop, (here.clone(), left - 1))?;
    Ok(rest.then(move |sum| sum + own))
}

/// Makes `left` further hops, and fails.
fn refused_at_the_end((here, left): (Here, u32)) -> Result<PgasFuture<u64>> {
    if left == 0 {
        return Err(Error::Argument("the way ends".into()));
    }
    let world = here.world();
    world.rpc(
        neighbour(world, 1),
        refused_at_the_end,
        (here.clone(), left - 1),
    )
}

fn a_call_answers_with_what_further_ranks_say(world: &World) -> Result<()> {
    attach(world)?;
    let n = world.n_ranks();
    let all = u64::from(n * (n - 1) / 2);
    let calls = (0..50).map(|_| world.rpc(neighbour(world, 1), hop, (Here::new(world), 3 * n - 1)));
    let sums = when_all(calls.collect::<Result<Vec<_>>>()?).wait()?;
    assert_eq!(sums, [3 * all; 50]);
    // A slice as a view, and a list of all ranks.
    let last = |here: Here, view: &[u64]| {
        let at = Rank::new(here.world().n_ranks() - 1);
        here.world().rpc(at, |x: u64| x + 1, view[1])
    };
    let viewed = world.rpc_view(neighbour(world, 2), last, Here::new(world), &[1, 41])?;
    assert_eq!(viewed.wait()?, 42);
    let each = |here: Here| {
        here.world()
            .rpc(Rank::ZERO, |x: u32| x, here.world().rank().number())
    };
    let ranks = world.rpc_all(each, &Here::new(world))?.wait()?;
    assert!(ranks.into_iter().eq(0..n));
    world.barrier()
}

fn a_body_spawns_what_it_awaits(world: &World) -> Result<()> {
    const LONG: usize = 100_000;
    attach(world)?;
    let words = world.alloc_symmetric::<u64>(2)?;
    words.here().put(world, u64::from(world.rank().number()))?;
    world.barrier()?;
    // Reads a word of one rank, calls another, adds to a third one's word, and answers with a long
    // list.
    type Args = (Here, GlobalPtr<u64>, Rank, GlobalPtr<u64>);
    let body = |(here, word, ask, count): Args| {
        let world = here.world().clone();
        here.world().spawn(async move {
            let read = word.get_nb(&world)?.await?;
            let asked = world.rpc(ask, |x: u64| 2 * x, read)?.await?;
            count.atomic_add_nb(&world, 1)?.await?;
            Ok(vec![asked; LONG])
        })
    };
    let (next, far) = (neighbour(world, 1), neighbour(world, 2));
    for _ in 0..5 {
        let args = (Here::new(world), words.on(far), next, words.on(far).add(1));
        let long = world.rpc(next, body, args)?.wait()?;
        assert_eq!(long, vec![2 * u64::from(far.number()); LONG]);
    }
    world.barrier()?;
    assert_eq!(words.here().add(1).get(world)?, 5);
    world.barrier()
}

/// Bodies with `?`, and bodies that return a transfer in flight.
fn a_body_returns_results_and_events(world: &World) -> Result<()> {
    type Args = (Here, GlobalPtr<u64>, u64);
    attach(world)?;
    let words = world.alloc_symmetric::<u64>(1)?;
    words
        .here()
        .put(world, 7 * u64::from(world.rank().number()))?;
    world.barrier()?;
    let (next, far) = (neighbour(world, 1), neighbour(world, 2));
    let right = 7 * u64::from(far.number());
    let value = |(here, word, limit): Args| -> Result<u64> {
        let held = word.get(here.world())?;
        if held < limit {
            let text = format!("{held} is less than {limit}");
            return Err(Error::Argument(text.into()));
        }
        Ok(held)
    };
    let event = |(here, word, _): Args| word.get_nb(here.world());
    let task = |(here, word, _): Args| -> PgasFuture<Vec<u64>> {
        let world = here.world().clone();
        here.world()
            .spawn(async move { Ok(vec![word.get_nb(&world)?.await?; 3]) })
    };
    let args = |limit| (Here::new(world), words.on(far), limit);
    for _ in 0..5 {
        assert_eq!(world.rpc(next, value, args(0))?.wait()?, right);
        assert_eq!(world.rpc(next, event, args(0))?.wait()?, right);
        assert_eq!(world.rpc(next, task, args(0))?.wait()?, [right; 3]);
        let put = words
            .here()
            .put_nb(world, 7 * u64::from(world.rank().number()));
        assert_eq!(world.rpc_after(put, next, value, args(0)).wait()?, right);
        let failed = world.rpc(next, value, args(1000))?.wait();
        let Err(Error::Remote(error)) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(error.rank, next);
        let text = format!("{right} is less than 1000");
        assert!(error.message.contains(&text), "{error}");
    }
    world.barrier()
}

fn what_a_body_returns_as_an_error_is_told_with_its_rank(world: &World) -> Result<()> {
    attach(world)?;
    let (next, far) = (neighbour(world, 1), neighbour(world, 2));
    // One of all fails.
    let by_rank = |here: Here| match here.world().rank() {
        Rank::ZERO => Err(Error::Argument("the first".into())),
        rank => Ok(rank),
    };
    let failed = world.rpc_all(by_rank, &Here::new(world))?.wait();
    assert!(
        matches!(&failed, Err(Error::Remote(error)) if error.rank == Rank::ZERO),
        "{failed:?}"
    );
    // A panic that a body passes on as an error stays one.
    let passes_on = |(here, rank): (Here, Rank), view: &[u64]| -> Result<u64> {
        assert_eq!(view, [5]);
        let panic = RemotePanic {
            rank,
            message: format!("seen by {}", here.world().rank()),
            location: "somewhere".into(),
        };
        Err(Error::from(Box::new(panic)))
    };
    let failed = world.rpc_view(next, passes_on, (Here::new(world), far), &[5])?;
    let failed = failed.wait();
    let Err(Error::RemotePanic(panic)) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!((panic.rank, &*panic.location), (next, "somewhere"));
    assert!(
        panic.message.ends_with(&format!("seen by {next}")),
        "{panic}"
    );
    world.barrier()
}

fn what_fails_on_the_way_is_told_to_the_first_caller(world: &World) -> Result<()> {
    attach(world)?;
    let (next, far) = (neighbour(world, 1), neighbour(world, 2));
    // A function panics on the rank that the called rank calls.
    let through = |(here, far): (Here, Rank)| here.world().rpc(far, |x: u64| 1 / x, 0);
    let failed = world.rpc(next, through, (Here::new(world), far))?.wait();
    let Err(Error::RemotePanic(panic)) = failed else {
        panic!("{failed:?}")
    };
    assert!(panic.message.contains("divide by zero"), "{panic}");
    assert_eq!(panic.rank, next);
    let told = panic
        .message
        .contains(&format!("on rank {far}, which it asked"));
    assert_eq!(told, far != next, "{panic}");
    assert!(panic.location.contains("chains.rs"), "{panic}");
    // A task panics, before and after it has awaited something.
    let task = |(here, is_late): (Here, bool)| {
        let world = here.world().clone();
        here.world().spawn::<u64>(async move {
            if is_late {
                world.rpc(world.rank(), |()| (), ())?.await?;
            }
            panic!("in a task");
        })
    };
    for is_late in [false, true] {
        let failed = world.rpc(next, task, (Here::new(world), is_late))?.wait();
        let Err(Error::RemotePanic(panic)) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(panic.rank, next);
        assert_eq!(panic.message, "in a task");
        assert!(panic.location.contains("chains.rs"), "{panic}");
    }
    // An operation that could not be begun, and a promise that is never fulfilled.
    let refused = |_: u64| Err::<PgasFuture<u64>, _>(Error::Argument("too small".into()));
    let failed = world.rpc(next, refused, 3)?.wait();
    let Err(Error::Remote(error)) = failed else {
        panic!("{failed:?}")
    };
    assert!(error.message.contains("too small"), "{error}");
    // However many ranks pass it on.
    let failed = world.rpc(next, refused_at_the_end, (Here::new(world), 20))?;
    let Err(Error::Remote(error)) = failed.wait() else {
        panic!("20 hops have not failed")
    };
    assert!(error.message.ends_with("the way ends"), "{error}");
    let forgets = |here: Here| Promise::<u64>::of_value(here.world()).map(|told| told.future());
    let failed = world.rpc(next, forgets, Here::new(world))?.wait();
    let Err(Error::Remote(error)) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(error.rank, next);
    world.barrier()
}

fn transfers_calls_and_collectives_are_joined_alike(world: &World) -> Result<()> {
    attach(world)?;
    let words = world.alloc_symmetric::<u64>(1)?;
    let next = neighbour(world, 1);
    let word = words.on(next);
    let n = u64::from(world.n_ranks());
    let joined = when_all((
        word.put_nb(world, 7)?,
        world.rpc(next, |x: u64| x + 1, 41)?,
        world.allreduce_nb(1_u64, Sum),
        PgasFuture::ready("ready"),
    ));
    assert_eq!(joined.wait()?, ((), 42, n, "ready"));
    world.barrier()?;
    let reads = (0..100).map(|_| word.get_nb(world));
    assert_eq!(
        when_all(reads.collect::<Result<Vec<_>>>()?).wait()?,
        [7; 100]
    );
    let promise = Promise::new(world)?;
    for _ in 0..10 {
        word.get_nb(world)?.fulfils(&promise);
    }
    promise.finalize().wait()?;
    // Each of many futures is the first once.
    let mut left: Vec<_> = (0..20_u64)
        .map(|x| world.rpc(next, |x: u64| x, x))
        .collect::<Result<_>>()?;
    let mut seen = Vec::new();
    while !left.is_empty() {
        let first = when_any(left).wait()?;
        seen.push(first.result?);
        left = first.rest;
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..20));
    let never = Promise::<u64>::of_value(world)?;
    let first = when_any([never.future(), word.get_nb(world)?.future()]).wait()?;
    assert_eq!((first.index, first.result?), (1, 7));
    // One that is looked at until it is ready, and its copies.
    let mut asked = world.rpc(next, |x: u64| x + 1, 8)?;
    world.wait_for("an answer", || asked.test())?;
    assert!(asked.is_ready());
    let copies = asked.shared();
    assert!(copies.is_ready());
    let (mut one, tens) = (copies.future(), copies.then(|x| 10 * x));
    assert!(one.is_ready());
    let joined = when_all((&copies, one, tens, word.get_nb(world)?));
    assert_eq!(joined.wait()?, (copies.wait()?, 9, 90, 7));
    let after = world.rpc_after(&copies, next, |x: u64| x + 1, 1);
    assert_eq!(after.wait()?, 2);
    // A chain over a call and transfers, shared by two futures.
    let (same, at) = (world.clone(), word);
    let chain = world
        .rpc(next, |x: u64| x, 8)?
        .and_then(move |x| at.put_nb(&same, x));
    let (same, at) = (world.clone(), word);
    let chain = chain.and_then(move |()| at.get_nb(&same)).shared();
    let other = chain.then(|x| x + 1);
    assert_eq!((chain.wait()?, other.wait()?), (8, 9));
    world.barrier()
}

fn a_promise_has_its_value_when_all_that_was_asked_for_is_there(world: &World) -> Result<()> {
    attach(world)?;
    let promise = Promise::of_value(world)?;
    promise.require(3);
    let mut future = promise.future();
    promise.fulfil_with("value");
    promise.fulfil(2);
    assert!(!future.is_ready());
    let (same, next) = (promise.clone(), neighbour(world, 1));
    let called = world.rpc(next, |x: u64| x, 1)?;
    let told = called.then(move |x| same.fulfil(x));
    assert_eq!(future.wait()?, "value");
    told.wait()?;
    let broken = Promise::<u64>::of_value(world)?;
    let future = broken.future();
    broken.fail(Error::Argument("as the case wants".into()));
    let told = future.wait().expect_err("it has failed").to_string();
    assert!(told.contains("as the case wants"), "{told}");
    world.barrier()
}

fn quiet_waits_for_what_tasks_send(world: &World) -> Result<()> {
    attach(world)?;
    let counter = DistObject::new(world, AtomicU64::new(0))?;
    type Args = (Here, DistObject<AtomicU64>, Rank);
    let body = |(here, counter, to): Args| {
        let world = here.world().clone();
        drop(here.world().spawn(async move {
            for _ in 0..3 {
                world.rpc(to, |()| (), ())?.await?;
            }
            world.rpc_ff(
                to,
                |counter: DistObject<AtomicU64>| {
                    counter.fetch_add(1, Ordering::Relaxed);
                },
                counter,
            )
        }));
    };
    for _ in 0..100 {
        let to = neighbour(world, 2);
        world.rpc_ff(
            neighbour(world, 1),
            body,
            (Here::new(world), counter.clone(), to),
        )?;
    }
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), 100);
    world.barrier()
}

fn nothing_waits_in_what_is_chained_whether_it_is_ready_or_not(world: &World) -> Result<()> {
    attach(world)?;
    let waits = |world: &World| {
        let world = world.clone();
        move |_: u64| world.barrier()
    };
    let is_refused = |waited: Result<()>| matches!(waited, Err(Error::InHandler { .. }));
    let ready = PgasFuture::ready(1).then(waits(world));
    assert!(is_refused(ready.wait()?));
    let pending = world
        .rpc(neighbour(world, 1), |x: u64| x, 1)?
        .then(waits(world));
    assert!(is_refused(pending.wait()?));
    let same = world.clone();
    let task = world.spawn(async move { Ok(same.barrier()) });
    assert!(is_refused(task.wait()?));
    world.barrier()
}
