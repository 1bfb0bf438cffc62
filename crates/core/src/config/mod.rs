//! The configuration of a job: its settings, and its launcher.
//!
//! No other module of the library reads environment variables.

pub(crate) mod names;

/// The launcher of this process: `pgas-run`, an MPI's `mpirun`, Slurm's `srun`, or none.
///
/// [`Launcher::detect`] finds it out from the environment alone, without talking to any launcher,
/// so it is a pure function of a lookup. The backends do what follows: join a shared memory, ask a
/// launcher for the other ranks' addresses, or start ranks.
///
/// The variables are read in this order, and the first set that names this process's rank decides:
///
/// | variables | set by |
/// |---|---|
/// | `PGAS_RANK`, `PGAS_RANKS`, `PGAS_JOB_FD`, `PGAS_JOB_ID` | `pgas-run`, and a process that starts its own ranks |
/// | `PMI_FD`, `PMI_RANK`, `PMI_SIZE` | MPICH's `mpiexec`, Intel MPI, `srun --mpi=pmi2` |
/// | `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE` | Open MPI's `mpirun` |
/// | `SLURM_PROCID`, `SLURM_JOB_ID`, `SLURM_STEP_ID`, `SLURM_STEP_NUM_TASKS` | `srun` |
/// | `PGAS_RANKS` | the user: this process shall start the ranks itself, also as the only process of a foreign launcher |
/// | `PMIX_RANK`, `PMIX_NAMESPACE` | a launcher that speaks PMIx alone, such as PRRTE's `prun` |
///
/// `PMI_FD` comes before the variables of Slurm because an `mpiexec` inside an allocation sees
/// both. A batch script under `sbatch` has `SLURM_PROCID=0` too, but no step: a program that is
/// started there without `srun` is a single process, not rank 0 of a job whose other ranks never
/// come.
pub mod launch {
    // Errors name its results, so the module is below them.
    pub use crate::launch::{
        JOB_FD_VARIABLE, JOB_ID_VARIABLE, LaunchError, LaunchErrorKind, Launcher, MAX_RANKS, Place,
        RANK_VARIABLE, RANKS_VARIABLE,
    };
}

use std::env;
use std::ffi::OsStr;
use std::path::{self, Path};
use std::time::Duration;

use launch::Launcher;

use crate::cost::Statistics;
use crate::error::{Error, Result};
use crate::stats::LONGEST_PATH;

