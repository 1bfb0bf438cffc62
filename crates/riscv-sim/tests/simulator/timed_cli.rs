//! `rae run --timed`: what it writes, and what it refuses.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Node 1 adds 1 to a word of node 0.
const GUEST: &str = "
        eaddi     t0, e10, -1
        bnez      t0, end
        la        s5, word
        li        s4, 1
        eaddie    e21, zero, 1
        eamoadd.d t6, s5, s4
   end: li        a0, 0
        li        a7, 93
        ecall
        .data
  word: .dword    0
";

fn rae(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rae"))
        .current_dir(folder)
        .args(["run", "guest.s", "--memory", "1"])
        .args(arguments)
        .output()
        .unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("guest.s"), GUEST).unwrap();
    folder
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

#[test]
fn statistics_and_trace_show_the_remote_atomic() {
    let folder = folder();
    let files = ["--timed", "--stats", "s.json", "--trace", "t.json"];
    let output = rae(folder.path(), &files);
    assert!(output.status.success(), "{output:?}");
    let stats = json(folder.path(), "s.json");
    assert_eq!(stats["guests"]["nodes"][1]["remote_atomics"], 1);
    assert_eq!(stats["machine"]["nodes"][0]["nic"]["misses"], 1);
    assert_eq!(stats["machine"]["mesh"]["flits"], 8);
    assert!(stats["machine"]["nodes"][1]["l1"]["misses"].is_u64());
    let trace = json(folder.path(), "t.json");
    let spans = |name: &str, node: u64| {
        let events = trace["traceEvents"].as_array().unwrap();
        let wanted = events
            .iter()
            .filter(|event| event["name"] == name && event["ph"] == "X" && event["pid"] == node);
        wanted.count()
    };
    // The operation as node 1 waited for it, as node 0 executed it, and the entry that it had
    // there.
    assert_eq!(spans("amoadd.d", 1), 1);
    assert_eq!(spans("amoadd.d", 0), 1);
    assert_eq!(spans("line", 0), 1);
}

