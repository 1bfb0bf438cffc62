//! Values of arguments.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use pgas_core::config::launch::MAX_RANKS;

pub(crate) fn number_of_ranks(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n_ranks @ 1..=MAX_RANKS) => Ok(n_ranks),
        _ => Err(format!("a job has 1 to {MAX_RANKS} ranks")),
    }
}

/// The longest time that an option can mean, about thirty years. The clock can go on for several
/// of it, and its milliseconds fit in a word.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Reads a time. A longer one than [`LONGEST`] is as good as that.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .map(|duration| duration.min(LONGEST))
        .ok_or_else(|| "a number of seconds above 0, such as 30 or 0.5, is needed".to_owned())
}

/// A variable may hold any bytes.
pub(crate) fn variable() -> impl TypedValueParser<Value = (OsString, OsString)> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.into_vec();
        match bytes.iter().position(|&byte| byte == b'=') {
            None | Some(0) => Err("it has to be KEY=VALUE"),
            Some(end) => {
                let [key, value] = [&bytes[..end], &bytes[end + 1..]];
                Ok([key, value]
                    .map(|part| OsString::from_vec(part.to_vec()))
                    .into())
            }
        }
    })
}
