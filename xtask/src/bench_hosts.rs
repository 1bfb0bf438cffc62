//! Measures containers and transfers between hosts: runs the bench of each communication library,
//! and prints the figures side by side.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::Value;

use crate::mpi::{MPICH, OPEN_MPI};
use crate::process::{self, Outcome, command};

/// A communication library between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Over {
    /// Open MPI
    Openmpi,
    /// MPICH
    Mpich,
    /// Libfabric, without MPI
    Libfabric,
}

/// The hosts on which all libraries are measured.
const HOSTS: &str = "namespaces";

impl Over {
    fn bench(self) -> Command {
        let over_mpi = ["bench", "-p", "pgas-mpi", "--bench", "between_hosts"];
        match self {
            Self::Openmpi => OPEN_MPI.cargo(&over_mpi),
            Self::Mpich => MPICH.cargo(&over_mpi),
            Self::Libfabric => command(
                "cargo",
                ["bench", "-p", "pgas-ofi", "--bench", "between_hosts"],
            ),
        }
    }
}

/// Measures one library or all, and writes the figures to a file if one is named.
pub(crate) fn run(over: Option<Over>, json: Option<&Path>, rows: &[String]) -> Result<Outcome> {
    let mut figures = Vec::new();
    let all = Over::value_variants().iter().copied();
    for over in all.filter(|one| over.is_none_or(|wanted| wanted == *one)) {
        let file = tempfile::NamedTempFile::new()?;
        let mut bench = over.bench();
        bench.arg("--").args(rows).arg("--json").arg(file.path());
        process::run(&mut bench)?;
        let text = std::fs::read_to_string(file.path())?;
        let of_library: Vec<Value> = serde_json::from_str(&text)?;
        figures.extend(of_library);
    }
    print!("{}", side_by_side(&figures));
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&figures)? + "\n";
        std::fs::write(json, text).with_context(|| format!("cannot write {}", json.display()))?;
    }
    Ok(Outcome::Passed)
}

/// The figures of the same hosts: a line for each row and a column for each library. Empty if there
/// is only one library.
fn side_by_side(figures: &[Value]) -> String {
    let library = |figure: &Value| figure["library"].as_str().unwrap_or_default().to_owned();
    let here: Vec<&Value> = figures.iter().filter(|it| it["hosts"] == HOSTS).collect();
    let mut libraries: Vec<String> = here.iter().map(|figure| library(figure)).collect();
    libraries.dedup();
    if libraries.len() < 2 {
        return String::new();
    }
    let mut text = format!(
        "\nns for one, on two hosts of {HOSTS}: the floor, ours\n{:53}",
        ""
    );
    for name in &libraries {
        text += &format!(" {:>27.27}", name.trim());
    }
    text += "\n";
    let mut printed = BTreeSet::new();
    for figure in &here {
        let row = &figure["row"];
        let (name, n) = (row["name"].as_str().unwrap_or_default(), &row["n"]);
        if !printed.insert((name, n.as_u64())) {
            continue;
        }
        text += &format!("{name:44} {:>8}", n.to_string());
        for wanted in &libraries {
            let is_it = |other: &&&Value| {
                library(other) == *wanted && other["row"]["name"] == name && other["row"]["n"] == *n
            };
            let number = |key: &str| {
                here.iter()
                    .find(is_it)
                    .and_then(|it| it["row"][key].as_f64())
            };
            text += &match (number("floor_ns"), number("pgas_ns")) {
                (Some(floor), Some(ours)) => format!(" {floor:>13.0} {ours:>13.0}"),
                _ => format!(" {:>27}", "-"),
            };
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figure(library: &str, name: &str, floor: u32, ours: u32) -> Value {
        let row = json!({ "name": name, "n": 8, "floor_ns": floor, "pgas_ns": ours });
        json!({ "library": library, "hosts": HOSTS, "row": row })
    }

    #[test]
    fn each_row_has_a_line_with_the_figures_of_all_libraries() {
        let mut figures = vec![figure("one", "put", 10, 11), figure("one", "get", 20, 21)];
        assert_eq!(side_by_side(&figures), "", "nothing beside it");
        figures.push(figure("other", "get", 30, 31));
        figures.push(figure("other", "find", 40, 41));
        let elsewhere = json!({ "library": "other", "hosts": "one", "row": figures[0]["row"] });
        figures.push(elsewhere);
        let text = side_by_side(&figures);
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let lines: Vec<_> = text.lines().skip(2).map(words).collect();
        let rows = [
            ["one", "other", "", "", "", ""],
            ["put", "8", "10", "11", "-", ""],
            ["get", "8", "20", "21", "30", "31"],
            ["find", "8", "-", "40", "41", ""],
        ];
        let rows = rows.map(|row| -> Vec<_> {
            let words = row.into_iter().filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        });
        assert_eq!(lines, rows);
    }
}
