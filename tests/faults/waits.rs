//! Every kind of wait, with one rank that never does its part.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use pgas::backend::{HandlerId, MessageClass, Sent};
use pgas::{HashMap, Object, Rank, Symmetric, Team, World};

/// The rank that fails; odd, and neither the first nor the last.
pub(crate) const FAILING: Rank = Rank::new(1);

/// The time that the failing rank gives the others to begin their waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// A kind of wait.
pub(crate) struct Wait {
    pub(crate) name: &'static str,
    /// Whether the wait fails if a rank leaves normally. It does if that rank's part is missing for
    /// certain. Other ranks might still change a lock or a word.
    pub(crate) misses_who_left: bool,
    /// Prepares the wait on all ranks, and returns the function that the waiting ranks then call.
    prepare: for<'w> fn(&'w World) -> pgas::Result<Waiting<'w>>,
}

/// Calls its argument just before the wait, and waits until the job has failed.
type Waiting<'w> = Box<dyn FnOnce(&dyn Fn()) -> pgas::Result<()> + 'w>;

pub(crate) const WAITS: &[Wait] = &[
    missing("barrier", in_a_barrier),
    missing("barrier_in_a_scope", in_a_barrier_in_a_scope),
    missing("allreduce", in_an_allreduce),
    missing("event", for_the_event_of_an_allreduce),
    missing("polled_event", for_an_event_that_is_polled),
    missing("future", for_a_future),
    other("lock", for_a_lock),
    other("full_mailbox", for_room_in_a_mailbox),
    other("signal", for_a_signal),
    other("map_slot", for_a_reserved_slot),
    other("map_value", for_a_locked_value),
    other("own_loop", in_a_loop_around_progress),
];

const fn missing(name: &'static str, prepare: fn(&World) -> pgas::Result<Waiting<'_>>) -> Wait {
    Wait {
        name,
        misses_who_left: true,
        prepare,
    }
}

const fn other(name: &'static str, prepare: fn(&World) -> pgas::Result<Waiting<'_>>) -> Wait {
    Wait {
        misses_who_left: false,
        ..missing(name, prepare)
    }
}

/// The outcome of a rank's part in a wait.
pub(crate) enum Part {
    /// The others wait, or are about to, and this rank must fail.
    Fail,
    /// This rank's wait has failed.
    Failed(pgas::Error),
}

impl Wait {
    pub(crate) fn named(name: &str) -> &'static Self {
        WAITS.iter().find(|wait| wait.name == name).unwrap()
    }

    /// Plays one rank's part, up to the failure.
    pub(crate) fn play(&self, world: &World) -> pgas::Result<Part> {
        let ready = world.alloc_symmetric::<u64>(1)?.on(FAILING);
        let waiting = (self.prepare)(world)?;
        world.barrier()?;
        if world.rank() != FAILING {
            let about_to_wait = || {
                ready.fetch_add(world, 1).unwrap();
            };
            let waited = waiting(&about_to_wait);
            return Ok(Part::Failed(waited.expect_err("nothing ends this wait")));
        }
        let began = Instant::now();
        // Make no progress, so that the mailbox fills.
        while ready.atomic_load(world)? + 1 < u64::from(world.n_ranks()) {
            assert!(began.elapsed() < PATIENCE, "the others do not come to wait");
            thread::sleep(Duration::from_millis(1));
        }
        // By now some ranks sleep, and others spin. Both must notice.
        Ok(Part::Fail)
    }
}

fn in_a_barrier(world: &World) -> pgas::Result<Waiting<'_>> {
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        world.barrier()
    }))
}

fn in_a_barrier_in_a_scope(world: &World) -> pgas::Result<Waiting<'_>> {
    let words = world.alloc_symmetric::<u64>(2)?;
    Ok(Box::new(move |about_to_wait| {
        let mut read = [0];
        let written = [1];
        world.scope(|scope| {
            scope.get(words.on(FAILING), &mut read)?;
            scope.put(words.on(FAILING).add(1), &written)?;
            about_to_wait();
            world.barrier()
        })??;
        Ok(())
    }))
}

/// All ranks, in another order.
fn team_of_all(world: &World) -> pgas::Result<Team> {
    let team = world
        .team()
        .split(Some(7), world.n_ranks() - world.rank().number())?;
    Ok(team.expect("every rank named a colour"))
}

fn in_an_allreduce(world: &World) -> pgas::Result<Waiting<'_>> {
    let team = team_of_all(world)?;
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        team.allreduce(1_u64, |a: u64, b: u64| a + b)?;
        Ok(())
    }))
}

fn for_the_event_of_an_allreduce(world: &World) -> pgas::Result<Waiting<'_>> {
    let team = team_of_all(world)?;
    Ok(Box::new(move |about_to_wait| {
        let sum = team.allreduce_nb(1_u64, |a: u64, b: u64| a + b);
        about_to_wait();
        sum.wait()?;
        Ok(())
    }))
}

fn for_an_event_that_is_polled(world: &World) -> pgas::Result<Waiting<'_>> {
    let team = team_of_all(world)?;
    Ok(Box::new(move |about_to_wait| {
        let mut met = team.barrier_nb();
        about_to_wait();
        while !met.test()? {}
        met.wait()
    }))
}

