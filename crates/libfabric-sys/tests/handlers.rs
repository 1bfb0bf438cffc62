//! Loading libfabric leaves the process's reactions to signals alone.

use std::fs;

/// The signals that this process ignores or catches, as the system tells them.
fn reactions() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let lines = status.lines();
    let lines = lines.filter(|line| line.starts_with("SigIgn") || line.starts_with("SigCgt"));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_comes_with_the_library_catches_no_signal_of_the_process() {
    let before = reactions();
    let library = pgas_libfabric_sys::load().expect("libfabric is installed (libfabric1)");
    assert!(library.version().minor >= 17 || library.version().major > 1);
    assert_eq!(library.error_text(-11), library.error_text(11));
    assert_eq!(reactions(), before);
}
