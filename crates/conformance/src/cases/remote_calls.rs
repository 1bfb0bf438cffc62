//! Remote calls, their futures, and distributed objects.

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use pgas_am::codec::{Codec, Decoder, Each, Encoder, Wire};
use pgas_am::{
    Aggregator, DistObject, Error, Here, PgasFuture, Promise, RemoteCalls, TeamCalls, attach,
    quiet, when_all,
};
use pgas_core::backend::{AtomicOp, Sent};
use pgas_core::collective::op::Sum;
use pgas_core::{GlobalPtr, Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::{assert_panics, neighbour, random_values};
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case!(1, arguments_and_results_of_every_type_come_back),
    case!(1, bytes_that_a_codec_leaves_over_are_an_error),
    case!(1, slices_are_viewed_as_they_were_sent),
    case!(1, a_panic_comes_back_with_rank_message_and_place),
    case!(1, calls_that_cannot_be_are_refused_and_nothing_is_lost),
    case!(1, ten_thousand_calls_are_under_way_at_once),
    case!(1, calls_without_an_answer_flood_all_ranks_and_none_is_lost),
    case!(1, a_call_that_meets_back_pressure_was_not_made),
    case!(1, a_remote_function_may_call_others_but_not_wait),
    case!(1, calls_and_results_longer_than_a_message_travel_in_pieces),
    case!(1, what_was_put_before_a_call_is_there_when_it_runs),
    case!(1, a_call_follows_whatever_completes),
    case!(1, futures_that_are_dropped_or_forgotten_lose_nothing_else),
    case!(1, actions_run_on_values_when_they_come),
    case!(1, many_operations_fulfil_one_promise),
    case!(1, futures_are_awaited_with_and_without_an_executor),
    case!(1, a_distributed_object_arrives_as_the_targets_instance),
    case!(2, a_call_waits_for_an_object_that_is_not_built_yet),
    case!(1, objects_of_teams_and_their_errors),
    case!(1, aggregated_items_come_to_their_ranks_once_each),
];

/// A word of each rank that remote functions increment.
type Counter = DistObject<AtomicU64>;

pub(super) fn counter(world: &World) -> Result<Counter> {
    attach(world)?;
    DistObject::new(&world.team(), AtomicU64::new(0))
}

pub(super) fn add((counter, n): (Counter, u64)) -> u64 {
    counter.fetch_add(n, Ordering::Relaxed)
}

fn add_ff(args: (Counter, u64)) {
    add(args);
}

fn arguments_and_results_of_every_type_come_back(world: &World) -> Result<()> {
    attach(world)?;
    let next = neighbour(world, 1);
    assert_eq!(world.rpc(next, |x: u64| x + 1, 41)?.wait()?, 42);
    world.rpc(next, |(): ()| (), ())?.wait()?;
    assert!(!world.rpc(next, |x: bool| !x, true)?.wait()?);
    let text = world.rpc(next, |x: String| x + "!", "hällo".to_owned())?;
    assert_eq!(text.wait()?, "hällo!");
    let swap = |(a, b): (f32, char)| (b, a);
    assert_eq!(world.rpc(next, swap, (0.5, 'x'))?.wait()?, ('x', 0.5));
    let reversed = |mut list: Vec<Option<u16>>| {
        list.reverse();
        list
    };
    let list = vec![Some(1), None, Some(3)];
    let expected = vec![Some(3), None, Some(1)];
    assert_eq!(world.rpc(next, reversed, list)?.wait()?, expected);
    let checked = |x: i32| x.checked_neg().ok_or_else(|| "it overflows".to_owned());
    assert_eq!(world.rpc(next, checked, 5)?.wait()?, Ok(-5));
    assert!(world.rpc(next, checked, i32::MIN)?.wait()?.is_err());
    for size in [0, 1, 31, 32, 33, 100, 2000] {
        let bytes: Vec<u8> = random_values(&mut rng(size), usize::try_from(size).expect("small"));
        let same = world
            .rpc(next, |bytes: Vec<u8>| bytes, bytes.clone())?
            .wait()?;
        assert!(same == bytes, "{size} bytes");
    }
    let rank = |here: Here| here.world().rank();
    assert_eq!(world.rpc(next, rank, Here::new(world))?.wait()?, next);
    world.barrier()
}

