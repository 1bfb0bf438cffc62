//! Elements arrive once and in order, by one hop and by several, with inboxes of every size and
//! whatever other ranks do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use pgas_am::{ActiveMessages as _, Payload, RemoteCalls as _, RequestHandler, Token};
use pgas_core::backend::{Sent, loopback};
use pgas_core::config::Routing;
use pgas_core::{Config, as_handler};

use super::*;
use crate::testing::{
    Random, everywhere, everywhere_by, panic_in_round, served_counted_by, told_apart,
    told_of_a_panic,
};

const ROUTINGS: [Routing; 2] = [Routing::Grid, Routing::Cube];

/// Asserts that a distributor has no more lanes than its route needs.
fn assert_lanes_are_bounded<T: Object>(distributor: &Distributor<T>) {
    let Distributor { last, passing, .. } = distributor;
    let of_hops = passing.hops.iter().map(|hop| hop.channel.lanes_bytes());
    let bytes = (last.lanes_bytes() + of_hops.sum::<usize>()) as u64;
    let message_bytes = message_bytes(distributor.world()) as u64;
    assert!(bytes <= passing.route.n_lanes() * message_bytes, "{bytes}");
}

/// Every rank sends `n` random elements; each arrives once, in the order of its sender.
fn check(world: &World, capacity: usize, n: u32) {
    let me = world.rank().number();
    let mut random = Random(u64::from(me) + (u64::from(n) << 20));
    let mut distributor = Distributor::with_capacity(world, capacity).unwrap();
    let mut sent = vec![0_u64; world.n_ranks() as usize];
    // Elements of a pair of ranks are numbered.
    for _ in 0..n {
        let to = u32::try_from(random.below(world.n_ranks().into())).unwrap();
        let i = u32::try_from(sent[to as usize]).unwrap();
        distributor.send(Rank::new(to), (me, to, i)).unwrap();
        sent[to as usize] += 1;
    }
    assert_lanes_are_bounded(&distributor);
    let received: Vec<(u32, u32, u32)> = distributor.finish().unwrap();
    world
        .team()
        .allreduce_slice(&mut sent, |a: u64, b| a + b)
        .unwrap();
    assert_eq!(received.len() as u64, sent[me as usize]);
    for from in 0..world.n_ranks() {
        let of_sender = received.iter().filter(|element| element.0 == from);
        let numbers: Vec<u32> = of_sender
            .map(|&(_, to, i)| (i, assert_eq!(to, me)).0)
            .collect();
        let n = u32::try_from(numbers.len()).unwrap();
        assert!(numbers.into_iter().eq(0..n), "once, in order, of {from}");
    }
}

#[test]
fn every_element_arrives_once_whatever_the_capacity_of_the_inboxes() {
    for n_ranks in [1, 2, 3, 4] {
        everywhere(n_ranks, |world| {
            for (capacity, n) in [(1, 30), (7, 300), (64, 0), (100_000, 3000)] {
                check(&world, capacity, n);
            }
        });
    }
}

#[test]
fn a_rank_that_sends_nothing_receives_all_the_same() {
    everywhere(3, |world| {
        let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
        if world.rank() == Rank::ZERO {
            for i in 0..100 {
                distributor.send(Rank::new(2), i).unwrap();
            }
        }
        let expected = if world.rank() == Rank::new(2) {
            (0..100).collect()
        } else {
            vec![]
        };
        assert_eq!(distributor.finish().unwrap(), expected);
    });
}

#[test]
fn elements_of_any_type_arrive_and_leave_no_memory_behind() {
    everywhere(3, |world| {
        for _ in 0..3 {
            let mut distributor = Distributor::<String>::with_capacity(&world, 8).unwrap();
            for i in 0..30_u32 {
                let text = "text ".repeat(i as usize);
                distributor.send(Rank::new(i % 3), text).unwrap();
            }
            let received = distributor.finish().unwrap();
            assert_eq!(received.len(), 30);
            assert!(
                received
                    .iter()
                    .all(|text| text.len() / 5 % 3 == world.rank().index())
            );
        }
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    });
}

#[test]
fn an_element_for_a_missing_rank_is_refused_and_keeps_no_memory() {
    let send = |world: World| {
        let n = world.n_ranks();
        let mut distributor = Distributor::<String>::with_capacity(&world, 8).unwrap();
        for to in 0..n {
            distributor.send(Rank::new(to), "a text".repeat(9)).unwrap();
            let text = "another".repeat(9);
            let send = AssertUnwindSafe(|| distributor.send(Rank::new(n + to), text));
            let panic = catch_unwind(send).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(
                text.starts_with(&format!("rank {} was named", n + to)),
                "{text}"
            );
        }
        let received = distributor.finish().unwrap();
        assert_eq!(received, vec!["a text".repeat(9); n as usize]);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    };
    everywhere(3, send);
    everywhere_by(Routing::Grid, 4, send);
}

