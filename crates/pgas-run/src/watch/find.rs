//! The job of a process, or of one that it has started.

use std::fs;
use std::io;

use pgas_smp::Observer;

/// The job that a process is a rank of, or the nearest one among those that it has started.
///
/// # Errors
///
/// If there is no such process, or its descriptors cannot be read.
pub(crate) fn job_of(process: u32) -> io::Result<Option<Observer>> {
    if let Some(observer) = Observer::of_process(process)? {
        return Ok(Some(observer));
    }
    let mut begun = vec![process];
    while let Some(parent) = begun.pop() {
        for child in children(parent) {
            // It may end meanwhile.
            if let Ok(Some(observer)) = Observer::of_process(child) {
                return Ok(Some(observer));
            }
            begun.push(child);
        }
    }
    Ok(None)
}

fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let all: Vec<String> = lists.collect();
    let words = all.iter().flat_map(|list| list.split_ascii_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}
