//! Linux only: how a process joins a job as a rank, under any launcher. `attach_portable.rs`
//! replaces it on other systems.

use std::io::{self, Write};
use std::sync::Arc;

use pgas_core::config::launch::{
    JOB_FD_VARIABLE, JOB_ID_VARIABLE, Launcher, RANK_VARIABLE, RANKS_VARIABLE,
};
use pgas_core::stats::{Board, Report};
use pgas_core::{Config, Error, Result, World, process};
use pgas_lockfree::roster::Membership;

use crate::launcher::{self, Failure, JobHooks, MeetError, Outcome, PATIENCE};
use crate::liveness::{Hold, Liveness};
use crate::member::Member;
use crate::segment::{Job, JobMemory, create_job, warn_of_size};
use crate::settings;

/// Joins the job that `config.launcher` describes. In a process that has joined already it returns
/// another handle on that world ([`process::join_once`]).
///
/// With [`Launcher::SelfLaunch`] this process starts the ranks and ends with their exit code; the
/// call returns in the ranks only.
///
/// # Errors
///
/// If the settings do not fit, memory is refused, the job spans several hosts, or its other ranks
/// do not arrive; [`Error::CannotRejoin`] if this process has left its job.
pub fn init(config: &Config) -> Result<World> {
    process::join_once(|| launched(config))
}

/// Joins the job of the launcher that started this process.
fn launched(config: &Config) -> Result<World> {
    World::new(Arc::new(member(config)?), config.clone())
}

/// Joins the job that `config.launcher` describes, as [`init`] does, for a backend that has more
/// ways to reach ranks than the memory of their host.
///
/// # Errors
///
/// As [`init`].
pub fn member(config: &Config) -> Result<Member> {
    match &config.launcher {
        Launcher::Own { rank, job_fd, .. } => {
            die_with_parent()?;
            let memory =
                launcher::inherited_memory(*job_fd).map_err(|error| no_memory(*job_fd, error))?;
            Member::join(memory, *rank, config)
        }
        Launcher::SelfLaunch { n_ranks } => become_supervisor(*n_ranks, config),
        Launcher::Pmi { place, .. }
        | Launcher::OpenMpi { place, .. }
        | Launcher::Slurm { place, .. } => {
            die_with_parent()?;
            let rank = place.rank;
            let mut created = None;
            let met = launcher::meet(&config.launcher, PATIENCE, |n_ranks| {
                warn_of_size(n_ranks, config);
                let memory = create_job(n_ranks, config).map_err(Meeting::Core)?;
                created = memory.try_clone().ok();
                Ok(memory)
            });
            let met = met.map_err(|error: Meeting| {
                let error = Error::from(error);
                if let Some(memory) = created {
                    tell_of_failed_start(&memory, rank, &error);
                }
                error
            });
            Member::join(met?, rank, config)
        }
        Launcher::Pmix => Err(only_pmix()),
        _ => single(config),
    }
}

/// Joins the job whose memory [`create_job`] made, as `rank`.
///
/// # Errors
///
/// When the memory is not that of a job of this version, or cannot be mapped, or `rank` is not a
/// rank of the job, or a process has joined as that rank before.
pub fn join(memory: JobMemory, rank: u32, config: &Config) -> Result<World> {
    World::new(
        Arc::new(Member::join(memory, rank, config)?),
        config.clone(),
    )
}

impl Member {
    /// Joins the job whose memory [`create_job`](crate::create_job) made, as `rank`.
    ///
    /// # Errors
    ///
    /// When the memory is not that of a job of this version, or cannot be mapped, or `rank` is not
    /// a rank of the job, or a process has joined as that rank before.
    pub fn join(memory: JobMemory, rank: u32, config: &Config) -> Result<Self> {
        let job = Job::open(memory)?;
        let n_ranks = job.layout().n_ranks;
        if rank >= n_ranks {
            let reason = format!("the job's memory was made for {n_ranks} ranks");
            return Err(Error::setting("PGAS_RANK", rank.to_string(), reason));
        }
        let hold = job.file().map(|file| Hold::take(file, rank)).transpose()?;
        // Whoever has the lock is the only one to change the rank's membership.
        if job.control().membership(rank) != Membership::Absent {
            return Err(second_program(rank, job.control().pid(rank)));
        }
        Self::process(job, rank, hold, config)
    }

