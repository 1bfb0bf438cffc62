//! The figures as a table for people, and as files.

use std::path::Path;

use serde_json::Value;

/// The option that is followed by the name of a file for the figures.
const JSON: &str = "--json";

/// Removes the name of a file for the figures from the command line, and returns it.
pub(crate) fn take_file(words: &mut Vec<String>) -> Option<String> {
    let at = words.iter().position(|word| word == JSON)?;
    assert!(at + 1 < words.len(), "{JSON} needs the name of a file");
    words.drain(at..at + 2).nth(1)
}

/// Writes the figures to a file.
pub(crate) fn write(file: impl AsRef<Path>, figures: Vec<Value>) -> Result<(), String> {
    let (file, text) = (file.as_ref(), format!("{:#}\n", Value::Array(figures)));
    let cannot = |error| format!("cannot write {}: {error}", file.display());
    std::fs::write(file, text).map_err(cannot)
}

#[expect(clippy::print_stdout, reason = "a bench reports")]
pub(crate) fn print(rows: &[Value]) {
    println!(
        "{:44} {:>8} {:>12} {:>12} {:>7}",
        "row", "times", "floor ns", "pgas ns", "ratio"
    );
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:44} {:>8} {:>12.0} {:>12.0} {:>7.2}",
            row["name"].as_str().unwrap_or_default(),
            number("n"),
            number("floor_ns"),
            number("pgas_ns"),
            number("ratio"),
        );
    }
}
