//! The process's reactions to signals, kept as they are while foreign code runs.
//!
//! libpsm2 and libpsm_infinipath, which come with libfabric, catch SIGSEGV, SIGINT and others of
//! the whole process as soon as they are loaded, to print a backtrace. That hides from Rust's
//! runtime that a stack has overflowed, and from a launcher by which signal a rank has ended.
#![expect(unsafe_code, reason = "asks the system for its reactions to signals")]

use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, sigaction};

/// The last signal of Linux.
const LAST: c_int = 64;

/// What the process did about each signal when this was made, and does again when it is dropped.
pub(crate) struct Kept(Vec<(c_int, sigaction)>);

impl Kept {
    pub(crate) fn now() -> Self {
        let all = (1..=LAST).filter_map(|signal| Some((signal, action_of(signal)?)));
        Self(all.collect())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            let is_changed =
                action_of(*signal).is_some_and(|now| now.sa_sigaction != before.sa_sigaction);
            if is_changed {
                // SAFETY: the action is what the system gave for this signal. Its handler was
                // installed by code of this process, which is still loaded.
                unsafe { sigaction(*signal, before, ptr::null_mut()) };
            }
        }
    }
}

/// What the process does about a signal, if there is such a signal for programs.
fn action_of(signal: c_int) -> Option<sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: nothing is changed without a new action, and the place for the old one is there.
    let outcome = unsafe { sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    if outcome != 0 {
        return None;
    }
    // SAFETY: the system has written it, as it said.
    Some(unsafe { action.assume_init() })
}
