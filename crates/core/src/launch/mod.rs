//! Finds the launcher of this process.

/// The variable that tells a rank its number.
pub const RANK_VARIABLE: &str = "PGAS_RANK";
/// The variable that holds the number of ranks; alone, it asks for a self-launch.
pub const RANKS_VARIABLE: &str = "PGAS_RANKS";
/// The variable that holds the file descriptor of the job's shared memory.
pub const JOB_FD_VARIABLE: &str = "PGAS_JOB_FD";
/// The variable that holds the job's name for messages.
pub const JOB_ID_VARIABLE: &str = "PGAS_JOB_ID";

/// The largest number of ranks in a job: a global pointer has 24 bits for the rank.
pub const MAX_RANKS: u32 = 1 << 24;

/// The launcher of this process, and the rank that it assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// The launcher of this library: the job's shared memory is already open.
    Own {
        /// This process's rank.
        rank: u32,
        /// The number of ranks in the job.
        n_ranks: u32,
        /// The inherited file descriptor of the job's shared memory.
        job_fd: i32,
        /// A name of the job for messages.
        job_id: String,
    },
    /// A launcher that speaks PMI-1 over an inherited socket: MPICH's Hydra, Intel MPI,
    /// `srun --mpi=pmi2`.
    Pmi {
        /// This process's place in the job.
        place: Place,
        /// The inherited file descriptor of the launcher's socket.
        pmi_fd: i32,
    },
    /// Open MPI's `mpirun`.
    OpenMpi {
        /// This process's place in the job.
        place: Place,
        /// The key that distinguishes this job from all others of this host.
        job_key: String,
    },
    /// Slurm's `srun`.
    Slurm {
        /// This process's place in the job.
        place: Place,
        /// The key that distinguishes this job from all others of this host.
        job_key: String,
    },
    /// A launcher that gives the number of ranks by PMIx alone, such as PRRTE's `prun`. Only the
    /// libfabric backend speaks PMIx.
    Pmix,
    /// No launcher, and the user asks for several ranks: this process starts them itself.
    SelfLaunch {
        /// The number of ranks to start, at least 2.
        n_ranks: u32,
    },
    /// No launcher: this process is a job of one rank.
    Single,
}

/// The rank of a process in a job that another project's launcher started.
///
/// # Examples
///
/// ```
/// use pgas_core::config::launch::Launcher;
///
/// let launcher = Launcher::detect(&|name| match name {
///     "OMPI_COMM_WORLD_RANK" => Some("1".to_owned()),
///     "OMPI_COMM_WORLD_SIZE" => Some("4".to_owned()),
///     "OMPI_COMM_WORLD_LOCAL_SIZE" => Some("2".to_owned()),
///     "PMIX_NAMESPACE" => Some("1.1".to_owned()),
///     _ => None,
/// })?;
/// let Launcher::OpenMpi { place, .. } = launcher else {
///     panic!("{launcher:?}");
/// };
/// assert!(place.rank == 1 && place.spans_hosts());
/// # Ok::<(), pgas_core::config::launch::LaunchError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// This process's rank.
    pub rank: u32,
    /// The number of ranks in the job.
    pub n_ranks: u32,
    /// How many of them are on this host, if the launcher says so.
    pub n_local_ranks: Option<u32>,
}

impl Place {
    /// Whether some ranks of the job are on other hosts, as far as the launcher says.
    #[must_use]
    pub fn spans_hosts(&self) -> bool {
        self.n_local_ranks.is_some_and(|n| n < self.n_ranks)
    }
}

/// The variables that should name the rank of this process are wrong.
///
/// # Examples
///
/// ```
/// use pgas_core::config::launch::{LaunchErrorKind, Launcher};
///
/// let variables = [("OMPI_COMM_WORLD_RANK", "4"), ("OMPI_COMM_WORLD_SIZE", "4")];
/// let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
/// let lookup = |name: &str| find(name).map(|(_, value)| (*value).to_owned());
/// let error = Launcher::detect(&lookup).unwrap_err();
/// let out_of_range = LaunchErrorKind::RankOutOfRange {
///     variable: "OMPI_COMM_WORLD_RANK",
///     rank: 4,
///     n_ranks: 4,
/// };
/// assert_eq!(*error.kind(), out_of_range);
/// assert_eq!(error.to_string(), "OMPI_COMM_WORLD_RANK=4 is not a rank of a job of 4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct LaunchError(Box<LaunchErrorKind>);