    /// Joins the job as `rank`, a process of its own. Without a `hold` nobody else can join it.
    fn process(job: Job, rank: u32, hold: Option<Hold>, config: &Config) -> Result<Self> {
        let n_ranks = job.layout().n_ranks;
        let mut member = Self::new(Arc::new(job), rank, Some(Liveness::new(config.stall)));
        member.hold = hold;
        let control = member.job().control();
        let own = settings::of(config);
        control.join(rank, std::process::id(), own);
        let compared = settings::compare(control, (rank, n_ranks), own);
        compared.inspect_err(|error| {
            control.fail(rank, &format!("could not join the job: {error}"));
        })?;
        Ok(member)
    }
}

/// Tells those that have joined that the rank that created the job's memory does not: they would
/// wait for it.
#[cold]
fn tell_of_failed_start(memory: &JobMemory, rank: u32, error: &Error) {
    if let Ok(watcher) = Watcher::new(memory) {
        let text = format!("ended before it joined the job: {error}");
        watcher.job.control().fail(rank, &text);
    }
}

/// The error for a process that has the environment of a rank, but not the job's memory.
#[cold]
fn no_memory(job_fd: i32, error: io::Error) -> Error {
    if error.raw_os_error() != Some(libc::EBADF) {
        return Error::os(JOB_FD_VARIABLE, error);
    }
    let text = format!(
        "nothing is open under this number: a program that a rank starts is no rank; remove \
         {RANK_VARIABLE}, {RANKS_VARIABLE}, {JOB_FD_VARIABLE} and {JOB_ID_VARIABLE} from its \
         environment"
    );
    Error::setting(JOB_FD_VARIABLE, job_fd.to_string(), text)
}

/// The error for a process in the place of one that was the rank before it: the memory has what
/// that one has left there, and the other ranks count on its calls.
#[cold]
fn second_program(rank: u32, first: u32) -> Error {
    let text = format!(
        "process {first} was rank {rank} of this job before: a job is one program, so start each \
         program, also each try of one, as a job of its own"
    );
    Error::backend("start-up", 0, text)
}

/// Makes this process end with the one that started it: the launcher, or a script between the two.
fn die_with_parent() -> Result<()> {
    launcher::die_with_parent().map_err(|error| Error::os("prctl", error))
}

/// The error for a launcher that speaks PMIx only. Without it each process would be a job of its
/// own.
#[cold]
fn only_pmix() -> Error {
    let text = "PMIX_RANK is set, so a launcher has started this process as a rank, but tells by PMIx \
                alone of how many, which only PGAS_BACKEND=ofi understands: or use `srun --mpi=pmi2`, \
                `mpiexec.hydra`, Open MPI's `mpirun` or `pgas-run`; PGAS_RANKS=1 makes this process a \
                job of its own";
    Error::backend("start-up", 0, text)
}

/// A job of one rank: this process. It has no lock for others to look at, so it needs no `/proc`.
fn single(config: &Config) -> Result<Member> {
    warn_of_size(1, config);
    Member::process(Job::open(create_job(1, config)?)?, 0, None, config)
}

/// Starts the ranks, watches them, and ends with their exit code.
fn become_supervisor(n_ranks: u32, config: &Config) -> Result<Member> {
    warn_of_size(n_ranks, config);
    let memory = create_job(n_ranks, config)?;
    let mut watcher = Watcher::new(&memory)?;
    let outcome = launcher::self_launch(n_ranks, &memory, &mut watcher)
        .map_err(|error| Error::backend("self-launch", 0, error.to_string()))?;
    drop(io::stdout().flush());
    #[expect(
        clippy::disallowed_methods,
        reason = "this process is the launcher, not a rank"
    )]
    std::process::exit(i32::from(outcome.code()))
}

/// A launcher's view of a job through its memory: it reads the first failure, and tells the ranks
/// of a failure that it has found itself.
#[derive(Debug)]
pub struct Watcher {
    job: Arc<Job>,
}

