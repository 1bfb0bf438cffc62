//! Not every byte is a `bool`: it goes by the collectives over values.

use pgas_core::World;
use pgas_core::collective::op::And;

fn are_all_done(world: &World, is_done: bool) -> pgas_core::Result<bool> {
    world.allreduce(is_done, And)
}

fn main() {}
