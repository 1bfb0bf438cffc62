//! What `rae` writes does not replace what it reads.

use std::fs;
use std::process::Command;

const GUEST: &str = "_start: li a7, 93\n li a0, 0\n ecall\n";

#[test]
fn an_output_that_is_an_input_or_another_output_is_refused_by_whatever_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("guest.s"), GUEST).unwrap();
    fs::write(path("c.toml"), "").unwrap();
    std::os::unix::fs::symlink("guest.s", path("link")).unwrap();
    let refused = [
        "asm guest.s -o guest.s",
        "asm guest.s -o link",
        "run guest.s --stats ./guest.s",
        "run guest.s --timed --trace link",
        "run guest.s --timed --config c.toml --stats c.toml",
        "run guest.s --timed --stats new --trace ./new",
    ];
    for words in refused {
        let mut rae = Command::new(env!("CARGO_BIN_EXE_rae"));
        let rae = rae.current_dir(folder.path()).args(words.split(' '));
        let output = rae.output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words}: {line}");
        assert!(line.contains("is the same file as"), "{words}: {line}");
        assert_eq!(line.lines().count(), 1, "{words}: {line}");
        assert_eq!(fs::read_to_string(path("guest.s")).unwrap(), GUEST);
        assert_eq!(fs::read(path("c.toml")).unwrap(), b"");
        assert!(!path("new").exists(), "{words}");
    }
}
