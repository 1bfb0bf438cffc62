//! Errors that several files construct or examine.

use pgas_core::{Error, Rank, TeamId, Unknown, World};

/// For a message that names what this rank does not have.
#[cold]
pub(crate) fn unknown(world: &World, from: Rank, what: String, reason: &'static str) -> Error {
    Error::from(Box::new(Unknown {
        rank: world.rank(),
        from,
        what,
        reason,
    }))
}

/// Why this rank does not know the team `id` that a message names.
pub(crate) fn no_handle_on(world: &World, id: TeamId) -> String {
    let me = world.rank();
    format!("rank {me} is no member of team {id}, or has dropped its handles on it")
}

/// Whether `error` says that `to` has left the job, and receives nothing any more.
pub(crate) fn says_left(error: &Error, to: Rank) -> bool {
    matches!(error, Error::RankFailed(failure)
        if failure.rank == to && failure.cause.starts_with("has left the job"))
}

/// `text` without its middle if it is longer than `most` bytes. The end of a text has the cause,
/// after the ranks that have passed it on or the name of a type, or the line of a long path.
#[cold]
pub(crate) fn shortened(text: &str, most: usize) -> String {
    const LEFT_OUT: &str = " [..] ";
    if text.len() <= most {
        return text.to_owned();
    }
    let each = most.saturating_sub(LEFT_OUT.len()) / 2;
    let before = (0..=each).rev().find(|at| text.is_char_boundary(*at));
    let mut after = text.len() - each..=text.len();
    let after = after.find(|at| text.is_char_boundary(*at));
    let (before, after) = (before.unwrap_or(0), after.unwrap_or(text.len()));
    [&text[..before], LEFT_OUT, &text[after..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        const MOST: usize = 200;
        let fits = "x".repeat(MOST);
        assert_eq!(shortened(&fits, MOST), fits);
        // Characters of one byte to four, at every distance from the cuts.
        for character in ["x", "\u{e4}", "\u{20ac}", "\u{1f600}"] {
            for n in 0..4 {
                let (begins, ends) = (&"begins"[n..], "ends".to_owned() + &"!".repeat(n));
                let text = shortened(&[begins, &character.repeat(1000), &ends].concat(), MOST);
                assert!(text.starts_with(begins) && text.ends_with(&ends), "{text}");
                assert!((MOST - 8..=MOST).contains(&text.len()), "{text}");
            }
        }
    }
}