#[test]
fn bad_capacities_are_errors_on_every_rank() {
    everywhere(2, |world| {
        let error = Distributor::<u8>::with_capacity(&world, 0).unwrap_err();
        assert!(
            error.to_string().contains("capacity was to be 0"),
            "{error}"
        );
        let mine = 5 + world.rank().index();
        let error = Distributor::<u8>::with_capacity(&world, mine).unwrap_err();
        assert!(
            error.to_string().contains("rank 0 has 5, rank 1 has 6"),
            "{error}"
        );
    });
}

#[test]
fn elements_that_are_passed_on_arrive_once_and_in_order() {
    for (routing, n_ranks) in [
        (Routing::Grid, 4),
        (Routing::Grid, 7),
        (Routing::Cube, 8),
        (Routing::Cube, 11),
    ] {
        everywhere_by(routing, n_ranks, |world| {
            for (capacity, n) in [(1, 30), (7, 300), (64, 0), (10_000, 700)] {
                check(&world, capacity, n);
            }
        });
    }
}

/// Ranks that send much, little or nothing, to all others or a few, in a grid and a cube with gaps.
#[test]
fn elements_arrive_once_among_many_ranks() {
    for (routing, n_ranks, n) in [
        (Routing::Grid, 64, 400),
        (Routing::Cube, 64, 400),
        (Routing::Grid, 101, 200),
        (Routing::Cube, 127, 200),
        (Routing::Grid, 256, 50),
        (Routing::Cube, 256, 50),
    ] {
        let mut config = Config::default();
        config.routing = Some(routing);
        config.segment_bytes = Some(1 << 20);
        let run = pgas_smp::threads_with(n_ranks, &config, |world| {
            let me = world.rank().number();
            check(&world, 16, n * (me % 5) / 2);
        });
        run.unwrap();
    }
}

/// One rank has all elements, and one rank gets them.
#[test]
fn a_way_that_is_crowded_loses_nothing() {
    const N: u32 = 400;
    for routing in ROUTINGS {
        everywhere_by(routing, 9, |world| {
            let (from, to) = (Rank::new(7), Rank::new(2));
            let mut distributor = Distributor::<u32>::with_capacity(&world, 3).unwrap();
            for _ in 0..2 {
                let sent = if world.rank() == from { N } else { 0 };
                for i in 0..sent {
                    distributor.send(to, i).unwrap();
                }
                distributor.finish_round(&mut Distributor::receive).unwrap();
                let received = distributor.take_received().unwrap();
                let expected = if world.rank() == to { N } else { 0 };
                assert!(received.into_iter().eq(0..expected));
                world.barrier().unwrap();
            }
        });
    }
}

#[test]
fn what_is_passed_on_has_come_while_a_rank_polls() {
    everywhere_by(Routing::Grid, 4, |world| {
        let mut distributor = Distributor::<u64>::with_capacity(&world, 8).unwrap();
        let me = u64::from(world.rank().number());
        let mut received = Vec::new();
        for i in 0..500 {
            for to in world.ranks() {
                distributor.send(to, me * 10_000 + i).unwrap();
            }
            received.extend(distributor.poll().unwrap());
        }
        received.extend(distributor.finish().unwrap());
        assert_eq!(received.len(), 4 * 500);
        received.sort_unstable();
        received.dedup();
        assert_eq!(received.len(), 4 * 500);
    });
}

/// The messages of a round in which nothing is sent, by the model.
fn predicted(distributor: &Distributor<u64>) -> u64 {
    let mut model = *Model::shipped();
    model.round_bytes = 0.0;
    let route = distributor.passing.route;
    let shape = Shape::one_rank_a_host(route.n_ranks());
    let messages = model.predict(&route, shape, 1 << 14).n_messages;
    (0..1000_u32)
        .find(|n| f64::from(*n) == messages)
        .unwrap()
        .into()
}

