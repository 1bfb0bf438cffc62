//! The program `pgas-report`.

use std::error::Error;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pgas_command_line::{one_line, overwritten, place};
use pgas_report::analysis::Job;
use pgas_report::{align, chrome, html, read, statistics, words};

/// Shows what the ranks of a pgas program did and for which ranks they waited, from the directory
/// of PGAS_TRACE.
#[derive(Debug, Parser)]
#[command(name = "pgas-report", version)]
struct Arguments {
    /// The directory with the traces
    directory: PathBuf,

    /// The file of the page [default: report.html in the directory]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The file for Perfetto [default: trace.json in the directory]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match pgas_command_line::parse("pgas-report") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

fn tell(what: &dyn Display) {
    let line = format!("pgas-report: {}\n", one_line(&what.to_string()));
    // A failure of this cannot be reported.
    io::stderr().write_all(line.as_bytes()).ok();
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let directory = arguments.directory;
    let mut traces = read::read(&directory, |error| tell(&error))?;
    align::align(&mut traces);
    let mut job = Job::of(&traces);
    // A full disk leaves a part of them. The traces are worth a page without.
    job.statistics = statistics::read(&directory, &traces).unwrap_or_else(|error| {
        tell(&error);
        statistics::Statistics::default()
    });
    let html_file = arguments
        .html
        .unwrap_or_else(|| directory.join("report.html"));
    let json_file = arguments
        .json
        .unwrap_or_else(|| directory.join("trace.json"));
    check_names(&directory, [&html_file, &json_file])?;
    let named = |file: &PathBuf, error: io::Error| format!("{}: {error}", file.display());
    let hints = words::hints(&job);
    fs::write(&html_file, html::page(&job, &hints)).map_err(|error| named(&html_file, error))?;
    let write = || {
        let mut out = BufWriter::new(File::create(&json_file)?);
        chrome::write(&job, &mut out)?;
        out.flush()
    };
    write().map_err(|error| named(&json_file, error))?;
    let mut text: String = hints.iter().map(|hint| one_line(hint) + "\n").collect();
    text += &format!("{}\n{}\n", html_file.display(), json_file.display());
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        told => told.map_err(|error| format!("standard output: {error}").into()),
    }
}

/// An error if a file to be written is one that is read, or the other one.
fn check_names(directory: &Path, outputs: [&Path; 2]) -> Result<(), String> {
    if overwritten(&outputs, &[]).is_some() {
        let both = outputs[0].display();
        return Err(format!(
            "{both}: the page and the trace for Perfetto need a file each"
        ));
    }
    let directory = place(directory);
    for output in outputs {
        let there = place(output);
        let is_read = ["trace", "names"]
            .iter()
            .any(|end| there.extension() == Some(end.as_ref()))
            || there.ends_with(statistics::FILE);
        if is_read && there.parent() == Some(&directory) {
            return Err(format!("{}: this file is read", output.display()));
        }
    }
    Ok(())
}