fn slices_are_viewed_as_they_were_sent(world: &World) -> Result<()> {
    fn sum<T: Copy + Into<f64>>(x: f64, list: &[T]) -> f64 {
        list.iter().fold(x, |sum, y| sum + (*y).into())
    }
    attach(world)?;
    let next = neighbour(world, 1);
    for n in [0, 1, 2, 5, 6, 7, 100] {
        let bytes: Vec<u8> = random_values(&mut rng(1), n);
        let words: Vec<u32> = random_values(&mut rng(2), n);
        let floats: Vec<f64> = words.iter().copied().map(f64::from).collect();
        let by_bytes = world.rpc_view(next, sum::<u8>, 0.5, &bytes)?.wait()?;
        assert!(by_bytes == sum(0.5, &bytes), "{n} bytes");
        let by_words = world.rpc_view(next, sum::<u32>, 0.5, &words)?.wait()?;
        assert!(by_words == sum(0.5, &words), "{n} words");
        let by_floats = world.rpc_view(next, sum::<f64>, 0.5, &floats)?.wait()?;
        assert!(by_floats == sum(0.5, &floats), "{n} floats");
        // Preceded by an argument of another length.
        let lengths = |text: String, list: &[u64]| (text.len(), list.len());
        let longs: Vec<u64> = vec![7; n];
        let text = "x".repeat(n % 9);
        let both = world.rpc_view(next, lengths, text, &longs)?.wait()?;
        assert_eq!(both, (n % 9, n));
        // Two slices of different elements.
        let two = |x: f64, bytes: &[u8], words: &[u32]| sum(sum(x, bytes), words);
        let by_two = world.rpc_views(next, two, 0.5, (&bytes, &words))?.wait()?;
        assert!(by_two == two(0.5, &bytes, &words), "{n} bytes and words");
    }
    let counter = counter(world)?;
    let add_all = |counter: Counter, ones: &[u8], twos: &[u64]| {
        add((counter, (ones.len() + 2 * twos.len()) as u64));
    };
    world.rpc_ff_views(next, add_all, counter.clone(), (&[0; 3], &[0; 5]))?;
    let team = world.team();
    let after = team.member_after(team.rank());
    team.rpc_ff_views(after, add_all, counter.clone(), (&[0; 30], &[0; 50]))?;
    let lengths = |(): (), a: &[u8], b: &[u16]| [a.len(), b.len()];
    let asked = team.rpc_views(after, lengths, (), (&[1; 7], &[2]))?;
    assert_eq!(asked.wait()?, [7, 1]);
    let more: (&[u8], &[u64]) = (&[0; 200], &[0; 100]);
    world.wait_for("room for a call", || {
        let sent = world.try_rpc_ff_views(next, add_all, &counter, more)?;
        Ok(sent == Sent::Accepted)
    })?;
    let long = vec![0_u8; world.capabilities().max_medium];
    let refused = world.try_rpc_ff_views(next, add_all, &counter, (&long, &[]));
    assert!(
        matches!(refused, Err(Error::MessageTooLong { .. })),
        "{refused:?}"
    );
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), 13 + 130 + 400);
    world.barrier()
}

fn a_panic_comes_back_with_rank_message_and_place(world: &World) -> Result<()> {
    fn refuse(x: u64) -> u64 {
        assert!(x == 0, "{x} is refused");
        x
    }
    attach(world)?;
    let next = neighbour(world, 1);
    for x in [7, 8] {
        let error = world.rpc(next, refuse, x)?.wait().expect_err("it panics");
        let Error::RemotePanic(panic) = &error else {
            panic!("{error}");
        };
        assert_eq!(panic.rank, next);
        assert_eq!(panic.message, format!("{x} is refused"));
        assert!(panic.location.contains("remote_calls.rs"), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("rank {next}")), "{text}");
    }
    // The target goes on.
    assert_eq!(world.rpc(next, refuse, 0)?.wait()?, 0);
    world.barrier()
}

/// Writes eight bytes and reads four.
#[derive(Debug)]
struct Long(u32);

impl Wire for Long {
    type By = ReadsLess;
}

enum ReadsLess {}

impl Codec<Long> for ReadsLess {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Long, out: &mut Encoder) -> Result<()> {
        out.put(&u64::from(value.0))
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Long> {
        input.get().map(Long)
    }
}