#[test]
fn a_fault_tells_the_registers_in_lines_and_other_errors_take_one() {
    let folder = folder();
    let told = |arguments: &[&str]| {
        let output = rae(folder.path(), arguments);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let other = told(&["--config", "no\n  such file", "--timed"]);
    assert_eq!(other.lines().count(), 1, "{other}");
    let faulty = "        li a1, 42\n        ld a0, 0(zero)\n";
    std::fs::write(folder.path().join("guest.s"), faulty).unwrap();
    let fault = told(&[]);
    let lines: Vec<&str> = fault.lines().collect();
    assert!(lines[0].starts_with("rae: node 0, core 0: "), "{fault}");
    // Four registers a line, and as many extended ones, of which one has the number of nodes.
    assert_eq!(lines.len(), 1 + 8 + 8, "{fault}");
    assert!(
        lines[1..].iter().all(|line| line.starts_with("  ")),
        "{fault}"
    );
    assert!(fault.contains("a1=000000000000002a"), "{fault}");
}

#[test]
fn a_configuration_changes_what_it_names() {
    let folder = folder();
    let mut cycles = Vec::new();
    for link_cycles in [1, 100] {
        let text = format!("[mesh]\nlink_cycles = {link_cycles}\n");
        std::fs::write(folder.path().join("machine.toml"), text).unwrap();
        let files = ["--timed", "--config", "machine.toml", "--stats", "s.json"];
        assert!(rae(folder.path(), &files).status.success());
        let stats = json(folder.path(), "s.json");
        cycles.push(stats["machine"]["nodes"][1]["cycles"].as_u64().unwrap());
    }
    // Two links with the one to the NIC, there and back, of the same clock as the core's.
    assert_eq!(cycles[1] - cycles[0], 4 * 99);
}

#[test]
fn a_bad_configuration_and_one_without_a_clock_are_refused() {
    let folder = folder();
    std::fs::write(folder.path().join("machine.toml"), "[mesh]\nspeed = 1\n").unwrap();
    let output = rae(folder.path(), &["--timed", "--config", "machine.toml"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && message.contains("speed"),
        "{message}"
    );
    let output = rae(folder.path(), &["--trace", "t.json"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && message.contains("add --timed"),
        "{message}"
    );
    let output = rae(folder.path(), &["--config", "machine.toml"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && message.contains("--timed"),
        "{message}"
    );
}

/// A process that may have 400 MB, and asks for more.
#[test]
fn memory_that_cannot_be_had_is_refused() {
    let folder = folder();
    let run = "ulimit -v 400000; exec \"$0\" run guest.s \"$@\"";
    for (asked, what) in [
        (["--memory", "1000", "--nodes", "1"], "node 0 of 1"),
        (["--memory", "100", "--nodes", "1024"], "of 1024"),
        (["--memory", "65536", "--nodes", "1"], "4 GiB"),
        (["--memory", "0", "--nodes", "1"], "1 to 4096 MiB"),
        (["--memory", "1", "--nodes", "1025"], "1 to 1024 nodes"),
        (["--cores", "65", "--nodes", "2"], "1 to 64 cores"),
        (
            ["--cores", "18446744073709551615", "--nodes", "2"],
            "1 to 64 cores",
        ),
    ] {
        let output = Command::new("sh")
            .args(["-c", run, env!("CARGO_BIN_EXE_rae")])
            .args(asked)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(2 | 125)),
            "{asked:?}: {output:?}"
        );
        assert!(message.contains(what), "{asked:?}: {message}");
    }
}

#[test]
fn a_run_that_waits_for_nothing_says_where_it_stands() {
    let folder = folder();
    std::fs::write(folder.path().join("guest.s"), "stuck: wfi\n j stuck\n").unwrap();
    for clock in [
        &["--cores", "2"][..],
        &["--timed"],
        &["--timed", "--cores", "2"],
    ] {
        let output = rae(folder.path(), clock);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(
            message.contains("only waits, for an interrupt"),
            "{message}"
        );
        assert!(message.contains("<stuck+"), "{message}");
    }
}

/// A process that may have 2 GB, and caches that need more for their tags.
#[test]
fn caches_whose_tags_do_not_fit_are_refused() {
    let folder = folder();
    let run = "ulimit -v 2000000; exec \"$0\" run guest.s --timed --config m.toml \"$@\"";
    for (table, what) in [
        ("[l1]\nbytes = 1073741824\n", "l1.bytes is 1073741824"),
        ("[l2]\nbytes = 1073741824\n", "l2.bytes is 1073741824"),
        ("[nic]\ncache_bytes = 1073741824\n", "nic.cache_bytes is"),
        (
            "[nic]\nmshr_subentries = 65536\n",
            "nic.mshr_subentries is 65536",
        ),
    ] {
        std::fs::write(folder.path().join("m.toml"), table).unwrap();
        let output = Command::new("sh")
            .args(["-c", run, env!("CARGO_BIN_EXE_rae")])
            .args(["--memory", "1", "--nodes", "64"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{table}: {message}");
        assert!(message.contains(what), "{table}: {message}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let folder = folder();
    // It would never end.
    std::fs::write(folder.path().join("guest.s"), "stuck: j stuck\n").unwrap();
    for (option, path) in [
        ("--stats", "no/such/folder.json"),
        ("--trace", "no/such/folder.json"),
        ("--stats", "."),
    ] {
        let output = rae(folder.path(), &["--timed", option, path]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(message.starts_with(&format!("rae: {path}: ")), "{message}");
    }
}

#[test]
fn an_interrupted_run_writes_what_it_counted() {
    let folder = folder();
    std::fs::write(folder.path().join("guest.s"), "stuck: j stuck\n").unwrap();
    for clock in [&[][..], &["--timed"]] {
        let path = folder.path().join("s.json");
        std::fs::remove_file(&path).ok();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rae"))
            .current_dir(folder.path())
            .args(["run", "guest.s", "--memory", "1", "--stats", "s.json"])
            .args(clock)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The file is there as soon as signals are listened to.
        while !path.exists() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let pid = rustix::process::Pid::from_child(&child);
        // As `timeout` does, which sends a signal to the process and one to its group: one request.
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            rustix::process::kill_process(pid, signal).unwrap();
        }
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{status}");
        let stats = json(folder.path(), "s.json");
        let nodes = match clock {
            [] => &stats["nodes"],
            _ => &stats["guests"]["nodes"],
        };
        assert!(nodes[5]["instructions"].as_u64().unwrap() > 0, "{stats}");
    }
}
