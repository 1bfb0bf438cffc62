//! All ranks at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use pgas_core::backend::loopback;
use pgas_core::{Config, as_handler};

use super::*;
use crate::queue::access::Request;
use crate::queue::ring::Ring;
use crate::queue::ticket::Tickets;
use crate::testing::{panic_in_round, told_of_a_panic};

/// Every rank pushes its numbers and pops until all have been popped. Each number comes out once,
/// and those of one rank come out in their order.
fn exchange(world: &World, queue: &CircularQueue<(u32, u32)>, n: u32, random: &mut Random) {
    let me = world.rank().number();
    let total = world.alloc_symmetric::<u64>(1).unwrap();
    let popped_of_all = total.on(Rank::ZERO);
    let all = u64::from(n) * u64::from(world.n_ranks());
    let (mut next, mut popped) = (0, Vec::new());
    let mut idle = 0;
    while popped_of_all.atomic_load(world).unwrap() < all {
        let before = (next, popped.len());
        let some = u32::try_from(1 + random.below(5)).unwrap().min(n - next);
        match random.below(4) {
            0 if next < n => next += u32::from(queue.push((me, next)).is_ok()),
            1 if next < n => {
                let values: Vec<_> = (next..next + some).map(|i| (me, i)).collect();
                if queue.push_slice(&values).is_ok() {
                    next += some;
                }
            }
            2 => popped.extend(queue.pop().unwrap()),
            _ => popped.extend(queue.pop_many(some as usize).unwrap()),
        }
        let now = popped.len() - before.1;
        if now > 0 {
            popped_of_all.fetch_add(world, now as u64).unwrap();
        }
        idle = if before == (next, popped.len()) {
            idle + 1
        } else {
            0
        };
        if idle > 20 {
            world.progress().unwrap();
            std::thread::yield_now();
        }
    }
    for rank in 0..world.n_ranks() {
        let of_rank = popped.iter().filter(|element| element.0 == rank);
        let numbers: Vec<u32> = of_rank.map(|element| element.1).collect();
        assert!(numbers.is_sorted(), "of rank {rank}: {numbers:?}");
    }
    let mut seen = vec![0_u64; usize::try_from(all).unwrap()];
    for (rank, i) in popped {
        seen[(rank * n + i) as usize] += 1;
    }
    world
        .team()
        .allreduce_slice(&mut seen, |a: u64, b| a + b)
        .unwrap();
    assert!(seen.iter().all(|&times| times == 1), "each number once");
    assert_eq!(queue.pop().unwrap(), None);
    world.barrier().unwrap();
}

#[test]
fn what_all_push_and_pop_at_once_comes_out_once_and_in_order() {
    for n_ranks in [2, 3, 4] {
        everywhere(n_ranks, |world| {
            for (capacity, first) in [(1, 0), (2, u64::MAX - 3), (7, (1 << 63) - 9), (64, 0)] {
                let host = Rank::new(world.n_ranks() - 1);
                let queue = CircularQueue::starting_at(&world, host, capacity, first).unwrap();
                let mut random = Random(u64::from(world.rank().number()) + first);
                exchange(&world, &queue, 60, &mut random);
            }
        });
    }
}

#[test]
fn tickets_that_wrap_around_in_many_orders_lose_and_double_nothing() {
    in_many_orders(2, |world, seed| {
        let host = Rank::new(u32::try_from(seed % 2).unwrap());
        let (capacity, first) = (1 + usize::try_from(seed % 3).unwrap(), u64::MAX - seed % 8);
        let queue = CircularQueue::starting_at(&world, host, capacity, first).unwrap();
        let mut random = Random(seed << 8 | u64::from(world.rank().number()));
        exchange(&world, &queue, 5, &mut random);
    });
}

