//! Jobs on hosts, and what is asserted about them.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use pgas_conformance::SUITE;
use pgas_test_hosts::{Ended, Hosts, Launcher, Link, Mapping, Mpirun};
use pgas_testkit::Deadline;
use pgas_testkit::fault::{Fault, STALL};
use rustix::process::{Pid, Signal, kill_process};

use crate::parts::ALL_ARE_HERE;
use crate::{PART, wanted};

/// The maximum time of a job: far more than any needs, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// The maximum time from the failure of a rank or launcher to the end of the job, and from there to
/// the end of its processes. Both take seconds, or more on a busy machine.
pub(crate) const END_OF_JOB: Duration = Duration::from_secs(60);

/// Cases of every kind with few round trips: they take seconds if a round trip takes milliseconds.
const FEW_ROUND_TRIPS: [&str; 18] = [
    "long_transfers_arrive_whole",
    "slices_of_structs_round_trip",
    "every_rank_reads_what_every_rank_wrote",
    "events_may_be_waited_for_in_any_order",
    "fragments_on_all_ranks_move_what_loops_would",
    "strided_transfers_of_long_blocks",
    "put_then_flush_is_visible_to_the_target",
    "who_sees_the_flag_sees_the_data_flushed_before",
    "a_barrier_separates_phases",
    "who_sees_the_signal_sees_the_data",
    "concurrent_fetching_adds_give_every_number_once",
    "concurrent_adds_of_floats_add_up",
    "integers_wrap_around",
    "swaps_pass_every_value_on_exactly_once",
    "a_linked_list_across_ranks_can_be_walked_by_all",
    "messages_of_every_size_arrive_whole",
    "a_broadcast_from_every_root_reaches_all",
    "an_all_to_all_of_varying_lengths_transposes",
];

/// The faults of a rank that end a job.
pub(crate) const FAULTS: [Fault; 5] = [
    Fault::Panic,
    Fault::Exit(3),
    Fault::AbortJob,
    Fault::Kill,
    Fault::Segfault,
];

/// The numbers of hosts and ranks of a job, and which ranks share a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    n_hosts: u32,
    per_host: u32,
    mapping: Mapping,
}

impl Shape {
    pub(crate) const fn new(n_hosts: u32, per_host: u32, mapping: Mapping) -> Self {
        Self {
            n_hosts,
            per_host,
            mapping,
        }
    }

    /// Whether there are more ranks than this machine has processors, which all hosts share.
    pub(crate) fn is_crowded(self) -> bool {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        (self.n_hosts * self.per_host) as usize > n_processors
    }

    pub(crate) fn hosts(self, link: Link) -> Hosts {
        Hosts::new(self.n_hosts, link).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn mpirun(self, hosts: &Hosts) -> Mpirun<'_> {
        let mpirun = hosts.mpirun(launcher());
        mpirun.per_host(self.per_host).mapping(self.mapping)
    }

    /// The host of a rank.
    fn host_of(self, rank: u32) -> u32 {
        match self.mapping {
            Mapping::Slot => rank / self.per_host,
            Mapping::Node => rank % self.n_hosts,
        }
    }

    /// The ranks that share a host with this one.
    fn near(self, rank: u32) -> Vec<u32> {
        let ranks = 0..self.n_hosts * self.per_host;
        ranks
            .filter(|other| self.host_of(*other) == self.host_of(rank))
            .collect()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.mapping {
            Mapping::Slot => "slot",
            Mapping::Node => "node",
        };
        write!(f, "{}_hosts_of_{}_by_{by}", self.n_hosts, self.per_host)
    }
}

/// The launcher of the MPI that this is built with.
pub(crate) fn launcher() -> Launcher {
    let library = pgas_mpi::library().expect("MPI tells its version at any time");
    if library.starts_with("Open MPI") {
        Launcher::OpenMpi
    } else {
        Launcher::Mpich
    }
}

/// This program as ranks that play a part.
pub(crate) fn ranks(mpirun: &Mpirun<'_>, words: &[&str]) -> Command {
    let program = std::env::current_exe().expect("this program");
    let mut command = mpirun.command(program);
    command.arg(PART).args(words);
    command
}

/// Runs a part to its end, and asserts that it ended well.
#[track_caller]
fn run_well(hosts: &Hosts, mpirun: &Mpirun<'_>, words: &[&str]) -> Ended {
    let ended = hosts.run(ranks(mpirun, words), LIMIT);
    assert!(ended.in_time && ended.status.success(), "{ended:#?}");
    assert_nothing_left(hosts);
    ended
}

#[track_caller]
pub(crate) fn assert_nothing_left(hosts: &Hosts) {
    let left = hosts.left_after(END_OF_JOB);
    assert!(left.is_empty(), "left on the hosts: {left:?}");
}

/// Ranks of different hosts have different names and memory, and no pointers into each other's
/// segments.
pub(crate) fn share_no_memory(shape: Shape) {
    let _deadline = Deadline::new("looking around", 2 * LIMIT);
    let hosts = shape.hosts(Link::Clean);
    for direct in ["1", "0"] {
        let mpirun = shape.mpirun(&hosts).env("PGAS_DIRECT", direct);
        let ended = run_well(&hosts, &mpirun, &["look-around"]);
        for rank in 0..mpirun.n_ranks() {
            let (name, near) = (Hosts::name(shape.host_of(rank)), shape.near(rank));
            let reached = if direct == "1" {
                near.clone()
            } else {
                // Its own memory is a rank's always.
                vec![rank]
            };
            let line = format!("rank {rank} on {name} near {near:?} direct {reached:?}");
            assert!(ended.stdout.contains(&line), "no {line:?} in {ended:#?}");
        }
        let clean = hosts.command(0, "sh").arg("-c").arg(CLEAN).status();
        assert!(clean.is_ok_and(|status| status.success()));
    }
}

