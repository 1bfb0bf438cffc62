//! The names of the settings, and the treatment of variables that resemble one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::sync::Once;

use crate::{Error, Result, notice};

/// All variables that the library reads.
pub(crate) const KNOWN: [&str; 20] = [
    "PGAS_BACKEND",
    "PGAS_CHECK",
    "PGAS_DIRECT",
    "PGAS_HUGE_PAGES",
    "PGAS_JOB_FD",
    "PGAS_JOB_ID",
    "PGAS_OFI_ATOMICS",
    "PGAS_OFI_PROVIDER",
    "PGAS_PROGRESS",
    "PGAS_RANK",
    "PGAS_RANKS",
    "PGAS_ROUTE",
    "PGAS_SEGMENT",
    "PGAS_SILENCE",
    "PGAS_STALL",
    "PGAS_STALL_END",
    "PGAS_STATS",
    "PGAS_TIMEOUT",
    "PGAS_TRACE",
    "PGAS_TRACE_BYTES",
];

const PREFIX: &str = "PGAS_";
/// The prefix of the tests' own settings.
const OF_TESTS: &str = "PGAS_TEST_";
/// The maximum distance of a misspelt name from the one that is suggested.
const FARTHEST: usize = 4;

/// The text of a variable; an error if it has other bytes.
pub(super) fn text(name: &'static str, value: Option<OsString>) -> Result<Option<String>> {
    let text = value.map(OsString::into_string).transpose();
    text.map_err(|bytes| Error::setting(name, bytes.to_string_lossy(), "is not UTF-8"))
}

/// Warns, once in a process, of variables that begin with `PGAS_` but are not settings.
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

/// The number of letters to add, remove or replace to turn one name into the other (Levenshtein
/// distance).
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
    use std::panic::Location;
    use std::time::Instant;

    use super::*;
    use crate::Config;
    use crate::backend::loopback;
    use crate::waits::Awaited;

    #[test]
    fn every_setting_that_is_looked_up_is_known() {
        let asked = RefCell::new(Vec::new());
        for rank in [None, Some("0".to_owned())] {
            let lookup = |name: &str| {
                asked.borrow_mut().push(name.to_owned());
                rank.clone()
                    .filter(|_| name.starts_with("PGAS_RANK") || name == "PGAS_JOB_FD")
            };
            // With a rank alone this is an error. Only the names matter here.
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
    fn every_setting_is_in_the_table_of_the_guide() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/clusters.md");
        let guide = std::fs::read_to_string(guide).expect("the repository has a guide");
        for name in KNOWN {
            assert!(guide.contains(&format!("`{name}`")), "{name}");
        }
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

    /// The type of a setting's value.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Count,
        Bytes,
        Seconds,
        Word,
    }

    /// Every setting, in the order of [`KNOWN`].
    const KINDS: [(&str, Kind); KNOWN.len()] = [
        ("PGAS_BACKEND", Kind::Word),
        ("PGAS_CHECK", Kind::Word),
        ("PGAS_DIRECT", Kind::Word),
        ("PGAS_HUGE_PAGES", Kind::Word),
        ("PGAS_JOB_FD", Kind::Count),
        ("PGAS_JOB_ID", Kind::Word),
        ("PGAS_OFI_ATOMICS", Kind::Word),
        ("PGAS_OFI_PROVIDER", Kind::Word),
        ("PGAS_PROGRESS", Kind::Word),
        ("PGAS_RANK", Kind::Count),
        ("PGAS_RANKS", Kind::Count),
        ("PGAS_ROUTE", Kind::Word),
        ("PGAS_SEGMENT", Kind::Bytes),
        ("PGAS_SILENCE", Kind::Seconds),
        ("PGAS_STALL", Kind::Seconds),
        ("PGAS_STALL_END", Kind::Word),
        ("PGAS_STATS", Kind::Word),
        ("PGAS_TIMEOUT", Kind::Seconds),
        ("PGAS_TRACE", Kind::Word),
        ("PGAS_TRACE_BYTES", Kind::Bytes),
    ];

    /// Invalid numbers, and numbers at the limits.
    const REFUSED: [&str; 14] = [
        "-1",
        "-0.5",
        "1e400",
        "-1e400",
        "inf",
        "NaN",
        "0x10",
        "1_000",
        "1 000",
        "\u{661}",
        "one",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        "99999999999999999999T",
    ];
    const EXTREME: [&str; 16] = [
        "0",
        "-0",
        "1",
        "+1",
        "1e-300",
        "16777215",
        "16777216",
        "16777217",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "18446744073709551615",
        "1e19",
        "1K",
        "1G",
        "16777215T",
    ];

    /// A configuration with one number set, and the settings that it requires.
    fn with_number(name: &str, value: &str) -> Result<Config> {
        let of_a_rank = [
            ("PGAS_RANK", "1"),
            ("PGAS_RANKS", "4"),
            ("PGAS_JOB_FD", "3"),
        ];
        // The number of ranks alone asks for a job.
        let is_of_a_rank = ["PGAS_RANK", "PGAS_JOB_FD"].contains(&name);
        let beside = if is_of_a_rank { &of_a_rank[..] } else { &[] };
        Config::from_lookup(&|asked| {
            if asked == name {
                return Some(value.to_owned());
            }
            let beside = beside.iter().find(|(beside, _)| *beside == asked);
            beside.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_number_is_read_or_refused_with_its_name_and_value() {
        assert_eq!(
            KINDS.map(|(name, _)| name),
            KNOWN,
            "each setting has a kind"
        );
        let numbers = KINDS.iter().filter(|(_, kind)| *kind != Kind::Word);
        for (name, kind) in numbers {
            for value in REFUSED.iter().chain(&EXTREME) {
                let config = match with_number(name, value) {
                    Ok(config) => config,
                    Err(error) => {
                        let told = error.to_string();
                        assert!(told.contains(name), "{name}={value}: {told}");
                        assert!(told.contains(value), "{name}={value}: {told}");
                        continue;
                    }
                };
                // Seconds may be as many as a `f64` and a `Duration` can express.
                let is_refused = REFUSED.contains(value);
                assert!(!is_refused, "{name}={value} is taken for a {kind:?}");
                if *kind == Kind::Seconds {
                    wait_with(config);
                }
            }
        }
    }

    /// Looks twice at a wait, with the limits of `config`.
    fn wait_with(mut config: Config) {
        config.segment_bytes = Some(1 << 20);
        let worlds = loopback::worlds(1, &config).expect("a small segment");
        let (awaited, from) = (Awaited::new("a test"), Location::caller());
        let mut noted = None;
        // Some limits are over at once.
        for _ in 0..2 {
            let watched = worlds[0].watch_over(&mut noted, &awaited, Instant::now(), from);
            drop(watched);
        }
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