/// The settings of a job. They must be the same on every rank.
///
/// | variable | field | values | default |
/// |---|---|---|---|
/// | `PGAS_RANKS` | [`launcher`](Self::launcher) | ranks to start, when no launcher has started several | 1 |
/// | `PGAS_SEGMENT` | [`segment_bytes`](Self::segment_bytes) | bytes a rank: `512M`, `8G` | as much as the host has memory |
/// | `PGAS_BACKEND` | [`backend`](Self::backend) | `smp`, `mpi`, `ofi`, `sim` | by launcher |
/// | `PGAS_OFI_PROVIDER` | [`ofi_provider`](Self::ofi_provider) | a provider of libfabric: `tcp;ofi_rxm` | the best that all ranks have |
/// | `PGAS_OFI_ATOMICS` | [`ofi_atomics`](Self::ofi_atomics) | `provider`, `target` | by the provider |
/// | `PGAS_DIRECT` | [`direct`](Self::direct) | `0`, `1` | `1` |
/// | `PGAS_CHECK` | [`check`](Self::check) | `0`, `1` | `1` in builds with debug assertions and among threads, else `0` |
/// | `PGAS_STATS` | [`statistics`](Self::statistics), [`statistics_table`](Self::statistics_table), [`statistics_file`](Self::statistics_file), [`statistics_latencies`](Self::statistics_latencies) | `0`, or with commas: `1`, `peers`, `latency`, `FILE.json` | `0` |
/// | `PGAS_TRACE` | [`trace`](Self::trace) | a directory for the ranks' traces | none |
/// | `PGAS_TRACE_BYTES` | [`trace_bytes`](Self::trace_bytes) | bytes a rank | `32M` |
/// | `PGAS_PROGRESS` | [`progress`](Self::progress) | `poll`, `thread` | `poll` |
/// | `PGAS_HUGE_PAGES` | [`huge_pages`](Self::huge_pages) | `0`, `1` | `1` |
/// | `PGAS_ROUTE` | [`routing`](Self::routing) | `direct`, `grid`, `cube` | by the number of ranks and hosts |
/// | `PGAS_TIMEOUT` | [`timeout`](Self::timeout) | seconds that a wait may take, `0` for no limit | `0` |
/// | `PGAS_STALL` | [`stall`](Self::stall) | seconds until a long wait is reported and a stopped rank counts as failed, `0` for never | `60` |
/// | `PGAS_STALL_END` | [`stall_ends`](Self::stall_ends) | whether the job ends after the report: `0`, `1` | `0` |
/// | `PGAS_SILENCE` | [`silence`](Self::silence) | seconds without a sign of life from another host until its ranks count as failed, at least 3, `0` for never | `20` |
///
/// # Examples
///
/// ```
/// use pgas_core::Config;
///
/// let config = Config::from_lookup(&|name| (name == "PGAS_SEGMENT").then(|| "512M".into()))?;
/// assert_eq!(config.segment_bytes, Some(512 << 20));
/// assert!(config.direct);
///
/// let error = Config::from_lookup(&|name| (name == "PGAS_CHECK").then(|| "maybe".into()));
/// assert_eq!(error.unwrap_err().to_string(), "PGAS_CHECK=maybe: say 1 or 0");
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The launcher of this process.
    pub launcher: Launcher,
    /// The transport, if the user chose one.
    pub backend: Option<BackendKind>,
    /// The provider that libfabric shall use, if the user chose one.
    pub ofi_provider: Option<String>,
    /// The executor of atomics over libfabric, if the user chose one. `None`: the provider if it
    /// executes them without the target's CPU, else the target. Jobs whose ranks all reach each
    /// other's memory do not use it.
    pub ofi_atomics: Option<OfiAtomics>,
    /// The size of each rank's segment in bytes; `None` lets the backend choose.
    pub segment_bytes: Option<u64>,
    /// Whether mapped segments are accessed by direct loads and stores, without the backend. If
    /// not, a rank's own segment still is where [ranks serve
    /// atomics](crate::backend::Capabilities::ranks_serve_atomics), as over MPI.
    pub direct: bool,
    /// Whether collectives compare their calls and arguments across ranks.
    ///
    /// `None` leaves the choice to the caller of a backend: `pgas::init` compares in builds with
    /// debug assertions, `pgas::threads` in all. A world that a backend makes with `None` does not
    /// compare.
    pub check: Option<bool>,
    /// The operations that are counted.
    pub statistics: Statistics,
    /// Whether a table of the statistics of all ranks is printed when the job ends, even if it
    /// fails: on the standard error output of the job's supervisor, or else of a rank.
    ///
    /// `PGAS_STATS=1` and `PGAS_STATS=peers` set it. Without a supervisor (under `mpirun`, with
    /// ranks as threads, in a job of one rank) a rank that drops its last handle on the world
    /// prints the table. If all ranks were killed there is none.
    pub statistics_table: bool,
    /// Whether the statistics have histograms of times, if operations are counted. The times are
    /// those of gets, puts and fetching atomics by the transport, from call to return; of
    /// non-blocking ones, until the rank learns of their completion; of remote calls, until the
    /// answer arrives; and of waits. Each costs two reads of the clock, and a non-blocking
    /// operation also a lock. `PGAS_STATS=latency` sets it.
    pub statistics_latencies: bool,
    /// The file into which the statistics are written as JSON. `PGAS_STATS` sets it by a name that
    /// ends in `.json`. Otherwise, with `PGAS_STATS` and `PGAS_TRACE`, it is `statistics.json`
    /// beside the traces. Its path has at most 504 bytes. A pipe is refused.
    pub statistics_file: Option<String>,
    /// Whether the launcher reports the statistics if the job fails: `pgas-run` on several hosts,
    /// which reads them from the hosts' memory.
    pub launcher_reports_failures: bool,
    /// The directory into which every rank writes a [trace](crate::trace) of its operations, for
    /// `pgas-report`.
    pub trace: Option<String>,
    /// The maximum size of a rank's trace file in bytes, at least 36 KiB; older events are
    /// overwritten. A trace also takes 32 KiB of memory.
    pub trace_bytes: u64,
    /// Who makes progress.
    pub progress: Progress,
    /// Whether segments use 2 MiB pages when the system grants them.
    pub huge_pages: bool,
    /// The route of aggregated elements to their ranks; `None` lets the library choose.
    pub routing: Option<Routing>,
    /// How long a wait may take before it is an error; `None` for no limit. Between hosts, the wait
    /// of a call or an event for the answer of an atomic that changes its word then also fails the
    /// job, since the atomic may be carried out later, and so does that for an operation in flight
    /// on a map. If a future awaits the atomic, the job goes on: the limit of
    /// [`World::block_on`](crate::World::block_on) drops the future, the atomic may be carried out
    /// later, and nobody has its result.
    pub timeout: Option<Duration>,
    /// The time after which a long wait is reported on the standard error output, with the waits of
    /// all ranks; reported again whenever it has doubled. A rank that is stopped for this time
    /// while another one waits counts as failed. `None`: no reports.
    pub stall: Option<Duration>,
    /// Whether such a report also ends the job.
    pub stall_ends: bool,
    /// The time without a sign of life from another host after which its ranks count as failed, at
    /// least [`SHORTEST_SILENCE`](Self::SHORTEST_SILENCE). A host gives signs of life even if all
    /// its ranks compute or are stopped. `None`: no limit.
    pub silence: Option<Duration>,
}

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Shared memory of one host.
    Smp,
    /// MPI-3 RMA.
    Mpi,
    /// Libfabric.
    Ofi,
    /// The simulated machine.
    Sim,
}

