//! The system's figures of a rank's process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pgas_smp::launcher::stat_behind_name;

/// A process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// A letter: `R` runs, `S` sleeps, `D` waits for a device, `T` is stopped, `Z` has ended.
    pub(crate) state: char,
    /// Its processor time so far, in ticks.
    pub(crate) ticks: u64,
    /// When it began, in ticks since the host did.
    pub(crate) began: u64,
    /// Its memory, in pages.
    pub(crate) pages: u64,
}

impl Process {
    /// The process with this number, if there is one.
    pub(crate) fn look(number: u32) -> Option<Self> {
        Self::parse(&stat_behind_name(number)?)
    }

    /// Reads the line of the system behind the name.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.split_ascii_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            ticks: number(11)?.saturating_add(number(12)?),
            began: number(19)?,
            pages: number(21)?,
        })
    }

    /// Its memory, in bytes.
    pub(crate) fn resident(self) -> u64 {
        self.pages.saturating_mul(rustix::param::page_size() as u64)
    }
}

/// The name of a process: that of its program, by the first word of its command line. The system's
/// own name of a rank that its program has started is that of a link.
pub(crate) fn name_of(number: u32) -> Option<String> {
    let words = fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let first = words.split(|byte| *byte == 0).next()?;
    let name = Path::new(OsStr::from_bytes(first)).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_read_from_what_the_system_shows() {
        let stat = "R 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 1 0 5 999 42 0 0";
        let read = Process::parse(stat).unwrap();
        assert_eq!((read.state, read.ticks, read.pages), ('R', 100, 42));
        assert_eq!(read.began, 5);
        assert_eq!(Process::parse("R 1"), None);
        assert!(Process::look(std::process::id()).unwrap().resident() > 0);
    }

    #[test]
    fn a_process_has_the_name_of_its_program_and_not_of_a_link_to_it() {
        let mut sleep = Command::new("sleep");
        let mut child = sleep.arg0("/a/place/solver").arg("60").spawn().unwrap();
        // The system lets go of who waits for a start before the command line can be read.
        let mut name = None;
        while name.is_none() && child.try_wait().unwrap().is_none() {
            name = name_of(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(name.as_deref(), Some("solver"));
        assert_eq!(name_of(child.id()), None);
    }
}
