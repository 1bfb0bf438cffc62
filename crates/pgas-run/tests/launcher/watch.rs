//! What `pgas-run --watch` and `pgas-top` show of a job, without a terminal.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use pgas_core::Config;
use pgas_core::stats::Unit;
use pgas_testkit::Deadline;
use pgas_testkit::job::JOB_LIMIT;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::hosts::{HERE, file};
use crate::job::{Ended, pgas_run, start};
use crate::self_launch::{PART, variable};

/// The time for which the last rank lets the others wait.
const LATE: Duration = Duration::from_millis(2700);

/// A rank of the job that is watched. Elsewhere it does nothing.
#[test]
fn rank_of_a_watched_job() {
    if variable(PART).as_deref() != Some("watched") {
        return;
    }
    let world = pgas_smp::init(&Config::from_env().unwrap()).unwrap();
    let own: pgas_core::GlobalPtr<u64> = world.alloc(1).unwrap();
    world.barrier().unwrap();
    if world.rank().index() == 2 {
        let work = world.work("solving", 4, Unit::Elements);
        work.add(1);
        for n in 0..1000 {
            own.put(&world, n).unwrap();
        }
        if let Some(top) = variable("LAUNCHER_TEST_TOP") {
            // By then the others have waited for long.
            thread::sleep(LATE);
            let process = match variable("LAUNCHER_TEST_TOP_OF").as_deref() {
                Some("launcher") => std::os::unix::process::parent_id(),
                _ => std::process::id(),
            };
            let seen = Command::new(top).arg(process.to_string()).output();
            let seen = seen.unwrap();
            pgas_core::notice::tell(&String::from_utf8_lossy(&seen.stdout));
        }
        thread::sleep(LATE);
    }
    world.barrier().unwrap();
}

/// A rank that ends its job while another thread of it prints. Elsewhere it does nothing.
#[test]
fn rank_that_aborts() {
    if variable(PART).as_deref() == Some("aborts") {
        let world = pgas_smp::init(&Config::from_env().unwrap()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        thread::spawn(move || -> ! {
            let _output = io::stdout().lock();
            tell.send(()).unwrap();
            loop {
                thread::park();
            }
        });
        told.recv().unwrap();
        world.abort(7, "on purpose");
    }
}

#[test]
fn a_rank_aborts_although_another_thread_has_locked_the_output() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "watch::rank_that_aborts", "--nocapture"]);
    command.env(PART, "aborts").env("PGAS_SEGMENT", "1M");
    let ended = start(command).end();
    assert_eq!(ended.code(), 7, "{ended:?}");
}

/// A job that fails after it has counted. Elsewhere it does nothing.
#[test]
fn rank_of_a_job_that_fails() {
    if variable(PART).as_deref() == Some("fails") {
        let world = pgas_smp::init(&Config::from_env().unwrap()).unwrap();
        world.barrier().unwrap();
        pgas_core::notice::tell(&"is about to fail");
        panic!("fails");
    }
}

#[test]
fn a_failed_job_with_statistics_ends_although_nobody_reads_them() {
    let _deadline = Deadline::new("a failed job whose errors nobody reads", JOB_LIMIT);
    for hosts in [false, true] {
        let (_reader, writer) = io::pipe().unwrap();
        let former = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        while (&writer).write(&[b'x'; 4096]).is_ok() {}
        fcntl_setfl(&writer, former).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
        if hosts {
            let agent = format!("sh {}", file("figures", HERE).display());
            command.args(["--hosts", "one", "--agent", &agent]);
        } else {
            command.args(["-n", "1"]);
        }
        let this = std::env::current_exe().unwrap();
        command.args(["-e", "PGAS_STATS=1", "--"]).arg(this);
        command.args(["--exact", "watch::rank_of_a_job_that_fails", "--nocapture"]);
        command.env(PART, "fails").env("PGAS_SEGMENT", "1M");
        let status = command.stdout(Stdio::null()).stderr(writer).status();
        let status = status.unwrap();
        assert_eq!(status.code(), Some(101));
    }
}

/// The watched job on this host.
fn watched(options: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    command.args(["-n", "3"]).args(options).arg("--");
    watched_by(command)
}

/// The watched job, by a launcher with its options.
fn watched_by(mut command: Command) -> Ended {
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "watch::rank_of_a_watched_job", "--nocapture"]);
    command.env(PART, "watched").env("PGAS_SEGMENT", "1M");
    let ended = start(command).end();
    assert!(ended.status.success(), "{}", ended.stderr);
    ended
}

