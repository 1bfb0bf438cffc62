//! What the system tells of a process in `/proc/PID/stat`.

use std::fmt::Display;
use std::fs;

/// The line of `/proc/PID/stat` behind the name of the process: its state, its parent, and so on,
/// with a space between two of them. `None` if there is no such process.
#[must_use]
pub fn stat_behind_name(pid: impl Display) -> Option<String> {
    behind_name(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything. The system cuts it off after 15 bytes, which may be
/// within a letter, so that it is no text. What follows it is.
fn behind_name(stat: &[u8]) -> Option<String> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let (_, rest) = stat.split_at(end + 1);
    String::from_utf8(rest.trim_ascii().to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::{behind_name, stat_behind_name};

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let read = |stat: &[u8]| behind_name(stat);
        assert_eq!(read(b"12 (a) S (b) R 1 2\n").as_deref(), Some("R 1 2"));
        let cut = "12 (abcdefghijklmn\u{e4}".as_bytes();
        let cut = [&cut[..cut.len() - 1], b") T 1 2\n"].concat();
        assert!(str::from_utf8(&cut).is_err());
        assert_eq!(read(&cut).as_deref(), Some("T 1 2"));
        assert_eq!(read(b"12 (a"), None);
        let own = stat_behind_name("self").unwrap();
        let parent = std::os::unix::process::parent_id().to_string();
        assert_eq!(own.split(' ').nth(1), Some(parent.as_str()));
        assert_eq!(stat_behind_name(u32::MAX), None);
    }
}
