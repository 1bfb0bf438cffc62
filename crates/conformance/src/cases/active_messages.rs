//! Active messages: every kind arrives, floods end, and refusals give a reason.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pgas_am::{
    ActiveMessages, Origin, Payload, ReplyHandler, RequestHandler, Token, attach, quiet,
};
use pgas_core::backend::Sent;
use pgas_core::collective::op::Sum;
use pgas_core::{Error, GlobalPtr, Rank, Result, World};

use super::{case, case_alone};
use crate::Case;
use crate::support::{assert_panics, neighbour, random_bytes, until_accepted};
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case_alone!(1, requests_and_replies_of_every_kind_arrive_whole),
    case_alone!(1, long_replies_arrive_where_the_request_says),
    case_alone!(1, all_ranks_flood_all_and_every_request_is_answered),
    case_alone!(1, all_ranks_flood_one_and_its_long_replies_come_back),
    case_alone!(2, a_request_that_meets_back_pressure_was_not_sent),
    case_alone!(1, nothing_waits_inside_a_handler),
    case_alone!(1, messages_that_cannot_be_are_refused_and_nothing_is_lost),
    case_alone!(1, work_that_makes_work_is_done_when_all_is_quiet),
];

type Args = (u64, Option<String>);

/// Replies with its arguments.
struct Echo;
struct Echoed(Arc<Mutex<Vec<Answer>>>);
type Answer = (Rank, Args, Vec<u8>);

impl RequestHandler for Echo {
    type Args = Args;

    fn handle(&self, token: Token<'_>, args: Args, payload: Payload<'_>) -> Result<()> {
        match payload {
            Payload::Short => token.reply::<Echoed>(&args),
            Payload::Medium(bytes) => {
                assert!(bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(8));
                token.reply_medium::<Echoed>(&args, bytes)
            }
            Payload::Long(place, len) => {
                assert_eq!(place.rank(), token.world().rank(), "in the own segment");
                let mut bytes = vec![0; len];
                place.get_slice(token.world(), &mut bytes)?;
                token.reply_medium::<Echoed>(&args, &bytes)
            }
        }
    }
}

impl ReplyHandler for Echoed {
    type Args = Args;

    fn handle(&self, origin: Origin<'_>, args: Args, payload: Payload<'_>) -> Result<()> {
        let bytes = match payload {
            Payload::Medium(bytes) => bytes.to_vec(),
            Payload::Short | Payload::Long(..) => Vec::new(),
        };
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.push((origin.from(), args, bytes));
        Ok(())
    }
}

fn requests_and_replies_of_every_kind_arrive_whole(world: &World) -> Result<()> {
    attach(world)?;
    let answers = Arc::new(Mutex::new(Vec::new()));
    world.register(Echo)?;
    world.register_reply(Echoed(Arc::clone(&answers)))?;
    let landing = world.alloc_symmetric::<u8>(4096)?;
    world.barrier()?;
    let next = neighbour(world, 1);
    let take = || -> Result<Answer> {
        let mut answer = None;
        world.wait_for("an answer", || {
            answer = answers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            Ok(answer.is_some())
        })?;
        Ok(answer.expect("the wait ended because it is there"))
    };
    for (number, text) in [(1, None), (2, Some("a text")), (u64::MAX, Some(""))] {
        let args = (number, text.map(str::to_owned));
        world.request::<Echo>(next, &args)?;
        assert_eq!(take()?, (next, args.clone(), vec![]));
        let most = world.max_medium::<Echo>(next, &args)?;
        for size in [0, 1, 7, 8, 9, 47, 48, 49, 500, most] {
            let payload = random_bytes(&mut rng(size as u64), size);
            world.request_medium::<Echo>(next, &args, &payload)?;
            assert!(
                take()? == (next, args.clone(), payload.clone()),
                "{size} bytes"
            );
            until_accepted(world, || {
                world.try_request_medium::<Echo>(next, &args, &payload)
            })?;
            assert!(take()? == (next, args.clone(), payload), "{size} bytes");
        }
        for size in [0, 1, 300] {
            let payload = random_bytes(&mut rng(size as u64), size);
            world.request_long::<Echo>(landing.on(next), &args, &payload)?;
            assert!(
                take()? == (next, args.clone(), payload.clone()),
                "{size} bytes"
            );
            world.barrier()?;
            until_accepted(world, || {
                world.try_request_long::<Echo>(landing.on(next), &args, &payload)
            })?;
            let answer = take()?;
            assert!(answer == (next, args.clone(), payload.clone()));
            world.barrier()?;
            let sent = world.request_long_nb::<Echo>(landing.on(next), &args, payload)?;
            let payload = sent.wait()?;
            assert!(take()? == (next, args.clone(), payload), "{size} bytes");
            world.barrier()?;
            let payload = random_bytes(&mut rng(size as u64), size);
            drop(world.request_long_nb::<Echo>(landing.on(next), &args, payload.clone())?);
            assert!(take()? == (next, args.clone(), payload), "{size} bytes");
            world.barrier()?;
        }
    }
    world.barrier()
}

