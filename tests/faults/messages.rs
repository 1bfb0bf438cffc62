//! Messages under stress: floods, a target that does not serve them, and ranks that fail in a
//! handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pgas::backend::{HandlerId, MessageClass, Sent};
use pgas::collective::op::Sum;
use pgas::message::{Payload, RequestHandler, Token};
use pgas::{ActiveMessages, Here, Rank, RemoteCalls, World, quiet};
use pgas_testkit::fault::{Fault, assert_blamed, assert_known, give_up};
use pgas_testkit::job::say;

use crate::jobs::{WATCHED, Way, assert_well, start};
use crate::trial;
use crate::waits::FAILING;

/// Messages of each rank in a flood. `--rank flood 50000000` with `PGAS_RANKS=2` sends a hundred
/// million.
const FLOOD: &str = "200000";
/// The maximum growth of a rank's peak memory in a flood.
const MAX_GROWTH_KIB: u64 = 8 << 10;
/// The time limit for a rank that serves nothing until it is told to end.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("messages::flood::processes", || {
            for way in WATCHED {
                assert_well(&start(way, 2, &["flood", FLOOD], &[]).end());
            }
        }),
        trial("messages::inattentive_target::processes", || {
            assert_well(&start(WATCHED[0], 2, &["inattentive"], &[]).end());
        }),
        trial("messages::inattentive_target::progress_thread", || {
            let settings = [("PGAS_PROGRESS", "thread")];
            assert_well(&start(WATCHED[0], 2, &["served"], &settings).end());
        }),
    ];
    for way in WATCHED {
        let name = format!("messages::late_requests::{way:?}");
        // The target leaves the flood at a different point in each job.
        trials.push(trial(name, move || {
            (0..10).for_each(|_| late_requests_are_told(way));
        }));
        let name = format!("messages::strays::{way:?}");
        trials.push(trial(name, move || {
            strays_of_a_rank_that_leaves_are_told(way);
        }));
    }
    for fault in [Fault::Kill, Fault::Panic] {
        let name = format!("messages::between_prepare_and_commit::{}", fault.name());
        trials.push(trial(name, move || {
            for way in WATCHED {
                let ended = start(way, 4, &["prepared", fault.name()], &[]).end();
                assert_blamed(&ended, fault, FAILING.number());
                assert_known(&ended, FAILING.number(), 3);
            }
        }));
    }
    for fault in Fault::ALL {
        // A rank that leaves in a handler has not left the call that runs the handler.
        if fault != Fault::Leave {
            let name = format!("messages::in_a_handler::{}", fault.name());
            trials.push(trial(name, move || {
                for way in WATCHED {
                    let ended = start(way, 4, &["handler", fault.name()], &[]).end();
                    assert_blamed(&ended, fault, FAILING.number());
                    assert_known(&ended, FAILING.number(), 3);
                }
            }));
        }
    }
    trials
}

/// Counts messages, and adds up their values.
#[derive(Default)]
struct Tally {
    n: AtomicU64,
    sum: AtomicU64,
}

struct Count(Arc<Tally>);

impl RequestHandler for Count {
    type Args = u64;

    fn handle(&self, _: Token<'_>, x: u64, _: Payload<'_>) -> pgas_am::Result<()> {
        self.0.n.fetch_add(1, Ordering::Relaxed);
        self.0.sum.fetch_add(x, Ordering::Relaxed);
        Ok(())
    }
}

fn counting(world: &World) -> pgas_am::Result<Arc<Tally>> {
    let tally = Arc::<Tally>::default();
    world.register(Count(Arc::clone(&tally)))?;
    world.barrier()?;
    Ok(tally)
}

/// Every rank sends `n` messages to the next one. None is lost, and no rank's memory grows.
pub(crate) fn flood(world: &World, n: u64) -> pgas_am::Result<()> {
    let tally = counting(world)?;
    let next = Rank::new((world.rank().number() + 1) % world.n_ranks());
    let send = |n: u64| (1..=n).try_for_each(|i| world.request::<Count>(next, &i));
    const WARM_UP: u64 = 10_000;
    send(WARM_UP)?;
    quiet(world)?;
    let before = peak_kib();
    send(n)?;
    quiet(world)?;
    let grown = peak_kib() - before;
    assert!(grown < MAX_GROWTH_KIB, "{n} messages took {grown} KiB");
    let n_ranks = u64::from(world.n_ranks());
    let got = world.allreduce(tally.n.load(Ordering::Relaxed), Sum)?;
    assert_eq!(got, (WARM_UP + n) * n_ranks);
    let sum = world.allreduce(tally.sum.load(Ordering::Relaxed), Sum)?;
    let sum_to = |n: u64| n * (n + 1) / 2;
    assert_eq!(sum, (sum_to(WARM_UP) + sum_to(n)) * n_ranks);
    Ok(())
}

