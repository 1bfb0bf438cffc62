//! Compile errors of programs that break a promise: the messages have to help.

#[test]
fn the_message_says_what_to_do() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/programs/*.rs");
}
