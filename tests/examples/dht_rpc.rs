//! `dht_rpc`.

use crate::run::{json, refuses, run};

#[test]
fn every_table_finds_what_was_inserted_whatever_its_size() {
    for (ranks, sizes) in [
        (1, "8,65536"),
        (2, "8,64,512,4096,16384,65536"),
        (3, "16384"),
    ] {
        let json = json("dht_rpc", ranks, &["--sizes", sizes, "--keys", "40"]);
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3 * sizes.split(',').count());
        for row in rows {
            for figure in [
                "insert_us",
                "find_us",
                "inserts_per_second_and_rank",
                "finds_per_second_and_rank",
            ] {
                assert!(row[figure].as_f64().unwrap() > 0.0, "{row}");
            }
        }
    }
}

#[test]
fn the_table_for_people_has_a_row_for_each_table() {
    let ended = run(
        "dht_rpc",
        &["--ranks", "2", "--sizes", "64", "--keys", "10"],
    );
    for text in ["rpc", "landing zone", "one-sided", "results: right"] {
        assert!(ended.stdout.contains(text), "{ended:?}");
    }
}

#[test]
fn bad_arguments_are_refused() {
    refuses("dht_rpc", "--sizes", "9");
    refuses("dht_rpc", "--keys", "many");
}
