//! Finds and builds example programs for their tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Whether [`example`] returns optimized programs: in an optimized test, and in any test with
/// `PGAS_TEST_OPTIMIZED=1`, which avoids an optimized build of the whole test.
///
/// # Panics
///
/// If the setting is no number.
#[must_use]
pub fn examples_are_optimized() -> bool {
    crate::setting("PGAS_TEST_OPTIMIZED", u64::from(!cfg!(debug_assertions))) == 1
}

/// The example `name` of the package in `manifest_dir`. It is built like the calling test, or
/// optimized if [`examples_are_optimized`] says so: `cargo test --test` alone builds no example, or
/// leaves an old one. It has the test's features, so that nothing is built twice.
///
/// Cargo rebuilds shared packages for each choice of packages. So a command that tests several
/// packages builds the examples with them, and sets `PGAS_TEST_EXAMPLES_BUILT=1`.
///
/// # Panics
///
/// If it does not build.
#[must_use]
pub fn example(manifest_dir: &str, name: &str, features: &[&str]) -> PathBuf {
    /// Each example is built once; other threads wait meanwhile.
    static BUILT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let test = std::env::current_exe().expect("the system knows what it runs");
    // target/debug/deps/isx-0123456789abcdef
    let of_this_test = test.ancestors().nth(2).expect("cargo made the path");
    let profile = match examples_are_optimized() && cfg!(debug_assertions) {
        true => of_this_test.with_file_name("release"),
        false => of_this_test.to_owned(),
    };
    let profile_name = match profile.file_name().and_then(OsStr::to_str) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is no folder of a profile", profile.display()),
    };
    let program = profile.join("examples").join(name);
    if crate::setting("PGAS_TEST_EXAMPLES_BUILT", 0) == 1 {
        assert!(program.exists(), "{} was not built", program.display());
        return program;
    }
    let mut all_built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if all_built.contains(&program) {
        return program;
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", name])
        .args(["--profile", profile_name, "--target-dir"])
        .arg(profile.parent().unwrap_or(Path::new(".")))
        .args(["--features", &features.join(",")])
        .current_dir(manifest_dir)
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "{name} does not build"
    );
    all_built.push(program.clone());
    program
}
