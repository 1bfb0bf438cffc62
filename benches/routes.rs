//! Routes of aggregated elements among 2 to 65,536 ranks: memory, messages and time by the LogGP
//! model, and the route that the library chooses.
//!
//! `cargo bench -p pgas-benches --bench routes -- [--per-host N] [FILE]`: the parameters are those
//! of FILE, by default the library's own (`crates/containers/src/route/loggp.txt`).
#![expect(clippy::print_stdout, reason = "a bench reports")]

use std::env;
use std::error::Error;
use std::fs;

use pgas::config::Routing;
use pgas::route::{Model, Route, Shape};

/// Bytes that are sent together over shared memory. A message over MPI has half of them.
const MESSAGE_BYTES: u64 = 32 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut model = *Model::shipped();
    let mut per_hosts = vec![1, 64];
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--per-host" => per_hosts = vec![words.next().ok_or("a number of ranks")?.parse()?],
            // An argument from cargo.
            "--bench" | "--test" => {}
            file => model = Model::parse(&fs::read_to_string(file)?)?,
        }
    }
    for per_host in per_hosts {
        table(&model, per_host);
    }
    Ok(())
}

fn table(model: &Model, per_host: u32) {
    let round = model.round_bytes / 1024.0;
    println!("\n{per_host} ranks a host, each of which sends {round} KiB");
    println!(
        "{:>6}  {:>8}  {:>14}  {:>6}  {:>10}  {:>10}  {:>10}",
        "ranks", "route", "lanes of hops", "lanes", "MiB", "messages", "ms"
    );
    for n_ranks in (1..=16).map(|power| 1 << power) {
        if n_ranks % per_host != 0 {
            continue;
        }
        let shape = Shape { n_ranks, per_host };
        let chosen = model.choose(shape, MESSAGE_BYTES, None);
        for routing in [Routing::Direct, Routing::Grid, Routing::Cube] {
            let route = model.choose(shape, MESSAGE_BYTES, Some(routing));
            if route.routing() == routing {
                row(model, shape, &route, chosen == route);
            }
        }
    }
}

fn row(model: &Model, shape: Shape, route: &Route, is_chosen: bool) {
    let predicted = model.predict(route, shape, MESSAGE_BYTES);
    let hops: Vec<String> = (0..route.n_hops())
        .map(|hop| route.n_lanes_of(hop).to_string())
        .collect();
    println!(
        "{:>6}  {:>8}  {:>14}  {:>6}  {:>10.1}  {:>10.0}  {:>10.3}{}",
        shape.n_ranks,
        format!("{:?}", route.routing()).to_lowercase(),
        hops.join(" + "),
        route.n_lanes(),
        predicted.lanes_bytes / f64::from(1 << 20),
        predicted.n_messages,
        predicted.time_ns / 1e6,
        if is_chosen { "  chosen" } else { "" },
    );
}
