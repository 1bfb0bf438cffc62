//! Makes a world of MPI's processes: settings of MPI, agreement of all ranks, and the ranks of each
//! host.
#![expect(
    unsafe_code,
    reason = "sets environment variables for MPI, and takes a foreign communicator"
)]

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, thread};

use mpi::ffi::MPI_Comm;
use mpi::raw::AsRaw;
use pgas_core::config::launch::{Launcher, Place};
use pgas_core::{Config, Error, Rank, Result, Statistics, World, notice, process};
use pgas_smp::launcher::{self, MeetError};
use pgas_smp::{JobMemory, Member, create_job};

use crate::collectives::{Collectives, Hosts};
use crate::lookout::Lookout;
use crate::network::Network;
use crate::one_host::OneHost;
use crate::session::{Session, c_rank, number};
use crate::settings::{MPICH_YIELDS, setting};
use crate::sys::{self, Mpi, ThreadLevel};
use crate::time_slice;
use pgas_network::failure::Noted;
use pgas_network::host::Host;
use pgas_network::introduction::Elder;
use pgas_network::lifeline::{Lifeline, elders_of};

/// Joins the job that an MPI launcher started: starts MPI, for one thread at a time, and ends it
/// when the world is left. If the application has started MPI already, this is [`init_on`] its
/// world. In a process that has joined already it returns another handle on that world
/// ([`process::join_once`]).
///
/// Unless the user has chosen others, Open MPI uses the window components `sm` and `pt2pt`
/// (`OMPI_MCA_osc`): of those that Debian's build prefers, one has no windows over TCP and the
/// other crashes in `MPI_Compare_and_swap`. On a host with more ranks than processors both
/// libraries are set to yield, and the system is asked for short time slices.
///
/// These settings are environment variables. They are set only if this process has no other thread
/// that might read them. So call this first in `main`, or give `OMPI_MCA_osc=sm,pt2pt` to the
/// launcher; otherwise a warning names the settings that were not made.
///
/// # Errors
///
/// Errors of MPI; a launcher that is not the one of this program's MPI; ranks with different
/// settings; too little memory; [`Error::CannotRejoin`] if this process has left its job.
pub fn init(config: &Config) -> Result<World> {
    process::join_once(|| launched(config))
}

/// Joins the job of the launcher that started this process.
fn launched(config: &Config) -> Result<World> {
    let mpi = sys::enter()?;
    if sys::is_finalized(&mpi)? {
        let text = "MPI was ended in this process, and cannot be started again";
        return Err(Error::backend("MPI_Init_thread", 0, text));
    }
    let owns_mpi = !sys::is_initialized(&mpi)?;
    let rank = place_of(&config.launcher).map(|place| place.rank);
    let pmi_fd = pmi_fd_of(&config.launcher);
    if owns_mpi {
        // Before there is another thread.
        time_slice::shorten();
        advise(config);
    }
    let lookout = Lookout::begin(config, rank, pmi_fd);
    if !owns_mpi {
        admit(&mpi, config)?;
    }
    if owns_mpi {
        let level = sys::init_thread(&mpi)?;
        IS_STARTED_HERE.store(true, Ordering::Relaxed);
        heed(level);
        if let Some(place) = place_of(&config.launcher) {
            // MPI has started, so its launcher exists. This fails only if the launcher is not
            // visible, and then has no effect.
            drop(launcher::die_with_parent());
            check_launcher(&mpi, place, &config.launcher)?;
        }
        if let Launcher::SelfLaunch { n_ranks } = config.launcher {
            check_n_ranks(&mpi, n_ranks)?;
        }
    }
    let comm = sys::dup_world(&mpi)?;
    drop(mpi);
    begin(Session::new(comm, owns_mpi, pmi_fd, lookout)?, config)
}

/// Makes a world of the processes of `comm`, in a program that has started MPI itself; collective
/// over `comm`. MPI keeps running when the world is left.
///
/// Each call makes a world of its own, with segments of its own. So worlds of several
/// communicators, or several worlds of one, may exist at the same time and one after another. None
/// of them is the one that `init` returns. Making one and leaving one are collective: threads of a
/// rank that do so at once wait for each other for ever, unless all ranks do it in one order.
///
/// Any communicator will do; the world uses a duplicate of it. With `MPI_THREAD_MULTIPLE` any
/// thread may use the world. With `MPI_THREAD_FUNNELED` and `MPI_THREAD_SINGLE` only the calling
/// thread may use it. With `MPI_THREAD_SERIALIZED` no two threads may be inside of MPI at once,
/// which the world cannot ensure for the program's own calls: see [`init_on_serialized`].
///
/// # Errors
///
/// Errors of MPI; ranks with different settings; too little memory; a progress thread
/// (`PGAS_PROGRESS=thread`) with a thread level that allows none; a program that has started MPI
/// with `MPI_THREAD_SERIALIZED`.
pub fn init_on(comm: &impl AsRaw<Raw = MPI_Comm>, config: &Config) -> Result<World> {
    let mpi = sys::enter()?;
    admit(&mpi, config)?;
    world_of(mpi, comm, config)
}

