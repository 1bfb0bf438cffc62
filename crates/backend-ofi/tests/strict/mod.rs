//! The provider `strict` (`strict.c`), which libfabric loads as one of its own. It demands what
//! providers of network cards demand, and the others here do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The provider's name, for `PGAS_OFI_PROVIDER`.
pub(crate) const STRICT: &str = "strict";

/// Has the job use the provider, which is compiled the first time.
///
/// # Panics
///
/// Without a C compiler or libfabric's headers.
pub(crate) fn choose(job: &mut Command) {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(compile);
    job.env("PGAS_OFI_PROVIDER", STRICT);
    job.env("FI_PROVIDER_PATH", folder);
}

/// Compiles the provider, and returns the folder in which libfabric finds it.
fn compile() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strict");
    fs::create_dir_all(&folder).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strict/strict.c");
    // Another process may be about to load it.
    let made = folder.join(format!("made.{}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]);
    compiler.args(["-shared", "-fPIC", "-o"]);
    let built = compiler.arg(&made).arg(source).arg("-lfabric").output();
    let built = built.expect("a C compiler");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "{said}(Debian: libfabric-dev has the headers)"
    );
    fs::rename(made, folder.join("libstrict-fi.so")).expect("a file in the folder");
    folder
}