fn bytes_that_a_codec_leaves_over_are_an_error(world: &World) -> Result<()> {
    attach(world)?;
    let next = neighbour(world, 1);
    let errors = [
        world
            .rpc(next, |long: Long| long.0, Long(1))?
            .wait()
            .map(drop),
        world.rpc(next, Long, 1)?.wait().map(drop),
    ];
    for error in errors {
        let error = error.expect_err("four bytes too many").to_string();
        assert!(error.contains("4 bytes are left over"), "{error}");
    }
    world.barrier()
}

fn calls_that_cannot_be_are_refused_and_nothing_is_lost(world: &World) -> Result<()> {
    attach(world)?;
    let next = neighbour(world, 1);
    const LONGEST: usize = 64 << 20;
    let length = |bytes: Vec<u8>| bytes.len();
    let no_length = |(): (), bytes: &[u8]| bytes.len();
    let error = world
        .rpc_view(next, no_length, (), &vec![0_u8; LONGEST])
        .expect_err("too long");
    assert!(
        matches!(error, Error::MessageTooLong { to, .. } if to == next),
        "{error}"
    );
    let limit = world.capabilities().max_medium;
    let view = vec![0_u8; limit];
    let error = world.try_rpc_ff_view(next, |(): (), _: &[u8]| {}, &(), &view);
    let error = error.expect_err("what does not wait is not sent in pieces");
    assert!(error.to_string().contains(&limit.to_string()), "{error}");
    let team = world.team();
    let nobody = world.n_ranks();
    assert_panics(&format!("has no member {nobody}"), || {
        team.rpc(nobody, |x: u64| x, 1)
    });
    assert_eq!(world.rpc(next, length, vec![0; 100])?.wait()?, 100);
    world.barrier()
}

fn calls_and_results_longer_than_a_message_travel_in_pieces(world: &World) -> Result<()> {
    attach(world)?;
    let limit = world.capabilities().max_medium;
    let doubled = |mut list: Vec<u32>| {
        list.iter_mut().for_each(|x| *x *= 2);
        list
    };
    let sum = |start: u64, list: &[u32]| list.iter().map(|x| u64::from(*x)).sum::<u64>() + start;
    for n in [limit / 4, limit, 3 * limit] {
        let list: Vec<u32> = (0..u32::try_from(n).expect("short")).collect();
        let expected: Vec<u32> = list.iter().map(|x| 2 * x).collect();
        let total = list.iter().map(|x| u64::from(*x)).sum::<u64>();
        let calls = (0..3).map(|i| world.rpc(neighbour(world, i), doubled, list.clone()));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let view = world.rpc_view(neighbour(world, 1), sum, 1, &list)?;
        for doubled in when_all(calls).wait()? {
            assert_eq!(doubled, expected);
        }
        assert_eq!(view.wait()?, total + 1);
        drop(world.rpc(neighbour(world, 1), doubled, list)?);
    }
    quiet(world)?;
    Ok(())
}

fn ten_thousand_calls_are_under_way_at_once(world: &World) -> Result<()> {
    const N: u64 = 10_000;
    let counter = counter(world)?;
    let calls: Vec<_> = (0..N)
        .map(|i| {
            let to = neighbour(
                world,
                u32::try_from(i % 7).expect("small") % world.n_ranks(),
            );
            world.rpc(
                to,
                |(c, i): (Counter, u64)| (add((c, 1)), i).1,
                (counter.clone(), i),
            )
        })
        .collect::<Result<_, _>>()?;
    let values = when_all(calls).wait()?;
    assert!(values.into_iter().eq(0..N), "each its own answer");
    quiet(world)?;
    let total = world.allreduce(counter.load(Ordering::Relaxed), Sum)?;
    assert_eq!(total, N * u64::from(world.n_ranks()));
    Ok(())
}

fn calls_without_an_answer_flood_all_ranks_and_none_is_lost(world: &World) -> Result<()> {
    const EACH: u64 = 3000;
    let counter = counter(world)?;
    for i in 0..EACH {
        for to in world.ranks() {
            world.rpc_ff(to, add_ff, (counter.clone(), i))?;
        }
    }
    quiet(world)?;
    let sum: u64 = (0..EACH).sum();
    assert_eq!(
        counter.load(Ordering::Relaxed),
        sum * u64::from(world.n_ranks())
    );
    Ok(())
}

