//! Ranks that run for long: their memory and the numbers of their descriptors and threads do not
//! grow.

use std::fs;
use std::time::Duration;

use pgas_core::{GlobalPtr, Rank, Result, Symmetric, World};
use pgas_testkit::{job, setting};

use super::{ranks, strict, world};

/// The word that a rank prints before its figures in the end.
const HELD: &str = "held: ";
/// Rounds until everything that is made once exists: buffers, connections, pages of the heap.
const WARM_UP: u64 = 30;
/// The maximum growth of a rank's memory in KiB: less than a hundredth of the growth if each short
/// put lost a copy.
const SLACK_KIB: u64 = 512;
/// Bytes of a long transfer, which goes without a copy.
const LONG: usize = 64 << 10;
/// The bytes that a rank may register: its segment, buffers, and as much for transfers.
const REGISTERED: u64 = 3 << 20;
/// Short operations of each kind in a round.
const SHORT: usize = 16;

/// The number of rounds after the warm-up: that of `PGAS_TEST_SOAK`. 100000 take minutes.
fn n_rounds() -> u64 {
    setting("PGAS_TEST_SOAK", 60)
}

/// The maximum time of the test, and of each of its jobs.
pub(crate) fn limit() -> Duration {
    Duration::from_secs(100) + Duration::from_millis(50) * u32::try_from(n_rounds()).unwrap_or(0)
}

/// The resources of a process: KiB of address space for data, KiB that are pinned or locked,
/// descriptors, threads. Pages in use would say less: libfabric allocates all its buffers at the
/// start, and it takes some thousand rounds until it has touched each of them.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory: u64,
    pinned: u64,
    descriptors: u64,
    threads: u64,
}

impl Held {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            word.and_then(|word| word.parse().ok()).expect("a number")
        };
        let descriptors = fs::read_dir("/proc/self/fd").expect("descriptors");
        Self {
            memory: number("VmData:"),
            pinned: number("VmPin:") + number("VmLck:"),
            descriptors: descriptors.count() as u64,
            threads: number("Threads:"),
        }
    }
}

pub(crate) fn test() {
    for provider in ["tcp;ofi_rxm", "shm", strict::STRICT] {
        let mut command = ranks(2, "soak", "");
        command.env("PGAS_OFI_PROVIDER", provider);
        if provider == strict::STRICT {
            // Little more than is registered at a time. In the end nothing may be.
            command.env("FI_STRICT_LIMIT", REGISTERED.to_string());
            strict::choose(&mut command);
        }
        let ended = job::start_within(limit(), command).end();
        assert_eq!(ended.code(), 0, "{provider}: {ended:?}");
        let told = ended.stdout.lines();
        let n_told = told.filter(|line| line.starts_with(HELD)).count();
        assert_eq!(n_told, 2, "{provider}: {ended:?}");
    }
}

/// Plays a rank.
pub(crate) fn play(_: &str) {
    let world = world();
    let there = world.alloc_symmetric::<u64>(LONG / 8 + 1).expect("room");
    let rounds = || -> Result<Held> {
        for _ in 0..WARM_UP {
            round(&world, &there)?;
        }
        let before = Held::now();
        for _ in 0..n_rounds() {
            round(&world, &there)?;
        }
        Ok(before)
    };
    let before = rounds().expect("both ranks do the same");
    let after = Held::now();
    job::say(&format!("{HELD}{before:?}, then {after:?}"));
    assert!(
        after.memory <= before.memory + SLACK_KIB
            && after.pinned <= before.pinned
            && after.descriptors <= before.descriptors
            && after.threads <= before.threads,
        "from {before:?} to {after:?}"
    );
    world.barrier().expect("both have looked");
}

/// Each kind of operation, on the other rank's memory.
fn round(world: &World, words: &Symmetric<u64>) -> Result<()> {
    let other = Rank::new(1 - world.rank().number());
    let (there, count): (GlobalPtr<u64>, _) = (words.on(other), words.on(other).add(LONG / 8));
    for index in 0..SHORT {
        there.add(index).put(world, 7)?;
        count.fetch_add(world, 1)?;
        there.add(index).get(world)?;
    }
    world.flush(other)?;
    let long = vec![7; LONG / 8];
    let put = there.put_vec_nb(world, long)?;
    put.wait()?;
    let get = there.get_vec_nb(world, LONG / 8)?;
    assert_eq!(get.wait()?[LONG / 8 - 1], 7);
    for from in [Rank::ZERO, Rank::new(1)] {
        // Longer than what is sent without a buffer.
        assert_eq!(world.broadcast(from, [3_u64; 128])?, [3; 128]);
    }
    // What the core makes and frees: symmetric memory, a team, its memory.
    let fresh = world.alloc_symmetric::<u64>(SHORT)?;
    fresh.on(other).put(world, 1)?;
    let team = world.team().split(Some(0), other.number())?;
    let team = team.expect("a member");
    let of_team = team.alloc_symmetric::<u64>(SHORT)?;
    team.barrier()?;
    drop((fresh, of_team, team));
    world.barrier()
}