#[test]
fn a_phase_fills_a_queue_exactly_and_the_next_one_empties_it() {
    for n_ranks in [2, 4] {
        everywhere(n_ranks, |world| {
            let queue = CircularQueue::starting_at(&world, Rank::ZERO, 50, u64::MAX - 20).unwrap();
            let me = u64::from(world.rank().number());
            let queue = queue.into_push_phase().unwrap();
            let mut pushed = 0;
            while queue.push(100 * me + pushed).is_ok() {
                pushed += 1;
            }
            let n = world.allreduce(pushed, |a: u64, b| a + b).unwrap();
            assert_eq!(n, 50);
            let queue = queue.into_pop_phase().unwrap();
            let mut sum = [0, 0];
            while let Some(value) = queue.pop().unwrap() {
                sum = [sum[0] + 1, sum[1] + value];
            }
            let mine = [
                pushed,
                pushed * 100 * me + pushed * pushed.saturating_sub(1) / 2,
            ];
            let mut sums = [sum[0], sum[1], mine[0], mine[1]];
            world
                .team()
                .allreduce_slice(&mut sums, |a: u64, b| a + b)
                .unwrap();
            assert_eq!(sums[..2], sums[2..]);
        });
    }
}

#[test]
fn long_elements_go_from_rank_to_rank_and_their_memory_comes_back() {
    everywhere(3, |world| {
        let queue = queue::<Vec<u32>>(&world, 16);
        let mut random = Random(world.rank().number().into());
        let mut most = 0;
        for i in 0..300 {
            let n = u32::try_from(random.below(60)).unwrap();
            if random.below(2) == 0 {
                drop(queue.push(vec![n; n as usize]));
            } else if let Some(value) = queue.pop().unwrap() {
                assert!(
                    value.iter().all(|&n| n as usize == value.len()),
                    "{value:?}"
                );
            }
            if i == 150 {
                most = world.local_heap_use().used;
            }
        }
        assert!(world.local_heap_use().used <= most + 16 * 512);
        world.barrier().unwrap();
    });
}

#[test]
fn the_threads_of_a_rank_share_one_handle() {
    everywhere(2, |world| {
        let queue = queue::<u64>(&world, 10);
        let sum = Mutex::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (queue, sum) = (&queue, &sum);
                scope.spawn(move || {
                    for i in 0..50 {
                        while queue.push(thread * 100 + i).is_err() {
                            *sum.lock().unwrap() += queue.pop().unwrap().unwrap_or(0);
                        }
                    }
                });
            }
        });
        world.barrier().unwrap();
        let mut mine = sum.into_inner().unwrap();
        while let Some(value) = queue.pop().unwrap() {
            mine += value;
        }
        let sum = world.allreduce(mine, |a: u64, b| a + b).unwrap();
        assert_eq!(sum, 2 * (3 * 1225 + 300 * 50));
    });
}

/// Rank 0 takes a ticket and waits with it until the others have done `meanwhile`.
fn with_a_stalled_rank(
    stalled: fn(&World, &CircularQueue<u64>, &dyn Fn()),
    meanwhile: fn(&CircularQueue<u64>),
    then: fn(&World, &CircularQueue<u64>),
) {
    let limit = Duration::from_secs(20);
    everywhere(2, |world| {
        let flags = world.alloc_symmetric::<u64>(2).unwrap();
        let queue = queue::<u64>(&world, 4);
        let flag = |i: usize| flags.on(Rank::ZERO).add(i);
        let await_flag = |i: usize| {
            let begin = std::time::Instant::now();
            while flag(i).atomic_load(&world).unwrap() == 0 {
                assert!(begin.elapsed() < limit, "flag {i}");
                // The others may ask this rank to push and pop for them.
                world.progress().unwrap();
                std::thread::yield_now();
            }
        };
        if world.rank() == Rank::ZERO {
            stalled(&world, &queue, &|| {
                flag(0).swap(&world, 1).unwrap();
                await_flag(1);
            });
        } else {
            await_flag(0);
            meanwhile(&queue);
            flag(1).swap(&world, 1).unwrap();
        }
        world.barrier().unwrap();
        then(&world, &queue);
        world.barrier().unwrap();
    });
}

