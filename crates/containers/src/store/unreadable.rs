//! Saves as a user who may not read everything.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use pgas_core::backend::loopback;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tempfile::tempdir;

use super::names;
use super::tests::{n_loaded, save_some};

/// As on clusters, where nobody may list the names of all users' directories.
#[test]
fn a_directory_in_one_that_may_not_be_read_is_saved_into() {
    let (above, world) = (tempdir().unwrap(), loopback::world());
    let mode = |bits| fs::set_permissions(above.path(), Permissions::from_mode(bits)).unwrap();
    let dirs = ["one", "other/below"].map(|name| above.path().join(name));
    mode(0o300);
    without_privileges(|| {
        assert!(fs::read_dir(above.path()).is_err());
        for dir in dirs.iter().chain(&dirs) {
            save_some(&world, dir, 20).unwrap();
        }
    });
    mode(0o700);
    for dir in dirs {
        assert_eq!(n_loaded(&world, &dir), 20);
        assert_eq!(names(&dir).unwrap().len(), 2);
    }
}

/// Runs `body` on a thread that heeds permissions, also if the process is root's.
fn without_privileges(body: impl FnOnce() + Send) {
    let body = || {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        body();
    };
    thread::scope(|scope| scope.spawn(body).join().unwrap());
}
