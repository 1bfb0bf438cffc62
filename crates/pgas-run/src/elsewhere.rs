//! `linux.rs` on other systems, where no ranks can be started as processes.

use std::io::{self, Write};
use std::process::ExitCode;

const REFUSAL: &[u8] = b"pgas: ranks as processes need Linux; here a program is one rank, \
    or its ranks are threads (`pgas::threads`)\n";

/// Reports that this system cannot run `pgas-run`.
pub(crate) fn main() -> ExitCode {
    // There is nowhere to report a failure of this.
    io::stderr().write_all(REFUSAL).ok();
    ExitCode::FAILURE
}
