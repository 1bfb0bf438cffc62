//! Runs of a report, on as many threads as the host has processors.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use super::Trouble;

/// Does all jobs; their results stand in the jobs' order, whoever did them.
pub(super) fn all<J: Send, R: Send, E>(
    jobs: Vec<J>,
    quiet: bool,
    run: impl Fn(J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, Trouble>
where
    E: Send + std::error::Error + 'static,
{
    let n_jobs = jobs.len();
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shows = !quiet && io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((k, job)) = next() {
                    let row = run(job).map_err(Box::new);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((k, row));
                    if shows {
                        let n = done.len();
                        let bar = "#".repeat(40 * n / n_jobs);
                        write!(io::stderr(), "\rrae: [{bar:<40}] {n} of {n_jobs} runs").ok();
                    }
                }
            });
        }
    });
    if shows {
        writeln!(io::stderr()).ok();
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(k, _)| *k);
    let rows: Result<_, Box<_>> = done.into_iter().map(|(_, row)| row).collect();
    Ok(rows?)
}