/// The peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let figure = line.unwrap().split_whitespace().nth(1).unwrap();
    figure.parse().unwrap()
}

/// Rank 1 makes no call. Messages offered to it are accepted as long as there is room, and then
/// refused, both at once. Accepted messages are served when rank 1 makes progress.
pub(crate) fn inattentive(world: &World) -> pgas_am::Result<()> {
    let tally = counting(world)?;
    let word = world.alloc_symmetric::<u64>(1)?;
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        let (mut n_accepted, mut n_refused) = (0, 0);
        while n_refused < 1000 {
            match world.try_request::<Count>(Rank::new(1), &1)? {
                Sent::Accepted => n_accepted += 1,
                Sent::BackPressure => n_refused += 1,
            }
        }
        assert!((1..1_000_000).contains(&n_accepted), "{n_accepted}");
        word.on(Rank::new(1)).atomic_store(world, n_accepted)?;
    } else {
        let began = Instant::now();
        let n_accepted = loop {
            let n_accepted = word.here().atomic_load(world)?;
            if n_accepted > 0 {
                break n_accepted;
            }
            assert!(began.elapsed() < PATIENCE, "rank 0 is held up");
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(tally.n.load(Ordering::Relaxed), 0, "no call, no service");
        world.wait_for("messages", || {
            Ok(tally.n.load(Ordering::Relaxed) == n_accepted)
        })?;
    }
    quiet(world)
}

/// Rank 1 makes no call, and its progress thread answers for it.
pub(crate) fn served(world: &World) -> pgas_am::Result<()> {
    static N_SERVED: AtomicU64 = AtomicU64::new(0);
    const N: u64 = 100;
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        for i in 0..N {
            let call = world.rpc(
                Rank::new(1),
                |()| N_SERVED.fetch_add(1, Ordering::AcqRel),
                (),
            );
            assert_eq!(call?.wait()?, i);
        }
    } else {
        let began = Instant::now();
        while N_SERVED.load(Ordering::Acquire) < N {
            assert!(
                began.elapsed() < PATIENCE,
                "nothing is served while this rank computes"
            );
            std::hint::spin_loop();
        }
    }
    world.barrier()
}

/// The failing rank fails in a function that rank 0 has called, while all wait.
pub(crate) fn rank_that_fails_in_a_handler(world: World, words: &[String]) -> ! {
    let call_and_wait = || -> pgas_am::Result<()> {
        world.barrier()?;
        if world.rank() == Rank::ZERO {
            let strike = |(here, name): (Here, String)| -> () {
                Fault::named(&name).unwrap().strike(here.world().clone())
            };
            let args = (Here::new(&world), words[0].clone());
            world.rpc_ff(FAILING, strike, args)?;
        }
        world.wait_for("the end of the job", || Ok(false))
    };
    let rank = world.rank();
    let error = call_and_wait().unwrap_err();
    drop(world);
    give_up(rank, &error)
}

/// The failing rank fails while it holds payload buffers for all others. They send each other
/// messages meanwhile, and then wait.
pub(crate) fn rank_that_fails_before_it_commits(world: World, words: &[String]) -> ! {
    const N: u64 = 50;
    let send_and_wait = |world: &World| -> pgas_am::Result<()> {
        let tally = counting(world)?;
        let others = || world.ranks().filter(|rank| *rank != FAILING);
        let mut held = Vec::new();
        if world.rank() == FAILING {
            for to in others().cycle().take(30) {
                let mut buffer = world.prepare(to, 1000)?;
                buffer.fill(1);
                held.push(buffer);
            }
        }
        world.barrier()?;
        if world.rank() != FAILING {
            for to in others() {
                (0..N).try_for_each(|i| world.request::<Count>(to, &i))?;
            }
        }
        quiet(world)?;
        let n = if world.rank() == FAILING { 0 } else { 3 * N };
        assert_eq!(tally.n.load(Ordering::Relaxed), n);
        world.barrier()?;
        if world.rank() == FAILING {
            Fault::named(&words[0]).unwrap().strike(world.clone());
        }
        world.wait_for("the end of the job", || Ok(false))
    };
    let rank = world.rank();
    let error = send_and_wait(&world).unwrap_err();
    drop(world);
    give_up(rank, &error)
}

