//! What the compiler says of programs that break a promise: the message has to help.

#[test]
fn the_message_says_what_to_do() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/programs/*.rs");
}
