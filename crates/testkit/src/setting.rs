//! The amount of work of a test.

/// The number in the environment variable `name`, or `usual`. On request, tests do more than fits
/// into CI.
///
/// # Panics
///
/// If the variable is no number.
#[must_use]
pub fn setting(name: &str, usual: u64) -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of the tests, not of the library"
    )]
    let setting = std::env::var(name);
    setting.map_or(usual, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}