fn a_call_that_meets_back_pressure_was_not_made(world: &World) -> Result<()> {
    let counter = counter(world)?;
    world.barrier()?;
    // To itself: nothing is served meanwhile.
    let (mut n_made, mut n_refused) = (0_u64, 0);
    while n_refused < 10 && n_made < 1_000_000 {
        match world.try_rpc_ff(world.rank(), add_ff, &(counter.clone(), 1))? {
            Sent::Accepted => n_made += 1,
            Sent::BackPressure => n_refused += 1,
        }
    }
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), n_made);
    Ok(())
}

/// Goes once around the ring, then counts.
fn around((here, counter, hops): (Here, Counter, u32)) {
    add((counter.clone(), 1));
    if hops > 1 {
        let (world, next) = (here.world().clone(), neighbour(here.world(), 1));
        let args = (here, counter, hops - 1);
        world
            .rpc_ff(next, around, args)
            .expect("little is under way");
    }
}

fn a_remote_function_may_call_others_but_not_wait(world: &World) -> Result<()> {
    let counter = counter(world)?;
    let args = (Here::new(world), counter.clone(), 3 * world.n_ranks());
    world.rpc_ff(neighbour(world, 1), around, args)?;
    quiet(world)?;
    let ranks = u64::from(world.n_ranks());
    assert_eq!(counter.load(Ordering::Relaxed), 3 * ranks);

    let wait = |here: Here| {
        let call = here.world().rpc(here.world().rank(), |x: u64| x, 1);
        let by_call = call.and_then(PgasFuture::wait).map(|_| ());
        let by_barrier = here.world().barrier();
        [by_call, by_barrier]
            .map(|outcome| outcome.err().map(|error| error.to_string()))
            .to_vec()
    };
    let next = neighbour(world, 1);
    for error in world.rpc(next, wait, Here::new(world))?.wait()? {
        let text = error.expect("it would wait");
        assert!(text.contains("inside a handler"), "{text}");
    }
    quiet(world)?;
    Ok(())
}

fn what_was_put_before_a_call_is_there_when_it_runs(world: &World) -> Result<()> {
    attach(world)?;
    let place = world.alloc_symmetric::<u64>(1000)?;
    let sum = |(here, place, n): (Here, GlobalPtr<u64>, usize)| {
        let mut values = vec![0; n];
        let got = place.get_slice(here.world(), &mut values);
        got.map(|()| values.iter().sum::<u64>())
            .map_err(|error| error.to_string())
    };
    let next = neighbour(world, 1);
    for n in [0, 1, 10, 1000] {
        let values: Vec<u64> = (0..n as u64).collect();
        let args = (Here::new(world), place.on(next), n);
        let expected = values.iter().sum();
        let put = place.on(next).put_vec_nb(world, values);
        let came = world.rpc_after(put, next, sum, args).wait()?;
        assert_eq!(came, Ok(expected));
    }
    world.barrier()
}

/// By a call without an answer, after puts, an atomic and a call, of which nobody waits for
/// anything.
fn a_call_follows_whatever_completes(world: &World) -> Result<()> {
    let counter = counter(world)?;
    let place = world.alloc_symmetric::<u64>(64)?;
    let next = neighbour(world, 1);
    let see = |(here, counter, place): (Here, Counter, GlobalPtr<u64>)| {
        let seen = place.get_vec(here.world(), 64).unwrap_or_default();
        let is_there = seen.iter().all(|word| *word == 7);
        add((counter, u64::from(is_there)));
    };
    let args = || (Here::new(world), counter.clone(), place.on(next));
    let there = place.on(next);
    drop(world.rpc_ff_after(there.put_vec_nb(world, vec![7; 64]), next, see, args()));
    quiet(world)?;
    let atomic = there.fetch_op_nb(world, AtomicOp::Max, 5);
    drop(world.rpc_ff_after(atomic, next, see, args()));
    let call = world.rpc(next, |x: u64| x, 1);
    drop(world.rpc_ff_after(call, next, see, args()));
    let last = when_all((there.put_nb(world, 7), there.put_vec_nb(world, vec![7; 9])));
    let (source, whole) = there.put_vec_nb(world, vec![7; 64])?.at_source().wait()?;
    assert_eq!(source.len(), 64);
    let all = when_all((last, whole));
    world.rpc_ff_after(all, next, see, args()).wait()?;
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), 4);
    let ready = PgasFuture::ready(0);
    assert_eq!(world.rpc_after(ready, next, |()| 5_u8, ()).wait()?, 5);
    world.barrier()
}

