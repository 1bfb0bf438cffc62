//! `cargo xtask bench --plots`: the tables of `docs/PERFORMANCE.md` as pictures, which the README
//! and the guide show.
//!
//! The tables are the only place of the figures: whoever measures anew changes them, and draws the
//! pictures again. A test compares the pictures that are there with the tables.

mod draw;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::process::Outcome;
use tables::{Document, Range};

/// Where the figures are.
const FIGURES: &str = "docs/PERFORMANCE.md";
/// Where the pictures are: the package of the facade has the guide with all that belongs to it.
const PICTURES: &str = "docs/guide/plots";

/// What is drawn of a table.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Bars from 1 to the ratios of a column, or of several, by what the columns are called in the
    /// picture.
    Ratios(&'static [(&'static str, &'static str)]),
    /// A line a row, over the numbers in the heading.
    Lines { x: &'static str, y: &'static str },
    /// Bars of the numbers of a column, with a line for the others.
    Values {
        column: &'static str,
        unit: &'static str,
    },
}

/// A picture.
#[derive(Clone, Copy, Debug)]
struct Plot {
    file: &'static str,
    title: &'static str,
    /// The beginning of the table's section, and of the heading of its second column.
    section: &'static str,
    column: &'static str,
    kind: Kind,
}

const RATIO: Kind = Kind::Ratios(&[("ratio", "")]);

/// The pictures. A new one is a new row.
#[rustfmt::skip]
const PLOTS: &[Plot] = &[
    Plot { file: "one-sided", title: "8 bytes of a peer's memory, time beside raw loads and stores", section: "One-sided", column: "floor", kind: RATIO },
    Plot { file: "transfers", title: "Transfers of a peer's memory, time beside memcpy", section: "One-sided", column: "64", kind: Kind::Lines { x: "bytes", y: "ratio to memcpy" } },
    Plot { file: "messages", title: "Messages and calls, time beside bare rings", section: "Meeting", column: "floor", kind: RATIO },
    Plot { file: "observed", title: "Statistics on, time beside the same without them", section: "Statistics and traces", column: "off", kind: RATIO },
    Plot { file: "over-mpi", title: "Over MPI, time beside the same loop straight on it", section: "Over MPI", column: "Open MPI 4", kind: Kind::Ratios(&[
        ("Open MPI 4", "Open MPI, shared memory"), ("Open MPI, TCP", "Open MPI, TCP"), ("MPICH 4", "MPICH, shared memory"), ("MPICH, TCP", "MPICH, TCP"),
    ]) },
    Plot { file: "between-hosts", title: "Between two hosts, time beside what MPI alone takes for the same bytes", section: "Between two hosts", column: "at a time", kind: Kind::Ratios(&[
        ("MPICH", "MPICH"), ("Open MPI", "Open MPI"),
    ]) },
    Plot { file: "ranks-a-host", title: "A find between ranks that share two processors, by their number", section: "Between two hosts", column: "2", kind: Kind::Lines { x: "ranks", y: "ns" } },
    Plot { file: "hash-map", title: "Hash map, time beside hashbrown in one process", section: "Hash map", column: "hashbrown", kind: RATIO },
    Plot { file: "microbenchmarks", title: "BCL's microbenchmarks, throughput beside a bare loop", section: "BCL's", column: "2 ranks", kind: RATIO },
    Plot { file: "queues", title: "Queues and Bloom filters, time beside bare loops", section: "Queues", column: "floor", kind: RATIO },
    Plot { file: "kmers", title: "Counting k-mers: wall time of the whole command", section: "k-mers", column: "wall", kind: Kind::Values { column: "wall", unit: "seconds" } },
    Plot { file: "nodes", title: "Weak scaling over simulated nodes, atomics by hardware and by software", section: "Weak scaling over", column: "4", kind: Kind::Lines { x: "nodes", y: "instructions" } },
    Plot { file: "interpreter", title: "The simulator's interpreter", section: "The simulator's interpreter", column: "million", kind: Kind::Values { column: "million", unit: "million instructions a second" } },
];

/// Draws all pictures anew.
pub(crate) fn run() -> Result<Outcome> {
    let document = read()?;
    fs::create_dir_all(PICTURES)?;
    for plot in PLOTS {
        let path = Path::new(PICTURES).join(format!("{}.svg", plot.file));
        fs::write(&path, picture(&document, plot)?)?;
        println!("{}", path.display());
    }
    Ok(Outcome::Passed)
}

fn read() -> Result<Document> {
    let text = fs::read_to_string(FIGURES).context(FIGURES)?;
    Ok(Document::parse(&text))
}

fn picture(document: &Document, plot: &Plot) -> Result<String> {
    let table = document.table(plot.section, plot.column)?;
    let svg = match plot.kind {
        Kind::Ratios(columns) => {
            let mut series = Vec::new();
            for (column, name) in columns {
                series.push((*name, table.ratios(column)?));
            }
            draw::ratios(plot.title, &table.names(), &series)
        }
        Kind::Lines { x, y } => draw::lines(plot.title, (x, y), &table.lines()?),
        Kind::Values { column, unit } => {
            let values: Vec<Range> = table.values(column)?;
            draw::values(plot.title, unit, &table.names(), &values)
        }
    };
    svg.with_context(|| plot.file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pictures_show_what_the_tables_say() {
        // Tests run in the folder of their package.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(FIGURES)).unwrap();
        let document = Document::parse(&text);
        for plot in PLOTS {
            let path = root.join(PICTURES).join(format!("{}.svg", plot.file));
            let there = fs::read_to_string(&path).unwrap_or_default();
            let drawn = picture(&document, plot).unwrap();
            assert!(
                there == drawn,
                "{} is old: cargo xtask bench --plots",
                plot.file
            );
        }
    }

    #[test]
    fn every_picture_is_on_a_page_of_the_guide() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let guide = fs::read_to_string(root.join("src/guide.rs")).unwrap();
        for plot in PLOTS {
            let file = format!("plots/{}.svg\")", plot.file);
            assert!(guide.contains(&file), "{file}");
        }
    }
}