#[test]
fn a_rank_that_stalls_between_reserving_and_publishing_holds_up_no_push() {
    with_a_stalled_rank(
        |_, queue, stall| {
            let work = |ring: &Ring<u64>, tickets: Tickets| {
                stall();
                ring.write(tickets.first, 1)
            };
            queue.ring().perform(Request::push(1, true), work).unwrap();
        },
        |queue| {
            queue.push(2).unwrap();
            queue.push_slice(&[3, 4]).unwrap();
            assert!(matches!(queue.push(5), Err(PushError::Full(5))));
        },
        |world, queue| {
            if world.rank() == Rank::ZERO {
                assert_eq!(queue.pop_many(9).unwrap(), [1, 2, 3, 4]);
                queue.push_slice(&[5, 6, 7, 8]).unwrap();
            }
        },
    );
}

#[test]
fn a_rank_that_stalls_between_taking_and_reading_holds_up_no_pop() {
    with_a_stalled_rank(
        |_, queue, stall| {
            queue.push_slice(&[1, 2, 3, 4]).unwrap();
            let work = |ring: &Ring<u64>, tickets: Tickets| {
                stall();
                let value = ring.read(tickets.first)?;
                assert_eq!(value, 1, "nobody wrote over it");
                Ok(())
            };
            queue.ring().perform(Request::pop(1, true), work).unwrap();
        },
        |queue| {
            assert_eq!(queue.pop().unwrap(), Some(2));
            assert_eq!(queue.pop_many(9).unwrap(), [3, 4]);
            assert_eq!(queue.pop().unwrap(), None);
        },
        |world, queue| {
            if world.rank() == Rank::ZERO {
                queue.push_slice(&[5, 6, 7, 8]).unwrap();
                assert_eq!(queue.pop_many(9).unwrap(), [5, 6, 7, 8]);
            }
        },
    );
}