fn futures_that_are_dropped_or_forgotten_lose_nothing_else(world: &World) -> Result<()> {
    let counter = counter(world)?;
    let next = neighbour(world, 1);
    for i in 0..300 {
        let call = world.rpc(next, add, (counter.clone(), 1))?;
        match i % 3 {
            0 => drop(call),
            1 => {
                #[expect(clippy::mem_forget, reason = "what the case is about")]
                std::mem::forget(call);
            }
            _ => {
                call.wait()?;
            }
        }
    }
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), 300);
    Ok(())
}

fn actions_run_on_values_when_they_come(world: &World) -> Result<()> {
    let counter = counter(world)?;
    let next = neighbour(world, 1);
    let double = |x: u64| 2 * x;
    let chained = world
        .rpc(next, double, 4)?
        .then(|x| x + 1)
        .then(|x| x.to_string());
    assert_eq!(chained.wait()?, "9");
    assert_eq!(PgasFuture::ready(4).then(|x| x + 1).wait()?, 5);
    let joined = when_all((world.rpc(next, double, 1)?, world.rpc(next, double, 2)?));
    assert_eq!(joined.then(|(a, b)| a + b).wait()?, 6);

    // An action runs without a wait, and may make calls.
    let (again, here) = (counter.clone(), world.downgrade());
    drop(world.rpc(next, double, 5)?.then(move |x| {
        let world = here.upgrade().expect("the rank is still there");
        world
            .rpc_ff(next, add_ff, (again, x))
            .expect("little is under way");
    }));
    quiet(world)?;
    assert_eq!(counter.load(Ordering::Relaxed), 10);

    // An error skips actions.
    let fails = world.rpc(next, |x: u64| 1 / x, 0)?.then(|x| x + 1);
    assert!(matches!(fails.wait(), Err(Error::RemotePanic(_))));
    world.barrier()
}

fn many_operations_fulfil_one_promise(world: &World) -> Result<()> {
    let counter = counter(world)?;
    let promise = Promise::new(world)?;
    for i in 0..500 {
        let to = neighbour(world, i % world.n_ranks());
        world.rpc(to, add, (counter.clone(), 1))?.fulfils(&promise);
    }
    let mut done = promise.finalize();
    world.wait_for("a promise", || Ok(done.is_ready()))?;
    done.wait()?;
    quiet(world)?;
    let sum = Sum;
    let total = world.allreduce(counter.load(Ordering::Relaxed), sum)?;
    assert_eq!(total, 500 * u64::from(world.n_ranks()));

    let broken = Promise::new(world)?;
    let future = broken.future();
    drop(broken);
    assert!(matches!(future.wait(), Err(Error::BrokenPromise)));
    let failing = Promise::new(world)?;
    world
        .rpc(world.rank(), |x: u64| 1 / x, 0)?
        .fulfils(&failing);
    assert!(matches!(
        failing.finalize().wait(),
        Err(Error::RemotePanic(_))
    ));
    world.barrier()
}

fn futures_are_awaited_with_and_without_an_executor(world: &World) -> Result<()> {
    async fn chain(world: &World, to: Rank) -> Result<u64> {
        let mut x = 1;
        for _ in 0..10 {
            x = world.rpc(to, |x: u64| 2 * x, x)?.await?;
        }
        let cell = world.alloc::<u64>(1)?;
        cell.put_nb(world, x)?.await?;
        cell.get_nb(world)?.await
    }
    attach(world)?;
    let next = neighbour(world, 1);
    assert_eq!(world.block_on(chain(world, next))??, 1024);
    // An executor outside of the library polls until the future is ready.
    let mut chain = pin!(chain(world, next));
    let mut cx = Context::from_waker(Waker::noop());
    let mut value = None;
    world.wait_for("a future", || {
        if let std::task::Poll::Ready(result) = chain.as_mut().poll(&mut cx) {
            value = Some(result);
        }
        Ok(value.is_some())
    })?;
    assert_eq!(value.expect("it is ready")?, 1024);
    world.barrier()
}

