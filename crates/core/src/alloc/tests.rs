//! Allocations that ranks make together: their prices, and a panic of one rank.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{SignalUpdate, loopback};
use crate::{Config, Rank, Result, Spare, Statistics, Team, World};

/// Runs `body` as four ranks that count, and do not compare their calls.
fn counted(body: impl Fn(&World) -> Result<()> + Sync) {
    let config = Config {
        statistics: Statistics::Total,
        check: Some(false),
        ..Config::default()
    };
    loopback::run_with(4, &config, |world| {
        body(&world).expect("no operation fails");
    });
}

/// The price of `body`: the numbers of the team's collectives without barriers, and of barriers.
/// Its only other step is a write of zeros to this rank's own memory.
fn paid<T>(team: &Team, body: impl FnOnce() -> Result<T>) -> Result<[u64; 2]> {
    let world = team.world();
    let (first, before) = (team.shared().take_number(), world.costs());
    body()?;
    let n = team.shared().take_number() - first - 1;
    let costs = world.costs() - before;
    assert_eq!((costs.reads, costs.atomics), (0, 0), "{costs}");
    assert!(costs.writes <= 1, "{costs}");
    Ok([n - costs.barriers, costs.barriers])
}

#[test]
fn an_allocation_of_all_ranks_is_an_allreduce_and_a_barrier_and_one_of_used_memory_an_allreduce_more()
 {
    counted(|world| {
        let team = &world.team();
        let alloc = || team.alloc_symmetric::<u64>(100);
        assert_eq!(paid(team, alloc)?, [1, 1]);
        assert_eq!(paid(team, || world.alloc_symmetric::<u64>(100))?, [2, 1]);
        assert_eq!(paid(team, || team.reclaim())?, [1, 0]);
        Ok(())
    });
}

#[test]
fn an_allocation_of_a_part_of_the_ranks_is_three_allreduces_and_one_more_where_places_differ() {
    counted(|world| {
        let rank = world.rank().number();
        let split = |colour| world.team().split(Some(colour), 0);
        let halves = split(rank / 2)?.expect("a colour");
        let crossing = split(u32::from(rank == 1 || rank == 2))?.expect("a colour");
        let mut kept = Vec::new();
        let alloc = |team: &Team| team.alloc_symmetric::<u64>(100);
        assert_eq!(
            paid(&halves, || alloc(&halves).map(|it| kept.push(it)))?,
            [3, 0]
        );
        if rank < 2 {
            assert_eq!(
                paid(&halves, || alloc(&halves).map(|it| kept.push(it)))?,
                [3, 0]
            );
        }
        // Rank 1 has taken one place more than rank 2, and rank 0 one more than rank 3.
        assert_eq!(paid(&crossing, || alloc(&crossing))?, [4, 0]);
        assert_eq!(paid(&crossing, || crossing.reclaim())?, [1, 0]);
        world.barrier()
    });
}

/// The allocation is a part of making a lock, which has words on each rank.
#[test]
fn a_lock_is_an_allocation_and_a_barrier_and_three_atomics_of_own_words() {
    counted(|world| {
        let team = world.team();
        let (first, before) = (team.shared().take_number(), world.costs());
        let lock = crate::Lock::new(world, Rank::ZERO)?;
        let n = team.shared().take_number() - first - 1;
        let costs = world.costs() - before;
        assert_eq!((n, costs.barriers, costs.atomics), (3, 2, 3));
        assert_eq!((costs.reads, costs.writes), (0, 0));
        drop(lock);
        Ok(())
    });
}

#[test]
fn a_signal_of_a_put_whose_event_was_dropped_does_not_land_in_the_memory_of_the_next_user() {
    let world = loopback::world();
    let part = world.team().split(Some(0), 0).unwrap().expect("a colour");
    for team in [world.team(), part] {
        let former = team.alloc_symmetric::<u64>(2).unwrap();
        let (data, signal) = (former.here(), former.here().add(1));
        let put = data.put_signal_nb(&world, vec![7], signal, SignalUpdate::Add(1));
        drop(put.unwrap());
        drop(former);
        let next = team.alloc_symmetric::<u64>(2).unwrap();
        assert_eq!(next.here(), data, "the same memory");
        while world.tasks().has_some() {
            world.progress().unwrap();
        }
        assert_eq!(next.here().get_vec(&world, 2).unwrap(), [0, 0]);
    }
}

#[test]
fn a_reclaim_waits_for_signals_that_had_begun_and_for_no_later_ones() {
    let world = loopback::world();
    let earlier = world.begin_signal();
    let mut awaited = world.take_signals();
    let _later = world.begin_signal();
    assert!(Arc::get_mut(&mut awaited).is_none());
    drop(earlier);
    assert!(Arc::get_mut(&mut awaited).is_some());
}

struct Panics;

impl Spare for Panics {
    fn free_unused(&self) -> bool {
        panic!("a spare of the program");
    }
}

#[test]
fn a_panic_of_what_frees_memory_for_a_team_is_told_to_its_other_members() {
    let spare: Arc<dyn Spare> = Arc::new(Panics);
    // A test that fails is not to hang.
    let config = Config {
        timeout: Some(Duration::from_secs(60)),
        ..Config::default()
    };
    let ended = loopback::run_with(2, &config, |world| {
        let team = world.team().reorder(world.rank().number()).unwrap();
        let make = || team.alloc_symmetric::<u64>(10).map(drop);
        if world.rank() != Rank::ZERO {
            return make().unwrap_err().to_string();
        }
        let largest = usize::try_from(world.local_heap_use().largest).unwrap();
        let _all = world.alloc::<u8>(largest).unwrap();
        world.on_exhausted(Arc::downgrade(&spare));
        assert!(catch_unwind(AssertUnwindSafe(make)).is_err());
        // It goes on until the other one has been told.
        while world.progress().is_ok() {}
        String::new()
    });
    let told = "rank 0 panicked in a symmetric allocation";
    assert!(ended[1].contains(told), "{}", ended[1]);
}
