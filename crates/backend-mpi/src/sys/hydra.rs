//! Ending a job of MPICH without `MPI_Finalize`, where that hangs.
//!
//! Up to release 4.1, `MPI_Finalize` closes its connections, for which the other side must still
//! poll the network, and then waits in a barrier of the launcher, in which no rank polls: a late
//! rank waits for an early one for ever. Over TCP, two hosts with two ranks each hang every other
//! time. (Release 4.2 has no barrier there: pmodels/mpich, pull request 6596.) The launcher only
//! needs to know that this process ends in good order. Two messages of its protocol, PMI-1, tell
//! it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use pgas_core::{Error, Result};

use super::Mpi;
use super::comm::{library_version, note_left};
use crate::system;

/// Whether `MPI_Finalize` of this library may hang in a job that communicates over a network.
pub(crate) fn finalize_may_hang(mpi: &Mpi) -> Result<bool> {
    Ok(is_affected(&library_version(mpi)?))
}

fn is_affected(library: &str) -> bool {
    let Some((_, version)) = library.split_once("MPICH Version:") else {
        return false;
    };
    let mut numbers = version.trim().split(['.', 'a', 'b', 'r']);
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    let version = (number().unwrap_or(0), number().unwrap_or(0));
    version < (4, 2)
}

/// Waits until all ranks are here, then finalizes PMI with the launcher behind `pmi_fd`. After that
/// MPI must not be called any more in this process.
pub(crate) fn leave(_: &Mpi, pmi_fd: i32) -> Result<()> {
    note_left();
    // MPI does not use the socket at the same time: it would have to be called for that.
    let told = system::launcher(pmi_fd)
        .try_clone_to_owned()
        .map(UnixStream::from)
        .and_then(|launcher| {
            let mut answers = BufReader::new(&launcher).lines();
            for (message, expected) in [
                ("cmd=barrier_in\n", "cmd=barrier_out"),
                ("cmd=finalize\n", "cmd=finalize_ack"),
            ] {
                (&launcher).write_all(message.as_bytes())?;
                let answer = answers.next().transpose()?.unwrap_or_default();
                if !answer.starts_with(expected) {
                    let text = format!("not {expected:?} but {answer:?}");
                    return Err(std::io::Error::other(text));
                }
            }
            Ok(())
        });
    told.map_err(|error| Error::backend("leaving the launcher", 0, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::is_affected;

    #[test]
    fn releases_of_mpich_before_4_2_are_affected() {
        for version in ["3.4.1", "4.0.2", "4.1", "4.1.2", "4.1a1"] {
            assert!(
                is_affected(&format!("MPICH Version: {version}")),
                "{version}"
            );
        }
        for version in ["4.2.0", "4.2", "4.3.0rc1", "5.0.0"] {
            assert!(
                !is_affected(&format!("MPICH Version: {version}")),
                "{version}"
            );
        }
        assert!(!is_affected("Open MPI v4.1.4"));
    }
}