/// The executor of atomics over libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfiAtomics {
    /// Libfabric's provider, such as the network card.
    Provider,
    /// The CPU of the rank that holds the word, by a message.
    Target,
}

/// The route of aggregated elements to their ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One hop: each rank sends to every other rank.
    Direct,
    /// At most two hops: the ranks form a grid, and each sends to the ranks of its row and its
    /// column.
    Grid,
    /// At most three hops: the same in three dimensions.
    Cube,
}

/// Who makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The program, inside the library's calls.
    Poll,
    /// A thread of the library too, for programs that compute for long between calls.
    Thread,
}

impl Default for Config {
    /// The defaults, for a job of one rank, whatever the environment says.
    fn default() -> Self {
        Self {
            launcher: Launcher::Single,
            backend: None,
            ofi_provider: None,
            ofi_atomics: None,
            segment_bytes: None,
            direct: true,
            check: None,
            statistics: Statistics::Off,
            statistics_table: false,
            statistics_latencies: false,
            statistics_file: None,
            launcher_reports_failures: false,
            trace: None,
            trace_bytes: 32 << 20,
            progress: Progress::Poll,
            huge_pages: true,
            routing: None,
            timeout: None,
            stall: Some(Duration::from_secs(60)),
            stall_ends: false,
            silence: Some(Duration::from_secs(20)),
        }
    }
}

impl Config {
    /// The shortest [`silence`](Self::silence) that counts as the loss of a host. Systems ask each
    /// other once a second at most, and one lost answer says nothing.
    pub const SHORTEST_SILENCE: Duration = Duration::from_secs(3);