impl LaunchError {
    /// The kind of mistake, with the variable and its value.
    #[must_use]
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.0
    }
}

impl From<LaunchErrorKind> for LaunchError {
    fn from(kind: LaunchErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

/// A mistake in the environment that hides the rank of this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchErrorKind {
    /// A variable's value does not mean anything.
    #[error("{variable}={value:?} is not {expected}")]
    Malformed {
        /// The variable's name.
        variable: &'static str,
        /// The value found.
        value: Box<str>,
        /// A description of a valid value.
        expected: &'static str,
    },
    /// Of two variables that belong together only one is set.
    #[error("{present} is set but {missing} is not")]
    Missing {
        /// The variable that is set.
        present: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },
    /// The rank is not below the number of ranks.
    #[error("{variable}={rank} is not a rank of a job of {n_ranks}")]
    RankOutOfRange {
        /// The variable that holds the rank.
        variable: &'static str,
        /// Its value.
        rank: u32,
        /// The number of ranks in the job.
        n_ranks: u32,
    },
}

impl Launcher {
    /// Finds the launcher of this process in the environment; `lookup` gives a variable's value.
    ///
    /// # Errors
    ///
    /// A [`LaunchError`] names the variable and the value that cannot be right.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::config::launch::Launcher;
    ///
    /// let environment = |name: &str| (name == "PGAS_RANKS").then(|| "4".to_owned());
    /// assert_eq!(Launcher::detect(&environment)?, Launcher::SelfLaunch { n_ranks: 4 });
    /// assert_eq!(Launcher::detect(&|_| None)?, Launcher::Single);
    /// # Ok::<(), pgas_core::config::launch::LaunchError>(())
    /// ```
    pub fn detect(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, LaunchError> {
        let env = Env { lookup };
        if let Some(rank) = env.number(RANK_VARIABLE)? {
            return env.own(rank);
        }
        let foreign = match env.pmi()? {
            Some(found) => Some(found),
            None => match env.open_mpi()? {
                Some(found) => Some(found),
                None => env.slurm()?,
            },
        };
        let wanted = env.count(RANKS_VARIABLE)?.filter(|&n_ranks| n_ranks > 1);
        Ok(match (foreign, wanted) {
            // A launcher that started one process (`srun --pty bash`) leaves the rest to the user.
            (Some(found), Some(n_ranks)) if found.n_ranks() == 1 => Self::SelfLaunch { n_ranks },
            (Some(found), _) => found,
            (None, Some(n_ranks)) => Self::SelfLaunch { n_ranks },
            // `PGAS_RANKS=1` asks for a job of one rank under such a launcher.
            (None, None) if env.is_under_pmix() => Self::Pmix,
            (None, None) => Self::Single,
        })
    }

    /// This process's rank; 0 if it is alone, or has to start the ranks first.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::config::launch::Launcher;
    ///
    /// let srun = |name: &str| match name {
    ///     "SLURM_JOB_ID" | "SLURM_STEP_ID" => Some("17".to_owned()),
    ///     "SLURM_PROCID" => Some("5".to_owned()),
    ///     "SLURM_STEP_NUM_TASKS" => Some("8".to_owned()),
    ///     _ => None,
    /// };
    /// let launcher = Launcher::detect(&srun)?;
    /// assert_eq!((launcher.rank(), launcher.n_ranks()), (5, 8));
    /// assert_eq!(Launcher::SelfLaunch { n_ranks: 4 }.rank(), 0);
    /// # Ok::<(), pgas_core::config::launch::LaunchError>(())
    /// ```
    #[must_use]
    pub fn rank(&self) -> u32 {
        match self {
            Self::Own { rank, .. } => *rank,
            Self::Pmi { place, .. } | Self::OpenMpi { place, .. } | Self::Slurm { place, .. } => {
                place.rank
            }
            Self::SelfLaunch { .. } | Self::Pmix | Self::Single => 0,
        }
    }

    /// The number of ranks in the job.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        match self {
            Self::Own { n_ranks, .. } | Self::SelfLaunch { n_ranks } => *n_ranks,
            Self::Pmi { place, .. } | Self::OpenMpi { place, .. } | Self::Slurm { place, .. } => {
                place.n_ranks
            }
            Self::Pmix | Self::Single => 1,
        }
    }
}