/// As [`init_on`], in a program that has started MPI with `MPI_THREAD_SERIALIZED`. Any thread may
/// use the world, which lets only one of them at a time call MPI.
///
/// # Errors
///
/// As [`init_on`], except for those of thread levels, which are not checked.
///
/// # Safety
///
/// MPI allows calls from any thread: it was started with at least `MPI_THREAD_SERIALIZED`. During
/// this call, and as long as the world exists, the program calls MPI itself only while no thread of
/// the process is inside of a call of this library. `config` has no progress thread
/// (`PGAS_PROGRESS=thread`), which would call MPI at any time.
pub unsafe fn init_on_serialized(
    comm: &impl AsRaw<Raw = MPI_Comm>,
    config: &Config,
) -> Result<World> {
    world_of(sys::enter()?, comm, config)
}

fn world_of(mpi: Mpi, comm: &impl AsRaw<Raw = MPI_Comm>, config: &Config) -> Result<World> {
    // SAFETY: an implementation of `AsRaw` promises that the handle is valid.
    let comm = unsafe { sys::dup_raw(&mpi, comm.as_raw()) }?;
    drop(mpi);
    let pmi_fd = pmi_fd_of(&config.launcher);
    let lookout = Lookout::begin(config, None, pmi_fd);
    begin(Session::new(comm, false, pmi_fd, lookout)?, config)
}

/// Whether this library has started MPI in this process, and not the program.
static IS_STARTED_HERE: AtomicBool = AtomicBool::new(false);

/// An error unless this thread may make worlds in a program that has started MPI itself.
fn admit(mpi: &Mpi, config: &Config) -> Result<()> {
    match sys::query_thread(mpi)? {
        ThreadLevel::Multiple => Ok(()),
        ThreadLevel::Serialized if IS_STARTED_HERE.load(Ordering::Relaxed) => Ok(()),
        ThreadLevel::Serialized => {
            let text = "the application has started MPI with MPI_THREAD_SERIALIZED, and promises by \
                        `init_on_serialized` that it calls MPI while no thread uses the world, or \
                        starts MPI with MPI_THREAD_FUNNELED or MPI_THREAD_MULTIPLE";
            Err(Error::backend("MPI_Query_thread", 0, text))
        }
        ThreadLevel::One => {
            if config.progress == pgas_core::config::Progress::Thread {
                let reason = "the application has started MPI for one thread only";
                return Err(Error::setting("PGAS_PROGRESS", "thread", reason));
            }
            if !sys::is_thread_main(mpi)? {
                let text = "the application has started MPI for one thread only, and this is \
                            another one";
                return Err(Error::backend("MPI_Is_thread_main", 0, text));
            }
            sys::bind_to_this_thread();
            Ok(())
        }
    }
}

fn heed(level: ThreadLevel) {
    if level == ThreadLevel::One {
        sys::bind_to_this_thread();
    }
}

/// Sets MPI's settings that suit this library, unless the user has set them.
fn advise(config: &Config) {
    let place = place_of(&config.launcher);
    let mut suggested = vec![("OMPI_MCA_osc", "sm,pt2pt")];
    let n_cores = thread::available_parallelism().map_or(1, usize::from);
    let n_local_ranks = place.and_then(|place| place.n_local_ranks);
    // Ranks that Open MPI has bound have a processor each, and see no other.
    let is_bound = setting("OMPI_MCA_orte_bound_at_launch").is_some();
    if !is_bound && n_local_ranks.is_some_and(|n| n as usize > n_cores) {
        suggested.extend([("OMPI_MCA_mpi_yield_when_idle", "1"), (MPICH_YIELDS, "1")]);
    }
    suggested.retain(|(name, _)| setting(name).is_none());
    if suggested.is_empty() {
        return;
    }
    if !is_the_only_thread() {
        if place.is_some_and(|place| place.rank == 0) {
            let text = suggested
                .iter()
                .map(|(name, value)| format!(" {name}={value}"));
            let text: String = text.collect();
            notice::tell(&format_args!(
                "warning: MPI is started in a process with several threads, so its settings are left alone; these are \
                 advised:{text}"
            ));
        }
        return;
    }
    for (name, value) in suggested {
        // SAFETY: this is the only thread of the process, as the system has said, and it starts no
        // other one meanwhile. So nobody reads or writes the environment.
        unsafe { env::set_var(name, value) };
    }
}

