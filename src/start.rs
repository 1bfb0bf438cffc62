//! From what started this process to its world.

use pgas_core::config::BackendKind;
use pgas_core::config::launch::Launcher;
use pgas_core::{Config, Error, World};

/// Joins the job that started this process, as the environment says: see [`Config`] for the settings.
///
/// With `PGAS_RANKS=n` and no launcher the process starts `n` ranks of itself, watches them, and ends
/// with their exit code: then this call does not return in it, but in each of the ranks. Call it first
/// thing in `main`.
///
/// # Errors
///
/// A setting that cannot be used, a transport that refuses, memory that cannot be had.
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
pub fn init() -> Result<World, Error> {
    init_with(&Config::from_env()?)
}

/// As [`init`], with settings of the program's own, such as a number of ranks from its command line.
///
/// # Errors
///
/// As [`init`].
pub fn init_with(config: &Config) -> Result<World, Error> {
    match config.backend.unwrap_or_else(|| choice(&config.launcher)) {
        #[cfg(feature = "smp")]
        BackendKind::Smp => pgas_smp::init(config),
        #[cfg(feature = "mpi")]
        BackendKind::Mpi => pgas_mpi::init(config),
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
