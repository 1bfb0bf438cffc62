//! The example `isx`, as its users start it.

use std::process::{Command, Output};

use crate::program::program;

/// Runs the program.
fn isx(arguments: &[&str]) -> Output {
    Command::new(program("isx"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_keys_of_any_number_of_ranks_are_sorted() {
    for (ranks, keys) in [(1, 1000), (2, 50_000), (3, 1), (4, 20_000), (2, 0)] {
        let (ranks, keys) = (ranks.to_string(), keys.to_string());
        let ended = isx(&["--ranks", &ranks, "--keys-per-rank", &keys, "--json"]);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{ranks} ranks: {stderr}");
        let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(json["verified"], true);
        assert_eq!(json["ranks"].to_string(), ranks);
        assert_eq!(json["keys_per_rank"].to_string(), keys);
        let seconds = |name: &str| json[name].as_f64().unwrap();
        let parts = seconds("seconds_exchange").max(seconds("seconds_sort"));
        assert!(parts > 0.0 && seconds("seconds_total") >= parts);
    }
}

#[test]
fn the_report_for_people_says_that_the_keys_are_in_order() {
    let ended = isx(&["--ranks", "2", "--keys-per-rank", "1000"]);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(
        text.contains("2 ranks, 1000 keys each") && text.contains("in order"),
        "{text}"
    );
}

#[test]
fn bad_arguments_are_refused() {
    crate::run::refuses_sizes("isx", "--keys-per-rank");
    for arguments in [["--ranks", "0"], ["--keys-per-rank", "many"]] {
        let ended = isx(&arguments);
        assert_eq!(ended.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&ended.stderr).contains(arguments[0]));
    }
}
