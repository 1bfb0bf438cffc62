//! Many collectives at once and one after another, ranks that are early, late or gone.

use super::{on, on_all_sizes};
use crate::backend::loopback;
use crate::collective::call::WINDOW;
use crate::collective::op;
use crate::waits::Awaited;
use crate::{Config, Error, Event};

/// A generator of the same numbers on all ranks (xorshift; Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 % u64::from(n)).expect("below n")
    }
}

#[test]
fn a_thousand_collectives_of_skewed_ranks_do_not_mix() {
    for (n, n_collectives) in [(2, 200), (3, 1000), (7, 200)] {
        on(n, &Config::default(), |world| {
            let team = world.team();
            let mut random = Random(0x9e37_79b9);
            let mut skew = Random(u64::from(world.rank().number()) + 1);
            for i in 0..n_collectives {
                for _ in 0..skew.below(4) {
                    world.progress()?;
                }
                let root = random.below(n);
                match random.below(4) {
                    0 => assert_eq!(team.broadcast(root, team.rank() + i)?, root + i),
                    1 => {
                        let sum = team.reduce(root, i, op::Sum)?;
                        assert_eq!(sum, (team.rank() == root).then_some(i * n));
                    }
                    2 => {
                        let all = team.gather(root, &[team.rank() ^ i])?;
                        let expected = || (0..n).map(|member| member ^ i).collect::<Vec<_>>();
                        assert_eq!(all, (team.rank() == root).then(expected));
                    }
                    _ => assert_eq!(team.scan_exclusive(i, 0, op::Sum)?, i * team.rank()),
                }
            }
            Ok(())
        });
    }
}

#[test]
fn collectives_in_flight_on_overlapping_teams_complete_in_any_order() {
    on_all_sizes(|world| {
        let n = world.n_ranks();
        let me = world.rank().number();
        let world_team = world.team();
        let parity = world_team.split(Some(me % 2), 0)?.unwrap();
        let reversed = world_team.split(Some(0), n - me)?.unwrap();
        let mut sums = Vec::new();
        let mut roots = Vec::new();
        for i in 0..20 {
            sums.push((i * n, world_team.allreduce_nb(i, op::Sum)));
            sums.push((i * parity.n_ranks(), parity.allreduce_nb(i, op::Sum)));
            let root = i % n;
            roots.push((
                n - 1 - root,
                reversed.broadcast_slice_nb(root, vec![me; 2000]),
            ));
        }
        let met = reversed.barrier_nb();
        // Another team's blocking collective completes between them.
        assert_eq!(parity.allreduce(1, op::Sum)?, parity.n_ranks());
        for (expected, event) in sums.into_iter().rev() {
            assert_eq!(event.wait()?, expected);
        }
        for (expected, event) in roots {
            assert_eq!(event.wait()?, vec![expected; 2000]);
        }
        met.wait()
    });
}

#[test]
fn events_are_futures_too() {
    on(3, &Config::default(), |world| {
        let team = world.team();
        let (sum, all) = world.block_on(async {
            let sum = team.allreduce_nb(1, op::Sum);
            let all = team.allgather_nb(vec![team.rank()]);
            Ok::<_, Error>((sum.await?, all.await?))
        })??;
        assert_eq!((sum, all), (3, vec![0, 1, 2]));
        Ok(())
    });
}

#[test]
fn a_dropped_event_does_not_hold_up_the_others() {
    on_all_sizes(|world| {
        let team = world.team();
        let event = team.allreduce_nb(team.rank(), op::Max);
        if world.rank().number() % 2 == 1 {
            drop(event);
            // The rank leaves with the collective in flight.
            return Ok(());
        }
        assert_eq!(event.wait()?, world.n_ranks() - 1);
        Ok(())
    });
}

#[test]
fn an_event_is_complete_once_all_members_have_begun() {
    on(2, &Config::default(), |world| {
        let flag = world.alloc_symmetric::<u64>(1)?;
        let team = world.team();
        if world.rank().number() == 0 {
            let mut met = team.barrier_nb();
            for _ in 0..100 {
                assert!(!met.test()?);
            }
            flag.on(crate::Rank::new(1)).put(&world, 1)?;
            world.flush_all()?;
            met.wait()
        } else {
            let awaited = Awaited::new("the flag");
            world.wait_until(&awaited, || Ok(flag.here().get(&world)? == 1))?;
            team.barrier_nb().wait()
        }
    });
}

#[test]
fn a_rank_runs_ahead_of_the_slowest_member_by_one_window_at_most() {
    on(2, &Config::default(), |world| {
        let flag = world.alloc_symmetric::<u64>(1)?;
        let team = world.team().split(Some(0), 0)?.unwrap();
        let limit = usize::try_from(WINDOW).unwrap();
        if world.rank().number() == 0 {
            let mut events: Vec<_> = (0..5 * WINDOW).map(|i| team.broadcast_nb(0, i)).collect();
            // Each of them is tested, because a later one may be complete before an earlier one.
            world.wait_until(&Awaited::new("the first window"), || {
                let first = events[..limit].iter_mut();
                first
                    .map(Event::test)
                    .try_fold(true, |all, one| Ok(all & one?))
            })?;
            for _ in 0..1000 {
                world.progress()?;
            }
            for (i, event) in events.iter_mut().enumerate() {
                assert_eq!(event.test()?, i < limit, "broadcast {i}");
            }
            flag.on(crate::Rank::new(1)).put(&world, 1)?;
            world.flush_all()?;
            for event in events {
                event.wait()?;
            }
        } else {
            world.wait_until(&Awaited::new("the flag"), || {
                // One window of broadcasts, and the message of the meeting after it.
                assert!(world.wire().n_waiting() <= limit + 1);
                Ok(flag.here().get(&world)? == 1)
            })?;
            for i in 0..5 * WINDOW {
                assert_eq!(team.broadcast(0, 0)?, i);
            }
        }
        world.barrier()
    });
}

#[test]
fn a_failed_rank_ends_the_waits_of_the_others() {
    let caught = std::panic::catch_unwind(|| {
        loopback::run(3, |world| {
            let team = world.team();
            let event = team.allreduce_nb(1, op::Sum);
            assert_ne!(world.rank().number(), 1, "rank 1 gives up");
            let error = team.barrier().unwrap_err();
            assert!(matches!(error, Error::RankFailed(_)), "{error}");
            drop(event);
        });
    });
    let panic = caught.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("rank 1 gives up"), "{text}");
}

#[test]
fn a_wait_for_a_late_rank_times_out_and_names_it() {
    let config = Config {
        timeout: Some(std::time::Duration::from_millis(50)),
        ..Config::default()
    };
    let results = loopback::run_with(2, &config, |world| {
        let team = world.team();
        if team.rank() == 0 {
            return team.reduce(0, 0, op::Sum).unwrap_err().to_string();
        }
        // Not a wait of the library, which would time out too.
        loop {
            if let Err(error) = world.progress() {
                return error.to_string();
            }
        }
    });
    assert!(
        results[0].contains("for a reduce; missing: rank 1"),
        "{}",
        results[0]
    );
    assert!(
        results[1].starts_with("rank 0 failed in a reduce: "),
        "{}",
        results[1]
    );
}
