//! The motif *extend-add* of sparse solvers, by remote calls and by collectives (Bachan et al.,
//! "UPC++: A High-Performance Communication Framework for Asynchronous Computation", 2019, section
//! IV-D).
//!
//! ```text
//! cargo run --release --example extend_add -- --ranks 2
//! cargo run --release --example extend_add -- --ranks 2 --matrix examples/data/lund_a.mtx
//! cargo run --release --example extend_add -- --ranks 4 --matrix audikw_1.mtx --json
//! ```
//!
//! A multifrontal solver eliminates the unknowns of a sparse matrix along a tree of dense matrices,
//! the fronts. Each front is distributed in blocks over some of the ranks; deeper fronts have fewer
//! ranks. After its elimination, a front's contribution to later unknowns is added to its parent's
//! front, whose rows are on other ranks. This example measures that addition. Elimination is left
//! out, and placeholder numbers stand for its results.
//!
//! The tree is that of the Laplacian on a cube, or of a matrix in a Matrix Market file, ordered by
//! nested dissection. `examples/data/lund_a.mtx` is a small real matrix; <https://sparse.tamu.edu>
//! has larger ones.
//!
//! | | additions travel |
//! |---|---|
//! | by calls | as soon as a rank's share of a child is complete, in calls that view them where they arrive |
//! | by exchange | in one exchange of all with all for each height of the tree |
//!
//! Both results are compared, number by number, with that of one rank alone.

#[path = "../support/arguments.rs"]
mod arguments;
mod by_calls;
mod by_exchange;
mod fronts;
mod graph;
mod layout;
#[path = "../support/memory.rs"]
mod memory;
mod serial;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/timing.rs"]
mod timing;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pgas::World;
use pgas::collective::op::Sum;

use fronts::Fronts;
use graph::Graph;
use tree::Tree;

/// Adds the fronts of a sparse matrix to their parents, in two ways.
#[derive(Debug, Parser)]
#[command(name = "extend_add")]
struct Options {
    /// Points on a side of the cube
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    side: u16,
    /// A Matrix Market file to use instead of the cube
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    /// Measure each way N times, and report the shortest
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options: Options = match arguments::parse("extend_add") {
        Ok(options) => options,
        Err(code) => return code,
    };
    // Read the file before the ranks start, so that an error is reported once.
    let graph = match &options.matrix {
        None => Graph::cube(usize::from(options.side)),
        Some(file) => match Graph::read(file) {
            Ok(graph) => graph,
            Err(reason) => {
                let line = format!("--matrix {}: {reason}", file.display());
                return arguments::complain("extend_add", 1, &line);
            }
        },
    };
    if let Err(line) = check_memory(&options, &graph) {
        return memory::refuse("extend_add", &line);
    }
    support::start("extend_add", options.ranks, |world| {
        run(world, &options, &graph)
    })
}

/// Each rank computes all fronts once more, alone; together the ranks have two results beside that.
fn check_memory(options: &Options, graph: &Graph) -> Result<(), String> {
    let fronts = Tree::new(graph, 1).fronts;
    let sizes = fronts.iter().map(|front| front.rows.len().pow(2));
    let of = match &options.matrix {
        None => format!("--side {}", options.side),
        Some(file) => format!("--matrix {}", file.display()),
    };
    memory::check::<[f64; 3]>(sizes.sum(), &format!("{of}: numbers in fronts:"))
}

/// Whether both results are right.
fn run(world: &World, options: &Options, graph: &Graph) -> support::Result<bool> {
    let tree = Tree::new(graph, world.n_ranks());
    let fronts = Fronts::of(&tree, world.rank().number());
    let rounds = usize::from(options.rounds);
    let bar = support::progress_bar(world, "rounds", rounds as u64, !options.json);
    let (mut by_calls, mut by_exchange) = (f64::INFINITY, f64::INFINITY);
    let mut verified = true;
    for _ in 0..rounds {
        let (seconds, calls) = by_calls::run(world, &fronts)?;
        by_calls = by_calls.min(seconds);
        let (seconds, exchange) = by_exchange::run(world, &fronts)?;
        by_exchange = by_exchange.min(seconds);
        verified &= support::all(world, serial::agrees(&fronts, [&calls, &exchange]))?;
        bar.inc(1);
    }
    report(
        world,
        options,
        graph,
        &fronts,
        [by_calls, by_exchange],
        verified,
    )?;
    Ok(verified)
}

fn report(
    world: &World,
    options: &Options,
    graph: &Graph,
    fronts: &Fronts<'_>,
    [by_calls, by_exchange]: [f64; 2],
    verified: bool,
) -> support::Result<()> {
    let additions = fronts.n_expected().into_iter().sum::<usize>() as u64;
    let additions = world.allreduce(additions, Sum)?;
    let (ranks, vertices, n_fronts) = (
        world.n_ranks(),
        graph.n_vertices(),
        fronts.tree.fronts.len(),
    );
    if options.json {
        let line = serde_json::json!({
            "ranks": ranks,
            "unknowns": vertices,
            "fronts": n_fronts,
            "additions": additions,
            "seconds_by_calls": by_calls,
            "seconds_by_exchange": by_exchange,
            "verified": verified,
        });
        support::print(world, line)?;
        return Ok(());
    }
    let verdict = if verified { "right" } else { "WRONG" };
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    let rate = |seconds: f64| additions as f64 / seconds.max(1e-9) / 1e6;
    let text = format!(
        "{ranks} ranks, {vertices} unknowns, {n_fronts} fronts, {additions} additions\n\
         by calls:    {by_calls:.4} s, {:.1} million additions/s\n\
         by exchange: {by_exchange:.4} s, {:.1} million additions/s\n\
         results: {verdict}",
        rate(by_calls),
        rate(by_exchange),
    );
    support::print(world, text)?;
    Ok(())
}
