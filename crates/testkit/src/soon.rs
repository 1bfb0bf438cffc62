//! Bounds on how soon something is over, on a machine that may stand still for a moment.

use std::fmt::Debug;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

/// How often a case that is over too late is tried.
const TRIES: u32 = 3;

/// What a case panics with that was over too late.
struct TooLate(String);

/// Asserts that something was over within `limit`; a case that is [`tried`] may be so once in a while.
///
/// # Panics
///
/// If not.
pub fn assert_soon(took: Duration, limit: Duration, what: &dyn Debug) {
    if took >= limit {
        let text = format!("{took:?} are too long, of {limit:?}: {what:?}");
        panic::panic_any(TooLate(text));
    }
}

/// Runs a case, and again if [`assert_soon`] fails in it: the library keeps its bounds whenever the machine lets it, so that once
/// in three times is enough, and a library that breaks them breaks them each time.
///
/// # Panics
///
/// As the case, at once if it fails for another reason.
pub fn tried(case: impl Fn()) {
    for _ in 1..TRIES {
        let Err(payload) = panic::catch_unwind(AssertUnwindSafe(&case)) else {
            return;
        };
        if !payload.is::<TooLate>() {
            panic::resume_unwind(payload);
        }
    }
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(&case)) {
        match payload.downcast::<TooLate>() {
            Ok(late) => panic!("{TRIES} times; {}", late.0),
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::panic_text;

    const LIMIT: Duration = Duration::from_secs(2);

    /// How often a case runs that takes each of `seconds` in turn, and what it fails with.
    fn runs(seconds: &[u64], fails: bool) -> (usize, Option<String>) {
        let n = Cell::new(0);
        let case = || {
            let i = n.replace(n.get() + 1);
            assert_soon(Duration::from_secs(seconds[i]), LIMIT, &"a job");
            assert!(!fails, "something else");
        };
        let ended = panic::catch_unwind(AssertUnwindSafe(|| tried(case)));
        (
            n.get(),
            ended.err().map(|text| panic_text(&*text).to_owned()),
        )
    }

    #[test]
    fn a_case_that_is_late_is_tried_again_and_one_that_fails_is_not() {
        assert_eq!(runs(&[1], false), (1, None));
        assert_eq!(runs(&[3, 4, 1], false), (3, None));
        let late = Some("3 times; 2s are too long, of 2s: \"a job\"".to_owned());
        assert_eq!(runs(&[3, 4, 2, 1], false), (3, late));
        let failed = Some("something else".to_owned());
        assert_eq!(runs(&[1, 1], true), (1, failed.clone()));
        assert_eq!(runs(&[3, 1, 1], true), (2, failed.clone()));
        assert_eq!(runs(&[3, 3, 1], true), (3, failed));
    }
}
