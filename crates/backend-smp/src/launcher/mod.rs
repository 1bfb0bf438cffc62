//! Linux only: starting the ranks of a job as processes of this host, watching them, and bringing
//! the processes of a foreign launcher together.
//!
//! - [`supervise`] starts the ranks and stays with them until the last has ended. `pgas-run` is a
//!   command line around it, and [`self_launch`] does the same with the program that calls it.
//! - The ranks' side, `inherited_memory`, is for [`init`](crate::init) alone: the job's shared
//!   memory arrives as an open descriptor.
//! - [`meet`] brings together processes that Open MPI, MPICH or Slurm started: they agree on one
//!   shared memory over a local socket, without a file.
//!
//! Nothing of a job has a name in a file system, so nothing can be left behind. How the rest of a
//! job ends:
//!
//! | event | ended by |
//! |---|---|
//! | a rank fails | the supervisor: the hook's own way, then SIGTERM, then SIGKILL, within a second; on a busy machine within four |
//! | the supervisor is killed | the kernel: each rank has asked for SIGKILL at the end of the thread that started it |
//! | a rank leaves processes behind | the supervisor, which the kernel makes their parent |
//! | a rank leaves memory of libfabric's behind, with a name | the supervisor, which removes it |
//!
//! The kernel keeps such a request with the thread that makes it, and only as long as that runs. It
//! is made before the rank's program starts, and, behind a script, by the rank's main thread or one
//! that stays for it.
//!
//! If SIGKILL ends the supervisor, only processes that a rank started itself go on: the kernel
//! binds a rank to its parent, but not the rank's own children.

mod descriptors;
mod forward;
mod grace;
mod job;
mod leftovers;
mod lines;
mod memory;
mod orphans;
mod out_of_memory;
mod outcome;
mod patient;
mod pmi;
mod rank;
mod ranks;
mod rendezvous;
mod signals;
mod stat;
mod supervise;
mod sys;
mod watch;

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec};

pub use descriptors::{DescriptorLimit, allow_descriptors};
pub use forward::{Forwarder, Sink, Stream, finish, print, tell};
pub use job::{JobHooks, NoHooks, Output, Part, SuperviseError, SuperviseOptions};
pub(crate) use memory::Descriptor;
pub use memory::Memory;
pub use outcome::{Cause, Failure, Outcome};
pub use patient::{Patient, has_room};
pub use pmi::pmi_socket;
pub use rank::die_with_parent;
pub(crate) use rank::inherited_memory;
pub use rendezvous::{MeetError, PATIENCE, meet, share};
pub use signals::{Received, SignalWatch, asks_to_end, stop_self};
pub use stat::stat_behind_name;
pub use supervise::{self_launch, supervise, supervise_part};

/// The time `by` later, or a time in many years: a limit may be of any length.
fn later(at: Instant, by: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(1 << 30);
    at.checked_add(by).unwrap_or(at + NEVER)
}

/// Waits until one of `fds` is ready or the time is up; `None` waits for ever.
///
/// Returns the number of those that are ready, which is 0 if a signal handler ran.
///
/// # Errors
///
/// Errors of the system.
pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    // More than the kernel can count is as good as for ever.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(n_ready) => Ok(n_ready),
        Err(rustix::io::Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
