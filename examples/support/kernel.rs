//! Common parts of bale's two kernels: a table over all ranks, random indices, and a report of the
//! styles.

use std::io;

use clap::Parser;
use pgas::{Rank, World};

use crate::support::{self, mix};
use crate::way::Way;
use crate::{arguments, memory};

/// Accesses between two steps of the progress bar.
pub(crate) const STEP: usize = 1 << 14;

/// The ways in which a kernel accesses the table.
const STYLES: [&str; 3] = ["direct", "messages", "aggregated"];

/// The size of the problem.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Words of the table on each rank
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) table: u32,
    /// Accesses of each rank, in each style
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub(crate) accesses: usize,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    pub(crate) ranks: Option<u32>,
    /// Styles, separated by commas [default: all if all memory is local, otherwise the aggregated
    /// one]
    #[arg(long, value_name = "STYLES", value_delimiter = ',', value_parser = STYLES)]
    styles: Vec<String>,
    /// Seed of the accesses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A word of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) rank: Rank,
    pub(crate) index: u32,
}

impl Options {
    /// Checks that there is enough memory, before the ranks start. Returns the error message if
    /// there is not.
    pub(crate) fn check_memory(&self) -> Result<(), String> {
        // The indices, and several copies of the words that are read.
        memory::check::<[u64; 6]>(self.accesses, "--accesses")?;
        memory::check::<[u64; 4]>(self.table as usize, "--table")
    }

    /// Whether this style was requested, or is the default for the way of operations.
    pub(crate) fn runs(&self, style: &str, way: Way) -> bool {
        if self.styles.is_empty() {
            return way == Way::Direct || style == way.name();
        }
        self.styles.iter().any(|wanted| wanted == style)
    }

    /// The indices that `rank` accesses.
    pub(crate) fn places(&self, world: &World, rank: Rank) -> impl Iterator<Item = Place> + use<> {
        let (n_ranks, table) = (u64::from(world.n_ranks()), u64::from(self.table));
        let first = mix(self.seed ^ (u64::from(rank.number()) << 40));
        let small = |n| u32::try_from(n).expect("less than a number of 32 bits");
        (0..self.accesses as u64).map(move |i| {
            let word = mix(first.wrapping_add(i)) % (n_ranks * table);
            Place {
                rank: Rank::new(small(word / table)),
                index: small(word % table),
            }
        })
    }
}

/// Calls `access` for each of `places` with its number, and shows a progress bar.
pub(crate) fn each(
    world: &World,
    options: &Options,
    style: &str,
    places: &[Place],
    mut access: impl FnMut(usize, Place) -> pgas::Result<()>,
) -> pgas::Result<()> {
    let bar = support::progress_bar(world, style, places.len() as u64, !options.json);
    for (step, places) in places.chunks(STEP).enumerate() {
        for (i, place) in places.iter().enumerate() {
            access(step * STEP + i, *place)?;
        }
        bar.inc(places.len() as u64);
    }
    Ok(())
}

/// The measurement of one style.
pub(crate) struct Measured {
    pub(crate) style: &'static str,
    pub(crate) seconds: f64,
    pub(crate) verified: bool,
}

/// Prints the styles. Returns whether all results were right.
pub(crate) fn report(
    world: &World,
    (options, way): (&Options, Way),
    kernel: &str,
    all: &[Measured],
) -> io::Result<bool> {
    let verified = all.iter().all(|measured| measured.verified);
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    let rate = |seconds: f64| options.accesses as f64 / seconds.max(1e-9) / 1e6;
    let (ranks, table, accesses) = (world.n_ranks(), options.table, options.accesses);
    if options.json {
        let row = |measured: &Measured| {
            serde_json::json!({
                "style": measured.style,
                "seconds": measured.seconds,
                "million_per_second_and_rank": rate(measured.seconds),
                "verified": measured.verified,
            })
        };
        let line = serde_json::json!({
            "kernel": kernel,
            "ranks": ranks,
            "table_per_rank": table,
            "accesses_per_rank": accesses,
            "way": way.name(),
            "styles": all.iter().map(row).collect::<Vec<_>>(),
            "verified": verified,
        });
        support::print(world, line)?;
        return Ok(verified);
    }
    let mut text = format!(
        "{kernel}: {ranks} ranks, {table} words and {accesses} accesses each\n\
         style          seconds    million/s and rank"
    );
    for measured in all {
        let Measured { style, seconds, .. } = measured;
        let verdict = if measured.verified { "" } else { "  WRONG" };
        let rate = rate(*seconds);
        text += &format!("\n{style:<12} {seconds:>9.4} {rate:>21.2}{verdict}");
    }
    if options.styles.is_empty() && way == Way::Aggregated {
        text += "\nnot all memory is near: no other style than the aggregated one";
    }
    let verdict = if verified { "right" } else { "WRONG" };
    support::print(world, format_args!("{text}\nresults: {verdict}"))?;
    Ok(verified)
}
