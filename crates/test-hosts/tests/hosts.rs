//! Resources that hosts share or do not share, the behaviour of links, and the end of hosts with
//! their maker.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use pgas_test_hosts::{Conditions, Hosts, Link, are_wanted};
use pgas_testkit::job::{self, eventually};
use rustix::process::Signal;

/// The error of a connection to a port without a listener.
const REFUSED: &str = "/9: Connection refused";

/// Runs a shell script on a host.
fn shell(hosts: &Hosts, host: u32, lines: &str) -> Output {
    let output = hosts.command(host, "bash").args(["-c", lines]).output();
    output.expect("nsenter is there")
}

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[test]
fn hosts_have_names_and_files_of_their_own() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(3, Link::Clean).unwrap();
    let write = "echo $(hostname) | tee /tmp/here /dev/shm/here";
    assert_eq!(told(&shell(&hosts, 1, write)), "node1");
    let see = "hostname; cat /tmp/here /dev/shm/here";
    assert_eq!(told(&shell(&hosts, 1, see)), "node1\nnode1\nnode1");
    for other in [0, 2] {
        let seen = told(&shell(&hosts, other, see));
        assert!(seen.starts_with(&format!("node{other}\n")), "{seen}");
        assert_eq!(seen.matches("No such file").count(), 2, "{seen}");
    }
    assert!(!fs::exists("/dev/shm/here").unwrap());
}

#[test]
fn hosts_share_neither_processes_nor_system_v_memory_nor_abstract_sockets() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(2, Link::Clean).unwrap();
    for namespace in ["pid", "ipc", "net", "uts", "mnt"] {
        let link = format!("readlink /proc/self/ns/{namespace}");
        let [first, second] = [0, 1].map(|host| told(&shell(&hosts, host, &link)));
        let here = fs::read_link(format!("/proc/self/ns/{namespace}")).unwrap();
        assert_ne!(first, second);
        assert_ne!(here.to_string_lossy(), first);
        assert_ne!(here.to_string_lossy(), second);
    }
}

#[test]
fn hosts_reach_each_other_by_name_over_either_link() {
    if !are_wanted() {
        return;
    }
    let bad = Link::Bad(Conditions {
        delay: Duration::from_millis(1),
        jitter: Duration::ZERO,
        loss_percent: 0.0,
        seed: 1,
    });
    for link in [Link::Clean, bad] {
        let hosts = Hosts::new(3, link).unwrap();
        for host in 0..3 {
            for other in (0..3).filter(|other| *other != host) {
                let knock = format!("echo >/dev/tcp/{}/9", Hosts::name(other));
                let answer = told(&shell(&hosts, host, &knock));
                assert!(answer.contains(REFUSED), "{host} to {other}: {answer}");
            }
        }
        let answer = told(&shell(
            &hosts,
            0,
            "timeout 0.3 bash -c 'echo >/dev/tcp/192.0.2.4/9'",
        ));
        assert!(
            !answer.contains(REFUSED),
            "there is no fourth host: {answer}"
        );
    }
}

#[test]
fn a_bad_link_delays_and_loses_what_it_says() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(
        2,
        Link::Bad(Conditions {
            delay: Duration::from_millis(15),
            jitter: Duration::from_millis(5),
            loss_percent: 10.0,
            seed: 7,
        }),
    )
    .unwrap();
    let knocks = "for i in {1..20}; do echo >/dev/tcp/node1/9; done";
    let began = Instant::now();
    let answers = told(&shell(&hosts, 0, knocks));
    assert_eq!(answers.matches(REFUSED).count(), 20, "{answers}");
    // There and back, each at least 10 ms.
    assert!(began.elapsed() > Duration::from_millis(20 * 20));
    let traffic = hosts.traffic();
    let n_frames = traffic.lost + traffic.delivered;
    assert!(traffic.delivered >= 40, "{traffic:?}");
    let share = 100 * traffic.lost / n_frames;
    assert!((2..25).contains(&share), "{traffic:?}");
}

#[test]
fn the_agent_runs_a_command_line_on_the_host_that_it_names() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(2, Link::Clean).unwrap();
    let call = "export SECRET=1; echo input | /tmp/agent -x -l root node1 'hostname; cat;' 'echo $SECRET;' exit 7";
    let output = shell(&hosts, 0, call);
    assert_eq!(told(&output), "node1\ninput");
    assert_eq!(output.status.code(), Some(7));
    let output = shell(&hosts, 0, "/tmp/agent node2 true");
    assert_eq!(told(&output), "agent: no host is called 'node2'");
    assert_eq!(output.status.code(), Some(255));
}

#[test]
fn processes_are_listed_by_host_until_they_end() {
    if !are_wanted() {
        return;
    }
    let hosts = Hosts::new(2, Link::Clean).unwrap();
    assert_eq!([hosts.processes(0), hosts.processes(1)], [[], []]);
    let mut sleeper = hosts.command(1, "sleep").arg("1000").spawn().unwrap();
    eventually("the host runs it", || !hosts.processes(1).is_empty());
    assert_eq!(hosts.processes(0), []);
    drop(hosts);
    let status = sleeper.wait().unwrap();
    assert!(!status.success(), "it ended with its host");
}

#[test]
fn nothing_is_left_of_hosts_whose_maker_is_killed() {
    if !are_wanted() {
        return;
    }
    // No other process sleeps for this duration.
    let nap = format!("98765.{}", std::process::id());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-test-hosts"));
    let sleepers = format!(
        "sleep {nap} & setsid sleep {nap} & /tmp/agent node1 'setsid sleep {nap} & sleep {nap}'"
    );
    command.args(["-n", "2", "--delay", "1", "--", "sh", "-c", &sleepers]);
    let job = job::start(command);
    eventually("they sleep", || sleeping(&nap) == 4);
    job.signal(Signal::KILL);
    eventually("nobody sleeps", || sleeping(&nap) == 0);
    eventually("no host is left", || job.processes().is_empty());
    assert_eq!(job.end().code(), 128 + 9);
}

/// The number of processes that sleep for this duration.
fn sleeping(nap: &str) -> usize {
    let command_line = format!("sleep\0{nap}\0");
    let entries = fs::read_dir("/proc").expect("the system shows its processes");
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines
        .filter(|line| *line == command_line.as_bytes())
        .count()
}

#[test]
fn who_may_not_make_hosts_is_told_why_on_one_line() {
    if !are_wanted() {
        return;
    }
    let output = Command::new("setpriv")
        .arg("--bounding-set=-sys_admin")
        .arg(env!("CARGO_BIN_EXE_pgas-test-hosts"))
        .args(["--", "true"])
        .output()
        .unwrap();
    let told = told(&output);
    assert!(!output.status.success());
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.starts_with("pgas-test-hosts: cannot make test hosts: unshare"),
        "{told}"
    );
    assert!(
        told.contains("it takes root with the capabilities"),
        "{told}"
    );
}

#[test]
fn a_number_of_hosts_that_cannot_be_is_refused() {
    for n_hosts in [0, 65] {
        let error = Hosts::new(n_hosts, Link::Clean).unwrap_err();
        assert!(error.to_string().contains("between 1 and 64"), "{error}");
    }
}
