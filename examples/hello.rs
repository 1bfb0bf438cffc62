//! The smallest program: every rank prints its number, and adds it to a sum on rank 0.
//!
//! `cargo run --example hello`, `PGAS_RANKS=4 cargo run --example hello`.
#![expect(clippy::print_stdout, reason = "a program speaks to its user")]

use pgas::prelude::*;

fn main() -> pgas::Result<()> {
    let world = pgas::init()?;
    println!("rank {} of {}", world.rank(), world.n_ranks());

    let sum = world.alloc_symmetric::<u64>(1)?;
    sum.on(Rank::ZERO)
        .fetch_add(&world, u64::from(world.rank().number()))?;
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        println!("the ranks add up to {}", sum.here().get(&world)?);
    }
    world.barrier()?;
    Ok(())
}