#[test]
fn a_watched_job_tells_in_lines_who_waits_for_whom_and_keeps_its_output() {
    let ended = watched(&["--watch=0.3", "-e", "PGAS_STATS=1"]);
    assert_is_told(&ended, "3 ranks of ");
}

/// The launcher gets what each host sees of its ranks. Here there is one host. Two are tested in
/// `crates/backend-ofi/tests/hosts.rs`.
#[test]
fn a_watched_job_over_hosts_tells_the_same() {
    let agent = file("watched", HERE);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    command.args(["--agent", &format!("sh {}", agent.display())]);
    command.args([
        "--hosts",
        "one:3",
        "--watch=0.3",
        "-e",
        "PGAS_STATS=1",
        "--",
    ]);
    let ended = watched_by(command);
    assert_is_told(&ended, "3 ranks of ");
    assert!(ended.left.is_empty(), "{ended:?}");
}

#[track_caller]
fn assert_is_told(ended: &Ended, ranks: &str) {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_told = |parts: &[&str]| {
        let has_all = |line: &&&str| parts.iter().all(|part| line.contains(part));
        assert!(
            lines.iter().any(|line| has_all(&line)),
            "{parts:?} in {ended:?}"
        );
    };
    is_told(&["pgas: ", ranks, "2 wait", "operations/s", "memory "]);
    is_told(&["pgas:   solving: 25 %, 1 of 4, "]);
    for rank in ["rank 0 waits ", "rank 1 waits "] {
        is_told(&[rank, " s for a barrier, of rank 2, at ", "watch.rs:"]);
    }
    is_told(&["rank 2 sleeps; 2 ranks have waited for it, for up to "]);
    assert_eq!(
        ended.stdout.matches("running 1 test").count(),
        3,
        "{ended:?}"
    );
}

#[test]
fn pgas_top_shows_a_job_that_it_finds_by_one_of_its_processes() {
    let top = format!("LAUNCHER_TEST_TOP={}", env!("CARGO_BIN_EXE_pgas-top"));
    let ended = watched(&["-e", &top]);
    let seen = ended.stderr;
    assert!(seen.contains("3 ranks of "), "{seen}");
    assert!(seen.contains("rank 0 waits "), "{seen}");
    assert!(seen.contains(" for a barrier, of rank 2, at "), "{seen}");
    assert!(!seen.contains("operations/s"), "nobody counts: {seen}");
}

#[test]
fn pgas_top_shows_a_job_of_a_foreign_launcher_by_that() {
    let launchers: [&[&str]; 2] = [
        &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
        &["mpiexec.hydra"],
    ];
    for launcher in launchers {
        if !crate::foreign::is_there(&[launcher[0], "--version"], "", "openmpi-bin, mpich") {
            continue;
        }
        let mut command = Command::new(launcher[0]);
        command.args(&launcher[1..]).args(["-n", "3"]);
        command.env("OMPI_MCA_orte_tmpdir_base", std::env::temp_dir());
        command.env("LAUNCHER_TEST_TOP", env!("CARGO_BIN_EXE_pgas-top"));
        command.env("LAUNCHER_TEST_TOP_OF", "launcher");
        let seen = watched_by(command).stderr;
        for part in [
            "3 ranks of ",
            "rank 0 waits ",
            " for a barrier, of rank 2, at ",
        ] {
            assert!(seen.contains(part), "{part}: {seen}");
        }
    }
}

/// Two of them, which do not take each other for the job.
#[test]
fn pgas_top_ends_with_a_job_whose_ranks_never_joined() {
    let folder = std::env::temp_dir().join(format!("pgas-top-{}", std::process::id()));
    let script = format!(
        "echo here; while ! test -e {}; do sleep 0.02; done; exit 3",
        folder.display()
    );
    let mut job = start(pgas_run(2, &[], &script));
    job.lines(2);
    let tops: Vec<_> = (0..2)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-top"));
            command.args(["--every", "0.1", &job.child.id().to_string()]);
            let mut top = start(command);
            assert!(top.lines(1)[0].contains("2 start"));
            top
        })
        .collect();
    std::fs::write(&folder, "").unwrap();
    assert_eq!(job.end().code(), 3);
    for top in tops {
        let ended = top.end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(ended.stdout.contains("2 dead"), "{ended:?}");
    }
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn pgas_top_says_of_a_process_that_it_is_none_of_a_job() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let mut top = Command::new(env!("CARGO_BIN_EXE_pgas-top"));
    top.arg(sleeper.id().to_string());
    let ended = start(top).end();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(ended.code(), 1, "{ended:?}");
    let line = format!("pgas-top: process {} is no rank", sleeper.id());
    assert!(ended.stderr.starts_with(&line), "{ended:?}");
}
