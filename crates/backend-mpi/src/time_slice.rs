//! The time slices of this rank: how long it runs while others wait for its processor.

use crate::system::{scheduling, set_scheduling};

/// The shortest time slice that Linux grants, in nanoseconds; its own are milliseconds long.
const SHORTEST: u64 = 100_000;

/// Asks the system for short time slices for this thread, and for those that it starts.
///
/// MPICH's waits inside of collective calls never give up the processor. So with more ranks than
/// processors each step of such a call takes another rank's whole slice. And a rank that has given
/// up the processor to another program gets it back the sooner, the shorter its slices are: beside
/// a busy program on each processor, the conformance suite between two hosts takes less than half
/// of the time. Linux supports this since release 6.12; earlier releases ignore it.
pub(crate) fn shorten() {
    let Some(mut attributes) = scheduling() else {
        return;
    };
    let is_usual = [libc::SCHED_OTHER, libc::SCHED_BATCH]
        .iter()
        .any(|usual| u32::try_from(*usual) == Ok(attributes.sched_policy));
    if is_usual && attributes.sched_runtime > SHORTEST {
        attributes.sched_runtime = SHORTEST;
        set_scheduling(&attributes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_those_that_it_starts_have_short_slices_from_then_on() {
        let slice = || {
            scheduling()
                .expect("Linux tells a thread's own")
                .sched_runtime
        };
        let before = slice();
        let (after, childs) = std::thread::spawn(move || {
            shorten();
            (slice(), std::thread::spawn(slice).join().unwrap())
        })
        .join()
        .unwrap();
        // A system that knows no slices says zero.
        assert_eq!(after, before.min(SHORTEST));
        assert_eq!(childs, after);
        assert_eq!(
            slice(),
            before,
            "that of the thread that was not asked for it"
        );
    }
}
