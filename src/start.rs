//! Joins the job, by the launcher that started this process.

use std::panic::Location;

use pgas_core::config::BackendKind;
use pgas_core::config::launch::Launcher;
use pgas_core::{Config, Error, World};

/// Joins the job of the launcher that started this process. The environment has the settings,
/// listed at [`Config`].
///
/// With `PGAS_RANKS=n`, and no launcher or one that has started a single process, the process
/// starts `n` ranks of the same program, watches them, and ends with their exit code. This call
/// then returns in each of the ranks, but not in the process that started them. So call it first in
/// `main`, before other threads are started: a signal that one of them takes, such as SIGTERM, ends
/// the process that watches the ranks, and so kills them.
///
/// A rank of a launcher is killed when the thread that started its process ends. If a wrapper
/// between the two starts it, that thread must wait for it.
///
/// A process joins one job. A second call, for example by a library, returns another handle on the
/// same world; on a thread that is a rank ([`threads`]) a handle on the world of that rank. When
/// the last handle is dropped the rank leaves the job, for good. Over MPI a process that exits
/// before that ends the job as failed, even if all ranks do so: drop all handles before, also those
/// of containers and teams, and keep none in a `static`. A process that it forks is no rank: it may
/// run another program or end, but not use the world.
///
/// In builds with debug assertions collectives compare their calls and arguments across the ranks,
/// and fail with [`Error::Mismatch`] instead of a hang. `PGAS_CHECK` and [`Config::check`] choose
/// otherwise.
///
/// # Errors
///
/// A setting that cannot be used, an error of the transport, a lack of memory;
/// [`CannotRejoin`](Error::CannotRejoin) once the rank has left its job. On systems other than
/// Linux a job of several ranks is refused; use [`threads`] there.
///
/// # Examples
///
/// ```no_run
/// use pgas::prelude::*;
///
/// fn main() -> pgas::Result<()> {
///     let world = pgas::init()?;
///     println!("rank {} of {}", world.rank(), world.n_ranks());
///     world.barrier()?;
///     Ok(())
/// }
/// ```
#[track_caller]
pub fn init() -> Result<World, Error> {
    init_with(&Config::from_env()?)
}

/// As [`init`], with settings of the program, for example a number of ranks from its command line.
/// After the first call the settings are fixed.
///
/// # Errors
///
/// As [`init`].
///
/// # Examples
///
/// ```no_run
/// use pgas::Config;
/// use pgas::config::launch::Launcher;
///
/// fn main() -> pgas::Result<()> {
///     let mut config = Config::from_env()?;
///     config.segment_bytes.get_or_insert(1 << 30);
///     // The first argument is the number of ranks, unless a launcher has started several, or does
///     // not tell how many.
///     let n_ranks = std::env::args().nth(1).and_then(|n| n.parse().ok());
///     let has_said = matches!(config.launcher, Launcher::Own { .. } | Launcher::Pmix);
///     let is_alone = config.launcher.n_ranks() == 1 && !has_said;
///     if let (true, Some(n_ranks @ 2..)) = (is_alone, n_ranks) {
///         config.launcher = Launcher::SelfLaunch { n_ranks };
///     }
///     let world = pgas::init_with(&config)?;
///     world.barrier()?;
///     Ok(())
/// }
/// ```
#[track_caller]
pub fn init_with(config: &Config) -> Result<World, Error> {
    let world = join(&with_check(config, cfg!(debug_assertions))?)?;
    pgas_am::attach(&world)?;
    Ok(world)
}

/// `config` with a choice whether collectives compare their calls: that of the program, of the
/// environment, or else `default`.
fn with_check(config: &Config, default: bool) -> Result<Config, Error> {
    let mut config = config.clone();
    if config.check.is_none() {
        config.check = Some(Config::check_from_env()?.unwrap_or(default));
    }
    Ok(config)
}

fn join(config: &Config) -> Result<World, Error> {
    match config.backend.unwrap_or_else(|| choice(&config.launcher)) {
        #[cfg(feature = "smp")]
        BackendKind::Smp => pgas_smp::init(config),
        #[cfg(feature = "mpi")]
        BackendKind::Mpi => pgas_mpi::init(config),
        #[cfg(feature = "ofi")]
        BackendKind::Ofi => pgas_ofi::init(config),
        #[cfg(all(feature = "sim", target_arch = "riscv64", target_os = "linux"))]
        BackendKind::Sim => pgas_sim::init(config),
        #[expect(
            clippy::allow_attributes,
            reason = "whether the arm is reached is up to the features"
        )]
        #[allow(
            unreachable_patterns,
            reason = "whether the arm is reached is up to the features"
        )]
        kind => {
            let reason = "this program was built without that backend; see the features of pgas";
            let name = format!("{kind:?}").to_lowercase();
            Err(Error::setting("PGAS_BACKEND", name, reason))
        }
    }
}

/// The backend for what started this process, if the user has not chosen one.
fn choice(launcher: &Launcher) -> BackendKind {
    let is_foreign = matches!(
        launcher,
        Launcher::Pmi { .. } | Launcher::OpenMpi { .. } | Launcher::Slurm { .. }
    );
    if cfg!(feature = "mpi") && is_foreign {
        BackendKind::Mpi
    } else {
        BackendKind::Smp
    }
}

/// Runs `body` as `n_ranks` ranks, each a thread of this process, and returns their results in
/// order: see [`pgas_smp::threads`].
///
/// Collectives compare their calls and arguments across the ranks, unless `PGAS_CHECK=0` or
/// [`Config::check`] says otherwise, since threads are mostly for tests and examples. Switch it off
/// for measurements. Apart from `PGAS_CHECK` and std's `RUST_MIN_STACK` the environment is not read.
///
/// # Errors
///
/// If the system refuses the memory for the segments, or if `PGAS_CHECK` has a value that cannot be
/// used. The failure of the job, if a rank fails it before all have started.
///
/// # Panics
///
/// If a rank panics, or the system refuses a thread, or `n_ranks` is 0.
///
/// # Examples
///
/// ```
/// use pgas::prelude::*;
///
/// let answers = pgas::threads(2, |world| -> pgas::Result<u64> {
///     let other = world.rank_after(world.rank());
///     let answer = world.rpc(other, |x: u64| 2 * x, 21)?.wait()?;
///     world.barrier()?; // the other rank may not have its answer yet
///     Ok(answer)
/// })?;
/// assert_eq!(answers.into_iter().collect::<pgas::Result<Vec<_>>>()?, [42, 42]);
/// # Ok::<(), pgas::Error>(())
/// ```
#[cfg(feature = "smp")]
#[track_caller]
pub fn threads<R: Send>(n_ranks: u32, body: impl Fn(World) -> R + Sync) -> Result<Vec<R>, Error> {
    threads_with(n_ranks, &Config::default(), body)
}

/// As [`threads`], with settings of the program. They apply to each rank.
///
/// # Errors
///
/// As [`threads`], and for settings that cannot be used.
///
/// # Panics
///
/// As [`threads`].
#[cfg(feature = "smp")]
#[track_caller]
pub fn threads_with<R: Send>(
    n_ranks: u32,
    config: &Config,
    body: impl Fn(World) -> R + Sync,
) -> Result<Vec<R>, Error> {
    let at = Location::caller();
    let with_messages = |world: World| {
        let started = pgas_core::part_of_earlier("the start of the ranks", at);
        pgas_am::attach(&world)?;
        drop(started);
        Ok(body(world))
    };
    let config = with_check(config, true)?;
    let results = pgas_smp::threads_with(n_ranks, &config, with_messages)?;
    results.into_iter().collect()
}