/// The environment, with the conversions that every launcher's variables need.
struct Env<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
}

impl Env<'_> {
    fn own(&self, rank: u32) -> Result<Launcher, LaunchError> {
        let n_ranks = self.size_beside(RANK_VARIABLE, rank, RANKS_VARIABLE)?;
        let job_fd = self
            .fd(JOB_FD_VARIABLE)?
            .ok_or(missing(RANK_VARIABLE, JOB_FD_VARIABLE))?;
        let job_id = self.text(JOB_ID_VARIABLE).unwrap_or_default();
        Ok(Launcher::Own {
            rank,
            n_ranks,
            job_fd,
            job_id,
        })
    }

    fn pmi(&self) -> Result<Option<Launcher>, LaunchError> {
        let Some(pmi_fd) = self.fd("PMI_FD")? else {
            return Ok(None);
        };
        let rank = self
            .number("PMI_RANK")?
            .ok_or(missing("PMI_FD", "PMI_RANK"))?;
        let n_ranks = self.size_beside("PMI_RANK", rank, "PMI_SIZE")?;
        let n_local_ranks = match self.count("MPI_LOCALNRANKS")? {
            Some(n) => Some(n),
            None => self.slurm_local_ranks()?,
        };
        Ok(Some(Launcher::Pmi {
            place: Place {
                rank,
                n_ranks,
                n_local_ranks,
            },
            pmi_fd,
        }))
    }

    fn open_mpi(&self) -> Result<Option<Launcher>, LaunchError> {
        let Some(rank) = self.number("OMPI_COMM_WORLD_RANK")? else {
            return Ok(None);
        };
        let n_ranks = self.size_beside("OMPI_COMM_WORLD_RANK", rank, "OMPI_COMM_WORLD_SIZE")?;
        let n_local_ranks = self.count("OMPI_COMM_WORLD_LOCAL_SIZE")?;
        // The job id is derived from the launcher's process id and comes back after a while; the
        // random key of version 4 and the server's address do not.
        let identity = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"];
        let detail = [
            "OMPI_MCA_orte_precondition_transports",
            "PMIX_SERVER_URI41",
            "PMIX_SERVER_URI2",
        ];
        let Some(identity) = identity.into_iter().find_map(|name| self.text(name)) else {
            return Err(missing("OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"));
        };
        let detail = detail
            .into_iter()
            .find_map(|name| self.text(name))
            .unwrap_or_default();
        let job_key = format!("openmpi {identity} {detail}");
        Ok(Some(Launcher::OpenMpi {
            place: Place {
                rank,
                n_ranks,
                n_local_ranks,
            },
            job_key,
        }))
    }

    fn slurm(&self) -> Result<Option<Launcher>, LaunchError> {
        let (Some(job), Some(step)) = (self.text("SLURM_JOB_ID"), self.number("SLURM_STEP_ID")?)
        else {
            return Ok(None);
        };
        // Steps that `srun` did not start (batch script, interactive shell) have the largest
        // numbers.
        if step >= 0xffff_fff0 {
            return Ok(None);
        }
        let Some(rank) = self.number("SLURM_PROCID")? else {
            return Ok(None);
        };
        let n_ranks = self.size_beside("SLURM_PROCID", rank, "SLURM_STEP_NUM_TASKS")?;
        let n_local_ranks = self.slurm_local_ranks()?;
        let host = self.text("SLURM_SRUN_COMM_HOST").unwrap_or_default();
        let port = self.text("SLURM_SRUN_COMM_PORT").unwrap_or_default();
        let job_key = format!("slurm {job}.{step} {host}:{port}");
        Ok(Some(Launcher::Slurm {
            place: Place {
                rank,
                n_ranks,
                n_local_ranks,
            },
            job_key,
        }))
    }

    fn is_under_pmix(&self) -> bool {
        let is_set = |name: &str| self.text(name).is_some();
        is_set("PMIX_RANK") && is_set("PMIX_NAMESPACE") && !is_set(RANKS_VARIABLE)
    }

    /// The tasks on this node, from a list such as `2(x3),1` and this node's place in it.
    fn slurm_local_ranks(&self) -> Result<Option<u32>, LaunchError> {
        const LIST: &str = "SLURM_STEP_TASKS_PER_NODE";
        let Some(list) = self.text(LIST) else {
            return Ok(None);
        };
        let Some(node) = self.number("SLURM_NODEID")? else {
            return Ok(None);
        };
        let malformed = || {
            LaunchError::from(LaunchErrorKind::Malformed {
                variable: LIST,
                value: list.as_str().into(),
                expected: "a list such as 2(x3),1",
            })
        };
        let mut first_node = 0_u32;
        for part in list.split(',') {
            let (tasks, n_nodes) = match part.split_once("(x") {
                Some((tasks, rest)) => (tasks, rest.strip_suffix(')').ok_or_else(malformed)?),
                None => (part, "1"),
            };
            let tasks: u32 = tasks.parse().map_err(|_| malformed())?;
            let n_nodes: u32 = n_nodes.parse().map_err(|_| malformed())?;
            first_node = first_node.checked_add(n_nodes).ok_or_else(malformed)?;
            if node < first_node {
                return Ok(Some(tasks));
            }
        }
        Ok(None)
    }

    /// The number of ranks that belongs to `rank`, checked against it.
    fn size_beside(
        &self,
        rank_variable: &'static str,
        rank: u32,
        size_variable: &'static str,
    ) -> Result<u32, LaunchError> {
        let n_ranks = self
            .count(size_variable)?
            .ok_or(missing(rank_variable, size_variable))?;
        if rank >= n_ranks {
            return Err(LaunchErrorKind::RankOutOfRange {
                variable: rank_variable,
                rank,
                n_ranks,
            }
            .into());
        }
        Ok(n_ranks)
    }

    /// A number of ranks: between 1 and [`MAX_RANKS`].
    fn count(&self, variable: &'static str) -> Result<Option<u32>, LaunchError> {
        self.parsed(
            variable,
            "a number of ranks between 1 and 16777216",
            |text| text.parse().ok().filter(|n| (1..=MAX_RANKS).contains(n)),
        )
    }

    fn number(&self, variable: &'static str) -> Result<Option<u32>, LaunchError> {
        self.parsed(variable, "a number from 0 on", |text| text.parse().ok())
    }

    fn fd(&self, variable: &'static str) -> Result<Option<i32>, LaunchError> {
        self.parsed(variable, "the number of a file descriptor", |text| {
            text.parse().ok().filter(|&fd| fd >= 0)
        })
    }

    fn parsed<T>(
        &self,
        variable: &'static str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, LaunchError> {
        let Some(text) = self.text(variable) else {
            return Ok(None);
        };
        match parse(text.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(LaunchErrorKind::Malformed {
                variable,
                value: text.into(),
                expected,
            }
            .into()),
        }
    }

    /// A variable's value; one that is set to nothing counts as not set.
    fn text(&self, variable: &str) -> Option<String> {
        (self.lookup)(variable).filter(|value| !value.is_empty())
    }
}

fn missing(present: &'static str, missing: &'static str) -> LaunchError {
    LaunchErrorKind::Missing { present, missing }.into()
}

#[cfg(test)]
mod tests;
