//! Compile errors of programs that break a promise: the messages have to help.

use std::env;
use std::process::Command;

/// The flags by which cargo builds the programs. `trybuild` has others for the programs than for
/// what they depend on, and cargo would build that once more for them; this variable outranks both.
const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "cargo's variable, not one of the library"
)]
fn the_message_says_what_to_do() {
    if env::var_os(FLAGS).is_none() {
        let mut again = Command::new(env::current_exe().unwrap());
        again.env(FLAGS, "--verbose\x1f--diagnostic-width=140");
        assert!(again.status().unwrap().success());
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/programs/*.rs");
}
