//! Programs of Linux as guests: one in Rust with the whole standard library, built here, on one and
//! several nodes.

mod harness;
mod small;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use pgas_riscv_sim::linux::Folder;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Error, Image, Outcome};

use harness::{Given, PROGRAM, Ran, given, machine, prints, run};

#[test]
fn the_standard_library_works_on_one_node_and_on_three() {
    for n_nodes in [1, 3] {
        let arguments = ["words", "a", "b", "a"];
        let Some(ran) = run(&given(n_nodes, &arguments)) else {
            return;
        };
        assert_eq!(ran.outcome.unwrap(), Outcome::Success);
        let expected = "[(\"a\", 2), (\"b\", 1)]    1.414 Ok(\"blue\")\n";
        assert_eq!(ran.output, vec![expected; n_nodes]);
        assert_eq!(ran.errors, vec!["to errors\n"; n_nodes]);
    }
    prints(&given(1, &["memory"]), "44999850000 true true\n");
    prints(&given(2, &["program"]), "true\n");
}

#[test]
fn clocks_show_simulated_time_and_a_sleeper_lets_others_go_on() {
    prints(&given(2, &["time"]), "true 1577836800\n");
    prints(&given(1, &["timeout"]), "");
}

#[test]
fn files_are_read_and_written_where_that_was_granted_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("in")).unwrap();
    std::fs::create_dir(path("out")).unwrap();
    std::fs::write(path("in/text"), "one\ntwo\n").unwrap();
    std::fs::write(path("secret"), "x").unwrap();
    let folders = |is_writable| {
        let grant = |name, is_writable| Folder {
            path: path(name).into(),
            is_writable,
        };
        vec![grant("in", false), grant("out", is_writable)]
    };
    for (mode, name, is_writable, expected) in [
        ("read", "in/text", false, "2 lines\n"),
        ("read", "in/none", false, "NotFound\n"),
        ("read", "secret", false, "PermissionDenied\n"),
        ("read", "in/../secret", false, "PermissionDenied\n"),
        ("write", "in/text", true, "Err(PermissionDenied)\n"),
        ("write", "out/new", false, "Err(PermissionDenied)\n"),
        ("write", "out/new", true, "Ok(())\n"),
        ("move", "out/new", true, "Ok(())\n"),
        ("move", "in/text", true, "Err(PermissionDenied)\n"),
        ("list", "in", false, "\"text\" 8\n"),
    ] {
        let name = path(name);
        let arguments = [mode, name.as_str()];
        let n_nodes = if mode == "move" { 1 } else { 2 };
        let given = Given {
            folders: folders(is_writable),
            ..given(n_nodes, &arguments)
        };
        prints(&given, expected);
    }
    if PROGRAM.is_some() {
        assert_eq!(std::fs::read(path("out/new.moved")).unwrap(), b"new");
        assert_eq!(std::fs::read(path("in/text")).unwrap(), b"one\ntwo\n");
    }
}

#[test]
fn files_are_copied_linked_locked_and_cut_as_the_libraries_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let granted = |arguments| Given {
        folders: vec![Folder {
            path: path.into(),
            is_writable: true,
        }],
        ..given(1, arguments)
    };
    let (files, calls) = (["files", path], ["calls", path]);
    prints(
        &granted(&files),
        "8 Err(PermissionDenied)\n21 [79, 110, 101]\ntrue true\none\ntwo\n\
         8 Err(DirectoryNotEmpty) true\nOk(false) \n",
    );
    prints(
        &granted(&calls),
        "9 -1 0 0\n0 -1 18\n3 0\n0 0 0\n0 32 0\n0 0 [0, 0, 0]\n-1 0\n\
         [116, 101, 120, 116, 0, 0]\n",
    );
}

