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
//! Tokens of 128 random bits go to the agents' standard input. So they are on no command line and in
//! no environment. Each host has two for each address of the launcher. It sends one, so that no
//! other process joins the job. The launcher answers with the other, so that a host takes orders
//! from no other process. The launcher takes a token only at its own address, and each host once.
//! A host sends none to an address that it has itself, unless it shares the launcher's network
//! namespace: there, any of its users may listen.
//!
//! Tokens are sent in clear. Whoever listens on the network between the two, or answers at one of
//! the launcher's addresses on a third host and can pass on connections to that very address, can
//! take over the job.

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
