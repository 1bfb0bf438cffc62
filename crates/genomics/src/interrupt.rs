//! Files that this process removes before SIGHUP, SIGINT or SIGTERM ends it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn files() -> MutexGuard<'static, Vec<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets one of these signals remove the file at `path` before it ends the process.
pub(crate) fn remove(path: &Path) {
    static LISTENS: Once = Once::new();
    files().push(path.to_owned());
    // Without a listener a signal leaves the file behind, as a kill does.
    LISTENS.call_once(|| drop(listen()));
}

/// Takes [`remove`] back.
pub(crate) fn keep(path: &Path) {
    files().retain(|file| file != path);
}

fn listen() -> io::Result<()> {
    let ignored = ignored();
    let signals = [SIGHUP, SIGINT, SIGTERM];
    let mut signals = Signals::new(signals.iter().filter(|signal| !ignored.contains(signal)))?;
    let listener = thread::Builder::new().name("signals".to_owned());
    listener.spawn(move || {
        for signal in signals.forever() {
            // Locked until the process has ended: no file is added any more.
            let files = files();
            for file in &*files {
                // A failed removal cannot be reported.
                fs::remove_file(file).ok();
            }
            // If it fails, the process goes on.
            drop(emulate_default_handler(signal));
        }
    })?;
    Ok(())
}

/// The signals that this process ignores, as under `nohup`: a listener would end that. None where
/// the system does not tell.
fn ignored() -> Vec<i32> {
    let status = fs::read("/proc/self/status").unwrap_or_default();
    // The name of the process may be cut off within a letter.
    let status = String::from_utf8_lossy(&status);
    let mut masks = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigIgn:"));
    let mask = masks
        .next()
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_set = |signal: &i32| mask.unwrap_or(0) >> (signal - 1) & 1 == 1;
    (1..=64).filter(is_set).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_known_although_the_name_of_the_process_is_no_text() {
        fs::write("/proc/self/comm", b"abcdefghijklmn\xc3").unwrap();
        // As in every program of this language.
        assert!(ignored().contains(&signal_hook::consts::SIGPIPE));
        assert!(crate::report::peak_rss() > 0);
    }
}
