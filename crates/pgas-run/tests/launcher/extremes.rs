//! Every argument of the launcher, with the extremes of numbers and texts.

use pgas_testkit::extremes::{Program, try_extremes};

#[test]
fn an_argument_is_one_to_work_with_or_is_refused_in_a_line() {
    try_extremes(&Program {
        path: env!("CARGO_BIN_EXE_pgas-run").into(),
        before: Vec::new(),
        options: vec![("--ranks", "2".into())],
        operands: vec!["true".into()],
        skipped: &[],
        codes: &[1, 2, 126, 127],
    });
}

#[test]
fn an_argument_of_pgas_top_is_one_to_work_with_or_is_refused_in_a_line() {
    try_extremes(&Program {
        path: env!("CARGO_BIN_EXE_pgas-top").into(),
        before: Vec::new(),
        options: Vec::new(),
        // No process has this number.
        operands: vec!["4294967294".into()],
        // Read as `--timeout` of `pgas-run` is. Whether a value is accepted is not seen here, since
        // the operand is refused.
        skipped: &["--every"],
        codes: &[1, 2],
    });
}