/// Whether this process has no other thread; no when in doubt.
fn is_the_only_thread() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

fn place_of(launcher: &Launcher) -> Option<Place> {
    match launcher {
        Launcher::Pmi { place, .. }
        | Launcher::OpenMpi { place, .. }
        | Launcher::Slurm { place, .. } => Some(*place),
        _ => None,
    }
}

fn pmi_fd_of(launcher: &Launcher) -> Option<i32> {
    match launcher {
        Launcher::Pmi { pmi_fd, .. } => Some(*pmi_fd),
        _ => None,
    }
}

/// The number of processes that MPI sees.
fn n_ranks_of(mpi: &Mpi) -> Result<u32> {
    let mut world = sys::dup_world(mpi)?;
    let n_ranks = sys::comm_size(mpi, &world)?;
    sys::comm_free(mpi, &mut world)?;
    Ok(number(n_ranks))
}

/// An error if the program was to start `wanted` ranks, which MPI has not started.
fn check_n_ranks(mpi: &Mpi, wanted: u32) -> Result<()> {
    let n_ranks = n_ranks_of(mpi)?;
    if n_ranks == wanted {
        return Ok(());
    }
    let reason = format!(
        "is not the number of ranks of this job, which is {n_ranks}: a program does not start ranks over \
         MPI by itself. Start it with mpirun -n {wanted}, or choose PGAS_BACKEND=smp"
    );
    Err(Error::setting("PGAS_RANKS", wanted.to_string(), reason))
}

/// An error if the launcher is that of another MPI: then each process would be a job of its own.
fn check_launcher(mpi: &Mpi, place: Place, launcher: &Launcher) -> Result<()> {
    let n_ranks = n_ranks_of(mpi)?;
    if n_ranks == place.n_ranks {
        return Ok(());
    }
    let library = sys::library_version(mpi)?;
    let (who, remedy) = match launcher {
        Launcher::OpenMpi { .. } => (
            "Open MPI's mpirun",
            "start it with mpiexec.hydra, or build it with MPICC=mpicc.openmpi",
        ),
        Launcher::Pmi { .. } => (
            "a launcher that speaks MPICH's PMI",
            "start it with mpirun.openmpi, or build it with MPICC=mpicc.mpich",
        ),
        _ => (
            "srun",
            "choose the plugin of this MPI: srun --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH",
        ),
    };
    let text = format!(
        "this program was built with {library}, and {who} started it as rank {} of {}, but MPI sees \
         {n_ranks}; {remedy}",
        place.rank, place.n_ranks
    );
    Err(Error::backend("MPI_Comm_size", 0, text))
}

fn begin(mut session: Session, config: &Config) -> Result<World> {
    if config.statistics != Statistics::Off {
        sys::start_counting();
    }
    let made = make(&session, config);
    let (member, host, config) = match made {
        Ok(made) => made,
        Err(error) => {
            // All ranks have failed here, so they can close the session together.
            drop(session.close(true));
            return Err(error);
        }
    };
    session.watch_exit();
    if config.direct && host.n_ranks() == session.n_ranks() {
        let collectives = session.agree(Collectives::new(&session, Hosts::One))?;
        let member = Arc::new(member);
        session
            .lookout()
            .know_job(&member, &host, &Noted::default());
        return World::new(Arc::new(OneHost::new(member, collectives, session)), config);
    }
    let collectives = session.agree(Collectives::new(&session, Hosts::Several))?;
    let network = Network::new(session, member, host, collectives, &config)?;
    World::new(Arc::new(network), config)
}

/// The memory of this host's ranks, the host, and the settings that all ranks have agreed on.
fn make(session: &Session, config: &Config) -> Result<(Member, Host, Config)> {
    let config = agreed_settings(session, config)?;
    let (host, key) = meet_the_host(session)?;
    let n_local = host.n_ranks();
    if n_local != session.n_ranks() {
        session.agree(connect_hosts(session, &host))?;
    }
    let memory = (host.index() == 0).then(|| create_job(n_local, &config));
    let memory = session.agree(memory.transpose())?;
    let memory = session.agree(share(&host, key, memory))?;
    let member = session.agree(Member::join(memory, host.index(), &config))?;
    Ok((member, host, config))
}

/// The settings with the segment's size filled in; fails where the ranks' differ.
fn agreed_settings(session: &Session, config: &Config) -> Result<Config> {
    let check = config.check.unwrap_or(false);
    for (name, own) in [("PGAS_DIRECT", config.direct), ("PGAS_CHECK", check)] {
        let own = u64::from(own);
        let (min, max) = session.extremes(own)?;
        if min != max {
            return Err(differing(name, own.to_string(), &session.gather(own)?));
        }
    }
    let wanted = config.segment_bytes.unwrap_or(0);
    let (min, max) = session.extremes(wanted)?;
    if min != max {
        let own = config
            .segment_bytes
            .map_or_else(|| "not set".to_owned(), |bytes| bytes.to_string());
        let all = session.gather(wanted)?;
        return Err(differing("PGAS_SEGMENT", own, &all));
    }
    let mut config = config.clone();
    if wanted == 0 {
        let own = session.agree(pgas_smp::segment_bytes(session.n_ranks(), &config))?;
        // The segment size that the smallest host offers.
        config.segment_bytes = Some(session.extremes(own)?.0);
    }
    Ok(config)
}

