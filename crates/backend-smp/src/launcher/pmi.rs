//! The shared-memory backend's part of PMI-1: it sends the launcher no message.
//!
//! `PMI_FD` is a local socket to the launcher's process on this host, the same one for all ranks of
//! the job here. That process's id, which the kernel knows, names the job, so there is no need to
//! speak. A single message would have consequences: MPICH's Hydra then takes this process for a
//! client, ends the job when it exits without a farewell, and after the farewell an `MPI_Init` in
//! the same process finds the connection closed.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::sys;

/// The key that distinguishes the job of the launcher behind `pmi_fd` from all others of this host.
///
/// # Errors
///
/// Fails if the descriptor is not a socket whose other end is a process of this host.
pub(super) fn job_key(pmi_fd: i32) -> io::Result<String> {
    key_behind(sys::adopt("PMI_FD", pmi_fd)?)
}

/// The socket to a launcher that speaks PMI-1, for a backend that sends it messages; the module
/// says what follows from that.
///
/// # Errors
///
/// Fails if this process was not started with the descriptor.
pub fn pmi_socket(pmi_fd: i32) -> io::Result<UnixStream> {
    sys::adopt("PMI_FD", pmi_fd).map(UnixStream::from)
}

fn key_behind(socket: impl AsFd) -> io::Result<String> {
    match sys::peer(socket)? {
        sys::Peer { pid: 0, .. } => Err(io::Error::other("the launcher is not visible from here")),
        sys::Peer { pid, .. } => Ok(format!("pmi {pid}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{job_key, key_behind};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_job_is_named_by_the_process_at_the_other_end() {
        let (launcher, rank) = UnixStream::pair().unwrap();
        let expected = format!("pmi {}", std::process::id());
        assert_eq!(key_behind(&rank).unwrap(), expected);
        let error = job_key(rank.as_raw_fd()).unwrap_err().to_string();
        assert!(
            error.contains("PMI_FD"),
            "this process was not started with it: {error}"
        );
        drop(launcher);
    }

    #[test]
    fn what_is_not_a_socket_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(
            key_behind(&file).unwrap_err().raw_os_error(),
            Some(libc::ENOTSOCK)
        );
    }
}