/// Whoever reads this host's answers is not told more of it than that.
#[test]
#[cfg(target_os = "linux")]
fn calls_at_their_edges_are_answered_as_this_host_does() {
    if PROGRAM.is_none() {
        return;
    }
    let made = || {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("folder/inner")).unwrap();
        std::fs::write(path("ten"), "0123456789").unwrap();
        for (to, name) in [
            ("ten", "link"),
            ("ten", "replaced"),
            ("ten", "moved"),
            ("none", "dangling"),
            ("none", "taken"),
            ("folder", "to folder"),
            ("ten", "to ten"),
        ] {
            std::os::unix::fs::symlink(to, path(name)).unwrap();
        }
        let made = Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.unwrap().success());
        folder
    };
    let (here, there) = (made(), made());
    let folder = tempfile::tempdir().unwrap();
    let native = harness::native(folder.path());
    let output = Command::new(&native)
        .args(["edges", here.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected = String::from_utf8(output.stdout).unwrap();
    let arguments = ["edges", there.path().to_str().unwrap()];
    let given = Given {
        folders: vec![Folder {
            path: there.path().into(),
            is_writable: true,
        }],
        ..given(1, &arguments)
    };
    prints(&given, &expected);
}

/// Two nodes that add to one file, each with the lock.
#[test]
fn a_node_waits_for_the_lock_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let arguments = ["lock", path];
    let given = Given {
        folders: vec![Folder {
            path: path.into(),
            is_writable: true,
        }],
        ..given(3, &arguments)
    };
    prints(&given, "");
    if PROGRAM.is_some() {
        let sum = std::fs::read_to_string(folder.path().join("sum")).unwrap();
        assert_eq!(sum, "60");
    }
}

/// How a run of two nodes ends that may write files: without a clock, or with one.
fn run_with_files(mode: &str, is_timed: bool) -> Option<Result<Outcome, Error>> {
    run_in_folder(&tempfile::tempdir().unwrap(), mode, is_timed)
}

fn run_in_folder(
    folder: &tempfile::TempDir,
    mode: &str,
    is_timed: bool,
) -> Option<Result<Outcome, Error>> {
    let image = &PROGRAM.as_ref()?.image;
    let path = folder.path().to_str().unwrap();
    let arguments = [mode, path];
    let given = Given {
        folders: vec![Folder {
            path: path.into(),
            is_writable: true,
        }],
        ..given(2, &arguments)
    };
    let mut machine = machine(&given, image);
    if !is_timed {
        return Some(machine.run(20_000_000));
    }
    let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
    Some(simulation.run(20_000_000))
}

#[test]
fn a_process_that_ends_leaves_no_lock_behind() {
    for is_timed in [false, true] {
        let Some(ended) = run_with_files("leave", is_timed) else {
            return;
        };
        assert_eq!(ended.unwrap(), Outcome::Success);
    }
}

#[test]
fn nodes_that_wait_for_the_locks_of_one_another_end_the_run() {
    for is_timed in [false, true] {
        let Some(ended) = run_with_files("crosswise", is_timed) else {
            return;
        };
        assert!(matches!(ended, Err(Error::AllWait)), "{ended:?}");
    }
}

/// Another program of the host holds it, however long: the nodes wait for that, and not for one
/// another.
#[test]
fn nodes_wait_for_the_lock_of_another_program() {
    // It is built before the lock is held.
    if PROGRAM.is_none() {
        return;
    }
    let waits = |is_timed| {
        let folder = tempfile::tempdir().unwrap();
        let held = std::fs::File::create(folder.path().join("held")).unwrap();
        held.lock().unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2500));
            drop(held);
        });
        let ended = run_in_folder(&folder, "leave", is_timed);
        other.join().unwrap();
        if let Some(ended) = ended {
            assert_eq!(ended.unwrap(), Outcome::Success);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| waits(false));
        waits(true);
    });
}