/// Requests for a missing handler, whose target leaves.
const N_STRAY: usize = 3;

fn strays_of_a_rank_that_leaves_are_told(way: Way) {
    let ended = start(way, 2, &["strays"], &[]).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let id = HandlerId::N_RESERVED;
    let told = format!("a message from rank 0 is for handler {id}, which nobody set");
    let mut lines = ended.stderr.lines();
    let left = "rank 1 has left the job before it was told: ";
    let is_told = lines.any(|line| line.contains(left) && line.contains(&told));
    assert!(is_told, "{ended:?}");
}

/// Rank 0 sends requests to rank 1, which has no handler for them, and leaves when they have
/// arrived. Rank 1 begins nothing that would serve them: from the time it says so in its memory, it
/// only reads and writes that.
pub(crate) fn leave_with_strays(world: &World) -> pgas::Result<()> {
    const IN_BARRIER: u64 = 0;
    const SERVES_NOTHING: u64 = 1;
    const SENT: u64 = 2;
    let word = world.alloc_symmetric::<u64>(1)?;
    let word = word.on(Rank::new(1));
    world.barrier()?;
    let wait_while = |state: u64| -> pgas::Result<()> {
        while word.atomic_load(world)? == state {
            thread::yield_now();
        }
        Ok(())
    };
    if world.rank() == Rank::ZERO {
        // Whoever is still in the barrier serves messages.
        wait_while(IN_BARRIER)?;
        let handler = HandlerId(HandlerId::N_RESERVED);
        for _ in 0..N_STRAY {
            let sent = world.try_send(word.rank(), MessageClass::Request, handler, &[b"stray"])?;
            assert_eq!(sent, Sent::Accepted, "there is room for a few");
        }
        return word.atomic_store(world, SENT);
    }
    word.atomic_store(world, SERVES_NOTHING)?;
    wait_while(SERVES_NOTHING)
}

/// The handler for the requests of a flood.
const COUNTED: HandlerId = HandlerId(HandlerId::N_RESERVED + 1);

/// A flood whose target leaves: every request is served, or its loss is reported.
fn late_requests_are_told(way: Way) {
    let ended = start(way, 2, &["flooded"], &[]).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let number = |text: &str, before: &str, after: &str| -> Option<u64> {
        let (_, rest) = text.split_once(before)?;
        rest.split_once(after)?.0.parse().ok()
    };
    let n_sent = number(&ended.stdout, "rank 0 has sent ", " requests").unwrap();
    let n_served = number(&ended.stdout, "rank 1 has served ", " requests").unwrap();
    let told = "rank 1 has left the job with ";
    let n_lost = number(&ended.stderr, told, " messages lost").unwrap_or(0);
    // A loss that its sender knows of may have been recorded, too.
    let n_known = n_served + n_lost;
    assert!(n_known == n_sent || n_known == n_sent + 1, "{ended:?}");
}

/// Rank 1 leaves after it has served some requests. Rank 0 sends until it gets the error that rank
/// 1 has left.
pub(crate) fn leave_in_a_flood(world: World) {
    let n_served = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&n_served);
    world.set_handler(COUNTED, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    world.barrier().unwrap();
    if world.rank() == Rank::ZERO {
        let mut n_sent = 0_u64;
        let error = loop {
            match world.try_send(Rank::new(1), MessageClass::Request, COUNTED, &[b"one"]) {
                Ok(Sent::Accepted) => n_sent += 1,
                Ok(Sent::BackPressure) => thread::yield_now(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("rank 1 has left"), "{error}");
        say(&format!("rank 0 has sent {n_sent} requests"));
        return;
    }
    let enough = || Ok(n_served.load(Ordering::Relaxed) >= 100);
    world.wait_for("a hundred requests", enough).unwrap();
    drop(world);
    let n_served = n_served.load(Ordering::Relaxed);
    say(&format!("rank 1 has served {n_served} requests"));
}