/// Removes what `look-around` leaves, on up to three hosts.
const CLEAN: &str = "for host in node0 node1 node2; do /tmp/agent $host 'rm /dev/shm/rank*' 2>/dev/null; done; true";

/// Every case of the suite passes between hosts. Only [some of every kind](FEW_ROUND_TRIPS) run
/// where all would take long: over a bad link, where each round trip takes milliseconds, and,
/// unless all are asked for, with more ranks than processors, and over MPICH, where nothing moves
/// until the target runs.
pub(crate) fn pass_the_suite(shape: Shape, link: Link, direct: &str) {
    let _deadline = Deadline::new("the suite between hosts", 2 * LIMIT);
    let hosts = shape.hosts(link);
    let mpirun = shape.mpirun(&hosts).env("PGAS_DIRECT", direct);
    let mut words = vec!["suite"];
    let is_slow = launcher() == Launcher::Mpich || shape.is_crowded();
    if link != Link::Clean || is_slow && !wanted::is_all() {
        words.extend(FEW_ROUND_TRIPS);
    }
    let ended = run_well(&hosts, &mpirun, &words);
    let n_cases = SUITE
        .iter()
        .filter(|case| words.len() == 1 || words.contains(&case.name))
        .filter(|case| case.min_ranks <= mpirun.n_ranks())
        .count();
    let all = format!("{n_cases} cases passed");
    assert!(ended.stdout.contains(&all), "not {all:?}: {ended:#?}");
    if link != Link::Clean {
        let traffic = hosts.traffic();
        assert!(
            traffic.lost > 0 && traffic.delivered > traffic.lost,
            "{traffic:?}"
        );
    }
}

/// A rank that fails ends the job, wherever it runs.
pub(crate) fn end_after(fault: Fault, on_host: u32) {
    let _deadline = Deadline::new("the end after a fault", LIMIT);
    let shape = Shape::new(2, 2, Mapping::Slot);
    let hosts = shape.hosts(Link::Clean);
    let rank = shape.near(on_host * shape.per_host)[1].to_string();
    let mut running = hosts.start(ranks(&shape.mpirun(&hosts), &["fail", fault.name(), &rank]));
    let are_here = running.has_printed(ALL_ARE_HERE, LIMIT);
    let ended = running.end(END_OF_JOB);
    // The job may have ended before the launcher has passed rank 0's line on.
    let has_struck = ended.stdout.contains("struck at");
    assert!(are_here || has_struck, "it did not begin: {ended:#?}");
    assert!(ended.in_time, "it goes on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    assert_nothing_left(&hosts);
}

/// A rank that is stopped is noticed by those that share its host.
pub(crate) fn end_after_a_stop_beside_another() {
    let shape = Shape::new(2, 2, Mapping::Slot);
    let stopped = shape.near(shape.per_host)[1];
    let text = format!("rank {stopped} has been stopped for ");
    end_after_a_stop(shape, stopped, STALL, &text);
}

/// A stopped rank that is alone on its host looks to the others like one that computes for long.
/// The limit of waits ends the job and names it.
pub(crate) fn end_after_a_stop_alone() {
    let shape = Shape::new(2, 1, Mapping::Slot);
    end_after_a_stop(shape, 1, ("PGAS_TIMEOUT", "2"), "rank 0 waited ");
}

fn end_after_a_stop(shape: Shape, stopped: u32, setting: (&str, &str), text: &str) {
    let _deadline = Deadline::new("the end after a stop", LIMIT);
    let hosts = shape.hosts(Link::Clean);
    let mpirun = shape.mpirun(&hosts).env(setting.0, setting.1);
    let running = hosts.start(ranks(&mpirun, &["stop", &stopped.to_string()]));
    let ended = running.end(LIMIT);
    assert!(!ended.status.success(), "{ended:#?}");
    assert!(ended.stdout.contains(text), "not {text:?}: {ended:#?}");
    let blamed = format!("rank {stopped}");
    assert!(ended.stdout.contains(&blamed), "not {blamed:?}: {ended:#?}");
    assert_nothing_left(&hosts);
}

/// The death of the launcher ends the job, on every host.
pub(crate) fn end_with_the_launcher() {
    let _deadline = Deadline::new("the end of the launcher", LIMIT);
    let shape = Shape::new(2, 2, Mapping::Slot);
    let hosts = shape.hosts(Link::Clean);
    let nobody = shape.n_hosts * shape.per_host;
    let words = ["fail", Fault::Kill.name(), &nobody.to_string()];
    let mut running = hosts.start(ranks(&shape.mpirun(&hosts), &words));
    assert!(
        running.has_printed(ALL_ARE_HERE, LIMIT),
        "{:#?}",
        running.end(END_OF_JOB)
    );
    for pid in hosts.processes(0) {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if ["mpirun.openmpi", "orterun", "mpiexec.hydra"].contains(&name.trim()) {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time, "it goes on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    assert_nothing_left(&hosts);
}