/// A program without fixed addresses, which relocates itself.
#[test]
fn a_static_program_may_lie_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/linux/anywhere.c");
    let built = Command::new("riscv64-linux-gnu-gcc")
        .args([
            "-O1",
            "-nostdlib",
            "-fPIE",
            "-static",
            "-Wl,-pie,--no-dynamic-linker",
            "-o",
        ])
        .args([&path, &source])
        .output()
        .expect("the compiler is there: `cargo xtask setup` installs gcc-riscv64-linux-gnu");
    assert!(built.status.success(), "{built:?}");
    let output = Command::new(env!("CARGO_BIN_EXE_rae"))
        .args(["run", "--nodes=2"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "[0] relocated\n[1] relocated\n");
    // What is aligned in the file is aligned in memory.
    let image = Image::from_elf(&std::fs::read(&path).unwrap()).unwrap();
    let aligned = image.address_of("aligned").unwrap();
    assert!(aligned.is_multiple_of(1 << 18), "{aligned:#x}");
}

#[test]
fn how_a_process_ends_is_how_its_node_ends() {
    for (mode, code, said) in [
        ("panic", 101, "as asked"),
        ("exit", 7, ""),
        ("abort", 134, "signal 6 ends the process of node 0"),
    ] {
        let Some(ran) = run(&given(2, &[mode])) else {
            return;
        };
        let expected = Outcome::Failure { node: 0, code };
        assert_eq!(ran.outcome.unwrap(), expected, "{mode}");
        assert!(ran.errors[0].contains(said), "{mode}: {:?}", ran.errors);
    }
}

#[test]
fn what_there_is_not_is_refused_by_its_name() {
    let Some(ran) = run(&given(2, &["thread"])) else {
        return;
    };
    assert_eq!(ran.outcome.unwrap(), Outcome::Success);
    assert_eq!(ran.output[1], "Err(WouldBlock)\n");
    assert!(ran.errors[1].contains("a simulated node runs one"));
    for (mode, why) in [
        ("socket", "node 0 made the system call 198 (socket)"),
        ("park", "node 0 waits for another thread"),
        ("null", "load where there is no memory (value 0x8)"),
    ] {
        let Some(ran) = run(&given(2, &[mode])) else {
            return;
        };
        let message = ran.outcome.unwrap_err().to_string();
        assert!(message.contains(why), "{mode}: {message}");
    }
}

#[test]
fn a_seed_makes_a_run_and_another_one_another() {
    let runs: Option<Vec<Ran>> = [5, 5, 6]
        .into_iter()
        .map(|seed| {
            run(&Given {
                seed,
                ..given(2, &["hash"])
            })
        })
        .collect();
    let Some([first, again, other]) = runs.as_deref() else {
        return;
    };
    assert_eq!(first.output, again.output);
    assert_eq!(first.stats, again.stats);
    assert_ne!(first.output, other.output);
    // Each node has bytes of its own.
    assert_ne!(first.output[0], first.output[1]);
}

#[test]
fn nodes_reach_one_another_by_remote_atomics_without_a_clock_and_with_one() {
    let Some(ran) = run(&given(5, &["atomics"])) else {
        return;
    };
    assert_eq!(ran.outcome.unwrap(), Outcome::Success);
    assert_eq!(ran.output[0], "15\n");
    let adds = ran.stats.nodes.iter().map(|node| node.remote_atomics);
    assert_eq!(adds.collect::<Vec<_>>(), [1; 5]);
    let timed = || {
        let image = &PROGRAM.as_ref().unwrap().image;
        let machine = machine(&given(2, &["atomics"]), image);
        let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
        assert_eq!(simulation.run(20_000_000).unwrap(), Outcome::Success);
        simulation.stats()
    };
    let first = timed();
    assert_eq!(first.guests.nodes[1].remote_atomics, 1);
    assert_eq!(first, timed());
}

#[test]
fn a_segment_is_what_other_nodes_reach_and_nothing_else_is() {
    let with_segment = |arguments| Given {
        segment_bytes: 1 << 20,
        ..given(3, arguments)
    };
    let Some(ran) = run(&with_segment(&["segment"])) else {
        return;
    };
    assert_eq!(ran.outcome.unwrap(), Outcome::Success);
    let expected = ["1048576 12\n", "1048576 10\n", "1048576 11\n"];
    assert_eq!(ran.output, expected);
    let Some(ran) = run(&with_segment(&["atomics"])) else {
        return;
    };
    assert!(matches!(ran.outcome, Err(Error::Fault(_))));
    // The process itself has room beside it.
    prints(&with_segment(&["memory"]), "44999850000 true true\n");
}

