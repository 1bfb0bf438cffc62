//! MPI launchers that start programs on hosts, and programs that hang.

use std::time::Duration;

use pgas_test_hosts::{Hosts, Launcher, Link, Mapping, are_wanted};

/// Far more than any start needs.
const LIMIT: Duration = Duration::from_secs(60);

/// Prints the place and the settings of each rank.
const WHERE: &str = "echo rank ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} on $(hostname) with $SETTING";

const LAUNCHERS: [Launcher; 2] = [Launcher::OpenMpi, Launcher::Mpich];

#[test]
fn launchers_start_ranks_on_every_host_in_either_order() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(3, Link::Clean).unwrap();
    for launcher in LAUNCHERS {
        for mapping in [Mapping::Slot, Mapping::Node] {
            let mpirun = hosts.mpirun(launcher).per_host(2).mapping(mapping);
            let mut command = mpirun.env("SETTING", "a b=c").command("sh");
            command.args(["-c", WHERE]);
            let ended = hosts.run(command, LIMIT);
            assert!(ended.in_time && ended.status.success(), "{ended:#?}");
            let mut lines: Vec<&str> = ended.stdout.lines().collect();
            lines.sort_unstable();
            let host_of = |rank| match mapping {
                Mapping::Slot => rank / 2,
                Mapping::Node => rank % 3,
            };
            let line = |rank| format!("rank {rank} on node{} with a b=c", host_of(rank));
            let expected: Vec<String> = (0..6).map(line).collect();
            assert_eq!(lines, expected, "{launcher:?} {mapping:?} {ended:#?}");
            assert_eq!(hosts.left_after(LIMIT), [""; 0]);
        }
    }
}

#[test]
fn launchers_use_only_the_hosts_that_they_are_given() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(2, Link::Clean).unwrap();
    for launcher in LAUNCHERS {
        let mpirun = hosts.mpirun(launcher).on_first(1).per_host(3);
        assert_eq!(mpirun.n_ranks(), 3);
        let ended = hosts.run(mpirun.command("hostname"), LIMIT);
        assert_eq!(ended.stdout, "node0\n".repeat(3), "{ended:#?}");
    }
}

#[test]
fn what_does_not_end_is_killed_on_every_host() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(2, Link::Clean).unwrap();
    for launcher in LAUNCHERS {
        let mut command = hosts.mpirun(launcher).command("sh");
        command.args(["-c", "echo here; sleep 1000"]);
        let mut running = hosts.start(command);
        assert!(running.has_printed("here\nhere\n", LIMIT));
        assert!(!running.has_printed("there", Duration::from_millis(10)));
        let ended = running.end(Duration::from_millis(100));
        assert!(!ended.in_time && !ended.status.success(), "{ended:#?}");
        assert_eq!(hosts.left_after(LIMIT), [""; 0]);
    }
}
