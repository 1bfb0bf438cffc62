//! Jobs over several hosts, without MPI and without PMI of others.
//!
//! The launcher starts an agent for each host, by `ssh` or what stands in for it. What the agent
//! runs over there is `pgas-run --serve-host`, which connects back to the launcher by TCP, starts
//! the ranks of its host and stays with them. To ranks it is a launcher that speaks PMI-1; what
//! they tell each other before they have a network goes through it and the launcher.
//!
//! ```text
//! pgas-run --hosts a,b ── ssh a ── pgas-run --serve-host ── ranks 0, 1
//!        │ │                          │        (PMI-1 by a socket each)
//!        │ └────── TCP ───────────────┘
//!        └──────── ssh b ── pgas-run --serve-host ── ranks 2, 3
//! ```
//!
//! Output comes by the agents' own pipes, line by line. Everything else comes by TCP, whose end,
//! however it comes about, ends the job on both sides. Where the job is watched, that is also what
//! each host sees of its ranks, by their memory and the system.
//!
//! Two tokens of the job, of 128 random bits each, go to the agents' standard input, and so are on
//! no command line and in no environment. A host says the one, so that nobody else joins the job;
//! the launcher answers with the other, so that a host takes orders from nobody else.

mod door;
mod invitation;
mod job;
mod launcher;
mod list;
mod look;
mod members;
mod pmi;
mod serve;
mod shown;
mod wanted;
mod watch;
mod wire;

pub(crate) use launcher::run;
pub(crate) use list::{from_file, from_list, place};
pub(crate) use serve::serve;
pub(crate) use wanted::Wanted;
