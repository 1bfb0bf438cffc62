//! No views of terminals: this program was built without feature `terminal`.

use std::io;
use std::time::Duration;

use crate::watch::picture::Looks;

/// Returns the job, to be shown in lines.
#[expect(clippy::unnecessary_wraps, reason = "as with feature `terminal`")]
pub(super) fn show(looks: Looks, _: Option<Duration>) -> io::Result<Option<Looks>> {
    Ok(Some(looks))
}