fn a_distributed_object_arrives_as_the_targets_instance(world: &World) -> Result<()> {
    attach(world)?;
    let names = DistObject::new(&world.team(), format!("rank {}", world.rank()))?;
    let numbers = DistObject::new(&world.team(), Mutex::new(vec![world.rank().number()]))?;
    for member in 0..world.n_ranks() {
        assert_eq!(names.fetch(member)?.wait()?, format!("rank {member}"));
    }
    type Numbers = DistObject<Mutex<Vec<u32>>>;
    let push = |(numbers, x): (Numbers, u32)| {
        let mut numbers = numbers.lock().expect("nobody panics with it");
        numbers.push(x);
        numbers[0]
    };
    for to in world.ranks() {
        let args = (numbers.clone(), world.rank().number());
        assert_eq!(world.rpc(to, push, args)?.wait()?, to.number());
    }
    quiet(world)?;
    let mut seen = numbers.lock().expect("nobody panics with it").clone();
    seen[1..].sort_unstable();
    assert!(seen[1..].iter().copied().eq(0..world.n_ranks()));
    world.barrier()
}

fn a_call_waits_for_an_object_that_is_not_built_yet(world: &World) -> Result<()> {
    attach(world)?;
    let early = world.rank() == Rank::ZERO;
    let build = || DistObject::new(&world.team(), AtomicU64::new(100));
    let counter = if early {
        let counter = build()?;
        let late = world.rpc(Rank::new(1), add, (counter.clone(), 1))?;
        world.rpc_ff(Rank::new(1), add_ff, (counter.clone(), 1))?;
        // Other ranks do not wait for it. Rank 1 makes its instance when it gets the order.
        assert_eq!(world.rpc(Rank::new(1), |x: u64| x + 1, 1)?.wait()?, 2);
        world.barrier()?;
        assert!((100..=101).contains(&late.wait()?));
        counter
    } else {
        world.barrier()?;
        build()?
    };
    quiet(world)?;
    let expected = if world.rank().number() == 1 { 102 } else { 100 };
    assert_eq!(counter.load(Ordering::Relaxed), expected);
    world.barrier()
}

fn objects_of_teams_and_their_errors(world: &World) -> Result<()> {
    attach(world)?;
    let half = world.team().split(Some(world.rank().number() % 2), 0)?;
    let half = half.expect("every rank has a color");
    let object = DistObject::new(&half, u64::from(world.rank().number()))?;
    for member in 0..half.n_ranks() {
        let rank = half.world_rank(member).number();
        assert_eq!(object.fetch(member)?.wait()?, u64::from(rank));
    }
    assert_panics("has no member", || object.fetch(half.n_ranks()));
    world.barrier()?;
    // An object that the target has dropped is an error there, and not an endless wait.
    let gone = DistObject::new(&world.team(), 1_u64)?;
    let last = Rank::new(world.n_ranks() - 1);
    world.barrier()?;
    if world.rank() == last && world.n_ranks() > 1 {
        drop(gone);
        world.barrier()?;
    } else {
        world.barrier()?;
        if world.n_ranks() > 1 {
            let error = gone
                .fetch(last.number())?
                .wait()
                .expect_err("it was dropped");
            assert!(error.to_string().contains("was dropped"), "{error}");
        }
    }
    world.barrier()
}

fn aggregated_items_come_to_their_ranks_once_each(world: &World) -> Result<()> {
    const EACH: u64 = 5000;
    type List = DistObject<Mutex<Vec<u64>>>;
    attach(world)?;
    let list: List = DistObject::new(&world.team(), Mutex::default())?;
    let append = |list: List, items: &[u64]| {
        let mut list = list.lock().expect("nobody panics with it");
        list.extend_from_slice(items);
    };
    let mut sender = Aggregator::new(world, append, list.clone())?;
    let own = u64::from(world.rank().number()) << 32;
    for i in 0..EACH {
        for to in world.ranks() {
            if i % 2 == 0 {
                sender.push(to, own | i)?;
                continue;
            }
            while sender.try_push(to, own | i)?.is_some() {
                world.progress()?;
            }
        }
    }
    sender.finish()?;
    let mut items = std::mem::take(&mut *list.lock().expect("nobody panics with it"));
    items.sort_unstable();
    let ranks = world.ranks().map(|from| u64::from(from.number()) << 32);
    assert!(
        items
            .into_iter()
            .eq(ranks.flat_map(|from| (0..EACH).map(move |i| from | i)))
    );
    world.barrier()
}
