//! MPI's settings by the user.

use std::env;
use std::ffi::OsString;

/// The setting that makes MPICH yield while it waits for messages, with some of its transports.
pub(crate) const MPICH_YIELDS: &str = "MPIR_CVAR_POLLS_BEFORE_YIELD";

/// Whether the user has set that MPICH yields.
pub(crate) fn is_mpich_told_to_yield() -> bool {
    setting(MPICH_YIELDS).is_some_and(|polls| polls != "0")
}

/// The value of a setting, if it is set.
pub(crate) fn setting(name: &str) -> Option<OsString> {
    #[expect(
        clippy::disallowed_methods,
        reason = "these are settings of MPI, which reads them itself"
    )]
    env::var_os(name)
}