/// A rank without elements tells the ranks of its row and its column, and no others.
#[test]
fn messages_grow_with_the_root_of_the_number_of_ranks() {
    for (routing, n_ranks, expected) in [
        (Routing::Direct, 36, 35),
        (Routing::Grid, 36, 5 + 5),
        (Routing::Cube, 27, 2 + 2 + 2),
        (Routing::Cube, 64, 3 + 3 + 3),
    ] {
        served_counted_by(Some(routing), n_ranks, |world| {
            let mut distributor = Distributor::<u64>::with_capacity(&world, 8).unwrap();
            world.barrier().unwrap();
            let before = world.costs();
            distributor.finish_round(&mut Distributor::receive).unwrap();
            assert_eq!((world.costs() - before).messages, expected);
            assert_eq!(predicted(&distributor), expected);
            world.barrier().unwrap();
        });
    }
}

/// A rank dies while others send elements through it. All get an error, and no rank waits for ever.
#[test]
fn the_death_of_a_rank_that_passes_on_ends_the_others() {
    for routing in ROUTINGS {
        for dying in [0, 5, 15] {
            let mut config = Config::default();
            config.routing = Some(routing);
            config.segment_bytes = Some(1 << 20);
            let n_told = Mutex::new(0);
            let body = |world: World| {
                let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
                let ranks = world.ranks().cycle().take(1000);
                for (i, to) in ranks.enumerate() {
                    assert!(world.rank().number() != dying || i < 300, "dies");
                    if distributor.send(to, 1).is_err() {
                        break;
                    }
                }
                if distributor.finish().is_err() {
                    *n_told.lock().unwrap() += 1;
                }
            };
            let job = || pgas_smp::threads_with(16, &config, body);
            catch_unwind(AssertUnwindSafe(job)).unwrap_err();
            assert_eq!(n_told.into_inner().unwrap(), 15, "{routing:?} {dying}");
        }
    }
}

#[test]
fn a_rank_that_has_left_makes_no_room_in_its_inbox_and_those_that_wait_are_told() {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(30));
    let said = pgas_smp::threads_with(3, &config, |world| {
        let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            return String::new();
        }
        let sent = (0..100_000).try_for_each(|i| distributor.send(Rank::ZERO, i));
        sent.unwrap_err().to_string()
    });
    for text in &said.unwrap()[1..] {
        assert!(has_gone(text), "{text}");
    }
}

/// Whether it says that rank 0 has left. It drops its distributor first.
fn has_gone(text: &str) -> bool {
    text.contains("rank 0 has left the job") || text.contains("rank 0 has dropped its distributor")
}

#[test]
fn those_that_send_to_a_rank_that_has_dropped_its_distributor_are_told() {
    for routing in [Routing::Direct, Routing::Grid] {
        let mut config = Config::default();
        config.segment_bytes = Some(1 << 20);
        config.timeout = Some(Duration::from_secs(30));
        config.routing = Some(routing);
        let said = pgas_smp::threads_with(4, &config, |world| {
            let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
            world.barrier().unwrap();
            if world.rank() == Rank::ZERO {
                drop(distributor);
            } else {
                let sent = (0..100_000).try_for_each(|i| distributor.send(Rank::ZERO, i));
                let error = sent.unwrap_err().to_string();
                assert!(
                    error.contains("rank 0 has dropped its distributor"),
                    "{error}"
                );
            }
            world.barrier().unwrap_err().to_string()
        });
        for text in said.unwrap() {
            assert!(text.contains("rank 0"), "{text}");
        }
    }
}

#[test]
fn those_that_wait_for_what_a_rank_sends_are_told_that_it_has_left() {
    for (routing, n_ranks) in [(Routing::Direct, 3), (Routing::Grid, 9)] {
        let mut config = Config::default();
        config.segment_bytes = Some(1 << 20);
        config.timeout = Some(Duration::from_secs(30));
        config.routing = Some(routing);
        // Otherwise they find out when they compare their calls.
        config.check = Some(false);
        let said = Mutex::new(Vec::new());
        let body = |world: World| {
            let distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
            let met = world.barrier();
            if world.rank() != Rank::ZERO {
                // A rank that was quicker may have failed the job already.
                let error = met.and_then(|()| Ok(distributor.finish()?)).unwrap_err();
                said.lock().unwrap().push(error.to_string());
            }
        };
        pgas_smp::threads_with(n_ranks, &config, body).unwrap();
        let served = loopback::Options::default().with_served_atomics();
        let attached = |world: World| {
            pgas_am::attach(&world).unwrap();
            body(world);
        };
        loopback::run_over(&served, n_ranks, &config, attached);
        let said = said.into_inner().unwrap();
        assert_eq!(said.len(), 2 * (n_ranks as usize - 1));
        // Who is told leaves, too, and others may send to it.
        assert!(said.iter().any(|text| has_gone(text)));
        for text in said {
            let has_ended = ["has left the job", "has dropped its distributor"];
            assert!(has_ended.iter().any(|end| text.contains(end)), "{text}");
        }
    }
}