#[test]
fn a_host_that_would_have_to_wait_leaves_a_pop_and_a_push_to_the_rank_that_asked() {
    served_counted(|world| {
        let queue = queue::<u64>(&world, 2);
        // Until the other rank was told to work one-sidedly.
        let serve = || {
            let limit = std::time::Instant::now() + Duration::from_secs(20);
            while !world.progress().unwrap() {
                assert!(std::time::Instant::now() < limit, "nobody has asked");
            }
        };
        if world.rank() == Rank::ZERO {
            let write = |ring: &Ring<u64>, tickets: Tickets| {
                serve();
                ring.write(tickets.first, 1)
            };
            queue.ring().perform(Request::push(1, true), write).unwrap();
        } else {
            while queue.is_empty().unwrap() {}
            assert_eq!(queue.pop().unwrap(), Some(1));
        }
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            queue.push_slice(&[2, 3]).unwrap();
            let read = |ring: &Ring<u64>, tickets: Tickets| {
                serve();
                assert_eq!(ring.read(tickets.first)?, 2, "nobody wrote over it");
                Ok(())
            };
            queue.ring().perform(Request::pop(1, true), read).unwrap();
        } else {
            while queue.len().unwrap() != 1 {}
            queue.push(4).unwrap();
        }
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            assert_eq!(queue.pop_many(9).unwrap(), [3, 4]);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_queue_whose_host_has_dropped_its_handle_is_used_one_sidedly() {
    served_counted(|world| {
        let queue = CircularQueue::with_capacity(&world, Rank::new(1), 4).unwrap();
        let queue = (world.rank() == Rank::ZERO).then_some(queue);
        world.barrier().unwrap();
        if let Some(queue) = queue {
            queue.push("one".to_owned()).unwrap();
            queue
                .push_slice(&["two".to_owned(), "x".repeat(200)])
                .unwrap();
            assert_eq!(queue.pop().unwrap().as_deref(), Some("one"));
            assert_eq!(
                queue.pop_many(9).unwrap(),
                ["two".to_owned(), "x".repeat(200)]
            );
            assert_eq!(queue.pop().unwrap(), None);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn whoever_waits_for_an_element_of_a_rank_that_died_gets_an_error() {
    let waited = Mutex::new(String::new());
    let (taken, is_taken) = mpsc::channel();
    let is_taken = Mutex::new(is_taken);
    let limit = Duration::from_secs(20);
    let job = catch_unwind(AssertUnwindSafe(|| {
        loopback::run(2, |world| {
            let queue = queue::<u64>(&world, 8);
            if world.rank() == Rank::ZERO {
                let work = |_: &Ring<u64>, _| -> crate::Result<()> {
                    taken.send(()).unwrap();
                    panic!("between reserving and publishing");
                };
                drop(queue.ring().perform(Request::push(1, true), work));
            } else {
                is_taken.lock().unwrap().recv_timeout(limit).unwrap();
                queue.push(2).unwrap();
                let error = queue.pop().unwrap_err();
                *waited.lock().unwrap() = error.to_string();
            }
        });
    }));
    assert!(job.is_err());
    let waited = waited.into_inner().unwrap();
    assert!(waited.contains("rank 0 panicked"), "{waited:?}");
}

#[test]
fn a_host_that_does_nothing_but_pop_serves_those_that_push() {
    const EACH: u64 = 100;
    type Take = fn(&CircularQueue<u64>) -> u64;
    let ways: [Take; 3] = [
        |queue| queue.pop().unwrap().into_iter().count() as u64,
        |queue| queue.pop_many(7).unwrap().len() as u64,
        |queue| queue.pop_slice(&mut [0; 7]).unwrap() as u64,
    ];
    everywhere(3, |world| {
        for take in ways {
            let queue = CircularQueue::with_capacity(&world, Rank::ZERO, 10).unwrap();
            if world.rank() == Rank::ZERO {
                let mut n_popped = 0;
                while n_popped < 2 * EACH {
                    n_popped += take(&queue);
                }
            } else {
                for element in 0..EACH {
                    while let Err(PushError::Full(_)) = queue.push(element) {}
                }
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_host_that_does_nothing_but_push_serves_those_that_pop() {
    const TENTH: usize = 10;
    everywhere(3, |world| {
        let queue = CircularQueue::with_capacity(&world, Rank::ZERO, 10).unwrap();
        match world.rank().number() {
            0 => {
                for element in 0..TENTH as u64 {
                    while let Err(PushError::Full(_)) = queue.push(element) {}
                }
                for elements in [[0; 9]; TENTH] {
                    while let Err(PushError::Full(_)) = queue.push_slice(&elements) {}
                }
            }
            1 => {
                let mut n_popped = 0;
                while n_popped < 10 * TENTH {
                    n_popped += usize::from(queue.pop().unwrap().is_some());
                }
            }
            _ => {}
        }
        world.barrier().unwrap();
    });
}

#[test]
fn elements_that_are_too_many_for_a_message_are_popped_and_pushed_all() {
    const N: u64 = (1 << 16) + 1000;
    let mut config = Config::default();
    config.segment_bytes = Some(512 << 20);
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, 2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let n = usize::try_from(N).unwrap();
        let queue = CircularQueue::with_capacity(&world, Rank::ZERO, n).unwrap();
        let elements: Vec<[u64; 128]> = (0..N).map(|i| [i; 128]).collect();
        if world.rank() != Rank::ZERO {
            queue.push_slice(&elements).unwrap();
            assert!(queue.pop_many(usize::MAX).unwrap() == elements);
        }
        world.barrier().unwrap();
    });
}

/// The word that says how many elements are there is behind, until somebody looks at the marks.
#[test]
fn a_handler_pops_and_pushes_where_others_have_ended_in_another_order() {
    everywhere(1, |world| {
        let queue = queue::<u64>(&world, 2);
        let write = |ring: &Ring<u64>, tickets: Tickets| {
            queue.push(2).unwrap();
            ring.write(tickets.first, 1)
        };
        queue.ring().perform(Request::push(1, true), write).unwrap();
        let pop = || as_handler(|| queue.pop()).unwrap();
        assert_eq!([pop(), pop(), pop()], [Some(1), Some(2), None]);
        queue.push_slice(&[3, 4]).unwrap();
        let read = |ring: &Ring<u64>, tickets: Tickets| {
            assert_eq!(queue.pop().unwrap(), Some(4));
            ring.read(tickets.first).map(drop)
        };
        queue.ring().perform(Request::pop(1, true), read).unwrap();
        let push = |value| as_handler(|| queue.push(value)).unwrap();
        push(5);
        push(6);
        assert_eq!([pop(), pop(), pop()], [Some(5), Some(6), None]);
    });
}

#[test]
fn marks_of_a_phase_are_gone_in_the_next_one() {
    everywhere(1, |world| {
        let queue = queue::<u64>(&world, 4);
        // As if other ranks finished the later of two pushes, and of two pops, first.
        let write = |ring: &Ring<u64>, tickets: Tickets| {
            queue.push(2).unwrap();
            ring.write(tickets.first, 1)
        };
        queue.ring().perform(Request::push(1, true), write).unwrap();
        let read = |ring: &Ring<u64>, tickets: Tickets| {
            assert_eq!(queue.pop().unwrap(), Some(2));
            ring.read(tickets.first).map(drop)
        };
        queue.ring().perform(Request::pop(1, true), read).unwrap();
        let marks = queue.ring().marks(&world);
        assert_ne!(marks, [0; 4]);
        let queue = queue.into_push_phase().unwrap();
        assert_eq!(queue.ring().marks(&world), [0; 4]);
    });
}

#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_push_whose_wait_for_room_ends_by_its_limit_gives_up_its_value() {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_millis(200));
    loopback::run_with(1, &config, |world| {
        let queue = queue::<String>(&world, 4);
        let long = "long ".repeat(40);
        for _ in 0..4 {
            queue.push(long.clone()).unwrap();
        }
        let read = |_: &Ring<String>, _: Tickets| {
            // It waits for the pop.
            let mut used = None;
            for _ in 0..3 {
                let pushed = queue.push(long.clone());
                let is_over = matches!(pushed, Err(PushError::Failed(crate::Error::Timeout(_))));
                assert!(is_over, "{pushed:?}");
                let now = world.local_heap_use().used;
                assert_eq!(*used.get_or_insert(now), now);
            }
            Ok(())
        };
        queue.ring().perform(Request::pop(1, true), read).unwrap();
    });
}

#[test]
fn a_push_whose_wait_for_room_ends_by_a_panic_gives_up_its_value() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        let queue = queue::<String>(&world, 4);
        let long = "long ".repeat(40);
        for _ in 0..4 {
            queue.push(long.clone()).unwrap();
        }
        let read = |_: &Ring<String>, _: Tickets| {
            // It waits for the pop.
            let pushes: [&dyn Fn(); 2] = [&|| drop(queue.push(long.clone())), &|| {
                drop(queue.push_slice(slice::from_ref(&long)));
            }];
            let mut used = None;
            for push in pushes.iter().cycle().take(6) {
                panic_in_round(&world, 3);
                catch_unwind(AssertUnwindSafe(push)).unwrap_err();
                let now = world.local_heap_use().used;
                assert_eq!(*used.get_or_insert(now), now);
            }
            Ok(())
        };
        queue.ring().perform(Request::pop(1, true), read).unwrap();
    });
}

/// The element would be lost: the host pops it when it makes progress.
#[test]
fn a_panic_in_the_wait_for_what_a_host_pops_fails_the_job() {
    let served = loopback::Options::default().with_served_atomics();
    let what = "an operation that another rank carries out";
    told_of_a_panic(what, (&served, false), |world, alone| {
        let queue = CircularQueue::with_capacity(world, Rank::new(1), 8).unwrap();
        queue.push(7).unwrap();
        world.barrier().unwrap();
        alone(Box::new(|| drop(queue.pop())));
    });
}

/// Other ranks would wait for tickets that are taken.
#[test]
fn a_pop_without_memory_takes_no_tickets() {
    let body = |world: World| {
        let queue = queue::<u64>(&world, 8);
        queue.push_slice(&[1, 2, 3]).unwrap();
        let no_memory = |n| {
            assert_eq!(n, 3);
            Err(crate::Error::NoCapacity)
        };
        let request = Request::pop(5, true).reserving(&no_memory);
        let work = |_: &Ring<u64>, _| panic!("tickets are taken");
        let error = queue.ring().perform(request, work).unwrap_err();
        assert!(matches!(error, crate::Error::NoCapacity));
        assert_eq!(queue.pop_many(5).unwrap(), [1, 2, 3]);
    };
    everywhere(1, body);
    everywhere_counted(1, body);
}
