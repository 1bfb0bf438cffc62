//! `tokio_rpcs`.

use crate::run::{json, refuses, refuses_sizes, run};

#[test]
fn calls_that_tasks_await_have_the_right_answers_and_an_idle_driver_sleeps() {
    for (ranks, calls) in [(1, 500), (2, 2000), (3, 0), (4, 100)] {
        let calls = calls.to_string();
        let json = json("tokio_rpcs", ranks, &["--calls", &calls, "--idle", "200"]);
        assert_eq!(json["calls_per_rank"].to_string(), calls);
        let in_flight = if ranks > 1 { calls } else { "0".to_owned() };
        assert_eq!(json["in_flight"].to_string(), in_flight);
        // A driver that never slept would use a whole processor.
        assert!(json["idle_load"].as_f64().unwrap() < 0.3, "{json}");
    }
}

#[test]
fn the_report_for_people_says_that_the_answers_are_right() {
    let ended = run(
        "tokio_rpcs",
        &["--ranks", "2", "--calls", "100", "--idle", "1"],
    );
    assert!(ended.stdout.contains("results: right"), "{ended:?}");
}

#[test]
fn bad_arguments_are_refused() {
    refuses("tokio_rpcs", "--threads", "0");
    refuses_sizes("tokio_rpcs", "--calls");
    refuses("tokio_rpcs", "--calls", "many");
}