    /// The settings of this process's environment.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] or [`Error::Launch`] for a variable with a value that cannot be used, or
    /// that is not UTF-8.
    pub fn from_env() -> Result<Self> {
        Self::from_env_over(&|_| None)
    }

    /// As [`from_env`](Self::from_env); values of `overrides` take precedence.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Config;
    ///
    /// let of_program = |name: &str| (name == "PGAS_SEGMENT").then(|| "64M".to_owned());
    /// let config = Config::from_env_over(&of_program)?;
    /// assert_eq!(config.segment_bytes, Some(64 << 20));
    /// assert_eq!(Config::from_env()?.timeout, config.timeout); // the rest is the environment's
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn from_env_over(overrides: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the environment"
        )]
        let variable = |name: &str| env::var_os(name);
        for name in names::KNOWN.iter().filter(|name| overrides(name).is_none()) {
            names::text(name, variable(name))?;
        }
        let lookup = |name: &str| {
            // Variables of others that are not UTF-8 count as not set.
            overrides(name).or_else(|| variable(name)?.into_string().ok())
        };
        Self::from_lookup(&lookup)
    }

    /// The value of [`check`](Self::check) in this process's environment.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for a value that cannot be used, or that is not UTF-8.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Config;
    ///
    /// let is_checked = Config::check_from_env()?.unwrap_or(cfg!(debug_assertions));
    /// # let _ = is_checked;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn check_from_env() -> Result<Option<bool>> {
        const NAME: &str = "PGAS_CHECK";
        #[expect(
            clippy::disallowed_methods,
            reason = "this module alone reads the environment"
        )]
        let text = names::text(NAME, env::var_os(NAME))?;
        setting(&|_| text.clone(), NAME, switch)
    }

    /// The bytes of the stack of a thread that is a rank: as many as the main thread of a process
    /// has by default, so that a program runs both ways. `RUST_MIN_STACK`, which is std's, gives
    /// others.
    pub(crate) fn stack_bytes() -> usize {
        const BYTES: usize = 8 << 20;
        #[expect(
            clippy::disallowed_methods,
            reason = "this module alone reads the environment"
        )]
        let given = env::var_os("RUST_MIN_STACK");
        let given = given.and_then(|text| text.to_str()?.parse().ok());
        given.unwrap_or(BYTES)
    }

    /// The settings that `lookup` gives for the variables' names.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let defaults = Self::default();
        let stall = setting(lookup, "PGAS_STALL", seconds)?;
        let timeout = setting(lookup, "PGAS_TIMEOUT", seconds)?;
        let silence = setting(lookup, "PGAS_SILENCE", seconds)?
            .map(|silence| silence.map(|silence| silence.max(Self::SHORTEST_SILENCE)));
        let counted = setting(lookup, "PGAS_STATS", counted)?.unwrap_or_default();
        let trace = setting(lookup, "PGAS_TRACE", directory)?;
        let is_counted = counted.statistics != Statistics::Off;
        let beside_trace = trace.as_ref().filter(|_| is_counted);
        let beside_trace = beside_trace.map(|directory| format!("{directory}/statistics.json"));
        let launcher = Launcher::detect(lookup)?;
        let is_supervised = lookup(launch::JOB_ID_VARIABLE).is_some();
        let config = Self {
            launcher_reports_failures: is_supervised && matches!(launcher, Launcher::Pmi { .. }),
            launcher,
            backend: setting(lookup, "PGAS_BACKEND", backend_kind)?,
            ofi_provider: setting(lookup, "PGAS_OFI_PROVIDER", name)?,
            ofi_atomics: setting(lookup, "PGAS_OFI_ATOMICS", ofi_atomics)?,
            segment_bytes: setting(lookup, "PGAS_SEGMENT", bytes)?,
            direct: setting(lookup, "PGAS_DIRECT", switch)?.unwrap_or(defaults.direct),
            check: setting(lookup, "PGAS_CHECK", switch)?,
            statistics: counted.statistics,
            statistics_table: counted.table,
            statistics_latencies: counted.latencies,
            statistics_file: counted.file.or(beside_trace),
            trace,
            trace_bytes: setting(lookup, "PGAS_TRACE_BYTES", bytes)?
                .unwrap_or(defaults.trace_bytes),
            progress: setting(lookup, "PGAS_PROGRESS", progress)?.unwrap_or(defaults.progress),
            huge_pages: setting(lookup, "PGAS_HUGE_PAGES", switch)?.unwrap_or(defaults.huge_pages),
            routing: setting(lookup, "PGAS_ROUTE", routing)?,
            timeout: timeout.unwrap_or(defaults.timeout),
            stall: stall.unwrap_or(defaults.stall),
            stall_ends: setting(lookup, "PGAS_STALL_END", switch)?.unwrap_or(defaults.stall_ends),
            silence: silence.unwrap_or(defaults.silence),
        };
        config.check_statistics_file()?;
        Ok(config)
    }

    /// An error if ranks have no room for the path of the statistics, from which a supervisor
    /// would write them.
    pub(crate) fn check_statistics_file(&self) -> Result<()> {
        const _: () = assert!(LONGEST_PATH == 504, "the reason says so");
        const REASON: &str = "the path of the file is longer than 504 bytes";
        match &self.statistics_file {
            Some(file) if self.statistics != Statistics::Off && file.len() > LONGEST_PATH => {
                Err(Error::setting("PGAS_STATS", file.clone(), REASON))
            }
            _ => Ok(()),
        }
    }
}