/// Drops a distributor, or loses it in a panic, which the program catches.
fn lose<T: Object>(distributor: Distributor<T>, panics: bool) {
    let lost = catch_unwind(AssertUnwindSafe(|| {
        let _distributor = distributor;
        assert!(!panics, "caught by the test");
    }));
    assert_eq!(lost.is_err(), panics);
}

#[test]
fn those_that_wait_for_what_a_rank_sends_are_told_that_it_has_dropped_its_distributor() {
    let ways = [(Routing::Direct, 3), (Routing::Grid, 9)];
    let ways =
        ways.map(|(routing, n_ranks)| [false, true].map(|panics| (routing, n_ranks, panics)));
    for (routing, n_ranks, panics) in ways.into_iter().flatten() {
        let mut config = Config::default();
        config.segment_bytes = Some(1 << 20);
        config.timeout = Some(Duration::from_secs(30));
        config.routing = Some(routing);
        // Otherwise they find out when they compare their calls.
        config.check = Some(false);
        let (said, n_told) = (Mutex::new(Vec::new()), AtomicU32::new(0));
        let body = |world: World| {
            let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
            let to_all = (0..n_ranks).map(Rank::new);
            to_all
                .into_iter()
                .for_each(|to| distributor.send(to, 7).unwrap());
            // A rank that was quicker may have failed the job already.
            let met = world.barrier();
            if world.rank() == Rank::ZERO {
                met.unwrap();
                lose(distributor, panics);
                // It stays, and serves the others.
                while n_told.load(Ordering::Acquire) < n_ranks - 1 {
                    let _failed = world.progress();
                    thread::yield_now();
                }
                return;
            }
            let finished = met.and_then(|()| Ok(distributor.finish()?));
            let error = finished.unwrap_err().to_string();
            said.lock().unwrap().push(error);
            n_told.fetch_add(1, Ordering::Release);
        };
        pgas_smp::threads_with(n_ranks, &config, body).unwrap();
        n_told.store(0, Ordering::Release);
        let served = loopback::Options::default().with_served_atomics();
        let attached = |world: World| {
            pgas_am::attach(&world).unwrap();
            body(world);
        };
        loopback::run_over(&served, n_ranks, &config, attached);
        let said = said.into_inner().unwrap();
        assert_eq!(said.len(), 2 * (n_ranks as usize - 1));
        // Who is told ends the job by that.
        let of_drop = if panics {
            "panicked"
        } else {
            "rank 0 has dropped its distributor, and others wait for what it sends"
        };
        assert!(said.iter().any(|text| text.contains(of_drop)), "{said:?}");
    }
}

/// Sends texts to this rank until a send panics, and returns the number of those sent.
fn send_until_panic(distributor: &mut Distributor<String>, first: u64) -> u64 {
    panic_in_round(distributor.world(), 1);
    let mut n = first;
    loop {
        let send = AssertUnwindSafe(|| distributor.send(Rank::ZERO, format!("{n:50}")));
        match catch_unwind(send) {
            Ok(sent) => sent.unwrap(),
            Err(_) => return n,
        }
        n += 1;
    }
}

/// The element that is sent meanwhile is refused, and all others are there.
#[test]
fn a_panic_of_an_action_costs_nothing_that_was_received_before() {
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, 1, &Config::default(), |world| {
        pgas_am::attach(&world).unwrap();
        let mut distributor = Distributor::<String>::with_capacity(&world, 4).unwrap();
        let mut n_sent = 0;
        for _ in 0..3 {
            n_sent = send_until_panic(&mut distributor, n_sent);
            // It takes what was sent before.
            distributor
                .send(Rank::ZERO, format!("{n_sent:50}"))
                .unwrap();
            n_sent += 1;
        }
        panic_in_round(&world, 1);
        catch_unwind(AssertUnwindSafe(|| distributor.poll())).unwrap_err();
        let received = distributor.finish().unwrap();
        assert!(
            received
                .into_iter()
                .eq((0..n_sent).map(|n| format!("{n:50}")))
        );
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    });
}

