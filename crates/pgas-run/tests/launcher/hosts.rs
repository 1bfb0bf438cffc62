//! Jobs over several hosts, all of which are this machine: the agents of these tests go nowhere.
//! Hosts with networks of their own are tested with libfabric
//! (`crates/backend-ofi/tests/hosts.rs`).

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pgas_testkit::soon::Moment;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::job::{END_OF_JOB, Ended, eventually, start};

/// An agent that runs what it is told on this machine, whatever the host is called.
pub(crate) const HERE: &str = r#"shift; exec "$@""#;

/// The path of a file of this process's tests.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = path.join(format!("{name}.{}", std::process::id()));
    fs::write(&path, text).unwrap();
    path
}

/// `pgas-run` on hosts, with a shell script as the agent and one as the program.
fn on_hosts(name: &str, agent: &str, options: &[&str], script: &str) -> Command {
    let agent = file(name, agent);
    let mut command = Command::new("env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_pgas-run")])
        .args(["--agent", &format!("sh {}", agent.display())])
        .args(options)
        .args(["--", "bash", "-c", script]);
    command
}

fn run(name: &str, agent: &str, options: &[&str], script: &str) -> Ended {
    start(on_hosts(name, agent, options, script)).end()
}

/// Asserts that the job ended with this code and one line of the launcher with this beginning, and
/// that nothing is left.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, line: &str) {
    assert_eq!(ended.code(), code, "{ended:?}");
    let told = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("pgas: "));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), 1, "{ended:?}");
    assert!(told[0].starts_with(&format!("pgas: {line}")), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn every_rank_learns_its_place() {
    let script = "echo $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS, \
                  $PGAS_BACKEND $A $PGAS_SEGMENT in $PWD";
    let list = file("list", "one:2 # the first\ntwo slots=3\n");
    let list = list.to_str().unwrap();
    let options = ["--hostfile", list, "-n", "4", "--prefix", "-e", "A=b"];
    let mut command = on_hosts("place", HERE, &options, script);
    command.env("PGAS_SEGMENT", "7M").current_dir("/tmp");
    let ended = start(command).end();
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    let expected = [(0, 0, 2), (1, 1, 2), (2, 0, 2), (3, 1, 2)].map(|(rank, place, here)| {
        format!("[{rank}] {rank} of 4, {place} of {here}, ofi b 7M in /tmp")
    });
    assert_eq!(lines, expected, "{ended:?}");
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn times_without_an_end_are_taken_for_long_ones() {
    for (number, most) in ["9223372036854775807", "18446744073709549568"]
        .into_iter()
        .enumerate()
    {
        let options = ["--watch", "--start-timeout", "--timeout"];
        let mut options = options.map(|option| format!("{option}={most}")).to_vec();
        options.push("--hosts=one,two".to_owned());
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let name = format!("longest{number}");
        let mut command = on_hosts(&name, HERE, &options, "exit 0");
        command.env("PGAS_SILENCE", most);
        let ended = start(command).end();
        assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    }
}

#[test]
fn many_hosts_are_reached_although_few_descriptors_are_usual() {
    let names: Vec<String> = (0..50).map(|host| format!("host{host}")).collect();
    let mut command = Command::new("sh");
    let limited = "ulimit -Sn 128; exec \"$0\" \"$@\"";
    let agent = file("many", HERE);
    command.args(["-c", limited, env!("CARGO_BIN_EXE_pgas-run")]);
    command.args(["--agent", &format!("sh {}", agent.display())]);
    command.args(["--hosts", &names.join(","), "--", "sh", "-c", "ulimit -Sn"]);
    let ended = start(command).end();
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert_eq!(ended.stdout, "128\n".repeat(50), "ranks keep their limit");
}

#[test]
fn too_few_descriptors_for_all_hosts_are_told_at_once() {
    let names: Vec<String> = (0..30).map(|host| format!("host{host}")).collect();
    let mut command = Command::new("sh");
    // Enough for the agents, each of which takes four, and not for all connections.
    let limited = "ulimit -n 140; exec \"$0\" \"$@\"";
    let agent = file("few", HERE);
    command.args(["-c", limited, env!("CARGO_BIN_EXE_pgas-run")]);
    command.args(["--agent", &format!("sh {}", agent.display())]);
    command.args(["--bind", "127.0.0.1", "--hosts", &names.join(",")]);
    command.args(["--", "sleep", "60"]);
    let ended = start(command).end();
    assert_ended(&ended, 1, "cannot accept the connections of hosts: ");
    assert!(ended.stderr.contains("raise `ulimit -Hn`"), "{ended:?}");
    assert!(ended.took < 2 * END_OF_JOB, "{ended:?}");
}

#[test]
fn lines_of_different_hosts_never_mix() {
    let script = "for i in $(seq 500); do printf '%s %s ' $PMI_RANK $i; echo abcdefghij; done";
    let ended = run("lines", HERE, &["--hosts", "one:2,two"], script);
    let is_whole = |line: &str| line.split(' ').count() == 3 && line.ends_with(" abcdefghij");
    assert_eq!(
        ended.stdout.lines().filter(|line| is_whole(line)).count(),
        1500
    );
}

#[test]
fn a_rank_that_fails_ends_the_job_and_is_named_with_its_host() {
    let hosts = ["--hosts", "one:2,two:1"];
    let script = "test $PMI_RANK = 2 && exit 7; sleep 60";
    let ended = run("exit", HERE, &hosts, script);
    assert_ended(&ended, 7, "host two: rank 2 (pid ");
    assert!(ended.took < END_OF_JOB, "{ended:?}");
    let script = "test $PMI_RANK = 1 && kill -9 $$; trap '' TERM; while :; do sleep 0.1; done";
    let ended = run("killed", HERE, &hosts, script);
    assert_ended(&ended, 137, "host one: rank 1 (pid ");
    assert!(ended.took < 2 * END_OF_JOB, "{ended:?}");
}

#[test]
fn a_program_that_is_not_there_is_named_with_the_host() {
    let agent = file("program", HERE);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    command.args(["--hosts", "one"]);
    command.args([
        "--agent",
        &format!("sh {}", agent.display()),
        "nosuchprogram",
    ]);
    let ended = start(command).end();
    assert_ended(&ended, 127, "host one: cannot start \"nosuchprogram\": ");
}

#[test]
fn a_host_that_never_comes_is_named_within_the_time_for_it() {
    let agent = r#"test $1 = two && exec sleep 60; shift; exec "$@""#;
    let options = ["--hosts", "one,two", "--start-timeout", "0.5"];
    let ended = run("never", agent, &options, "sleep 60");
    assert_ended(
        &ended,
        1,
        "host two: has not connected within 0.5 s (--start-timeout)",
    );
    assert!(ended.took < 2 * END_OF_JOB, "{ended:?}");
}

#[test]
fn an_agent_that_cannot_reach_its_host_is_named() {
    let agent = r#"test $1 = two && exit 255; shift; exec "$@""#;
    let ended = run("unreachable", agent, &["--hosts", "one,two"], "sleep 60");
    assert_ended(&ended, 1, "host two: its agent (sh ");
    assert!(
        ended
            .stderr
            .contains("has ended before it had connected: exit status: 255")
    );
}

#[test]
fn an_agent_that_ends_early_ends_the_job() {
    let script = "test $PMI_RANK = 2 && kill -9 $PPID; sleep 60";
    let ended = run("early", HERE, &["--hosts", "one:2,two"], script);
    assert_ended(&ended, 1, "host two: its agent has ended early");
    assert!(ended.took < END_OF_JOB, "{ended:?}");
}

/// As `ssh` does whose connection is lost with what its ranks have written last.
#[test]
fn an_agent_that_fails_after_its_ranks_have_ended_well_is_told() {
    let agent = r#"test $1 = two && { shift; "$@"; exit 255; }; shift; exec "$@""#;
    let ended = run("lost", agent, &["--hosts", "one,two"], "exit 0");
    assert_ended(&ended, 1, "host two: its agent (sh ");
    let told = "has ended without all of its ranks' output: exit status: 255";
    assert!(ended.stderr.contains(told), "{ended:?}");
}

/// The last message of a host may come late, by a network that loses some.
#[test]
fn a_host_is_listened_to_when_its_agent_has_ended() {
    let began = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let began = began.join(format!("began.{}", std::process::id()));
    let agent = format!(
        r#"shift
        exec 3<&0
        "$@" <&3 &
        until test -e {0}; do sleep 0.01; done; rm {0}"#,
        began.display()
    );
    let script = |rest: &str| format!("touch {}; {rest}", began.display());
    for (rest, code) in [("sleep 1; exit 0", 0), ("sleep 1; exit 3", 3)] {
        let ended = run("listened", &agent, &["--hosts", "one"], &script(rest));
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(!ended.stderr.contains("agent"), "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
    }
    // Not for ever.
    let ended = run("mute", &agent, &["--hosts", "one"], &script("sleep 600"));
    assert_eq!(ended.code(), 1, "{ended:?}");
    let told = "host one: its agent has ended early";
    assert!(ended.stderr.contains(told), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// As `ssh` to a host that is lost just then.
#[test]
fn an_agent_that_does_not_end_after_its_ranks_is_given_up() {
    let agent = r#"shift; "$@"; echo over; exec sleep 600"#;
    let job = |silence| {
        let mut command = on_hosts("lingers", agent, &["--hosts", "one"], "true");
        command.env("PGAS_SILENCE", silence);
        start(command)
    };
    let ended = job("3").end();
    let told = "host one: its ranks have ended, but its agent has not, ";
    assert_ended(&ended, 1, told);
    // Without a limit: at a request, the first one.
    let mut job = job("0");
    job.lines(1);
    job.signal(Signal::TERM);
    assert_ended(&job.end(), 143, "SIGTERM");
}

#[test]
fn an_agent_whose_output_is_read_late_is_waited_for() {
    let output = file("late.output", "");
    let agent = format!(r#"shift; "$@" > {0}; cat {0}"#, output.display());
    let script = "head -c 3000000 /dev/zero | tr '\\0' '\\n'";
    let job = on_hosts("late", &agent, &["--hosts", "one"], script);
    let mut command = Command::new("bash");
    // Later than the limit for an agent that says nothing.
    let late = "set -o pipefail; \"$@\" | { sleep 5; wc -l; }";
    command.args(["-c", late, "bash"]);
    command.arg(job.get_program()).args(job.get_args());
    command.env("PGAS_SILENCE", "3");
    let ended = start(command).end();
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "3000000\n"),
        "{ended:?}"
    );
}

#[test]
fn what_an_agent_leaves_behind_ends_with_the_job() {
    let agent = r#"shift; sleep 60 > /dev/null 2>&1 & exec "$@""#;
    for (script, code) in [("exit 0", 0), ("exit 3", 3)] {
        let ended = run("behind", agent, &["--hosts", "one,two"], script);
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.took < END_OF_JOB, "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
    }
}

#[test]
fn who_has_not_the_token_is_refused() {
    // Such a host is reported, and its end ends the job.
    let agent = r#"test $1 = two && {
            shift
            sed -u "3s/.*/300/;s/ [0-9a-f]* \([0-9a-f]\{32\}\)\$/ 0 \1/;/^[.]\$/q" | "$@"
            exit
        }
        shift; exec "$@""#;
    let options = ["--hosts", "one,two", "--start-timeout", "20"];
    let ended = run("token", agent, &options, "sleep 60");
    assert_eq!(ended.code(), 1, "{ended:?}");
    for told in [
        "which has not this job's token",
        "cannot reach the launcher within 0.3 s, last at ",
        ": it has another token for this host",
        "host two: its agent (sh ",
    ] {
        assert!(ended.stderr.contains(told), "{told}: {ended:?}");
    }
    assert!(ended.left.is_empty(), "{ended:?}");
    // Another process that listens there is not obeyed.
    let agent = r#"shift; sed -u "s/[0-9a-f]\{32\}\$/0/;/^[.]\$/q" | "$@""#;
    let ended = run(
        "stranger",
        agent,
        &["--hosts", "one", "--start-timeout", "0.5"],
        "echo no",
    );
    assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(ended.stderr.contains("host one: "), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// All addresses of a launcher in another network that lead here belong to somebody else.
#[test]
fn a_host_of_another_network_sends_no_token_to_itself() {
    let agent = r#"shift; sed -u "3s/.*/300/;5s/ [0-9a-f]*\$/ 1/;/^[.]\$/q" | "$@""#;
    let options = ["--hosts", "one", "--start-timeout", "20"];
    let ended = run("itself", agent, &options, "echo no");
    assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{ended:?}");
    let told = " is an address of this host, too";
    assert!(ended.stderr.contains(told), "{ended:?}");
    let told = "which has not this job's token";
    assert!(!ended.stderr.contains(told), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn a_second_agent_for_a_host_is_refused_and_the_job_goes_on() {
    let agent = r#"shift
        told=$(sed -u "/^[.]\$/q")
        echo "$told" | "$@" &
        echo "$told" | "$@"
        wait"#;
    let ended = run(
        "second",
        agent,
        &["--hosts", "one"],
        "sleep 0.3; echo $PMI_RANK",
    );
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "0\n"),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains("host one: refused a second agent, at "),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains("another agent has come as host 0 before"),
        "{ended:?}"
    );
}

#[test]
fn the_token_is_in_no_command_line_and_no_environment() {
    let tokens = file("tokens", "");
    let agent = format!(
        r#"shift
        told=$(sed -u "/^[.]\$/q")
        echo "$told" | grep -o "[0-9a-f]\{{32\}}" > {}
        echo "$told" | "$@""#,
        tokens.display()
    );
    let script = format!(
        "wc -l < {0}; grep -alF -f {0} /proc/[0-9]*/cmdline /proc/[0-9]*/environ",
        tokens.display()
    );
    let ended = run(
        "ps",
        &agent,
        &["--hosts", "one", "--bind", "127.0.0.1"],
        &format!("{script} 2> /dev/null; true"),
    );
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "2\n"),
        "{ended:?}"
    );
}

#[test]
fn ranks_that_others_wait_for_in_vain_are_named_with_their_host() {
    let script = "test $PMI_RANK = 1 && exit
        echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD
        read line <&$PMI_FD
        echo cmd=barrier_in >&$PMI_FD
        read line <&$PMI_FD";
    let ended = run("vain", HERE, &["--hosts", "one,two"], script);
    assert_ended(
        &ended,
        1,
        "host two: its ranks have ended without those of host one, which wait",
    );
}

#[test]
fn a_rank_that_finalizes_while_others_of_its_host_wait_for_it_is_named() {
    let script = "ask() { echo cmd=$1 >&$PMI_FD; read -r line <&$PMI_FD; }
        ask 'init pmi_version=1 pmi_subversion=1'
        ask barrier_in
        test $PMI_RANK = 1 && ask finalize && exit
        ask barrier_in";
    for hosts in ["one:3", "one:2,two"] {
        let ended = run("missed", HERE, &["--hosts", hosts], script);
        let cause = "rank 1 has finalized while others wait for it in a barrier";
        assert_ended(&ended, 1, &format!("host one: {cause}"));
    }
}

#[test]
fn ranks_that_never_join_are_named_with_their_hosts_within_the_time_for_it() {
    let script = "test $PMI_RANK = 1 -o $PMI_RANK -ge 3 && exec sleep 60
        echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD
        read line <&$PMI_FD
        echo cmd=barrier_in >&$PMI_FD
        read line <&$PMI_FD";
    let run = |hosts| {
        let options = ["--hosts", hosts, "--start-timeout", "0.5"];
        run("joins", HERE, &options, script)
    };
    let rest = "not joined the others within 0.5 s (--start-timeout); ending the job";
    for (hosts, who) in [
        ("one:2,two", "rank 1 of host one has"),
        (
            "one:3,two:2",
            "rank 1 of host one, ranks 3 and 4 of host two have",
        ),
    ] {
        let ended = run(hosts);
        assert_ended(&ended, 1, &format!("{who} {rest}"));
        assert!(ended.took < 2 * END_OF_JOB, "{ended:?}");
    }
}

#[test]
fn the_time_to_join_begins_when_a_rank_waits_and_ends_when_all_have_met() {
    let script = "ask() { echo cmd=$1 >&$PMI_FD; read -r line <&$PMI_FD; }
        sleep 0.7
        ask 'init pmi_version=1 pmi_subversion=1'
        ask barrier_in
        test $PMI_RANK = 1 && sleep 0.7
        ask barrier_in
        ask finalize";
    let options = ["--hosts", "one,two:2", "--start-timeout", "0.5"];
    let ended = run("late", HERE, &options, script);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
}

#[test]
fn what_ranks_say_reaches_those_of_other_hosts() {
    let script = "ask() { echo cmd=$1 >&$PMI_FD; read -r line <&$PMI_FD; }
        ask 'init pmi_version=1 pmi_subversion=1'
        ask \"put kvsname=k key=of-$PMI_RANK value=$PMI_RANK$PMI_RANK\"
        ask barrier_in
        for other in 0 1 2; do ask \"get kvsname=k key=of-$other\"; echo ${line##*=}; done
        ask finalize";
    let ended = run("say", HERE, &["--hosts", "one:2,two"], script);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    for said in ["00", "11", "22"] {
        assert_eq!(
            lines.iter().filter(|line| **line == said).count(),
            3,
            "{ended:?}"
        );
    }
}

#[test]
fn a_rank_that_fails_when_it_has_left_has_spoken_for_itself() {
    let script = "for line in 'init pmi_version=1 pmi_subversion=1' finalize; do
            echo cmd=$line >&$PMI_FD; read line <&$PMI_FD
        done
        test $PMI_RANK = 0 || exec sleep 60
        echo why >&2; exit 3";
    let ended = run("left", HERE, &["--hosts", "one,two"], script);
    let expected = (3, "why\n");
    assert_eq!((ended.code(), ended.stderr.as_str()), expected, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[test]
fn a_rank_that_joins_and_ends_without_leaving_ends_the_job() {
    let script = "test $PMI_RANK = 1 || exec sleep 60
        echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD
        read line <&$PMI_FD";
    let ended = run("leave", HERE, &["--hosts", "one:2"], script);
    assert_ended(&ended, 1, "host one: rank 1 (pid ");
    assert!(
        ended
            .stderr
            .contains("exited with code 0 without leaving the job"),
        "{ended:?}"
    );
}

#[test]
fn a_request_to_end_reaches_the_ranks_of_all_hosts() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let hosts = ["--hosts", "one:2,two"];
        let mut job = start(on_hosts("ask", HERE, &hosts, "echo ready; exec sleep 60"));
        job.lines(3);
        let sent = Moment::now();
        job.signal(signal);
        let ended = job.end();
        assert!(sent.elapsed() < END_OF_JOB, "{ended:?}");
        assert_ended(&ended, code, "SIG");
    }
}

#[test]
fn a_second_request_to_end_kills_the_ranks_of_all_hosts() {
    let script = "trap 'echo no' INT; echo ready; while :; do sleep 0.02; done";
    let mut job = start(on_hosts("twice", HERE, &["--hosts", "one,two"], script));
    job.lines(2);
    job.signal(Signal::INT);
    assert_eq!(job.lines(2), ["no", "no"]);
    std::thread::sleep(Duration::from_millis(250));
    job.signal(Signal::INT);
    let ended = job.end();
    assert_ended(&ended, 130, "SIGINT ended the job after ");
}

/// The system keeps the connection of a process that is stopped.
#[test]
fn a_host_whose_launcher_is_stopped_ends_the_job_after_the_time_for_silence() {
    for (script, n_lines) in [("echo ready; exec sleep 60", 3), ("echo ready; sleep 1", 3)] {
        let mut command = on_hosts("silent", HERE, &["--hosts", "one:2,two"], script);
        command.env("PGAS_SILENCE", "3");
        let mut job = start(command);
        job.lines(n_lines);
        let served = |process: &u32| {
            let line = fs::read_to_string(format!("/proc/{process}/cmdline"));
            line.is_ok_and(|line| line.contains("--serve-host"))
        };
        let all = job.processes();
        let host = all.into_iter().find(served).expect("each host has one");
        let host = Pid::from_raw(host.cast_signed()).unwrap();
        kill_process(host, Signal::STOP).unwrap();
        let ended = job.end();
        assert_eq!(ended.code(), 1, "{ended:?}");
        let told = "nothing was heard of it for 3 s (PGAS_SILENCE)";
        assert!(ended.stderr.contains(told), "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_job_that_is_stopped_as_a_whole_goes_on() {
    let script = "echo ready; sleep 1; echo done";
    let mut command = on_hosts("suspended", HERE, &["--hosts", "one,two"], script);
    command.env("PGAS_SILENCE", "3");
    let mut job = start(command);
    assert_eq!(job.lines(2), ["ready"; 2]);
    let all = job.processes();
    let tell = |signal| {
        for process in &all {
            let process = Pid::from_raw(process.cast_signed()).unwrap();
            // Some may have ended, such as a shell's child.
            let told = kill_process(process, signal);
            assert!(matches!(told, Ok(()) | Err(Errno::SRCH)), "{told:?}");
        }
    };
    tell(Signal::STOP);
    std::thread::sleep(Duration::from_secs(5));
    // The launcher goes on before the hosts can give a sign of life.
    job.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(300));
    tell(Signal::CONT);
    assert_eq!(job.lines(2), ["done"; 2]);
    let ended = job.end();
    assert_eq!((ended.code(), &*ended.stderr), (0, ""), "{ended:?}");
}

/// Ends a job one host of which is stopped, while more is sent to it than the system keeps for a
/// process that does not read.
fn one_does_not_read(name: &str, silence: Option<&str>) -> Ended {
    let all_said = file(&format!("{name}.all"), "");
    let stopped = file(name, "");
    let script = format!(
        "ask() {{ echo \"cmd=$1\" >&$PMI_FD; read -r line <&$PMI_FD; }}
        ask 'init pmi_version=1 pmi_subversion=1'
        if test $PMI_RANK = 1; then
            until test -s {1}; do sleep 0.05; done
            echo cmd=barrier_in >&$PMI_FD
            # Its answer comes behind what the host sends for the barrier.
            ask get_maxes
            kill -STOP $PPID
            echo stopped > {0}
            exec sleep 60
        fi
        printf -v value %060000d 0
        for i in $(seq 200); do ask \"put kvsname=k key=$i value=$value\"; done
        echo all > {1}
        until test -s {0}; do sleep 0.05; done
        ask barrier_in
        exec sleep 60",
        stopped.display(),
        all_said.display()
    );
    let mut command = on_hosts(
        &format!("{name}.sh"),
        HERE,
        &["--hosts", "one,two"],
        &script,
    );
    command.envs(silence.map(|silence| ("PGAS_SILENCE", silence)));
    start(command).end()
}

#[test]
fn a_host_that_does_not_read_is_told_as_such() {
    let ended = one_does_not_read("reads", None);
    let told = "host two: the connection to it is lost: it has read nothing for 10 s";
    assert_ended(&ended, 1, told);
    // Not once more for the part that was sent.
    assert!(ended.took < Duration::from_secs(20), "{ended:?}");
}

/// The system gives the connection up before the launcher does.
#[test]
fn a_host_that_does_not_read_for_the_time_for_silence_is_silent() {
    let ended = one_does_not_read("silently", Some("4"));
    assert_ended(
        &ended,
        1,
        "host two: nothing was heard of it for 4 s (PGAS_SILENCE)",
    );
}

#[test]
fn nothing_outlives_a_launcher_that_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let mut job = start(on_hosts("orphans", HERE, &["--hosts", "one:2,two"], script));
    job.lines(3);
    let launcher = Pid::from_child(&job.child);
    kill_process(launcher, Signal::KILL).unwrap();
    // The one that was killed is a zombie until it is waited for, without an environment.
    eventually("all have ended", || job.processes().is_empty());
    let ended = job.end();
    assert_eq!(ended.code(), 137, "{ended:?}");
}

#[test]
fn a_job_over_hosts_ends_when_its_time_is_over() {
    let options = ["--hosts", "one,two", "--timeout", "0.5"];
    let ended = run("time", HERE, &options, "sleep 60");
    assert_ended(&ended, 124, "the job did not end within 0.5 s");
}

#[test]
fn hosts_that_make_no_sense_are_refused() {
    for (options, told) in [
        (
            &["--hosts", "a,-x"][..],
            "--hosts a,-x: \"-x\" is not the name of a host",
        ),
        (
            &["--hosts", "a:2", "-n", "3"],
            "--hosts a:2: 3 ranks do not fit: the hosts have 2 places",
        ),
        (
            &["--hostfile", "/nosuch"],
            "--hostfile /nosuch: No such file",
        ),
        (
            &["--hostfile", "/dev/zero"],
            "--hostfile /dev/zero: a list of hosts has at most 64 MiB",
        ),
        (&["--hosts", "a", "--inherit"], "--inherit: "),
        (
            &["--hosts", "a", "--bind", "192.0.2.1"],
            "--bind 192.0.2.1: ",
        ),
        (
            &["--hosts", "a", "--agent", "/nosuch"],
            "cannot start the agent /nosuch: ",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
        command.args(options).args(["--", "true"]);
        let ended = start(command).end();
        assert_eq!(ended.code(), 1, "{ended:?}");
        assert!(ended.stderr.contains(told), "{told}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
}