impl Watcher {
    /// A watcher of the job whose memory [`create_job`] made.
    ///
    /// # Errors
    ///
    /// When the memory cannot be mapped.
    pub fn new(memory: &JobMemory) -> Result<Self> {
        let job = Arc::new(Job::open(memory.try_clone()?)?);
        Ok(Self { job })
    }
}

impl JobHooks for Watcher {
    fn left_properly(&mut self, rank: u32) -> bool {
        let control = self.job.control();
        let mut all = 0..self.job.layout().n_ranks;
        match control.membership(rank) {
            Membership::Joined => false,
            Membership::Left => true,
            // Those that have joined wait for it.
            Membership::Absent => all.all(|rank| control.membership(rank) == Membership::Absent),
        }
    }

    fn left_before(&mut self, rank: u32) -> bool {
        self.job.control().membership(rank) == Membership::Left
    }

    fn culprit(&mut self) -> Option<(u32, String)> {
        self.job.control().failure()
    }

    fn asked_for(&mut self) -> Option<u64> {
        let layout = self.job.layout();
        Some(layout.segment_bytes.saturating_mul(layout.n_ranks.into()))
    }

    fn on_end(&mut self, failure: Option<&Failure>) {
        let (rank, text) = match failure {
            Some(failure) => (failure.rank, failure.cause.to_string()),
            None => (0, "and all others were told to end".to_owned()),
        };
        self.job.control().fail(rank, &text);
    }

    fn ended(&mut self, outcome: &Outcome, print: &mut dyn FnMut(&str)) {
        let n_ranks = self.job.layout().n_ranks;
        let boards: Vec<Board> = (0..n_ranks)
            .filter_map(|rank| self.job.board(rank))
            .collect();
        if let Some(report) = Report::of(&boards, n_ranks, &outcome.to_string()) {
            report.tell_by(print);
        }
    }
}

/// The error of a rendezvous, or of rank 0's creation of the memory.
enum Meeting {
    Core(Error),
    Meet(MeetError),
}

impl From<MeetError> for Meeting {
    fn from(error: MeetError) -> Self {
        Self::Meet(error)
    }
}

impl From<Meeting> for Error {
    fn from(error: Meeting) -> Self {
        match error {
            Meeting::Core(error) => error,
            Meeting::Meet(error) => Self::backend("start-up", 0, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::backend::Backend as _;

    use super::*;

    #[test]
    fn a_rank_that_checks_is_refused_beside_one_that_does_not() {
        let mut config = Config::default();
        config.segment_bytes = Some(pgas_core::segment::MIN_SEGMENT_BYTES);
        config.check = Some(true);
        let memory = create_job(2, &config).unwrap();
        let first = Member::join(memory.try_clone().unwrap(), 0, &config).unwrap();
        assert!(first.health().is_ok());
        config.check = Some(false);
        let error = Member::join(memory, 1, &config).unwrap_err().to_string();
        for told in [
            "PGAS_CHECK",
            "all ranks must have the same, but rank 0 has 1",
        ] {
            assert!(error.contains(told), "{error}");
        }
        let error = first.health().unwrap_err().to_string();
        assert!(error.contains("rank 1 could not join the job: "), "{error}");
    }

    #[test]
    fn a_second_program_in_the_place_of_a_rank_does_not_get_the_memory_of_the_first() {
        let mut config = Config::default();
        config.segment_bytes = Some(pgas_core::segment::MIN_SEGMENT_BYTES);
        for leaves in [true, false] {
            let memory = create_job(1, &config).unwrap();
            let first = Member::join(memory.try_clone().unwrap(), 0, &config).unwrap();
            if leaves {
                first.job().control().leave(0);
            }
            drop(first);
            let error = Member::join(memory, 0, &config).unwrap_err().to_string();
            let told = format!("process {} was rank 0 of this job", std::process::id());
            assert!(error.contains(&told), "{error}");
        }
    }

    #[test]
    fn a_job_of_this_process_alone_has_no_lock_for_others_to_look_at() {
        let mut config = Config::default();
        config.segment_bytes = Some(pgas_core::segment::MIN_SEGMENT_BYTES);
        let member = single(&config).unwrap();
        assert!(member.hold.is_none() && member.health().is_ok());
        member.check_other_ranks();
    }
}