/// What is told waits for room, and an action that runs meanwhile panics.
#[test]
fn those_that_wait_for_a_rank_are_told_if_the_drop_of_its_distributor_panics() {
    let served = loopback::Options::default().with_served_atomics();
    let what = "telling that a distributor is dropped";
    told_of_a_panic(what, (&served, false), |world, alone| {
        let distributor = Distributor::<u64>::with_capacity(world, 4).unwrap();
        alone(Box::new(|| {
            let other = Rank::new(1);
            while world.try_rpc_ff(other, drop::<u64>, &1).unwrap() == Sent::Accepted {}
            drop(distributor);
        }));
    });
}

struct Fails;

impl RequestHandler for Fails {
    type Args = ();

    fn handle(&self, _: Token<'_>, (): (), _: Payload<'_>) -> Result<()> {
        Err(Error::setting("A", "b".to_owned(), "a handler's error"))
    }
}

/// The others wait for what this rank receives and passes on.
#[test]
fn the_error_of_a_handler_does_not_end_a_round() {
    let asks = AtomicBool::new(false);
    let round = |world: World| {
        pgas_am::attach(&world).unwrap();
        world.register::<Fails>(Fails).unwrap();
        let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
        world.barrier().unwrap();
        let is_first = world.rank() == Rank::ZERO;
        asks.fetch_or(is_first, Ordering::Release);
        // Rank 0 is past the barrier, which would return the error.
        while !asks.load(Ordering::Acquire) {
            thread::yield_now();
        }
        if !is_first {
            world.request::<Fails>(Rank::ZERO, &()).unwrap();
            (0..200).for_each(|i| distributor.send(Rank::ZERO, i).unwrap());
        }
        let received = distributor.finish().unwrap();
        assert_eq!(received.len(), if is_first { 200 } else { 0 });
        while is_first && world.progress().is_ok() {}
    };
    let served = loopback::Options::default().with_served_atomics();
    for _ in 0..10 {
        asks.store(false, Ordering::Release);
        loopback::run_over(&served, 2, &Config::default(), round);
    }
}

#[test]
fn a_distributor_whose_end_a_handler_is_refused_is_dropped() {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(5));
    loopback::run_with(2, &config, |world| {
        let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
        distributor.send(Rank::ZERO, 7).unwrap();
        let told: Error = if world.rank() == Rank::ZERO {
            let refused = as_handler(|| distributor.finish()).unwrap_err();
            assert!(matches!(refused.lost.first, Error::InHandler { .. }));
            world.barrier().unwrap_err()
        } else {
            distributor.finish().unwrap_err().into()
        };
        let told = told.to_string();
        assert!(
            told.contains("rank 0 has dropped its distributor"),
            "{told}"
        );
    });
}

/// Nobody waits for a distributor that nobody has finished.
#[test]
fn all_may_drop_their_distributors_without_a_word() {
    everywhere(3, |world| {
        let mut distributor = Distributor::<u64>::with_capacity(&world, 4).unwrap();
        distributor.send(Rank::ZERO, 7).unwrap();
        drop(distributor);
        world.barrier().unwrap();
        if pgas_am::is_attached(&world) {
            pgas_am::quiet(&world).unwrap();
        }
    });
}

/// The error names the setting that differs, before anything is made.
#[test]
fn ranks_that_want_different_routes_are_told() {
    let world = loopback::world();
    let plan = agree_on_plan(&world.team(), 8).unwrap();
    assert_eq!(plan.route, Route::direct(1));
    let of_all = [(Rank::new(0), 0), (Rank::new(1), 2)];
    let error = same("the hops of PGAS_ROUTE, from 1 on", of_all).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("rank 0 has 0, rank 1 has 2"), "{text}");
}

/// By the default model, the lanes of each of 65,536 ranks need no more than 64 MiB.
#[test]
fn lanes_of_many_ranks_fit() {
    let model = Model::shipped();
    for per_host in [1, 4, 64, 128] {
        let n_ranks = 65_536;
        let route = model.choose(Shape { n_ranks, per_host }, 64 << 10, None);
        assert!(route.n_lanes() * (64 << 10) <= 64 << 20, "{route:?}");
    }
}

/// Without the comparison each would wait for the other one for ever.
#[test]
fn ranks_that_finish_different_distributors_are_told() {
    told_apart("the object of the finishing of a distributor", |world| {
        let mut both: Vec<_> = (0..2)
            .map(|_| Distributor::<u64>::with_capacity(&world, 10).unwrap())
            .collect();
        let one = both.swap_remove(world.rank().index());
        Ok(one.finish().map(drop)?)
    });
}
