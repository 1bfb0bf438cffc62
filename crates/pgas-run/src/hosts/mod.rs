//! Jobs over several hosts, without MPI and without another PMI.
//!
//! The launcher starts an agent for each host: `ssh`, or the command that the user names. The agent
//! runs `pgas-run --serve-host` on the host, which connects back to the launcher by TCP, starts the
//! ranks of its host and stays with them. To ranks it is a launcher that speaks PMI-1. The pairs
//! that ranks exchange before they have a network go through it and the launcher.
//!
//! ```text
//! pgas-run --hosts a,b ── ssh a ── pgas-run --serve-host ── ranks 0, 1
//!        │ │                          │        (PMI-1 by a socket each)
//!        │ └────── TCP ───────────────┘
//!        └──────── ssh b ── pgas-run --serve-host ── ranks 2, 3
//! ```
//!
//! Output travels through the agents' own pipes, line by line. Everything else travels by TCP; if
//! the connection ends for any reason, the job ends on both sides. If the job is watched, each host
//! also sends the state of its ranks, and if its ranks count, their figures in the end.
//!
//! Two tokens of the job, of 128 random bits each, go to the agents' standard input. So they are on
//! no command line and in no environment. A host sends one of them, so that no other process joins
//! the job; the launcher answers with the other, so that a host takes orders from no other process.

mod door;
mod exchange;
mod figures;
mod invitation;
mod job;
mod launcher;
mod list;
mod look;
mod meeting;
mod members;
mod pmi;
mod ranks;
mod serve;
mod shown;
mod wanted;
mod watch;
mod wire;

pub(crate) use launcher::run;
pub(crate) use list::{from_file, from_list, place};
pub(crate) use serve::serve;
pub(crate) use wanted::Wanted;