fn setting<T>(
    lookup: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    parse: fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>> {
    let Some(value) = lookup(name) else {
        return Ok(None);
    };
    match parse(value.trim()) {
        Ok(parsed) => Ok(Some(parsed)),
        Err(reason) => Err(Error::setting(name, value, reason)),
    }
}

fn switch(value: &str) -> Result<bool, &'static str> {
    match value {
        "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err("say 1 or 0"),
    }
}

/// An absolute path, since the program may change its directory.
fn directory(value: &str) -> Result<String, &'static str> {
    let whole = path::absolute(name(value)?).map_err(|_| "say a directory")?;
    let whole = whole.into_os_string().into_string();
    whole.map_err(|_| "say a directory")
}

/// The value of `PGAS_STATS`.
#[derive(Default)]
struct Counted {
    statistics: Statistics,
    table: bool,
    latencies: bool,
    file: Option<String>,
}

fn counted(value: &str) -> Result<Counted, &'static str> {
    const REASON: &str = "say 0, or 1, peers, latency and FILE.json, with commas between them";
    let mut counted = Counted::default();
    if switch(value) == Ok(false) {
        return Ok(counted);
    }
    let mut table = false;
    for word in value.split(',') {
        match word.trim() {
            word if switch(word) == Ok(true) => table = true,
            "peers" => counted.statistics = Statistics::PerPeer,
            "latency" => counted.latencies = true,
            file if counted.file.is_none()
                && Path::new(file).extension() == Some(OsStr::new("json")) =>
            {
                counted.file = Some(directory(file).map_err(|_| REASON)?);
            }
            _ => return Err(REASON),
        }
    }
    if counted.statistics == Statistics::Off {
        counted.statistics = Statistics::Total;
    }
    counted.table = table || counted.file.is_none();
    Ok(counted)
}

fn progress(value: &str) -> Result<Progress, &'static str> {
    match value {
        "poll" => Ok(Progress::Poll),
        "thread" => Ok(Progress::Thread),
        _ => Err("say poll or thread"),
    }
}

fn routing(value: &str) -> Result<Routing, &'static str> {
    match value {
        "direct" => Ok(Routing::Direct),
        "grid" => Ok(Routing::Grid),
        "cube" => Ok(Routing::Cube),
        _ => Err("say direct, grid or cube"),
    }
}

