//! The smallest program: every rank prints its number, and adds it to a sum on rank 0.
//!
//! `cargo run --example hello`, `PGAS_RANKS=4 cargo run --example hello`.

use std::error::Error;
use std::io::{self, Write};

use pgas::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let world = pgas::init()?;
    print(&format!("rank {} of {}", world.rank(), world.n_ranks()))?;

    let sum = world.alloc_symmetric::<u64>(1)?;
    sum.on(Rank::ZERO)
        .fetch_add(&world, u64::from(world.rank().number()))?;
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        print(&format!("the ranks add up to {}", sum.here().get(&world)?))?;
    }
    world.barrier()?;
    Ok(())
}

/// As `println!`, which would panic if, say, the disk is full.
fn print(line: &str) -> Result<(), String> {
    writeln!(io::stdout(), "{line}").map_err(|error| format!("standard output: {error}"))
}
