//! Each rank puts a message into its right neighbour's memory, with a signal. There is no receive
//! call.
//!
//! `PGAS_RANKS=4 cargo run --example ring_put`.

use std::error::Error;
use std::io::{self, Write};

use pgas::backend::SignalUpdate;
use pgas::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let world = pgas::init()?;
    let me = world.rank().number();
    let right = Rank::new((me + 1) % world.n_ranks());

    // The same offset on every rank: space for the message, and a word that signals its arrival.
    let inbox = world.alloc_symmetric::<[u8; 32]>(1)?;
    let signal = world.alloc_symmetric::<u64>(1)?;

    let mut text = [b' '; 32];
    let greeting = format!("greetings from rank {me}");
    text[..greeting.len()].copy_from_slice(greeting.as_bytes());
    inbox
        .on(right)
        .put_signal(&world, &[text], signal.on(right), SignalUpdate::Set(1))?;

    signal.here().wait_until(&world, |value| value == 1)?;
    let message = inbox.here().get(&world)?;
    let message = String::from_utf8_lossy(&message);
    // `println!` would panic if, say, the disk is full.
    writeln!(io::stdout(), "rank {me} has {:?}", message.trim_end())
        .map_err(|error| format!("standard output: {error}"))?;
    world.barrier()?;
    Ok(())
}
