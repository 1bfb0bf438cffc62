//! Who executes atomics, over providers that have them, lack them, or say what is not true.

use std::process::Command;

use pgas_core::atomics::Flag;
use pgas_core::backend::AtomicsBy;
use pgas_core::config::OfiAtomics;
use pgas_core::{Config, Result, World};
use pgas_testkit::job;

use super::{Ended, assert_refused, is_rank_one, ranks, run, strict};

const ASKED: (&str, &str) = ("PGAS_OFI_ATOMICS", "provider");
const TARGET: &str = "executed by Cpu, needs the target: true";
const PROVIDER: &str = "executed by Network, needs the target: true";
const PROVIDER_ALONE: &str = "executed by Network, needs the target: false";

/// The additions of each rank to each word, unless a test wants more.
const N: u32 = 8;

fn job(provider: &str, settings: &[(&str, &str)]) -> Command {
    job_with(3, N, provider, settings)
}

fn job_with(n_ranks: u32, n: u32, provider: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = ranks(n_ranks, "executors", &n.to_string());
    if provider == strict::STRICT {
        strict::choose(&mut command);
    } else {
        command.env("PGAS_OFI_PROVIDER", provider);
    }
    command.envs(settings.iter().copied());
    command
}

#[track_caller]
fn assert_decided(provider: &str, settings: &[(&str, &str)], decision: &str) {
    let ended: Ended = run(job(provider, settings));
    assert_eq!(ended.code(), 0, "{ended:?}");
    let n = ended.stdout.matches(decision).count();
    assert_eq!(n, 3, "{decision}, over {provider} {settings:?}: {ended:?}");
}

pub(crate) fn decided_alike() {
    assert_decided("tcp;ofi_rxm", &[], TARGET);
    for provider in ["tcp;ofi_rxm", "shm"] {
        assert_decided(provider, &[ASKED], PROVIDER);
    }
    // Threads of its own execute them.
    assert_decided("sockets", &[], PROVIDER_ALONE);
    assert_decided("sockets", &[("PGAS_OFI_ATOMICS", "target")], TARGET);
    // Compare-and-swap alone, in which the other atomics are.
    assert_decided(
        strict::STRICT,
        &[ASKED, ("FI_STRICT_ATOMICS", "2")],
        PROVIDER,
    );
}

/// The provider says that it makes progress by itself. Some of its promises are not true, so none
/// is believed before it was tried.
pub(crate) fn tried() {
    let auto = ("FI_STRICT_AUTO", "1");
    for atomics in ["0", "1", "3"] {
        let settings = [auto, ("FI_STRICT_ATOMICS", atomics)];
        assert_decided(strict::STRICT, &settings, TARGET);
    }
    assert_decided(
        strict::STRICT,
        &[ASKED, auto, ("FI_STRICT_ATOMICS", "1")],
        PROVIDER,
    );
}

pub(crate) fn refused() {
    // `FI_ATOMIC` is bit 4.
    let lines = [
        (
            "0",
            "0",
            "strict has no compare-and-swap of 8 bytes (FI_CSWAP: it says so)",
        ),
        (
            "3",
            "0",
            "strict has no compare-and-swap of 8 bytes (FI_CSWAP: fi_compare_atomicmsg",
        ),
        ("1", "16", "strict has no atomics (FI_ATOMIC)"),
    ];
    for (atomics, lacks, told) in lines {
        let settings = [
            ASKED,
            ("FI_STRICT_ATOMICS", atomics),
            ("FI_STRICT_LACKS", lacks),
        ];
        let ended = run(job(strict::STRICT, &settings));
        assert_refused(&ended, &["PGAS_OFI_ATOMICS=provider: at rank 0 ", told]);
    }
}

/// A rank's atomics on its own words go through the provider, too, or none does.
pub(crate) fn own_words() {
    // Far more than are tried at the start.
    let n = 100;
    for (executor, range) in [("provider", 4 * n..40 * n), ("target", 0..1)] {
        let told = [
            ("PGAS_OFI_ATOMICS", executor),
            ("FI_STRICT_ATOMICS", "1"),
            ("FI_STRICT_TELL", "1"),
        ];
        let ended = run(job_with(1, n, strict::STRICT, &told));
        let told = ended.stderr.split("of many messages; ").nth(1);
        let n: Option<u32> = told.and_then(|told| told.split(' ').next()?.parse().ok());
        assert!(n.is_some_and(|n| range.contains(&n)), "{n:?}: {ended:?}");
    }
}

pub(crate) fn other_settings() {
    let ended = run(ranks(2, "executors", "differ"));
    assert_refused(
        &ended,
        &[
            "PGAS_OFI_ATOMICS",
            "rank 0 has not set and rank 1 has target",
        ],
    );
}

/// Adds to words of all ranks, and says who has executed that.
pub(crate) fn play(what: &str) {
    let mut config = Config::from_env().expect("settings that mean something");
    if what == "differ" && is_rank_one(&config) {
        config.ofi_atomics = Some(OfiAtomics::Target);
    }
    let world = pgas_ofi::init(&config).unwrap_or_else(|error| {
        job::say(&format!("refused: {error}"));
        job::exit(1)
    });
    let capabilities = world.capabilities();
    let needs_target = capabilities.needs_target.atomics;
    let is_by_cpu = capabilities.atomics == AtomicsBy::Cpu;
    assert_eq!(world.has_direct_atomics(), is_by_cpu);
    assert_eq!(capabilities.ranks_serve_atomics(), is_by_cpu);
    add_up(&world, what.parse().unwrap_or(N)).expect("a job without failures");
    job::say(&format!(
        "executed by {:?}, needs the target: {needs_target}",
        capabilities.atomics
    ));
}

/// Changes words of all ranks, its own among them, by operations of all kinds.
fn add_up(world: &World, n: u32) -> Result<()> {
    let longs = world.alloc_symmetric::<u64>(1)?;
    let halves = world.alloc_symmetric::<u32>(2)?;
    let floats = world.alloc_symmetric::<f64>(1)?;
    let shorts = world.alloc_symmetric::<u16>(2)?;
    let flags = world.alloc_symmetric::<Flag>(4)?;
    world.barrier()?;
    for rank in world.ranks() {
        for _ in 0..n {
            longs.on(rank).fetch_add(world, 1 << 32)?;
            halves.on(rank).add(1).atomic_add(world, 3)?;
            floats.on(rank).atomic_add(world, 0.5)?;
            shorts.on(rank).add(1).fetch_add(world, 1)?;
        }
        let own = flags.on(rank).add(world.rank().index());
        let swapped = own.compare_exchange(world, Flag::FALSE, Flag::TRUE)?;
        assert_eq!(swapped, Ok(Flag::FALSE));
    }
    world.barrier()?;
    let n = n * world.n_ranks();
    let next = world.rank_after(world.rank());
    for rank in [world.rank(), next] {
        assert_eq!(longs.on(rank).get(world)?, u64::from(n) << 32);
        assert_eq!(longs.on(rank).atomic_load(world)?, u64::from(n) << 32);
        assert_eq!(halves.on(rank).get_vec(world, 2)?, [0, 3 * n]);
        let sum = floats.on(rank).atomic_load(world)?;
        assert_eq!(sum.to_bits(), (f64::from(n) / 2.0).to_bits());
        assert_eq!(
            shorts.on(rank).add(1).get(world)?,
            u16::try_from(n).expect("few")
        );
        let flags = flags.on(rank).get_vec(world, 4)?;
        let set = flags.into_iter().filter(|flag| flag.get()).count();
        assert_eq!(set, world.n_ranks() as usize);
    }
    world.barrier()
}
