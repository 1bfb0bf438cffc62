//! How a process becomes a rank on systems that are not Linux: as the only one. Several ranks are
//! threads there.

use std::sync::Arc;

use pgas_core::config::launch::Launcher;
use pgas_core::{Config, Error, Result, World, process};

use crate::liveness::Liveness;
use crate::member::Member;
use crate::segment::{Job, layout};

/// Makes this process a job of one rank. If it is one already, returns another handle on that world
/// ([`process::join_once`]).
///
/// # Errors
///
/// [`Error::Setting`] if the job has several ranks, which as processes need Linux, or if the
/// settings do not fit; an error if memory is refused; [`Error::CannotRejoin`] if this process has
/// left its job.
pub fn init(config: &Config) -> Result<World> {
    process::join_once(|| launched(config))
}

/// Joins the job of the launcher that started this process, if the job has one rank.
fn launched(config: &Config) -> Result<World> {
    if config.launcher.n_ranks() > 1 {
        return Err(refusal(&config.launcher));
    }
    let job = Job::anonymous(layout(1, config)?)?;
    let liveness = Liveness::new(config.stall);
    let member = Member::new(Arc::new(job), 0, Some(liveness));
    member.job().control().join(0, std::process::id(), 0);
    World::new(Arc::new(member), config.clone())
}

/// An error that names the setting that asks for several ranks, and what works here.
#[cold]
fn refusal(launcher: &Launcher) -> Error {
    let name = match launcher {
        Launcher::Pmi { .. } => "PMI_SIZE",
        Launcher::OpenMpi { .. } => "OMPI_COMM_WORLD_SIZE",
        Launcher::Slurm { .. } => "SLURM_STEP_NUM_TASKS",
        _ => "PGAS_RANKS",
    };
    let reason = "ranks as processes need Linux; here a job has one rank, \
        or its ranks are threads (`pgas::threads`)";
    Error::setting(name, launcher.n_ranks().to_string(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(launcher: Launcher) -> Config {
        let mut config = Config::default();
        config.launcher = launcher;
        config.segment_bytes = Some(1 << 20);
        config
    }

    #[test]
    fn a_process_is_a_job_of_one_rank() {
        let world = launched(&config(Launcher::Single)).unwrap();
        assert_eq!((world.rank().number(), world.n_ranks()), (0, 1));
        let word = world.alloc_symmetric::<u64>(1).unwrap();
        word.here().put(&world, 7).unwrap();
        world.barrier().unwrap();
        assert_eq!(word.here().get(&world).unwrap(), 7);
    }

    #[test]
    fn ranks_as_processes_are_refused_in_a_sentence_that_says_what_works() {
        let error = launched(&config(Launcher::SelfLaunch { n_ranks: 4 })).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Setting(_)), "{text}");
        assert!(text.starts_with("PGAS_RANKS=4: "), "{text}");
        assert!(text.contains("pgas::threads"), "{text}");
    }
}