fn backend_kind(value: &str) -> Result<BackendKind, &'static str> {
    match value {
        "smp" => Ok(BackendKind::Smp),
        "mpi" => Ok(BackendKind::Mpi),
        "ofi" => Ok(BackendKind::Ofi),
        "sim" => Ok(BackendKind::Sim),
        _ => Err("say smp, mpi, ofi or sim"),
    }
}

fn ofi_atomics(value: &str) -> Result<OfiAtomics, &'static str> {
    match value {
        "provider" => Ok(OfiAtomics::Provider),
        "target" => Ok(OfiAtomics::Target),
        _ => Err("say provider or target"),
    }
}

fn name(value: &str) -> Result<String, &'static str> {
    if value.is_empty() || value.chars().any(char::is_control) {
        return Err(
            "say a name: a character at least, and no line break or other control character",
        );
    }
    Ok(value.to_owned())
}

fn seconds(value: &str) -> Result<Option<Duration>, &'static str> {
    const REASON: &str = "say a number of seconds, 0 for no limit";
    let seconds: f64 = value.parse().map_err(|_| REASON)?;
    let limit = Duration::try_from_secs_f64(seconds).map_err(|_| REASON)?;
    // The shortest time there is stands for shorter ones, not for no limit.
    Ok((seconds > 0.0).then(|| limit.max(Duration::from_nanos(1))))
}

