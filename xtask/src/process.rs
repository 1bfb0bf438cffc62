//! Runs other programs: prints the command first, and passes its output on untouched.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// The result of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The step needs something that this machine may lack; the text says what.
    NotRun(String),
}

/// The root of the workspace, wherever `cargo xtask` was started.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
}

/// Whether everything is built for this run alone.
static BUILDS_ONCE: AtomicBool = AtomicBool::new(false);

/// From now on cargo keeps nothing by which it could build a crate again in parts, writes no
/// numbers of lines for debuggers, and hands the code generator few large parts, which are not
/// optimized across each other: together that halves the time of crates that are built once. Nor
/// does a panic look for the functions that led to it. Compilers yield to tests, and inline small
/// functions of test programs (`xtask/rustc-nice`).
pub(crate) fn build_once() {
    BUILDS_ONCE.store(true, Ordering::Relaxed);
}

/// A command that runs in the root of the workspace.
pub(crate) fn command<S: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    if BUILDS_ONCE.load(Ordering::Relaxed) {
        command.env("CARGO_INCREMENTAL", "0");
        command.env("CARGO_PROFILE_DEV_DEBUG", "none");
        command.env("CARGO_PROFILE_DEV_CODEGEN_UNITS", "4");
        // Not by the profile: what a procedural macro and another crate share would be built once
        // for both, and once more for each choice of packages that has only the macro.
        command.env("CARGO_BUILD_RUSTFLAGS", "-C lto=off");
        command.env("CARGO_PROFILE_RELEASE_DEBUG", "none");
        // By default glibc keeps a segment that was freed, and the next one from there has to be
        // filled with zeros: a third of what the suite takes over the reference transport.
        command.env("MALLOC_MMAP_THRESHOLD_", "1048576");
        // Thousands of panics are what tests expect, and a failing test names its place by itself.
        command.env("RUST_BACKTRACE", "0");
        #[expect(
            clippy::disallowed_methods,
            reason = "cargo's variable, not one of the library"
        )]
        let is_wrapped = std::env::var_os("RUSTC_WRAPPER").is_some();
        if !is_wrapped {
            command.env("RUSTC_WRAPPER", root().join("xtask/rustc-nice"));
        }
    }
    command
}

/// As [`command`], for one that only computes: it takes the processors that tests beside it leave,
/// as compilers do.
pub(crate) fn patient<S: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = command("nice", ["-n", "19", program]);
    command.args(args);
    command
}

/// Lets cargo build in a separate folder, for a step with its own compiler flags. Incremental
/// compilation is off, as after [`build_once`], since such builds are not repeated often.
pub(crate) fn use_own_target(cargo: &mut Command, folder: &str) {
    cargo.env("CARGO_TARGET_DIR", folder);
    cargo.env("CARGO_INCREMENTAL", "0");
}

/// Runs cargo with `args`.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Outcome> {
    run(&mut command("cargo", args))
}

/// Prints the command and its environment variables, runs it, prints its time and that of the
/// processors, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<Outcome> {
    let line = line(command);
    println!("$ {line}");
    let (start, before) = (Instant::now(), computed());
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    let computed = computed().saturating_sub(before).as_secs_f64();
    let wall = start.elapsed().as_secs_f64();
    println!("# {wall:.1} s, {computed:.1} s of the processors");
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(Outcome::Passed)
}

/// Runs all the commands, whatever becomes of those before, and fails if one did.
pub(crate) fn run_all(commands: &mut [Command]) -> Result<Outcome> {
    let outcomes: Vec<_> = commands.iter_mut().map(run).collect();
    let failures: Vec<_> = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.err().map(|error| error.to_string()))
        .collect();
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    Ok(Outcome::Passed)
}

/// Whether the command runs and succeeds; its output is thrown away.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The output of the command; `None` if it cannot be run.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The processor time of this process and of ended children. Zero if the system does not report it.
pub(crate) fn computed() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    computed_in(&stat).unwrap_or_default()
}

/// From the text of `/proc/self/stat`: `utime`, `stime`, `cutime` and `cstime`, in hundredths of a
/// second.
fn computed_in(stat: &str) -> Option<Duration> {
    // The name of the program, in brackets, may have blanks in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields = fields.split(' ').skip(11).map(str::parse::<u64>).take(4);
    let all = fields.collect::<Result<Vec<_>, _>>().ok()?;
    (all.len() == 4).then(|| Duration::from_millis(10 * all.iter().sum::<u64>()))
}

/// The command as it would be typed into a shell.
fn line(command: &Command) -> String {
    let quote = |word: &OsStr| {
        let word = word.to_string_lossy();
        if word.contains([' ', '*']) {
            format!("'{word}'")
        } else {
            word.into_owned()
        }
    };
    let envs = command.get_envs().filter_map(|(key, value)| {
        let value = value?;
        Some(format!("{}={}", key.to_string_lossy(), quote(value)))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    envs.chain(words.map(quote)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{command, computed_in, line, root, run, succeeds};

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn a_printed_command_can_be_typed_again() {
        let mut command = command("cargo", ["bench", "--bench", "*"]);
        command.env("RUSTFLAGS", "--cfg loom");
        assert_eq!(
            line(&command),
            "RUSTFLAGS='--cfg loom' cargo bench --bench '*'"
        );
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(&mut command("sh", ["-c", "exit 3"])).unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("sh -c 'exit 3'"), "{message}");
        assert!(message.contains("exit status: 3"), "{message}");
    }

    #[test]
    fn the_time_of_processes_that_are_over_is_read_behind_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 251 999 0 0 12 34 56 78 20 0 1 0 5 6 7";
        assert_eq!(computed_in(stat), Some(Duration::from_millis(1800)));
        assert_eq!(computed_in(""), None);
    }

    #[test]
    fn an_absent_program_does_not_succeed() {
        assert!(!succeeds(&mut command("pgas-no-such-program", ["-h"])));
    }
}
