//! How much is to be tested.

/// Whether tests that take long are to run, too.
pub(crate) fn is_all() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of the tests, not of the library"
    )]
    let setting = std::env::var_os("PGAS_TEST_ALL");
    setting.is_some()
}
