//! Files that a rank leaves behind when it ends without closing what it has opened.
//!
//! Nothing of this library's has a name in a file system. Libfabric's provider `shm` has: some
//! megabytes for each endpoint, in `/dev/shm`, called by the number of the process.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The folder of named memory.
const FOLDER: &str = "/dev/shm";

/// Removes what the process `pid` has left. It has ended and was not waited for, so that no other
/// process has its number yet.
pub(super) fn remove(pid: u32) {
    remove_in(Path::new(FOLDER), pid);
}

fn remove_in(folder: &Path, pid: u32) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if is_of(&entry.file_name(), pid) {
            // Another user's stays, as does one that has just been removed.
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// Whether a name is `pid:number:number`.
fn is_of(name: &OsStr, pid: u32) -> bool {
    let mut numbers = name.as_encoded_bytes().split(|byte| *byte == b':');
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    numbers.next() == Some(pid.to_string().as_bytes())
        && numbers.next().is_some_and(is_number)
        && numbers.next().is_some_and(is_number)
        && numbers.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::remove_in;
    use std::fs;

    #[test]
    fn what_a_process_has_left_is_removed_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("pgas-leftovers-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let names = [
            "12:0:0", "12:5:31", "1:0:0", "12", "12:0", "12:0:", "12:0:0:0", "12:a:0",
        ];
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
        remove_in(&folder, 12);
        let left = names.map(|name| folder.join(name).exists());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, [false, false, true, true, true, true, true, true]);
    }
}
