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

/// Whether `error` says that `to` has left the job in good order, and receives nothing any more. If
/// others wait for a rank that leaves, the job has failed, and that is said in more words.
pub(crate) fn says_left(error: &Error, to: Rank) -> bool {
    let Error::RankFailed(failure) = error else {
        return false;
    };
    let rest = failure.cause.strip_prefix("has left the job");
    failure.rank == to && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
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
    fn a_rank_that_leaves_while_others_wait_has_not_left_in_good_order() {
        for (cause, is_left) in [
            ("has left the job", true),
            ("has left the job, and its mailbox is full", true),
            (
                "has left the job while others wait for it in a barrier",
                false,
            ),
            ("was killed", false),
        ] {
            let error = Error::rank_failed(Rank::new(1), cause);
            assert_eq!(says_left(&error, Rank::new(1)), is_left, "{cause}");
            assert!(!says_left(&error, Rank::ZERO));
        }
    }

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