fn for_a_future(world: &World) -> pgas::Result<Waiting<'_>> {
    let team = team_of_all(world)?;
    Ok(Box::new(move |about_to_wait| {
        let blocks = team.allgather_nb(vec![world.rank().number()]);
        about_to_wait();
        world.block_on(blocks)??;
        Ok(())
    }))
}

/// A lock as users build it. The failing rank holds it.
fn for_a_lock(world: &World) -> pgas::Result<Waiting<'_>> {
    let lock = world.alloc_symmetric::<u64>(1)?.on(Rank::ZERO);
    let own = u64::from(world.rank().number()) + 1;
    let try_lock = move || Ok(lock.compare_exchange(world, 0, own)?.is_ok());
    if world.rank() == FAILING {
        assert!(try_lock()?);
    }
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        world.wait_for("a lock", try_lock)
    }))
}

fn for_room_in_a_mailbox(world: &World) -> pgas::Result<Waiting<'_>> {
    let handler = HandlerId(HandlerId::N_RESERVED);
    world.set_handler(handler, |_, _| {});
    Ok(Box::new(move |about_to_wait| {
        let is_full = Cell::new(false);
        loop {
            let sent = world.try_send(FAILING, MessageClass::Request, handler, &[&[0; 4000]])?;
            if sent == Sent::BackPressure {
                if !is_full.replace(true) {
                    about_to_wait();
                }
                world.progress()?;
            }
        }
    }))
}

fn for_a_signal(world: &World) -> pgas::Result<Waiting<'_>> {
    let signals = world.alloc_symmetric::<u64>(1)?;
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        signals.here().wait_until(world, |value| value == 1)?;
        Ok(())
    }))
}

fn in_a_loop_around_progress(world: &World) -> pgas::Result<Waiting<'_>> {
    let words = world.alloc_symmetric::<u64>(1)?;
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        while words.here().atomic_load(world)? == 0 {
            world.progress()?;
        }
        Ok(())
    }))
}

const KEY: u64 = 7;

/// The failing rank has reserved the slot of a key, as in the middle of an insert.
fn for_a_reserved_slot(world: &World) -> pgas::Result<Waiting<'_>> {
    const RESERVED: u32 = 1;
    let map = map_with_slot_in_state::<u64>(world, 1, RESERVED)?;
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        map.insert(&KEY, 2)?;
        Ok(())
    }))
}

/// The failing rank has locked the value of a key, as in the middle of an update.
fn for_a_locked_value(world: &World) -> pgas::Result<Waiting<'_>> {
    const LOCKED: u32 = 3;
    let map = map_with_slot_in_state::<[u64; 3]>(world, [1; 3], LOCKED)?;
    Ok(Box::new(move |about_to_wait| {
        about_to_wait();
        map.find(&KEY)?;
        Ok(())
    }))
}

/// A map with one key, whose slot the failing rank has put into another state. The state is in the
/// two highest bits of a word: of 32 bits, or of 64 bits if the value is larger than a word. The
/// word is found by searching half words between two allocations for [`READY`], the state after an
/// insert.
fn map_with_slot_in_state<V: Object>(
    world: &World,
    value: V,
    state: u32,
) -> pgas::Result<HashMap<u64, V>> {
    const READY: u32 = 2;
    const SHIFT: u32 = 30;
    let before = world.alloc_symmetric::<u64>(1)?;
    let map = HashMap::<u64, V>::with_capacity(world, 16)?;
    let after = world.alloc_symmetric::<u64>(1)?;
    if world.rank() == FAILING {
        map.insert(&KEY, value)?;
        let at = |words: &Symmetric<u64>| words.here().offset_bytes();
        assert!(at(&before) < at(&after), "they are allocated in this order");
        let offsets = (at(&before) + 8..at(&after)).step_by(4);
        let places = world.ranks().flat_map(|rank| {
            let place = move |offset| pgas::GlobalPtr::<u32>::new(rank, offset);
            offsets.clone().map(place)
        });
        let mut n_found = 0;
        for place in places {
            let word = place.atomic_load(world)?;
            if word >> SHIFT == READY {
                place.atomic_store(world, word & !(3 << SHIFT) | state << SHIFT)?;
                n_found += 1;
            }
        }
        assert_eq!(n_found, 1, "one slot holds the key");
    }
    Ok(map)
}

/// Asserts that nothing waits after the job has failed: each call returns the cause, however often
/// it is made.
pub(crate) fn assert_told_again(world: &World) {
    for _ in 0..3 {
        let barrier = world.barrier();
        let sum = world.allreduce(1_u32, |a, b| a + b).map(drop);
        let memory = world.alloc_symmetric::<u64>(1).map(drop);
        for again in [barrier, sum, memory] {
            let error = again.unwrap_err();
            assert!(matches!(error, pgas_core::Error::RankFailed(_)), "{error}");
            assert!(
                error.to_string().starts_with(&format!("rank {FAILING} ")),
                "{error}"
            );
        }
    }
}
