//! Finds out whether the system has killed processes for lack of memory while a job ran, and how
//! much memory there was: SIGKILL alone says nothing of the reason.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of kills for lack of memory when a job began.
pub(super) struct MemoryWatch {
    root: PathBuf,
    n_kills_before: Option<u64>,
}

impl MemoryWatch {
    pub(super) fn start() -> Self {
        Self::under(Path::new("/"))
    }

    /// A watch whose `/proc` and `/sys` are below `root`.
    fn under(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            n_kills_before: n_kills(root),
        }
    }

    /// A description of the memory, if processes were killed for lack of it since the start.
    /// `asked_for` is the size of all segments of the job in bytes.
    pub(super) fn shortage(&self, asked_for: Option<u64>) -> Option<Box<str>> {
        let n_kills = n_kills(&self.root)?.checked_sub(self.n_kills_before?)?;
        if n_kills == 0 {
            return None;
        }
        let mut text = String::from("the system ran out of memory");
        // Writing to a string does not fail.
        if let Some((all, available)) = memory_of_host(&self.root) {
            let (all, available) = (Bytes(all), Bytes(available));
            write!(
                text,
                ": of the host's {all} there are {available} available now"
            )
            .ok();
        }
        if let Some(limit) = cgroup(&self.root).and_then(|cgroup| cgroup.limit()) {
            let limit = Bytes(limit);
            write!(text, ", this control group may use {limit}").ok();
        }
        if let Some(bytes) = asked_for {
            let bytes = Bytes(bytes);
            write!(
                text,
                ", and the job's segments may grow to {bytes} together"
            )
            .ok();
        }
        Some(text.into())
    }
}

/// A number of bytes in a readable unit.
struct Bytes(u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mebibytes = self.0 >> 20;
        match mebibytes {
            0..10_240 => write!(f, "{mebibytes} MiB"),
            _ => write!(f, "{} GiB", mebibytes >> 10),
        }
    }
}

/// The number of kills for lack of memory: in this process's control group if it is counted there,
/// else on the whole host.
fn n_kills(root: &Path) -> Option<u64> {
    let in_group = cgroup(root).and_then(|cgroup| cgroup.n_kills());
    in_group.or_else(|| field(&root.join("proc/vmstat"), "oom_kill"))
}

/// The host's memory and what of it is available, in bytes.
fn memory_of_host(root: &Path) -> Option<(u64, u64)> {
    let path = root.join("proc/meminfo");
    let kibibytes = |name| field(&path, name)?.checked_mul(1024);
    Some((kibibytes("MemTotal:")?, kibibytes("MemAvailable:")?))
}

/// A control group that counts memory: its folder, and the names that its version has for things.
struct Cgroup {
    folder: PathBuf,
    kills: &'static str,
    limit: &'static str,
}

fn cgroup(root: &Path) -> Option<Cgroup> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let mounts = root.join("sys/fs/cgroup");
        let (mount, kills, limit) = match controllers {
            "" => (mounts, "memory.events", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                let (kills, limit) = ("memory.oom_control", "memory.limit_in_bytes");
                (mounts.join("memory"), kills, limit)
            }
            _ => return None,
        };
        // In a container the path may be the host's, and the group is the mount itself.
        let folders = [mount.join(path), mount];
        let folder = folders
            .into_iter()
            .find(|folder| folder.join(kills).exists())?;
        Some(Cgroup {
            folder,
            kills,
            limit,
        })
    };
    text.lines().find_map(of)
}

impl Cgroup {
    fn n_kills(&self) -> Option<u64> {
        field(&self.folder.join(self.kills), "oom_kill")
    }

    /// The memory limit of the group in bytes, if there is one.
    fn limit(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.limit)).ok()?;
        // An unlimited group of the older version has a number that no memory reaches.
        text.trim().parse().ok().filter(|limit| *limit < 1 << 60)
    }
}

/// The number behind `name` in a file of lines of both.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files, removed on drop.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let name = format!("pgas-memory-{name}-{}", std::process::id());
            let root = Self(std::env::temp_dir().join(name));
            for (path, text) in files {
                root.write(path, text);
            }
            root
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       65536000 kB\nMemFree: 1 kB\nMemAvailable:     204800 kB\n",
    );

    #[test]
    fn a_kill_in_the_control_group_is_told_with_what_there_is() {
        let group = "sys/fs/cgroup/user/job/memory.events";
        let root = Root::new(
            "new",
            &[
                MEMINFO,
                ("proc/self/cgroup", "0::/user/job\n"),
                (group, "low 0\noom 3\noom_kill 2\n"),
                ("sys/fs/cgroup/user/job/memory.max", "2147483648\n"),
            ],
        );
        let watch = MemoryWatch::under(&root.0);
        assert_eq!(watch.shortage(None), None);
        root.write(group, "low 0\noom 4\noom_kill 3\n");
        let expected = "the system ran out of memory: of the host's 62 GiB there are 200 MiB available now, \
                        this control group may use 2048 MiB, and the job's segments may grow to 256 GiB \
                        together";
        assert_eq!(watch.shortage(Some(1 << 38)).as_deref(), Some(expected));
    }

    #[test]
    fn the_older_control_groups_are_read_and_without_any_the_hosts_count() {
        let group = "sys/fs/cgroup/memory/memory.oom_control";
        let root = Root::new(
            "old",
            &[
                MEMINFO,
                (
                    "proc/self/cgroup",
                    "5:cpu:/x\n4:memory,hugetlb:/of/the/host\n",
                ),
                (group, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
                (
                    "sys/fs/cgroup/memory/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
            ],
        );
        let watch = MemoryWatch::under(&root.0);
        root.write(group, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
        let text = watch.shortage(None).unwrap();
        assert!(text.ends_with("200 MiB available now"), "{text}");

        let root = Root::new("host", &[("proc/vmstat", "nr_free 7\noom_kill 4\n")]);
        let watch = MemoryWatch::under(&root.0);
        root.write("proc/vmstat", "nr_free 7\noom_kill 5\n");
        assert_eq!(
            watch.shortage(None).as_deref(),
            Some("the system ran out of memory")
        );
    }

    #[test]
    fn a_system_that_tells_nothing_is_not_blamed() {
        let root = Root::new("nothing", &[("proc/self/cgroup", "0::/\n")]);
        assert_eq!(MemoryWatch::under(&root.0).shortage(Some(1)), None);
    }
}