fn differing(name: &'static str, own: String, all: &[u64]) -> Error {
    let first = all[0];
    let other = all.iter().position(|value| *value != first).unwrap_or(0);
    let reason = format!(
        "all ranks must have the same, but rank 0 has {first} and rank {other} has {}",
        all[other]
    );
    Error::setting(name, own, reason)
}

/// The ranks of this host, and a name for their shared objects that is unique on it.
fn meet_the_host(session: &Session) -> Result<(Host, String)> {
    let mpi = sys::enter()?;
    let ranks = sys::ranks_on_this_host(&mpi, session.comm())?;
    let ranks: Box<[u32]> = ranks.into_iter().map(number).collect();
    let mut name = random_name(session.rank() == 0);
    sys::bcast(&mpi, session.comm(), 0, &mut name)?;
    let name = format!("mpi {:032x} {}", u128::from_ne_bytes(name), ranks[0]);
    let index = ranks.binary_search(&session.rank());
    let index = u32::try_from(index.expect("a rank shares its own host"));
    Ok((Host::new(ranks, index.expect("not more than ranks")), name))
}

/// Connects the first ranks of hosts, to notice when hosts are gone. Collective.
fn connect_hosts(session: &Session, host: &Host) -> Result<()> {
    let lookout = session.lookout();
    let is_first = host.index() == 0;
    // Without a socket the others get no port, and warn.
    let listener = lookout
        .silence()
        .filter(|_| is_first)
        .and_then(|_| Lifeline::listen().ok());
    let mpi = sys::enter()?;
    let colour = is_first.then_some(0);
    let firsts = sys::comm_split(&mpi, session.comm(), colour, c_rank(session.rank()))?;
    let Some(mut firsts) = firsts else {
        return Ok(());
    };
    let (n_hosts, number_here) = (
        number(sys::comm_size(&mpi, &firsts)?) as usize,
        number(sys::comm_rank(&mpi, &firsts)?) as usize,
    );
    let mut own = Elder::new(session.rank(), listener.as_ref()).to_words();
    own.resize(Elder::N_WORDS, 0);
    let all = sys::allgather(&mpi, &firsts, n_hosts, &own)?;
    drop(mpi);
    let mut lifeline = listener.zip(lookout.silence()).map(|(listener, silence)| {
        let own = (session.rank(), host.describe());
        Lifeline::new(listener, own, silence)
    });
    if let Some(lifeline) = &mut lifeline {
        lifeline.connect(elders_of(number_here).filter_map(|elder| {
            let words = &all[elder * Elder::N_WORDS..][..Elder::N_WORDS];
            Elder::of_words(words)
        }));
    }
    // Twice, so that connected hosts are answered before anything else happens, and have received
    // the answer.
    let mut lost = None;
    for _ in 0..2 {
        sys::meet(&sys::enter()?, &firsts)?;
        lost = lost.or_else(|| lifeline.as_mut()?.look(None));
    }
    sys::comm_free(&sys::enter()?, &mut firsts)?;
    // After both meetings, in which others wait for this rank.
    if let Some((rank, cause)) = lost {
        return Err(Error::rank_failed(Rank::new(rank), cause));
    }
    if let Some(lifeline) = lifeline {
        lookout.hold_lifeline(lifeline);
    }
    Ok(())
}

/// Random bytes if this rank is to draw them, else zeros.
fn random_name(is_drawn: bool) -> [u8; 16] {
    let mut name = [0_u8; 16];
    if is_drawn {
        // The standard library's hashers begin with random numbers of the system.
        for half in name.chunks_exact_mut(8) {
            half.copy_from_slice(&RandomState::new().hash_one(0).to_ne_bytes());
        }
    }
    name
}

/// Passes the first rank's memory to all ranks of the host.
fn share(host: &Host, key: String, memory: Option<JobMemory>) -> Result<JobMemory> {
    let n_local = host.n_ranks();
    let no_memory = || MeetError::System {
        doing: "no memory to share",
        source: std::io::ErrorKind::NotFound.into(),
    };
    launcher::share(host.index(), n_local, key, |_| memory.ok_or_else(no_memory))
        .map_err(|error: MeetError| Error::backend("start-up", 0, error.to_string()))
}