/// Parses a size such as `4096`, `64K`, `512M`, `8G`, `1T` or `1.5G`.
///
/// # Errors
///
/// A description of a valid value.
pub fn bytes(value: &str) -> Result<u64, &'static str> {
    const REASON: &str = "say a number of bytes, as in 4096, 64K, 512M, 1.5G or 1T";
    let value = value.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (digits, shift) = match value.bytes().last().map(|b| b.to_ascii_uppercase()) {
        Some(b'K') => (&value[..value.len() - 1], 10),
        Some(b'M') => (&value[..value.len() - 1], 20),
        Some(b'G') => (&value[..value.len() - 1], 30),
        Some(b'T') => (&value[..value.len() - 1], 40),
        _ => (value, 0),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or(REASON);
    }
    let number: f64 = digits.parse().map_err(|_| REASON)?;
    let scaled = number * f64::from(2_u32).powi(shift);
    if !(0.0..1e18).contains(&scaled) {
        return Err(REASON);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a fraction of a byte is cut"
    )]
    #[expect(clippy::cast_sign_loss, reason = "checked to be positive")]
    let bytes = scaled as u64;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, value) in [
            ("4096", 4096),
            ("64K", 64 << 10),
            ("512m", 512 << 20),
            ("8GiB", 8 << 30),
            ("1.5G", 3 << 29),
            ("1T", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in [
            "",
            "G",
            "-1",
            "1e30",
            "99999999999999999999",
            "20000000T",
            "12Q",
            "NaN",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn routes_have_names() {
        let routing = |name: &'static str| {
            let lookup = |asked: &str| (asked == "PGAS_ROUTE").then(|| name.to_owned());
            Config::from_lookup(&lookup).map(|config| config.routing)
        };
        assert_eq!(routing("direct").unwrap(), Some(Routing::Direct));
        assert_eq!(routing("grid").unwrap(), Some(Routing::Grid));
        assert_eq!(routing("cube").unwrap(), Some(Routing::Cube));
        let error = routing("square").unwrap_err().to_string();
        assert_eq!(error, "PGAS_ROUTE=square: say direct, grid or cube");
        assert_eq!(Config::default().routing, None);
    }

    #[test]
    fn figures_of_a_traced_job_are_written_beside_its_traces() {
        let file = |stats: &str| {
            let stats = stats.to_owned();
            let lookup = move |name: &str| match name {
                "PGAS_STATS" => Some(stats.clone()),
                "PGAS_TRACE" => Some("/tmp/traces".to_owned()),
                _ => None,
            };
            Config::from_lookup(&lookup).unwrap().statistics_file
        };
        assert_eq!(file("1").as_deref(), Some("/tmp/traces/statistics.json"));
        assert_eq!(file("0"), None);
        assert_eq!(file("/tmp/a.json").as_deref(), Some("/tmp/a.json"));
    }

    #[test]
    fn what_is_counted_and_where_it_is_told_are_words_with_commas() {
        let read = |value: &str| {
            let (value, is_timed) = (value.to_owned(), value == "latency");
            let lookup = move |name: &str| (name == "PGAS_STATS").then(|| value.clone());
            let config = Config::from_lookup(&lookup)?;
            let file = config.statistics_file.as_deref().map(|file| {
                assert!(Path::new(file).is_absolute(), "{file}");
                file.ends_with("/a.json")
            });
            assert_eq!(config.statistics_latencies, is_timed);
            Ok::<_, Error>((config.statistics, config.statistics_table, file))
        };
        let (total, peers) = (Statistics::Total, Statistics::PerPeer);
        for (value, expected) in [
            ("0", (Statistics::Off, false, None)),
            ("1", (total, true, None)),
            ("peers", (peers, true, None)),
            ("latency", (total, true, None)),
            ("a.json", (total, false, Some(true))),
            ("1,a.json", (total, true, Some(true))),
            ("a.json, peers", (peers, false, Some(true))),
            ("peers,1,/tmp/a.json", (peers, true, Some(true))),
        ] {
            assert_eq!(read(value).unwrap(), expected, "{value}");
        }
        for value in [
            "",
            "2",
            "0,1",
            "peers;1",
            "a.txt",
            ".json",
            "1,",
            "a.json,b.json",
        ] {
            let error = read(value).unwrap_err().to_string();
            assert!(
                error.contains("say 0, or 1, peers, latency and FILE.json"),
                "{error}"
            );
        }
    }

    #[test]
    fn limits_of_zero_seconds_mean_none() {
        let config = Config::from_lookup(&|name| match name {
            "PGAS_STALL" => Some("0".into()),
            "PGAS_STALL_END" => Some("1".into()),
            "PGAS_TIMEOUT" => Some("2.5".into()),
            "PGAS_SILENCE" => Some("0.0".into()),
            _ => None,
        })
        .unwrap();
        assert_eq!(config.stall, None);
        assert!(config.stall_ends);
        assert_eq!(config.silence, None);
        assert!(Config::default().silence.is_some());
        assert_eq!(config.timeout, Some(Duration::from_millis(2500)));
    }

    #[test]
    fn the_shortest_time_is_no_lack_of_a_limit() {
        for text in ["1e-300", "1e-9", "0.0000000001"] {
            let read = |name: &str| (name == "PGAS_TIMEOUT").then(|| text.to_owned());
            let config = Config::from_lookup(&read).unwrap();
            assert_eq!(config.timeout, Some(Duration::from_nanos(1)), "{text}");
        }
    }

    #[test]
    fn statistics_are_switched_as_other_settings() {
        for (text, wanted) in [("yes", Statistics::Total), ("false", Statistics::Off)] {
            let read = |name: &str| (name == "PGAS_STATS").then(|| text.to_owned());
            let config = Config::from_lookup(&read).unwrap();
            assert_eq!(config.statistics, wanted, "{text}");
        }
    }

    #[test]
    fn a_host_may_be_silent_for_the_shortest_time_at_least() {
        for (text, silence) in [("0.5", 3), ("2", 3), ("3", 3), ("4", 4)] {
            let read = |name: &str| (name == "PGAS_SILENCE").then(|| text.to_owned());
            let config = Config::from_lookup(&read).unwrap();
            assert_eq!(config.silence, Some(Duration::from_secs(silence)), "{text}");
        }
    }
}
