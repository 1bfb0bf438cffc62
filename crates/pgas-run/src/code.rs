//! Exit codes of jobs that cannot be started.

use std::error::Error;
use std::io;

use pgas_smp::launcher::SuperviseError;

/// The exit codes that shells use for a program that cannot be started.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The exit code for an error of the launcher.
pub(crate) fn code_of(error: &(dyn Error + 'static)) -> u8 {
    match error.downcast_ref() {
        Some(SuperviseError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            NOT_FOUND
        }
        Some(SuperviseError::Start { .. }) => NOT_EXECUTABLE,
        _ => 1,
    }
}
