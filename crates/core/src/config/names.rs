//! The names of the settings, and what to do about variables that look like one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::sync::Once;

use crate::{Error, Result, notice};

/// All variables that the library reads.
pub(crate) const KNOWN: [&str; 15] = [
    "PGAS_BACKEND",
    "PGAS_CHECK",
    "PGAS_DIRECT",
    "PGAS_HUGE_PAGES",
    "PGAS_JOB_FD",
    "PGAS_JOB_ID",
    "PGAS_PROGRESS",
    "PGAS_RANK",
    "PGAS_RANKS",
    "PGAS_SEGMENT",
    "PGAS_SILENCE",
    "PGAS_STALL",
    "PGAS_STALL_END",
    "PGAS_STATS",
    "PGAS_TIMEOUT",
];

const PREFIX: &str = "PGAS_";
/// What tests call their own settings.
const OF_TESTS: &str = "PGAS_TEST_";
/// How many letters a misspelt name may differ in from the one that is suggested.
const FARTHEST: usize = 4;

/// The text of a variable; an error if it has other bytes.
pub(super) fn text(name: &'static str, value: Option<OsString>) -> Result<Option<String>> {
    let text = value.map(OsString::into_string).transpose();
    text.map_err(|bytes| Error::setting(name, bytes.to_string_lossy(), "is not UTF-8"))
}

/// Warns, once in a process, of variables that are no settings although they are called like some.
pub(crate) fn warn_of_unknown() {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        let names = env::vars_os().map(|(name, _)| name);
        if let Some(warning) = warning(names) {
            notice::tell(&warning);
        }
    });
}

fn warning(names: impl Iterator<Item = OsString>) -> Option<String> {
    let unknown = names.filter(|name| is_unknown(name)).map(|name| {
        let name = name.to_string_lossy();
        match nearest(&name) {
            Some(known) => format!("{name} (did you mean {known}?)"),
            None => name.into_owned(),
        }
    });
    let mut unknown: Vec<String> = unknown.collect();
    unknown.sort();
    (!unknown.is_empty()).then(|| format!("warning: no such setting: {}", unknown.join(", ")))
}

fn is_unknown(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.starts_with(PREFIX.as_bytes())
        && !bytes.starts_with(OF_TESTS.as_bytes())
        && KNOWN.iter().all(|known| *known != name)
}

/// The known name that differs in the fewest letters, if these are few.
fn nearest(name: &str) -> Option<&'static str> {
    let by_distance = KNOWN.iter().map(|known| (distance(name, known), *known));
    let (distance, known) = by_distance.min()?;
    (distance <= FARTHEST).then_some(known)
}

/// How many letters have to be added, removed or replaced to turn one name into the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::Config;

    #[test]
    fn every_setting_that_is_looked_up_is_known() {
        let asked = RefCell::new(Vec::new());
        for rank in [None, Some("0".to_owned())] {
            let lookup = |name: &str| {
                asked.borrow_mut().push(name.to_owned());
                rank.clone()
                    .filter(|_| name.starts_with("PGAS_RANK") || name == "PGAS_JOB_FD")
            };
            // With a rank it is an error, later or sooner.
            drop(Config::from_lookup(&lookup));
        }
        let asked = asked.into_inner();
        let ours = asked.iter().filter(|name| name.starts_with(PREFIX));
        for name in ours {
            assert!(KNOWN.contains(&name.as_str()), "{name}");
        }
        assert!(
            asked.iter().any(|name| name == "PGAS_STALL_END"),
            "{asked:?}"
        );
    }

    #[test]
    fn a_misspelt_name_is_told_with_the_nearest_known_one() {
        let warned = |names: &[&str]| warning(names.iter().map(OsString::from));
        assert_eq!(
            warned(&["PGAS_RANKS", "PATH", "PGAS_TEST_X", "XPGAS_"]),
            None
        );
        let expected = "warning: no such setting: PGAS_ELEPHANTS, PGAS_SEGEMNT (did you mean PGAS_SEGMENT?), \
                        PGAS_TIMEOUTS (did you mean PGAS_TIMEOUT?)";
        let names = ["PGAS_TIMEOUTS", "PGAS_SEGEMNT", "PGAS_ELEPHANTS"];
        assert_eq!(warned(&names).as_deref(), Some(expected));
    }

    #[test]
    fn a_value_that_is_no_text_is_an_error_that_names_it() {
        let value = OsString::from_vec(b"8\xffG".to_vec());
        let error = text("PGAS_SEGMENT", Some(value)).unwrap_err().to_string();
        assert!(error.starts_with("PGAS_SEGMENT=8"), "{error}");
        assert!(error.ends_with("is not UTF-8"), "{error}");
        assert_eq!(
            text("PGAS_SEGMENT", Some("8G".into())).unwrap().unwrap(),
            "8G"
        );
        assert_eq!(text("PGAS_SEGMENT", None).unwrap(), None);
    }
}