/// Runs `rae` with these options, and the program with these arguments.
fn rae(program: &Path, options: &[&str], arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rae"))
        .arg("run")
        .args(options)
        .arg(program)
        .arg("--")
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_program_takes_arguments_and_every_line_tells_its_node() {
    let Some(program) = PROGRAM.as_ref() else {
        return;
    };
    let rae = |options: &[&str], arguments: &[&str]| rae(&program.path, options, arguments);
    let output = rae(&["--nodes", "2", "--env", "COLOUR=red"], &["words", "z"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    let line = "[(\"z\", 1)]    1.414 Ok(\"red\")";
    assert_eq!(lines, [format!("[0] {line}"), format!("[1] {line}")]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "[0] to errors\n[1] to errors\n");
    // As cargo's runner it gets the program and its arguments behind all that the runner has.
    let output = Command::new(env!("CARGO_BIN_EXE_rae"))
        .args(["run", "--nodes=1", "--env", "COLOUR=red", "--"])
        .arg(&program.path)
        .args(["words", "--nodes", "--"])
        .output()
        .unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        line,
        "[(\"--\", 1), (\"--nodes\", 1)]    1.414 Ok(\"red\")\n"
    );
    // Alone it writes as it would on Linux.
    let output = rae(&["--nodes", "1"], &["exit"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "rae: node 0 failed with code 7\n"
    );
    for (options, why) in [
        (["--env", "x"], "NAME=VALUE"),
        (["--files", "/none"], "/none"),
        (["--cores", "2"], "one core, not 2"),
        (["--memory", "1"], "memory is 0x10000..0x110000"),
        (["--segment", "55"], "no room for its segment"),
        (["--segment", "57"], "does not fit into 67108864 bytes"),
        (["--segment", "65"], "does not fit into 67108864 bytes"),
    ] {
        let output = rae(&options, &["exit"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_refused = matches!(output.status.code(), Some(2 | 125));
        assert!(is_refused, "{options:?}: {errors}");
        assert!(errors.contains(why), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn who_fails_for_want_of_a_file_is_told_what_would_grant_it() {
    let Some(program) = PROGRAM.as_ref() else {
        return;
    };
    let secret = tempfile::NamedTempFile::new().unwrap();
    let secret = secret.path().to_str().unwrap();
    for options in [&["--nodes", "2"][..], &["--timed", "--nodes", "1"]] {
        let output = rae(&program.path, options, &["need", secret]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let hint = format!("rae: it was refused {secret}: --files grants folders to read");
        assert_eq!(output.status.code(), Some(101), "{errors}");
        assert!(errors.contains(&hint), "{errors}");
    }
}

#[test]
fn who_sleeps_until_something_is_written_wakes_then_and_runs_repeat() {
    let given = Given {
        segment_bytes: 4096,
        ..given(70, &["relay"])
    };
    let Some(first) = run(&given) else { return };
    assert_eq!(
        first.outcome.unwrap(),
        Outcome::Success,
        "{:?}",
        first.errors
    );
    // What came before a node looked for the first time it need not have waited for.
    let n_waited = first.output.iter().filter(|seen| *seen == "1\n").count();
    assert!(n_waited > 0, "{:?}", first.output);
    let second = run(&given).expect("it ran before");
    assert_eq!(second.stats, first.stats);
    // A sleeper executes next to nothing.
    let instructions = first.stats.nodes.iter().map(|node| node.instructions);
    let (least, most) = (
        instructions.clone().min().unwrap(),
        instructions.max().unwrap(),
    );
    assert!(most < 2 * least, "{least} to {most}");
}

#[test]
fn nodes_that_only_wait_for_one_another_end_the_run() {
    let given = Given {
        segment_bytes: 4096,
        ..given(3, &["deadlock"])
    };
    let Some(ran) = run(&given) else { return };
    assert!(matches!(ran.outcome, Err(Error::AllWait)));
}
