//! Runs steps: named ones one after the other, all of them in lanes side by side.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::summary::{FAILED, Summary};
use super::{BUILD, Lane, QUICK, Step, hung, select};
use crate::process::{self, Outcome, command};

/// Runs the named steps one after the other, or all in lanes.
pub(crate) fn run(names: &[String]) -> Result<Outcome> {
    let steps = select(names)?;
    if names.is_empty() {
        process::build_once();
        return run_in_lanes(&steps);
    }
    run_all(&steps)
}

/// Runs the steps of the inner loop.
pub(crate) fn run_quick() -> Result<Outcome> {
    run_all(&QUICK.iter().collect::<Vec<_>>())
}

/// Runs steps in this process, one after the other, even after a failure, and reports all results
/// at the end.
fn run_all(steps: &[&Step]) -> Result<Outcome> {
    let start = Instant::now();
    let mut summary = Summary::default();
    for (i, step) in steps.iter().enumerate() {
        let number = i + 1;
        println!(
            "\n=== [{number}/{}] {}: {}",
            steps.len(),
            step.name,
            step.about
        );
        summary.run(step);
    }
    summary.tell(start)
}

/// Runs the first step, then the lanes side by side, each step as a process of its own. The output
/// of one lane is shown at once, that of the others between its steps, so that they do not mix.
/// When that lane has ended it takes steps of [`Lane::Own`], too.
fn run_in_lanes(steps: &[&'static Step]) -> Result<Outcome> {
    let start = Instant::now();
    let mut summary = Summary::default();
    let Some((first, steps)) = steps.split_first() else {
        return Ok(Outcome::Passed);
    };
    summary.add(first, by_itself(first, at_once));
    let [shared, own, patient] =
        [Lane::Shared, Lane::Own, Lane::Patient].map(|lane| Queue::of(lane, steps));
    let (over, ended) = mpsc::channel();
    let (built, is_built) = mpsc::channel();
    let others = [(patient, None), (own.clone(), Some(is_built))].map(|(queue, awaited)| {
        let over = over.clone();
        thread::spawn(move || {
            if let Some(awaited) = awaited {
                // It ends at the latest with the lane that builds.
                awaited.recv().ok();
            }
            for step in queue {
                // The receiver stays to the end.
                over.send((step, by_itself(step, later))).ok();
            }
        })
    });
    drop(over);
    for step in shared.chain(own) {
        summary.add(step, by_itself(step, at_once));
        if step.name == BUILD {
            built.send(()).ok();
        }
        for (step, text) in ended.try_iter() {
            summary.show(step, text);
        }
    }
    drop(built);
    for (step, text) in ended {
        summary.show(step, text);
    }
    let joined = others.map(thread::JoinHandle::join);
    if joined.iter().any(Result::is_err) {
        bail!("a lane of parallel steps panicked");
    }
    summary.tell(start)
}

/// The steps of a lane that nobody has begun, in the order of the table.
#[derive(Clone)]
struct Queue(Arc<Mutex<VecDeque<&'static Step>>>);

impl Queue {
    fn of(lane: Lane, steps: &[&'static Step]) -> Self {
        let steps = steps.iter().copied();
        let steps = steps.filter(|step| step.lane == lane).collect();
        Self(Arc::new(Mutex::new(steps)))
    }
}

impl Iterator for Queue {
    type Item = &'static Step;

    fn next(&mut self) -> Option<&'static Step> {
        self.0.lock().ok()?.pop_front()
    }
}

/// Runs a step as a process of its own, passes its output to `show`, and returns all of it.
fn by_itself(step: &Step, show: fn(&[u8])) -> Result<String> {
    let program = std::env::current_exe()?;
    let mut command = command("env", [program.as_os_str()]);
    watched(command.args(["test", step.name]), step.name, LIMIT, show)
}

/// The time after which a step is ended: more than twice what the longest one takes beside others,
/// and little enough that two such steps of one lane are still told of within the hour and a half
/// that a run may take.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the command of a step to its end, or for `limit`. The output goes through a file, since a
/// pipe would stay open with a process that the step leaves behind.
fn watched(command: &mut Command, name: &str, limit: Duration, show: fn(&[u8])) -> Result<String> {
    let mut both = tempfile::NamedTempFile::new()?;
    let mut printed = both.reopen()?;
    let both = both.as_file_mut();
    command.stdin(Stdio::null());
    command.stdout(both.try_clone()?).stderr(both.try_clone()?);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let (mut text, mut has_ended) = (Vec::new(), false);
    loop {
        let shown = text.len();
        printed.read_to_end(&mut text)?;
        show(&text[shown..]);
        if has_ended {
            // The last lines of the text say how the step ended.
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        thread::sleep(LOOK);
        has_ended = child.try_wait()?.is_some();
        if !has_ended && start.elapsed() > limit {
            let what = hung::end(child.id(), &String::from_utf8_lossy(&text));
            child.wait()?;
            has_ended = true;
            let limit = limit.as_secs();
            writeln!(
                both,
                "\n{what}=== {name:<12} {FAILED}: ended after {limit} s"
            )?;
        }
    }
}

/// The interval between reads of a step's output.
const LOOK: Duration = Duration::from_millis(100);

fn at_once(printed: &[u8]) {
    // Without a reader an error cannot be reported.
    std::io::stdout().write_all(printed).ok();
}

fn later(_: &[u8]) {}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::{Queue, later, run_all, watched};
    use crate::ci::summary::Summary;
    use crate::ci::{Lane, STEPS, Step, step};
    use crate::process::Outcome;

    #[test]
    fn steps_behind_one_that_fails_run_and_all_that_failed_are_named() {
        const STEPS: &[Step] = &[
            step("good", "", || Ok(Outcome::Passed)),
            step("bad", "", || anyhow::bail!("no")),
            step("absent", "", || {
                Ok(Outcome::NotRun("it is not here".to_owned()))
            }),
            step("worse", "", || anyhow::bail!("never")),
        ];
        let error = run_all(&STEPS.iter().collect::<Vec<_>>()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("bad worse"), "{message}");
        assert!(!message.contains("good"), "{message}");
        assert!(!message.contains("absent"), "{message}");
    }

    #[test]
    fn a_step_that_does_not_end_is_ended_with_all_that_it_started_and_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sh -c 'sleep 600; true'; true"]);
        // Enough for the processes to start on a busy machine.
        let limit = Duration::from_secs(3);
        let text = watched(&mut command, "endless", limit, later).unwrap();
        assert!(text.starts_with("begun\n"), "{text}");
        let sleep = text.lines().find(|line| line.ends_with(" sleep 600 "));
        let id = sleep.expect(&text).split(' ').nth(3).unwrap();
        // Whoever is its parent now may not have taken note of its end.
        let is_alive = || {
            let state = std::fs::read_to_string(format!("/proc/{id}/stat"));
            state.is_ok_and(|state| !state.contains(") Z "))
        };
        let patience = Instant::now();
        while is_alive() {
            assert!(patience.elapsed() < Duration::from_secs(60), "{text}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut summary = Summary::default();
        summary.add(&step("endless", "", || Ok(Outcome::Passed)), Ok(text));
        let error = summary.tell(Instant::now()).unwrap_err().to_string();
        assert!(error.contains("failed: endless"), "{error}");
    }

    #[test]
    fn a_step_is_taken_once_by_whoever_takes_from_its_lane() {
        let steps: Vec<_> = STEPS.iter().collect();
        let lane = || steps.iter().filter(|step| step.lane == Lane::Own);
        let one = Queue::of(Lane::Own, &steps);
        let mut other = one.clone();
        let mut taken = Vec::new();
        for step in one {
            taken.push(step.name);
            taken.extend(other.next().map(|step| step.name));
        }
        assert!(lane().map(|step| step.name).eq(taken));
    }
}
