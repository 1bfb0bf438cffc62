//! `histogram` and `index_gather`.

use std::process::Command;

use pgas_testkit::job;

use crate::program::program;
use crate::run::{json, refuses, refuses_sizes, run};

const KERNELS: [&str; 2] = ["histogram", "index_gather"];

#[test]
fn all_styles_of_the_kernels_give_the_right_results_on_any_number_of_ranks() {
    for kernel in KERNELS {
        for (ranks, table, accesses) in [
            (1, 1, 100),
            (2, 1000, 20_000),
            (3, 7, 1),
            (4, 100, 3000),
            (2, 5, 0),
        ] {
            let (table, accesses) = (table.to_string(), accesses.to_string());
            let json = json(kernel, ranks, &["--table", &table, "--accesses", &accesses]);
            assert_eq!(json["accesses_per_rank"].to_string(), accesses);
            let styles = json["styles"].as_array().unwrap();
            let names: Vec<_> = styles.iter().map(|style| style["style"].as_str()).collect();
            assert_eq!(
                names,
                [Some("direct"), Some("messages"), Some("aggregated")]
            );
            assert!(
                styles
                    .iter()
                    .all(|style| style["seconds"].as_f64().unwrap() > 0.0)
            );
        }
    }
}

#[test]
fn only_the_styles_that_are_asked_for_run() {
    for kernel in KERNELS {
        let styles = ["--styles", "messages,aggregated", "--accesses", "10"];
        let json = json(kernel, 2, &styles);
        assert_eq!(json["way"], "direct", "the memory of one host is near");
        let rows = json["styles"].as_array().unwrap().iter();
        let names: Vec<_> = rows.map(|style| style["style"].as_str()).collect();
        assert_eq!(names, [Some("messages"), Some("aggregated")]);
        refuses(kernel, "--styles", "direct,none");
    }
}

#[test]
fn the_report_for_people_says_that_the_results_are_right() {
    for kernel in KERNELS {
        let ended = run(
            kernel,
            &["--ranks", "2", "--accesses", "1000", "--table", "10"],
        );
        assert!(ended.stdout.contains("results: right"), "{ended:?}");
    }
}

#[test]
fn the_kernels_refuse_bad_arguments() {
    refuses_sizes("index_gather", "--accesses");
    for kernel in KERNELS {
        refuses(kernel, "--ranks", "0");
        refuses(kernel, "--table", "0");
        refuses(kernel, "--accesses", "many");
    }
}

#[test]
fn a_table_that_no_rank_has_room_for_is_told_once() {
    for kernel in KERNELS {
        let mut command = Command::new(program(kernel));
        command.args(["--ranks", "3", "--table", "1000000"]);
        command.env("PGAS_SEGMENT", "1M");
        let ended = job::start(command).end();
        assert_eq!(ended.code(), 1, "{ended:?}");
        let told = ended.stderr.matches("rank 0: the symmetric heap").count();
        assert_eq!(
            (told, ended.stderr.matches("heap").count()),
            (1, 1),
            "{ended:?}"
        );
    }
}
