//! What `pgas-run --watch` and `pgas-top` show on terminals: a view, or lines if the terminal's size
//! is not known, or if it is too small or too simple for a view.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::job::{eventually, pgas_run, start};

/// The beginning of each command to a terminal.
const COMMAND: char = '\u{1b}';

/// A new terminal of so many lines and columns: its user's end, and the programs' end.
fn terminal((lines, columns): (u16, u16)) -> (OwnedFd, OwnedFd) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let programs = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    let size = Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&user, size).unwrap();
    (user, programs)
}

/// Starts `program` with arguments on a terminal of its own, whose user's end is returned.
fn begin(size: (u16, u16), kind: &str, program: &str, args: &[&str]) -> (Child, File) {
    let (user, programs) = terminal(size);
    let mut command = on_terminal(&programs, kind, program, args);
    (command.spawn().unwrap(), user.into())
}

/// The command that starts `program` with arguments on a terminal of its own.
fn on_terminal(terminal: &OwnedFd, kind: &str, program: &str, args: &[&str]) -> Command {
    let own = || Stdio::from(terminal.as_fd().try_clone_to_owned().unwrap());
    let mut command = Command::new("setsid");
    // Who runs the tests in the background may ignore some signals.
    command.args(["--wait", "--ctty", "env", "--default-signal", program]);
    command.args(args).env("TERM", kind);
    command.stdin(own()).stdout(own()).stderr(own());
    command
}

/// What comes to the user's end until no program has the terminal any more.
fn rest(mut user: File) -> String {
    let mut seen = Vec::new();
    // That end is an error.
    user.read_to_end(&mut seen).ok();
    String::from_utf8_lossy(&seen).into_owned()
}

/// Runs `program` with arguments on a terminal of its own, and returns what it shows there.
fn shown(size: (u16, u16), kind: &str, program: &str, args: &[&str]) -> String {
    let (mut child, user) = begin(size, kind, program, args);
    let seen = rest(user);
    assert!(child.wait().unwrap().success());
    seen
}

/// Terminals without room for a view, of no known size, and without commands.
const WITHOUT_VIEW: [((u16, u16), &str); 4] = [
    ((0, 0), "xterm"),
    ((3, 80), "xterm"),
    ((24, 1), "xterm"),
    ((24, 80), "dumb"),
];

#[test]
fn a_job_is_watched_in_lines_on_a_terminal_that_cannot_show_a_view() {
    let run = env!("CARGO_BIN_EXE_pgas-run");
    let args = ["-n", "1", "--watch=0.1", "sh", "-c", "sleep 1; echo over"];
    for (size, kind) in WITHOUT_VIEW {
        let seen = shown(size, kind, run, &args);
        assert!(seen.contains(": 1 rank"), "{size:?} {kind}: {seen}");
        assert!(seen.contains("over"), "{size:?} {kind}: {seen}");
        assert!(!seen.contains(COMMAND), "{size:?} {kind}: {seen:?}");
    }
    let seen = shown((24, 80), "xterm", run, &args);
    assert!(seen.contains(COMMAND) && seen.contains("1 rank"), "{seen}");
}

/// A rank that writes lines for as long as several views are drawn.
const LINES: &str = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.1; done";

#[test]
fn output_on_another_terminal_than_the_view_s_is_as_without_a_view() {
    let (viewer, programs) = terminal((24, 80));
    let (user, output) = terminal((24, 80));
    let run = env!("CARGO_BIN_EXE_pgas-run");
    let args = ["-n", "1", "--watch=0.05", "sh", "-c", LINES];
    let mut command = on_terminal(&programs, "xterm", run, &args);
    let mut child = command.stdout(output).spawn().unwrap();
    drop((command, programs));
    let (seen, view) = (rest(user.into()), rest(viewer.into()));
    assert!(child.wait().unwrap().success());
    let lines: Vec<String> = (1..=8).map(|i| format!("line {i}\r\n")).collect();
    assert_eq!(seen, lines.concat(), "{view:?}");
    assert!(view.contains(COMMAND) && view.contains("1 rank"), "{view}");
}