/// Replies with a payload of many bytes, to a place of the rank that asks.
struct Fill;
#[derive(Default)]
struct Filled(Arc<AtomicU64>);

impl RequestHandler for Fill {
    type Args = (GlobalPtr<u8>, usize, u8);

    fn handle(&self, token: Token<'_>, args: Self::Args, _: Payload<'_>) -> Result<()> {
        let (place, len, byte) = args;
        // Whether somebody waits for the buffer changes nothing.
        token
            .reply_long::<Filled>(place, &byte, vec![byte; len])
            .map(drop)
    }
}

impl ReplyHandler for Filled {
    type Args = u8;

    fn handle(&self, origin: Origin<'_>, byte: u8, payload: Payload<'_>) -> Result<()> {
        let Payload::Long(place, len) = payload else {
            panic!("the payload is long");
        };
        assert_eq!(place.rank(), origin.world().rank(), "in the own segment");
        assert_eq!(place.get_vec(origin.world(), len)?, vec![byte; len]);
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn long_replies_arrive_where_the_request_says(world: &World) -> Result<()> {
    const LEN: usize = 70_000;
    attach(world)?;
    let filled = Filled::default();
    let n_filled = Arc::clone(&filled.0);
    world.register(Fill)?;
    world.register_reply(filled)?;
    let places = world.alloc_symmetric::<u8>(4 * LEN)?;
    world.barrier()?;
    for (i, len) in [0, 1, 500, LEN].into_iter().enumerate() {
        let byte = u8::try_from(i + 1).expect("small");
        let place = places.here().add(i * LEN);
        world.request::<Fill>(neighbour(world, 1), &(place, len, byte))?;
    }
    quiet(world)?;
    assert_eq!(n_filled.load(Ordering::Relaxed), 4);
    for (i, len) in [1, 500, LEN].into_iter().enumerate() {
        let last = places.here().add((i + 1) * LEN + len - 1);
        assert_eq!(usize::from(last.get(world)?), i + 2);
    }
    world.barrier()
}

/// Replies to a number with its square, and with the requested number of bytes.
struct Square;
#[derive(Default)]
struct Squares {
    n: AtomicU64,
    sum: AtomicU64,
    bytes: AtomicU64,
}
struct Squared(Arc<Squares>);

impl RequestHandler for Square {
    type Args = (u64, u64);

    fn handle(&self, token: Token<'_>, (x, n_bytes): Self::Args, _: Payload<'_>) -> Result<()> {
        let bytes = vec![1; usize::try_from(n_bytes).expect("small")];
        token.reply_medium::<Squared>(&(x * x), &bytes)
    }
}

impl ReplyHandler for Squared {
    type Args = u64;

    fn handle(&self, _: Origin<'_>, xx: u64, payload: Payload<'_>) -> Result<()> {
        let Payload::Medium(bytes) = payload else {
            panic!("a reply with bytes");
        };
        let sum: u64 = bytes.iter().copied().map(u64::from).sum();
        self.0.bytes.fetch_add(sum, Ordering::Relaxed);
        self.0.sum.fetch_add(xx, Ordering::Relaxed);
        self.0.n.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn square_registered(world: &World) -> Result<Arc<Squares>> {
    attach(world)?;
    let squares = Arc::new(Squares::default());
    world.register(Square)?;
    world.register_reply(Squared(Arc::clone(&squares)))?;
    world.barrier()?;
    Ok(squares)
}

fn all_ranks_flood_all_and_every_request_is_answered(world: &World) -> Result<()> {
    const EACH: u64 = 2000;
    let squares = square_registered(world)?;
    for x in 0..EACH {
        for to in world.ranks() {
            world.request::<Square>(to, &(x, x % 40))?;
        }
    }
    quiet(world)?;
    let ranks = u64::from(world.n_ranks());
    let sum: u64 = (0..EACH).map(|x| x * x).sum();
    let bytes: u64 = (0..EACH).map(|x| x % 40).sum();
    assert_eq!(squares.n.load(Ordering::Relaxed), EACH * ranks);
    assert_eq!(squares.sum.load(Ordering::Relaxed), sum * ranks);
    assert_eq!(squares.bytes.load(Ordering::Relaxed), bytes * ranks);
    world.barrier()
}

fn all_ranks_flood_one_and_its_long_replies_come_back(world: &World) -> Result<()> {
    const EACH: u64 = 300;
    let squares = square_registered(world)?;
    // The replies have the maximum length, so the ranks' reply buffers are full most of the time.
    let n_bytes = world.max_medium::<Square>(Rank::ZERO, &(0, 0))? as u64 - 64;
    for x in 0..EACH {
        world.request::<Square>(Rank::ZERO, &(x, n_bytes))?;
    }
    let n = &squares.n;
    world.wait_for("long replies", || Ok(n.load(Ordering::Relaxed) == EACH))?;
    assert_eq!(squares.bytes.load(Ordering::Relaxed), EACH * n_bytes);
    world.barrier()
}

struct Count(Arc<AtomicU64>);

impl RequestHandler for Count {
    type Args = u64;

    fn handle(&self, _: Token<'_>, n: u64, _: Payload<'_>) -> Result<()> {
        self.0.fetch_add(n, Ordering::Relaxed);
        Ok(())
    }
}

fn count_registered(world: &World) -> Result<Arc<AtomicU64>> {
    attach(world)?;
    let count = Arc::new(AtomicU64::new(0));
    world.register(Count(Arc::clone(&count)))?;
    world.barrier()?;
    Ok(count)
}

fn a_request_that_meets_back_pressure_was_not_sent(world: &World) -> Result<()> {
    let count = count_registered(world)?;
    let accepted = world.alloc_symmetric::<u64>(1)?;
    world.barrier()?;
    let (from, to) = (Rank::ZERO, Rank::new(1));
    if world.rank() == from {
        // Messages are offered faster than the target serves them, so that its room is used up, and
        // further ones are refused. The target may serve at any time, so the test uses the least
        // number of credits, not the last one.
        let n_credits = world.n_request_credits(to);
        assert!(n_credits > 0, "nothing was sent");
        let mut least = n_credits;
        let (mut n_sent, mut n_refused) = (0_u64, 0_u64);
        while n_refused < 100 && n_sent < 30 * n_credits {
            match world.try_request::<Count>(to, &1)? {
                Sent::Accepted => n_sent += 1,
                Sent::BackPressure => n_refused += 1,
            }
            least = least.min(world.n_request_credits(to));
        }
        assert!(least < n_credits, "{n_sent} were sent");
        accepted.on(to).atomic_store(world, n_sent)?;
    }
    // The target serves them in the barrier.
    quiet(world)?;
    if world.rank() == to {
        let n_sent = accepted.here().atomic_load(world)?;
        assert_eq!(count.load(Ordering::Relaxed), n_sent);
        assert!(n_sent > 0);
    }
    world.barrier()
}

/// Calls everything that waits.
struct Wait(Arc<Mutex<Vec<Result<()>>>>);

impl RequestHandler for Wait {
    type Args = GlobalPtr<u8>;

    fn handle(&self, token: Token<'_>, place: Self::Args, _: Payload<'_>) -> Result<()> {
        let (world, from) = (token.world(), token.from());
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(world.barrier());
        list.push(world.wait_for("something", || Ok(false)));
        let mut is_begun = false;
        list.push(world.scope(|_| is_begun = true));
        list.push(world.team().all_try("a step", || {
            is_begun = true;
            Ok(())
        }));
        assert!(!is_begun, "it is refused before it has any effect");
        list.push(world.request::<Self>(from, &place));
        let long = world.request_long::<Self>(place, &place, &[1]);
        list.push(long);
        list.push(quiet(world));
        let promise = pgas_am::Promise::new(world)?;
        list.push(promise.future().wait());
        // On one rank alone, which is then out of step with the others if the calls count.
        if world.rank() == Rank::ZERO {
            list.push(world.allreduce(1_u64, Sum).map(drop));
            list.push(world.allreduce_nb(1_u64, Sum).wait().map(drop));
            list.push(world.team().barrier().map(drop));
        }
        Ok(())
    }
}

fn nothing_waits_inside_a_handler(world: &World) -> Result<()> {
    attach(world)?;
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    world.register(Wait(Arc::clone(&outcomes)))?;
    let place = world.alloc_symmetric::<u8>(8)?;
    world.barrier()?;
    world.request::<Wait>(neighbour(world, 1), &place.here())?;
    quiet(world)?;
    let seen = std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(seen.len(), if world.rank() == Rank::ZERO { 11 } else { 8 });
    for outcome in seen {
        let error = outcome.expect_err("it would wait");
        assert!(error.to_string().contains("inside a handler"), "{error}");
    }
    let n_ranks = u64::from(world.n_ranks());
    assert_eq!(world.allreduce(1_u64, Sum)?, n_ranks);
    world.barrier()
}

fn messages_that_cannot_be_are_refused_and_nothing_is_lost(world: &World) -> Result<()> {
    let count = count_registered(world)?;
    let next = neighbour(world, 1);
    let most = world.max_medium::<Count>(next, &1)?;
    let too_long = vec![0; most + 1];
    let error = world.request_medium::<Count>(next, &1, &too_long);
    let error = error.expect_err("too long");
    let limit = world.capabilities().max_medium;
    assert!(
        matches!(error, Error::MessageTooLong { to, .. } if to == next),
        "{error}"
    );
    assert!(error.to_string().contains(&limit.to_string()), "{error}");
    assert_panics("registered already", || {
        world.register(Count(Arc::clone(&count)))
    });
    let nobody = Rank::new(world.n_ranks());
    let no_rank = "the job has ranks 0 to";
    assert_panics(no_rank, || world.request::<Count>(nobody, &1));
    assert_panics(no_rank, || world.max_medium::<Count>(nobody, &1));
    assert_panics(no_rank, || world.max_long(nobody));
    assert_panics(no_rank, || world.prepare(nobody, 1));
    for to in world.ranks() {
        assert_eq!(world.max_medium::<Count>(to, &1)?, most, "rank {to}");
        assert_eq!(world.max_long(to), world.segment_bytes(), "rank {to}");
    }
    world.request_medium::<Count>(next, &1, &too_long[..most])?;
    quiet(world)?;
    assert_eq!(count.load(Ordering::Relaxed), 1);
    world.barrier()?;
    // To itself. A message from another rank might arrive in a barrier, which returns its error.
    world.request::<Square>(world.rank(), &(1, 1))?;
    let error = world.wait_for("messages", || world.progress().map(|_| false));
    let text = error.expect_err("nobody handles squares").to_string();
    assert!(text.contains("not registered"), "{text}");
    assert!(text.contains(&format!("rank {}", world.rank())), "{text}");
    Ok(())
}

/// Passes the number, less one, on to two other ranks until it is zero.
struct Spread(Arc<AtomicU64>);

impl RequestHandler for Spread {
    type Args = u64;

    fn handle(&self, token: Token<'_>, n: u64, _: Payload<'_>) -> Result<()> {
        let world = token.world();
        self.0.fetch_add(1, Ordering::Relaxed);
        if n > 0 {
            for distance in [1, 2] {
                let sent = world.try_request::<Self>(neighbour(world, distance), &(n - 1))?;
                assert_eq!(sent, Sent::Accepted, "few messages are under way");
            }
        }
        Ok(())
    }
}

fn work_that_makes_work_is_done_when_all_is_quiet(world: &World) -> Result<()> {
    const DEPTH: u64 = 2;
    attach(world)?;
    let count = Arc::new(AtomicU64::new(0));
    world.register(Spread(Arc::clone(&count)))?;
    let total = world.alloc_symmetric::<u64>(1)?;
    world.barrier()?;
    for round in 1..4 {
        world.request::<Spread>(neighbour(world, 1), &DEPTH)?;
        quiet(world)?;
        total
            .on(Rank::ZERO)
            .fetch_add(world, count.swap(0, Ordering::Relaxed))?;
        world.barrier()?;
        let all = u64::from(world.n_ranks()) * ((1 << (DEPTH + 1)) - 1);
        assert_eq!(total.on(Rank::ZERO).atomic_load(world)?, round * all);
        world.barrier()?;
    }
    Ok(())
}
