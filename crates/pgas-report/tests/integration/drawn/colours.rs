//! The timeline in a light and in a dark theme.

use std::fs;

use pgas_core::trace::Kind;
use pgas_report::analysis::Job;
use pgas_report::html;
use pgas_report::read::{Event, Trace};

use super::browser::{Browser, Theme};

/// A rank that waits, then serves a message, then is in a span, for 30 ms each, and then does
/// something else for 10 ms.
fn trace(rank: u32) -> Trace {
    let ends = [
        (Kind::Wait, 0),
        (Kind::Waited, 30),
        (Kind::Begin, 30),
        (Kind::End, 60),
        (Kind::Span, 60),
        (Kind::SpanEnd, 90),
        (Kind::Left, 100),
    ];
    let event = |(kind, millis): (Kind, i64)| Event {
        at: millis * 1_000_000,
        kind,
        thread: 1,
        name: 1,
        rank: None,
        numbers: [0, 0],
    };
    Trace {
        rank,
        n_ranks: 20,
        names: [(1, "a name".to_owned())].into(),
        events: ends.map(event).to_vec(),
        ..Trace::default()
    }
}

#[test]
fn the_timeline_is_drawn_in_the_colours_of_the_theme() {
    let directory = tempfile::tempdir().unwrap();
    let traces: Vec<Trace> = (0..20).map(trace).collect();
    let page = html::page(&Job::of(&traces), &[]);
    fs::write(directory.path().join("report.html"), page).unwrap();
    let Some(browser) = Browser::find(directory.path()) else {
        return;
    };
    for theme in [Theme::Light, Theme::Dark] {
        let picture = browser.draw("report.html", theme);
        assert_eq!(picture.corner(), theme.colour("page"), "{theme:?}");
        let names = ["row", "waits", "serves", "span"];
        let [row, waits, serves, span] = names.map(|name| picture.area(theme.colour(name)));
        // A bar is 350 pixels wide, and at least 9 high. The keys beside the names of the colours
        // are a few hundred pixels.
        for area in [waits, serves, span] {
            assert!(area.n > 20 * 350 * 7, "{theme:?}: {area:?}");
        }
        assert!(row.n > 20 * 100 * 7, "{theme:?}: {row:?}");
        assert!(
            waits.n < serves.n && serves.n < span.n,
            "waits are low: {theme:?}"
        );
        assert!(
            waits.mean_x + 200 < serves.mean_x,
            "{theme:?}: {waits:?}, {serves:?}"
        );
        assert!(
            serves.mean_x + 200 < span.mean_x,
            "{theme:?}: {serves:?}, {span:?}"
        );
    }
}