#[test]
fn output_is_above_the_view_although_its_terminal_is_named_differently() {
    let script = format!("exec {} \"$@\" 2> /dev/tty", env!("CARGO_BIN_EXE_pgas-run"));
    let args = [
        "-c",
        &script,
        "sh",
        "-n",
        "1",
        "--watch=0.05",
        "sh",
        "-c",
        LINES,
    ];
    let seen = shown((24, 80), "xterm", "sh", &args);
    let mut before_lines: Vec<&str> = seen.split("line ").collect();
    before_lines.pop();
    assert_eq!(before_lines.len(), 8, "{seen:?}");
    for text in before_lines {
        let has_view = text.contains("1 rank") && !text.ends_with("\x1b[J");
        assert!(!has_view, "{text:?}");
    }
}

/// What comes to the user's end until it contains `text`.
fn until(user: &mut File, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut bytes = [0; 1024];
        let n = user.read(&mut bytes).unwrap();
        seen += &String::from_utf8_lossy(&bytes[..n]);
    }
    seen
}

#[test]
fn the_first_interrupt_from_a_terminal_reaches_ranks_that_have_left_the_launcher_s_group() {
    let run = env!("CARGO_BIN_EXE_pgas-run");
    let script = "exec setsid sh -c 'echo ready; exec sleep 20'";
    let args = ["-n", "1", "sh", "-c", script];
    let (mut child, mut user) = begin((24, 80), "xterm", run, &args);
    until(&mut user, "ready");
    user.write_all(b"\x03").unwrap();
    let seen = rest(user);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2), "{seen}");
    assert!(seen.contains("pgas: SIGINT ended the job after "), "{seen}");
}

#[test]
fn a_watched_job_ends_although_the_user_has_stopped_the_terminal() {
    let run = env!("CARGO_BIN_EXE_pgas-run");
    let script = "echo ready; test $PGAS_RANK = 0 && read line && exit 3; exec sleep 60";
    let args = ["-n", "2", "--watch=0.05", "sh", "-c", script];
    let (mut child, mut user) = begin((24, 80), "xterm", run, &args);
    until(&mut user, "ready");
    until(&mut user, "2 ranks");
    // Nothing comes out any more, and rank 0 reads a line, and fails.
    user.write_all(b"\x13\n").unwrap();
    let mut ended = None;
    eventually("the job has ended", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(3));
}

#[test]
fn pgas_top_prints_lines_on_a_terminal_that_cannot_show_a_view() {
    let mut job = start(pgas_run(1, &[], "echo here; exec sleep 60"));
    job.lines(1);
    let process = job.child.id().to_string();
    let top = env!("CARGO_BIN_EXE_pgas-top");
    for (size, kind) in [WITHOUT_VIEW[0], WITHOUT_VIEW[3]] {
        let seen = shown(size, kind, top, &[&process]);
        assert!(seen.contains(": 1 rank"), "{size:?} {kind}: {seen}");
        assert!(!seen.contains(COMMAND), "{size:?} {kind}: {seen:?}");
    }
    job.child.kill().unwrap();
    assert_eq!(job.end().code(), 137);
}

#[test]
fn pgas_top_ends_although_its_own_signal_does_not_end_it() {
    let mut job = start(pgas_run(1, &[], "echo here; exec sleep 60"));
    job.lines(1);
    let process = job.child.id().to_string();
    let arguments = [
        "--block-signal=TERM",
        env!("CARGO_BIN_EXE_pgas-top"),
        &process,
    ];
    let (mut child, mut user) = begin((24, 80), "xterm", "env", &arguments);
    let mut seen = until(&mut user, "1 rank");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    seen += &rest(user);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15), "{seen:?}");
    job.child.kill().unwrap();
    assert_eq!(job.end().code(), 137);
}

#[test]
fn pgas_top_leaves_the_terminal_as_it_was_when_a_signal_ends_it() {
    let mut job = start(pgas_run(1, &[], "echo here; exec sleep 60"));
    job.lines(1);
    let process = job.child.id().to_string();
    let top = env!("CARGO_BIN_EXE_pgas-top");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (mut child, mut user) = begin((24, 80), "xterm", top, &[&process]);
        let mut seen = until(&mut user, "1 rank");
        kill_process(Pid::from_child(&child), signal).unwrap();
        seen += &rest(user);
        let ended = child.wait().unwrap();
        assert_eq!(ended.signal(), Some(signal.as_raw()), "{seen:?}");
        for (begins, ends) in [("[?1049h", "[?1049l"), ("[?25l", "[?25h")] {
            let (begun, ended) = (seen.rfind(begins), seen.rfind(ends));
            assert!(begun.is_some() && begun < ended, "{ends}: {seen:?}");
        }
    }
    job.child.kill().unwrap();
    assert_eq!(job.end().code(), 137);
}
