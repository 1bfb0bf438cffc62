//! Starts MPI programs on hosts, with the launchers of the MPI libraries.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::process::Command;

use crate::Hosts;

/// The launcher of an MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// MPICH's `mpiexec` (hydra).
    Mpich,
}

/// The distribution of ranks over hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// In blocks: the first host is filled first.
    #[default]
    Slot,
    /// Cyclic: ranks are distributed to the hosts in turn.
    Node,
}

/// The start of an MPI program on all hosts.
///
/// It adds settings that these hosts need and real ones do not. Ranks are not bound to processors,
/// since the launchers would bind ranks of different hosts to the same one. If there are more ranks
/// than processors, waiting ranks yield, since the launchers assume that each host has all
/// processors for itself.
#[derive(Debug)]
pub struct Mpirun<'hosts> {
    hosts: &'hosts Hosts,
    launcher: Launcher,
    n_hosts: u32,
    per_host: u32,
    mapping: Mapping,
    settings: Vec<(String, String)>,
    options: Vec<String>,
}

impl<'hosts> Mpirun<'hosts> {
    pub(crate) fn new(hosts: &'hosts Hosts, launcher: Launcher) -> Self {
        Self {
            hosts,
            launcher,
            n_hosts: hosts.n_hosts(),
            per_host: 1,
            mapping: Mapping::default(),
            settings: Vec::new(),
            options: Vec::new(),
        }
    }

    /// Uses only the first of the hosts.
    #[must_use]
    pub fn on_first(mut self, n_hosts: u32) -> Self {
        self.n_hosts = n_hosts.min(self.hosts.n_hosts());
        self
    }

    /// The number of ranks on each host; the default is 1.
    #[must_use]
    pub fn per_host(mut self, n_ranks: u32) -> Self {
        self.per_host = n_ranks;
        self
    }

    /// The distribution of ranks over hosts.
    #[must_use]
    pub fn mapping(mut self, mapping: Mapping) -> Self {
        self.mapping = mapping;
        self
    }

    /// Sets a variable in the environment of every rank.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds arguments to the launcher's command line.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(ToString::to_string));
        self
    }

    /// The number of ranks.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.n_hosts * self.per_host
    }

    /// Whether there are more ranks than processors in this machine, which all hosts share.
    fn is_crowded(&self) -> bool {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.n_ranks() as usize > n_processors
    }

    /// The command that starts `program` as all ranks. Arguments that are added to it go to the
    /// program.
    ///
    /// # Panics
    ///
    /// If the first host is gone.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let (path, text) = self.host_file();
        let written = self.hosts.write_on_first(path, &text);
        written.expect("the first host has a /tmp");
        let n_ranks = self.n_ranks().to_string();
        let mut command;
        match self.launcher {
            Launcher::OpenMpi => {
                command = self.hosts.command(0, "mpirun.openmpi");
                command
                    .args(["--allow-run-as-root", "--bind-to", "none"])
                    .args(["--mca", "plm_rsh_agent", Hosts::AGENT_PATH])
                    .args(["--hostfile", path, "-n", &n_ranks])
                    .args([
                        "--map-by",
                        if self.mapping == Mapping::Node {
                            "node"
                        } else {
                            "slot"
                        },
                    ]);
                // Ranks that share processors wait inside of MPI for each other's slices. Others
                // do not yield there: beside another program each yield takes a millisecond.
                if self.is_crowded() {
                    command.args(["--mca", "mpi_yield_when_idle", "1"]);
                }
                for (key, value) in &self.settings {
                    command.args(["-x", &format!("{key}={value}")]);
                }
            }
            Launcher::Mpich => {
                command = self.hosts.command(0, "mpiexec.hydra");
                command.args(["-launcher", "ssh", "-launcher-exec", Hosts::AGENT_PATH]);
                if self.is_crowded() {
                    command.args(["-genv", "MPIR_CVAR_POLLS_BEFORE_YIELD", "10"]);
                }
                command.args(["-f", path, "-n", &n_ranks]);
                for (key, value) in &self.settings {
                    command.args(["-genv", key, value]);
                }
            }
        }
        command.args(&self.options).arg(program);
        command
    }

    /// The launcher's file of hosts, and its content.
    fn host_file(&self) -> (&'static str, String) {
        let mut text = String::new();
        for host in 0..self.n_hosts {
            let name = Hosts::name(host);
            let line = match (self.launcher, self.mapping) {
                (Launcher::OpenMpi, _) => writeln!(text, "{name} slots={}", self.per_host),
                (Launcher::Mpich, Mapping::Slot) => writeln!(text, "{name}:{}", self.per_host),
                // Hydra starts again at the first host when each host has this many ranks.
                (Launcher::Mpich, Mapping::Node) => writeln!(text, "{name}:1"),
            };
            line.expect("text grows");
        }
        match self.launcher {
            Launcher::OpenMpi => ("/tmp/hosts.openmpi", text),
            Launcher::Mpich => ("/tmp/hosts.mpich", text),
        }
    }
}
