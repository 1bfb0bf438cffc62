//! A rank that the system kills because its control group is out of memory. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::Trial;
use pgas::World;
use pgas_testkit::fault::give_up;
use pgas_testkit::job::{eventually, say};

use crate::jobs::{WATCHED, start_within};
use crate::trial;
use crate::waits::FAILING;

/// The memory limit of a job: more than idle ranks need.
const LIMIT: u64 = 128 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("memory::killed_for_want_of_it", || {
        for way in WATCHED {
            let group = match Group::new() {
                Ok(group) => group,
                Err(why) => return say(&format!("no control group can be made here: {why}")),
            };
            let words = ["devour"];
            let ended = start_within(&group.join_words(), way, 4, &words, &[]).end();
            assert_eq!(ended.code(), 128 + 9, "{ended:?}");
            assert!(ended.left.is_empty(), "{ended:?}");
            let rank = format!("pgas: rank {FAILING} ");
            let mut told = ended.stderr.lines();
            let line = told.find(|line| line.starts_with(&rank) && line.contains("SIGKILL"));
            let line = line.unwrap_or_else(|| panic!("{ended:?}"));
            for part in [
                "the system ran out of memory: of the host's ",
                " available now, ",
                "this control group may use 128 MiB, ",
                "and the job's segments may grow to 16 MiB together",
            ] {
                assert!(line.contains(part), "{part}: {ended:?}");
            }
        }
    })]
}

/// The failing rank allocates memory until it is killed, while the others wait.
pub(crate) fn rank_that_devours(world: World) -> ! {
    let rank = world.rank();
    world.barrier().unwrap();
    if rank == FAILING {
        let mut all = Vec::new();
        for _ in 0..(4 * LIMIT) >> 20 {
            // Each page is written, so that it is allocated.
            all.push(vec![1_u8; 1 << 20]);
        }
        panic!("{} MiB in a group of {LIMIT} bytes", all.len());
    }
    let error = world.barrier().unwrap_err();
    drop(world);
    give_up(rank, &error)
}

/// A control group with a memory limit, of either version. It is removed when this value is
/// dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self, String> {
        static N_GROUPS: AtomicU32 = AtomicU32::new(0);
        let n_groups = N_GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgas-faults-{}-{n_groups}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (folder, limit) = if controllers.split_whitespace().any(|name| name == "memory") {
            // This fails if it is on already, which is fine.
            fs::write(root.join("cgroup.subtree_control"), "+memory").ok();
            (root.join(name), "memory.max")
        } else {
            (root.join("memory").join(name), "memory.limit_in_bytes")
        };
        fs::create_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let group = Self(folder);
        let file = group.0.join(limit);
        fs::write(&file, LIMIT.to_string()).map_err(|why| format!("{}: {why}", file.display()))?;
        Ok(group)
    }

    /// The command that makes this program join the group before it plays its role.
    fn join_words(&self) -> [String; 2] {
        [JOIN.to_owned(), self.0.display().to_string()]
    }
}

/// Joins the control group in the next argument, and then plays the role in the following ones.
pub(crate) const JOIN: &str = "--in-group";

pub(crate) fn join(group: &str) {
    let pid = std::process::id().to_string();
    fs::write(Path::new(group).join("cgroup.procs"), pid).unwrap();
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group is busy until its last process is gone.
        eventually("the group can be removed", || {
            fs::remove_dir(&self.0).is_ok()
        });
    }
}
